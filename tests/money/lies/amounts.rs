//! A matrix of tests with false amounts. Each cell of the matrix combines four choices: a node response that determines
//! an amount in calldata or in a permit, what is wrong with this response, which of two nodes returns it, and which
//! operation of the service reads it.
//!
//! With honest nodes a payer pays the honest amount. False data must not make the payer pay more, or pay less by more
//! than the allowed difference between nodes. If the service cannot ensure this, it returns no calldata and the
//! response is a 502. Source: ADR-0012.

use crate::{
    proxy::{Proxy, Tamper, Told},
    support::{
        Answer, TestApp,
        app::settings,
        chain::PAYER,
        fiat::{CLIENT_USER, Fiat, for_bank},
        links::{link_of, token_of},
        off_ramp::Partner,
        requests::{PAYEE, request},
        schedules::{recurring, schedule},
    },
};
use alloy::{
    primitives::{U256, utils::parse_units},
    rpc::types::Block,
    sol_types::SolCall,
};
use devnet::{Devnet, Options, RELAYER_INDEX, batch::batchPaymentsCall};
use prs::{
    boot::dev,
    domain::{
        network::Network,
        paying::fee_proxy::{Erc20ConversionProxy, Erc20FeeProxy, EthConversionProxy},
    },
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

alloy::sol! {
    function getConversion(uint256 amountIn, address[] path) view returns (uint256 result, uint256 oldestRateTimestamp);
    function batchFee() view returns (uint16);
    function setBatchFee(uint16 fee) external;
    function allowance(address owner, address spender) view returns (uint256);
    function approve(address spender, uint256 amount) returns (bool);
}

const COIN: &str = "ETH-sepolia-sepolia";

/// Receivers of the fee of a call and of the service's fee.
const RECEIVERS: [&str; 2] = [
    "0x976EA74026E726554dB657fA54763abd0C3a0aa9",
    "0x14dC79964da2C08b23698B3D3cc7Ca32193d9955",
];

/// Unit of rates in the contracts.
const ONE: u64 = 1_000_000_000_000_000_000;

/// The operation that reads an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asking {
    /// `/pay` of 100 dollars in a token.
    Token,
    /// `/pay` of 100 dollars in the native coin.
    Coin,
    /// `/pay` of 100 dollars with two fee receivers, through the batch contract.
    Fees,
    /// Two payouts of 100 dollars in the native coin.
    Batch,
    /// `/pay` of a link with two items, which approves exactly the needed amount.
    Link,
    /// A recurring payout of 100 dollars in a token.
    Permit,
    /// `/pay` of 100 dollars for a bank account.
    Bank,
    /// The cancellation of a recurring payout, which lowers its allowance.
    Cancel,
}

/// The response that is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    Rate,
    BatchFee,
    Allowance,
    /// The newest block.
    Head,
    /// The block at which contracts are called.
    Block,
}

/// What is wrong with the amount in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lie {
    Twice,
    Fivefold,
    Half,
    Nothing,
    One,
    Most,
    Empty,
    Short,
    Reverts,
    /// A price so low that the amount converts to zero units. The smallest amount that converts to one unit is twice as
    /// large.
    Dust,
    /// 0.9 % more than the true value, which is within the allowed difference.
    LittleMore,
    /// 0.9 % less.
    LittleLess,
}

const LIES: [Lie; 12] = [
    Lie::Twice,
    Lie::Fivefold,
    Lie::Half,
    Lie::Nothing,
    Lie::One,
    Lie::Most,
    Lie::Empty,
    Lie::Short,
    Lie::Reverts,
    Lie::Dust,
    Lie::LittleMore,
    Lie::LittleLess,
];

/// Which node returns false data.
const PLACES: [usize; 2] = [0, 1];

#[derive(Debug, Clone, Copy)]
struct Cell {
    asking: Asking,
    field: Field,
    lie: Lie,
    place: usize,
}

