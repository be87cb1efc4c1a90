//! Cursors of searches: a position, and a proof that this service issued it for this search and caller.

use crate::{
    ctx::Ctx,
    domain::{ids::PaymentId, refusal::Refusal, search::PaymentPosition},
    store::{Scope, payments::PaymentFilter},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::DateTime;
use subtle::ConstantTimeEq;

/// Digits of the proof: half of the keyed hash, to keep cursors short.
const PROOF_DIGITS: usize = 32;

/// Bytes of the time.
const TIME_LENGTH: usize = 8;

/// Returns the cursor of the page that follows a payment.
pub(super) fn write(ctx: &Ctx, scope: &Scope, filter: &PaymentFilter, last: &PaymentPosition) -> String {
    let time = last.paid_at.timestamp_micros().to_be_bytes();
    let place = URL_SAFE_NO_PAD.encode([time.as_slice(), last.id.as_str().as_bytes()].concat());
    format!("{}{place}", proof(ctx, scope, filter, &place))
}

/// Parses a cursor. Errors: the cursor was not issued for this search and caller.
pub(super) fn read(ctx: &Ctx, scope: &Scope, filter: &PaymentFilter, text: &str) -> Result<PaymentPosition, Refusal> {
    let position = || {
        let (given, place) = text.split_at_checked(PROOF_DIGITS)?;
        let is_own = given.as_bytes().ct_eq(proof(ctx, scope, filter, place).as_bytes());
        let bytes = URL_SAFE_NO_PAD.decode(place).ok().filter(|_| is_own.into())?;
        let (time, id) = bytes.split_first_chunk::<TIME_LENGTH>()?;
        Some(PaymentPosition {
            paid_at: DateTime::from_timestamp_micros(i64::from_be_bytes(*time))?,
            id: PaymentId(std::str::from_utf8(id).ok()?.to_owned()),
        })
    };
    position().ok_or_else(|| {
        let right = "must be the nextCursor of a page of this search, with the same filters and credential; \
                     omit it to start again";
        Refusal::field("cursor", right)
    })
}

/// The proof of a position in a search: the first digits of a keyed hash. The hash covers the debug output of the scope
/// and the filter, so that a new field of either is included without a change here.
fn proof(ctx: &Ctx, scope: &Scope, filter: &PaymentFilter, place: &str) -> String {
    let text = format!("cursor of payments\n{scope:?}\n{filter:?}\n{place}");
    let mut digits = ctx.sealer.lookup(&text);
    digits.truncate(PROOF_DIGITS);
    digits
}
