//! Secure payments with their items, the transactions that payers report, and the reports about rejected wallets.

use super::{
    Scope, Sealing, StoreError,
    columns::{self, CapturedFeeColumn, ChargeColumns, RequestColumns},
    payments, requests, secure_payment_names,
};
use crate::domain::{
    address::Address,
    destination::{AccessMode, ScreeningProvider},
    ids::{
        ClientRowId, IntentId, OrchestratorId, PlatformId, RequestId, RequestRowId, SecurePaymentId, SecurePaymentToken,
    },
    interop_address::{DestinationKey, InteropAddress},
    ledger::RequestStatus,
    network::Network,
    paying::charge::{Charge, FeeOrigin},
    request::{Origin, Request},
    secure_payment::{
        LinkDetails, MerchantNames, PaymentFlow, PaymentItem, SecurePayment, SecurePaymentStatus,
        access::AccessPolicy,
        attempt::{Attempt, AttemptId, WalletAttempts},
        intent::{IntentKind, IntentState, PaymentIntent, Source, TransactionIndex},
        lock::SafeLock,
        redirect::RedirectButton,
    },
};
use alloy::primitives::B256;
use chrono::{DateTime, Utc};
use entities::{
    payments as payment_rows, requests as request_rows, screening_questions, screenings, secure_payment_intents,
    secure_payment_items, secure_payment_owners, secure_payment_refusals, secure_payment_safes,
    secure_payments::{ActiveModel, Column, Entity, Model},
};
use screening_questions::Column as Asked;
use screenings::Column as Screened;
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, JsonValue, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect, QueryTrait,
    sea_query::{DeleteStatement, Expr, ExprTrait, LockBehavior, LockType, OnConflict, Query, SelectStatement},
};
use secure_payment_intents::Column as IntentColumn;
use secure_payment_items::Column as Part;
use secure_payment_owners::Column as Owner;
use secure_payment_refusals::Column as Refused;
use secure_payment_safes::Column as OfSafe;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The columns that refer to the request of an item.
const PART_REQUEST: RequestColumns<Part> = RequestColumns {
    platform: Part::PlatformId,
    row: Part::RequestRow,
};

/// Number of broadcast payments of a link whose expirations are read. More than this are never alive at once, because
/// `admit_another` bounds them.
const EXPIRATIONS_MAX: u64 = 64;

/// Attempts in the JSON form of the column.
#[derive(Serialize, Deserialize)]
struct StoredAttempts {
    kept: Vec<StoredAttempt>,
    warned_until: Option<DateTime<Utc>>,
}

#[derive(Serialize, Deserialize)]
struct StoredAttempt {
    id: String,
    noted_at: DateTime<Utc>,
}

fn attempts_to_column(attempts: &WalletAttempts) -> Result<Option<JsonValue>, StoreError> {
    if *attempts == WalletAttempts::default() {
        return Ok(None);
    }
    let kept = attempts.kept.iter().map(|attempt| StoredAttempt {
        id: attempt.id.text(),
        noted_at: attempt.noted_at,
    });
    let stored = StoredAttempts {
        kept: kept.collect(),
        warned_until: attempts.warned_until,
    };
    columns::to_json("attempts", &stored).map(Some)
}

fn attempts_from_column(column: Option<JsonValue>) -> Result<WalletAttempts, StoreError> {
    let Some(column) = column else {
        return Ok(WalletAttempts::default());
    };
    let stored: StoredAttempts = columns::from_json("attempts", column)?;
    let kept = stored.kept.into_iter().map(|stored| {
        let id = AttemptId::parse(&stored.id);
        Ok(Attempt {
            id: id.map_err(|error| columns::broken("attempts", error))?,
            noted_at: stored.noted_at,
        })
    });
    Ok(WalletAttempts {
        kept: kept.collect::<Result<_, StoreError>>()?,
        warned_until: stored.warned_until,
    })
}

fn to_row(conn: &impl Sealing, payment: &SecurePayment, names: &MerchantNames) -> Result<Model, StoreError> {
    let SecurePayment {
        origin, policy, about, ..
    } = payment;
    let names = secure_payment_names::sealed(conn, payment, names)?;
    let redirect = about.redirect.as_ref();
    let allowed: Vec<String> = policy.allowed.iter().map(Address::canonical).collect();
    Ok(Model {
        id: payment.id.0.clone(),
        token: payment.token.0.clone(),
        platform_id: origin.platform.0.clone(),
        client_row: origin.client.as_ref().map(|client| client.0.clone()),
        client_id: origin.client_id.clone(),
        origin: origin.page.clone(),
        flow: payment.flow.wire().to_owned(),
        kind: payment.kind().wire().to_owned(),
        status: payment.status.wire().to_owned(),
        network: payment.network.id().to_owned(),
        destination_wallet: payment.destination.map(|key| key.interop.wallet.canonical()),
        destination_token: payment.destination.map(|key| key.token.canonical()),
        creator: payment.creator.clone(),
        reference: about.reference.clone(),
        payer_identifier: names.payer,
        recipient_identifier: names.recipient,
        redirect_url: redirect.map(|redirect| redirect.url.clone()),
        redirect_label: redirect.and_then(|redirect| redirect.label.clone()),
        access_mode: policy.mode.wire().to_owned(),
        access_provider: policy.provider.map(|provider| provider.wire().to_owned()),
        hides_until_approved: policy.hides_until_approved,
        hides_payee: policy.hides_payee,
        allowed_payers: columns::to_json("allowed_payers", &allowed)?,
        hinted_at: payment.hinted_at,
        attempts: attempts_to_column(&payment.attempts)?,
        created_at: payment.created_at,
        expires_at: payment.expires_at,
        completed_at: payment.completed_at,
        orchestrator_id: origin.orchestrator.as_ref().map(|orchestrator| orchestrator.0.clone()),
        locked_until: payment.lock.as_ref().map(|lock| lock.until),
        locked_by: payment
            .lock
            .as_ref()
            .and_then(|lock| lock.safe)
            .map(|safe| safe.canonical()),
        lock_hash: payment.lock.as_ref().map(|lock| columns::hash_text(&lock.safe_tx_hash)),
        locks_released_at: payment.locks_released_at,
    })
}

