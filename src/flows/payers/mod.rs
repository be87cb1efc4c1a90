//! Payers: registered at the partner, followed through identity and agreement, with the bank accounts that they are paid to.
//!
//! Every change asks the partner first, outside of any transaction and under a key that is the same each time, and is
//! committed with its event. Source: ADR-0021.

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
        payer::Payer,
        refusal::{Refusal, RefusalKind},
    },
    flows::{FlowError, FlowResult},
    ports::off_ramp::{OffRamp, OffRampError, PartnerKey},
    store,
};

/// The tenant's payer of this id. Errors: there is none, or it is being erased (404).
async fn known(ctx: &Ctx, platform: &PlatformId, client_user_id: &str) -> FlowResult<Payer> {
    let found = store::payers::find(ctx.db.reader(), platform, client_user_id).await?;
    let found = found.filter(|payer| !payer.is_erasing);
    Ok(found.ok_or_else(|| unknown(client_user_id))?)
}

/// The one refusal that repeats a value: the contract gives its words. Source: interface §7.
fn unknown(client_user_id: &str) -> Refusal {
    Refusal::not_found(format!("Payer with client user ID {client_user_id} not found"))
}

fn being_erased() -> Refusal {
    Refusal::conflict("This payer is being erased; register it again once that is done")
}

/// Errors: the operator has set no partner (400).
fn partner(ctx: &Ctx) -> Result<&dyn OffRamp, Refusal> {
    let partner = ctx.partners.off_ramp.as_deref();
    partner
        .ok_or_else(|| Refusal::invalid("This service pays no bank accounts: its operator has set no off-ramp partner"))
}

/// Under which the partner keeps a payer: the same whenever the tenant registers it.
fn payer_key(ctx: &Ctx, platform: &PlatformId, client_user_id: &str) -> PartnerKey {
    let text = format!("off_ramp.payer\n{platform}\n{client_user_id}");
    PartnerKey(ctx.sealer.lookup(&text))
}

/// Under which the partner keeps a bank account of a payer.
fn account_key(ctx: &Ctx, platform: &PlatformId, client_user_id: &str, content_hash: &str) -> PartnerKey {
    let text = format!("off_ramp.account\n{platform}\n{client_user_id}\n{content_hash}");
    PartnerKey(ctx.sealer.lookup(&text))
}

/// Why the partner did not do what it was asked, for the caller (502; 400 when it refuses).
fn not_done(error: &OffRampError) -> FlowError {
    let message = match error {
        OffRampError::Refused { reason, .. } => {
            return Refusal::invalid(format!("The off-ramp partner refuses this: {}", reason.sentence())).into();
        }
        OffRampError::NotSent(_) | OffRampError::NoAnswer(_) => {
            "The off-ramp partner does not answer at the moment; try again"
        }
        OffRampError::Busy => "Too many calls of the off-ramp partner are under way at this moment; try again",
        _ => "The off-ramp partner does not give a usable answer at the moment; try again",
    };
    Refusal::new(RefusalKind::Upstream, message).into()
}

/// The partner gave the record of another payer, or of another account; the operator sees which.
fn odd(operation: &'static str) -> FlowError {
    disbelieved::disbelieved(operation, "it answers with a record of somebody else");
    of_somebody_else()
}

/// What the caller is told then.
fn of_somebody_else() -> FlowError {
    not_done(&OffRampError::Odd("a record of somebody else".to_owned()))
}
