//! Calldata as clients see it: the transactions that a payer signs, and their metadata.

use crate::{
    domain::{
        network::Network,
        paying::{PaymentTransaction, charge::FeeKind},
    },
    flows::paying::Handout,
    http::forms::{
        estimates::PayerReadiness,
        handout::{HandoutTexts, PlatformFee, StepTexts},
        null::OrNull,
        unsigned::{TronRawData, UnsignedTexts},
        wire::*,
    },
};
use alloy::primitives::U256;
use poem_openapi::{Enum, Object};

/// Marks a value as a big number
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub enum BigNumberType {
    /// The only value
    BigNumber,
}

/// An unsigned 256-bit number.
#[derive(Debug, Clone, Object)]
pub struct BigNumber {
    /// Always `BigNumber`
    #[oai(rename = "type")]
    pub kind: BigNumberType,
    /// The number as `0x` and an even number of hexadecimal digits. Example: `0x00`
    #[oai(validator(max_length = 66, pattern = "^0x([0-9a-f]{2})+$"))]
    pub hex: String,
}

impl From<U256> for BigNumber {
    fn from(value: U256) -> Self {
        let bytes = value.to_be_bytes_trimmed_vec();
        let bytes = if bytes.is_empty() { vec![0] } else { bytes };
        Self {
            kind: BigNumberType::BigNumber,
            hex: hex::encode_prefixed(bytes),
        }
    }
}

/// A transaction for the payer to sign and send.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct Transaction {
    /// Encoded call. Example: `0xc219a14d000000000000000000000000370de27fdb7d1ff1e1baa7d11c5820a324cf623c00000000000000000000000070997970c51812dc3a010c7d01b50e0d17dc79c800000000000000000000000000000000000000000000000091b77e5e5d9a000000000000000000000000000000000000000000000000000000000000000000c000000000000000000000000000000000000000000000000003a4965bf58a400000000000000000000000000070997970c51812dc3a010c7d01b50e0d17dc79c8000000000000000000000000000000000000000000000000000000000000000806143180ee3cd1b0000000000000000000000000000000000000000000000000`
    #[oai(validator(max_length = 100000, pattern = "^0x([0-9a-f]{2})*$"))]
    pub data: String,
    /// Called contract. Example: `0x399F5EE127ce7432E4921a61b8CF52b0af52cbfE`
    pub to: WalletText,
    /// Amount of the native coin to send, in its smallest unit
    pub value: BigNumber,
    /// Chain of the transaction. Added by this service. Example: `11155111`
    pub chain_id: u64,
    /// The transaction that only has to be signed; present only on Tron, if a wallet is named. Added by this service
    #[oai(rename = "raw_data")]
    pub raw_data: Option<TronRawData>,
    /// Encoding of `raw_data`; present only with it. Added by this service. Example: `0a02c7a122088a1fd7b4ac0b7e3140e0acc5a28c345af002081f12eb020a31747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e54726967676572536d617274436f6e747261637412b5020a1541a3c311eb2df8e1387e3942c997723daab9138e811215411b6ca35d39842cf8fbe49000653a1505412da659228402c219a14d000000000000000000000000a614f803b6fd780986a42c78ec9c7f77e6ded13c0000000000000000000000005cbdd86a2fa8dc4bddd8a8f69dba48572eec07fb000000000000000000000000000000000000000000000000000000000000000700000000000000000000000000000000000000000000000000000000000000c000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000800000000000000010000000000000000000000000000000000000000000000007080d8c1a28c34900180c6868f01`
    #[oai(rename = "raw_data_hex", validator(max_length = 8000, pattern = "^([0-9a-f]{2})+$"))]
    pub raw_data_hex: Option<String>,
    /// Hash of the encoding, which the wallet signs; present only with it. Added by this service. Example: `449fcd725f429f66346a5c3e6ac731181bf80e1323bc5448a0d8b226e8afe664`
    #[oai(rename = "txID", validator(max_length = 64, pattern = "^[0-9a-f]{64}$"))]
    pub tx_id: Option<String>,
}

/// Metadata of the transactions.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct CalldataMetadata {
    /// Number of transactions. Example: `1`
    #[oai(validator(minimum(value = "1"), maximum(value = "100")))]
    pub steps_required: u32,
    /// Whether the transactions include an approval. Example: `false`
    pub needs_approval: bool,
    /// Position of the approval; null when there is none. Example: `null`
    pub approval_transaction_index: OrNull<u32>,
    /// Position of the payment, which is always last. Example: `0`
    pub payment_transaction_index: u32,
    /// Whether the wallet holds the amount and the fees; true when no wallet was given. Example: `true`
    pub has_enough_balance: bool,
    /// Whether the wallet holds the network fee; true when no wallet was given. Example: `true`
    pub has_enough_gas: bool,
    /// Fee of the platform; absent when there is none
    pub platform_fee: Option<PlatformFee>,
    /// Fee of the service; absent when there is none. A maximum per payment can reduce the fee below its percentage
    pub protocol_fee: Option<PlatformFee>,
    /// Unix time in seconds at which the quoted amount expires; absent without a quote. An amount is quoted when no
    /// on-chain price feed converts it. A payment of exactly this amount that is mined before this time counts in full;
    /// any other payment is converted at the rate of its time. For a payment to a bank account, this is the time at
    /// which the partner's quote expires; later payments count too. Example: `1767225600`
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub quote_expires_at: Option<i64>,
    /// Readiness of the payer, on Tron
    #[oai(flatten)]
    pub readiness: PayerReadiness,
}

/// Transactions that pay a request, in execution order.
#[derive(Debug, Clone, Object)]
pub struct PaymentCalldata {
    /// Approvals first, payment last
    #[oai(validator(min_items = 1, max_items = 100))]
    pub transactions: Vec<Transaction>,
    /// Metadata of the transactions
    pub metadata: CalldataMetadata,
}

impl From<StepTexts> for Transaction {
    fn from(step: StepTexts) -> Self {
        let (raw_data, raw_data_hex, tx_id) = UnsignedTexts::members(step.unsigned);
        Self {
            data: step.data,
            to: step.to,
            value: step.value.into(),
            chain_id: step.chain_id,
            raw_data,
            raw_data_hex,
            tx_id,
        }
    }
}

/// Converts transactions on a network to their response bodies.
pub fn transactions(steps: &[PaymentTransaction], network: Network) -> Vec<Transaction> {
    steps.iter().map(|step| StepTexts::of(step, network).into()).collect()
}

/// The response body with the calldata of one request.
pub fn calldata(handout: &Handout) -> PaymentCalldata {
    let texts = HandoutTexts(handout);
    PaymentCalldata {
        transactions: texts.steps().map(Transaction::from).collect(),
        metadata: CalldataMetadata {
            steps_required: texts.steps_required(),
            needs_approval: texts.approval_index().is_some(),
            approval_transaction_index: OrNull(texts.approval_index()),
            payment_transaction_index: texts.payment_index(),
            has_enough_balance: handout.has_enough_balance(),
            has_enough_gas: handout.payer.as_ref().is_none_or(|payer| payer.has_enough_gas),
            platform_fee: texts.charge(FeeKind::Platform).map(Into::into),
            protocol_fee: texts.charge(FeeKind::Protocol).map(Into::into),
            quote_expires_at: handout.ends_at.map(|end| end.timestamp()),
            readiness: PayerReadiness::where_prepared(texts),
        },
    }
}
