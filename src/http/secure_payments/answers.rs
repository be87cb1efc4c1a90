//! What payers and owners of secure payments see.

use super::bodies::{FeePlanView, PayPageText};
use crate::{
    domain::{
        destination::ScreeningProvider,
        network::Network,
        paying::charge::{FeeBearer, FeeKind},
        secure_payment::{
            PaymentFlow, SecurePaymentKind, SecurePaymentStatus,
            access::{AccessStatus, WalletAccountType},
            multicall::{BlockReason, ExecutionKind, MulticallStatus, RecoveryAction},
        },
    },
    http::{
        forms::{
            branding::Branding, estimates::PayerReadiness, handout::PlatformFee, signed_transaction::PlainTxHash,
            unsigned::TronRawData,
        },
        operation::*,
    },
};
use poem_openapi::Union;
use std::collections::BTreeMap;

words! {
    /// Whether a payer may pay
    AccessStatus as "AccessStatus";
    /// Kind of a wallet
    WalletAccountType as "WalletType";
    /// Why a multicall cannot pay a link
    BlockReason as "BlockReason";
    /// How a secure payment is paid; currently always on one EVM network
    ExecutionKind as "ExecutionKind";
    /// State of a multicall
    MulticallStatus as "MulticallStatus";
    /// How to continue when a multicall cannot pay a link
    RecoveryAction as "RecoveryAction";
}

/// Chain on which the payment is sent
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
    /// Returns the network.
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

/// How a secure payment was created
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum IdentityMode {
    /// With an API key or a session
    ManualDashboard,
    /// With a client ID
    ClientId,
}

/// Whose branding a page has
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum BrandingSource {
    /// Branding of the client ID
    ClientId,
    /// Branding of this service
    ServiceNetwork,
}

/// Why there are no amounts in US dollars
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum NoFiguresReason {
    /// The secure payment is not paid in one stablecoin
    FeePlanUnavailable,
}

/// Route of the transactions; currently always on one network
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
    /// A Safe account does not pay
    False,
    /// A Safe account pays
    True,
}

text! {
    /// Wallet that is paid, in full or masked.
    PayeeText {
        pattern: r"^(0x[a-fA-F0-9]{40}|T[1-9A-HJ-NP-Za-km-z]{33}|0x[a-fA-F0-9]{4}\.\.\.[a-fA-F0-9]{4}|T[1-9A-HJ-NP-Za-km-z]{5}\.\.\.[1-9A-HJ-NP-Za-km-z]{4})$",
        length_max: 42,
        example: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
        hint: "must be the address of a wallet, or its first six and its last four characters around three dots",
    }
}

/// Destination of a secure payment.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct SecurePaymentDestination {
    /// Interop address of the wallet and the token, joined with a colon; absent when the payee is masked. Example: `0x70997970C51812dc3A010C7d01b50e0d17dc79C8@eip155:11155111#121DA093:0x370DE27fdb7D1Ff1e1BaA7D11c5820a324Cf623C`
    #[oai(validator(
        max_length = 200,
        pattern = "^(0x[a-fA-F0-9]{40}|T[1-9A-HJ-NP-Za-km-z]{33})@eip155:[0-9]{1,20}#[0-9A-F]{8}:(0x[a-fA-F0-9]{40}|T[1-9A-HJ-NP-Za-km-z]{33})$"
    ))]
    pub destination_id: Option<String>,
    /// Wallet on its chain (ERC-7828); masked when the payee is masked.
    /// Example: `0x70997970C51812dc3A010C7d01b50e0d17dc79C8@eip155:11155111#121DA093`
    #[oai(validator(
        max_length = 100,
        pattern = "^[0-9A-Za-z.]{13,42}@eip155:[0-9]{1,20}(#[0-9A-F]{8})?$"
    ))]
    pub payee_address: String,
    /// Contract of the token
    pub token_address: WalletText,
    /// Wallet; masked when the payee is masked. Example: `0x70997970C51812dc3A010C7d01b50e0d17dc79C8`
    #[oai(validator(
        max_length = 42,
        pattern = r"^(0x[a-fA-F0-9]{40}|T[1-9A-HJ-NP-Za-km-z]{33}|[0-9A-Za-z]{6}\.\.\.[0-9A-Za-z]{4})$"
    ))]
    pub wallet_address: String,
    /// Network of the wallet and the token
    pub network: NetworkText,
    /// Whether the payee is masked; absent when it is not. Example: `true`
    pub is_masked: Option<bool>,
}

/// Result of checking one wallet.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct AccessWalletResult {
    /// Wallet that was checked
    pub wallet_address: WalletText,
    /// Kind of the wallet
    pub wallet_type: WalletAccountType,
    /// Smart account that this wallet controls, as the parameter `eoaWallet` of the call claims; not proven
    pub parent_wallet_address: OrNull<WalletText>,
    /// Result of the check
    pub status: AccessStatus,
    /// Reason for the result of this wallet, as a code. Example: `wallet_not_allowed`
    #[oai(validator(max_length = 64, pattern = "^[a-z][a-z_]*$"))]
    pub reason_code: String,
    /// Provider that screened the wallet
    pub provider: OrNull<ScreeningProvider>,
    /// When the wallet was screened; absent when it was not screened
    pub evaluated_at: Option<Instant>,
}

/// Whether a payer may pay.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct AccessDecisionView {
    /// Decision; `error` is not an approval
    pub status: AccessStatus,
    /// Reason for the decision, as a code. Example: `wallet_not_allowed`
    #[oai(validator(max_length = 64, pattern = "^[a-z][a-z_]*$"))]
    pub reason_code: String,
    /// Provider that screened the wallets
    pub provider: OrNull<ScreeningProvider>,
    /// Result for each wallet
    #[oai(validator(max_items = 2))]
    pub wallet_results: Vec<AccessWalletResult>,
}

