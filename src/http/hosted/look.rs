//! What the operator chose for all pages, and its colours as a style.

use super::headers::{self, compressed};
use crate::{
    domain::{
        colour::{Brand, Palette},
        network::Network,
    },
    settings::Language,
};
use poem::{Request, Response, handler, web::Data};
use std::{collections::BTreeMap, fmt::Write, sync::Arc};

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

/// The names of colours, as the style of the page has them, with those of the operator; empty where there are none.
#[handler]
pub(super) fn sheet(Data(page): Data<&Arc<Page>>, request: &Request) -> Response {
    let text = page.brand.map_or_else(String::new, |brand| {
        let (day, night) = (named(&brand.light()), named(&brand.dark()));
        format!(":root{{{day}}}@media(prefers-color-scheme:dark){{:root{{{night}}}}}")
    });
    headers::packed(request, "text/css; charset=utf-8", text.clone().into(), || {
        compressed(text.as_bytes(), headers::QUALITY)
    })
}

fn named(palette: &Palette) -> String {
    let Palette {
        ground,
        card,
        tint,
        text,
        quiet,
        below,
        line,
        edge,
        action,
        action_edge,
        on_action,
        link,
    } = palette;
    let colours = [
        ("ground", ground),
        ("card", card),
        ("tint", tint),
        ("text", text),
        ("quiet", quiet),
        ("below", below),
        ("line", line),
        ("edge", edge),
        ("action", action),
        ("action-edge", action_edge),
        ("on-action", on_action),
        ("link", link),
    ];
    colours.iter().fold(String::new(), |mut names, (name, colour)| {
        // Writing to a String cannot fail.
        let _ = write!(names, "--{name}:{colour};");
        names
    })
}
