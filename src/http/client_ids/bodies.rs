//! Bodies of the operations on client IDs, for API keys and for people who signed in.

use crate::{
    domain::{client_id::ClientStatus, network::Network},
    http::{forms::shape::shape, operation::*},
};
use poem_openapi::{
    registry::{MetaSchema, MetaSchemaRef, Registry},
    types::{MaybeUndefined, ParseError, ParseFromJSON, ParseResult, ToJSON},
};
use serde_json::Value;

text! {
    /// Page that may use a client ID, as an origin. Which schemes and hosts are accepted is a rule of the domain.
    DomainText {
        pattern: r"^https?://[^\s\x00-\x1f\x7f-\x9f]{1,250}$",
        length_max: 255,
        format: "uri",
        example: "https://shop.example.com",
        hint: "must be an origin such as https://shop.example.com: https (http only for localhost, 127.0.0.1 or [::1]), no path, query, fragment or user name",
    }
    /// Public text of a client ID.
    ClientIdText {
        pattern: "^cli_[0-9A-Za-z]{30}$",
        length_max: 34,
        example: "cli_8Jd2kLmN0pQrStUvWxYz1234567890",
        hint: "must be a client ID: cli_ and 30 letters or digits",
    }
    /// Row id of a client ID, opaque to callers.
    ClientRowText {
        pattern: "^[0-9A-Za-z_-]{1,64}$",
        length_max: 64,
        example: "01K9Z0T3G9R5M1N2P3Q4R5S6T7",
        hint: "must be the id of a client ID as the list shows it: letters and digits only",
    }
}

/// Largest amount of one request, and of all that a link or a batch asks for together.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct AmountLimit {
    /// Amount in human units
    pub amount: AskedAmountText,
    /// Its currency. Requests in another currency are refused, except that dollars and dollar tokens (USDC, USDT, DAI) are compared with each other
    pub currency: CurrencyIdText,
}

/// What may be asked for with a client ID. What is absent stays, null lifts a limit.
#[derive(Debug, Clone, Default, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct ClientIdLimitsChange {
    /// Wallets that alone may be named as payee; absent or null, any. Example: `["0x70997970C51812dc3A010C7d01b50e0d17dc79C8"]`
    #[oai(nullable, validator(min_items = 1, max_items = 20, unique_items))]
    pub allowed_payees: MaybeUndefined<Vec<WalletText>>,
    /// Currencies that alone may be used, for the amount as for the payment; absent or null, any. Example: `["FAU-sepolia"]`
    #[oai(nullable, validator(min_items = 1, max_items = 50, unique_items))]
    pub allowed_currencies: MaybeUndefined<Vec<CurrencyIdText>>,
    /// Networks on which alone may be paid; absent or null, any. Example: `["sepolia"]`
    #[oai(nullable, validator(min_items = 1, max_items = 8, unique_items))]
    pub allowed_networks: MaybeUndefined<Vec<Network>>,
    /// Largest amount of one request, and of all that a link or a batch asks for; absent or null, any
    #[oai(nullable)]
    pub max_amount: MaybeUndefined<AmountLimit>,
}

/// A new client ID.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreateClientIdBody {
    /// Name for people
    pub label: NameText,
    /// Pages that may use it: https origins without path, or http for localhost. Stored as origins. Example: `["https://shop.example.com"]`
    #[oai(validator(min_items = 1, max_items = 10, unique_items))]
    pub allowed_domains: Vec<DomainText>,
    /// Fee on top of requests that this client ID makes from now on, and of calldata that it asks for where the request has none of a client ID; 0 to 100 with at most 2 fraction digits; other than 0 it overrides the fee of a call
    pub fee_percentage: Option<PercentText>,
    /// Receiver of the fee; required with `feePercentage`
    pub fee_address: Option<WalletText>,
    /// Refused: a payee destination belongs to a wallet, whose session binds it with `POST /v1/client-ids` or `PUT /v1/client-ids/{id}`. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 64))]
    pub payee_destination_id: Option<String>,
    /// Operator wallet, kept for commerce payments
    pub operator_wallet_address: Option<WalletText>,
    /// Seconds, kept for commerce payments. Example: `3600`
    #[oai(validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991")))]
    pub default_pre_approval_expiry: Option<i64>,
    /// Seconds, kept for commerce payments. Example: `86400`
    #[oai(validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991")))]
    pub default_authorization_expiry: Option<i64>,
    /// What may be asked for with it
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