/// Balance of a wallet in one token.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PaymentOptionView {
    /// Balance of the wallet, human units. Example: `250`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub balance: String,
    /// Whether `balance` covers `neededAmount`. Example: `true`
    pub has_enough_balance: bool,
    /// Amount needed including all fees, human units. Example: `10.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub needed_amount: String,
}

/// What a wallet could pay with, by chain and token.
pub type PaymentOptionsView = BTreeMap<String, BTreeMap<String, PaymentOptionView>>;

/// Analytics of a secure payment.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct SecurePaymentAnalytics {
    /// Time of creation
    pub creation_timestamp: Option<Instant>,
    /// Amount that the payer pays in US dollars; absent unless the secure payment is paid in one stablecoin.
    /// Example: `102.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub total_payment_amount_usd: Option<String>,
    /// Fee of the service in US dollars, included in the amount that the payer pays. Example: `0.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub protocol_fee_amount_usd: Option<String>,
    /// Fee of the orchestrator on top of the amount, in US dollars, included in the amount that the payer pays.
    /// Example: `0.25`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub orchestrator_payer_fee_amount_usd: Option<String>,
    /// Fee of the orchestrator that is deducted from the amount, in US dollars. Example: `0`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub orchestrator_recipient_fee_amount_usd: Option<String>,
    /// Why the amounts in US dollars are absent; absent when they are present
    pub fee_amounts_usd_unavailable_reason: Option<NoFiguresReason>,
    /// Number of payments, without fees. Example: `1`
    #[oai(validator(minimum(value = "0"), maximum(value = "200")))]
    pub number_of_payments_excluding_fees: Option<u32>,
    /// Destinations that are paid; absent when the payee is masked
    #[oai(validator(max_items = 200))]
    pub destination_ids: Option<Vec<DestinationIdText>>,
}

/// Fields of every secure payment whose content is not hidden.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct SecurePaymentFacts {
    /// State
    pub status: SecurePaymentStatus,
    /// Where the payer can go after the payment. Example: `https://shop.example.com/thanks`
    #[oai(validator(max_length = 2048))]
    pub redirect_url: OrNull<String>,
    /// Text of the button; null for the default text. Example: `Back to the shop`
    #[oai(validator(max_length = 255))]
    pub redirect_label: OrNull<String>,
    /// Orchestrator that created the payment with a linked client ID, or null
    pub orchestrator_id: OrNull<UlidText>,
    /// Branding of the page
    pub branding: OrNull<Branding>,
    /// Analytics
    pub analytics: Option<SecurePaymentAnalytics>,
    /// Network of the payment
    pub network: NetworkText,
    /// Reference of the merchant
    pub reference: OrNull<MerchantReference>,
    /// Whether the payees are masked; absent when they are not. Example: `true`
    pub is_payee_address_masked: Option<bool>,
    /// Fees in US dollars; null unless the secure payment is paid in one stablecoin
    pub fee_plan: OrNull<FeePlanView>,
    /// Whether the payer may pay; absent without a wallet and when any wallet may pay
    pub access_decision: Option<AccessDecisionView>,
    /// Direction of the payment. Added by this service
    pub flow: PaymentFlow,
    /// Time of expiry. Added by this service
    pub expires_at: Instant,
    /// Whether another payment could be a duplicate. True while an unconfirmed payment is on the chain, for two minutes
    /// after a payer reported a payment, until a payment that this service broadcast can no longer arrive, and for half
    /// an hour after a payment page announced that it was about to request a payment from a wallet. An addition of this
    /// service. Example: `false`
    pub in_flight: bool,
}

/// A secure payment of one request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct SingleSecurePayment {
    /// Always `single`. Example: `single`
    pub payment_type: SecurePaymentKind,
    /// The request that the secure payment pays
    #[oai(validator(min_items = 1, max_items = 1))]
    pub request_ids: Vec<RequestIdText>,
    /// Payee; masked as `0x1234...abcd` when the creator requires it. Example: `0x70997970C51812dc3A010C7d01b50e0d17dc79C8`
    #[oai(validator(
        max_length = 42,
        pattern = r"^(0x[a-fA-F0-9]{40}|T[1-9A-HJ-NP-Za-km-z]{33}|[0-9A-Za-z]{6}\.\.\.[0-9A-Za-z]{4})$"
    ))]
    pub payee: String,
    /// Amount of the request including the fee of an orchestrator that the payee bears, human units
    pub amount: AmountText,
    /// Id of the currency that the payer sends
    pub payment_currency: CurrencyIdText,
    /// Whether the currency is the native coin of the network. Example: `false`
    pub is_native_currency: bool,
    /// Destination; null for a native coin
    pub destination: OrNull<SecurePaymentDestination>,
    /// What the wallet could pay with: one member for each chain, and within it one member for each token. Absent
    /// without a wallet that may pay. On Tron, they show the balance of an account of this service if no wallet is
    /// named, unless only some wallets may pay
    pub payment_options: Option<PaymentOptionsView>,
    /// Common fields
    #[oai(flatten)]
    pub facts: SecurePaymentFacts,
}

