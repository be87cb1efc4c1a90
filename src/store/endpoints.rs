//! Receivers of webhooks.

use super::{Holder, StoreError, columns};
use crate::domain::{
    client_id::ClientStatus,
    ids::{ClientRowId, EndpointId, OwnerId},
    webhook::FormerSecret,
};
use chrono::{DateTime, Utc};
use entities::{
    client_ids,
    webhook_endpoints::{ActiveModel, Column, Entity, Model},
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, JsonValue, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect, Select,
    sea_query::{Expr, ExprTrait, Query},
};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Row.
    pub id: EndpointId,
    /// Platform or orchestrator.
    pub owner: OwnerId,
    /// Client ID that the endpoint belongs to; `None` if it receives the events of the whole owner.
    pub client: Option<ClientRowId>,
    /// URL.
    pub url: String,
    /// Encrypted signing secret.
    pub secret_sealed: String,
    /// Previous secrets that may still be in use, the oldest first.
    pub former_secrets: Vec<FormerSecret>,
    /// Whether the service sends events to the endpoint.
    pub is_active: bool,
    /// Whether the endpoint may receive personal data: it was registered with a secret credential, or approved with one
    /// since.
    pub is_approved: bool,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// Prefix of the endpoint's webhook headers; `None` for every prefix in the settings.
    pub header_prefix: Option<String>,
    /// Since when all deliveries to the endpoint have failed.
    pub failing_since: Option<DateTime<Utc>>,
}

fn from_row(row: Model) -> Result<Endpoint, StoreError> {
    Ok(Endpoint {
        id: EndpointId(row.id),
        owner: OwnerId(row.owner_id),
        client: row.client_row.map(ClientRowId),
        url: row.url,
        secret_sealed: row.secret_sealed,
        former_secrets: former_secrets(row.former_secrets)?,
        is_active: row.is_active,
        is_approved: row.is_approved,
        created_at: row.created_at,
        header_prefix: row.header_prefix,
        failing_since: row.failing_since,
    })
}

/// A former secret as stored in the column.
#[derive(Serialize, Deserialize)]
struct StoredSecret {
    sealed: String,
    until: DateTime<Utc>,
}

/// Reads the column of former secrets.
pub(super) fn former_secrets(column: Option<JsonValue>) -> Result<Vec<FormerSecret>, StoreError> {
    let Some(column) = column else {
        return Ok(Vec::new());
    };
    let stored: Vec<StoredSecret> = columns::from_json("former_secrets", column)?;
    Ok(stored
        .into_iter()
        .map(|StoredSecret { sealed, until }| FormerSecret { sealed, until })
        .collect())
}

fn to_column(former: &[FormerSecret]) -> Result<Option<JsonValue>, StoreError> {
    if former.is_empty() {
        return Ok(None);
    }
    let stored: Vec<StoredSecret> = former
        .iter()
        .map(|secret| StoredSecret {
            sealed: secret.sealed.clone(),
            until: secret.until,
        })
        .collect();
    columns::to_json("former_secrets", &stored).map(Some)
}

/// Rows that a holder may see. A client ID sees its own endpoints, and a public client ID only its own unapproved ones.
/// A platform or an orchestrator sees all of its endpoints.
fn owned(holder: &Holder) -> Condition {
    Condition::all()
        .add(Column::OwnerId.eq(holder.owner.as_str()))
        .add_option(
            holder
                .client
                .as_ref()
                .map(|client| Column::ClientRow.eq(client.as_str())),
        )
        .add_option(holder.is_public.then(|| Column::IsApproved.eq(false)))
}

