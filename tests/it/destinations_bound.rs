//! Payee destinations of a session, and client IDs bound to them.

use crate::support::{
    TestApp,
    session::sign_in,
    wallet::{TestWallet, session, token},
};
use poem::http::Method;
use prs::{
    domain::{
        caller::{PlatformCaller, SignedInPerson},
        client_id::{ClientId, ClientIdChange},
        destination::{AccessMode, Destination, DestinationPolicy, ScreeningProvider},
        ids::{AccountId, DestinationId, PlatformId},
        refusal::{Refusal, RefusalKind},
    },
    flows::{
        self, FlowError, FlowResult,
        client_ids::create::NewClientId,
        destinations::{self, NewDestination},
        idempotency::{KeyedResult, RepeatableCall},
    },
    store,
};
use sea_orm::ConnectionTrait;
use serde_json::json;

const SEPOLIA: u64 = 11_155_111;

fn input(app: &TestApp, currency: &str) -> NewDestination {
    NewDestination {
        token: token(app, currency),
        chain_id: SEPOLIA,
        policy: None,
    }
}

fn screened() -> DestinationPolicy {
    DestinationPolicy {
        mode: AccessMode::KytAllWallets,
        provider: Some(ScreeningProvider::Hypernative),
        hides_until_approved: true,
        hides_payee: false,
    }
}

async fn create(app: &TestApp, caller: &PlatformCaller, input: &NewDestination) -> FlowResult<Destination> {
    match destinations::create::run(&app.ctx, caller, input, RepeatableCall::unkeyed()).await? {
        KeyedResult::Fresh(new) => Ok(new),
        KeyedResult::Replayed(_) => panic!("no call was repeated"),
    }
}

async fn bind(app: &TestApp, caller: &PlatformCaller, destination: &DestinationId) -> FlowResult<ClientId> {
    let input = NewClientId {
        label: "Bound".to_owned(),
        is_backend: true,
        payee_destination: Some(destination.clone()),
        ..NewClientId::default()
    };
    match flows::client_ids::create::run(&app.ctx, caller, &input, RepeatableCall::unkeyed()).await? {
        KeyedResult::Fresh(client) => Ok(client),
        KeyedResult::Replayed(_) => panic!("no call was repeated"),
    }
}