/// A secure payment of several requests.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct BatchSecurePayment {
    /// Always `batch`. Example: `batch`
    pub payment_type: SecurePaymentKind,
    /// The requests that the secure payment pays
    #[oai(validator(min_items = 1, max_items = 200))]
    pub request_ids: Vec<RequestIdText>,
    /// Payees, in the same order; masked as `0x1234...abcd` when the creator requires it
    #[oai(validator(min_items = 1, max_items = 200))]
    pub payees: Vec<PayeeText>,
    /// Amounts of the requests, in the same order, human units
    #[oai(validator(min_items = 1, max_items = 200))]
    pub amounts: Vec<AmountText>,
    /// Ids of the currencies, in the same order
    #[oai(validator(min_items = 1, max_items = 200))]
    pub payment_currencies: Vec<CurrencyIdText>,
    /// Whether each currency is the native coin of the network, in the same order. Example: `[false]`
    #[oai(validator(min_items = 1, max_items = 200))]
    pub is_native_currency: Vec<bool>,
    /// Destinations, in the same order; null for a native coin
    #[oai(validator(min_items = 1, max_items = 200))]
    pub destinations: Vec<OrNull<SecurePaymentDestination>>,
    /// What the wallet could pay with: one member for each chain, and within it one member for each token. Absent
    /// without a wallet that may pay
    pub payment_options: Option<PaymentOptionsView>,
    /// Common fields
    #[oai(flatten)]
    pub facts: SecurePaymentFacts,
}

/// Always `multicall`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum MulticallType {
    /// A link that pays other links
    Multicall,
}

/// A link that a multicall pays.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", example)]
pub struct MulticallChildView {
    /// Token of the link
    pub secure_payment_token: UlidText,
    /// Id of the request that the link pays
    pub request_id: RequestIdText,
    /// Position of the link in the multicall, from 0. Example: `0`
    #[oai(validator(minimum(value = "0"), maximum(value = "1000")))]
    pub position: u32,
    /// Whether the multicall can pay the link now. Example: `true`
    pub executable: bool,
    /// Why it cannot
    pub block_reason: OrNull<BlockReason>,
    /// Key of a message for `blockReason`; null without one. Example: `multicall.child.already_paid`
    #[oai(validator(max_length = 128, pattern = "^[a-z][a-z_.]*$"))]
    pub message_key: OrNull<String>,
    /// The link
    pub context: MulticallChildContext,
    /// How to continue
    pub recovery_action: OrNull<RecoveryAction>,
    /// Fees in US dollars; null unless the payment is in a stablecoin, and while the link is hidden
    pub fee_plan: OrNull<FeePlanView>,
    /// Amount, human units; null while the link is hidden. Example: `100`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub amount: OrNull<String>,
    /// Recipient; masked as `0x1234...abcd` when the creator requires it, null while the link is hidden
    pub payee: OrNull<PayeeText>,
    /// Reference of the merchant; null while the link is hidden
    pub reference: OrNull<MerchantReference>,
}

impl Example for MulticallChildView {
    fn example() -> Self {
        let (token, request_id) = (UlidText::example(), RequestIdText::example());
        Self {
            secure_payment_token: token.clone(),
            request_id: request_id.clone(),
            position: 0,
            executable: true,
            block_reason: OrNull(None),
            message_key: OrNull(None),
            context: MulticallChildContext {
                request_id,
                secure_payment_token: token,
                position: 0,
                has_been_paid: false,
                secure_payment_status: Some(SecurePaymentStatus::Pending),
                request_status: Some("pending".to_owned()),
                expires_at: "2030-01-07T12:00:00Z".parse().ok().map(Instant),
                network: Some(NetworkText::written(Network::Sepolia)),
                currency: Some(CurrencyIdText::written("FAU-sepolia")),
            },
            recovery_action: OrNull(None),
            fee_plan: OrNull(None),
            amount: OrNull(Some("100".to_owned())),
            payee: OrNull(Some(PayeeText::example())),
            reference: OrNull(Some(MerchantReference::example())),
        }
    }
}

/// Context of a link that a multicall pays.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct MulticallChildContext {
    /// Id of the request that the link pays
    pub request_id: RequestIdText,
    /// Token of the link
    pub secure_payment_token: UlidText,
    /// Position of the link in the multicall, from 0. Example: `0`
    #[oai(validator(minimum(value = "0"), maximum(value = "1000")))]
    pub position: u32,
    /// Whether the whole amount has arrived. Example: `false`
    pub has_been_paid: bool,
    /// State of the link; absent when it no longer exists
    pub secure_payment_status: Option<SecurePaymentStatus>,
    /// State of the request. Example: `pending`
    #[oai(validator(max_length = 32, pattern = "^[a-z][a-z_]*$"))]
    pub request_status: Option<String>,
    /// When the link expires; absent when it no longer exists
    pub expires_at: Option<Instant>,
    /// Network of the payment; absent while the link is hidden
    pub network: Option<NetworkText>,
    /// Id of the currency; absent while the link is hidden
    pub currency: Option<CurrencyIdText>,
}

/// Sum of a multicall in one currency.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct CurrencyTotalView {
    /// Network on which these links are paid
    pub network: NetworkText,
    /// Id of the currency of these links
    pub currency: CurrencyIdText,
    /// Sum of the amounts, human units. Example: `100`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub total_amount: String,
}

/// Sums of a multicall.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct MulticallTotals {
    /// Number of links. Example: `1`
    #[oai(validator(minimum(value = "0"), maximum(value = "1000")))]
    pub child_count: u32,
    /// Number of links that the multicall cannot pay now. Example: `0`
    #[oai(validator(minimum(value = "0"), maximum(value = "1000")))]
    pub blocked_child_count: u32,
    /// Sums by currency; empty while the link is hidden
    #[oai(validator(max_items = 150))]
    pub by_destination_currency: Vec<CurrencyTotalView>,
    /// Sums in the currency of all links, or in US dollars if all are in stablecoins. Absent when neither is possible,
    /// and while the link is hidden
    pub amount_summary: Option<FeeAmountSummary>,
}

