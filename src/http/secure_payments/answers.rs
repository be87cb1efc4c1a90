//! What payers, and the owners of secure payments, are shown.

use super::bodies::{FeePlanView, PayPageText};
use crate::{
    domain::{
        destination::ScreeningProvider,
        network::Network,
        paying::charge::{FeeBearer, FeeKind},
        secure_payment::{
            PaymentFlow, SecurePaymentKind, SecurePaymentStatus,
            access::{AccessStatus, WalletType},
        },
    },
    flows::secure_payments::find::BlockReason,
    http::{
        forms::{branding::Branding, handout::PlatformFee},
        operation::*,
    },
};
use poem_openapi::Union;
use std::collections::BTreeMap;

words! {
    /// Whether a payer may pay
    AccessStatus as "AccessStatus";
    /// What a wallet is
    WalletType as "WalletType";
    /// Why a payout cannot be paid together with others
    BlockReason as "BlockReason";
}

/// Chain that is paid from
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "UPPERCASE")]
pub enum PaymentChain {
    /// Base
    Base,
    /// Optimism
    Optimism,
    /// Arbitrum One
    Arbitrum,
    /// Ethereum
    Ethereum,
    /// Polygon
    Polygon,
    /// BNB Smart Chain
    Bnb,
    /// Sepolia, the test network
    Sepolia,
}

impl PaymentChain {
    /// The network.
    pub(super) const fn network(self) -> Network {
        match self {
            Self::Base => Network::Base,
            Self::Optimism => Network::Optimism,
            Self::Arbitrum => Network::ArbitrumOne,
            Self::Ethereum => Network::Mainnet,
            Self::Polygon => Network::Matic,
            Self::Bnb => Network::Bsc,
            Self::Sepolia => Network::Sepolia,
        }
    }
}

/// How a secure payment is paid; in this version always on one EVM network
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum ExecutionKind {
    /// On one EVM network
    EvmSameChain,
    /// From one EVM network to another
    EvmCrossChain,
    /// Several at once on Tron
    TronBatch,
}

/// How a secure payment was made
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum IdentityMode {
    /// With a key or a session
    ManualDashboard,
    /// With a client ID
    ClientId,
}

/// Whose look a page has
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum BrandingSource {
    /// That of the client ID
    ClientId,
    /// That of this service
    ServiceNetwork,
}

/// Why there are no figures in US dollars
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum NoFiguresReason {
    /// It is not paid in one stablecoin
    FeePlanUnavailable,
}

/// Which way transactions go; today always on one network
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "lowercase")]
pub enum RouteType {
    /// From one network to another
    Crosschain,
    /// On one network
    Samechain,
}

/// Whether a Safe account pays
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "lowercase")]
pub enum SafeFlag {
    /// It does not
    False,
    /// It does
    True,
}

text! {
    /// Wallet that is paid, whole or by its ends.
    PayeeText {
        pattern: r"^(0x[a-fA-F0-9]{40}|0x[a-fA-F0-9]{4}\.\.\.[a-fA-F0-9]{4})$",
        length_max: 42,
        example: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
        hint: "must be the address of a wallet, or its first six and its last four characters around three dots",
    }
}

/// Where a secure payment pays to.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct SecurePaymentDestination {
    /// The interop address of the wallet and the token, joined with a colon; absent when the payee is masked. Example: `0x70997970C51812dc3A010C7d01b50e0d17dc79C8@eip155:11155111#121DA093:0x370DE27fdb7D1Ff1e1BaA7D11c5820a324Cf623C`
    #[oai(validator(
        max_length = 200,
        pattern = "^(0x[a-fA-F0-9]{40}|T[1-9A-HJ-NP-Za-km-z]{33})@eip155:[0-9]{1,20}#[0-9A-F]{8}:(0x[a-fA-F0-9]{40}|T[1-9A-HJ-NP-Za-km-z]{33})$"
    ))]
    pub destination_id: Option<String>,
    /// The wallet on its chain (ERC-7828), masked where the payee is. Example: `0x70997970C51812dc3A010C7d01b50e0d17dc79C8@eip155:11155111#121DA093`
    #[oai(validator(
        max_length = 100,
        pattern = "^[0-9A-Za-z.]{13,42}@eip155:[0-9]{1,20}(#[0-9A-F]{8})?$"
    ))]
    pub payee_address: String,
    /// Contract of the token
    pub token_address: WalletText,
    /// The wallet, masked where the payee is. Example: `0x70997970C51812dc3A010C7d01b50e0d17dc79C8`
    #[oai(validator(
        max_length = 42,
        pattern = r"^(0x[a-fA-F0-9]{40}|T[1-9A-HJ-NP-Za-km-z]{33}|[0-9A-Za-z]{6}\.\.\.[0-9A-Za-z]{4})$"
    ))]
    pub wallet_address: String,
    /// Network
    pub network: NetworkText,
    /// Whether the payee is masked; absent when it is not. Example: `true`
    pub is_masked: Option<bool>,
}

