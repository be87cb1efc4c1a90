//! The operator's branding for all pages: the style sheet with its colours, and its logo.

use crate::{
    domain::{
        colour::{Brand, Palette},
        network::Network,
    },
    http::files::{self, CompressedFile},
    settings::{Language, LogoImage},
};
use poem::{
    Request, Response,
    error::NotFoundError,
    handler,
    web::{Data, Path},
};
use std::{collections::BTreeMap, fmt::Write, sync::Arc};

const STYLE: &str = include_str!("page/page.css");

/// Start of the print rules in the style sheet.
const PRINT: &str = "@media print";

/// Settings that all pages of this service share.
#[derive(Debug)]
pub struct PageFrame {
    /// Base address of the pages, without the token.
    pub address: String,
    /// Name of the operator, shown as the recipient.
    pub name: Option<String>,
    /// Default language.
    pub language: Language,
    /// Style sheet, including the operator's colours if configured.
    pub style: CachedFile,
    /// Logo of the operator.
    pub logo: Option<CachedFile>,
    /// RPC address by network, for wallets that do not know the network.
    pub nodes: BTreeMap<Network, String>,
    /// Address of the terms.
    pub terms: Option<String>,
    /// Address of the privacy policy.
    pub privacy: Option<String>,
}

/// A file that browsers cache permanently.
#[derive(Debug)]
pub struct CachedFile(Arc<CompressedFile>);

impl CachedFile {
    fn new(kind: &'static str, bytes: Vec<u8>) -> Self {
        Self(Arc::new(CompressedFile::new(kind, bytes)))
    }

    /// The style sheet of the pages, with the colours of `brand` if given.
    pub fn style(brand: Option<&Brand>) -> Self {
        let colours = brand.map_or_else(String::new, |brand| {
            let (day, night) = (named(&brand.light()), named(&brand.dark()));
            format!(":root{{{day}}}@media screen and (prefers-color-scheme:dark){{:root{{{night}}}}}")
        });
        // The print rules follow the operator's colours and override them: paper is white.
        let (screen, print) = STYLE.split_once(PRINT).unwrap_or((STYLE, ""));
        let text = [screen, &colours, PRINT, print].concat();
        Self::new("text/css; charset=utf-8", text.into_bytes())
    }

    /// A logo.
    pub fn logo(picture: LogoImage) -> Self {
        Self::new(picture.kind, picture.bytes)
    }

    /// The file. A request for another edition comes from a page of an instance with other settings, for example during
    /// a configuration change. It gets the file of this instance with caching disabled.
    async fn answer(&self, request: &Request, edition: &str) -> poem::Result<Response> {
        let mut response = self.0.answer(request).await?;
        if edition == self.0.edition() {
            files::keep(&mut response)
        } else {
            files::forget(&mut response)
        }
        Ok(response)
    }
}

impl PageFrame {
    /// Path of the style sheet.
    pub(super) fn style_address(&self) -> String {
        format!("/pay/style/{}", self.style.0.edition())
    }

    /// Path of the logo.
    pub(super) fn logo_address(&self) -> Option<String> {
        self.logo.as_ref().map(|logo| format!("/pay/logo/{}", logo.0.edition()))
    }
}

/// The style sheet.
#[handler]
pub(super) async fn style_file(
    Data(page): Data<&Arc<PageFrame>>,
    Path(edition): Path<String>,
    request: &Request,
) -> poem::Result<Response> {
    page.style.answer(request, &edition).await
}

/// The logo. Errors: 404 if none is configured.
#[handler]
pub(super) async fn logo_file(
    Data(page): Data<&Arc<PageFrame>>,
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
