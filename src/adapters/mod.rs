//! Implementations of the ports: clock, randomness, encryption, passwords, webhooks, rates, screening, payouts to
//! banks, chains.

pub mod api_client;
mod breaker;
pub mod clock;
pub mod evm;
pub mod guesses;
mod host_names;
pub mod ids;
pub mod nodes;
pub mod off_ramp;
pub mod outbound;
mod partner;
pub mod passwords;
pub mod rates;
mod read_limit;
pub mod screening;
pub mod sealer;
pub mod tron;

use reqwest::{Client, ClientBuilder};
use rustls::ClientConfig;
use rustls_platform_verifier::ConfigVerifierExt as _;
use std::sync::{Once, OnceLock};

/// Sets the TLS provider of the process. Every HTTP client of the adapters calls this function; only the first call has
/// an effect.
pub fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("the process already has a TLS provider");
        }
    });
}

/// TLS configuration of all HTTP clients. Each network, feed and receiver has its own client, and reading the
/// certificates of the machine takes milliseconds, so all clients share them.
///
/// Errors: there are no certificates, or they are unreadable.
fn tls() -> Result<ClientConfig, rustls::Error> {
    static TLS: OnceLock<ClientConfig> = OnceLock::new();
    install_tls();
    let tls = match TLS.get() {
        Some(tls) => tls,
        None => {
            let mut tls = ClientConfig::with_platform_verifier().map_err(|error| {
                let remedy = "install ca-certificates, or set SSL_CERT_FILE to a certificate file";
                rustls::Error::General(format!("{error}; {remedy}"))
            })?;
            tls.alpn_protocols = vec![b"http/1.1".to_vec()];
            TLS.get_or_init(|| tls)
        }
    };
    Ok(tls.clone())
}

/// Builder of an HTTP client. Errors: those of [`tls`].
fn client() -> Result<ClientBuilder, rustls::Error> {
    Ok(Client::builder().tls_backend_preconfigured(tls()?))
}
