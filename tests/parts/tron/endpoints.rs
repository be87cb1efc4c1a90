//! Every endpoint of a Tron node that the adapter calls, with its success and each failure.
//!
//! A node in front of the stand-in fails at one endpoint in one way. Alone, it makes the lookup fail, and after a few
//! failures it is not called for a while. Beside an honest node, the lookup succeeds. The test prints what each failure
//! causes, and fails if the adapter calls an endpoint that is not listed here.

use super::{Ground, REFERENCE, node_urls};
use crate::support::{
    secrets,
    tron_calls::{self, post},
};
use alloy::{
    primitives::{B256, U256},
    signers::{SignerSync, local::PrivateKeySigner},
};
use chrono::DateTime;
use devnet::tron::TronDevnet;
use futures_util::{StreamExt, stream};
use prs::{
    adapters::{
        nodes::ChainOptions,
        tron::{KEY_HEADER, connect},
    },
    domain::{
        address::Address,
        ids::Secret,
        paying::PaymentTransaction,
        secure_payment::broadcast::{
            BroadcastOutcome, BroadcastRefusal, SentTransaction, SignedTransaction, StatedValue,
        },
    },
    ports::chain::ChainParts,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::runtime::Handle;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::any};

/// Key of the caller. Failing nodes repeat it in their responses.
const KEY: &str = "7f3c-key-of-the-caller-91ab";

/// Timeout of a call, and a shorter one for nodes that respond late.
const PATIENT: Duration = Duration::from_secs(5);
const HURRIED: Duration = Duration::from_millis(400);

/// Number of failures after which a node is not called for a while.
const FAILURES_UNTIL_PAUSE: usize = 3;

/// Number of cells that run at the same time.
const CELLS_AT_ONCE: usize = 6;

/// What a lookup of the service asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Tip,
    Header,
    Events,
    NewBlocks,
    Content,
    Standing,
    Resources,
    Simulation,
    Broadcast,
}

/// The endpoints: name, maximum size of a response, and a question that needs it.
const ENDPOINTS: [(&str, usize, Question); 14] = [
    ("wallet/getblock (block 0)", 64 << 10, Question::Tip),
    ("wallet/getblock (newest)", 64 << 10, Question::Tip),
    ("walletsolidity/getblock (newest)", 64 << 10, Question::Tip),
    ("wallet/getblock (height)", 64 << 10, Question::Header),
    ("jsonrpc eth_chainId", 256 << 10, Question::Events),
    ("jsonrpc eth_blockNumber", 256 << 10, Question::Events),
    ("jsonrpc eth_getLogs", 64 << 20, Question::Events),
    ("wallet/getblockbynum", 32 << 20, Question::Content),
    ("wallet/gettransactioninfobyblocknum", 64 << 20, Question::Content),
    ("wallet/getaccount", 256 << 10, Question::Standing),
    ("wallet/getchainparameters", 256 << 10, Question::Standing),
    ("wallet/triggerconstantcontract", 256 << 10, Question::Standing),
    ("wallet/getaccountresource", 256 << 10, Question::Resources),
    ("wallet/broadcasthex", 16 << 10, Question::Broadcast),
];

/// How a node responds at an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Response {
    Honest,
    /// Status 200 with a member `Error`.
    ErrorInOk,
    /// Status 200 with `"success": false`.
    NoSuccess,
    EmptyObject,
    EmptyList,
    OtherJson,
    CutOff,
    TooLarge,
    Late,
    Status(u16),
}

const RESPONSES: [Response; 16] = [
    Response::Honest,
    Response::ErrorInOk,
    Response::NoSuccess,
    Response::EmptyObject,
    Response::EmptyList,
    Response::OtherJson,
    Response::CutOff,
    Response::TooLarge,
    Response::Late,
    Response::Status(302),
    Response::Status(403),
    Response::Status(404),
    Response::Status(429),
    Response::Status(500),
    Response::Status(503),
    Response::Status(204),
];

