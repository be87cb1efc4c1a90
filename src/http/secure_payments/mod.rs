//! Secure payments: payment links. Anyone with the token of a link can pay it.

mod answers;
mod bodies;
mod view;

use crate::{
    domain::{
        network::Network,
        refusal::Refusal,
        secure_payment::{UnpayableLink, access::LinkPayer, intent::Source},
    },
    flows::{
        self, FlowResult,
        secure_payments::{
            open::LinkVisit,
            opened::{self, OpenedLink},
            preview_fees,
            record_intent::SentTransaction,
        },
    },
    http::{
        error::Problem,
        forms::payer_step::PayerStepBody,
        gate::{address::CallerAddress, rate_limits::Meter},
        operation::*,
    },
};
pub use answers::*;
pub use bodies::*;
use std::sync::Arc;

/// Secure payments.
pub struct SecurePayments;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::SecurePayments")]
impl SecurePayments {
    /// Create a payment link
    ///
    /// Creates a link that pays you at the destination of the client ID, or at the destination of the platform if the
    /// client ID has none. Several items are paid in one transaction. Anyone with the link can pay it until it expires.
    /// The link keeps the destination, fees and policy that apply when you create it; later changes do not affect it.
    ///
    /// A client ID without domains that is bound to no destination must name one in `destinationId`. With a client ID
    /// that has domains, `accessPolicy` can only add to the policy of the destination; removing a restriction is a 403.
    /// Accounts that sign in without a wallet cannot create links.
    ///
    /// An orchestrator sends its key with a client ID that is linked to it. The client ID must be bound to a
    /// destination, and `accessPolicy` can only add to its policy. A linked client ID alone is refused (403).
    ///
    /// When: the payer pays on a page that is not yours
    /// Needs: a destination; `GET /v2/payee-destination/signing-data` is the first step to create one
    /// Next: send `securePaymentUrl` to the payer
    /// Events: `secure_payment.user_event` while the payer is on the page, then `payment.confirmed`
    /// 201: The link
    /// 400: No active payment destination found for this platform
    /// 403: Destination does not match the configured payment destination.
    /// 429: This call has 200 items; the limit is 600 items per minute and 200 items at once: retry after the number of seconds in Retry-After
    #[oai(path = "/secure-payments", method = "post", operation_id = "createSecurePayment")]
    async fn create(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<LinkMaker>,
        meter: Option<Data<&Arc<Meter>>>,
        key: Keyed,
        body: Body<CreateSecurePaymentBody>,
    ) -> Result<Created<SecurePaymentCreated>, Fail<{ s::BAD_REQUEST | s::FORBIDDEN | s::CONFLICT }>> {
        let once = key.once(op::createSecurePayment, &body.0);
        let input = body.0.read()?;
        let items = Meter::of_items(meter.as_deref().copied(), &caller, input.items.len());
        answer_once(once, view::created, async |call| {
            flows::secure_payments::create::run(&ctx, &caller, input, call.admitted_by(items)).await
        })
        .await
    }

