//! Receivers of webhooks.

use super::{Scope, StoreError, outbox};
use crate::domain::ids::{ClientRowId, EndpointId, PlatformId};
use chrono::{DateTime, Utc};
use entities::webhook_endpoints::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, sea_query::Expr,
};

/// A receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Row.
    pub id: EndpointId,
    /// Tenant.
    pub platform: PlatformId,
    /// Client ID that it belongs to; `None` receives the events of the whole platform.
    pub client: Option<ClientRowId>,
    /// Where to.
    pub url: String,
    /// Sealed signing secret.
    pub secret_sealed: String,
    /// Whether events are sent to it.
    pub is_active: bool,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
}

impl From<Model> for Endpoint {
    fn from(row: Model) -> Self {
        Self {
            id: EndpointId(row.id),
            platform: PlatformId(row.platform_id),
            client: row.client_row.map(ClientRowId),
            url: row.url,
            secret_sealed: row.secret_sealed,
            is_active: row.is_active,
            created_at: row.created_at,
        }
    }
}

/// Rows that a scope may see: a client ID its own, a platform all of them.
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

/// Adds an endpoint.
///
/// Errors: [`StoreError::Conflict`] with [`super::ENDPOINT_URL`] when the same owner has this URL already.
pub async fn insert(conn: &impl ConnectionTrait, endpoint: &Endpoint) -> Result<(), StoreError> {
    let row = Model {
        id: endpoint.id.0.clone(),
        platform_id: endpoint.platform.0.clone(),
        client_row: endpoint.client.as_ref().map(|client| client.0.clone()),
        url: endpoint.url.clone(),
        secret_sealed: endpoint.secret_sealed.clone(),
        is_active: endpoint.is_active,
        created_at: endpoint.created_at,
    };
    Entity::insert(ActiveModel::from(row))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Endpoints, oldest first, the inactive ones too.
pub async fn list(conn: &impl ConnectionTrait, scope: &Scope) -> Result<Vec<Endpoint>, StoreError> {
    let rows = Entity::find()
        .filter(owned(scope))
        .order_by_asc(Column::CreatedAt)
        .order_by_asc(Column::Id)
        .all(conn)
        .await?;
    Ok(rows.into_iter().map(Endpoint::from).collect())
}

/// Finds an endpoint.
pub async fn find(conn: &impl ConnectionTrait, scope: &Scope, id: &EndpointId) -> Result<Option<Endpoint>, StoreError> {
    let row = Entity::find()
        .filter(owned(scope))
        .filter(Column::Id.eq(id.as_str()))
        .one(conn)
        .await?;
    Ok(row.map(Endpoint::from))
}

/// Switches an endpoint on or off; tells whether there is one. Needs a transaction.
///
/// What waits for an endpoint that is switched off is cancelled; switched on again, it receives new events only.
pub async fn set_active(
    conn: &impl ConnectionTrait,
    scope: &Scope,
    id: &EndpointId,
    is_active: bool,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let result = Entity::update_many()
        .col_expr(Column::IsActive, Expr::value(is_active))
        .filter(owned(scope))
        .filter(Column::Id.eq(id.as_str()))
        .exec(conn)
        .await?;
    let is_there = result.rows_affected == 1;
    if is_there && !is_active {
        outbox::cancel_queued_of_endpoint(conn, id, now).await?;
    }
    Ok(is_there)
}

/// Deletes an endpoint and cancels what waits for it; tells whether there was one. Needs a transaction.
///
/// Its deliveries stay, so that the log of what was sent remains whole.
pub async fn delete(
    conn: &impl ConnectionTrait,
    scope: &Scope,
    id: &EndpointId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let result = Entity::delete_many()
        .filter(owned(scope))
        .filter(Column::Id.eq(id.as_str()))
        .exec(conn)
        .await?;
    let was_there = result.rows_affected == 1;
    if was_there {
        outbox::cancel_queued_of_endpoint(conn, id, now).await?;
    }
    Ok(was_there)
}

/// Who receives an event about an object of this client ID: its active endpoints and those of the whole platform.
pub async fn active_for(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    client: Option<&ClientRowId>,
) -> Result<Vec<EndpointId>, StoreError> {
    let audience = Condition::any()
        .add(Column::ClientRow.is_null())
        .add_option(client.map(|client| Column::ClientRow.eq(client.as_str())));
    let ids: Vec<String> = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::IsActive.eq(true))
        .filter(audience)
        .order_by_asc(Column::Id)
        .into_tuple()
        .all(conn)
        .await?;
    Ok(ids.into_iter().map(EndpointId).collect())
}
