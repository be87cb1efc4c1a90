//! The documentation's own files, served unchanged.

use crate::http::files::Folder;
use std::sync::LazyLock;

/// Media types.
pub(super) const CSS: &str = "text/css; charset=utf-8";
pub(super) const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The files.
pub(super) static FILES: LazyLock<Folder> = LazyLock::new(|| {
    Folder::new([
        ("docs.css", CSS, include_str!("files/docs.css")),
        ("elements.js", SCRIPT, include_str!("files/elements.js")),
        ("first.js", SCRIPT, include_str!("files/first.js")),
        ("order.js", SCRIPT, include_str!("files/order.js")),
        ("overview.js", SCRIPT, include_str!("files/overview.js")),
        ("room.js", SCRIPT, include_str!("files/room.js")),
        ("samples.js", SCRIPT, include_str!("files/samples.js")),
        ("scalar.js", SCRIPT, include_str!("files/scalar.js")),
        ("swagger.js", SCRIPT, include_str!("files/swagger.js")),
    ])
});

/// URL path of a file.
pub(super) fn address(name: &str) -> String {
    format!("/docs/assets/{}/{name}", FILES.edition())
}
