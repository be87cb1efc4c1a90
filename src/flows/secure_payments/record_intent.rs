//! Stores a payment that a payer reports as sent, or that the owners of a Safe are about to sign. The report settles
//! nothing. A report of a Safe locks the link.

use super::{access, multicall, open, open::LinkVisit, opened::OpenedLink, pay};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        caller::PlatformCaller,
        ids::IntentId,
        network_support::check_report,
        reference::PaymentReference,
        refusal::{Refusal, RefusalKind},
        secure_payment::{
            SecurePayment,
            access::LinkPayer,
            intent::{INTENTS_MAX, IntentKind, IntentState, PaymentIntent, Source, TransactionIndex},
            multicall::check_children,
            safe_lock::AskedLock,
        },
    },
    flows::FlowResult,
    store::{self, Sealing, Tx},
};
use alloy::primitives::B256;
use chrono::{DateTime, Utc};

/// Seconds that a caller waits after reporting a Safe while too many executions are searched.
const RETRY_AFTER_S: u32 = 600;

/// Maximum number of executions that are searched for a platform on a network at once.
const AWAITED_MAX: u64 = 100;

/// The part of [`AWAITED_MAX`] that callers with a public credential may use.
const PUBLIC_AWAITED_MAX: u64 = 50;

/// Maximum number of executions of one Safe that callers with a public credential may wait for at once.
const OF_SAFE_MAX: u64 = 5;

/// A report of a payer; every value is valid on its own.
#[derive(Debug, Clone)]
pub struct ReportedPayment {
    /// The hash, and what it identifies.
    pub hash: ReportedHash,
    /// Network and token with which the payer pays.
    pub source: Source,
    /// Amount that the payer sent, as text.
    pub amount: Option<String>,
    /// Account that pays.
    pub payer: Option<Address>,
    /// Externally owned account behind it.
    pub payer_eoa: Option<Address>,
}

/// The hash of a report.
#[derive(Debug, Clone)]
pub enum ReportedHash {
    /// Of a transaction.
    Transaction(B256),
    /// Of a transaction of a Safe.
    Safe {
        /// The hash.
        hash: B256,
        /// Until when the Safe executes it.
        deadline: Option<DateTime<Utc>>,
    },
    /// Of a user operation.
    UserOperation {
        /// The hash.
        hash: B256,
        /// Which call pays which child of a multicall.
        indices: Vec<TransactionIndex>,
    },
}

impl ReportedHash {
    const fn hash(&self) -> B256 {
        match self {
            Self::Transaction(hash) | Self::Safe { hash, .. } | Self::UserOperation { hash, .. } => *hash,
        }
    }

    const fn kind(&self) -> IntentKind {
        match self {
            Self::Transaction(_) => IntentKind::Transaction,
            Self::Safe { .. } => IntentKind::Safe,
            Self::UserOperation { .. } => IntentKind::UserOperation,
        }
    }
}

/// A stored report.
#[derive(Debug, Clone)]
pub struct RecordedIntent {
    /// The report.
    pub intent: PaymentIntent,
    /// Reference of the first request that awaits a payment.
    pub reference: PaymentReference,
    /// Whether a payment is expected.
    pub is_listening: bool,
}

