//! A matrix of tests with false data about named transactions. Each cell combines a fault in a field of a node response
//! with the node that returns it and the number of nodes that must agree. Each cell proves one of four transactions:
//! one with an event of a contract, one that sends coins without an event, one that moves a token, and one that
//! reverted.
//!
//! A proof is the truth, or there is none. Source: ADR-0012; rules B.2.

use super::{Dialect, Fault, KINDS, Kind, Listener, Place, SEED, faults_of, fields::Samples, run::speak};
use crate::{
    proxy::{Lie, Proxy, Told, in_method, number},
    support::{
        chain::{FACTORY, PAYER, creation_of},
        dice::Dice,
        requests::PAYEE,
    },
};
use alloy::{
    primitives::{Address as EvmAddress, B256, Bytes, U64, U256, keccak256},
    sol_types::{SolCall, SolValue},
};
use chrono::DateTime;
use devnet::{Devnet, Options};
use prs::{
    adapters::{
        evm::connect,
        nodes::{ChainOptions, NodeUrls},
    },
    domain::{
        address::Address,
        network::Network,
        payment::BlockRef,
        proven_tx::{ProvenLog, ProvenTx},
        waits::Waits,
    },
    ports::chain::TxProofs,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

alloy::sol! {
    interface FalseSafe {
        function emitSuccess(bytes32 hash) external;
        function emitUnindexedSuccess(bytes32 hash) external;
        function emitFailure(bytes32 hash) external;
    }
    interface FreeToken {
        function transfer(address to, uint256 amount) external;
    }
}

/// Time limit of a node call when a node responds late.
const HURRIED: Duration = Duration::from_millis(300);

/// Time limit of any other node call, longer than a busy machine stops a node.
const PATIENT: Duration = Duration::from_secs(10);

/// The contract to which a false Safe claims to delegate, and its version.
pub const SINGLETON: EvmAddress = EvmAddress::repeat_byte(0x51);
pub const VERSION: &str = "1.4.1";

/// A local chain, and its nodes.
pub struct Ground {
    pub chain: Devnet,
    /// Proxies in front of the node of the chain, in order of preference.
    pub nodes: Vec<Proxy>,
    /// A contract that imitates a Safe.
    pub false_safe: EvmAddress,
    /// The hash of its code.
    pub false_code: B256,
}

impl Ground {
    /// Starts a chain behind this number of honest nodes.
    pub async fn start(nodes: usize) -> Self {
        let chain = Devnet::start(Options::default()).await.expect("the local chain starts");
        let mut proxies = Vec::new();
        for _ in 0..nodes {
            proxies.push(Proxy::start(chain.rpc_url()).await);
        }
        let false_safe = imitate(&chain, SINGLETON).await;
        let code = chain.rpc("eth_getCode", json!([false_safe, "latest"])).await;
        let code: Bytes = serde_json::from_value(code.expect("a code")).expect("hexadecimal");
        Self {
            chain,
            nodes: proxies,
            false_safe,
            false_code: keccak256(&code),
        }
    }

    /// The adapter in a new process that knows nothing about its nodes.
    pub fn adapter(&self, agreement: usize) -> Arc<dyn TxProofs> {
        proofs_of(options(&self.nodes, agreement))
    }

    /// Like [`Self::adapter`], for a fault of a node. Only a late response is waited for briefly.
    fn adapter_for(&self, agreement: usize, kind: Kind) -> Arc<dyn TxProofs> {
        let patient = options(&self.nodes, agreement);
        let options = ChainOptions {
            call_timeout: if kind == Kind::Late { HURRIED } else { PATIENT },
            ..patient
        };
        proofs_of(options)
    }

    /// Makes a contract emit an event, in a block of its own. Returns the transaction and its block.
    pub async fn emit(&self, contract: EvmAddress, call: impl SolCall) -> (B256, u64) {
        let sent = self.chain.send(PAYER, contract, call.abi_encode(), U256::ZERO).await;
        let receipt = sent.expect("mined");
        assert!(receipt.status, "the event was emitted");
        (receipt.tx_hash, receipt.block_number)
    }

    pub async fn head(&self) -> u64 {
        self.chain.block_number().await.expect("a height")
    }

    /// Sends transactions, given by receiver, input and value, that one block includes. Returns their hashes.
    async fn include(&self, transactions: Vec<(EvmAddress, Vec<u8>, U256)>) -> Vec<B256> {
        self.chain.set_automine(false).await.expect("set");
        let mut hashes = Vec::new();
        for (to, input, value) in transactions {
            let sent = self.chain.send_without_waiting(PAYER, to, input, value).await;
            hashes.push(sent.expect("sent"));
        }
        self.chain.mine(1).await.expect("mined");
        self.chain.set_automine(true).await.expect("set");
        hashes
    }

    /// A transaction as the chain itself has it.
    async fn truth(&self, tx_hash: B256) -> ProvenTx {
        let ask = async |method: &str| self.chain.rpc(method, json!([tx_hash])).await.expect("a response");
        let (stated, receipt) = (
            ask("eth_getTransactionByHash").await,
            ask("eth_getTransactionReceipt").await,
        );
        let height = number(&receipt["blockNumber"]).expect("a height");
        let block = self.chain.block(height).await.expect("a response").expect("a block");
        let time_s = i64::try_from(block.timestamp).expect("64 bits");
        let logs = receipt["logs"].as_array().expect("a list").iter();
        ProvenTx {
            tx_hash,
            block: BlockRef {
                number: block.number,
                hash: block.hash,
                parent_hash: block.parent_hash,
                time: DateTime::from_timestamp(time_s, 0).expect("a time"),
            },
            succeeded: receipt["status"] == "0x1",
            sender: Address::Evm(read(&stated["from"])),
            target: read::<Option<EvmAddress>>(&stated["to"]).map(Address::Evm),
            value: read(&stated["value"]),
            input: read::<Bytes>(&stated["input"]).to_vec(),
            logs: logs
                .map(|log| ProvenLog {
                    emitter: Address::Evm(read(&log["address"])),
                    topics: read(&log["topics"]),
                    data: read::<Bytes>(&log["data"]).to_vec(),
                })
                .collect(),
        }
    }

    /// The four transactions of the matrix in one block, and one transaction in the block before and one in the block
    /// after it.
    async fn transactions(&self) -> Named {
        let (payee, token) = (PAYEE.parse().expect("an address"), self.chain.tokens().fau);
        let emit = |mark: u8| {
            let hash = B256::repeat_byte(mark);
            FalseSafe::emitSuccessCall { hash }.abi_encode()
        };
        let moved = FreeToken::transferCall {
            to: payee,
            amount: U256::from(77),
        };
        let before = self.include(vec![(self.false_safe, emit(1), U256::ZERO)]).await;
        let named = self
            .include(vec![
                (self.false_safe, emit(2), U256::ZERO),
                (payee, vec![1, 2, 3], U256::from(5_000)),
                (token, moved.abi_encode(), U256::ZERO),
                // The contract has no function with this selector.
                (self.false_safe, vec![0xde, 0xad, 0xbe, 0xef], U256::ZERO),
            ])
            .await;
        let after = self.include(vec![(payee, vec![4, 5], U256::from(6_000))]).await;
        self.chain.mine(3).await.expect("mined");
        let mut truths = Vec::new();
        for tx_hash in named {
            truths.push(self.truth(tx_hash).await);
        }
        let block = truths[0].block.number;
        assert!(truths.iter().all(|truth| truth.block.number == block), "{truths:?}");
        let mut others = Vec::new();
        for tx_hash in before.into_iter().chain(after) {
            others.push(self.truth(tx_hash).await);
        }
        Named { truths, others }
    }
}

/// Deploys a contract that imitates a Safe with this singleton.
pub async fn imitate(chain: &Devnet, singleton: EvmAddress) -> EvmAddress {
    let (address, input) = creation_of("FalseSafe", &(singleton, VERSION.to_owned()).abi_encode_params());
    let receipt = chain.send(0, FACTORY, input, U256::ZERO).await.expect("mined");
    assert!(receipt.status, "the contract was deployed");
    address
}

pub fn options(nodes: &[Proxy], agreement: usize) -> ChainOptions {
    ChainOptions {
        network: Network::Sepolia,
        chain_id: Network::Sepolia.chain_id(),
        nodes: nodes
            .iter()
            .map(|node| NodeUrls::of_rpc(node.url.parse().expect("a URL")))
            .collect(),
        api_key: None,
        confirmations: None,
        start_block: None,
        agreement: Some(agreement),
        agreement_fallback: None,
        contracts: Vec::new(),
        call_timeout: PATIENT,
        lookup_timeout: Waits::default().nodes,
    }
}

fn proofs_of(options: ChainOptions) -> Arc<dyn TxProofs> {
    let connected = connect(options, 0).expect("valid options");
    connected.parts.proofs.expect("the network has proofs of transactions")
}

fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("a value of this type")
}

