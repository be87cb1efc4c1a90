//! The calls of one platform do not delay other platforms.

use crate::support::{
    Answer, TestApp,
    app::{forged, settings},
    lines::Lines,
    links::{link_of, token_of},
    requests::{fau, request},
    screening::{Providers, screened},
};
use alloy::primitives::{Address as EvmAddress, U256};
use async_trait::async_trait;
use futures_util::future::join_all;
use prs::{
    ctx::{Ctx, Partners, PermitHolder},
    domain::{
        address::Address,
        caller::{Credential, PlatformCaller},
        ids::{KeyId, PlatformId},
        network::Network,
        paying::{NetworkPrice, PayerBalance},
        secure_payment::access::LinkPayer,
    },
    flows::{
        admission::admit,
        requests::pay::{self, PayInput},
        secure_payments::{self, open::LinkVisit},
    },
    ports::chain::{ChainError, Chains, StandingLookup},
    settings::ChainSettings,
    store::{self, Scope, Tx},
};
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::Semaphore;

/// Maximum number of SQL statements in the transaction of a batch of 200 payments.
const STATEMENTS_MAX: u32 = 20;

const RECEIVER: &str = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";

impl TestApp {
    async fn batch_with_key(&self, body: &Value) -> Answer {
        self.post("/v2/payouts/batch").with_key().json(body).send().await
    }

    /// Creates a batch; returns the response and the number of SQL statements in its transaction.
    async fn statements_of(&self, body: &Value) -> (Value, u32) {
        let (lines, _listening) = Lines::listen_to("prs::store=trace");
        let answer = self.batch_with_key(body).await.expect(201);
        let text = lines.text();
        let committed = text
            .lines()
            .rfind(|line| line.contains(r#"transaction="create_batch""#));
        let counted = committed.and_then(|line| line.split("statements=").nth(1)?.split(' ').next()?.parse().ok());
        (answer, counted.unwrap_or_else(|| panic!("no count in {text}")))
    }
}

#[tokio::test]
async fn a_batch_of_two_hundred_uses_few_statements() {
    let (app, _feed) = TestApp::quoting("1").await;
    let many = |item: Value| json!({ "requests": vec![item; 200] });
    let (made, direct) = app.statements_of(&many(fau("1"))).await;
    let (_, quoted) = app.statements_of(&many(request("1", "USD", "USDC-sepolia"))).await;
    let mut by_id = json!({ "requestIds": made["requestIds"] });
    let (_, known) = app.statements_of(&by_id).await;
    by_id["feePercentage"] = json!("1");
    by_id["feeAddress"] = json!(RECEIVER);
    let (_, with_fee) = app.statements_of(&by_id).await;
    // Requests without issued calldata, and quotes that are prolonged.
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(app.create_request(&request("1", "USD", "USDC-sepolia")).await);
    }
    let of_ids = json!({ "requestIds": ids });
    let (_, first) = app.statements_of(&of_ids).await;
    app.advance_ms(1_000);
    let (_, again) = app.statements_of(&of_ids).await;
    let counts = [direct, quoted, known, with_fee, first, again];
    println!("statements: direct, quoted, by id, by id with a fee, first quotes, prolonged {counts:?}");
    assert!(counts.iter().all(|count| *count < STATEMENTS_MAX), "{counts:?}");
    for id in &ids {
        let quotes = app.ctx.db.reader().query_all_raw(Statement::from_string(
            app.ctx.db.reader().get_database_backend(),
            format!(
                "SELECT q.id FROM quotes q JOIN requests r ON r.id = q.request_row WHERE r.request_id = '{id}' AND r.is_listening"
            ),
        ));
        assert_eq!(
            quotes.await.expect("a read").len(),
            1,
            "the quote is prolonged and the request awaits payment"
        );
    }
}

#[tokio::test]
async fn an_entry_at_its_fee_limit_is_named_and_nothing_is_stored() {
    let app = TestApp::on_chain().await;
    let ids = [app.create_request(&fau("1")).await, app.create_request(&fau("1")).await];
    for hundredths in 0..100 {
        let path = format!(
            "/v2/request/{}/pay?feePercentage=1.{hundredths:02}&feeAddress={RECEIVER}",
            ids[1]
        );
        app.get(&path).with_key().send().await.expect(200);
    }
    let of = |fee: &str| json!({ "requestIds": ids, "feePercentage": fee, "feeAddress": RECEIVER });
    let refused = app.batch_with_key(&of("3")).await;
    assert_eq!(
        (refused.status, refused.wrong_fields()),
        (400, vec!["requestIds[1]".to_owned()])
    );
    app.batch_with_key(&of("1.07")).await.expect(201);
}

#[tokio::test]
async fn batches_of_one_platform_queue_and_time_out() {
    let app = TestApp::on_chain().await;
    let app = app.hurried(|waits| waits.earlier_batch /= 4).await;
    let (_, other) = app.other_tenant().await;
    let body = json!({ "requests": [fau("1")] });
    let holder = PermitHolder {
        platform: app.platform.clone(),
        is_public: false,
        link: None,
    };
    let permit = admit(&app.ctx.batches, &holder, Duration::ZERO)
        .await
        .expect("a permit is free");
    let refused = app.batch_with_key(&body).await;
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (429, Some("1")),
        "{}",
        refused.text
    );
    let of_other = app.post("/v2/payouts/batch").header("x-client-id", &other).json(&body);
    of_other.send().await.expect(201);
    let of_page = app.post("/v2/payouts/batch").header("x-client-id", &app.page_client);
    of_page
        .header("origin", crate::support::app::PAGE)
        .json(&body)
        .send()
        .await
        .expect(201);
    drop(permit);
    app.batch_with_key(&body).await.expect(201);
}

