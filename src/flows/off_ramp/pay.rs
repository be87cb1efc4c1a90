//! Returns the payment data of a request that is paid to a bank account: a quote of the partner, and the calldata that
//! pays the deposit address of the quote.

use super::{ask::amount, not_believed, not_quoted, partner, upstream};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        caller::PlatformCaller,
        conversion::RateBounds,
        currency::FIAT_CHAIN_DECIMALS,
        ids::OffRampQuoteId,
        off_ramp::{CalledByPartner, FiatQuote, QuoteTerms, quote_key},
        payer::PayableBy,
        paying::charge::Charges,
        rate::{RATE_DECIMALS, Rate, ratio},
        rates::{AppliedRate, RateProvider},
        refusal::Refusal,
        request::Request,
    },
    flows::{
        Fault, FlowResult,
        payers::{payable, turns::in_turn},
        paying::{
            Handout, PaymentDue, hand_out_alone,
            keep::keep,
            legs::{RequestCurrencies, convert_recent, currencies},
            lookup::Lookup,
        },
        rates,
    },
    ports::off_ramp::{PartnerKey, QuoteQuestion},
    store::{self, Tx, payers::ErasureHold},
};
use alloy::primitives::U256;
use anyhow::anyhow;
use chrono::{DateTime, SubsecRound, Utc};
use tokio::time::Instant;

/// Maximum length of an amount in the partner's API.
const AMOUNT_LENGTH_MAX: usize = 64;

/// Payer, bank account and fees of a payment.
#[derive(Debug, Clone)]
pub struct PayToBank<'a> {
    /// The platform's own id of the payer.
    pub client_user_id: &'a str,
    /// Id of the bank account, as in the API.
    pub payment_details_id: &'a str,
    /// Wallet that pays.
    pub wallet: Option<Address>,
    /// Fees on top.
    pub charges: Charges,
}

/// Returns the valid quote, or a new one, for the whole amount due of a request without payee.
///
/// The deposit address is stored before it is returned, so that a payment to it is recognised however late it arrives.
/// The first quote binds the request to its bank account.
///
/// Errors:
/// - 400: the platform has no such payer or account; the payer or account may not be used; or the request is paid out
///   to another account.
/// - 502: the partner or a required node returned no usable response.
///
/// Source: interface §4.3; rules P.7.6; decisions D38.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, request: &Request, asked: PayToBank<'_>) -> FlowResult<Handout> {
    let begun = Instant::now();
    let by = payable::run(ctx, caller, asked.client_user_id, asked.payment_details_id).await;
    let by = match by {
        Ok(by) => by,
        Err(why) => return Err(payable::refused(caller, begun, why).await),
    };
    let quotes = store::off_ramp_quotes::of_request(ctx.db.reader(), request).await?;
    let bound = store::off_ramp_bindings::of_request(ctx.db.reader(), request).await?;
    let lookup = &Lookup::of_caller(ctx, caller, request.terms.network);
    let (remaining, now) = (request.ledger.remaining(), ctx.clock.now());
    let holding = quotes.iter().rfind(|quote| quote.holds(&by.to, remaining, now));
    // This is checked before the bound account: a message about that account would reveal whether the payer is to be
    // erased or does not exist.
    if by.is_leaving && holding.is_none() {
        return Err(payable::refused(caller, begun, payable::leaving().into()).await);
    }
    if bound.is_some_and(|bound| bound != by.to) {
        return Err(of_another().into());
    }
    let (quote, is_shared) = match holding {
        Some(quote) => (quote.clone(), true),
        None => {
            let demand = QuoteDemand {
                request,
                by: &by,
                remaining,
                known: quotes.len(),
                now,
            };
            quoted(ctx, caller, lookup, &demand).await?
        }
    };
    let due = PaymentDue {
        request: request.paid_to(quote.terms.address),
        units: remaining,
        charges: asked.charges,
        rate: quote.terms.applied,
    };
    let mut handout = hand_out_alone(ctx, lookup, due, asked.wallet.map(|wallet| ("wallet", wallet))).await?;
    if handout.bundle.legs.iter().any(|leg| leg.units != quote.terms.units) {
        return Err(Fault(anyhow!(
            "the amount of a quote for request {} does not match the rate of the quote",
            request.id
        ))
        .into());
    }
    // The quote of the partner, stored with the deposit address, says how much a payment is worth. So the calldata gets
    // no quote of its own.
    for payment in &mut handout.payments {
        payment.quote = None;
    }
    handout.ends_at = Some(quote.terms.ends_at);
    crate::fail_at("issue_deposit", "quoted");
    let tx = ctx.db.begin("issue_deposit").await?;
    // The locks have the same order as where payments are credited: first the request, then the payer.
    store::requests::lock(&tx, request).await?;
    let gone = match store::payers::hold(&tx, &request.origin.platform, &by.to.payer).await? {
        Some(ErasureHold::Staying) => None,
        // The erasure was requested during the call to the partner; earlier quotes may still be paid.
        Some(ErasureHold::Leaving) => holding.is_none().then(payable::leaving),
        None => Some(payable::not_registered()),
    };
    if let Some(why) = gone {
        drop(tx);
        return Err(payable::refused(caller, begun, why.into()).await);
    }
    if holding.is_none() {
        issue(&tx, request, &quote, is_shared, now).await?;
    }
    keep(&tx, caller, &handout.payments, now).await?;
    tx.commit().await?;
    Ok(handout)
}

