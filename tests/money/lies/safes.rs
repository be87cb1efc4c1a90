//! A matrix of tests with false data about Safes. One node of two changes a response about an account: a contract that
//! imitates a Safe, a token, or an account without a contract. The service must not regard an account as another Safe
//! than it is. If the nodes do not agree, there is no Safe or an error.

use super::{
    Dialect, Kind, Listener, Place, SEED, faults_of,
    fields::Samples,
    proofs::{Ground, Outcome, SINGLETON, VERSION, Verdict, options, print_table},
    run::speak,
};
use crate::{
    proxy::{Lie, Proxy, Tamper, Told},
    support::dice::Dice,
};
use alloy::{
    primitives::{Address as EvmAddress, B256},
    sol_types::SolValue,
};
use prs::{
    adapters::evm::connect,
    domain::address::Address,
    ports::chain::{SafeContract, WalletLookup},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

/// Another contract that a false node names.
const OTHER_SINGLETON: EvmAddress = EvmAddress::repeat_byte(0x77);

/// The lookups in a new process that knows nothing about its nodes.
fn wallets(nodes: &[Proxy]) -> Arc<dyn WalletLookup> {
    let connected = connect(options(nodes, nodes.len()), 0).expect("valid options");
    connected.parts.wallets.expect("the network has contract wallets")
}

fn imitated(ground: &Ground) -> SafeContract {
    SafeContract {
        code_hash: ground.false_code,
        singleton: Address::Evm(SINGLETON),
        version: VERSION.to_owned(),
    }
}

/// The accounts of the matrix, and what they are.
fn accounts(ground: &Ground) -> [(EvmAddress, Option<SafeContract>); 3] {
    [
        (ground.false_safe, Some(imitated(ground))),
        (ground.chain.tokens().fau, None),
        (ground.chain.accounts()[5].address, None),
    ]
}

async fn look(wallets: &dyn WalletLookup, account: EvmAddress, truth: Option<&SafeContract>) -> Verdict {
    match wallets.safe_at(Address::Evm(account)).await {
        Ok(found) if found.as_ref() == truth => Verdict::Truth,
        Ok(None) => Verdict::Nothing,
        Ok(Some(_)) => Verdict::Wrong,
        Err(_) => Verdict::Error,
    }
}

/// The first word of the storage of a Safe.
fn slot(singleton: EvmAddress) -> Value {
    json!(singleton.into_word())
}

fn version(text: &str) -> Value {
    json!(hex::encode_prefixed(text.abi_encode()))
}

/// A node that returns a matching slot and version for every account.
fn inventor() -> impl Tamper {
    Lie(|call: &Value, result: Value| {
        Told::Result(match call["method"].as_str() {
            Some("eth_getStorageAt") => slot(OTHER_SINGLETON),
            Some("eth_call") => version("1.3.0"),
            _ => result,
        })
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_false_field_of_one_node_of_two_forges_a_safe() {
    let ground = Ground::start(2).await;
    let accounts = accounts(&ground);
    let samples = Arc::new(Mutex::new(Samples::default()));
    let node = Proxy::start(ground.chain.rpc_url()).await;
    node.tamper(Listener {
        dialect: Dialect::Full,
        samples: samples.clone(),
    });
    let honest = wallets(std::slice::from_ref(&node));
    for (account, truth) in &accounts {
        let verdict = look(honest.as_ref(), *account, truth.as_ref()).await;
        assert_eq!(verdict, Verdict::Truth, "{account}");
    }
    let samples = Arc::new(std::mem::take(&mut *samples.lock().expect("unpoisoned")));
    let faults = faults_of(Dialect::Full, &samples, accounts.len(), &mut Dice::new(SEED));
    let cells: Vec<_> = faults.iter().zip(accounts.iter().cycle()).collect();
    let kinds: Vec<Kind> = faults.iter().map(|fault| fault.kind).collect();
    for place in [Place::FirstOfTwo, Place::SecondOfTwo] {
        let mut outcomes = Vec::new();
        for (fault, (account, truth)) in &cells {
            speak(&ground.nodes, place, fault, &samples, &BTreeSet::new());
            let wallets = wallets(&ground.nodes);
            let verdict = look(wallets.as_ref(), *account, truth.as_ref()).await;
            if verdict == Verdict::Wrong {
                println!("{place:?}, {fault}: {account} became another Safe");
            }
            let is_met = place.liars().iter().any(|index| ground.nodes[*index].changed() > 0);
            outcomes.push(Outcome { is_met, verdict });
        }
        let what = format!("lookups of Safes, {place:?}");
        let [.., wrong] = print_table(&what, &kinds, &outcomes);
        assert_eq!(wrong, 0, "{what}");
        let met = outcomes.iter().filter(|outcome| outcome.is_met).count();
        assert!(
            met * 5 > outcomes.len(),
            "{what}: {met} of {} faults were read",
            outcomes.len()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_of_two_cannot_invent_a_safe() {
    let ground = Ground::start(2).await;
    for liar in [0, 1] {
        ground.nodes.iter().for_each(Proxy::end);
        ground.nodes[liar].tamper(inventor());
        for (account, truth) in accounts(&ground) {
            let verdict = look(wallets(&ground.nodes).as_ref(), account, truth.as_ref()).await;
            // If the service queries the honest node first about an account that is no Safe, its response decides. The token
            // rejects the question for its version, and the inventor replaces results only.
            let is_token = account == ground.chain.tokens().fau;
            let expected = if truth.is_some() || (liar == 0 && !is_token) {
                Verdict::Error
            } else {
                Verdict::Truth
            };
            assert_eq!(verdict, expected, "node {liar}, {account}");
        }
        // As many false nodes as must agree forge a Safe.
        ground.nodes[1 - liar].tamper(inventor());
        let account = accounts(&ground)[2].0;
        assert_eq!(
            look(wallets(&ground.nodes).as_ref(), account, None).await,
            Verdict::Wrong
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storage_of_another_form_is_no_safe() {
    let ground = Ground::start(2).await;
    let unclean = B256::left_padding_from(&[&[1][..], SINGLETON.as_slice()].concat());
    for (told, expected) in [
        (slot(SINGLETON), Verdict::Truth),
        (json!(B256::ZERO), Verdict::Nothing),
        (json!(unclean), Verdict::Nothing),
        (json!(B256::repeat_byte(0xff)), Verdict::Nothing),
        (json!("0x"), Verdict::Error),
        (json!("0x51"), Verdict::Error),
        (json!(hex::encode_prefixed([0x51_u8; 33])), Verdict::Error),
        (Value::Null, Verdict::Error),
    ] {
        for node in &ground.nodes {
            let told = told.clone();
            node.tamper(Lie(move |call: &Value, result: Value| {
                Told::Result(if call["method"] == "eth_getStorageAt" {
                    told.clone()
                } else {
                    result
                })
            }));
        }
        let wallets = wallets(&ground.nodes);
        let verdict = look(wallets.as_ref(), ground.false_safe, Some(&imitated(&ground))).await;
        assert_eq!(verdict, expected, "{told}");
    }
}

/// Contracts with an endless loop, without a version, and with a version of another form. Strangers name such accounts,
/// so they must not count as failures of the nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contracts_that_answer_badly_pause_no_node() {
    const LOOPS: &str = "0x5b600056";
    const RETURNS_NOTHING: &str = "0x00";
    const REVERTS: &str = "0x60006000fd";
    let ground = Ground::start(2).await;
    let wallets = wallets(&ground.nodes);
    for (place, code) in (0xc0..).zip([LOOPS, RETURNS_NOTHING, REVERTS]) {
        let account = EvmAddress::repeat_byte(place);
        for (method, value) in [
            ("anvil_setCode", json!([account, code])),
            ("anvil_setStorageAt", json!([account, "0x0", slot(SINGLETON)])),
        ] {
            ground.chain.rpc(method, value).await.expect("set");
        }
        for _ in 0..4 {
            let found = wallets.safe_at(Address::Evm(account)).await;
            assert_eq!(found.expect("the nodes have not failed"), None, "{code}");
            assert!(wallets.safe_nonce(Address::Evm(account)).await.is_err(), "{code}");
        }
    }
    let found = wallets.safe_at(Address::Evm(ground.false_safe)).await;
    assert_eq!(found.expect("no node is paused"), Some(imitated(&ground)));
}
