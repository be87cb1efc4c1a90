//! What a payer is shown of a secure payment before paying it.

use super::{access, opened::Opened, options};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        refusal::{Checks, FieldError, Refusal},
        secure_payment::{
            access::{AccessDecision, AccessStatus, Payer},
            fee_plan::FeePlan,
            intent::Source,
            options::PaymentOption,
        },
    },
    flows::FlowResult,
};

/// What is said of a wallet of another network where the network is hidden.
const OTHER_NETWORK: &str = "must be an address of the network of this payment";

/// What is said of another chain or token where both are hidden, whichever of them is another one.
const OTHER_SOURCE: &str = "must be absent, or that of the payment: nothing else pays this";

/// Who looks, and from where he would pay; every value holds for itself.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// Who wants to pay.
    pub payer: Option<Payer>,
    /// From which chain and in which token.
    pub source: Option<Source>,
}

/// A secure payment as a payer may see it.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Whether everything about money and people stays hidden: the payer is not approved yet.
    pub is_masked: bool,
    /// Whether the payer may pay; `None` where everybody may, and where nobody is named.
    pub access: Option<AccessDecision>,
    /// From where the payer could pay; `None` where nobody is named, and for one who may not pay.
    pub options: Option<Vec<PaymentOption>>,
    /// The fees in dollars.
    pub fee_plan: Option<FeePlan>,
}

/// Shows a secure payment that can be paid.
///
/// Errors: it cannot be paid any more (403), it is paid (409), a wallet of another network or a chain without a route
/// (400). Source: interface §4.7; rules P.3.7.
pub async fn run(ctx: &Ctx, opened: &Opened, look: &Look) -> FlowResult<Shown> {
    opened.payable().map_err(Refusal::from)?;
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
    if !is_masked {
        check_hidden_source(ctx, opened, look)?;
    }
    let options = match &look.payer {
        Some(payer) if is_let_in => Some(options::of(ctx, opened, payer.wallet).await),
        _ => None,
    };
    Ok(Shown {
        is_masked,
        access,
        options,
        fee_plan: opened.fee_plan(ctx),
    })
}

/// Checks who looks and from where. A chain and a token that are hidden until the payer is approved are left to
/// [`check_hidden_source`], so that nobody finds them by trying. Errors: every wrong field (400).
pub(super) fn check(ctx: &Ctx, opened: &Opened, look: &Look) -> Result<(), Refusal> {
    let payment = &opened.payment;
    let is_hidden = payment.policy.hides_until_approved;
    let usable = |wallet: Address| {
        let usable = wallet.usable_on(payment.network);
        usable.map_err(|error| match is_hidden {
            true => OTHER_NETWORK.to_owned(),
            false => error.to_string(),
        })
    };
    let mut checks = Checks::new();
    if let Some(payer) = &look.payer {
        checks.take("wallet", usable(payer.wallet));
        if let Some(eoa) = payer.eoa {
            checks.take("eoaWallet", usable(eoa));
        }
    }
    if !is_hidden {
        checks.join(check_source(ctx, opened, look));
    }
    checks.finish()
}

/// Checks from where somebody pays who was let in, where that was hidden before. Errors: another chain or token (400).
pub(super) fn check_hidden_source(ctx: &Ctx, opened: &Opened, look: &Look) -> Result<(), Refusal> {
    if opened.payment.policy.hides_until_approved {
        check_source(ctx, opened, look)
    } else {
        Ok(())
    }
}

/// Checks from where somebody pays. Errors: another chain or token (400).
fn check_source(ctx: &Ctx, opened: &Opened, look: &Look) -> Result<(), Refusal> {
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

/// The same for whoever was asked nothing, so that what is hidden stands in no refusal. Errors: another chain or token (400).
pub(super) fn check_source_unseen(ctx: &Ctx, opened: &Opened, look: &Look) -> Result<(), Refusal> {
    check_hidden_source(ctx, opened, look).map_err(|_| {
        let fields = ["chain", "token"].map(|field| FieldError::new(field, OTHER_SOURCE));
        Refusal::fields(fields.into())
    })
}
