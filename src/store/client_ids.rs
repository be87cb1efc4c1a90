//! Public client IDs.

use super::{REVOKED_LISTED_MAX, StoreError, columns, orchestrator_links};
use crate::domain::{
    amount::{Amount, Percent},
    client_id::{ClientId, ClientStatus},
    client_limits::{AmountLimit, ClientLimits},
    ids::{ClientRowId, DestinationId, OrchestratorId, PlatformId},
    orchestrator::OrchestratorLink,
};
use chrono::{DateTime, Utc};
use entities::{
    client_ids::{ActiveModel, Column, Entity, Model},
    orchestrator_links::{Entity as Links, Model as Link},
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, JsonValue, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect, Select,
    sea_query::{Expr, ExprTrait},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

fn domains(value: JsonValue) -> Result<Vec<String>, StoreError> {
    columns::from_json("allowed_domains", value)
}

/// Limits of a client ID as the column stores them.
#[derive(Serialize, Deserialize)]
struct StoredLimits {
    payees: Vec<String>,
    currencies: Vec<String>,
    networks: Vec<String>,
    max_amount: Option<StoredAmount>,
}

#[derive(Serialize, Deserialize)]
struct StoredAmount {
    amount: String,
    currency: String,
}

fn limits_to_column(limits: &ClientLimits) -> Result<Option<JsonValue>, StoreError> {
    if *limits == ClientLimits::default() {
        return Ok(None);
    }
    let stored = StoredLimits {
        payees: limits.payees.iter().map(|payee| payee.canonical()).collect(),
        currencies: limits.currencies.clone(),
        networks: limits.networks.iter().map(|network| network.id().to_owned()).collect(),
        max_amount: limits.max_amount.as_ref().map(|limit| StoredAmount {
            amount: limit.amount.to_string(),
            currency: limit.currency.clone(),
        }),
    };
    columns::to_json("limits", &stored).map(Some)
}

fn limits_from_column(column: Option<JsonValue>) -> Result<ClientLimits, StoreError> {
    let Some(column) = column else {
        return Ok(ClientLimits::default());
    };
    let stored: StoredLimits = columns::from_json("limits", column)?;
    let payees = stored.payees.iter().map(|payee| columns::address("limits", payee));
    let networks = stored.networks.iter().map(|network| columns::network(network));
    let max_amount = stored.max_amount.map(|limit| {
        Ok::<_, StoreError>(AmountLimit {
            amount: columns::known("limits", &limit.amount, |text| Amount::parse(text).ok())?,
            currency: limit.currency,
        })
    });
    Ok(ClientLimits {
        payees: payees.collect::<Result<_, _>>()?,
        currencies: stored.currencies,
        networks: networks.collect::<Result<_, _>>()?,
        max_amount: max_amount.transpose()?,
    })
}

fn to_row(client: &ClientId) -> Result<Model, StoreError> {
    Ok(Model {
        id: client.row.0.clone(),
        platform_id: client.platform.0.clone(),
        client_id: client.client_id.clone(),
        label: client.label.clone(),
        allowed_domains: columns::to_json("allowed_domains", &client.allowed_domains)?,
        status: client.status.wire().to_owned(),
        fee_percentage: client.fee_percentage.map(|percent| percent.to_string()),
        fee_address: client.fee_address.map(|address| address.canonical()),
        payee_destination_id: client.payee_destination.as_ref().map(|id| id.0.clone()),
        limits: limits_to_column(&client.limits)?,
        operator_wallet: client.operator_wallet.map(|address| address.canonical()),
        default_pre_approval_expiry_s: client.default_pre_approval_expiry_s,
        default_authorization_expiry_s: client.default_authorization_expiry_s,
        created_at: client.created_at,
        updated_at: client.updated_at,
        last_used_at: client.last_used_at,
        orchestrator_id: client.orchestrator.as_ref().map(|orchestrator| orchestrator.0.clone()),
    })
}

fn from_row(row: Model, link: Option<OrchestratorLink>) -> Result<ClientId, StoreError> {
    let percent = |text: String| columns::known("fee_percentage", &text, |text| Percent::parse(text).ok());
    Ok(ClientId {
        row: ClientRowId(row.id),
        platform: PlatformId(row.platform_id),
        client_id: row.client_id,
        label: row.label,
        allowed_domains: domains(row.allowed_domains)?,
        status: columns::known("status", &row.status, ClientStatus::from_wire)?,
        fee_percentage: row.fee_percentage.map(percent).transpose()?,
        fee_address: columns::address_option("fee_address", row.fee_address.as_deref())?,
        payee_destination: row.payee_destination_id.map(DestinationId),
        limits: limits_from_column(row.limits)?,
        operator_wallet: columns::address_option("operator_wallet", row.operator_wallet.as_deref())?,
        default_pre_approval_expiry_s: row.default_pre_approval_expiry_s,
        default_authorization_expiry_s: row.default_authorization_expiry_s,
        created_at: row.created_at,
        updated_at: row.updated_at,
        last_used_at: row.last_used_at,
        orchestrator: row.orchestrator_id.map(OrchestratorId),
        link,
    })
}

fn from_rows((row, link): (Model, Option<Link>)) -> Result<ClientId, StoreError> {
    from_row(row, link.map(OrchestratorLink::try_from).transpose()?)
}

async fn one(conn: &impl ConnectionTrait, found: Select<Entity>) -> Result<Option<ClientId>, StoreError> {
    let rows = found.find_also_related(Links).one(conn).await?;
    rows.map(from_rows).transpose()
}

/// Adds a client ID.
pub async fn insert(conn: &impl ConnectionTrait, client: &ClientId) -> Result<(), StoreError> {
    Entity::insert(ActiveModel::from(to_row(client)?))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// How many client IDs a platform has that are not revoked.
pub async fn count(conn: &impl ConnectionTrait, platform: &PlatformId) -> Result<u64, StoreError> {
    let kept = Entity::find()
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::Status.ne(ClientStatus::Revoked.wire()));
    Ok(kept.count(conn).await?)
}

fn owned(platform: &PlatformId, row: &ClientRowId) -> Condition {
    Condition::all()
        .add(Column::PlatformId.eq(platform.as_str()))
        .add(Column::Id.eq(row.as_str()))
}

/// Finds a client ID of a platform, whatever its state.
pub async fn find(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    row: &ClientRowId,
) -> Result<Option<ClientId>, StoreError> {
    one(conn, Entity::find().filter(owned(platform, row))).await
}

/// Like [`find`], and locks the client ID until the transaction ends.
pub async fn lock(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    row: &ClientRowId,
) -> Result<Option<ClientId>, StoreError> {
    let locked = Entity::find()
        .filter(owned(platform, row))
        .lock_exclusive()
        .one(conn)
        .await?;
    // PostgreSQL locks no rows of an outer join.
    let link = orchestrator_links::find(conn, platform, row).await?;
    locked.map(|row| from_row(row, link)).transpose()
}

/// Writes the fields of a client ID that can change; identity, creation and last use stay unchanged.
pub async fn update(conn: &impl ConnectionTrait, client: &ClientId) -> Result<(), StoreError> {
    let row = to_row(client)?;
    Entity::update_many()
        .col_expr(Column::Label, Expr::value(row.label))
        .col_expr(Column::AllowedDomains, Expr::value(row.allowed_domains))
        .col_expr(Column::Status, Expr::value(row.status))
        .col_expr(Column::FeePercentage, Expr::value(row.fee_percentage))
        .col_expr(Column::FeeAddress, Expr::value(row.fee_address))
        .col_expr(Column::PayeeDestinationId, Expr::value(row.payee_destination_id))
        .col_expr(Column::Limits, Expr::value(row.limits))
        .col_expr(Column::OperatorWallet, Expr::value(row.operator_wallet))
        .col_expr(
            Column::DefaultPreApprovalExpiryS,
            Expr::value(row.default_pre_approval_expiry_s),
        )
        .col_expr(
            Column::DefaultAuthorizationExpiryS,
            Expr::value(row.default_authorization_expiry_s),
        )
        .col_expr(Column::OrchestratorId, Expr::value(row.orchestrator_id))
        .col_expr(Column::UpdatedAt, Expr::value(row.updated_at))
        .filter(owned(&client.platform, &client.row))
        .exec(conn)
        .await?;
    Ok(())
}

/// Binds the client IDs of a platform that are bound to the first destination to the second one.
pub async fn rebind(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    from: &DestinationId,
    to: &DestinationId,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::PayeeDestinationId, Expr::value(to.as_str()))
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::PayeeDestinationId.eq(from.as_str()))
        .exec(conn)
        .await?;
    Ok(())
}