fn refusal<T: std::fmt::Debug>(result: FlowResult<T>) -> Refusal {
    match result {
        Err(FlowError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn names<T: std::fmt::Debug>(result: FlowResult<T>, field: &str) {
    let refusal = refusal(result);
    assert_eq!(refusal.kind, RefusalKind::Invalid);
    let fields: Vec<&str> = refusal.fields.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, [field], "{refusal:?}");
}

fn request() -> serde_json::Value {
    json!({ "amount": "1", "invoiceCurrency": "FAU-sepolia", "paymentCurrency": "FAU-sepolia" })
}

#[tokio::test]
async fn a_destination_is_set_changed_ended_and_restored() {
    let app = TestApp::start().await;
    let caller = TestWallet::new(7).session(&app.platform);
    let ctx = &app.ctx;
    assert_eq!(destinations::read::own(ctx, &caller).await.expect("read"), None);
    let absent = destinations::update::run(ctx, &caller, &input(&app, "FAU-sepolia")).await;
    assert_eq!(refusal(absent).kind, RefusalKind::NotFound);
    let with_policy = NewDestination {
        policy: Some(screened()),
        ..input(&app, "FAU-sepolia")
    };
    let first = create(&app, &caller, &with_policy).await.expect("created");
    assert!(first.is_active && first.is_claimed && first.policy == Some(screened()));
    let moved = destinations::update::run(ctx, &caller, &input(&app, "USDC-sepolia"))
        .await
        .expect("updated");
    assert_eq!(moved.policy, Some(screened()), "a change of token keeps screening");
    let own = destinations::read::own(ctx, &caller).await.expect("read");
    assert_eq!(own.as_ref(), Some(&moved));

    let id = first.key.to_string();
    let former = destinations::deactivate::run(ctx, &caller, &id).await;
    assert_eq!(refusal(former).kind, RefusalKind::NotFound);
    let stranger = TestWallet::new(8).session(&app.platform);
    let foreign = destinations::deactivate::run(ctx, &stranger, &moved.key.to_string()).await;
    assert_eq!(refusal(foreign).kind, RefusalKind::NotFound);
    destinations::deactivate::run(ctx, &caller, &moved.key.to_string())
        .await
        .expect("ended");
    assert_eq!(destinations::read::own(ctx, &caller).await.expect("read"), None);
    let back = create(&app, &caller, &input(&app, "FAU-sepolia"))
        .await
        .expect("created");
    assert_eq!((&back.id, back.policy), (&first.id, Some(screened())));
}

#[tokio::test]
async fn invalid_session_destinations_name_their_field() {
    let app = TestApp::start().await;
    let caller = TestWallet::new(7).session(&app.platform);
    let good = || input(&app, "FAU-sepolia");
    let policy = |mode, provider| {
        Some(DestinationPolicy {
            mode,
            provider,
            ..screened()
        })
    };
    for (input, field) in [
        (
            NewDestination {
                chain_id: 999,
                ..good()
            },
            "chainId",
        ),
        (
            NewDestination {
                chain_id: 8_453,
                ..good()
            },
            "chainId",
        ),
        (
            NewDestination {
                chain_id: 728_126_428,
                ..good()
            },
            "chainId",
        ),
        (
            NewDestination {
                token: token(&app, "USDC-base"),
                ..good()
            },
            "tokenAddress",
        ),
        (
            NewDestination {
                token: "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t".to_owned(),
                ..good()
            },
            "tokenAddress",
        ),
        (
            NewDestination {
                policy: policy(AccessMode::KytAllWallets, None),
                ..good()
            },
            "accessPolicy.screeningProvider",
        ),
        (
            NewDestination {
                policy: policy(AccessMode::Off, Some(ScreeningProvider::Hypernative)),
                ..good()
            },
            "accessPolicy.screeningProvider",
        ),
    ] {
        names(create(&app, &caller, &input).await, field);
        names(destinations::update::run(&app.ctx, &caller, &input).await, field);
    }
    let tron = session(
        &app.platform,
        SignedInPerson::Wallet(prs::domain::address::Address::parse("TJRabPrwbZy45sbavfcjinPJC18kjpRTv8").unwrap()),
    );
    names(create(&app, &tron, &good()).await, "chainId");
    let account = session(&app.platform, SignedInPerson::Account(AccountId("account".to_owned())));
    assert_eq!(
        refusal(create(&app, &account, &good()).await).kind,
        RefusalKind::Forbidden
    );
    assert_eq!(destinations::read::own(&app.ctx, &caller).await.expect("read"), None);
}

#[tokio::test]
async fn requests_of_a_bound_client_id_need_no_payee() {
    let app = TestApp::start().await;
    let wallet = TestWallet::new(7);
    let caller = wallet.session(&app.platform);
    let destination = create(&app, &caller, &input(&app, "FAU-sepolia"))
        .await
        .expect("created");
    let client = bind(&app, &caller, &destination.id).await.expect("bound");
    let post = |client: &str, body: &serde_json::Value| {
        let call = app.post("/v2/request").header("x-client-id", client).json(body);
        call.send()
    };
    let payee_of = async |created: &serde_json::Value| {
        let id = created["requestId"].as_str().expect("text").to_owned();
        app.read_request(&id).await["payee"].clone()
    };
    let created = post(&client.client_id, &request()).await.expect(201);
    assert_eq!(payee_of(&created).await, json!(wallet.address().to_string()));
    let mut named = request();
    named["payee"] = json!(wallet.address().to_string().to_lowercase());
    let created = post(&client.client_id, &named).await.expect(201);
    assert_eq!(payee_of(&created).await, json!(wallet.address().to_string()));
    named["payee"] = json!("0x90F79bf6EB2c4f870365E785982E1f101E93b906");
    let other = post(&client.client_id, &named).await;
    assert_eq!((other.status, other.wrong_fields()), (400, vec!["payee".to_owned()]));
    let unbound = post(&app.backend_client, &request()).await;
    assert_eq!(
        (unbound.status, unbound.wrong_fields()),
        (400, vec!["payee".to_owned()])
    );

    // The binding follows the wallet to its next destination, and ends with its last one.
    let next = create(&app, &caller, &input(&app, "USDC-sepolia"))
        .await
        .expect("created");
    let read = flows::client_ids::read::run(&app.ctx, &caller, &client.row)
        .await
        .expect("read");
    assert_eq!(read.payee_destination, Some(next.id.clone()));
    assert_eq!(post(&client.client_id, &request()).await.status, 201);
    destinations::deactivate::run(&app.ctx, &caller, &next.key.to_string())
        .await
        .expect("ended");
    let ended = post(&client.client_id, &request()).await;
    assert_eq!((ended.status, ended.wrong_fields()), (400, vec!["payee".to_owned()]));
    assert!(ended.text.contains("no longer active"), "{}", ended.text);
    let other = post(&client.client_id, &named).await;
    assert_eq!(
        other.wrong_fields(),
        ["payee"],
        "ending the destination does not unbind the client ID"
    );
    named["payee"] = json!(wallet.address().to_string());
    post(&client.client_id, &named).await.expect(201);
}

#[tokio::test]
async fn a_client_id_binds_only_to_its_owners_active_destination() {
    let app = TestApp::start().await;
    let caller = TestWallet::new(7).session(&app.platform);
    let stranger = TestWallet::new(8).session(&app.platform);
    let foreign = create(&app, &stranger, &input(&app, "FAU-sepolia"))
        .await
        .expect("created");
    let former = create(&app, &caller, &input(&app, "FAU-sepolia"))
        .await
        .expect("created");
    let active = create(&app, &caller, &input(&app, "USDC-sepolia"))
        .await
        .expect("created");
    let client = bind(&app, &caller, &active.id).await.expect("bound");
    let account = session(&app.platform, SignedInPerson::Account(AccountId("account".to_owned())));
    let nothing = DestinationId("nothing".to_owned());
    for (caller, id) in [
        (&caller, &foreign.id),
        (&caller, &former.id),
        (&caller, &nothing),
        (&account, &active.id),
    ] {
        names(bind(&app, caller, id).await, "payeeDestinationId");
        let change = ClientIdChange {
            payee_destination: Some(Some(id.clone())),
            ..ClientIdChange::default()
        };
        let changed = flows::client_ids::update::run(&app.ctx, caller, &client.row, &change).await;
        names(changed, "payeeDestinationId");
    }
    let unbind = ClientIdChange {
        payee_destination: Some(None),
        ..ClientIdChange::default()
    };
    let unbound = flows::client_ids::update::run(&app.ctx, &caller, &client.row, &unbind).await;
    assert_eq!(unbound.expect("changed").payee_destination, None);
}

#[tokio::test]
async fn payouts_find_only_destinations_that_their_owner_set_up() {
    let app = TestApp::start().await;
    let owner = TestWallet::new(7);
    let own = owner.session(&app.platform);
    let elsewhere = PlatformId("elsewhere".to_owned());
    let payer = TestWallet::new(8).session(&elsewhere);
    let find = async |caller: &PlatformCaller| {
        destinations::read::for_payout(&app.ctx, caller, &owner.address())
            .await
            .expect("read")
    };
    assert_eq!(find(&payer).await, None);
    let set_up = create(&app, &own, &input(&app, "FAU-sepolia")).await.expect("created");
    assert_eq!(find(&payer).await.map(|found| found.id), Some(set_up.id.clone()));
    let by_id = destinations::read::by_id(&app.ctx, &payer, &set_up.key.to_string()).await;
    assert_eq!(refusal(by_id).kind, RefusalKind::NotFound);
    destinations::deactivate::run(&app.ctx, &own, &set_up.key.to_string())
        .await
        .expect("ended");
    assert_eq!(find(&payer).await, None);

    let noted = Destination {
        id: DestinationId("noted".to_owned()),
        platform: elsewhere.clone(),
        is_claimed: false,
        is_set_up: false,
        is_active: true,
        ..set_up.clone()
    };
    store::destinations::insert(app.ctx.db.writer(), &noted)
        .await
        .expect("noted");
    assert_eq!(find(&payer).await.map(|found| found.is_claimed), Some(false));
    assert_eq!(
        find(&own).await,
        None,
        "a destination noted by another platform is not shown"
    );
    create(&app, &own, &input(&app, "FAU-sepolia")).await.expect("created");
    let claimed = store::destinations::find_by_id(app.ctx.db.reader(), &elsewhere, &noted.id).await;
    let claimed = claimed.expect("read").expect("there");
    assert!(claimed.is_claimed);
    assert!(!claimed.is_in_use(), "the owner did not set it up on that platform");
    names(
        bind(&app, &owner.session(&elsewhere), &noted.id).await,
        "payeeDestinationId",
    );
    destinations::deactivate::run(&app.ctx, &own, &set_up.key.to_string())
        .await
        .expect("ended");
    let third = TestWallet::new(9).session(&PlatformId("third".to_owned()));
    assert_eq!(
        find(&third).await,
        None,
        "a note does not bring back a destination that its owner ended"
    );
}

#[tokio::test]
async fn a_concurrent_destination_change_returns_409() {
    let app = TestApp::start().await;
    let bearer = format!("Bearer {}", sign_in(&app, &TestWallet::new(7)).await);
    let set = async |method, currency| {
        let body = json!({ "tokenAddress": token(&app, currency), "chainId": SEPOLIA });
        let call = app.call(method, "/v1/payee-destination");
        call.header("authorization", &bearer).json(&body).send().await
    };
    set(Method::POST, "FAU-sepolia").await.expect(201);
    // Simulates another call that replaced the destination meanwhile. The replaced destination counts as in use.
    for statement in [
        "DROP INDEX payee_destinations_active_key",
        "CREATE UNIQUE INDEX payee_destinations_active_key ON payee_destinations (platform_id, wallet)",
    ] {
        let writer = app.ctx.db.writer();
        writer.execute_unprepared(statement).await.expect("changed");
    }
    let second = set(Method::PUT, "USDC-sepolia").await.expect(409);
    let sentence = "Another call is changing the destination of this wallet; try again";
    assert_eq!(second["message"], sentence);
    let own = app
        .get("/v1/payee-destination")
        .header("authorization", &bearer)
        .send()
        .await;
    assert_eq!(own.expect(200)["tokenAddress"], token(&app, "FAU-sepolia"));
}
