//! Swagger UI and Scalar from their crates: the repository has no copy, and the service fetches nothing.

use super::own;
use crate::http::files::Folder;
use bytes::Bytes;
use flate2::read::GzDecoder;
use poem_openapi::OpenApiService;
use std::{
    io::Read,
    sync::{Arc, LazyLock},
};
use utoipa_swagger_ui::Config;

/// File names that the pages use.
pub(super) const SWAGGER_SCRIPT: &str = "swagger-ui-bundle.js";
pub(super) const SWAGGER_STYLE: &str = "swagger-ui.css";
pub(super) const SCALAR_SCRIPT: &str = "scalar.js";

/// The text before and after the script in the page that the framework generates for Scalar.
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

/// URL path of a file.
pub(super) fn address(name: &str) -> String {
    format!("/docs/vendored/{}/{name}", FILES.edition())
}

/// A file of Swagger UI, decompressed. The crate embeds it compressed.
fn swagger(name: &str) -> Bytes {
    let file = utoipa_swagger_ui::serve(name, Arc::new(Config::from("/openapi/v2.json")));
    let compressed = file.ok().flatten().map(|file| file.bytes).unwrap_or_default();
    let mut plain = Vec::new();
    // The test below reads both files.
    let _ = GzDecoder::new(&*compressed).read_to_end(&mut plain);
    plain.into()
}

/// Extracts the script of Scalar from the page in which the framework embeds it.
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
    fn the_crates_contain_whole_files() {
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        assert!(text(swagger(SWAGGER_SCRIPT)).contains("SwaggerUIBundle"));
        assert!(text(swagger(SWAGGER_STYLE)).contains(".swagger-ui"));
        let scalar = text(scalar());
        assert!(scalar.starts_with("/**") && scalar.trim_end().ends_with(['}', ';', ')']));
        assert!(scalar.contains("createApiReference") && !scalar.contains("</script"));
    }
}
