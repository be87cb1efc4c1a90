//! Tasks of readers: the first request in three clicks, search, deep links, and Swagger UI and Scalar side by side.

use crate::reader::{LOOKS, Reader};
use futures_util::FutureExt;
use std::{fmt::Debug, panic::AssertUnwindSafe, time::Instant};

/// Asserts that two values are equal; the failure shows the given name and both values.
#[track_caller]
fn same<T: PartialEq + Debug>(found: T, wanted: T, what: &str) {
    assert!(found == wanted, "{what}: {found:?}, not {wanted:?}");
}

#[tokio::test]
async fn readers_make_the_first_request_in_three_clicks_and_find_their_way() {
    prs::adapters::install_tls();
    let folder = tempfile::tempdir().expect("a folder");
    let reader = Reader::begin(folder.path()).await;
    let read = async {
        first_request(&reader).await;
        finds(&reader).await;
        swagger(&reader).await;
        scalar(&reader).await;
        looks(&reader).await;
        crate::samples::run(&reader).await;
    };
    let end = AssertUnwindSafe(read).catch_unwind().await;
    reader.browser.end().await;
    if let Err(panic) = end {
        std::panic::resume_unwind(panic);
    }
}

/// Walks from the root page of the service to a payment whose webhook was sent.
async fn first_request(reader: &Reader) {
    reader.browser.dress(1280, 860, false).await;
    let begun = Instant::now();
    let mut steps = Vec::new();
    let mut done = |what: String| steps.push(format!("{:>6} ms  {what}", begun.elapsed().as_millis()));
    reader.open("/").await;
    same(reader.text("location.pathname").await, "/docs/".to_owned(), "the root");
    reader.until("document.querySelector('#step-1 button:enabled')").await;
    done("opened / and landed on /docs/".to_owned());
    let is_on_screen = reader
        .js("return document.querySelector('#step-3 button').getBoundingClientRect().bottom <= innerHeight;")
        .await;
    same(is_on_screen, true.into(), "all of it on one screen");
    reader.click("#step-1 button").await;
    reader.until("document.querySelector('#step-2 button:enabled')").await;
    let created = reader.text("document.querySelector('#step-1 .told').textContent").await;
    assert!(
        created.contains("201 Created") && created.contains("requestId"),
        "{created}"
    );
    done("click 1: the request is created".to_owned());
    reader.click("#step-2 button").await;
    reader.until("document.querySelector('#step-3 button:enabled')").await;
    done("click 2: its transactions are shown".to_owned());
    reader.click("#step-3 button").await;
    for (stage, what) in [
        ("sent", "click 3: signed and sent"),
        ("seen", "the payment is seen"),
        ("paid", "the request is paid"),
        ("told", "payment.confirmed is sent"),
    ] {
        let script = format!("document.querySelector('[data-stage={stage}]')?.textContent");
        reader.until(&script).await;
        done(format!("{what}: {}", reader.text(&script).await));
    }
    reader.until("document.querySelector('#step-3.past')").await;
    let told = reader.text("document.querySelector('#step-3 .told').textContent").await;
    assert!(
        told.contains("payment.confirmed") && told.contains("\"expectedAmount\": \"1.5\""),
        "{told}"
    );
    println!("{}", steps.join("\n"));
    reader.fetched_only_here("the first request").await;
    reader.picture("first-request").await;
    // A button half covered by the top bar is too small a target, so the check scrolls to the top first.
    reader.js("window.scrollTo(0, 0);").await;
    same(reader.judged().await, Vec::new(), "axe-core on the first request");
}

/// Tests the search, deep links, and the remembered language.
async fn finds(reader: &Reader) {
    reader.open("/docs/").await;
    let visible =
        "[...document.querySelectorAll('.group details')].filter((one) => one.offsetParent).map((one) => one.id)";
    let search = |words: &str| {
        format!(
            "const field = document.getElementById('search'); field.value = '{words}'; \
             field.dispatchEvent(new Event('input'));"
        )
    };
    // By a word of the name only, and by a word of the description only.
    for (words, id) in [
        ("getsecurepaymentcalldata", "getSecurePaymentCalldata"),
        ("screening error", "kyt.screening.completed"),
    ] {
        reader.js(&search(words)).await;
        let found = reader.js(&format!("return {visible};")).await;
        same(found, serde_json::json!([id]), words);
        same(
            reader.text("document.getElementById('found').textContent").await,
            "1 found".to_owned(),
            "the count",
        );
    }
    reader.js(&search("idempotency")).await;
    reader
        .until("document.getElementById('createRequest').offsetParent")
        .await;
    reader.js(&search("xyzzy")).await;
    reader
        .until("document.querySelector('#nothing a[href*=scalar]').offsetParent")
        .await;
    // An undecodable fragment is ignored, and a link shows an operation that the search had hidden.
    reader
        .js(
            "window.flaws = []; addEventListener('error', (event) => window.flaws.push(event.message)); \
             addEventListener('hashchange', () => { window.followed = location.hash; }); location.hash = '%';",
        )
        .await;
    reader.until("window.followed === '#%'").await;
    same(
        reader.js("return window.flaws;").await,
        serde_json::json!([]),
        "a broken link",
    );
    reader.js("location.hash = 'createPayout';").await;
    reader
        .until("document.querySelector('#createPayout[open]')?.offsetParent")
        .await;
    same(
        reader.text("document.getElementById('search').value").await,
        String::new(),
        "the search after a link",
    );
    // An old link from when Swagger UI was at this path also leads to the operation.
    for link in ["/docs/#createPayout", "/docs/#/Payouts/createPayout"] {
        reader.open(link).await;
        reader
            .until("document.querySelector('#createPayout[open] .inside pre')")
            .await;
    }
    reader.click("input[value=python]").await;
    reader
        .until("document.querySelector('#createPayout .inside pre').textContent.includes('urllib.request')")
        .await;
    reader.open("/docs/#payment.confirmed").await;
    reader
        .until("document.getElementById('payment.confirmed').querySelector('pre')?.textContent.includes('totalAmountPaid')")
        .await;
    reader
        .until("!document.querySelector('[data-language=python]').hidden")
        .await;
    same(
        reader
            .js("return document.querySelector('[data-language=rust]').hidden;")
            .await,
        true.into(),
        "one language at a time",
    );
    // A language chosen for the verification samples applies to all samples.
    reader.click("input[name=verifying][value=rust]").await;
    reader
        .until("document.querySelector('[data-language=rust]:not([hidden]) .copy')")
        .await;
    same(
        reader
            .js("return document.querySelector('input[name=language]:checked').value;")
            .await,
        "rust".into(),
        "both choices agree",
    );
    reader.fetched_only_here("the overview").await;
}

