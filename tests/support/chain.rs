//! Payments on the local chain with the calldata of the service.

use super::TestApp;
use alloy::{
    primitives::{Address, B256, U256, keccak256},
    sol_types::SolCall,
};
pub use devnet::FACTORY;
use devnet::TxReceiptLite;
use prs::{
    ctx::Ctx,
    domain::network::Network,
    flows::{
        FlowResult,
        payments::{
            backlog::{self, BacklogSpeeds},
            lead::{self, Leadership},
            safe_outcomes,
            watch::{self, WatchPosition, WatchResult},
        },
    },
    ports::chain::Chain,
    store::leaders::LEASE_MAX,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Index of the account of the payer in the tests.
pub const PAYER: usize = 3;

/// Name of the leading instance, also after a restart.
const INSTANCE: &str = "tests";

/// Maximum attempts to start a leadership term.
const BEGINNINGS_MAX: usize = 10;

/// Starts a leadership term on a network, which ends the previous one. Retries, because another instance may start a
/// term at the same time.
pub async fn lead(ctx: &Ctx, network: Network) -> Leadership {
    for _ in 0..BEGINNINGS_MAX {
        let begun = lead::begin(ctx, network, INSTANCE, LEASE_MAX, &CancellationToken::new()).await;
        if let Some(leadership) = begun.expect("a term") {
            return leadership;
        }
    }
    panic!("another instance leads {network}")
}

/// Makes one pass over the new blocks of a chain, as the leader in a new term.
pub async fn look(ctx: &Ctx, chain: &dyn Chain) -> FlowResult<WatchResult> {
    let looked = watch::run(ctx, chain, &lead(ctx, chain.network()).await).await?;
    search_safes(ctx, chain).await;
    Ok(looked)
}

/// Searches the executions of Safes. Nodes that do not respond are as good as none.
async fn search_safes(ctx: &Ctx, chain: &dyn Chain) {
    let _ = safe_outcomes::run(ctx, chain).await;
}

/// Makes one pass over the new blocks of a chain and one over its backlog, as the leader in a new term.
pub async fn step(ctx: &Ctx, chain: &dyn Chain) -> FlowResult<WatchResult> {
    let leadership = lead(ctx, chain.network()).await;
    let step = watch::run(ctx, chain, &leadership).await?;
    search_safes(ctx, chain).await;
    let has_filled = backlog::run(ctx, chain, &leadership, &BacklogSpeeds::default()).await?;
    Ok(match step {
        WatchResult::At(position) => WatchResult::At(WatchPosition {
            moved: position.moved || has_filled,
            ..position
        }),
        halted @ WatchResult::Halted(_) => halted,
    })
}

/// The transactions in a `/pay` response: contract, input and value of each.
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

/// Call that makes a smart wallet call another contract.
#[allow(dead_code, reason = "not every binary that shares this pays through one")]
pub fn smart_wallet_call(to: Address, data: Vec<u8>, value: U256) -> Vec<u8> {
    let data = data.into();
    executeCall { to, value, data }.abi_encode()
}

impl TestApp {
    /// Makes the smart wallet of the local chain send these calls, signed by its owner.
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

    /// Requests the calldata with which the payer's account pays a request. `query` is appended to the query string.
    pub async fn calldata(&self, id: &str, query: &str) -> Value {
        let path = format!("/v2/request/{id}/pay?wallet={}{query}", self.account(PAYER));
        self.get(&path).with_client().send().await.expect(200)
    }

    /// Pays a request with the calldata of the service; returns the receipt of the payment, which comes after any
    /// approvals.
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

/// How a contract of `devnet/artifacts` is deployed with these constructor arguments: its future address, and the input
/// for [`FACTORY`].
pub fn creation_of(artifact: &str, arguments: &[u8]) -> (Address, Vec<u8>) {
    let file = devnet::dir().join(format!("artifacts/{artifact}.json"));
    let artifact: Value = serde_json::from_slice(&std::fs::read(file).expect("an artifact")).expect("JSON");
    let code = hex::decode(artifact["bytecode"].as_str().expect("text")).expect("hexadecimal");
    let creation = [code.as_slice(), arguments].concat();
    let salt = B256::repeat_byte(7);
    let created = FACTORY.create2(salt, keccak256(&creation));
    (created, [salt.as_slice(), &creation].concat())
}