fn lock(row: &Model) -> Result<Option<SafeLock>, StoreError> {
    let Some((until, hash)) = row.locked_until.zip(row.lock_hash.as_deref()) else {
        return Ok(None);
    };
    Ok(Some(SafeLock {
        safe_tx_hash: columns::hash("lock_hash", hash)?,
        safe: columns::address_option("locked_by", row.locked_by.as_deref())?,
        until,
    }))
}

fn from_row(row: Model, items: Vec<PaymentItem>) -> Result<SecurePayment, StoreError> {
    let network = columns::network(&row.network)?;
    let lock = lock(&row)?;
    let wallet = columns::address_option("destination_wallet", row.destination_wallet.as_deref())?;
    let token = columns::address_option("destination_token", row.destination_token.as_deref())?;
    let destination = wallet.zip(token).map(|(wallet, token)| DestinationKey {
        interop: InteropAddress { wallet, network },
        token,
    });
    let provider = |text: &String| columns::known("access_provider", text, ScreeningProvider::from_wire);
    let allowed: Vec<String> = columns::from_json("allowed_payers", row.allowed_payers)?;
    let allowed = allowed.iter().map(|text| columns::address("allowed_payers", text));
    Ok(SecurePayment {
        lock,
        locks_released_at: row.locks_released_at,
        id: SecurePaymentId(row.id),
        token: SecurePaymentToken(row.token),
        origin: Origin {
            platform: PlatformId(row.platform_id),
            client: row.client_row.map(ClientRowId),
            client_id: row.client_id,
            page: row.origin,
            orchestrator: row.orchestrator_id.map(OrchestratorId),
        },
        flow: columns::known("flow", &row.flow, PaymentFlow::from_wire)?,
        status: columns::known("status", &row.status, SecurePaymentStatus::from_wire)?,
        network,
        destination,
        creator: row.creator,
        policy: AccessPolicy {
            mode: columns::known("access_mode", &row.access_mode, AccessMode::from_wire)?,
            provider: row.access_provider.as_ref().map(provider).transpose()?,
            hides_until_approved: row.hides_until_approved,
            hides_payee: row.hides_payee,
            allowed: allowed.collect::<Result<_, _>>()?,
        },
        about: LinkDetails {
            reference: row.reference,
            redirect: row.redirect_url.map(|url| RedirectButton {
                url,
                label: row.redirect_label,
            }),
        },
        hinted_at: row.hinted_at,
        attempts: attempts_from_column(row.attempts)?,
        created_at: row.created_at,
        expires_at: row.expires_at,
        completed_at: row.completed_at,
        items,
    })
}

fn item_row(
    payment: &SecurePayment,
    position: usize,
    item: &PaymentItem,
) -> Result<secure_payment_items::Model, StoreError> {
    let points = |fee: &Charge| i32::from(fee.rate.basis_points());
    let ChargeColumns {
        platform,
        protocol,
        captured,
    } = ChargeColumns::of("secure_payment_items", &item.charges)?;
    let captured = (!captured.is_empty()).then(|| columns::to_json("orchestrator_fees", &captured));
    Ok(secure_payment_items::Model {
        secure_payment_id: payment.id.0.clone(),
        position: columns::number("position", position)?,
        platform_id: payment.origin.platform.0.clone(),
        request_row: item.request.0.clone(),
        request_id: item.request_id.0.clone(),
        fee_basis_points: platform.map(points),
        fee_address: platform.map(|fee| fee.receiver.canonical()),
        is_own_fee: !item.charges.is_platform_named(),
        protocol_basis_points: protocol.map(points),
        protocol_address: protocol.map(|fee| fee.receiver.canonical()),
        protocol_cap: protocol.and_then(|fee| fee.cap).map(|cap| cap.to_string()),
        orchestrator_fees: captured.transpose()?,
        child_token: item.child.as_ref().map(|child| child.0.clone()),
    })
}

fn item(row: secure_payment_items::Model) -> Result<PaymentItem, StoreError> {
    let fee = |points: Option<i32>, address: Option<&str>| {
        let Some(receiver) = columns::address_option("fee_address", address)? else {
            return Ok::<_, StoreError>(None);
        };
        let rate = columns::percent("fee_basis_points", points.unwrap_or_default())?;
        Ok(Some((rate, receiver)))
    };
    let source = if row.is_own_fee {
        FeeOrigin::ClientId
    } else {
        FeeOrigin::Call
    };
    let platform = fee(row.fee_basis_points, row.fee_address.as_deref())?;
    let platform = platform.map(|(rate, receiver)| Charge::platform(source, rate, receiver));
    let protocol = fee(row.protocol_basis_points, row.protocol_address.as_deref())?;
    let cap = row
        .protocol_cap
        .as_deref()
        .map(|cap| columns::units("protocol_cap", cap));
    let cap = cap.transpose()?;
    let protocol = protocol.map(|(rate, receiver)| Charge::protocol(rate, receiver, cap));
    let captured = row.orchestrator_fees;
    let captured = captured.map(|fees| columns::from_json::<Vec<CapturedFeeColumn>>("orchestrator_fees", fees));
    let captured = captured.transpose()?.unwrap_or_default();
    let captured: Vec<Charge> = captured
        .iter()
        .map(CapturedFeeColumn::charge)
        .collect::<Result<_, _>>()?;
    Ok(PaymentItem {
        charges: platform.into_iter().chain(protocol).chain(captured).collect(),
        child: row.child_token.map(SecurePaymentToken),
        request: RequestRowId(row.request_row),
        request_id: RequestId(row.request_id),
    })
}

/// Adds a secure payment with its items and with its creator's names for payer and recipient. If the policy of the
/// secure payment hides anything, its requests and their recorded payments are marked as hidden. The mark stays,
/// because the policy never changes.
pub async fn insert(conn: &impl Sealing, payment: &SecurePayment, names: &MerchantNames) -> Result<(), StoreError> {
    Entity::insert(ActiveModel::from(to_row(conn, payment, names)?))
        .exec_without_returning(conn)
        .await?;
    let rows = payment.items.iter().enumerate().map(|(position, item)| {
        let row = item_row(payment, position, item)?;
        Ok(secure_payment_items::ActiveModel::from(row))
    });
    let rows = rows.collect::<Result<Vec<_>, StoreError>>()?;
    for rows in rows.chunks(columns::ROWS_MAX) {
        secure_payment_items::Entity::insert_many(rows.to_vec())
            .exec_without_returning(conn)
            .await?;
    }
    if payment.policy.hides_anything() {
        let requests: Vec<&RequestRowId> = payment.items.iter().map(|item| &item.request).collect();
        let hidden = requests::hide(conn, &payment.origin.platform, &requests).await?;
        payments::hide(conn, &payment.origin.platform, &hidden).await?;
    }
    Ok(())
}

