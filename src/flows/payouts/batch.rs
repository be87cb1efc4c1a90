//! Hands out one transaction that pays many requests, new ones or those that are there.

use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        amount::Percent,
        caller::PlatformCaller,
        client_id::ClientId,
        network::Network,
        paying::{
            BundleError,
            batch_contract::{admit_networks, too_much_gas},
            charge::of_call,
        },
        refusal::{Checks, FieldError, Refusal},
        request::{
            Request,
            payable::Unpayable,
            plan::{NewRequest, check_two_wallets, plan},
        },
    },
    flows::{
        FlowError, FlowResult,
        admission::{HeldPermit, holder_of, require},
        beside_others,
        idempotency::{self, Answer, Keeper, Repeatable, Storage},
        paying::{
            Handout, HandoutError, Packing, PayingWallet, PaymentDue, charges, charges_of_new, hand_out,
            keep::{KeepError, keep, keep_of_new},
            lookup::Lookup,
        },
        requests::{
            create::{DRAWS_MAX, InsertError, collided, fresh, origin},
            of_client::{client_of, of_client},
            room::{self, Room},
        },
    },
    store::{self, Scope},
};
use std::sync::Arc;

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

    /// Why nothing is handed out for them, by the names of the body.
    fn not_handed_out(&self, error: HandoutError) -> FlowError {
        match error {
            HandoutError::Payment(index, FlowError::Refused(refusal)) => self.refused(index, refusal).into(),
            HandoutError::TooLarge(0) => self.refused(0, BundleError::TooLarge.into()).into(),
            HandoutError::TooLarge(index) => {
                let sentence = "is too large together with the payments before it: pay it in another transaction";
                self.refused(index, Refusal::field("amount", sentence)).into()
            }
            HandoutError::TooMuchGas { counts, gas } => too_much_gas(self.field(), counts, gas).into(),
            other => other.alone(),
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
    call: Repeatable<Handout>,
) -> FlowResult<Answer<Handout>> {
    idempotency::once(ctx, caller, call, Storage::Shared, async |keeper| {
        let making = Making {
            _permit: Arc::new(permit(ctx, caller).await?),
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
            let handout = making.decided().await?;
            match commit(&making, &handout, keeper).await {
                Err(InsertError::Taken) => continue,
                Err(InsertError::Failed(error)) => return Err(error),
                Ok(()) => return Ok(handout),
            }
        }
        Err(collided())
    })
    .await
}

/// Waits until the caller's batches before this one are made: they would wait for each other's rows in the database, and
/// each with a connection that others need. Errors: that takes too long (429).
async fn permit(ctx: &Ctx, caller: &PlatformCaller) -> Result<HeldPermit, Refusal> {
    let sentence = "Other batches are being made at this moment, and one platform makes one at a time; try again";
    require(&ctx.batches, &holder_of(caller), ctx.waits.earlier_batch, sentence).await
}

/// A batch that is being made.
#[derive(Clone)]
struct Making {
    /// Kept as long as anything works on it, also when its caller is gone.
    _permit: Arc<HeldPermit>,
    ctx: Ctx,
    caller: PlatformCaller,
    client: Option<ClientId>,
    /// For requests that are made; those that are there have theirs.
    room: Option<Arc<Room>>,
    input: Arc<NewBatch>,
}

impl Making {
    /// Gathers and decides.
    async fn decided(&self) -> FlowResult<Handout> {
        let making = self.clone();
        beside_others(self.input.payments.count(), async move { making.decide().await }).await
    }

    async fn decide(&self) -> FlowResult<Handout> {
        let Self { ctx, caller, input, .. } = self;
        let client = self.client.as_ref();
        let due = match &input.payments {
            Payments::New(new) => made(ctx, caller, new, input, client).await?,
            Payments::Known(ids) => found(ctx, caller, ids, input, client).await?,
        };
        let Some(network) = due.first().map(|due| due.request.terms.network) else {
            return Err(Refusal::field(input.payments.field(), "must have at least 1 item").into());
        };
        let lookup = Lookup::of_caller(ctx, caller, network).with_rate_memory();
        let wallet = PayingWallet::allowing_everything(input.payer);
        let packing = Packing::Together {
            gas_max: Some(ctx.payments.batch_gas),
        };
        let handout = hand_out(ctx, &lookup, due, wallet, packing).await;
        handout.map_err(|error| input.payments.not_handed_out(error))
    }
}

/// Decides what the new requests are.
async fn made(
    ctx: &Ctx,
    caller: &PlatformCaller,
    new: &[NewRequest],
    input: &NewBatch,
    client: Option<&ClientId>,
) -> FlowResult<Vec<PaymentDue>> {
    admit_networks(new.iter().map(|request| request.payment.network))?;
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
        let charges = charges_of_new(ctx, &request, fee)?;
        request.ledger.is_listening = true;
        FlowResult::Ok(PaymentDue::all_of(request, charges))
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
) -> FlowResult<Vec<PaymentDue>> {
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
    admit_networks(requests.iter().map(|request| request.terms.network))?;
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
        let charges = charges(ctx, &request, client, fee)?;
        FlowResult::Ok(PaymentDue::all_of(request, charges))
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

/// Writes the requests, what is handed out for them and the answer, all or nothing.
async fn commit(making: &Making, handout: &Handout, keeper: &Keeper<'_, Handout>) -> Result<(), InsertError> {
    let Making { ctx, caller, input, .. } = making;
    let now = ctx.clock.now();
    let tx = ctx.db.begin("create_batch").await?;
    match input.payments {
        Payments::New(_) => {
            let requests: Vec<&Request> = handout.payments.iter().map(|payment| &payment.request).collect();
            store::requests::insert_all(&tx, &requests).await?;
            keep_of_new(&tx, caller, &handout.payments, now).await?;
        }
        Payments::Known(_) => {
            let kept = keep(&tx, caller, &handout.payments, now).await;
            kept.map_err(|error| InsertError::Failed(unkept(error, &input.payments)))?;
        }
    }
    if let Some(room) = &making.room {
        room.check(ctx, &tx).await.map_err(InsertError::Failed)?;
    }
    keeper.commit(tx, handout).await.map_err(InsertError::Failed)
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