/// Checks that every link of the overview to Swagger UI opens its operation, and executes one operation with the key of
/// this run.
async fn swagger(reader: &Reader) {
    reader.open("/docs/").await;
    let link = "document.querySelector('#createRequest .ways a[href*=swagger]').getAttribute('href')";
    let link = reader.text(link).await;
    reader.open(&link).await;
    reader
        .until("document.querySelector('.opblock.is-open .execute')")
        .await;
    reader.fetched_only_here("Swagger UI").await;
    reader.picture("swagger-operation").await;
    reader
        .until("document.querySelector('.auth-wrapper .authorize.locked')")
        .await;
    reader
        .js("document.querySelector('.opblock.is-open .execute').click();")
        .await;
    reader
        .until("[...document.querySelectorAll('.live-responses-table .response-col_status')].some((one) => one.textContent.startsWith('201'))")
        .await;
    for name in ["auth", "webhooks"] {
        reader.open(&format!("/docs/swagger/{name}")).await;
        reader.until("document.querySelectorAll('.opblock').length > 10").await;
        reader.fetched_only_here(&format!("Swagger UI, {name}")).await;
    }
}

/// Opens an operation in Scalar, with our samples, and executes it with the key of this run.
async fn scalar(reader: &Reader) {
    reader.open("/docs/").await;
    let link = "document.querySelector('#createPayout .ways a[href*=scalar]').getAttribute('href')";
    let link = reader.text(link).await;
    reader.open(&link).await;
    let id = link.split_once('#').expect("a fragment").1;
    reader
        .until(&format!(
            "document.getElementById('{id}')?.textContent.includes('/v2/payouts')"
        ))
        .await;
    reader
        .until(&format!("document.getElementById('{id}').textContent.includes('curl')"))
        .await;
    reader.fetched_only_here("Scalar").await;
    for name in ["auth", "webhooks"] {
        reader.open(&format!("/docs/scalar/{name}")).await;
        reader
            .until("document.querySelectorAll('#ui section').length >= 3")
            .await;
        reader.fetched_only_here(&format!("Scalar, {name}")).await;
    }
}

/// Takes screenshots of all pages in every window size and colour scheme. Our own pages are also checked with axe-core,
/// and no page of ours may be wider than its window.
async fn looks(reader: &Reader) {
    let mut wrong = Vec::new();
    for (look, width, height, is_dark) in LOOKS {
        reader.browser.dress(width, height, is_dark).await;
        for (name, path, ready) in [
            ("overview", "/docs/", "document.querySelector('#step-1 button:enabled')"),
            (
                "operation",
                "/docs/#createSecurePayment",
                "document.querySelector('#createSecurePayment[open] .inside pre')",
            ),
            (
                "webhooks",
                "/docs/#verify",
                "document.querySelector('[data-language]:not([hidden]) pre')",
            ),
            (
                "swagger",
                "/docs/swagger/v2",
                "document.querySelectorAll('.opblock').length > 30",
            ),
            (
                "scalar",
                "/docs/scalar/v2",
                "document.querySelectorAll('#ui section').length >= 3",
            ),
        ] {
            reader.open(path).await;
            reader.until(ready).await;
            tokio::time::sleep(std::time::Duration::from_millis(600)).await;
            reader.picture(&format!("{name}-{look}")).await;
            if ["swagger", "scalar"].contains(&name) {
                continue;
            }
            wrong.extend(reader.judged().await.iter().map(|one| format!("{name}-{look}: {one}")));
            let wide = reader.js("return document.documentElement.scrollWidth;").await;
            if wide.as_u64().is_none_or(|wide| wide > width.into()) {
                wrong.push(format!("{name}-{look}: {wide} wide"));
            }
        }
    }
    println!(
        "axe-core and width: {} findings on {} screens",
        wrong.len(),
        3 * LOOKS.len()
    );
    same(wrong, Vec::new(), "how it looks");
}
