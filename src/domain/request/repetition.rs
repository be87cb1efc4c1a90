//! Periods of a recurring request. They follow the calendar and are counted from the first due day.

use super::{
    Request,
    plan::FreshRequest,
    terms::{Frequency, Recurrence},
};
use crate::domain::{ids::RequestId, ledger::Ledger, reference::PaymentReference};
use alloy::primitives::keccak256;
use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveTime, Utc};

/// Last year in which a request repeats: years have four digits.
const YEAR_MAX: i32 = 9_999;

/// Limit of the search for a period: a recurrence has fewer periods than this until [`YEAR_MAX`], even with one period
/// a day.
const PERIODS_MAX: u32 = 4_000_000;

impl Recurrence {
    /// The start of a period, at midnight UTC. The recurring request itself is period 0. `None` if the start is beyond
    /// [`YEAR_MAX`].
    ///
    /// Every period is counted from the first due day, not from the previous period. Example: 31 January, 28 February,
    /// 31 March. Source: rules P.3.3.
    pub fn begin_of(&self, period: u32) -> Option<DateTime<Utc>> {
        let day = match self.frequency {
            Frequency::Daily => self.start_date.checked_add_days(Days::new(period.into())),
            Frequency::Weekly => self.start_date.checked_add_days(Days::new(u64::from(period) * 7)),
            Frequency::Monthly => self.start_date.checked_add_months(Months::new(period)),
            Frequency::Yearly => self.start_date.checked_add_months(Months::new(period.checked_mul(12)?)),
        };
        let day = day.filter(|day: &NaiveDate| day.year() <= YEAR_MAX)?;
        Some(day.and_time(NaiveTime::MIN).and_utc())
    }

    /// The first period after `period` that begins later than `now`, with its start. `None` if the start is beyond
    /// [`YEAR_MAX`].
    pub fn next_after(&self, period: u32, now: DateTime<Utc>) -> Option<(u32, DateTime<Utc>)> {
        let (mut low, mut high) = (period.checked_add(1)?, PERIODS_MAX);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.begin_of(middle) {
                Some(begin) if begin <= now => low = middle + 1,
                _ => high = middle,
            }
        }
        Some((low, self.begin_of(low).filter(|begin| *begin > now)?))
    }
}

impl Request {
    /// A new request with the same terms, its own id and reference, and no payments.
    #[must_use]
    pub fn again(&self, fresh: &FreshRequest<'_>) -> Self {
        let salt = hex::encode(fresh.salt);
        let content = format!("{}|{salt}|{}", hex::encode(fresh.entropy), self.id);
        let id = RequestId::from_digest(&keccak256(content));
        Self {
            row: fresh.row.clone(),
            reference: PaymentReference::of_request(&id, &salt, self.terms.payee.as_ref()),
            id,
            salt,
            origin: self.origin.clone(),
            terms: self.terms.clone(),
            ledger: Ledger {
                tolerated: self.ledger.tolerated,
                ending: self.terms.ending(),
                ..Ledger::new(self.ledger.expected)
            },
            created_at: fresh.now,
            is_hidden: false,
            link_until: None,
            is_by_public_client: self.is_by_public_client,
        }
    }

