//! Plans a recurring payment: decides whether it can be created, and builds the permit for its payer.

use super::{
    super::{
        address::Address,
        ids::ScheduleId,
        instant::parse_instant,
        network::Network,
        paying::charge::FeeLeg,
        permit::{self, Permit},
        refusal::{Checks, Refusal},
        request::{
            Request,
            plan::{PAYEE_MISSING, check_two_wallets},
            terms::Frequency,
        },
    },
    AskedAmount, Schedule,
};
use alloy::primitives::U256;
use chrono::{DateTime, Datelike, NaiveDate, NaiveTime, TimeDelta, Utc};

/// Minimum number of payments of a schedule. Source: rules P.3.6.
pub const PAYMENTS_MIN: u32 = 2;

/// Maximum number of payments of a schedule: the contract counts them in 8 bits. Source: decisions D24.
pub const PAYMENTS_MAX: u32 = 255;

/// Last year in which a schedule can begin: the contract counts the seconds of a start in 32 bits.
const START_YEAR_MAX: i32 = 2_105;

/// How long a permit is valid after its last due time. Source: rules P.7.5.
const GRACE: TimeDelta = TimeDelta::days(30);

/// Parses the due time of the first payment: a day, which begins at midnight UTC, or a time with any offset.
///
/// Errors: the message for the caller. Source: decisions D47.
pub fn first_payment(text: &str) -> Result<DateTime<Utc>, &'static str> {
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
    let begin = day.map(|day| day.and_time(NaiveTime::MIN).and_utc());
    begin
        .or_else(|| parse_instant(text))
        .ok_or("must be a day, for example 2030-01-01, or a time with Z or an offset from UTC")
}

/// Seconds of a period. The contract counts seconds and knows no calendar.
///
/// Source: rules P.7.5.
pub const fn period_s(frequency: Frequency) -> u32 {
    const DAY_S: u32 = 86_400;
    match frequency {
        Frequency::Daily => DAY_S,
        Frequency::Weekly => 7 * DAY_S,
        Frequency::Monthly => 30 * DAY_S,
        Frequency::Yearly => 365 * DAY_S,
    }
}

/// Input of a caller about the recurrence; every value is valid on its own.
#[derive(Debug, Clone)]
pub struct RecurrenceInput {
    /// When the first payment is due.
    pub start: DateTime<Utc>,
    /// Period.
    pub frequency: Frequency,
    /// Number of payments.
    pub total_payments: u32,
    /// Who pays and signs.
    pub payer: Address,
    /// Another body member that names the payer: its name and its value.
    pub other_payer: Option<(&'static str, Address)>,
}

/// Values that the service adds.
#[derive(Debug, Clone, Copy)]
pub struct ScheduleOffer<'a> {
    /// Contract that executes the payments.
    pub contract: Address,
    /// Fees on top of each payment, by receiver.
    pub fees: &'a [FeeLeg],
    /// Whether the client ID of the call has a fee.
    pub has_own_fee: bool,
    /// Fee of the relayer for each payment, in units of the token.
    pub relayer_fee: U256,
}

/// Fresh values that a new schedule needs; the caller of [`plan`] draws them.
#[derive(Debug, Clone)]
pub struct FreshSchedule {
    /// Public id.
    pub id: ScheduleId,
    /// 32 random bytes.
    pub nonce: [u8; 32],
    /// Now.
    pub now: DateTime<Utc>,
}

/// Checks the input about the recurrence: the network, the start, the number of payments and the payer. Recurring
/// payments need a token, and payer and payee must differ.
pub fn check(
    repetition: &RecurrenceInput,
    network: Network,
    is_token: bool,
    payee: Option<Address>,
    now: DateTime<Utc>,
    checks: &mut Checks,
) {
    if let Err((field, sentence)) = permit::admit(network, is_token) {
        checks.fail(field, sentence);
    }
    if repetition.start.date_naive() < now.date_naive() {
        checks.fail("recurrence.startDate", "must not be in the past");
    } else if repetition.start.year() > START_YEAR_MAX {
        let sentence = format!("must be in the year {START_YEAR_MAX} or earlier");
        checks.fail("recurrence.startDate", sentence);
    }
    if !(PAYMENTS_MIN..=PAYMENTS_MAX).contains(&repetition.total_payments) {
        let sentence = format!("must be a whole number from {PAYMENTS_MIN} to {PAYMENTS_MAX}");
        checks.fail("recurrence.totalPayments", sentence);
    }
    checks.take("recurrence.payer", repetition.payer.usable_on(network));
    let (field, right) = ("recurrence.payer", "different from payee");
    check_two_wallets(field, Some(repetition.payer), payee, right, checks);
    if let Some((name, _)) = repetition.other_payer.filter(|(_, other)| *other != repetition.payer) {
        let sentence = format!("must be the same wallet as {name}, or {name} must be absent: both name the payer");
        checks.fail("recurrence.payer", sentence);
    }
}

