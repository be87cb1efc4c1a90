//! Secure payments as clients see them.

use super::{answers::*, bodies::*};
use crate::{
    domain::{
        address::Address,
        amount::format_units,
        interop_address::{DestinationKey, InteropAddress},
        network::{Family, Network},
        paying::{
            Shortage,
            charge::{FeeBearer, FeeKind},
            summary::net,
        },
        request::Request,
        screening::{self, Screening},
        secure_payment::{
            PaymentFlow, PaymentSigns, SecurePayment, SecurePaymentKind, SecurePaymentStatus, access,
            fee_plan::{FeePlan, FeePlanLine},
            intent::IntentKind,
            lock::SafeLock,
            multicall::{BlockReason, ExecutionKind, MulticallStatus},
            options::PaymentOption,
        },
    },
    flows::{
        paying::Handout,
        secure_payments::{
            CreatedSecurePayment,
            broadcast::BroadcastTransaction,
            create_multicall::CreatedMulticall,
            find::FoundLink,
            multicall::{FoundMulticall, MulticallChild, OpenedMulticall},
            open::LinkView,
            opened::OpenedLink,
            record_intent::RecordedIntent,
        },
    },
    http::{
        error::{LinkProgress, RequestPaid, message_key},
        forms::{
            handout::{HandoutTexts, StepTexts},
            signed_transaction::PlainTxHash,
            unsigned::UnsignedTexts,
        },
        operation::*,
    },
};
use alloy::primitives::U256;
use chrono::{DateTime, Utc};

pub(super) fn created(made: &CreatedSecurePayment) -> SecurePaymentCreated {
    let ids = made
        .payment
        .items
        .iter()
        .map(|item| RequestIdText::written(&item.request_id));
    SecurePaymentCreated {
        request_ids: ids.collect(),
        secure_payment_url: PayPageText::written(&made.url),
        token: UlidText::written(made.payment.token.as_str()),
        fee_plan: OrNull(made.fee_plan.as_ref().map(fee_plan)),
    }
}

fn payees(opened: &OpenedLink) -> Vec<Address> {
    let payees = opened.requests.iter().map(|request| request.terms.payee);
    payees.flatten().collect()
}

fn request_ids(opened: &OpenedLink) -> Vec<RequestIdText> {
    let ids = opened.requests.iter().map(|request| &request.id);
    ids.map(RequestIdText::written).collect()
}

/// The fee plan for a payer. It leaves out the address of a fee receiver that is a hidden payee.
fn masked_plan(opened: &OpenedLink, plan: &FeePlan) -> FeePlanView {
    let mut view = fee_plan(plan);
    if opened.payment.policy.hides_payee {
        let payees = payees(opened);
        for (line, shown) in plan.lines.iter().zip(&mut view.fees) {
            if payees.contains(&line.charge.receiver) {
                shown.destination_ref = FeeDestination::default();
            }
        }
    }
    view
}

pub(super) fn fee_plan(plan: &FeePlan) -> FeePlanView {
    FeePlanView {
        version: FeePlanVersion,
        flow: plan.flow,
        default_fee_bearer: plan.default_bearer,
        gross_amount_usd: plan.gross(),
        net_recipient_amount_usd: plan.net(),
        payer_total_amount_usd: plan.payer_total(),
        total_fees_usd: plan.fees(),
        payee_borne_fees_usd: plan.fees_of(FeeBearer::Payee),
        payer_borne_fees_usd: plan.fees_of(FeeBearer::Payer),
        fees: plan.lines.iter().map(fee_plan_line).collect(),
    }
}

fn fee_plan_line(line: &FeePlanLine) -> FeePlanLineView {
    let charge = &line.charge;
    let receiver = Some(WalletText::written(charge.receiver));
    let (evm_address, tron_address) = match charge.receiver.family() {
        Family::Evm => (receiver, None),
        Family::Tron => (None, receiver),
    };
    FeePlanLineView {
        kind: charge.kind,
        label: charge.kind.label().to_owned(),
        fee_bearer: charge.bearer,
        fee_bearer_source: charge.kind.bearer_source(),
        percentage_bps: charge.rate.basis_points().into(),
        cap_usd: OrNull(line.cap.clone()),
        calculated_amount_usd: line.amount(),
        destination_resolver: FeeResolver::StaticAddress,
        destination_ref: FeeDestination {
            evm_address,
            tron_address,
        },
        config_source: charge.source,
    }
}

