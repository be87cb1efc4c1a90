//! Paying on the local chain with the calldata of the service.

use super::TestApp;
use alloy::{
    primitives::{Address, B256, U256, address, keccak256},
    sol_types::SolCall,
};
use devnet::TxReceiptLite;
use prs::{
    ctx::Ctx,
    domain::network::Network,
    flows::{
        FlowResult,
        payments::{
            backlog::{self, Rates},
            lead::{self, Leadership},
            watch::{self, Position, Step},
        },
    },
    ports::chain::Chain,
    store::leaders::LEASE_MAX,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Account that pays in the tests.
pub const PAYER: usize = 3;

/// Name of the instance that leads, also after a restart.
const INSTANCE: &str = "tests";

/// How often a term is tried to begin.
const BEGINNINGS_MAX: usize = 10;

/// Begins a term; the one before ends. An instance that begins at the same moment may win, so it is tried again.
pub async fn lead(ctx: &Ctx, network: Network) -> Leadership {
    for _ in 0..BEGINNINGS_MAX {
        let begun = lead::begin(ctx, network, INSTANCE, LEASE_MAX, &CancellationToken::new()).await;
        if let Some(leadership) = begun.expect("a term") {
            return leadership;
        }
    }
    panic!("somebody else leads {network}")
}

/// One look at a chain in a term of its own.
pub async fn look(ctx: &Ctx, chain: &dyn Chain) -> FlowResult<Step> {
    watch::run(ctx, chain, &lead(ctx, chain.network()).await).await
}

/// One look at a chain, and one at what is filled in beside it.
pub async fn step(ctx: &Ctx, chain: &dyn Chain) -> FlowResult<Step> {
    let leadership = lead(ctx, chain.network()).await;
    let step = watch::run(ctx, chain, &leadership).await?;
    let has_filled = backlog::run(ctx, chain, &leadership, &Rates::default()).await?;
    Ok(match step {
        Step::At(position) => Step::At(Position {
            moved: position.moved || has_filled,
            ..position
        }),
        halted @ Step::Halted(_) => halted,
    })
}

/// Transactions of a `/pay` answer.
pub fn transactions(calldata: &Value) -> Vec<(Address, Vec<u8>, U256)> {
    let list = calldata["transactions"].as_array().expect("transactions");
    list.iter()
        .map(|transaction| {
            let text = |value: &Value| value.as_str().expect("text").to_owned();
            assert_eq!(transaction["value"]["type"], "BigNumber");
            (
                text(&transaction["to"]).parse().expect("an address"),
                hex::decode(text(&transaction["data"])).expect("hexadecimal"),
                U256::from_str_radix(text(&transaction["value"]["hex"]).trim_start_matches("0x"), 16)
                    .expect("a number"),
            )
        })
        .collect()
}

alloy::sol! {
    function execute(address to, uint256 value, bytes data);
}

/// The call that has a smart wallet call another contract.
#[allow(dead_code, reason = "not every binary that shares this pays through one")]
pub fn smart_wallet_call(to: Address, data: Vec<u8>, value: U256) -> Vec<u8> {
    let data = data.into();
    executeCall { to, value, data }.abi_encode()
}

impl TestApp {
    /// Has the smart wallet of the local chain make these calls, which its owner sends.
    #[allow(dead_code, reason = "not every binary that shares this pays through one")]
    pub async fn send_through_smart_wallet(&self, calls: Vec<(Address, Vec<u8>, U256)>) {
        let (owner, wallet) = (devnet::SMART_WALLET_OWNER_INDEX, self.devnet().contracts().smart_wallet);
        for (to, data, value) in calls {
            let call = smart_wallet_call(to, data, value);
            let receipt = self
                .devnet()
                .send(owner, wallet, call, U256::ZERO)
                .await
                .expect("mined");
            assert!(receipt.status, "a call failed");
        }
    }

    /// Address of an account.
    pub fn account(&self, index: usize) -> String {
        self.devnet().accounts()[index].address.to_string()
    }

    /// Asks for calldata; `query` goes behind the wallet.
    pub async fn calldata(&self, id: &str, query: &str) -> Value {
        let path = format!("/v2/request/{id}/pay?wallet={}{query}", self.account(PAYER));
        self.get(&path).with_client().send().await.expect(200)
    }

    /// Pays with the calldata of the service; returns the receipt of the payment itself.
    pub async fn pay(&self, id: &str, query: &str) -> TxReceiptLite {
        let steps = transactions(&self.calldata(id, query).await);
        let receipts = self.devnet().pay(PAYER, &steps).await.expect("mined");
        let last = receipts.last().expect("a payment").clone();
        assert!(receipts.iter().all(|receipt| receipt.status), "a step failed");
        last
    }

    /// Payments that a search finds for a request.
    pub async fn payments_of(&self, id: &str) -> Vec<Value> {
        let found = self
            .get(&format!("/v2/payments?requestId={id}"))
            .with_key()
            .send()
            .await
            .expect(200);
        found["payments"].as_array().expect("a list").clone()
    }

    /// Payments in a transaction.
    pub async fn payments_in(&self, tx_hash: B256) -> Vec<Value> {
        let found = self
            .get(&format!("/v2/payments?txHash={tx_hash}"))
            .with_key()
            .send()
            .await
            .expect(200);
        found["payments"].as_array().expect("a list").clone()
    }
}

/// The factory that the local node brings along: salt and creation code in, contract out.
pub const FACTORY: Address = address!("4e59b44847b379578588920cA78FbF26c0B4956C");

/// What creates a contract of `devnet/artifacts` with arguments, and its address then: the input of [`FACTORY`].
pub fn creation_of(artifact: &str, arguments: &[u8]) -> (Address, Vec<u8>) {
    let file = devnet::dir().join(format!("artifacts/{artifact}.json"));
    let artifact: Value = serde_json::from_slice(&std::fs::read(file).expect("an artefact")).expect("JSON");
    let code = hex::decode(artifact["bytecode"].as_str().expect("text")).expect("hexadecimal");
    let creation = [code.as_slice(), arguments].concat();
    let salt = B256::repeat_byte(7);
    let created = FACTORY.create2(salt, keccak256(&creation));
    (created, [salt.as_slice(), &creation].concat())
}
