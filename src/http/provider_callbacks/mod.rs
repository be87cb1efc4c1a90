//! What partners tell this service by themselves.

mod bodies;
mod signed;

pub use signed::OUTCOMES;

use crate::{
    domain::{off_ramp_news::Taken, refusal::Refusal},
    flows,
    http::operation::*,
};
use signed::{Signed, count};

/// Callbacks of partners.
pub struct ProviderCallbacks;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::ProviderCallbacks")]
impl ProviderCallbacks {
    /// Tell what changed at the off-ramp partner
    ///
    /// For the servers of the partner that `offramp.url` names, and for nobody else. No credential of this interface opens
    /// it: the headers `x-offramp-time`, `x-offramp-id` and `x-offramp-signature` prove who calls, and are looked at before
    /// anything else; how they are made is written in `docs/partners/offramp.md`. News that is known or was overtaken is
    /// taken and changes nothing, so every call may be repeated until it is answered with 200.
    ///
    /// When: identity, account or payout changed at the partner
    /// Needs: the headers `x-offramp-time`, `x-offramp-id` and `x-offramp-signature`
    /// Next: nothing; the news is told on
    /// Events: `compliance.updated`, `payment_detail.updated`, `payment.processing` and what follows of them
    /// 200: It was taken
    /// 401: Unauthorized
    /// 404: This record is not known here, or not yet; tell it again later
    #[oai(
        path = "/provider-callbacks/offramp",
        method = "post",
        operation_id = "receiveOffRampNews"
    )]
    async fn off_ramp(
        &self,
        ctx: Data<&Ctx>,
        told: Signed,
    ) -> Result<Json<Success>, Fail<{ s::BAD_REQUEST | s::UNAUTHORIZED | s::NOT_FOUND }>> {
        let taken = flows::provider_news::run(&ctx, &told.0)
            .await
            .inspect_err(|_| count("failed"))?;
        match taken {
            Taken::Changed => count("changed"),
            Taken::Nothing => count("nothing"),
            Taken::Unknown => {
                count("unknown");
                let sentence = "This record is not known here, or not yet; tell it again later";
                return Err(Refusal::not_found(sentence).into());
            }
        }
        Ok(Success::done())
    }
}
