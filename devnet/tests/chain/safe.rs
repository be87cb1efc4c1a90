//! Safe accounts: addresses, hashes, signatures and events.

use alloy::{
    primitives::{Address, B256, U256, address, b256},
    rpc::types::Log,
    sol,
    sol_types::{SolCall as _, SolValue as _},
};
use devnet::{
    Account, Devnet,
    safe::{
        DELEGATE_CALL, SafeContracts, SafeTx, SafeVersion, exec_transaction, multi_send, safe_tx_hash,
        sender_signature, signatures,
    },
};

use crate::{contracts::logs_of, refusal, started, units};

const PAYEE: Address = Address::repeat_byte(0xaa);
const OTHER_PAYEE: Address = Address::repeat_byte(0xbb);
const SENDER_INDEX: usize = 1;

const EXECUTION_SUCCESS: B256 = b256!("442e715f626346e8c54381002da614f62bee8d27386535b2521ec8540898556e");
const EXECUTION_FAILURE: B256 = b256!("23428b18acfb3ea64b08dc0c1d296ea9c09702c09083ca5272e64d115b687d23");
const SAFE_MULTI_SIG_TRANSACTION: B256 = b256!("66753cd2356569ee081232e3be8909b950e0a76c1f8460c3a5e3c2be32b11bed");

sol! {
    interface SafeQueries {
        function VERSION() external view returns (string memory);
        function getTransactionHash(
            address to, uint256 value, bytes data, uint8 operation, uint256 safeTxGas, uint256 baseGas,
            uint256 gasPrice, address gasToken, address refundReceiver, uint256 nonce
        ) external view returns (bytes32);
    }
}

/// A Safe with native coins.
struct FundedSafe<'a> {
    chain: &'a Devnet,
    version: SafeVersion,
    address: Address,
    owners: &'a [&'a Account],
}

impl<'a> FundedSafe<'a> {
    async fn new(
        chain: &'a Devnet,
        contracts: &SafeContracts,
        singleton: Address,
        owners: &'a [&'a Account],
        threshold: u64,
    ) -> Self {
        let addresses: Vec<Address> = owners.iter().map(|owner| owner.address).collect();
        let address = contracts
            .create_safe(chain, singleton, &addresses, threshold)
            .await
            .unwrap();
        let funding = chain
            .send(SENDER_INDEX, address, Vec::new(), units(1_000))
            .await
            .unwrap();
        assert!(funding.status);
        Self {
            chain,
            version: contracts.version,
            address,
            owners,
        }
    }

    /// The hash of a transaction, after a comparison with the hash that the Safe computes.
    async fn hash(&self, transaction: &SafeTx) -> B256 {
        let transaction = transaction.clone();
        let hash = safe_tx_hash(self.chain.chain_id(), self.address, &transaction);
        let query = SafeQueries::getTransactionHashCall {
            to: transaction.to,
            value: transaction.value,
            data: transaction.data,
            operation: transaction.operation,
            safeTxGas: transaction.safeTxGas,
            baseGas: transaction.baseGas,
            gasPrice: transaction.gasPrice,
            gasToken: transaction.gasToken,
            refundReceiver: transaction.refundReceiver,
            nonce: transaction.nonce,
        };
        let computed = self
            .chain
            .call(0, self.address, query.abi_encode(), U256::ZERO)
            .await
            .unwrap();
        assert_eq!(computed, hash.as_slice(), "{:?}", self.version);
        hash
    }

    /// Executes a transaction with the signatures of all owners. Returns its hash and the logs of the Safe.
    async fn execute(&self, transaction: &SafeTx) -> (B256, Vec<Log>) {
        let hash = self.hash(transaction).await;
        let call = exec_transaction(transaction, signatures(hash, self.owners).unwrap());
        let receipt = self
            .chain
            .send(SENDER_INDEX, self.address, call, U256::ZERO)
            .await
            .unwrap();
        assert!(receipt.status, "{:?}", self.version);
        (hash, logs_of(self.chain, &receipt, self.address).await)
    }

    /// Checks that a log has the hash where this version has it, and no payment.
    fn check_log(&self, log: &Log, topic: B256, hash: B256) {
        let (topics, data) = match self.version {
            SafeVersion::V1_3_0 => (vec![topic], (hash, U256::ZERO).abi_encode_params()),
            SafeVersion::V1_4_1 | SafeVersion::V1_5_0 => (vec![topic, hash], U256::ZERO.abi_encode()),
        };
        assert_eq!(log.topics(), topics, "{:?}", self.version);
        assert_eq!(log.data().data.to_vec(), data, "{:?}", self.version);
    }
}

fn payment(nonce: u64) -> SafeTx {
    SafeTx {
        to: PAYEE,
        value: units(10),
        nonce: units(nonce),
        ..SafeTx::default()
    }
}

