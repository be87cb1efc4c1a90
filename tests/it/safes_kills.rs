//! The process is killed at a commit while a report of a Safe is stored, a lock is released, or an execution ends a lock.
//! Afterwards each report has exactly one final state, and each failure has one event.

use crate::{
    reconcile::run_sql,
    support::{
        TestApp,
        dev::exchange,
        links::{link_of, link_transactions, token_of},
        ports,
        safes::{TestSafe, safe_report, with_safe_gas},
        screening::rows,
    },
};
use alloy::primitives::B256;
use prs::{adapters::clock::SystemClock, domain::secure_payment::intent::IntentState, ports::clock::Clock as _};
use serde_json::Value;
use std::{
    os::unix::process::ExitStatusExt as _,
    process::{Child, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::time::sleep;

/// Signal with which a process ends at a failpoint.
const ABORTED: i32 = 6;

/// Interval between two looks at a process.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a process may take to reach its failpoint.
const REACHED_WITHIN: Duration = Duration::from_secs(60);

/// A `prs serve` process on the database and the chain of a test. It dies at its failpoint, and at the latest when this
/// value is dropped.
struct DyingService {
    child: Child,
    point: String,
    url: String,
    _folder: TempDir,
}

impl Drop for DyingService {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl DyingService {
    /// Starts the process. It may follow the chain at once, as if the leases of all other instances had ended.
    async fn start(app: &TestApp, point: &str) -> Self {
        end_leases(app).await;
        let folder = tempfile::tempdir().expect("a folder");
        let address = format!("127.0.0.1:{}", ports::free());
        let mut command = app.command(folder.path());
        command
            .arg("serve")
            .env("PRS_HTTP__LISTEN", &address)
            .env("PRS_HTTP__METRICS_LISTEN", &address)
            .env("PRS_HTTP__PRODUCTION", "false")
            .env("FAILPOINTS", format!("{point}=return"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self {
            child: command.spawn().expect("it starts"),
            point: point.to_owned(),
            url: format!("http://{address}"),
            _folder: folder,
        }
    }

    /// Whether the process still runs. The test fails if the process ended elsewhere than at its failpoint.
    fn is_running(&mut self) -> bool {
        let Some(status) = self.child.try_wait().expect("a state") else {
            return true;
        };
        assert_eq!(status.signal(), Some(ABORTED), "{}: {status}", self.point);
        false
    }

    /// Waits until the process has died at its failpoint.
    async fn died(mut self) {
        let begun = Instant::now();
        while self.is_running() {
            assert!(begun.elapsed() < REACHED_WITHIN, "{} is not reached", self.point);
            sleep(LOOK_EVERY).await;
        }
    }

    /// Posts with the API key, and waits until the process has died at its failpoint without a response.
    async fn post(mut self, app: &TestApp, path: &str, body: Option<&Value>) {
        let begun = Instant::now();
        let (url, empty) = (format!("{}{path}", self.url), Value::Object(serde_json::Map::new()));
        let headers = [("x-api-key", app.key.as_str())];
        // Before the process listens, the call fails too.
        while self.is_running() {
            assert!(begun.elapsed() < REACHED_WITHIN, "{} is not reached", self.point);
            if let Ok(answer) = exchange(&url, &headers, Some(body.unwrap_or(&empty))).await {
                panic!("{} is not reached: {answer:?}", self.point);
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

/// Lets the next instance follow the networks at once.
async fn end_leases(app: &TestApp) {
    run_sql(app, "UPDATE chain_leaders SET holder = NULL".to_owned()).await;
}

/// A service with the time of the machine, which further processes on its database have.
async fn service() -> TestApp {
    let app = TestApp::on_chain().await;
    let ahead = SystemClock.now() - app.ctx.clock.now();
    app.advance_ms(ahead.num_milliseconds());
    app.is_paid_in("FAU-sepolia").await;
    app.follow().await;
    app
}

async fn link(app: &TestApp) -> String {
    token_of(&app.link(&link_of(&["1"])).await.expect(201))
}

/// Number of reports of a link, and whether it has a lock.
async fn stored(app: &TestApp, token: &str) -> (i64, bool) {
    let payment = app.stored_link(token).await;
    let reports = format!("secure_payment_intents WHERE secure_payment_id = '{}'", payment.id);
    (rows(app, &reports).await, payment.lock.is_some())
}

#[tokio::test]
async fn a_kill_leaves_a_whole_report_and_a_whole_release_or_none() {
    let app = service().await;
    let token = link(&app).await;
    let path = format!("/v2/secure-payments/{token}/intent");
    let hash = B256::repeat_byte(7);
    let body = safe_report(hash, None);
    for point in ["locked", "inserted", "before_commit"] {
        let dying = DyingService::start(&app, &format!("record_intent.{point}")).await;
        dying.post(&app, &path, Some(&body)).await;
        assert_eq!(stored(&app, &token).await, (0, false), "{point}");
        assert_eq!(app.open_link(&token, "").send().await.status, 200, "{point}");
    }
    let dying = DyingService::start(&app, "record_intent.after_commit").await;
    dying.post(&app, &path, Some(&body)).await;
    assert_eq!(stored(&app, &token).await, (1, true));
    assert_eq!(app.open_link(&token, "").send().await.status, 423);
    let known = app.stored_report(&token, &hash).await.expect("a report");
    let repeated = app.report_as_owner(&token, &body).await.expect(200);
    assert_eq!(repeated["intentId"], known.id.as_str());
    assert_eq!(stored(&app, &token).await, (1, true));

    let path = format!("/v2/secure-payments/{token}/release");
    for point in ["unlocked", "before_commit"] {
        let dying = DyingService::start(&app, &format!("release_secure_payment.{point}")).await;
        dying.post(&app, &path, None).await;
        assert_eq!(stored(&app, &token).await, (1, true), "{point}");
        assert_eq!(app.open_link(&token, "").send().await.status, 423, "{point}");
    }
    let dying = DyingService::start(&app, "release_secure_payment.after_commit").await;
    dying.post(&app, &path, None).await;
    for _ in 0..2 {
        assert_eq!(stored(&app, &token).await, (1, false));
        assert_eq!(app.open_link(&token, "").send().await.status, 200);
        app.release_link(&token).await.expect(200);
    }
    assert_eq!(rows(&app, "events").await, 0);
}

/// Kills a process at each point of the transaction that ends a lock, and checks what is stored. Afterwards the service
/// continues twice.
async fn end_with_kills(app: &TestApp, token: &str, hash: &B256, points: &[&str], state: IntentState) {
    let stored = async || {
        let report = app.stored_report(token, hash).await.expect("a report");
        (report.state, app.stored_link(token).await.lock.is_some())
    };
    for point in points {
        let dying = DyingService::start(app, point).await;
        dying.died().await;
        assert_eq!(stored().await, (IntentState::AwaitingExecution, true), "{point}");
        assert_eq!(rows(app, "events WHERE kind = 'payment.failed'").await, 0, "{point}");
    }
    let dying = DyingService::start(app, "end_safe_lock.after_commit").await;
    dying.died().await;
    assert_eq!(stored().await, (state, false));
    end_leases(app).await;
    for _ in 0..2 {
        app.settle().await;
        assert_eq!(stored().await, (state, false));
    }
}

#[tokio::test]
async fn a_kill_while_a_lock_ends_leaves_one_state_and_one_event() {
    let app = service().await;
    let deployed = app.safe_contracts().await;
    let contracts = &deployed[1];
    let begin = ["end_safe_lock.begun", "end_safe_lock.ended"];
    let events = ["publish.event_inserted", "publish.deliveries_inserted"];
    let commit = ["end_safe_lock.before_commit"];
    // The link of the execution comes first: once it is paid, no payment is expected.
    for (fails, points, state) in [
        (false, [&begin[..], &commit[..]].concat(), IntentState::Executed),
        (
            true,
            [&begin[..], &events[..], &commit[..]].concat(),
            IntentState::Failed,
        ),
    ] {
        let token = link(&app).await;
        let safe = TestSafe::funded(&app, contracts).await;
        let steps = link_transactions(&app.safe_calldata(&token, safe.address).await.expect(200));
        let transaction = if fails {
            with_safe_gas(safe.several(&steps[1..], 0))
        } else {
            safe.several(&steps, 0)
        };
        let hash = safe.hash(&transaction);
        let report = safe_report(hash, Some(safe.address));
        app.report_as_stranger(&token, &report).await.expect(200);
        safe.execute(&transaction).await;
        end_with_kills(&app, &token, &hash, &points, state).await;
        let expected = if fails { 200 } else { 409 };
        assert_eq!(app.open_link(&token, "").send().await.status, expected, "{state:?}");
    }
    assert_eq!(rows(&app, "events WHERE kind = 'payment.confirmed'").await, 1);
    assert_eq!(rows(&app, "events WHERE kind = 'payment.failed'").await, 1);
    assert_eq!(rows(&app, "events").await, 2);
}
