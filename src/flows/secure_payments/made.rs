//! What every operation does that makes a secure payment.

use super::opened::Opened;
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        amount::Percent,
        caller::{Credential, Person, PlatformCaller},
        ids::{SecurePaymentId, SecurePaymentToken},
        interop_address::DestinationKey,
        network::Network,
        paying::{
            BundleError,
            batch_contract::too_much_gas,
            charge::{Charges, of_call},
        },
        refusal::{Checks, Refusal},
        request::{Request, plan::OfClient},
        secure_payment::{
            About, Item, PaymentFlow, SecurePayment, SecurePaymentStatus, access::AccessPolicy, attempt::Attempts,
            fee_plan::FeePlan, plan::FeeReceivers,
        },
    },
    flows::{
        FlowError, FlowResult,
        admission::HeldPermit,
        paying::{HandoutError, check_payable},
        requests::{
            create::origin,
            room::{self, Room},
        },
    },
    store::{self, Tx},
};
use chrono::{DateTime, TimeDelta, Utc};

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
    pub(super) network: Network,
    pub(super) destination: Option<DestinationKey>,
    pub(super) creator: Option<String>,
    pub(super) policy: AccessPolicy,
    pub(super) about: About,
    pub(super) expires_at: DateTime<Utc>,
    pub(super) due: Vec<(Request, Charges)>,
}

impl Draft {
    /// What it becomes: a fresh token, and what it was made of as it is now.
    pub(super) fn made(self, ctx: &Ctx, caller: &PlatformCaller) -> Opened {
        let item = |(request, charges): &(Request, Charges)| Item {
            request: request.row.clone(),
            request_id: request.id.clone(),
            charges: charges.clone(),
        };
        let payment = SecurePayment {
            id: SecurePaymentId(ctx.ids.ulid()),
            token: SecurePaymentToken(ctx.ids.ulid()),
            origin: origin(caller),
            flow: self.flow,
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
        let requests = self.due.into_iter().map(|(mut request, charges)| {
            request.is_hidden |= is_hidden;
            request.link_until = Some(payment.expires_at);
            // Payments are held to the fees of the link, also without calldata of the service.
            request.terms.price.charges = charges;
            request
        });
        Opened {
            now: payment.created_at,
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
) -> FlowResult<(Option<HeldPermit>, Tx)> {
    let permit = match caller.is_public() {
        true => Some(room::permit(ctx, caller).await?),
        false => room.permit(ctx, caller).await?,
    };
    Ok((permit, ctx.db.begin(name).await?))
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

/// Checks that requests can be paid with what is charged on top of each, several of them in one transaction, so that a link
/// that is handed on can be paid. `list` is the member that names them, `amount` that of one of them by its place.
///
/// Errors: the first one that is too large together with its fees, too many, or a network without a contract for several
/// (400).
pub(super) fn require_payable(
    ctx: &Ctx,
    network: Network,
    due: &[(Request, Charges)],
    (list, amount): (&str, impl Fn(usize) -> String),
) -> FlowResult<()> {
    check_payable(ctx, network, due).map_err(|error| match error {
        HandoutError::Payment(index, FlowError::Refused(mut refusal)) => {
            for error in &mut refusal.fields {
                error.field = amount(index);
            }
            refusal.into()
        }
        HandoutError::TooLarge(_) => Refusal::field(list, BundleError::TooLarge.to_string()).into(),
        HandoutError::TooMuchGas { counts, gas } => too_much_gas(list, counts, gas).into(),
        HandoutError::NoBatchContract(network) => {
            let sentence = format!("must have one item: {network} has no contract that makes several payments at once");
            Refusal::field(list, sentence).into()
        }
        other => other.alone(),
    })
}