/// The requests of a link, unless they are hidden until a payer is approved.
fn open_requests(opened: &OpenedLink) -> impl Iterator<Item = &Request> {
    let shown = (!opened.payment.policy.hides_until_approved).then_some(&opened.requests);
    shown.into_iter().flatten()
}

/// The status of the requests of a paid secure payment. Fields that are hidden until a payer is approved stay hidden.
pub(super) fn completed(opened: &OpenedLink) -> LinkProgress {
    let requests = open_requests(opened).map(|request| {
        RequestPaid::paid(
            RequestIdText::written(&request.id),
            request.ledger.has_been_paid(),
            request.ledger.tx_hash.map(TxHash::written),
        )
    });
    LinkProgress {
        status: SecurePaymentStatus::Completed.wire(),
        requests: requests.collect(),
    }
}

/// The status of the requests of a link that a Safe is about to pay. Fields that are hidden until a payer is approved
/// stay hidden.
pub(super) fn locked(opened: &OpenedLink, lock: &SafeLock) -> LinkProgress {
    let requests = open_requests(opened).map(|request| {
        // One of several requests may be paid already.
        let is_paid = request.ledger.has_been_paid();
        let tx_hash = request.ledger.tx_hash.filter(|_| is_paid);
        RequestPaid {
            request_id: RequestIdText::written(&request.id),
            has_been_paid: is_paid,
            tx_hash: OrNull(tx_hash.map(TxHash::written)),
            safe_tx_hash: Some(TxHash::written(lock.safe_tx_hash)),
            chain_id: Some(opened.payment.network.chain_id()),
            safe_payment_deadline: Some(lock.until.timestamp()),
        }
    });
    LinkProgress {
        status: SecurePaymentStatus::Pending.wire(),
        requests: requests.collect(),
    }
}

/// An address, in full or masked.
fn address(address: Address, is_masked: bool) -> String {
    let text = address.to_string();
    if !is_masked {
        return text;
    }
    let start: String = text.chars().take(6).collect();
    let end = text.len().checked_sub(4).and_then(|from| text.get(from..));
    format!("{start}...{}", end.unwrap_or_default())
}

fn destination(key: &DestinationKey, is_masked: bool) -> SecurePaymentDestination {
    let interop = &key.interop;
    SecurePaymentDestination {
        destination_id: (!is_masked).then(|| key.to_string()),
        payee_address: if is_masked {
            format!(
                "{}@eip155:{}",
                address(interop.wallet, true),
                interop.network.chain_id()
            )
        } else {
            interop.to_string()
        },
        token_address: WalletText::written(key.token),
        wallet_address: address(interop.wallet, is_masked),
        network: NetworkText::written(interop.network),
        is_masked: is_masked.then_some(true),
    }
}

/// The destination of a request of a secure payment.
fn destination_of(request: &Request, is_masked: bool) -> OrNull<SecurePaymentDestination> {
    let terms = &request.terms;
    let key = terms.token.zip(terms.payee).map(|(token, wallet)| DestinationKey {
        interop: InteropAddress {
            wallet,
            network: terms.network,
        },
        token,
    });
    OrNull(key.map(|key| destination(&key, is_masked)))
}

fn decision(decision: &access::AccessDecision) -> AccessDecisionView {
    let wallet = |result: &access::WalletResult| AccessWalletResult {
        wallet_address: WalletText::written(result.wallet),
        wallet_type: result.kind,
        parent_wallet_address: OrNull(result.parent.map(WalletText::written)),
        status: result.status,
        reason_code: result.reason.clone(),
        provider: OrNull(result.provider),
        evaluated_at: result.evaluated_at.map(Instant),
    };
    AccessDecisionView {
        status: decision.status,
        reason_code: decision.reason.clone(),
        provider: OrNull(decision.provider),
        wallet_results: decision.wallets.iter().map(wallet).collect(),
    }
}

