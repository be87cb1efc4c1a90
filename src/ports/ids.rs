//! Identifiers and randomness.

/// Generates identifiers and random bytes from a cryptographically secure source.
pub trait Ids: Send + Sync + 'static {
    /// A new ULID as text: 48 bits of time, 80 bits of fresh randomness each time, never monotonic.
    fn ulid(&self) -> String;
    /// Fills the buffer with random bytes.
    fn fill(&self, buffer: &mut [u8]);
}

/// Random bytes as an array.
pub fn random<const N: usize>(ids: &dyn Ids) -> [u8; N] {
    let mut bytes = [0; N];
    ids.fill(&mut bytes);
    bytes
}
