//! Hands out one transaction that pays many requests, new ones or those that are there.

use super::one_rate::with_one_rate;
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        amount::Percent,
        batch::{check_networks, too_much_gas},
        batch_call::{Batch, BatchError, BatchItem, BatchTerms, fitting},
        calldata::{Allowing, Step},
        caller::PlatformCaller,
        client_id::ClientId,
        fees::{Fees, of_call},
        network::Network,
        pair::Pair,
        rates::AppliedRate,
        refusal::{Checks, FieldError, Refusal, RefusalKind},
        request::{
            Request,
            payable::Unpayable,
            plan::{NewRequest, check_two_wallets, plan},
        },
    },
    flows::{
        FlowError, FlowResult, beside_others,
        idempotency::{self, Answer, Keeper, Repeatable, Storage},
        rates,
        requests::{
            batch_terms::batch_terms,
            create::{DRAWS_MAX, InsertError, collided, fresh, origin},
            keep::{KeepError, keep, keep_of_new},
            of_client::{client_of, of_client},
            payers::{in_time, payers},
            places::{Place, holder, in_turns, take},
            planned::{Planned, fees, outlined, planned_at, quoted_pair},
            room::{self, Room},
        },
    },
    store::{self, Scope},
};
use alloy::primitives::U256;
use futures_util::{StreamExt, TryStreamExt, future::try_join_all, stream};
use std::{collections::HashMap, sync::Arc, time::Duration};

/// Questions about rates that are in flight at the same time.
const IN_FLIGHT: usize = 16;

/// How long a batch waits until those of its platform before it are made.
const BATCH_WAITS: Duration = Duration::from_secs(1);

/// What a caller asks for; every value holds for itself.
#[derive(Debug, Clone)]
pub struct NewBatch {
    /// What is paid.
    pub payments: Payments,
    /// Who pays.
    pub payer: Option<Address>,
    /// Fee and its receiver.
    pub fee: Option<(Percent, Address)>,
}

/// What is paid together.
#[derive(Debug, Clone)]
pub enum Payments {
    /// Requests that are made for it.
    New(Vec<NewRequest>),
    /// Requests that are there, by their public ids.
    Known(Vec<String>),
}

impl Payments {
    /// The member of the body that lists them.
    fn field(&self) -> &'static str {
        match self {
            Self::New(_) => "requests",
            Self::Known(_) => "requestIds",
        }
    }

    /// What is wrong with one of them, by the names of the body: a request that is there has no members in it.
    fn refused(&self, index: usize, mut refusal: Refusal) -> Refusal {
        let entry = format!("{}[{index}]", self.field());
        match self {
            Self::New(_) => refusal.within(&entry),
            Self::Known(_) => {
                for error in &mut refusal.fields {
                    error.field.clone_from(&entry);
                }
                refusal
            }
        }
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        match self {
            Self::New(requests) => requests.len(),
            Self::Known(ids) => ids.len(),
        }
    }
}

/// Requests with the transactions that pay them all.
#[derive(Debug, Clone)]
pub struct BatchPayout {
    /// Where they are paid.
    pub network: Network,
    /// The requests, in the order of the call.
    pub requests: Vec<Request>,
    /// Approvals, to be sent first.
    pub approvals: Vec<Step>,
    /// The payment of all of them.
    pub payment: Step,
}

/// A request that is to be paid.
struct Due {
    request: Request,
    fees: Fees,
}

/// What is handed out, and how each request is paid by it.
struct Prepared {
    network: Network,
    plans: Vec<Planned>,
    approvals: Vec<Step>,
    payment: Step,
}

/// Hands out one transaction that pays many requests.
///
/// Of a request that is there only what is left is paid. Nothing is stored unless the calldata is answered. Errors: every
/// wrong field at once, also what the client ID of the caller may not ask for, and more payments than fit into one
/// transaction (400); an unknown request (404); as many as a cap allows await payment (429); no node that answers (502).
/// Source: interface §4.2; rules P.3.6; decisions D38; decisions D49.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    input: NewBatch,
    call: Repeatable<BatchPayout>,
) -> FlowResult<Answer<BatchPayout>> {
    idempotency::once(ctx, caller, call, Storage::Shared, async |keeper| {
        let making = Making {
            _place: Arc::new(place(ctx, caller).await?),
            ctx: ctx.clone(),
            caller: caller.clone(),
            client: client_of(ctx, caller).await?,
            room: match &input.payments {
                Payments::New(new) => Some(Arc::new(room::find(ctx, caller, new.len()).await?)),
                Payments::Known(_) => None,
            },
            input: Arc::new(input),
        };
        for _ in 0..DRAWS_MAX {
            let (due, prepared) = making.decided().await?;
            match commit(&making, due, prepared, keeper).await {
                Err(InsertError::Taken) => continue,
                Err(InsertError::Failed(error)) => return Err(error),
                Ok(payout) => return Ok(payout),
            }
        }
        Err(collided())
    })
    .await
}