/// Stores an issued quote, and binds the request and the deposit address to the bank account of the quote.
///
/// Only the operator can allow several accounts to share one address, because a payment to the address does not say for
/// which account it is. Errors: a concurrent call bound the request to another account (400); the address belongs to
/// another account, or the partner returned other terms for the same quote before (502).
async fn issue(tx: &Tx, request: &Request, quote: &FiatQuote, is_shared: bool, now: DateTime<Utc>) -> FlowResult<()> {
    let (network, address) = (request.terms.network, quote.terms.address);
    if !store::off_ramp_bindings::bind(tx, request, &quote.to, now).await? {
        return Err(of_another().into());
    }
    let is_theirs = store::off_ramp_bindings::claim(tx, network, address, request, &quote.to).await?;
    if !is_theirs && !is_shared {
        return Err(not_believed("quote", "the deposit address belongs to another bank account").into());
    }
    if !store::off_ramp_quotes::keep(tx, network, quote).await? {
        return Err(not_believed("quote", "an earlier response had other terms for the same quote").into());
    }
    Ok(())
}

/// The error for a call with another bank account than the account of the first quote, because an order pays one
/// account. The message does not reveal whose account the first one is.
fn of_another() -> Refusal {
    let other = "must be the bank account of the first quote of this request: the request is paid out only to that \
                 account; create another request to pay another account";
    Refusal::field("paymentDetailsId", other).led_by("paymentDetailsId")
}

/// The payment for which a new quote is requested.
struct QuoteDemand<'a> {
    /// The request to pay.
    request: &'a Request,
    /// Payer and bank account at the partner.
    by: &'a PayableBy,
    /// Units that the request still needs.
    remaining: U256,
    /// Number of quotes that are stored for the request.
    known: usize,
    /// Time of the call.
    now: DateTime<Utc>,
}

/// Requests a quote from the partner; also returns whether the operator allows its address for all accounts.
async fn quoted(
    ctx: &Ctx,
    caller: &PlatformCaller,
    lookup: &Lookup,
    demand: &QuoteDemand<'_>,
) -> FlowResult<(FiatQuote, bool)> {
    let QuoteDemand {
        request,
        by,
        remaining,
        known,
        now,
    } = *demand;
    let currencies = currencies(ctx, request)?;
    let applied = price(ctx, lookup, request, &currencies).await?;
    let units = match applied {
        Some(applied) => applied.rate.units_for(remaining, currencies.payment.decimals),
        None => Some(remaining),
    };
    let too_large = || Refusal::invalid("The amount due is too large for this currency");
    let units = units.ok_or_else(too_large)?;
    let amount = amount(ctx, request, units)?;
    if amount.to_string().len() > AMOUNT_LENGTH_MAX {
        return Err(too_large().into());
    }
    let token = request.terms.token;
    let network = request.terms.network;
    let question = QuoteQuestion {
        key: PartnerKey(quote_key(
            &request.origin.platform,
            &request.id,
            &by.to,
            units,
            known,
            now,
        )),
        payer: by.partner_payer.clone(),
        account: by.partner_account.clone(),
        network,
        token: token.ok_or_else(|| Fault(anyhow!("request {} has no payment token", request.id)))?,
        amount,
        currency: by.currency.clone(),
    };
    let answer = in_turn(ctx, caller, partner(ctx)?.quote(&question)).await;
    let answer = answer.map_err(|error| not_quoted(&error, caller.is_public()))?;
    let fee = answer
        .fee
        .map(|fee| fee.to_units(currencies.payment.decimals))
        .transpose();
    let quote = FiatQuote {
        id: OffRampQuoteId(ctx.ids.ulid()),
        platform: request.origin.platform.clone(),
        request: request.row.clone(),
        to: by.to.clone(),
        called: Some(CalledByPartner {
            payer: by.partner_payer.clone(),
            account: by.partner_account.clone(),
        }),
        terms: QuoteTerms {
            partner_quote: answer.id,
            address: answer.deposit_address,
            units,
            settlement: remaining,
            applied,
            fee: fee
                .map_err(|_| upstream("The crypto-to-fiat provider returned no usable response; try again"))?
                .unwrap_or_default(),
            pays_out: answer.pays_out,
            currency: by.currency.clone(),
            // Truncated to milliseconds, which both databases store exactly.
            ends_at: answer.ends_at.trunc_subsecs(3),
        },
        created_at: now,
    };
    Ok((quote, answer.is_listed))
}

/// The current rate, from off-chain feeds or from price feeds on chain; `None` for a request in the token itself.
///
/// Errors: no feed returns a reliable rate (502).
async fn price(
    ctx: &Ctx,
    lookup: &Lookup,
    request: &Request,
    currencies: &RequestCurrencies<'_>,
) -> FlowResult<Option<AppliedRate>> {
    if !request.terms.is_converted() {
        return Ok(None);
    }
    let RequestCurrencies { invoice, payment } = currencies;
    if let Some(pair) = ctx.catalogue.quoted_pair(invoice, payment) {
        return Ok(Some(rates::current(ctx, &pair).await?));
    }
    let gone = || Refusal::invalid("There is no longer a conversion route for these currencies");
    let rates = RateBounds::between(&ctx.catalogue, &ctx.payments.rate_ages, invoice, payment).ok_or_else(gone)?;
    let one = U256::from(10).pow(U256::from(FIAT_CHAIN_DECIMALS));
    let units = lookup.in_time(convert_recent(ctx, lookup, &rates, one)).await?;
    let rate = ratio(one, FIAT_CHAIN_DECIMALS, units, payment.decimals, RATE_DECIMALS);
    let rate = rate.and_then(|rate| Rate::parse(&rate).ok());
    let rate = rate.ok_or_else(|| upstream("The price feeds of the network returned no usable rate; try again"))?;
    Ok(Some(AppliedRate {
        rate,
        provider: RateProvider::Chainlink,
    }))
}
