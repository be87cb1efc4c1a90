//! Creates a secure payment that pays its creator.

use super::made::{
    CreatedSecurePayment, LinkDraft, begin, expires_at, fee_receivers, named_fee, require_payable, require_wallet,
    respond_with,
};
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
            MerchantNames, PaymentFlow,
            access::AccessPolicy,
            plan::{DestinationChoice, DestinationChooser, FeeReceivers, ItemDestination, NewItem, NewSecurePayment},
        },
    },
    flows::{
        FlowResult, beside_others,
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
use std::sync::Arc;

/// Message for an orchestrator with a client ID that is bound to no destination. Source: decisions D49.
const UNBOUND_PAIR: &str = "This client ID is bound to no payee destination: its platform binds it with \
                            payeeDestinationId of PUT /v1/client-ids/{id}";

/// Creates a secure payment.
///
/// Destination, fees and policy are stored with the secure payment, so later changes of them affect no link.
///
/// Errors, in this order:
/// - 403: an account without a wallet.
/// - 429: the maximum number of unpaid requests is reached.
/// - 400 or 403: no destination.
/// - 403: a policy that a public client ID may not request.
/// - 400: every wrong field at once.
///
/// Source: interface §4.7; rules P.3.7; decisions D1; decisions D2; decisions D48; decisions D49.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    input: NewSecurePayment,
    call: RepeatableCall<CreatedSecurePayment>,
) -> FlowResult<KeyedResult<CreatedSecurePayment>> {
    idempotency::once(ctx, caller, call, ResponseStorage::Secret, async |keeper| {
        require_wallet(caller)?;
        let room = room::find(ctx, caller, input.items.len()).await?;
        let client = client_of(ctx, caller).await?;
        let of_client = of_link_creator(ctx, caller, client.as_ref(), PaymentFlow::GetPaid).await?;
        let receivers = fee_receivers(ctx, caller, &of_client).await?;
        let destinations = destinations(ctx, caller, &of_client, &input.items).await?;
        let destination = destinations.choose(&input.items)?;
        let policy = input.policy.resolved(destination.policy, caller)?;
        let currency = currency(ctx, &destination)?;
        let making = LinkCreation {
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
            match commit(ctx, caller, draft, &making.input.names, &room, keeper).await {
                Err(InsertError::Taken) => continue,
                Err(InsertError::Failed(error)) => return Err(error),
                Ok(made) => return Ok(made),
            }
        }
        Err(collided())
    })
    .await
}

/// A secure payment during its creation.
#[derive(Clone)]
struct LinkCreation {
    ctx: Ctx,
    caller: PlatformCaller,
    input: Arc<NewSecurePayment>,
    policy: AccessPolicy,
    destination: Destination,
    currency: PaymentCurrency,
    limits: OfClient,
    receivers: FeeReceivers,
}

impl LinkCreation {
    async fn decided(&self) -> FlowResult<LinkDraft> {
        let making = self.clone();
        beside_others(self.input.items.len(), async move { making.decide() }).await
    }

    fn decide(&self) -> FlowResult<LinkDraft> {
        let Self {
            ctx,
            input,
            destination,
            ..
        } = self;
        let due = self.requested()?;
        let network = self.currency.network;
        let amount = |index| format!("requests[{index}].amount");
        require_payable(ctx, network, &due, "requests", amount)?;
        Ok(LinkDraft {
            flow: PaymentFlow::GetPaid,
            network,
            destination: Some(destination.key),
            creator: None,
            orchestrator: self.caller.orchestrator().cloned(),
            policy: self.policy.clone(),
            about: input.about.clone(),
            expires_at: expires_at(ctx, input.expires_in),
            due,
        })
    }

    /// The requests and the fees of each request. Errors: every wrong field of every item, or a wrong sum of all items
    /// (400).
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
            let fee = item.fee.and_then(|named_by| {
                let (percent, receiver) = named_by.fee;
                named_fee(ctx, receivers, percent, receiver, currency.network, &mut named)
            });
            let is_of_item = item.fee.is_some_and(|fee| fee.is_of_item);
            checks.join(
                named
                    .finish()
                    .map_err(|refusal| if is_of_item { refusal.within(&entry) } else { refusal }),
            );
            due.push((request, fee, is_of_item.then_some(entry)));
        }
        checks.finish()?;
        let due: Vec<_> = due
            .into_iter()
            .filter_map(|(request, fee, entry)| Some((request?, fee, entry)))
            .collect();
        let asked = due.iter().map(|(request, ..)| request.terms.asked());
        limits.limits.check_sum("requests", asked, &ctx.catalogue)?;
        let charged = due.into_iter().map(|(request, fee, entry)| {
            let charges = charges_of_new(ctx, &request, fee).map_err(|refusal| match &entry {
                Some(entry) => refusal.within(entry),
                None => refusal,
            })?;
            FlowResult::Ok((request, charges))
        });
        charged.collect()
    }
}