/// Waits until the caller's batches before this one are made: they would wait for each other's rows in the database, and
/// each with a connection that others need. Errors: that takes too long (429).
async fn place(ctx: &Ctx, caller: &PlatformCaller) -> Result<Place, Refusal> {
    let place = take(&ctx.batches, &holder(caller), BATCH_WAITS).await;
    place.ok_or_else(|| {
        let sentence = "Other batches are being made at this moment, and one platform makes one at a time; try again";
        Refusal::new(RefusalKind::TooMany, sentence).after(1)
    })
}

/// A batch that is being made.
#[derive(Clone)]
struct Making {
    /// Kept as long as anything works on it, also when its caller is gone.
    _place: Arc<Place>,
    ctx: Ctx,
    caller: PlatformCaller,
    client: Option<ClientId>,
    /// For requests that are made; those that are there have theirs.
    room: Option<Arc<Room>>,
    input: Arc<NewBatch>,
}

impl Making {
    /// Gathers and decides.
    async fn decided(&self) -> FlowResult<(Vec<Due>, Prepared)> {
        let making = self.clone();
        beside_others(self.input.payments.count(), async move { making.decide().await }).await
    }

    async fn decide(&self) -> FlowResult<(Vec<Due>, Prepared)> {
        let Self { ctx, caller, input, .. } = self;
        let client = self.client.as_ref();
        let due = match &input.payments {
            Payments::New(new) => made(ctx, caller, new, input, client).await?,
            Payments::Known(ids) => found(ctx, caller, ids, input, client).await?,
        };
        let prepared = prepared(ctx, caller, &due, input).await?;
        Ok((due, prepared))
    }
}

/// Decides what the new requests are.
async fn made(
    ctx: &Ctx,
    caller: &PlatformCaller,
    new: &[NewRequest],
    input: &NewBatch,
    client: Option<&ClientId>,
) -> FlowResult<Vec<Due>> {
    check_networks(new.iter().map(|request| request.payment.network))?;
    let (origin, of_client) = (origin(caller), of_client(ctx, caller, client).await?);
    let of_client = of_client.for_payouts();
    let mut checks = Checks::new();
    let network = new.first().map(|request| request.payment.network);
    let named = network.map(|network| named(ctx, input, network, &mut checks));
    let (payer, fee) = named.unwrap_or_default();
    let mut requests = Vec::with_capacity(new.len());
    for (index, request) in new.iter().enumerate() {
        let entry = format!("requests[{index}]");
        let (field, right) = (format!("{entry}.payee"), "another wallet than payer");
        check_two_wallets(field, input.payer, request.payee, right, &mut checks);
        let request = NewRequest {
            payer,
            ..request.clone()
        };
        let planned = plan(&request, &of_client, &origin, &fresh(ctx), &ctx.catalogue);
        requests.extend(checks.join(planned.map_err(|refusal| refusal.within(&entry))));
    }
    checks.finish()?;
    let asked = requests.iter().map(|request| request.terms.asked());
    of_client.limits.check_sum("requests", asked, &ctx.catalogue)?;
    let due = requests.into_iter().map(|mut request| {
        let fees = fees(ctx, &request, client, fee)?;
        request.ledger.is_listening = true;
        FlowResult::Ok(Due { request, fees })
    });
    due.collect()
}

