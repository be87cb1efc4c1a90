//! Reads one payment request with its payments.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        currency::FIAT_CHAIN_DECIMALS,
        off_ramp::DepositAddress,
        payment::Observation,
        payment_record::PaymentRecord,
        quote::rated,
        rate::{RATE_DECIMALS, ratio},
        rates::{AppliedRate, RateProvider},
        request::{
            Request,
            progress::{CreditedPayment, RequestProgress},
            terms::Exchange,
        },
    },
    flows::{FlowResult, paying::lookup::Lookup, rates, requests::find},
    store::{self, quarantine::QuarantineEntry},
};
use alloy::primitives::U256;

/// Maximum number of payments in one response, and separately of quarantined payments. The maximum is needed because
/// anyone can send thousands of tiny payments.
const SHOWN_MAX: u64 = 100;

/// A request with its payments.
#[derive(Debug, Clone)]
pub struct RequestDetail {
    /// The request.
    pub request: Request,
    /// The largest final payments of the request, oldest first.
    pub payments: Vec<PaymentRecord>,
    /// Quarantined payments: undecided payments first, then decided ones, largest first in each group.
    pub quarantined: Vec<QuarantineEntry>,
    /// Number of quarantined payments.
    pub quarantined_total: u64,
    /// Paid and remaining amounts.
    pub progress: RequestProgress,
    /// The current rate of a converted request that is not paid; `None` while no rate is available.
    pub market_rate: Option<MarketRate>,
}

/// A current market rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarketRate {
    /// Invoice units per unit of the payment currency.
    pub rate: String,
    /// Its provider.
    pub provider: RateProvider,
}

impl RequestDetail {
    fn without_persons(self) -> Self {
        Self {
            request: self.request.without_persons(),
            payments: self.payments.into_iter().map(PaymentRecord::without_persons).collect(),
            ..self
        }
    }
}

/// Reads a request of the caller's platform. A public client ID gets no personal data.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, request_id: &str) -> FlowResult<RequestDetail> {
    let request = find(ctx, caller, request_id).await?;
    let payments = store::payments::largest_of_request(ctx.db.reader(), &request, SHOWN_MAX).await?;
    let seen: Vec<Observation> =
        store::observations::list_seen_by_topics(ctx.db.reader(), request.terms.network, &[request.reference.topic()])
            .await?;
    let deposits = store::off_ramp_quotes::deposits_of(ctx.db.reader(), [&request]).await?;
    let deposits = deposits.get(&request.row).map_or(&[][..], Vec::as_slice);
    let matching = seen
        .iter()
        .filter(|observed| request.matches(observed, deposits, &ctx.catalogue));
    let exchange = request.terms.exchange();
    let quoted = match exchange {
        Exchange::Quoted => quoted_rate(ctx, &request).await?,
        Exchange::Direct | Exchange::OnChain => None,
    };
    let for_bank = |observed: &Observation| {
        let worth = DepositAddress::worth(observed.units, observed.payee, ctx.clock.now(), deposits);
        worth.map_or(U256::ZERO, |worth| worth.credited)
    };
    let worth = |observed: &Observation| match (exchange, &quoted) {
        (Exchange::Quoted, _) if request.terms.payee.is_none() => for_bank(observed),
        (Exchange::Quoted, Some((applied, decimals))) => rated(observed.units, *decimals, *applied).credited,
        (Exchange::Quoted, None) => U256::ZERO,
        (Exchange::Direct | Exchange::OnChain, _) => observed.credit(observed.units),
    };
    let detected_units = matching.fold(U256::ZERO, |sum, observed| sum.saturating_add(worth(observed)));
    let (quarantined, quarantined_total) =
        store::quarantine::list_of_request(ctx.db.reader(), &request, SHOWN_MAX).await?;
    let market_rate = match quoted {
        _ if request.ledger.is_complete() => None,
        Some((applied, _)) => Some(MarketRate {
            rate: applied.rate.to_string(),
            provider: applied.provider,
        }),
        None if exchange == Exchange::OnChain => {
            let lookup = Lookup::of_caller(ctx, caller, request.terms.network);
            on_chain_rate(ctx, &lookup, &request).await
        }
        None => None,
    };
    let first = payments.first().map(|payment| CreditedPayment {
        credited: payment.credited,
        units: payment.units,
        applied: payment.applied,
    });
    let rate = market_rate.as_ref().map(|market| market.rate.as_str());
    let progress = RequestProgress::of(&request, &ctx.catalogue, first, detected_units, rate);
    let detail = RequestDetail {
        request,
        payments,
        quarantined,
        quarantined_total,
        progress,
        market_rate,
    };
    Ok(if caller.is_public() {
        detail.without_persons()
    } else {
        detail
    })
}

/// The rate that a quote would use now, and the decimals of the token.
async fn quoted_rate(ctx: &Ctx, request: &Request) -> FlowResult<Option<(AppliedRate, u8)>> {
    let payment = ctx.catalogue.find(&request.terms.payment_currency);
    let Some((payment, pair)) = payment.and_then(|payment| Some((payment, request.terms.quoted_pair(payment)?))) else {
        return Ok(None);
    };
    let now = rates::at(ctx, &pair, ctx.clock.now()).await?;
    Ok(now.ok().map(|applied| (applied, payment.decimals)))
}

/// Queries the price feeds. If the chain does not respond, the stored data is still returned.
async fn on_chain_rate(ctx: &Ctx, lookup: &Lookup, request: &Request) -> Option<MarketRate> {
    let invoice = ctx.catalogue.find(&request.terms.invoice_currency)?;
    let payment = ctx.catalogue.find(&request.terms.payment_currency)?;
    let path = ctx.catalogue.conversion_path(invoice, payment)?;
    let path: Vec<_> = path.iter().map(|hash| hash.parse().ok()).collect::<Option<_>>()?;
    let one = U256::from(10).pow(U256::from(FIAT_CHAIN_DECIMALS));
    let units = lookup.convert(&path, one).await.ok()?.units;
    Some(MarketRate {
        rate: ratio(one, FIAT_CHAIN_DECIMALS, units, payment.decimals, RATE_DECIMALS)?,
        provider: RateProvider::Chainlink,
    })
}
