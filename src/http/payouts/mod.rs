//! Payouts: create a request and return its calldata in one call.

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
    /// Create a payout
    ///
    /// Creates a request and returns the transactions that pay it. With `payerWallet`, the service looks up balances
    /// and allowance and leaves out an unneeded approval. Without it, the approval is always included. If a node query
    /// is needed and no node responds, nothing is created.
    ///
    /// With `recurrence`, nothing is paid immediately. The payer sends the transactions, which approve the payments,
    /// and signs `recurringPaymentPermit`; send the signature to `POST /v2/payouts/recurring/{id}`. Periods are fixed:
    /// a month has 30 days and a year 365. Recurring payouts support only tokens on EVM networks where this service has
    /// a relayer account. A recurring payout that is not signed in time, by default within a day, is cancelled. The
    /// operator decides whether client IDs with allowed domains can create recurring payouts; if not, they get a 403.
    ///
    /// When: you pay a recipient once or repeatedly
    /// Needs: a payee; `payerWallet`, if an approval that the wallet does not need should be left out
    /// Next: send the transactions; with `recurrence` also send the signature of the permit to `POST /v2/payouts/recurring/{id}`
    /// Events: `payment.confirmed` once the payment is final
    /// 201: The new request, and the transactions to sign, in order
    /// 400: The energy of the payment on tron costs an estimated 412.5 TRX, and this service allows at most 300 TRX for it: retry when energy is cheaper, or ask the operator to raise chains.tron.payment_fee_limit_trx
    /// 409: The limit is 1000 live recurring payments per platform (caps.schedules); cancel a recurring payment, or wait until one is completed, or ask the operator for a higher limit
    /// 429: The limit is 100000 open requests and link items per platform, not counting those of its public client IDs (caps.open_requests); cancel requests and withdraw links that will not be paid, or wait until some are paid or expire (a request without a link counts for 30 days, caps.open_request_days), or ask the operator for a higher limit
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