/// Finds the requests that are there.
async fn found(
    ctx: &Ctx,
    caller: &PlatformCaller,
    ids: &[String],
    input: &NewBatch,
    client: Option<&ClientId>,
) -> FlowResult<Vec<Due>> {
    let whole_platform = Scope {
        platform: caller.platform.clone(),
        client: None,
    };
    let mut known = store::requests::find_all(ctx.db.reader(), &whole_platform, ids).await?;
    let mut unknown = Vec::new();
    let mut requests = Vec::with_capacity(ids.len());
    for (index, id) in ids.iter().enumerate() {
        let shown = known.remove(id.as_str());
        match shown.filter(|request| !(caller.is_public() && request.is_hidden)) {
            Some(request) => requests.push(request),
            None => unknown.push(FieldError::new(format!("requestIds[{index}]"), NOT_FOUND)),
        }
    }
    if !unknown.is_empty() {
        let refusal = Refusal::not_found(NOT_FOUND);
        return Err(Refusal {
            fields: unknown,
            ..refusal
        }
        .into());
    }
    check_networks(requests.iter().map(|request| request.terms.network))?;
    let mut checks = Checks::new();
    let network = requests.first().map(|request| request.terms.network);
    let named = network.map(|network| named(ctx, input, network, &mut checks));
    let (payer, fee) = named.unwrap_or_default();
    for (index, request) in requests.iter().enumerate() {
        let entry = format!("requestIds[{index}]");
        checks.take(&entry, request.payable_by_id().map_err(Unpayable::in_list));
        let right = "a request of another payee than payer";
        check_two_wallets(entry, payer, request.terms.payee, right, &mut checks);
    }
    checks.finish()?;
    let due = requests.into_iter().map(|request| {
        let fees = fees(ctx, &request, client, fee)?;
        FlowResult::Ok(Due { request, fees })
    });
    due.collect()
}

const NOT_FOUND: &str = "Request not found";

type Named = (Option<Address>, Option<(Percent, Address)>);

/// Payer and fee of the call, as they can be on a network.
fn named(ctx: &Ctx, input: &NewBatch, network: Network, checks: &mut Checks) -> Named {
    let payer = input
        .payer
        .and_then(|payer| checks.take("payer", payer.usable_on(network)));
    (payer, of_call(input.fee, network, &ctx.catalogue, checks))
}

/// The payments up to this one are more than 256 bits of units.
fn too_large(index: usize) -> Refusal {
    match index {
        0 => BatchError::TooLarge.into(),
        _ => Refusal::field(
            "amount",
            "is too large together with the payments before it: pay it in another transaction",
        ),
    }
}

/// Asks the chain for all that the transactions need, and makes them.
async fn prepared(ctx: &Ctx, caller: &PlatformCaller, due: &[Due], input: &NewBatch) -> FlowResult<Prepared> {
    let Some(network) = due.first().map(|due| due.request.terms.network) else {
        return Err(Refusal::field(input.payments.field(), "must have at least 1 item").into());
    };
    let ctx = &in_turns(ctx, caller, network);
    in_time(network, async {
        let terms = batch_terms(ctx, network).await?;
        check_gas(ctx, &terms, due, input)?;
        let of_batch = with_one_rate(ctx, network);
        let applied = rates_applied(ctx, due, input).await?;
        let plan = async |index: usize, due: &Due| {
            let pair = quoted_pair(ctx, &due.request)?;
            let applied = pair.and_then(|pair| applied.get(&pair).copied());
            let remaining = due.request.ledger.remaining();
            let planned = planned_at(&of_batch, &due.request, remaining, due.fees, applied).await;
            planned.map_err(|error| within(error, &input.payments, index))
        };
        let plans: Vec<_> = due.iter().enumerate().map(|(index, due)| plan(index, due)).collect();
        let plans: Vec<Planned> = stream::iter(plans).buffered(IN_FLIGHT).try_collect().await?;
        let items: Vec<BatchItem<'_>> = plans
            .iter()
            .map(|planned| BatchItem {
                plan: &planned.plan,
                further_fees: &planned.further_fees,
            })
            .collect();
        let batch = together(&terms, &items, input)?;
        let allowances = match input.payer {
            Some(payer) => {
                let payers = payers(ctx, network)?;
                let allowance = async |token: Address| {
                    let standing = payers.standing(payer, Some(token), terms.contract).await?;
                    FlowResult::Ok((token, standing.allowance))
                };
                let spendings = batch.spendings().iter();
                try_join_all(spendings.map(|spending| allowance(spending.token))).await?
            }
            None => Vec::new(),
        };
        let allowances: HashMap<Address, U256> = allowances.into_iter().collect();
        let approvals = batch.approvals(Allowing::Everything, |token| allowances.get(token).copied());
        let payment = batch.step();
        Ok(Prepared {
            network,
            plans,
            approvals,
            payment,
        })
    })
    .await
}

