//! Payers: persons registered at the off-ramp partner. Each payer goes through identity check and agreement, and has
//! the bank accounts that are paid.
//!
//! Every change first calls the partner, outside of any transaction. Repeated calls for one record have the same key.
//! Then the change is committed together with its event. Source: ADR-0021.

pub mod accounts;
pub mod agree;
mod change;
pub mod disbelieved;
pub mod erase;
pub mod follow;
mod hand;
pub mod news;
pub mod payable;
pub mod read;
pub mod register;
pub(super) mod turns;

use crate::{
    ctx::Ctx,
    domain::{
        ids::PlatformId,
        payer::CompliancePayer,
        refusal::{Refusal, RefusalKind},
    },
    flows::{FlowError, FlowResult},
    ports::off_ramp::{OffRamp, OffRampError, PartnerKey},
    store,
};

/// The platform's payer with this id. Errors: the payer does not exist or is being erased (404).
async fn known(ctx: &Ctx, platform: &PlatformId, client_user_id: &str) -> FlowResult<CompliancePayer> {
    let found = store::payers::find(ctx.db.reader(), platform, client_user_id).await?;
    let found = found.filter(|payer| !payer.is_erasing);
    Ok(found.ok_or_else(|| unknown(client_user_id))?)
}

/// The message for an unknown payer. It repeats the id, unlike all other messages, because the contract gives this
/// text. Source: interface §7.
fn unknown(client_user_id: &str) -> Refusal {
    Refusal::not_found(format!("Payer with client user ID {client_user_id} not found"))
}

fn being_erased() -> Refusal {
    Refusal::conflict("This payer is being erased; register it again afterwards")
}

/// Errors: no partner is configured (400).
fn partner(ctx: &Ctx) -> Result<&dyn OffRamp, Refusal> {
    let partner = ctx.partners.off_ramp.as_deref();
    partner.ok_or_else(|| {
        Refusal::invalid("This service does not pay bank accounts: its operator has configured no off-ramp partner")
    })
}

/// Key under which the partner stores a payer. It is the same for every registration of the payer by the platform.
fn payer_key(ctx: &Ctx, platform: &PlatformId, client_user_id: &str) -> PartnerKey {
    let text = format!("off_ramp.payer\n{platform}\n{client_user_id}");
    PartnerKey(ctx.sealer.lookup(&text))
}

/// Key under which the partner stores a bank account of a payer.
fn account_key(ctx: &Ctx, platform: &PlatformId, client_user_id: &str, content_hash: &str) -> PartnerKey {
    let text = format!("off_ramp.account\n{platform}\n{client_user_id}\n{content_hash}");
    PartnerKey(ctx.sealer.lookup(&text))
}

/// Message when the partner did not do what the service requested (502, or 400 when the partner refuses).
fn not_done(error: &OffRampError) -> FlowError {
    let message = match error {
        OffRampError::Refused { reason, .. } => {
            return Refusal::invalid(format!("The off-ramp partner refuses this: {}", reason.sentence())).into();
        }
        OffRampError::NotSent(_) | OffRampError::NoAnswer(_) => "The off-ramp partner is not responding; try again",
        OffRampError::Busy => "Too many calls to the off-ramp partner are in progress; try again",
        _ => "The off-ramp partner returned no usable response; try again",
    };
    Refusal::new(RefusalKind::Upstream, message).into()
}

/// Logs and returns the error when the partner returned the record of another payer or account.
fn report_other_record(operation: &'static str) -> FlowError {
    disbelieved::disbelieved(operation, "the partner returned the record of another payer");
    refuse_other_record()
}

/// The error for the caller when the partner returned the record of another payer or account.
fn refuse_other_record() -> FlowError {
    not_done(&OffRampError::Odd("the record of another payer".to_owned()))
}
