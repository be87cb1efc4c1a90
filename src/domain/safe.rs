//! Safe accounts: contract wallets whose owners sign a transaction together before one of them executes it.
//!
//! The formats are those of the Safe contracts 1.3.0, 1.4.1 and 1.5.0. Source: EIP-712.

use super::{
    address::Address,
    currency::ContractKind,
    paying::{
        batch_contract::BatchConversionPayments,
        fee_proxy::{Erc20ConversionProxy, Erc20FeeProxy, EthConversionProxy, EthereumFeeProxy},
    },
    proven_tx::ProvenTx,
    reference::PaymentReference,
    wire_text::wire_text,
};
use alloy::{
    primitives::{Address as EvmAddress, B256, Bytes, U256, b256},
    sol,
    sol_types::{SolCall, SolStruct, eip712_domain},
};

sol! {
    interface SafeAccount {
        function execTransaction(address to, uint256 value, bytes data, uint8 operation, uint256 safeTxGas, uint256 baseGas, uint256 gasPrice, address gasToken, address refundReceiver, bytes signatures);
        function multiSend(bytes transactions);
    }
    struct SafeTx {
        address to;
        uint256 value;
        bytes data;
        uint8 operation;
        uint256 safeTxGas;
        uint256 baseGas;
        uint256 gasPrice;
        address gasToken;
        address refundReceiver;
        uint256 nonce;
    }
}

wire_text! {
    /// Version of the contract of a Safe.
    pub enum SafeVersion {
        /// 1.3.0.
        V130 = "1.3.0",
        /// 1.4.1.
        V141 = "1.4.1",
        /// 1.5.0.
        V150 = "1.5.0",
    }
}

/// Hashes of the code of the proxies of Safes, from the published packages of the versions. The code can only delegate
/// to the contract in the first storage slot.
const PROXIES: [B256; 3] = [
    b256!("b89c1b3bdf2cf8827818646bce9a8f6e372885f8c55e5c07acbd307cb133b000"),
    b256!("d7d408ebcd99b2b70be43e20253d6d92a8ea8fab29bd3be7f55b10032331fb4c"),
    b256!("4e381985ca68b3e5d27b4425fa581c19cf33146d3f887a3cfca96f55528ea46f"),
];

/// Whether the code with this hash is the code of a proxy of a Safe.
pub fn is_proxy(code_hash: &B256) -> bool {
    PROXIES.contains(code_hash)
}

impl SafeVersion {
    /// The version of a contract to which Safes delegate; `None` for any other contract.
    pub const fn of_singleton(kind: ContractKind) -> Option<Self> {
        match kind {
            ContractKind::Safe130 | ContractKind::SafeL2130 => Some(Self::V130),
            ContractKind::Safe141 | ContractKind::SafeL2141 => Some(Self::V141),
            ContractKind::Safe150 | ContractKind::SafeL2150 => Some(Self::V150),
            _ => None,
        }
    }
}

/// First topic of the event of a Safe that executed a transaction.
const SUCCESS: B256 = b256!("442e715f626346e8c54381002da614f62bee8d27386535b2521ec8540898556e");

/// First topic of the event of a Safe whose transaction failed while the outer transaction succeeded.
const FAILURE: B256 = b256!("23428b18acfb3ea64b08dc0c1d296ea9c09702c09083ca5272e64d115b687d23");

/// First topics of the events that end a transaction of a Safe.
pub const OUTCOME_TOPICS: [B256; 2] = [SUCCESS, FAILURE];

/// Length of one value in encoded data.
const WORD: usize = 32;

/// `operation` of a call.
const CALL: u8 = 0;

/// `operation` of a delegated call, with which a Safe makes several calls.
const DELEGATED: u8 = 1;

/// How a transaction of a Safe ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SafeOutcome {
    /// The Safe made the calls.
    Executed,
    /// The calls failed, and the nonce of the Safe is used.
    Failed,
}

