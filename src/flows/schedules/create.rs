//! Creates a recurring payment, which starts when its payer has signed it.

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
            PaymentTransaction,
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
            AskedAmount, Execution, Schedule,
            allowance::AllowanceNeed,
            maker::require_may_make,
            plan::{FreshSchedule, RecurrenceInput, ScheduleOffer, check, plan},
        },
    },
    flows::{
        FlowResult,
        idempotency::{self, KeyedResult, RepeatableCall, ResponseKeeper, ResponseStorage},
        paying::{
            HandedPayment, PaymentDue, charges_of_new,
            keep::keep_of_new,
            legs::{convert_recent, priced_alone},
            lookup::Lookup,
        },
        payouts::create::PayoutRequest,
        requests::{
            create::{DRAWS_MAX, InsertError, collided, fresh, origin},
            of_client::{client_of, of_client},
            room::{self, RequestRoom},
        },
    },
    ports::ids::random,
    store::{
        self,
        live_schedules::{AllowanceParties, still_taken},
    },
};
use alloy::primitives::U256;

/// Input of a caller; every value is valid on its own.
#[derive(Debug, Clone)]
pub struct NewSchedule {
    /// Each payment.
    pub payout: PayoutRequest,
    /// The recurrence and the payer.
    pub repetition: RecurrenceInput,
}

/// A schedule that waits for its payer.
#[derive(Debug, Clone)]
pub struct ScheduleMade {
    /// The schedule.
    pub schedule: Schedule,
    /// Its first payment.
    pub first: HandedPayment,
    /// The needed allowance.
    pub need: AllowanceNeed,
    /// Transactions of the payer that raise the allowance; none when it is sufficient.
    pub steps: Vec<PaymentTransaction>,
}

/// Creates a schedule.
///
/// Errors:
/// - 403: a public client ID that may not create recurring payments.
/// - 409: the cap of live recurring payments is reached.
/// - 400: all invalid fields, including those beyond the limits of the client ID; a network without recurring payments
///   on this service.
/// - 502: no node responds, and then nothing is stored.
///
/// Source: rules P.3.6; rules P.7.5; decisions D24; decisions D49.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    input: NewSchedule,
    call: RepeatableCall<ScheduleMade>,
) -> FlowResult<KeyedResult<ScheduleMade>> {
    idempotency::once(ctx, caller, call, ResponseStorage::Shared, async |keeper| {
        require_may_make(caller.is_public(), ctx.schedules.may_public_make)?;
        let public_client = caller.client().filter(|_| caller.is_public());
        let live = store::live_schedules::count(ctx.db.reader(), &caller.platform, public_client).await?;
        // The cap is also checked here, not only at the activation. Otherwise a payer could pay gas for the approval of
        // a schedule that cannot be activated.
        ctx.caps.admit_another_schedule(live)?;
        let origin = origin(caller);
        let client = client_of(ctx, caller).await?;
        let of_client = of_client(ctx, caller, client.as_ref()).await?;
        let of_client = of_client.for_payouts();
        let network = input.payout.request.payment.network;
        let lookup = Lookup::of_caller(ctx, caller, network);
        let room = room::find(ctx, caller, 1).await?;
        for _ in 0..DRAWS_MAX {
            let made = lookup
                .in_time(plan_schedule(ctx, &lookup, &input, &of_client, &origin))
                .await?;
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

/// Plans the schedule and reads the payer's allowance from the chain.
async fn plan_schedule(
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
    let asked = AskedAmount {
        amount: request.terms.amount.clone(),
        currency: request.terms.invoice_currency.clone(),
    };
    convert(ctx, lookup, &payout.request, &mut request).await?;
    // The price is computed again, because the amount is now in the payment currency, and the cap of a fee is in the
    // currency of the amount.
    let token = &payout.request.payment.currency;
    let (client_fee, pricing) = (of_client.fee, fresh_request.pricing);
    request.terms.price = price_of(&request.terms, token, token, client_fee, pricing, &ctx.catalogue);
    request.ledger.is_listening = true;
    let charges = charges_of_new(ctx, &request, call_fee)?;
    let (leg, first) = priced_alone(ctx, lookup, PaymentDue::all_of(request, charges)).await?;
    let request = &first.request;
    let offer = ScheduleOffer {
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
    let parties = AllowanceParties {
        payer: permit.subscriber,
        token: permit.token,
        contract: permit.contract,
    };
    let standing = lookup.standing(permit.subscriber, Some(permit.token), contract).await?;
    let conn = ctx.db.reader();
    let others = still_taken(conn, parties, &schedule.id, fresh_schedule.now);
    let need = AllowanceNeed {
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

/// Converts an amount in another currency to units of the token at the current rate. Later rates do not change the
/// signed amount.
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
                .ok_or_else(|| Refusal::invalid("There is no longer a conversion route for these currencies"))?;
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

/// Fee of the relayer for each payment, in units of the token. Errors: the token has too few decimals (400).
fn relayer_fee(ctx: &Ctx, payment: &NewRequest) -> FlowResult<U256> {
    let token = &payment.payment.currency;
    let Some(fee) = &ctx.schedules.fee else {
        return Ok(U256::ZERO);
    };
    let units = fee.to_units(token.decimals);
    Ok(units.map_err(|_| {
        let sentence = format!(
            "must be absent with {}: the service's fee per payment has more decimals than this token",
            token.symbol
        );
        Refusal::field("recurrence", sentence)
    })?)
}

fn not_offered(request: &Request) -> Refusal {
    let network = request.terms.network;
    let sentence = format!("must be absent: this service does not execute recurring payments on {network}");
    Refusal::field("recurrence", sentence)
}

/// Writes the schedule, the request of its first payment and the response atomically.
async fn commit(
    ctx: &Ctx,
    caller: &PlatformCaller,
    made: &ScheduleMade,
    room: &RequestRoom,
    keeper: &ResponseKeeper<'_, ScheduleMade>,
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
