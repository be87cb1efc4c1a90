//! The published API documents, and the page that shows them.
//!
//! The framework prints what its types know. These modules add what it cannot express:
//!
//! - [`described`]: statuses that every operation can return, credentials that are required together, media types
//!   without parameters, paths that several implementations share;
//! - [`about`]: contact, licence and server, and links from the response of one operation to another;
//! - [`schemas`]: nullable references, unsigned bounds, integers, examples from doc comments;
//! - [`examples`]: examples of whole bodies, assembled from those of their members;
//! - [`parameters`]: examples that a try-it-out page does not fill in, and the shared parameter;
//! - [`guidance`]: when to call an operation, what it needs, which operation comes next and which events follow;
//! - [`answers`]: headers, an example of each response, messages from the doc comments of operations, and the shared
//!   responses in the components.
//!
//! [`document`] combines them. [`webhooks_document`] is built separately, because OpenAPI 3.0 has no webhooks. Source:
//! decisions D28; decisions D29.

pub mod about;
mod answers;
pub mod apis;
pub mod described;
pub mod docs;
pub mod document;
mod examples;
mod guidance;
mod members;
mod parameters;
mod schemas;
pub mod webhooks_document;
