//! Keys of platforms and of orchestrators: two tables of the same form become one.

use sea_orm_migration::{prelude::*, schema::*, sea_orm::DbBackend};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// A table of before.
struct Former {
    table: &'static str,
    /// Column and index of the owner.
    owner: &'static str,
    index: &'static str,
    /// The kind of owner that the column named.
    kind: &'static str,
}

const FORMER: [Former; 2] = [
    Former {
        table: "api_keys",
        owner: "platform_id",
        index: "api_keys_platform_idx",
        kind: "platform",
    },
    Former {
        table: "orchestrator_keys",
        owner: "orchestrator_id",
        index: "orchestrator_keys_orchestrator_idx",
        kind: "orchestrator",
    },
];

/// What all of these tables have.
const COMMON: &str = "id, hash, hint, label, created_at, revoked_at, last_used_at";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        lock(manager, &FORMER.map(|former| former.table)).await?;
        create(manager, "keys", "owner_id", "keys_owner_idx", Some("owner_kind")).await?;
        for Former { table, owner, kind, .. } in FORMER {
            let copy = format!(
                "INSERT INTO keys (owner_kind, owner_id, {COMMON}) SELECT '{kind}', {owner}, {COMMON} FROM {table}"
            );
            manager.get_connection().execute_unprepared(&copy).await?;
        }
        crate::tables::drop_tables(manager, &FORMER.map(|former| former.table)).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        lock(manager, &["keys"]).await?;
        for Former {
            table,
            owner,
            index,
            kind,
        } in FORMER
        {
            create(manager, table, owner, index, None).await?;
            let copy = format!(
                "INSERT INTO {table} ({owner}, {COMMON}) SELECT owner_id, {COMMON} FROM keys WHERE owner_kind = '{kind}'"
            );
            manager.get_connection().execute_unprepared(&copy).await?;
        }
        crate::tables::drop_tables(manager, &["keys"]).await
    }
}

/// Keeps others from tables until the end of the transaction: PostgreSQL copies what there is when the copy begins, and
/// what is written meanwhile would go with the table. The writer of SQLite is alone anyhow.
async fn lock(manager: &SchemaManager<'_>, tables: &[&str]) -> Result<(), DbErr> {
    if manager.get_database_backend() == DbBackend::Postgres {
        let lock = format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", tables.join(", "));
        manager.get_connection().execute_unprepared(&lock).await?;
    }
    Ok(())
}

async fn create(
    manager: &SchemaManager<'_>,
    name: &'static str,
    owner: &'static str,
    index: &'static str,
    kind: Option<&'static str>,
) -> Result<(), DbErr> {
    let mut table = Table::create();
    table.table(name).col(text("id").primary_key());
    if let Some(kind) = kind {
        table.col(text(kind));
    }
    table
        .col(text(owner))
        .col(text("hash"))
        .col(text("hint"))
        .col(text_null("label"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone_null("revoked_at"))
        .col(timestamp_with_time_zone_null("last_used_at"));
    manager.create_table(table).await?;
    let by_hash = Index::create()
        .name(format!("{name}_hash_key"))
        .table(name)
        .col("hash")
        .unique()
        .to_owned();
    manager.create_index(by_hash).await?;
    let by_owner = Index::create().name(index).table(name).col(owner).to_owned();
    manager.create_index(by_owner).await
}
