//! The published documents, built without database, network or settings. The program serves the committed ones, because
//! building them takes longer than all the rest of a start; a test holds them against those that the code describes.

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
pub fn committed_text(document: Document) -> &'static str {
    match document {
        Document::V2 => include_str!("../../openapi/v2.json"),
        Document::Auth => include_str!("../../openapi/auth.json"),
        Document::Webhooks => include_str!("../../openapi/webhooks.json"),
    }
}

/// Text of a document, as the code describes it: what `cargo xtask openapi generate` commits.
pub fn described_text(document: Document) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_documents_are_those_that_the_code_describes() {
        for document in Document::value_variants() {
            assert!(
                committed_text(*document) == described_text(*document),
                "{document:?} is outdated; run `cargo xtask openapi generate`"
            );
        }
    }
}