/// The rate of each pair that quotes need. Errors: there is none that is beyond doubt (502).
async fn rates_applied(ctx: &Ctx, due: &[Due], input: &NewBatch) -> FlowResult<HashMap<Pair, AppliedRate>> {
    let mut applied = HashMap::new();
    for (index, due) in due.iter().enumerate() {
        if let Some(pair) = quoted_pair(ctx, &due.request)?
            && !applied.contains_key(&pair)
        {
            let current = rates::current(ctx, &pair).await;
            let current = current.map_err(|error| within(error, &input.payments, index))?;
            applied.insert(pair, current);
        }
    }
    Ok(applied)
}

/// Checks that the payments fit into one transaction, before anybody is asked for their rates. Errors: they do not (400).
fn check_gas(ctx: &Ctx, terms: &BatchTerms, due: &[Due], input: &NewBatch) -> FlowResult<()> {
    let outlines = due.iter().enumerate().map(|(index, due)| {
        let outlined = outlined(ctx, &due.request, due.request.ledger.remaining(), &due.fees);
        outlined.map_err(|error| within(error, &input.payments, index))
    });
    let outlines: Vec<_> = outlines.collect::<FlowResult<_>>()?;
    let items = outlines
        .iter()
        .map(|(plan, further_fees)| BatchItem { plan, further_fees });
    let items: Vec<BatchItem<'_>> = items.collect();
    let (gas, gas_max) = (together(terms, &items, input)?.gas(), ctx.payments.batch_gas);
    if gas > gas_max {
        let counts = (items.len(), fitting(terms, &items, input.payer, gas_max));
        return Err(too_much_gas(input.payments.field(), counts, (gas, gas_max)).into());
    }
    Ok(())
}

/// Puts the payments together. Errors: the first one that is too large, by its place in the call; a payer is missing.
fn together(terms: &BatchTerms, items: &[BatchItem<'_>], input: &NewBatch) -> Result<Batch, Refusal> {
    Batch::of(terms, items, input.payer).map_err(|error| match error {
        BatchError::TooLarge => {
            let index = fitting(terms, items, input.payer, u64::MAX);
            input.payments.refused(index, too_large(index))
        }
        BatchError::NoPayer => error.into(),
    })
}

/// The same about one of the payments.
fn within(error: FlowError, payments: &Payments, index: usize) -> FlowError {
    match error {
        FlowError::Refused(refusal) => payments.refused(index, refusal).into(),
        other => other,
    }
}

/// Writes the requests, what is handed out for them and the answer, all or nothing.
async fn commit(
    making: &Making,
    due: Vec<Due>,
    prepared: Prepared,
    keeper: &Keeper<'_, BatchPayout>,
) -> Result<BatchPayout, InsertError> {
    let Making { ctx, caller, input, .. } = making;
    let now = ctx.clock.now();
    let tx = ctx.db.begin("create_batch").await?;
    let requests: Vec<&Request> = due.iter().map(|due| &due.request).collect();
    let handed: Vec<(&Request, &Planned)> = requests.iter().copied().zip(&prepared.plans).collect();
    match input.payments {
        Payments::New(_) => {
            store::requests::insert_all(&tx, &requests).await?;
            keep_of_new(&tx, caller, &handed, now).await?;
        }
        Payments::Known(_) => {
            let kept = keep(&tx, caller, &handed, now).await;
            kept.map_err(|error| InsertError::Failed(unkept(error, &input.payments)))?;
        }
    }
    if let Some(room) = &making.room {
        room.check(ctx, &tx).await.map_err(InsertError::Failed)?;
    }
    let payout = BatchPayout {
        network: prepared.network,
        requests: due.into_iter().map(|due| due.request).collect(),
        approvals: prepared.approvals,
        payment: prepared.payment,
    };
    keeper.commit(tx, &payout).await.map_err(InsertError::Failed)?;
    Ok(payout)
}

/// Why nothing was kept, by the entry that stands in the way.
fn unkept(error: KeepError, payments: &Payments) -> FlowError {
    match error {
        KeepError::Refused(index, refusal) => {
            let entry = format!("{}[{index}]", payments.field());
            Refusal::field(entry, format!("cannot be paid like this: {}", refusal.message)).into()
        }
        failed => failed.into(),
    }
}
