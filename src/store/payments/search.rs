//! Searches of the payments that somebody may see.
//!
//! A search is read off ranges of an index that say everything that is asked, so that none looks at rows that do not match.
//! Kind, currencies and client ID are a group; a wallet has its payments by group, and so has a merchant reference. The
//! groups that fit are read side by side, and the keeping of the counts tells which there are, and how many payments. What
//! links hide is a group of its own, which is not among those of whoever is shown nothing of it. Only keys that few payments
//! share are read whole, and a merchant reference beside a wallet by whichever is rarer.
//! Source: rules E.2; rules E.5.

use super::{
    filter::{Begin, FoundPayment, PaymentFilter, PaymentPage, Window},
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

/// Names of the two columns that say where a payment stands.
const PAID_AT: &str = "paid_at";
const ID: &str = "id";

/// Searches the payments that a scope may see, newest first, and counts them.
pub async fn search(
    conn: &impl Sealing,
    scope: &Scope,
    filter: &PaymentFilter,
    window: &Window,
) -> Result<PaymentPage, StoreError> {
    let one_more = Window {
        limit: window.limit + 1,
        ..window.clone()
    };
    let (way, mut rows) = find(conn, scope, filter, &one_more).await?;
    let limit = usize::try_from(window.limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > limit;
    let total = match (&window.begin, has_more) {
        (Begin::Row(offset), false) if !rows.is_empty() || *offset == 0 => {
            let seen: u64 = columns::number("payments", rows.len())?;
            known_total(&way, offset + seen)
        }
        _ => count(conn, &way).await?,
    };
    rows.truncate(limit);
    Ok(PaymentPage { rows, total, has_more })
}

/// Reads a part of the payments that a scope may see and that match, newest first, without counting them. Read on from
/// the last one, it finds every match once that was there from the beginning, however many arrive meanwhile.
pub async fn read(
    conn: &impl Sealing,
    scope: &Scope,
    filter: &PaymentFilter,
    window: &Window,
) -> Result<Vec<FoundPayment>, StoreError> {
    Ok(find(conn, scope, filter, window).await?.1)
}

/// A part of the matches, and the way that led to them.
async fn find(
    conn: &impl Sealing,
    scope: &Scope,
    filter: &PaymentFilter,
    window: &Window,
) -> Result<(Way, Vec<FoundPayment>), StoreError> {
    let way = way(conn, scope, filter).await?;
    let rows = match rows_of(&scope.platform, &way, window) {
        Some(rows) => load(conn, rows).await?,
        None => Vec::new(),
    };
    Ok((way, rows))
}

/// A wallet with so few payments is read whole beside a merchant reference.
const FEW: i64 = 1_000;

/// How a search finds its payments.
enum Way {
    /// Nothing can match.
    Nowhere,
    /// Few rows are read whole, and those that match are kept.
    Few(Condition),
    /// By ranges of an index, each in the order of a page.
    Ranges {
        /// Whose index.
        table: Ranged,
        /// What is asked of the rows of each.
        ranges: Vec<Condition>,
        /// How many there are, when nothing else is asked.
        total: Option<u64>,
    },
}

/// What is read by ranges.
#[derive(Clone, Copy)]
enum Ranged {
    Payments,
    Parties,
}

/// Groups with the number of their payments.
type Counted = [(i64, i64)];

async fn way(conn: &impl ConnectionTrait, scope: &Scope, filter: &PaymentFilter) -> Result<Way, StoreError> {
    // Each by its name, so that a further filter cannot be forgotten here.
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
    let currencies = (invoice_currencies.as_ref(), payment_currencies.as_ref());
    let is_grouped = kind.is_some() || currencies.0.is_some() || currencies.1.is_some() || *leaves_out_hidden;
    let groups = match is_grouped {
        true => Some(groups::find(conn, scope, *kind, currencies, *leaves_out_hidden).await?),
        false => None,
    };
    if groups.as_ref().is_some_and(Vec::is_empty) {
        return Ok(Way::Nowhere);
    }
    if let Some(key) = key(filter) {
        return Ok(Way::Few(key.add(of_row(scope, filter))));
    }
    if let Some(wallet) = wallet {
        let parts = parts(conn, scope, (filter, wallet), groups.as_deref()).await?;
        let payments: i64 = parts.iter().map(|part| part.payments).sum();
        let ranges = by_parts(scope, (filter, wallet), &parts)?;
        if parts.is_empty() || merchant_reference.is_none() {
            return Ok(ranges);
        }
        if payments <= FEW {
            return Ok(Way::Few(ranges.among().add(of_row(scope, filter))));
        }
    }
    let groups = match groups {
        Some(groups) => groups,
        None => groups::find(conn, scope, None, currencies, false).await?,
    };
    by_groups(scope, filter, &groups)
}

/// In which of some groups a wallet takes part, in all of a scope when none are given; as payee alone where that is asked.
async fn parts(
    conn: &impl ConnectionTrait,
    scope: &Scope,
    (filter, wallet): (&PaymentFilter, &Address),
    groups: Option<&Counted>,
) -> Result<Vec<groups::Part>, StoreError> {
    let keys = groups.map(|groups| groups.iter().map(|(key, _)| *key).collect());
    let mut parts = groups::parts_of(conn, scope, &columns::address_bytes(wallet), keys).await?;
    parts.retain(|part| part.is_payee || !filter.is_wallet_payee);
    Ok(parts)
}

/// The payments of a wallet.
fn by_parts(
    scope: &Scope,
    (filter, wallet): (&PaymentFilter, &Address),
    parts: &[groups::Part],
) -> Result<Way, StoreError> {
    let wallet = columns::address_bytes(wallet);
    let range = |part: &groups::Part| {
        Condition::all()
            .add(Party::PlatformId.eq(scope.platform.as_str()))
            .add(Party::Wallet.eq(wallet.as_slice()))
            .add(Party::GroupKey.eq(part.group_key))
            .add(Party::IsPayee.eq(part.is_payee))
            .add(between(Party::PaidAt, filter))
    };
    let payments = parts.iter().map(|part| part.payments).sum::<i64>();
    Ok(Way::Ranges {
        table: Ranged::Parties,
        ranges: parts.iter().map(range).collect(),
        total: (!filter.is_dated()).then_some(columns::number("payments", payments)?),
    })
}

/// The payments of groups, with a merchant reference and of a wallet where these are asked for.
fn by_groups(scope: &Scope, filter: &PaymentFilter, groups: &Counted) -> Result<Way, StoreError> {
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
    Ok(Way::Ranges {
        table: Ranged::Payments,
        ranges: groups.iter().map(range).collect(),
        total: is_counted.then_some(columns::number("payments", payments)?),
    })
}

/// The keys of a filter that few payments share, when it has any.
fn key(filter: &PaymentFilter) -> Option<Condition> {
    // The key of events begins with the hash and the network. SQLite values the hash alone no more than the platform, with
    // which other indexes begin, and would read all payments of a platform.
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

/// That a wallet takes part in a payment.
fn of_wallet(wallet: &Address, is_payee_alone: bool) -> Condition {
    let wallet = columns::address_bytes(wallet);
    let is_payee = Condition::any().add(Column::Payee.eq(wallet.as_slice()));
    match is_payee_alone {
        true => is_payee,
        false => is_payee
            .add(Column::Payer.eq(wallet.as_slice()))
            .add(Column::PayerEoa.eq(wallet.as_slice())),
    }
}

/// What is asked beside a key, as columns of the payment say it.
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

/// What stands behind a position in the order of a page, by the columns that say where a payment stands.
fn behind((paid_at, id): (impl ColumnTrait, impl ColumnTrait), last: &PaymentPosition) -> Expr {
    let place = [Expr::val(last.paid_at), Expr::val(last.id.as_str())];
    let columns = [Expr::col(paid_at.as_column_ref()), Expr::col(id.as_column_ref())];
    Expr::tuple(columns).lt(Expr::tuple(place))
}

impl Way {
    /// Where the matches stand, without an order; those behind a position when one is given, and of each group the first
    /// ones when a number is.
    fn matching(&self, after: Option<&PaymentPosition>, first: Option<u64>) -> Option<SelectStatement> {
        let of_payments = |condition: &Condition| {
            let behind = after.map(|last| behind((Column::PaidAt, Column::Id), last));
            Query::select()
                .columns([Alias::new(PAID_AT), Alias::new(ID)])
                .from(payments::Entity)
                .cond_where(condition.clone().add_option(behind))
                .to_owned()
        };
        let of_parties = |condition: &Condition| {
            let behind = after.map(|last| behind((Party::PaidAt, Party::PaymentId), last));
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
                        Ranged::Payments => of_payments(range),
                        Ranged::Parties => of_parties(range),
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

    /// As many matches as are counted, each range in the order of its index: of rows in no order, PostgreSQL believes to find
    /// as many sooner by reading the table.
    fn countable(&self) -> Option<SelectStatement> {
        let mut matching = self.matching(None, Some(TOTAL_MAX))?;
        if matches!(self, Self::Ranges { ranges, .. } if ranges.len() == 1) {
            newest_first(&mut matching);
        }
        Some(matching)
    }

    /// That a payment is one of the matches.
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
    fn page(&self, window: &Window) -> Option<SelectStatement> {
        let mut page = match &window.begin {
            Begin::Row(offset) => self
                .matching(None, Some(offset + window.limit))?
                .offset(*offset)
                .to_owned(),
            Begin::After(last) => self.matching(Some(last), Some(window.limit))?,
        };
        newest_first(&mut page).limit(window.limit);
        Some(page)
    }
}

/// The newest rows of one group. PostgreSQL reads the parts of a union in no order unless each has its own, and would read
/// all of a large group for one page.
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

/// A payment with what is read of its request.
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

/// Payments with what is read of their requests, newest first.
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

/// The rows of a part of the matches. Of ranges the ids are found first, in the order of an index, and only their rows are
/// loaded.
fn rows_of(platform: &PlatformId, way: &Way, window: &Window) -> Option<Select<payments::Entity>> {
    if let Way::Few(condition) = way {
        let found = with_requests().filter(condition.clone()).limit(window.limit);
        return Some(match &window.begin {
            Begin::Row(offset) => found.offset(*offset),
            Begin::After(last) => found.filter(behind((Column::PaidAt, Column::Id), last)),
        });
    }
    let ids = Query::select()
        .column(Alias::new(ID))
        .from_subquery(way.page(window)?, "page")
        .to_owned();
    let of_platform = with_requests().filter(Column::PlatformId.eq(platform.as_str()));
    Some(of_platform.filter(Column::Id.in_subquery(ids)))
}

/// The total that is told when so many matches are known: above the largest count only where a kept count says it.
fn known_total(way: &Way, matches: u64) -> u64 {
    match way {
        Way::Ranges { total: Some(_), .. } => matches,
        _ => Ord::min(matches, TOTAL_MAX),
    }
}

/// Number of matches: as it is kept, or counted up to [`TOTAL_MAX`].
async fn count(conn: &impl ConnectionTrait, way: &Way) -> Result<u64, StoreError> {
    match way {
        Way::Ranges { total: Some(total), .. } => Ok(*total),
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
    async fn plan(db: &Db, filter: &PaymentFilter, client: Option<&str>, begin: Begin) -> String {
        let scope = Scope {
            platform: PlatformId("platform".into()),
            client: client.map(|client| ClientRowId(client.into())),
        };
        let way = way(db.reader(), &scope, filter).await.unwrap();
        let rows = rows_of(&scope.platform, &way, &Window { begin, limit: 21 }).unwrap();
        plans::steps(db, &rows.into_query()).await
    }

    #[tokio::test]
    async fn every_search_of_sqlite_reads_its_own_index() {
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
            // More than are read whole beside a merchant reference.
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
            let steps = plan(db, &filter, client, Begin::Row(0)).await;
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
            let steps = plan(db, &undated, client, Begin::After(last)).await;
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
    async fn who_is_shown_nothing_hidden_reads_no_hidden_group() {
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
                if let Way::Ranges { total: Some(total), .. } = way {
                    assert_eq!(total, wanted, "{filter:?}");
                }
            }
        }
    }
}