#[tokio::test]
async fn delivery_searches_of_one_platform_do_not_delay_another() {
    let app = TestApp::start().await.hurried(|waits| waits.permit /= 4).await;
    let (other, _) = app.other_tenant().await;
    let holder = PermitHolder {
        platform: app.platform.clone(),
        is_public: false,
        link: None,
    };
    let mut permits = Vec::new();
    while let Some(permit) = admit(&app.ctx.delivery_searches, &holder, Duration::ZERO).await {
        permits.push(permit);
    }
    for path in ["/v2/deliveries", "/v2/deliveries/summary"] {
        let refused = app.get(path).with_key().send().await;
        assert_eq!(
            (refused.status, refused.header("retry-after")),
            (429, Some("1")),
            "{path}: {}",
            refused.text
        );
        app.get(path).header("x-api-key", &other).send().await.expect(200);
    }
    drop(permits);
    app.get("/v2/deliveries").with_key().send().await.expect(200);
}

#[tokio::test]
async fn batches_waiting_for_row_locks_use_one_connection() {
    let app = TestApp::on_chain().await;
    let (_, other) = app.other_tenant().await;
    let made = app
        .batch_with_key(&json!({ "requests": vec![fau("1"); 5] }))
        .await
        .expect(201);
    let bodies: Vec<Value> = (0..40)
        .map(|tenths| {
            let fee = format!("{}.{}", 1 + tenths / 10, tenths % 10);
            json!({ "requestIds": made["requestIds"], "feePercentage": fee, "feeAddress": RECEIVER })
        })
        .collect();
    // Another transaction holds the rows. SQLite has one writer, which must not be blocked here.
    let held = if app.ctx.db.is_postgres() {
        let held = app.ctx.db.begin("hold").await.expect("a transaction");
        held.execute_unprepared("SELECT 1 FROM requests FOR UPDATE")
            .await
            .expect("a lock");
        Some(held)
    } else {
        None
    };
    let batches = join_all(bodies.iter().map(|body| app.batch_with_key(body)));
    let neighbour = async {
        let mut statuses = Vec::new();
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(150)).await;
            let call = app.post("/v2/request").header("x-client-id", &other).json(&fau("1"));
            statuses.push(call.send().await.status);
        }
        statuses
    };
    let (batches, neighbour) = tokio::join!(batches, neighbour);
    assert_eq!(neighbour, [201; 5]);
    if held.is_some() {
        let refused = batches.iter().filter(|answer| answer.status == 429).count();
        assert!(refused >= 38, "{refused} of 40");
    }
    drop(held);
    app.batch_with_key(&bodies[0]).await.expect(201);
}

/// A node that does not respond to any call until the test releases it.
struct Slow {
    asked: AtomicUsize,
    answers: Semaphore,
}