/// A secure payment that pays other links in one transaction.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct MulticallSecurePayment {
    /// Always `multicall`
    pub payment_type: MulticallType,
    /// State
    pub status: MulticallStatus,
    /// Token of the multicall
    pub token: UlidText,
    /// Page for the payer; absent for payers. Added by this service
    pub secure_payment_url: Option<PayPageText>,
    /// Whether the transaction that pays all links can be issued now. Example: `true`
    pub can_execute: bool,
    /// Time of expiry: when the first of the links expires
    pub expires_at: Instant,
    /// Time of creation
    pub created_at: Instant,
    /// The links, in the order of the call
    #[oai(validator(min_items = 1, max_items = 150))]
    pub children: Vec<MulticallChildView>,
    /// Sums
    pub totals: MulticallTotals,
    /// Always null: the page of a multicall has no button. Example: `null`
    #[oai(validator(max_length = 2048))]
    pub redirect_url: OrNull<String>,
    /// Always null, as `redirectUrl` is. Example: `null`
    #[oai(validator(max_length = 255))]
    pub redirect_label: OrNull<String>,
    /// Orchestrator that created the links with a linked client ID, or null
    pub orchestrator_id: OrNull<UlidText>,
    /// Branding of the page
    pub branding: OrNull<Branding>,
    /// What the wallet could pay with: one member for each chain, and within it one member for each token. Absent
    /// without a wallet that may pay
    pub payment_options: Option<PaymentOptionsView>,
    /// Analytics
    pub analytics: SecurePaymentAnalytics,
    /// The requests, in the order of the links
    #[oai(validator(min_items = 1, max_items = 150))]
    pub request_ids: Vec<RequestIdText>,
    /// Whether the payer may pay; absent without a wallet and when any wallet may pay. Added by this service
    pub access_decision: Option<AccessDecisionView>,
    /// Whether another payment could be a duplicate, as for other links. Added by this service. Example: `false`
    pub in_flight: bool,
}

/// Whether a multicall can pay a link
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum ChildEligibility {
    /// It can
    Eligible,
    /// It cannot
    Stale,
}

/// Why a multicall cannot pay a link at its creation
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum StaleReason {
    /// The link has expired
    SecurePaymentExpired,
    /// The link was withdrawn, or combined with others
    SecurePaymentNotPending,
    /// It is paid
    AlreadyPaid,
    /// The chain shows an unconfirmed payment, or a Safe is about to pay
    RequestProcessing,
    /// Its request cannot be paid
    NotPayableChild,
}

/// A link of a created multicall.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct MulticallItem {
    /// Token of the link
    pub secure_payment_token: UlidText,
    /// Id of the request that the link pays
    pub request_id: RequestIdText,
    /// Position of the link in the call, from 0. Example: `0`
    #[oai(validator(minimum(value = "0"), maximum(value = "1000")))]
    pub position: u32,
    /// Whether the multicall can pay the link. Links on several networks are stale, because this version issues no
    /// transaction for them; any other link that cannot be paid keeps the multicall from being created
    pub eligibility: ChildEligibility,
    /// Why the multicall cannot pay the link; absent if it can
    pub stale_reason: Option<StaleReason>,
}

impl Example for MulticallItem {
    fn example() -> Self {
        Self {
            secure_payment_token: UlidText::example(),
            request_id: RequestIdText::example(),
            position: 0,
            eligibility: ChildEligibility::Eligible,
            stale_reason: None,
        }
    }
}

/// A created multicall.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct MulticallCreated {
    /// Always `multicall`
    #[oai(rename = "type")]
    pub kind: MulticallType,
    /// Token of the multicall
    pub token: UlidText,
    /// Page for the payer
    pub secure_payment_url: PayPageText,
    /// State: always `pending`
    pub status: MulticallStatus,
    /// Time of expiry: when the first of the links expires
    pub expires_at: Instant,
    /// Time of creation
    pub created_at: Instant,
    /// The links, in the order of the call
    #[oai(validator(min_items = 1, max_items = 150))]
    pub items: Vec<MulticallItem>,
}

// Its name is last in alphabetical order: the Go generator tries the alternatives in that order, and this one matches
// wherever the others do.
/// A secure payment that hides its content until its payer is approved.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct WithheldSecurePayment {
    /// One request or several
    pub payment_type: SecurePaymentKind,
    /// State
    pub status: SecurePaymentStatus,
    /// Orchestrator that created the payment with a linked client ID, or null
    pub orchestrator_id: OrNull<UlidText>,
    /// Branding of the page
    pub branding: OrNull<Branding>,
    /// Whether the payer may pay; absent without a wallet
    pub access_decision: Option<AccessDecisionView>,
    /// Time of expiry. Added by this service
    pub expires_at: Instant,
}

/// A secure payment as a payer sees it.
#[derive(Debug, Clone, Union)]
pub enum SecurePaymentView {
    /// Of one request
    Single(SingleSecurePayment),
    /// Of several
    Batch(BatchSecurePayment),
    /// Of several other links
    Multicall(Box<MulticallSecurePayment>),
    /// Before its payer is approved
    Withheld(WithheldSecurePayment),
}

/// One fee of a payment.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct FeeBundleLine {
    /// The request with which the fee is paid
    pub request_id: RequestIdText,
    /// Always null: fees of this service have no id. Example: `null`
    pub fee_component_id: OrNull<UlidText>,
    /// Kind of the fee
    pub fee_type: OrNull<FeeKind>,
    /// Name of the fee, for display. Example: `Platform fee`
    #[oai(validator(max_length = 64))]
    pub fee_label: OrNull<String>,
    /// Who bears it
    pub fee_bearer: OrNull<FeeBearer>,
    /// Amount of the fee, human units. Example: `0.25`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub amount: String,
    /// Id of the fee's currency
    pub payment_currency_id: CurrencyIdText,
    /// Network on which the fee is paid
    pub network: NetworkText,
    /// Chain id, in digits. Example: `11155111`
    #[oai(validator(max_length = 16, pattern = "^[1-9][0-9]{0,15}$"))]
    pub chain_id: String,
    /// Receiver of the fee
    pub recipient: WalletText,
}

