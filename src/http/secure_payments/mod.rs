//! Secure payments: payment links. Anyone with the token of a link can pay it.

mod answers;
mod bodies;
mod view;

use crate::{
    domain::{
        address::Address,
        network::Network,
        network_support::check_accounts,
        refusal::{Refusal, RefusalKind},
        secure_payment::{
            UnpayableLink,
            access::LinkPayer,
            broadcast::SentTransaction,
            intent::{Source, TransactionIndex},
        },
    },
    flows::{
        self, FlowError, FlowResult,
        secure_payments::{
            open::LinkVisit,
            opened::{self, OpenedLink},
            preview_fees,
            record_intent::{ReportedHash, ReportedPayment},
        },
    },
    http::{
        error::Problem,
        forms::{payer_step::PayerStepBody, signed_transaction::BroadcastBody},
        gate::{address::CallerAddress, rate_limits::Meter},
        operation::*,
    },
};
pub use answers::*;
pub use bodies::*;
use chrono::{DateTime, Utc};
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
        /// Id of a request that has a link. Example: `012ff6a8f04b3b8a70f3cf9768da03586a9e501bf891a221c9dd947b171069e577`
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

    /// Create a multicall
    ///
    /// Creates a link that pays up to 150 of your unpaid payout links on one network in one transaction. The links stay
    /// payable on their own, and each of them is confirmed by its own reference; a link that is paid both alone and with
    /// the multicall is overpaid. The multicall expires when the first of the links expires. All links must have been
    /// created with the same client ID, or without one, and by the same orchestrator. If a link cannot be paid now,
    /// nothing is created, and the response lists every such link in `failures`.
    ///
    /// Links on several networks (at most 20) can be combined, but this version cannot issue a transaction for them.
    ///
    /// When: one signature is to pay several payouts, and each payout keeps its own link
    /// Needs: tokens of unpaid payout links
    /// Next: send `securePaymentUrl` to the payer
    /// Events: `payment.confirmed` for each request
    /// 201: The multicall
    /// 400 failures: Multicall validation failed
    /// 429: This call has 200 items; the limit is 600 items per minute and 200 items at once: retry after the number of seconds in Retry-After
    #[oai(
        path = "/secure-payments/multicall-payouts",
        method = "post",
        operation_id = "createMulticallPayout"
    )]
    async fn create_multicall(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<LinkCombiner>,
        meter: Option<Data<&Arc<Meter>>>,
        key: Keyed,
        body: Body<CreateMulticallBody>,
    ) -> Result<Created<MulticallCreated>, Fail<{ s::BAD_REQUEST | s::FORBIDDEN | s::CONFLICT }>> {
        let once = key.once(op::createMulticallPayout, &body.0);
        let asked = body.0.read();
        let items = Meter::of_items(meter.as_deref().copied(), &caller, asked.tokens.len());
        answer_once(once, view::multicall_created, async |call| {
            flows::secure_payments::create_multicall::run(&ctx, &caller, asked, call.admitted_by(items)).await
        })
        .await
    }

    /// Get a multicall
    ///
    /// Returns one of your multicalls in any state, with the state of each of its links. Only for signed-in users.
    ///
    /// When: you want to see which payouts of a multicall are paid
    /// Needs: a multicall that you created
    /// Next: create another multicall without the blocked links
    /// 200: The multicall
    /// 404: Multicall payout not found
    #[oai(
        path = "/secure-payments/multicall-payouts/:token",
        method = "get",
        operation_id = "getMulticallPayout"
    )]
    async fn get_multicall(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<LinkFinder>,
        /// Token of the multicall. Example: `01JZX4T9QK3M7N8P2R5S6V0WYK`
        token: Path<UlidText>,
    ) -> Result<Json<MulticallSecurePayment>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let found = flows::secure_payments::multicall::find(&ctx, &caller, token.as_str()).await?;
        Ok(Json(view::found_multicall(&ctx, &found)))
    }

    /// Preview the fees of a link
    ///
    /// Returns the fees in US dollars that a link in a stablecoin would have. A fee that you set when you create the
    /// link is not included. The payer bears every fee, except a fee of an orchestrator whose config names the
    /// recipient as bearer. `defaultFeeBearer` bears a fee whose bearer no other rule determines; if absent, the
    /// default bearer is the payee for `get_paid` and the payer for `pay`. Nothing is stored.
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
    /// stay hidden until the wallet is approved. A paid link returns 409, and a link that a Safe is about to pay returns
    /// 423, both with `status` and `requestStatuses`, which is empty if the link hides its content.
    ///
    /// When: a payer opens a link
    /// Needs: the token of the link; `wallet` once a wallet is connected
    /// Next: get calldata with `GET /v2/secure-payments/{token}/pay`
    /// Events: `secure_payment.access_rejected` when the wallet may not pay
    /// 200: The link
    /// 403: Secure payment has expired
    /// 404: Secure payment not found
    /// 409 requestStatuses: Secure payment has already been completed
    /// 423 requestStatuses: Secure payment is in progress
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
        /// Whether `wallet` is a Safe account of version 1.3.0, 1.4.1 or 1.5.0; needs `wallet`, and excludes `eoaWallet`,
        /// `chain` and `token`
        #[oai(name = "isSafe")]
        is_safe: Checked<SafeFlag>,
    ) -> Result<
        Json<SecurePaymentView>,
        Fail<{ s::BAD_REQUEST | s::FORBIDDEN | s::NOT_FOUND | s::CONFLICT | s::LOCKED | s::BAD_GATEWAY }>,
    > {
        let asked = look(wallet, chain, symbol, eoa_wallet, is_safe);
        let (opened, look) = visited(&ctx, &token, asked).await?;
        if opened.payment.is_multicall() {
            let multicall = flows::secure_payments::multicall::open(&ctx, &opened, &look).await;
            let (multicall, shown) = with_progress(&opened, multicall)?;
            return Ok(Json(SecurePaymentView::Multicall(Box::new(view::multicall(
                &ctx, &opened, &multicall, &shown,
            )))));
        }
        let shown = flows::secure_payments::open::run(&ctx, &opened, &look).await;
        let shown = with_progress(&opened, shown)?;
        let signs = opened.payment_signs(&ctx).await?;
        Ok(Json(view::shown(&opened, &shown, signs)))
    }

    /// Get the calldata that pays a link
    ///
    /// Returns the transactions that a wallet signs and sends, in order, for the amount still due on the unpaid
    /// requests. Approvals allow exactly the amount needed. With `wallet`, the response includes balances and allowance
    /// and leaves out approvals that are not needed.
    ///
    /// With `isSafe=true`, the approvals are always included, because the owners of the Safe sign all transactions
    /// together. Report the hash that they sign with `POST /v2/secure-payments/{token}/intent`: the link is then locked
    /// until `safePaymentDeadline`, so that no other payer pays it meanwhile. `requestStatuses` of a 423
    /// is empty if the link hides its content.
    ///
    /// When: the payer is about to pay a link
    /// Needs: the token of the link; `wallet`, if approvals that the wallet does not need should be left out
    /// Next: send the transactions in order, then report the payment with `POST /v2/secure-payments/{token}/intent`
    /// Events: `payment.confirmed` for each request once the payment is final
    /// 200: The transactions to sign, and what the wallet needs for them
    /// 400: The energy of the payment on tron costs an estimated 412.5 TRX, and this service allows at most 300 TRX for it: retry when energy is cheaper, or ask the operator to raise chains.tron.payment_fee_limit_trx
    /// 403: Wallet is not allowed to pay this secure payment
    /// 404: Secure payment not found
    /// 409 requestStatuses: Secure payment has already been completed
    /// 423 requestStatuses: Secure payment is in progress
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
        /// Whether `wallet` is a Safe account of version 1.3.0, 1.4.1 or 1.5.0; needs `wallet`, and excludes `eoaWallet`,
        /// `chain` and `token`
        #[oai(name = "isSafe")]
        is_safe: Checked<SafeFlag>,
    ) -> Result<
        Json<SecureCalldata>,
        Fail<{ s::BAD_REQUEST | s::FORBIDDEN | s::NOT_FOUND | s::CONFLICT | s::LOCKED | s::BAD_GATEWAY }>,
    > {
        let asked = look(wallet, chain, symbol, eoa_wallet, is_safe);
        let (opened, look) = visited(&ctx, &token, asked).await?;
        let handout = flows::secure_payments::pay::run(&ctx, &opened, &look, Some(&*caller)).await;
        let handout = with_progress(&opened, handout)?;
        let deadline = opened.safe_deadline(&caller);
        Ok(Json(view::paying(&ctx, &opened, &handout, deadline)))
    }

    /// Report a payment
    ///
    /// Records a payment, once per hash, so that others see that it is in flight. The record settles nothing. Send
    /// exactly one of three hashes: `txHash` of a sent transaction; `safeTxHash` of a transaction that the owners of a
    /// Safe are about to sign; or `userOpHash` of a user operation that pays a multicall, with `smartAccountAddress` and
    /// `transactionIndices`. If `payerAddress` is given, that wallet must be allowed to pay. `payerAddress` is required
    /// when the link hides its content until a wallet is approved.
    ///
    /// `safeTxHash` locks the link: until the deadline, opening it and getting its calldata return 423. With a secret
    /// credential of the creator, the lock ends at `safePaymentDeadline`, by default after 24 hours. No lock lasts
    /// longer than its link. With a client ID that has domains, `payerAddress` is required and must be a Safe that got
    /// the calldata and holds the amount; the lock ends after at most one hour, and a repeated report extends it, for
    /// 24 hours in total. Such a report never shortens a lock. A report of another hash, or of the same hash for
    /// another Safe, is a 409. A multicall with a blocked link cannot be locked (400). The lock also ends when the Safe
    /// has executed the transaction, and when the creator releases it. A payment that arrives during a lock is credited
    /// too.
    ///
    /// When: the wallet has sent the payment, or the owners of a Safe are about to sign it
    /// Needs: the hash
    /// Next: poll `GET /v2/secure-payments/{token}` until it returns 409 with `completed`
    /// Events: `payment.confirmed` once the payment is final; `payment.failed` if the Safe executes the transaction and its calls fail
    /// 200: The payment is recorded
    /// 400 failures: Multicall validation failed
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
        caller: Auth<LinkReader>,
        /// Token of the link
        token: Path<UlidText>,
        body: Body<RecordIntentBody>,
    ) -> Result<
        Json<RecordedIntentView>,
        Fail<{ s::BAD_REQUEST | s::FORBIDDEN | s::NOT_FOUND | s::CONFLICT | s::BAD_GATEWAY }>,
    > {
        let echoed = body.0.echoed();
        let asked = body.0.read()?;
        let opened = opened::by_token(&ctx, token.as_str()).await?;
        let sent = asked.of_link(&ctx, &opened)?;
        let recorded = flows::secure_payments::record_intent::run(&ctx, &opened, &sent, Some(&*caller)).await;
        let recorded = with_progress(&opened, recorded)?;
        Ok(Json(view::recorded(&opened, &recorded, echoed)))
    }

    /// Broadcast a Tron transaction
    ///
    /// Broadcasts a transaction that a Tron wallet has signed, if it is one of the transactions that
    /// `GET /v2/secure-payments/{token}/pay` returns for its owner now. `raw_data_hex` alone decides, and `raw_data` has
    /// to say the same. Contract, calldata and call value are compared exactly; the reference block, the times and the
    /// fee limit are free within the limits. The owner has to sign with its own key: a wallet with several signatures
    /// or another permission broadcasts its transactions itself.
    ///
    /// The hash is recorded before the broadcast, as a report of a payment is, and settles nothing. The same transaction
    /// can be sent again; it is recorded once. After a 502, send the same transaction again. A 400 without `errors` is
    /// a refusal of the chain, unless it has the `code` `fee_limit_exceeded`.
    ///
    /// When: the wallet has signed an approval or the payment of a link on Tron
    /// Needs: the signed transaction, less than 60 seconds after its calldata was issued
    /// Next: poll `GET /v2/secure-payments/{token}` until it returns 409 with `completed`
    /// Events: `payment.confirmed` once the payment is final
    /// 200: A node has the transaction
    /// 400: The chain does not have the block to which the transaction refers: get the calldata again and sign that transaction
    /// 403: Secure payment has expired
    /// 404: Secure payment not found
    /// 502: No node of tron takes transactions now; send the same signed transaction again
    #[oai(
        path = "/secure-payments/:token/tron/broadcast",
        method = "post",
        operation_id = "broadcastTronTransaction"
    )]
    async fn broadcast(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<LinkReader>,
        /// Token of the link
        token: Path<UlidText>,
        body: Body<BroadcastBody>,
    ) -> Result<Json<TransactionSent>, Fail<{ s::BAD_REQUEST | s::FORBIDDEN | s::NOT_FOUND | s::BAD_GATEWAY }>> {
        let opened = opened::by_token(&ctx, token.as_str()).await?;
        let sent = SentTransaction::from(body.0);
        let broadcast = flows::secure_payments::broadcast::run(&ctx, &opened, &sent, Some(&*caller)).await?;
        Ok(Json(view::broadcast(&broadcast)))
    }

    /// Release a link from a Safe
    ///
    /// Ends the lock of a link that a Safe is about to pay, so that anyone can pay it again. From then on, only you can
    /// lock the link: a report with a client ID that has domains no longer locks it. A repeated call returns the same
    /// response. If the Safe executes its transaction later, the payment is credited. Added by this service.
    ///
    /// When: the owners of the Safe do not sign, and someone else is to pay
    /// Needs: the token of one of your links
    /// Next: send the link to the payer again
    /// Events: none
    /// 200: The link is released
    /// 404: Secure payment not found
    #[oai(
        path = "/secure-payments/:token/release",
        method = "post",
        operation_id = "releaseSecurePayment"
    )]
    async fn release(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<LinkEnder>,
        /// Token of the link
        token: Path<UlidText>,
    ) -> Result<Json<SecurePaymentReleased>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let released = flows::secure_payments::release::run(&ctx, &caller, token.as_str()).await?;
        Ok(Json(SecurePaymentReleased {
            token: UlidText::written(released.token.as_str()),
            status: released.status_at(ctx.clock.now()),
            is_locked: false,
        }))
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

