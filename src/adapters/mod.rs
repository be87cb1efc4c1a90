//! Implementations of the ports on the real world: clock, randomness, sealed secrets, passwords, webhooks, rates,
//! screening, payouts to banks, chains.

pub mod api_client;
mod breaker;
pub mod clock;
pub mod evm;
pub mod guesses;
pub mod ids;
pub mod off_ramp;
pub mod outbound;
mod partner;
pub mod passwords;
pub mod rates;
pub mod screening;
pub mod sealer;

use std::sync::Once;

/// Chooses the one TLS provider of the process. Every client of this layer calls it; only the first call counts.
pub fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("the process has chosen its TLS provider already");
        }
    });
}
