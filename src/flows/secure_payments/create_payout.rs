//! Makes a secure payment by which its creator pays somebody.

use super::{
    made::{Draft, Made, begin, expires_at, fee_receivers, named_fee, require_payable, require_wallet, told},
    screen,
};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        caller::PlatformCaller,
        destination::Destination,
        ids::DestinationId,
        interop_address::{DestinationKey, InteropAddress},
        paying::charge::Charges,
        refusal::{Checks, FieldError, Refusal},
        request::{
            Request,
            plan::{NewRequest, OfClient, plan},
        },
        screening::{Screening, ScreeningStatus},
        secure_payment::{
            Names, PaymentFlow, SecurePaymentStatus,
            access::AccessPolicy,
            plan::{FeeReceivers, NewPayout},
        },
    },
    flows::{
        FlowResult,
        idempotency::{self, Answer, Keeper, Repeatable, Storage},
        paying::charges_of_new,
        requests::{
            create::{DRAWS_MAX, InsertError, collided, fresh, origin},
            of_client::{client_of, of_client},
            room::{self, Room},
        },
    },
    store,
};

/// What is said of a recipient who does not pass. Source: rules P.3.7.
const RECIPIENT_REJECTED: &str = "Recipient wallet failed screening";

/// Makes a secure payment of one recipient. Whoever has its token pays it; the wallet of its creator is noted.
///
/// Errors: a policy that a public client ID may not ask for (403); every wrong field at once, also what the client ID of the
/// caller may not ask for (400); the recipient is to be screened and does not pass, which is kept (403), or no provider answers (502), or a public client ID had too many screened
/// within an hour (429).
/// Source: interface §4.7; rules P.3.7; decisions D48; decisions D49.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    input: NewPayout,
    call: Repeatable<Made>,
) -> FlowResult<Answer<Made>> {
    idempotency::once(ctx, caller, call, Storage::Secret, async |keeper| {
        require_wallet(caller)?;
        let room = room::find(ctx, caller, 1).await?;
        let network = input.currency.network;
        let client = client_of(ctx, caller).await?;
        let of_client = of_client(ctx, caller, client.as_ref()).await?;
        let receivers = fee_receivers(ctx, caller, &of_client).await?;
        let key = input.currency.currency.token().map(|token| DestinationKey {
            interop: InteropAddress {
                wallet: input.recipient,
                network,
            },
            token,
        });
        let known = match &key {
            Some(key) => store::destinations::find(ctx.db.reader(), &caller.platform, key).await?,
            None => None,
        };
        if caller.is_public() {
            refuse_screened(ctx, caller, &input.recipient).await?;
        }
        let policy = input.policy.resolved(known.and_then(|known| known.policy), caller)?;
        let of_client = of_client.for_payouts();
        let mut found = None;
        for _ in 0..DRAWS_MAX {
            let due = vec![requested(ctx, caller, &input, (&of_client, &receivers))?];
            require_payable(ctx, network, &due, ("amount", |_| "amount".to_owned()))?;
            // Bad input costs no question, and a second draw none either.
            let screened = match found.take() {
                Some(screened) => screened,
                None => screen::recipient(ctx, caller, &policy, network, input.recipient).await?,
            };
            let draft = Draft {
                flow: PaymentFlow::Pay,
                network,
                destination: key,
                creator: Some(input.creator.clone()),
                policy: policy.clone(),
                about: input.about.clone(),
                expires_at: expires_at(ctx, input.expires_in),
                due,
            };
            match commit(ctx, caller, (draft, &input.names), (screened.as_ref(), &room), keeper).await {
                Err(InsertError::Taken) => found = Some(screened),
                Err(InsertError::Failed(error)) => return Err(error),
                Ok(made) => return Ok(made),
            }
        }
        Err(collided())
    })
    .await
}

/// Payers of payout links are not screened, so a stranger with a public client ID makes none to a wallet whose owner has
/// payers screened, or hides it. Errors: the recipient is such a wallet (403).
async fn refuse_screened(ctx: &Ctx, caller: &PlatformCaller, recipient: &Address) -> FlowResult<()> {
    let known = store::destinations::active_of(ctx.db.reader(), &caller.platform, recipient).await?;
    let policy = known.filter(Destination::is_in_use).and_then(|known| known.policy);
    if policy.is_some_and(|policy| AccessPolicy::from(policy) != AccessPolicy::OPEN) {
        let sentence = "The payee destination of this recipient screens its payers or hides something, which payout links \
                        do not: make a link to the destination (POST /v2/secure-payments)";
        return Err(Refusal::forbidden(sentence).into());
    }
    Ok(())
}