impl Slow {
    /// The number of lookups after at least `expected` of them have begun, and time has passed in which a lookup that
    /// should wait would begin.
    async fn lookups_after(&self, expected: usize) -> usize {
        let begun = Instant::now();
        while self.asked.load(Ordering::SeqCst) < expected && begun.elapsed() < Duration::from_secs(20) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl StandingLookup for Slow {
    async fn standing(&self, _: Address, _: Option<Address>, _: Address) -> Result<PayerBalance, ChainError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let _answer = self.answers.acquire().await.expect("open");
        Ok(PayerBalance {
            balance: U256::MAX,
            native_balance: U256::MAX,
            allowance: U256::MAX,
            price: NetworkPrice::Gas(U256::ONE),
        })
    }

    async fn balance(&self, _: Address, _: Option<Address>) -> Result<U256, ChainError> {
        Ok(U256::MAX)
    }

    async fn allowance(&self, _: Address, _: Address, _: Address) -> Result<U256, ChainError> {
        Ok(U256::MAX)
    }
}

fn with_standings(ctx: &Ctx, standings: Arc<dyn StandingLookup>) -> Ctx {
    let chains = Chains {
        standings: [(Network::Sepolia, standings)].into(),
        ..Chains::clone(&ctx.partners.chains)
    };
    Ctx {
        partners: Partners {
            chains: Arc::new(chains),
            ..ctx.partners.clone()
        },
        ..ctx.clone()
    }
}

fn with_key(platform: &PlatformId) -> PlatformCaller {
    PlatformCaller {
        platform: platform.clone(),
        credential: Credential::ApiKey {
            id: KeyId("key".to_owned()),
        },
    }
}

#[tokio::test]
async fn a_platform_has_few_lookups_in_flight_and_others_do_not_wait() {
    let app = TestApp::start().await;
    let (key, _) = app.other_tenant().await;
    let own = app.create_request_as(("x-api-key", &app.key), &fau("1")).await;
    let others = app.create_request_as(("x-api-key", &key), &fau("1")).await;
    let slow = Arc::new(Slow {
        asked: AtomicUsize::new(0),
        answers: Semaphore::new(0),
    });
    let ctx = with_standings(&app.ctx, slow.clone());
    let input = PayInput {
        wallet: Some(RECEIVER.parse().map(Address::Evm).expect("an address")),
        ..PayInput::default()
    };
    let ask = |platform: PlatformId, id: String| {
        let (ctx, input) = (ctx.clone(), input.clone());
        tokio::spawn(async move { pay::run(&ctx, &with_key(&platform), &id, &input).await.is_ok() })
    };
    let mut asking: Vec<_> = (0..40).map(|_| ask(app.platform.clone(), own.clone())).collect();
    let of_one = slow.lookups_after(1).await;
    assert!((1..=16).contains(&of_one), "{of_one} of 32 places");
    let other = platform_of(&app, &others).await;
    asking.push(ask(other, others));
    assert_eq!(
        slow.lookups_after(of_one + 1).await,
        of_one + 1,
        "the other platform does not wait"
    );
    slow.answers.add_permits(Semaphore::MAX_PERMITS);
    let answered = join_all(asking).await.into_iter();
    assert!(
        answered.into_iter().all(|answer| answer.expect("no panic")),
        "every lookup completes"
    );
}

#[tokio::test]
async fn one_link_leaves_lookup_slots_for_other_payers_of_its_platform() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let links = [
        token_of(&app.link(&link_of(&["1"])).await.expect(201)),
        token_of(&app.link(&link_of(&["1"])).await.expect(201)),
    ];
    let slow = Arc::new(Slow {
        asked: AtomicUsize::new(0),
        answers: Semaphore::new(0),
    });
    let ctx = with_standings(&app.ctx, slow.clone());
    let look = LinkVisit {
        payer: Some(LinkPayer {
            wallet: RECEIVER.parse().map(Address::Evm).expect("an address"),
            eoa: None,
        }),
        source: None,
        is_safe: false,
    };
    let ask = |link: usize, caller: Option<PlatformCaller>| {
        let (ctx, look, token) = (ctx.clone(), look.clone(), links[link].clone());
        tokio::spawn(async move {
            let opened = secure_payments::opened::by_token(&ctx, &token).await.expect("a link");
            secure_payments::pay::run(&ctx, &opened, &look, caller.as_ref())
                .await
                .is_ok()
        })
    };
    let mut asking: Vec<_> = (0..12).map(|_| ask(0, None)).collect();
    assert_eq!(
        slow.lookups_after(2).await,
        2,
        "a quarter of the eight slots for strangers"
    );
    asking.push(ask(1, None));
    assert_eq!(slow.lookups_after(3).await, 3, "another link");
    // A call with the link owner's API key uses the slots of the owner's platform. A call with another platform's key
    // uses the slots of the link.
    asking.push(ask(0, Some(with_key(&app.platform))));
    asking.push(ask(0, Some(with_key(&PlatformId("another".to_owned())))));
    assert_eq!(slow.lookups_after(4).await, 4, "its own key");
    slow.answers.add_permits(Semaphore::MAX_PERMITS);
    let answered = join_all(asking).await.into_iter();
    assert!(
        answered.into_iter().all(|answer| answer.expect("no panic")),
        "every lookup completes"
    );
}

async fn platform_of(app: &TestApp, id: &str) -> PlatformId {
    let found = prs::store::requests::of_any_platform(app.ctx.db.reader(), id).await;
    found.expect("a read").expect("a request").origin.platform
}