/// Transactions of the matrix.
struct Named {
    /// They are in one block.
    truths: Vec<ProvenTx>,
    /// They are in other blocks, and are only sources of false values.
    others: Vec<ProvenTx>,
}

/// What a lookup returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Truth,
    Nothing,
    Error,
    Wrong,
}

async fn prove(chain: &dyn TxProofs, truth: &ProvenTx, final_to: u64) -> Verdict {
    match chain.proven(truth.tx_hash, final_to).await {
        Ok(Some(proven)) if proven == *truth => Verdict::Truth,
        Ok(Some(_)) => Verdict::Wrong,
        Ok(None) => Verdict::Nothing,
        Err(_) => Verdict::Error,
    }
}

/// Proves all transactions through one honest node; returns its responses.
async fn listen(ground: &Ground, named: &Named, dialect: Dialect) -> Arc<Samples> {
    let samples = Arc::new(Mutex::new(Samples::default()));
    let node = Proxy::start(ground.chain.rpc_url()).await;
    node.tamper(Listener {
        dialect,
        samples: samples.clone(),
    });
    let head = ground.head().await;
    let chain = proofs_of(options(std::slice::from_ref(&node), 1));
    for truth in named.truths.iter().chain(&named.others) {
        assert_eq!(prove(chain.as_ref(), truth, head).await, Verdict::Truth, "{truth:?}");
    }
    Arc::new(std::mem::take(&mut *samples.lock().expect("unpoisoned")))
}

