//! Callbacks that partners send to this service.

mod bodies;
mod signed;

pub use signed::OUTCOMES;

use crate::{
    domain::{off_ramp_news::NewsResult, refusal::Refusal},
    flows,
    http::operation::*,
};
use signed::{SignedNews, count};

/// Callbacks of partners.
pub struct ProviderCallbacks;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::ProviderCallbacks")]
impl ProviderCallbacks {
    /// Report a change at the off-ramp partner
    ///
    /// Only for the servers of the partner that `offramp.url` names. API credentials do not apply. The headers
    /// `x-offramp-time`, `x-offramp-id` and `x-offramp-signature` authenticate the caller and are checked first;
    /// `docs/partners/offramp.md` describes how to create them. A known or outdated change is accepted and changes
    /// nothing, so the caller can repeat every call until it returns 200.
    ///
    /// When: an identity, account or payout changed at the partner
    /// Needs: the headers `x-offramp-time`, `x-offramp-id` and `x-offramp-signature`
    /// Next: nothing; this service sends the events that follow from the change
    /// Events: `compliance.updated`, `payment_detail.updated`, `payment.processing` and the later events of a payout
    /// 200: The callback is accepted
    /// 401: Unauthorized
    /// 404: This record does not exist on this service, or is not stored yet; send the callback again later
    #[oai(
        path = "/provider-callbacks/offramp",
        method = "post",
        operation_id = "receiveOffRampNews"
    )]
    async fn off_ramp(
        &self,
        ctx: Data<&Ctx>,
        told: SignedNews,
    ) -> Result<Json<Success>, Fail<{ s::BAD_REQUEST | s::UNAUTHORIZED | s::NOT_FOUND }>> {
        let taken = flows::provider_news::run(&ctx, &told.0)
            .await
            .inspect_err(|_| count("failed"))?;
        match taken {
            NewsResult::Changed => count("changed"),
            NewsResult::Nothing => count("nothing"),
            NewsResult::Unknown => {
                count("unknown");
                let sentence =
                    "This record does not exist on this service, or is not stored yet; send the callback again later";
                return Err(Refusal::not_found(sentence).into());
            }
        }
        Ok(Success::done())
    }
}
