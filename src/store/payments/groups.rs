//! Groups of payments and the number of payments in each. Each recorded payment updates the counts.

use crate::{
    domain::payment::PaymentKind,
    store::{Scope, StoreError, columns},
};
use entities::{
    payment_groups, payment_groups::Column as Group, payment_parties, payment_wallets,
    payment_wallets::Column as Wallet, payments,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect, QueryTrait,
    sea_query::{Expr, ExprTrait, OnConflict},
};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Value of the client ID column of a group that counts the payments of a whole platform.
const WHOLE: &str = "";

/// The values by which payments are grouped.
pub(super) struct GroupValues<'a> {
    /// Tenant.
    pub(super) platform: &'a str,
    /// Kind.
    pub(super) kind: &'a str,
    /// Currency id of the invoice.
    pub(super) invoice_currency: &'a str,
    /// Currency id of the payment.
    pub(super) payment_currency: &'a str,
    /// Whether a link hides the payments.
    pub(super) is_hidden: bool,
}

impl GroupValues<'_> {
    /// The key of the group with these values, for the whole platform or for one of its client IDs. The key is a hash,
    /// so computing it needs no lookup. If two groups have the same key by chance, a search still returns no payments
    /// of another platform. The key of a hidden group is the bitwise complement of the key of the group with the same
    /// values that is not hidden.
    pub(super) fn key(&self, client: Option<&str>) -> i64 {
        let mut hash = Sha256::new();
        let client = client.unwrap_or(WHOLE);
        for part in [
            self.platform,
            client,
            self.kind,
            self.invoice_currency,
            self.payment_currency,
        ] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(hash.finalize());
        let key = i64::from_be_bytes([a, b, c, d, e, f, g, h]);
        if self.is_hidden { !key } else { key }
    }
}

fn facets(row: &payments::Model) -> GroupValues<'_> {
    GroupValues {
        platform: &row.platform_id,
        kind: &row.kind,
        invoice_currency: &row.invoice_currency,
        payment_currency: &row.payment_currency,
        is_hidden: row.is_hidden,
    }
}

/// Adds the wallets of payment rows that were just written to their index, and the rows to the counts of their groups.
pub(super) async fn enter(conn: &impl ConnectionTrait, rows: &[payments::Model]) -> Result<(), StoreError> {
    enter_parties(conn, rows).await?;
    let changes: Vec<_> = rows.iter().map(|row| (row, 1)).collect();
    count(conn, &changes).await
}

/// Adds rows to the counts, or subtracts them, with one statement for the groups and one for the wallets of each batch.
/// One call locks its counters in a fixed order, so two transactions that each make one call cannot deadlock.
/// Transactions that make several calls can deadlock; their callers retry.
pub(super) async fn count(conn: &impl ConnectionTrait, changes: &[(&payments::Model, i64)]) -> Result<(), StoreError> {
    let (mut groups, mut wallets) = (BTreeMap::new(), BTreeMap::new());
    for (row, change) in changes {
        let facets = facets(row);
        for (client, group_key) in groups_of(row) {
            let key = (
                facets.platform,
                client,
                facets.kind,
                facets.invoice_currency,
                facets.payment_currency,
                facets.is_hidden,
            );
            groups.entry(key).or_insert((group_key, 0)).1 += change;
            for wallet in wallets_of(row) {
                let key = (facets.platform, wallet, client, group_key, wallet == row.payee);
                *wallets.entry(key).or_insert(0) += change;
            }
        }
    }
    let groups: Vec<_> = groups.into_iter().filter(|(_, (_, change))| *change != 0).collect();
    for groups in groups.chunks(columns::ROWS_MAX) {
        let rows = groups
            .iter()
            .map(|(columns, (group_key, payments))| payment_groups::Model {
                platform_id: columns.0.to_owned(),
                client_row: columns.1.to_owned(),
                kind: columns.2.to_owned(),
                invoice_currency: columns.3.to_owned(),
                payment_currency: columns.4.to_owned(),
                is_hidden: columns.5,
                group_key: *group_key,
                payments: *payments,
            });
        let mut insertion =
            payment_groups::Entity::insert_many(rows.map(payment_groups::ActiveModel::from)).into_query();
        let columns = [
            Group::PlatformId,
            Group::ClientRow,
            Group::Kind,
            Group::InvoiceCurrency,
            Group::PaymentCurrency,
            Group::IsHidden,
        ];
        let known = Expr::col((payment_groups::Entity, Group::Payments));
        let more = OnConflict::columns(columns)
            .value(Group::Payments, known.add(Expr::cust("excluded.payments")))
            .to_owned();
        conn.execute(insertion.on_conflict(more)).await?;
    }
    let wallets: Vec<_> = wallets.into_iter().filter(|(_, change)| *change != 0).collect();
    for wallets in wallets.chunks(columns::ROWS_MAX) {
        let rows =
            wallets.iter().map(
                |((platform, wallet, client, group_key, is_payee), change)| payment_wallets::Model {
                    platform_id: (*platform).to_owned(),
                    wallet: wallet.to_vec(),
                    client_row: (*client).to_owned(),
                    group_key: *group_key,
                    is_payee: *is_payee,
                    payments: *change,
                },
            );
        let mut insertion =
            payment_wallets::Entity::insert_many(rows.map(payment_wallets::ActiveModel::from)).into_query();
        let known = Expr::col((payment_wallets::Entity, Wallet::Payments));
        let columns = [
            Wallet::PlatformId,
            Wallet::Wallet,
            Wallet::ClientRow,
            Wallet::GroupKey,
            Wallet::IsPayee,
        ];
        let more = OnConflict::columns(columns)
            .value(Wallet::Payments, known.add(Expr::cust("excluded.payments")))
            .to_owned();
        conn.execute(insertion.on_conflict(more)).await?;
    }
    Ok(())
}

