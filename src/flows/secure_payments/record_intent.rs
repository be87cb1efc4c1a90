//! Stores a transaction that a payer reports. The report is a hint that a payment is in flight, and settles nothing.

use super::{access, open, open::LinkVisit, opened::OpenedLink};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        ids::IntentId,
        reference::PaymentReference,
        refusal::{Refusal, RefusalKind},
        secure_payment::{
            SecurePayment,
            access::LinkPayer,
            intent::{INTENTS_MAX, PaymentIntent, Source},
        },
    },
    flows::FlowResult,
    store::{self, Scope, Sealing},
};
use alloy::primitives::B256;

/// Seconds that a caller waits after reporting too many transactions.
const RETRY_AFTER_S: u32 = 600;

/// A report of a payer; every value is valid on its own.
#[derive(Debug, Clone)]
pub struct SentTransaction {
    /// Hash of the transaction.
    pub tx_hash: B256,
    /// Chain and token from which the payer sent the payment.
    pub source: Source,
    /// Account that pays.
    pub payer: Option<Address>,
    /// Externally owned account behind it.
    pub payer_eoa: Option<Address>,
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

/// Stores a transaction once per hash.
///
/// Errors:
/// - 403: the payment can no longer be paid, or the payer may not pay it.
/// - 409: it is paid.
/// - 400: there is no route from this chain, or no payer is given while the link is hidden until a wallet is approved.
/// - 429: too many transactions were reported.
///
/// Source: interface §4.7; rules P.3.7.
pub async fn run(ctx: &Ctx, opened: &OpenedLink, sent: &SentTransaction) -> FlowResult<RecordedIntent> {
    opened.payable().map_err(Refusal::from)?;
    let look = LinkVisit {
        payer: sent.payer.map(|wallet| LinkPayer {
            wallet,
            eoa: sent.payer_eoa,
        }),
        source: Some(sent.source.clone()),
    };
    open::check(ctx, opened, &look).map_err(by_body)?;
    let payment = &opened.payment;
    match &look.payer {
        Some(payer) => access::require(ctx, payment, payer).await?,
        None if payment.policy.hides_until_approved => {
            let sentence = "is required: this payment is hidden until a wallet is approved";
            return Err(Refusal::field("payerAddress", sentence).into());
        }
        None => {}
    }
    // This message does not say whether the network or the token is wrong. Different messages would reveal both to a
    // caller that tries values on a link that hides them.
    open::check_source_unseen(ctx, opened, &look)?;
    let now = ctx.clock.now();
    // Anyone with the token can repeat this call, so a call that would change nothing takes no lock.
    let reader = ctx.db.reader();
    if let Some(known) = store::secure_payments::find_intent(reader, payment, &sent.tx_hash).await? {
        return recorded(opened, known);
    }
    admit_another(reader, payment).await?;
    let tx = ctx.db.begin("record_intent").await?;
    let owner = Scope {
        platform: payment.origin.platform.clone(),
        client: None,
    };
    let locked = store::secure_payments::lock_all(&tx, &owner, std::slice::from_ref(&payment.token)).await?;
    for present in &locked {
        present.payable_at(now).map_err(Refusal::from)?;
    }
    let intent = match store::secure_payments::find_intent(&tx, payment, &sent.tx_hash).await? {
        Some(known) => known,
        None => {
            admit_another(&tx, payment).await?;
            let intent = PaymentIntent {
                id: IntentId(ctx.ids.ulid()),
                tx_hash: sent.tx_hash,
                payer: sent.payer,
                payer_eoa: sent.payer_eoa,
                created_at: now,
            };
            store::secure_payments::insert_intent(&tx, payment, &intent).await?;
            crate::fail_at("record_intent", "inserted");
            store::secure_payments::hint(&tx, payment, now).await?;
            intent
        }
    };
    tx.commit().await?;
    recorded(opened, intent)
}

/// Errors: too many transactions were reported (429).
async fn admit_another(conn: &impl Sealing, payment: &SecurePayment) -> FlowResult<()> {
    if store::secure_payments::count_intents(conn, payment).await? < INTENTS_MAX {
        return Ok(());
    }
    let sentence = format!("{INTENTS_MAX} transactions were already reported for this secure payment");
    Err(Refusal::new(RefusalKind::TooMany, sentence).after(RETRY_AFTER_S).into())
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
