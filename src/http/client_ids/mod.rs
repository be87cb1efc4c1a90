//! Client IDs, managed with an API key.

pub mod own;

use crate::{
    ctx::Ctx,
    domain::{
        client_id::{self, ClientIdChange},
        ids::ClientRowId,
    },
    flows::{self, client_ids::create::NewClientId},
    http::{
        contract::tags::PlatformTag,
        error::{Fail, s},
        forms::{
            body::Body,
            idempotency::{IdempotencyKey, answer_once, once},
            null::OrNull,
            reply::Created,
            text::text,
            wire::Instant,
        },
        gate::{
            access::{KeyOnly, op},
            extractor::Auth,
        },
    },
};
use poem::web::Data;
use poem_openapi::{
    Enum, Object, OpenApi,
    param::{Header, Path},
    payload::Json,
    types::MaybeUndefined,
};

text! {
    /// Page that may use a client ID, as an origin. Which schemes and hosts are accepted is a rule of the domain.
    DomainText {
        pattern: r"^https?://[^\s\x00-\x1f\x7f]{1,250}$",
        length_max: 255,
        format: "uri",
        example: "https://shop.example.com",
        hint: "must be an origin such as https://shop.example.com: https (http only for localhost, 127.0.0.1 or [::1]), no path, query, fragment or user name",
    }
    /// Row id of a client ID, opaque to callers.
    ClientRowText {
        pattern: "^[0-9A-Za-z_-]{1,64}$",
        length_max: 64,
        example: "01K9Z0T3G9R5M1N2P3Q4R5S6T7",
        hint: "must be the id of a client ID as the list shows it: letters and digits only",
    }
}

/// A new client ID.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct CreateClientIdBody {
    /// Name for people. Example: `Web shop`
    #[oai(validator(min_length = 1, max_length = 100))]
    pub label: String,
    /// Pages that may use it: https origins without path, or http for localhost. Stored as origins. Example: `["https://shop.example.com"]`
    #[oai(validator(min_items = 1, max_items = 10))]
    pub allowed_domains: Vec<DomainText>,
    /// Fee on every payment made with this client ID, 0 to 100 with at most 2 fraction digits; other than 0 it overrides the fee of a call. Example: `2.5`
    #[oai(validator(min_length = 1, max_length = 6))]
    pub fee_percentage: Option<String>,
    /// Receiver of the fee; required with `feePercentage`. Example: `0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7`
    #[oai(validator(max_length = 42))]
    pub fee_address: Option<String>,
    /// Operator wallet, kept for commerce payments. Example: `0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7`
    #[oai(validator(max_length = 42))]
    pub operator_wallet_address: Option<String>,
    /// Seconds, kept for commerce payments. Example: `3600`
    #[oai(validator(minimum(value = "0", exclusive)))]
    pub default_pre_approval_expiry: Option<i64>,
    /// Seconds, kept for commerce payments. Example: `86400`
    #[oai(validator(minimum(value = "0", exclusive)))]
    pub default_authorization_expiry: Option<i64>,
}

/// State of a client ID: in use, switched off, gone for good
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "lowercase")]
pub enum ClientIdStatus {
    /// In use
    Active,
    /// Switched off
    Inactive,
    /// Gone for good
    Revoked,
}

/// A client ID right after its creation.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ClientIdCreated {
    /// Row id for the management operations. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub id: String,
    /// The public text that calls carry in `x-client-id`. Example: `cli_8Jd2kLmN0pQrStUvWxYz1234567890`
    #[oai(validator(max_length = 34))]
    pub client_id: String,
    /// Name for people. Example: `Web shop`
    #[oai(validator(max_length = 100))]
    pub label: String,
    /// Pages that may use it, as origins. Example: `["https://shop.example.com"]`
    #[oai(validator(max_items = 10))]
    pub allowed_domains: Vec<DomainText>,
    /// Fee in percent, or null. Example: `2.5`
    #[oai(validator(max_length = 6))]
    pub fee_percentage: OrNull<String>,
    /// Receiver of the fee, or null. Example: `0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7`
    #[oai(validator(max_length = 42))]
    pub fee_address: OrNull<String>,
    /// Operator wallet, or null. Example: `0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7`
    #[oai(validator(max_length = 42))]
    pub operator_wallet_address: OrNull<String>,
    /// Seconds, or null. Example: `3600`
    pub default_pre_approval_expiry: OrNull<i64>,
    /// Seconds, or null. Example: `86400`
    pub default_authorization_expiry: OrNull<i64>,
    /// State
    pub status: ClientIdStatus,
    /// Time of creation
    pub created_at: Instant,
}