fn cells() -> Vec<Cell> {
    use Asking::{Bank, Batch, Cancel, Coin, Fees, Link, Permit, Token};
    let fields: [(Field, &[Asking]); 5] = [
        (Field::Rate, &[Token, Coin, Fees, Batch, Permit, Bank]),
        (Field::BatchFee, &[Fees, Batch, Link]),
        (Field::Allowance, &[Cancel]),
        (Field::Head, &[Token, Coin]),
        (Field::Block, &[Token, Coin]),
    ];
    let mut cells = Vec::new();
    for (field, askings) in fields {
        for asking in askings.iter().copied() {
            let is_told = |lie: &Lie| {
                let is_of_rates = matches!(lie, Lie::Dust | Lie::LittleMore | Lie::LittleLess);
                !is_of_rates || field == Field::Rate
            };
            for lie in LIES.into_iter().filter(is_told) {
                cells.extend(PLACES.map(|place| Cell {
                    asking,
                    field,
                    lie,
                    place,
                }));
            }
        }
    }
    cells
}

/// What a payer must pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    /// The maximum that the calldata lets the payer pay, in units of the payment currency.
    spends: U256,
    /// The part of a conversion that is credited to the request, fees included, in units of the request's currency.
    counts: U256,
}

fn wrong(honest: U256, lie: Lie) -> U256 {
    match lie {
        Lie::Twice => honest.saturating_mul(U256::from(2)),
        Lie::Fivefold => honest.saturating_mul(U256::from(5)),
        Lie::Half => honest / U256::from(2),
        Lie::Nothing => U256::ZERO,
        Lie::One => U256::ONE,
        Lie::LittleMore => honest * U256::from(1_009) / U256::from(1_000),
        Lie::LittleLess => honest * U256::from(991) / U256::from(1_000),
        _ => U256::MAX,
    }
}

impl Cell {
    fn concerns(&self, call: &Value) -> bool {
        let data = || hex::decode(call["params"][0]["data"].as_str().unwrap_or_default()).unwrap_or_default();
        match self.field {
            Field::Rate => data().starts_with(&getConversionCall::SELECTOR),
            Field::BatchFee => data().starts_with(&batchFeeCall::SELECTOR),
            Field::Allowance => data().starts_with(&allowanceCall::SELECTOR),
            Field::Head => call["method"] == "eth_getBlockByNumber" && call["params"][0] == "latest",
            Field::Block => call["method"] == "eth_getBlockByNumber" && call["params"][0] != "latest",
        }
    }

    /// The response of a contract, changed.
    fn of_contract(&self, call: &Value, result: &Value) -> Value {
        let answer = hex::decode(result.as_str().expect("text")).expect("hexadecimal");
        let (honest, rest) = answer.split_at(32);
        let honest = U256::from_be_slice(honest);
        let told = match (self.lie, self.field) {
            (Lie::Most, Field::BatchFee) => U256::from(u16::MAX),
            (Lie::Dust, _) => {
                let data = hex::decode(call["params"][0]["data"].as_str().expect("text")).expect("hexadecimal");
                let asked = getConversionCall::abi_decode(&data).expect("a conversion").amountIn;
                match asked {
                    _ if asked == U256::from(ONE) => U256::from(ONE / 20_000_000_000),
                    _ if asked < U256::from(15_000_000_000_u64) => U256::ONE,
                    _ => honest,
                }
            }
            (lie, _) => wrong(honest, lie),
        };
        json!(hex::encode_prefixed([told.to_be_bytes_vec().as_slice(), rest].concat()))
    }

    /// A block with a false height. If a call asks for a certain height, the block has that height and a false time.
    /// The hash matches the false content.
    fn of_block(&self, result: Value) -> Value {
        let mut block: Block = serde_json::from_value(result).expect("a block");
        let header = &mut block.header.inner;
        let field = match self.field {
            Field::Head => &mut header.number,
            _ => &mut header.timestamp,
        };
        *field = wrong(U256::from(*field), self.lie).saturating_to();
        block.header.hash = block.header.inner.hash_slow();
        serde_json::to_value(block).expect("JSON")
    }
}

impl Tamper for Cell {
    /// For some false heads, the node returns an old real block, because it is more convincing than a changed block.
    fn ask(&self, call: &mut Value) {
        if self.field != Field::Head || !self.concerns(call) {
            return;
        }
        match self.lie {
            Lie::Half => call["params"][0] = json!("0x10"),
            Lie::Nothing => call["params"][0] = json!("0x0"),
            Lie::One => call["params"][0] = json!("0x1"),
            _ => {}
        }
    }

