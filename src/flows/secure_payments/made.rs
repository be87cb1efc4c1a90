//! Common steps of all operations that create a secure payment.

use super::opened::OpenedLink;
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        amount::Percent,
        caller::{Credential, PlatformCaller, SignedInPerson},
        ids::{OrchestratorId, SecurePaymentId, SecurePaymentToken},
        interop_address::DestinationKey,
        network::Network,
        paying::{
            BundleError,
            batch_contract::too_much_gas,
            charge::{Charges, of_call},
        },
        refusal::{Checks, Refusal},
        request::{Origin, Request, plan::OfClient},
        secure_payment::{
            LinkDetails, PaymentFlow, PaymentItem, SecurePayment, SecurePaymentStatus, access::AccessPolicy,
            attempt::WalletAttempts, fee_plan::FeePlan, plan::FeeReceivers,
        },
    },
    flows::{
        FlowError, FlowResult,
        admission::HeldPermit,
        paying::{HandoutError, check_payable},
        requests::{
            create::origin,
            room::{self, RequestRoom},
        },
    },
    store::{self, Tx},
};
use chrono::{DateTime, TimeDelta, Utc};

/// Message for an account that signs in without a wallet. Source: rules P.3.7.
const NO_WALLET: &str = "Secure payments belong to wallets: sign in with the wallet that receives or sends the payment";

/// A created secure payment.
#[derive(Debug, Clone)]
pub struct CreatedSecurePayment {
    /// The secure payment.
    pub payment: SecurePayment,
    /// Page for payers.
    pub url: String,
    /// Fees in dollars; `None` unless the whole payment is in one dollar token.
    pub fee_plan: Option<FeePlan>,
}

/// A secure payment during its creation.
pub(super) struct LinkDraft {
    pub(super) flow: PaymentFlow,
    pub(super) network: Network,
    pub(super) destination: Option<DestinationKey>,
    pub(super) creator: Option<String>,
    /// Orchestrator that creates it, or created its parts.
    pub(super) orchestrator: Option<OrchestratorId>,
    pub(super) policy: AccessPolicy,
    pub(super) about: LinkDetails,
    pub(super) expires_at: DateTime<Utc>,
    pub(super) due: Vec<(Request, Charges)>,
}

impl LinkDraft {
    /// Completes the secure payment with a fresh token and the current state of its inputs.
    pub(super) fn complete(self, ctx: &Ctx, caller: &PlatformCaller) -> OpenedLink {
        let item = |(request, charges): &(Request, Charges)| PaymentItem {
            request: request.row.clone(),
            request_id: request.id.clone(),
            charges: charges.clone(),
            child: None,
        };
        let payment = SecurePayment {
            id: SecurePaymentId(ctx.ids.ulid()),
            token: SecurePaymentToken(ctx.ids.ulid()),
            origin: Origin {
                orchestrator: self.orchestrator,
                ..origin(caller)
            },
            flow: self.flow,
            status: SecurePaymentStatus::Pending,
            network: self.network,
            destination: self.destination,
            creator: self.creator,
            policy: self.policy,
            about: self.about,
            hinted_at: None,
            attempts: WalletAttempts::default(),
            lock: None,
            locks_released_at: None,
            created_at: ctx.clock.now(),
            expires_at: self.expires_at,
            completed_at: None,
            items: self.due.iter().map(item).collect(),
        };
        let is_hidden = payment.policy.hides_anything();
        let requests = self.due.into_iter().map(|(mut request, charges)| {
            request.is_hidden |= is_hidden;
            request.link_until = Some(payment.expires_at);
            // The fees are part of the price terms, so a payment must include them even if its calldata was not issued
            // by the service.
            request.terms.price.charges = charges;
            request
        });
        OpenedLink {
            now: payment.created_at,
            requests: requests.collect(),
            payment,
        }
    }
}

/// Page for payers of a secure payment. Source: rules P.3.7.
pub(super) fn url(ctx: &Ctx, payment: &SecurePayment) -> String {
    format!("{}/?token={}", ctx.secure_payments.pay_url, payment.token.as_str())
}

