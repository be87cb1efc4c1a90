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

use reqwest::{Client, ClientBuilder};
use rustls::ClientConfig;
use rustls_platform_verifier::ConfigVerifierExt as _;
use std::sync::{Once, OnceLock};

/// Chooses the one TLS provider of the process. Every client of this layer calls it; only the first call counts.
pub fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("the process has chosen its TLS provider already");
        }
    });
}

/// A client of this layer, to be completed. All of them share the certificates of the machine, which take milliseconds to read:
/// each network, feed and receiver has a client of its own.
///
/// Errors: there are no certificates, or they cannot be read.
fn client() -> Result<ClientBuilder, rustls::Error> {
    static TLS: OnceLock<ClientConfig> = OnceLock::new();
    install_tls();
    let tls = match TLS.get() {
        Some(tls) => tls,
        None => {
            let mut tls = ClientConfig::with_platform_verifier().map_err(|error| {
                let remedy = "install ca-certificates, or name a file in SSL_CERT_FILE";
                rustls::Error::General(format!("{error}; {remedy}"))
            })?;
            tls.alpn_protocols = vec![b"http/1.1".to_vec()];
            TLS.get_or_init(|| tls)
        }
    };
    Ok(Client::builder().tls_backend_preconfigured(tls.clone()))
}
