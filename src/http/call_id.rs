//! The id of a call, in its response, its log lines and its error body.

use crate::ports::ids::Ids;
use poem::{Request, http::HeaderName};
use std::sync::Arc;

/// Name of the header with the id of a call.
pub const CALL_ID_HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length of an id from a caller.
const CALL_ID_LENGTH_MAX: usize = 128;

/// Id of a call: the caller's id if it is valid, else a new ULID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallId(Arc<str>);

impl CallId {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(in crate::http) fn of(request: &Request, ids: &dyn Ids) -> Self {
        let sent = request.header(CALL_ID_HEADER).filter(|text| is_sane(text));
        Self(sent.map_or_else(|| ids.ulid().into(), Into::into))
    }
}

fn is_sane(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    (1..=CALL_ID_LENGTH_MAX).contains(&text.len()) && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_ids_are_adopted() {
        assert!(is_sane("01JZX4T9QK3M7N8P2R5S6V0WYB"));
        assert!(is_sane("a-b_c.d:1"));
        assert!(!is_sane(""));
        assert!(!is_sane("two words"));
        assert!(!is_sane("line\nbreak"));
        assert!(!is_sane(&"x".repeat(CALL_ID_LENGTH_MAX + 1)));
    }
}