/// The response about a created secure payment.
pub(super) fn respond_with(ctx: &Ctx, opened: OpenedLink) -> CreatedSecurePayment {
    CreatedSecurePayment {
        url: url(ctx, &opened.payment),
        fee_plan: opened.fee_plan(ctx),
        payment: opened.payment,
    }
}

/// Time of expiry of a secure payment that is created now.
pub(super) fn expires_at(ctx: &Ctx, asked: Option<TimeDelta>) -> DateTime<Utc> {
    ctx.clock.now() + asked.unwrap_or(ctx.secure_payments.lasts)
}

/// Errors: an account without a wallet (403).
pub(super) fn require_wallet(caller: &PlatformCaller) -> Result<(), Refusal> {
    match caller.credential {
        Credential::Session {
            person: SignedInPerson::Account(_),
            ..
        } => Err(Refusal::forbidden(NO_WALLET)),
        _ => Ok(()),
    }
}

/// Begins the transaction that creates a secure payment. Transactions of public client IDs, and transactions that count
/// open requests, run a few at a time. Errors: the wait for other transactions takes too long (429).
pub(super) async fn begin(
    ctx: &Ctx,
    caller: &PlatformCaller,
    room: &RequestRoom,
    name: &'static str,
) -> FlowResult<(Option<HeldPermit>, Tx)> {
    let permit = if caller.is_public() {
        Some(room::permit(ctx, caller).await?)
    } else {
        room.permit(ctx, caller).await?
    };
    Ok((permit, begin_as(ctx, caller, name).await?))
}

/// Begins the transaction that creates a secure payment. Until its end, the link between the client ID of the call and
/// an orchestrator does not end.
///
/// Errors: the caller may not create links with its client ID, because this link began or ended since the call was
/// admitted (403).
pub(super) async fn begin_as(ctx: &Ctx, caller: &PlatformCaller, name: &'static str) -> FlowResult<Tx> {
    let tx = ctx.db.begin(name).await?;
    if let Some(client) = caller.client() {
        let linked = store::orchestrator_links::hold(&tx, &caller.platform, client).await?;
        caller.admit_link(linked.as_ref())?;
    }
    Ok(tx)
}

/// Receivers to which a caller may direct the fee of a link. The set is limited, because payers trust every link as a
/// link of the platform. But a stranger with a public client ID, or an orchestrator with a linked client ID, can also
/// create links.
pub(super) async fn fee_receivers(
    ctx: &Ctx,
    caller: &PlatformCaller,
    of_client: &OfClient,
) -> FlowResult<FeeReceivers> {
    if !caller.is_outsider() {
        return Ok(FeeReceivers::Anybody);
    }
    let own = store::destinations::own_in_use(ctx.db.reader(), &caller.platform).await?;
    let wallets = own.iter().chain(&of_client.bound).map(|known| known.key.interop.wallet);
    let payees = of_client.limits.payees.iter().copied();
    Ok(FeeReceivers::Among(wallets.chain(payees).collect()))
}

/// Returns the fee that a call names, if the fee is allowed. Otherwise reports what is wrong with it.
pub(super) fn named_fee(
    ctx: &Ctx,
    receivers: &FeeReceivers,
    percent: Percent,
    receiver: Address,
    network: Network,
    checks: &mut Checks,
) -> Option<(Percent, Address)> {
    let receiver = checks.take("feeAddress", receivers.admit(receiver))?;
    of_call(Some((percent, receiver)), network, &ctx.catalogue, checks)
}

/// Checks that requests can be paid with their fees, several requests in one transaction, so that an issued link is
/// payable. `list` is the body member with the requests. `amount` returns the amount member of the request at an index.
///
/// Errors (400): a request that is too large with its fees, too many requests, or a network without a batch contract.
pub(super) fn require_payable(
    ctx: &Ctx,
    network: Network,
    due: &[(Request, Charges)],
    list: &str,
    amount: impl Fn(usize) -> String,
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
            let sentence =
                format!("must have one item: {network} has no contract for several payments in one transaction");
            Refusal::field(list, sentence).into()
        }
        other => other.alone(),
    })
}
