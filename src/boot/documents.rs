//! The published documents, built without database, network or settings.

use crate::http;
use clap::ValueEnum;

/// A published document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// Operations under `/v2`.
    V2,
    /// Operations under `/v1`.
    Auth,
    /// Events.
    Webhooks,
}

/// Text of a document, as it is committed and served.
pub fn text(document: Document) -> String {
    match document {
        Document::V2 => http::contract::document::v2(),
        Document::Auth => http::contract::document::auth(),
        Document::Webhooks => http::contract::document::pretty(&http::contract::webhooks_document::document()),
    }
}

/// Name and JSON Schema of each event.
pub fn event_schemas() -> Vec<(String, String)> {
    http::contract::webhooks_document::event_schemas()
}