/// The result of an operation on a link. Errors: those of the flow. For a paid link (409), and for a link that a Safe is
/// about to pay (423), the error contains the status of its requests.
fn with_progress<T>(opened: &OpenedLink, given: FlowResult<T>) -> Result<T, Problem> {
    given.map_err(|error| {
        let is_locked = matches!(&error, FlowError::Refused(refusal) if refusal.kind == RefusalKind::Locked);
        let problem = Problem::from(error);
        match (opened.payable(), opened.payment.locked_at(opened.now)) {
            (Err(UnpayableLink::Completed), _) => problem.with_progress(view::completed(opened)),
            (_, Some(lock)) if is_locked => problem.with_progress(view::locked(opened, lock)),
            _ => problem,
        }
    })
}

/// Parameters of a visit of which at least one is wrong.
#[derive(Debug)]
struct WrongVisit {
    refusal: Refusal,
    names_eoa: bool,
    is_safe: bool,
}

/// The link, and who opens it. Errors: wrong parameters (400); an unknown link (404). Accounts that the network of the
/// link does not have are refused before everything else: a wallet beside them would not help.
async fn visited(
    ctx: &Ctx,
    token: &UlidText,
    asked: Result<LinkVisit, WrongVisit>,
) -> Result<(OpenedLink, LinkVisit), Problem> {
    let wrong = match asked {
        Ok(look) => return Ok((opened::by_token(ctx, token.as_str()).await?, look)),
        Err(wrong) => wrong,
    };
    if (wrong.names_eoa || wrong.is_safe)
        && let Ok(opened) = opened::by_token(ctx, token.as_str()).await
    {
        let mut checks = Checks::new();
        check_accounts(opened.payment.network, wrong.names_eoa, wrong.is_safe, &mut checks);
        checks.finish()?;
    }
    Err(wrong.refusal.into())
}