    /// Find the link of a request
    ///
    /// Returns the newest link of one of your requests, including the fields that only its owner sees. Only for
    /// signed-in users.
    ///
    /// When: you lost the link of a request, or want to see who was screened
    /// Needs: a request that was created with a link
    /// Next: send the address of the link again, or withdraw the link with `POST /v2/secure-payments/{token}/withdraw`
    /// 200: The link
    /// 404: No secure payment found for this request ID
    #[oai(path = "/secure-payments", method = "get", operation_id = "findSecurePayment")]
    async fn find(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<LinkFinder>,
        /// Id of the request. Example: `012ff6a8f04b3b8a70f3cf9768da03586a9e501bf891a221c9dd947b171069e577`
        #[oai(name = "requestId")]
        request_id: Needed<RequestIdText>,
    ) -> Result<Json<OwnSecurePayment>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let mut checks = Checks::new();
        let id = request_id.read(&mut checks);
        let id = checks.finish_with(id)?;
        let found = flows::secure_payments::find::run(&ctx, &caller, id.as_str()).await?;
        Ok(Json(view::found(&ctx, &found)))
    }

    /// Create a payout link
    ///
    /// Creates a link that pays a recipient whom you name. Any wallet can pay it; `creatorWalletAddress` is only
    /// recorded. If the access policy, or the policy of the recipient's destination, requires screening, the recipient
    /// is screened first. With a client ID that has domains, `accessPolicy` cannot remove a restriction of that
    /// destination (403).
    ///
    /// An orchestrator sends its key with a client ID that is linked to it; a linked client ID alone is refused (403).
    ///
    /// When: another person in your company signs a payout
    /// Needs: the destination of the recipient
    /// Next: send `securePaymentUrl` to the payer, or combine several payout links with `POST /v2/secure-payments/batch-payouts`
    /// Events: `payment.confirmed` once the payment is final
    /// 201: The link
    /// 403: Recipient wallet failed screening
    /// 429: The limit is 100000 open requests and link items per platform, not counting those of its public client IDs (caps.open_requests); cancel requests and withdraw links that will not be paid, or wait until some are paid or expire (a request without a link counts for 30 days, caps.open_request_days), or ask the operator for a higher limit
    #[oai(
        path = "/secure-payments/payouts",
        method = "post",
        operation_id = "createSecurePayout"
    )]
    async fn create_payout(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<LinkMaker>,
        key: Keyed,
        body: Body<CreateSecurePayoutBody>,
    ) -> Result<Created<SecurePaymentCreated>, Fail<{ s::BAD_REQUEST | s::FORBIDDEN | s::CONFLICT | s::BAD_GATEWAY }>>
    {
        let once = key.once(op::createSecurePayout, &body.0);
        let input = body.0.read(&ctx.catalogue)?;
        answer_once(once, view::created, async |call| {
            flows::secure_payments::create_payout::run(&ctx, &caller, input, call).await
        })
        .await
    }

    /// Combine payout links
    ///
    /// Creates one link from several unpaid payout links on one network. The original links are withdrawn and the new
    /// link pays their requests. The new link expires when the first of the original links would have expired. A late
    /// payment to one of the original links is credited to its request, and the new link then leaves that request out.
    /// Links of two orchestrators cannot be combined; the new link belongs to the orchestrator of the original links.
    ///
    /// When: several payouts are to be signed in one transaction
    /// Needs: tokens of unpaid payout links on one network
    /// Next: send `securePaymentUrl` to the payer
    /// Events: `payment.confirmed` for each request
    /// 201: The link
    /// 429: This call has 200 items; the limit is 600 items per minute and 200 items at once: retry after the number of seconds in Retry-After
    #[oai(
        path = "/secure-payments/batch-payouts",
        method = "post",
        operation_id = "combineSecurePayouts"
    )]
    async fn combine(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<LinkCombiner>,
        meter: Option<Data<&Arc<Meter>>>,
        key: Keyed,
        body: Body<CombinePayoutsBody>,
    ) -> Result<Created<SecurePaymentCreated>, Fail<{ s::BAD_REQUEST | s::FORBIDDEN | s::CONFLICT }>> {
        let once = key.once(op::combineSecurePayouts, &body.0);
        let (tokens, redirect) = body.0.read()?;
        let items = Meter::of_items(meter.as_deref().copied(), &caller, tokens.len());
        answer_once(once, view::created, async |call| {
            flows::secure_payments::create_batch_payout::run(&ctx, &caller, &tokens, redirect, call.admitted_by(items))
                .await
        })
        .await
    }

    /// Preview the fees of a link
    ///
    /// Returns the fees in US dollars that a link in a stablecoin would have, without a fee that the call creating the
    /// link would set. The payer bears every fee, except a fee of an orchestrator whose config names the recipient as
    /// bearer. `defaultFeeBearer` bears a fee whose bearer no other rule determines; if absent, the default bearer is
    /// the payee for `get_paid` and the payer for `pay`. Nothing is stored.
    ///
    /// When: you show what a link would cost before you create it
    /// Needs: an amount in a stablecoin
    /// Next: create the link with `POST /v2/secure-payments` or `POST /v2/secure-payments/payouts`
    /// 200: The fees
    #[oai(
        path = "/secure-payments/fees/preview",
        method = "post",
        operation_id = "previewSecurePaymentFees"
    )]
    async fn preview_fees(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<LinkPreviewer>,
        body: Body<PreviewFeesBody>,
    ) -> Result<Json<FeePlanView>, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let amount = checks.take("amount", body.amount.value());
        let asked = preview_fees::PreviewedPayment {
            amount: checks.finish_with(amount)?,
            currency: body.currency.to_string(),
            flow: body.flow,
            default_bearer: body.default_fee_bearer,
        };
        let plan = preview_fees::run(&ctx, &caller, &asked).await?;
        Ok(Json(view::fee_plan(&plan)))
    }

    /// Open a link
    ///
    /// Returns what a payer sees before paying. The token is the only credential. With `wallet`, the response says
    /// whether that wallet may pay and what it holds on each chain. If the creator requires it, amounts and parties
    /// stay hidden until the wallet is approved. A paid link returns 409 with `status` and `requestStatuses`.
    ///
    /// When: a payer opens a link
    /// Needs: the token of the link; `wallet` once a wallet is connected
    /// Next: get calldata with `GET /v2/secure-payments/{token}/pay`
    /// Events: `secure_payment.access_rejected` when the wallet may not pay
    /// 200: The link
    /// 403: Secure payment has expired
    /// 404: Secure payment not found
    /// 409 requestStatuses: Secure payment has already been completed
    #[oai(path = "/secure-payments/:token", method = "get", operation_id = "getSecurePayment")]
    #[expect(
        clippy::too_many_arguments,
        reason = "the function has one argument for each parameter of the operation"
    )]
    async fn open(
        &self,
        ctx: Data<&Ctx>,
        _caller: Auth<LinkReader>,
        /// Token of the link
        token: Path<UlidText>,
        /// Wallet that would pay
        wallet: Checked<WalletText>,
        /// Chain to pay from; needs `token`. Must be the chain of the payment in this version
        chain: Checked<PaymentChain>,
        /// Symbol of the token to pay with; needs `chain`. Must be the token of the payment in this version. Example: `FAU`
        #[oai(name = "token")]
        symbol: Checked<SymbolText>,
        /// Account behind the smart account `wallet`; needs `wallet`. If an allow list names this account, `wallet` may
        /// pay once the chain proves that the account controls it
        #[oai(name = "eoaWallet")]
        eoa_wallet: Checked<WalletText>,
        /// Whether `wallet` is a Safe account; Safe accounts cannot pay in this version
        #[oai(name = "isSafe")]
        is_safe: Checked<SafeFlag>,
    ) -> Result<Json<SecurePaymentView>, Fail<{ s::BAD_REQUEST | s::FORBIDDEN | s::NOT_FOUND | s::CONFLICT }>> {
        let look = look(wallet, chain, symbol, eoa_wallet, is_safe)?;
        let opened = opened::by_token(&ctx, token.as_str()).await?;
        let shown = flows::secure_payments::open::run(&ctx, &opened, &look).await;
        let shown = unless_paid(&opened, shown)?;
        let is_seen = opened.is_seen(&ctx).await?;
        Ok(Json(view::shown(&opened, &shown, is_seen)))
    }

    /// Get the calldata that pays a link
    ///
    /// Returns the transactions that a wallet signs and sends, in order, for the amount still due on the unpaid
    /// requests. Approvals allow exactly the amount needed. With `wallet`, the response includes balances and allowance
    /// and leaves out approvals that are not needed.
    ///
    /// When: the payer is about to pay a link
    /// Needs: the token of the link; `wallet`, if approvals that the wallet does not need should be left out
    /// Next: send the transactions in order, then report the payment with `POST /v2/secure-payments/{token}/intent`
    /// Events: `payment.confirmed` for each request once the payment is final
    /// 200: The transactions to sign, and what the wallet needs for them
    /// 403: Wallet is not allowed to pay this secure payment
    /// 404: Secure payment not found
    /// 409 requestStatuses: Secure payment has already been completed
    #[oai(
        path = "/secure-payments/:token/pay",
        method = "get",
        operation_id = "getSecurePaymentCalldata"
    )]
    #[expect(
        clippy::too_many_arguments,
        reason = "the function has one argument for each parameter of the operation"
    )]
    async fn pay(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<LinkReader>,
        /// Token of the link
        token: Path<UlidText>,
        /// Wallet that pays
        wallet: Checked<WalletText>,
        /// Chain to pay from; needs `token`. Must be the chain of the payment in this version
        chain: Checked<PaymentChain>,
        /// Symbol of the token to pay with; needs `chain`. Must be the token of the payment in this version. Example: `FAU`
        #[oai(name = "token")]
        symbol: Checked<SymbolText>,
        /// Account behind the smart account `wallet`; needs `wallet`. If an allow list names this account, `wallet` may
        /// pay once the chain proves that the account controls it
        #[oai(name = "eoaWallet")]
        eoa_wallet: Checked<WalletText>,
        /// Whether `wallet` is a Safe account; Safe accounts cannot pay in this version
        #[oai(name = "isSafe")]
        is_safe: Checked<SafeFlag>,
    ) -> Result<
        Json<SecureCalldata>,
        Fail<{ s::BAD_REQUEST | s::FORBIDDEN | s::NOT_FOUND | s::CONFLICT | s::BAD_GATEWAY }>,
    > {
        let look = look(wallet, chain, symbol, eoa_wallet, is_safe)?;
        let opened = opened::by_token(&ctx, token.as_str()).await?;
        let handout = flows::secure_payments::pay::run(&ctx, &opened, &look, Some(&*caller)).await;
        let handout = unless_paid(&opened, handout)?;
        Ok(Json(view::paying(&ctx, &opened, &handout)))
    }

    /// Report a sent transaction
    ///
    /// Records the transaction that a payer sent, once per hash, so that others see that a payment is in flight. The
    /// record settles nothing and triggers no event. If `payerAddress` is given, that wallet must be allowed to pay.
    /// `payerAddress` is required when the link hides its content until a wallet is approved.
    ///
    /// When: the wallet has sent the payment
    /// Needs: the hash of the transaction
    /// Next: poll `GET /v2/secure-payments/{token}` until it returns 409 with `completed`
    /// Events: none; `payment.confirmed` once the payment is final
    /// 200: The transaction is recorded
    /// 403: Wallet is not allowed to pay this secure payment
    /// 404: Secure payment not found
    /// 409 requestStatuses: Secure payment has already been completed
    #[oai(
        path = "/secure-payments/:token/intent",
        method = "post",
        operation_id = "recordSecurePaymentIntent"
    )]
    async fn record_intent(
        &self,
        ctx: Data<&Ctx>,
        _caller: Auth<LinkReader>,
        /// Token of the link
        token: Path<UlidText>,
        body: Body<RecordIntentBody>,
    ) -> Result<Json<IntentRecorded>, Fail<{ s::BAD_REQUEST | s::FORBIDDEN | s::NOT_FOUND | s::CONFLICT }>> {
        let sent = body.0.read()?;
        let opened = opened::by_token(&ctx, token.as_str()).await?;
        let recorded = flows::secure_payments::record_intent::run(&ctx, &opened, &sent).await;
        let recorded = unless_paid(&opened, recorded)?;
        Ok(Json(view::recorded(&recorded)))
    }

    /// Report a payer action
    ///
    /// Telemetry of the payment page, sent as `secure_payment.user_event`. It proves nothing. Browsers can report only
    /// from pages of this service. Limits for each link and hour: 20 reports from one address, 100 in total.
    ///
    /// When: a payment page reports what its payer does
    /// Needs: the token of a payable link
    /// Next: nothing
    /// Events: `secure_payment.user_event`
    /// 202: The report is accepted
    /// 403: Secure payment has expired
    /// 404: Secure payment not found
    #[oai(
        path = "/secure-payments/:token/events",
        method = "post",
        operation_id = "reportSecurePaymentEvent"
    )]
    async fn report(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<LinkReporter>,
        address: Option<Data<&CallerAddress>>,
        /// Token of the link
        token: Path<UlidText>,
        body: Body<PayerStepBody>,
    ) -> Result<Accepted<Success>, Fail<{ s::BAD_REQUEST | s::FORBIDDEN | s::NOT_FOUND }>> {
        let report = body.0.read()?;
        let opened = opened::by_token(&ctx, token.as_str()).await?;
        let address = address.and_then(|address| address.0.0);
        flows::secure_payments::user_event::run(&ctx, &opened, Some(&*caller), address, &report).await?;
        Ok(Accepted::new(Success { success: true }))
    }

    /// Withdraw a link
    ///
    /// After withdrawal, neither the link nor the ids of its requests return calldata. The requests remain. A repeated
    /// call returns the same response. Calldata that was issued earlier still works on the chain; a payment that
    /// arrives anyway is credited to its request. Added by this service.
    ///
    /// When: a link should no longer be paid
    /// Needs: the token of one of your links
    /// Next: create a new link if one is needed
    /// Events: none; `payment.confirmed` if a payment still arrives
    /// 200: The link is withdrawn
    /// 404: Secure payment not found
    /// 409: Secure payment has already been completed
    #[oai(
        path = "/secure-payments/:token/withdraw",
        method = "post",
        operation_id = "withdrawSecurePayment"
    )]
    async fn withdraw(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<LinkEnder>,
        /// Token of the link
        token: Path<UlidText>,
    ) -> Result<Json<SecurePaymentWithdrawn>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND | s::CONFLICT }>> {
        let withdrawn = flows::secure_payments::withdraw::run(&ctx, &caller, token.as_str()).await?;
        Ok(Json(SecurePaymentWithdrawn {
            token: UlidText::written(withdrawn.token.as_str()),
            status: withdrawn.status,
        }))
    }
}