/// A client ID in a list.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ClientIdSummary {
    /// Row id. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub id: String,
    /// The public text. Example: `cli_8Jd2kLmN0pQrStUvWxYz1234567890`
    #[oai(validator(max_length = 34))]
    pub client_id: String,
    /// Name for people. Example: `Web shop`
    #[oai(validator(max_length = 100))]
    pub label: String,
    /// Pages that may use it, as origins; empty for a backend client ID. Example: `["https://shop.example.com"]`
    #[oai(validator(max_items = 10))]
    pub allowed_domains: Vec<DomainText>,
    /// State
    pub status: ClientIdStatus,
    /// Time of creation
    pub created_at: Instant,
    /// Last authenticated use, written at most once a minute; null before the first
    pub last_used_at: OrNull<Instant>,
}

/// A client ID with all its details.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ClientIdDetail {
    /// Row id for the management operations. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub id: String,
    /// The public text that calls carry in `x-client-id`. Example: `cli_8Jd2kLmN0pQrStUvWxYz1234567890`
    #[oai(validator(max_length = 34))]
    pub client_id: String,
    /// Name for people. Example: `Web shop`
    #[oai(validator(max_length = 100))]
    pub label: String,
    /// Pages that may use it, as origins; empty for a backend client ID. Example: `["https://shop.example.com"]`
    #[oai(validator(max_items = 10))]
    pub allowed_domains: Vec<DomainText>,
    /// Fee in percent, or null. Example: `2.5`
    #[oai(validator(max_length = 6))]
    pub fee_percentage: OrNull<String>,
    /// Receiver of the fee, or null. Example: `0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7`
    #[oai(validator(max_length = 42))]
    pub fee_address: OrNull<String>,
    /// Operator wallet, or null. Example: `0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7`
    #[oai(validator(max_length = 42))]
    pub operator_wallet_address: OrNull<String>,
    /// Seconds, or null. Example: `3600`
    pub default_pre_approval_expiry: OrNull<i64>,
    /// Seconds, or null. Example: `86400`
    pub default_authorization_expiry: OrNull<i64>,
    /// State
    pub status: ClientIdStatus,
    /// Time of creation
    pub created_at: Instant,
    /// Last change
    pub updated_at: Instant,
    /// Last authenticated use, written at most once a minute; null before the first
    pub last_used_at: OrNull<Instant>,
}

/// Changes of a client ID: what is absent stays, what is null is unset.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct UpdateClientIdBody {
    /// Name for people. Example: `Web shop`
    #[oai(validator(min_length = 1, max_length = 100))]
    pub label: Option<String>,
    /// Pages that may use it; the list replaces the one before. Example: `["https://shop.example.com"]`
    #[oai(validator(min_items = 1, max_items = 10))]
    pub allowed_domains: Option<Vec<DomainText>>,
    /// Fee in percent; after the change there must be both fee and receiver, or neither. Example: `2.5`
    #[oai(nullable, validator(min_length = 1, max_length = 6))]
    pub fee_percentage: MaybeUndefined<String>,
    /// Receiver of the fee. Example: `0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7`
    #[oai(nullable, validator(max_length = 42))]
    pub fee_address: MaybeUndefined<String>,
    /// Operator wallet. Example: `0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7`
    #[oai(nullable, validator(max_length = 42))]
    pub operator_wallet_address: MaybeUndefined<String>,
    /// Seconds. Example: `3600`
    #[oai(nullable, validator(minimum(value = "0", exclusive)))]
    pub default_pre_approval_expiry: MaybeUndefined<i64>,
    /// Seconds. Example: `86400`
    #[oai(nullable, validator(minimum(value = "0", exclusive)))]
    pub default_authorization_expiry: MaybeUndefined<i64>,
    /// State; revoked is for good
    pub status: Option<ClientIdStatus>,
}