/// A secure payment that this program cannot read.
#[derive(Debug)]
pub struct UnreadableLink {
    /// Row.
    pub id: String,
    /// Rows of the requests that the secure payment pays.
    pub requests: Vec<RequestRowId>,
    /// Why the row of the secure payment, or of one of its items, cannot be read.
    pub error: StoreError,
}

/// Secure payments with their items. Errors: a row cannot be read.
async fn with_items(conn: &impl ConnectionTrait, rows: Vec<Model>) -> Result<Vec<SecurePayment>, StoreError> {
    let (payments, unreadable) = readable_with_items(conn, rows).await?;
    match unreadable.into_iter().next() {
        Some(link) => Err(link.error),
        None => Ok(payments),
    }
}

/// Secure payments with their items; unreadable ones are listed separately.
async fn readable_with_items(
    conn: &impl ConnectionTrait,
    rows: Vec<Model>,
) -> Result<(Vec<SecurePayment>, Vec<UnreadableLink>), StoreError> {
    let mut items: HashMap<String, Vec<secure_payment_items::Model>> = HashMap::new();
    for some in rows.chunks(columns::ROWS_MAX) {
        let owners: BTreeSet<&str> = some.iter().map(|row| row.platform_id.as_str()).collect();
        let parts = secure_payment_items::Entity::find()
            .filter(Part::PlatformId.is_in(owners))
            .filter(Part::SecurePaymentId.is_in(some.iter().map(|row| row.id.as_str())))
            .order_by_asc(Part::SecurePaymentId)
            .order_by_asc(Part::Position)
            .all(conn)
            .await?;
        for part in parts {
            items.entry(part.secure_payment_id.clone()).or_default().push(part);
        }
    }
    let (mut payments, mut unreadable) = (Vec::new(), Vec::new());
    for row in rows {
        let (id, own) = (row.id.clone(), items.remove(&row.id).unwrap_or_default());
        let requests = own.iter().map(|part| RequestRowId(part.request_row.clone())).collect();
        let own: Result<Vec<PaymentItem>, StoreError> = own.into_iter().map(item).collect();
        match own.and_then(|own| from_row(row, own)) {
            Ok(payment) => payments.push(payment),
            Err(error) => unreadable.push(UnreadableLink { id, requests, error }),
        }
    }
    Ok((payments, unreadable))
}

/// Finds a secure payment of any platform: its token is the credential.
pub async fn by_token(
    conn: &impl ConnectionTrait,
    token: &SecurePaymentToken,
) -> Result<Option<SecurePayment>, StoreError> {
    let row = Entity::find()
        .filter(Column::Token.eq(token.as_str()))
        .one(conn)
        .await?;
    Ok(with_items(conn, row.into_iter().collect()).await?.pop())
}

/// The secure payments of a scope with these tokens.
fn owned(scope: &Scope, tokens: &[SecurePaymentToken]) -> Condition {
    let client = scope
        .client
        .as_ref()
        .map(|client| Column::ClientRow.eq(client.as_str()));
    Condition::all()
        .add(Column::PlatformId.eq(scope.platform.as_str()))
        .add_option(client)
        .add(Column::Token.is_in(tokens.iter().map(SecurePaymentToken::as_str)))
}

/// Locks the requests of secure payments of a scope until the transaction ends.
///
/// The rows are found in three statements by their keys: for one statement with nested lists, PostgreSQL chose a plan
/// that compared every request with every item. The items of a secure payment never change.
pub async fn lock_requests(
    conn: &impl ConnectionTrait,
    scope: &Scope,
    tokens: &[SecurePaymentToken],
) -> Result<(), StoreError> {
    let platform = scope.platform.as_str();
    let links: Vec<String> = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(owned(scope, tokens))
        .into_tuple()
        .all(conn)
        .await?;
    if links.is_empty() {
        return Ok(());
    }
    let rows: Vec<String> = secure_payment_items::Entity::find()
        .select_only()
        .column(Part::RequestRow)
        .filter(Part::PlatformId.eq(platform))
        .filter(Part::SecurePaymentId.is_in(links))
        .into_tuple()
        .all(conn)
        .await?;
    request_rows::Entity::find()
        .select_only()
        .column(request_rows::Column::Id)
        .filter(request_rows::Column::PlatformId.eq(platform))
        .filter(columns::is_among(conn, request_rows::Column::Id, rows))
        .order_by_asc(request_rows::Column::Id)
        .lock(LockType::NoKeyUpdate)
        .into_tuple::<String>()
        .all(conn)
        .await?;
    Ok(())
}

/// Reads secure payments of a scope and locks them until the transaction ends, in an order common to all transactions.
pub async fn lock_all(
    conn: &impl ConnectionTrait,
    scope: &Scope,
    tokens: &[SecurePaymentToken],
) -> Result<Vec<SecurePayment>, StoreError> {
    let rows = Entity::find()
        .filter(owned(scope, tokens))
        .order_by_asc(Column::Id)
        .lock(LockType::NoKeyUpdate)
        .all(conn)
        .await?;
    with_items(conn, rows).await
}

/// Reads a secure payment and locks it until the transaction ends.
pub async fn lock_one(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    id: &SecurePaymentId,
) -> Result<Option<SecurePayment>, StoreError> {
    let rows = Entity::find()
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::Id.eq(id.as_str()))
        .lock(LockType::NoKeyUpdate)
        .all(conn)
        .await?;
    Ok(with_items(conn, rows).await?.pop())
}

/// The newest secure payment of a platform that pays a request, without multicalls.
pub async fn of_request(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    request: &Request,
) -> Result<Option<SecurePayment>, StoreError> {
    let row = Entity::find()
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(of_any(paying_directly(conn, &[request])))
        .order_by_desc(Column::CreatedAt)
        .order_by_desc(Column::Id)
        .limit(1)
        .one(conn)
        .await?;
    Ok(with_items(conn, row.into_iter().collect()).await?.pop())
}

