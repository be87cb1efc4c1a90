//! Floor 2: implementations of ports. `boot` imports them, and nobody else.

pub mod clock;
pub mod evm;
pub mod ids;
pub mod outbound;
pub mod sealer;

/// Makes ring the TLS provider of the process; calling it again changes nothing.
pub fn install_tls() {
    // An error means that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
