//! Searches of the payments that a scope may see.
//!
//! A search reads index ranges that cover every filter, so it reads no rows that do not match. Kind, currencies and
//! client ID form a group. An index lists the payments of each wallet by group, and another one lists those with a
//! merchant reference by group. The matching groups are read in parallel. The stored counts say which groups exist, and
//! how many payments each has. Payments that links hide have groups of their own, which are excluded for callers that
//! may not see them. If one condition of a filter can match only a few payments, such as a transaction hash, these
//! payments are read in full and then filtered. A search by merchant reference and wallet uses the condition that fewer
//! payments match. Source: rules E.2; rules E.5.

use super::{
    filter::{FoundPayment, FoundPayments, PageStart, PageWindow, PaymentFilter},
    groups,
    record::{from_row, summary},
};
use crate::{
    domain::{address::Address, ids::PlatformId, search::PaymentPosition},
    store::{Scope, Sealing, StoreError, TOTAL_MAX, columns, requests},
};
use entities::{
    payment_parties, payment_parties::Column as Party, payments, payments::Column, requests as request_rows,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, FromQueryResult, JoinType, JsonValue, Order, QueryFilter,
    QueryOrder, QueryResult, QuerySelect, RelationTrait, Select,
    sea_query::{Alias, Expr, ExprTrait, Query, SelectStatement, UnionType},
};

/// Names of the two columns that give the position of a payment.
const PAID_AT: &str = "paid_at";
const ID: &str = "id";