#[tokio::test]
async fn safe_contracts_have_their_public_addresses() {
    let chain = started().await;
    for (version, addresses) in [
        (
            SafeVersion::V1_3_0,
            [
                address!("d9Db270c1B5E3Bd161E8c8503c55cEABeE709552"),
                address!("3E5c63644E683549055b9Be8653de26E0B4CD36E"),
                address!("a6B71E26C5e0845f74c812102Ca7114b6a896AB2"),
                address!("A238CBeb142c10Ef7Ad8442C6D1f9E89e07e7761"),
            ],
        ),
        (
            SafeVersion::V1_4_1,
            [
                address!("41675C099F32341bf84BFc5382aF534df5C7461a"),
                address!("29fcB43b46531BcA003ddC8FCB67FFE91900C762"),
                address!("4e1DCf7AD4e460CfD30791CCC4F9c8a4f820ec67"),
                address!("38869bf66a61cF6bDB996A6aE40D5853Fd43B526"),
            ],
        ),
        (
            SafeVersion::V1_5_0,
            [
                address!("Ff51A5898e281Db6DfC7855790607438dF2ca44b"),
                address!("Edd160fEBBD92E350D4D398fb636302fccd67C7e"),
                address!("14F2982D601c9458F93bd70B218933A6f8165e7b"),
                address!("218543288004CD07832472D464648173c77D7eB7"),
            ],
        ),
    ] {
        let contracts = SafeContracts::deploy(&chain, version).await.unwrap();
        let [singleton, singleton_l2, factory, multi_send] = addresses;
        let expected = SafeContracts {
            version,
            singleton,
            singleton_l2,
            factory,
            multi_send,
        };
        assert_eq!(contracts, expected);
        assert_eq!(version.singletons(), [singleton, singleton_l2]);
        assert_eq!(SafeContracts::deploy(&chain, version).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn safes_of_every_version_execute_transactions() {
    let chain = started().await;
    let accounts = chain.accounts();
    let owners = [&accounts[5], &accounts[3], &accounts[4]];
    for version in SafeVersion::ALL {
        let contracts = SafeContracts::deploy(&chain, version).await.unwrap();
        for singleton in [contracts.singleton, contracts.singleton_l2] {
            let safe = FundedSafe::new(&chain, &contracts, singleton, &owners, 3).await;
            let version_call = SafeQueries::VERSIONCall {}.abi_encode();
            let text = chain.call(0, safe.address, version_call, U256::ZERO).await.unwrap();
            let text = SafeQueries::VERSIONCall::abi_decode_returns(&text).unwrap();
            assert_eq!(text, version.text());

            let before = chain.native_balance_of(PAYEE).await.unwrap();
            let (hash, logs) = safe.execute(&payment(0)).await;
            safe.check_log(logs.last().unwrap(), EXECUTION_SUCCESS, hash);
            if singleton == contracts.singleton_l2 {
                assert_eq!(*logs[0].topic0().unwrap(), SAFE_MULTI_SIG_TRANSACTION);
            }
            let payments = [(PAYEE, Vec::new(), units(20)), (OTHER_PAYEE, Vec::new(), units(30))];
            let several = SafeTx {
                to: contracts.multi_send,
                data: multi_send(&payments).into(),
                operation: DELEGATE_CALL,
                nonce: units(1),
                ..SafeTx::default()
            };
            let (hash, logs) = safe.execute(&several).await;
            safe.check_log(logs.last().unwrap(), EXECUTION_SUCCESS, hash);
            assert_eq!(chain.native_balance_of(PAYEE).await.unwrap(), before + units(30));
        }
    }
}

#[tokio::test]
async fn failing_calls_of_a_safe_are_reverted_unless_gas_is_set() {
    let chain = started().await;
    let owners = [&chain.accounts()[3]];
    for version in SafeVersion::ALL {
        let contracts = SafeContracts::deploy(&chain, version).await.unwrap();
        let safe = FundedSafe::new(&chain, &contracts, contracts.singleton, &owners, 1).await;
        let too_much = SafeTx {
            value: units(1_001),
            ..payment(0)
        };
        let hash = safe.hash(&too_much).await;
        let call = exec_transaction(&too_much, signatures(hash, &owners).unwrap());
        let refused = chain.call(SENDER_INDEX, safe.address, call, U256::ZERO).await;
        assert!(refusal(refused).contains("eth_call failed"));

        let with_gas = SafeTx {
            safeTxGas: units(100_000),
            ..too_much
        };
        let (hash, logs) = safe.execute(&with_gas).await;
        safe.check_log(logs.last().unwrap(), EXECUTION_FAILURE, hash);
    }
}

#[tokio::test]
async fn an_owner_executes_without_a_signature_but_others_do_not() {
    const OWNER_INDEX: usize = 3;
    let chain = started().await;
    let owners = [&chain.accounts()[OWNER_INDEX]];
    for version in SafeVersion::ALL {
        let contracts = SafeContracts::deploy(&chain, version).await.unwrap();
        let safe = FundedSafe::new(&chain, &contracts, contracts.singleton, &owners, 1).await;
        let call = exec_transaction(&payment(0), sender_signature(owners[0].address));
        let refused = chain.call(SENDER_INDEX, safe.address, call.clone(), U256::ZERO).await;
        assert!(refusal(refused).contains("eth_call failed"));
        let receipt = chain.send(OWNER_INDEX, safe.address, call, U256::ZERO).await.unwrap();
        assert!(receipt.status, "{version:?}");
    }
}