/// Who opens the link, and from where they would pay. Errors: every wrong parameter.
fn look(
    wallet: Checked<WalletText>,
    chain: Checked<PaymentChain>,
    symbol: Checked<SymbolText>,
    eoa: Checked<WalletText>,
    is_safe: Checked<SafeFlag>,
) -> Result<LinkVisit, WrongVisit> {
    let mut checks = Checks::new();
    let names_eoa = eoa.is_given();
    match (chain.is_given(), symbol.is_given()) {
        (true, false) => checks.fail("token", "is required when chain is set"),
        (false, true) => checks.fail("chain", "is required when token is set"),
        _ => {}
    }
    if eoa.is_given() && !wallet.is_given() {
        checks.fail("wallet", "is required with eoaWallet: the smart account that pays");
    }
    let is_safe = is_safe.take(&mut checks) == Some(SafeFlag::True);
    if is_safe {
        let own_route = "must be absent with isSafe: a Safe pays on the network and in the token of the link";
        for (name, is_given, sentence) in [
            (
                "eoaWallet",
                eoa.is_given(),
                "must be absent with isSafe: an owner does not prove who controls a Safe",
            ),
            ("chain", chain.is_given(), own_route),
            ("token", symbol.is_given(), own_route),
        ] {
            if is_given {
                checks.fail(name, sentence);
            }
        }
        if !wallet.is_given() {
            checks.fail("wallet", "is required with isSafe: the Safe that pays");
        }
    }
    let chain = chain.take(&mut checks);
    let symbol = symbol.take(&mut checks);
    let (wallet, eoa) = (wallet.read(&mut checks), eoa.read(&mut checks));
    checks.finish().map_err(|refusal| WrongVisit {
        refusal,
        names_eoa,
        is_safe,
    })?;
    Ok(LinkVisit {
        payer: wallet.map(|wallet| LinkPayer { wallet, eoa }),
        source: chain.zip(symbol).map(|(chain, token)| Source {
            network: chain.network(),
            token: token.into(),
        }),
        is_safe,
    })
}