/// A client ID right after a change.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ClientIdUpdated {
    /// Row id for the management operations. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub id: String,
    /// The public text that calls carry in `x-client-id`. Example: `cli_8Jd2kLmN0pQrStUvWxYz1234567890`
    #[oai(validator(max_length = 34))]
    pub client_id: String,
    /// Name for people. Example: `Web shop`
    #[oai(validator(max_length = 100))]
    pub label: String,
    /// Pages that may use it, as origins; empty for a backend client ID. Example: `["https://shop.example.com"]`
    #[oai(validator(max_items = 10))]
    pub allowed_domains: Vec<DomainText>,
    /// Fee in percent, or null. Example: `2.5`
    #[oai(validator(max_length = 6))]
    pub fee_percentage: OrNull<String>,
    /// Receiver of the fee, or null. Example: `0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7`
    #[oai(validator(max_length = 42))]
    pub fee_address: OrNull<String>,
    /// Operator wallet, or null. Example: `0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7`
    #[oai(validator(max_length = 42))]
    pub operator_wallet_address: OrNull<String>,
    /// Seconds, or null. Example: `3600`
    pub default_pre_approval_expiry: OrNull<i64>,
    /// Seconds, or null. Example: `86400`
    pub default_authorization_expiry: OrNull<i64>,
    /// State
    pub status: ClientIdStatus,
    /// Time of the change
    pub updated_at: Instant,
}

/// Confirmation.
#[derive(Debug, Clone, Object)]
pub struct ClientIdRevoked {
    /// Always true. Example: `true`
    pub success: bool,
}

impl From<client_id::ClientStatus> for ClientIdStatus {
    fn from(status: client_id::ClientStatus) -> Self {
        match status {
            client_id::ClientStatus::Active => Self::Active,
            client_id::ClientStatus::Inactive => Self::Inactive,
            client_id::ClientStatus::Revoked => Self::Revoked,
        }
    }
}

impl From<ClientIdStatus> for client_id::ClientStatus {
    fn from(status: ClientIdStatus) -> Self {
        match status {
            ClientIdStatus::Active => Self::Active,
            ClientIdStatus::Inactive => Self::Inactive,
            ClientIdStatus::Revoked => Self::Revoked,
        }
    }
}

/// What a change says about a member: absent stays, null is unset.
pub fn changed<T>(member: MaybeUndefined<T>) -> Option<Option<T>> {
    match member {
        MaybeUndefined::Undefined => None,
        MaybeUndefined::Null => Some(None),
        MaybeUndefined::Value(value) => Some(Some(value)),
    }
}

/// Domains in the words of the flows.
pub fn domains(domains: Vec<DomainText>) -> Vec<String> {
    domains.into_iter().map(String::from).collect()
}

fn detail(client: client_id::ClientId) -> ClientIdDetail {
    ClientIdDetail {
        id: client.row.to_string(),
        client_id: client.client_id,
        label: client.label,
        allowed_domains: client.allowed_domains.iter().map(DomainText::written).collect(),
        fee_percentage: OrNull(client.fee_percentage.map(|percent| percent.to_string())),
        fee_address: OrNull(client.fee_address.map(|address| address.to_string())),
        operator_wallet_address: OrNull(client.operator_wallet.map(|address| address.to_string())),
        default_pre_approval_expiry: OrNull(client.default_pre_approval_expiry_s),
        default_authorization_expiry: OrNull(client.default_authorization_expiry_s),
        status: client.status.into(),
        created_at: Instant(client.created_at),
        updated_at: Instant(client.updated_at),
        last_used_at: OrNull(client.last_used_at.map(Instant)),
    }
}

fn updated(client: client_id::ClientId) -> ClientIdUpdated {
    let detail = detail(client);
    ClientIdUpdated {
        id: detail.id,
        client_id: detail.client_id,
        label: detail.label,
        allowed_domains: detail.allowed_domains,
        fee_percentage: detail.fee_percentage,
        fee_address: detail.fee_address,
        operator_wallet_address: detail.operator_wallet_address,
        default_pre_approval_expiry: detail.default_pre_approval_expiry,
        default_authorization_expiry: detail.default_authorization_expiry,
        status: detail.status,
        updated_at: detail.updated_at,
    }
}

fn created(client: &client_id::ClientId) -> ClientIdCreated {
    ClientIdCreated {
        id: client.row.to_string(),
        client_id: client.client_id.clone(),
        label: client.label.clone(),
        allowed_domains: client.allowed_domains.iter().map(DomainText::written).collect(),
        fee_percentage: OrNull(client.fee_percentage.map(|percent| percent.to_string())),
        fee_address: OrNull(client.fee_address.map(|address| address.to_string())),
        operator_wallet_address: OrNull(client.operator_wallet.map(|address| address.to_string())),
        default_pre_approval_expiry: OrNull(client.default_pre_approval_expiry_s),
        default_authorization_expiry: OrNull(client.default_authorization_expiry_s),
        status: client.status.into(),
        created_at: Instant(client.created_at),
    }
}