/// What was found out about one wallet.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct AccessWalletResult {
    /// The wallet
    pub wallet_address: WalletText,
    /// What it is
    pub wallet_type: WalletType,
    /// Smart account that it stands behind, as whoever asked said with `eoaWallet`: nobody has proven it
    pub parent_wallet_address: OrNull<WalletText>,
    /// What came of it
    pub status: AccessStatus,
    /// Why, as a code. Example: `wallet_not_allowed`
    #[oai(validator(max_length = 64, pattern = "^[a-z][a-z_]*$"))]
    pub reason_code: String,
    /// Who screened it
    pub provider: OrNull<ScreeningProvider>,
    /// When it was screened; absent when it was not
    pub evaluated_at: Option<Instant>,
}

/// Whether a payer may pay.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct AccessDecisionView {
    /// The answer; `error` is not yes
    pub status: AccessStatus,
    /// Why, as a code. Example: `wallet_not_allowed`
    #[oai(validator(max_length = 64, pattern = "^[a-z][a-z_]*$"))]
    pub reason_code: String,
    /// Who screened
    pub provider: OrNull<ScreeningProvider>,
    /// Wallet by wallet
    #[oai(validator(max_items = 2))]
    pub wallet_results: Vec<AccessWalletResult>,
}

/// What a wallet holds of a token.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PaymentOptionView {
    /// What the wallet holds, human units. Example: `250`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub balance: String,
    /// Whether that is enough. Example: `true`
    pub has_enough_balance: bool,
    /// What is needed with every fee, human units. Example: `10.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub needed_amount: String,
}

/// What a wallet could pay with: token by token, chain by chain.
pub type PaymentOptionsView = BTreeMap<String, BTreeMap<String, PaymentOptionView>>;

/// Figures of a secure payment.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct SecurePaymentAnalytics {
    /// Time of creation
    pub creation_timestamp: Option<Instant>,
    /// What the payer pays in US dollars; absent where it is not paid in one stablecoin. Example: `102.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub total_payment_amount_usd: Option<String>,
    /// Fee of the service among it. Example: `0.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub protocol_fee_amount_usd: Option<String>,
    /// Why there are no figures in US dollars; absent where there are
    pub fee_amounts_usd_unavailable_reason: Option<NoFiguresReason>,
    /// Payments, fees left out. Example: `1`
    #[oai(validator(minimum(value = "0"), maximum(value = "200")))]
    pub number_of_payments_excluding_fees: Option<u32>,
    /// Where it pays to; absent when the payee is masked
    #[oai(validator(max_items = 200))]
    pub destination_ids: Option<Vec<DestinationIdText>>,
}

