//! Payment requests.

mod bodies;
mod view;

use crate::{
    flows::{self, requests::pay::PayInput},
    http::{
        forms::{
            calldata::calldata,
            paging::{PageRange, limit_offset},
        },
        operation::*,
    },
};
pub use bodies::*;

/// Payment requests.
pub struct Requests;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::Requests")]
impl Requests {
    /// Create a request
    ///
    /// Creates a payment request. `GET /v2/request/{requestId}/pay` returns the calldata that pays it; a
    /// `payment.confirmed` webhook reports when the payment is final.
    ///
    /// When: an order is placed and the amount is known
    /// Needs: a payee, unless the client ID is bound to a destination
    /// Next: get calldata for your own page with `GET /v2/request/{requestId}/pay`, or create a link instead with `POST /v2/secure-payments`
    /// Events: `payment.confirmed` when the whole amount has arrived and is final, `payment.partial` for each part before that, `request.recurring` for each further period
    /// 201: The id of the new request, and the reference that its payments carry
    /// 429: The limit is 100000 open requests and link items per platform, not counting those of its public client IDs (caps.open_requests); cancel requests and withdraw links that will not be paid, or wait until some are paid or expire (a request without a link counts for 30 days, caps.open_request_days), or ask the operator for a higher limit
    #[oai(path = "/request", method = "post", operation_id = "createRequest")]
    async fn create(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrClient>,
        key: Keyed,
        body: Body<CreateRequestBody>,
    ) -> Result<Created<RequestCreated>, Fail<{ s::BAD_REQUEST | s::CONFLICT }>> {
        let once = key.once(op::createRequest, &body.0);
        let is_for_bank = body.is_crypto_to_fiat_available == Some(true);
        let is_payee_needed = body.payee.is_none() && caller.client().is_none() && !is_for_bank;
        let input = body.0.read(&ctx.catalogue, is_payee_needed)?;
        answer_once(once, view::created, async |call| {
            flows::requests::create::run(&ctx, &caller, input, call).await
        })
        .await
    }

