//! Makes a secure payment by which its creator is paid.

use super::made::{Draft, Made, begin, expires_at, fee_receivers, named_fee, require_payable, require_wallet, told};
use crate::{
    ctx::Ctx,
    domain::{
        caller::{Credential, PlatformCaller},
        destination::Destination,
        paying::charge::Charges,
        refusal::{Checks, FieldError, Refusal},
        request::{
            Request,
            plan::{NewRequest, OfClient, PaymentCurrency, payment_currency, plan},
        },
        secure_payment::{
            Names, PaymentFlow,
            access::AccessPolicy,
            plan::{Choosing, Destinations, FeeReceivers, NewItem, NewSecurePayment, Wanted},
        },
    },
    flows::{
        FlowResult, beside_others,
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
use std::sync::Arc;

/// Makes a secure payment.
///
/// Destination, fees and policy are captured: later changes of them change no link. Errors, in this order: an account without
/// a wallet (403), as many requests as a cap allows await payment (429), no destination (400, 403), a policy that a public
/// client ID may not ask for (403), every wrong field at once (400).
/// Source: interface §4.7; rules P.3.7; decisions D1; decisions D2; decisions D48; decisions D49.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    input: NewSecurePayment,
    call: Repeatable<Made>,
) -> FlowResult<Answer<Made>> {
    idempotency::once(ctx, caller, call, Storage::Secret, async |keeper| {
        require_wallet(caller)?;
        let room = room::find(ctx, caller, input.items.len()).await?;
        let client = client_of(ctx, caller).await?;
        let of_client = of_client(ctx, caller, client.as_ref()).await?;
        let receivers = fee_receivers(ctx, caller, &of_client).await?;
        let destinations = destinations(ctx, caller, &of_client, &input.items).await?;
        let destination = destinations.choose(&input.items)?;
        let policy = input.policy.resolved(destination.policy, caller)?;
        let currency = currency(ctx, &destination)?;
        let making = Making {
            ctx: ctx.clone(),
            caller: caller.clone(),
            input: Arc::new(input),
            policy,
            currency,
            destination,
            limits: of_client.unbound(),
            receivers,
        };
        for _ in 0..DRAWS_MAX {
            let draft = making.decided().await?;
            match commit(ctx, caller, (draft, &making.input.names), &room, keeper).await {
                Err(InsertError::Taken) => continue,
                Err(InsertError::Failed(error)) => return Err(error),
                Ok(made) => return Ok(made),
            }
        }
        Err(collided())
    })
    .await
}

/// A secure payment that is being made.
#[derive(Clone)]
struct Making {
    ctx: Ctx,
    caller: PlatformCaller,
    input: Arc<NewSecurePayment>,
    policy: AccessPolicy,
    destination: Destination,
    currency: PaymentCurrency,
    limits: OfClient,
    receivers: FeeReceivers,
}

impl Making {
    async fn decided(&self) -> FlowResult<Draft> {
        let making = self.clone();
        beside_others(self.input.items.len(), async move { making.decide() }).await
    }

    fn decide(&self) -> FlowResult<Draft> {
        let Self {
            ctx,
            input,
            destination,
            ..
        } = self;
        let due = self.requested()?;
        let network = self.currency.network;
        let amount = |index| format!("requests[{index}].amount");
        require_payable(ctx, network, &due, ("requests", amount))?;
        Ok(Draft {
            flow: PaymentFlow::GetPaid,
            network,
            destination: Some(destination.key),
            creator: None,
            policy: self.policy.clone(),
            about: input.about.clone(),
            expires_at: expires_at(ctx, input.expires_in),
            due,
        })
    }

    /// The requests and what is charged on top of each. Errors: every wrong field of every item, or the sum of all (400).
    fn requested(&self) -> FlowResult<Vec<(Request, Charges)>> {
        let Self {
            ctx,
            input,
            destination,
            currency,
            limits,
            receivers,
            ..
        } = self;
        let origin = origin(&self.caller);
        let mut checks = Checks::new();
        let mut due = Vec::with_capacity(input.items.len());
        for (index, item) in input.items.iter().enumerate() {
            let entry = format!("requests[{index}]");
            let new = NewRequest {
                payee: Some(destination.key.interop.wallet),
                payer: None,
                amount: item.amount.clone(),
                invoice: currency.currency.clone(),
                payment: currency.clone(),
                recurrence: None,
                is_crypto_to_fiat: false,
                customer: None,
                merchant_reference: item.reference.clone().or_else(|| input.about.reference.clone()),
                original_request_id: None,
                original_request_reference: None,
            };
            let planned = plan(&new, limits, &origin, &fresh(ctx), &ctx.catalogue);
            let request = checks.join(planned.map_err(|refusal| of_item(refusal, &entry)));
            let mut named = Checks::new();
            let fee = item
                .fee
                .and_then(|named_by| named_fee(ctx, receivers, named_by.fee, currency.network, &mut named));
            let is_of_item = item.fee.is_some_and(|fee| fee.is_of_item);
            checks.join(named.finish().map_err(|refusal| match is_of_item {
                true => refusal.within(&entry),
                false => refusal,
            }));
            due.push((request, fee));
        }
        checks.finish()?;
        let due: Vec<_> = due
            .into_iter()
            .filter_map(|(request, fee)| Some((request?, fee)))
            .collect();
        let asked = due.iter().map(|(request, _)| request.terms.asked());
        limits.limits.check_sum("requests", asked, &ctx.catalogue)?;
        let charged = due.into_iter().map(|(request, fee)| {
            let charges = charges_of_new(ctx, &request, fee)?;
            FlowResult::Ok((request, charges))
        });
        charged.collect()
    }
}

/// Where a caller may be paid. A client ID that is bound has its destination alone, a person the own one. Without either it
/// is that of the platform's wallets, and an API key may name another one that is in use there; a client ID of a backend
/// has to name one, and a public one names none: a stranger could have registered it. Source: decisions D49.
async fn destinations(
    ctx: &Ctx,
    caller: &PlatformCaller,
    of_client: &OfClient,
    items: &[NewItem],
) -> FlowResult<Destinations> {
    if let Some(bound) = &of_client.bound {
        return Ok(Destinations {
            choosing: Choosing::Freely,
            own: Some(bound.clone()).filter(Destination::is_in_use).into_iter().collect(),
            others: Vec::new(),
        });
    }
    let reader = ctx.db.reader();
    if let Some(wallet) = caller.wallet() {
        let own = store::destinations::active_of(reader, &caller.platform, wallet).await?;
        return Ok(Destinations {
            choosing: Choosing::Freely,
            own: own.filter(Destination::is_in_use).into_iter().collect(),
            others: Vec::new(),
        });
    }
    let choosing = match caller.credential {
        Credential::ClientId { is_public: true, .. } => Choosing::Never,
        Credential::ClientId { is_public: false, .. } => Choosing::ByName,
        Credential::ApiKey { .. } | Credential::Session { .. } => Choosing::Freely,
    };
    let own = match choosing {
        Choosing::ByName => Vec::new(),
        Choosing::Freely | Choosing::Never => store::destinations::own_in_use(reader, &caller.platform).await?,
    };
    let named = items.iter().find_map(|item| match item.destination {
        Wanted::Named(key) => Some(key),
        Wanted::Any | Wanted::Unknown => None,
    });
    let others = match named {
        Some(key) if choosing != Choosing::Never => store::destinations::find(reader, &caller.platform, &key).await?,
        _ => None,
    };
    Ok(Destinations {
        choosing,
        own,
        others: others.filter(Destination::is_in_use).into_iter().collect(),
    })
}

/// The currency of a destination. Errors: it left the catalogue, or its network is not enabled any more (400).
fn currency(ctx: &Ctx, destination: &Destination) -> Result<PaymentCurrency, Refusal> {
    let key = &destination.key;
    let network = key.interop.network;
    let known = ctx.catalogue.by_token(network, &key.token);
    let gone = || {
        Refusal::invalid(format!(
            "The token of the payment destination is not known on {network} any more"
        ))
    };
    let id = known.map(|currency| currency.id.clone()).ok_or_else(gone)?;
    payment_currency(&ctx.catalogue, &id)
        .map_err(|sentence| Refusal::invalid(format!("The currency of the payment destination {sentence}")))
}

/// A refusal of a request by the members of an item: who is paid in what follows from its destination.
fn of_item(refusal: Refusal, entry: &str) -> Refusal {
    let fields = refusal.fields.into_iter().map(|error| match error.field.as_str() {
        "amount" => FieldError::new(format!("{entry}.amount"), error.message),
        _ => FieldError::new(format!("{entry}.destinationId"), error.message),
    });
    Refusal {
        fields: fields.collect(),
        ..refusal
    }
}

/// Writes the requests, the secure payment and the answer, all or nothing.
async fn commit(
    ctx: &Ctx,
    caller: &PlatformCaller,
    (draft, names): (Draft, &Names),
    room: &Room,
    keeper: &Keeper<'_, Made>,
) -> Result<Made, InsertError> {
    let opened = draft.made(ctx, caller);
    let (_permit, tx) = begin(ctx, caller, room, "create_secure_payment")
        .await
        .map_err(InsertError::Failed)?;
    let requests: Vec<&Request> = opened.requests.iter().collect();
    store::requests::insert_all(&tx, &requests).await?;
    crate::fail_at("create_secure_payment", "requests_inserted");
    store::secure_payments::insert(&tx, &opened.payment, names).await?;
    crate::fail_at("create_secure_payment", "inserted");
    room.check(ctx, &tx).await.map_err(InsertError::Failed)?;
    let made = told(ctx, opened);
    keeper.commit(tx, &made).await.map_err(InsertError::Failed)?;
    Ok(made)
}