/// The schedule of a checked payment. `first` is the request that the first execution pays, with its amount in units of
/// the token. Errors (400): the amount is too large for the contract, or the fees have more receivers than the contract
/// supports. Source: rules P.3.6; rules P.7.5; decisions D24.
pub fn plan(
    repetition: &RecurrenceInput,
    asked: AskedAmount,
    first: &Request,
    offer: &ScheduleOffer<'_>,
    fresh: &FreshSchedule,
) -> Result<Schedule, Refusal> {
    let terms = &first.terms;
    let token = terms
        .token
        .ok_or_else(|| Refusal::field("paymentCurrency", "must be a token"))?;
    let recipient = terms.payee.ok_or_else(|| Refusal::field("payee", PAYEE_MISSING))?;
    let fee = only_fee(offer)?;
    let amount = narrow(first.ledger.expected)?;
    let fee_units = fee.map_or(Ok(0), |fee| narrow(fee.units))?;
    let relayer_fee = narrow(offer.relayer_fee)?;
    let start = u32::try_from(repetition.start.timestamp());
    let first_payment_s = start.map_err(|_| {
        Refusal::field(
            "recurrence.startDate",
            "is outside the range of dates that the contract supports",
        )
    })?;
    let total_payments = u8::try_from(repetition.total_payments);
    let total_payments =
        total_payments.map_err(|_| Refusal::field("recurrence.totalPayments", "is too large for the contract"))?;
    let period_s = period_s(repetition.frequency);
    let last_due_s = u64::from(first_payment_s) + u64::from(total_payments.saturating_sub(1)) * u64::from(period_s);
    let permit = Permit {
        chain_id: terms.network.chain_id(),
        contract: offer.contract,
        subscriber: repetition.payer,
        token,
        recipient,
        fee_address: fee.map(|fee| fee.receiver),
        amount,
        fee: fee_units,
        relayer_fee,
        period_s,
        first_payment_s,
        total_payments,
        nonce: U256::from_be_bytes(fresh.nonce),
        deadline_s: last_due_s + GRACE.num_seconds().unsigned_abs(),
    };
    let (id, origin) = (fresh.id.clone(), first.origin.clone());
    Ok(Schedule::unsigned(id, origin, terms.network, permit, asked, fresh.now))
}

/// The contract pays one receiver in addition to the payee.
fn only_fee(offer: &ScheduleOffer<'_>) -> Result<Option<FeeLeg>, Refusal> {
    let receiver = match offer.fees {
        [] => return Ok(None),
        [fee] => return Ok(Some(*fee)),
        [_, further, ..] => further.receiver,
    };
    let because =
        format!("a recurring payment supports one fee receiver, and the fee of the service goes to {receiver}");
    Err(if offer.has_own_fee {
        let sentence = format!("must be absent while the client ID has a fee for another address: {because}");
        Refusal::field("recurrence", sentence)
    } else {
        Refusal::field("feeAddress", format!("must be {receiver} or absent: {because}"))
    })
}

/// The contract supports amounts of 128 bits.
fn narrow(units: U256) -> Result<u128, Refusal> {
    u128::try_from(units).map_err(|_| {
        let sentence = "is too large for a recurring payment: its contract supports amounts of at most 128 bits";
        Refusal::field("amount", sentence)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_means_midnight_utc_and_a_time_is_preserved() {
        let at = |text: &str| first_payment(text).map(|time| time.timestamp());
        assert_eq!(at("2030-01-01"), Ok(1_893_456_000));
        for time in [
            "2030-01-01T10:00:00Z",
            "2030-01-01T12:00:00+02:00",
            "2029-12-31T22:00:00-12:00",
        ] {
            assert_eq!(at(time), Ok(1_893_492_000), "{time}");
        }
        for wrong in [
            "2030-01-01T10:00:00",
            "2030-01-01T10:00:60Z",
            "2030-13-01",
            "tomorrow",
            "",
        ] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn networks_without_the_contract_have_no_recurring_payments() {
        let now = DateTime::from_timestamp(1_893_456_000, 0).expect("a time");
        let payer = Address::parse("0x70997970C51812dc3A010C7d01b50e0d17dc79C8").expect("an address");
        let monthly = RecurrenceInput {
            start: now,
            frequency: Frequency::Monthly,
            total_payments: 2,
            payer,
            other_payer: None,
        };
        let refused = |network: Network| {
            let mut checks = Checks::new();
            check(&monthly, network, true, None, now, &mut checks);
            checks.finish().err().map(|refusal| refusal.fields[0].field.clone())
        };
        assert_eq!(refused(Network::Base), None);
        for network in [Network::Optimism, Network::Tron] {
            assert_eq!(refused(network).as_deref(), Some("recurrence"), "{network:?}");
        }
    }

    #[test]
    fn periods_are_fixed_seconds() {
        let days = Frequency::ALL.map(|frequency| period_s(frequency) / 86_400);
        assert_eq!(days, [1, 7, 30, 365]);
    }
}