/// Searches the payments that a scope may see, newest first, and counts them.
pub async fn search(
    conn: &impl Sealing,
    scope: &Scope,
    filter: &PaymentFilter,
    window: &PageWindow,
) -> Result<FoundPayments, StoreError> {
    let one_more = PageWindow {
        limit: window.limit + 1,
        ..window.clone()
    };
    let (way, mut rows) = find(conn, scope, filter, &one_more).await?;
    let limit = usize::try_from(window.limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > limit;
    let total = match (&window.begin, has_more) {
        (PageStart::Row(offset), false) if !rows.is_empty() || *offset == 0 => {
            let seen: u64 = columns::number("payments", rows.len())?;
            known_total(&way, offset + seen)
        }
        _ => count(conn, &way).await?,
    };
    rows.truncate(limit);
    Ok(FoundPayments { rows, total, has_more })
}

/// Reads a part of the payments that a scope may see and that match, newest first, without counting them. A caller that
/// continues after the last payment of each part gets every match that existed at the beginning exactly once, however
/// many payments arrive in the meantime.
pub async fn read(
    conn: &impl Sealing,
    scope: &Scope,
    filter: &PaymentFilter,
    window: &PageWindow,
) -> Result<Vec<FoundPayment>, StoreError> {
    Ok(find(conn, scope, filter, window).await?.1)
}

/// A part of the matches, and how they were found.
async fn find(
    conn: &impl Sealing,
    scope: &Scope,
    filter: &PaymentFilter,
    window: &PageWindow,
) -> Result<(SearchPlan, Vec<FoundPayment>), StoreError> {
    let way = way(conn, scope, filter).await?;
    let rows = match rows_of(&scope.platform, &way, window) {
        Some(rows) => load(conn, rows).await?,
        None => Vec::new(),
    };
    Ok((way, rows))
}

/// Maximum number of payments of a wallet that a search reads in full if a merchant reference is given too.
const FEW: i64 = 1_000;

/// How a search finds its payments.
enum SearchPlan {
    /// Nothing can match.
    Nowhere,
    /// The search reads a few rows in full and filters them.
    Few(Condition),
    /// The search reads ranges of an index, each in the order of a page.
    Ranges {
        /// Which index.
        table: RangedQuery,
        /// The condition of each range.
        ranges: Vec<Condition>,
        /// Number of matches from the stored counts, if the filter has no further condition.
        total: Option<u64>,
    },
}

/// The table whose index ranges a search reads.
#[derive(Clone, Copy)]
enum RangedQuery {
    Payments,
    Parties,
}

/// Groups with the number of their payments.
type GroupCounts = [(i64, i64)];

async fn way(conn: &impl ConnectionTrait, scope: &Scope, filter: &PaymentFilter) -> Result<SearchPlan, StoreError> {
    // The filter is destructured by name, so that a new field cannot be forgotten here.
    let PaymentFilter {
        tx_hash: _,
        wallet,
        is_wallet_payee: _,
        reference: _,
        request_id: _,
        merchant_reference,
        kind,
        invoice_currencies,
        payment_currencies,
        leaves_out_hidden,
        from: _,
        to: _,
    } = filter;
    let (invoices, payments) = (invoice_currencies.as_ref(), payment_currencies.as_ref());
    let is_grouped = kind.is_some() || invoices.is_some() || payments.is_some() || *leaves_out_hidden;
    let groups = if is_grouped {
        Some(groups::find(conn, scope, *kind, invoices, payments, *leaves_out_hidden).await?)
    } else {
        None
    };
    if groups.as_ref().is_some_and(Vec::is_empty) {
        return Ok(SearchPlan::Nowhere);
    }
    if let Some(key) = key(filter) {
        return Ok(SearchPlan::Few(key.add(of_row(scope, filter))));
    }
    if let Some(wallet) = wallet {
        let parts = parts(conn, scope, filter, wallet, groups.as_deref()).await?;
        let payments: i64 = parts.iter().map(|part| part.payments).sum();
        let ranges = by_parts(scope, filter, wallet, &parts)?;
        if parts.is_empty() || merchant_reference.is_none() {
            return Ok(ranges);
        }
        if payments <= FEW {
            return Ok(SearchPlan::Few(ranges.among().add(of_row(scope, filter))));
        }
    }
    let groups = match groups {
        Some(groups) => groups,
        None => groups::find(conn, scope, None, invoices, payments, false).await?,
    };
    by_groups(scope, filter, &groups)
}

/// The groups that contain payments of a wallet, limited to `groups` if given. If the filter says so, only payments to
/// the wallet count.
async fn parts(
    conn: &impl ConnectionTrait,
    scope: &Scope,
    filter: &PaymentFilter,
    wallet: &Address,
    groups: Option<&GroupCounts>,
) -> Result<Vec<groups::WalletGroup>, StoreError> {
    let keys = groups.map(|groups| groups.iter().map(|(key, _)| *key).collect());
    let mut parts = groups::parts_of(conn, scope, &columns::address_bytes(wallet), keys).await?;
    parts.retain(|part| part.is_payee || !filter.is_wallet_payee);
    Ok(parts)
}

/// The payments of a wallet.
fn by_parts(
    scope: &Scope,
    filter: &PaymentFilter,
    wallet: &Address,
    parts: &[groups::WalletGroup],
) -> Result<SearchPlan, StoreError> {
    let wallet = columns::address_bytes(wallet);
    let range = |part: &groups::WalletGroup| {
        Condition::all()
            .add(Party::PlatformId.eq(scope.platform.as_str()))
            .add(Party::Wallet.eq(wallet.as_slice()))
            .add(Party::GroupKey.eq(part.group_key))
            .add(Party::IsPayee.eq(part.is_payee))
            .add(between(Party::PaidAt, filter))
    };
    let payments = parts.iter().map(|part| part.payments).sum::<i64>();
    Ok(SearchPlan::Ranges {
        table: RangedQuery::Parties,
        ranges: parts.iter().map(range).collect(),
        total: (!filter.is_dated()).then_some(columns::number("payments", payments)?),
    })
}

/// Plan for the payments of groups, limited to a merchant reference and to a wallet if the filter has them.
fn by_groups(scope: &Scope, filter: &PaymentFilter, groups: &GroupCounts) -> Result<SearchPlan, StoreError> {
    let group = match scope.client {
        Some(_) => Column::ClientGroupKey,
        None => Column::GroupKey,
    };
    let reference = filter.merchant_reference.as_ref();
    let wallet = filter.wallet.as_ref();
    let range = |(key, _): &(i64, i64)| {
        Condition::all()
            .add(Column::PlatformId.eq(scope.platform.as_str()))
            .add_option(reference.map(|reference| Column::MerchantReference.eq(reference)))
            .add(group.eq(*key))
            .add_option(wallet.map(|wallet| of_wallet(wallet, filter.is_wallet_payee)))
            .add(between(Column::PaidAt, filter))
    };
    let is_counted = !filter.is_dated() && reference.is_none();
    let payments = groups.iter().map(|(_, payments)| payments).sum::<i64>();
    Ok(SearchPlan::Ranges {
        table: RangedQuery::Payments,
        ranges: groups.iter().map(range).collect(),
        total: is_counted.then_some(columns::number("payments", payments)?),
    })
}

/// The conditions of a filter that only a few payments match, if the filter has such a condition.
fn key(filter: &PaymentFilter) -> Option<Condition> {
    // The unique key of events begins with the hash and the network. SQLite rates an index by the hash alone no better
    // than an index by the platform, and would then read all payments of a platform.
    let keys = [
        filter
            .tx_hash
            .map(|hash| Column::TxHash.eq(hash.to_vec()).and(Column::Network.gt(""))),
        filter
            .reference
            .map(|reference| Column::Reference.eq(reference.0.to_vec())),
        filter.request_id.as_ref().map(|id| Column::RequestId.eq(id)),
    ];
    let keys: Vec<_> = keys.into_iter().flatten().collect();
    let all = |keys: Vec<Expr>| keys.into_iter().fold(Condition::all(), Condition::add);
    (!keys.is_empty()).then(|| all(keys))
}

/// Condition that a wallet is the payee of a payment or, unless `is_payee_alone`, the payer or the account behind the
/// payer.
fn of_wallet(wallet: &Address, is_payee_alone: bool) -> Condition {
    let wallet = columns::address_bytes(wallet);
    let is_payee = Condition::any().add(Column::Payee.eq(wallet.as_slice()));
    if is_payee_alone {
        is_payee
    } else {
        is_payee
            .add(Column::Payer.eq(wallet.as_slice()))
            .add(Column::PayerEoa.eq(wallet.as_slice()))
    }
}

/// The other conditions, as columns of the payment.
fn of_row(scope: &Scope, filter: &PaymentFilter) -> Condition {
    let wallet = filter.wallet.as_ref();
    let reference = filter.merchant_reference.as_ref();
    let client = scope.client.as_ref();
    let invoices = filter.invoice_currencies.as_ref();
    let payments = filter.payment_currencies.as_ref();
    Condition::all()
        .add(Column::PlatformId.eq(scope.platform.as_str()))
        .add_option(client.map(|client| Column::ClientRow.eq(client.as_str())))
        .add_option(wallet.map(|wallet| of_wallet(wallet, filter.is_wallet_payee)))
        .add_option(reference.map(|reference| Column::MerchantReference.eq(reference)))
        .add_option(filter.kind.map(|kind| Column::Kind.eq(kind.wire())))
        .add_option(invoices.map(|ids| Column::InvoiceCurrency.is_in(ids)))
        .add_option(payments.map(|ids| Column::PaymentCurrency.is_in(ids)))
        .add(between(Column::PaidAt, filter))
        .add_option(filter.leaves_out_hidden.then(|| Column::IsHidden.eq(false)))
}

/// The span of time.
fn between(paid_at: impl ColumnTrait, filter: &PaymentFilter) -> Condition {
    Condition::all()
        .add_option(filter.from.map(|from| paid_at.gte(from)))
        .add_option(filter.to.map(|to| paid_at.lte(to)))
}

/// Condition for rows that come after a position in the order of pages. `paid_at` and `id` are the two columns that
/// determine this order.
fn behind(paid_at: impl ColumnTrait, id: impl ColumnTrait, last: &PaymentPosition) -> Expr {
    let place = [Expr::val(last.paid_at), Expr::val(last.id.as_str())];
    let columns = [Expr::col(paid_at.as_column_ref()), Expr::col(id.as_column_ref())];
    Expr::tuple(columns).lt(Expr::tuple(place))
}

impl SearchPlan {
    /// Query for the time and id of all matches, in no order. With `after`, only matches after this position. With
    /// `first` and several ranges in the plan, at most this number of matches from each range.
    fn matching(&self, after: Option<&PaymentPosition>, first: Option<u64>) -> Option<SelectStatement> {
        let of_payments = |condition: &Condition| {
            let behind = after.map(|last| behind(Column::PaidAt, Column::Id, last));
            Query::select()
                .columns([Alias::new(PAID_AT), Alias::new(ID)])
                .from(payments::Entity)
                .cond_where(condition.clone().add_option(behind))
                .to_owned()
        };
        let of_parties = |condition: &Condition| {
            let behind = after.map(|last| behind(Party::PaidAt, Party::PaymentId, last));
            Query::select()
                .column(Alias::new(PAID_AT))
                .expr_as(Party::PaymentId.into_expr(), Alias::new(ID))
                .from(payment_parties::Entity)
                .cond_where(condition.clone().add_option(behind))
                .to_owned()
        };
        match self {
            Self::Nowhere => None,
            Self::Few(condition) => Some(of_payments(condition)),
            Self::Ranges { table, ranges, .. } => {
                let is_alone = ranges.len() == 1;
                let mut ranges = ranges.iter().map(|range| {
                    let rows = match table {
                        RangedQuery::Payments => of_payments(range),
                        RangedQuery::Parties => of_parties(range),
                    };
                    match first.filter(|_| !is_alone) {
                        Some(first) => first_of(rows, first),
                        None => rows,
                    }
                });
                let mut found = ranges.next()?;
                for range in ranges {
                    found.union(UnionType::All, range);
                }
                Some(found)
            }
        }
    }

    /// Query for the matches to count, at most [`TOTAL_MAX`] from each range. Each range is read in the order of its
    /// index, because PostgreSQL would otherwise read the table instead of the index.
    fn countable(&self) -> Option<SelectStatement> {
        let mut matching = self.matching(None, Some(TOTAL_MAX))?;
        if matches!(self, Self::Ranges { ranges, .. } if ranges.len() == 1) {
            newest_first(&mut matching);
        }
        Some(matching)
    }

    /// Condition that a payment is one of the matches.
    fn among(&self) -> Condition {
        let ids = self.matching(None, None).map(|found| {
            Query::select()
                .column(Alias::new(ID))
                .from_subquery(found, "found")
                .to_owned()
        });
        Condition::all().add_option(ids.map(|ids| Column::Id.in_subquery(ids)))
    }

    /// Ids of a part of the matches, newest first.
    fn page(&self, window: &PageWindow) -> Option<SelectStatement> {
        let mut page = match &window.begin {
            PageStart::Row(offset) => self
                .matching(None, Some(offset + window.limit))?
                .offset(*offset)
                .to_owned(),
            PageStart::After(last) => self.matching(Some(last), Some(window.limit))?,
        };
        newest_first(&mut page).limit(window.limit);
        Some(page)
    }
}

/// The newest rows of one group. Each part of a union needs its own order; otherwise PostgreSQL would read all of a
/// large group for one page.
fn first_of(mut group: SelectStatement, rows: u64) -> SelectStatement {
    newest_first(&mut group).limit(rows);
    Query::select()
        .columns([Alias::new(PAID_AT), Alias::new(ID)])
        .from_subquery(group, "newest")
        .to_owned()
}

fn newest_first(rows: &mut SelectStatement) -> &mut SelectStatement {
    rows.order_by(Alias::new(PAID_AT), Order::Desc)
        .order_by(Alias::new(ID), Order::Desc)
}

/// A payment with columns of its request.
struct FoundRow {
    payment: payments::Model,
    status: String,
    customer: Option<JsonValue>,
}

impl FromQueryResult for FoundRow {
    fn from_query_result(row: &QueryResult, prefix: &str) -> Result<Self, sea_orm::DbErr> {
        Ok(Self {
            payment: payments::Model::from_query_result(row, prefix)?,
            status: row.try_get(prefix, "request_status")?,
            customer: row.try_get(prefix, "request_customer")?,
        })
    }
}

/// Payments with columns of their requests, newest first.
fn with_requests() -> Select<payments::Entity> {
    payments::Entity::find()
        .join(JoinType::InnerJoin, payments::Relation::Request.def())
        .column_as(request_rows::Column::Status, "request_status")
        .column_as(request_rows::Column::Customer, "request_customer")
        .order_by_desc(Column::PaidAt)
        .order_by_desc(Column::Id)
}

async fn load(conn: &impl Sealing, found: Select<payments::Entity>) -> Result<Vec<FoundPayment>, StoreError> {
    let rows = found.into_model::<FoundRow>().all(conn).await?;
    let rows = rows.into_iter().map(|row| {
        let payment = from_row(row.payment)?;
        let summary = summary(conn, &payment, &row.status, row.customer)?;
        Ok((payment, summary))
    });
    rows.collect()
}

/// The rows of a part of the matches. For ranges it first finds the ids, in the order of an index, and then loads only
/// their rows.
fn rows_of(platform: &PlatformId, way: &SearchPlan, window: &PageWindow) -> Option<Select<payments::Entity>> {
    if let SearchPlan::Few(condition) = way {
        let found = with_requests().filter(condition.clone()).limit(window.limit);
        return Some(match &window.begin {
            PageStart::Row(offset) => found.offset(*offset),
            PageStart::After(last) => found.filter(behind(Column::PaidAt, Column::Id, last)),
        });
    }
    let ids = Query::select()
        .column(Alias::new(ID))
        .from_subquery(way.page(window)?, "page")
        .to_owned();
    let of_platform = with_requests().filter(Column::PlatformId.eq(platform.as_str()));
    Some(of_platform.filter(Column::Id.in_subquery(ids)))
}

/// The total to report for a number of known matches. The total exceeds [`TOTAL_MAX`] only if it comes from a stored
/// count.
fn known_total(way: &SearchPlan, matches: u64) -> u64 {
    match way {
        SearchPlan::Ranges { total: Some(_), .. } => matches,
        _ => Ord::min(matches, TOTAL_MAX),
    }
}

/// Number of matches: the stored count, or a count up to [`TOTAL_MAX`].
async fn count(conn: &impl ConnectionTrait, way: &SearchPlan) -> Result<u64, StoreError> {
    match way {
        SearchPlan::Ranges { total: Some(total), .. } => Ok(*total),
        _ => match way.countable() {
            Some(matching) => requests::count(conn, matching).await,
            None => Ok(0),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{
            address::Address,
            ids::{ClientRowId, PaymentId},
            payment::PaymentKind,
            reference::PaymentReference,
        },
        store::{Db, plans},
    };
    use alloy::primitives::{Address as EvmAddress, B256};
    use chrono::DateTime;
    use sea_orm::{QueryTrait, sea_query::SqliteQueryBuilder};

    /// Steps of SQLite's plan for a part of a search.
    async fn plan(db: &Db, filter: &PaymentFilter, client: Option<&str>, begin: PageStart) -> String {
        let scope = Scope {
            platform: PlatformId("platform".into()),
            client: client.map(|client| ClientRowId(client.into())),
        };
        let way = way(db.reader(), &scope, filter).await.unwrap();
        let rows = rows_of(&scope.platform, &way, &PageWindow { begin, limit: 21 }).unwrap();
        plans::steps(db, &rows.into_query()).await
    }

    #[tokio::test]
    async fn every_payment_search_uses_its_own_index_in_sqlite() {
        plans::with_database(every_search_reads_its_own_index).await;
    }

    async fn every_search_reads_its_own_index(db: &Db) {
        for (client, currency, key) in [("", "USD", 1), ("", "EUR", 2), ("client", "USD", 3)] {
            let group = format!(
                "INSERT INTO payment_groups VALUES \
                 ('platform', '{client}', 'direct', '{currency}', 'USDC-base', FALSE, {key}, 9)"
            );
            db.writer().execute_unprepared(&group).await.unwrap();
        }
        let wallet = EvmAddress::ZERO;
        for (client, key) in [("", 1), ("", 2), ("client", 3)] {
            // This wallet has more payments than a search with a merchant reference reads in full.
            let part = format!(
                "INSERT INTO payment_wallets VALUES ('platform', X'{wallet:x}', '{client}', {key}, TRUE, 2000)"
            );
            db.writer().execute_unprepared(&part).await.unwrap();
        }
        let dated = PaymentFilter {
            from: Some(DateTime::UNIX_EPOCH),
            to: Some(DateTime::UNIX_EPOCH),
            kind: Some(PaymentKind::Direct),
            ..Default::default()
        };
        let of_wallet = PaymentFilter {
            wallet: Some(Address::Evm(wallet)),
            ..dated.clone()
        };
        let by_tx_hash = PaymentFilter {
            tx_hash: Some(B256::ZERO),
            ..of_wallet.clone()
        };
        let by_reference = PaymentFilter {
            reference: Some(PaymentReference([0; 8])),
            ..of_wallet.clone()
        };
        let by_request = PaymentFilter {
            request_id: Some("01".into()),
            ..of_wallet.clone()
        };
        let by_merchant = PaymentFilter {
            merchant_reference: Some("order".into()),
            ..of_wallet.clone()
        };
        let of_client = dated.clone();
        for (filter, client, wanted) in [
            (by_tx_hash, None, "payments_event_key (tx_hash=? AND network>?)"),
            (
                by_reference,
                None,
                "payments_by_reference (platform_id=? AND reference=?)",
            ),
            (by_request, None, "payments_by_request (platform_id=? AND request_id=?)"),
            (
                by_merchant.clone(),
                None,
                "payments_by_merchant_reference (platform_id=? AND merchant_reference=? AND group_key=? AND paid_at>? AND \
                 paid_at<?)",
            ),
            (
                by_merchant,
                Some("client"),
                "payments_by_client_reference (platform_id=? AND merchant_reference=? AND client_group_key=? AND paid_at>? AND \
                 paid_at<?)",
            ),
            (
                of_wallet.clone(),
                None,
                "payment_parties_1 (platform_id=? AND wallet=? AND group_key=? AND is_payee=? AND paid_at>? AND paid_at<?)",
            ),
            (
                of_wallet,
                Some("client"),
                "payment_parties_1 (platform_id=? AND wallet=? AND group_key=? AND is_payee=? AND paid_at>? AND paid_at<?)",
            ),
            (
                dated,
                None,
                "payments_by_group (platform_id=? AND group_key=? AND paid_at>? AND paid_at<?)",
            ),
            (
                of_client,
                Some("client"),
                "payments_by_client_group (platform_id=? AND client_group_key=? AND paid_at>? AND paid_at<?)",
            ),
        ] {
            let steps = plan(db, &filter, client, PageStart::Row(0)).await;
            assert!(steps.contains(wanted), "{wanted}:\n{steps}");
            assert!(!steps.contains("SCAN payment"), "{steps}");
            let undated = PaymentFilter {
                from: None,
                to: None,
                ..filter
            };
            let last = PaymentPosition {
                paid_at: DateTime::UNIX_EPOCH,
                id: PaymentId("last".into()),
            };
            let steps = plan(db, &undated, client, PageStart::After(last)).await;
            assert!(!steps.contains("SCAN payment"), "{steps}");
            if !wanted.contains("paid_at") {
                continue;
            }
            let beginning = wanted.split(" AND paid_at").next().unwrap();
            assert!(steps.contains(beginning), "{beginning}:\n{steps}");
            assert!(steps.contains("(paid_at,") && steps.contains(")<(?,?)"), "{steps}");
        }
    }

    #[tokio::test]
    async fn searches_without_hidden_payments_read_no_hidden_group() {
        plans::with_database(no_hidden_group_is_read).await;
    }

    async fn no_hidden_group_is_read(db: &Db) {
        const HIDDEN: i64 = 7_654_321;
        let wallet = EvmAddress::ZERO;
        for (is_hidden, key, payments) in [(false, 3, 2_000), (true, HIDDEN, 200_000)] {
            let group = format!(
                "INSERT INTO payment_groups VALUES \
                 ('platform', 'client', 'direct', 'USD', 'USDC-base', {is_hidden}, {key}, {payments})"
            );
            db.writer().execute_unprepared(&group).await.unwrap();
            let part = format!(
                "INSERT INTO payment_wallets VALUES ('platform', X'{wallet:x}', 'client', {key}, TRUE, {payments})"
            );
            db.writer().execute_unprepared(&part).await.unwrap();
        }
        let scope = Scope {
            platform: PlatformId("platform".into()),
            client: Some(ClientRowId("client".into())),
        };
        let of_kind = PaymentFilter {
            kind: Some(PaymentKind::Direct),
            ..Default::default()
        };
        let of_wallet = PaymentFilter {
            wallet: Some(Address::Evm(wallet)),
            ..Default::default()
        };
        let of_reference = PaymentFilter {
            merchant_reference: Some("order".into()),
            ..Default::default()
        };
        for filter in [
            PaymentFilter::default(),
            of_kind,
            of_wallet.clone(),
            of_reference.clone(),
            PaymentFilter {
                merchant_reference: of_reference.merchant_reference,
                ..of_wallet
            },
        ] {
            for (leaves_out_hidden, wanted) in [(false, 202_000), (true, 2_000)] {
                let filter = PaymentFilter {
                    leaves_out_hidden,
                    ..filter.clone()
                };
                let way = way(db.reader(), &scope, &filter).await.unwrap();
                for statement in [way.matching(None, None), way.countable()] {
                    let text = statement.unwrap().to_string(SqliteQueryBuilder);
                    assert_eq!(text.contains(&HIDDEN.to_string()), !leaves_out_hidden, "{text}");
                    assert!(text.contains(" = 3 "), "{text}");
                }
                if let SearchPlan::Ranges { total: Some(total), .. } = way {
                    assert_eq!(total, wanted, "{filter:?}");
                }
            }
        }
    }
}
