//! Hands out where a request is paid so that a bank account gets it: a quote of the partner, and the calldata that pays its
//! address.

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
            legs::{Currencies, convert_recent, currencies},
            lookup::Lookup,
        },
        rates,
    },
    ports::off_ramp::{PartnerKey, QuoteQuestion},
    store::{self, Tx, payers::Held},
};
use alloy::primitives::U256;
use anyhow::anyhow;
use chrono::{DateTime, SubsecRound, Utc};
use tokio::time::Instant;

/// Characters of an amount that the partner takes, by the document of its calls.
const AMOUNT_LENGTH_MAX: usize = 64;

/// Who pays to which bank account, and with what on top.
#[derive(Debug, Clone)]
pub struct PayToBank<'a> {
    /// The tenant's own id of the payer.
    pub client_user_id: &'a str,
    /// The bank account, as it is called on the wire.
    pub payment_details_id: &'a str,
    /// Wallet that pays.
    pub wallet: Option<Address>,
    /// What is charged on top.
    pub charges: Charges,
}

/// Hands out the quote that holds, or a new one, for all that is left of a request without payee.
///
/// The address is kept before it is told, so that what arrives there is known however late it comes. The first quote binds the
/// request to its account. Errors: the tenant has no such payer or account, or it may not be used; the request is paid out to
/// another one (400); no usable answer of the partner, or of a node while one is needed (502). Source: interface §4.3; rules
/// P.7.6; decisions D38.
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
    // Before the account is looked at: what is said of it would tell a payer who leaves from one who is not there.
    if by.is_leaving && holding.is_none() {
        return Err(payable::refused(caller, begun, payable::leaving().into()).await);
    }
    if bound.is_some_and(|bound| bound != by.to) {
        return Err(of_another().into());
    }
    let (quote, is_shared) = match holding {
        Some(quote) => (quote.clone(), true),
        None => quoted((ctx, caller), lookup, request, &by, (remaining, quotes.len()), now).await?,
    };
    let due = PaymentDue {
        request: request.paid_to(quote.terms.address),
        units: remaining,
        charges: asked.charges,
        rate: quote.terms.applied,
    };
    let mut handout = hand_out_alone(ctx, lookup, due, asked.wallet).await?;
    if handout.bundle.legs.iter().any(|leg| leg.units != quote.terms.units) {
        return Err(Fault(anyhow!(
            "a quote of request {} is for other units than its rate makes",
            request.id
        ))
        .into());
    }
    // What it is worth is kept with the address.
    for payment in &mut handout.payments {
        payment.quote = None;
    }
    handout.ends_at = Some(quote.terms.ends_at);
    crate::fail_at("issue_deposit", "quoted");
    let tx = ctx.db.begin("issue_deposit").await?;
    // As where payments are credited: first the request, then the payer.
    store::requests::lock(&tx, request).await?;
    let gone = match store::payers::hold(&tx, &request.origin.platform, &by.to.payer).await? {
        Some(Held::Staying) => None,
        // Wanted while the partner was asked; what was handed out before may be paid still.
        Some(Held::Leaving) => holding.is_none().then(payable::leaving),
        None => Some(payable::not_registered()),
    };
    if let Some(why) = gone {
        drop(tx);
        return Err(payable::refused(caller, begun, why.into()).await);
    }
    if holding.is_none() {
        issue(&tx, request, (&quote, is_shared), now).await?;
    }
    keep(&tx, caller, &handout.payments, now).await?;
    tx.commit().await?;
    Ok(handout)
}

/// Keeps a quote that is handed out, binds the request to its account, and the address to the same account.
///
/// Only the operator can say that several accounts have one address: what arrives there names nobody. Errors: the request was
/// bound to another account at the same moment (400); the address is that of another account, or the partner said something
/// else by the same quote before (502).
async fn issue(
    tx: &Tx,
    request: &Request,
    (quote, is_shared): (&FiatQuote, bool),
    now: DateTime<Utc>,
) -> FlowResult<()> {
    let (network, address) = (request.terms.network, quote.terms.address);
    if !store::off_ramp_bindings::bind(tx, request, &quote.to, now).await? {
        return Err(of_another().into());
    }
    let is_theirs = store::off_ramp_bindings::claim(tx, (network, address), request, &quote.to).await?;
    if !is_theirs && !is_shared {
        return Err(not_believed("quote", "its deposit address is that of another bank account").into());
    }
    if !store::off_ramp_quotes::keep(tx, network, quote).await? {
        return Err(not_believed("quote", "it said something else by the same quote before").into());
    }
    Ok(())
}

