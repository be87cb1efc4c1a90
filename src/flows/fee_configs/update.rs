//! Changes a fee config.

use super::unknown;
use crate::{
    ctx::Ctx,
    domain::{
        caller::OrchestratorCaller,
        fee_config::{FeeConfig, FeeConfigChange},
        ids::FeeConfigId,
    },
    flows::FlowResult,
    store,
};

/// Changes a fee config and returns it. Payments that exist stay unchanged. If `client_id` is set, the config must
/// belong to this client ID.
///
/// Errors: every wrong field, or no receiver is left (400); a config that the orchestrator does not have, or that belongs
/// to another client ID (404).
pub async fn run(
    ctx: &Ctx,
    caller: &OrchestratorCaller,
    id: &FeeConfigId,
    client_id: Option<&str>,
    change: FeeConfigChange,
) -> FlowResult<FeeConfig> {
    let tx = ctx.db.begin("update_fee_config").await?;
    let stored = store::fee_configs::lock(&tx, &caller.id, id).await?;
    let is_named = |config: &FeeConfig| {
        let own = config.scope.as_ref().map(|scope| scope.client_id.as_str());
        client_id.is_none_or(|named| own == Some(named))
    };
    let stored = stored.filter(is_named).ok_or_else(unknown)?;
    let config = stored.changed(change, &ctx.catalogue, ctx.clock.now())?;
    store::fee_configs::update(&tx, &config).await?;
    crate::fail_at("update_fee_config", "updated");
    tx.commit().await?;
    Ok(config)
}