/// Stores a payment once per hash and network. The report of a Safe locks the link, and a repeated report extends the
/// lock.
///
/// Errors:
/// - 403: the payment can no longer be paid, the payer may not pay it, or the caller may not lock it.
/// - 409: it is paid, or another transaction of a Safe locks it.
/// - 400: there is no route from this chain, no payer is given although the link or the lock needs one, or a multicall
///   that a Safe is to lock cannot pay one of its links.
/// - 429: too many payments were reported.
///
/// Source: interface §4.7; rules P.3.7.
pub async fn run(
    ctx: &Ctx,
    opened: &OpenedLink,
    sent: &ReportedPayment,
    caller: Option<&PlatformCaller>,
) -> FlowResult<RecordedIntent> {
    opened.payable().map_err(Refusal::from)?;
    let look = LinkVisit {
        payer: sent.payer.map(|wallet| LinkPayer {
            wallet,
            eoa: sent.payer_eoa,
        }),
        source: Some(sent.source.clone()),
        is_safe: false,
    };
    let payment = &opened.payment;
    if !payment.policy.hides_until_approved {
        check_report(payment.network, sent.source.network)?;
    }
    open::check(ctx, opened, &look).map_err(by_body)?;
    match &look.payer {
        Some(payer) => access::require(ctx, payment, payer).await?,
        None if payment.policy.hides_until_approved => {
            let sentence = "is required: this payment is hidden until a wallet is approved";
            return Err(Refusal::field("payerAddress", sentence).into());
        }
        None => {}
    }
    check_report(payment.network, sent.source.network)?;
    // This message does not say whether the network or the token is wrong. Different messages would reveal both to a
    // caller that tries values on a link that hides them.
    open::check_source_unseen(ctx, opened, &look)?;
    check_children_of(payment, sent)?;
    let now = ctx.clock.now();
    // Anyone with the token can repeat this call, so a call that would change nothing takes no lock.
    let reader = ctx.db.reader();
    let (network, hash) = (sent.source.network, sent.hash.hash());
    let known = store::secure_payments::find_intent(reader, payment, network, &hash).await?;
    let is_of_owner = caller.is_some_and(|caller| opened.is_of(caller));
    let is_of_safe = matches!(sent.hash, ReportedHash::Safe { .. });
    let may_lock = |known: &PaymentIntent| known.state.may_lock(is_of_owner) || is_replaced(known, sent);
    let asks_for_lock = is_of_safe && known.as_ref().is_none_or(may_lock);
    match known {
        Some(known) => {
            check_known(&known, sent, is_of_owner)?;
            if !asks_for_lock {
                return recorded(opened, known);
            }
            if known.kind != sent.hash.kind() {
                admit_another(reader, payment, sent, is_of_owner).await?;
            }
        }
        None => admit_another(reader, payment, sent, is_of_owner).await?,
    }
    if asks_for_lock && payment.is_multicall() {
        check_children(multicall::of(ctx, opened).await?.failures(opened))?;
    }
    if asks_for_lock && !is_of_owner {
        require_means(ctx, opened, sent, caller).await?;
    }
    let searched_to = store::cursors::load(reader, network).await?;
    let searched_to = searched_to.map(|cursor| cursor.finalized.number);
    let tx = ctx.db.begin("record_intent").await?;
    let present = store::secure_payments::lock_one(&tx, &payment.origin.platform, &payment.id).await?;
    let present = present.ok_or_else(|| Refusal::not_found("Secure payment not found"))?;
    present.payable_at(now).map_err(Refusal::from)?;
    let known = store::secure_payments::find_intent(&tx, &present, network, &hash).await?;
    let mut intent = match &known {
        Some(known) => {
            check_known(known, sent, is_of_owner)?;
            if known.kind != sent.hash.kind() {
                admit_another(&tx, &present, sent, is_of_owner).await?;
            }
            if is_replaced(known, sent) {
                PaymentIntent {
                    id: known.id.clone(),
                    created_at: known.created_at,
                    ..new_intent(ctx, sent, now)
                }
            } else {
                known.clone()
            }
        }
        None => {
            admit_another(&tx, &present, sent, is_of_owner).await?;
            new_intent(ctx, sent, now)
        }
    };
    if let ReportedHash::Safe { deadline, .. } = sent.hash
        && intent.state.may_lock(is_of_owner)
    {
        let asked = AskedLock {
            safe_tx_hash: hash,
            safe: sent.payer.or(intent.payer),
            deadline,
            is_of_owner,
            first_locked_at: first_locked_at(&tx, &present, sent.payer).await?,
        };
        let lock = present.lock_for(&asked, now)?;
        intent.payer = lock.safe;
        intent.deadline = Some(lock.until);
        if lock.safe.is_some() {
            intent.state = IntentState::AwaitingExecution;
            intent.searched_to = intent.searched_to.or(searched_to);
        }
        let was_searched = known.as_ref().map(|known| known.state) == Some(IntentState::AwaitingExecution);
        if !was_searched {
            admit_search(&tx, &present, &intent, is_of_owner, now).await?;
        }
        // A Safe that only repeats a lock of the owner also uses up its day.
        if let Some(safe) = lock.safe.as_ref().or(sent.payer.as_ref()) {
            store::safe_payers::note_locked(&tx, &present, safe, now).await?;
        }
        let after = SecurePayment {
            lock: Some(lock),
            ..present.clone()
        };
        store::secure_payments::set_lock(&tx, &after).await?;
        crate::fail_at("record_intent", "locked");
    }
    if known.is_none() {
        store::secure_payments::insert_intent(&tx, &present, &intent).await?;
        crate::fail_at("record_intent", "inserted");
        store::secure_payments::hint(&tx, &present, now).await?;
    } else {
        store::secure_payments::set_intent(&tx, &present, &intent).await?;
    }
    tx.commit().await?;
    recorded(opened, intent)
}

