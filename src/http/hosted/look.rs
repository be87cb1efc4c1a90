//! The colours of the operator.

use super::{Page, headers};
use crate::domain::colour::Palette;
use poem::{Request, Response, handler, web::Data};
use std::{fmt::Write, sync::Arc};

/// The names of colours, as the style of the page has them, with those of the operator; empty where there are none.
#[handler]
pub(super) fn sheet(Data(page): Data<&Arc<Page>>, request: &Request) -> Response {
    let text = page.brand.map_or_else(String::new, |brand| {
        let (day, night) = (named(&brand.light()), named(&brand.dark()));
        format!(":root{{{day}}}@media(prefers-color-scheme:dark){{:root{{{night}}}}}")
    });
    headers::packed(request, "text/css; charset=utf-8", text.clone().into(), || {
        super::assets::compressed(text.as_bytes(), 5)
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
        ("on-action", on_action),
        ("link", link),
    ];
    colours.iter().fold(String::new(), |mut names, (name, colour)| {
        // Writing to a String cannot fail.
        let _ = write!(names, "--{name}:{colour};");
        names
    })
}
