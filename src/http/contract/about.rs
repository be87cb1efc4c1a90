//! What each document says about itself, and how the answer of one operation leads to another.

use crate::http::gate::access::op;
use serde_json::{Value, json};

/// What a document says about itself.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// Title.
    pub title: &'static str,
    /// Version of the contract.
    pub version: &'static str,
    /// Overview, in Markdown.
    pub description: &'static str,
    /// Links between operations.
    pub links: &'static [Link],
}

/// How the answer of one operation leads to another.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// operationId whose success leads on.
    pub from: &'static str,
    /// Name of the link.
    pub name: &'static str,
    /// operationId that it leads to.
    pub to: &'static str,
    /// Parameters of the second operation and where the answer holds them.
    pub parameters: &'static [(&'static str, &'static str)],
}

/// The document of the platform API, version 2.
pub const PLATFORM: About = About {
    title: "Payment Request Service: Platform API",
    version: "0.13.0",
    description: include_str!("about/platform.md"),
    links: &[
        Link {
            from: op::createRequest,
            name: "read",
            to: op::getRequest,
            parameters: &[("requestId", "$response.body#/requestId")],
        },
        Link {
            from: op::createRequest,
            name: "pay",
            to: op::getPaymentCalldata,
            parameters: &[("requestId", "$response.body#/requestId")],
        },
        Link {
            from: op::createPayout,
            name: "read",
            to: op::getRequest,
            parameters: &[("requestId", "$response.body#/requestId")],
        },
        Link {
            from: op::createOrchestratorWebhook,
            name: "deactivate",
            to: op::deactivateOrchestratorWebhook,
            parameters: &[("id", "$response.body#/webhook/id")],
        },
        Link {
            from: op::createOrchestratorWebhook,
            name: "rotate",
            to: op::rotateOrchestratorWebhookSecret,
            parameters: &[("id", "$response.body#/webhook/id")],
        },
    ],
};

/// The document of the auth API, version 1.
pub const AUTH: About = About {
    title: "Payment Request Service: Auth API",
    version: "1.0.0",
    description: include_str!("about/auth.md"),
    links: &[
        Link {
            from: op::createWebhook,
            name: "toggle",
            to: op::toggleWebhook,
            parameters: &[("webhookId", "$response.body#/id")],
        },
        Link {
            from: op::createWebhook,
            name: "delete",
            to: op::deleteWebhook,
            parameters: &[("webhookId", "$response.body#/id")],
        },
        Link {
            from: op::createWebhook,
            name: "rotate",
            to: op::rotateWebhookSecret,
            parameters: &[("webhookId", "$response.body#/id")],
        },
    ],
};

/// The one server of every document: a self-hosted service knows no other address of itself.
pub(super) fn this_host() -> Value {
    json!([{
        "url": "/",
        "description": "This host: the local, staging or production service that serves this document",
        "x-internal": false,
    }])
}

pub(super) fn info(about: &About) -> Value {
    json!({
        "title": about.title,
        "version": about.version,
        "description": about.description,
        "contact": { "name": "The maintainers of this service" },
        "license": { "name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0" },
    })
}
