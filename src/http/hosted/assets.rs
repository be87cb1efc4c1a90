//! The script modules of the page: embedded in the binary, compressed once, served under a path that changes with their
//! content.

use crate::http::files::Folder;
use poem::{Request, Response, handler, web::Path};
use std::sync::LazyLock;

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// File names and contents.
const FILES: [(&str, &str); 7] = [
    ("main.js", include_str!("page/main.js")),
    ("render.js", include_str!("page/render.js")),
    ("sign.js", include_str!("page/sign.js")),
    ("state.js", include_str!("page/state.js")),
    ("telemetry.js", include_str!("page/telemetry.js")),
    ("tron.js", include_str!("page/tron.js")),
    ("verify.js", include_str!("page/verify.js")),
];

/// The modules that `main.js` imports at once, preloaded so that browsers fetch them in parallel.
pub(super) const MODULES: [&str; 4] = ["render.js", "sign.js", "state.js", "verify.js"];

/// The module that `main.js` also imports at once on the page of a link on Tron.
pub(super) const TRON_MODULE: &str = "tron.js";

static ASSETS: LazyLock<Folder> = LazyLock::new(|| Folder::new(FILES.map(|(name, text)| (name, SCRIPT, text))));

/// The path of a file.
pub(super) fn address(name: &str) -> String {
    format!("/pay/assets/{}/{name}", ASSETS.edition())
}

/// A file of the current version. A browser that requests another version has an old page, which reloads itself.
#[handler]
pub(super) async fn file(Path((edition, name)): Path<(String, String)>, request: &Request) -> poem::Result<Response> {
    ASSETS.answer(request, &edition, &name).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_announced_module_exists() {
        for name in MODULES.into_iter().chain([TRON_MODULE]) {
            assert!(FILES.iter().any(|(known, ..)| *known == name), "{name}");
        }
    }
}
