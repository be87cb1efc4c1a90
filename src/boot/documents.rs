//! The published documents, built without database, network or settings. The program serves the committed files,
//! because building them takes longer than the rest of the startup. A test compares the committed files with the
//! documents built from the code.

use crate::http;
use clap::ValueEnum;

/// A published document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PublishedDocument {
    /// Operations under `/v2`.
    V2,
    /// Operations under `/v1`.
    Auth,
    /// Events.
    Webhooks,
}

/// Text of a document in the committed file, which the program serves.
pub fn committed_text(document: PublishedDocument) -> &'static str {
    match document {
        PublishedDocument::V2 => include_str!("../../openapi/v2.json"),
        PublishedDocument::Auth => include_str!("../../openapi/auth.json"),
        PublishedDocument::Webhooks => include_str!("../../openapi/webhooks.json"),
    }
}

/// Text of a document, built from the code. `cargo xtask openapi generate` commits this text.
pub fn described_text(document: PublishedDocument) -> String {
    match document {
        PublishedDocument::V2 => http::contract::document::v2(),
        PublishedDocument::Auth => http::contract::document::auth(),
        PublishedDocument::Webhooks => http::contract::document::pretty(&http::contract::webhooks_document::document()),
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
    fn the_committed_documents_match_the_code() {
        for document in PublishedDocument::value_variants() {
            assert!(
                committed_text(*document) == described_text(*document),
                "{document:?} is outdated; run `cargo xtask openapi generate`"
            );
        }
    }
}