/// Message for a field that asks for a payment from another chain or in another token than the link has.
const ACROSS_LATER: &str = "cross-chain payments and other tokens are not supported yet";

/// Latest deadline in Unix seconds: the year 9999.
const DEADLINE_MAX_S: i64 = 253_402_300_799;

/// A reported payment without the token of a multicall, which its link determines.
struct AskedIntent {
    hash: ReportedHash,
    network: Network,
    token: Option<String>,
    amount: Option<String>,
    payer: Option<Address>,
    payer_eoa: Option<Address>,
}

impl AskedIntent {
    /// The report of a payment of a link.
    fn of_link(self, ctx: &Ctx, opened: &OpenedLink) -> Result<ReportedPayment, Problem> {
        let first = opened.requests.first();
        let currency = first.and_then(|request| ctx.catalogue.find(&request.terms.payment_currency));
        let own = currency.map(|currency| currency.symbol.clone());
        let token = self.token.or(own).ok_or_else(Problem::internal)?;
        Ok(ReportedPayment {
            hash: self.hash,
            source: Source {
                network: self.network,
                token,
            },
            amount: self.amount,
            payer: self.payer,
            payer_eoa: self.payer_eoa,
        })
    }
}

impl RecordIntentBody {
    /// The values of a user operation that the response repeats.
    fn echoed(&self) -> EchoedIntent {
        EchoedIntent {
            tx_hash: self.tx_hash.clone(),
            safe_tx_hash: self.safe_tx_hash.clone(),
            safe_payment_deadline: self.safe_payment_deadline,
            chain: self.chain,
        }
    }

