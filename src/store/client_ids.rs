//! Public client IDs.

use super::{StoreError, columns};
use crate::domain::{
    amount::Percent,
    client_id::{ClientId, ClientStatus},
    ids::{ClientRowId, PlatformId},
};
use chrono::{DateTime, Utc};
use entities::client_ids::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, JsonValue, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Expr, ExprTrait},
};
use std::collections::BTreeSet;

fn domains(value: JsonValue) -> Result<Vec<String>, StoreError> {
    columns::from_json("allowed_domains", value)
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
        operator_wallet: client.operator_wallet.map(|address| address.canonical()),
        default_pre_approval_expiry_s: client.default_pre_approval_expiry_s,
        default_authorization_expiry_s: client.default_authorization_expiry_s,
        created_at: client.created_at,
        updated_at: client.updated_at,
        last_used_at: client.last_used_at,
    })
}

fn from_row(row: Model) -> Result<ClientId, StoreError> {
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
        operator_wallet: columns::address_option("operator_wallet", row.operator_wallet.as_deref())?,
        default_pre_approval_expiry_s: row.default_pre_approval_expiry_s,
        default_authorization_expiry_s: row.default_authorization_expiry_s,
        created_at: row.created_at,
        updated_at: row.updated_at,
        last_used_at: row.last_used_at,
    })
}

/// Adds a client ID.
pub async fn insert(conn: &impl ConnectionTrait, client: &ClientId) -> Result<(), StoreError> {
    Entity::insert(ActiveModel::from(to_row(client)?))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Finds a client ID by its public text, whatever its state. It is the credential that names the owner.
pub async fn find_by_client_id(conn: &impl ConnectionTrait, client_id: &str) -> Result<Option<ClientId>, StoreError> {
    let row = Entity::find().filter(Column::ClientId.eq(client_id)).one(conn).await?;
    row.map(from_row).transpose()
}

/// Whether a client ID of a platform is still in use.
pub async fn is_active(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    row: &ClientRowId,
) -> Result<bool, StoreError> {
    let row = Entity::find_by_id(row.as_str())
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::Status.eq(ClientStatus::Active.wire()))
        .one(conn)
        .await?;
    Ok(row.is_some())
}

/// Client IDs of a platform, newest first.
pub async fn list(conn: &impl ConnectionTrait, platform: &PlatformId) -> Result<Vec<ClientId>, StoreError> {
    let rows = Entity::find()
        .filter(Column::PlatformId.eq(platform.as_str()))
        .order_by_desc(Column::CreatedAt)
        .order_by_desc(Column::Id)
        .all(conn)
        .await?;
    rows.into_iter().map(from_row).collect()
}

/// Notes a use; an older time than the noted one changes nothing.
pub async fn touch(conn: &impl ConnectionTrait, row: &ClientRowId, now: DateTime<Utc>) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::LastUsedAt, Expr::value(now))
        .filter(Column::Id.eq(row.as_str()))
        .filter(Column::LastUsedAt.is_null().or(Column::LastUsedAt.lt(now)))
        .exec(conn)
        .await?;
    Ok(())
}

/// Origins that any active client ID of any platform allows, each once: what a preflight request may come from.
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
