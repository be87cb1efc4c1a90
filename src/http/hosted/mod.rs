//! The payment page: anyone with the token of a link can view the request and pay it with a wallet.
//!
//! The page is HTML that is readable without scripts, plus a few script modules that are served without a build step.
//! It calls only the routes of this module, with the token as its only credential. Every route here is therefore rate
//! limited by IP address and token, and by IP address for guessed tokens. The routes are in no OpenAPI document;
//! integrators use `/v2`.

mod assets;
mod calls;
mod document;
mod headers;
mod link;
mod look;
mod pages;
mod receipt;
mod view;
mod visit;
mod words;

pub use look::{CachedFile, PageFrame};
use poem::{EndpointExt, Route, get, post};
use std::sync::Arc;

/// Adds the pages to the routes of the service.
pub fn routes(routes: Route, page: PageFrame) -> Route {
    let page = Arc::new(page);
    routes
        .at("/", get(pages::moved).data(page.clone()))
        .at("/pay", get(pages::moved).data(page.clone()))
        .at("/pay/", get(pages::moved).data(page.clone()))
        .at("/pay/assets/:edition/:name", get(assets::file))
        .at("/pay/style/:edition", get(look::style_file).data(page.clone()))
        .at("/pay/logo/:edition", get(look::logo_file).data(page.clone()))
        .at("/pay/:token", get(pages::show_payment).data(page.clone()))
        .at("/pay/:token/", get(pages::slashed).data(page.clone()))
        .at("/pay/:token/receipt", get(pages::show_receipt).data(page.clone()))
        .at("/pay/:token/state", get(calls::state).data(page))
        .at("/pay/:token/calldata", get(calls::calldata))
        .at("/pay/:token/intent", post(calls::intent))
        .at("/pay/:token/attempt", post(calls::note_attempt))
        .at("/pay/:token/attempt/withdraw", post(calls::withdraw_attempt))
        .at("/pay/:token/tron/broadcast", post(calls::broadcast_transaction))
        .at("/pay/:token/events", post(calls::events))
}