    fn tell(&self, call: &Value, result: Value) -> Told {
        let is_old_block = self.field == Field::Head && matches!(self.lie, Lie::Half | Lie::Nothing | Lie::One);
        if is_old_block || !self.concerns(call) {
            return Told::Result(result);
        }
        let is_block = matches!(self.field, Field::Head | Field::Block);
        Told::Result(match self.lie {
            Lie::Reverts => return Told::Error(3, "execution reverted".to_owned()),
            Lie::Empty if is_block => Value::Null,
            Lie::Empty => json!("0x"),
            Lie::Short => json!("0x01"),
            _ if is_block => self.of_block(result),
            _ => self.of_contract(call, &result),
        })
    }
}

/// The service behind two nodes, and the objects of the calls.
struct Service {
    fiat: Fiat,
    nodes: Vec<Proxy>,
    account: String,
}

impl Service {
    async fn start(chain: &Arc<Devnet>, network: Network, nodes: usize) -> Self {
        let mut proxies = Vec::new();
        for _ in 0..nodes {
            proxies.push(Proxy::start(chain.rpc_url()).await);
        }
        let partner = Partner::start().await;
        let mut settings = partner.settings(settings());
        let urls = proxies.iter().map(|proxy| proxy.url.clone()).collect();
        let mut section = dev::chain_settings(chain, urls);
        if network != Network::Sepolia {
            section.tokens.remove("FAU");
        }
        settings.chains.insert(network.id().to_owned(), section);
        settings.relayer.private_key = Some(chain.accounts()[RELAYER_INDEX].private_key.to_string());
        settings.fees.protocol_bps = 50;
        settings.fees.protocol_address = Some(RECEIVERS[1].to_owned());
        let app = TestApp::with(settings, Some(chain.clone())).await;
        if network == Network::Sepolia {
            app.is_paid_in("FAU-sepolia").await;
        }
        let fiat = Fiat { app, partner };
        let account = fiat.compliant(CLIENT_USER, "1001").await;
        Self {
            fiat,
            nodes: proxies,
            account,
        }
    }

    /// Starts the service again in a new process that knows nothing about its nodes.
    async fn restarted(self) -> Self {
        let app = self.fiat.app.restarted().await;
        let fiat = Fiat { app, ..self.fiat };
        Self { fiat, ..self }
    }

    fn app(&self) -> &TestApp {
        &self.fiat.app
    }

    async fn pay(&self, currency: &str, query: &str) -> Answer {
        let id = self.app().create_request(&request("100", "USD", currency)).await;
        let path = format!("/v2/request/{id}/pay?wallet={}{query}", self.app().account(PAYER));
        self.app().get(&path).with_client().send().await
    }

    /// Objects that must exist before nodes return false data.
    async fn prepare(&self, asking: Asking) -> String {
        let app = self.app();
        match asking {
            Asking::Link => token_of(&app.link(&link_of(&["10", "20"])).await.expect(201)),
            Asking::Bank => {
                let mut body = for_bank("100");
                body["invoiceCurrency"] = json!("USD");
                body["paymentCurrency"] = json!("USDC-mainnet");
                let created = app.post("/v2/request").with_key().json(&body).send().await.expect(201);
                created["requestId"].as_str().expect("an id").to_owned()
            }
            Asking::Cancel => {
                let made = schedule(app, &recurring(app, 3)).await;
                made["id"].as_str().expect("an id").to_owned()
            }
            _ => String::new(),
        }
    }

    async fn ask(&self, asking: Asking, prepared: &str) -> Answer {
        let app = self.app();
        let fee = format!("&feePercentage=2.5&feeAddress={}", RECEIVERS[0]);
        match asking {
            Asking::Token => self.pay("FAU-sepolia", "").await,
            Asking::Coin => self.pay(COIN, "").await,
            Asking::Fees => self.pay(COIN, &fee).await,
            Asking::Batch => {
                let items = [request("100", "USD", COIN), request("100", "USD", COIN)];
                let body = json!({ "requests": items, "payer": app.account(PAYER) });
                app.post("/v2/payouts/batch").with_client().json(&body).send().await
            }
            Asking::Link => app.calldata_of(prepared, Some(&app.account(PAYER))).await,
            Asking::Permit => {
                let mut body = recurring(app, 3);
                body["amount"] = json!("100");
                body["invoiceCurrency"] = json!("USD");
                app.new_schedule(&body).await
            }
            Asking::Bank => self.fiat.ask(prepared, CLIENT_USER, &self.account, "").await,
            Asking::Cancel => app.update_schedule(prepared, "cancel").await,
        }
    }
}

