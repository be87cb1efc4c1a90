//! Safes that pay links on the local chain, contracts that imitate Safes, and reports about both.

use super::{
    Answer, TestApp,
    app::forged,
    chain::{FACTORY, creation_of},
    screening::rows,
};
use alloy::{
    primitives::{Address as EvmAddress, B256, U256, keccak256},
    sol,
    sol_types::{SolCall, SolValue},
};
use devnet::{
    Account, TxReceiptLite,
    safe::{DELEGATE_CALL, SafeContracts, SafeTx, SafeVersion, exec_transaction, multi_send, safe_tx_hash, signatures},
};
use poem::http::Method;
use prs::{
    domain::{network::Network, safe::OUTCOME_TOPICS, secure_payment::intent::PaymentIntent},
    store,
};
use serde_json::{Value, json};

/// Indexes of the accounts that own every Safe of the tests. All of them sign.
const OWNERS: [usize; 2] = [4, 5];

/// Number of [`OWNERS`].
const THRESHOLD: u64 = 2;

/// Index of the account that sends the transactions of Safes. It owns none of them.
const SENDER: usize = 6;

/// Balance of a funded Safe, in whole tokens.
const BALANCE: u64 = 10;

/// A value of `safeTxGas` with which a failing call does not revert the transaction of the Safe.
const GAS_OF_FAILING: u64 = 300_000;

/// A call: contract, input and value.
pub type SafeStep = (EvmAddress, Vec<u8>, U256);

sol! {
    function emitSuccess(bytes32 hash);
    function emitUnindexedSuccess(bytes32 hash);
    function emitFailure(bytes32 hash);
    function emitUnindexedFailure(bytes32 hash);
}

/// A Safe of two owners.
pub struct TestSafe<'a> {
    app: &'a TestApp,
    contracts: &'a SafeContracts,
    /// Its address.
    pub address: EvmAddress,
}

impl<'a> TestSafe<'a> {
    /// Creates a Safe without tokens and coins.
    pub async fn create(app: &'a TestApp, contracts: &'a SafeContracts, singleton: EvmAddress) -> Self {
        let owners = OWNERS.map(|index| app.devnet().accounts()[index].address);
        let created = contracts.create_safe(app.devnet(), singleton, &owners, THRESHOLD);
        let address = created.await.expect("created");
        Self {
            app,
            contracts,
            address,
        }
    }

    /// Creates a Safe that holds test tokens, but no coins.
    pub async fn funded(app: &'a TestApp, contracts: &'a SafeContracts) -> Self {
        let safe = Self::create(app, contracts, contracts.singleton).await;
        app.fund(safe.address).await;
        safe
    }

    /// A transaction that makes one call.
    pub fn one(&self, (to, data, value): &SafeStep, nonce: u64) -> SafeTx {
        SafeTx {
            to: *to,
            value: *value,
            data: data.clone().into(),
            nonce: U256::from(nonce),
            ..SafeTx::default()
        }
    }

    /// A transaction that makes several calls.
    pub fn several(&self, steps: &[SafeStep], nonce: u64) -> SafeTx {
        SafeTx {
            to: self.contracts.multi_send,
            data: multi_send(steps).into(),
            operation: DELEGATE_CALL,
            nonce: U256::from(nonce),
            ..SafeTx::default()
        }
    }

    /// The hash that the owners sign.
    pub fn hash(&self, transaction: &SafeTx) -> B256 {
        safe_tx_hash(self.app.devnet().chain_id(), self.address, transaction)
    }

    /// Makes the Safe emit the failure of a transaction of another Safe. Afterwards it has no nonce.
    pub async fn forge_failure(&self, hash: B256) {
        let code = forging_code(hash);
        let address = FACTORY.create2(B256::ZERO, keccak256(&code));
        let input = [B256::ZERO.as_slice(), &code].concat();
        self.app.send_as_stranger(FACTORY, input).await;
        let forging = SafeTx {
            operation: DELEGATE_CALL,
            ..self.one(&(address, Vec::new(), U256::ZERO), 0)
        };
        self.execute(&forging).await;
    }

    /// Executes a transaction with the signatures of all owners. Its calls may fail, the outer transaction may not.
    pub async fn execute(&self, transaction: &SafeTx) -> TxReceiptLite {
        let chain = self.app.devnet();
        let owners: Vec<&Account> = OWNERS.iter().map(|index| &chain.accounts()[*index]).collect();
        let signed = signatures(self.hash(transaction), &owners).expect("signatures");
        let call = exec_transaction(transaction, signed);
        let receipt = chain.send(SENDER, self.address, call, U256::ZERO).await.expect("mined");
        assert!(receipt.status, "the Safe did not execute the transaction");
        receipt
    }
}

/// The same transaction, whose failing calls do not revert it: the Safe then uses the nonce and emits
/// `ExecutionFailure`.
pub fn with_safe_gas(transaction: SafeTx) -> SafeTx {
    SafeTx {
        safeTxGas: U256::from(GAS_OF_FAILING),
        ..transaction
    }
}

