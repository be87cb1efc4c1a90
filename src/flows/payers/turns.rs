//! Calls of the off-ramp partner that callers wait for, in turns: whoever asks for everything at once keeps no other platform
//! waiting, and leaves places to the workers, who need none of these.

use crate::{
    ctx::Ctx,
    domain::caller::PlatformCaller,
    flows::requests::places::{holder, take},
    ports::off_ramp::OffRampError,
};
use std::time::Duration;
use tokio::time::timeout;

/// How long a call waits for its turn.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// How long the turn and the call take together at most. A call that waited, and so had less time than the partner is given,
/// is dropped and says nothing of the partner. Source: ADR-0022.
const IN_ALL: Duration = Duration::from_millis(3_300);

/// Makes a call of the partner once it is the caller's turn. Errors: those of the call, or that its turn does not come in time.
pub(in crate::flows) async fn in_turn<T>(
    ctx: &Ctx,
    caller: &PlatformCaller,
    call: impl Future<Output = Result<T, OffRampError>>,
) -> Result<T, OffRampError> {
    let called = async {
        let place = take(&ctx.off_ramp_calls, &holder(caller), PATIENCE).await;
        let _place = place.ok_or_else(|| {
            tracing::warn!("a call of the off-ramp partner did not get its turn");
            OffRampError::Busy
        })?;
        call.await
    };
    let called = timeout(IN_ALL, called).await;
    called.unwrap_or_else(|_| {
        tracing::warn!("a call of the off-ramp partner was given up before its answer");
        Err(OffRampError::NoAnswer("does not answer in time".to_owned()))
    })
}
