//! Payment requests.

use super::{
    Scope, Sealing, StoreError, TOTAL_MAX, Tx,
    columns::{self, CapturedFeeColumn, ChargeColumns},
    sealed,
};
use crate::{
    domain::{
        amount::Amount,
        conversion::RateBounds,
        ids::{ClientRowId, OrchestratorId, PlatformId, RequestId, RequestRowId, ScheduleId},
        ledger::{Ledger, PaymentEnding, RequestStatus},
        network::Network,
        paying::charge::{Charge, FeeOrigin},
        payment::PaymentKind,
        request::{
            Origin, Request,
            price::PriceTerms,
            terms::{CustomerAddress, CustomerInfo, Frequency, Recurrence, Terms},
        },
    },
    ports::sealer::EncryptionContext,
};
use alloy::primitives::{Address as EvmAddress, B256};
use chrono::{DateTime, Utc};
use entities::{
    payments,
    requests::{ActiveModel, Column, Entity, Model},
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, JsonValue, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    Select,
    sea_query::{
        Expr, ExprTrait, Func, IntoIden, LockType, Query, SelectStatement, SimpleExpr, TableRef, UnionType,
        UpdateStatement, ValueTuple,
    },
};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// Maximum number of new requests in one statement. A row has dozens of values, and a statement of SQLite accepts
/// 32,766.
const INSERTED_TOGETHER: usize = 100;

/// Value of the public client ID of a request that was created without one. It is not NULL, so that one index counts
/// the requests of a public client ID as well as those created without one.
const NO_PUBLIC_CLIENT: &str = "";