/// The newest secure payment of each of some requests, if there is one; unreadable secure payments are listed
/// separately.
pub async fn newest_of_requests(
    conn: &impl ConnectionTrait,
    requests: &[&Request],
) -> Result<(HashMap<RequestRowId, SecurePayment>, Vec<UnreadableLink>), StoreError> {
    let mut rows = Vec::new();
    for requests in requests.chunks(columns::ROWS_MAX) {
        let some = Entity::find().filter(of_any(paying_directly(conn, requests)));
        rows.extend(some.all(conn).await?);
    }
    rows.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
    let mut newest = HashMap::new();
    let (payments, unreadable) = readable_with_items(conn, rows).await?;
    for payment in payments {
        for item in &payment.items {
            newest.insert(item.request.clone(), payment.clone());
        }
    }
    Ok((newest, unreadable))
}

fn owner_of(payment: &SecurePayment, wallet: &Address) -> Condition {
    Condition::all()
        .add(Owner::PlatformId.eq(payment.origin.platform.as_str()))
        .add(Owner::SecurePaymentId.eq(payment.id.as_str()))
        .add(Owner::Wallet.eq(wallet.canonical()))
}

/// Accounts that were proven to own a wallet that was about to pay.
pub async fn owners_of(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
    wallet: &Address,
) -> Result<Vec<Address>, StoreError> {
    let rows = secure_payment_owners::Entity::find()
        .filter(owner_of(payment, wallet))
        .order_by_asc(Owner::Account)
        .all(conn)
        .await?;
    let accounts = rows.iter().map(|row| columns::address("account", &row.account));
    accounts.collect()
}

/// Records that an account was proven to own a wallet.
pub async fn note_owner(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
    wallet: &Address,
    account: &Address,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let row = secure_payment_owners::ActiveModel::from(secure_payment_owners::Model {
        platform_id: payment.origin.platform.0.clone(),
        secure_payment_id: payment.id.0.clone(),
        wallet: wallet.canonical(),
        account: account.canonical(),
        proven_at: now,
    });
    let again = OnConflict::columns([Owner::PlatformId, Owner::SecurePaymentId, Owner::Wallet, Owner::Account])
        .update_column(Owner::ProvenAt)
        .to_owned();
    secure_payment_owners::Entity::insert(row)
        .on_conflict(again)
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Condition for secure payments whose platforms and ids are selected.
fn of_any(selected: SelectStatement) -> Expr {
    Expr::tuple([Column::PlatformId, Column::Id].map(Expr::col)).in_subquery(selected)
}

/// Platforms and ids of the secure payments that pay requests.
fn paying(conn: &impl ConnectionTrait, requests: &[&Request]) -> SelectStatement {
    parts_of(conn, requests).into_query()
}

/// Like [`paying`], without multicalls.
fn paying_directly(conn: &impl ConnectionTrait, requests: &[&Request]) -> SelectStatement {
    parts_of(conn, requests).filter(Part::ChildToken.is_null()).into_query()
}

fn parts_of(conn: &impl ConnectionTrait, requests: &[&Request]) -> sea_orm::Select<secure_payment_items::Entity> {
    secure_payment_items::Entity::find()
        .select_only()
        .columns([Part::PlatformId, Part::SecurePaymentId])
        .filter(columns::among_requests(conn, PART_REQUEST, requests))
}

/// The secure payments of a platform with these tokens.
pub async fn by_tokens(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    tokens: &[SecurePaymentToken],
) -> Result<Vec<SecurePayment>, StoreError> {
    let scope = Scope::of_platform(platform);
    let mut rows = Vec::new();
    for tokens in tokens.chunks(columns::ROWS_MAX) {
        rows.extend(Entity::find().filter(owned(&scope, tokens)).all(conn).await?);
    }
    with_items(conn, rows).await
}

/// The secure payments that pay requests, locked until the transaction ends. The caller must have locked the requests,
/// so that a platform without a secure payment does not get one in the meantime.
///
/// While this call waited, another transaction may have committed a batch with a further secure payment, so the query
/// is repeated until the result is stable. Unreadable secure payments are listed separately.
pub async fn lock_of_requests(
    conn: &impl ConnectionTrait,
    requests: &[&Request],
) -> Result<(Vec<SecurePayment>, Vec<UnreadableLink>), StoreError> {
    let mut linked = BTreeSet::new();
    for requests in requests.chunks(columns::ROWS_MAX) {
        for row in conn.query_all(&paying(conn, requests)).await? {
            linked.insert(PlatformId(row.try_get("", "platform_id")?));
        }
    }
    let requests: Vec<&Request> = requests
        .iter()
        .copied()
        .filter(|request| linked.contains(&request.origin.platform))
        .collect();
    let mut locked = Vec::new();
    for (platform, requests) in columns::in_parts(&requests) {
        let mut known = 0;
        loop {
            let rows = Entity::find()
                .filter(Column::PlatformId.eq(platform.as_str()))
                .filter(of_any(paying(conn, &requests)))
                .order_by_asc(Column::Id)
                .lock(LockType::NoKeyUpdate)
                .all(conn)
                .await?;
            if rows.len() == known {
                locked.extend(rows);
                break;
            }
            known = rows.len();
        }
    }
    let mut seen = BTreeSet::new();
    locked.retain(|row| seen.insert(row.id.clone()));
    readable_with_items(conn, locked).await
}

/// The requests of secure payments that are not paid.
pub async fn unpaid(
    conn: &impl ConnectionTrait,
    payments: &[SecurePayment],
) -> Result<HashSet<RequestRowId>, StoreError> {
    use request_rows::Column as Request;
    let items = payments.iter().flat_map(|payment| {
        let rows = payment.items.iter().map(|item| item.request.0.clone());
        rows.map(|row| (&payment.origin.platform, row))
    });
    let mut unpaid = HashSet::new();
    for (platform, rows) in columns::by_owner(items) {
        let rows: Vec<String> = request_rows::Entity::find()
            .select_only()
            .column(Request::Id)
            .filter(Request::PlatformId.eq(platform.as_str()))
            .filter(columns::is_among(conn, Request::Id, rows))
            .filter(Request::Status.ne(RequestStatus::Paid.wire()))
            .into_tuple()
            .all(conn)
            .await?;
        unpaid.extend(rows.into_iter().map(RequestRowId));
    }
    Ok(unpaid)
}

/// Writes the state of a secure payment that is locked.
pub async fn set_status(conn: &impl ConnectionTrait, payment: &SecurePayment) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::Status, Expr::value(payment.status.wire()))
        .col_expr(Column::CompletedAt, Expr::value(payment.completed_at))
        .filter(Column::PlatformId.eq(payment.origin.platform.as_str()))
        .filter(Column::Id.eq(payment.id.as_str()))
        .exec(conn)
        .await?;
    Ok(())
}

