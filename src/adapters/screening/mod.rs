//! Providers that screen wallets, over HTTP in the format that each provider publishes. The sandbox of `prs dev`
//! supports both formats. docs/partners/screening.md describes what the service sends to each provider, and which
//! responses count as which result.

mod hypernative;
mod merklescience;
mod question;
pub mod sandbox;
#[cfg(test)]
mod tests;

pub use hypernative::{Hypernative, HypernativeOptions};
pub use merklescience::{MerkleScience, MerkleScienceOptions};
