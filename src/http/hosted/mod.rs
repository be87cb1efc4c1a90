//! The payment page: whoever has the token of a link reads there what is asked for, and pays it with a wallet.
//!
//! The page is HTML that can be read without scripts, and a few modules that are served as they are written. It calls
//! this room alone, with no credential but the token, so every route here counts its calls by address and token, and
//! those of an address that guesses tokens. In no document: what integrators call stands under `/v2`.

mod assets;
mod calls;
mod document;
mod headers;
mod link;
mod look;
mod receipt;
mod view;
mod visit;
mod words;

pub use look::{Kept, Page};
use poem::{EndpointExt, Route, get, post};
use std::sync::Arc;

/// Adds the pages to the routes of the service.
pub fn routes(routes: Route, page: Page) -> Route {
    let page = Arc::new(page);
    routes
        .at("/", get(document::moved).data(page.clone()))
        .at("/pay", get(document::moved).data(page.clone()))
        .at("/pay/", get(document::moved).data(page.clone()))
        .at("/pay/assets/:edition/:name", get(assets::file))
        .at("/pay/style/:edition", get(look::style_file).data(page.clone()))
        .at("/pay/logo/:edition", get(look::logo_file).data(page.clone()))
        .at("/pay/:token", get(document::shown).data(page.clone()))
        .at("/pay/:token/", get(document::slashed).data(page.clone()))
        .at("/pay/:token/receipt", get(receipt::shown).data(page.clone()))
        .at("/pay/:token/state", get(calls::state).data(page))
        .at("/pay/:token/calldata", get(calls::calldata))
        .at("/pay/:token/intent", post(calls::intent))
        .at("/pay/:token/attempt", post(calls::note_attempt))
        .at("/pay/:token/attempt/withdraw", post(calls::withdraw_attempt))
        .at("/pay/:token/events", post(calls::events))
}
