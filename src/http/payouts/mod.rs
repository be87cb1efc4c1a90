//! Payouts: a request and the calldata that pays it, in one call.

mod batch;
mod bodies;
mod permit;
pub mod recurring;
pub mod recurring_bodies;
mod recurring_view;
mod view;

use crate::{flows, http::operation::*};
pub use batch::*;
use bodies::PayoutInput;
pub use bodies::*;
pub use permit::*;

/// Payouts.
pub struct Payouts;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::Payouts")]
impl Payouts {
    /// Pay somebody
    ///
    /// Creates a request and answers the transactions that pay it, in one call. With `payerWallet` the answer knows
    /// balances and allowance and leaves out what is not needed; without it the approval is always included. When a
    /// node has to be asked and none answers, nothing is created.
    ///
    /// With `recurrence` nothing is paid at once: the payer sends the transactions, which allow the payments, signs
    /// `recurringPaymentPermit`, and the signature goes to `POST /v2/payouts/recurring/{id}`. Periods are fixed: a month
    /// has 30 days and a year 365. Tokens on EVM networks alone, where this service has an account that executes payments.
    /// What is not signed in time, a day by default, is cancelled. The operator decides whether client IDs with allowed
    /// domains make recurring payments; where they may not, they get a 403.
    ///
    /// When: you pay somebody now, or from now on again and again
    /// Needs: a payee; `payerWallet` for an exact answer
    /// Next: send the transactions; with `recurrence` also `POST /v2/payouts/recurring/{id}`
    /// Events: `payment.confirmed` once the payment is final
    /// 201: The new request, and the transactions to sign, in their order
    /// 409: There may be 1000 live recurring payments of a platform at most (caps.schedules)
    /// 429: There may be 100000 open requests and link items of a platform beside those of its public client IDs at most (caps.open_requests); cancel requests and withdraw links that will not be paid, or wait until some are paid or expire (a request that no link pays counts for 30 days, caps.open_request_days), or ask the operator for more
    #[oai(path = "/payouts", method = "post", operation_id = "createPayout")]
    async fn create(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrClient>,
        key: Keyed,
        body: Body<CreatePayoutBody>,
    ) -> Result<Created<PayoutAnswer>, Fail<{ s::BAD_REQUEST | s::CONFLICT | s::BAD_GATEWAY }>> {
        let once = key.once(op::createPayout, &body.0);
        match body.0.read(&ctx.catalogue)? {
            PayoutInput::Once(input) => {
                answer_once(once, view::created, async |call| {
                    flows::payouts::create::run(&ctx, &caller, input, call).await
                })
                .await
            }
            PayoutInput::Repeatedly(input) => {
                answer_once(once, recurring_view::created, async |call| {
                    flows::schedules::create::run(&ctx, &caller, input, call).await
                })
                .await
            }
        }
    }
}
