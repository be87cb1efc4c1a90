//! What a payer is shown of a secure payment before paying it.

use super::{access, opened::Opened, options};
use crate::{
    ctx::Ctx,
    domain::{
        refusal::{Checks, Refusal},
        secure_payment::{
            access::{AccessDecision, AccessStatus, Payer},
            fee_plan::FeePlan,
            intent::Source,
            options::PaymentOption,
        },
    },
    flows::FlowResult,
};

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
    let options = match &look.payer {
        Some(payer) if is_let_in => Some(options::of(ctx, opened, payer.wallet).await),
        _ => None,
    };
    Ok(Shown {
        is_masked: payment.policy.hides_until_approved && !is_let_in,
        access,
        options,
        fee_plan: opened.fee_plan(ctx),
    })
}

/// Checks who looks and from where. Errors: every wrong field (400).
pub(super) fn check(ctx: &Ctx, opened: &Opened, look: &Look) -> Result<(), Refusal> {
    let network = opened.payment.network;
    let mut checks = Checks::new();
    if let Some(payer) = &look.payer {
        checks.take("wallet", payer.wallet.usable_on(network));
        if let Some(eoa) = payer.eoa {
            checks.take("eoaWallet", eoa.usable_on(network));
        }
    }
    if let Some(source) = &look.source {
        let ids = opened
            .requests
            .iter()
            .map(|request| request.terms.payment_currency.as_str());
        let known = ids.filter_map(|id| ctx.catalogue.find(id));
        let mut symbols: Vec<&str> = known.map(|currency| currency.symbol.as_str()).collect();
        symbols.dedup();
        checks.join(opened.payment.check_source(source, &symbols));
    }
    checks.finish()
}