fn kyt_result(screening: &Screening) -> KytResult {
    let (status, reason) = screening::status(screening.status);
    KytResult {
        wallet_address: WalletText::written(screening.wallet.address),
        wallet_type: screening.wallet.kind,
        parent_wallet_address: OrNull(screening.wallet.parent.map(WalletText::written)),
        status: OrNull(Some(status)),
        reason_code: OrNull(Some(reason.to_owned())),
        provider: OrNull(Some(screening.provider)),
        provider_reference: OrNull(None),
        report_url: OrNull(None),
        notes: OrNull(None),
        raw_status: OrNull(Some(screening.raw_status.clone())),
        evaluated_at: OrNull(Some(Instant(screening.evaluated_at))),
    }
}

fn options(options: &[PaymentOption]) -> PaymentOptionsView {
    let mut chains = PaymentOptionsView::new();
    for option in options {
        let shown = PaymentOptionView {
            balance: format_units(option.balance, option.decimals),
            has_enough_balance: option.missing().is_zero(),
            needed_amount: format_units(option.needed, option.decimals),
        };
        chains
            .entry(option.network.option_name().to_owned())
            .or_default()
            .insert(option.token.clone(), shown);
    }
    chains
}

fn analytics(opened: &OpenedLink, plan: Option<&FeePlan>, is_masked: bool) -> SecurePaymentAnalytics {
    let ids = opened
        .requests
        .iter()
        .filter_map(|request| destination_of(request, false).0?.destination_id)
        .map(DestinationIdText::written);
    let fees_to = |owner, bearer| plan.map(|plan| plan.fees_to(owner, bearer));
    SecurePaymentAnalytics {
        creation_timestamp: Some(Instant(opened.payment.created_at)),
        total_payment_amount_usd: plan.map(FeePlan::payer_total),
        protocol_fee_amount_usd: fees_to(FeeKind::Protocol, FeeBearer::Payer),
        orchestrator_payer_fee_amount_usd: fees_to(FeeKind::Orchestrator, FeeBearer::Payer),
        orchestrator_recipient_fee_amount_usd: fees_to(FeeKind::Orchestrator, FeeBearer::Payee),
        fee_amounts_usd_unavailable_reason: plan.is_none().then_some(NoFiguresReason::FeePlanUnavailable),
        number_of_payments_excluding_fees: u32::try_from(opened.requests.len()).ok(),
        destination_ids: (!is_masked).then(|| ids.collect()),
    }
}

fn orchestrator(payment: &SecurePayment) -> OrNull<UlidText> {
    OrNull(payment.origin.orchestrator.as_ref().map(UlidText::written))
}

/// A secure payment as a payer sees it.
pub(super) fn shown(opened: &OpenedLink, shown: &LinkView, signs: PaymentSigns) -> SecurePaymentView {
    let payment = &opened.payment;
    let access_decision = shown.access.as_ref().map(decision);
    let expires_at = Instant(payment.expires_at);
    let status = opened.status();
    if shown.is_masked {
        return SecurePaymentView::Withheld(WithheldSecurePayment {
            payment_type: payment.kind(),
            status,
            orchestrator_id: orchestrator(payment),
            branding: OrNull(None),
            access_decision,
            expires_at,
        });
    }
    let is_masked = payment.policy.hides_payee;
    let plan = shown.fee_plan.as_ref();
    let redirect = payment.about.redirect.as_ref();
    let facts = SecurePaymentFacts {
        status,
        redirect_url: OrNull(redirect.map(|redirect| redirect.url.clone())),
        redirect_label: OrNull(redirect.and_then(|redirect| redirect.label.clone())),
        orchestrator_id: orchestrator(payment),
        branding: OrNull(None),
        analytics: Some(analytics(opened, plan, is_masked)),
        network: NetworkText::written(payment.network),
        reference: OrNull(payment.about.reference.clone().map(MerchantReference::written)),
        is_payee_address_masked: is_masked.then_some(true),
        fee_plan: OrNull(plan.map(|plan| masked_plan(opened, plan))),
        access_decision,
        flow: payment.flow,
        expires_at,
        in_flight: opened.in_flight_until(signs).is_some(),
    };
    let payment_options = shown.options.as_deref().map(options);
    let payees = payees(opened);
    match (payment.kind(), opened.requests.as_slice(), payees.as_slice()) {
        (SecurePaymentKind::Single, [request], [payee]) => SecurePaymentView::Single(SingleSecurePayment {
            payment_type: payment.kind(),
            request_ids: request_ids(opened),
            payee: address(*payee, is_masked),
            amount: AmountText::written(&request.terms.amount),
            payment_currency: CurrencyIdText::written(&request.terms.payment_currency),
            is_native_currency: request.terms.token.is_none(),
            destination: destination_of(request, is_masked),
            payment_options,
            facts,
        }),
        (_, requests, payees) => SecurePaymentView::Batch(BatchSecurePayment {
            payment_type: payment.kind(),
            request_ids: request_ids(opened),
            payees: payees
                .iter()
                .map(|payee| PayeeText::written(address(*payee, is_masked)))
                .collect(),
            amounts: requests
                .iter()
                .map(|request| AmountText::written(&request.terms.amount))
                .collect(),
            payment_currencies: requests
                .iter()
                .map(|request| CurrencyIdText::written(&request.terms.payment_currency))
                .collect(),
            is_native_currency: requests.iter().map(|request| request.terms.token.is_none()).collect(),
            destinations: requests
                .iter()
                .map(|request| destination_of(request, is_masked))
                .collect(),
            payment_options,
            facts,
        }),
    }
}