/// Adds the wallets of payments to the table by which payments are found by wallet.
pub(super) async fn enter_parties(conn: &impl ConnectionTrait, rows: &[payments::Model]) -> Result<(), StoreError> {
    for rows in rows.chunks(columns::ROWS_MAX) {
        let parties = rows.iter().flat_map(|row| {
            let party = |group_key, wallet: &[u8]| payment_parties::Model {
                platform_id: row.platform_id.clone(),
                wallet: wallet.to_vec(),
                group_key,
                is_payee: wallet == row.payee,
                paid_at: row.paid_at,
                payment_id: row.id.clone(),
            };
            groups_of(row).flat_map(move |(_, group_key)| wallets_of(row).map(move |wallet| party(group_key, wallet)))
        });
        payment_parties::Entity::insert_many(parties.map(payment_parties::ActiveModel::from))
            .exec_without_returning(conn)
            .await?;
    }
    Ok(())
}

/// A copy of a row that is marked as hidden, or as not hidden.
pub(super) fn hidden_as(row: payments::Model, is_hidden: bool) -> payments::Model {
    if row.is_hidden == is_hidden {
        return row;
    }
    payments::Model {
        is_hidden,
        group_key: !row.group_key,
        client_group_key: row.client_group_key.map(|key| !key),
        ..row
    }
}

/// The groups that a payment belongs to, as pairs of client ID and group key: the group of its platform, with [`WHOLE`]
/// as client ID, and the group of its client ID, if it has one.
fn groups_of(row: &payments::Model) -> impl Iterator<Item = (&str, i64)> {
    let of_client = row.client_row.as_deref().zip(row.client_group_key);
    std::iter::once((WHOLE, row.group_key)).chain(of_client)
}

/// Distinct wallets of a payment.
pub(super) fn wallets_of(row: &payments::Model) -> impl Iterator<Item = &[u8]> {
    let payer = row.payer.as_ref().filter(|payer| **payer != row.payee);
    let eoa = row.payer_eoa.as_ref();
    let eoa = eoa.filter(|eoa| **eoa != row.payee && Some(*eoa) != row.payer.as_ref());
    [Some(&row.payee), payer, eoa].into_iter().flatten().map(Vec::as_slice)
}

/// A wallet's payments in a group, with the same role: as payee, or as payer or the account behind the payer.
pub(super) struct WalletGroup {
    /// Group.
    pub(super) group_key: i64,
    /// Whether the wallet received these payments.
    pub(super) is_payee: bool,
    /// Number of payments.
    pub(super) payments: i64,
}

/// The groups of a scope that contain payments of a wallet, limited to the keys in `groups` if given.
pub(super) async fn parts_of(
    conn: &impl ConnectionTrait,
    scope: &Scope,
    wallet: &[u8],
    groups: Option<Vec<i64>>,
) -> Result<Vec<WalletGroup>, StoreError> {
    let client = scope.client.as_ref().map_or(WHOLE, |client| client.as_str());
    let found = payment_wallets::Entity::find()
        .select_only()
        .columns([Wallet::GroupKey, Wallet::IsPayee, Wallet::Payments])
        .filter(Wallet::PlatformId.eq(scope.platform.as_str()))
        .filter(Wallet::Wallet.eq(wallet))
        .filter(Wallet::ClientRow.eq(client))
        .filter(Condition::all().add_option(groups.map(|keys| Wallet::GroupKey.is_in(keys))));
    let found: Vec<(i64, bool, i64)> = found.into_tuple().all(conn).await?;
    let part = |(group_key, is_payee, payments)| WalletGroup {
        group_key,
        is_payee,
        payments,
    };
    Ok(found.into_iter().map(part).filter(|part| part.payments > 0).collect())
}

/// Keys of the groups of a scope, each with the number of its payments. Hidden groups are included unless the filter
/// excludes them.
pub(super) async fn find(
    conn: &impl ConnectionTrait,
    scope: &Scope,
    kind: Option<PaymentKind>,
    invoice_currencies: Option<&Vec<String>>,
    payment_currencies: Option<&Vec<String>>,
    leaves_out_hidden: bool,
) -> Result<Vec<(i64, i64)>, StoreError> {
    let client = scope.client.as_ref().map_or(WHOLE, |client| client.as_str());
    let wanted = Condition::all()
        .add_option(kind.map(|kind| Group::Kind.eq(kind.wire())))
        .add_option(invoice_currencies.map(|ids| Group::InvoiceCurrency.is_in(ids)))
        .add_option(payment_currencies.map(|ids| Group::PaymentCurrency.is_in(ids)))
        .add_option(leaves_out_hidden.then(|| Group::IsHidden.eq(false)));
    let found = payment_groups::Entity::find()
        .select_only()
        .columns([Group::GroupKey, Group::Payments])
        .filter(Group::PlatformId.eq(scope.platform.as_str()))
        .filter(Group::ClientRow.eq(client))
        .filter(wanted);
    Ok(found.into_tuple().all(conn).await?)
}
