//! Swagger UI over all documents, and the documents themselves. Assets are part of the binary; no page calls elsewhere.

use crate::http::error::Problem;
use poem::{
    Endpoint, Request, Response, Route, endpoint::make_sync, error::NotFoundError, get, http::header, web::Redirect,
};
use std::sync::Arc;
use utoipa_swagger_ui::{Config, Url};

/// Title in the chooser, path and text of a document.
pub type Document = (&'static str, &'static str, String);

/// The page may load and call only this service; Swagger UI writes styles inline and icons as data URLs.
const PAGE_POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                           object-src 'none'; base-uri 'self'; frame-ancestors 'none'";

/// Adds `/docs/` and the documents, which are served byte for byte as they were given. A browser keeps the keys that are
/// typed into the page only where `keeps_keys` says so.
pub fn routes(app: Route, documents: Vec<Document>, keeps_keys: bool) -> Route {
    let urls: Vec<Url<'static>> = documents
        .iter()
        .enumerate()
        .map(|(index, (title, path, _))| Url::with_primary(title, path, index == 0))
        .collect();
    let app = documents
        .into_iter()
        .fold(app, |app, (_, path, text)| app.at(path, get(served(text))));
    let config = Config::new(urls)
        .deep_linking(true)
        .persist_authorization(keeps_keys)
        .try_it_out_enabled(true)
        .display_request_duration(true)
        .filter(true)
        .doc_expansion("list")
        .validator_url("none");
    let config = Arc::new(config);
    app.at("/docs", get(make_sync(|_| Redirect::permanent("/docs/"))))
        .at("/docs/", get(asset(config.clone())))
        .at("/docs/*path", get(asset(config)))
}

fn served(text: String) -> impl Endpoint<Output = Response> {
    let body = bytes::Bytes::from(text);
    make_sync(move |_| {
        Response::builder()
            .content_type("application/json")
            .header(header::CACHE_CONTROL, "no-cache")
            .body(body.clone())
    })
}

fn asset(config: Arc<Config<'static>>) -> impl Endpoint {
    make_sync(move |request: Request| {
        let path = request.raw_path_param("path").unwrap_or_default();
        match utoipa_swagger_ui::serve(path, config.clone()) {
            Ok(Some(file)) => Ok(Response::builder()
                .content_type(&file.content_type)
                .header(header::CACHE_CONTROL, "no-cache")
                .header(header::CONTENT_SECURITY_POLICY, PAGE_POLICY)
                .body(file.bytes.into_owned())),
            Ok(None) => Err(poem::Error::from(NotFoundError)),
            Err(error) => {
                tracing::error!(%error, "an asset of the documentation could not be read");
                Err(Problem::internal().into())
            }
        }
    })
}