/// Adds an endpoint.
///
/// Errors: [`StoreError::Conflict`] with [`super::ENDPOINT_URL`] when the same owner already has this URL.
pub async fn insert(conn: &impl ConnectionTrait, endpoint: &Endpoint) -> Result<(), StoreError> {
    let row = Model {
        id: endpoint.id.0.clone(),
        owner_id: endpoint.owner.0.clone(),
        client_row: endpoint.client.as_ref().map(|client| client.0.clone()),
        url: endpoint.url.clone(),
        secret_sealed: endpoint.secret_sealed.clone(),
        former_secrets: to_column(&endpoint.former_secrets)?,
        is_active: endpoint.is_active,
        is_approved: endpoint.is_approved,
        created_at: endpoint.created_at,
        header_prefix: endpoint.header_prefix.clone(),
        failing_since: endpoint.failing_since,
        failed_at: None,
        is_recovering: false,
    };
    Entity::insert(ActiveModel::from(row))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// How many endpoints an owner has. The count includes inactive endpoints and those of its client IDs, but not those
/// that wait for approval.
pub async fn count(conn: &impl ConnectionTrait, owner: &OwnerId) -> Result<u64, StoreError> {
    Ok(Entity::find()
        .filter(Column::OwnerId.eq(owner.as_str()))
        .filter(Column::IsApproved.eq(true))
        .count(conn)
        .await?)
}

/// Endpoints of a client ID that wait for approval.
fn unapproved(owner: &OwnerId, client: &ClientRowId) -> Select<Entity> {
    Entity::find()
        .filter(Column::OwnerId.eq(owner.as_str()))
        .filter(Column::ClientRow.eq(client.as_str()))
        .filter(Column::IsApproved.eq(false))
}

/// How many endpoints of a client ID wait for approval, including inactive ones.
pub async fn count_unapproved(
    conn: &impl ConnectionTrait,
    owner: &OwnerId,
    client: &ClientRowId,
) -> Result<u64, StoreError> {
    Ok(unapproved(owner, client).count(conn).await?)
}

/// The active endpoints of a client ID that wait for approval, locked until the transaction ends.
pub async fn lock_unapproved(
    conn: &impl ConnectionTrait,
    owner: &OwnerId,
    client: &ClientRowId,
) -> Result<Vec<Endpoint>, StoreError> {
    let locked = unapproved(owner, client)
        .filter(Column::IsActive.eq(true))
        .order_by_asc(Column::Id)
        .lock_exclusive();
    locked.all(conn).await?.into_iter().map(from_row).collect()
}

/// Endpoints, oldest first, including inactive ones.
pub async fn list(conn: &impl ConnectionTrait, holder: impl Into<Holder>) -> Result<Vec<Endpoint>, StoreError> {
    let rows = Entity::find()
        .filter(owned(&holder.into()))
        .order_by_asc(Column::CreatedAt)
        .order_by_asc(Column::Id)
        .all(conn)
        .await?;
    rows.into_iter().map(from_row).collect()
}

/// The public texts of the client IDs that endpoints belong to.
pub async fn client_texts(
    conn: &impl ConnectionTrait,
    endpoints: &[Endpoint],
) -> Result<HashMap<ClientRowId, String>, StoreError> {
    let mut clients: Vec<&str> = endpoints
        .iter()
        .filter_map(|endpoint| endpoint.client.as_ref().map(ClientRowId::as_str))
        .collect();
    clients.sort_unstable();
    clients.dedup();
    let mut texts = HashMap::new();
    for clients in clients.chunks(columns::ROWS_MAX) {
        let rows: Vec<(String, String)> = client_ids::Entity::find()
            .select_only()
            .columns([client_ids::Column::Id, client_ids::Column::ClientId])
            .filter(client_ids::Column::Id.is_in(clients.iter().copied()))
            .into_tuple()
            .all(conn)
            .await?;
        texts.extend(rows.into_iter().map(|(row, text)| (ClientRowId(row), text)));
    }
    Ok(texts)
}

/// Finds an endpoint.
pub async fn find(
    conn: &impl ConnectionTrait,
    holder: impl Into<Holder>,
    id: &EndpointId,
) -> Result<Option<Endpoint>, StoreError> {
    let row = Entity::find()
        .filter(owned(&holder.into()))
        .filter(Column::Id.eq(id.as_str()))
        .one(conn)
        .await?;
    row.map(from_row).transpose()
}

/// Finds an endpoint and locks it until the transaction ends.
pub async fn find_to_change(
    conn: &impl ConnectionTrait,
    holder: impl Into<Holder>,
    id: &EndpointId,
) -> Result<Option<Endpoint>, StoreError> {
    let row = Entity::find()
        .filter(owned(&holder.into()))
        .filter(Column::Id.eq(id.as_str()))
        .lock_exclusive()
        .one(conn)
        .await?;
    row.map(from_row).transpose()
}

/// Finds endpoints and locks them until the transaction ends.
pub async fn lock(conn: &impl ConnectionTrait, ids: &[EndpointId]) -> Result<Vec<Endpoint>, StoreError> {
    let locked = Entity::find()
        .filter(Column::Id.is_in(ids.iter().map(EndpointId::as_str)))
        .order_by_asc(Column::Id)
        .lock_exclusive();
    locked.all(conn).await?.into_iter().map(from_row).collect()
}

/// Replaces the secret of an endpoint; returns whether `replaced`, the encrypted previous secret, was still in use.
pub async fn replace_secret(
    conn: &impl ConnectionTrait,
    holder: impl Into<Holder>,
    id: &EndpointId,
    replaced: &str,
    secret_sealed: &str,
    former: &[FormerSecret],
) -> Result<bool, StoreError> {
    let result = Entity::update_many()
        .col_expr(Column::SecretSealed, Expr::value(secret_sealed))
        .col_expr(Column::FormerSecrets, Expr::value(to_column(former)?))
        .filter(owned(&holder.into()))
        .filter(Column::Id.eq(id.as_str()))
        .filter(Column::SecretSealed.eq(replaced))
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// Switches an endpoint on or off, and clears its failure state; returns whether the endpoint exists. The caller
/// handles its pending deliveries.
pub async fn set_active(
    conn: &impl ConnectionTrait,
    holder: impl Into<Holder>,
    id: &EndpointId,
    is_active: bool,
) -> Result<bool, StoreError> {
    let result = Entity::update_many()
        .col_expr(Column::IsActive, Expr::value(is_active))
        .col_expr(Column::FailingSince, Expr::value(None::<DateTime<Utc>>))
        .col_expr(Column::IsRecovering, Expr::value(false))
        .filter(owned(&holder.into()))
        .filter(Column::Id.eq(id.as_str()))
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// Approves an endpoint for personal data; returns whether the endpoint exists.
pub async fn approve(
    conn: &impl ConnectionTrait,
    holder: impl Into<Holder>,
    id: &EndpointId,
) -> Result<bool, StoreError> {
    let result = Entity::update_many()
        .col_expr(Column::IsApproved, Expr::value(true))
        .filter(owned(&holder.into()))
        .filter(Column::Id.eq(id.as_str()))
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// Deletes an endpoint; returns whether the endpoint existed. The caller handles its pending deliveries.
pub async fn delete(
    conn: &impl ConnectionTrait,
    holder: impl Into<Holder>,
    id: &EndpointId,
) -> Result<bool, StoreError> {
    let result = Entity::delete_many()
        .filter(owned(&holder.into()))
        .filter(Column::Id.eq(id.as_str()))
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// An active endpoint, and whose events it receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveEndpoint {
    /// Endpoint.
    pub id: EndpointId,
    /// Platform or orchestrator.
    pub owner: OwnerId,
    /// If set, the endpoint receives only the events of this client ID; `None` for all events of its owner.
    pub client: Option<ClientRowId>,
    /// Whether it may receive everything.
    pub is_approved: bool,
}

impl ActiveEndpoint {
    /// Whether the endpoint receives an event of an owner. The event belongs to a client ID, or to none.
    pub fn hears(&self, owner: &OwnerId, client: Option<&ClientRowId>) -> bool {
        self.owner == *owner && (self.client.is_none() || self.client.as_ref() == client)
    }
}

/// The active endpoints of some owners, in the order of their ids. With `with_unapproved`, endpoints that wait for
/// approval are included, as long as their client ID is active.
pub async fn active_of(
    conn: &impl ConnectionTrait,
    owners: &[OwnerId],
    with_unapproved: bool,
) -> Result<Vec<ActiveEndpoint>, StoreError> {
    let client = |column| Expr::col((client_ids::Entity, column));
    let in_use = Query::select()
        .expr(Expr::val(1))
        .from(client_ids::Entity)
        .and_where(client(client_ids::Column::Id).equals((Entity, Column::ClientRow)))
        .and_where(client(client_ids::Column::Status).eq(ClientStatus::Active.wire()))
        .to_owned();
    let may_hear = Condition::any()
        .add(Column::IsApproved.eq(true))
        .add_option(with_unapproved.then(|| Expr::exists(in_use)));
    let mut found = Vec::new();
    for owners in owners.chunks(columns::ROWS_MAX) {
        let rows: Vec<(String, String, Option<String>, bool)> = Entity::find()
            .select_only()
            .columns([Column::Id, Column::OwnerId, Column::ClientRow, Column::IsApproved])
            .filter(Column::OwnerId.is_in(owners.iter().map(OwnerId::as_str)))
            .filter(Column::IsActive.eq(true))
            .filter(may_hear.clone())
            .order_by_asc(Column::Id)
            .into_tuple()
            .all(conn)
            .await?;
        found.extend(rows);
    }
    let endpoint = |(id, owner, client, is_approved): (String, String, Option<String>, bool)| ActiveEndpoint {
        id: EndpointId(id),
        owner: OwnerId(owner),
        client: client.map(ClientRowId),
        is_approved,
    };
    Ok(found.into_iter().map(endpoint).collect())
}