    /// Reports every field that asks for a cross-chain payment or a swap. The fields are compared only with each other,
    /// so that the message reveals nothing about the link.
    fn check_route(&self, checks: &mut Checks) {
        let network = self.source_network.as_deref();
        let is_own = |id: &str| Network::from_id(id) == Some(self.chain.network());
        let (source_token, token) = (self.source_token.as_deref(), self.token.as_ref());
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
        let is_other = |given: &str| !token.is_some_and(|token| given.eq_ignore_ascii_case(token.as_str()));
        if source_token.is_some_and(is_other) {
            checks.fail(
                "sourceToken",
                format!("must be absent or equal to token: {ACROSS_LATER}"),
            );
        }
        if self.bridge_tool.is_some() {
            checks.fail("bridgeTool", format!("must be absent: {ACROSS_LATER}"));
        }
    }

    /// Reads the values. Errors: every wrong field, including fields for other chains.
    fn read(self) -> Result<AskedIntent, Refusal> {
        let mut checks = Checks::new();
        self.check_route(&mut checks);
        let is_operation =
            self.user_op_hash.is_some() || self.smart_account_address.is_some() || self.transaction_indices.is_some();
        let deadline = self.deadline(is_operation, &mut checks);
        let amount = self
            .source_amount
            .as_ref()
            .and_then(|amount| checks.take("sourceAmount", amount.value()));
        let payer = self
            .payer_address
            .as_ref()
            .and_then(|text| checks.take("payerAddress", text.value()));
        let payer_eoa = self
            .payer_eoa_address
            .as_ref()
            .and_then(|text| checks.take("payerEoaAddress", text.value()));
        let (hash, payer) = if is_operation {
            let (hash, account) = self.operation(&mut checks);
            if payer.is_some() {
                checks.fail(
                    "payerAddress",
                    "must be absent with userOpHash: smartAccountAddress pays",
                );
            }
            (hash, account)
        } else {
            (self.transaction(deadline, &mut checks), payer)
        };
        let network = self.chain.network();
        let token = self.token.map(String::from);
        if token.is_none() && !is_operation {
            checks.fail("token", "is required: the symbol of the token of the payment");
        }
        Ok(AskedIntent {
            hash: checks.finish_with(hash)?,
            network,
            token,
            amount: amount.map(|amount| amount.to_string()),
            payer,
            payer_eoa,
        })
    }

