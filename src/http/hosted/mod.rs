//! The payment page: whoever has the token of a link reads there what is asked for, and pays it with a wallet.
//!
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

use crate::{
    domain::{colour::Brand, network::Network},
    settings::Language,
};
use poem::{EndpointExt, Route, get, post};
use std::{collections::BTreeMap, sync::Arc};

/// What all pages of this service share.
#[derive(Debug)]
pub struct Page {
    /// Address of the pages, without the token.
    pub address: String,
    /// Who is paid, as payers read it.
    pub name: Option<String>,
    /// Language of those who ask for none.
    pub language: Language,
    /// Colours of the operator.
    pub brand: Option<Brand>,
    /// A node of a network for wallets that do not know it.
    pub nodes: BTreeMap<Network, String>,
    /// Address of the terms.
    pub terms: Option<String>,
    /// Address of the privacy policy.
    pub privacy: Option<String>,
}

/// Adds the pages to the routes of the service.
pub fn routes(routes: Route, page: Page) -> Route {
    let page = Arc::new(page);
    routes
        .at("/", get(document::moved))
        .at("/pay", get(document::moved))
        .at("/pay/", get(document::moved))
        .at("/pay/assets/:edition/:name", get(assets::file))
        .at("/pay/:token", get(document::shown).data(page.clone()))
        .at("/pay/:token/receipt", get(receipt::shown).data(page.clone()))
        .at("/pay/:token/brand.css", get(look::sheet).data(page.clone()))
        .at("/pay/:token/state", get(calls::state).data(page))
        .at("/pay/:token/calldata", get(calls::calldata))
        .at("/pay/:token/intent", post(calls::intent))
        .at("/pay/:token/events", post(calls::events))
}