/// What is shown of every secure payment of which anything is.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct SecurePaymentFacts {
    /// State
    pub status: SecurePaymentStatus,
    /// Where the payer may go afterwards. Example: `https://shop.example.com/thanks`
    #[oai(validator(max_length = 2048))]
    pub redirect_url: OrNull<String>,
    /// What the button says; null for the usual text. Example: `Back to the shop`
    #[oai(validator(max_length = 255))]
    pub redirect_label: OrNull<String>,
    /// Orchestrator
    pub orchestrator_id: OrNull<UlidText>,
    /// Look of the page
    pub branding: OrNull<Branding>,
    /// What the wallet could pay with: an object of chains, in each an object of tokens; absent without a wallet that may pay
    pub payment_options: Option<PaymentOptionsView>,
    /// Figures
    pub analytics: Option<SecurePaymentAnalytics>,
    /// Network on which it is paid
    pub network: NetworkText,
    /// Reference of the merchant
    pub reference: OrNull<MerchantReference>,
    /// Whether the payees are masked; absent when they are not. Example: `true`
    pub is_payee_address_masked: Option<bool>,
    /// Fees in US dollars; null with several currencies
    pub fee_plan: OrNull<FeePlanView>,
    /// Whether the payer may pay; absent where everybody may, and without a wallet
    pub access_decision: Option<AccessDecisionView>,
    /// Which way the money goes. An addition of this service
    pub flow: PaymentFlow,
    /// Until when it can be paid. An addition of this service
    pub expires_at: Instant,
    /// Whether a payment is seen on the chain and not final, a payer reported one within two minutes, or a payment page was
    /// about to ask a wallet within half an hour. A further payment may be a second one. An addition of this service. Example: `false`
    pub in_flight: bool,
}

/// A secure payment of one request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct SingleSecurePayment {
    /// Always `single`. Example: `single`
    pub payment_type: SecurePaymentKind,
    /// The request that it pays
    #[oai(validator(min_items = 1, max_items = 1))]
    pub request_ids: Vec<RequestIdText>,
    /// Who is paid; masked as `0x1234...abcd` where the creator wants that. Example: `0x70997970C51812dc3A010C7d01b50e0d17dc79C8`
    #[oai(validator(
        max_length = 42,
        pattern = r"^(0x[a-fA-F0-9]{40}|T[1-9A-HJ-NP-Za-km-z]{33}|[0-9A-Za-z]{6}\.\.\.[0-9A-Za-z]{4})$"
    ))]
    pub payee: String,
    /// What is asked for, human units
    pub amount: AmountText,
    /// Id of the currency
    pub payment_currency: CurrencyIdText,
    /// Whether that is the coin of the network. Example: `false`
    pub is_native_currency: bool,
    /// Where it pays to; null for a native coin
    pub destination: OrNull<SecurePaymentDestination>,
    /// What is shown of every one
    #[oai(flatten)]
    pub facts: SecurePaymentFacts,
}

/// A secure payment of several requests.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct BatchSecurePayment {
    /// Always `batch`. Example: `batch`
    pub payment_type: SecurePaymentKind,
    /// The requests that it pays
    #[oai(validator(min_items = 1, max_items = 200))]
    pub request_ids: Vec<RequestIdText>,
    /// Who is paid, in the same order; masked as `0x1234...abcd` where the creator wants that
    #[oai(validator(min_items = 1, max_items = 200))]
    pub payees: Vec<PayeeText>,
    /// What is asked for, in the same order, human units
    #[oai(validator(min_items = 1, max_items = 200))]
    pub amounts: Vec<AmountText>,
    /// Ids of the currencies, in the same order
    #[oai(validator(min_items = 1, max_items = 200))]
    pub payment_currencies: Vec<CurrencyIdText>,
    /// Whether they are the coin of the network, in the same order. Example: `[false]`
    #[oai(validator(min_items = 1, max_items = 200))]
    pub is_native_currency: Vec<bool>,
    /// Where they pay to, in the same order; null for a native coin
    #[oai(validator(min_items = 1, max_items = 200))]
    pub destinations: Vec<OrNull<SecurePaymentDestination>>,
    /// What is shown of every one
    #[oai(flatten)]
    pub facts: SecurePaymentFacts,
}

// Its name comes last by the alphabet: the generator of Go tries the alternatives in that order, and this one fits wherever
// the others do.
/// A secure payment of which nothing is shown before its payer is approved.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct WithheldSecurePayment {
    /// One request or several
    pub payment_type: SecurePaymentKind,
    /// State
    pub status: SecurePaymentStatus,
    /// Orchestrator
    pub orchestrator_id: OrNull<UlidText>,
    /// Look of the page
    pub branding: OrNull<Branding>,
    /// Whether the payer may pay; absent without a wallet
    pub access_decision: Option<AccessDecisionView>,
    /// Until when it can be paid. An addition of this service
    pub expires_at: Instant,
}