/// The fees that the transactions pay.
fn bundle(opened: &OpenedLink, texts: HandoutTexts<'_>) -> FeeBundle {
    let Handout {
        bundle,
        payments,
        charges,
        ..
    } = texts.0;
    let paid = charges
        .iter()
        .filter_map(|paid| Some((&payments.get(paid.leg)?.request, paid)));
    let lines = paid.map(|(request, paid)| FeeBundleLine {
        request_id: RequestIdText::written(&request.id),
        fee_component_id: OrNull(None),
        fee_type: OrNull(Some(paid.charged.kind)),
        fee_label: OrNull(Some(paid.charged.kind.label().to_owned())),
        fee_bearer: OrNull(Some(paid.charged.bearer)),
        amount: texts.amount(paid.leg, paid.charged.units),
        payment_currency_id: CurrencyIdText::written(&request.terms.payment_currency),
        network: NetworkText::written(bundle.network),
        chain_id: bundle.network.chain_id().to_string(),
        recipient: WalletText::written(paid.charged.receiver),
    });
    let borne_by = |bearer| {
        let own = charges.iter().filter(|paid| paid.charged.bearer == bearer);
        own.fold(U256::ZERO, |sum, paid| sum.saturating_add(paid.charged.units))
    };
    let (by_payer, by_payee) = (borne_by(FeeBearer::Payer), borne_by(FeeBearer::Payee));
    let human = |units: U256| texts.amount(0, units);
    let summary = net(&bundle.legs).map(|net| amount_summary(net.saturating_add(by_payee), by_payer, by_payee, human));
    FeeBundle {
        bundle_id: OrNull(None),
        default_fee_bearer: OrNull(Some(opened.payment.flow.usual_bearer())),
        amount_summary: OrNull(summary),
        fees: lines.collect(),
    }
}

/// The transactions that pay a secure payment; `deadline` is the default deadline of a Safe.
pub(super) fn paying(ctx: &Ctx, opened: &OpenedLink, handout: &Handout, deadline: DateTime<Utc>) -> SecureCalldata {
    match opened.payment.kind() {
        _ if opened.payment.is_multicall() => {
            SecureCalldata::Multicall(Box::new(multicall_calldata(opened, handout, deadline)))
        }
        SecurePaymentKind::Single => SecureCalldata::Single(Box::new(one(opened, handout, deadline))),
        SecurePaymentKind::Batch => SecureCalldata::Batch(Box::new(several(ctx, opened, handout))),
    }
}

impl From<StepTexts> for SecureTransaction {
    fn from(step: StepTexts) -> Self {
        let value = step.quantity();
        let (raw_data, raw_data_hex, tx_id) = UnsignedTexts::members(step.unsigned);
        Self {
            value,
            data: step.data,
            to: step.to,
            chain_id: step.chain_id,
            raw_data,
            raw_data_hex,
            tx_id,
        }
    }
}

fn one(opened: &OpenedLink, handout: &Handout, deadline: DateTime<Utc>) -> SingleCalldata {
    let texts = HandoutTexts(handout);
    SingleCalldata {
        payment_type: opened.payment.kind(),
        transactions: texts.steps().map(Into::into).collect(),
        fee_bundle: OrNull(Some(bundle(opened, texts))),
        metadata: metadata(texts, deadline),
    }
}