/// When a payment of a link was last reported as sent, apart from transactions of Safes; also the time that a combination
/// took over from the combined links.
pub async fn last_sent_at(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
) -> Result<Option<DateTime<Utc>>, StoreError> {
    let newest = said(payment)
        .filter(IntentColumn::Kind.ne(IntentKind::Safe.wire()))
        .order_by_desc(IntentColumn::CreatedAt)
        .limit(1)
        .one(conn)
        .await?;
    let taken_over = payment.hinted_at.filter(|at| *at <= payment.created_at);
    Ok([newest.map(|row| row.created_at), taken_over]
        .into_iter()
        .flatten()
        .max())
}

/// When the last payment of a link expires that this service broadcast, without credited payments.
pub async fn last_expiration(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
) -> Result<Option<DateTime<Utc>>, StoreError> {
    let broadcasts = said(payment)
        .filter(IntentColumn::Kind.eq(IntentKind::Broadcast.wire()))
        .filter(IntentColumn::Deadline.is_not_null())
        .order_by_desc(IntentColumn::Deadline)
        .limit(EXPIRATIONS_MAX)
        .all(conn)
        .await?;
    if broadcasts.is_empty() {
        return Ok(None);
    }
    let hashes = broadcasts.iter().map(|row| columns::hash("hash", &row.hash));
    let hashes = hashes.collect::<Result<Vec<B256>, _>>()?;
    let credited: HashSet<Vec<u8>> = payment_rows::Entity::find()
        .select_only()
        .column(payment_rows::Column::TxHash)
        .filter(payment_rows::Column::PlatformId.eq(payment.origin.platform.as_str()))
        .filter(payment_rows::Column::Network.eq(payment.network.id()))
        .filter(payment_rows::Column::TxHash.is_in(hashes.iter().map(|hash| hash.to_vec())))
        .into_tuple()
        .all(conn)
        .await?
        .into_iter()
        .collect();
    let waiting = broadcasts.iter().zip(&hashes);
    let mut waiting = waiting.filter(|(_, hash)| !credited.contains(hash.as_slice()));
    Ok(waiting.next().and_then(|(row, _)| row.deadline))
}

/// Records that a payment in flight was reported.
pub async fn hint(conn: &impl ConnectionTrait, payment: &SecurePayment, now: DateTime<Utc>) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::HintedAt, Expr::value(now))
        .filter(Column::PlatformId.eq(payment.origin.platform.as_str()))
        .filter(Column::Id.eq(payment.id.as_str()))
        .exec(conn)
        .await?;
    Ok(())
}

/// Writes the attempts of a secure payment that is locked.
pub async fn set_attempts(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
    attempts: &WalletAttempts,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::Attempts, Expr::value(attempts_to_column(attempts)?))
        .filter(Column::PlatformId.eq(payment.origin.platform.as_str()))
        .filter(Column::Id.eq(payment.id.as_str()))
        .exec(conn)
        .await?;
    Ok(())
}

/// Marks pending secure payments of any platform past their expiry as expired, the oldest first; returns how many.
/// Locked ones are left for the next call, because other transactions lock several in a different order.
pub async fn expire(conn: &impl ConnectionTrait, now: DateTime<Utc>, limit: u64) -> Result<u64, StoreError> {
    let oldest: Vec<(String, String)> = Entity::find()
        .select_only()
        .columns([Column::PlatformId, Column::Id])
        .filter(Column::Status.eq(SecurePaymentStatus::Pending.wire()))
        .filter(Column::ExpiresAt.lt(now))
        .order_by_asc(Column::ExpiresAt)
        .limit(limit)
        .into_tuple()
        .all(conn)
        .await?;
    let is_changed = || {
        Condition::any()
            .add(Column::Status.ne(SecurePaymentStatus::Pending.wire()))
            .add(Column::ExpiresAt.gte(now))
    };
    let mut ended = 0;
    for (platform, ids) in columns::by_owner(oldest) {
        let free: Vec<String> = Entity::find()
            .select_only()
            .column(Column::Id)
            .filter(Column::PlatformId.eq(platform.as_str()))
            .filter(columns::is_among(conn, Column::Id, ids))
            // The condition is written as the negation of its opposite. So SQLite does not use the index for it, and
            // finds the rows by their ids.
            .filter(is_changed().not())
            .order_by_asc(Column::Id)
            .lock_with_behavior(LockType::NoKeyUpdate, LockBehavior::SkipLocked)
            .into_tuple()
            .all(conn)
            .await?;
        let ending = Entity::update_many()
            .col_expr(Column::Status, Expr::value(SecurePaymentStatus::Expired.wire()))
            .filter(Column::PlatformId.eq(platform))
            .filter(columns::is_among(conn, Column::Id, free));
        ended += ending.exec(conn).await?.rows_affected;
    }
    Ok(ended)
}

/// When a secure payment expired, its id and its platform.
pub type ExpiredLink = (DateTime<Utc>, String, String);

/// Secure payments of any platform that expired before a time and received nothing, the oldest first, starting after
/// `last`. The statement also reads, and skips, expired secure payments that received money.
pub async fn forgettable(
    conn: &impl ConnectionTrait,
    before: DateTime<Utc>,
    last: Option<&ExpiredLink>,
    limit: u64,
) -> Result<Vec<ExpiredLink>, StoreError> {
    Ok(following(before, last, limit).into_tuple().all(conn).await?)
}

