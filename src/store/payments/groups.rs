//! Groups of payments and how many there are, kept with every payment.

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

/// What the row of a group says in place of a client ID when it counts the payments of a whole platform.
const WHOLE: &str = "";

/// What a payment is grouped by.
pub(super) struct Facets<'a> {
    /// Tenant.
    pub(super) platform: &'a str,
    /// Kind.
    pub(super) kind: &'a str,
    /// Currency id of the invoice.
    pub(super) invoice_currency: &'a str,
    /// Currency id of the payment.
    pub(super) payment_currency: &'a str,
    /// Whether a link hides it.
    pub(super) is_hidden: bool,
}

impl Facets<'_> {
    /// The key of the group: of the platform, or of one of its client IDs. Nobody has to be asked for it: it is a hash, and
    /// of two groups that share one by chance the search still tells the platforms apart. What is hidden has the complement
    /// of the key that it would have otherwise.
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
        match self.is_hidden {
            true => !key,
            false => key,
        }
    }
}

fn facets(row: &payments::Model) -> Facets<'_> {
    Facets {
        platform: &row.platform_id,
        kind: &row.kind,
        invoice_currency: &row.invoice_currency,
        payment_currency: &row.payment_currency,
        is_hidden: row.is_hidden,
    }
}

/// Enters rows that were just written among the payments of their wallets, and counts them.
pub(super) async fn enter(conn: &impl ConnectionTrait, rows: &[payments::Model]) -> Result<(), StoreError> {
    enter_parties(conn, rows).await?;
    let changes: Vec<_> = rows.iter().map(|row| (row, 1)).collect();
    count(conn, &changes).await
}

/// Counts rows, or takes them off the counts, with one statement for the groups and one for the wallets of each batch.
/// The counters of one call are taken in the same order by everybody, so that two transactions that call it once do not wait
/// for each other in a circle. One that calls it again may, and is made again by whoever began it.
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

/// Enters payments among those of their wallets.
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

/// A row among the hidden ones, or among the others.
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

/// Groups of a payment: that of its platform, and that of its client ID; each with the client ID, or [`WHOLE`].
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

/// What a wallet has to do with the payments of a group.
pub(super) struct Part {
    /// Group.
    pub(super) group_key: i64,
    /// Whether it received them.
    pub(super) is_payee: bool,
    /// How many there are.
    pub(super) payments: i64,
}

/// In which groups of a scope a wallet takes part; in some of them alone when their keys are given.
pub(super) async fn parts_of(
    conn: &impl ConnectionTrait,
    scope: &Scope,
    wallet: &[u8],
    groups: Option<Vec<i64>>,
) -> Result<Vec<Part>, StoreError> {
    let client = scope.client.as_ref().map_or(WHOLE, |client| client.as_str());
    let found = payment_wallets::Entity::find()
        .select_only()
        .columns([Wallet::GroupKey, Wallet::IsPayee, Wallet::Payments])
        .filter(Wallet::PlatformId.eq(scope.platform.as_str()))
        .filter(Wallet::Wallet.eq(wallet))
        .filter(Wallet::ClientRow.eq(client))
        .filter(Condition::all().add_option(groups.map(|keys| Wallet::GroupKey.is_in(keys))));
    let found: Vec<(i64, bool, i64)> = found.into_tuple().all(conn).await?;
    let part = |(group_key, is_payee, payments)| Part {
        group_key,
        is_payee,
        payments,
    };
    Ok(found.into_iter().map(part).filter(|part| part.payments > 0).collect())
}

/// Groups of a scope, those that links hide too unless they are left out: keys, each with the number of its payments.
pub(super) async fn find(
    conn: &impl ConnectionTrait,
    scope: &Scope,
    kind: Option<PaymentKind>,
    (invoice_currencies, payment_currencies): (Option<&Vec<String>>, Option<&Vec<String>>),
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
