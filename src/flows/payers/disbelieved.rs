//! What the off-ramp partner says in its own shapes and what contradicts what is known here. It changes nothing, and is seen.

use metrics::counter;

/// What can be disbelieved: the answer to a call, and news of each kind of record.
pub const OPERATIONS: [&str; 7] = [
    "register",
    "add_account",
    "quote",
    "open_order",
    "order",
    "payer",
    "account",
];

/// Has the operator see that something was not believed, and why.
pub(in crate::flows) fn disbelieved(operation: &'static str, why: &str) {
    tracing::warn!(operation, why, "the off-ramp partner is not believed");
    counter!("prs_off_ramp_disbelieved_total", "operation" => operation).increment(1);
}