/// A secure payment as a payer may see it.
#[derive(Debug, Clone, Union)]
pub enum SecurePaymentView {
    /// Of one request
    Single(SingleSecurePayment),
    /// Of several
    Batch(BatchSecurePayment),
    /// Before its payer is approved
    Withheld(WithheldSecurePayment),
}

/// One fee as it is paid.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct FeeBundleLine {
    /// The request that it is paid with
    pub request_id: RequestIdText,
    /// Always null: fees of this service have no id of their own
    pub fee_component_id: OrNull<UlidText>,
    /// Whose it is
    pub fee_type: OrNull<FeeKind>,
    /// Name for people. Example: `Platform fee`
    #[oai(validator(max_length = 64))]
    pub fee_label: OrNull<String>,
    /// Who bears it
    pub fee_bearer: OrNull<FeeBearer>,
    /// Amount, human units. Example: `0.25`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub amount: String,
    /// Id of its currency
    pub payment_currency_id: CurrencyIdText,
    /// Network
    pub network: NetworkText,
    /// Chain, in digits. Example: `11155111`
    #[oai(validator(max_length = 16, pattern = "^[1-9][0-9]{0,15}$"))]
    pub chain_id: String,
    /// Its receiver
    pub recipient: WalletText,
}

/// What is paid and the fees on top of it, human units.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct FeeAmountSummary {
    /// What is asked for. Example: `10`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub gross_amount: String,
    /// What the payees get of it. Example: `10`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub net_recipient_amount: String,
    /// All fees. Example: `0.25`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub total_fees: String,
    /// Those that the payees bear. Example: `0`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub payee_borne_fees: String,
    /// Those that the payer bears. Example: `0.25`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub payer_borne_fees: String,
    /// What the payer pays. Example: `10.25`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub payer_total: String,
}

/// The fees that transactions pay.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct FeeBundle {
    /// Always null: fees of this service have no id of their own
    pub bundle_id: OrNull<UlidText>,
    /// Who bears fees that nothing else decides about
    pub default_fee_bearer: OrNull<FeeBearer>,
    /// Sums; null with several currencies
    pub amount_summary: OrNull<FeeAmountSummary>,
    /// Fee by fee, in the order in which the transaction pays them
    #[oai(validator(max_items = 400))]
    pub fees: Vec<FeeBundleLine>,
}

/// What is known about the transactions and their payer; balances in human units. What needs a wallet is absent without one.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct SecureCalldataMetadata {
    /// Number of transactions. Example: `1`
    #[oai(validator(minimum(value = "1"), maximum(value = "100")))]
    pub steps_required: u32,
    /// Whether an approval is among them. Example: `false`
    pub needs_approval: bool,
    /// Always null: nobody sponsors transactions here
    pub transaction_sponsorship_fee_usd: OrNull<AmountText>,
    /// Position of the approval; absent when there is none. Example: `0`
    pub approval_transaction_index: Option<u32>,
    /// How many approvals there are, a reset included. Example: `0`
    pub approval_transactions_count: Option<u32>,
    /// Position of the payment, always the last. Example: `0`
    pub payment_transaction_index: u32,
    /// Whether the wallet holds the amount and the fees. Example: `true`
    pub has_enough_balance: Option<bool>,
    /// Whether the wallet holds the network fee. Example: `true`
    pub has_enough_gas: Option<bool>,
    /// Whether the allowance of the wallet is enough. Example: `true`
    pub has_enough_allowance: Option<bool>,
    /// Fee of the platform; absent when there is none
    pub platform_fee: Option<PlatformFee>,
    /// Fee of the service; absent when there is none. A limit for one payment may make it less than its rate
    pub protocol_fee: Option<PlatformFee>,
    /// Balance of the payment currency. Example: `250`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub balance: Option<String>,
    /// What the contract may take. Example: `0`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub allowance: Option<String>,
    /// What is taken, with every fee. Example: `10.25`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub required_amount: Option<String>,
    /// Balance of the native coin. Example: `1.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub native_balance: Option<String>,
    /// Network fee of all transactions in the native coin, at most. Example: `0.0004`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub estimated_network_fee: Option<String>,
    /// That of the approvals. Example: `0.0001`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub estimated_approval_network_fee: Option<String>,
    /// That of the payment. Example: `0.0003`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub estimated_payment_network_fee: Option<String>,
    /// Always `samechain`. Example: `samechain`
    pub route_type: Option<RouteType>,
}

