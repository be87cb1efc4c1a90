//! The HTML of the pages: the static part of the overview, and the bar above Swagger UI and Scalar.

use super::{
    listed::{DocumentIndex, Group, IndexedEvent, IndexedOperation, ORDER},
    own,
    vendored::{self, SCALAR_SCRIPT, SWAGGER_SCRIPT, SWAGGER_STYLE},
};
use maud::{DOCTYPE, Markup, html};

const NAME: &str = "Payment Request Service";

/// Path of the developer endpoints of `prs dev`.
const ROOM: &str = "/_dev";

/// Code and name of each sample language, and its sample that verifies a webhook.
const LANGUAGES: [(&str, &str, &str); 5] = [
    ("curl", "curl", include_str!("files/verify.sh")),
    ("typescript", "TypeScript", include_str!("files/verify.ts")),
    ("python", "Python", include_str!("files/verify.py")),
    ("go", "Go", include_str!("files/verify.go")),
    ("rust", "Rust", include_str!("files/verify.rs")),
];

/// Modules that the entry module of the overview imports. Preloading lets browsers fetch them in parallel.
const MODULES: [&str; 4] = ["elements.js", "first.js", "room.js", "samples.js"];

/// What the documentation pages of this service permit.
#[derive(Debug, Clone, Copy, Default)]
pub struct PagePermissions {
    /// Whether Swagger UI stores entered keys in the browser.
    pub keeps_keys: bool,
    /// Whether the developer endpoints exist, which return credentials and pay requests.
    pub has_room: bool,
}

/// An API document that a viewer shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct DocumentEntry {
    /// Title.
    pub(super) title: &'static str,
    /// Path of the document on this service.
    pub(super) path: &'static str,
}

/// A third-party viewer of API documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThirdPartyViewer {
    /// Swagger UI.
    Swagger,
    /// Scalar.
    Scalar,
}

/// A page of the documentation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DocsPage {
    Overview,
    Of(ThirdPartyViewer),
}

impl ThirdPartyViewer {
    /// Path of its pages.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::Swagger => "/docs/swagger",
            Self::Scalar => "/docs/scalar",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Swagger => "Swagger UI",
            Self::Scalar => "Scalar",
        }
    }

    /// Path of the page on which this viewer shows a document: `/docs/scalar/v2` for `/openapi/v2.json`.
    pub(super) fn address(self, document: &str) -> String {
        let name = document.rsplit('/').next().unwrap_or_default();
        format!("{}/{}", self.folder(), name.trim_end_matches(".json"))
    }

    /// Link to an operation on the page of this viewer.
    fn link(self, group: &str, operation: &IndexedOperation) -> String {
        let page = self.address(operation.document);
        match self {
            Self::Swagger => format!("{page}#/{}/{}", group.replace(' ', "%20"), operation.id),
            Self::Scalar => format!("{page}#tag/{}/{}", group.to_lowercase().replace(' ', "-"), operation.id),
        }
    }

    /// The page on which this viewer shows the document `shown`, with links to the pages of all `documents` in this
    /// viewer.
    pub(super) fn written(
        self,
        documents: &[DocumentEntry],
        shown: DocumentEntry,
        liberties: PagePermissions,
    ) -> String {
        let title = format!("{} in {}", shown.title, self.name());
        let chooser = html! {
            nav.bar.second aria-label="Documents" {
                @for document in documents {
                    a href=(self.address(document.path)) aria-current=[(document.path == shown.path).then_some("page")] {
                        (document.title)
                    }
                }
                a href=(shown.path) download { "Download the document" }
            }
        };
        let scripts = match self {
            Self::Swagger => [SWAGGER_SCRIPT, "swagger.js"],
            Self::Scalar => [SCALAR_SCRIPT, "scalar.js"],
        };
        let guest = html! {
            @if self == Self::Swagger {
                link rel="stylesheet" href=(vendored::address(SWAGGER_STYLE));
            }
            script defer src=(vendored::address(scripts[0])) {}
            script type="module" src=(own::address(scripts[1])) {}
        };
        let body = html! {
            (chooser)
            main #main {
                noscript { p.page { (self.name()) " requires JavaScript. The document is at " a href=(shown.path) { (shown.path) } "." } }
                div #ui data-address=(shown.path) data-keeps=(liberties.keeps_keys) data-order=(ORDER.join("|")) {}
            }
        };
        document(&title, DocsPage::Of(self), liberties, &guest, &body).into_string()
    }
}

