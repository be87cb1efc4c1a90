//! Calls of the off-ramp partner that callers wait for, in turns: whoever asks for everything at once keeps no other platform
//! waiting, and leaves permits to the workers, who need none of these.

use crate::{
    ctx::Ctx,
    domain::caller::PlatformCaller,
    flows::admission::{HeldPermit, admit, holder_of},
    ports::off_ramp::OffRampError,
};
use tokio::time::{Instant, timeout_at};

/// The right to make one call of the partner.
pub(in crate::flows) struct Turn {
    _permit: HeldPermit,
    ends: Instant,
}

/// Waits for the caller's turn; who gets none has cost nothing but the wait. Errors: it does not come in time.
pub(in crate::flows) async fn turn(ctx: &Ctx, caller: &PlatformCaller) -> Result<Turn, OffRampError> {
    let ends = Instant::now() + ctx.waits.partner_in_turn;
    let permit = admit(&ctx.off_ramp_calls, &holder_of(caller), ctx.waits.permit).await;
    let permit = permit.ok_or_else(|| {
        tracing::warn!("a call of the off-ramp partner did not get its turn");
        OffRampError::Busy
    })?;
    Ok(Turn { _permit: permit, ends })
}

impl Turn {
    /// Makes the call. Errors: those of the call, or that it is not answered in time.
    pub(in crate::flows) async fn make<T>(
        self,
        call: impl Future<Output = Result<T, OffRampError>>,
    ) -> Result<T, OffRampError> {
        let called = timeout_at(self.ends, call).await;
        called.unwrap_or_else(|_| {
            tracing::warn!("a call of the off-ramp partner was given up before its answer");
            Err(OffRampError::NoAnswer("does not answer in time".to_owned()))
        })
    }
}

/// Makes a call of the partner once it is the caller's turn. Errors: those of the call, or that its turn does not come in time.
pub(in crate::flows) async fn in_turn<T>(
    ctx: &Ctx,
    caller: &PlatformCaller,
    call: impl Future<Output = Result<T, OffRampError>>,
) -> Result<T, OffRampError> {
    turn(ctx, caller).await?.make(call).await
}
