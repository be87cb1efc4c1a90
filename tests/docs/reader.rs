//! A reader of the documentation of a running `prs dev`.

use crate::support::{browser::Browser, dev::Dev, published};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Pause between two polls of the page.
const LOOK: Duration = Duration::from_millis(50);

/// Time limit for an expected change.
const PATIENCE: Duration = Duration::from_secs(30);

/// The WebDriver identifier of elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A script that records what the content security policy of the page blocked.
const WATCH: &str = "window.forbidden = []; addEventListener('securitypolicyviolation', (event) => \
                     window.forbidden.push(`${event.violatedDirective} ${event.blockedURI}`));";

/// Windows for screenshots: name, width, height, dark mode.
pub const LOOKS: [(&str, u32, u32, bool); 4] = [
    ("desktop", 1280, 860, false),
    ("desktop-dark", 1280, 860, true),
    ("phone", 390, 844, false),
    ("phone-dark", 390, 844, true),
];

pub struct Reader {
    pub dev: Dev,
    pub browser: Browser,
    pictures: PathBuf,
}

impl Reader {
    pub async fn begin(folder: &Path) -> Self {
        let dev = Dev::start(folder);
        let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs-pictures");
        std::fs::create_dir_all(&pictures).expect("a folder");
        let browser = Browser::start().await;
        let source = json!({ "source": WATCH });
        browser.devtools("Page.addScriptToEvaluateOnNewDocument", source).await;
        Self { dev, browser, pictures }
    }

    /// Opens a path of the service; reloads if only the fragment differs.
    pub async fn open(&self, path: &str) {
        self.browser.open("about:blank").await;
        self.browser.open(&format!("{}{path}", self.dev.text("/baseUrl"))).await;
    }

    /// Runs a script and returns its result.
    pub async fn js(&self, script: &str) -> Value {
        self.browser
            .post("execute/sync", &json!({ "script": script, "args": [] }))
            .await
    }

    /// Waits until a script returns a true value. Panics on timeout.
    pub async fn until(&self, script: &str) {
        let begun = Instant::now();
        while self.js(&format!("return Boolean({script});")).await != Value::Bool(true) {
            if begun.elapsed() > PATIENCE {
                let text = self.js("return document.body.innerText.slice(0, 4000);").await;
                let forbidden = self.js("return window.forbidden;").await;
                panic!("timed out waiting for {script}; {forbidden} {text}");
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Clicks like a user with a mouse: a hidden, covered or disabled element cannot be clicked.
    pub async fn click(&self, selector: &str) {
        // WebDriver scrolls an element into the window, but not out from under the top bar.
        self.js(&format!(
            "document.querySelector('{selector}').scrollIntoView({{ block: 'center' }});"
        ))
        .await;
        let wanted = json!({ "using": "css selector", "value": selector });
        let found = self.browser.post("element", &wanted).await;
        let id = found[ELEMENT].as_str().unwrap_or_else(|| panic!("{selector}: {found}"));
        let clicked = self.browser.post(&format!("element/{id}/click"), &json!({})).await;
        assert_eq!(clicked, Value::Null, "{selector}");
    }

    pub async fn text(&self, script: &str) -> String {
        let text = self.js(&format!("return {script};")).await;
        text.as_str().unwrap_or_else(|| panic!("{script}: {text}")).to_owned()
    }

    pub async fn picture(&self, name: &str) {
        self.browser.picture(&self.pictures.join(format!("{name}.png"))).await;
    }

    /// Findings of axe-core on the page.
    pub async fn judged(&self) -> Vec<String> {
        // Installed on demand: not every run of these tests needs axe-core.
        let judge = published::installed("page", &["package.json", "package-lock.json"], |_| ());
        let judge = std::fs::read_to_string(judge.join("node_modules/axe-core/axe.min.js")).expect("the judge");
        self.browser.judged(&judge).await
    }

    /// Fails if the page tried something that its policy forbids, or fetched from another host; prints what it fetched.
    pub async fn fetched_only_here(&self, name: &str) {
        let forbidden = self.js("return window.forbidden;").await;
        assert_eq!(forbidden, json!([]), "{name}");
        let script = "return performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))\
                      .map((one) => [one.name, one.encodedBodySize]);";
        let fetched = self.js(script).await;
        let fetched = fetched.as_array().expect("a list");
        let here = self.dev.text("/baseUrl");
        for one in fetched {
            let address = one[0].as_str().expect("an address");
            assert!(
                address.starts_with(here) || address.starts_with("data:"),
                "{name}: {address}"
            );
        }
        let bytes: u64 = fetched.iter().filter_map(|one| one[1].as_u64()).sum();
        let paint = self
            .js("return Math.round(performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0);")
            .await;
        println!(
            "{name}: {} calls, {bytes} bytes, first paint after {paint} ms",
            fetched.len()
        );
    }
}
