//! What every operation does that makes a secure payment.

use super::opened::Opened;
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        amount::Percent,
        batch::too_much_gas,
        batch_call::{Batch, BatchItem, BatchTerms, fitting},
        caller::{Credential, Person, PlatformCaller},
        currency::ContractKind,
        fees::{Fees, of_call},
        ids::{SecurePaymentId, SecurePaymentToken},
        interop_address::DestinationKey,
        network::Network,
        refusal::{Checks, Refusal},
        request::{Request, plan::OfClient},
        secure_payment::{
            About, Item, PaymentFlow, SecurePayment, SecurePaymentKind, SecurePaymentStatus, access::AccessPolicy,
            attempt::Attempts, fee_plan::FeePlan, plan::FeeReceivers,
        },
    },
    flows::{
        FlowError, FlowResult,
        requests::{
            create::origin,
            places::Place,
            planned::{Planned, outlined},
            room::{self, Room},
        },
    },
    store::{self, Tx},
};
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeMap;

/// What is said to an account that signs in without a wallet. Source: rules P.3.7.
const NO_WALLET: &str = "Secure payments belong to wallets: sign in with the wallet that is paid or pays";

/// A secure payment that was made.
#[derive(Debug, Clone)]
pub struct Made {
    /// The secure payment.
    pub payment: SecurePayment,
    /// Where payers find it.
    pub url: String,
    /// Its fees in dollars; `None` where it is not paid in one dollar token.
    pub fee_plan: Option<FeePlan>,
}

/// A secure payment that is being made.
pub(super) struct Draft {
    pub(super) flow: PaymentFlow,
    pub(super) kind: SecurePaymentKind,
    pub(super) network: Network,
    pub(super) destination: Option<DestinationKey>,
    pub(super) creator: Option<String>,
    pub(super) policy: AccessPolicy,
    pub(super) about: About,
    pub(super) expires_at: DateTime<Utc>,
    pub(super) due: Vec<(Request, Fees)>,
}

impl Draft {
    /// What it becomes: a fresh token, and what it was made of as it is now.
    pub(super) fn made(self, ctx: &Ctx, caller: &PlatformCaller) -> Opened {
        let item = |(request, fees): &(Request, Fees)| Item {
            request: request.row.clone(),
            request_id: request.id.clone(),
            fees: *fees,
        };
        let payment = SecurePayment {
            id: SecurePaymentId(ctx.ids.ulid()),
            token: SecurePaymentToken(ctx.ids.ulid()),
            origin: origin(caller),
            flow: self.flow,
            kind: self.kind,
            status: SecurePaymentStatus::Pending,
            network: self.network,
            destination: self.destination,
            creator: self.creator,
            policy: self.policy,
            about: self.about,
            hinted_at: None,
            attempts: Attempts::default(),
            created_at: ctx.clock.now(),
            expires_at: self.expires_at,
            completed_at: None,
            items: self.due.iter().map(item).collect(),
        };
        let is_hidden = payment.policy.hides_anything();
        let requests = self.due.into_iter().map(|(mut request, fees)| {
            request.is_hidden |= is_hidden;
            request.link_until = Some(payment.expires_at);
            // Payments are held to the fees of the link, also without calldata of the service.
            request.terms.price.fees = Fees {
                is_own: fees.platform.is_some(),
                ..fees
            };
            request
        });
        Opened {
            now: payment.created_at,
            is_seen: false,
            requests: requests.collect(),
            payment,
        }
    }
}

/// Where payers find a secure payment. Source: rules P.3.7.
pub(super) fn url(ctx: &Ctx, payment: &SecurePayment) -> String {
    format!("{}/?token={}", ctx.secure_payments.pay_url, payment.token.as_str())
}

/// What is answered about one that was made.
pub(super) fn told(ctx: &Ctx, opened: Opened) -> Made {
    Made {
        url: url(ctx, &opened.payment),
        fee_plan: opened.fee_plan(ctx),
        payment: opened.payment,
    }
}

/// Until when a secure payment can be paid that is made now.
pub(super) fn expires_at(ctx: &Ctx, asked: Option<TimeDelta>) -> DateTime<Utc> {
    ctx.clock.now() + asked.unwrap_or(ctx.secure_payments.lasts)
}

