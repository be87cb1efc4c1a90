//! Issues one transaction that pays several new or existing requests.

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
            payable::UnpayableRequest,
            plan::{NewRequest, check_two_wallets, plan},
        },
    },
    flows::{
        FlowError, FlowResult,
        admission::{HeldPermit, holder_of, require},
        beside_others,
        idempotency::{self, KeyedResult, RepeatableCall, ResponseKeeper, ResponseStorage},
        paying::{
            Handout, HandoutError, PayingWallet, PaymentDue, PaymentPacking, charges, charges_of_new, hand_out,
            keep::{KeepError, keep, keep_of_new},
            lookup::Lookup,
        },
        requests::{
            create::{DRAWS_MAX, InsertError, collided, fresh, origin},
            of_client::{client_of, of_client},
            room::{self, RequestRoom},
        },
    },
    store::{self, Scope},
};
use std::sync::Arc;

/// Input of a caller; every value is valid on its own.
#[derive(Debug, Clone)]
pub struct NewBatch {
    /// The payments.
    pub payments: BatchPayments,
    /// Who pays.
    pub payer: Option<Address>,
    /// Fee and its receiver.
    pub fee: Option<(Percent, Address)>,
}

/// Payments of one batch.
#[derive(Debug, Clone)]
pub enum BatchPayments {
    /// New requests for the batch.
    New(Vec<NewRequest>),
    /// Existing requests, by their public ids.
    Known(Vec<String>),
}

impl BatchPayments {
    /// The body member that lists the payments.
    fn field(&self) -> &'static str {
        match self {
            Self::New(_) => "requests",
            Self::Known(_) => "requestIds",
        }
    }

    /// The refusal of one payment, with the field names of the body. An existing request has no members in the body.
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

    /// The error when no calldata can be issued for the payments, with the field names of the body.
    fn not_handed_out(&self, error: HandoutError) -> FlowError {
        match error {
            HandoutError::Payment(index, FlowError::Refused(refusal)) => self.refused(index, refusal).into(),
            HandoutError::TooLarge(0) => self.refused(0, BundleError::TooLarge.into()).into(),
            HandoutError::TooLarge(index) => {
                let sentence =
                    "does not fit into one transaction with the previous payments: pay it in another transaction";
                self.refused(index, Refusal::field("amount", sentence)).into()
            }
            HandoutError::TooMuchGas { counts, gas } => too_much_gas(self.field(), counts, gas).into(),
            other => other.alone(),
        }
    }

    /// Number of payments.
    pub fn count(&self) -> usize {
        match self {
            Self::New(requests) => requests.len(),
            Self::Known(ids) => ids.len(),
        }
    }
}

