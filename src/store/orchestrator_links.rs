//! Links of client IDs to orchestrators.

use super::StoreError;
use crate::domain::{
    client_id::ClientId,
    ids::{ClientRowId, OrchestratorId, PlatformId},
    orchestrator::{LinkStatus, OrchestratorLink},
};
use chrono::{DateTime, Utc};
use entities::{
    client_ids,
    orchestrator_links::{ActiveModel, Column, Entity, Model},
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, Select,
    sea_query::{Expr, LockType},
};
use std::collections::HashMap;

impl TryFrom<Model> for OrchestratorLink {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        Ok(Self {
            orchestrator: OrchestratorId(row.orchestrator_id),
            status: super::columns::known("status", &row.status, LinkStatus::from_wire)?,
            linked_at: row.linked_at,
        })
    }
}

/// Adds the link of a client ID. Errors: it already has one, active or ended ([`super::ORCHESTRATOR_LINK`]).
pub async fn insert(conn: &impl ConnectionTrait, client: &ClientId, link: &OrchestratorLink) -> Result<(), StoreError> {
    let row = Model {
        platform_id: client.platform.0.clone(),
        client_row: client.row.0.clone(),
        orchestrator_id: link.orchestrator.0.clone(),
        status: link.status.wire().to_owned(),
        linked_at: link.linked_at,
        ended_at: None,
    };
    Entity::insert(ActiveModel::from(row))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// The link of a client ID, active or ended.
pub(super) async fn find(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    client: &ClientRowId,
) -> Result<Option<OrchestratorLink>, StoreError> {
    let key = (platform.as_str().to_owned(), client.as_str().to_owned());
    let row = Entity::find_by_id(key).one(conn).await?;
    row.map(OrchestratorLink::try_from).transpose()
}

/// The orchestrator to which a client ID is linked. An active link cannot end before the transaction does.
pub async fn hold(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    client: &ClientRowId,
) -> Result<Option<OrchestratorId>, StoreError> {
    let key = (platform.as_str().to_owned(), client.as_str().to_owned());
    let active = Entity::find_by_id(key)
        .filter(Column::Status.eq(LinkStatus::Active.wire()))
        .lock(LockType::Share);
    let row = active.one(conn).await?;
    Ok(row.map(|row| OrchestratorId(row.orchestrator_id)))
}

/// Ends the link of a client ID, if it is active, and deletes the fee configs for this client ID: it is never linked
/// again, so no payment can carry these fees. Returns whether a link ended.
pub async fn end(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    client: &ClientRowId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let key = (platform.as_str().to_owned(), client.as_str().to_owned());
    let active = Entity::find_by_id(key).filter(Column::Status.eq(LinkStatus::Active.wire()));
    let Some(link) = active.lock(LockType::NoKeyUpdate).one(conn).await? else {
        return Ok(false);
    };
    Entity::update_many()
        .col_expr(Column::Status, Expr::value(LinkStatus::Ended.wire()))
        .col_expr(Column::EndedAt, Expr::value(now))
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::ClientRow.eq(client.as_str()))
        .exec(conn)
        .await?;
    super::fee_configs::delete_of_client(conn, &link.orchestrator_id, client).await?;
    Ok(true)
}

fn active(orchestrator: &OrchestratorId) -> Select<Entity> {
    Entity::find()
        .filter(Column::OrchestratorId.eq(orchestrator.as_str()))
        .filter(Column::Status.eq(LinkStatus::Active.wire()))
}

/// Number of active links of an orchestrator.
pub async fn count_active(conn: &impl ConnectionTrait, orchestrator: &OrchestratorId) -> Result<u64, StoreError> {
    Ok(active(orchestrator).count(conn).await?)
}

/// One page of the client IDs with an active link to an orchestrator, in their public form, oldest link first.
pub async fn list_active(
    conn: &impl ConnectionTrait,
    orchestrator: &OrchestratorId,
    limit: u64,
    offset: u64,
) -> Result<Vec<String>, StoreError> {
    // The page is chosen in the index, so that the client IDs of skipped links are not read.
    let page = active(orchestrator)
        .order_by_asc(Column::LinkedAt)
        .order_by_asc(Column::ClientRow)
        .limit(limit)
        .offset(offset);
    let links = page.all(conn).await?;
    if links.is_empty() {
        return Ok(Vec::new());
    }
    let rows = client_ids::Entity::find()
        .select_only()
        .columns([client_ids::Column::Id, client_ids::Column::ClientId])
        .filter(client_ids::Column::PlatformId.is_in(links.iter().map(|link| link.platform_id.as_str())))
        .filter(client_ids::Column::Id.is_in(links.iter().map(|link| link.client_row.as_str())))
        .into_tuple()
        .all(conn)
        .await?;
    let mut public: HashMap<String, String> = rows.into_iter().collect();
    Ok(links
        .into_iter()
        .filter_map(|link| public.remove(&link.client_row))
        .collect())
}
