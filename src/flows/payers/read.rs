//! Reads what is known of a payer.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, payer::Payer},
    flows::{FlowResult, payers::known},
};

/// Errors: unknown (404).
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, client_user_id: &str) -> FlowResult<Payer> {
    known(ctx, &caller.platform, client_user_id).await
}