/// The destinations that a caller may use:
/// - A client ID with a bound destination: only this destination.
/// - An orchestrator with a client ID without a bound destination: none (403).
/// - A signed-in person: the destination of their wallet.
/// - An API key: the destination of the wallets of its platform, or another active destination of the platform by its
///   id.
/// - A backend client ID without a bound destination: an active destination of the platform, which it must name.
/// - A public client ID without a bound destination: the destination of the wallets of its platform. It names no
///   destination, because a stranger could have registered it.
///
/// Source: decisions D49.
async fn destinations(
    ctx: &Ctx,
    caller: &PlatformCaller,
    of_client: &OfClient,
    items: &[NewItem],
) -> FlowResult<DestinationChoice> {
    if let Some(bound) = &of_client.bound {
        return Ok(DestinationChoice {
            choosing: DestinationChooser::Freely,
            own: Some(bound.clone()).filter(Destination::is_in_use).into_iter().collect(),
            others: Vec::new(),
        });
    }
    if caller.orchestrator().is_some() {
        return Err(Refusal::forbidden(UNBOUND_PAIR).into());
    }
    let reader = ctx.db.reader();
    if let Some(wallet) = caller.wallet() {
        let own = store::destinations::active_of(reader, &caller.platform, wallet).await?;
        return Ok(DestinationChoice {
            choosing: DestinationChooser::Freely,
            own: own.filter(Destination::is_in_use).into_iter().collect(),
            others: Vec::new(),
        });
    }
    let choosing = match caller.credential {
        Credential::ClientId { is_public: true, .. } => DestinationChooser::Never,
        Credential::ClientId { is_public: false, .. } => DestinationChooser::ByName,
        Credential::ApiKey { .. } | Credential::Session { .. } => DestinationChooser::Freely,
    };
    let own = match choosing {
        DestinationChooser::ByName => Vec::new(),
        DestinationChooser::Freely | DestinationChooser::Never => {
            store::destinations::own_in_use(reader, &caller.platform).await?
        }
    };
    let named = items.iter().find_map(|item| match item.destination {
        ItemDestination::Named(key) => Some(key),
        ItemDestination::Any | ItemDestination::Unknown => None,
    });
    let others = match named {
        Some(key) if choosing != DestinationChooser::Never => {
            store::destinations::find(reader, &caller.platform, &key).await?
        }
        _ => None,
    };
    Ok(DestinationChoice {
        choosing,
        own,
        others: others.filter(Destination::is_in_use).into_iter().collect(),
    })
}

/// The currency of a destination. Errors: the currency is no longer in the catalogue, or its network is no longer
/// enabled (400).
fn currency(ctx: &Ctx, destination: &Destination) -> Result<PaymentCurrency, Refusal> {
    let key = &destination.key;
    let network = key.interop.network;
    let known = ctx.catalogue.by_token(network, &key.token);
    let gone = || {
        Refusal::invalid(format!(
            "The token of the payment destination is no longer known on {network}"
        ))
    };
    let id = known.map(|currency| currency.id.clone()).ok_or_else(gone)?;
    payment_currency(&ctx.catalogue, &id)
        .map_err(|sentence| Refusal::invalid(format!("The currency of the payment destination {sentence}")))
}

/// Converts the refusal of a request to one with the fields of an item, whose destination determines payee and
/// currency.
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

/// Writes the requests, the secure payment and the response in one transaction.
async fn commit(
    ctx: &Ctx,
    caller: &PlatformCaller,
    draft: LinkDraft,
    names: &MerchantNames,
    room: &RequestRoom,
    keeper: &ResponseKeeper<'_, CreatedSecurePayment>,
) -> Result<CreatedSecurePayment, InsertError> {
    let opened = draft.complete(ctx, caller);
    let (_permit, tx) = begin(ctx, caller, room, "create_secure_payment")
        .await
        .map_err(InsertError::Failed)?;
    let requests: Vec<&Request> = opened.requests.iter().collect();
    store::requests::insert_all(&tx, &requests).await?;
    crate::fail_at("create_secure_payment", "requests_inserted");
    store::secure_payments::insert(&tx, &opened.payment, names).await?;
    crate::fail_at("create_secure_payment", "inserted");
    room.check(ctx, &tx).await.map_err(InsertError::Failed)?;
    let made = respond_with(ctx, opened);
    keeper.commit(tx, &made).await.map_err(InsertError::Failed)?;
    Ok(made)
}