/// Deletes secure payments, among the given ones, that expired before a time and received nothing. Their requests, and
/// what was returned for these requests, stay. Locked secure payments are left for the next call.
pub async fn forget(
    conn: &impl ConnectionTrait,
    before: DateTime<Utc>,
    chosen: Vec<ExpiredLink>,
) -> Result<(), StoreError> {
    let chosen = chosen.into_iter().map(|(_, id, platform)| (platform, id));
    for (platform, ids) in columns::by_owner(chosen) {
        let owner = platform.as_str();
        let ids: Vec<String> = among(before, owner, ids)
            .lock_with_behavior(LockType::NoKeyUpdate, LockBehavior::SkipLocked)
            .into_tuple()
            .all(conn)
            .await?;
        for table in [
            delete::<secure_payment_items::Entity>(owner, Part::PlatformId, Part::SecurePaymentId, &ids),
            delete::<secure_payment_intents::Entity>(
                owner,
                IntentColumn::PlatformId,
                IntentColumn::SecurePaymentId,
                &ids,
            ),
            delete::<secure_payment_refusals::Entity>(owner, Refused::PlatformId, Refused::SecurePaymentId, &ids),
            delete::<secure_payment_owners::Entity>(owner, Owner::PlatformId, Owner::SecurePaymentId, &ids),
            delete::<secure_payment_safes::Entity>(owner, OfSafe::PlatformId, OfSafe::SecurePaymentId, &ids),
            delete::<screenings::Entity>(owner, Screened::PlatformId, Screened::SecurePaymentId, &ids),
            delete::<screening_questions::Entity>(owner, Asked::PlatformId, Asked::SecurePaymentId, &ids),
            delete::<Entity>(owner, Column::PlatformId, Column::Id, &ids),
        ] {
            conn.execute(&table).await?;
        }
    }
    Ok(())
}

/// Expiries, ids and platforms of a page of secure payments that can be deleted.
fn following(before: DateTime<Utc>, last: Option<&ExpiredLink>, limit: u64) -> sea_orm::Select<Entity> {
    let after = last.map(|(ended_at, id, _)| {
        let chosen_before = Column::ExpiresAt.eq(*ended_at).and(Column::Id.lte(id.as_str()));
        Column::ExpiresAt.gte(*ended_at).and(chosen_before.not())
    });
    untouched()
        .columns([Column::ExpiresAt, Column::Id, Column::PlatformId])
        .filter(Column::Status.eq(SecurePaymentStatus::Expired.wire()))
        .filter(Column::ExpiresAt.lt(before))
        .filter(Condition::all().add_option(after))
        .order_by_asc(Column::ExpiresAt)
        .order_by_asc(Column::Id)
        .limit(limit)
}

/// Ids of the given secure payments of a platform that can be deleted. Each condition is written as the negation of its
/// opposite, so that SQLite finds the rows by their ids and not by the index of expired secure payments.
fn among(before: DateTime<Utc>, platform: &str, chosen: Vec<String>) -> sea_orm::Select<Entity> {
    let is_kept = Condition::any()
        .add(Column::Status.ne(SecurePaymentStatus::Expired.wire()))
        .add(Column::ExpiresAt.gte(before));
    untouched()
        .column(Column::Id)
        .filter(Column::PlatformId.eq(platform))
        .filter(Column::Id.is_in(chosen))
        .filter(is_kept.not())
        .order_by_asc(Column::Id)
}

/// Secure payments that received nothing. What the children of a multicall received belongs to them.
fn untouched() -> sea_orm::Select<Entity> {
    use request_rows::Column as Request;
    let of_request = |column: Request| Expr::col((request_rows::Entity, column));
    let of_item = |column: Part| Expr::col((secure_payment_items::Entity, column));
    let untouched = [RequestStatus::Pending, RequestStatus::Cancelled].map(RequestStatus::wire);
    let arrived = Query::select()
        .expr(Expr::val(1))
        .from(secure_payment_items::Entity)
        .inner_join(
            request_rows::Entity,
            Condition::all()
                .add(of_request(Request::PlatformId).equals((secure_payment_items::Entity, Part::PlatformId)))
                .add(of_request(Request::Id).equals((secure_payment_items::Entity, Part::RequestRow))),
        )
        .and_where(of_item(Part::ChildToken).is_null())
        .and_where(of_item(Part::PlatformId).equals((Entity, Column::PlatformId)))
        .and_where(of_item(Part::SecurePaymentId).equals((Entity, Column::Id)))
        .cond_where(
            Condition::any()
                .add(of_request(Request::Status).is_not_in(untouched))
                .add(of_request(Request::PaymentCount).ne(0)),
        )
        .to_owned();
    Entity::find().select_only().filter(Expr::exists(arrived).not())
}

/// Deletes rows of secure payments of an owner from a table. `platform` and `id` are its columns with the owner and the
/// id of the secure payment.
fn delete<E: EntityTrait>(owner: &str, platform: E::Column, id: E::Column, ids: &[String]) -> DeleteStatement {
    Query::delete()
        .from_table(E::default())
        .and_where(platform.eq(owner))
        .and_where(id.is_in(ids.iter().map(String::as_str)))
        .to_owned()
}

/// For each request that was created for a secure payment, the token of this secure payment; the map key is the row of
/// the request.
pub async fn tokens_of(
    conn: &impl ConnectionTrait,
    requests: &[&Request],
) -> Result<HashMap<RequestRowId, SecurePaymentToken>, StoreError> {
    let mut tokens = HashMap::new();
    for requests in requests.chunks(columns::ROWS_MAX) {
        let parts = secure_payment_items::Entity::find()
            .filter(columns::among_requests(conn, PART_REQUEST, requests))
            .order_by_asc(Part::SecurePaymentId);
        let parts = parts.all(conn).await?;
        let named: Vec<(String, String)> = Entity::find()
            .select_only()
            .columns([Column::Id, Column::Token])
            .filter(of_any(paying_directly(conn, requests)))
            .into_tuple()
            .all(conn)
            .await?;
        let named: HashMap<String, String> = named.into_iter().collect();
        for part in parts {
            if let Some(token) = named.get(&part.secure_payment_id) {
                let request = RequestRowId(part.request_row);
                tokens
                    .entry(request)
                    .or_insert_with(|| SecurePaymentToken(token.clone()));
            }
        }
    }
    Ok(tokens)
}

