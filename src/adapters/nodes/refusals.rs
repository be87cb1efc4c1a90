//! Interprets provider errors for queries over a block range.

use super::window::NarrowingCause;

/// Provider messages for a query over too many blocks or results. Source: rules G.6.
const LIMIT_TEXTS: [&str; 22] = [
    "query returned more than",
    "too many",
    "block range",
    "blocks range",
    "range limit",
    "range is too",
    "range too",
    "ranges over",
    "max range",
    "maximum range",
    "limited to",
    "max results",
    "maximum allowed",
    "blocks distance",
    "exceeds limit",
    "exceed max",
    "exceeds max",
    "response size",
    "too large",
    "too big",
    "too wide",
    "timeout",
];

/// Provider messages for too many calls. A query over fewer blocks may then succeed, but the service learns no maximum
/// number of blocks from such a message.
const RATE_TEXTS: [&str; 6] = [
    "too many requests",
    "rate limit",
    "rate-limit",
    "requests per",
    "per second",
    "throughput",
];

/// Provider messages that reject the caller, independent of the query.
const ACCESS_TEXTS: [&str; 8] = [
    "unauthorized",
    "unauthenticated",
    "authenticate",
    "forbidden",
    "access denied",
    "api key",
    "project id",
    "not whitelisted",
];

/// Words that, together with "method", mean an unknown method.
const MISSING_TEXTS: [&str; 5] = [
    "not found",
    "not supported",
    "not available",
    "not allowed",
    "does not exist",
];

/// Error codes of an unknown method.
const MISSING_CODES: [i64; 2] = [-32_601, -32_604];

/// Error code and HTTP status of too many calls.
const TOO_MANY_CALLS: i64 = 429;

/// Whether a lowercase error message says that the query is too wide.
pub(super) fn names_limit(message: &str) -> bool {
    let holds = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    holds(&LIMIT_TEXTS) && !holds(&RATE_TEXTS)
}

/// What an error says about the width of the query. Providers use the same codes for limits and other errors, so only
/// the message and a few codes can rule out the width as the cause.
pub(super) fn narrower(code: i64, message: &str) -> Option<NarrowingCause> {
    let holds = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    if code == TOO_MANY_CALLS || MISSING_CODES.contains(&code) {
        None
    } else if names_limit(message) {
        Some(NarrowingCause::Limit)
    } else if holds(&ACCESS_TEXTS) || (message.contains("method") && holds(&MISSING_TEXTS)) {
        None
    } else {
        Some(NarrowingCause::Unclear)
    }
}
