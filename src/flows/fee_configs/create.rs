//! Creates a fee config.

use super::linked_client;
use crate::{
    ctx::Ctx,
    domain::{
        caller::OrchestratorCaller,
        client_link::unlinked_client_id,
        fee_config::{FeeConfig, FeeConfigStatus, FeeScope},
        ids::FeeConfigId,
        paying::{capture::FeeTerms, charge::FeeBearer},
        refusal::Refusal,
        secure_payment::PaymentFlow,
    },
    flows::{
        FlowError, FlowResult,
        idempotency::{self, KeyedResult, RepeatableCall, ResponseStorage},
    },
    store::{self, StoreError},
};

/// A fee config to create; every value is valid on its own.
#[derive(Debug, Clone)]
pub struct NewFeeConfig {
    /// The client ID on whose payments the fee is charged; `None` for all client IDs.
    pub client_id: Option<String>,
    /// Direction of the payments.
    pub flow: PaymentFlow,
    /// Who bears the fee.
    pub bearer: FeeBearer,
    /// Rate, cap and receivers.
    pub terms: FeeTerms,
    /// State.
    pub status: FeeConfigStatus,
}

/// Creates a fee config. Payments that exist stay unchanged.
///
/// Errors: every wrong field (400); a client ID that is not linked to the orchestrator (404); a config with the same
/// scope, flow and bearer exists, even a disabled one (409).
pub async fn run(
    ctx: &Ctx,
    caller: &OrchestratorCaller,
    new: NewFeeConfig,
    call: RepeatableCall<FeeConfig>,
) -> FlowResult<KeyedResult<FeeConfig>> {
    idempotency::once(ctx, caller, call, ResponseStorage::Shared, async |keeper| {
        let terms = new.terms.clone().checked(&ctx.catalogue)?;
        let client = match &new.client_id {
            Some(client_id) => Some(linked_client(ctx, caller, client_id).await?),
            None => None,
        };
        let scope = client.as_ref().map(|client| FeeScope {
            row: client.row.clone(),
            client_id: client.client_id.clone(),
        });
        let now = ctx.clock.now();
        let config = FeeConfig {
            id: FeeConfigId(ctx.ids.ulid()),
            orchestrator: caller.id.clone(),
            scope,
            flow: new.flow,
            bearer: new.bearer,
            terms,
            status: new.status,
            created_at: now,
            updated_at: now,
        };
        let tx = ctx.db.begin("create_fee_config").await?;
        if let Some(client) = &client {
            let linked = store::orchestrator_links::hold(&tx, &client.platform, &client.row).await?;
            if linked.as_ref() != Some(&caller.id) {
                return Err(unlinked_client_id().into());
            }
        }
        store::fee_configs::insert(&tx, &config)
            .await
            .map_err(|error| match error {
                StoreError::Conflict(store::FEE_CONFIG) => Refusal::conflict(
                    "A fee config with this scope, flow and feeBearer exists, active or disabled: change it with \
                 PATCH /v2/orchestrators/fee-configs/{id}",
                )
                .into(),
                other => FlowError::from(other),
            })?;
        crate::fail_at("create_fee_config", "inserted");
        keeper.commit(tx, &config).await?;
        Ok(config)
    })
    .await
}
