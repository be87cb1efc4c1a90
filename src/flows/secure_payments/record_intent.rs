//! Keeps what a payer says to have sent: a hint that a payment is on its way. It settles nothing.

use super::{access, open, open::Look, opened::Opened};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        ids::IntentId,
        reference::PaymentReference,
        refusal::{Refusal, RefusalKind},
        secure_payment::{
            SecurePayment,
            access::Payer,
            intent::{INTENTS_MAX, Intent, Source},
        },
    },
    flows::FlowResult,
    store::{self, Scope, Sealing},
};
use alloy::primitives::B256;

/// How long whoever named too many transactions is told to wait, in seconds.
const RETRY_AFTER_S: u32 = 600;

/// What a payer says; every value holds for itself.
#[derive(Debug, Clone)]
pub struct Sent {
    /// Hash of the transaction.
    pub tx_hash: B256,
    /// From where it was sent.
    pub source: Source,
    /// Account that pays.
    pub payer: Option<Address>,
    /// Externally owned account behind it.
    pub payer_eoa: Option<Address>,
}

/// What was kept.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// What the payer said.
    pub intent: Intent,
    /// Reference of the first request that is awaited.
    pub reference: PaymentReference,
    /// Whether a payment is awaited.
    pub is_listening: bool,
}

/// Keeps a transaction once for each hash.
///
/// Errors: the payment cannot be paid any more (403), it is paid (409), the payer may not pay it (403), there is no route
/// from there, or who pays is not said where everything is hidden until that is known (400), so many were named before
/// (429). Source: interface §4.7; rules P.3.7.
pub async fn run(ctx: &Ctx, opened: &Opened, sent: &Sent) -> FlowResult<Recorded> {
    opened.payable().map_err(Refusal::from)?;
    let look = Look {
        payer: sent.payer.map(|wallet| Payer {
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
            let sentence = "is required: what this pays is hidden until a wallet is approved";
            return Err(Refusal::field("payerAddress", sentence).into());
        }
        None => {}
    }
    // Which of two refusals comes would tell the network and the token of a hidden link to whoever tries them.
    open::check_source_unseen(ctx, opened, &look)?;
    let now = ctx.clock.now();
    // Who has the token may ask again and again: what would change nothing locks nothing.
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
            let intent = Intent {
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

/// Errors: so many transactions were named before (429).
async fn admit_another(conn: &impl Sealing, payment: &SecurePayment) -> FlowResult<()> {
    if store::secure_payments::count_intents(conn, payment).await? < INTENTS_MAX {
        return Ok(());
    }
    let sentence = format!("{INTENTS_MAX} transactions were named for this secure payment already");
    Err(Refusal::new(RefusalKind::TooMany, sentence).after(RETRY_AFTER_S).into())
}

fn recorded(opened: &Opened, intent: Intent) -> FlowResult<Recorded> {
    let open = opened.requests.iter().find(|request| request.payable().is_ok());
    let request = open.or_else(|| opened.requests.first());
    let request = request.ok_or_else(|| Refusal::not_found("Secure payment not found"))?;
    Ok(Recorded {
        intent,
        reference: request.reference,
        is_listening: request.ledger.is_listening,
    })
}

/// The same by the members of the body.
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