/// Errors: an account without a wallet (403).
pub(super) fn require_wallet(caller: &PlatformCaller) -> Result<(), Refusal> {
    match caller.credential {
        Credential::Session {
            person: Person::Account(_),
            ..
        } => Err(Refusal::forbidden(NO_WALLET)),
        _ => Ok(()),
    }
}

/// Begins the transaction of a caller that makes one. Those of public client IDs are few at a time, and so are those that
/// are counted. Errors: it takes too long until others have made theirs (429).
pub(super) async fn begin(
    ctx: &Ctx,
    caller: &PlatformCaller,
    room: &Room,
    name: &'static str,
) -> FlowResult<(Option<Place>, Tx)> {
    let place = match caller.is_public() {
        true => Some(room::place(ctx, caller).await?),
        false => room.place(ctx, caller).await?,
    };
    Ok((place, ctx.db.begin(name).await?))
}

/// Who may get the fees that a caller names. A link with them is the platform's to whoever pays it, and everybody may hold
/// a public client ID.
pub(super) async fn fee_receivers(
    ctx: &Ctx,
    caller: &PlatformCaller,
    of_client: &OfClient,
) -> FlowResult<FeeReceivers> {
    if !caller.is_public() {
        return Ok(FeeReceivers::Anybody);
    }
    let own = store::destinations::own_in_use(ctx.db.reader(), &caller.platform).await?;
    let wallets = own.iter().chain(&of_client.bound).map(|known| known.key.interop.wallet);
    let payees = of_client.limits.payees.iter().copied();
    Ok(FeeReceivers::Among(wallets.chain(payees).collect()))
}

/// A fee that a call names, once it may; notes what is wrong with it.
pub(super) fn named_fee(
    ctx: &Ctx,
    receivers: &FeeReceivers,
    (percent, receiver): (Percent, Address),
    network: Network,
    checks: &mut Checks,
) -> Option<(Percent, Address)> {
    let receiver = checks.take("feeAddress", receivers.admit(receiver))?;
    of_call(Some((percent, receiver)), network, &ctx.catalogue, checks)
}

/// How requests are paid with what is charged on top of each, as long as nothing of them is paid; `field` names the amount
/// of one of them by its place.
///
/// Errors: the first one that is too large together with its fees, so that nobody could pay it (400).
pub(super) fn outlined_all(
    ctx: &Ctx,
    due: &[(Request, Fees)],
    field: impl Fn(usize) -> String,
) -> FlowResult<Vec<Planned>> {
    let planned = due.iter().enumerate().map(|(index, (request, fees))| {
        let (plan, further_fees) =
            outlined(ctx, request, request.ledger.remaining(), fees).map_err(|error| match error {
                FlowError::Refused(mut refusal) => {
                    for error in &mut refusal.fields {
                        error.field = field(index);
                    }
                    refusal.into()
                }
                other => other,
            })?;
        FlowResult::Ok(Planned {
            plan,
            further_fees,
            fees: *fees,
            quote: None,
        })
    });
    planned.collect()
}

/// Checks that several payments fit into one transaction, so that a link that is handed on can be paid. `list` is the
/// member that names them. Errors: they do not, or the network has no contract for them (400).
pub(super) fn check_gas(ctx: &Ctx, network: Network, list: &str, planned: &[Planned]) -> FlowResult<()> {
    let contract = ctx
        .catalogue
        .default_contract(network, ContractKind::BatchConversionPayments);
    let Some(contract) = contract else {
        let sentence = format!("must have one item: {network} has no contract that makes several payments at once");
        return Err(Refusal::field(list, sentence).into());
    };
    let items = planned.iter().map(|planned| BatchItem {
        plan: &planned.plan,
        further_fees: &planned.further_fees,
    });
    let items: Vec<BatchItem<'_>> = items.collect();
    // What the contract takes for itself changes no gas.
    let terms = BatchTerms {
        contract,
        fee_basis_points: 0,
        paths_to_usd: BTreeMap::new(),
    };
    let batch = Batch::of(&terms, &items, None).map_err(|error| Refusal::field(list, error.to_string()))?;
    let (gas, gas_max) = (batch.gas(), ctx.payments.batch_gas);
    if gas > gas_max {
        let counts = (items.len(), fitting(&terms, &items, None, gas_max));
        return Err(too_much_gas(list, counts, (gas, gas_max)).into());
    }
    Ok(())
}
