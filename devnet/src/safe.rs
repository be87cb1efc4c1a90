//! Safe accounts of three versions: their published contracts, and the transactions that their owners sign.

use alloy::{
    primitives::{Address, B256, Bytes, U256, address, keccak256},
    signers::{SignerSync as _, local::PrivateKeySigner},
    sol,
    sol_types::{SolCall as _, SolStruct as _, eip712_domain},
};
use anyhow::bail;
use serde_json::json;

use crate::{Account, Devnet, FACTORY, bytecode::published_safe};

/// The factory contract that deployed Safe 1.4.1 and 1.5.0 on public chains. Its code is the code of [`FACTORY`].
const SAFE_FACTORY: Address = address!("914d7Fec6aaC8cd542e72Bca78B30650d45643d7");
/// Index of the account that deploys the contracts and creates the Safes.
const DEPLOYER_INDEX: usize = 0;

/// Operation of a transaction that calls a contract.
pub const CALL: u8 = 0;
/// Operation of a transaction that executes the code of a contract in the name of the Safe.
pub const DELEGATE_CALL: u8 = 1;

sol! {
    /// A transaction of a Safe, as its owners sign it.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct SafeTx {
        /// The called contract, or the receiver.
        address to;
        /// The native amount.
        uint256 value;
        /// The calldata.
        bytes data;
        /// Either `CALL` or `DELEGATE_CALL`.
        uint8 operation;
        /// Minimum gas for the call. If this and the gas price are 0, a failing call reverts the whole transaction;
        /// otherwise the transaction succeeds and emits `ExecutionFailure`.
        uint256 safeTxGas;
        /// Gas that is refunded in addition to the gas of the call.
        uint256 baseGas;
        /// Gas price of the refund; 0 for no refund.
        uint256 gasPrice;
        /// Token of the refund; zero for the native coin.
        address gasToken;
        /// Receiver of the refund; zero for the sender.
        address refundReceiver;
        /// Nonce of the Safe before the execution.
        uint256 nonce;
    }

    /// Executes a transaction that enough owners have signed. The nonce is not in the calldata.
    #[derive(Debug)]
    function execTransaction(
        address to, uint256 value, bytes data, uint8 operation, uint256 safeTxGas, uint256 baseGas, uint256 gasPrice,
        address gasToken, address refundReceiver, bytes signatures
    ) external payable returns (bool success);

    /// Sets the owners of a new Safe.
    #[derive(Debug)]
    function setup(
        address[] owners, uint256 threshold, address to, bytes data, address fallbackHandler, address paymentToken,
        uint256 payment, address paymentReceiver
    ) external;

    /// Creates a Safe as a proxy of a singleton.
    #[derive(Debug)]
    function createProxyWithNonce(
        address singleton, bytes initializer, uint256 saltNonce
    ) external returns (address proxy);

    /// Makes several calls. A Safe must delegate to this function.
    #[derive(Debug)]
    function multiSend(bytes transactions) external payable;
}

/// A version of the Safe contracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SafeVersion {
    /// 1.3.0, whose events have the hash of the transaction in the data.
    V1_3_0,
    /// 1.4.1, whose events have the hash of the transaction as a topic.
    V1_4_1,
    /// 1.5.0, whose events are those of 1.4.1.
    V1_5_0,
}

/// A kind of Safe contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SafeContractKind {
    /// The code of every Safe.
    Singleton,
    /// The code of every Safe that emits an event with the details of each transaction.
    SingletonL2,
    /// Creates Safes.
    ProxyFactory,
    /// Makes several calls in one transaction.
    MultiSend,
}

impl SafeVersion {
    /// Every version.
    pub const ALL: [Self; 3] = [Self::V1_3_0, Self::V1_4_1, Self::V1_5_0];