/// The result of an operation on a link. Errors: those of the flow; for a paid link also the status of its requests
/// (409).
fn unless_paid<T>(opened: &OpenedLink, given: FlowResult<T>) -> Result<T, Problem> {
    given.map_err(|error| {
        let problem = Problem::from(error);
        match opened.payable() {
            Err(UnpayableLink::Completed) => problem.with_completed(view::completed(opened)),
            _ => problem,
        }
    })
}

/// Who opens the link, and from where they would pay. Errors: every wrong parameter.
fn look(
    wallet: Checked<WalletText>,
    chain: Checked<PaymentChain>,
    symbol: Checked<SymbolText>,
    eoa: Checked<WalletText>,
    is_safe: Checked<SafeFlag>,
) -> Result<LinkVisit, Refusal> {
    let mut checks = Checks::new();
    match (chain.is_given(), symbol.is_given()) {
        (true, false) => checks.fail("token", "is required when chain is set"),
        (false, true) => checks.fail("chain", "is required when token is set"),
        _ => {}
    }
    if eoa.is_given() && !wallet.is_given() {
        checks.fail("wallet", "is required with eoaWallet: the smart account that pays");
    }
    if let Some(SafeFlag::True) = is_safe.take(&mut checks) {
        checks.fail(
            "isSafe",
            "must be false or absent: Safe accounts cannot pay on this service yet",
        );
    }
    let chain = chain.take(&mut checks);
    let symbol = symbol.take(&mut checks);
    let (wallet, eoa) = (wallet.read(&mut checks), eoa.read(&mut checks));
    checks.finish()?;
    Ok(LinkVisit {
        payer: wallet.map(|wallet| LinkPayer { wallet, eoa }),
        source: chain.zip(symbol).map(|(chain, token)| Source {
            network: chain.network(),
            token: token.into(),
        }),
    })
}