/// What a response causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It is used.
    Used,
    /// The next node is called, and after a few such failures this one is not called for a while.
    NextAndPause,
    /// The next node is called.
    Next,
    /// The blocks are read whole.
    WholeBlocks,
}

impl Effect {
    const fn words(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::NextAndPause => "next node, then a pause",
            Self::Next => "next node",
            Self::WholeBlocks => "blocks are read whole",
        }
    }

    /// Whether this is the documented effect. A node whose JSON-RPC fails may also be read in whole blocks.
    fn is_admitted(self, endpoint: &str, response: Response) -> bool {
        let documented = Self::of(endpoint, response);
        self == documented
            || (self == Self::WholeBlocks && documented == Self::NextAndPause && endpoint.starts_with("jsonrpc"))
    }

    /// The documented effect.
    fn of(endpoint: &str, response: Response) -> Self {
        let is_of_rpc = endpoint.starts_with("jsonrpc");
        match response {
            Response::Honest => Self::Used,
            // The header, which the node returned before, resets its count of failures.
            _ if matches!(endpoint, "wallet/getblockbynum" | "wallet/gettransactioninfobyblocknum") => Self::Next,
            // All members of this response are optional. They only lower the estimated fee.
            Response::EmptyList | Response::OtherJson if endpoint == "wallet/getaccountresource" => Self::Used,
            Response::EmptyObject => match endpoint {
                // An account that the chain does not know has neither coins nor resources.
                "wallet/getaccount" | "wallet/getaccountresource" => Self::Used,
                // The node does not have the block yet, which is no failure.
                "wallet/getblock (height)" => Self::Next,
                // The node does not take the transaction now.
                "wallet/broadcasthex" => Self::Next,
                _ => Self::NextAndPause,
            },
            // The node lists no events, or more than the service accepts.
            Response::Status(404) | Response::TooLarge if is_of_rpc => Self::WholeBlocks,
            _ => Self::NextAndPause,
        }
    }
}

/// Name of the endpoint of a request.
fn endpoint_of(request: &Request) -> String {
    let path = request.url.path().trim_start_matches('/');
    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
    match (path, body["id_or_num"].as_str()) {
        ("jsonrpc", _) => format!("jsonrpc {}", body["method"].as_str().expect("a method")),
        (path, Some("0")) => format!("{path} (block 0)"),
        (path, Some(_)) => format!("{path} (height)"),
        (path, None) if path.ends_with("/getblock") => format!("{path} (newest)"),
        (path, None) => path.to_owned(),
    }
}