/// Amounts of the payment and its fees, human units.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct FeeAmountSummary {
    /// Amount that the transactions pay for the requests, including the fees that the payees bear. Example: `10`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub gross_amount: String,
    /// Amount that the payees receive. Example: `10`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub net_recipient_amount: String,
    /// Sum of all fees. Example: `0.25`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub total_fees: String,
    /// Fees that the payees bear. Example: `0`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub payee_borne_fees: String,
    /// Fees that the payer bears. Example: `0.25`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub payer_borne_fees: String,
    /// Amount that the payer pays. Example: `10.25`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub payer_total: String,
}

/// The fees that the transactions pay.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct FeeBundle {
    /// Always null: the fees of a payment have no common id. Example: `null`
    pub bundle_id: OrNull<UlidText>,
    /// Who bears a fee if no other rule determines its bearer
    pub default_fee_bearer: OrNull<FeeBearer>,
    /// Totals; null with several currencies
    pub amount_summary: OrNull<FeeAmountSummary>,
    /// The fees, in the order in which the transaction pays them. One transfer may pay several fees of one receiver
    #[oai(validator(max_items = 400))]
    pub fees: Vec<FeeBundleLine>,
}

/// Facts about the transactions and their payer; balances in human units. Fields that need a wallet are absent without
/// one.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct SecureCalldataMetadata {
    /// Number of transactions. Example: `1`
    #[oai(validator(minimum(value = "1"), maximum(value = "100")))]
    pub steps_required: u32,
    /// Whether an approval is needed. Example: `false`
    pub needs_approval: bool,
    /// Always null: transactions are not sponsored. Example: `null`
    pub transaction_sponsorship_fee_usd: OrNull<AmountText>,
    /// Index of the approval; absent when there is none. Example: `0`
    pub approval_transaction_index: Option<u32>,
    /// Number of approvals, including a reset. Example: `0`
    pub approval_transactions_count: Option<u32>,
    /// Index of the transaction that pays: always the last one. Example: `0`
    pub payment_transaction_index: u32,
    /// Whether the wallet holds the amount and the fees. Example: `true`
    pub has_enough_balance: Option<bool>,
    /// Whether the wallet holds the network fee. Example: `true`
    pub has_enough_gas: Option<bool>,
    /// Fee of the platform; absent when there is none
    pub platform_fee: Option<PlatformFee>,
    /// Fee of the service; absent when there is none. A maximum per payment can reduce the fee below its percentage
    pub protocol_fee: Option<PlatformFee>,
    /// Always `samechain`. Example: `samechain`
    pub route_type: Option<RouteType>,
    /// Unix seconds until which a report with `safeTxHash` locks the link by default; absent unless a Safe pays.
    /// Example: `1896091200`
    #[oai(validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991")))]
    pub safe_payment_deadline: Option<i64>,
    /// Readiness of the payer
    #[oai(flatten)]
    pub readiness: PayerReadiness,
}

/// Facts about the transactions of a multicall and their payer.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct MulticallCalldataMetadata {
    /// Number of links. Example: `2`
    #[oai(validator(minimum(value = "0"), maximum(value = "1000")))]
    pub child_count: u32,
    /// Number of links that the payment pays: always all of them. Example: `2`
    #[oai(validator(minimum(value = "0"), maximum(value = "1000")))]
    pub executable_leg_count: u32,
    /// Common facts
    #[oai(flatten)]
    pub facts: SecureCalldataMetadata,
}

/// A transaction for the payer to sign and send, in the format of wallets.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct SecureTransaction {
    /// Encoded call. Example: `0x095ea7b300000000000000000000000067818703c92580c0e106e401f253e8a410a66f8b00000000000000000000000000000000000000000000000091b77e5e5d9a0000`
    #[oai(validator(max_length = 400000, pattern = "^0x([0-9a-f]{2})*$"))]
    pub data: String,
    /// Contract to call
    pub to: WalletText,
    /// Native coin to send, in its smallest unit: a hexadecimal number without leading zeros, such as
    /// `0x16345785d8a0000`. Example: `0x0`
    #[oai(validator(max_length = 66, pattern = "^0x(0|[1-9a-f][0-9a-f]{0,63})$"))]
    pub value: String,
    /// Chain on which to send the transaction. Example: `11155111`
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

/// The transactions that pay one request, in execution order.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct SingleCalldata {
    /// Always `single`. Example: `single`
    pub payment_type: SecurePaymentKind,
    /// Approvals of exactly the amount needed, then the payment
    #[oai(validator(min_items = 1, max_items = 100))]
    pub transactions: Vec<SecureTransaction>,
    /// Fees included in the payment
    pub fee_bundle: OrNull<FeeBundle>,
    /// Facts about the transactions
    pub metadata: SecureCalldataMetadata,
}

/// A token of which the wallet holds too little, in human units.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct InsufficientToken {
    /// Contract of the token; the zero address for the native coin. Example: `0x370DE27fdb7D1Ff1e1BaA7D11c5820a324Cf623C`
    #[oai(validator(max_length = 42, pattern = "^0x[a-fA-F0-9]{40}$"))]
    pub token_address: String,
    /// Symbol of the token
    pub token_symbol: Option<SymbolText>,
    /// Currency id of the token
    pub payment_currency_id: Option<CurrencyIdText>,
    /// Amount needed. Example: `10.25`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub required: String,
    /// Amount that the wallet holds. Example: `3`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub available: String,
}

