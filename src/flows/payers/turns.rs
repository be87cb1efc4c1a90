//! Slots for calls to the off-ramp partner that callers wait for. A caller that makes many calls at once does not block
//! other platforms. Workers need no slot, so callers cannot block them.

use crate::{
    ctx::Ctx,
    domain::caller::PlatformCaller,
    flows::admission::{HeldPermit, admit, holder_of},
    ports::off_ramp::OffRampError,
};
use tokio::time::{Instant, timeout_at};

/// The right to make one call to the partner.
pub(in crate::flows) struct PartnerCallTurn {
    _permit: HeldPermit,
    ends: Instant,
}

/// Waits for a slot of the caller. Errors: no slot in time; then nothing was sent.
pub(in crate::flows) async fn turn(ctx: &Ctx, caller: &PlatformCaller) -> Result<PartnerCallTurn, OffRampError> {
    let ends = Instant::now() + ctx.waits.partner_in_turn;
    let permit = admit(&ctx.off_ramp_calls, &holder_of(caller), ctx.waits.permit).await;
    let permit = permit.ok_or_else(|| {
        tracing::warn!("a call to the off-ramp partner timed out while waiting for its slot");
        OffRampError::Busy
    })?;
    Ok(PartnerCallTurn { _permit: permit, ends })
}

impl PartnerCallTurn {
    /// Makes the call. Errors: those of the call, or no response in time.
    pub(in crate::flows) async fn make<T>(
        self,
        call: impl Future<Output = Result<T, OffRampError>>,
    ) -> Result<T, OffRampError> {
        let called = timeout_at(self.ends, call).await;
        called.unwrap_or_else(|_| {
            tracing::warn!("a call to the off-ramp partner timed out before its response");
            Err(OffRampError::NoAnswer("did not respond in time".to_owned()))
        })
    }
}

/// Makes a call to the partner in the caller's slot. Errors: those of the call, or no slot in time.
pub(in crate::flows) async fn in_turn<T>(
    ctx: &Ctx,
    caller: &PlatformCaller,
    call: impl Future<Output = Result<T, OffRampError>>,
) -> Result<T, OffRampError> {
    turn(ctx, caller).await?.make(call).await
}