fn units(value: &Value) -> U256 {
    let text = value.as_str().or_else(|| value["hex"].as_str());
    match text {
        Some(text) => U256::from_str_radix(text.trim_start_matches("0x"), 16).expect("a number"),
        None => U256::from(value.as_u64().expect("a number")),
    }
}

/// The amounts that a response makes its payer pay. An unlimited allowance counts as 0, because false data cannot
/// change it.
fn asked(answer: &Value) -> Asked {
    let mut asked = Asked {
        spends: U256::ZERO,
        counts: U256::ZERO,
    };
    let permit = &answer["recurringPaymentPermit"]["values"];
    if let Some(amount) = permit["amount"].as_str() {
        asked.spends = amount.parse().expect("a number");
        return asked;
    }
    let steps: Vec<&Value> = match answer["transactions"].as_array() {
        Some(steps) => steps.iter().collect(),
        None => {
            let approvals = answer["ERC20ApprovalTransactions"].as_array();
            let approvals = approvals.unwrap_or_else(|| panic!("transactions in {answer}"));
            approvals.iter().chain([&answer["batchPaymentTransaction"]]).collect()
        }
    };
    for step in steps {
        let data = hex::decode(step["data"].as_str().expect("text")).expect("hexadecimal");
        let mut spends = units(&step["value"]);
        if let Ok(call) = approveCall::abi_decode(&data) {
            spends += if call.amount == U256::MAX {
                U256::ZERO
            } else {
                call.amount
            };
        } else if let Ok(call) = Erc20FeeProxy::transferFromWithReferenceAndFeeCall::abi_decode(&data) {
            spends += call.amount + call.feeAmount;
        } else if let Ok(call) = Erc20ConversionProxy::transferFromWithReferenceAndFeeCall::abi_decode(&data) {
            spends += call.maxToSpend;
            asked.counts += call.requestAmount + call.feeAmount;
        } else if let Ok(call) = EthConversionProxy::transferWithReferenceAndFeeCall::abi_decode(&data) {
            asked.counts += call.requestAmount + call.feeAmount;
        } else {
            let call = batchPaymentsCall::abi_decode(&data).expect("calldata of a payment");
            let details = call.metaDetails.iter().flat_map(|group| &group.requestDetails);
            for detail in details.filter(|detail| detail.path.len() > 1) {
                asked.counts += detail.requestAmount + detail.feeAmount;
            }
        }
        asked.spends = asked.spends.max(spends);
    }
    asked
}

/// Result of a cell.
#[derive(Debug)]
struct Outcome {
    /// Number of node responses that were changed.
    met: usize,
    status: u16,
    /// What was returned to the payer.
    asked: Option<Asked>,
    /// The amounts that the payer pays with honest nodes.
    honest: Asked,
    /// The message of a refusal.
    message: Value,
}

impl Outcome {
    /// Whether the amounts equal those with honest nodes. A lower payment also counts, if it is lower by at most the 1
    /// % by which nodes may differ.
    fn is_within(&self) -> bool {
        let (hundred, rest) = (U256::from(10_100), U256::from(10_000));
        self.asked.is_some_and(|asked| {
            let is_enough = asked.spends * hundred >= self.honest.spends * rest;
            asked.counts == self.honest.counts && asked.spends <= self.honest.spends && is_enough
        })
    }

    /// Whether the service refused: it returned no calldata, and its message names the network and says what to do.
    fn is_refused(&self) -> bool {
        let message = self.message.as_str().unwrap_or_default();
        let names_network = ["sepolia", "mainnet"].iter().any(|name| message.contains(name));
        self.status == 502
            && self.asked.is_none()
            && names_network
            && ["retry", "try again"].iter().any(|words| message.contains(words))
    }