/// A new client ID of a person who signed in.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreateOwnClientIdBody {
    /// Name for people
    pub label: NameText,
    /// Pages that may use it; none for a backend client ID, which works without `Origin`. Example: `["https://shop.example.com"]`
    #[oai(validator(max_items = 10, unique_items))]
    pub allowed_domains: Option<Vec<DomainText>>,
    /// Fee on top of requests that this client ID makes from now on, and of calldata that it asks for where the request has none of a client ID; 0 to 100 with at most 2 fraction digits
    #[oai(nullable)]
    pub fee_percentage: Option<PercentText>,
    /// Receiver of the fee; required with `feePercentage`
    #[oai(nullable)]
    pub fee_address: Option<WalletText>,
    /// Row id of the active payee destination: requests made with it are paid to its wallet, and to nobody else. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(nullable, validator(max_length = 64))]
    pub payee_destination_id: Option<String>,
    /// Operator wallet, kept for commerce payments
    #[oai(nullable)]
    pub operator_wallet_address: Option<WalletText>,
    /// Seconds, kept for commerce payments. Example: `3600`
    #[oai(
        nullable,
        validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991"))
    )]
    pub default_pre_approval_expiry: Option<i64>,
    /// Seconds, kept for commerce payments. Example: `86400`
    #[oai(
        nullable,
        validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991"))
    )]
    pub default_authorization_expiry: Option<i64>,
    /// What may be asked for with it
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

/// Name of the component of [`Network`].
const NETWORK: &str = "PaymentNetwork";

shape! {
    Network, NETWORK, { MetaSchemaRef::Reference(NETWORK.to_owned()) },
    |registry: &mut Registry| {
        registry.create_schema::<Self, _>(NETWORK.to_owned(), |_| MetaSchema {
            description: Some("Network on which payments are made"),
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
    /// State of a client ID: in use, switched off, gone for good
    ClientStatus as "ClientIdStatus";
}

/// Changes of the fee and of the stored facts of a client ID.
#[derive(Debug, Clone, Default, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct ClientIdTermsChange {
    /// Fee in percent; after the change there must be both fee and receiver, or neither
    #[oai(nullable)]
    pub fee_percentage: MaybeUndefined<PercentText>,
    /// Receiver of the fee
    #[oai(nullable)]
    pub fee_address: MaybeUndefined<WalletText>,
    /// Operator wallet
    #[oai(nullable)]
    pub operator_wallet_address: MaybeUndefined<WalletText>,
    /// Seconds. Example: `3600`
    #[oai(
        nullable,
        validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991"))
    )]
    pub default_pre_approval_expiry: MaybeUndefined<i64>,
    /// Seconds. Example: `86400`
    #[oai(
        nullable,
        validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991"))
    )]
    pub default_authorization_expiry: MaybeUndefined<i64>,
}

/// Changes of a client ID: what is absent stays, what is null is unset.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct UpdateClientIdBody {
    /// Name for people
    pub label: Option<NameText>,
    /// Pages that may use it; the list replaces the one before. Example: `["https://shop.example.com"]`
    #[oai(validator(min_items = 1, max_items = 10, unique_items))]
    pub allowed_domains: Option<Vec<DomainText>>,
    /// Refused: a payee destination belongs to a wallet, whose session binds it with `POST /v1/client-ids` or `PUT /v1/client-ids/{id}`. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 64))]
    pub payee_destination_id: Option<String>,
    /// Fee and stored facts
    #[oai(flatten)]
    pub terms: ClientIdTermsChange,
    /// What may be asked for with it
    #[oai(flatten)]
    pub limits: ClientIdLimitsChange,
    /// State; revoked is for good
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
            status: Some(ClientStatus::Active),
        }
    }
}

