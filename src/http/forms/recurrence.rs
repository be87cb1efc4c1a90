//! When what repeats begins, and how often it does.

use crate::{
    domain::request::terms::start_day,
    http::forms::{text::text, words::words},
};
use chrono::NaiveDate;

pub use crate::domain::request::terms::Frequency;

words! {
    /// How often it repeats: daily, weekly, monthly, yearly
    Frequency as "RecurrenceFrequency";
}

text! {
    /// First due day of a repetition, in UTC.
    StartDayText {
        pattern: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z)?$",
        length_max: 32,
        example: "2030-01-01",
        hint: "must be a day, for example 2030-01-01, or a time in UTC that ends in Z",
        reads: NaiveDate = start_day,
    }
}
