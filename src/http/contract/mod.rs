//! What is published: the documents, and the page that shows them.
//!
//! The framework prints what its types know. What it cannot say is added to its print, each thing in one place:
//!
//! - [`described`]: statuses that every operation can answer with, credentials that are needed together, media types
//!   without parameters, paths that several implementations share;
//! - [`about`]: contact, licence and server, and how the answer of one operation leads to another;
//! - [`schemas`]: references to what may be null, unsigned bounds, whole numbers, examples out of doc comments;
//! - [`examples`]: examples of whole bodies, put together from those of their members;
//! - [`parameters`]: examples that a page for trying things out does not fill in, and the one that many operations share;
//! - [`guidance`]: when an operation is called, what it needs, what comes next and which events follow;
//! - [`answers`]: headers, an example of each answer, the words of each operation out of its doc comment, and in the
//!   components what is the same for every operation.
//!
//! [`document`] puts them together; [`webhooks_document`] is built apart from all this, because OpenAPI 3.0 has no
//! webhooks. Source: decisions D28; decisions D29.

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
