//! Fee configs of orchestrators.

use super::{StoreError, columns};
use crate::domain::{
    amount::Amount,
    fee_config::{FeeConfig, FeeConfigStatus, FeeScope},
    ids::{ClientRowId, FeeConfigId, OrchestratorId},
    paying::{capture::FeeTerms, charge::FeeBearer},
    secure_payment::PaymentFlow,
};
use entities::fee_configs::{ActiveModel, Column, Entity, Model};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect, Select, sea_query::Expr};

/// Scope of a config for all client IDs of its orchestrator.
const EVERY_CLIENT: &str = "";

fn to_row(config: &FeeConfig) -> Model {
    let scope = config.scope.as_ref();
    let terms = &config.terms;
    Model {
        orchestrator_id: config.orchestrator.0.clone(),
        id: config.id.0.clone(),
        scope: scope.map_or(EVERY_CLIENT, |scope| scope.row.as_str()).to_owned(),
        client_id: scope.map(|scope| scope.client_id.clone()),
        flow: config.flow.wire().to_owned(),
        bearer: config.bearer.wire().to_owned(),
        basis_points: terms.rate.basis_points().into(),
        cap_usd: terms.cap_usd.as_ref().map(|cap| cap.as_str().to_owned()),
        evm_receiver: terms.evm.map(|receiver| receiver.canonical()),
        tron_receiver: terms.tron.map(|receiver| receiver.canonical()),
        status: config.status.wire().to_owned(),
        created_at: config.created_at,
        updated_at: config.updated_at,
    }
}

fn from_row(row: Model) -> Result<FeeConfig, StoreError> {
    let cap = row.cap_usd.as_deref();
    let cap = cap.map(|text| columns::known("cap_usd", text, |text| Amount::parse(text).ok()));
    let scope = row.client_id.map(|client_id| FeeScope {
        row: ClientRowId(row.scope.clone()),
        client_id,
    });
    Ok(FeeConfig {
        id: FeeConfigId(row.id),
        orchestrator: OrchestratorId(row.orchestrator_id),
        scope,
        flow: columns::known("flow", &row.flow, PaymentFlow::from_wire)?,
        bearer: columns::known("bearer", &row.bearer, FeeBearer::from_wire)?,
        terms: FeeTerms {
            rate: columns::percent("basis_points", row.basis_points)?,
            cap_usd: cap.transpose()?,
            evm: columns::address_option("evm_receiver", row.evm_receiver.as_deref())?,
            tron: columns::address_option("tron_receiver", row.tron_receiver.as_deref())?,
        },
        status: columns::known("status", &row.status, FeeConfigStatus::from_wire)?,
        created_at: row.created_at,
        updated_at: row.updated_at,
    })
}

fn owned(orchestrator: &OrchestratorId) -> Select<Entity> {
    Entity::find().filter(Column::OrchestratorId.eq(orchestrator.as_str()))
}

/// Adds a config.
///
/// Errors: [`StoreError::Conflict`] with [`super::FEE_CONFIG`] when the orchestrator has a config with the same scope, flow
/// and bearer.
pub async fn insert(conn: &impl ConnectionTrait, config: &FeeConfig) -> Result<(), StoreError> {
    Entity::insert(ActiveModel::from(to_row(config)))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// A config of an orchestrator, locked until the transaction ends.
pub async fn lock(
    conn: &impl ConnectionTrait,
    orchestrator: &OrchestratorId,
    id: &FeeConfigId,
) -> Result<Option<FeeConfig>, StoreError> {
    let query = owned(orchestrator).filter(Column::Id.eq(id.as_str()));
    let row = query.lock_exclusive().one(conn).await?;
    row.map(from_row).transpose()
}

/// Writes the values of a config that can change.
pub async fn update(conn: &impl ConnectionTrait, config: &FeeConfig) -> Result<(), StoreError> {
    let row = to_row(config);
    Entity::update_many()
        .col_expr(Column::BasisPoints, Expr::value(row.basis_points))
        .col_expr(Column::CapUsd, Expr::value(row.cap_usd))
        .col_expr(Column::EvmReceiver, Expr::value(row.evm_receiver))
        .col_expr(Column::TronReceiver, Expr::value(row.tron_receiver))
        .col_expr(Column::Status, Expr::value(row.status))
        .col_expr(Column::UpdatedAt, Expr::value(row.updated_at))
        .filter(Column::OrchestratorId.eq(row.orchestrator_id))
        .filter(Column::Id.eq(row.id))
        .exec(conn)
        .await?;
    Ok(())
}

/// The configs of one scope, oldest first: those of a client ID, or the defaults.
pub async fn list(
    conn: &impl ConnectionTrait,
    orchestrator: &OrchestratorId,
    client: Option<&ClientRowId>,
) -> Result<Vec<FeeConfig>, StoreError> {
    let scope = client.map_or(EVERY_CLIENT, ClientRowId::as_str);
    let query = owned(orchestrator).filter(Column::Scope.eq(scope));
    // A scope has at most four configs. Sorting them in the query would make SQLite read all configs of the orchestrator.
    let mut rows = query.all(conn).await?;
    rows.sort_by(|one, other| one.id.cmp(&other.id));
    rows.into_iter().map(from_row).collect()
}

/// Deletes the configs for a client ID.
pub(super) async fn delete_of_client(
    conn: &impl ConnectionTrait,
    orchestrator: &str,
    client: &ClientRowId,
) -> Result<(), StoreError> {
    Entity::delete_many()
        .filter(Column::OrchestratorId.eq(orchestrator))
        .filter(Column::Scope.eq(client.as_str()))
        .exec(conn)
        .await?;
    Ok(())
}

/// The default configs of an orchestrator, and its configs for a client ID.
pub async fn list_for_payment(
    conn: &impl ConnectionTrait,
    orchestrator: &OrchestratorId,
    client: &ClientRowId,
) -> Result<Vec<FeeConfig>, StoreError> {
    let query = owned(orchestrator).filter(Column::Scope.is_in([EVERY_CLIENT, client.as_str()]));
    let rows = query.all(conn).await?;
    rows.into_iter().map(from_row).collect()
}