/// Changes of a client ID by a person who signed in: what is absent stays, what is null is unset.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct UpdateOwnClientIdBody {
    /// Name for people
    pub label: Option<NameText>,
    /// Pages that may use it; the list replaces the one before, and one that has pages keeps at least one: it was public, and stays so. Example: `["https://shop.example.com"]`
    #[oai(validator(max_items = 10, unique_items))]
    pub allowed_domains: Option<Vec<DomainText>>,
    /// Row id of the active payee destination. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(nullable, validator(max_length = 64))]
    pub payee_destination_id: MaybeUndefined<String>,
    /// Fee and stored facts
    #[oai(flatten)]
    pub terms: ClientIdTermsChange,
    /// What may be asked for with it
    #[oai(flatten)]
    pub limits: ClientIdLimitsChange,
    /// State; revoked is for good
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
            status: Some(ClientStatus::Active),
        }
    }
}

/// What names a client ID.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ClientIdNames {
    /// Row id for the management operations. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    pub id: UlidText,
    /// The public text that calls carry in `x-client-id`
    pub client_id: ClientIdText,
    /// Name for people
    pub label: NameText,
    /// Pages that may use it, as origins; empty for a backend client ID. Example: `["https://shop.example.com"]`
    #[oai(validator(max_items = 10, unique_items))]
    pub allowed_domains: Vec<DomainText>,
    /// State
    pub status: ClientStatus,
}

/// Fee and stored facts of a client ID.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ClientIdTerms {
    /// Fee in percent, or null
    pub fee_percentage: OrNull<PercentText>,
    /// Receiver of the fee, or null
    pub fee_address: OrNull<WalletText>,
    /// Operator wallet, or null
    pub operator_wallet_address: OrNull<WalletText>,
    /// Seconds, or null. Example: `3600`
    #[oai(validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991")))]
    pub default_pre_approval_expiry: OrNull<i64>,
    /// Seconds, or null. Example: `86400`
    #[oai(validator(minimum(value = "0", exclusive), maximum(value = "9007199254740991")))]
    pub default_authorization_expiry: OrNull<i64>,
    /// Wallets that alone may be named as payee, or null for any. Example: `["0x70997970C51812dc3A010C7d01b50e0d17dc79C8"]`
    #[oai(validator(max_items = 20, unique_items))]
    pub allowed_payees: OrNull<Vec<WalletText>>,
    /// Currencies that alone may be used, or null for any. Example: `["FAU-sepolia"]`
    #[oai(validator(max_items = 50, unique_items))]
    pub allowed_currencies: OrNull<Vec<CurrencyIdText>>,
    /// Networks on which alone may be paid, or null for any. Example: `["sepolia"]`
    #[oai(validator(max_items = 8, unique_items))]
    pub allowed_networks: OrNull<Vec<Network>>,
    /// Largest amount of one request, and of all that a link or a batch asks for, or null for any
    pub max_amount: OrNull<AmountLimit>,
}

/// A client ID right after its creation.
///
/// With pages among `allowedDomains` it is public: whoever reads it off a page can use it from a program that writes any
/// `Origin`. Unless it is bound to a payee destination or has `allowedPayees`, a stranger can then ask for payments to a
/// wallet of the stranger's own, with your references.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ClientIdCreated {
    /// Names
    #[oai(flatten)]
    pub names: ClientIdNames,
    /// Fee and stored facts
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
    /// Last authenticated use, written at most once a minute; null before the first
    pub last_used_at: OrNull<Instant>,
}

/// A client ID with all its details.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ClientIdDetail {
    /// What it was created with
    #[oai(flatten)]
    pub created: ClientIdCreated,
    /// Last change
    pub updated_at: Instant,
    /// Last authenticated use, written at most once a minute; null before the first
    pub last_used_at: OrNull<Instant>,
}

/// A client ID right after a change.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ClientIdUpdated {
    /// Names
    #[oai(flatten)]
    pub names: ClientIdNames,
    /// Fee and stored facts
    #[oai(flatten)]
    pub terms: ClientIdTerms,
    /// Time of the change
    pub updated_at: Instant,
}

/// A client ID as a person who signed in sees it.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct OwnClientId {
    /// Its details
    #[oai(flatten)]
    pub detail: ClientIdDetail,
    /// Row id of the payee destination that it is bound to, or null
    pub payee_destination_id: OrNull<UlidText>,
}

/// Confirmation.
#[derive(Debug, Clone, Object)]
pub struct ClientIdRevoked {
    /// Always true. Example: `true`
    pub success: bool,
}
