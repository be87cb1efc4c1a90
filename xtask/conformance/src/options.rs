//! Options of the conformance test.

use std::path::PathBuf;

use clap::Parser;

/// Conformance test: checks a deployment against the documents, operation by operation
#[derive(Debug, Parser)]
#[command(name = "cargo xtask conformance")]
pub(crate) struct Options {
    /// URL of the deployment; without it, the command starts and checks `prs dev`
    #[arg(long, requires = "api_key")]
    pub(crate) url: Option<String>,
    /// URL of the auth API of the deployment, if it differs from the URL of the deployment
    #[arg(long, requires = "url")]
    pub(crate) auth_url: Option<String>,
    /// API key of a platform for tests
    #[arg(long, requires = "url", env = "CONFORMANCE_API_KEY", hide_env_values = true)]
    pub(crate) api_key: Option<String>,
    /// Key of an orchestrator; without it, only refusals of its operations are checked
    #[arg(long, requires = "url", env = "CONFORMANCE_ORCHESTRATOR_KEY", hide_env_values = true)]
    pub(crate) orchestrator_key: Option<String>,
    /// Session of a user, if registration is not open
    #[arg(long, requires = "url", env = "CONFORMANCE_SESSION", hide_env_values = true)]
    pub(crate) session: Option<String>,
    /// A payee destination of the platform, for links
    #[arg(long, requires = "url")]
    pub(crate) destination_id: Option<String>,
    /// Address that receives payments; it should be your own
    #[arg(long, default_value = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8")]
    pub(crate) payee: String,
    /// Wallet for which calldata is requested; with `--rpc-url`, an account that the node of the chain has unlocked
    #[arg(long, default_value = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266")]
    pub(crate) payer: String,
    /// Currency of the payments
    #[arg(long, default_value = "FAU-sepolia")]
    pub(crate) currency: String,
    /// Network of the payments
    #[arg(long, default_value = "sepolia")]
    pub(crate) network: String,
    /// Node of a test chain that pays and signs; without it, no payment is made and no payment events are checked
    #[arg(long, requires = "url")]
    pub(crate) rpc_url: Option<String>,
    /// URL at which the deployment reaches the receiver of this run; not needed if both are on one machine
    #[arg(long)]
    pub(crate) receiver_url: Option<String>,
    /// Port of this machine on which the receiver listens
    #[arg(long, default_value_t = 0)]
    pub(crate) receiver_port: u16,
    /// Check `prs serve` on a PostgreSQL that this command starts, with the chains of a `prs dev`
    #[arg(long, conflicts_with = "url")]
    pub(crate) postgres: bool,
    /// Port for `prs dev`
    #[arg(long, conflicts_with = "url")]
    pub(crate) port: Option<u16>,
    /// Also write the report as JUnit XML
    #[arg(long)]
    pub(crate) junit: Option<PathBuf>,
}