fn summary(client: client_id::ClientId) -> ClientIdSummary {
    ClientIdSummary {
        id: client.row.to_string(),
        client_id: client.client_id,
        label: client.label,
        allowed_domains: client.allowed_domains.iter().map(DomainText::written).collect(),
        status: client.status.into(),
        created_at: Instant(client.created_at),
        last_used_at: OrNull(client.last_used_at.map(Instant)),
    }
}

/// Client IDs.
pub struct ClientIds;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::ClientIds")]
impl ClientIds {
    /// Create a client ID
    ///
    /// A client ID is public: a browser page sends it together with its `Origin`, which has to be among the allowed
    /// domains. Webhooks and requests that are made with it belong to it.
    #[oai(path = "/client-ids", method = "post", operation_id = "createClientId")]
    async fn create(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOnly>,
        /// Makes the call repeatable: the same key and body get the stored answer for 24 hours
        #[oai(name = "Idempotency-Key")]
        key: Header<Option<IdempotencyKey>>,
        body: Body<CreateClientIdBody>,
    ) -> Result<Created<ClientIdCreated>, Fail<{ s::BAD_REQUEST | s::CONFLICT }>> {
        let once = once(key.0, op::createClientId, &body.0);
        let body = body.0;
        let input = NewClientId {
            label: body.label,
            allowed_domains: domains(body.allowed_domains),
            is_backend: false,
            payee_destination: None,
            fee_percentage: body.fee_percentage,
            fee_address: body.fee_address,
            operator_wallet: body.operator_wallet_address,
            default_pre_approval_expiry_s: body.default_pre_approval_expiry,
            default_authorization_expiry_s: body.default_authorization_expiry,
        };
        Ok(answer_once(once, created, async |call| {
            flows::client_ids::create::run(&ctx, &caller, &input, call).await
        })
        .await?)
    }

    /// List client IDs
    ///
    /// All client IDs of the platform, newest first, revoked ones included.
    #[oai(path = "/client-ids", method = "get", operation_id = "listClientIds")]
    async fn list(&self, ctx: Data<&Ctx>, caller: Auth<KeyOnly>) -> Result<Json<Vec<ClientIdSummary>>, Fail<0>> {
        let clients = flows::client_ids::list::run(&ctx, &caller).await?;
        Ok(Json(clients.into_iter().map(summary).collect()))
    }

    /// Read a client ID
    ///
    /// With its fee and expiries, revoked or not.
    #[oai(path = "/client-ids/:id", method = "get", operation_id = "getClientId")]
    async fn read(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOnly>,
        /// Row id of the client ID
        id: Path<ClientRowText>,
    ) -> Result<Json<ClientIdDetail>, Fail<{ s::NOT_FOUND }>> {
        let row = ClientRowId(id.as_str().to_owned());
        Ok(Json(detail(flows::client_ids::read::run(&ctx, &caller, &row).await?)))
    }

    /// Change a client ID
    ///
    /// What is absent stays, null unsets. Switched off or revoked, it is refused from the next call on.
    #[oai(path = "/client-ids/:id", method = "put", operation_id = "updateClientId")]
    async fn update(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOnly>,
        /// Row id of the client ID
        id: Path<ClientRowText>,
        body: Body<UpdateClientIdBody>,
    ) -> Result<Json<ClientIdUpdated>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let body = body.0;
        let change = ClientIdChange {
            label: body.label,
            allowed_domains: body.allowed_domains.map(domains),
            is_backend: false,
            fee_percentage: changed(body.fee_percentage),
            fee_address: changed(body.fee_address),
            payee_destination: None,
            operator_wallet: changed(body.operator_wallet_address),
            default_pre_approval_expiry_s: changed(body.default_pre_approval_expiry),
            default_authorization_expiry_s: changed(body.default_authorization_expiry),
            status: body.status.map(Into::into),
        };
        let row = ClientRowId(id.as_str().to_owned());
        let client = flows::client_ids::update::run(&ctx, &caller, &row, &change).await?;
        Ok(Json(updated(client)))
    }

    /// Revoke a client ID
    ///
    /// For good: it is refused from the next call on. A second time changes nothing.
    #[oai(path = "/client-ids/:id", method = "delete", operation_id = "revokeClientId")]
    async fn revoke(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOnly>,
        /// Row id of the client ID
        id: Path<ClientRowText>,
    ) -> Result<Json<ClientIdRevoked>, Fail<{ s::NOT_FOUND }>> {
        let row = ClientRowId(id.as_str().to_owned());
        flows::client_ids::revoke::run(&ctx, &caller, &row).await?;
        Ok(Json(ClientIdRevoked { success: true }))
    }
}