/// A transaction for the payer to sign and send, as wallets take it.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct SecureTransaction {
    /// Encoded call. Example: `0x095ea7b300000000000000000000000067818703c92580c0e106e401f253e8a410a66f8b00000000000000000000000000000000000000000000000091b77e5e5d9a0000`
    #[oai(validator(max_length = 400000, pattern = "^0x([0-9a-f]{2})*$"))]
    pub data: String,
    /// Contract that is called
    pub to: WalletText,
    /// Native coin that goes with it, in its smallest unit: a hexadecimal number without zeros in front, such as `0x16345785d8a0000`. Example: `0x0`
    #[oai(validator(max_length = 66, pattern = "^0x(0|[1-9a-f][0-9a-f]{0,63})$"))]
    pub value: String,
    /// Chain that it is sent on. Example: `11155111`
    pub chain_id: u64,
}

/// The transactions that pay one request, in the order of their execution.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct SingleCalldata {
    /// Always `single`. Example: `single`
    pub payment_type: SecurePaymentKind,
    /// Approvals of exactly what is needed first, payment last
    #[oai(validator(min_items = 1, max_items = 100))]
    pub transactions: Vec<SecureTransaction>,
    /// The fees among it
    pub fee_bundle: OrNull<FeeBundle>,
    /// What is known about them
    pub metadata: SecureCalldataMetadata,
}

/// A token of which the wallet holds too little, human units.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct InsufficientToken {
    /// Contract; the zero address for the native coin. Example: `0x370DE27fdb7D1Ff1e1BaA7D11c5820a324Cf623C`
    #[oai(validator(max_length = 42, pattern = "^0x[a-fA-F0-9]{40}$"))]
    pub token_address: String,
    /// Symbol
    pub token_symbol: Option<SymbolText>,
    /// Id of the currency
    pub payment_currency_id: Option<CurrencyIdText>,
    /// What is needed. Example: `10.25`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub required: String,
    /// What is there. Example: `3`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub available: String,
}

/// What is known about the payer of a batch.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct BatchCalldataMetadata {
    /// Whether the wallet holds the amounts and the fees; true when no wallet was given. Example: `true`
    pub has_enough_balance: bool,
    /// Whether the wallet holds the network fee; null when no wallet was given. Example: `true`
    pub has_enough_gas: OrNull<bool>,
    /// Whether the wallet can pay; null when no wallet was given. Example: `true`
    pub can_make_payment: OrNull<bool>,
    /// What the wallet holds too little of
    #[oai(validator(max_items = 200))]
    pub insufficient_tokens: Vec<InsufficientToken>,
}

/// The transactions that pay several requests.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct BatchCalldata {
    /// Always `batch`. An addition of this service. Example: `batch`
    pub payment_type: SecurePaymentKind,
    /// Approvals of exactly what is needed, to be mined before the payment; empty when the allowances are enough
    #[oai(rename = "ERC20ApprovalTransactions", validator(max_items = 400))]
    pub erc20_approval_transactions: Vec<SecureTransaction>,
    /// Pays everybody, or nobody when one payment fails
    pub batch_payment_transaction: SecureTransaction,
    /// What is known about the payer
    pub metadata: BatchCalldataMetadata,
    /// The fees among it. An addition of this service
    pub fee_bundle: OrNull<FeeBundle>,
    /// The requests that are paid: what is paid already is left out. An addition of this service
    #[oai(validator(min_items = 1, max_items = 200))]
    pub request_ids: Vec<RequestIdText>,
}

