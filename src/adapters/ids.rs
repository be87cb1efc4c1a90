//! Identifiers and randomness of the operating system.

use crate::ports::ids::Ids;

/// Draws from the operating system.
pub struct SystemIds;

impl Ids for SystemIds {
    #[expect(clippy::disallowed_methods, reason = "the one place where identifiers are drawn")]
    fn ulid(&self) -> String {
        ulid::Ulid::generate().to_string()
    }

    #[expect(
        clippy::expect_used,
        reason = "without randomness no secret is safe, so nothing may go on"
    )]
    fn fill(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("the operating system provides randomness");
    }
}