fn requested(
    ctx: &Ctx,
    caller: &PlatformCaller,
    input: &NewPayout,
    (of_client, receivers): (&OfClient, &FeeReceivers),
) -> FlowResult<(Request, Charges)> {
    let mut checks = Checks::new();
    let network = input.currency.network;
    let fee = input
        .fee
        .and_then(|fee| named_fee(ctx, receivers, fee, network, &mut checks));
    let new = NewRequest {
        payee: Some(input.recipient),
        payer: None,
        amount: input.amount.clone(),
        invoice: input.currency.currency.clone(),
        payment: input.currency.clone(),
        recurrence: None,
        is_crypto_to_fiat: false,
        customer: None,
        merchant_reference: input.about.reference.clone(),
        original_request_id: None,
        original_request_reference: None,
    };
    let planned = plan(&new, of_client, &origin(caller), &fresh(ctx), &ctx.catalogue);
    let request = checks.join(planned.map_err(of_payout));
    let request = checks.finish_with(request)?;
    let charges = charges_of_new(ctx, &request, fee)?;
    Ok((request, charges))
}

/// A refusal of a request by the members of a payout.
fn of_payout(refusal: Refusal) -> Refusal {
    let mut fields: Vec<FieldError> = Vec::new();
    for error in refusal.fields {
        let field = match error.field.as_str() {
            "payee" => "recipient",
            "amount" => "amount",
            _ => "currency",
        };
        // Both currencies of the request are the one that is named.
        if !fields.iter().any(|known| known.field == field) {
            fields.push(FieldError::new(field, error.message));
        }
    }
    Refusal { fields, ..refusal }
}

/// Writes the request, where its recipient is paid, the secure payment and the answer, all or nothing.
async fn commit(
    ctx: &Ctx,
    caller: &PlatformCaller,
    (draft, names): (Draft, &Names),
    (screened, room): (Option<&Screening>, &Room),
    keeper: &Keeper<'_, Made>,
) -> Result<Made, InsertError> {
    let mut opened = draft.made(ctx, caller);
    let is_rejected = screened.is_some_and(|screened| screened.status == ScreeningStatus::Rejected);
    if is_rejected {
        opened.payment.status = SecurePaymentStatus::ComplianceFailed;
        // Nobody gets calldata for it by its id either.
        for request in &mut opened.requests {
            let cancelled = request.ledger.cancel().map_err(Refusal::invalid);
            request.ledger = cancelled.map_err(|refusal| InsertError::Failed(refusal.into()))?;
        }
    }
    let (_permit, tx) = begin(ctx, caller, room, "create_secure_payout")
        .await
        .map_err(InsertError::Failed)?;
    let requests: Vec<&Request> = opened.requests.iter().collect();
    store::requests::insert_all(&tx, &requests).await?;
    crate::fail_at("create_secure_payout", "request_inserted");
    if let Some(key) = opened.payment.destination {
        let noted = Destination {
            id: DestinationId(ctx.ids.ulid()),
            platform: caller.platform.clone(),
            key,
            policy: None,
            is_claimed: false,
            is_set_up: false,
            is_active: true,
            created_at: opened.now,
            updated_at: opened.now,
        };
        store::destinations::note(&tx, &noted).await?;
        crate::fail_at("create_secure_payout", "destination_noted");
    }
    store::secure_payments::insert(&tx, &opened.payment, names).await?;
    crate::fail_at("create_secure_payout", "inserted");
    let found: Vec<Screening> = screened.into_iter().cloned().collect();
    store::screenings::keep(&tx, &caller.platform, &opened.payment.id, &found).await?;
    if is_rejected {
        tx.commit().await?;
        return Err(InsertError::Failed(Refusal::forbidden(RECIPIENT_REJECTED).into()));
    }
    room.check(ctx, &tx).await.map_err(InsertError::Failed)?;
    let made = told(ctx, opened);
    keeper.commit(tx, &made).await.map_err(InsertError::Failed)?;
    Ok(made)
}
