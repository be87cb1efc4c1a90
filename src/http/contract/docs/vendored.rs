//! Swagger UI and Scalar as the crates bring them: nothing of them is in the repository, and nothing is fetched.

use super::own;
use crate::http::files::Folder;
use bytes::Bytes;
use flate2::read::DeflateDecoder;
use poem_openapi::OpenApiService;
use std::{io::Read, sync::LazyLock};
use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED;

/// Names under which pages ask for them.
pub(super) const SWAGGER_SCRIPT: &str = "swagger-ui-bundle.js";
pub(super) const SWAGGER_STYLE: &str = "swagger-ui.css";
pub(super) const SCALAR_SCRIPT: &str = "scalar.js";

/// What stands around the script in the page that the framework makes for Scalar.
const SCRIPT_BEGINS: &str = "<script charset=\"UTF-8\">";
const SCRIPT_ENDS: &str = "</script>";

/// The files.
pub(super) static FILES: LazyLock<Folder> = LazyLock::new(|| {
    Folder::new([
        (SWAGGER_SCRIPT, own::SCRIPT, swagger(SWAGGER_SCRIPT)),
        (SWAGGER_STYLE, own::CSS, swagger(SWAGGER_STYLE)),
        (SCALAR_SCRIPT, own::SCRIPT, scalar()),
    ])
});

/// Where one of them is.
pub(super) fn address(name: &str) -> String {
    format!("/docs/vendored/{}/{name}", FILES.edition())
}

/// A file out of the archive of Swagger UI, which stays compressed until somebody asks for it.
fn swagger(name: &str) -> Bytes {
    let wanted = format!("/dist/{name}");
    let mut rest = SWAGGER_UI_VENDORED;
    while let Some((entry, after)) = entry(rest) {
        if entry.name.ends_with(wanted.as_bytes()) {
            let mut file = Vec::new();
            // A damaged archive brings no whole file, which the test below would see.
            let _ = DeflateDecoder::new(entry.packed).read_to_end(&mut file);
            return file.into();
        }
        rest = after;
    }
    Bytes::new()
}

/// An entry of a ZIP archive.
struct Entry<'a> {
    name: &'a [u8],
    packed: &'a [u8],
}

/// The entry with which a part of an archive begins, and what follows; nothing where the entries end. The sizes stand before
/// the entries of this archive, not behind them.
fn entry(archive: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (head, rest) = archive.split_at_checked(30)?;
    let length = |range: std::ops::Range<usize>| head[range].iter().rfold(0, |sum, byte| sum << 8 | usize::from(*byte));
    if !head.starts_with(b"PK\x03\x04") {
        return None;
    }
    let (name, rest) = rest.split_at_checked(length(26..28))?;
    let (_, rest) = rest.split_at_checked(length(28..30))?;
    let (packed, rest) = rest.split_at_checked(length(18..22))?;
    Some((Entry { name, packed }, rest))
}

/// The framework has the script in a page alone; of that it is cut out.
fn scalar() -> Bytes {
    let page = OpenApiService::new((), "", "").scalar_html();
    let script = page
        .split_once(SCRIPT_BEGINS)
        .and_then(|(_, rest)| rest.rsplit_once(SCRIPT_ENDS))
        .map_or("", |(script, _)| script);
    Bytes::copy_from_slice(script.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crates_bring_whole_files() {
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        assert!(text(swagger(SWAGGER_SCRIPT)).contains("SwaggerUIBundle"));
        assert!(text(swagger(SWAGGER_STYLE)).contains(".swagger-ui"));
        let scalar = text(scalar());
        assert!(scalar.starts_with("/**") && scalar.trim_end().ends_with(['}', ';', ')']));
        assert!(scalar.contains("createApiReference") && !scalar.contains("</script"));
    }
}