/// A call of a Safe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SafeCall {
    /// Called contract.
    pub to: EvmAddress,
    /// Call data.
    pub input: Bytes,
}

/// How a transaction of a Safe ended, according to the events of a proven transaction; `None` if they do not name it.
///
/// Version 1.3.0 states the hash in the data of the event, and later versions in the second topic.
pub fn outcome_in(proven: &ProvenTx, safe: &Address, safe_tx_hash: &B256) -> Option<SafeOutcome> {
    let own = proven.logs.iter().filter(|log| log.emitter == *safe);
    let mut outcomes = own.filter_map(|log| {
        let outcome = match *log.topics.first()? {
            SUCCESS => SafeOutcome::Executed,
            FAILURE => SafeOutcome::Failed,
            _ => return None,
        };
        (hash_in(&log.topics, &log.data)? == *safe_tx_hash).then_some(outcome)
    });
    outcomes.next()
}

/// The hash of the transaction that an event of a Safe names; `None` if the event has another form.
pub fn hash_in(topics: &[B256], data: &[u8]) -> Option<B256> {
    match (topics, data.len()) {
        ([_], length) if length == 2 * WORD => data.get(..WORD).map(B256::from_slice),
        ([_, hash], WORD) => Some(*hash),
        _ => None,
    }
}

/// Number of nonces that are tried for the hash of a transaction.
const NONCES_TRIED: u64 = 1_000;

/// The calls of a transaction of a Safe that a proven transaction executed; `None` if its input does not have this
/// hash with any nonce before `next_nonce`.
///
/// The input does not contain the nonce. `next_nonce` may be false: the hash proves the nonce.
pub fn executed_calls(
    proven: &ProvenTx,
    safe: &Address,
    chain_id: u64,
    safe_tx_hash: &B256,
    next_nonce: u64,
) -> Option<Vec<SafeCall>> {
    if proven.target.as_ref() != Some(safe) {
        return None;
    }
    let call = SafeAccount::execTransactionCall::abi_decode_validate(&proven.input).ok()?;
    let domain = eip712_domain! {
        chain_id: chain_id,
        verifying_contract: safe.bytes(),
    };
    let hash_with = |nonce: u64| {
        let signed = SafeTx {
            to: call.to,
            value: call.value,
            data: call.data.clone(),
            operation: call.operation,
            safeTxGas: call.safeTxGas,
            baseGas: call.baseGas,
            gasPrice: call.gasPrice,
            gasToken: call.gasToken,
            refundReceiver: call.refundReceiver,
            nonce: U256::from(nonce),
        };
        signed.eip712_signing_hash(&domain)
    };
    let mut nonces = (next_nonce.saturating_sub(NONCES_TRIED)..next_nonce).rev();
    nonces.find(|nonce| hash_with(*nonce) == *safe_tx_hash)?;
    Some(match call.operation {
        CALL => vec![SafeCall {
            to: call.to,
            input: call.data,
        }],
        DELEGATED => unpacked(&call.data).unwrap_or_default(),
        _ => Vec::new(),
    })
}

/// The calls in the argument of `multiSend`; `None` if it is malformed.
fn unpacked(input: &[u8]) -> Option<Vec<SafeCall>> {
    let packed = SafeAccount::multiSendCall::abi_decode_validate(input)
        .ok()?
        .transactions;
    let mut rest: &[u8] = &packed;
    let mut calls = Vec::new();
    while !rest.is_empty() {
        let (operation, after) = rest.split_first()?;
        let (to, after) = after.split_at_checked(EvmAddress::len_bytes())?;
        let (_value, after) = after.split_at_checked(WORD)?;
        let (length, after) = after.split_at_checked(WORD)?;
        let length = usize::try_from(U256::from_be_slice(length)).ok()?;
        let (input, after) = after.split_at_checked(length)?;
        if *operation == CALL {
            calls.push(SafeCall {
                to: EvmAddress::from_slice(to),
                input: Bytes::copy_from_slice(input),
            });
        }
        rest = after;
    }
    Some(calls)
}

