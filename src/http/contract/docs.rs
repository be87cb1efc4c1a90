//! Serves the API documents and the pages at `/docs`: an overview, Swagger UI and Scalar. The overview shows a first
//! request to send and lists all operations with code samples. All files are in the binary; no page contacts another
//! host. Source: ADR-0023.

mod listed;
mod own;
mod pages;
mod vendored;

use crate::http::files::{self, CompressedFile};
use listed::DocumentIndex;
pub use listed::IndexedDocument;
pub use pages::PagePermissions;
use pages::{DocumentEntry, Overview, ThirdPartyViewer};
use poem::{
    Endpoint, Request, Response, Route,
    endpoint::{make, make_sync},
    get, handler,
    http::{HeaderName, HeaderValue, header},
    web::{Path, Redirect},
};
use std::sync::{Arc, LazyLock};

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// A page loads and calls only this service, embeds nothing and cannot be framed.
macro_rules! policy {
    ($styles:literal) => {
        concat!(
            "default-src 'none'; script-src 'self'; style-src ",
            $styles,
            "; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
             object-src 'none'"
        )
    };
}

const POLICY: &str = policy!("'self'");

/// Scalar writes styles into the page.
const SCALAR_POLICY: &str = policy!("'self' 'unsafe-inline'");

/// Adds `/docs/` and the documents, which are served byte for byte.
pub fn routes(app: Route, documents: Vec<IndexedDocument>, liberties: PagePermissions) -> Route {
    let entry = |(title, path, _): &IndexedDocument| DocumentEntry { title, path };
    let chooser: Vec<DocumentEntry> = documents.iter().map(entry).collect();
    let shown = documents.clone();
    let overview = page(POLICY, move || {
        let overview = Overview {
            listed: &DocumentIndex::of(&shown),
            liberties,
        };
        overview.written()
    });
    let bare = |to: String| get(make_sync(move |_| Redirect::temporary(to.clone())));
    let app = documents
        .into_iter()
        .fold(app, |app, (_, path, text)| app.at(path, get(document(text))));
    let app = app
        .at("/docs", get(make_sync(|_| Redirect::permanent("/docs/"))))
        .at("/docs/", get(overview))
        .at("/docs/assets/:edition/:name", get(own_file))
        .at("/docs/vendored/:edition/:name", get(vendored_file));
    [
        (ThirdPartyViewer::Swagger, POLICY),
        (ThirdPartyViewer::Scalar, SCALAR_POLICY),
    ]
    .into_iter()
    .fold(app, |app, (guest, policy)| {
        let app = app.at(guest.folder(), bare(guest.address("v2")));
        chooser.iter().fold(app, |app, shown| {
            let (chooser, shown) = (chooser.clone(), *shown);
            let address = guest.address(shown.path);
            app.at(
                address,
                get(page(policy, move || guest.written(&chooser, shown, liberties))),
            )
        })
    })
}

/// A page that is rendered on first use.
fn page(policy: &'static str, write: impl Fn() -> String + Send + Sync + 'static) -> impl Endpoint<Output = Response> {
    let file = LazyLock::new(move || Arc::new(CompressedFile::new(HTML, write())));
    let file: Arc<LazyLock<Arc<CompressedFile>, _>> = Arc::new(file);
    make(move |request: Request| {
        let file = file.clone();
        async move {
            let mut response = file.answer(&request).await?;
            files::ask_again(&mut response);
            for (name, value) in [
                (header::CONTENT_SECURITY_POLICY, policy),
                (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
                (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
            ] {
                response.headers_mut().insert(name, HeaderValue::from_static(value));
            }
            Ok::<_, poem::Error>(response)
        }
    })
}

fn document(text: &'static str) -> impl Endpoint<Output = Response> {
    let file = Arc::new(CompressedFile::new(JSON, text));
    make(move |request: Request| {
        let file = file.clone();
        async move {
            let mut response = file.answer(&request).await?;
            files::ask_again(&mut response);
            Ok::<_, poem::Error>(response)
        }
    })
}

/// A file of the documentation itself.
#[handler]
async fn own_file(Path((edition, name)): Path<(String, String)>, request: &Request) -> poem::Result<Response> {
    own::FILES.answer(request, &edition, &name).await
}

/// A file of Swagger UI or Scalar.
#[handler]
async fn vendored_file(Path((edition, name)): Path<(String, String)>, request: &Request) -> poem::Result<Response> {
    vendored::FILES.answer(request, &edition, &name).await
}
