//! The off-ramp partner of `prs dev` and the tests. It implements docs/partners/offramp.md over loopback HTTP, so that
//! the service calls it, and gets its callbacks, as with a real partner.

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

/// A function that returns the time of the service.
pub type Now = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;