/// Issues one transaction that pays several requests.
///
/// An existing request is paid with its remaining amount. Nothing is stored unless the calldata is returned.
///
/// Errors:
/// - 400: all invalid fields, including those beyond the limits of the client ID; more payments than fit into one
///   transaction.
/// - 404: an unknown request.
/// - 429: the cap of open requests is reached.
/// - 502: no node responds.
///
/// Source: interface §4.2; rules P.3.6; decisions D38; decisions D49.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    input: NewBatch,
    call: RepeatableCall<Handout>,
) -> FlowResult<KeyedResult<Handout>> {
    idempotency::once(ctx, caller, call, ResponseStorage::Shared, async |keeper| {
        let making = BatchDraft {
            _permit: Arc::new(permit(ctx, caller).await?),
            ctx: ctx.clone(),
            caller: caller.clone(),
            client: client_of(ctx, caller).await?,
            room: match &input.payments {
                BatchPayments::New(new) => Some(Arc::new(room::find(ctx, caller, new.len()).await?)),
                BatchPayments::Known(_) => None,
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

/// Waits for earlier batches of the caller. Batches that run at the same time would wait for each other's row locks,
/// and each would occupy a database connection that other calls need. Errors: the wait takes too long (429).
async fn permit(ctx: &Ctx, caller: &PlatformCaller) -> Result<HeldPermit, Refusal> {
    let sentence = "Too many batches are being created, and a platform can create only one at a time; retry shortly";
    require(&ctx.batches, &holder_of(caller), ctx.waits.earlier_batch, sentence).await
}

/// A batch in progress.
#[derive(Clone)]
struct BatchDraft {
    /// The permit of the batch. It is held while any task works on the batch, even after the caller disconnected.
    _permit: Arc<HeldPermit>,
    ctx: Ctx,
    caller: PlatformCaller,
    client: Option<ClientId>,
    /// The capacity for new requests; `None` for existing requests, which were counted when they were created.
    room: Option<Arc<RequestRoom>>,
    input: Arc<NewBatch>,
}

impl BatchDraft {
    /// Plans the payments; for many payments on a separate thread.
    async fn decided(&self) -> FlowResult<Handout> {
        let making = self.clone();
        beside_others(self.input.payments.count(), async move { making.decide().await }).await
    }

    async fn decide(&self) -> FlowResult<Handout> {
        let Self { ctx, caller, input, .. } = self;
        let client = self.client.as_ref();
        let due = match &input.payments {
            BatchPayments::New(new) => plan_new(ctx, caller, new, input, client).await?,
            BatchPayments::Known(ids) => found(ctx, caller, ids, input, client).await?,
        };
        let Some(network) = due.first().map(|due| due.request.terms.network) else {
            return Err(Refusal::field(input.payments.field(), "must have at least 1 item").into());
        };
        let lookup = Lookup::of_caller(ctx, caller, network).with_rate_memory();
        let wallet = PayingWallet::allowing_everything(input.payer);
        let packing = PaymentPacking::Together {
            gas_max: Some(ctx.payments.batch_gas),
        };
        let handout = hand_out(ctx, &lookup, due, wallet, packing).await;
        handout.map_err(|error| input.payments.not_handed_out(error))
    }
}

/// Plans the new requests.
async fn plan_new(
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
        let (field, right) = (format!("{entry}.payee"), "different from payer");
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

/// Finds the existing requests.
async fn found(
    ctx: &Ctx,
    caller: &PlatformCaller,
    ids: &[String],
    input: &NewBatch,
    client: Option<&ClientId>,
) -> FlowResult<Vec<PaymentDue>> {
    let whole_platform = Scope::of_platform(&caller.platform);
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
        checks.take(&entry, request.payable_by_id().map_err(UnpayableRequest::in_list));
        let right = "a request whose payee differs from payer";
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

/// Payer and fee of the call, checked for a network.
fn named(ctx: &Ctx, input: &NewBatch, network: Network, checks: &mut Checks) -> Named {
    let payer = input
        .payer
        .and_then(|payer| checks.take("payer", payer.usable_on(network)));
    (payer, of_call(input.fee, network, &ctx.catalogue, checks))
}

/// Writes the requests, their issued calldata and the response atomically.
async fn commit(
    making: &BatchDraft,
    handout: &Handout,
    keeper: &ResponseKeeper<'_, Handout>,
) -> Result<(), InsertError> {
    let BatchDraft { ctx, caller, input, .. } = making;
    let now = ctx.clock.now();
    let tx = ctx.db.begin("create_batch").await?;
    match input.payments {
        BatchPayments::New(_) => {
            let requests: Vec<&Request> = handout.payments.iter().map(|payment| &payment.request).collect();
            store::requests::insert_all(&tx, &requests).await?;
            keep_of_new(&tx, caller, &handout.payments, now).await?;
        }
        BatchPayments::Known(_) => {
            let kept = keep(&tx, caller, &handout.payments, now).await;
            kept.map_err(|error| InsertError::Failed(unkept(error, &input.payments)))?;
        }
    }
    if let Some(room) = &making.room {
        room.check(ctx, &tx).await.map_err(InsertError::Failed)?;
    }
    keeper.commit(tx, handout).await.map_err(InsertError::Failed)
}

/// The error of a failed commit, with the batch entry that caused it.
fn unkept(error: KeepError, payments: &BatchPayments) -> FlowError {
    match error {
        KeepError::Refused(index, refusal) => {
            let entry = format!("{}[{index}]", payments.field());
            Refusal::field(entry, format!("cannot be paid: {}", refusal.message)).into()
        }
        failed => failed.into(),
    }
}