/// Calls that make a false Safe emit the events of a success and of a failure, as every version of a Safe emits them.
pub fn false_successes(hash: B256) -> [Vec<u8>; 2] {
    [
        emitSuccessCall { hash }.abi_encode(),
        emitUnindexedSuccessCall { hash }.abi_encode(),
    ]
}

/// Like [`false_successes`], for a failure.
pub fn false_failures(hash: B256) -> [Vec<u8>; 2] {
    [
        emitFailureCall { hash }.abi_encode(),
        emitUnindexedFailureCall { hash }.abi_encode(),
    ]
}

/// Code that emits the failure of a transaction as later versions do, and then replaces the contract of the account that
/// executes it: without its own code, the account has no nonce.
fn forging_code(hash: B256) -> Vec<u8> {
    let [_, failure] = OUTCOME_TOPICS;
    let code = format!(
        "7f{}7f{}60206000a273{}60005500",
        hex::encode(hash),
        hex::encode(failure),
        hex::encode(FACTORY)
    );
    let code = hex::decode(code).expect("hexadecimal");
    let length = u8::try_from(code.len()).expect("short code");
    [
        &[0x60, length, 0x80, 0x60, 0x0b, 0x60, 0, 0x39, 0x60, 0, 0xf3],
        code.as_slice(),
    ]
    .concat()
}

/// The body of a report that a Safe is about to execute the transaction with this hash.
pub fn safe_report(hash: B256, safe: Option<EvmAddress>) -> Value {
    let mut body = json!({ "safeTxHash": hash.to_string(), "chain": "SEPOLIA", "token": "FAU" });
    if let Some(safe) = safe {
        body["payerAddress"] = json!(safe.to_string());
    }
    body
}

/// Numbers of rows that only proven transactions, and Safes that may lock a link, create or change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SafeTraces {
    /// Events of every kind.
    pub events: i64,
    /// Locks of links.
    pub locks: i64,
    /// Links, requests and reports that are no longer in their first state.
    pub changes: i64,
}

impl TestApp {
    /// Deploys the contracts of every version of Safes.
    pub async fn safe_contracts(&self) -> Vec<SafeContracts> {
        let mut deployed = Vec::new();
        for version in SafeVersion::ALL {
            let contracts = SafeContracts::deploy(self.devnet(), version).await;
            deployed.push(contracts.expect("deployed"));
        }
        deployed
    }

    /// Gives an account test tokens.
    pub async fn fund(&self, account: EvmAddress) {
        let units = U256::from(BALANCE) * U256::from(10).pow(U256::from(18));
        let minted = self.devnet().mint(self.devnet().tokens().fau, account, units);
        assert!(minted.await.expect("mined").status, "no tokens for {account}");
    }

    /// Deploys a contract that imitates a Safe with this contract and version.
    pub async fn false_safe(&self, singleton: EvmAddress, version: &str) -> EvmAddress {
        let (address, input) = creation_of("FalseSafe", &(singleton, version).abi_encode_params());
        self.send_as_stranger(FACTORY, input).await;
        address
    }

    /// Calls a contract from an account that owns no Safe.
    pub async fn send_as_stranger(&self, to: EvmAddress, call: Vec<u8>) -> TxReceiptLite {
        let receipt = self.devnet().send(SENDER, to, call, U256::ZERO).await.expect("mined");
        assert!(receipt.status, "the call of {to} failed");
        receipt
    }

    /// Requests the calldata of a link for a Safe with the backend client ID.
    pub async fn safe_calldata(&self, token: &str, safe: EvmAddress) -> Answer {
        let query = format!("/pay?wallet={safe}&isSafe=true");
        self.open_link(token, &query).send().await
    }

    /// Reports a payment of a link with the public client ID.
    pub async fn report_as_stranger(&self, token: &str, body: &Value) -> Answer {
        let path = format!("/v2/secure-payments/{token}/intent");
        forged(self, Method::POST, &path).json(body).send().await
    }

    /// Reports a payment of a link with the API key of its owner.
    pub async fn report_as_owner(&self, token: &str, body: &Value) -> Answer {
        let call = self.post(&format!("/v2/secure-payments/{token}/intent"));
        call.with_key().json(body).send().await
    }

    /// Ends the lock of a link as its owner.
    pub async fn release_link(&self, token: &str) -> Answer {
        let call = self.post(&format!("/v2/secure-payments/{token}/release"));
        call.with_key().send().await
    }

    /// The stored report of a hash; `None` if the hash was not reported.
    pub async fn stored_report(&self, token: &str, hash: &B256) -> Option<PaymentIntent> {
        let payment = self.stored_link(token).await;
        let found = store::secure_payments::find_intent(self.ctx.db.reader(), &payment, Network::Sepolia, hash).await;
        found.expect("readable")
    }

    /// Counts the rows that strangers must not create or change.
    pub async fn safe_traces(&self) -> SafeTraces {
        SafeTraces {
            events: rows(self, "events").await,
            locks: rows(self, "secure_payment_intents WHERE state = 'awaiting_execution'").await,
            changes: rows(self, "secure_payments WHERE status <> 'pending'").await
                + rows(self, "requests WHERE status <> 'pending'").await
                + rows(self, "secure_payment_intents WHERE state <> 'reported'").await,
        }
    }
}
