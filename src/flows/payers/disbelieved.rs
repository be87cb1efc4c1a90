//! Responses and news of the off-ramp partner that are well-formed but contradict stored data. They change nothing and
//! are logged.

use metrics::counter;

/// Sources of contradictory data: responses to calls, and news of each kind of record.
pub const OPERATIONS: [&str; 7] = [
    "register",
    "add_account",
    "quote",
    "open_order",
    "order",
    "payer",
    "account",
];

/// Logs for the operator that data was rejected, and why.
pub(in crate::flows) fn disbelieved(operation: &'static str, why: &str) {
    tracing::warn!(operation, why, "a response of the off-ramp partner was rejected");
    counter!("prs_off_ramp_disbelieved_total", "operation" => operation).increment(1);
}
