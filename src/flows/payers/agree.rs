//! Records that a payer agreed to the terms.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, off_ramp_news::NewsResult},
    flows::{
        FlowResult,
        payers::{known, news, not_done, partner, refuse_other_record, turns::in_turn},
    },
};

/// Reports to the partner that a payer agreed to the terms, and stores the response. With `has_agreed` false, the call
/// changes nothing.
///
/// Errors: an unknown payer (404); the terms were declined or could not be recorded (400); the partner does not respond
/// (502). Source: interface §4.5; rules S.5.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, client_user_id: &str, has_agreed: bool) -> FlowResult<()> {
    let payer = known(ctx, &caller.platform, client_user_id).await?;
    if !has_agreed || !payer.standing.may_agree()? {
        return Ok(());
    }
    let answered = in_turn(ctx, caller, partner(ctx)?.agree(&payer.details.partner)).await;
    let told = answered.map_err(|error| not_done(&error))?;
    match news::about(ctx, &payer, &told).await? {
        NewsResult::Changed | NewsResult::Nothing => Ok(()),
        NewsResult::Unknown => {
            // The payer is gone, or the response was about another payer: that is already logged.
            known(ctx, &caller.platform, client_user_id).await?;
            Err(refuse_other_record())
        }
    }
}
