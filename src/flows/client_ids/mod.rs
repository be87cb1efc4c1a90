//! Client IDs.

pub mod create;
pub mod list;
pub mod read;
pub mod revoke;
pub mod update;

use crate::{
    domain::{caller::PlatformCaller, ids::DestinationId, refusal::Refusal},
    flows::{FlowError, FlowResult},
    store::{self, Tx},
};

fn unknown() -> FlowError {
    Refusal::not_found("Client ID not found").into()
}

/// Checks that a client ID may be bound to a destination, which must be the active destination of the signed-in wallet.
///
/// Source: rules P.4.2.
async fn check_destination(tx: &Tx, caller: &PlatformCaller, id: &DestinationId) -> FlowResult<()> {
    let active = match caller.wallet() {
        Some(wallet) => store::destinations::active_of(tx, &caller.platform, wallet).await?,
        None => None,
    };
    if active.is_some_and(|active| active.is_in_use() && active.id == *id) {
        return Ok(());
    }
    let message = "must be the id of the active payee destination of the signed-in wallet; create it with POST \
                   /v1/payee-destination";
    Err(Refusal::field("payeeDestinationId", message).into())
}
