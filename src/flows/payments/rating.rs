//! What payments of quoted requests are worth: as the quote that they pay, or by the rate of their block's time.

use crate::{
    ctx::Ctx,
    domain::{
        ids::RequestRowId,
        network::Network,
        oddity::{Concerned, OddReason, Oddity},
        off_ramp::Deposit,
        payment::Settled,
        payment_record::PaymentRecord,
        quote::{Quote, Worth, quoted, rated},
        rates::Flaw,
        request::Request,
    },
    flows::{FlowResult, rates},
    store,
};
use alloy::primitives::{B256, U256, U512};
use chrono::SecondsFormat;
use std::collections::{BTreeSet, HashMap};

/// A payment of a quoted request.
pub(super) struct Unrated<'a> {
    /// Its request.
    pub(super) request: &'a Request,
    /// The payment, which is credited with nothing yet.
    pub(super) settled: &'a mut Settled,
    /// Why it is not credited.
    pub(super) departure: &'a mut Option<Oddity>,
}

/// Says of each payment of a quoted request what it is worth. One without a rate for its time departs, so that it waits.
///
/// What a recorded payment was worth stays, also when nobody knows the rate of its time any more.
pub(super) async fn rate(
    ctx: &Ctx,
    network: Network,
    deposits: &HashMap<RequestRowId, Vec<Deposit>>,
    mut unrated: Vec<Unrated<'_>>,
) -> FlowResult<()> {
    if unrated.is_empty() {
        return Ok(());
    }
    let known = Known::of(ctx, network, &unrated).await?;
    for payment in &mut unrated {
        let deposits = deposits.get(&payment.request.row).map_or(&[][..], Vec::as_slice);
        match worth(ctx, payment.request, payment.settled, deposits, &known).await? {
            Ok(worth) => apply(payment.settled, worth),
            Err(flaw) => *payment.departure = Some(oddity(payment.settled, payment.request, flaw)),
        }
    }
    Ok(())
}

/// What is stored about payments and their requests.
struct Known {
    quotes: HashMap<RequestRowId, Vec<Quote>>,
    recorded: HashMap<(B256, u32), PaymentRecord>,
}

impl Known {
    async fn of(ctx: &Ctx, network: Network, unrated: &[Unrated<'_>]) -> FlowResult<Self> {
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

    /// What the payment was worth when it was recorded, if that is the same money.
    fn recorded(&self, request: &Request, settled: &Settled) -> Option<Worth> {
        let observed = &settled.observed;
        let record = self.recorded.get(&(observed.tx_hash, observed.position))?;
        let is_same = record.request == request.row && record.units == settled.proven.received_units;
        let applied = record.applied.filter(|_| is_same)?;
        Some(Worth {
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
    deposits: &[Deposit],
    known: &Known,
) -> FlowResult<Result<Worth, Flaw>> {
    let units = settled.proven.received_units;
    if let Some(worth) = known.recorded(request, settled) {
        return Ok(Ok(worth));
    }
    if request.terms.payee.is_none() {
        // The address was handed out with a quote, and nothing else says what is worth what there.
        let worth = Deposit::worth(units, settled.observed.payee, settled.at, deposits);
        return Ok(worth.ok_or(Flaw::Absent));
    }
    let quotes = known.quotes.get(&request.row).map_or(&[][..], Vec::as_slice);
    if let Some(worth) = quoted(units, settled.at, quotes) {
        return Ok(Ok(worth));
    }
    let payment = ctx.catalogue.find(&request.terms.payment_currency);
    let Some((payment, pair)) = payment.and_then(|payment| Some((payment, request.terms.quoted_pair(payment)?))) else {
        return Ok(Err(Flaw::Absent));
    };
    let applied = rates::at(ctx, &pair, settled.at).await?;
    Ok(applied.map(|applied| rated(units, payment.decimals, applied)))
}

/// The fee was compared in units of the token; what is missing of it is a part of what they are worth.
fn apply(settled: &mut Settled, worth: Worth) {
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

fn oddity(settled: &Settled, request: &Request, flaw: Flaw) -> Oddity {
    let observed = &settled.observed;
    let time = settled.at.to_rfc3339_opts(SecondsFormat::Secs, true);
    Oddity {
        network: observed.network,
        block_number: observed.block_number,
        tx_hash: Some(observed.tx_hash),
        position: Some(observed.position),
        reason: OddReason::RateMissing,
        detail: format!(
            "a payment of request {} in {} for {} pays no quote, and nobody knows the rate of {time}: {}; name it: prs admin \
             rates accept SYMBOL/CURRENCY --rate RATE --at {time}",
            request.id,
            request.terms.payment_currency,
            request.terms.invoice_currency,
            flaw.sentence()
        ),
        concerned: Some(Concerned::of(request)),
    }
}