/// The transactions that pay a secure payment.
#[derive(Debug, Clone, Union)]
pub enum SecureCalldata {
    /// Of one request
    Single(SingleCalldata),
    /// Of several
    Batch(BatchCalldata),
}

/// What a payer says to have sent.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct RecordIntentBody {
    /// Hash of the transaction; required
    #[oai(nullable)]
    pub tx_hash: Option<TxHash>,
    /// Must be absent: Safe accounts cannot pay on this service yet
    #[oai(nullable)]
    pub safe_tx_hash: Option<TxHash>,
    /// Must be absent: Safe accounts cannot pay on this service yet. Example: `1767225600`
    #[oai(nullable, validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub safe_payment_deadline: Option<i64>,
    /// Chain that it was sent on: that of the payment
    pub chain: PaymentChain,
    /// Symbol of what was sent: that of the payment. Example: `FAU`
    pub token: SymbolText,
    /// Account that pays
    #[oai(nullable)]
    pub payer_address: Option<WalletText>,
    /// Externally owned account behind it
    #[oai(nullable)]
    pub payer_eoa_address: Option<WalletText>,
    /// `evm_same_chain`: payments across chains come later. Example: `evm_same_chain`
    #[oai(nullable, validator(max_length = 32))]
    pub execution_kind: Option<String>,
    /// Id of the network that it was sent on: that of `chain`. Example: `sepolia`
    #[oai(nullable, validator(max_length = 64))]
    pub source_network: Option<String>,
    /// What was sent: `token`. Example: `FAU`
    #[oai(nullable, validator(max_length = 64))]
    pub source_token: Option<String>,
    /// How much of it; not kept, since the chain tells what arrives. Example: `10`
    #[oai(nullable, validator(max_length = 108))]
    pub source_amount: Option<String>,
    /// `same_chain`: payments across chains, and those that swap, come later. Example: `same_chain`
    #[oai(nullable, validator(max_length = 32))]
    pub route_kind: Option<String>,
    /// Must be absent: payments across chains come later. Example: `across`
    #[oai(nullable, validator(max_length = 32))]
    pub bridge_tool: Option<String>,
    /// Must be absent: several links in one payment come later. Example: `0x70997970C51812dc3A010C7d01b50e0d17dc79C8`
    #[oai(nullable, validator(max_length = 64))]
    pub smart_account_address: Option<String>,
    /// Must be absent: several links in one payment come later. Example: `0x8f4e1b2a7c6d5e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071`
    #[oai(nullable, validator(max_length = 80))]
    pub user_op_hash: Option<String>,
}

impl Example for RecordIntentBody {
    fn example() -> Self {
        Self {
            tx_hash: Some(TxHash::example()),
            safe_tx_hash: None,
            safe_payment_deadline: None,
            chain: PaymentChain::Sepolia,
            token: SymbolText::written("FAU"),
            payer_address: None,
            payer_eoa_address: None,
            execution_kind: None,
            source_network: None,
            source_token: None,
            source_amount: None,
            route_kind: None,
            bridge_tool: None,
            smart_account_address: None,
            user_op_hash: None,
        }
    }
}

/// A transaction that was noted. It settles nothing: a payment counts when the chain shows it.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct IntentRecorded {
    /// Its id, the same for the same hash
    pub intent_id: UlidText,
    /// Reference that the payment carries on chain
    pub payment_reference: ReferenceText,
    /// Hash of the transaction
    pub tx_hash: TxHash,
    /// Whether a payment is awaited. Example: `true`
    pub is_listening: bool,
    /// Account that pays; absent when it was not named
    pub payer_address: Option<WalletText>,
}

/// Whether the page of a secure payment has a look of its own.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct BrandingSummary {
    /// Whether it has. Example: `false`
    pub whitelabel_enabled: bool,
    /// Whose look it has
    pub source: BrandingSource,
}