fn document(title: &str, place: DocsPage, liberties: PagePermissions, head: &Markup, body: &Markup) -> Markup {
    let class = match place {
        DocsPage::Overview => None,
        DocsPage::Of(ThirdPartyViewer::Swagger) => Some("guest swagger"),
        DocsPage::Of(ThirdPartyViewer::Scalar) => Some("guest"),
    };
    let current = |one: DocsPage| (one == place).then_some("page");
    html! {
        (DOCTYPE)
        html lang="en" data-room=[liberties.has_room.then_some(ROOM)] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · " (NAME) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href=(own::address("docs.css"));
                (head)
            }
            body class=[class] {
                a.skip href="#main" { "Skip to the content" }
                header.bar {
                    a.home href="/docs/" { (NAME) }
                    nav aria-label="Documentation" {
                        a href="/docs/" aria-current=[current(DocsPage::Overview)] { "Overview" }
                        @for guest in [ThirdPartyViewer::Swagger, ThirdPartyViewer::Scalar] {
                            a href=(guest.address("v2")) aria-current=[current(DocsPage::Of(guest))] { (guest.name()) }
                        }
                    }
                }
                (body)
            }
        }
    }
}

/// The overview.
pub(super) struct Overview<'a> {
    /// Operations and events of the documents.
    pub(super) listed: &'a DocumentIndex,
    /// What the pages permit.
    pub(super) liberties: PagePermissions,
}

impl Overview<'_> {
    /// Its HTML.
    pub(super) fn written(&self) -> String {
        let head = html! {
            @for module in MODULES {
                link rel="modulepreload" href=(own::address(module));
            }
            script type="module" src=(own::address("overview.js")) {}
        };
        let body = html! {
            main.page #main {
                div.hero {
                    (about())
                    (first(self.liberties.has_room))
                }
                (operations(self.listed))
                (webhooks(&self.listed.events))
                footer {
                    span { "Documents:" }
                    a href="/openapi/v2.json" { "Platform API" }
                    a href="/openapi/auth.json" { "Auth API" }
                    a href="/openapi/webhooks.json" { "Webhooks" }
                }
            }
        };
        document("Documentation", DocsPage::Overview, self.liberties, &head, &body).into_string()
    }
}

fn about() -> Markup {
    html! {
        div.about {
            h1 { "Create a request, get paid on chain, receive a webhook" }
            p.lead {
                "Your server requests an amount in a token or in dollars, euros and other currencies. This service \
                 returns the exact transactions that pay it. Your customer signs them with their own wallet, and the \
                 money goes directly to yours. A signed webhook notifies your server once the payment is final."
            }
            p.quiet { "You host it yourself. It never holds money and never sees a private key." }
            ul.doors {
                li { a href=(ThirdPartyViewer::Swagger.address("v2")) {
                    strong { "Try it in Swagger UI" }
                    span { "Every operation has a form and shows its response." }
                } }
                li { a href=(ThirdPartyViewer::Scalar.address("v2")) {
                    strong { "Read it in Scalar" }
                    span { "Read and search the same documents, with samples in five languages." }
                } }
                li { a href="#verify" {
                    strong { "Receive webhooks" }
                    span { "Which events the service sends, and how to verify their signatures." }
                } }
            }
        }
    }
}