    /// The version as its contracts return it.
    pub fn text(self) -> &'static str {
        match self {
            Self::V1_3_0 => "1.3.0",
            Self::V1_4_1 => "1.4.1",
            Self::V1_5_0 => "1.5.0",
        }
    }

    /// The addresses of the two singletons on public chains, and on a chain for which [`SafeContracts::deploy`] deployed
    /// them: the usual one, and the one whose Safes emit an event with the details of each transaction.
    pub const fn singletons(self) -> [Address; 2] {
        match self {
            Self::V1_3_0 => [
                address!("d9Db270c1B5E3Bd161E8c8503c55cEABeE709552"),
                address!("3E5c63644E683549055b9Be8653de26E0B4CD36E"),
            ],
            Self::V1_4_1 => [
                address!("41675C099F32341bf84BFc5382aF534df5C7461a"),
                address!("29fcB43b46531BcA003ddC8FCB67FFE91900C762"),
            ],
            Self::V1_5_0 => [
                address!("Ff51A5898e281Db6DfC7855790607438dF2ca44b"),
                address!("Edd160fEBBD92E350D4D398fb636302fccd67C7e"),
            ],
        }
    }

    /// The creation code of a contract. Errors: the package is not installed.
    pub fn creation_code(self, contract: SafeContractKind) -> anyhow::Result<Vec<u8>> {
        let (package, prefix) = match self {
            Self::V1_3_0 => ("@gnosis.pm/safe-contracts", "GnosisSafe"),
            Self::V1_4_1 => ("@safe-global/safe-contracts", "Safe"),
            Self::V1_5_0 => ("@safe-global/safe-smart-account", "Safe"),
        };
        let path = match contract {
            SafeContractKind::Singleton => format!("{prefix}.sol/{prefix}"),
            SafeContractKind::SingletonL2 => format!("{prefix}L2.sol/{prefix}L2"),
            SafeContractKind::ProxyFactory => format!("proxies/{prefix}ProxyFactory.sol/{prefix}ProxyFactory"),
            SafeContractKind::MultiSend => "libraries/MultiSend.sol/MultiSend".to_owned(),
        };
        published_safe(package, &path)
    }

    /// The factory contract that deployed this version on public chains.
    fn factory(self) -> Address {
        match self {
            Self::V1_3_0 => FACTORY,
            Self::V1_4_1 | Self::V1_5_0 => SAFE_FACTORY,
        }
    }
}

/// The contracts of one version on a local chain. They have their addresses of public chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafeContracts {
    /// Their version.
    pub version: SafeVersion,
    /// The code of Safes.
    pub singleton: Address,
    /// The code of Safes that emit an event with the details of each transaction.
    pub singleton_l2: Address,
    /// Creates Safes.
    pub factory: Address,
    /// Makes several calls in one transaction.
    pub multi_send: Address,
}

impl SafeContracts {
    /// Deploys the contracts of a version, unless the chain has them.
    pub async fn deploy(chain: &Devnet, version: SafeVersion) -> anyhow::Result<Self> {
        Ok(Self {
            version,
            singleton: create(chain, version, SafeContractKind::Singleton).await?,
            singleton_l2: create(chain, version, SafeContractKind::SingletonL2).await?,
            factory: create(chain, version, SafeContractKind::ProxyFactory).await?,
            multi_send: create(chain, version, SafeContractKind::MultiSend).await?,
        })
    }

    /// Creates a Safe without modules and without a fallback handler. `singleton` is one of the two singletons of these
    /// contracts. Returns the address of the Safe.
    pub async fn create_safe(
        &self,
        chain: &Devnet,
        singleton: Address,
        owners: &[Address],
        threshold: u64,
    ) -> anyhow::Result<Address> {
        let initializer = setupCall {
            owners: owners.to_vec(),
            threshold: U256::from(threshold),
            to: Address::ZERO,
            data: Bytes::new(),
            fallbackHandler: Address::ZERO,
            paymentToken: Address::ZERO,
            payment: U256::ZERO,
            paymentReceiver: Address::ZERO,
        };
        let call = createProxyWithNonceCall {
            singleton,
            initializer: initializer.abi_encode().into(),
            // The height makes each Safe of the same owners a different one.
            saltNonce: U256::from(chain.block_number().await?),
        }
        .abi_encode();
        let returned = chain
            .call(DEPLOYER_INDEX, self.factory, call.clone(), U256::ZERO)
            .await?;
        let safe = createProxyWithNonceCall::abi_decode_returns(&returned)?;
        let receipt = chain.send(DEPLOYER_INDEX, self.factory, call, U256::ZERO).await?;
        if !receipt.status {
            bail!("transaction {} did not create the Safe {safe}", receipt.tx_hash);
        }
        Ok(safe)
    }
}

