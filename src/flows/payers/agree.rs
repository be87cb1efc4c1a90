//! Notes that a payer agreed to the terms.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, off_ramp_news::Taken},
    flows::{
        FlowResult,
        payers::{known, news, not_done, of_somebody_else, partner, turns::in_turn},
    },
};

/// Says to the partner that a payer agreed, and keeps what it answers. That a payer did not changes nothing.
///
/// Errors: unknown (404); the terms were declined or could not be recorded (400); the partner does not answer (502).
/// Source: interface §4.5; rules S.5.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, client_user_id: &str, has_agreed: bool) -> FlowResult<()> {
    let payer = known(ctx, &caller.platform, client_user_id).await?;
    if !has_agreed || !payer.standing.may_agree()? {
        return Ok(());
    }
    let answered = in_turn(ctx, caller, partner(ctx)?.agree(&payer.details.partner)).await;
    let told = answered.map_err(|error| not_done(&error))?;
    match news::about(ctx, &payer, &told).await? {
        Taken::Changed | Taken::Nothing => Ok(()),
        Taken::Unknown => {
            // Gone meanwhile, or the answer was of somebody else: that is seen by now.
            known(ctx, &caller.platform, client_user_id).await?;
            Err(of_somebody_else())
        }
    }
}
