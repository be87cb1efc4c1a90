//! What was handed out for the requests that are paid, and what is said of a payment that does not keep to it.

use crate::{
    ctx::Ctx,
    domain::{
        conversion::RateBounds,
        handed_out::{Departure, HandedOut},
        oddity::{Concerned, OddReason, Oddity, Stake},
        payment::Settled,
        request::Request,
    },
    flows::FlowResult,
    store,
};

/// What was handed out for each request, in the order of the requests. Calldata that may be out from before answers were
/// kept stays good beside everything that is kept.
pub(super) async fn of(ctx: &Ctx, requests: &[Request]) -> FlowResult<Vec<Vec<HandedOut>>> {
    let wanted: Vec<&Request> = requests.iter().collect();
    let mut kept = store::handed_out::of_requests(ctx.db.reader(), &wanted).await?;
    let of_request = |request: &Request| {
        let mut handed = kept.remove(&request.row).unwrap_or_default();
        if handed.is_empty() || request.has_unkept_answers {
            handed.extend(unkept(ctx, request));
        }
        handed
    };
    Ok(requests.iter().map(of_request).collect())
}

fn unkept(ctx: &Ctx, request: &Request) -> Vec<HandedOut> {
    let find = |id: &str| ctx.catalogue.find(id);
    let currencies = find(&request.terms.invoice_currency).zip(find(&request.terms.payment_currency));
    let rates = currencies
        .and_then(|(invoice, payment)| RateBounds::between(&ctx.catalogue, &ctx.payments.rate_ages, invoice, payment));
    HandedOut::unkept(rates)
}

/// Says in what a payment departs from what was handed out.
pub(super) fn oddity(ctx: &Ctx, settled: &Settled, request: &Request, departure: &Departure) -> Oddity {
    let observed = &settled.observed;
    let units = settled.proven.received_units;
    let stake = Stake::of(request, units, settled.credited, ctx.payments.minor_share);
    let (reason, what) = match departure {
        Departure::UnknownPath => (
            OddReason::PathNotHandedOut,
            "the path cannot be read from the transaction".to_owned(),
        ),
        Departure::Path(path) => {
            let hashes: Vec<String> = path.iter().map(|hash| hash.to_string().to_lowercase()).collect();
            (
                OddReason::PathNotHandedOut,
                format!("its path is {}", hashes.join(", ")),
            )
        }
        Departure::RateAge(age) => (
            OddReason::RateAgeNotHandedOut,
            format!("it accepts rates of {age} seconds, where 0 is any"),
        ),
    };
    Oddity {
        network: observed.network,
        block_number: observed.block_number,
        tx_hash: Some(observed.tx_hash),
        position: Some(observed.position),
        reason,
        detail: format!("a conversion for request {} was not handed out: {what}", request.id),
        concerned: Some(Concerned {
            stake: Some(stake),
            ..Concerned::of(request)
        }),
    }
}
