//! Opens a secure payment for a payer before paying it.

use super::{access, opened::OpenedLink, options, safe};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        network_support::{check_accounts, has_smart_accounts},
        refusal::{Checks, FieldError, Refusal},
        secure_payment::{
            SecurePayment,
            access::{AccessDecision, AccessStatus, LinkPayer},
            fee_plan::FeePlan,
            intent::Source,
            options::PaymentOption,
        },
    },
    flows::FlowResult,
};

/// Message for a wallet of another network while the link hides its network.
const OTHER_NETWORK: &str = "must be an address of the network of this payment";

/// Message for another chain or token while both are hidden. It does not say which of the two differs.
const OTHER_SOURCE: &str = "must match this payment, which accepts no other chain or token";

/// Who opens the link, and from where they would pay; every value is valid on its own.
#[derive(Debug, Clone, Default)]
pub struct LinkVisit {
    /// Who wants to pay.
    pub payer: Option<LinkPayer>,
    /// Chain and token to pay from.
    pub source: Option<Source>,
    /// Whether the paying wallet is a Safe.
    pub is_safe: bool,
}

impl LinkVisit {
    /// The paying Safe, if the call names one.
    pub(super) fn safe(&self) -> Option<Address> {
        self.payer.filter(|_| self.is_safe).map(|payer| payer.wallet)
    }
}

/// A secure payment as a payer sees it.
#[derive(Debug, Clone)]
pub struct LinkView {
    /// Whether amounts and parties stay hidden, because the payer is not approved yet.
    pub is_masked: bool,
    /// Whether the payer may pay; `None` if any wallet may pay, or no wallet is given.
    pub access: Option<AccessDecision>,
    /// Chains and tokens to pay from; `None` if no wallet is given or the wallet may not pay. On a network with a
    /// fallback account, they show its balances if no wallet is given.
    pub options: Option<Vec<PaymentOption>>,
    /// The fees in dollars.
    pub fee_plan: Option<FeePlan>,
}

/// Returns a payable secure payment.
///
/// Errors: the payment can no longer be paid (403); it is paid (409); a Safe is about to pay it (423); a wallet of another
/// network, a chain without a route, or a wallet that is no Safe although the call says so (400). Source: interface
/// §4.7; rules P.3.7.
pub async fn run(ctx: &Ctx, opened: &OpenedLink, look: &LinkVisit) -> FlowResult<LinkView> {
    opened.payable().map_err(Refusal::from)?;
    show(ctx, opened, look, true).await
}

/// The link for a payer. The options of the payer are looked up only if the transaction that pays the link can be
/// issued (`is_executable`). Errors: those of [`run`] that do not depend on the state of the link.
pub(super) async fn show(
    ctx: &Ctx,
    opened: &OpenedLink,
    look: &LinkVisit,
    is_executable: bool,
) -> FlowResult<LinkView> {
    opened.unlocked()?;
    check(ctx, opened, look)?;
    let payment = &opened.payment;
    let access = match &look.payer {
        Some(payer) => access::decide(ctx, payment, payer).await?,
        None => None,
    };
    let is_let_in = match &access {
        Some(decision) => decision.status == AccessStatus::Approved,
        None => look.payer.is_some(),
    };
    let is_masked = payment.policy.hides_until_approved && !is_let_in;
    // A wallet that may not pay learns nothing about the network of the link.
    safe::find(ctx, payment, look.safe().filter(|_| is_let_in)).await?;
    if !is_masked {
        check_hidden_source(ctx, opened, look)?;
    }
    let account = match &look.payer {
        Some(payer) => is_let_in.then_some(payer.wallet),
        None => fallback_account(ctx, payment),
    };
    let options = match account.filter(|_| is_executable) {
        Some(account) => Some(options::of(ctx, opened, account).await),
        None => None,
    };
    Ok(LinkView {
        is_masked,
        access,
        options,
        fee_plan: opened.fee_plan(ctx),
    })
}

/// The account whose balances are shown while no wallet is given, if any wallet may pay.
fn fallback_account(ctx: &Ctx, payment: &SecurePayment) -> Option<Address> {
    let lookups = ctx.partners.chains.preparations.get(&payment.network)?;
    let is_open = !payment.policy.asks_who_pays(payment.flow);
    lookups.fallback_account().filter(|_| is_open)
}

/// Checks the wallet, and the chain and token to pay from. If chain and token are hidden until the payer is approved,
/// they are checked later by [`check_hidden_source`], so that trying values does not reveal them. Errors: every wrong
/// field (400).
pub(super) fn check(ctx: &Ctx, opened: &OpenedLink, look: &LinkVisit) -> Result<(), Refusal> {
    let payment = &opened.payment;
    let is_hidden = payment.policy.hides_until_approved;
    let usable = |wallet: Address| {
        let usable = wallet.usable_on(payment.network);
        usable.map_err(|error| {
            if is_hidden {
                OTHER_NETWORK.to_owned()
            } else {
                error.to_string()
            }
        })
    };
    let mut checks = Checks::new();
    let names_eoa = look.payer.is_some_and(|payer| payer.eoa.is_some());
    check_accounts(payment.network, names_eoa, look.is_safe, &mut checks);
    if let Some(payer) = &look.payer {
        checks.take("wallet", usable(payer.wallet));
        if let Some(eoa) = payer.eoa.filter(|_| has_smart_accounts(payment.network)) {
            checks.take("eoaWallet", usable(eoa));
        }
    }
    if !is_hidden {
        checks.join(check_source(ctx, opened, look));
    }
    checks.finish()
}

/// Checks the chain and token of an approved payer, if they were hidden before. Errors: another chain or token (400).
pub(super) fn check_hidden_source(ctx: &Ctx, opened: &OpenedLink, look: &LinkVisit) -> Result<(), Refusal> {
    if opened.payment.policy.hides_until_approved {
        check_source(ctx, opened, look)
    } else {
        Ok(())
    }
}

/// Checks the chain and token to pay from. Errors: another chain or token (400).
fn check_source(ctx: &Ctx, opened: &OpenedLink, look: &LinkVisit) -> Result<(), Refusal> {
    let Some(source) = &look.source else {
        return Ok(());
    };
    let requests = opened.requests.iter();
    let ids = requests.map(|request| request.terms.payment_currency.as_str());
    let known = ids.filter_map(|id| ctx.catalogue.find(id));
    let mut symbols: Vec<&str> = known.map(|currency| currency.symbol.as_str()).collect();
    symbols.dedup();
    opened.payment.check_source(source, &symbols)
}

/// Checks chain and token without an access check, so the message reveals nothing that is hidden. Errors: another chain
/// or token (400).
pub(super) fn check_source_unseen(ctx: &Ctx, opened: &OpenedLink, look: &LinkVisit) -> Result<(), Refusal> {
    check_hidden_source(ctx, opened, look).map_err(|_| {
        let fields = ["chain", "token"].map(|field| FieldError::new(field, OTHER_SOURCE));
        Refusal::fields(fields.into())
    })
}