    fn is_more(&self) -> bool {
        let honest = self.honest;
        self.asked
            .is_some_and(|asked| asked.spends > honest.spends || asked.counts > honest.counts)
    }
}

async fn run(mut service: Service, cell: Cell, honest: Asked) -> (Service, Outcome) {
    let prepared = service.prepare(cell.asking).await;
    if cell.field == Field::Head {
        // The head is cached for a while.
        service = service.restarted().await;
    }
    service.nodes[cell.place].tamper(cell);
    let answer = service.ask(cell.asking, &prepared).await;
    let is_old_block = cell.field == Field::Head && matches!(cell.lie, Lie::Half | Lie::Nothing | Lie::One);
    let node = &service.nodes[cell.place];
    let met = if is_old_block {
        node.calls()
            .iter()
            .filter(|method| *method == "eth_getBlockByNumber")
            .count()
    } else {
        node.changed()
    };
    node.end();
    let (status, answer) = (answer.status, answer.json());
    // A recurring payout can be cancelled whatever nodes return; if they cannot be trusted, the response has no
    // calldata.
    let is_ended_alone = cell.asking == Asking::Cancel && answer["transactions"] == json!([]);
    let asked = (matches!(status, 200 | 201) && !is_ended_alone).then(|| asked(&answer));
    let outcome = Outcome {
        met,
        status: if is_ended_alone { 502 } else { status },
        asked,
        honest,
        message: if is_ended_alone {
            json!("nothing to retry shortly on sepolia")
        } else {
            answer["message"].clone()
        },
    };
    (service, outcome)
}

async fn chain(network: Network) -> Arc<Devnet> {
    let options = Options {
        chain_id: network.chain_id(),
        ..Options::default()
    };
    let chain = Devnet::start(options).await.expect("the local chain starts");
    let fee = setBatchFeeCall { fee: 100 }.abi_encode();
    let contract = chain.contracts().batch_conversion_payments;
    let sent = chain.send(0, contract, fee, U256::ZERO).await.expect("mined");
    assert!(sent.status);
    // An old block is far from the head.
    chain.mine(64).await.expect("mined");
    Arc::new(chain)
}

fn parsed(amount: &str) -> U256 {
    parse_units(amount, 18).expect("an amount").get_absolute()
}

/// Runs each operation while one of the nodes returns false data, and compares the amounts with those of honest nodes.
/// Amounts are in units of the payment currency and of the request's currency. Two nodes must agree; if two differ and
/// there is a third node, the third decides.
async fn matrix(network: Network, nodes: usize, expected: &[(Asking, U256, u64)]) {
    let chain = chain(network).await;
    let mut service = Service::start(&chain, network, nodes).await;
    let mut honest: BTreeMap<Asking, Asked> = BTreeMap::new();
    for (asking, spends, counts) in expected {
        let prepared = service.prepare(*asking).await;
        let answer = service.ask(*asking, &prepared).await;
        assert!(matches!(answer.status, 200 | 201), "{asking:?}: {}", answer.text);
        let due = Asked {
            spends: *spends,
            counts: U256::from(*counts),
        };
        assert_eq!(asked(&answer.json()), due, "{asking:?}");
        honest.insert(*asking, due);
    }
    let cells: Vec<Cell> = cells()
        .into_iter()
        .filter(|cell| honest.contains_key(&cell.asking))
        .collect();
    let mut outcomes = Vec::new();
    for cell in &cells {
        let (same, outcome) = run(service, *cell, honest[&cell.asking]).await;
        service = same;
        outcomes.push(outcome);
    }
    print_table(&cells, &outcomes);
    let bad: Vec<String> = cells
        .iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| outcome.met == 0 || !(outcome.is_within() || (nodes == 2 && outcome.is_refused())))
        .map(|(cell, outcome)| format!("{cell:?}: {outcome:?}"))
        .collect();
    assert!(bad.is_empty(), "{} of {} cells: {bad:#?}", bad.len(), cells.len());
}

