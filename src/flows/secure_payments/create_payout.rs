//! Creates a secure payment by which its creator pays a recipient.

use super::{
    made::{
        CreatedSecurePayment, LinkDraft, begin, expires_at, fee_receivers, named_fee, require_payable, require_wallet,
        respond_with,
    },
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
            MerchantNames, PaymentFlow, SecurePaymentStatus,
            access::AccessPolicy,
            plan::{FeeReceivers, NewPayoutLink},
        },
    },
    flows::{
        FlowResult,
        idempotency::{self, KeyedResult, RepeatableCall, ResponseKeeper, ResponseStorage},
        paying::charges_of_new,
        requests::{
            create::{DRAWS_MAX, InsertError, collided, fresh, origin},
            of_client::{client_of, of_link_creator},
            room::{self, RequestRoom},
        },
    },
    store,
};

/// Message for a recipient who fails screening. Source: rules P.3.7.
const RECIPIENT_REJECTED: &str = "Recipient wallet failed screening";

/// Creates a secure payment of one recipient. Anyone with its token can pay it; the wallet of its creator is only
/// recorded.
///
/// Errors:
/// - 403: a policy that a public client ID may not request; the recipient fails screening, which is stored.
/// - 400: every wrong field at once, including what the client ID of the caller may not request.
/// - 502: no provider returns a result.
/// - 429: a public client ID reached its limit of screened recipients per hour.
///
/// Source: interface §4.7; rules P.3.7; decisions D48; decisions D49.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    input: NewPayoutLink,
    call: RepeatableCall<CreatedSecurePayment>,
) -> FlowResult<KeyedResult<CreatedSecurePayment>> {
    idempotency::once(ctx, caller, call, ResponseStorage::Secret, async |keeper| {
        require_wallet(caller)?;
        let room = room::find(ctx, caller, 1).await?;
        let network = input.currency.network;
        let client = client_of(ctx, caller).await?;
        let of_client = of_link_creator(ctx, caller, client.as_ref(), PaymentFlow::Pay).await?;
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
        if caller.is_outsider() {
            refuse_screened(ctx, caller, &input.recipient).await?;
        }
        let policy = input.policy.resolved(known.and_then(|known| known.policy), caller)?;
        let of_client = of_client.for_payouts();
        let mut found = None;
        for _ in 0..DRAWS_MAX {
            let due = vec![requested(ctx, caller, &input, &of_client, &receivers)?];
            require_payable(ctx, network, &due, "amount", |_| "amount".to_owned())?;
            // Invalid input is refused before the recipient is screened. If the loop repeats because the reference was
            // taken, the first screening result is used again.
            let screened = match found.take() {
                Some(screened) => screened,
                None => screen::recipient(ctx, caller, &policy, network, input.recipient).await?,
            };
            let draft = LinkDraft {
                flow: PaymentFlow::Pay,
                network,
                destination: key,
                creator: Some(input.creator.clone()),
                orchestrator: caller.orchestrator().cloned(),
                policy: policy.clone(),
                about: input.about.clone(),
                expires_at: expires_at(ctx, input.expires_in),
                due,
            };
            match commit(ctx, caller, draft, &input.names, screened.as_ref(), &room, keeper).await {
                Err(InsertError::Taken) => found = Some(screened),
                Err(InsertError::Failed(error)) => return Err(error),
                Ok(made) => return Ok(made),
            }
        }
        Err(collided())
    })
    .await
}

/// Checks the recipient of a payout link that a public client ID or an orchestrator creates. Payers of payout links are
/// not screened, and strangers can use a public client ID. So the recipient must not be a wallet whose owner requires screening of payers
/// or hides the wallet. Errors: the recipient is such a wallet (403).
async fn refuse_screened(ctx: &Ctx, caller: &PlatformCaller, recipient: &Address) -> FlowResult<()> {
    let known = store::destinations::active_of(ctx.db.reader(), &caller.platform, recipient).await?;
    let policy = known.filter(Destination::is_in_use).and_then(|known| known.policy);
    if policy.is_some_and(|policy| AccessPolicy::from(policy) != AccessPolicy::OPEN) {
        let sentence = "The payee destination of this recipient screens its payers or hides details, which payout links \
                        do not support: create a link to the destination (POST /v2/secure-payments)";
        return Err(Refusal::forbidden(sentence).into());
    }
    Ok(())
}

fn requested(
    ctx: &Ctx,
    caller: &PlatformCaller,
    input: &NewPayoutLink,
    of_client: &OfClient,
    receivers: &FeeReceivers,
) -> FlowResult<(Request, Charges)> {
    let mut checks = Checks::new();
    let network = input.currency.network;
    let fee = input
        .fee
        .and_then(|(percent, receiver)| named_fee(ctx, receivers, percent, receiver, network, &mut checks));
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

/// Converts the refusal of a request to one with the fields of a payout.
fn of_payout(refusal: Refusal) -> Refusal {
    let mut fields: Vec<FieldError> = Vec::new();
    for error in refusal.fields {
        let field = match error.field.as_str() {
            "payee" => "recipient",
            "amount" => "amount",
            _ => "currency",
        };
        // The body has one member `currency` for both currencies of the request, so an error of either is reported
        // once.
        if !fields.iter().any(|known| known.field == field) {
            fields.push(FieldError::new(field, error.message));
        }
    }
    Refusal { fields, ..refusal }
}

/// Writes the request, the recipient's destination, the secure payment and the response in one transaction.
async fn commit(
    ctx: &Ctx,
    caller: &PlatformCaller,
    draft: LinkDraft,
    names: &MerchantNames,
    screened: Option<&Screening>,
    room: &RequestRoom,
    keeper: &ResponseKeeper<'_, CreatedSecurePayment>,
) -> Result<CreatedSecurePayment, InsertError> {
    let mut opened = draft.complete(ctx, caller);
    let is_rejected = screened.is_some_and(|screened| screened.status == ScreeningStatus::Rejected);
    if is_rejected {
        opened.payment.status = SecurePaymentStatus::ComplianceFailed;
        // The requests are cancelled too, so that calls with their ids return no calldata.
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
    let made = respond_with(ctx, opened);
    keeper.commit(tx, &made).await.map_err(InsertError::Failed)?;
    Ok(made)
}
