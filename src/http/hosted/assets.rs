//! The modules of the page: part of the binary, compressed once, under an address that changes with their content.

use super::headers::{self, compressed};
use bytes::Bytes;
use poem::{Request, Response, error::NotFoundError, handler, web::Path};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Names and texts. Modules name each other relative to their own address, so all of them have the same edition.
const FILES: [(&str, &str); 7] = [
    ("main.js", include_str!("page/main.js")),
    ("render.js", include_str!("page/render.js")),
    ("sign.js", include_str!("page/sign.js")),
    ("state.js", include_str!("page/state.js")),
    ("telemetry.js", include_str!("page/telemetry.js")),
    ("verify.js", include_str!("page/verify.js")),
    ("wallets.js", include_str!("page/wallets.js")),
];

/// The modules that the first one needs at once, so that browsers fetch them together.
pub(super) const MODULES: [&str; 5] = ["render.js", "sign.js", "state.js", "verify.js", "wallets.js"];

/// Digits of an edition.
const EDITION_LENGTH: usize = 16;

struct File {
    name: &'static str,
    text: Bytes,
    compressed: Bytes,
}

struct Assets {
    edition: String,
    files: Vec<File>,
}

static ASSETS: LazyLock<Assets> = LazyLock::new(|| {
    let edition = edition(FILES.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]));
    let files = FILES.map(|(name, text)| File {
        name,
        text: Bytes::from_static(text.as_bytes()),
        compressed: compressed(text.as_bytes(), 11),
    });
    Assets {
        edition,
        files: files.into(),
    }
});

/// What tells contents from those of before.
pub(super) fn edition<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    let mut edition = hex::encode(hash.finalize());
    edition.truncate(EDITION_LENGTH);
    edition
}

/// Where a file is.
pub(super) fn address(name: &str) -> String {
    format!("/pay/assets/{}/{name}", ASSETS.edition)
}

/// A file of this edition; of another one the browser has a page that is old, which loads itself anew.
#[handler]
pub(super) fn file(Path((edition, name)): Path<(String, String)>, request: &Request) -> poem::Result<Response> {
    let file = ASSETS.files.iter().find(|file| file.name == name);
    let Some(file) = file.filter(|_| edition == ASSETS.edition) else {
        return Err(NotFoundError.into());
    };
    let mut response = headers::packed(request, SCRIPT, file.text.clone(), || file.compressed.clone());
    headers::keep(&mut response);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_that_is_announced_is_there() {
        for name in MODULES {
            assert!(FILES.iter().any(|(known, ..)| *known == name), "{name}");
        }
    }

    #[test]
    fn what_is_compressed_is_what_was_written() {
        for packed in &ASSETS.files {
            let mut text = Vec::new();
            brotli::BrotliDecompress(&mut &*packed.compressed, &mut text).unwrap();
            assert_eq!(text, packed.text, "{}", packed.name);
        }
    }
}