/// Facts about the payer of a batch.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct BatchCalldataMetadata {
    /// Whether the wallet holds the amounts and the fees; true when no wallet was given. Example: `true`
    pub has_enough_balance: bool,
    /// Whether the wallet holds the network fee; null when no wallet was given. Example: `true`
    pub has_enough_gas: OrNull<bool>,
    /// Whether the wallet can pay; null when no wallet was given. Example: `true`
    pub can_make_payment: OrNull<bool>,
    /// Tokens of which the wallet holds too little
    #[oai(validator(max_items = 200))]
    pub insufficient_tokens: Vec<InsufficientToken>,
}

/// The transactions that pay several requests.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct BatchCalldata {
    /// Always `batch`. Added by this service. Example: `batch`
    pub payment_type: SecurePaymentKind,
    /// Approvals of exactly the amount needed, to be mined before the payment; empty when the allowances are enough
    #[oai(rename = "ERC20ApprovalTransactions", validator(max_items = 400))]
    pub erc20_approval_transactions: Vec<SecureTransaction>,
    /// Makes all payments, or none if one fails
    pub batch_payment_transaction: SecureTransaction,
    /// Facts about the payer
    pub metadata: BatchCalldataMetadata,
    /// Fees included in the payment. Added by this service
    pub fee_bundle: OrNull<FeeBundle>,
    /// The requests that the transactions pay; paid ones are left out. Added by this service
    #[oai(validator(min_items = 1, max_items = 200))]
    pub request_ids: Vec<RequestIdText>,
}

/// A payment of a multicall.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct MulticallLeg {
    /// Position of the link, from 0. Example: `0`
    #[oai(validator(minimum(value = "0"), maximum(value = "1000")))]
    pub position: u32,
    /// Token of the link
    pub secure_payment_token: UlidText,
    /// Id of the request that this payment settles
    pub request_id: RequestIdText,
    /// Wallet that gets the amount
    pub payee: WalletText,
    /// Amount that the recipient gets, human units. Example: `100`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub amount: String,
    /// Id of the currency that the recipient gets
    pub payment_currency: CurrencyIdText,
    /// Reference that the payment carries on chain
    pub payment_reference: OrNull<ReferenceText>,
    /// Contract of `paymentCurrency`; null for a native coin
    pub payment_currency_address: OrNull<WalletText>,
    /// Contract of the token that the payer sends; null for a native coin
    pub source_token_address: OrNull<WalletText>,
    /// Same as `paymentCurrencyAddress`
    pub token_address: OrNull<WalletText>,
    /// Network of the payment
    pub network: NetworkText,
}

/// The transactions that pay a multicall: one payment transaction after the approvals.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct MulticallCalldata {
    /// Always `multicall`
    pub payment_type: MulticallType,
    /// How the multicall is paid
    pub execution_kind: ExecutionKind,
    /// Token of the multicall
    pub token: UlidText,
    /// Network of the payment
    pub network: NetworkText,
    /// Chain ID of the network. Example: `11155111`
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub chain_id: u64,
    /// Tokens of the links, in order
    #[oai(validator(min_items = 1, max_items = 150))]
    pub child_tokens: Vec<UlidText>,
    /// The requests, in order
    #[oai(validator(min_items = 1, max_items = 150))]
    pub request_ids: Vec<RequestIdText>,
    /// The payments, in order
    #[oai(validator(min_items = 1, max_items = 150))]
    pub children: Vec<MulticallLeg>,
    /// Recipients, in order
    #[oai(validator(min_items = 1, max_items = 150))]
    pub payees: Vec<WalletText>,
    /// Amounts that the recipients get, in order, human units
    #[oai(validator(min_items = 1, max_items = 150))]
    pub amounts: Vec<AmountText>,
    /// References of the payments, in order
    #[oai(validator(min_items = 1, max_items = 150))]
    pub references: Vec<OrNull<ReferenceText>>,
    /// Approvals of exactly the amounts needed, then the transaction that makes all payments or none
    #[oai(validator(min_items = 1, max_items = 400))]
    pub transactions: Vec<SecureTransaction>,
    /// Fees included in the payment
    pub fee_bundle: OrNull<FeeBundle>,
    /// Facts about the transactions and their payer
    pub metadata: MulticallCalldataMetadata,
}

/// The transactions that pay a secure payment.
#[derive(Debug, Clone, Union)]
pub enum SecureCalldata {
    /// For one request
    Single(Box<SingleCalldata>),
    /// For several requests
    Batch(Box<BatchCalldata>),
    /// For several other links
    Multicall(Box<MulticallCalldata>),
}

/// Which call of a user operation pays which link of a multicall.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct TransactionIndexBody {
    /// Position of the link, from 0. Example: `0`
    #[oai(validator(minimum(value = "0"), maximum(value = "1000")))]
    pub child_position: u32,
    /// Index of the call in the user operation, from 0. Example: `1`
    #[oai(validator(minimum(value = "0"), maximum(value = "1000")))]
    pub transaction_index: u32,
}

