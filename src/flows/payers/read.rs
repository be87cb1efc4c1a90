//! Returns the status of a payer.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, payer::CompliancePayer},
    flows::{FlowResult, payers::known},
};

/// The payer with this id of the caller's platform. Errors: an unknown payer (404).
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, client_user_id: &str) -> FlowResult<CompliancePayer> {
    known(ctx, &caller.platform, client_user_id).await
}