/// Message for a field that asks for a payment from another chain or in another token than the link has.
const ACROSS_LATER: &str = "cross-chain payments and other tokens are not supported yet";

/// Message for a field that asks to pay several links with one payment.
const SEVERAL_LATER: &str = "paying several links at once is not supported yet";

impl RecordIntentBody {
    /// Reports every field that asks for a cross-chain payment, a swap, or one payment of several links. The fields are
    /// compared only with each other, so that the message reveals nothing about the link.
    fn check_route(&self, checks: &mut Checks) {
        let network = self.source_network.as_deref();
        let is_own = |id: &str| Network::from_id(id) == Some(self.chain.network());
        let token = self.source_token.as_deref();
        let right = [
            ("executionKind", self.execution_kind.as_deref(), "evm_same_chain"),
            ("routeKind", self.route_kind.as_deref(), "same_chain"),
        ];
        for (name, given, right) in right {
            if given.is_some_and(|given| given != right) {
                checks.fail(name, format!("must be absent or {right}: {ACROSS_LATER}"));
            }
        }
        if network.is_some_and(|id| !is_own(id)) {
            let sentence = format!("must be absent or the network of `chain`: {ACROSS_LATER}");
            checks.fail("sourceNetwork", sentence);
        }
        if token.is_some_and(|token| !token.eq_ignore_ascii_case(self.token.as_str())) {
            checks.fail(
                "sourceToken",
                format!("must be absent or equal to token: {ACROSS_LATER}"),
            );
        }
        let refused = [
            ("bridgeTool", self.bridge_tool.is_some(), ACROSS_LATER),
            (
                "smartAccountAddress",
                self.smart_account_address.is_some(),
                SEVERAL_LATER,
            ),
            ("userOpHash", self.user_op_hash.is_some(), SEVERAL_LATER),
        ];
        for (name, is_given, why) in refused {
            if is_given {
                checks.fail(name, format!("must be absent: {why}"));
            }
        }
    }

    /// Reads the values. Errors: every wrong field, including fields for Safe accounts and other chains.
    fn read(self) -> Result<SentTransaction, Refusal> {
        let mut checks = Checks::new();
        self.check_route(&mut checks);
        for (name, is_given) in [
            ("safeTxHash", self.safe_tx_hash.is_some()),
            ("safePaymentDeadline", self.safe_payment_deadline.is_some()),
        ] {
            if is_given {
                checks.fail(name, "must be absent: Safe accounts cannot pay on this service yet");
            }
        }
        let tx_hash = match &self.tx_hash {
            Some(text) => checks.take("txHash", text.value()),
            None => {
                checks.fail("txHash", format!("is required: {}", TxHash::HINT));
                None
            }
        };
        let payer = self
            .payer_address
            .and_then(|text| checks.take("payerAddress", text.value()));
        let payer_eoa = self
            .payer_eoa_address
            .and_then(|text| checks.take("payerEoaAddress", text.value()));
        Ok(SentTransaction {
            tx_hash: checks.finish_with(tx_hash)?,
            source: Source {
                network: self.chain.network(),
                token: self.token.into(),
            },
            payer,
            payer_eoa,
        })
    }
}