/// Payment that a payer reports.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct RecordIntentBody {
    /// Hash of a sent transaction
    #[oai(nullable)]
    pub tx_hash: Option<TxHash>,
    /// Hash of a transaction of a Safe, which its owners are about to sign; locks the link
    #[oai(nullable)]
    pub safe_tx_hash: Option<TxHash>,
    /// When the lock ends at the latest, in Unix seconds and in the future; needs `safeTxHash`. Example: `1896091200`
    #[oai(
        nullable,
        validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991"))
    )]
    pub safe_payment_deadline: Option<i64>,
    /// Chain on which the payment is sent; must be the chain of the payment
    pub chain: PaymentChain,
    /// Symbol of the token that is sent; must be the token of the payment. Required unless `userOpHash` is set.
    /// Example: `FAU`
    #[oai(nullable)]
    pub token: Option<SymbolText>,
    /// Account that pays
    #[oai(nullable)]
    pub payer_address: Option<WalletText>,
    /// Externally owned account behind `payerAddress`
    #[oai(nullable)]
    pub payer_eoa_address: Option<WalletText>,
    /// Must be absent or `evm_same_chain`: cross-chain payments are not supported yet. Example: `evm_same_chain`
    #[oai(nullable, validator(max_length = 32))]
    pub execution_kind: Option<String>,
    /// Id of the network on which the payment is sent; must be the network of `chain`. Example: `sepolia`
    #[oai(nullable, validator(max_length = 64))]
    pub source_network: Option<String>,
    /// Symbol of the token that is sent; must be the same as `token`. Example: `FAU`
    #[oai(nullable, validator(max_length = 64))]
    pub source_token: Option<String>,
    /// Amount that is sent; only stored, because the chain shows what arrives
    #[oai(nullable)]
    pub source_amount: Option<AskedAmountText>,
    /// Must be absent or `same_chain`: cross-chain payments and swaps are not supported yet. Example: `same_chain`
    #[oai(nullable, validator(max_length = 32))]
    pub route_kind: Option<String>,
    /// Must be absent: cross-chain payments are not supported yet. Example: `across`
    #[oai(nullable, validator(max_length = 32))]
    pub bridge_tool: Option<String>,
    /// Smart account that pays a multicall; needs `userOpHash`
    #[oai(nullable)]
    pub smart_account_address: Option<WalletText>,
    /// Hash of a user operation that pays a multicall; needs `smartAccountAddress` and `transactionIndices`
    #[oai(nullable)]
    pub user_op_hash: Option<TxHash>,
    /// Which call of the user operation pays which link of the multicall; needs `userOpHash`
    #[oai(nullable, validator(max_items = 250))]
    pub transaction_indices: Option<Vec<TransactionIndexBody>>,
}

impl Example for RecordIntentBody {
    fn example() -> Self {
        Self {
            tx_hash: Some(TxHash::example()),
            safe_tx_hash: None,
            safe_payment_deadline: None,
            chain: PaymentChain::Sepolia,
            token: Some(SymbolText::written("FAU")),
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
            transaction_indices: None,
        }
    }
}

/// Values that the response about a user operation repeats.
#[derive(Debug, Clone)]
pub struct EchoedIntent {
    /// Hash of the transaction.
    pub tx_hash: Option<TxHash>,
    /// Hash of the transaction of a Safe.
    pub safe_tx_hash: Option<TxHash>,
    /// Deadline of the Safe.
    pub safe_payment_deadline: Option<i64>,
    /// Chain of the payment.
    pub chain: PaymentChain,
}

/// A recorded payment. It settles nothing: a payment counts when the chain shows it.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct IntentRecorded {
    /// Id of the record; another report of the same hash returns the same id
    pub intent_id: UlidText,
    /// Reference that the payment carries on chain
    pub payment_reference: ReferenceText,
    /// Hash of the transaction; for a Safe, the transaction that executed the payment, absent until then
    pub tx_hash: Option<TxHash>,
    /// Hash of the transaction of the Safe; absent unless a Safe pays
    pub safe_tx_hash: Option<TxHash>,
    /// Unix seconds until which the link is locked; absent unless a Safe pays. Example: `1896091200`
    #[oai(validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991")))]
    pub safe_payment_deadline: Option<i64>,
    /// Whether the service has issued calldata, and so expects a payment. Example: `true`
    pub is_listening: bool,
    /// Account that pays; absent when it was not given
    pub payer_address: Option<WalletText>,
}

/// A recorded user operation that pays a multicall. It decides nothing: each link is paid when the chain shows its
/// payment.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct MulticallReceipt {
    /// Id of the record; another report of the same user operation returns the same id
    pub receipt_id: UlidText,
    /// Token of the multicall
    pub multicall_id: UlidText,
    /// Same as `multicallId`
    pub parent_token: UlidText,
    /// Hash of the transaction; absent if the report had none
    pub tx_hash: Option<TxHash>,
    /// Hash of the transaction of a Safe; absent if the report had none
    pub safe_tx_hash: Option<TxHash>,
    /// Deadline of the Safe in Unix seconds; absent if the report had none. Example: `1896091200`
    #[oai(validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991")))]
    pub safe_payment_deadline: Option<i64>,
    /// Chain on which the payment is sent
    pub source_chain: PaymentChain,
    /// Smart account that pays
    pub smart_account_address: WalletText,
    /// Hash of the user operation
    pub user_op_hash: TxHash,
    /// Which call of the user operation pays which link
    #[oai(validator(min_items = 1, max_items = 250))]
    pub transaction_indices: Vec<TransactionIndexBody>,
    /// Always false: a user operation is not followed. Example: `false`
    pub is_listening: bool,
}

/// A recorded payment.
#[derive(Debug, Clone, Union)]
pub enum RecordedIntentView {
    /// A transaction, or a transaction of a Safe
    Single(IntentRecorded),
    /// A user operation
    Multicall(MulticallReceipt),
}

/// A transaction that nodes have. It settles nothing: a payment counts when the chain shows it.
#[derive(Debug, Clone, Object)]
#[oai(skip_serializing_if_is_none)]
pub struct TransactionSent {
    /// Always true: every other outcome is an error. Example: `true`
    pub result: bool,
    /// Hash of the transaction
    pub txid: PlainTxHash,
    /// `DUP_TRANSACTION_ERROR` if the nodes had the transaction before this call, which is no error; absent otherwise.
    /// Example: `DUP_TRANSACTION_ERROR`
    #[oai(validator(max_length = 64))]
    pub code: Option<String>,
    /// What `code` means; absent without it. Example: `The nodes have this transaction already`
    #[oai(validator(max_length = 255))]
    pub message: Option<String>,
}