/// Facts about the transactions and their payer.
fn metadata(texts: HandoutTexts<'_>, deadline: DateTime<Utc>) -> SecureCalldataMetadata {
    let handout = texts.0;
    let payer = handout.payer.as_ref();
    SecureCalldataMetadata {
        steps_required: texts.steps_required(),
        needs_approval: texts.approval_index().is_some(),
        transaction_sponsorship_fee_usd: OrNull(None),
        approval_transaction_index: texts.approval_index(),
        approval_transactions_count: Some(texts.payment_index()),
        payment_transaction_index: texts.payment_index(),
        has_enough_balance: payer.map(|_| handout.has_enough_balance()),
        has_enough_gas: handout.has_enough_gas(),
        platform_fee: texts.charge(FeeKind::Platform).map(Into::into),
        protocol_fee: texts.charge(FeeKind::Protocol).map(Into::into),
        route_type: Some(RouteType::Samechain),
        safe_payment_deadline: handout.is_of_safe.then(|| deadline.timestamp()),
        readiness: texts.into(),
    }
}

fn several(ctx: &Ctx, opened: &OpenedLink, handout: &Handout) -> BatchCalldata {
    let texts = HandoutTexts(handout);
    let payer = handout.payer.as_ref();
    let has_enough_gas = handout.has_enough_gas();
    let shortages = payer.map_or(&[][..], |payer| &payer.shortages).iter();
    let requests = handout.payments.iter().map(|payment| &payment.request);
    BatchCalldata {
        payment_type: opened.payment.kind(),
        erc20_approval_transactions: texts.approvals().map(Into::into).collect(),
        batch_payment_transaction: texts.payment().into(),
        metadata: BatchCalldataMetadata {
            has_enough_balance: handout.has_enough_balance(),
            has_enough_gas: OrNull(has_enough_gas),
            can_make_payment: OrNull(payer.map(|_| has_enough_gas != Some(false) && handout.has_enough_balance())),
            insufficient_tokens: shortages.map(|short| insufficient(ctx, texts, short)).collect(),
        },
        fee_bundle: OrNull(Some(bundle(opened, texts))),
        request_ids: requests.map(|request| RequestIdText::written(&request.id)).collect(),
    }
}

fn insufficient(ctx: &Ctx, texts: HandoutTexts<'_>, shortage: &Shortage) -> InsufficientToken {
    let bundle = &texts.0.bundle;
    let known = shortage
        .token
        .and_then(|token| ctx.catalogue.by_token(bundle.network, &token));
    let leg = bundle.legs.iter().position(|leg| leg.token == shortage.token);
    let human = |units: U256| match leg {
        Some(leg) => texts.amount(leg, units),
        None => texts.coins(units),
    };
    InsufficientToken {
        token_address: shortage.token.map_or_else(
            || alloy::primitives::Address::ZERO.to_string(),
            |token| token.to_string(),
        ),
        token_symbol: known.map(|currency| SymbolText::written(&currency.symbol)),
        payment_currency_id: known.map(|currency| CurrencyIdText::written(&currency.id)),
        required: human(shortage.required),
        available: human(shortage.available),
    }
}

/// A recorded payment; `echoed` are the values that the response about a user operation repeats.
pub(super) fn recorded(opened: &OpenedLink, recorded: &RecordedIntent, echoed: EchoedIntent) -> RecordedIntentView {
    let intent = &recorded.intent;
    let id = UlidText::written(intent.id.as_str());
    let hash_of = |kind| (intent.kind == kind).then(|| TxHash::written(intent.hash));
    let account = intent.payer.map(WalletText::written);
    if let (Some(user_op_hash), Some(account)) = (hash_of(IntentKind::UserOperation), account.clone()) {
        let token = UlidText::written(opened.payment.token.as_str());
        let indices = intent.transaction_indices.iter().map(|index| TransactionIndexBody {
            child_position: index.child_position,
            transaction_index: index.transaction_index,
        });
        return RecordedIntentView::Multicall(MulticallReceipt {
            receipt_id: id,
            multicall_id: token.clone(),
            parent_token: token,
            tx_hash: echoed.tx_hash,
            safe_tx_hash: echoed.safe_tx_hash,
            safe_payment_deadline: echoed.safe_payment_deadline,
            source_chain: echoed.chain,
            smart_account_address: account,
            user_op_hash,
            transaction_indices: indices.collect(),
            is_listening: false,
        });
    }
    RecordedIntentView::Single(IntentRecorded {
        intent_id: id,
        payment_reference: ReferenceText::written(recorded.reference),
        tx_hash: hash_of(IntentKind::Transaction).or_else(|| intent.executed_by.map(TxHash::written)),
        safe_tx_hash: hash_of(IntentKind::Safe),
        safe_payment_deadline: intent.deadline.map(|deadline| deadline.timestamp()),
        is_listening: recorded.is_listening,
        payer_address: account,
    })
}