/// A node in front of the stand-in.
#[derive(Clone)]
struct Relay {
    upstream: String,
    client: reqwest::Client,
    runtime: Handle,
    /// The endpoint with another response, and the maximum size there.
    fault: Option<(&'static str, usize, Response)>,
    /// Where a redirection leads.
    elsewhere: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Relay {
    fn honest(&self, request: &Request) -> Vec<u8> {
        let call = self
            .client
            .post(format!("{}{}", self.upstream, request.url.path()))
            .body(request.body.clone());
        let answer = async { call.send().await?.bytes().await };
        // The responder runs on a runtime itself, so another thread has to wait.
        let answered = std::thread::scope(|scope| scope.spawn(|| self.runtime.block_on(answer)).join());
        answered.expect("no panic").expect("a response").to_vec()
    }
}

impl Respond for Relay {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let endpoint = endpoint_of(request);
        self.seen.lock().expect("unpoisoned").push(endpoint.clone());
        let key = request.headers.get(KEY_HEADER.as_str());
        assert_eq!(key.map(|key| key.as_bytes()), Some(KEY.as_bytes()), "{endpoint}");
        let json = |body: Value| ResponseTemplate::new(200).set_body_json(body);
        let honest = || ResponseTemplate::new(200).set_body_raw(self.honest(request), "application/json");
        let said = format!("class java.lang.IllegalAccessException : {KEY} exceeds the frequency limit");
        let (max, response) = match self.fault {
            Some((at, max, response)) if at == endpoint => (max, response),
            _ => return honest(),
        };
        match response {
            Response::Honest => honest(),
            Response::ErrorInOk => json(json!({ "Error": said })),
            Response::NoSuccess => json(json!({ "success": false, "error": said, "statusCode": 401 })),
            Response::EmptyObject => json(json!({})),
            Response::EmptyList => json(json!([])),
            Response::OtherJson => json(json!({ "blockID": 7, "result": "none", "address": [], "code": {} })),
            Response::CutOff => {
                let mut body = self.honest(request);
                body.truncate(body.len() / 2);
                ResponseTemplate::new(200).set_body_raw(body, "application/json")
            }
            Response::TooLarge => {
                let mut body = self.honest(request);
                body.resize(max + 1, b' ');
                ResponseTemplate::new(200).set_body_raw(body, "application/json")
            }
            Response::Late => honest().set_delay(10 * HURRIED),
            Response::Status(302) => {
                let target = format!("{}{}", self.elsewhere, request.url.path());
                ResponseTemplate::new(302).insert_header("location", target)
            }
            Response::Status(204) => ResponseTemplate::new(204),
            Response::Status(status) => ResponseTemplate::new(status).set_body_json(json!({ "Error": said })),
        }
    }
}

/// The questions, and what they need.
struct Stage {
    ground: Ground,
    number: u64,
    step: PaymentTransaction,
    signed: SignedTransaction,
    elsewhere: MockServer,
}

/// A call that is signed and not sent yet, as a wallet gets it.
async fn signed_call(devnet: &TronDevnet) -> SignedTransaction {
    let account = &devnet.summary().accounts[0];
    let body = json!({
        "owner_address": hex41(tron_calls::account(devnet, 0)),
        "contract_address": hex41(tron_calls::usdt(devnet)),
        "function_selector": "approve(address,uint256)",
        "parameter": format!("{:0>64}{:064x}", hex::encode(tron_calls::proxy(devnet)), 5),
        "fee_limit": 100_000_000,
    });
    let built = post(devnet, "wallet/triggersmartcontract", body).await["transaction"].clone();
    let text = |name: &str| built[name].as_str().expect("text").to_owned();
    let key: PrivateKeySigner = account.private_key.parse().expect("a key");
    let tx_id: B256 = text("txID").parse().expect("32 bytes");
    let sent = SentTransaction {
        raw_data_hex: text("raw_data_hex"),
        signatures: vec![hex::encode(key.sign_hash_sync(&tx_id).expect("a signature").as_bytes())],
        tx_id: Some(text("txID")),
        raw_data: stated(&built["raw_data"]),
    };
    sent.check().expect("a valid transaction")
}

fn hex41(address: alloy::primitives::Address) -> String {
    format!("41{}", hex::encode(address))
}

fn stated(value: &Value) -> StatedValue {
    match value {
        Value::Number(number) => StatedValue::Integer(number.as_u64().expect("64 bits")),
        Value::String(text) => StatedValue::Text(text.clone()),
        Value::Array(items) => StatedValue::List(items.iter().map(stated).collect()),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), stated(value)));
            StatedValue::Object(members.collect())
        }
        _ => StatedValue::Other,
    }
}

impl Stage {
    async fn start() -> Self {
        let ground = Ground::start(1).await;
        ground.approve().await;
        let (_, number) = ground.pay(5).await;
        ground.devnet.mine(3).await.expect("mined");
        let step = PaymentTransaction {
            to: Address::Tron(ground.token()),
            calldata: [&[0x70, 0xa0, 0x82, 0x31][..], B256::ZERO.as_slice()].concat(),
            value: U256::ZERO,
        };
        let signed = signed_call(&ground.devnet).await;
        Self {
            number,
            step,
            signed,
            ground,
            elsewhere: MockServer::start().await,
        }
    }

