//! Payment requests.

mod bodies;
mod view;

use crate::{
    flows::{self, requests::pay::PayInput},
    http::{
        forms::{
            calldata::calldata,
            paging::{Page, limit_offset},
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
    /// Creates a payment request. Hand its id to `GET /v2/request/{requestId}/pay` to get the calldata that pays it;
    /// a `payment.confirmed` webhook tells when the money is final.
    ///
    /// When: an order is placed and you know what is to be paid
    /// Needs: a payee, unless the client ID is bound to a destination
    /// Next: `GET /v2/request/{requestId}/pay` for your own page, or `POST /v2/secure-payments` for a link in its place
    /// Events: `payment.confirmed` when all has arrived and is final, `payment.partial` before that, `request.recurring` for each further period
    /// 201: Where the new request is found: its id, and the reference that its payments carry
    /// 429: There may be 100000 open requests and link items of a platform beside those of its public client IDs at most (caps.open_requests); cancel requests and withdraw links that will not be paid, or wait until some are paid or expire (a request that no link pays counts for 30 days, caps.open_request_days), or ask the operator for more
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
    /// Requests of the platform, or of the client ID that calls, newest first. A person who signed in sees those of the
    /// own platform.
    ///
    /// When: you show what was asked for
    /// Next: `GET /v2/request/{requestId}` for one of them
    /// 200: One page of requests, newest first
    #[oai(path = "/request", method = "get", operation_id = "listRequests")]
    async fn list(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyClientOrSession>,
        /// Only requests that pay this wallet
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
        let pagination = Page::new(
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
    /// State, payments and amounts of a request. Amounts are final; what the chain shows but may still take back is
    /// in `detectedAmount`.
    ///
    /// When: you want to know the state without waiting for a webhook
    /// Needs: the id that `POST /v2/request` answered
    /// Next: deliver once `hasBeenPaid` is true; until then `GET /v2/request/{requestId}/pay`
    /// 200: The request with its state, its payments and what is left to pay
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
    /// While the recurrence is stopped, nobody gets calldata that pays the request, and no further requests are made of
    /// it. Resumed, it goes on with the next period; those that began meanwhile are left out.
    ///
    /// When: a subscription pauses or goes on
    /// Needs: a request with `recurrence`; for a client ID with allowed domains one that it made
    /// Next: `GET /v2/request/{requestId}` shows the setting
    /// Events: none by itself; `request.recurring` follows again once it is resumed
    /// 200: What the request is set to now
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
    /// Answers the transactions that a wallet signs and sends, in order. With `wallet` the answer knows balances and
    /// allowance and leaves out what is not needed; without it no node is asked and the approval is always included. A
    /// request of a secure payment is paid through its link alone, also when the link has ended.
    ///
    /// When: the payer is about to pay
    /// Needs: the id of a request; `wallet` for an exact answer
    /// Next: send the transactions in their order, then wait for the webhook or read `GET /v2/request/{requestId}`
    /// Events: `payment.confirmed` or `payment.partial` once the payment is final
    /// 200: The transactions to sign, in their order, and what the wallet needs for them
    /// 404: Request not found
    #[oai(
        path = "/request/:requestId/pay",
        method = "get",
        operation_id = "getPaymentCalldata"
    )]
    #[expect(
        clippy::too_many_arguments,
        reason = "one argument for each parameter of the contract"
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
        /// Source chain of a crosschain payment; not in this version: the request is paid on its own network
        chain: Checked<SourceChain>,
        /// Source token of a crosschain payment; not in this version: the request is paid in its payment currency
        token: Checked<SourceToken>,
        /// Part of the amount, in the invoice currency; never more than what is left
        amount: Checked<AskedAmountText>,
        /// Payer of an off-ramp payment
        #[oai(name = "clientUserId")]
        client_user_id: Checked<ClientUserIdText>,
        /// Bank account of an off-ramp payment
        #[oai(name = "paymentDetailsId")]
        payment_details_id: Checked<UuidText>,
        /// Fee on top of the amount, 0 to 100; needs `feeAddress`. Left out where the request has the fee of a client ID
        #[oai(name = "feePercentage")]
        fee_percentage: Checked<PercentText>,
        /// Receiver of the fee; needs `feePercentage`
        #[oai(name = "feeAddress")]
        fee_address: Checked<WalletText>,
    ) -> Result<Json<PayResponse>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND | s::BAD_GATEWAY }>> {
        let mut checks = Checks::new();
        match (chain.is_given(), token.is_given()) {
            (true, false) => checks.fail("token", "is required: chain and token go together"),
            (false, true) => checks.fail("chain", "is required: chain and token go together"),
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
        Ok(Json(PayResponse::Calldata(calldata(&found))))
    }

    /// Cancel a request
    ///
    /// Takes back a request for which nothing has arrived yet; repeated, the call answers the same. Nobody gets calldata
    /// for it any more, and it repeats no more. Calldata that was handed out before still works on the chain: money that
    /// arrives all the same is credited, shown as `excessAmount` and told as `payment.partial`, and the request stays
    /// cancelled.
    ///
    /// When: an order is called off before it is paid
    /// Needs: a request for which nothing has arrived
    /// Next: nothing; make a new request if the order comes back
    /// Events: none by itself; `payment.partial` if money arrives all the same
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