/// The report with this hash on a network.
pub async fn find_intent(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
    network: Network,
    hash: &B256,
) -> Result<Option<PaymentIntent>, StoreError> {
    let row = said(payment)
        .filter(IntentColumn::Network.eq(network.id()))
        .filter(IntentColumn::Hash.eq(columns::hash_text(hash)))
        .one(conn)
        .await?;
    row.map(intent).transpose()
}

pub(super) fn intent(row: secure_payment_intents::Model) -> Result<PaymentIntent, StoreError> {
    let executed_by = row.executed_by.as_deref();
    let searched_to = row.searched_to;
    let indices = row.transaction_indices;
    let indices = indices.map(|stored| columns::from_json::<Vec<StoredIndex>>("transaction_indices", stored));
    Ok(PaymentIntent {
        id: IntentId(row.id),
        kind: columns::known("kind", &row.kind, IntentKind::from_wire)?,
        hash: columns::hash("hash", &row.hash)?,
        source: Source {
            network: columns::network(&row.network)?,
            token: row.token,
        },
        amount: row.amount,
        payer: columns::address_option("payer", row.payer.as_deref())?,
        payer_eoa: columns::address_option("payer_eoa", row.payer_eoa.as_deref())?,
        state: columns::known("state", &row.state, IntentState::from_wire)?,
        deadline: row.deadline,
        searched_to: searched_to
            .map(|number| columns::number("searched_to", number))
            .transpose()?,
        executed_by: executed_by.map(|hash| columns::hash("executed_by", hash)).transpose()?,
        transaction_indices: indices
            .transpose()?
            .unwrap_or_default()
            .into_iter()
            .map(|StoredIndex(child_position, transaction_index)| TransactionIndex {
                child_position,
                transaction_index,
            })
            .collect(),
        created_at: row.created_at,
    })
}

/// Position of a child of a multicall, and index of the call that pays it.
#[derive(Serialize, Deserialize)]
struct StoredIndex(u32, u32);

fn said(payment: &SecurePayment) -> sea_orm::Select<secure_payment_intents::Entity> {
    secure_payment_intents::Entity::find()
        .filter(IntentColumn::PlatformId.eq(payment.origin.platform.as_str()))
        .filter(IntentColumn::SecurePaymentId.eq(payment.id.as_str()))
}

/// The broadcasts of a link.
fn broadcasts_of(payment: &SecurePayment) -> Condition {
    Condition::all()
        .add(IntentColumn::PlatformId.eq(payment.origin.platform.as_str()))
        .add(IntentColumn::SecurePaymentId.eq(payment.id.as_str()))
        .add(IntentColumn::Kind.eq(IntentKind::Broadcast.wire()))
}

/// The broadcasts of a link that were stored between two times. [`admit_another`] bounds their number.
///
/// [`admit_another`]: crate::domain::secure_payment::broadcast::admit_another
pub async fn list_broadcasts(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
    (from, to): (DateTime<Utc>, DateTime<Utc>),
) -> Result<Vec<PaymentIntent>, StoreError> {
    let rows = secure_payment_intents::Entity::find()
        .filter(broadcasts_of(payment))
        .filter(IntentColumn::CreatedAt.gt(from))
        .filter(IntentColumn::CreatedAt.lt(to))
        .all(conn)
        .await?;
    rows.into_iter().map(intent).collect()
}

/// Deletes the broadcasts of a link that were stored before a time. A payment stays until all payments up to its
/// expiration are credited; `credited_until` is `None` if it is unknown which ones are.
pub async fn delete_broadcasts(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
    before: DateTime<Utc>,
    credited_until: Option<DateTime<Utc>>,
) -> Result<(), StoreError> {
    let is_over = Condition::any()
        .add(IntentColumn::Deadline.is_null())
        .add_option(credited_until.map(|credited_until| IntentColumn::Deadline.lt(credited_until)));
    secure_payment_intents::Entity::delete_many()
        .filter(broadcasts_of(payment))
        .filter(IntentColumn::CreatedAt.lt(before))
        .filter(is_over)
        .exec(conn)
        .await?;
    Ok(())
}

/// Deletes the broadcast of a link with this hash.
pub async fn delete_broadcast(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
    hash: &B256,
) -> Result<(), StoreError> {
    secure_payment_intents::Entity::delete_many()
        .filter(broadcasts_of(payment))
        .filter(IntentColumn::Network.eq(payment.network.id()))
        .filter(IntentColumn::Hash.eq(columns::hash_text(hash)))
        .exec(conn)
        .await?;
    Ok(())
}

/// Number of reports of payers with hashes of this kind.
pub async fn count_intents(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
    kind: IntentKind,
) -> Result<u64, StoreError> {
    let of_kind = said(payment).filter(IntentColumn::Kind.eq(kind.wire()));
    Ok(of_kind.count(conn).await?)
}