    async fn node(&self, fault: Option<(&'static str, usize, Response)>) -> (MockServer, Relay) {
        let relay = Relay {
            upstream: self.ground.devnet.api_url(0).expect("a node").to_owned(),
            client: reqwest::Client::builder().no_proxy().build().expect("a client"),
            runtime: Handle::current(),
            fault,
            elsewhere: self.elsewhere.uri(),
            seen: Arc::default(),
        };
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(relay.clone()).mount(&server).await;
        (server, relay)
    }

    /// The adapter in a new process that knows nothing about its nodes. One node suffices for each lookup.
    fn parts(&self, nodes: &[&MockServer], call_timeout: Duration) -> ChainParts {
        let options = ChainOptions {
            nodes: nodes.iter().map(|node| node_urls(&node.uri())).collect(),
            api_key: Some((KEY_HEADER, Secret::new(KEY.to_owned()))),
            agreement: Some(1),
            call_timeout,
            lookup_timeout: 2 * call_timeout,
            ..self.ground.options(&[0], 1)
        };
        connect(options, None).expect("valid options")
    }

    /// The result of a lookup as text.
    async fn ask(&self, parts: &ChainParts, question: Question) -> Result<String, String> {
        fn text<T: std::fmt::Debug, E: std::fmt::Display>(result: Result<T, E>) -> Result<String, String> {
            result
                .map(|value| format!("{value:?}"))
                .map_err(|error| error.to_string())
        }
        let chain = &parts.followed;
        let (payer, token) = (
            Address::Tron(self.ground.account(0)),
            Address::Tron(self.ground.token()),
        );
        let preparations = parts.preparations.as_ref().expect("Tron prepares transactions");
        match question {
            Question::Tip => text(chain.tip(None).await),
            Question::Header => text(chain.agreed(self.number).await),
            // Which node reports an event is not compared.
            Question::Events => text(chain.list_events(1, self.number, false).await.map(|listed| {
                let hints: Vec<_> = listed.hints.into_iter().map(|(hint, _)| hint).collect();
                (hints, listed.unlisted, listed.read_to)
            })),
            Question::NewBlocks => text(chain.new_blocks(1, self.number).await),
            Question::Content => text(chain.settled(self.number).await),
            Question::Standing => {
                let spender = Address::Tron(tron_calls::proxy(&self.ground.devnet));
                text(parts.standings.standing(payer, Some(token), spender).await)
            }
            Question::Resources => text(preparations.resources(payer, token).await),
            Question::Simulation => text(preparations.simulate(payer, &self.step).await),
            Question::Broadcast => match parts.broadcast.as_ref().expect("Tron").broadcast(&self.signed).await {
                BroadcastOutcome::Accepted | BroadcastOutcome::AlreadyKnown => Ok("sent".to_owned()),
                other => Err(format!("{other:?}")),
            },
        }
    }

    /// What a response at an endpoint causes. The result of honest nodes is `truth`.
    async fn effect(&self, (endpoint, max, question): (&'static str, usize, Question), response: Response) -> Effect {
        let what = format!("{endpoint}, {response:?}");
        let call_timeout = if response == Response::Late { HURRIED } else { PATIENT };
        let (good, _) = self.node(None).await;
        let (bad, relay) = self.node(Some((endpoint, max, response))).await;
        let truth = self
            .ask(&self.parts(&[&good], PATIENT), question)
            .await
            .expect("a result");
        let alone = self.parts(&[&bad], call_timeout);
        let first = self.ask(&alone, question).await;
        let count = || {
            let seen = relay.seen.lock().expect("unpoisoned");
            seen.iter().filter(|seen| *seen == endpoint).count()
        };
        assert!(count() > 0, "{what}: the endpoint is not called");
        let error = match first {
            Ok(result) if result == truth => return Effect::Used,
            Ok(_) if question == Question::Events => {
                let listed = alone.followed.list_events(1, self.number, false).await;
                let listed = listed.expect("events");
                assert_eq!(listed.unlisted, (1..=listed.read_to).collect(), "{what}");
                let beside = self.ask(&self.parts(&[&bad, &good], PATIENT), question).await;
                assert_eq!(beside.as_deref(), Ok(truth.as_str()), "{what}: the next node responds");
                return Effect::WholeBlocks;
            }
            Ok(_) => return Effect::Used,
            Err(error) => error,
        };
        assert!(!error.contains(KEY), "{what}: {error}");
        let mut called = count();
        for _ in 0..FAILURES_UNTIL_PAUSE {
            called = count();
            match self.ask(&alone, question).await {
                Err(_) => {}
                // Ranges became so narrow that blocks are read whole.
                Ok(_) if question == Question::Events => return Effect::WholeBlocks,
                Ok(result) => panic!("{what}: it does not fail any longer: {result}"),
            }
        }
        let is_paused = count() == called;
        let beside = self.ask(&self.parts(&[&bad, &good], call_timeout), question).await;
        if response != Response::Late {
            assert_eq!(beside.as_deref(), Ok(truth.as_str()), "{what}: the next node responds");
        }
        if is_paused { Effect::NextAndPause } else { Effect::Next }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_failure_at_every_endpoint_leads_to_the_next_node() {
    secrets::listen();
    let stage = Stage::start().await;
    let cells = ENDPOINTS
        .into_iter()
        .flat_map(|endpoint| RESPONSES.map(|response| (endpoint, response)));
    let effects = stream::iter(cells)
        .map(|(endpoint, response)| {
            let stage = &stage;
            async move { (endpoint.0, response, stage.effect(endpoint, response).await) }
        })
        .buffered(CELLS_AT_ONCE);
    let effects: Vec<_> = effects.collect().await;
    let mut listed: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for (endpoint, response, effect) in &effects {
        let responses = listed.entry((endpoint, effect.words())).or_default();
        responses.push(format!("{response:?}"));
    }
    println!("{} endpoints, {} cells", ENDPOINTS.len(), effects.len());
    for ((endpoint, effect), responses) in &listed {
        println!("{endpoint}: {effect}: {}", responses.join(", "));
    }
    let others: Vec<_> = effects
        .iter()
        .filter(|(endpoint, response, effect)| !effect.is_admitted(endpoint, *response))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
    let redirected = stage.elsewhere.received_requests().await.expect("recorded");
    assert!(redirected.is_empty(), "a redirection was followed");
    assert_eq!(secrets::lines_logged_with(KEY), 0, "the key is in the log");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_called_endpoint_is_listed() {
    let stage = Stage::start().await;
    let (node, relay) = stage.node(None).await;
    let parts = stage.parts(&[&node], PATIENT);
    for question in [
        Question::Tip,
        Question::Header,
        Question::Events,
        Question::NewBlocks,
        Question::Content,
        Question::Standing,
        Question::Resources,
        Question::Simulation,
        Question::Broadcast,
    ] {
        stage.ask(&parts, question).await.expect("a result");
    }
    let (payer, token) = (
        Address::Tron(stage.ground.account(0)),
        Address::Tron(stage.ground.token()),
    );
    let spender = Address::Tron(tron_calls::proxy(&stage.ground.devnet));
    let chain = &parts.followed;
    let block = chain.block(stage.number).await.expect("a response").expect("a block");
    chain.noted(&block).await.expect("a block");
    assert!(
        chain
            .settled_all(&[stage.number])
            .await
            .iter()
            .all(|(_, block)| block.is_ok())
    );
    chain.list_events(1, stage.number, true).await.expect("blocks");
    for token in [None, Some(token)] {
        parts.standings.balance(payer, token).await.expect("a balance");
    }
    parts
        .standings
        .allowance(payer, token, spender)
        .await
        .expect("an allowance");
    let preparations = parts.preparations.as_ref().expect("Tron prepares transactions");
    let head = stage.ground.devnet.state(0).await.expect("a state").head_time_ms;
    let now = DateTime::from_timestamp_millis(head.cast_signed()).expect("in range");
    preparations.reference_point(now).await.expect("a block");
    let seen: BTreeSet<String> = relay.seen.lock().expect("unpoisoned").drain(..).collect();
    let listed: BTreeSet<String> = ENDPOINTS.iter().map(|(name, _, _)| (*name).to_owned()).collect();
    assert_eq!(seen, listed);
}

/// What a node says about a broadcast, and the outcome if it is the only node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_code_of_a_broadcast_has_its_outcome() {
    use BroadcastOutcome::{AlreadyKnown, Refused, Unavailable};
    let stage = Stage::start().await;
    for (code, expected) in [
        ("DUP_TRANSACTION_ERROR", AlreadyKnown),
        ("SIGERROR", Refused(BroadcastRefusal::Signature)),
        ("TAPOS_ERROR", Refused(BroadcastRefusal::ReferenceBlock)),
        ("TRANSACTION_EXPIRATION_ERROR", Refused(BroadcastRefusal::Expiration)),
        ("CONTRACT_VALIDATE_ERROR", Refused(BroadcastRefusal::Validation)),
        ("CONTRACT_EXE_ERROR", Refused(BroadcastRefusal::Execution)),
        ("BANDWITH_ERROR", Refused(BroadcastRefusal::Bandwidth)),
        ("TOO_BIG_TRANSACTION_ERROR", Refused(BroadcastRefusal::Size)),
        ("SERVER_BUSY", Unavailable),
        ("NO_CONNECTION", Unavailable),
        ("NOT_ENOUGH_EFFECTIVE_CONNECTION", Unavailable),
        ("BLOCK_UNSOLIDIFIED", Unavailable),
        ("OTHER_ERROR", Unavailable),
        ("A_NEW_CODE", Unavailable),
    ] {
        let server = MockServer::start().await;
        let said = json!({ "result": false, "code": code, "message": "", "txid": hex::encode(REFERENCE) });
        let genesis = post(
            &stage.ground.devnet,
            "wallet/getblock",
            json!({ "id_or_num": "0", "detail": false }),
        )
        .await;
        let respond = move |request: &Request| {
            let is_broadcast = request.url.path() == "/wallet/broadcasthex";
            ResponseTemplate::new(200).set_body_json(if is_broadcast { &said } else { &genesis })
        };
        Mock::given(any()).respond_with(respond).mount(&server).await;
        let (good, _) = stage.node(None).await;
        let broadcast = |nodes: &[&MockServer]| stage.parts(nodes, PATIENT).broadcast.expect("Tron");
        let alone = broadcast(&[&server]).broadcast(&stage.signed).await;
        println!("wallet/broadcasthex {code}: {alone:?}");
        assert_eq!(alone, expected, "{code}");
        let beside = broadcast(&[&server, &good]).broadcast(&stage.signed).await;
        assert!(
            matches!(beside, BroadcastOutcome::Accepted | BroadcastOutcome::AlreadyKnown),
            "{code}: another node takes it: {beside:?}"
        );
        // A node whose response is lost may have the transaction, whatever another node says.
        let fault = ("wallet/broadcasthex", 16 << 10, Response::CutOff);
        let (lost, _) = stage.node(Some(fault)).await;
        let unclear = broadcast(&[&server, &lost]).broadcast(&stage.signed).await;
        let known = if expected == AlreadyKnown {
            AlreadyKnown
        } else {
            Unavailable
        };
        assert_eq!(unclear, known, "{code} beside a lost response");
    }
}

/// Another chain has none of the configured contracts, so an empty list of its events would hide payments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_rpc_of_another_chain_lists_no_events() {
    let stage = Stage::start().await;
    let server = MockServer::start().await;
    let respond = |request: &Request| {
        let call: Value = serde_json::from_slice(&request.body).expect("JSON");
        let result = if call["method"] == "eth_chainId" {
            json!("0x1")
        } else {
            json!([])
        };
        ResponseTemplate::new(200).set_body_json(json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }))
    };
    Mock::given(any()).respond_with(respond).mount(&server).await;
    let mut options = stage.ground.options(&[0], 1);
    options.nodes[0].rpc = server.uri().parse().expect("a URL");
    let chain = connect(options, None).expect("valid options").followed;
    let refused = chain
        .list_events(1, stage.number, false)
        .await
        .expect_err("another chain");
    assert!(
        refused.to_string().contains("serves chain 1 instead of 728126428"),
        "{refused}"
    );
}
