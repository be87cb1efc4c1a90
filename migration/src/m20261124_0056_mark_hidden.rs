//! Requests and payments say whether a link hides them, and hidden payments are groups of their own: whoever is shown none of
//! them reads none.
//!
//! The key of a hidden group is the complement of the one that its payments had. Links are younger than the tables of before
//! (see `search_payments`), so that nothing there is hidden.

use sea_orm_migration::{prelude::*, schema::*, sea_orm::DbBackend};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const GROUPS: &str = "payment_groups";
const FORMER_GROUPS: &str = "former_payment_groups";

/// An index that nobody reads any more: no search asks whether a platform has links that hide something.
const HIDING: &str = "secure_payments_hiding_idx";

/// What lists of a public client ID are read off. The query builder writes no conditions into indexes of SQLite.
const SHOWN: [(&str, &str); 2] = [
    ("requests_shown_idx", "platform_id, client_row, created_at, id"),
    (
        "requests_shown_payee_idx",
        "platform_id, client_row, payee, created_at, id",
    ),
];

/// Moves what links hide to groups of its own.
const MARKING: [&str; 7] = [
    "UPDATE requests SET is_hidden = TRUE WHERE id IN (SELECT request_row FROM secure_payment_items \
     JOIN secure_payments ON secure_payments.id = secure_payment_id WHERE hides_payee OR hides_until_approved)",
    "UPDATE payments SET is_hidden = TRUE, group_key = ~group_key, client_group_key = ~client_group_key \
     WHERE request_row IN (SELECT id FROM requests WHERE is_hidden)",
    "UPDATE payment_parties SET group_key = ~group_key WHERE payment_id IN (SELECT id FROM payments WHERE is_hidden)",
    "INSERT INTO payment_groups \
     (platform_id, client_row, kind, invoice_currency, payment_currency, is_hidden, group_key, payments) \
     SELECT platform_id, '', kind, invoice_currency, payment_currency, TRUE, group_key, COUNT(*) FROM payments \
     WHERE is_hidden GROUP BY platform_id, kind, invoice_currency, payment_currency, group_key UNION ALL \
     SELECT platform_id, client_row, kind, invoice_currency, payment_currency, TRUE, client_group_key, COUNT(*) \
     FROM payments WHERE is_hidden AND client_row IS NOT NULL \
     GROUP BY platform_id, client_row, kind, invoice_currency, payment_currency, client_group_key",
    "UPDATE payment_groups SET payments = payments - COALESCE((SELECT hidden.payments FROM payment_groups AS hidden \
     WHERE hidden.is_hidden AND hidden.platform_id = payment_groups.platform_id \
     AND hidden.group_key = ~payment_groups.group_key), 0) WHERE NOT is_hidden",
    "INSERT INTO payment_wallets (platform_id, wallet, client_row, group_key, is_payee, payments) \
     SELECT party.platform_id, wallet, client_row, party.group_key, is_payee, COUNT(*) FROM payment_parties AS party \
     JOIN payment_groups AS hidden ON hidden.platform_id = party.platform_id AND hidden.group_key = party.group_key \
     WHERE hidden.is_hidden GROUP BY party.platform_id, wallet, client_row, party.group_key, is_payee",
    "UPDATE payment_wallets SET payments = payments - COALESCE((SELECT hidden.payments FROM payment_wallets AS hidden \
     WHERE hidden.platform_id = payment_wallets.platform_id AND hidden.wallet = payment_wallets.wallet \
     AND hidden.client_row = payment_wallets.client_row AND hidden.group_key = ~payment_wallets.group_key \
     AND hidden.is_payee = payment_wallets.is_payee), 0) WHERE EXISTS (SELECT 1 FROM payment_groups AS hidden \
     WHERE hidden.is_hidden AND hidden.platform_id = payment_wallets.platform_id \
     AND hidden.group_key = ~payment_wallets.group_key)",
];

