//! Creates a recurring payment, which begins when its payer has signed it.

use super::approved;
use crate::{
    ctx::Ctx,
    domain::{
        amount::Amount,
        caller::PlatformCaller,
        conversion::RateBounds,
        currency::ContractKind,
        ids::ScheduleId,
        ledger::Ledger,
        paying::{
            Step,
            charge::{Charges, of_call},
        },
        payment::PaymentKind,
        refusal::{Checks, Refusal},
        request::{
            Origin, Request,
            plan::{NewRequest, OfClient, plan as plan_request, price_of},
            terms::Exchange,
        },
        schedule::{
            AskedFor, Execution, Schedule,
            allowance::Need,
            maker::require_may_make,
            plan::{FreshSchedule, Offer, Repetition, check, plan},
        },
    },
    flows::{
        FlowResult,
        idempotency::{self, Answer, Keeper, Repeatable, Storage},
        paying::{
            HandedPayment, PaymentDue, charges_of_new,
            keep::keep_of_new,
            legs::{convert_recent, priced_alone},
            lookup::Lookup,
        },
        payouts::create::NewPayout,
        requests::{
            create::{DRAWS_MAX, InsertError, collided, fresh, origin},
            of_client::{client_of, of_client},
            room::{self, Room},
        },
    },
    ports::ids::random,
    store,
};
use alloy::primitives::U256;

/// What a caller asks for; every value holds for itself.
#[derive(Debug, Clone)]
pub struct NewSchedule {
    /// Each payment.
    pub payout: NewPayout,
    /// When, how often, and who pays.
    pub repetition: Repetition,
}

/// A schedule that waits for its payer.
#[derive(Debug, Clone)]
pub struct ScheduleMade {
    /// The schedule.
    pub schedule: Schedule,
    /// Its first payment.
    pub first: HandedPayment,
    /// What has to be allowed.
    pub need: Need,
    /// Transactions of the payer that allow it; none when enough is allowed.
    pub steps: Vec<Step>,
}

/// Creates a schedule.
///
/// Errors: a public client ID, where it may make none (403); as many are live as a cap allows (409); every wrong field at
/// once, also what the client ID of the caller may not ask for, and a network on which this service executes no recurring
/// payments (400); no node that answers (502), and then nothing is stored.
/// Source: rules P.3.6; rules P.7.5; decisions D24; decisions D49.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    input: NewSchedule,
    call: Repeatable<ScheduleMade>,
) -> FlowResult<Answer<ScheduleMade>> {
    idempotency::once(ctx, caller, call, Storage::Shared, async |keeper| {
        require_may_make(caller.is_public(), ctx.schedules.may_public_make)?;
        let public_client = caller.client().filter(|_| caller.is_public());
        let live = store::live_schedules::count(ctx.db.reader(), &caller.platform, public_client).await?;
        // Whoever signs and allows something in vain would pay gas for that.
        ctx.caps.admit_another_schedule(live)?;
        let origin = origin(caller);
        let client = client_of(ctx, caller).await?;
        let of_client = of_client(ctx, caller, client.as_ref()).await?;
        let of_client = of_client.for_payouts();
        let network = input.payout.request.payment.network;
        let lookup = Lookup::of_caller(ctx, caller, network);
        let room = room::find(ctx, caller, 1).await?;
        for _ in 0..DRAWS_MAX {
            let made = lookup.in_time(made(ctx, &lookup, &input, &of_client, &origin)).await?;
            match commit(ctx, caller, &made, &room, keeper).await {
                Err(InsertError::Taken) => continue,
                Err(InsertError::Failed(error)) => return Err(error),
                Ok(()) => return Ok(made),
            }
        }
        Err(collided())
    })
    .await
}

