//! Broadcasts a transaction that a wallet has signed to pay a link, if the link would hand out this transaction now.
//! The broadcast is a hint and settles nothing.

use super::{access, open::LinkVisit, opened::OpenedLink, pay};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        caller::PlatformCaller,
        elapsed::period,
        ids::IntentId,
        refusal::{Refusal, RefusalKind},
        secure_payment::{
            SecurePayment,
            access::LinkPayer,
            broadcast::{
                BroadcastOutcome, KEPT, LIFETIME_MAX, RAW_DATA_HEX, SentTransaction, SignedTransaction, admit_another,
            },
            intent::{IntentKind, IntentState, PaymentIntent, Source},
        },
    },
    flows::{
        Fault, FlowError, FlowResult,
        admission::{HeldPermit, require},
    },
    store::{self, Sealing},
};
use alloy::primitives::B256;
use anyhow::anyhow;
use chrono::{DateTime, Utc};

/// Name of the commit, and of the points at which tests let the process die.
const STEP: &str = "broadcast_transaction";

/// A transaction that nodes have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BroadcastTransaction {
    /// Its hash.
    pub tx_id: B256,
    /// Whether the nodes had it before this call.
    pub is_repeated: bool,
}

/// Checks a signed transaction, stores its hash and broadcasts exactly the checked bytes. A transaction whose hash is
/// stored is only broadcast again: its call was checked before, and the nodes decide whether it has expired. The hash
/// of a new transaction that the nodes refuse is deleted.
///
/// Errors:
/// - 403: the link is paid or can no longer be paid; no transactions are broadcast on its network; or the owner of the
///   transaction may not pay it.
/// - 400: the transaction is malformed, not signed by its owner, or none of the steps that its owner would get now; or
///   every node that responds refuses it.
/// - 429: too many transactions were broadcast for the link, or of the account, within a few minutes.
/// - 502: no node responds.
///
/// Source: interface §4.7; rules P.3.7.
pub async fn run(
    ctx: &Ctx,
    opened: &OpenedLink,
    sent: &SentTransaction,
    caller: Option<&PlatformCaller>,
) -> FlowResult<BroadcastTransaction> {
    require_payable(&opened.payment, opened.now)?;
    let network = opened.payment.network;
    let broadcast = ctx.partners.chains.broadcasts.get(&network).ok_or_else(|| {
        Refusal::forbidden(if ctx.partners.chains.followed.contains_key(&network) {
            "This service broadcasts no transactions on the network of this secure payment: the wallet sends its \
             transactions itself"
        } else {
            "The network of this secure payment is not enabled on this service now, so it would not notice a payment: \
             do not pay, and ask the operator"
        })
    })?;
    let signed = sent.check()?;
    let payer = LinkPayer {
        wallet: signed.owner(),
        eoa: None,
    };
    let is_known = is_known(ctx.db.reader(), &opened.payment, &signed).await?;
    let mut expires_at = None;
    if is_known {
        access::require(ctx, &opened.payment, &payer).await?;
    } else {
        let visit = LinkVisit {
            payer: Some(payer),
            source: None,
            is_safe: false,
        };
        // The clock of this machine may be behind the chain.
        let now = opened.credited_until(ctx).await?.max(Some(ctx.clock.now()));
        let now = now.unwrap_or_else(|| ctx.clock.now());
        signed.check_limits(&ctx.payments.fee_limits, now)?;
        let steps = pay::due_steps(ctx, opened, &visit, caller).await;
        let steps = steps.map_err(|error| by_body(error, signed.owner()))?;
        signed.require_step(&steps, &ctx.payments.fee_limits, now)?;
        expires_at = signed.payment_expires_at(&steps);
    }
    // A call that gets no permit stores nothing.
    let _permit = permit(ctx, opened, caller).await?;
    let is_kept = !is_known && keep(ctx, opened, &signed, expires_at, caller).await?;
    // The hash is stored before any node gets the transaction.
    let outcome = broadcast.broadcast(&signed).await;
    crate::fail_at(STEP, "sent");
    let is_repeated = match outcome {
        BroadcastOutcome::Accepted => false,
        BroadcastOutcome::AlreadyKnown => true,
        BroadcastOutcome::Refused(reason) => {
            // A refused repetition proves nothing: the nodes may have accepted the transaction before. If the process
            // dies here, the hash stays until it expires.
            if is_kept {
                let writer = ctx.db.writer();
                store::secure_payments::delete_broadcast(writer, &opened.payment, &signed.tx_id()).await?;
            }
            return Err(Refusal::invalid(reason.sentence()).into());
        }
        BroadcastOutcome::Unavailable => {
            let sentence =
                format!("No node of {network} takes transactions now; send the same signed transaction again");
            return Err(Refusal::new(RefusalKind::Upstream, sentence).into());
        }
    };
    Ok(BroadcastTransaction {
        tx_id: signed.tx_id(),
        is_repeated,
    })
}