/// A transaction that nodes have.
pub(super) fn broadcast(broadcast: &BroadcastTransaction) -> TransactionSent {
    let repeated = |text: &str| broadcast.is_repeated.then(|| text.to_owned());
    TransactionSent {
        result: true,
        txid: PlainTxHash::written(hex::encode(broadcast.tx_id)),
        code: repeated("DUP_TRANSACTION_ERROR"),
        message: repeated("The nodes have this transaction already"),
    }
}

/// A secure payment as its owner sees it.
pub(super) fn found(ctx: &Ctx, found: &FoundLink) -> OwnSecurePayment {
    let (opened, payment) = (&found.opened, &found.opened.payment);
    let redirect = payment.about.redirect.as_ref();
    let own = payment.destination.as_ref().map(|key| destination(key, false));
    let currency = opened.sole_currency();
    let screened: Vec<KytResult> = found.screenings.iter().map(kyt_result).collect();
    let (payer_kyt_results, payee_kyt_results) = match payment.flow {
        PaymentFlow::GetPaid => (screened, Vec::new()),
        PaymentFlow::Pay => (Vec::new(), screened),
    };
    OwnSecurePayment {
        token: UlidText::written(payment.token.as_str()),
        secure_payment_url: PayPageText::written(&found.url),
        status: opened.status(),
        payment_type: payment.kind(),
        created_at: OrNull(Some(Instant(payment.created_at))),
        expires_at: Instant(payment.expires_at),
        redirect_url: OrNull(redirect.map(|redirect| redirect.url.clone())),
        redirect_label: OrNull(redirect.and_then(|redirect| redirect.label.clone())),
        completed_at: OrNull(payment.completed_at.map(Instant)),
        payer_address: OrNull(found.payer.map(WalletText::written)),
        payer_kyt_results,
        payee_kyt_results,
        claimed_destination: OrNull(own.clone().filter(|_| found.is_claimed)),
        destination: OrNull(own),
        orchestrator_id: orchestrator(payment),
        fee_plan: OrNull(opened.fee_plan(ctx).as_ref().map(fee_plan)),
        network: NetworkText::written(payment.network),
        currency: OrNull(currency.map(CurrencyIdText::written)),
        execution_kind: OrNull(match payment.network.family() {
            Family::Evm => Some(ExecutionKind::EvmSameChain),
            Family::Tron => None,
        }),
        identity_mode: match payment.origin.client_id {
            Some(_) => IdentityMode::ClientId,
            None => IdentityMode::ManualDashboard,
        },
        client_id: OrNull(payment.origin.client_id.clone()),
        branding: BrandingSummary {
            whitelabel_enabled: false,
            source: BrandingSource::ServiceNetwork,
        },
        child_executable: found.block.is_none(),
        block_reason: OrNull(found.block),
        allowed_payer_addresses: payment.policy.allowed.iter().map(WalletText::written).collect(),
        payer_identifier: OrNull(found.names.payer.clone()),
        recipient_identifier: OrNull(found.names.recipient.clone()),
    }
}

pub(super) fn multicall_created(made: &CreatedMulticall) -> MulticallCreated {
    let payment = &made.link.payment;
    let items = (0..).zip(&payment.items).filter_map(|(position, item)| {
        Some(MulticallItem {
            secure_payment_token: UlidText::written(item.child.as_ref()?.as_str()),
            request_id: RequestIdText::written(&item.request_id),
            position,
            eligibility: if made.is_payable {
                ChildEligibility::Eligible
            } else {
                ChildEligibility::Stale
            },
            stale_reason: (!made.is_payable).then_some(StaleReason::NotPayableChild),
        })
    });
    MulticallCreated {
        kind: MulticallType::Multicall,
        token: UlidText::written(payment.token.as_str()),
        secure_payment_url: PayPageText::written(&made.link.url),
        status: MulticallStatus::Pending,
        expires_at: Instant(payment.expires_at),
        created_at: Instant(payment.created_at),
        items: items.collect(),
    }
}

