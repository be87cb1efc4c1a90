//! Providers that screen wallets, over HTTP in the shape that each of them publishes, and the sandbox of `prs dev`, which
//! speaks both. What is sent to whom, and what counts as which answer, is written in docs/partners/screening.md.

mod hypernative;
mod merklescience;
mod question;
pub mod sandbox;
#[cfg(test)]
mod tests;

pub use hypernative::{Hypernative, HypernativeOptions};
pub use merklescience::{MerkleScience, MerkleScienceOptions};