/// Finds a client ID by its public text, whatever its state. The text is the credential that identifies the owner.
pub async fn find_by_client_id(conn: &impl ConnectionTrait, client_id: &str) -> Result<Option<ClientId>, StoreError> {
    one(conn, Entity::find().filter(Column::ClientId.eq(client_id))).await
}

/// Client IDs of a platform, newest first: all that are not revoked, and the last [`REVOKED_LISTED_MAX`] revoked ones.
pub async fn list(conn: &impl ConnectionTrait, platform: &PlatformId) -> Result<Vec<ClientId>, StoreError> {
    let newest = Entity::find()
        .filter(Column::PlatformId.eq(platform.as_str()))
        .order_by_desc(Column::CreatedAt)
        .order_by_desc(Column::Id);
    let revoked = Column::Status.eq(ClientStatus::Revoked.wire());
    let revoked = newest.clone().filter(revoked).limit(REVOKED_LISTED_MAX);
    let mut rows = revoked.find_also_related(Links).all(conn).await?;
    let kept = newest.filter(Column::Status.ne(ClientStatus::Revoked.wire()));
    rows.extend(kept.find_also_related(Links).all(conn).await?);
    rows.sort_unstable_by(|(one, _), (other, _)| (other.created_at, &other.id).cmp(&(one.created_at, &one.id)));
    rows.into_iter().map(from_rows).collect()
}

/// Records a use of a client ID; a time before the recorded one changes nothing.
pub async fn touch(conn: &impl ConnectionTrait, row: &ClientRowId, now: DateTime<Utc>) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::LastUsedAt, Expr::value(now))
        .filter(Column::Id.eq(row.as_str()))
        .filter(Column::LastUsedAt.is_null().or(Column::LastUsedAt.lt(now)))
        .exec(conn)
        .await?;
    Ok(())
}

/// Distinct origins that active client IDs of any platform allow: the origins from which preflight requests are
/// accepted.
pub async fn list_active_domains(conn: &impl ConnectionTrait) -> Result<Vec<String>, StoreError> {
    let lists: Vec<JsonValue> = Entity::find()
        .select_only()
        .column(Column::AllowedDomains)
        .filter(Column::Status.eq(ClientStatus::Active.wire()))
        .into_tuple()
        .all(conn)
        .await?;
    let mut distinct = BTreeSet::new();
    for list in lists {
        distinct.extend(domains(list)?);
    }
    Ok(distinct.into_iter().collect())
}