/// A multicall as its owner sees it.
pub(super) fn found_multicall(ctx: &Ctx, found: &FoundMulticall) -> MulticallSecurePayment {
    let shown = LinkView {
        is_masked: false,
        access: None,
        options: None,
        fee_plan: found.opened.fee_plan(ctx),
    };
    let view = multicall_of(ctx, &found.opened, &found.multicall, &shown, false);
    MulticallSecurePayment {
        secure_payment_url: Some(PayPageText::written(&found.url)),
        ..view
    }
}

/// A multicall as a payer sees it.
pub(super) fn multicall(
    ctx: &Ctx,
    opened: &OpenedLink,
    multicall: &OpenedMulticall,
    shown: &LinkView,
) -> MulticallSecurePayment {
    multicall_of(ctx, opened, multicall, shown, opened.payment.policy.hides_payee)
}

fn multicall_of(
    ctx: &Ctx,
    opened: &OpenedLink,
    multicall: &OpenedMulticall,
    shown: &LinkView,
    hides_payees: bool,
) -> MulticallSecurePayment {
    let payment = &opened.payment;
    let children = (0..).zip(&multicall.children);
    let children = children.map(|(position, child)| multicall_child(ctx, opened, child, position, shown, hides_payees));
    let plan = shown.fee_plan.as_ref();
    MulticallSecurePayment {
        payment_type: MulticallType::Multicall,
        status: multicall.status,
        token: UlidText::written(payment.token.as_str()),
        secure_payment_url: None,
        can_execute: multicall.can_execute,
        expires_at: Instant(payment.expires_at),
        created_at: Instant(payment.created_at),
        children: children.collect(),
        totals: multicall_totals(ctx, opened, multicall, shown.is_masked),
        redirect_url: OrNull(None),
        redirect_label: OrNull(None),
        orchestrator_id: orchestrator(payment),
        branding: OrNull(None),
        payment_options: shown.options.as_deref().map(options),
        analytics: analytics(
            opened,
            plan.filter(|_| !shown.is_masked),
            hides_payees || shown.is_masked,
        ),
        request_ids: request_ids(opened),
        access_decision: shown.access.as_ref().map(decision),
        in_flight: multicall.is_in_flight,
    }
}

fn multicall_child(
    ctx: &Ctx,
    opened: &OpenedLink,
    child: &MulticallChild,
    position: u32,
    shown: &LinkView,
    hides_payees: bool,
) -> MulticallChildView {
    let request = &child.request;
    let open = (!shown.is_masked).then_some(());
    let decimals = ctx
        .catalogue
        .find(&request.terms.payment_currency)
        .map(|known| known.decimals);
    let plan = child.fee_plan.as_ref().filter(|_| !hides_payees);
    let reference = child.link.as_ref().and_then(|link| link.about.reference.clone());
    let facts = child.facts(opened);
    MulticallChildView {
        secure_payment_token: UlidText::written(child.token.as_str()),
        request_id: RequestIdText::written(&request.id),
        position,
        executable: child.block.is_none(),
        block_reason: OrNull(child.block),
        message_key: OrNull(child.block.map(|block| message_key(block.wire()))),
        context: MulticallChildContext {
            request_id: RequestIdText::written(&request.id),
            secure_payment_token: UlidText::written(child.token.as_str()),
            position,
            has_been_paid: facts.has_been_paid,
            secure_payment_status: child.link.as_ref().map(|link| link.status_at(opened.now)),
            request_status: Some(facts.request_status.to_owned()),
            expires_at: facts.expires_at.map(Instant),
            network: open.map(|()| NetworkText::written(facts.network)),
            currency: open.map(|()| CurrencyIdText::written(&facts.currency)),
        },
        recovery_action: OrNull(child.block.map(BlockReason::recovery)),
        fee_plan: OrNull(open.and(plan).map(fee_plan)),
        amount: OrNull(open.and(decimals).map(|decimals| format_units(child.gross(), decimals))),
        payee: OrNull(
            open.and(request.terms.payee)
                .map(|payee| PayeeText::written(address(payee, hides_payees))),
        ),
        reference: OrNull(open.and(reference).map(MerchantReference::written)),
    }
}

