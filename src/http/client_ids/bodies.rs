//! Bodies of the operations on client IDs, for API keys and for sessions.

use crate::{
    domain::{client_id::ClientStatus, network::Network, orchestrator::LinkStatus},
    http::{forms::shape::shape, operation::*},
};
use poem_openapi::{
    registry::{MetaSchema, MetaSchemaRef, Registry},
    types::{MaybeUndefined, ParseError, ParseFromJSON, ParseResult, ToJSON},
};
use serde_json::Value;

text! {
    /// Page that may use a client ID, as an origin. The domain layer decides which schemes and hosts are accepted.
    DomainText {
        pattern: r"^https?://[^\s\x00-\x1f\x7f-\x9f]{1,250}$",
        length_max: 255,
        format: "uri",
        example: "https://shop.example.com",
        hint: "must be an origin such as https://shop.example.com: https (http only for localhost, 127.0.0.1 or [::1]), no path, query, fragment or user name",
    }
    /// Row id of a client ID; opaque to callers.
    ClientRowText {
        pattern: "^[0-9A-Za-z_-]{1,64}$",
        length_max: 64,
        example: "01K9Z0T3G9R5M1N2P3Q4R5S6T7",
        hint: "must be the `id` of a client ID from the list: letters and digits only",
    }
}

/// Maximum amount of one request, and maximum total of a link or a batch.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct AmountLimit {
    /// Amount in human units
    pub amount: AskedAmountText,
    /// Currency of the limit. Requests in another currency are rejected, except that dollars and dollar tokens (USDC,
    /// USDT, DAI) are compared with each other
    pub currency: CurrencyIdText,
}

/// Limits of a client ID. In an update, an absent member leaves its limit unchanged, and null removes the limit.
#[derive(Debug, Clone, Default, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct ClientIdLimitsChange {
    /// The only wallets allowed as payee. Null allows any wallet; an absent member does so at creation and changes
    /// nothing in an update. Example: `["0x70997970C51812dc3A010C7d01b50e0d17dc79C8"]`
    #[oai(nullable, validator(min_items = 1, max_items = 20, unique_items))]
    pub allowed_payees: MaybeUndefined<Vec<WalletText>>,
    /// The only currencies allowed, for the amount and for the payment. Null allows any currency; an absent member does
    /// so at creation and changes nothing in an update. Example: `["FAU-sepolia"]`
    #[oai(nullable, validator(min_items = 1, max_items = 50, unique_items))]
    pub allowed_currencies: MaybeUndefined<Vec<CurrencyIdText>>,
    /// The only networks allowed for payment. Null allows any network; an absent member does so at creation and changes
    /// nothing in an update. Example: `["sepolia"]`
    #[oai(nullable, validator(min_items = 1, max_items = 8, unique_items))]
    pub allowed_networks: MaybeUndefined<Vec<Network>>,
    /// Maximum amount of one request, and maximum total of a link or a batch. Null allows any amount; an absent member
    /// does so at creation and changes nothing in an update
    #[oai(nullable)]
    pub max_amount: MaybeUndefined<AmountLimit>,
}

/// A new client ID.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreateClientIdBody {
    /// Display name
    pub label: NameText,
    /// Pages that may use the client ID: https origins without a path, or http for localhost. Stored as origins.
    /// Example: `["https://shop.example.com"]`
    #[oai(validator(min_items = 1, max_items = 10, unique_items))]
    pub allowed_domains: Vec<DomainText>,
    /// Fee in percent, 0 to 100 with at most 2 fraction digits. Requests that this client ID creates from now on carry
    /// the fee. When this client ID gets calldata for a request of another caller, the fee is added if that request has
    /// no fee of a client ID. Where the fee applies and is not 0, it replaces the fee that the call sets
    pub fee_percentage: Option<PercentText>,
    /// Fee receiver; required with `feePercentage`
    pub fee_address: Option<WalletText>,
    /// Not allowed here: bind a payee destination with a session of its wallet, using `POST /v1/client-ids` or `PUT /v1/client-ids/{id}`. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 64))]
    pub payee_destination_id: Option<String>,
    /// Operator wallet for commerce payments; the service stores the value and does not use it
    pub operator_wallet_address: Option<WalletText>,
    /// Expiry of pre-approvals of commerce payments in seconds; the service stores the value and does not use it.
    /// Example: `3600`
    #[oai(validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991")))]
    pub default_pre_approval_expiry: Option<i64>,
    /// Expiry of authorizations of commerce payments in seconds; the service stores the value and does not use it.
    /// Example: `86400`
    #[oai(validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991")))]
    pub default_authorization_expiry: Option<i64>,
    /// Limits
    #[oai(flatten)]
    pub limits: ClientIdLimitsChange,
}