/// A released link.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct SecurePaymentReleased {
    /// Token of the link
    pub token: UlidText,
    /// State
    pub status: SecurePaymentStatus,
    /// Whether a Safe locks the link: always false. Example: `false`
    pub is_locked: bool,
}

/// Whether the page of a secure payment has custom branding.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct BrandingSummary {
    /// Whether the page has custom branding. Example: `false`
    pub whitelabel_enabled: bool,
    /// Whose branding the page has
    pub source: BrandingSource,
}

/// Screening result of a wallet.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct KytResult {
    /// Wallet that was screened
    pub wallet_address: WalletText,
    /// Kind of the wallet
    pub wallet_type: WalletAccountType,
    /// Smart account that this wallet controls, as the parameter `eoaWallet` of the call claims; not proven
    pub parent_wallet_address: OrNull<WalletText>,
    /// Result of the screening
    pub status: OrNull<AccessStatus>,
    /// Reason for the result of the screening, as a code. Example: `sanctioned`
    #[oai(validator(max_length = 64, pattern = "^[a-z][a-z_]*$"))]
    pub reason_code: OrNull<String>,
    /// Provider that screened the wallet
    pub provider: OrNull<ScreeningProvider>,
    /// Id of the result at the provider. Example: `scr_8841`
    #[oai(validator(max_length = 255))]
    pub provider_reference: OrNull<String>,
    /// Report page of the provider. Example: `https://screening.example.com/scr_8841`
    #[oai(validator(max_length = 2048))]
    pub report_url: OrNull<String>,
    /// Notes of the provider. Example: `Low risk`
    #[oai(validator(max_length = 1024))]
    pub notes: OrNull<String>,
    /// Status as the provider calls it. Example: `approve`
    #[oai(validator(max_length = 64))]
    pub raw_status: OrNull<String>,
    /// When the wallet was screened
    pub evaluated_at: OrNull<Instant>,
}

/// A secure payment as its owner sees it.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct OwnSecurePayment {
    /// Token: anyone with it can read and pay the secure payment
    pub token: UlidText,
    /// Page for the payer
    pub secure_payment_url: PayPageText,
    /// State
    pub status: SecurePaymentStatus,
    /// One request or several
    pub payment_type: SecurePaymentKind,
    /// Time of creation
    pub created_at: OrNull<Instant>,
    /// Time of expiry
    pub expires_at: Instant,
    /// Where the payer can go after the payment. Example: `https://shop.example.com/thanks`
    #[oai(validator(max_length = 2048))]
    pub redirect_url: OrNull<String>,
    /// Text of the button; null for the default text. Example: `Back to the shop`
    #[oai(validator(max_length = 255))]
    pub redirect_label: OrNull<String>,
    /// When the last request of the secure payment was paid
    pub completed_at: OrNull<Instant>,
    /// Payer of the request that was paid last
    pub payer_address: OrNull<WalletText>,
    /// Payers that were screened
    #[oai(validator(max_items = 1000))]
    pub payer_kyt_results: Vec<KytResult>,
    /// Recipients that were screened
    #[oai(validator(max_items = 1000))]
    pub payee_kyt_results: Vec<KytResult>,
    /// Destination; null for several payouts and for a native coin
    pub destination: OrNull<SecurePaymentDestination>,
    /// The destination if the owner of its wallet has set it up, otherwise null
    pub claimed_destination: OrNull<SecurePaymentDestination>,
    /// Orchestrator that created the payment with a linked client ID, or null
    pub orchestrator_id: OrNull<UlidText>,
    /// Fees in US dollars; null unless the secure payment is paid in one stablecoin
    pub fee_plan: OrNull<FeePlanView>,
    /// Network of the payments
    pub network: NetworkText,
    /// Id of the currency; null with several currencies
    pub currency: OrNull<CurrencyIdText>,
    /// How the secure payment is paid
    pub execution_kind: OrNull<ExecutionKind>,
    /// How the secure payment was created
    pub identity_mode: IdentityMode,
    /// Client ID that created the secure payment. Example: `cli_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5`
    #[oai(validator(max_length = 64, pattern = "^cli_[0-9A-Za-z]{30}$"))]
    pub client_id: OrNull<String>,
    /// Branding of the page
    pub branding: BrandingSummary,
    /// Whether a multicall can pay it now. Example: `false`
    pub child_executable: bool,
    /// Why a multicall cannot pay it now; null if it can
    pub block_reason: OrNull<BlockReason>,
    /// Wallets that may pay; empty if any wallet may pay. Added by this service
    #[oai(validator(max_items = 1000))]
    pub allowed_payer_addresses: Vec<WalletText>,
    /// Your own identifier for the payer. Added by this service. Example: `customer-17`
    #[oai(validator(max_length = 255))]
    pub payer_identifier: OrNull<String>,
    /// Your own identifier for the recipient. Added by this service. Example: `supplier-3`
    #[oai(validator(max_length = 255))]
    pub recipient_identifier: OrNull<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payee_is_an_address_of_either_family_in_full_or_masked() {
        for payee in [
            "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
            "0x7099...79C8",
            "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8",
            "TJRabP...RTv8",
        ] {
            assert!(PayeeText::parse(payee).is_ok(), "{payee}");
        }
        for other in [
            "0x7099…79C8",
            "TJRab...RTv8",
            "TJRabP...RTv8x",
            "70997970...79C8",
            "TJRab0...RTv8",
        ] {
            assert!(PayeeText::parse(other).is_err(), "{other}");
        }
    }
}