    /// The request of another period. It has the same terms, names this request as its original and does not recur
    /// itself.
    #[must_use]
    pub fn repeated(&self, fresh: &FreshRequest<'_>) -> Self {
        let mut request = self.again(fresh);
        request.terms.recurrence = None;
        request.terms.original_request_id = Some(self.id.to_string());
        request.terms.original_request_reference = Some(self.reference.to_string());
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;
    use proptest::prelude::*;

    fn every(frequency: Frequency, start: &str) -> Recurrence {
        Recurrence {
            start_date: start.parse().unwrap(),
            frequency,
            is_stopped: false,
        }
    }

    fn days(frequency: Frequency, start: &str, periods: std::ops::Range<u32>) -> Vec<String> {
        let recurrence = every(frequency, start);
        let begin = |period| recurrence.begin_of(period).unwrap().date_naive().to_string();
        periods.map(begin).collect()
    }

    #[test]
    fn periods_follow_the_calendar_from_the_first_due_date() {
        assert_eq!(
            days(Frequency::Monthly, "2027-01-31", 0..5),
            ["2027-01-31", "2027-02-28", "2027-03-31", "2027-04-30", "2027-05-31"]
        );
        assert_eq!(
            days(Frequency::Monthly, "2027-11-30", 1..4),
            ["2027-12-30", "2028-01-30", "2028-02-29"]
        );
        assert_eq!(
            days(Frequency::Yearly, "2028-02-29", 0..5),
            ["2028-02-29", "2029-02-28", "2030-02-28", "2031-02-28", "2032-02-29"]
        );
        assert_eq!(
            days(Frequency::Weekly, "2027-12-27", 1..3),
            ["2028-01-03", "2028-01-10"]
        );
        assert_eq!(
            days(Frequency::Daily, "2028-02-28", 0..3),
            ["2028-02-28", "2028-02-29", "2028-03-01"]
        );
    }

    #[test]
    fn recurrences_end_before_year_ten_thousand() {
        let yearly = every(Frequency::Yearly, "9998-06-01");
        assert!(yearly.begin_of(1).is_some());
        assert_eq!((yearly.begin_of(2), yearly.begin_of(u32::MAX)), (None, None));
        let last = yearly.begin_of(1).unwrap();
        assert_eq!(yearly.next_after(0, last - TimeDelta::seconds(1)), Some((1, last)));
        assert_eq!(yearly.next_after(0, last), None);
        assert_eq!(yearly.next_after(u32::MAX, last), None);
    }

    fn frequencies() -> impl Strategy<Value = Frequency> {
        prop_oneof![
            Just(Frequency::Daily),
            Just(Frequency::Weekly),
            Just(Frequency::Monthly),
            Just(Frequency::Yearly)
        ]
    }

    proptest! {
        /// Periods have the lengths of the calendar. In a monthly recurrence, each period starts on the day of the
        /// first due date, or on the last day of a shorter month.
        #[test]
        fn periods_have_the_length_of_calendar_periods(
            frequency in frequencies(),
            start in 0_i64..30_000,
            period in 0_u32..400,
        ) {
            let start = NaiveDate::from_ymd_opt(2026, 1, 1).unwrap() + TimeDelta::days(start);
            let recurrence = Recurrence { start_date: start, frequency, is_stopped: false };
            let begin = |period| recurrence.begin_of(period).unwrap();
            let (this, next) = (begin(period), begin(period + 1));
            let length = (next - this).num_days();
            let (shortest, longest) = match frequency {
                Frequency::Daily => (1, 1),
                Frequency::Weekly => (7, 7),
                Frequency::Monthly => (28, 31),
                Frequency::Yearly => (365, 366),
            };
            prop_assert!((shortest..=longest).contains(&length), "{this} to {next}");
            prop_assert_eq!(this.time(), NaiveTime::MIN);
            if matches!(frequency, Frequency::Monthly | Frequency::Yearly) {
                let day_after = this.date_naive() + Days::new(1);
                prop_assert!(
                    this.day() == start.day() || (this.day() < start.day() && day_after.day() == 1),
                    "{this} from {start}"
                );
                let months = |day: NaiveDate| i64::from(day.year()) * 12 + i64::from(day.month0());
                let step = if frequency == Frequency::Yearly { 12 } else { 1 };
                prop_assert_eq!(months(this.date_naive()) - months(start), step * i64::from(period));
            } else {
                prop_assert_eq!(next.weekday() == this.weekday(), frequency == Frequency::Weekly);
            }
        }

        /// From any instant, the next period is the first one that starts later: no period is skipped or repeated.
        #[test]
        fn the_next_period_is_the_first_that_starts_later(
            frequency in frequencies(),
            start in 0_i64..10_000,
            after in 0_u32..50,
            seconds in -1_000_000_i64..2_000_000_000,
        ) {
            let start = NaiveDate::from_ymd_opt(2026, 1, 1).unwrap() + TimeDelta::days(start);
            let recurrence = Recurrence { start_date: start, frequency, is_stopped: false };
            let now = recurrence.begin_of(0).unwrap() + TimeDelta::seconds(seconds);
            let (period, begin) = recurrence.next_after(after, now).unwrap();
            prop_assert!(period > after && begin > now);
            prop_assert_eq!(recurrence.begin_of(period), Some(begin));
            prop_assert!(period == after + 1 || recurrence.begin_of(period - 1).unwrap() <= now);
        }
    }
}