/// The first request: with buttons if the developer endpoints exist, otherwise with samples.
fn first(has_room: bool) -> Markup {
    let steps = [
        (
            "Create a request",
            "Specify the payee, the amount and the token.",
            "Create",
            "post /v2/request",
        ),
        (
            "Get its transactions",
            "The payer's wallet signs them in order: approvals first, the payment last.",
            "Get transactions",
            "get /v2/request/{requestId}/pay",
        ),
        (
            "Pay it",
            if has_room {
                "A wallet on the local chain signs and sends them. You see the payment arrive."
            } else {
                "The payer's wallet signs and sends them. This call shows the payment, and a webhook reports it."
            },
            "Sign and send",
            "get /v2/request/{requestId}",
        ),
    ];
    html! {
        section.first aria-labelledby="first" {
            h2 #first { "The first request" }
            p.quiet {
                @if has_room {
                    "Three clicks on a chain that runs on this machine. The credentials of this run are filled in."
                } @else {
                    "Three calls. With " code { "prs dev" } ", this page runs them for you and pays on a local chain."
                }
            }
            ol.steps {
                @for (number, (title, what, label, call)) in (1..).zip(steps) {
                    li #{ "step-" (number) } {
                        div.step {
                            div {
                                h3 { (title) }
                                p.quiet { (what) }
                            }
                            @if has_room {
                                button.button type="button" disabled { (label) }
                            }
                        }
                        div.told data-call=[(!has_room).then_some(call)] {}
                    }
                }
            }
        }
    }
}

/// The language selector. `name` identifies the radio group, because the page has two selectors.
fn languages(name: &str) -> Markup {
    html! {
        fieldset.languages hidden {
            legend { "Samples in" }
            @for (code, shown, _) in LANGUAGES {
                label { input type="radio" name=(name) value=(code); (shown) }
            }
        }
    }
}

fn operations(listed: &DocumentIndex) -> Markup {
    html! {
        section.part aria-labelledby="operations" {
            h2 #operations { "Operations" }
            div.tools {
                div.search {
                    label for="search" { "Search operations and events" }
                    input #search type="search" autocomplete="off" spellcheck="false";
                }
                (languages("language"))
            }
            p.quiet #found role="status" {}
            p #nothing hidden {
                "No operation or event matches. Try a part of a path, such as " code { "/pay" } ", or "
                a href=(ThirdPartyViewer::Scalar.address("v2")) { "search the whole document in Scalar" } "."
            }
            @for group in &listed.groups {
                (shown(group))
            }
        }
    }
}

fn shown(group: &Group) -> Markup {
    html! {
        div.group data-name=(group.name) {
            h3 { (group.name) }
            p.quiet {
                @for (turn, part) in group.about.split('`').enumerate() {
                    @if turn % 2 == 1 { code { (part) } } @else { (part) }
                }
            }
            @for operation in &group.operations {
                details #(operation.id) data-operation=(operation.id) data-document=(operation.document)
                    data-path=(operation.path) data-method=(operation.method) {
                    summary {
                        span class={ "method " (operation.method) } { (operation.method.to_uppercase()) }
                        span.title { (operation.summary) }
                        code { (operation.path) }
                    }
                    div.inside data-says=(operation.says) {}
                    div.ways {
                        @for guest in [ThirdPartyViewer::Swagger, ThirdPartyViewer::Scalar] {
                            a href=(guest.link(&group.name, operation)) { "Open in " (guest.name()) }
                        }
                    }
                }
            }
        }
    }
}

fn webhooks(events: &[IndexedEvent]) -> Markup {
    html! {
        section.part aria-labelledby="verify" {
            h2 #verify { "Webhooks" }
            p.quiet {
                "Each event is one POST to every endpoint that you registered. Anyone can post to your URL, so verify \
                 the signature first: the HMAC-SHA-256 of the raw body, keyed with the secret of the endpoint."
            }
            (languages("verifying"))
            @for (code, name, text) in LANGUAGES {
                div.listing data-language=(code) {
                    pre tabindex="0" role="region" aria-label={ "Verify a webhook in " (if code == "curl" { "a shell" } else { name }) } {
                        code { (text.trim_end()) }
                    }
                }
            }
            p.quiet {
                "A valid signature proves that this service sent the body, not that it is about your order. Compare "
                code { "requestId" } ", the amount and " code { "payee" } " with your stored order, and return any 2xx within 5 seconds. "
                a href=(ThirdPartyViewer::Scalar.address("webhooks")) { "More about deliveries" }
            }
            div.group data-name="Webhooks" {
                h3 { "Events" }
                @for event in events {
                    details #(event.key) data-operation=(event.key) data-document=(event.document) data-path=(event.key) {
                        summary {
                            span.method.event { "EVENT" }
                            span.title { (event.summary) }
                            code { (event.key) }
                        }
                        div.inside data-says=(event.says) {}
                    }
                }
            }
        }
    }
}
