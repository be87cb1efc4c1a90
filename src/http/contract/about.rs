//! The introduction of each API document, and the links from the response of one operation to another operation.

use crate::http::gate::access::op;
use serde_json::{Value, json};

/// The introduction of a document.
#[derive(Debug, Clone, Copy)]
pub struct DocumentInfo {
    /// Title.
    pub title: &'static str,
    /// Version of the contract.
    pub version: &'static str,
    /// Overview, in Markdown.
    pub description: &'static str,
    /// Links between operations.
    pub links: &'static [OperationLink],
}

/// A link from the response of one operation to another operation.
#[derive(Debug, Clone, Copy)]
pub struct OperationLink {
    /// operationId of the operation whose success response has the link.
    pub from: &'static str,
    /// Name of the link.
    pub name: &'static str,
    /// operationId of the link target.
    pub to: &'static str,
    /// Parameters of the target operation and their location in the response.
    pub parameters: &'static [(&'static str, &'static str)],
}

/// The document of the platform API, version 2.
pub const PLATFORM: DocumentInfo = DocumentInfo {
    title: "Payment Request Service: Platform API",
    version: "0.13.0",
    description: include_str!("about/platform.md"),
    links: &[
        OperationLink {
            from: op::createRequest,
            name: "read",
            to: op::getRequest,
            parameters: &[("requestId", "$response.body#/requestId")],
        },
        OperationLink {
            from: op::createRequest,
            name: "pay",
            to: op::getPaymentCalldata,
            parameters: &[("requestId", "$response.body#/requestId")],
        },
        OperationLink {
            from: op::createPayout,
            name: "read",
            to: op::getRequest,
            parameters: &[("requestId", "$response.body#/requestId")],
        },
        OperationLink {
            from: op::createOrchestratorWebhook,
            name: "deactivate",
            to: op::deactivateOrchestratorWebhook,
            parameters: &[("id", "$response.body#/webhook/id")],
        },
        OperationLink {
            from: op::createOrchestratorWebhook,
            name: "rotate",
            to: op::rotateOrchestratorWebhookSecret,
            parameters: &[("id", "$response.body#/webhook/id")],
        },
    ],
};

/// The document of the auth API, version 1.
pub const AUTH: DocumentInfo = DocumentInfo {
    title: "Payment Request Service: Auth API",
    version: "1.0.0",
    description: include_str!("about/auth.md"),
    links: &[
        OperationLink {
            from: op::createWebhook,
            name: "toggle",
            to: op::toggleWebhook,
            parameters: &[("webhookId", "$response.body#/id")],
        },
        OperationLink {
            from: op::createWebhook,
            name: "delete",
            to: op::deleteWebhook,
            parameters: &[("webhookId", "$response.body#/id")],
        },
        OperationLink {
            from: op::createWebhook,
            name: "rotate",
            to: op::rotateWebhookSecret,
            parameters: &[("webhookId", "$response.body#/id")],
        },
    ],
};

/// The server list of every document. It has one entry, the relative URL `/`, because a self-hosted service does not
/// know under which host names it is reached.
pub(super) fn this_host() -> Value {
    json!([{
        "url": "/",
        "description": "This host: the local, staging or production service that serves this document",
        "x-internal": false,
    }])
}

pub(super) fn info(about: &DocumentInfo) -> Value {
    json!({
        "title": about.title,
        "version": about.version,
        "description": about.description,
        "contact": { "name": "The maintainers of this service" },
        "license": { "name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0" },
    })
}