/// Moves it back among the others. The counts of groups follow when their table is made again.
const UNMARKING: [&str; 4] = [
    "INSERT INTO payment_wallets (platform_id, wallet, client_row, group_key, is_payee, payments) \
     SELECT platform_id, wallet, client_row, ~group_key, is_payee, payments FROM payment_wallets AS hidden \
     WHERE EXISTS (SELECT 1 FROM payment_groups WHERE payment_groups.is_hidden \
     AND payment_groups.platform_id = hidden.platform_id AND payment_groups.group_key = hidden.group_key) \
     ON CONFLICT (platform_id, wallet, client_row, group_key, is_payee) \
     DO UPDATE SET payments = payment_wallets.payments + excluded.payments",
    "DELETE FROM payment_wallets WHERE EXISTS (SELECT 1 FROM payment_groups WHERE payment_groups.is_hidden \
     AND payment_groups.platform_id = payment_wallets.platform_id \
     AND payment_groups.group_key = payment_wallets.group_key)",
    "UPDATE payment_parties SET group_key = ~group_key WHERE payment_id IN (SELECT id FROM payments WHERE is_hidden)",
    "UPDATE payments SET group_key = ~group_key, client_group_key = ~client_group_key WHERE is_hidden",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["requests", "payments"] {
            let mark = boolean("is_hidden").default(false).to_owned();
            let marked = Table::alter().table(table).add_column(mark).to_owned();
            manager.alter_table(marked).await?;
        }
        let columns = "platform_id, client_row, kind, invoice_currency, payment_currency, group_key, payments";
        let as_they_are = format!("INSERT INTO {GROUPS} ({columns}) SELECT {columns} FROM {FORMER_GROUPS}");
        make_groups_again(manager, groups(true), &as_they_are).await?;
        for statement in MARKING {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        for (name, columns) in SHOWN {
            let index =
                format!("CREATE INDEX {name} ON requests ({columns}) WHERE client_row IS NOT NULL AND NOT is_hidden");
            manager.get_connection().execute_unprepared(&index).await?;
        }
        let dropped = Index::drop().name(HIDING).table("secure_payments").to_owned();
        manager.drop_index(dropped).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let hiding = format!(
            "CREATE INDEX {HIDING} ON secure_payments (platform_id) WHERE (hides_payee OR hides_until_approved)"
        );
        manager.get_connection().execute_unprepared(&hiding).await?;
        for (name, _) in SHOWN {
            let dropped = Index::drop().name(name).table("requests").to_owned();
            manager.drop_index(dropped).await?;
        }
        for statement in UNMARKING {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        let together = format!(
            "INSERT INTO {GROUPS} (platform_id, client_row, kind, invoice_currency, payment_currency, group_key, payments) \
             SELECT platform_id, client_row, kind, invoice_currency, payment_currency, \
             MAX(CASE WHEN is_hidden THEN ~group_key ELSE group_key END), CAST(SUM(payments) AS BIGINT) \
             FROM {FORMER_GROUPS} GROUP BY platform_id, client_row, kind, invoice_currency, payment_currency"
        );
        make_groups_again(manager, groups(false), &together).await?;
        for table in ["requests", "payments"] {
            let removed = Table::alter().table(table).drop_column("is_hidden").to_owned();
            manager.alter_table(removed).await?;
        }
        Ok(())
    }
}

/// Makes the table of groups again, with another key, and fills it from the one that was.
async fn make_groups_again(manager: &SchemaManager<'_>, table: TableCreateStatement, fill: &str) -> Result<(), DbErr> {
    let renamed = Table::rename().table(GROUPS, FORMER_GROUPS).to_owned();
    manager.rename_table(renamed).await?;
    let connection = manager.get_connection();
    if manager.get_database_backend() == DbBackend::Postgres {
        // The name of its key is that of the new one.
        let renamed = format!("ALTER TABLE {FORMER_GROUPS} RENAME CONSTRAINT {GROUPS}_pkey TO {FORMER_GROUPS}_pkey");
        connection.execute_unprepared(&renamed).await?;
    }
    manager.create_table(table).await?;
    connection.execute_unprepared(fill).await?;
    crate::tables::drop_tables(manager, &[FORMER_GROUPS]).await
}

fn groups(are_hidden_apart: bool) -> TableCreateStatement {
    let mut table = Table::create().table(GROUPS).to_owned();
    let mut key = Index::create().name("payment_groups_pkey").to_owned();
    for column in [
        "platform_id",
        "client_row",
        "kind",
        "invoice_currency",
        "payment_currency",
    ] {
        table.col(text(column));
        key.col(column);
    }
    if are_hidden_apart {
        table.col(boolean("is_hidden").default(false));
        key.col("is_hidden");
    }
    table
        .col(big_integer("group_key"))
        .col(big_integer("payments"))
        .primary_key(&mut key)
        .to_owned()
}