impl Example for CreateClientIdBody {
    fn example() -> Self {
        Self {
            label: NameText::example(),
            allowed_domains: vec![DomainText::written(DomainText::EXAMPLE)],
            fee_percentage: None,
            fee_address: None,
            payee_destination_id: None,
            operator_wallet_address: None,
            default_pre_approval_expiry: None,
            default_authorization_expiry: None,
            limits: ClientIdLimitsChange::default(),
        }
    }
}

/// A new client ID, created with a session.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreateOwnClientIdBody {
    /// Display name
    pub label: NameText,
    /// Pages that may use the client ID; empty for a backend client ID, which works without `Origin`.
    /// Example: `["https://shop.example.com"]`
    #[oai(validator(max_items = 10, unique_items))]
    pub allowed_domains: Option<Vec<DomainText>>,
    /// Fee in percent, 0 to 100 with at most 2 fraction digits. Requests that this client ID creates from now on carry
    /// the fee. When this client ID gets calldata for a request of another caller, the fee is added if that request has
    /// no fee of a client ID. Where the fee applies and is not 0, it replaces the fee that the call sets
    #[oai(nullable)]
    pub fee_percentage: Option<PercentText>,
    /// Fee receiver; required with `feePercentage`
    #[oai(nullable)]
    pub fee_address: Option<WalletText>,
    /// Row id of the active payee destination to which the client ID is bound: requests created with this client ID can
    /// be paid only to the wallet of the destination. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(nullable, validator(max_length = 64))]
    pub payee_destination_id: Option<String>,
    /// Operator wallet for commerce payments; the service stores the value and does not use it
    #[oai(nullable)]
    pub operator_wallet_address: Option<WalletText>,
    /// Expiry of pre-approvals of commerce payments in seconds; the service stores the value and does not use it.
    /// Example: `3600`
    #[oai(
        nullable,
        validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991"))
    )]
    pub default_pre_approval_expiry: Option<i64>,
    /// Expiry of authorizations of commerce payments in seconds; the service stores the value and does not use it.
    /// Example: `86400`
    #[oai(
        nullable,
        validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991"))
    )]
    pub default_authorization_expiry: Option<i64>,
    /// Limits
    #[oai(flatten)]
    pub limits: ClientIdLimitsChange,
}

impl Example for CreateOwnClientIdBody {
    fn example() -> Self {
        Self {
            label: NameText::example(),
            allowed_domains: Some(vec![DomainText::written(DomainText::EXAMPLE)]),
            fee_percentage: None,
            fee_address: None,
            payee_destination_id: None,
            operator_wallet_address: None,
            default_pre_approval_expiry: None,
            default_authorization_expiry: None,
            limits: ClientIdLimitsChange::default(),
        }
    }
}

/// Component name of [`Network`].
const NETWORK: &str = "PaymentNetwork";

shape! {
    Network, NETWORK, { MetaSchemaRef::Reference(NETWORK.to_owned()) },
    |registry: &mut Registry| {
        registry.create_schema::<Self, _>(NETWORK.to_owned(), |_| MetaSchema {
            description: Some("Payment network"),
            enum_items: Self::ALL.iter().map(|network| network.id().into()).collect(),
            ..MetaSchema::new("string")
        });
    }
}

impl ToJSON for Network {
    fn to_json(&self) -> Option<Value> {
        Some(self.id().into())
    }
}

impl ParseFromJSON for Network {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        let text = value.as_ref().and_then(Value::as_str).unwrap_or_default();
        Self::from_id(text).ok_or_else(|| ParseError::custom(format!("must be one of {}", Self::ids_in_words())))
    }
}

words! {
    /// State of a client ID: active, inactive (can be reactivated), or revoked permanently
    ClientStatus as "ClientIdStatus";
}

words! {
    /// State of a link: active, or permanently ended
    LinkStatus as "OrchestratorLinkStatus";
}

/// Link of a client ID to an orchestrator.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ClientIdLink {
    /// The orchestrator
    pub orchestrator_id: UlidText,
    /// State
    pub status: LinkStatus,
    /// When the orchestrator linked the client ID
    pub linked_at: Instant,
}