/// Sums in units of one currency; `human` writes them.
fn amount_summary(gross: U256, by_payer: U256, by_payee: U256, human: impl Fn(U256) -> String) -> FeeAmountSummary {
    FeeAmountSummary {
        gross_amount: human(gross),
        net_recipient_amount: human(gross.saturating_sub(by_payee)),
        total_fees: human(by_payer.saturating_add(by_payee)),
        payee_borne_fees: human(by_payee),
        payer_borne_fees: human(by_payer),
        payer_total: human(gross.saturating_add(by_payer)),
    }
}

fn multicall_totals(ctx: &Ctx, opened: &OpenedLink, multicall: &OpenedMulticall, is_masked: bool) -> MulticallTotals {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let children = &multicall.children;
    let mut sums: Vec<(Network, &str, U256)> = Vec::new();
    for child in children {
        let terms = &child.request.terms;
        let key = (terms.network, terms.payment_currency.as_str());
        match sums
            .iter_mut()
            .find(|(network, currency, _)| (*network, *currency) == key)
        {
            Some((_, _, sum)) => *sum = sum.saturating_add(child.gross()),
            None => sums.push((key.0, key.1, child.gross())),
        }
    }
    let sums = sums
        .into_iter()
        .filter(|_| !is_masked)
        .filter_map(|(network, currency, sum)| {
            Some(CurrencyTotalView {
                network: NetworkText::written(network),
                currency: CurrencyIdText::written(currency),
                total_amount: format_units(sum, ctx.catalogue.find(currency)?.decimals),
            })
        });
    MulticallTotals {
        child_count: count(children.len()),
        blocked_child_count: count(children.iter().filter(|child| child.block.is_some()).count()),
        by_destination_currency: sums.collect(),
        amount_summary: multicall.totals(ctx, opened).filter(|_| !is_masked).map(|totals| {
            let human = |units: U256| format_units(units, totals.decimals);
            amount_summary(totals.gross, totals.by_payer, totals.by_payee, human)
        }),
    }
}

fn multicall_calldata(opened: &OpenedLink, handout: &Handout, deadline: DateTime<Utc>) -> MulticallCalldata {
    let texts = HandoutTexts(handout);
    let network = handout.bundle.network;
    let tokens = opened.payment.items.iter().filter_map(|item| item.child.as_ref());
    let tokens: Vec<UlidText> = tokens.map(|token| UlidText::written(token.as_str())).collect();
    let legs = (0..).zip(&handout.bundle.legs).zip(&handout.payments).zip(&tokens);
    let children: Vec<MulticallLeg> = legs
        .map(|(((position, leg), payment), token)| {
            let contract = leg.token.map(WalletText::written);
            MulticallLeg {
                position,
                secure_payment_token: token.clone(),
                request_id: RequestIdText::written(&payment.request.id),
                payee: WalletText::written(leg.payee),
                amount: format_units(leg.units, payment.decimals),
                payment_currency: CurrencyIdText::written(&payment.request.terms.payment_currency),
                payment_reference: OrNull(Some(ReferenceText::written(leg.reference))),
                payment_currency_address: OrNull(contract.clone()),
                source_token_address: OrNull(contract.clone()),
                token_address: OrNull(contract),
                network: NetworkText::written(network),
            }
        })
        .collect();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let metadata = MulticallCalldataMetadata {
        child_count: count(tokens.len()),
        executable_leg_count: count(children.len()),
        facts: metadata(texts, deadline),
    };
    MulticallCalldata {
        payment_type: MulticallType::Multicall,
        execution_kind: ExecutionKind::EvmSameChain,
        token: UlidText::written(opened.payment.token.as_str()),
        network: NetworkText::written(network),
        chain_id: network.chain_id(),
        child_tokens: tokens,
        request_ids: children.iter().map(|child| child.request_id.clone()).collect(),
        payees: children.iter().map(|child| child.payee.clone()).collect(),
        amounts: children
            .iter()
            .map(|child| AmountText::written(&child.amount))
            .collect(),
        references: children.iter().map(|child| child.payment_reference.clone()).collect(),
        transactions: texts.steps().map(Into::into).collect(),
        fee_bundle: OrNull(Some(bundle(opened, texts))),
        metadata,
        children,
    }
}
