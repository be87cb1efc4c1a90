//! Secure payments: links by which whoever has the token pays.

mod answers;
mod bodies;
mod view;

use crate::{
    domain::{
        network::Network,
        refusal::Refusal,
        secure_payment::{Unpayable, access::Payer, intent::Source},
    },
    flows::{
        self, FlowResult,
        secure_payments::{
            open::Look,
            opened::{self, Opened},
            preview_fees,
            record_intent::Sent,
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
    /// Make a payment link
    ///
    /// Makes a link by which you are paid, at the destination of the client ID, else at the one of the platform. Several
    /// items are paid in one transaction. Whoever has the link may pay it until it expires. Destination, fees and policy are
    /// those of this moment: what you change later changes no link.
    ///
    /// A client ID without domains that is bound to no destination names one in `destinationId`. With a client ID that has
    /// domains, `accessPolicy` adds to the policy of the destination: what takes something away is a 403. Accounts that sign
    /// in without a wallet make no links.
    ///
    /// When: the payer pays on a page that is not yours
    /// Needs: a destination: `GET /v2/payee-destination/signing-data` begins one
    /// Next: hand out `securePaymentUrl`
    /// Events: `secure_payment.user_event` while the payer is on the page, then `payment.confirmed`
    /// 201: The link
    /// 400: No active payment destination found for this platform
    /// 403: Destination does not match the configured payment destination.
    /// 429: This call has 200 items, and 600 a minute are accepted, at most 200 at once: send it again after the seconds that Retry-After names
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

    /// Look up the link of a request
    ///
    /// The newest link of one of your requests, with what only you may see. For people who signed in.
    ///
    /// When: you lost the link of a request, or want to see who was screened
    /// Needs: a request of a link
    /// Next: hand out its address again, or `POST /v2/secure-payments/{token}/withdraw`
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

    /// Make a payout link
    ///
    /// Makes a link by which somebody pays a recipient whom you name. Any wallet may pay it; that of `creatorWalletAddress`
    /// is noted. Where its policy, or that of the recipient's destination, asks for screening, the recipient is screened
    /// first; with a client ID that has domains, `accessPolicy` takes nothing away from that destination's (403).
    ///
    /// When: somebody else in your house signs a payout
    /// Needs: the destination of the recipient
    /// Next: hand out `securePaymentUrl`, or combine several with `POST /v2/secure-payments/batch-payouts`
    /// Events: `payment.confirmed` once the payment is final
    /// 201: The link
    /// 403: Recipient wallet failed screening
    /// 429: There may be 100000 open requests and link items of a platform beside those of its public client IDs at most (caps.open_requests); cancel requests and withdraw links that will not be paid, or wait until some are paid or expire (a request that no link pays counts for 30 days, caps.open_request_days), or ask the operator for more
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
    /// Makes one link of several payout links that nobody has paid, all on one network. They are withdrawn and their
    /// requests live on in it; it ends when the first of them would have ended. Money that still arrives for one of them is
    /// credited to its request, which the new link then leaves out.
    ///
    /// When: several payouts are to be signed once
    /// Needs: tokens of unpaid payout links of one network
    /// Next: hand out `securePaymentUrl`
    /// Events: `payment.confirmed` for each request
    /// 201: The link
    /// 429: This call has 200 items, and 600 a minute are accepted, at most 200 at once: send it again after the seconds that Retry-After names
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
    /// The fees in US dollars that a link in a stablecoin would have, without a fee that a call names. Every fee that there
    /// is comes on top of the amount, so the payer bears it. `defaultFeeBearer` is for fees that nothing else decides about;
    /// where the call names nobody it is the payee of `get_paid` and the payer of `pay`. Nothing is stored.
    ///
    /// When: you show what a link would cost before you make it
    /// Needs: an amount in a stablecoin
    /// Next: `POST /v2/secure-payments`, or `POST /v2/secure-payments/payouts`
    /// 200: The fees
    #[oai(
        path = "/secure-payments/fees/preview",
        method = "post",
        operation_id = "previewSecurePaymentFees"
    )]
    async fn preview_fees(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<LinkMaker>,
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
    /// What a payer is shown before paying: the token is all that it takes, whoever calls. With `wallet` the answer says
    /// whether that wallet may pay, and what it holds on which chain. Where the creator wants it, nothing about money and
    /// people is shown before the wallet is approved. A link that is paid is a 409 with `status` and
    /// `requestStatuses`.
    ///
    /// When: a payer opens a link
    /// Needs: its token; `wallet` once one is connected
    /// Next: `GET /v2/secure-payments/{token}/pay`
    /// Events: `secure_payment.access_rejected` when the wallet may not pay
    /// 200: The link
    /// 403: Secure payment has expired
    /// 404: Secure payment not found
    /// 409 requestStatuses: Secure payment has already been completed
    #[oai(path = "/secure-payments/:token", method = "get", operation_id = "getSecurePayment")]
    #[expect(
        clippy::too_many_arguments,
        reason = "one argument for each parameter of the contract"
    )]
    async fn open(
        &self,
        ctx: Data<&Ctx>,
        _caller: Auth<LinkReader>,
        /// Token of the link
        token: Path<UlidText>,
        /// Wallet that wants to pay
        wallet: Checked<WalletText>,
        /// Chain to pay from; needs `token`. Another one than that of the payment is not in this version
        chain: Checked<PaymentChain>,
        /// Symbol of the token to pay with; needs `chain`. Another one than that of the payment is not in this version. Example: `FAU`
        #[oai(name = "token")]
        symbol: Checked<SymbolText>,
        /// Account behind a smart account; needs `wallet`, and counts for a list once the chain proves it
        #[oai(name = "eoaWallet")]
        eoa_wallet: Checked<WalletText>,
        /// Whether `wallet` is a Safe account; payment by one is not in this version
        #[oai(name = "isSafe")]
        is_safe: Checked<SafeFlag>,
    ) -> Result<Json<SecurePaymentView>, Fail<{ s::BAD_REQUEST | s::FORBIDDEN | s::NOT_FOUND | s::CONFLICT }>> {
        let look = look(wallet, (chain, symbol), eoa_wallet, is_safe)?;
        let opened = opened::by_token(&ctx, token.as_str()).await?;
        let shown = flows::secure_payments::open::run(&ctx, &opened, &look).await;
        let shown = unless_paid(&opened, shown)?;
        let is_seen = opened.is_seen(&ctx).await?;
        Ok(Json(view::shown(&opened, &shown, is_seen)))
    }

    /// Get the calldata that pays a link
    ///
    /// Answers the transactions that a wallet signs and sends, in order, for what is left of the requests that are not
    /// paid. Approvals allow exactly what is needed. With `wallet` the answer knows balances and allowance and leaves out
    /// what is not needed.
    ///
    /// When: the payer is about to pay a link
    /// Needs: its token; `wallet` for an exact answer
    /// Next: send the transactions in their order, then `POST /v2/secure-payments/{token}/intent`
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
        reason = "one argument for each parameter of the contract"
    )]
    async fn pay(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<LinkReader>,
        /// Token of the link
        token: Path<UlidText>,
        /// Wallet that pays
        wallet: Checked<WalletText>,
        /// Chain to pay from; needs `token`. Another one than that of the payment is not in this version
        chain: Checked<PaymentChain>,
        /// Symbol of the token to pay with; needs `chain`. Another one than that of the payment is not in this version. Example: `FAU`
        #[oai(name = "token")]
        symbol: Checked<SymbolText>,
        /// Account behind a smart account; needs `wallet`, and counts for a list once the chain proves it
        #[oai(name = "eoaWallet")]
        eoa_wallet: Checked<WalletText>,
        /// Whether `wallet` is a Safe account; payment by one is not in this version
        #[oai(name = "isSafe")]
        is_safe: Checked<SafeFlag>,
    ) -> Result<
        Json<SecureCalldata>,
        Fail<{ s::BAD_REQUEST | s::FORBIDDEN | s::NOT_FOUND | s::CONFLICT | s::BAD_GATEWAY }>,
    > {
        let look = look(wallet, (chain, symbol), eoa_wallet, is_safe)?;
        let opened = opened::by_token(&ctx, token.as_str()).await?;
        let handout = flows::secure_payments::pay::run(&ctx, &opened, &look, Some(&*caller)).await;
        let handout = unless_paid(&opened, handout)?;
        Ok(Json(view::paying(&ctx, &opened, &handout)))
    }

    /// Say what was sent
    ///
    /// Notes the transaction that a payer sent, once for each hash, so that others see that a payment is on its way. It
    /// settles nothing and raises no event. A wallet that is named in `payerAddress` has to be one that may pay; where all
    /// is hidden until a wallet is approved, one has to be named.
    ///
    /// When: the wallet has sent the payment
    /// Needs: the hash of the transaction
    /// Next: `GET /v2/secure-payments/{token}` until it answers 409 with `completed`
    /// Events: none by itself; `payment.confirmed` once the payment is final
    /// 200: The transaction is noted
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

    /// Report what a payer did
    ///
    /// Telemetry of the payment page, told as `secure_payment.user_event`; it proves nothing. Browsers report from pages of
    /// this service alone. At most 20 reports of a link an hour from one address, and 100 altogether.
    ///
    /// When: a page of links tells what its payer does
    /// Needs: the token of a link that can be paid
    /// Next: nothing
    /// Events: `secure_payment.user_event`
    /// 202: The report is told
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
        flows::secure_payments::user_event::run(&ctx, &opened, (Some(&*caller), address), &report).await?;
        Ok(Accepted::new(Success { success: true }))
    }

    /// Withdraw a link
    ///
    /// Nobody gets calldata by it any more, nor by the ids of its requests, which stay; repeated, the call answers the same.
    /// Calldata that was handed out before still works on the chain: money that arrives all the same is credited to its
    /// request. An addition of this service.
    ///
    /// When: a link is no longer to be paid
    /// Needs: the token of a link of yours
    /// Next: make a new link if it is wanted again
    /// Events: none by itself; `payment.confirmed` if money arrives all the same
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