/// What was found out about a wallet when it was screened.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct KytResult {
    /// The wallet
    pub wallet_address: WalletText,
    /// What it is
    pub wallet_type: WalletType,
    /// Smart account that it stands behind, as whoever asked said with `eoaWallet`: nobody has proven it
    pub parent_wallet_address: OrNull<WalletText>,
    /// What came of it
    pub status: OrNull<AccessStatus>,
    /// Why, as a code. Example: `sanctioned`
    #[oai(validator(max_length = 64, pattern = "^[a-z][a-z_]*$"))]
    pub reason_code: OrNull<String>,
    /// Who screened it
    pub provider: OrNull<ScreeningProvider>,
    /// Id of the result there. Example: `scr_8841`
    #[oai(validator(max_length = 255))]
    pub provider_reference: OrNull<String>,
    /// Page of the result there. Example: `https://screening.example.com/scr_8841`
    #[oai(validator(max_length = 2048))]
    pub report_url: OrNull<String>,
    /// What the provider adds. Example: `Low risk`
    #[oai(validator(max_length = 1024))]
    pub notes: OrNull<String>,
    /// What the provider calls it. Example: `approve`
    #[oai(validator(max_length = 64))]
    pub raw_status: OrNull<String>,
    /// When it was screened
    pub evaluated_at: OrNull<Instant>,
}

/// A secure payment as its owner sees it.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct OwnSecurePayment {
    /// Token: whoever has it may read and pay it
    pub token: UlidText,
    /// Page for the payer
    pub secure_payment_url: PayPageText,
    /// State
    pub status: SecurePaymentStatus,
    /// One request or several
    pub payment_type: SecurePaymentKind,
    /// Time of creation
    pub created_at: OrNull<Instant>,
    /// Until when it can be paid
    pub expires_at: Instant,
    /// Where the payer may go afterwards. Example: `https://shop.example.com/thanks`
    #[oai(validator(max_length = 2048))]
    pub redirect_url: OrNull<String>,
    /// What the button says; null for the usual text. Example: `Back to the shop`
    #[oai(validator(max_length = 255))]
    pub redirect_label: OrNull<String>,
    /// When the last of its requests was paid
    pub completed_at: OrNull<Instant>,
    /// Who paid that
    pub payer_address: OrNull<WalletText>,
    /// Payers that were screened
    #[oai(validator(max_items = 1000))]
    pub payer_kyt_results: Vec<KytResult>,
    /// Recipients that were screened
    #[oai(validator(max_items = 1000))]
    pub payee_kyt_results: Vec<KytResult>,
    /// Where it pays to; null for several payouts and for a native coin
    pub destination: OrNull<SecurePaymentDestination>,
    /// The same once its owner has set it up
    pub claimed_destination: OrNull<SecurePaymentDestination>,
    /// Orchestrator
    pub orchestrator_id: OrNull<UlidText>,
    /// Fees in US dollars; null where it is not paid in one stablecoin
    pub fee_plan: OrNull<FeePlanView>,
    /// Network of its payments
    pub network: NetworkText,
    /// Id of the currency; null with several
    pub currency: OrNull<CurrencyIdText>,
    /// How it is paid
    pub execution_kind: OrNull<ExecutionKind>,
    /// How it was made
    pub identity_mode: IdentityMode,
    /// Client ID that made it. Example: `cli_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5`
    #[oai(validator(max_length = 64, pattern = "^cli_[0-9A-Za-z]{30}$"))]
    pub client_id: OrNull<String>,
    /// Look of the page
    pub branding: BrandingSummary,
    /// Whether it could be paid together with other payouts. Example: `false`
    pub child_executable: bool,
    /// Why not
    pub block_reason: OrNull<BlockReason>,
    /// Wallets that may pay; empty for everybody. An addition of this service
    #[oai(validator(max_items = 1000))]
    pub allowed_payer_addresses: Vec<WalletText>,
    /// Your own name of the payer. An addition of this service. Example: `customer-17`
    #[oai(validator(max_length = 255))]
    pub payer_identifier: OrNull<String>,
    /// Your own name of the recipient. An addition of this service. Example: `supplier-3`
    #[oai(validator(max_length = 255))]
    pub recipient_identifier: OrNull<String>,
}
