//! The examples of the documents, executed by the page that shows them: a reader who opens an operation in Swagger UI
//! and presses "Execute" gets the documented response.

use crate::{
    examples::{self, DOCUMENTS, Example, RETRY, STREAM},
    reader::Reader,
};
use futures_util::FutureExt;
use serde_json::json;
use std::panic::AssertUnwindSafe;

/// A script that counts the calls of the page and stores the status of every response: the page shows no status for an
/// endless response.
const LISTEN: &str = "const own = window.fetch; window.calls = 0; window.answers = []; window.fetch = async (...call) => { \
                      window.calls += 1; const answer = await own(...call); \
                      window.answers.push([new URL(answer.url).pathname, answer.status]); return answer; };";

/// A script that opens an operation and executes it. It returns the status that the page shows, or the status of a
/// response that never ends.
const EXECUTE: &str = "
    const [operation, path, done] = arguments;
    const begun = performance.now();
    const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));
    const find = (selector) => document.querySelector(`.opblock[id$='-${operation}'] ${selector}`);
    const come = async (look) => {
        while (performance.now() - begun < 60000) {
            const found = look();
            if (found) return found;
            await pause(20);
        }
        return null;
    };
    const run = async () => {
        const summary = await come(() => find('.opblock-summary-control'));
        summary.click();
        if (!(await come(() => find('.execute')))) return 'no button to execute it';
        // The button appears before the operation is ready: an early click does nothing.
        const calls = window.calls;
        await pause(150);
        while (window.calls === calls && performance.now() - begun < 60000) {
            find('.execute').click();
            for (let look = 0; look < 100 && window.calls === calls; look += 1) await pause(10);
        }
        const shown = () => find('.live-responses-table tbody .response-col_status')?.firstChild?.textContent;
        const kept = () => path && window.answers.find(([of]) => of === path)?.[1];
        const status = await come(() => kept() || shown());
        summary.click();
        return String(status);
    };
    run().then(done, (error) => done(String(error)));";

#[tokio::test]
async fn every_example_that_the_page_executes_returns_its_expected_status() {
    prs::adapters::install_tls();
    let folder = tempfile::tempdir().expect("a folder");
    let reader = Reader::begin(folder.path()).await;
    let end = AssertUnwindSafe(execute_all(&reader)).catch_unwind().await;
    reader.browser.end().await;
    if let Err(panic) = end {
        std::panic::resume_unwind(panic);
    }
}

async fn execute_all(reader: &Reader) {
    reader.browser.dress(1280, 860, false).await;
    // Longer than the timeout of the script.
    let patience = json!({ "script": 70_000, "pageLoad": 70_000 });
    reader.browser.post("timeouts", &patience).await;
    let source = json!({ "source": LISTEN });
    reader
        .browser
        .devtools("Page.addScriptToEvaluateOnNewDocument", source)
        .await;
    let (all, mut wrong, mut opened) = (examples::all(), Vec::new(), None);
    for example in &all {
        if opened != Some(example.document) {
            open(reader, example.document).await;
            opened = Some(example.document);
        }
        if example.operation == RETRY {
            examples::delivered(&reader.dev).await;
        }
        let got = executed(reader, example).await;
        println!("{}", example.line(&got));
        if got != example.wanted.to_string() {
            wrong.push(example.line(&got));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{} examples by the page", all.len());
}

/// Opens the page of a document, and waits for the credentials of this run.
async fn open(reader: &Reader, document: usize) {
    reader.open(&format!("/docs/swagger/{}", DOCUMENTS[document])).await;
    reader
        .until("document.querySelector('.auth-wrapper .authorize.locked')")
        .await;
}

async fn executed(reader: &Reader, example: &Example) -> String {
    let endless = (example.operation == STREAM).then_some(example.target.as_str());
    let arguments = json!([example.operation, endless]);
    let told = reader.browser.run(EXECUTE, &arguments).await;
    told.as_str().map_or_else(|| told.to_string(), str::to_owned)
}