/// Errors: the hash was reported as something else (400), or for another Safe by a caller with a public credential
/// (409). The hash of a Safe may have been reported as a transaction.
fn check_known(known: &PaymentIntent, sent: &ReportedPayment, is_of_owner: bool) -> Result<(), Refusal> {
    let kind = sent.hash.kind();
    if known.kind != kind && (known.kind, kind) != (IntentKind::Transaction, IntentKind::Safe) {
        let sentence = format!("must be a new hash: it was reported as a {}", known.kind.words());
        return Err(Refusal::field(kind.field(), sentence));
    }
    let is_of_other_safe = known.kind == IntentKind::Safe && known.payer.is_some() && known.payer != sent.payer;
    if is_of_other_safe && !is_of_owner {
        return Err(Refusal::conflict("This transaction was reported for another Safe"));
    }
    Ok(())
}

/// Whether a report replaces the known one of the same hash: strangers may have reported the hash of a Safe as the hash of
/// a transaction, or for a Safe of their own. Only the owner may name another Safe, see [`check_known`].
fn is_replaced(known: &PaymentIntent, sent: &ReportedPayment) -> bool {
    let names_other_safe = sent.payer.is_some() && known.payer.is_some() && known.payer != sent.payer;
    known.kind != sent.hash.kind() || (known.kind == IntentKind::Safe && names_other_safe)
}

fn new_intent(ctx: &Ctx, sent: &ReportedPayment, now: DateTime<Utc>) -> PaymentIntent {
    PaymentIntent {
        id: IntentId(ctx.ids.ulid()),
        kind: sent.hash.kind(),
        hash: sent.hash.hash(),
        source: sent.source.clone(),
        amount: sent.amount.clone(),
        payer: sent.payer,
        payer_eoa: sent.payer_eoa,
        state: IntentState::Reported,
        deadline: None,
        searched_to: None,
        executed_by: None,
        transaction_indices: match &sent.hash {
            ReportedHash::UserOperation { indices, .. } => indices.clone(),
            _ => Vec::new(),
        },
        created_at: now,
    }
}

/// Errors: the report names a child that the link does not have, or the link has no children (400).
fn check_children_of(payment: &SecurePayment, sent: &ReportedPayment) -> Result<(), Refusal> {
    let ReportedHash::UserOperation { indices, .. } = &sent.hash else {
        return Ok(());
    };
    if !payment.is_multicall() {
        let sentence = "must be absent: this link pays no other links; report txHash or safeTxHash";
        return Err(Refusal::field("userOpHash", sentence));
    }
    let count = payment.items.len();
    let is_wrong = |index: &TransactionIndex| usize::try_from(index.child_position).is_ok_and(|place| place >= count);
    match indices.iter().position(is_wrong) {
        Some(place) => Err(Refusal::field(
            format!("transactionIndices[{place}].childPosition"),
            format!("must be less than {count}, the number of links that this one pays"),
        )),
        None => Ok(()),
    }
}

