//! Creates a request and issues the calldata that pays it, in one call.

use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        amount::Percent,
        caller::PlatformCaller,
        paying::charge::{Charges, of_call},
        refusal::Checks,
        request::{
            Origin, Request,
            plan::{FreshRequest, NewRequest, OfClient, check_two_wallets, plan},
        },
    },
    flows::{
        FlowResult,
        idempotency::{self, KeyedResult, RepeatableCall, ResponseKeeper, ResponseStorage},
        paying::{Handout, PaymentDue, charges_of_new, hand_out_alone, keep::keep_of_new, lookup::Lookup},
        requests::{
            create::{DRAWS_MAX, InsertError, collided, fresh, origin},
            of_client::{client_of, of_client},
            room::{self, RequestRoom},
        },
    },
    store,
};

/// Input of a caller; every value is valid on its own.
#[derive(Debug, Clone)]
pub struct PayoutRequest {
    /// The request, without a payer.
    pub request: NewRequest,
    /// The payer, and the name of the body field that contains the payer.
    pub payer: Option<(&'static str, Address)>,
    /// Fee and its receiver.
    pub fee: Option<(Percent, Address)>,
}

/// A request with the calldata that pays it.
#[derive(Debug, Clone)]
pub struct Payout {
    /// The request.
    pub request: Request,
    /// The calldata.
    pub handout: Handout,
}

/// Creates a request and issues its calldata.
///
/// Without a payer, no node is queried for a direct payment. Nothing is stored unless the calldata is returned.
///
/// Errors: all invalid fields, including those beyond the limits of the client ID (400); the cap of open requests is
/// reached (429); no node responds to a needed query (502). Source: interface §4.2; decisions D38; decisions D49.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    input: PayoutRequest,
    call: RepeatableCall<Payout>,
) -> FlowResult<KeyedResult<Payout>> {
    idempotency::once(ctx, caller, call, ResponseStorage::Shared, async |keeper| {
        let origin = origin(caller);
        let client = client_of(ctx, caller).await?;
        let of_client = of_client(ctx, caller, client.as_ref()).await?;
        let of_client = of_client.for_payouts();
        let lookup = Lookup::of_caller(ctx, caller, input.request.payment.network);
        let room = room::find(ctx, caller, 1).await?;
        for _ in 0..DRAWS_MAX {
            let (request, charges) = decide(ctx, &input, &of_client, &origin, &fresh(ctx))?;
            let due = PaymentDue::all_of(request.clone(), charges);
            let handout = hand_out_alone(ctx, &lookup, due, input.payer).await?;
            let payout = Payout { request, handout };
            match commit(ctx, caller, &payout, &room, keeper).await {
                Err(InsertError::Taken) => continue,
                Err(InsertError::Failed(error)) => return Err(error),
                Ok(()) => return Ok(payout),
            }
        }
        Err(collided())
    })
    .await
}

fn decide(
    ctx: &Ctx,
    input: &PayoutRequest,
    of_client: &OfClient,
    origin: &Origin,
    fresh: &FreshRequest<'_>,
) -> FlowResult<(Request, Charges)> {
    let network = input.request.payment.network;
    let mut checks = Checks::new();
    let payer = input.payer.and_then(|(field, wallet)| {
        let payee = input.request.payee;
        check_two_wallets(field, Some(wallet), payee, "different from payee", &mut checks);
        checks.take(field, wallet.usable_on(network))
    });
    let fee = of_call(input.fee, network, &ctx.catalogue, &mut checks);
    let new = NewRequest {
        payer,
        ..input.request.clone()
    };
    let request = checks.join(plan(&new, of_client, origin, fresh, &ctx.catalogue));
    let mut request = checks.finish_with(request)?;
    let charges = charges_of_new(ctx, &request, fee)?;
    request.ledger.is_listening = true;
    Ok((request, charges))
}

/// Writes the request, its issued calldata and the response atomically.
async fn commit(
    ctx: &Ctx,
    caller: &PlatformCaller,
    payout: &Payout,
    room: &RequestRoom,
    keeper: &ResponseKeeper<'_, Payout>,
) -> Result<(), InsertError> {
    let Payout { request, handout } = payout;
    let _permit = room.permit(ctx, caller).await.map_err(InsertError::Failed)?;
    let tx = ctx.db.begin("create_payout").await?;
    store::requests::insert(&tx, request).await?;
    keep_of_new(&tx, caller, &handout.payments, request.created_at).await?;
    room.check(ctx, &tx).await.map_err(InsertError::Failed)?;
    keeper.commit(tx, payout).await.map_err(InsertError::Failed)
}
