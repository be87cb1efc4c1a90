//! What is examined, and how.

use std::path::PathBuf;

use clap::Parser;

/// Holds the answers of a deployment against the documents, operation by operation.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask conformance")]
pub(crate) struct Options {
    /// Address of the deployment; without it `prs dev` is started and examined
    #[arg(long, requires = "api_key")]
    pub(crate) url: Option<String>,
    /// Address of its auth API, when that is another one
    #[arg(long, requires = "url")]
    pub(crate) auth_url: Option<String>,
    /// A key of a platform that is there for tests
    #[arg(long, requires = "url", env = "CONFORMANCE_API_KEY", hide_env_values = true)]
    pub(crate) api_key: Option<String>,
    /// A key of an orchestrator; without it its operations are only refused
    #[arg(long, requires = "url", env = "CONFORMANCE_ORCHESTRATOR_KEY", hide_env_values = true)]
    pub(crate) orchestrator_key: Option<String>,
    /// A session of a person, where not everybody may register
    #[arg(long, requires = "url", env = "CONFORMANCE_SESSION", hide_env_values = true)]
    pub(crate) session: Option<String>,
    /// A payee destination of the platform, for links
    #[arg(long, requires = "url")]
    pub(crate) destination_id: Option<String>,
    /// Who is to be paid: an address of yours
    #[arg(long, default_value = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8")]
    pub(crate) payee: String,
    /// Whose wallet the calldata is for; with `--rpc-url` an account that its node has unlocked
    #[arg(long, default_value = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266")]
    pub(crate) payer: String,
    /// In what is paid
    #[arg(long, default_value = "FAU-sepolia")]
    pub(crate) currency: String,
    /// On which network
    #[arg(long, default_value = "sepolia")]
    pub(crate) network: String,
    /// A node of a test chain that pays and signs; without it no payment is made, and its events are not looked at
    #[arg(long, requires = "url")]
    pub(crate) rpc_url: Option<String>,
    /// Under which address the deployment reaches the receiver of this run; not needed on one machine
    #[arg(long)]
    pub(crate) receiver_url: Option<String>,
    /// On which port of this machine the receiver listens
    #[arg(long, default_value_t = 0)]
    pub(crate) receiver_port: u16,
    /// Examine `prs serve` on a PostgreSQL that is started for it, on the chain of a `prs dev`
    #[arg(long, conflicts_with = "url")]
    pub(crate) postgres: bool,
    /// On which port `prs dev` is started
    #[arg(long, conflicts_with = "url")]
    pub(crate) port: Option<u16>,
    /// Write the report as JUnit XML too
    #[arg(long)]
    pub(crate) junit: Option<PathBuf>,
}