impl SafeCall {
    /// Whether the call of a payment contract contains a payment with this reference to this payee: the called function
    /// pays, and its encoded arguments contain the payee, and the length of a reference followed by the reference.
    pub fn pays(&self, contracts: &[EvmAddress], reference: PaymentReference, payee: EvmAddress) -> bool {
        let mut argument = [0; 2 * WORD];
        argument[..WORD].copy_from_slice(&U256::from(reference.0.len()).to_be_bytes::<WORD>());
        argument[WORD..WORD + reference.0.len()].copy_from_slice(&reference.0);
        let (selector, words) = self.input.split_at_checked(SELECTOR).unwrap_or_default();
        let contains = |argument: &[u8]| {
            (0..words.len())
                .step_by(WORD)
                .any(|place| words[place..].starts_with(argument))
        };
        contracts.contains(&self.to)
            && PAYING.iter().any(|paying| paying == selector)
            && contains(&argument)
            && contains(payee.into_word().as_slice())
    }
}

/// Selectors of the functions that pay.
const PAYING: [[u8; SELECTOR]; 5] = [
    Erc20FeeProxy::transferFromWithReferenceAndFeeCall::SELECTOR,
    EthereumFeeProxy::transferWithReferenceAndFeeCall::SELECTOR,
    Erc20ConversionProxy::transferFromWithReferenceAndFeeCall::SELECTOR,
    EthConversionProxy::transferWithReferenceAndFeeCall::SELECTOR,
    BatchConversionPayments::batchPaymentsCall::SELECTOR,
];