/// The expected amounts consist of 100 dollars, fees of 0.5 % and of 2.5 %, a margin of 1 % for price changes, and 1 %
/// for the batch contract.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_false_node_of_two_never_raises_the_amount_of_a_payment() {
    let expected = [
        (Asking::Token, parsed("101.505"), 10_050_000_000),
        (Asking::Coin, parsed("0.040602"), 10_050_000_000),
        (Asking::Fees, parsed("0.04202812"), 10_300_000_000),
        (Asking::Batch, parsed("0.08201604"), 20_100_000_000),
        (Asking::Link, parsed("30.45"), 0),
        (Asking::Permit, parsed("100"), 0),
        (Asking::Cancel, U256::ZERO, 0),
    ];
    matrix(Network::Sepolia, 2, &expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_false_node_of_two_never_raises_the_amount_of_a_bank_payment() {
    matrix(Network::Mainnet, 2, &[(Asking::Bank, U256::from(100_500_000), 0)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_false_node_of_three_neither_raises_nor_blocks_a_payment() {
    let expected = [
        (Asking::Coin, parsed("0.040602"), 10_050_000_000),
        (Asking::Permit, parsed("100"), 0),
        (Asking::Link, parsed("30.45"), 0),
        (Asking::Cancel, U256::ZERO, 0),
    ];
    matrix(Network::Sepolia, 3, &expected).await;
}

fn print_table(cells: &[Cell], outcomes: &[Outcome]) {
    println!("  response    by        false   cells  met  as due  502  other  more than due");
    let mut rows: BTreeMap<(Field, Asking, usize), Vec<&Outcome>> = BTreeMap::new();
    for (cell, outcome) in cells.iter().zip(outcomes) {
        let row = (cell.field, cell.asking, cell.place);
        rows.entry(row).or_default().push(outcome);
    }
    for ((field, asking, place), outcomes) in rows {
        let count = |is: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| is(outcome)).count();
        println!(
            "  {:<10}  {:<8}  {:<6}  {:>5}  {:>3}  {:>6}  {:>3}  {:>5}  {:>13}",
            format!("{field:?}"),
            format!("{asking:?}"),
            ["first", "second"][place],
            outcomes.len(),
            count(|outcome| outcome.met > 0),
            count(Outcome::is_within),
            count(Outcome::is_refused),
            count(|outcome| !outcome.is_within() && !outcome.is_refused()),
            count(Outcome::is_more),
        );
    }
}

/// Latency of the nodes in the measurement.
const DISTANCE: Duration = Duration::from_millis(80);

/// Number of payments of each kind that are measured.
const MEASURED: usize = 10;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Measures how long `/pay` takes, alternately through one node and through two nodes that must agree.
async fn measured(ones: &mut Service, twos: &mut Service, ids: &[String; 2]) -> [Duration; 2] {
    let mut times = [Duration::ZERO; 2];
    for ((service, id), time) in [ones, twos].into_iter().zip(ids).zip(&mut times) {
        let path = format!("/v2/request/{id}/pay?wallet={}", service.app().account(PAYER));
        let begun = Instant::now();
        service.app().get(&path).with_client().send().await.expect(200);
        *time = begun.elapsed();
    }
    times
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_that_must_agree_are_called_in_parallel() {
    let (chain, network) = (chain(Network::Sepolia).await, Network::Sepolia);
    let mut ones = Service::start(&chain, network, 1).await;
    let mut twos = Service::start(&chain, network, 2).await;
    let mut body = request("100", "USD", COIN);
    body["payee"] = json!(PAYEE);
    let ids = [
        ones.app().create_request(&body).await,
        twos.app().create_request(&body).await,
    ];
    for node in ones.nodes.iter().chain(&twos.nodes) {
        node.move_away(DISTANCE);
    }
    let (mut first, mut further) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..MEASURED {
        (ones, twos) = (ones.restarted().await, twos.restarted().await);
        for times in [&mut first, &mut further] {
            let both = measured(&mut ones, &mut twos, &ids).await;
            times.iter_mut().zip(both).for_each(|(times, time)| times.push(time));
        }
    }
    for (what, times, rounds) in [("the first", first, 2), ("the next within a second", further, 1)] {
        let [one, two] = times.map(median);
        let added = two.saturating_sub(one);
        println!("/pay with a conversion, {what}: one node {one:?}, two that must agree {two:?}, {added:?} more");
        // Two nodes must be called at the same time: one after the other, the calls would take twice as many round
        // trips.
        assert!(added < DISTANCE * rounds, "{what}: {added:?} more");
    }
}