#[tokio::test]
async fn a_burst_on_one_link_leaves_balance_lookups_for_other_links() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let links = [
        token_of(&app.link(&link_of(&["1"])).await.expect(201)),
        token_of(&app.link(&link_of(&["1"])).await.expect(201)),
    ];
    let slow = Arc::new(Slow {
        asked: AtomicUsize::new(0),
        answers: Semaphore::new(0),
    });
    let ctx = with_standings(&app.ctx, slow.clone());
    let open = |link: usize, wallet: u8| {
        let (ctx, token) = (ctx.clone(), links[link].clone());
        let look = LinkVisit {
            payer: Some(LinkPayer {
                wallet: Address::Evm(EvmAddress::repeat_byte(wallet)),
                eoa: None,
            }),
            source: None,
            is_safe: false,
        };
        tokio::spawn(async move {
            let opened = secure_payments::opened::by_token(&ctx, &token).await.expect("a link");
            let shown = secure_payments::open::run(&ctx, &opened, &look).await;
            shown.expect("shown").options.expect("a wallet").len()
        })
    };
    let mut opening: Vec<_> = (0..40).map(|number| open(0, number)).collect();
    assert_eq!(
        slow.lookups_after(4).await,
        4,
        "a quarter of the sixteen slots for strangers"
    );
    opening.push(open(1, 100));
    assert_eq!(slow.lookups_after(5).await, 5, "another link");
    slow.answers.add_permits(Semaphore::MAX_PERMITS);
    let options = join_all(opening).await.into_iter();
    assert!(options.into_iter().all(|options| options.expect("no panic") == 1));
}

/// Begins a transaction that blocks other calls; `None` on SQLite, which has only one writer, and that writer must not
/// be blocked.
async fn held(app: &TestApp) -> Option<Tx> {
    if app.ctx.db.is_postgres() {
        Some(app.ctx.db.begin("hold").await.expect("a transaction"))
    } else {
        None
    }
}

#[tokio::test]
async fn public_links_do_not_delay_links_or_endpoints_of_their_platform() {
    let mut settings = settings();
    let chain = ChainSettings {
        rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
        ..ChainSettings::default()
    };
    settings.chains.insert("sepolia".to_owned(), chain);
    // The cap is so low that each call counts the open requests in its transaction.
    settings.caps.public_open_requests = 500;
    let app = TestApp::with(settings, None).await;
    app.is_paid_in("FAU-sepolia").await;
    let by_page = || forged(&app, poem::http::Method::POST, "/v2/secure-payments");
    let link = link_of(&["1"]);
    let first = token_of(&by_page().json(&link).send().await.expect(201));
    let held = held(&app).await;
    if let Some(tx) = &held {
        // Another call is still creating a link with the same client ID.
        let scope = Scope {
            platform: app.platform.clone(),
            client: app.stored_link(&first).await.origin.client,
        };
        store::requests::take_turn(tx, &scope).await.expect("a turn");
    }
    let wave = join_all((0..40).map(|_| by_page().json(&link).send()));
    let own = async {
        let mut statuses = Vec::new();
        for number in 0..5 {
            tokio::time::sleep(Duration::from_millis(150)).await;
            statuses.push(app.link(&link).await.status);
            let endpoint = json!({ "url": format!("https://shop.example.com/{number}") });
            let registered = app.post("/v1/webhook").with_key().json(&endpoint).send().await;
            statuses.push(registered.status);
        }
        statuses
    };
    let (wave, own) = tokio::join!(wave, own);
    assert_eq!(own, [201; 10]);
    if held.is_some() {
        let refused = wave.iter().filter(|answer| matches!(answer.status, 429 | 503)).count();
        assert_eq!(refused, 40, "they wait for the link before them");
    }
    drop(held);
    by_page().json(&link).send().await.expect(201);
}

#[tokio::test]
async fn links_and_screening_do_not_wait_for_the_platform_row_lock() {
    let providers = Providers::start().await;
    let app = TestApp::with(screened(&providers), None).await;
    app.is_paid_in("FAU-sepolia").await;
    let mut screening = link_of(&["1"]);
    screening["accessPolicy"] = json!({ "mode": "kyt_all_wallets", "screeningProvider": "hypernative" });
    let made = token_of(&app.link(&screening).await.expect(201));
    let held = held(&app).await;
    if let Some(tx) = &held {
        let lock = store::owners::lock(tx, &(&app.platform).into()).await;
        lock.expect("a lock");
    }
    let by_page = forged(&app, poem::http::Method::POST, "/v2/secure-payments");
    by_page.json(&link_of(&["1"])).send().await.expect(201);
    app.link(&link_of(&["1"])).await.expect(201);
    let opened = app.open_link(&made, &format!("?wallet={RECEIVER}")).send().await;
    assert_eq!(opened.expect(200)["accessDecision"]["status"], "approved");
}