/// Converts a refusal that is about the payer to one with the field of the body that contains the payer. The message
/// names the payer, because the field contains more than the payer.
fn by_body(mut error: FlowError, owner: Address) -> FlowError {
    if let FlowError::Refused(refusal) = &mut error {
        for wrong in refusal.fields.iter_mut().filter(|wrong| wrong.field == "wallet") {
            RAW_DATA_HEX.clone_into(&mut wrong.field);
            wrong.message = format!("the owner {owner} {}", wrong.message);
        }
    }
    error
}

/// Errors: the link is paid, or can no longer be paid (403).
fn require_payable(payment: &SecurePayment, now: DateTime<Utc>) -> Result<(), Refusal> {
    let payable = payment.payable_at(now);
    payable.map_err(|why| Refusal::forbidden(why.sentence()))
}

/// Whether the hash of a transaction was stored before a broadcast. A report of a payer is not sufficient.
async fn is_known(conn: &impl Sealing, payment: &SecurePayment, signed: &SignedTransaction) -> FlowResult<bool> {
    let known = store::secure_payments::find_intent(conn, payment, payment.network, &signed.tx_id()).await?;
    Ok(known.is_some_and(|known| known.kind == IntentKind::Broadcast))
}

/// Waits for a permit to use the nodes. Errors: 429.
async fn permit(ctx: &Ctx, opened: &OpenedLink, caller: Option<&PlatformCaller>) -> FlowResult<Option<HeldPermit>> {
    let network = opened.payment.network;
    let Some(permits) = ctx.questions.get(&network) else {
        return Ok(None);
    };
    let sentence = format!("Too many lookups on {network} are in progress; retry shortly");
    let permit = require(permits, &pay::holder(opened, caller), ctx.waits.permit, &sentence).await?;
    Ok(Some(permit))
}

/// Stores the hash of a transaction, and deletes old ones of the link. A payment, which expires at `expires_at`, is in
/// flight until it can no longer arrive. A second call with the same transaction changes nothing. Returns whether this
/// call stored the hash.
async fn keep(
    ctx: &Ctx,
    opened: &OpenedLink,
    signed: &SignedTransaction,
    expires_at: Option<DateTime<Utc>>,
    caller: Option<&PlatformCaller>,
) -> FlowResult<bool> {
    let is_of_owner = caller.is_some_and(|caller| opened.is_of(caller));
    let now = ctx.clock.now();
    let first = opened.requests.first();
    let currency = first.and_then(|request| ctx.catalogue.find(&request.terms.payment_currency));
    let currency = currency.ok_or_else(|| Fault(anyhow!("a link has no known currency")))?;
    let credited_until = opened.credited_until(ctx).await?;
    let tx = ctx.db.begin(STEP).await?;
    let (platform, id) = (&opened.payment.origin.platform, &opened.payment.id);
    let present = store::secure_payments::lock_one(&tx, platform, id).await?;
    let present = present.ok_or_else(|| Refusal::not_found("Secure payment not found"))?;
    require_payable(&present, now)?;
    let (network, hash) = (present.network, signed.tx_id());
    let known = store::secure_payments::find_intent(&tx, &present, network, &hash).await?;
    if known.as_ref().is_some_and(|known| known.kind == IntentKind::Broadcast) {
        return Ok(false);
    }
    let recent = store::secure_payments::list_broadcasts(&tx, &present, period(LIFETIME_MAX, now)).await?;
    admit_another(&recent, signed.owner(), is_of_owner, now)?;
    store::secure_payments::delete_broadcasts(&tx, &present, now - KEPT, credited_until).await?;
    let new = || (IntentId(ctx.ids.ulid()), now);
    // A payer may have reported the hash before.
    let (id, created_at) = known
        .as_ref()
        .map_or_else(new, |known| (known.id.clone(), known.created_at));
    let intent = PaymentIntent {
        id,
        kind: IntentKind::Broadcast,
        hash,
        source: Source {
            network,
            token: currency.symbol.clone(),
        },
        amount: None,
        payer: Some(signed.owner()),
        payer_eoa: None,
        state: IntentState::Reported,
        deadline: expires_at,
        searched_to: None,
        executed_by: None,
        transaction_indices: Vec::new(),
        created_at,
    };
    if known.is_some() {
        store::secure_payments::set_intent(&tx, &present, &intent).await?;
    } else {
        store::secure_payments::insert_intent(&tx, &present, &intent).await?;
    }
    crate::fail_at(STEP, "inserted");
    tx.commit().await?;
    Ok(true)
}
