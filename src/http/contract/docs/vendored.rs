//! Swagger UI and Scalar as the crates bring them: nothing of them is in the repository, and nothing is fetched.

use super::own;
use crate::http::files::Folder;
use bytes::Bytes;
use poem_openapi::OpenApiService;
use std::sync::{Arc, LazyLock};
use utoipa_swagger_ui::Config;

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

fn swagger(name: &str) -> Bytes {
    let file = utoipa_swagger_ui::serve(name, Arc::new(Config::from("/openapi/v2.json")));
    let file = file.ok().flatten();
    file.map_or_else(Bytes::new, |file| file.bytes.into_owned().into())
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
