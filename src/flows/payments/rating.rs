//! The worth of payments of quoted requests: by the quote that they pay, or at the rate at the time of their block.

use crate::{
    ctx::Ctx,
    domain::{
        ids::RequestRowId,
        network::Network,
        oddity::{ConcernedRequest, OddReason, Oddity},
        off_ramp::DepositAddress,
        payment::Settled,
        payment_record::PaymentRecord,
        quote::{PaymentValue, Quote, quoted, rated},
        rates::RateFlaw,
        request::Request,
    },
    flows::{FlowResult, rates},
    store,
};
use alloy::primitives::{B256, U256, U512};
use chrono::SecondsFormat;
use std::collections::{BTreeSet, HashMap};

/// A payment of a quoted request.
pub(super) struct UnratedPayment<'a> {
    /// Its request.
    pub(super) request: &'a Request,
    /// The payment, which has no credit yet.
    pub(super) settled: &'a mut Settled,
    /// Why it is not credited.
    pub(super) departure: &'a mut Option<Oddity>,
}

/// Determines the worth of each payment of a quoted request. A payment without a rate for its time is quarantined.
///
/// A recorded payment keeps its worth, even when the rate at its time is no longer stored.
pub(super) async fn rate(
    ctx: &Ctx,
    network: Network,
    deposits: &HashMap<RequestRowId, Vec<DepositAddress>>,
    mut unrated: Vec<UnratedPayment<'_>>,
) -> FlowResult<()> {
    if unrated.is_empty() {
        return Ok(());
    }
    let known = StoredPayments::of(ctx, network, &unrated).await?;
    for payment in &mut unrated {
        let deposits = deposits.get(&payment.request.row).map_or(&[][..], Vec::as_slice);
        match worth(ctx, payment.request, payment.settled, deposits, &known).await? {
            Ok(worth) => apply(payment.settled, worth),
            Err(flaw) => *payment.departure = Some(oddity(payment.settled, payment.request, flaw)),
        }
    }
    Ok(())
}

/// Stored data about payments and their requests.
struct StoredPayments {
    quotes: HashMap<RequestRowId, Vec<Quote>>,
    recorded: HashMap<(B256, u32), PaymentRecord>,
}

impl StoredPayments {
    async fn of(ctx: &Ctx, network: Network, unrated: &[UnratedPayment<'_>]) -> FlowResult<Self> {
        let paid: HashMap<&RequestRowId, &Request> = unrated
            .iter()
            .map(|payment| (&payment.request.row, payment.request))
            .collect();
        let paid: Vec<&Request> = paid.into_values().collect();
        let tx_hashes: BTreeSet<B256> = unrated.iter().map(|payment| payment.settled.observed.tx_hash).collect();
        let tx_hashes: Vec<B256> = tx_hashes.into_iter().collect();
        let (recorded, _) = store::payments::readable_of_transactions(ctx.db.reader(), network, &tx_hashes).await?;
        let counting = recorded.into_iter().filter(|payment| payment.reversal.is_none());
        Ok(Self {
            quotes: store::quotes::of_requests(ctx.db.reader(), &paid).await?,
            recorded: counting.map(|payment| (payment.place(), payment)).collect(),
        })
    }

    /// The recorded worth of the payment, if its amount is the same.
    fn recorded(&self, request: &Request, settled: &Settled) -> Option<PaymentValue> {
        let observed = &settled.observed;
        let record = self.recorded.get(&(observed.tx_hash, observed.position))?;
        let is_same = record.request == request.row && record.units == settled.proven.received_units;
        let applied = record.applied.filter(|_| is_same)?;
        Some(PaymentValue {
            credited: record.credited,
            applied,
            is_quoted: record.is_quoted,
        })
    }
}

async fn worth(
    ctx: &Ctx,
    request: &Request,
    settled: &Settled,
    deposits: &[DepositAddress],
    known: &StoredPayments,
) -> FlowResult<Result<PaymentValue, RateFlaw>> {
    let units = settled.proven.received_units;
    if let Some(worth) = known.recorded(request, settled) {
        return Ok(Ok(worth));
    }
    if request.terms.payee.is_none() {
        // A deposit address was issued with a quote of the off-ramp partner. Only this quote determines the worth of
        // payments to the address.
        let worth = DepositAddress::worth(units, settled.observed.payee, settled.at, deposits);
        return Ok(worth.ok_or(RateFlaw::Absent));
    }
    let quotes = known.quotes.get(&request.row).map_or(&[][..], Vec::as_slice);
    if let Some(worth) = quoted(units, settled.at, quotes) {
        return Ok(Ok(worth));
    }
    let payment = ctx.catalogue.find(&request.terms.payment_currency);
    let Some((payment, pair)) = payment.and_then(|payment| Some((payment, request.terms.quoted_pair(payment)?))) else {
        return Ok(Err(RateFlaw::Absent));
    };
    let applied = rates::at(ctx, &pair, settled.at).await?;
    Ok(applied.map(|applied| rated(units, payment.decimals, applied)))
}

/// Writes the worth to a payment. The fee was compared in units of the token, so its shortfall is converted to
/// settlement units.
fn apply(settled: &mut Settled, worth: PaymentValue) {
    let units = settled.proven.received_units;
    let in_settlement = |missing: U256| {
        let share = (U512::from(worth.credited) * U512::from(missing)).checked_div(U512::from(units))?;
        U256::checked_from_limbs_slice(share.as_limbs())
    };
    settled.fee_shortfall = settled.fee_shortfall.and_then(in_settlement);
    settled.credited = worth.credited;
    settled.applied = Some(worth.applied);
    settled.is_quoted = worth.is_quoted;
}

fn oddity(settled: &Settled, request: &Request, flaw: RateFlaw) -> Oddity {
    let observed = &settled.observed;
    let time = settled.at.to_rfc3339_opts(SecondsFormat::Secs, true);
    Oddity {
        network: observed.network,
        block_number: observed.block_number,
        tx_hash: Some(observed.tx_hash),
        position: Some(observed.position),
        reason: OddReason::RateMissing,
        detail: format!(
            "a payment of request {} in {} for {} matches no quote, and the rate of {time} is unknown: {}; set it: prs admin \
             rates accept SYMBOL/CURRENCY --rate RATE --at {time}",
            request.id,
            request.terms.payment_currency,
            request.terms.invoice_currency,
            flaw.sentence()
        ),
        concerned: Some(ConcernedRequest::of(request)),
    }
}
