//! The served documentation pages: what they may load, how they are cached, and their size.

use crate::support::{
    TestApp,
    app::settings,
    contract::{committed, documents},
    published,
    receiver::{Received, Receiver},
};
use poem::{Endpoint, Request, http::Method};
use prs::boot::{process::Process, role::Role, serve};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    process::{Command, Stdio},
};

/// Maximum compressed size in bytes of all files that a browser fetches before the first paint.
const BUDGET_BYTES: usize = 450 * 1024;

/// Pages that contain a third-party program (Swagger UI or Scalar).
const GUESTS: [&str; 6] = [
    "/docs/swagger/v2",
    "/docs/swagger/auth",
    "/docs/swagger/webhooks",
    "/docs/scalar/v2",
    "/docs/scalar/auth",
    "/docs/scalar/webhooks",
];

struct Served {
    status: u16,
    headers: BTreeMap<String, String>,
    bytes: Vec<u8>,
}

impl Served {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("text")
    }
}

/// The HTTP side of a service without a chain. The tests fetch files of the documentation from it.
struct Docs(poem::endpoint::BoxEndpoint<'static, poem::Response>);

impl Docs {
    async fn start() -> Self {
        let app = TestApp::start().await;
        Self(serve::app(&settings(), &app.ctx, &Process::new(Role::Api)))
    }

    async fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Served {
        let mut call = Request::builder().method(method).uri(path.parse().expect("a path"));
        for (name, value) in headers {
            call = call.header(*name, *value);
        }
        let answer = self.0.get_response(call.finish()).await;
        let text = |value: &poem::http::HeaderValue| value.to_str().expect("text").to_owned();
        Served {
            status: answer.status().as_u16(),
            headers: answer
                .headers()
                .iter()
                .map(|(name, value)| (name.to_string(), text(value)))
                .collect(),
            bytes: answer.into_body().into_vec().await.expect("a body"),
        }
    }

    async fn get(&self, path: &str) -> Served {
        self.ask(Method::GET, path, &[]).await
    }

    async fn packed(&self, path: &str, coding: &str) -> Served {
        self.ask(Method::GET, path, &[("accept-encoding", coding)]).await
    }
}

/// The addresses that a page makes the browser fetch: every `src`, and the `href` of every `link` element.
fn fetched(page: &str) -> BTreeSet<String> {
    let tags = page.split('<').skip(1).filter_map(|tag| tag.split('>').next());
    let fetching = tags.filter(|tag| tag.starts_with("link ") || tag.contains(" src=\""));
    fetching
        .filter_map(|tag| {
            let begin = if tag.starts_with("link ") { "href=\"" } else { "src=\"" };
            let (_, rest) = tag.split_once(begin)?;
            Some(rest.split('"').next()?.to_owned())
        })
        .filter(|address| address != "data:,")
        .collect()
}

#[tokio::test]
async fn pages_load_and_call_nothing_from_other_hosts() {
    let docs = Docs::start().await;
    for path in ["/docs/"].iter().chain(&GUESTS) {
        let page = docs.get(path).await;
        assert_eq!(
            (page.status, page.header("content-type")),
            (200, "text/html; charset=utf-8"),
            "{path}"
        );
        let policy = page.header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self';",
            "connect-src 'self';",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        // Scalar writes inline styles into its page, but no scripts.
        assert_eq!(
            policy.contains("'unsafe-inline'"),
            path.contains("scalar"),
            "{path}: {policy}"
        );
        assert!(!policy.contains("eval") && !policy.contains("http"), "{path}: {policy}");
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        for address in fetched(page.text()) {
            assert!(address.starts_with("/docs/"), "{path} fetches {address}");
        }
        for inline in [" style=\"", "<style", " onclick=", " onload=", "<script>"] {
            assert!(!page.text().contains(inline), "{path}: {inline}");
        }
    }
}

#[tokio::test]
async fn hashed_files_are_immutable_and_pages_are_revalidated() {
    let docs = Docs::start().await;
    let mut files = BTreeSet::new();
    for path in ["/docs/"].iter().chain(&GUESTS) {
        files.extend(fetched(docs.get(path).await.text()));
    }
    assert!(files.len() > 8, "{files:?}");
    for file in &files {
        let found = docs.packed(file, "gzip").await;
        assert_eq!(found.status, 200, "{file}");
        assert_eq!(
            found.header("cache-control"),
            "public, max-age=31536000, immutable",
            "{file}"
        );
        assert_eq!(
            (found.header("content-encoding"), found.header("vary")),
            ("gzip", "Accept-Encoding")
        );
        let (folder, name) = file.rsplit_once('/').expect("a folder");
        let other = folder.rsplit_once('/').expect("a folder").0;
        assert_eq!(docs.get(&format!("{other}/0000000000000000/{name}")).await.status, 404);
        assert_eq!(docs.get(&format!("{folder}/other.js")).await.status, 404);
    }
    for path in [
        "/docs/",
        "/docs/swagger/v2",
        "/openapi/v2.json",
        "/openapi/auth.json",
        "/openapi/webhooks.json",
    ] {
        let first = docs.packed(path, "br").await;
        assert_eq!((first.status, first.header("content-encoding")), (200, "br"), "{path}");
        assert_eq!(first.header("cache-control"), "no-cache", "{path}");
        let tag = first.header("etag").to_owned();
        let headers = [("accept-encoding", "br"), ("if-none-match", tag.as_str())];
        let again = docs.ask(Method::GET, path, &headers).await;
        assert_eq!(
            (again.status, again.bytes.len(), again.header("etag")),
            (304, 0, tag.as_str()),
            "{path}"
        );
        // A client that accepts no compression gets the plain file.
        let plain = docs.ask(Method::GET, path, &[("if-none-match", tag.as_str())]).await;
        assert_eq!((plain.status, plain.header("content-encoding")), (200, ""), "{path}");
        assert!(plain.bytes.len() > 2 * first.bytes.len(), "{path}");
        let head = docs.ask(Method::HEAD, path, &[]).await;
        assert_eq!((head.status, head.bytes.len()), (200, 0), "{path}");
    }
}

#[tokio::test]
async fn first_paint_needs_few_bytes() {
    let docs = Docs::start().await;
    let mut lines = Vec::new();
    for path in ["/docs/", "/docs/swagger/v2", "/docs/scalar/v2"] {
        let page = docs.packed(path, "br").await;
        let files = fetched(docs.get(path).await.text());
        let mut all = page.bytes.len();
        let mut needed = page.bytes.len();
        for file in &files {
            let bytes = docs.packed(file, "br").await.bytes.len();
            all += bytes;
            // Deferred scripts run after the first paint.
            if file.ends_with(".css") {
                needed += bytes;
            }
        }
        lines.push(format!(
            "{path}: {needed} bytes before the first paint, {all} with all {} files",
            files.len()
        ));
        assert!(needed <= BUDGET_BYTES, "{lines:?}");
        let is_large = path.contains("scalar");
        assert!(is_large || all <= BUDGET_BYTES, "{lines:?}");
    }
    println!("{}", lines.join("\n"));
}

#[tokio::test]
async fn the_overview_lists_operations_in_workflow_order_and_all_events() {
    let docs = Docs::start().await;
    let page = docs.get("/docs/").await;
    let page = page.text();
    for (document, name) in documents().iter().zip(["v2", "auth"]) {
        for (path, item) in document["paths"].as_object().expect("paths") {
            for (method, operation) in item.as_object().expect("operations") {
                let id = operation["operationId"].as_str().expect("an id");
                let wanted = format!(
                    "<details id=\"{id}\" data-operation=\"{id}\" data-document=\"/openapi/{name}.json\" \
                     data-path=\"{path}\" data-method=\"{method}\">"
                );
                assert!(page.contains(&wanted), "{wanted}");
            }
        }
    }
    let webhooks: serde_json::Value = serde_json::from_str(&committed("webhooks")).expect("JSON");
    for event in webhooks["webhooks"].as_object().expect("events").keys() {
        assert!(page.contains(&format!("<details id=\"{event}\"")), "{event}");
    }
    let groups: Vec<&str> = page
        .split("data-name=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let places = [
        "Requests",
        "Payments",
        "Payouts",
        "Secure payments",
        "Currencies",
        "Events",
        "Orchestrators",
    ];
    let places: Vec<_> = places
        .iter()
        .map(|name| groups.iter().position(|group| group == name).expect("a group"))
        .collect();
    assert!(places.is_sorted(), "{groups:?}");
}

#[tokio::test]
async fn pages_have_no_keys_or_button_without_dev_endpoints() {
    let docs = Docs::start().await;
    let page = docs.get("/docs/").await;
    assert!(!page.text().contains("_dev") && !page.text().contains("Sign and send"));
    assert!(page.text().contains("data-call=\"post /v2/request\""));
    for path in ["/_dev/keys", "/_dev/wallet"] {
        assert_eq!(docs.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn browsers_store_keys_only_outside_production() {
    let app = TestApp::start().await;
    let mut settings = settings();
    settings.http.production = true;
    for (settings, keeps) in [(settings, "false"), (crate::support::app::settings(), "true")] {
        let docs = Docs(serve::app(&settings, &app.ctx, &Process::new(Role::Api)));
        let page = docs.get("/docs/swagger/v2").await;
        assert!(
            page.text().contains(&format!("data-keeps=\"{keeps}\"")),
            "{}",
            page.text()
        );
    }
}

#[tokio::test]
async fn short_addresses_redirect_to_the_pages() {
    let docs = Docs::start().await;
    for (path, status, leads) in [
        ("/", 302, "/docs/"),
        ("/docs", 308, "/docs/"),
        ("/docs/swagger", 307, "/docs/swagger/v2"),
        ("/docs/scalar", 307, "/docs/scalar/v2"),
    ] {
        let moved = docs.get(path).await;
        assert_eq!((moved.status, moved.header("location")), (status, leads), "{path}");
    }
}

#[tokio::test]
async fn missing_files_and_wrong_methods_return_plain_errors() {
    let docs = Docs::start().await;
    let page = docs.get("/docs/").await;
    let style = fetched(page.text())
        .into_iter()
        .find(|file| file.ends_with(".css"))
        .expect("a style");
    let folder = style.rsplit_once('/').expect("a folder").0.to_owned();
    for path in [
        "/docs/nothing".to_owned(),
        "/docs/../Cargo.toml".to_owned(),
        "/docs/%2e%2e/%2e%2e/etc/passwd".to_owned(),
        "/docs/..%2f..%2fetc%2fpasswd".to_owned(),
        "/docs/....//etc/passwd".to_owned(),
        "/docs/..%5c..%5cCargo.toml".to_owned(),
        "/docs/%c0%ae%c0%ae/Cargo.toml".to_owned(),
        "/docs/%252e%252e/Cargo.toml".to_owned(),
        "/docs/..;/Cargo.toml".to_owned(),
        "/docs/%00".to_owned(),
        "/docs/swagger/%2e%2e/swagger/v2".to_owned(),
        "/docs/swagger/v2%00.json".to_owned(),
        "/docs//docs.css".to_owned(),
        format!("{folder}/../docs.css"),
        format!("{folder}/%2e%2e%2fdocs.css"),
        format!("{folder}/docs.css%00"),
        format!("{folder}/docs.css/"),
        format!("{folder}/DOCS.CSS"),
        format!("{folder}/%ff"),
        "/docs/swagger/v3".to_owned(),
        "/docs/swagger/swagger-initializer.js".to_owned(),
        "/docs/scalar/v2/".to_owned(),
        "/docs/vendored/v2/scalar.js".to_owned(),
        "/openapi/v3.json".to_owned(),
        "/openapi/v2.yaml".to_owned(),
        "/openapi/..%2fv2.json".to_owned(),
    ] {
        let refused = docs.get(&path).await;
        assert_eq!(
            (refused.status / 100, refused.header("content-type")),
            (4, "application/json; charset=utf-8"),
            "{path}"
        );
        let body: serde_json::Value = serde_json::from_slice(&refused.bytes).expect("JSON");
        assert_eq!(body["statusCode"], refused.status, "{path}");
        assert!(
            body["message"].is_string() && body["requestId"].is_string(),
            "{path}: {body}"
        );
    }
    for path in [
        "/docs/",
        "/docs/swagger/v2",
        "/docs/scalar/auth",
        "/openapi/v2.json",
        &style,
    ] {
        for method in ["POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"] {
            let unknown = Method::from_bytes(method.as_bytes()).expect("a method");
            let refused = docs.ask(unknown, path, &[]).await;
            assert_eq!(
                (refused.status, refused.header("allow")),
                (405, "GET, HEAD"),
                "{method} {path}"
            );
            let body: serde_json::Value = serde_json::from_slice(&refused.bytes).expect("JSON");
            assert_eq!(
                (&body["statusCode"], &body["error"]),
                (&json!(405), &json!("Method Not Allowed")),
                "{method} {path}"
            );
        }
        for (accepted, status) in [
            ("zstd", 200),
            ("identity;q=0, zstd", 406),
            ("*;q=0", 406),
            ("gzip;q=0, br;q=0, identity;q=0", 406),
        ] {
            let answer = docs.packed(path, accepted).await;
            assert_eq!(answer.status, status, "{path} {accepted}");
            if status == 406 {
                let body: serde_json::Value = serde_json::from_slice(&answer.bytes).expect("JSON");
                assert_eq!(body["statusCode"], 406);
                assert_eq!(answer.header("cache-control"), "no-store");
            }
        }
    }
}

#[tokio::test]
async fn documents_are_identical_in_every_encoding() {
    let docs = Docs::start().await;
    for name in ["v2", "auth", "webhooks"] {
        let path = format!("/openapi/{name}.json");
        let plain = docs.get(&path).await;
        assert!(plain.text() == committed(name), "{name}");
        let packed = docs.packed(&path, "br").await;
        let mut text = Vec::new();
        brotli::BrotliDecompress(&mut &*packed.bytes, &mut text).expect("Brotli");
        assert!(text == plain.bytes, "{name}");
    }
}

// Receivers copy the verification code of this page.

#[path = "../../src/http/contract/docs/files/verify.rs"]
mod verify;

const SECRET: &str = "9a3f5c1e7b2d48609a3f5c1e7b2d48609a3f5c1e7b2d48609a3f5c1e7b2d4860";
const BODY: &str = r#"{"event":"payment.confirmed","reference":"order-1042"}"#;

/// HMAC-SHA-256 of a text, computed by openssl, so that no sample checks itself.
fn signature(secret: &str, body: &str) -> String {
    let script = format!("printf %s '{body}' | openssl dgst -sha256 -hmac '{secret}' -r | cut -d' ' -f1");
    let output = Command::new("sh").args(["-c", &script]).output().expect("openssl");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// The verdict of the Go sample about a signature, obtained by running the sample in a small program; `None` if Go is
/// not installed. Continuous integration installs Go.
fn judged_in_go(secret: &str, body: &str, header: &str, next: &str) -> Option<bool> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("hooks")).expect("a folder");
    for (file, text) in [
        ("go.mod", "module judge\n"),
        (
            "hooks/verify.go",
            include_str!("../../src/http/contract/docs/files/verify.go"),
        ),
        (
            "main.go",
            "package main\n\nimport (\n\t\"fmt\"\n\t\"judge/hooks\"\n\t\"os\"\n)\n\nfunc main() {\n\
             \tfmt.Println(hooks.IsGenuine(os.Args[1], []byte(os.Args[2]), os.Args[3], os.Args[4]))\n}\n",
        ),
    ] {
        std::fs::write(folder.path().join(file), text).expect("written");
    }
    let mut go = Command::new("go");
    go.args(["run", ".", secret, body, header, next])
        .current_dir(folder.path());
    let Ok(output) = go.output() else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "Go is not installed");
        return None;
    };
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(told.trim() == "true")
}

/// The TypeScript sample as JavaScript, compiled in strict mode. The compiler is installed from the pinned list in
/// `tests/verification`, once for each target folder.
fn compiled() -> String {
    let folder = published::installed("verification", &["package.json", "package-lock.json"], |_| ());
    let sample = include_str!("../../src/http/contract/docs/files/verify.ts");
    std::fs::write(folder.join("verify.ts"), sample).expect("written");
    let mut compiler = Command::new("node");
    compiler
        .current_dir(&folder)
        .arg("node_modules/typescript/bin/tsc")
        .args([
            "--strict",
            "--noUncheckedIndexedAccess",
            "--exactOptionalPropertyTypes",
            "--target",
            "es2022",
            "--module",
            "nodenext",
            "--types",
            "node",
            "verify.ts",
        ]);
    published::run(&mut compiler);
    std::fs::read_to_string(folder.join("verify.js")).expect("a script")
}

/// The verdict of each verification sample on two signature headers. `header` contains the signature of the current
/// secret, and `next` contains the signatures of newer secrets.
fn judged(compiled: &str, secret: &str, body: &str, header: &str, next: &str) -> Vec<(&'static str, bool)> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("body"), body).expect("written");
    let run = |program: &str, file: &str, text: String| {
        std::fs::write(folder.path().join(file), text).expect("written");
        let mut command = Command::new(program);
        command
            .arg(file)
            .current_dir(folder.path())
            .env("PRS_WEBHOOK_SECRET", secret);
        let output = command.stderr(Stdio::inherit()).output().expect(program);
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{file}: {text}");
        text.trim() == "true"
    };
    let (given, following) = (json!(header), json!(next));
    let shell = format!(
        "{}\nif is_genuine body '{header}' '{next}'; then echo true; else echo false; fi\n",
        include_str!("../../src/http/contract/docs/files/verify.sh")
    );
    let python = format!(
        "{}\nprint(str(is_genuine({}, open('body', 'rb').read(), {given}, {following})).lower())\n",
        include_str!("../../src/http/contract/docs/files/verify.py"),
        json!(secret)
    );
    let script = format!(
        "import {{ readFileSync }} from 'node:fs';\n{compiled}\nconsole.log(isGenuine({}, readFileSync('body'), {given}, {following}));\n",
        json!(secret)
    );
    let mut said = vec![
        ("shell", run("sh", "verify.sh", shell)),
        ("Python", run("python3", "verify.py", python)),
        ("TypeScript", run("node", "verify.mjs", script)),
        (
            "Rust",
            verify::is_genuine(secret, body.as_bytes(), header, (!next.is_empty()).then_some(next)),
        ),
    ];
    said.extend(judged_in_go(secret, body, header, next).map(|is_genuine| ("Go", is_genuine)));
    said
}

#[tokio::test]
async fn verification_samples_accept_only_genuine_signatures() {
    let compiled = compiled();
    let judge = |secret: &str, body: &str, header: &str, next: &str, is_good: bool| {
        for (language, said) in judged(&compiled, secret, body, header, next) {
            assert_eq!(said, is_good, "{language}: {header} {next}");
        }
    };
    let (good, other) = (signature(SECRET, BODY), signature("another", BODY));
    for (body, header, next, is_good) in [
        (BODY, good.as_str(), "", true),
        (BODY, other.as_str(), good.as_str(), true),
        (BODY, other.as_str(), &format!("{other} {good}"), true),
        (BODY, other.as_str(), "", false),
        (BODY, "", "", false),
        (BODY, &good[..62], "", false),
        (&format!("{BODY} "), good.as_str(), "", false),
    ] {
        judge(SECRET, body, header, next, is_good);
    }
    // A receiver without a secret accepts nothing.
    judge("", BODY, &signature("", BODY), "", false);
    // Deliveries of this service before and during a rotation.
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    let (id, first) = app.register(&receiver.url()).await;
    app.send_sample("payment.confirmed").await;
    let path = format!("/v1/webhook/{id}/rotate-secret");
    let rotated = app.post(&path).with_client().json(&json!({})).send().await.expect(200);
    let second = rotated["secret"].as_str().expect("a secret");
    app.send_sample("payment.confirmed").await;
    let [before, during] = <[Received; 2]>::try_from(receiver.received().await).expect("two deliveries");
    for (delivery, secret, is_good) in [
        (&before, first.as_str(), true),
        (&before, second, false),
        (&during, first.as_str(), true),
        (&during, second, true),
        (&during, SECRET, false),
    ] {
        let of = |name: &str| delivery.header(name).unwrap_or_default();
        let (header, next) = (of("x-service-signature"), of("x-service-signature-next"));
        judge(secret, &delivery.body, header, next, is_good);
    }
}

#[test]
fn the_webhook_guide_contains_the_same_samples() {
    let guide = include_str!("../../docs/guides/webhooks.md");
    for (language, file, text) in [
        (
            "ts",
            "verify.ts",
            include_str!("../../src/http/contract/docs/files/verify.ts"),
        ),
        (
            "python",
            "verify.py",
            include_str!("../../src/http/contract/docs/files/verify.py"),
        ),
        (
            "go",
            "verify.go",
            include_str!("../../src/http/contract/docs/files/verify.go"),
        ),
        (
            "rust",
            "verify.rs",
            include_str!("../../src/http/contract/docs/files/verify.rs"),
        ),
    ] {
        assert!(guide.contains(&format!("```{language} {file}\n{text}```\n")), "{file}");
    }
}