/// Errors: a public credential has to name a Safe (400) that got the calldata and holds the amount (403).
async fn require_means(
    ctx: &Ctx,
    opened: &OpenedLink,
    sent: &ReportedPayment,
    caller: Option<&PlatformCaller>,
) -> FlowResult<()> {
    let Some(safe) = sent.payer else {
        let sentence = "is required with safeTxHash: the Safe that pays";
        return Err(Refusal::field("payerAddress", sentence).into());
    };
    let handed = store::safe_payers::find(ctx.db.reader(), &opened.payment, &safe).await?;
    if handed.is_none() {
        let sentence =
            "Only a Safe that got the calldata of this link can lock it: get the calldata with isSafe=true first";
        return Err(Refusal::forbidden(sentence).into());
    }
    let look = LinkVisit {
        payer: Some(LinkPayer {
            wallet: safe,
            eoa: None,
        }),
        source: None,
        is_safe: true,
    };
    let handout = pay::issue(ctx, opened, &look, caller).await?;
    let lookup = pay::lookup(ctx, opened, caller);
    for spending in &handout.spendings {
        if lookup.balance(safe, spending.token).await? < spending.units {
            let sentence = "Only a Safe that holds the amount can lock this link";
            return Err(Refusal::forbidden(sentence).into());
        }
    }
    Ok(())
}

/// When a Safe first locked the link.
async fn first_locked_at(tx: &Tx, payment: &SecurePayment, safe: Option<Address>) -> FlowResult<Option<DateTime<Utc>>> {
    let Some(safe) = safe else { return Ok(None) };
    let handed = store::safe_payers::find(tx, payment, &safe).await?;
    Ok(handed.and_then(|handed| handed.locked_at))
}

/// Errors: too many executions are searched for the platform, or for the Safe (429). Callers with a public credential
/// cannot use up the number for the platform.
async fn admit_search(
    tx: &Tx,
    payment: &SecurePayment,
    intent: &PaymentIntent,
    is_of_owner: bool,
    now: DateTime<Utc>,
) -> FlowResult<()> {
    let safe = intent.payer.filter(|_| intent.state == IntentState::AwaitingExecution);
    let Some(safe) = safe else { return Ok(()) };
    let (platform, network) = (&payment.origin.platform, intent.source.network);
    let awaited = store::safe_payers::count_awaited(tx, platform, &safe, network, now, AWAITED_MAX);
    let (of_platform, of_safe) = awaited.await?;
    let of_platform_max = if is_of_owner { AWAITED_MAX } else { PUBLIC_AWAITED_MAX };
    let sentence = if of_platform >= of_platform_max {
        format!("{of_platform} links of this platform wait for Safes on {network}")
    } else if !is_of_owner && of_safe >= OF_SAFE_MAX {
        format!("{of_safe} links wait for this Safe on {network}")
    } else {
        return Ok(());
    };
    Err(Refusal::new(RefusalKind::TooMany, sentence).after(RETRY_AFTER_S).into())
}

/// Errors: too many payments of this kind were reported (429). The owner of the link can report more than others.
async fn admit_another(
    conn: &impl Sealing,
    payment: &SecurePayment,
    sent: &ReportedPayment,
    is_of_owner: bool,
) -> FlowResult<()> {
    let limit = if is_of_owner { 2 * INTENTS_MAX } else { INTENTS_MAX };
    if store::secure_payments::count_intents(conn, payment, sent.hash.kind()).await? < limit {
        return Ok(());
    }
    let sentence = format!("{limit} payments of this kind were already reported for this secure payment");
    Err(Refusal::new(RefusalKind::TooMany, sentence).into())
}

fn recorded(opened: &OpenedLink, intent: PaymentIntent) -> FlowResult<RecordedIntent> {
    let open = opened.requests.iter().find(|request| request.payable().is_ok());
    let request = open.or_else(|| opened.requests.first());
    let request = request.ok_or_else(|| Refusal::not_found("Secure payment not found"))?;
    Ok(RecordedIntent {
        intent,
        reference: request.reference,
        is_listening: request.ledger.is_listening,
    })
}

/// Converts a refusal to one with the fields of the body.
fn by_body(mut refusal: Refusal) -> Refusal {
    for error in &mut refusal.fields {
        match error.field.as_str() {
            "wallet" => "payerAddress".clone_into(&mut error.field),
            "eoaWallet" => "payerEoaAddress".clone_into(&mut error.field),
            _ => {}
        }
    }
    refusal
}
