//! Start and frequency of a recurrence.

use crate::{
    domain::{request::terms::start_day, schedule::plan::first_payment},
    http::forms::{text::text, words::words},
};
use chrono::{DateTime, NaiveDate, Utc};

pub use crate::domain::request::terms::Frequency;

words! {
    /// Frequency: daily, weekly, monthly, yearly
    Frequency as "RecurrenceFrequency";
}

text! {
    /// First due day of a recurrence, in UTC. Source: decisions D47.
    StartDayText {
        pattern: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|\+00:00))?$",
        length_max: 35,
        example: "2030-01-01",
        hint: "must be a day, for example 2030-01-01, or a time in UTC that ends in Z or +00:00",
        reads: NaiveDate = start_day,
    }
    /// First due time of a recurring payment: a day, which begins at midnight UTC, or a time at any offset. Source:
    /// decisions D47.
    StartText {
        pattern: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2}))?$",
        length_max: 35,
        example: "2030-01-01",
        hint: "must be a day, for example 2030-01-01, or a time with Z or an offset from UTC",
        reads: DateTime<Utc> = first_payment,
    }
}