/// Changes to the fee and the stored values of a client ID.
#[derive(Debug, Clone, Default, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct ClientIdTermsChange {
    /// Fee in percent. After the change, the fee and its receiver must both be set or both be absent
    #[oai(nullable)]
    pub fee_percentage: MaybeUndefined<PercentText>,
    /// Fee receiver
    #[oai(nullable)]
    pub fee_address: MaybeUndefined<WalletText>,
    /// Operator wallet
    #[oai(nullable)]
    pub operator_wallet_address: MaybeUndefined<WalletText>,
    /// Expiry of pre-approvals of commerce payments in seconds; only stored. Example: `3600`
    #[oai(
        nullable,
        validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991"))
    )]
    pub default_pre_approval_expiry: MaybeUndefined<i64>,
    /// Expiry of authorizations of commerce payments in seconds; only stored. Example: `86400`
    #[oai(
        nullable,
        validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991"))
    )]
    pub default_authorization_expiry: MaybeUndefined<i64>,
}

/// Changes that a caller with an API key makes to a client ID: an absent member stays unchanged, null unsets a value.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct UpdateClientIdBody {
    /// Display name
    pub label: Option<NameText>,
    /// Pages that may use the client ID; replaces the whole list. Example: `["https://shop.example.com"]`
    #[oai(validator(min_items = 1, max_items = 10, unique_items))]
    pub allowed_domains: Option<Vec<DomainText>>,
    /// Not allowed here: bind a payee destination with a session of its wallet, using `POST /v1/client-ids` or `PUT /v1/client-ids/{id}`. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 64))]
    pub payee_destination_id: Option<String>,
    /// Fee and stored values
    #[oai(flatten)]
    pub terms: ClientIdTermsChange,
    /// Limits
    #[oai(flatten)]
    pub limits: ClientIdLimitsChange,
    /// Orchestrator that may link the client ID and then create its payments; null withdraws this consent. An active
    /// link to an orchestrator ends permanently when this member becomes null or names another orchestrator.
    /// Example: `null`
    #[oai(nullable)]
    pub orchestrator_id: MaybeUndefined<UlidText>,
    /// State; `revoked` is permanent
    pub status: Option<ClientStatus>,
}

impl Example for UpdateClientIdBody {
    fn example() -> Self {
        Self {
            label: Some(NameText::example()),
            allowed_domains: Some(vec![DomainText::written(DomainText::EXAMPLE)]),
            payee_destination_id: None,
            terms: ClientIdTermsChange::default(),
            limits: ClientIdLimitsChange::default(),
            orchestrator_id: MaybeUndefined::Undefined,
            status: Some(ClientStatus::Active),
        }
    }
}

/// Changes that a caller with a session makes to a client ID: an absent member stays unchanged, null unsets a value.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct UpdateOwnClientIdBody {
    /// Display name
    pub label: Option<NameText>,
    /// Pages that may use the client ID; replaces the whole list. A client ID with pages is public and must keep at
    /// least one page. Example: `["https://shop.example.com"]`
    #[oai(validator(max_items = 10, unique_items))]
    pub allowed_domains: Option<Vec<DomainText>>,
    /// Row id of the active payee destination to which the client ID is bound; null ends the binding.
    /// Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(nullable, validator(max_length = 64))]
    pub payee_destination_id: MaybeUndefined<String>,
    /// Fee and stored values
    #[oai(flatten)]
    pub terms: ClientIdTermsChange,
    /// Limits
    #[oai(flatten)]
    pub limits: ClientIdLimitsChange,
    /// Orchestrator that may link the client ID and then create its payments; null withdraws this consent. An active
    /// link to an orchestrator ends permanently when this member becomes null or names another orchestrator.
    /// Example: `null`
    #[oai(nullable)]
    pub orchestrator_id: MaybeUndefined<UlidText>,
    /// State; `revoked` is permanent
    pub status: Option<ClientStatus>,
}

impl Example for UpdateOwnClientIdBody {
    fn example() -> Self {
        Self {
            label: Some(NameText::example()),
            allowed_domains: Some(vec![DomainText::written(DomainText::EXAMPLE)]),
            payee_destination_id: MaybeUndefined::Undefined,
            terms: ClientIdTermsChange::default(),
            limits: ClientIdLimitsChange::default(),
            orchestrator_id: MaybeUndefined::Undefined,
            status: Some(ClientStatus::Active),
        }
    }
}

