//! Issues the calldata that pays a request.

use super::{find, of_client::client_of};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        amount::{Amount, Percent},
        caller::PlatformCaller,
        client_id::ClientId,
        network_support::refuse_crosschain,
        paying::charge::of_call,
        refusal::{Checks, Refusal},
        request::Request,
    },
    flows::{
        FlowResult,
        off_ramp::{self, pay::PayToBank},
        paying::{
            Handout, PaymentDue, charges, hand_out_alone,
            keep::{handed_out, keep},
            legs::{RequestCurrencies, currencies},
            lookup::Lookup,
        },
    },
    store,
};

/// Input of a caller; every value is valid on its own.
#[derive(Debug, Clone, Default)]
pub struct PayInput {
    /// Payer.
    pub wallet: Option<Address>,
    /// Whether the caller wants to pay from another chain.
    pub is_crosschain: bool,
    /// Part of the amount, in the invoice currency.
    pub amount: Option<Amount>,
    /// Payer of an off-ramp payment.
    pub client_user_id: Option<String>,
    /// Bank account of an off-ramp payment.
    pub payment_details_id: Option<String>,
    /// Fee and its receiver.
    pub fee: Option<(Percent, Address)>,
}

/// Plans the payment and looks up the payer.
///
/// Without `wallet`, no node is needed for a direct payment. The terms of the calldata are stored before it is
/// returned, so that payments can be compared with them.
///
/// Errors:
/// - 400: invalid fields, or a request of a secure payment, whose policy decides who may pay.
/// - 404: an unknown request.
/// - 502: no node responds to a needed query.
///
/// Source: interface §4.3; rules P.3.3; decisions D10; decisions D38.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, request_id: &str, input: &PayInput) -> FlowResult<Handout> {
    let request = find(ctx, caller, request_id).await?;
    let client = client_of(ctx, caller).await?;
    if request.terms.payee.is_none() {
        let asked = decide_for_bank(ctx, &request, input, client.as_ref())?;
        return off_ramp::pay::run(ctx, caller, &request, asked).await;
    }
    let currencies = currencies(ctx, &request)?;
    let (wallet, due) = decide(ctx, &request, &currencies, input, client.as_ref())?;
    let lookup = Lookup::of_caller(ctx, caller, request.terms.network);
    let handout = hand_out_alone(ctx, &lookup, due, wallet.map(|wallet| ("wallet", wallet))).await?;
    let now = ctx.clock.now();
    let mut is_told = request.ledger.is_listening;
    for payment in &handout.payments {
        let is_kept = match handed_out(caller.into(), payment) {
            Some(handed) => {
                store::handed_out::is_kept(ctx.db.reader(), &request, caller.client(), &handed, now).await?
            }
            None => true,
        };
        is_told &= is_kept && payment.quote.is_none();
    }
    if !is_told {
        let tx = ctx.db.begin("issue_calldata").await?;
        keep(&tx, caller, &handout.payments, now).await?;
        tx.commit().await?;
    }
    Ok(handout)
}

/// Checks the input for a request that is paid to a bank account: payer and account are required, and the payment must
/// cover the remaining amount.
fn decide_for_bank<'a>(
    ctx: &Ctx,
    request: &Request,
    input: &'a PayInput,
    client: Option<&ClientId>,
) -> FlowResult<PayToBank<'a>> {
    let network = request.terms.network;
    let mut checks = Checks::new();
    let wallet = input
        .wallet
        .and_then(|wallet| checks.take("wallet", wallet.usable_on(network)));
    if input.is_crosschain {
        checks.fail(
            "chain",
            "must be absent: a payment to a bank account is only possible on the network of the request",
        );
    }
    if input.amount.is_some() {
        checks.fail(
            "amount",
            "must be absent: a payment to a bank account always pays the whole remaining amount",
        );
    }
    let client_user_id = named(&input.client_user_id, "clientUserId", &mut checks);
    let payment_details_id = named(&input.payment_details_id, "paymentDetailsId", &mut checks);
    let fee = of_call(input.fee, network, &ctx.catalogue, &mut checks);
    let (client_user_id, payment_details_id) = checks.finish_with(client_user_id.zip(payment_details_id))?;
    request.payable().map_err(|why| Refusal::invalid(why.alone()))?;
    Ok(PayToBank {
        client_user_id,
        payment_details_id,
        wallet,
        charges: charges(ctx, request, client, fee)?,
    })
}

fn named<'a>(value: &'a Option<String>, field: &str, checks: &mut Checks) -> Option<&'a str> {
    let value = value.as_deref();
    if value.is_none() {
        checks.fail(
            field,
            "is required: the request is paid to a bank account, which clientUserId and paymentDetailsId identify",
        );
    }
    value
}

/// Checks the input and returns the paying wallet and the amount due.
fn decide(
    ctx: &Ctx,
    request: &Request,
    currencies: &RequestCurrencies<'_>,
    input: &PayInput,
    client: Option<&ClientId>,
) -> FlowResult<(Option<Address>, PaymentDue)> {
    let Request { terms, ledger, .. } = request;
    let mut checks = Checks::new();
    let wallet = input
        .wallet
        .and_then(|wallet| checks.take("wallet", wallet.usable_on(terms.network)));
    if input.is_crosschain {
        refuse_crosschain(terms.network, &mut checks);
    }
    for (field, value) in [
        ("clientUserId", &input.client_user_id),
        ("paymentDetailsId", &input.payment_details_id),
    ] {
        if value.is_some() {
            checks.fail(field, "must be absent: the request is not a crypto-to-fiat request");
        }
    }
    let decimals = terms.settlement_decimals(currencies.payment);
    let part = input.amount.as_ref().and_then(|amount| {
        checks.take("amount", amount.to_units(currencies.invoice.decimals))?;
        checks.take("amount", amount.to_units(decimals))
    });
    let fee = of_call(input.fee, terms.network, &ctx.catalogue, &mut checks);
    checks.finish()?;
    let payable = request.payable_by_id();
    payable.map_err(|why| Refusal::invalid(why.alone()))?;
    let remaining = ledger.remaining();
    let due = PaymentDue {
        units: part.unwrap_or(remaining).min(remaining),
        charges: charges(ctx, request, client, fee)?,
        request: request.clone(),
        rate: None,
    };
    Ok((wallet, due))
}