    /// List requests
    ///
    /// Lists the requests of the platform, or of the calling client ID, newest first. A signed-in user sees the
    /// requests of their own platform.
    ///
    /// When: you show your requests
    /// Next: read one of them with `GET /v2/request/{requestId}`
    /// 200: One page of requests, newest first
    #[oai(path = "/request", method = "get", operation_id = "listRequests")]
    async fn list(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyClientOrSession>,
        /// Only requests whose payee is this wallet
        #[oai(name = "walletAddress")]
        wallet_address: Checked<WalletText>,
        /// Page size, 1 to 100; 20 when absent
        limit: Checked<LimitText>,
        /// Rows before the page, 0 to 10000
        offset: Checked<OffsetText>,
    ) -> Result<Json<RequestList>, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let payee = wallet_address.read(&mut checks);
        let (limit, offset) = limit_offset(limit, offset, &mut checks);
        checks.finish()?;
        let page = flows::requests::list::run(&ctx, &caller, payee, limit, offset).await?;
        let pagination = PageRange::new(
            page.total,
            limit,
            offset,
            offset + (page.requests.len() as u64) < page.total,
        );
        Ok(Json(RequestList {
            requests: page.requests.into_iter().map(view::row).collect(),
            pagination,
        }))
    }

    /// Read a request
    ///
    /// Returns the state, payments and amounts of a request. Amounts are final; `detectedAmount` is the part that is on
    /// chain but not final yet.
    ///
    /// When: you need the state without waiting for a webhook
    /// Needs: the id that `POST /v2/request` returned
    /// Next: deliver once `hasBeenPaid` is true; until then get calldata with `GET /v2/request/{requestId}/pay`
    /// 200: The request with its state, its payments and its amounts
    /// 404: Request not found
    #[oai(path = "/request/:requestId", method = "get", operation_id = "getRequest")]
    async fn read(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyClientOrSession>,
        /// Id of the request
        #[oai(name = "requestId")]
        request_id: Path<RequestIdText>,
    ) -> Result<Json<RequestStatusView>, Fail<{ s::NOT_FOUND }>> {
        let detail = flows::requests::read::run(&ctx, &caller, request_id.as_str()).await?;
        Ok(Json(view::detail(&ctx, detail)))
    }

    /// Stop or resume a recurring request
    ///
    /// While the recurrence is stopped, the service issues no calldata for the request and creates no further requests
    /// from it. After resuming, it continues with the next period; periods that began in the meantime are skipped.
    ///
    /// When: a subscription is paused or resumed
    /// Needs: a request with `recurrence`; a client ID with allowed domains can only change requests that it created
    /// Next: read the setting with `GET /v2/request/{requestId}`
    /// Events: none immediately; `request.recurring` is sent again once the recurrence is resumed
    /// 200: The new setting of the request
    /// 404: Request not found
    #[oai(path = "/request/:requestId", method = "patch", operation_id = "updateRequest")]
    async fn update(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrClient>,
        /// Id of the request
        #[oai(name = "requestId")]
        request_id: Path<RequestIdText>,
        body: Body<UpdateRequestBody>,
    ) -> Result<Json<RequestUpdated>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let is_recurrence_stopped = body.is_recurrence_stopped;
        flows::requests::update::run(&ctx, &caller, request_id.as_str(), is_recurrence_stopped).await?;
        Ok(Json(RequestUpdated {
            request_id: request_id.0,
            is_recurrence_stopped,
        }))
    }

    /// Get the calldata that pays a request
    ///
    /// Returns the transactions that a wallet signs and sends, in order. With `wallet`, the service looks up balances
    /// and allowance and leaves out an unneeded approval. Without it, the service queries no node and always includes
    /// the approval. A request of a secure payment can only be paid through its link, even after the link has ended.
    ///
    /// When: the payer is about to pay
    /// Needs: the id of a request; `wallet`, if an approval that the wallet does not need should be left out
    /// Next: send the transactions in their order, then wait for the webhook or read `GET /v2/request/{requestId}`
    /// Events: `payment.confirmed` or `payment.partial` once the payment is final
    /// 200: The transactions to sign, in order, with their metadata
    /// 400: The energy of the payment on tron costs an estimated 412.5 TRX, and this service allows at most 300 TRX for it: retry when energy is cheaper, or ask the operator to raise chains.tron.payment_fee_limit_trx
    /// 404: Request not found
    #[oai(
        path = "/request/:requestId/pay",
        method = "get",
        operation_id = "getPaymentCalldata"
    )]
    #[expect(
        clippy::too_many_arguments,
        reason = "the function has one argument for each parameter of the operation"
    )]
    async fn pay(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrClient>,
        /// Id of the request
        #[oai(name = "requestId")]
        request_id: Path<RequestIdText>,
        /// Wallet that pays
        wallet: Checked<PayerText>,
        /// Source chain of a crosschain payment; not supported in this version: the request is paid on its own network
        chain: Checked<SourceChain>,
        /// Source token of a crosschain payment; not supported in this version: the request is paid in its payment
        /// currency
        token: Checked<SourceToken>,
        /// Part of the amount to pay, in the invoice currency; at most the remaining amount
        amount: Checked<AskedAmountText>,
        /// Payer of an off-ramp payment
        #[oai(name = "clientUserId")]
        client_user_id: Checked<ClientUserIdText>,
        /// Bank account of an off-ramp payment
        #[oai(name = "paymentDetailsId")]
        payment_details_id: Checked<UuidText>,
        /// Fee on top of the amount in percent, 0 to 100; needs `feeAddress`. Ignored when the request carries a fee of
        /// the client ID that created it, or when another client ID with a fee makes this call
        #[oai(name = "feePercentage")]
        fee_percentage: Checked<PercentText>,
        /// Receiver of the fee; needs `feePercentage`
        #[oai(name = "feeAddress")]
        fee_address: Checked<WalletText>,
    ) -> Result<Json<PayResponse>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND | s::BAD_GATEWAY }>> {
        let mut checks = Checks::new();
        match (chain.is_given(), token.is_given()) {
            (true, false) => checks.fail("token", "is required when chain is set"),
            (false, true) => checks.fail("chain", "is required when token is set"),
            _ => {}
        }
        match (fee_percentage.is_given(), fee_address.is_given()) {
            (true, false) => checks.fail("feeAddress", "is required when feePercentage is set"),
            (false, true) => checks.fail("feePercentage", "is required when feeAddress is set"),
            _ => {}
        }
        let chain = chain.take(&mut checks);
        let token = token.take(&mut checks);
        let account = payment_details_id.take(&mut checks);
        let percent = fee_percentage.read(&mut checks);
        let receiver = fee_address.read(&mut checks);
        let input = PayInput {
            wallet: wallet.read(&mut checks),
            is_crosschain: chain.is_some() && token.is_some(),
            amount: amount.read(&mut checks),
            client_user_id: client_user_id.take(&mut checks).map(String::from),
            payment_details_id: account.map(|id| id.as_str().to_ascii_lowercase()),
            fee: percent.zip(receiver),
        };
        checks.finish()?;
        let found = flows::requests::pay::run(&ctx, &caller, request_id.as_str(), &input).await?;
        Ok(Json(PayResponse::Calldata(Box::new(calldata(&found)))))
    }

    /// Cancel a request
    ///
    /// Cancels a request that has received no payment yet. Repeating the call returns the same response. The service
    /// issues no more calldata for the request, and its recurrence ends. Calldata that was issued earlier still works
    /// on chain: a payment that still arrives is credited, shown as `excessAmount` and reported as `payment.partial`,
    /// and the request stays cancelled.
    ///
    /// When: an order is cancelled before it is paid
    /// Needs: a request without payments
    /// Next: nothing; create a new request if the order is placed again
    /// Events: none immediately; `payment.partial` if a payment still arrives
    /// 200: The request is cancelled
    /// 404: Request not found
    #[oai(path = "/request/:requestId/cancel", method = "post", operation_id = "cancelRequest")]
    async fn cancel(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<Canceller>,
        /// Id of the request
        #[oai(name = "requestId")]
        request_id: Path<RequestIdText>,
    ) -> Result<Json<RequestCancelled>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let cancelled = flows::requests::cancel::run(&ctx, &caller, request_id.as_str()).await?;
        Ok(Json(RequestCancelled {
            request_id: request_id.0,
            status: cancelled.ledger.status,
        }))
    }
}