/// Stores a report of a payer; the secure payment is locked.
pub async fn insert_intent(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
    intent: &PaymentIntent,
) -> Result<(), StoreError> {
    let indices = intent.transaction_indices.iter();
    let indices: Vec<StoredIndex> = indices
        .map(|index| StoredIndex(index.child_position, index.transaction_index))
        .collect();
    let indices = (!indices.is_empty()).then(|| columns::to_json("transaction_indices", &indices));
    let searched_to = intent.searched_to;
    let row = secure_payment_intents::Model {
        id: intent.id.0.clone(),
        secure_payment_id: payment.id.0.clone(),
        platform_id: payment.origin.platform.0.clone(),
        hash: columns::hash_text(&intent.hash),
        payer: intent.payer.map(|payer| payer.canonical()),
        payer_eoa: intent.payer_eoa.map(|payer| payer.canonical()),
        created_at: intent.created_at,
        network: intent.source.network.id().to_owned(),
        token: intent.source.token.clone(),
        kind: intent.kind.wire().to_owned(),
        state: intent.state.wire().to_owned(),
        amount: intent.amount.clone(),
        deadline: intent.deadline,
        searched_to: searched_to
            .map(|number| columns::number("searched_to", number))
            .transpose()?,
        searched_at: Some(intent.created_at),
        executed_by: intent.executed_by.as_ref().map(columns::hash_text),
        transaction_indices: indices.transpose()?,
    };
    secure_payment_intents::Entity::insert(secure_payment_intents::ActiveModel::from(row))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Number of reported transactions of Safes whose calls failed.
pub async fn count_failed(conn: &impl ConnectionTrait, payment: &SecurePayment) -> Result<u64, StoreError> {
    let failed = said(payment).filter(IntentColumn::State.eq(IntentState::Failed.wire()));
    Ok(failed.count(conn).await?)
}

/// Writes what a report states, and its execution; the secure payment is locked.
pub async fn set_intent(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
    intent: &PaymentIntent,
) -> Result<(), StoreError> {
    let searched_to: Option<i64> = intent
        .searched_to
        .map(|height| columns::number("searched_to", height))
        .transpose()?;
    secure_payment_intents::Entity::update_many()
        .col_expr(
            IntentColumn::Payer,
            Expr::value(intent.payer.map(|payer| payer.canonical())),
        )
        .col_expr(
            IntentColumn::PayerEoa,
            Expr::value(intent.payer_eoa.map(|payer| payer.canonical())),
        )
        .col_expr(IntentColumn::Token, Expr::value(intent.source.token.as_str()))
        .col_expr(IntentColumn::Amount, Expr::value(intent.amount.clone()))
        .col_expr(IntentColumn::SearchedTo, Expr::value(searched_to))
        .col_expr(IntentColumn::Kind, Expr::value(intent.kind.wire()))
        .col_expr(IntentColumn::State, Expr::value(intent.state.wire()))
        .col_expr(IntentColumn::Deadline, Expr::value(intent.deadline))
        .col_expr(
            IntentColumn::ExecutedBy,
            Expr::value(intent.executed_by.as_ref().map(columns::hash_text)),
        )
        .filter(IntentColumn::PlatformId.eq(payment.origin.platform.as_str()))
        .filter(IntentColumn::Id.eq(intent.id.as_str()))
        .exec(conn)
        .await?;
    Ok(())
}

/// Writes the lock of a secure payment, when its owner last ended one, and when a payment in flight was reported; the
/// row of the secure payment is locked.
pub async fn set_lock(conn: &impl ConnectionTrait, payment: &SecurePayment) -> Result<(), StoreError> {
    let lock = payment.lock.as_ref();
    let safe = lock.and_then(|lock| lock.safe).map(|safe| safe.canonical());
    let hash = lock.map(|lock| columns::hash_text(&lock.safe_tx_hash));
    Entity::update_many()
        .col_expr(Column::LockedUntil, Expr::value(lock.map(|lock| lock.until)))
        .col_expr(Column::LockedBy, Expr::value(safe))
        .col_expr(Column::LockHash, Expr::value(hash))
        .col_expr(Column::LocksReleasedAt, Expr::value(payment.locks_released_at))
        .col_expr(Column::HintedAt, Expr::value(payment.hinted_at))
        .filter(Column::PlatformId.eq(payment.origin.platform.as_str()))
        .filter(Column::Id.eq(payment.id.as_str()))
        .exec(conn)
        .await?;
    Ok(())
}

fn refused(payment: &SecurePayment) -> sea_orm::Select<secure_payment_refusals::Entity> {
    secure_payment_refusals::Entity::find()
        .filter(Refused::PlatformId.eq(payment.origin.platform.as_str()))
        .filter(Refused::SecurePaymentId.eq(payment.id.as_str()))
}

/// How often a rejected wallet was reported, and when last.
pub async fn find_report(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
    wallet: &Address,
) -> Result<Option<(u64, DateTime<Utc>)>, StoreError> {
    let row = refused(payment)
        .filter(Refused::Wallet.eq(wallet.canonical()))
        .one(conn)
        .await?;
    row.map(|row| Ok((columns::number("occasions", row.occasions)?, row.told_at)))
        .transpose()
}

/// How many rejected wallets were reported after `from` and before `to`, counted up to `up_to`.
pub async fn count_told(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    up_to: u64,
) -> Result<u64, StoreError> {
    let told = refused(payment)
        .select_only()
        .column(Refused::ToldAt)
        .filter(Refused::ToldAt.gt(from))
        .filter(Refused::ToldAt.lt(to));
    requests::count_up_to(conn, told.into_query(), up_to).await
}

/// Counts a report about a rejected wallet; the secure payment is locked.
pub async fn note_told(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
    wallet: &Address,
    occasion: u64,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let row = secure_payment_refusals::Model {
        secure_payment_id: payment.id.0.clone(),
        wallet: wallet.canonical(),
        platform_id: payment.origin.platform.0.clone(),
        occasions: columns::number("occasions", occasion)?,
        told_at: now,
    };
    let known = OnConflict::columns([Refused::PlatformId, Refused::SecurePaymentId, Refused::Wallet])
        .update_columns([Refused::Occasions, Refused::ToldAt])
        .to_owned();
    secure_payment_refusals::Entity::insert(secure_payment_refusals::ActiveModel::from(row))
        .on_conflict(known)
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::plans::{steps, with_database};

    #[tokio::test]
    async fn token_lookup_and_deletion_of_expired_links_use_indexes() {
        with_database(async |db| {
            let found = Entity::find().filter(Column::Token.eq("token")).into_query();
            let plan = steps(db, &found).await;
            assert!(
                plan.contains("USING INDEX secure_payments_token_key (token=?)"),
                "{plan}"
            );
            let last = (DateTime::UNIX_EPOCH, "id".to_owned(), "platform".to_owned());
            for (last, range) in [(None, "expires_at<?"), (Some(&last), "expires_at>? AND expires_at<?")] {
                let plan = steps(db, &following(DateTime::UNIX_EPOCH, last, 20).into_query()).await;
                let index = format!("secure_payments_expiry_idx (status=? AND {range})");
                assert!(plan.contains(&index) && !plan.contains("SCAN"), "{plan}");
                assert!(!plan.contains("TEMP B-TREE FOR ORDER BY"), "{plan}");
            }
            let chosen = ["one", "two"].map(str::to_owned).to_vec();
            let plan = steps(db, &among(DateTime::UNIX_EPOCH, "platform", chosen).into_query()).await;
            assert!(
                plan.contains("sqlite_autoindex_secure_payments_1 (platform_id=? AND id=?)"),
                "{plan}"
            );
        })
        .await;
    }
}
