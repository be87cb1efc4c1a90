//! What the refusals of providers mean for a question over a range of blocks.

use super::window::Narrower;

/// Texts by which providers say that a question covers too much. Source: rules G.6.
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

/// Texts by which providers refuse too many calls. A narrower question may be cheaper, but no limit is learned.
const RATE_TEXTS: [&str; 6] = [
    "too many requests",
    "rate limit",
    "rate-limit",
    "requests per",
    "per second",
    "throughput",
];

/// Texts by which providers refuse whoever asks, whatever is asked.
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

/// What stands beside "method" when there is none of that name.
const MISSING_TEXTS: [&str; 5] = [
    "not found",
    "not supported",
    "not available",
    "not allowed",
    "does not exist",
];

/// Codes of a method that a node does not have.
const MISSING_CODES: [i64; 2] = [-32_601, -32_604];

/// Code, and status, of too many calls.
const TOO_MANY_CALLS: i64 = 429;

/// Whether a refusal, in small letters, says that the question covers too much.
pub(super) fn names_limit(message: &str) -> bool {
    let holds = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    holds(&LIMIT_TEXTS) && !holds(&RATE_TEXTS)
}

/// What a refusal teaches. Providers use the same codes for limits and for anything else, so that only the text and a
/// few codes can clear the width of the question.
pub(super) fn narrower(code: i64, message: &str) -> Option<Narrower> {
    let holds = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    if code == TOO_MANY_CALLS || MISSING_CODES.contains(&code) {
        None
    } else if names_limit(message) {
        Some(Narrower::Limit)
    } else if holds(&ACCESS_TEXTS) || (message.contains("method") && holds(&MISSING_TEXTS)) {
        None
    } else {
        Some(Narrower::Unclear)
    }
}