/// Result of a cell.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// Whether the lookup read false data.
    pub is_met: bool,
    pub verdict: Verdict,
}

/// Prints the numbers of outcomes by fault. Returns how many there are of each verdict, in the order of [`Verdict`].
pub fn print_table(what: &str, faults: &[Kind], outcomes: &[Outcome]) -> [usize; 4] {
    const VERDICTS: [Verdict; 4] = [Verdict::Truth, Verdict::Nothing, Verdict::Error, Verdict::Wrong];
    let count = |kind: Option<Kind>, is: &dyn Fn(&Outcome) -> bool| {
        let chosen = faults.iter().zip(outcomes);
        let chosen = chosen.filter(|(fault, _)| kind.is_none_or(|kind| kind == **fault));
        chosen.filter(|(_, outcome)| is(outcome)).count()
    };
    println!("{what}: {} cells", outcomes.len());
    println!("  fault       cells   met  truths  nothings  errors  wrong");
    for kind in KINDS.into_iter().map(Some).chain([None]) {
        let [truths, nothings, errors, wrong] =
            VERDICTS.map(|verdict| count(kind, &|outcome: &Outcome| outcome.verdict == verdict));
        println!(
            "  {:<10}  {:>5}  {:>4}  {truths:>6}  {nothings:>8}  {errors:>6}  {wrong:>5}",
            kind.map_or_else(|| "all".to_owned(), |kind| format!("{kind:?}")),
            count(kind, &|_: &Outcome| true),
            count(kind, &|outcome: &Outcome| outcome.is_met),
        );
    }
    VERDICTS.map(|verdict| count(None, &|outcome: &Outcome| outcome.verdict == verdict))
}