/// Alias of the list of values in an update.
const GIVEN: &str = "given";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CustomerColumn {
    #[serde(skip_serializing_if = "Option::is_none")]
    first_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<CustomerAddressColumn>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CustomerAddressColumn {
    #[serde(skip_serializing_if = "Option::is_none")]
    street: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    city: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    postal_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    country: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecurrenceColumn {
    start_date: String,
    frequency: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceColumn {
    #[serde(skip_serializing_if = "Option::is_none")]
    rates: Option<RatesColumn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    platform_fee: Option<FeeColumn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol_fee: Option<FeeColumn>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    orchestrator_fees: Vec<CapturedFeeColumn>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RatesColumn {
    path: Vec<EvmAddress>,
    max_age_s: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FeeColumn {
    basis_points: i32,
    receiver: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cap: Option<String>,
}

/// Encryption context of the customer of a request.
pub(super) fn customer_place<'a>(platform: &'a str, row: &'a str) -> EncryptionContext<'a> {
    EncryptionContext {
        column: "requests.customer",
        owner: platform,
        row,
    }
}

/// Writes the customer column: the encrypted text of a JSON object, as a JSON text.
fn customer_to_json(
    conn: &impl Sealing,
    place: EncryptionContext<'_>,
    customer: &CustomerInfo,
) -> Result<JsonValue, StoreError> {
    let address = customer.address.clone().map(|address| CustomerAddressColumn {
        street: address.street,
        city: address.city,
        state: address.state,
        postal_code: address.postal_code,
        country: address.country,
    });
    let column = CustomerColumn {
        first_name: customer.first_name.clone(),
        last_name: customer.last_name.clone(),
        email: customer.email.clone(),
        address,
    };
    let clear = columns::to_json("customer", &column)?.to_string();
    sealed::seal(conn, clear, place).map(JsonValue::String)
}

/// Reads the customer column.
pub(super) fn customer_from_json(
    conn: &impl Sealing,
    place: EncryptionContext<'_>,
    value: JsonValue,
) -> Result<CustomerInfo, StoreError> {
    let text = value.as_str().ok_or_else(|| columns::broken("customer", "no text"))?;
    let opened = sealed::open(conn, text, place)?;
    let clear = serde_json::from_str(&opened).map_err(|_| columns::broken("customer", "no JSON"))?;
    let column: CustomerColumn = columns::from_json("customer", clear)?;
    Ok(CustomerInfo {
        first_name: column.first_name,
        last_name: column.last_name,
        email: column.email,
        address: column.address.map(|address| CustomerAddress {
            street: address.street,
            city: address.city,
            state: address.state,
            postal_code: address.postal_code,
            country: address.country,
        }),
    })
}

fn recurrence_to_json(recurrence: &Recurrence) -> Result<JsonValue, StoreError> {
    let column = RecurrenceColumn {
        start_date: recurrence.start_date.to_string(),
        frequency: recurrence.frequency.wire().to_owned(),
    };
    columns::to_json("recurrence", &column)
}

fn recurrence_from_json(value: JsonValue, is_stopped: bool) -> Result<Recurrence, StoreError> {
    let column: RecurrenceColumn = columns::from_json("recurrence", value)?;
    // A row may contain a full timestamp; its text begins with the day.
    let day = |text: &str| text.get(..10)?.parse().ok();
    Ok(Recurrence {
        frequency: columns::known("recurrence", &column.frequency, Frequency::from_wire)?,
        start_date: columns::known("recurrence", &column.start_date, day)?,
        is_stopped,
    })
}

/// Writes the price column; `None` if no price terms are fixed.
fn price_to_json(price: &PriceTerms) -> Result<Option<JsonValue>, StoreError> {
    if *price == PriceTerms::default() {
        return Ok(None);
    }
    let fee = |fee: &Charge| FeeColumn {
        basis_points: fee.rate.basis_points().into(),
        receiver: fee.receiver.canonical(),
        cap: fee.cap.map(|cap| cap.to_string()),
    };
    let ChargeColumns {
        platform,
        protocol,
        captured,
    } = ChargeColumns::of("price", &price.charges)?;
    let column = PriceColumn {
        rates: price.rates.as_ref().map(|rates| RatesColumn {
            path: rates.path.clone(),
            max_age_s: rates.max_age_s,
        }),
        platform_fee: platform.map(fee),
        protocol_fee: protocol.map(fee),
        orchestrator_fees: captured,
    };
    columns::to_json("price", &column).map(Some)
}

fn price_from_json(value: JsonValue) -> Result<PriceTerms, StoreError> {
    let column: PriceColumn = columns::from_json("price", value)?;
    let platform = column.platform_fee.map(|fee| {
        let rate = columns::percent("price", fee.basis_points)?;
        let receiver = columns::address("price", &fee.receiver)?;
        Ok::<_, StoreError>(Charge::platform(FeeOrigin::ClientId, rate, receiver))
    });
    let protocol = column.protocol_fee.map(|fee| {
        let rate = columns::percent("price", fee.basis_points)?;
        let cap = fee.cap.map(|cap| columns::units("price", &cap)).transpose()?;
        Ok::<_, StoreError>(Charge::protocol(rate, columns::address("price", &fee.receiver)?, cap))
    });
    Ok(PriceTerms {
        rates: column.rates.map(|rates| RateBounds {
            path: rates.path,
            max_age_s: rates.max_age_s,
        }),
        charges: platform
            .into_iter()
            .chain(protocol)
            .chain(column.orchestrator_fees.iter().map(CapturedFeeColumn::charge))
            .collect::<Result<_, _>>()?,
    })
}

pub(super) fn to_row(conn: &impl Sealing, request: &Request) -> Result<Model, StoreError> {
    let Request {
        origin, terms, ledger, ..
    } = request;
    let place = customer_place(origin.platform.as_str(), request.row.as_str());
    let customer = terms.customer.as_ref();
    let customer = customer.map(|customer| customer_to_json(conn, place, customer));
    let running = terms.recurrence.as_ref().filter(|recurrence| !recurrence.is_stopped);
    Ok(Model {
        id: request.row.0.clone(),
        platform_id: origin.platform.0.clone(),
        client_row: origin.client.as_ref().map(|client| client.0.clone()),
        client_id: origin.client_id.clone(),
        origin: origin.page.clone(),
        request_id: request.id.0.clone(),
        salt: request.salt.clone(),
        reference: columns::reference_text(&request.reference),
        reference_topic: columns::hash_text(&request.reference.topic()),
        kind: terms.kind.wire().to_owned(),
        status: ledger.status.wire().to_owned(),
        network: terms.network.id().to_owned(),
        payee: terms.payee.map(|payee| payee.canonical()).unwrap_or_default(),
        payer: terms.payer.map(|payer| payer.canonical()),
        amount: terms.amount.as_str().to_owned(),
        invoice_currency: terms.invoice_currency.clone(),
        payment_currency: terms.payment_currency.clone(),
        token: terms.token.map(|token| token.canonical()),
        expected: ledger.expected.to_string(),
        credited: ledger.credited.to_string(),
        orchestrator_fees: columns::orchestrator_fees_text(ledger.orchestrator_fees),
        payment_count: columns::number("payment_count", ledger.payment_count)?,
        tx_hash: ledger.tx_hash.map(|hash| hash.to_string()),
        merchant_reference: terms.merchant_reference.clone(),
        customer: customer.transpose()?,
        recurrence: terms.recurrence.as_ref().map(recurrence_to_json).transpose()?,
        is_recurrence_stopped: terms.is_recurrence_stopped(),
        original_request_id: terms.original_request_id.clone(),
        original_request_reference: terms.original_request_reference.clone(),
        is_crypto_to_fiat: terms.is_crypto_to_fiat,
        is_ordered: ledger.ending == PaymentEnding::BankOrdered,
        is_listening: ledger.is_listening,
        is_told_paid: ledger.is_told_paid,
        reversals: columns::number("reversals", ledger.reversals)?,
        created_at: request.created_at,
        updated_at: request.created_at,
        paid_at: None,
        is_hidden: request.is_hidden,
        link_until: request.link_until,
        public_client: match (request.is_by_public_client, &origin.client) {
            (true, Some(client)) => client.0.clone(),
            _ => NO_PUBLIC_CLIENT.to_owned(),
        },
        schedule_id: terms.schedule.as_ref().map(|schedule| schedule.0.clone()),
        next_period: i32::from(running.is_some()),
        next_period_at: running.and_then(|recurrence| recurrence.begin_of(1)),
        parent_row: None,
        period: None,
        is_quoted: terms.is_quoted,
        tolerated: ledger.tolerated.to_string(),
        price: price_to_json(&terms.price)?,
        orchestrator_id: origin.orchestrator.as_ref().map(|orchestrator| orchestrator.0.clone()),
    })
}

pub(super) fn from_row(conn: &impl Sealing, row: Model) -> Result<Request, StoreError> {
    let place = customer_place(&row.platform_id, &row.id);
    let customer = row.customer.map(|value| customer_from_json(conn, place, value));
    let customer = customer.transpose()?;
    let amount = |text: &str| Amount::parse(text).ok();
    let tx_hash = row.tx_hash.map(|text| columns::hash("tx_hash", &text));
    let is_stopped = row.is_recurrence_stopped;
    let recurrence = row.recurrence.map(|value| recurrence_from_json(value, is_stopped));
    Ok(Request {
        row: RequestRowId(row.id),
        id: RequestId(row.request_id),
        salt: row.salt,
        reference: columns::reference(&row.reference)?,
        origin: Origin {
            platform: PlatformId(row.platform_id),
            client: row.client_row.map(ClientRowId),
            client_id: row.client_id,
            page: row.origin,
            orchestrator: row.orchestrator_id.map(OrchestratorId),
        },
        terms: Terms {
            kind: columns::known("kind", &row.kind, PaymentKind::from_wire)?,
            network: columns::network(&row.network)?,
            payee: columns::address_option("payee", Some(row.payee.as_str()).filter(|payee| !payee.is_empty()))?,
            payer: columns::address_option("payer", row.payer.as_deref())?,
            amount: columns::known("amount", &row.amount, amount)?,
            invoice_currency: row.invoice_currency,
            payment_currency: row.payment_currency,
            token: columns::address_option("token", row.token.as_deref())?,
            merchant_reference: row.merchant_reference,
            customer,
            recurrence: recurrence.transpose()?,
            original_request_id: row.original_request_id,
            original_request_reference: row.original_request_reference,
            is_crypto_to_fiat: row.is_crypto_to_fiat,
            schedule: row.schedule_id.map(ScheduleId),
            is_quoted: row.is_quoted,
            price: row.price.map(price_from_json).transpose()?.unwrap_or_default(),
        },
        ledger: Ledger {
            expected: columns::units("expected", &row.expected)?,
            tolerated: columns::units("tolerated", &row.tolerated)?,
            credited: columns::units("credited", &row.credited)?,
            orchestrator_fees: columns::orchestrator_fees(row.orchestrator_fees.as_deref())?,
            payment_count: columns::number("payment_count", row.payment_count)?,
            status: columns::known("status", &row.status, RequestStatus::from_wire)?,
            tx_hash: tx_hash.transpose()?,
            is_listening: row.is_listening,
            is_told_paid: row.is_told_paid,
            reversals: columns::number("reversals", row.reversals)?,
            ending: match (row.is_crypto_to_fiat, row.is_ordered) {
                (false, _) => PaymentEnding::Wallet,
                (true, false) => PaymentEnding::Bank,
                (true, true) => PaymentEnding::BankOrdered,
            },
        },
        created_at: row.created_at,
        is_hidden: row.is_hidden,
        link_until: row.link_until,
        is_by_public_client: row.public_client != NO_PUBLIC_CLIENT,
    })
}

/// Rows that a scope may see.
fn owned(scope: &Scope) -> Condition {
    Condition::all()
        .add(Column::PlatformId.eq(scope.platform.as_str()))
        .add_option(
            scope
                .client
                .as_ref()
                .map(|client| Column::ClientRow.eq(client.as_str())),
        )
}

/// Adds a request with one statement, so that it needs no transaction.
///
/// Errors: [`StoreError::Conflict`] with [`super::REQUEST_REFERENCE`] when the reference is taken.
pub async fn insert(conn: &impl Sealing, request: &Request) -> Result<(), StoreError> {
    Entity::insert(ActiveModel::from(to_row(conn, request)?))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Writes new requests, with one statement for many.
///
/// Errors: [`StoreError::Conflict`] with [`super::REQUEST_REFERENCE`] when a reference is taken.
pub async fn insert_all(conn: &impl Sealing, requests: &[&Request]) -> Result<(), StoreError> {
    for requests in requests.chunks(INSERTED_TOGETHER) {
        let rows = requests
            .iter()
            .map(|request| Ok(ActiveModel::from(to_row(conn, request)?)));
        let rows = rows.collect::<Result<Vec<_>, StoreError>>()?;
        Entity::insert_many(rows).exec_without_returning(conn).await?;
    }
    Ok(())
}

/// Finds a request by its public id.
pub async fn find(conn: &impl Sealing, scope: &Scope, request_id: &str) -> Result<Option<Request>, StoreError> {
    let row = Entity::find()
        .filter(owned(scope))
        .filter(Column::RequestId.eq(request_id))
        .one(conn)
        .await?;
    row.map(|row| from_row(conn, row)).transpose()
}

/// Finds requests by their public ids, with one statement for many.
pub async fn find_all(
    conn: &impl Sealing,
    scope: &Scope,
    request_ids: &[String],
) -> Result<HashMap<String, Request>, StoreError> {
    let mut found = HashMap::new();
    for ids in request_ids.chunks(columns::ROWS_MAX) {
        let rows = Entity::find()
            .filter(owned(scope))
            .filter(Column::RequestId.is_in(ids.iter().map(String::as_str)));
        for row in rows.all(conn).await? {
            let request = from_row(conn, row)?;
            found.insert(request.id.0.clone(), request);
        }
    }
    Ok(found)
}

/// Finds a request of any platform by its public id, for the operator.
pub async fn of_any_platform(conn: &impl Sealing, request_id: &str) -> Result<Option<Request>, StoreError> {
    let row = Entity::find()
        .filter(Column::RequestId.eq(request_id))
        .one(conn)
        .await?;
    row.map(|row| from_row(conn, row)).transpose()
}

/// Reads requests by their platforms and rows.
pub async fn of_rows<'r>(
    conn: &impl Sealing,
    rows: impl IntoIterator<Item = (&'r PlatformId, &'r RequestRowId)>,
) -> Result<HashMap<RequestRowId, Request>, StoreError> {
    let rows = rows.into_iter().map(|(platform, row)| (platform, row.as_str()));
    let mut found = HashMap::new();
    for (platform, rows) in columns::by_owner(rows) {
        for rows in rows.chunks(columns::ROWS_MAX) {
            let rows = Entity::find()
                .filter(Column::PlatformId.eq(platform.as_str()))
                .filter(Column::Id.is_in(rows.iter().copied()));
            for row in rows.all(conn).await? {
                let request = from_row(conn, row)?;
                found.insert(request.row.clone(), request);
            }
        }
    }
    Ok(found)
}

/// A request that this program cannot read.
#[derive(Debug)]
pub struct UnreadableRequest {
    /// Public id.
    pub id: String,
    /// Topic of its payments.
    pub topic: B256,
    /// What is wrong with the row of the request.
    pub error: StoreError,
}

/// Finds the requests of any platform whose payments have one of these reference topics, with one statement; unreadable
/// requests are listed separately.
pub async fn by_topics(
    conn: &impl Sealing,
    network: Network,
    topics: &HashSet<B256>,
) -> Result<(Vec<Request>, Vec<UnreadableRequest>), StoreError> {
    if topics.is_empty() {
        return Ok(Default::default());
    }
    readable(conn, with_topics(conn, network, topics).all(conn).await?)
}

fn readable(conn: &impl Sealing, rows: Vec<Model>) -> Result<(Vec<Request>, Vec<UnreadableRequest>), StoreError> {
    let (mut requests, mut unreadable) = (Vec::new(), Vec::new());
    for row in rows {
        let (id, topic) = (row.request_id.clone(), row.reference_topic.clone());
        match from_row(conn, row) {
            Ok(request) => requests.push(request),
            Err(error) => unreadable.push(UnreadableRequest {
                id,
                topic: columns::hash("reference_topic", &topic)?,
                error,
            }),
        }
    }
    Ok((requests, unreadable))
}

/// Those of the given reference topics that belong to a request of any platform, with one statement.
pub async fn known_topics(
    conn: &impl ConnectionTrait,
    network: Network,
    topics: &HashSet<B256>,
) -> Result<HashSet<B256>, StoreError> {
    if topics.is_empty() {
        return Ok(HashSet::new());
    }
    let matching = with_topics(conn, network, topics)
        .select_only()
        .column(Column::ReferenceTopic);
    let known: Vec<String> = matching.into_tuple().all(conn).await?;
    let topic = |text: &String| columns::hash("reference_topic", text);
    known.iter().map(topic).collect()
}

fn with_topics(conn: &impl ConnectionTrait, network: Network, topics: &HashSet<B256>) -> Select<Entity> {
    let topics = topics.iter().map(columns::hash_text);
    Entity::find()
        .filter(Column::Network.eq(network.id()))
        .filter(columns::is_among(conn, Column::ReferenceTopic, topics))
}

/// Requests of a network, of any platform, whose ledger is credited although they have no payment, or only reversed
/// ones. Unreadable requests are listed separately.
pub async fn accounts_of_nothing(
    conn: &impl Sealing,
    network: Network,
) -> Result<(Vec<Request>, Vec<UnreadableRequest>), StoreError> {
    let unpaid = [RequestStatus::Pending, RequestStatus::Cancelled].map(RequestStatus::wire);
    let rows = Entity::find()
        .filter(Column::Network.eq(network.id()))
        .filter(
            Condition::any()
                .add(Column::Status.is_not_in(unpaid))
                .add(Column::PaymentCount.ne(0))
                .add(Column::Credited.ne("0")),
        )
        .filter(Expr::exists(counting_payments()).not())
        .all(conn)
        .await?;
    readable(conn, rows)
}

/// Subquery for payments that are not reversed, of the request in the outer query.
fn counting_payments() -> SelectStatement {
    Query::select()
        .expr(Expr::val(1))
        .from(payments::Entity)
        .and_where(
            payments::Column::PlatformId
                .into_expr()
                .eq(Expr::col((Entity, Column::PlatformId))),
        )
        .and_where(
            payments::Column::RequestId
                .into_expr()
                .eq(Expr::col((Entity, Column::RequestId))),
        )
        .and_where(payments::Column::ReversedAt.is_null())
        .to_owned()
}

/// Whether a network has a request that awaits payment: the request is not fully paid and not older than `since`.
pub async fn is_awaited(
    conn: &impl ConnectionTrait,
    network: Network,
    since: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let open = [RequestStatus::Pending, RequestStatus::PartiallyPaid].map(RequestStatus::wire);
    let found = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::Network.eq(network.id()))
        .filter(Column::CreatedAt.gte(since))
        .filter(Column::Status.is_in(open))
        .into_tuple::<String>()
        .one(conn)
        .await?;
    Ok(found.is_some())
}

/// Condition for a request that awaits payment. It contains no parameter, so that the database can use the partial
/// indexes with this condition.
const OPEN: &str = "status IN ('pending', 'partially_paid')";

/// Takes the lock for counting the open requests of a scope, until the transaction ends. Only transactions that count
/// the requests of the same scope wait for each other.
pub async fn take_turn(tx: &Tx, scope: &Scope) -> Result<(), StoreError> {
    let of = match &scope.client {
        Some(client) => client.as_str(),
        None => scope.platform.as_str(),
    };
    tx.take_turn(&format!("open requests of {of}")).await
}

/// Number of open requests that the public client ID of the scope created. If the scope has no client ID, the number of
/// those that no public client ID created on its platform. A request without a link counts if it was created after
/// `since`; a request with a link counts until the link expires. The count stops at `up_to`.
pub async fn count_open(
    conn: &impl ConnectionTrait,
    scope: &Scope,
    since: DateTime<Utc>,
    now: DateTime<Utc>,
    up_to: u64,
) -> Result<u64, StoreError> {
    count_up_to(conn, open(scope, since, now), up_to).await
}

/// The query for the requests that [`count_open`] counts. It uses only columns of one index, so that it reads no row of
/// the table.
fn open(scope: &Scope, since: DateTime<Utc>, now: DateTime<Utc>) -> SelectStatement {
    let public_client = scope.client.as_ref().map_or(NO_PUBLIC_CLIENT, ClientRowId::as_str);
    let open = |counts: SimpleExpr| {
        Entity::find()
            .select_only()
            .column(Column::PlatformId)
            .filter(Column::PlatformId.eq(scope.platform.as_str()))
            .filter(Column::PublicClient.eq(public_client))
            .filter(Expr::cust(OPEN))
            .filter(counts)
            .into_query()
    };
    let mut unlinked = open(Column::LinkUntil.is_null().and(Column::CreatedAt.gt(since)));
    unlinked
        .union(UnionType::All, open(Column::LinkUntil.gte(now)))
        .to_owned()
}

/// Sets the expiry of the link that pays some requests of a platform; the requests are locked.
pub async fn set_link_until(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    rows: &[&RequestRowId],
    until: DateTime<Utc>,
) -> Result<(), StoreError> {
    for rows in rows.chunks(columns::ROWS_MAX) {
        Entity::update_many()
            .col_expr(Column::LinkUntil, Expr::value(until))
            .filter(Column::PlatformId.eq(platform.as_str()))
            .filter(columns::is_among(
                conn,
                Column::Id,
                rows.iter().map(|row| row.0.clone()),
            ))
            .exec(conn)
            .await?;
    }
    Ok(())
}

/// Marks requests of a platform, given by their rows, as hidden; returns the public ids of those that were not hidden
/// before.
pub(super) async fn hide(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    rows: &[&RequestRowId],
) -> Result<Vec<String>, StoreError> {
    let mut hidden = Vec::new();
    for rows in rows.chunks(columns::ROWS_MAX) {
        let mut marking = Query::update()
            .table(Entity)
            .value(Column::IsHidden, true)
            .and_where(Column::PlatformId.eq(platform.as_str()))
            .and_where(Column::Id.is_in(rows.iter().map(|row| row.as_str())))
            .and_where(Column::IsHidden.eq(false))
            .to_owned();
        for row in conn.query_all(marking.returning_col(Column::RequestId)).await? {
            hidden.push(row.try_get("", "request_id")?);
        }
    }
    Ok(hidden)
}

/// Those of the given requests of a platform, by public id, that a link hides.
pub async fn hidden_among(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    ids: impl IntoIterator<Item = String>,
) -> Result<HashSet<String>, StoreError> {
    let found = Entity::find()
        .select_only()
        .column(Column::RequestId)
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(columns::is_among(conn, Column::RequestId, ids))
        .filter(Column::IsHidden.eq(true))
        .into_tuple::<String>()
        .all(conn)
        .await?;
    Ok(found.into_iter().collect())
}

/// Which requests a page lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFilter {
    /// Every request.
    All,
    /// Requests that no link hides.
    Shown,
}

/// Requests that a page lists. `NOT is_hidden` is written without a parameter, so that the database can use the partial
/// indexes with this condition.
fn matching(scope: &Scope, listed: RequestFilter, payee: Option<&str>) -> Select<Entity> {
    let shown = (listed == RequestFilter::Shown).then(|| Expr::col((Entity, Column::IsHidden)).not());
    Entity::find()
        .filter(owned(scope).add_option(shown))
        .apply_if(payee, |query, payee| query.filter(Column::Payee.eq(payee)))
}

fn newest_first(requests: Select<Entity>) -> Select<Entity> {
    requests.order_by_desc(Column::CreatedAt).order_by_desc(Column::Id)
}

/// One page of requests, newest first, and their total, counted up to [`TOTAL_MAX`].
///
/// `payee` is a canonical address.
pub async fn list(
    conn: &impl Sealing,
    scope: &Scope,
    listed: RequestFilter,
    payee: Option<&str>,
    limit: u64,
    offset: u64,
) -> Result<(Vec<Request>, u64), StoreError> {
    let matching = matching(scope, listed, payee);
    let rows = newest_first(matching.clone())
        .limit(limit)
        .offset(offset)
        .all(conn)
        .await?;
    let total = match known_total(rows.len(), limit, offset) {
        Some(total) => total,
        None => count(conn, matching.select_only().column(Column::Id).into_query()).await?,
    };
    let requests = rows
        .into_iter()
        .map(|row| from_row(conn, row))
        .collect::<Result<_, _>>()?;
    Ok((requests, total))
}

/// The total number of matches, if it follows from the page: the page is the last one, and does not begin after the
/// last match.
pub(super) fn known_total(rows: usize, limit: u64, offset: u64) -> Option<u64> {
    let rows = u64::try_from(rows).ok()?;
    let is_last = rows < limit && (rows > 0 || offset == 0);
    is_last.then_some(Ord::min(offset + rows, TOTAL_MAX))
}

/// Counts the rows of a query, at most [`TOTAL_MAX`], so that the cost does not grow with the table.
pub(super) async fn count(conn: &impl ConnectionTrait, matching: SelectStatement) -> Result<u64, StoreError> {
    count_up_to(conn, matching, TOTAL_MAX).await
}

/// Counts the rows of a query up to a number.
pub(super) async fn count_up_to(
    conn: &impl ConnectionTrait,
    mut matching: SelectStatement,
    up_to: u64,
) -> Result<u64, StoreError> {
    matching.limit(up_to);
    let counting = Query::select()
        .expr_as(Expr::cust("COUNT(*)"), "total")
        .from_subquery(matching, "matching")
        .to_owned();
    let total: i64 = match conn.query_one(&counting).await? {
        Some(row) => row.try_get("", "total")?,
        None => 0,
    };
    columns::number("total", total)
}

/// Locks a request until the transaction ends.
pub async fn lock(conn: &impl ConnectionTrait, request: &Request) -> Result<(), StoreError> {
    lock_all(conn, &[request]).await
}

/// Locks requests until the transaction ends. All transactions lock several requests in the same order, which prevents
/// deadlocks.
pub async fn lock_all(conn: &impl ConnectionTrait, requests: &[&Request]) -> Result<(), StoreError> {
    for (platform, requests) in columns::in_parts(requests) {
        Entity::find()
            .select_only()
            .column(Column::Id)
            .filter(these(conn, platform, &requests))
            .order_by_asc(Column::Id)
            .lock(LockType::NoKeyUpdate)
            .into_tuple::<String>()
            .all(conn)
            .await?;
    }
    Ok(())
}

/// The rows of requests of a platform.
fn these(conn: &impl ConnectionTrait, platform: &PlatformId, requests: &[&Request]) -> Condition {
    let rows = requests.iter().map(|request| request.row.0.clone());
    Condition::all()
        .add(Column::PlatformId.eq(platform.as_str()))
        .add(columns::is_among(conn, Column::Id, rows))
}

/// Records that calldata was issued and payments are awaited. A request that is paid or cancelled stays unchanged.
/// Several requests must be locked before this call.
pub async fn set_listening(conn: &impl ConnectionTrait, requests: &[&Request]) -> Result<(), StoreError> {
    let closed = [RequestStatus::Paid, RequestStatus::Cancelled].map(RequestStatus::wire);
    for (platform, requests) in columns::in_parts(requests) {
        Entity::update_many()
            .col_expr(Column::IsListening, Expr::value(true))
            .filter(these(conn, platform, &requests))
            .filter(Column::IsListening.eq(false))
            .filter(Column::Status.is_not_in(closed))
            .exec(conn)
            .await?;
    }
    Ok(())
}

/// Writes the changes that payments made to a request, if its state, totals and hidden flag are still those that were
/// read. The hidden flag matters, because the payments are recorded with it.
///
/// Returns whether it did; after `false`, the caller must decide again from the new state.
pub async fn advance(
    conn: &impl ConnectionTrait,
    request: &Request,
    after: &Ledger,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    advance_all(conn, &[(request, after)], now).await
}

/// Does what [`advance`] does, for several requests with one statement for a batch. `false` means that at least one
/// request has changed since it was read, so the transaction must not commit.
pub async fn advance_all(
    conn: &impl ConnectionTrait,
    changes: &[(&Request, &Ledger)],
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    // PostgreSQL locks the rows in the order of the list. Flows that lock requests do so in the order of their rows, and
    // another order could end in a deadlock with them.
    let mut changes = changes.to_vec();
    changes.sort_by_key(|(request, _)| (request.origin.platform.as_str(), request.row.as_str()));
    for changes in changes.chunks(columns::ROWS_MAX) {
        let rows = changes.iter().map(|(request, after)| changed(request, after));
        let result = conn.execute(&advancement(rows.collect::<Result<_, _>>()?, now)).await?;
        if usize::try_from(result.rows_affected()).ok() != Some(changes.len()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A row of [`advancement`].
fn changed(request: &Request, after: &Ledger) -> Result<ValueTuple, StoreError> {
    let before = &request.ledger;
    let count_before: i32 = columns::number("payment_count", before.payment_count)?;
    let count_after: i32 = columns::number("payment_count", after.payment_count)?;
    let reversals_before: i32 = columns::number("reversals", before.reversals)?;
    let reversals_after: i32 = columns::number("reversals", after.reversals)?;
    // The flag `is_listening` may have been set since the row was read, so it is written only if this change sets it.
    let is_listening =
        (after.is_listening != before.is_listening || after.has_been_paid()).then_some(after.is_listening);
    let becomes_paid = after.has_been_paid() && !before.has_been_paid();
    let becomes_due = before.has_been_paid() && !after.has_been_paid();
    Ok(ValueTuple::Many(vec![
        request.row.as_str().into(),
        before.status.wire().into(),
        before.credited.to_string().into(),
        count_before.into(),
        after.status.wire().into(),
        after.credited.to_string().into(),
        count_after.into(),
        after.tx_hash.map(|hash| hash.to_string()).into(),
        is_listening.into(),
        becomes_paid.into(),
        becomes_due.into(),
        after.is_told_paid.into(),
        reversals_before.into(),
        reversals_after.into(),
        (before.ending == PaymentEnding::BankOrdered).into(),
        (after.ending == PaymentEnding::BankOrdered).into(),
        request.is_hidden.into(),
        request.origin.platform.as_str().into(),
        columns::orchestrator_fees_text(after.orchestrator_fees).into(),
    ]))
}

/// One update of all given rows, each with its own values. Both databases name the columns of a list of values
/// `column1`, `column2` and so on.
fn advancement(rows: Vec<ValueTuple>, now: DateTime<Utc>) -> UpdateStatement {
    let given = |column: &'static str| Expr::col((GIVEN, column));
    let stored = |column: Column| Expr::col((Entity, column));
    let paid_at = Expr::case(given("column10").eq(true), Expr::value(now))
        .case(given("column11").eq(true), Expr::value(None::<DateTime<Utc>>))
        .finally(stored(Column::PaidAt));
    let is_listening = Func::coalesce([given("column9"), stored(Column::IsListening)]);
    Query::update()
        .table(Entity)
        .from(TableRef::ValuesList(rows, GIVEN.into_iden()))
        .value(Column::Status, given("column5"))
        .value(Column::Credited, given("column6"))
        .value(Column::OrchestratorFees, given("column19"))
        .value(Column::PaymentCount, given("column7"))
        .value(Column::TxHash, given("column8"))
        .value(Column::IsListening, Expr::from(is_listening))
        .value(Column::PaidAt, paid_at)
        .value(Column::IsToldPaid, given("column12"))
        .value(Column::Reversals, given("column14"))
        .value(Column::IsOrdered, given("column16"))
        .value(Column::UpdatedAt, now)
        .and_where(stored(Column::PlatformId).eq(given("column18")))
        .and_where(stored(Column::Id).eq(given("column1")))
        .and_where(stored(Column::Status).eq(given("column2")))
        .and_where(stored(Column::Credited).eq(given("column3")))
        .and_where(stored(Column::PaymentCount).eq(given("column4")))
        .and_where(stored(Column::Reversals).eq(given("column13")))
        .and_where(stored(Column::IsOrdered).eq(given("column15")))
        .and_where(stored(Column::IsHidden).eq(given("column17")))
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::plans::{steps, with_database};

    #[tokio::test]
    async fn open_requests_are_counted_from_a_covering_index() {
        with_database(async |db| {
            for client in [None, Some(ClientRowId("client".into()))] {
                let scope = Scope {
                    platform: PlatformId("platform".into()),
                    client,
                };
                let plan = steps(db, &open(&scope, DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH)).await;
                for counted in ["link_until=? AND created_at>?", "link_until>?"] {
                    let index = format!(
                        "COVERING INDEX requests_awaited_idx (platform_id=? AND public_client=? AND {counted})"
                    );
                    assert!(plan.contains(&index), "{plan}");
                }
            }
        })
        .await;
    }

    #[tokio::test]
    async fn lists_without_hidden_requests_use_an_index_of_visible_ones() {
        with_database(async |db| {
            let scope = Scope {
                platform: PlatformId("platform".into()),
                client: Some(ClientRowId("client".into())),
            };
            for (payee, index) in [
                (None, "requests_shown_idx (platform_id=? AND client_row=?)"),
                (
                    Some("0x"),
                    "requests_shown_payee_idx (platform_id=? AND client_row=? AND payee=?)",
                ),
            ] {
                let shown = matching(&scope, RequestFilter::Shown, payee);
                let page = newest_first(shown.clone()).limit(20).into_query();
                let counted = shown.select_only().column(Column::Id).into_query();
                for statement in [page, counted] {
                    let plan = steps(db, &statement).await;
                    assert!(plan.contains(index), "{index}:\n{plan}");
                    assert!(!plan.contains("TEMP B-TREE"), "{plan}");
                }
                let all = newest_first(matching(&scope, RequestFilter::All, payee)).limit(20);
                let plan = steps(db, &all.into_query()).await;
                assert!(
                    !plan.contains("requests_shown") && !plan.contains("TEMP B-TREE"),
                    "{plan}"
                );
            }
        })
        .await;
    }
}