/// Decides, and asks the chain what the payer allows.
async fn made(
    ctx: &Ctx,
    lookup: &Lookup,
    input: &NewSchedule,
    of_client: &OfClient,
    origin: &Origin,
) -> FlowResult<ScheduleMade> {
    let NewSchedule { payout, repetition } = input;
    let network = payout.request.payment.network;
    let id = ScheduleId(ctx.ids.ulid());
    let fresh_request = fresh(ctx);
    let mut checks = Checks::new();
    let call_fee = of_call(payout.fee, network, &ctx.catalogue, &mut checks);
    let request = plan_request(&payout.request, of_client, origin, &fresh_request, &ctx.catalogue);
    let request = checks.join(request);
    let is_token = payout.request.payment.currency.token().is_some();
    let payee = request.as_ref().and_then(|request| request.terms.payee);
    check(repetition, network, is_token, payee, fresh_request.now, &mut checks);
    let mut request = checks.finish_with(request)?;
    request.terms.kind = PaymentKind::Recurring;
    request.terms.payer = Some(repetition.payer);
    request.terms.schedule = Some(id.clone());
    let relay = ctx.partners.relays.get(&network).ok_or_else(|| not_offered(&request))?;
    let contract = ctx
        .catalogue
        .default_contract(network, ContractKind::Erc20RecurringPaymentProxy);
    let contract = contract.ok_or_else(|| not_offered(&request))?;
    let asked = AskedFor {
        amount: request.terms.amount.clone(),
        currency: request.terms.invoice_currency.clone(),
    };
    convert(ctx, lookup, &payout.request, &mut request).await?;
    // The cap of a fee counts in the currency of the amount, which is that of the payment now.
    let token = &payout.request.payment.currency;
    let (client_fee, pricing) = (of_client.fee, fresh_request.pricing);
    request.terms.price = price_of(&request.terms, (token, token), client_fee, pricing, &ctx.catalogue);
    request.ledger.is_listening = true;
    let charges = charges_of_new(ctx, &request, call_fee)?;
    let (leg, first) = priced_alone(ctx, lookup, PaymentDue::all_of(request, charges)).await?;
    let request = &first.request;
    let offer = Offer {
        contract,
        fees: &leg.fees(),
        has_own_fee: !first.charges.is_platform_named(),
        relayer_fee: relayer_fee(ctx, &payout.request)?,
    };
    let fresh_schedule = FreshSchedule {
        id,
        nonce: random(ctx.ids.as_ref()),
        now: fresh_request.now,
    };
    let schedule = plan(repetition, asked, request, &offer, &fresh_schedule)?;
    if !relay.contract(contract).await?.is_admitted {
        return Err(not_offered(request).into());
    }
    let permit = &schedule.permit;
    let parties = (permit.subscriber, permit.token, permit.contract);
    let standing = lookup.standing(permit.subscriber, Some(permit.token), contract).await?;
    let conn = ctx.db.reader();
    let others = store::live_schedules::still_taken(conn, parties, &schedule.id, fresh_schedule.now);
    let need = Need {
        own: schedule.remaining_units(),
        others: others.await?,
        current: standing.allowance,
    };
    Ok(ScheduleMade {
        steps: need.raising(&approved(&ctx.catalogue, &schedule)),
        first,
        need,
        schedule,
    })
}

/// Writes an amount in another currency in units of the token, as they are worth now: what the payer signs does not
/// change with the rates.
async fn convert(ctx: &Ctx, lookup: &Lookup, payment: &NewRequest, request: &mut Request) -> FlowResult<()> {
    let token = &payment.payment.currency;
    let asked = request.ledger.expected;
    let units = match request.terms.exchange() {
        Exchange::Direct => return Ok(()),
        Exchange::Quoted => {
            let due = PaymentDue::all_of(request.clone(), Charges::default());
            priced_alone(ctx, lookup, due).await?.0.units
        }
        Exchange::OnChain => {
            let ages = &ctx.payments.rate_ages;
            let rates = RateBounds::between(&ctx.catalogue, ages, &payment.invoice, token)
                .ok_or_else(|| Refusal::invalid("There is no conversion route for these currencies any more"))?;
            convert_recent(ctx, lookup, &rates, asked).await?
        }
    };
    let amount = Amount::of_units(units, token.decimals);
    request.terms.amount = amount.ok_or_else(|| {
        let sentence = format!("is worth less than the smallest unit of {}", token.symbol);
        Refusal::field("amount", sentence)
    })?;
    request
        .terms
        .invoice_currency
        .clone_from(&request.terms.payment_currency);
    request.terms.is_quoted = false;
    request.ledger = Ledger::new(units);
    Ok(())
}

/// What the relayer gets for each payment, in units of the token. Errors: the token has no units so small (400).
fn relayer_fee(ctx: &Ctx, payment: &NewRequest) -> FlowResult<U256> {
    let token = &payment.payment.currency;
    let Some(fee) = &ctx.schedules.fee else {
        return Ok(U256::ZERO);
    };
    let units = fee.to_units(token.decimals);
    Ok(units.map_err(|_| {
        let sentence = format!(
            "must be absent with {}: the fee of this service for each payment has more digits than this token",
            token.symbol
        );
        Refusal::field("recurrence", sentence)
    })?)
}

fn not_offered(request: &Request) -> Refusal {
    let network = request.terms.network;
    let sentence = format!("must be absent: this service executes no recurring payments on {network}");
    Refusal::field("recurrence", sentence)
}

/// Writes the schedule, the request of its first payment and the answer, all or nothing.
async fn commit(
    ctx: &Ctx,
    caller: &PlatformCaller,
    made: &ScheduleMade,
    room: &Room,
    keeper: &Keeper<'_, ScheduleMade>,
) -> Result<(), InsertError> {
    let ScheduleMade { schedule, first, .. } = made;
    let request = &first.request;
    let execution = Execution {
        schedule: schedule.id.clone(),
        platform: schedule.origin.platform.clone(),
        number: 1,
        request: request.row.clone(),
        request_id: request.id.clone(),
        failures: 0,
        created_at: request.created_at,
    };
    let _permit = room.permit(ctx, caller).await.map_err(InsertError::Failed)?;
    let tx = ctx.db.begin("create_schedule").await?;
    store::requests::insert(&tx, request).await?;
    store::schedules::insert(&tx, schedule).await?;
    store::schedules::insert_execution(&tx, &execution).await?;
    keep_of_new(&tx, caller, std::slice::from_ref(first), request.created_at).await?;
    room.check(ctx, &tx).await.map_err(InsertError::Failed)?;
    keeper.commit(tx, made).await.map_err(InsertError::Failed)
}