/// Deploys a contract through the factory contract of its version, unless the chain has it. Returns its address.
async fn create(chain: &Devnet, version: SafeVersion, contract: SafeContractKind) -> anyhow::Result<Address> {
    let (factory, salt, code) = (version.factory(), B256::ZERO, version.creation_code(contract)?);
    let created = factory.create2(salt, keccak256(&code));
    if has_code(chain, created).await? {
        return Ok(created);
    }
    if !has_code(chain, factory).await? {
        let factory_code = chain.rpc("eth_getCode", json!([FACTORY, "latest"])).await?;
        chain.rpc("anvil_setCode", json!([factory, factory_code])).await?;
    }
    let call = [salt.as_slice(), code.as_slice()].concat();
    let receipt = chain.send(DEPLOYER_INDEX, factory, call, U256::ZERO).await?;
    // A concurrent caller may have deployed the contract first, which makes this transaction fail.
    if !receipt.status && !has_code(chain, created).await? {
        bail!(
            "transaction {} did not deploy {contract:?} of Safe {}",
            receipt.tx_hash,
            version.text()
        );
    }
    Ok(created)
}

async fn has_code(chain: &Devnet, address: Address) -> anyhow::Result<bool> {
    Ok(chain.rpc("eth_getCode", json!([address, "latest"])).await? != "0x")
}

/// The hash that the owners of a Safe sign. Source: EIP-712.
pub fn safe_tx_hash(chain_id: u64, safe: Address, transaction: &SafeTx) -> B256 {
    let domain = eip712_domain! {
        chain_id: chain_id,
        verifying_contract: safe,
    };
    transaction.eip712_signing_hash(&domain)
}

/// The signatures of owners, in the order that a Safe requires: by address.
pub fn signatures(hash: B256, owners: &[&Account]) -> anyhow::Result<Vec<u8>> {
    let mut owners = owners.to_vec();
    owners.sort_by_key(|owner| owner.address);
    let mut signatures = Vec::new();
    for owner in owners {
        let signature = PrivateKeySigner::from_bytes(&owner.private_key)?.sign_hash_sync(&hash)?;
        signatures.extend_from_slice(&signature.as_bytes());
    }
    Ok(signatures)
}

/// The signature that a Safe accepts when the owner itself sends the transaction. It contains only the owner's address.
pub fn sender_signature(owner: Address) -> Vec<u8> {
    [owner.into_word().as_slice(), B256::ZERO.as_slice(), &[1]].concat()
}

/// The calldata with which any account makes a Safe execute a transaction.
pub fn exec_transaction(transaction: &SafeTx, signatures: Vec<u8>) -> Vec<u8> {
    execTransactionCall {
        to: transaction.to,
        value: transaction.value,
        data: transaction.data.clone(),
        operation: transaction.operation,
        safeTxGas: transaction.safeTxGas,
        baseGas: transaction.baseGas,
        gasPrice: transaction.gasPrice,
        gasToken: transaction.gasToken,
        refundReceiver: transaction.refundReceiver,
        signatures: signatures.into(),
    }
    .abi_encode()
}

/// The calldata with which [`SafeContracts::multi_send`] makes several calls: contract, input and value of each. The
/// operation of the Safe's transaction is [`DELEGATE_CALL`].
pub fn multi_send(calls: &[(Address, Vec<u8>, U256)]) -> Vec<u8> {
    let mut packed = Vec::new();
    for (to, data, value) in calls {
        packed.push(CALL);
        packed.extend_from_slice(to.as_slice());
        packed.extend_from_slice(&value.to_be_bytes::<32>());
        packed.extend_from_slice(&U256::from(data.len()).to_be_bytes::<32>());
        packed.extend_from_slice(data);
    }
    multiSendCall {
        transactions: packed.into(),
    }
    .abi_encode()
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{b256, bytes};

    use super::*;

    #[test]
    fn safe_transactions_have_the_hash_of_the_example() {
        let transaction = SafeTx {
            to: Address::repeat_byte(0x22),
            data: bytes!(
                "a9059cbb"
                "0000000000000000000000003333333333333333333333333333333333333333"
                "00000000000000000000000000000000000000000000000000000000000f4240"
            ),
            nonce: U256::from(7),
            ..SafeTx::default()
        };
        assert_eq!(
            safe_tx_hash(1, Address::repeat_byte(0x11), &transaction),
            b256!("e28c2831081f2c46a043066de72a44f1e8cdde71febf5b3889192a3ffb71cda2")
        );
    }
}
