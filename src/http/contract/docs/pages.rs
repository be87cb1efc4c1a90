//! The pages as HTML: all of the overview that can be said without scripts, and a bar above Swagger UI and Scalar.

use super::{
    listed::{Event, Group, Listed, ORDER, Operation},
    own,
    vendored::{self, SCALAR_SCRIPT, SWAGGER_SCRIPT, SWAGGER_STYLE},
};
use maud::{DOCTYPE, Markup, html};

const NAME: &str = "Payment Request Service";

/// Where the room for developers is.
const ROOM: &str = "/_dev";

/// Code and name of each language of samples, and how it verifies a webhook.
const LANGUAGES: [(&str, &str, &str); 5] = [
    ("curl", "curl", include_str!("files/verify.sh")),
    ("typescript", "TypeScript", include_str!("files/verify.ts")),
    ("python", "Python", include_str!("files/verify.py")),
    ("go", "Go", include_str!("files/verify.go")),
    ("rust", "Rust", include_str!("files/verify.rs")),
];

/// Modules of the overview that its first one needs at once, so that browsers fetch them together.
const MODULES: [&str; 4] = ["elements.js", "first.js", "room.js", "samples.js"];

/// What a service lets the readers of its documentation do.
#[derive(Debug, Clone, Copy, Default)]
pub struct Liberties {
    /// Whether browsers keep the keys that are typed into Swagger UI.
    pub keeps_keys: bool,
    /// Whether there is a room for developers, which lends keys and pays.
    pub has_room: bool,
}

/// A program of others that shows documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guest {
    /// Swagger UI.
    Swagger,
    /// Scalar.
    Scalar,
}

/// A page of the documentation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Overview,
    Of(Guest),
}

impl Guest {
    /// Where its pages are.
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

    /// Where it shows a document, by the address of the document: `/docs/scalar/v2` for `/openapi/v2.json`.
    pub(super) fn address(self, document: &str) -> String {
        let name = document.rsplit('/').next().unwrap_or_default();
        format!("{}/{}", self.folder(), name.trim_end_matches(".json"))
    }

    /// Where it shows an operation.
    fn link(self, group: &str, operation: &Operation) -> String {
        let page = self.address(operation.document);
        match self {
            Self::Swagger => format!("{page}#/{}/{}", group.replace(' ', "%20"), operation.id),
            Self::Scalar => format!("{page}#tag/{}/{}", group.to_lowercase().replace(' ', "-"), operation.id),
        }
    }

    /// Its page over the document `shown`, of all that there are: title and address of each.
    pub(super) fn written(
        self,
        documents: &[(&'static str, &'static str)],
        shown: (&'static str, &'static str),
        liberties: Liberties,
    ) -> String {
        let title = format!("{} in {}", shown.0, self.name());
        let chooser = html! {
            nav.bar.second aria-label="Documents" {
                @for (name, address) in documents {
                    a href=(self.address(address)) aria-current=[(*address == shown.1).then_some("page")] { (name) }
                }
                a href=(shown.1) download { "Download the document" }
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
                noscript { p.page { (self.name()) " needs scripts. The document itself is at " a href=(shown.1) { (shown.1) } "." } }
                div #ui data-address=(shown.1) data-keeps=(liberties.keeps_keys) data-order=(ORDER.join("|")) {}
            }
        };
        document(&title, Place::Of(self), liberties, &guest, &body).into_string()
    }
}

fn document(title: &str, place: Place, liberties: Liberties, head: &Markup, body: &Markup) -> Markup {
    let class = match place {
        Place::Overview => None,
        Place::Of(Guest::Swagger) => Some("guest swagger"),
        Place::Of(Guest::Scalar) => Some("guest"),
    };
    let current = |one: Place| (one == place).then_some("page");
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
                        a href="/docs/" aria-current=[current(Place::Overview)] { "Overview" }
                        @for guest in [Guest::Swagger, Guest::Scalar] {
                            a href=(guest.address("v2")) aria-current=[current(Place::Of(guest))] { (guest.name()) }
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
    /// What the documents offer.
    pub(super) listed: &'a Listed,
    /// What readers may do.
    pub(super) liberties: Liberties,
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
        document("Documentation", Place::Overview, self.liberties, &head, &body).into_string()
    }
}

fn about() -> Markup {
    html! {
        div.about {
            h1 { "Ask for money, be paid on chain, hear about it" }
            p.lead {
                "Your server asks for an amount in a token or in dollars, euros and other currencies. This service answers with \
                 the exact transactions that pay it. Your customer signs them with a wallet of their own, the money goes straight \
                 to yours, and a signed webhook tells your server once the payment is final."
            }
            p.quiet { "You run it yourself. It holds no money and never sees a private key." }
            ul.doors {
                li { a href=(Guest::Swagger.address("v2")) {
                    strong { "Try it in Swagger UI" }
                    span { "Every operation with a form; the answer stands beside it." }
                } }
                li { a href=(Guest::Scalar.address("v2")) {
                    strong { "Read it in Scalar" }
                    span { "The same documents to read and search, with samples in five languages." }
                } }
                li { a href="#verify" {
                    strong { "Receive webhooks" }
                    span { "What is told, and how to know that it is from here." }
                } }
            }
        }
    }
}

/// The first request: with buttons where a room lends keys and a wallet, with samples elsewhere.
fn first(has_room: bool) -> Markup {
    let steps = [
        (
            "Create a request",
            "Say who is paid, how much, and in which token.",
            "Create",
            "post /v2/request",
        ),
        (
            "Get its transactions",
            "What the wallet of the payer signs, in order: approvals first, the payment last.",
            "Get them",
            "get /v2/request/{requestId}/pay",
        ),
        (
            "Have it paid",
            match has_room {
                true => "A wallet of the local chain signs and sends them; you see the payment arrive.",
                false => {
                    "The payer's wallet signs and sends them. You see the payment here, and your webhook hears of it."
                }
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
                    "Three clicks, on a chain that runs on this machine. The keys of this run are filled in."
                } @else {
                    "Three calls. With " code { "prs dev" } ", this page makes them for you and pays on a local chain."
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

/// The choice of a language; `name` is that of this group of buttons, as the page has the choice twice.
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

fn operations(listed: &Listed) -> Markup {
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
                "No operation and no event says this. Try a part of a path, such as " code { "/pay" } ", or "
                a href=(Guest::Scalar.address("v2")) { "search the whole document in Scalar" } "."
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
                        @for guest in [Guest::Swagger, Guest::Scalar] {
                            a href=(guest.link(&group.name, operation)) { "Open in " (guest.name()) }
                        }
                    }
                }
            }
        }
    }
}

fn webhooks(events: &[Event]) -> Markup {
    html! {
        section.part aria-labelledby="verify" {
            h2 #verify { "Webhooks" }
            p.quiet {
                "Each event is one POST to every endpoint that you registered. Anybody can send one to your address, so check \
                 the signature before you believe it: the HMAC-SHA-256 of the body, as it came, under the secret of the endpoint."
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
                "A good signature says that this service sent the body, not that it is about your order. Compare "
                code { "requestId" } ", the amount and " code { "payee" } " with what you stored, and answer any 2xx within 5 seconds. "
                a href=(Guest::Scalar.address("webhooks")) { "More about deliveries" }
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
