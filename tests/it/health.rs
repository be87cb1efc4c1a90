//! The health page and the gauges show that a chain is not followed, and the page says what to do.

use crate::support::{
    TestApp,
    app::settings,
    bent::{Bent, Withheld},
    events::{exhaust, tell},
    receiver::Receiver,
    secrets,
    tron_calls::tron_settings,
};
use alloy::primitives::B256;
use chrono::{DateTime, TimeDelta, Utc};
use devnet::tron::{TronDevnet, TronOptions};
use prs::{
    adapters::clock::SystemClock,
    boot::{health::Health, process::Process, role::Role},
    domain::{
        ids::QuarantineId,
        network::Network,
        oddity::{OddReason, Oddity},
        payment::Finality,
    },
    flows::payments::resume,
    ports::clock::Clock,
    store::{
        self,
        cursors::{Cursor, ReachedBlock},
    },
    worker::{self, Workers, chain_states::ChainOutcome, deliver_webhooks, lead_chains},
};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};
use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    sync::Arc,
    time::Duration,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Runs the workers of the application until they have queried its chain.
async fn looked_at(app: &TestApp, stop: &CancellationToken) -> Workers {
    let options = deliver_webhooks::DeliveryOptions {
        concurrency: 1,
        concurrency_per_endpoint: 1,
    };
    let chains = lead_chains::LeadershipOptions {
        instance: "tests".to_owned(),
        lease: Duration::from_secs(6),
        polls: [Network::Sepolia, Network::Tron]
            .map(|network| (network, Duration::from_millis(20)))
            .into(),
        news: HashMap::new(),
    };
    let workers = worker::start(&app.ctx, options, chains, stop, stop, &TaskTracker::new());
    for _ in 0..500 {
        let states = workers.chains.all();
        if states.values().any(|state| state.look != ChainOutcome::None) {
            return workers;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the chain is never queried");
}

/// Sets the test clock to the machine's time, because blocks of the local chain have that time.
fn go_to_present(app: &TestApp) {
    app.clock.advance(SystemClock.now() - app.ctx.clock.now());
}

async fn page(app: &TestApp, role: Role, workers: &Workers) -> (bool, Value) {
    let process = Process {
        workers: workers.clone(),
        ..Process::new(role)
    };
    let health = Health::new(&settings(), &app.ctx, &process);
    let report = health.look().await;
    (report.is_ready, report.body)
}

/// Waits until the page of a process passes a check.
async fn becomes(app: &TestApp, workers: &Workers, is_reached: impl Fn(&Value) -> bool) -> bool {
    for _ in 0..500 {
        if is_reached(&page(app, Role::All, workers).await.1) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

/// Waits until the page shows the chain in this state.
async fn comes_to(app: &TestApp, workers: &Workers, state: &str) -> bool {
    becomes(app, workers, |body| body["chains"]["sepolia"]["state"] == state).await
}

async fn halt(app: &TestApp) {
    let mark = ReachedBlock {
        number: 7,
        hash: B256::repeat_byte(7),
    };
    let cursor = Cursor {
        network: Network::Sepolia,
        seen: mark,
        finalized: mark,
        halted_reason: Some("block 7, which was final, is gone".to_owned()),
        finality: Some(Finality::Tag),
        may_rewind: false,
        updated_at: app.ctx.clock.now(),
    };
    let is_begun = store::cursors::begin(app.ctx.db.writer(), &cursor).await;
    assert!(is_begun.expect("a cursor"));
}

async fn set_aside(app: &TestApp) {
    let odd = Oddity {
        network: Network::Sepolia,
        block_number: 7,
        tx_hash: None,
        position: None,
        reason: OddReason::Unprovable,
        detail: String::new(),
        concerned: None,
    };
    let id = QuarantineId(app.ctx.ids.ulid());
    let put = store::quarantine::put(app.ctx.db.writer(), &odd, id, app.ctx.clock.now()).await;
    put.expect("a row");
}

#[tokio::test]
async fn a_failing_chain_makes_workers_unready_but_not_the_api() {
    let app = TestApp::start().await;
    let stop = CancellationToken::new();
    let workers = looked_at(&app, &stop).await;
    for role in [Role::All, Role::Worker] {
        let (is_ready, body) = page(&app, role, &workers).await;
        assert_eq!(
            (is_ready, &body["status"]),
            (true, &json!("ready")),
            "a short failure does not count"
        );
        assert_eq!(body["chains"]["sepolia"]["state"], "failing");
    }
    app.clock.advance(TimeDelta::seconds(121));
    let (is_ready, body) = page(&app, Role::Worker, &workers).await;
    assert_eq!((is_ready, &body["status"]), (false, &json!("not ready")));
    let (is_ready, body) = page(&app, Role::All, &workers).await;
    assert_eq!((is_ready, &body["status"]), (true, &json!("degraded")));
    let chain = &body["chains"]["sepolia"];
    assert_eq!(chain["lastOkAt"], json!(null));
    let next = chain["next"][0].as_str().expect("a sentence");
    assert!(next.contains("chains.sepolia.rpc_urls"), "{next}");
    stop.cancel();
}

#[tokio::test]
async fn a_responding_chain_is_ready_and_becomes_stale_once_it_stops() {
    let app = TestApp::on_chain().await;
    let stop = CancellationToken::new();
    let workers = looked_at(&app, &stop).await;
    let (is_ready, body) = page(&app, Role::Worker, &workers).await;
    assert_eq!((is_ready, &body["status"]), (true, &json!("ready")), "{body}");
    let chain = &body["chains"]["sepolia"];
    assert_eq!(
        (&chain["state"], &chain["lagBlocks"]),
        (&json!("following"), &json!(0)),
        "{body}"
    );
    assert!(chain["lastOkAt"].is_string(), "{body}");
    stop.cancel();
    tokio::time::sleep(Duration::from_millis(100)).await;
    app.clock.advance(TimeDelta::seconds(200));
    let (is_ready, _) = page(&app, Role::Worker, &workers).await;
    assert!(!is_ready, "the chain is no longer followed");
}

#[tokio::test]
async fn a_chain_with_an_old_newest_block_is_unhealthy() {
    let app = TestApp::on_chain().await;
    app.devnet().mine(1).await.expect("mined");
    go_to_present(&app);
    app.clock.advance(TimeDelta::seconds(100));
    let stop = CancellationToken::new();
    let workers = looked_at(&app, &stop).await;
    assert!(page(&app, Role::Worker, &workers).await.0);
    stop.cancel();
    app.clock.advance(TimeDelta::seconds(40));
    let now = app.ctx.clock.now();
    let stop = CancellationToken::new();
    let workers = looked_at(&app, &stop).await;
    let (is_ready, body) = page(&app, Role::Worker, &workers).await;
    assert_eq!((is_ready, &body["status"]), (false, &json!("not ready")), "{body}");
    let (is_ready, body) = page(&app, Role::All, &workers).await;
    assert_eq!((is_ready, &body["status"]), (true, &json!("degraded")), "{body}");
    let chain = &body["chains"]["sepolia"];
    let next = chain["next"][0].as_str().expect("a sentence");
    assert!(
        next.contains("s old") && next.contains("chains.sepolia.rpc_urls"),
        "{next}"
    );
    let last_ok = chain["lastOkAt"].as_str().expect("a time").parse::<DateTime<Utc>>();
    let ago = now - last_ok.expect("a date");
    assert!(ago > TimeDelta::seconds(15) && ago < TimeDelta::seconds(40), "{ago}");
    stop.cancel();
}

#[tokio::test]
async fn a_chain_followed_by_too_few_nodes_is_unhealthy() {
    let mut app = TestApp::on_chain().await;
    let chains = &mut Arc::make_mut(&mut app.ctx.partners.chains).followed;
    let bent = Bent {
        withheld: Withheld {
            pace: true,
            ..Withheld::default()
        },
        ..Bent::of(&chains[&Network::Sepolia])
    };
    chains.insert(Network::Sepolia, Arc::new(bent));
    let stop = CancellationToken::new();
    let workers = looked_at(&app, &stop).await;
    assert!(page(&app, Role::Worker, &workers).await.0, "a short time is allowed");
    app.clock.advance(TimeDelta::seconds(121));
    assert!(comes_to(&app, &workers, "following").await);
    let (is_ready, body) = page(&app, Role::Worker, &workers).await;
    assert_eq!((is_ready, &body["status"]), (false, &json!("not ready")), "{body}");
    let chain = &body["chains"]["sepolia"];
    assert_eq!(chain["lastOkAt"], json!(null));
    let next = chain["next"][0].as_str().expect("a sentence");
    assert!(next.contains("too few nodes advance"), "{next}");
    stop.cancel();
}

/// All nodes of Tron show new blocks, and none of them becomes solid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_final_block_that_stands_still_is_logged_and_degraded() {
    const LAG: u64 = 2;
    let options = TronOptions {
        nodes: 2,
        solid_lag: LAG,
        ..TronOptions::default()
    };
    let chain = TronDevnet::start(options).await.expect("the stand-in starts");
    let app = TestApp::with(tron_settings(&chain), None).await;
    go_to_present(&app);
    // The lag grows first, so that no poll sees a newer solid block.
    let grow = async |blocks: u64, solid_lag: u64| {
        for node in 0..2 {
            chain.set_solid_lag(node, solid_lag).await.expect("set");
        }
        chain.mine(blocks).await.expect("mined").head_number
    };
    let stop = CancellationToken::new();
    let workers = looked_at(&app, &stop).await;
    let shows = |head: u64, status: &'static str| {
        move |body: &Value| body["chains"]["tron"]["head"] == head && body["status"] == status
    };
    let start = chain.state(0).await.expect("a state").head_number;
    assert!(becomes(&app, &workers, shows(start, "ready")).await);
    // Blocks of 240 s, and then of 360 s.
    let head = grow(80, LAG + 80).await;
    assert!(
        becomes(&app, &workers, shows(head, "ready")).await,
        "a short pause is allowed"
    );
    let sentence = "no further block becomes final although the chain grows";
    assert_eq!(secrets::lines_logged_with(sentence), 0);
    let head = grow(40, LAG + 120).await;
    assert!(becomes(&app, &workers, shows(head, "degraded")).await);
    assert_eq!(secrets::lines_logged_with(sentence), 1);
    let (is_ready, body) = page(&app, Role::Worker, &workers).await;
    assert!(is_ready, "another worker would not help: {body}");
    let next = body["chains"]["tron"]["next"][0].as_str().expect("a sentence");
    assert!(
        next.contains("chains.tron.api_urls") && next.contains("grew by 360 s"),
        "{next}"
    );
    for node in 0..2 {
        chain.set_solid_lag(node, LAG).await.expect("set");
    }
    let head = chain.mine(1).await.expect("mined").head_number;
    assert!(becomes(&app, &workers, shows(head, "ready")).await);
    assert_eq!(secrets::lines_logged_with("blocks become final again"), 1);
    stop.cancel();
}

#[tokio::test]
async fn a_database_failure_is_not_reported_as_a_node_failure() {
    let app = TestApp::start().await;
    let db = app.ctx.db.writer();
    let gone = db.execute_unprepared("DROP TABLE chain_cursors").await;
    gone.expect("a statement");
    let stop = CancellationToken::new();
    let workers = looked_at(&app, &stop).await;
    app.clock.advance(TimeDelta::seconds(121));
    let (is_ready, body) = page(&app, Role::Worker, &workers).await;
    assert!(!is_ready);
    let next = body["chains"]["sepolia"]["next"][0].as_str().expect("a sentence");
    assert!(next.contains("log") && !next.contains("rpc_urls"), "{next}");
    stop.cancel();
}

#[tokio::test]
async fn a_resumed_chain_is_no_longer_reported_as_halted() {
    let app = TestApp::on_chain().await;
    app.follow().await;
    let loaded = store::cursors::load(app.ctx.db.reader(), Network::Sepolia).await;
    let followed = loaded.expect("read").expect("a cursor");
    let halted = Cursor {
        halted_reason: Some("the nodes lied".to_owned()),
        ..followed.clone()
    };
    let is_halted = store::cursors::replace(app.ctx.db.writer(), &followed, &halted).await;
    assert!(is_halted.expect("a cursor"));
    let stop = CancellationToken::new();
    let workers = looked_at(&app, &stop).await;
    assert!(comes_to(&app, &workers, "halted").await);
    resume::run(&app.ctx, Network::Sepolia).await.expect("resumed");
    let (_, body) = page(&app, Role::All, &workers).await;
    assert_ne!(body["chains"]["sepolia"]["state"], "halted", "{body}");
    assert!(comes_to(&app, &workers, "following").await, "within two seconds");
    stop.cancel();
}

#[tokio::test]
async fn a_start_block_without_effect_is_logged_once() {
    let app = TestApp::on_chain().await;
    for start in [Some(918_273_645), Some(1)] {
        let app = app
            .beside(|settings| {
                let section = settings.chains.get_mut("sepolia").expect("a section");
                section.start_block = start;
            })
            .await;
        let stop = CancellationToken::new();
        let workers = looked_at(&app, &stop).await;
        assert!(comes_to(&app, &workers, "following").await);
        tokio::time::sleep(Duration::from_millis(200)).await;
        stop.cancel();
    }
    for sentence in [
        "chains.sepolia.start_block is ahead of the newest final block",
        "chains.sepolia.start_block applies to the first start only",
    ] {
        assert_eq!(secrets::lines_logged_with(sentence), 1, "{sentence}");
    }
}

#[tokio::test]
async fn pending_operator_work_is_degraded_in_every_role_and_names_its_command() {
    let app = TestApp::start().await;
    set_aside(&app).await;
    for role in [Role::Api, Role::All, Role::Worker] {
        let (is_ready, body) = page(&app, role, &Workers::default()).await;
        assert_eq!((is_ready, &body["status"]), (true, &json!("degraded")), "{role:?}");
        let chain = &body["chains"]["sepolia"];
        assert_eq!(chain["quarantined"], 1);
        assert_eq!(chain["next"], json!(["prs admin quarantine list --network sepolia"]));
    }
    halt(&app).await;
    let (is_ready, body) = page(&app, Role::Api, &Workers::default()).await;
    assert_eq!((is_ready, &body["status"]), (true, &json!("degraded")));
    let chain = &body["chains"]["sepolia"];
    assert_eq!(chain["state"], "halted");
    let next = chain["next"][0].as_str().expect("a sentence");
    assert!(next.ends_with("prs admin chain resume sepolia"), "{next}");
}

#[tokio::test]
async fn gauges_of_an_enabled_network_exist_from_the_start() {
    let app = TestApp::start().await;
    let value = async |name: &str| -> Option<String> {
        let page = app.get("/metrics").send().await.text;
        let line = format!("{name}{{network=\"sepolia\"}} ");
        page.lines()
            .find_map(|text| text.strip_prefix(&line))
            .map(str::to_owned)
    };
    for name in ["last_ok_timestamp_seconds", "halted", "degraded", "quarantined"] {
        let name = format!("prs_chain_{name}");
        assert_eq!(value(&name).await.as_deref(), Some("0"), "{name}");
    }
    let page = app.get("/metrics").send().await.text;
    let types = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    for name in types {
        assert!(page.contains(&format!("# HELP {name} ")), "{name} has no description");
    }
    set_aside(&app).await;
    halt(&app).await;
    assert_eq!(value("prs_chain_quarantined").await.as_deref(), Some("1"));
    assert_eq!(
        value("prs_chain_degraded").await.as_deref(),
        Some("1"),
        "the same as on the page"
    );
    assert_eq!(value("prs_chain_halted").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_process_that_stops_or_lacks_its_schema_is_not_ready() {
    let app = TestApp::start().await;
    let process = Process::new(Role::Api);
    let health = Health::new(&settings(), &app.ctx, &process);
    assert!(health.look().await.is_ready);
    app.ctx.db.migrate_down(1).await.expect("one migration is reverted");
    let report = health.look().await;
    assert!(!report.is_ready);
    assert_eq!(
        report.body["database"],
        "the schema is older than this program; run: prs migrate up"
    );
    app.ctx.db.migrate_up().await.expect("the migration is applied again");
    assert!(health.look().await.is_ready);
    process.shutdown.leaving.cancel();
    let report = health.look().await;
    assert_eq!((report.is_ready, &report.body["status"]), (false, &json!("stopping")));
}

#[tokio::test]
async fn strangers_see_readiness_but_no_chain_details() {
    let mut separate = settings();
    separate.http.metrics_listen = "127.0.0.1:9464".parse().expect("an address");
    separate.chains.insert(
        "sepolia".to_owned(),
        prs::settings::ChainSettings {
            rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
            ..Default::default()
        },
    );
    let app = TestApp::with(separate, None).await;
    let page = app.get("/health/ready").send().await;
    assert_eq!((page.status, page.text.as_str()), (200, r#"{"status":"ready"}"#));
    assert_eq!(app.get("/metrics").send().await.status, 404);
}

/// The names of the counters that the code increments.
fn counters(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            counters(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let calls = text.split("counter!(").skip(1);
        let names = calls.filter_map(|call| call.trim_start().strip_prefix('"')?.split_once('"'));
        found.extend(names.map(|(name, _)| name.to_owned()));
    }
}

#[tokio::test]
async fn every_counter_exists_before_its_first_increment() {
    let app = TestApp::start().await;
    let page = app.get("/metrics").send().await.text;
    let mut names = BTreeSet::new();
    counters(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut names);
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        let line = page.lines().find(|line| line.starts_with(&name));
        assert!(line.is_some_and(|line| line.ends_with(" 0")), "{name}: {line:?}");
    }
}

#[tokio::test]
async fn the_queue_is_measured_from_the_start() {
    let app = TestApp::start().await;
    let shown = async || {
        let page = app.get("/metrics").send().await.text;
        let value = |name: &str| {
            let line = page.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse::<u64>().ok())
        };
        ["queued", "recovering", "exhausted"]
            .map(|state| value(&format!("prs_webhook_deliveries{{state=\"{state}\"}}")))
            .into_iter()
            .chain([value("prs_webhook_oldest_due_seconds")])
            .collect::<Vec<_>>()
    };
    assert_eq!(shown().await, [Some(0); 4]);
    let receiver = Receiver::start().await;
    receiver.answer(500);
    app.register(&receiver.url()).await;
    tell(&app, "payment.confirmed", "01r").await;
    exhaust(&app).await;
    assert_eq!(shown().await, [0, 1, 0, 0].map(Some));
    tell(&app, "payment.confirmed", "01s").await;
    app.advance_ms(7_000);
    assert_eq!(shown().await, [1, 1, 0, 7].map(Some));
    let list = app.get("/v1/webhook").with_client().send().await.expect(200);
    let path = format!("/v1/webhook/{}", list["webhooks"][0]["id"].as_str().expect("an id"));
    app.call(poem::http::Method::PUT, &path)
        .with_client()
        .send()
        .await
        .expect(200);
    assert_eq!(shown().await, [1, 1, 0, 7].map(Some), "measured a moment ago");
    app.advance_ms(5_000);
    assert_eq!(
        shown().await,
        [0, 0, 1, 0].map(Some),
        "the delivery has failed permanently"
    );
}
