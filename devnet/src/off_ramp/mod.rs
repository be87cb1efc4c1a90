//! The off-ramp partner of `prs dev` and the tests: it speaks the shapes of docs/partners/offramp.md over loopback HTTP, so that
//! what calls it and what hears from it is what does so with a real one.

mod sandbox;
mod serve;
mod signature;
mod teller;
#[cfg(test)]
mod tests;
pub mod words;

use std::sync::Arc;

use chrono::{DateTime, Utc};

pub use sandbox::{OffRampSandbox, PageKind, Reaction, Received, SandboxKey, SandboxPage, Telling};
pub use serve::{Bound, bind};
pub use signature::{CallText, callback_signature};
pub use teller::Teller;
pub use words::{OffRampBehaviour, outcomes};

/// Tells the time of the service.
pub type Now = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;