/// Identification of a client ID.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ClientIdNames {
    /// Row id for the management operations. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    pub id: UlidText,
    /// The client ID that calls send in `x-client-id`
    pub client_id: ClientIdText,
    /// Display name
    pub label: NameText,
    /// Pages that may use the client ID, as origins; empty for a backend client ID.
    /// Example: `["https://shop.example.com"]`
    #[oai(validator(max_items = 10, unique_items))]
    pub allowed_domains: Vec<DomainText>,
    /// State
    pub status: ClientStatus,
    /// Orchestrator that may link the client ID, or null
    pub orchestrator_id: OrNull<UlidText>,
    /// Link of the client ID to an orchestrator, active or ended; null if it was never linked
    pub orchestrator_link: OrNull<ClientIdLink>,
}

/// Fee and stored values of a client ID.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ClientIdTerms {
    /// Fee in percent, or null
    pub fee_percentage: OrNull<PercentText>,
    /// Fee receiver, or null
    pub fee_address: OrNull<WalletText>,
    /// Operator wallet, or null
    pub operator_wallet_address: OrNull<WalletText>,
    /// Expiry of pre-approvals of commerce payments in seconds, or null; only stored. Example: `3600`
    #[oai(validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991")))]
    pub default_pre_approval_expiry: OrNull<i64>,
    /// Expiry of authorizations of commerce payments in seconds, or null; only stored. Example: `86400`
    #[oai(validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991")))]
    pub default_authorization_expiry: OrNull<i64>,
    /// The only wallets allowed as payee, or null for any. Example: `["0x70997970C51812dc3A010C7d01b50e0d17dc79C8"]`
    #[oai(validator(max_items = 20, unique_items))]
    pub allowed_payees: OrNull<Vec<WalletText>>,
    /// The only currencies allowed, or null for any. Example: `["FAU-sepolia"]`
    #[oai(validator(max_items = 50, unique_items))]
    pub allowed_currencies: OrNull<Vec<CurrencyIdText>>,
    /// The only networks allowed for payment, or null for any. Example: `["sepolia"]`
    #[oai(validator(max_items = 8, unique_items))]
    pub allowed_networks: OrNull<Vec<Network>>,
    /// Maximum amount of one request, and maximum total of a link or a batch, or null for any
    pub max_amount: OrNull<AmountLimit>,
}

/// A newly created client ID.
///
/// A client ID with pages in `allowedDomains` is public: anyone can copy it from a page and use it from a program that
/// sends any `Origin`. Bind a public client ID to a payee destination, or set `allowedPayees`. Otherwise anyone can
/// create requests with your references that pay their own wallet.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ClientIdCreated {
    /// Names
    #[oai(flatten)]
    pub names: ClientIdNames,
    /// Fee and stored values
    #[oai(flatten)]
    pub terms: ClientIdTerms,
    /// Time of creation
    pub created_at: Instant,
}

/// A client ID in a list.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ClientIdSummary {
    /// Names
    #[oai(flatten)]
    pub names: ClientIdNames,
    /// Time of creation
    pub created_at: Instant,
    /// Last authenticated use, updated at most once a minute; null before the first use
    pub last_used_at: OrNull<Instant>,
}

/// A client ID with all its details.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ClientIdDetail {
    /// Members of the creation response
    #[oai(flatten)]
    pub created: ClientIdCreated,
    /// Last change
    pub updated_at: Instant,
    /// Last authenticated use, updated at most once a minute; null before the first use
    pub last_used_at: OrNull<Instant>,
}

/// A changed client ID.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ClientIdUpdated {
    /// Names
    #[oai(flatten)]
    pub names: ClientIdNames,
    /// Fee and stored values
    #[oai(flatten)]
    pub terms: ClientIdTerms,
    /// Time of the change
    pub updated_at: Instant,
}

/// A client ID as a signed-in person sees it.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct OwnClientId {
    /// Its details
    #[oai(flatten)]
    pub detail: ClientIdDetail,
    /// Row id of the payee destination that the client ID is bound to, or null
    pub payee_destination_id: OrNull<UlidText>,
}

/// Confirmation.
#[derive(Debug, Clone, Object)]
pub struct ClientIdRevoked {
    /// Always true. Example: `true`
    pub success: bool,
}