/// Length of the selector before the arguments of a call.
const SELECTOR: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{network::Network, payment::BlockRef, proven_tx::ProvenLog};
    use alloy::primitives::{address, bytes, hex};
    use chrono::DateTime;

    const SAFE: EvmAddress = address!("1111111111111111111111111111111111111111");
    const TARGET: EvmAddress = address!("2222222222222222222222222222222222222222");
    const STRANGER: EvmAddress = address!("3333333333333333333333333333333333333333");
    /// Hash of the example transaction with the nonce 7 on chain 1.
    const HASH: B256 = b256!("e28c2831081f2c46a043066de72a44f1e8cdde71febf5b3889192a3ffb71cda2");

    fn on(bytes: EvmAddress) -> Address {
        Address::on(Network::Mainnet, bytes)
    }

    fn exec(data: Bytes, operation: u8) -> SafeAccount::execTransactionCall {
        SafeAccount::execTransactionCall {
            to: TARGET,
            value: U256::ZERO,
            data,
            operation,
            safeTxGas: U256::ZERO,
            baseGas: U256::ZERO,
            gasPrice: U256::ZERO,
            gasToken: EvmAddress::ZERO,
            refundReceiver: EvmAddress::ZERO,
            signatures: Bytes::new(),
        }
    }

    fn proven(input: Vec<u8>, logs: Vec<ProvenLog>) -> ProvenTx {
        ProvenTx {
            tx_hash: B256::ZERO,
            block: BlockRef {
                number: 1,
                hash: B256::ZERO,
                parent_hash: B256::ZERO,
                time: DateTime::UNIX_EPOCH,
            },
            succeeded: true,
            sender: on(TARGET),
            target: Some(on(SAFE)),
            value: U256::ZERO,
            input,
            logs,
        }
    }

    fn example() -> Bytes {
        bytes!(
            "a9059cbb000000000000000000000000333333333333333333333333333333333333333300000000000000000000000000000000000000000000000000000000000f4240"
        )
    }

    #[test]
    fn the_hash_proves_the_calls_and_the_nonce() {
        let tx = proven(exec(example(), CALL).abi_encode(), Vec::new());
        for (next_nonce, is_found) in [(8, true), (9, true), (1_007, true), (7, false), (1_008, false)] {
            let calls = executed_calls(&tx, &on(SAFE), 1, &HASH, next_nonce);
            let expected = is_found.then(|| {
                vec![SafeCall {
                    to: TARGET,
                    input: example(),
                }]
            });
            assert_eq!(calls, expected, "{next_nonce}");
        }
        assert_eq!(executed_calls(&tx, &on(SAFE), 10, &HASH, 8), None, "another chain");
        assert_eq!(executed_calls(&tx, &on(TARGET), 1, &HASH, 8), None, "another Safe");
    }

    #[test]
    fn several_calls_are_unpacked_and_malformed_ones_are_none() {
        let packed = |length: u64| {
            let mut packed = vec![CALL];
            packed.extend_from_slice(TARGET.as_slice());
            packed.extend_from_slice(&[0; WORD]);
            packed.extend_from_slice(&U256::from(length).to_be_bytes::<WORD>());
            packed.extend_from_slice(&hex!("aabb"));
            SafeAccount::multiSendCall {
                transactions: packed.into(),
            }
            .abi_encode()
        };
        let calls = unpacked(&packed(2)).expect("calls");
        assert_eq!(calls.len(), 1);
        assert_eq!((calls[0].to, calls[0].input.as_ref()), (TARGET, &hex!("aabb")[..]));
        assert_eq!(unpacked(&packed(3)), None);
        assert_eq!(unpacked(&hex!("aabb")), None);
    }

    #[test]
    fn only_the_events_of_the_safe_with_the_hash_count() {
        let log = |emitter, topics: &[B256], data: &[u8]| ProvenLog {
            emitter: on(emitter),
            topics: topics.to_vec(),
            data: data.to_vec(),
        };
        let (word, in_data) = ([0; WORD], [HASH.as_slice(), &[0; WORD]].concat());
        for (log, expected) in [
            (log(SAFE, &[SUCCESS, HASH], &word), Some(SafeOutcome::Executed)),
            (log(SAFE, &[SUCCESS], &in_data), Some(SafeOutcome::Executed)),
            (log(SAFE, &[FAILURE, HASH], &word), Some(SafeOutcome::Failed)),
            (log(SAFE, &[FAILURE], &in_data), Some(SafeOutcome::Failed)),
            (log(TARGET, &[SUCCESS, HASH], &word), None),
            (log(SAFE, &[SUCCESS, SUCCESS], &word), None),
            (log(SAFE, &[HASH, HASH], &word), None),
            (log(SAFE, &[SUCCESS, HASH], &in_data), None),
            (log(SAFE, &[SUCCESS], &word), None),
            (log(SAFE, &[], &in_data), None),
        ] {
            let tx = proven(Vec::new(), vec![log.clone()]);
            assert_eq!(outcome_in(&tx, &on(SAFE), &HASH), expected, "{log:?}");
        }
    }

    #[test]
    fn a_payment_is_found_by_contract_and_reference() {
        let reference = PaymentReference(hex!("0102030405060708"));
        let other = PaymentReference(hex!("0102030405060709"));
        let call = |to| SafeCall {
            to,
            input: Erc20FeeProxy::transferFromWithReferenceAndFeeCall {
                token: SAFE,
                to: TARGET,
                amount: U256::ONE,
                paymentReference: reference.0.to_vec().into(),
                feeAmount: U256::ZERO,
                feeAddress: EvmAddress::ZERO,
            }
            .abi_encode()
            .into(),
        };
        assert!(call(TARGET).pays(&[TARGET], reference, TARGET));
        assert!(!call(TARGET).pays(&[TARGET], other, TARGET));
        assert!(!call(SAFE).pays(&[TARGET], reference, TARGET));
        assert!(!call(TARGET).pays(&[TARGET], reference, STRANGER), "another payee");
        let mut unknown = call(TARGET);
        unknown.input = [&[0xde, 0xad, 0xbe, 0xef][..], &unknown.input[SELECTOR..]]
            .concat()
            .into();
        assert!(!unknown.pays(&[TARGET], reference, TARGET), "another function");
    }
}