/// One order pays one bank account, so a request is paid out to the first one for which it was quoted. Nothing is said of
/// whose that is.
fn of_another() -> Refusal {
    let other = "must be the bank account for which this request was asked first: it is paid out to that one alone; make \
                 another request to pay another account";
    Refusal::field("paymentDetailsId", other).led_by("paymentDetailsId")
}

/// Asks the partner for a quote; tells also whether the operator listed its address for everybody.
async fn quoted(
    (ctx, caller): (&Ctx, &PlatformCaller),
    lookup: &Lookup,
    request: &Request,
    by: &PayableBy,
    (remaining, known): (U256, usize),
    now: DateTime<Utc>,
) -> FlowResult<(FiatQuote, bool)> {
    let currencies = currencies(ctx, request)?;
    let applied = price(ctx, lookup, request, &currencies).await?;
    let units = match applied {
        Some(applied) => applied.rate.units_for(remaining, currencies.payment.decimals),
        None => Some(remaining),
    };
    let too_large = || Refusal::invalid("What is left is too large for this currency");
    let units = units.ok_or_else(too_large)?;
    let amount = amount(ctx, request, units)?;
    if amount.to_string().len() > AMOUNT_LENGTH_MAX {
        return Err(too_large().into());
    }
    let token = request.terms.token;
    let network = request.terms.network;
    let question = QuoteQuestion {
        key: PartnerKey(quote_key(
            (&request.origin.platform, &request.id),
            &by.to,
            units,
            (known, now),
        )),
        payer: by.partner_payer.clone(),
        account: by.partner_account.clone(),
        network,
        token: token.ok_or_else(|| Fault(anyhow!("request {} is paid in no token", request.id)))?,
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
                .map_err(|_| upstream("The crypto-to-fiat provider gives no usable answer at the moment; try again"))?
                .unwrap_or_default(),
            pays_out: answer.pays_out,
            currency: by.currency.clone(),
            // As both databases keep it.
            ends_at: answer.ends_at.trunc_subsecs(3),
        },
        created_at: now,
    };
    Ok((quote, answer.is_listed))
}

/// The rate of the moment: of the feeds beside the chain, or of those on it. `None` of a request in the token itself.
///
/// Errors: nobody tells one that is beyond doubt (502).
async fn price(
    ctx: &Ctx,
    lookup: &Lookup,
    request: &Request,
    currencies: &Currencies<'_>,
) -> FlowResult<Option<AppliedRate>> {
    if !request.terms.is_converted() {
        return Ok(None);
    }
    let Currencies { invoice, payment } = currencies;
    if let Some(pair) = ctx.catalogue.quoted_pair(invoice, payment) {
        return Ok(Some(rates::current(ctx, &pair).await?));
    }
    let gone = || Refusal::invalid("There is no conversion route for these currencies any more");
    let rates = RateBounds::between(&ctx.catalogue, &ctx.payments.rate_ages, invoice, payment).ok_or_else(gone)?;
    let one = U256::from(10).pow(U256::from(FIAT_CHAIN_DECIMALS));
    let units = lookup.in_time(convert_recent(ctx, lookup, &rates, one)).await?;
    let rate = ratio(one, FIAT_CHAIN_DECIMALS, units, payment.decimals, RATE_DECIMALS);
    let rate = rate.and_then(|rate| Rate::parse(&rate).ok());
    let rate =
        rate.ok_or_else(|| upstream("The price feeds of the network give no usable rate at the moment; try again"))?;
    Ok(Some(AppliedRate {
        rate,
        provider: RateProvider::Chainlink,
    }))
}