async fn matrix(place: Place) {
    let ground = Ground::start(place.nodes()).await;
    let named = ground.transactions().await;
    let blocks = BTreeSet::from([named.truths[0].block.number]);
    let head = ground.head().await;
    let mut dice = Dice::new(SEED);
    let mut cells: Vec<(Fault, Arc<Samples>, &ProvenTx)> = Vec::new();
    for dialect in [Dialect::Full, Dialect::NoBlockReceipts] {
        let samples = listen(&ground, &named, dialect).await;
        for fault in faults_of(dialect, &samples, 1, &mut dice) {
            let truth = &named.truths[dice.below(named.truths.len())];
            cells.push((fault, samples.clone(), truth));
        }
    }
    let kinds: Vec<Kind> = cells.iter().map(|(fault, ..)| fault.kind).collect();
    for agreement in 1..=place.nodes() {
        let mut outcomes = Vec::new();
        for (fault, samples, truth) in &cells {
            speak(&ground.nodes, place, fault, samples, &blocks);
            let verdict = prove(ground.adapter_for(agreement, fault.kind).as_ref(), truth, head).await;
            if verdict == Verdict::Wrong {
                println!(
                    "{place:?}, agreement {agreement}, {fault}: a wrong proof of {}",
                    truth.tx_hash
                );
            }
            let is_met = place.liars().iter().any(|index| ground.nodes[*index].changed() > 0);
            outcomes.push(Outcome { is_met, verdict });
        }
        let what = format!("proofs of transactions, {place:?}, agreement {agreement}");
        let [truths, nothings, _, wrong] = print_table(&what, &kinds, &outcomes);
        assert_eq!(wrong, 0, "{what}");
        if agreement == place.nodes() {
            let met = outcomes.iter().filter(|outcome| outcome.is_met).count();
            assert!(
                met * 5 > outcomes.len(),
                "{what}: {met} of {} faults were read",
                outcomes.len()
            );
        }
        match (place.nodes(), agreement) {
            (1, _) => {}
            // The honest node is always asked where the transaction is.
            (_, 2) => assert_eq!(nothings, 0, "{what}"),
            // The honest node replaces the false one. On a busy machine it may respond too late.
            _ => assert!(truths * 10 > outcomes.len() * 9, "{what}: {truths} truths"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_false_field_of_the_only_node_forges_a_proof() {
    matrix(Place::OneNode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_false_field_of_the_first_node_of_two_forges_a_proof() {
    matrix(Place::FirstOfTwo).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_false_field_of_the_second_node_of_two_forges_a_proof() {
    matrix(Place::SecondOfTwo).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_transaction_is_proven_with_everything_it_contains() {
    let ground = Ground::start(2).await;
    let named = ground.transactions().await;
    let (chain, head) = (ground.adapter(2), ground.head().await);
    let mut proofs = Vec::new();
    for truth in &named.truths {
        let proven = chain.proven(truth.tx_hash, head).await.expect("proven").expect("known");
        assert_eq!(proven, *truth);
        proofs.push(proven);
    }
    let payer = Address::Evm(ground.chain.accounts()[PAYER].address);
    assert!(proofs.iter().all(|proof| proof.sender == payer));
    let [emitted, sent, moved, reverted]: [ProvenTx; 4] = proofs.try_into().expect("four proofs");
    assert_eq!(emitted.logs[0].topics[1], B256::repeat_byte(2));
    assert_eq!(
        (emitted.succeeded, emitted.logs.len(), emitted.value),
        (true, 1, U256::ZERO)
    );
    let payee = Address::parse(PAYEE).expect("an address");
    assert_eq!(
        (sent.target, sent.value, sent.input, sent.succeeded, sent.logs),
        (Some(payee), U256::from(5_000), vec![1, 2, 3], true, Vec::new())
    );
    assert_eq!(moved.target, Some(Address::Evm(ground.chain.tokens().fau)));
    assert_eq!(U256::from_be_slice(&moved.logs[0].data), U256::from(77));
    assert_eq!(
        (reverted.succeeded, reverted.input, reverted.logs),
        (false, vec![0xde, 0xad, 0xbe, 0xef], Vec::new())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_and_later_transactions_are_not_proven() {
    let ground = Ground::start(2).await;
    let named = ground.transactions().await;
    let (chain, truth) = (ground.adapter(2), &named.truths[0]);
    let block = truth.block.number;
    assert_eq!(prove(chain.as_ref(), truth, block - 1).await, Verdict::Nothing);
    assert_eq!(prove(chain.as_ref(), truth, block).await, Verdict::Truth);
    let unknown = chain.proven(B256::repeat_byte(9), ground.head().await).await;
    assert_eq!(unknown.expect("a response"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_of_two_cannot_conceal_a_transaction() {
    let ground = Ground::start(2).await;
    let named = ground.transactions().await;
    let (truth, head) = (&named.truths[0], ground.head().await);
    let block = truth.block.number;
    let hints = [None, Some(block - 1), Some(block + 1), Some(0), Some(u64::MAX)];
    for hint in hints {
        for (liar, agreement) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
            ground.nodes.iter().for_each(Proxy::end);
            ground.nodes[liar].tamper(in_method("eth_getTransactionReceipt", move |receipt| match hint {
                Some(block) => receipt["blockNumber"] = json!(U64::from(block)),
                None => *receipt = Value::Null,
            }));
            let verdict = prove(ground.adapter(agreement).as_ref(), truth, head).await;
            assert_eq!(
                verdict,
                Verdict::Truth,
                "node {liar} states {hint:?}, agreement {agreement}"
            );
            let is_asked = (liar, agreement) != (1, 1);
            assert_eq!(
                ground.nodes[liar].changed() > 0,
                is_asked,
                "node {liar} states {hint:?}"
            );
        }
    }
}

/// Without the response of a second node, `None` would mean that both nodes know no such transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_stays_open_while_too_few_nodes_respond() {
    let ground = Ground::start(2).await;
    let named = ground.transactions().await;
    let head = ground.head().await;
    for (first, second) in [(0, 1), (1, 0)] {
        ground.nodes.iter().for_each(Proxy::end);
        ground.nodes[first].tamper(in_method("eth_getTransactionReceipt", |receipt| *receipt = Value::Null));
        ground.nodes[second].tamper(Lie(|_: &Value, _: Value| {
            Told::Error(-32_000, "internal error".to_owned())
        }));
        let verdict = prove(ground.adapter(2).as_ref(), &named.truths[0], head).await;
        assert_eq!(verdict, Verdict::Error);
    }
}