    fn deadline(&self, is_operation: bool, checks: &mut Checks) -> Option<DateTime<Utc>> {
        let seconds = self.safe_payment_deadline?;
        if self.safe_tx_hash.is_none() && !is_operation {
            checks.fail("safePaymentDeadline", "must be absent without safeTxHash");
        }
        let deadline = DateTime::from_timestamp(seconds, 0).filter(|_| seconds <= DEADLINE_MAX_S);
        checks.take(
            "safePaymentDeadline",
            deadline.ok_or("must be Unix seconds before the year 10000"),
        )
    }

    /// The hash of the single form.
    fn transaction(&self, deadline: Option<DateTime<Utc>>, checks: &mut Checks) -> Option<ReportedHash> {
        match (&self.tx_hash, &self.safe_tx_hash) {
            (Some(text), None) => checks.take("txHash", text.value()).map(ReportedHash::Transaction),
            (None, Some(text)) => {
                let hash = checks.take("safeTxHash", text.value())?;
                Some(ReportedHash::Safe { hash, deadline })
            }
            (Some(_), Some(_)) => {
                checks.fail("safeTxHash", "must be absent with txHash: send exactly one of them");
                None
            }
            (None, None) => {
                checks.fail("txHash", format!("or safeTxHash is required: {}", TxHash::HINT));
                None
            }
        }
    }

    /// The hash of the form for a user operation, and its account.
    fn operation(&self, checks: &mut Checks) -> (Option<ReportedHash>, Option<Address>) {
        let hash = match &self.user_op_hash {
            Some(text) => checks.take("userOpHash", text.value()),
            None => {
                checks.fail(
                    "userOpHash",
                    "is required with smartAccountAddress and transactionIndices",
                );
                None
            }
        };
        let account = match &self.smart_account_address {
            Some(text) => checks.take("smartAccountAddress", text.value()),
            None => {
                checks.fail(
                    "smartAccountAddress",
                    "is required with userOpHash: the account that pays",
                );
                None
            }
        };
        let indices = self.transaction_indices.as_deref().unwrap_or_default();
        if indices.is_empty() {
            checks.fail("transactionIndices", "is required with userOpHash: 1 to 250 items");
        }
        let indices = indices.iter().map(|index| TransactionIndex {
            child_position: index.child_position,
            transaction_index: index.transaction_index,
        });
        let indices = indices.collect();
        (hash.map(|hash| ReportedHash::UserOperation { hash, indices }), account)
    }
}