/// What a link gives. Errors: those of the flow; of a link that is paid also what became of its requests (409).
fn unless_paid<T>(opened: &Opened, given: FlowResult<T>) -> Result<T, Problem> {
    given.map_err(|error| {
        let problem = Problem::from(error);
        match opened.payable() {
            Err(Unpayable::Completed) => problem.with_completed(view::completed(opened)),
            _ => problem,
        }
    })
}

/// Who looks, and from where he would pay. Errors: every wrong parameter.
fn look(
    wallet: Checked<WalletText>,
    (chain, symbol): (Checked<PaymentChain>, Checked<SymbolText>),
    eoa: Checked<WalletText>,
    is_safe: Checked<SafeFlag>,
) -> Result<Look, Refusal> {
    let mut checks = Checks::new();
    match (chain.is_given(), symbol.is_given()) {
        (true, false) => checks.fail("token", "is required: chain and token go together"),
        (false, true) => checks.fail("chain", "is required: chain and token go together"),
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
    Ok(Look {
        payer: wallet.map(|wallet| Payer { wallet, eoa }),
        source: chain.zip(symbol).map(|(chain, token)| Source {
            network: chain.network(),
            token: token.into(),
        }),
    })
}

/// What is said of a payment that is made elsewhere than on the chain and in the token of its link.
const ACROSS_LATER: &str = "payments across chains, and in other tokens, come later on this service";

/// What is said of a payment of several links.
const SEVERAL_LATER: &str = "several links in one payment come later on this service";

impl RecordIntentBody {
    /// Notes what asks for more than a payment on the own chain in the own token. It is compared with what the body says
    /// itself, so that nothing is told of a link.
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
            let sentence = format!("must be absent, or the network of chain: {ACROSS_LATER}");
            checks.fail("sourceNetwork", sentence);
        }
        if token.is_some_and(|token| !token.eq_ignore_ascii_case(self.token.as_str())) {
            checks.fail(
                "sourceToken",
                format!("must be absent, or that of token: {ACROSS_LATER}"),
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

    /// Reads the values. Errors: every wrong field; what belongs to Safe accounts or to other chains is one.
    fn read(self) -> Result<Sent, Refusal> {
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
        Ok(Sent {
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
