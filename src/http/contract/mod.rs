//! What is published: the documents, the paths in them, and the page that shows them.

pub mod apis;
pub mod docs;
pub mod document;
pub mod routes;
pub mod tags;
pub mod webhooks_document;
