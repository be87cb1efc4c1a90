//! What the operator chose for all pages: its colours, in the style of the pages, and its logo.

use crate::{
    domain::{
        colour::{Brand, Palette},
        network::Network,
    },
    http::files::{self, File},
    settings::{Language, Picture},
};
use poem::{
    Request, Response,
    error::NotFoundError,
    handler,
    web::{Data, Path},
};
use std::{collections::BTreeMap, fmt::Write, sync::Arc};

const STYLE: &str = include_str!("page/page.css");

/// Where the rules for paper begin.
const PRINT: &str = "@media print";

/// What all pages of this service share.
#[derive(Debug)]
pub struct Page {
    /// Address of the pages, without the token.
    pub address: String,
    /// Who is paid, as payers read it.
    pub name: Option<String>,
    /// Language of those who ask for none.
    pub language: Language,
    /// How they look, in the colours of the operator where it chose some.
    pub style: Kept,
    /// Its logo.
    pub logo: Option<Kept>,
    /// A node of a network for wallets that do not know it.
    pub nodes: BTreeMap<Network, String>,
    /// Address of the terms.
    pub terms: Option<String>,
    /// Address of the privacy policy.
    pub privacy: Option<String>,
}

/// A file that browsers keep for good.
#[derive(Debug)]
pub struct Kept(Arc<File>);

impl Kept {
    fn new(kind: &'static str, bytes: Vec<u8>) -> Self {
        Self(Arc::new(File::new(kind, bytes)))
    }

    /// The style of the pages, and the colours of an operator instead of its own.
    pub fn style(brand: Option<&Brand>) -> Self {
        let colours = brand.map_or_else(String::new, |brand| {
            let (day, night) = (named(&brand.light()), named(&brand.dark()));
            format!(":root{{{day}}}@media screen and (prefers-color-scheme:dark){{:root{{{night}}}}}")
        });
        // Print comes after the colours of the operator: paper is white.
        let (screen, print) = STYLE.split_once(PRINT).unwrap_or((STYLE, ""));
        let text = [screen, &colours, PRINT, print].concat();
        Self::new("text/css; charset=utf-8", text.into_bytes())
    }

    /// A logo.
    pub fn logo(picture: Picture) -> Self {
        Self::new(picture.kind, picture.bytes)
    }

    /// The file. Whoever asks for another edition was sent there by an instance that has other settings, as during a change
    /// of them: he gets what is here, and does not keep it.
    async fn answer(&self, request: &Request, edition: &str) -> poem::Result<Response> {
        let mut response = self.0.answer(request).await?;
        match edition == self.0.edition() {
            true => files::keep(&mut response),
            false => files::forget(&mut response),
        }
        Ok(response)
    }
}

impl Page {
    /// Where the style is.
    pub(super) fn style_address(&self) -> String {
        format!("/pay/style/{}", self.style.0.edition())
    }

    /// Where the logo is.
    pub(super) fn logo_address(&self) -> Option<String> {
        self.logo.as_ref().map(|logo| format!("/pay/logo/{}", logo.0.edition()))
    }
}

/// The style.
#[handler]
pub(super) async fn style_file(
    Data(page): Data<&Arc<Page>>,
    Path(edition): Path<String>,
    request: &Request,
) -> poem::Result<Response> {
    page.style.answer(request, &edition).await
}

/// The logo. Errors: 404 where there is none.
#[handler]
pub(super) async fn logo_file(
    Data(page): Data<&Arc<Page>>,
    Path(edition): Path<String>,
    request: &Request,
) -> poem::Result<Response> {
    let logo = page.logo.as_ref().ok_or(NotFoundError)?;
    logo.answer(request, &edition).await
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
