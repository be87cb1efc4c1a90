//! Client IDs, managed by a person who signed in.

use crate::{
    ctx::Ctx,
    domain::{
        client_id::{self, ClientIdChange},
        ids::{ClientRowId, DestinationId},
    },
    flows::{self, client_ids::create::NewClientId},
    http::{
        client_ids::{ClientIdRevoked, ClientIdStatus, ClientRowText, DomainText, changed, domains},
        contract::tags::AuthTag,
        error::{Fail, s},
        forms::{
            body::Body,
            idempotency::{IdempotencyKey, answer_once, once},
            null::OrNull,
            reply::Created,
            wire::Instant,
        },
        gate::{
            access::{SessionOnly, op},
            extractor::Auth,
        },
    },
};
use poem::web::Data;
use poem_openapi::{
    Object, OpenApi,
    param::{Header, Path},
    payload::Json,
    types::{Example, MaybeUndefined},
};

/// A new client ID.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreateOwnClientIdBody {
    /// Name for people. Example: `Web shop`
    #[oai(validator(min_length = 1, max_length = 100))]
    pub label: String,
    /// Pages that may use it; none for a backend client ID, which works without `Origin`. Example: `["https://shop.example.com"]`
    #[oai(validator(max_items = 10))]
    pub allowed_domains: Option<Vec<DomainText>>,
    /// Fee on every payment made with this client ID, 0 to 100 with at most 2 fraction digits. Example: `2.5`
    #[oai(nullable, validator(min_length = 1, max_length = 6))]
    pub fee_percentage: Option<String>,
    /// Receiver of the fee; required with `feePercentage`. Example: `0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7`
    #[oai(nullable, validator(max_length = 42))]
    pub fee_address: Option<String>,
    /// Row id of the active payee destination: requests that name no payee are paid there. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(nullable, validator(max_length = 64))]
    pub payee_destination_id: Option<String>,
    /// Operator wallet, kept for commerce payments. Example: `0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7`
    #[oai(nullable, validator(max_length = 42))]
    pub operator_wallet_address: Option<String>,
    /// Seconds, kept for commerce payments. Example: `3600`
    #[oai(nullable, validator(minimum(value = "0", exclusive)))]
    pub default_pre_approval_expiry: Option<i64>,
    /// Seconds, kept for commerce payments. Example: `86400`
    #[oai(nullable, validator(minimum(value = "0", exclusive)))]
    pub default_authorization_expiry: Option<i64>,
}

impl Example for CreateOwnClientIdBody {
    fn example() -> Self {
        Self {
            label: "Web shop".to_owned(),
            allowed_domains: Some(vec![DomainText::written(DomainText::EXAMPLE)]),
            fee_percentage: None,
            fee_address: None,
            payee_destination_id: None,
            operator_wallet_address: None,
            default_pre_approval_expiry: None,
            default_authorization_expiry: None,
        }
    }
}

/// Changes of a client ID: what is absent stays, what is null is unset.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct UpdateOwnClientIdBody {
    /// Name for people. Example: `Web shop`
    #[oai(validator(min_length = 1, max_length = 100))]
    pub label: Option<String>,
    /// Pages that may use it; the list replaces the one before, an empty one makes it a backend client ID. Example: `["https://shop.example.com"]`
    #[oai(validator(max_items = 10))]
    pub allowed_domains: Option<Vec<DomainText>>,
    /// Fee in percent; after the change there must be both fee and receiver, or neither. Example: `2.5`
    #[oai(nullable, validator(min_length = 1, max_length = 6))]
    pub fee_percentage: MaybeUndefined<String>,
    /// Receiver of the fee. Example: `0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7`
    #[oai(nullable, validator(max_length = 42))]
    pub fee_address: MaybeUndefined<String>,
    /// Row id of the active payee destination. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(nullable, validator(max_length = 64))]
    pub payee_destination_id: MaybeUndefined<String>,
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

impl Example for UpdateOwnClientIdBody {
    fn example() -> Self {
        Self {
            label: Some("Web shop".to_owned()),
            allowed_domains: Some(vec![DomainText::written(DomainText::EXAMPLE)]),
            fee_percentage: MaybeUndefined::Undefined,
            fee_address: MaybeUndefined::Undefined,
            payee_destination_id: MaybeUndefined::Undefined,
            operator_wallet_address: MaybeUndefined::Undefined,
            default_pre_approval_expiry: MaybeUndefined::Undefined,
            default_authorization_expiry: MaybeUndefined::Undefined,
            status: Some(ClientIdStatus::Active),
        }
    }
}

/// A client ID.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct OwnClientId {
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
    /// Row id of the payee destination that it is bound to, or null. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub payee_destination_id: OrNull<String>,
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

impl From<&client_id::ClientId> for OwnClientId {
    fn from(client: &client_id::ClientId) -> Self {
        Self {
            id: client.row.to_string(),
            client_id: client.client_id.clone(),
            label: client.label.clone(),
            allowed_domains: client.allowed_domains.iter().map(DomainText::written).collect(),
            fee_percentage: OrNull(client.fee_percentage.map(|percent| percent.to_string())),
            fee_address: OrNull(client.fee_address.map(|address| address.to_string())),
            payee_destination_id: OrNull(client.payee_destination.as_ref().map(ToString::to_string)),
            operator_wallet_address: OrNull(client.operator_wallet.map(|address| address.to_string())),
            default_pre_approval_expiry: OrNull(client.default_pre_approval_expiry_s),
            default_authorization_expiry: OrNull(client.default_authorization_expiry_s),
            status: client.status.into(),
            created_at: Instant(client.created_at),
            updated_at: Instant(client.updated_at),
            last_used_at: OrNull(client.last_used_at.map(Instant)),
        }
    }
}

/// Client IDs of the platform of a person who signed in.
pub struct OwnClientIds;

#[OpenApi(prefix_path = "/v1", tag = "AuthTag::ClientIds")]
impl OwnClientIds {
    /// Create a client ID
    ///
    /// With domains it is for pages of browsers; without it is for a backend and works without `Origin`.
    #[oai(path = "/client-ids", method = "post", operation_id = "createOwnClientId")]
    async fn create(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        /// Makes the call repeatable: the same key and body get the stored answer for 24 hours
        #[oai(name = "Idempotency-Key")]
        key: Header<Option<IdempotencyKey>>,
        body: Body<CreateOwnClientIdBody>,
    ) -> Result<Created<OwnClientId>, Fail<{ s::BAD_REQUEST | s::CONFLICT }>> {
        let once = once(key.0, op::createOwnClientId, &body.0);
        let body = body.0;
        let input = NewClientId {
            label: body.label,
            allowed_domains: domains(body.allowed_domains.unwrap_or_default()),
            is_backend: true,
            fee_percentage: body.fee_percentage,
            fee_address: body.fee_address,
            payee_destination: body.payee_destination_id.map(DestinationId),
            operator_wallet: body.operator_wallet_address,
            default_pre_approval_expiry_s: body.default_pre_approval_expiry,
            default_authorization_expiry_s: body.default_authorization_expiry,
        };
        Ok(answer_once(
            once,
            |client: &client_id::ClientId| client.into(),
            async |call| flows::client_ids::create::run(&ctx, &caller, &input, call).await,
        )
        .await?)
    }

    /// List client IDs
    ///
    /// All client IDs of the platform, newest first, revoked ones included.
    #[oai(path = "/client-ids", method = "get", operation_id = "listOwnClientIds")]
    async fn list(&self, ctx: Data<&Ctx>, caller: Auth<SessionOnly>) -> Result<Json<Vec<OwnClientId>>, Fail<0>> {
        let clients = flows::client_ids::list::run(&ctx, &caller).await?;
        Ok(Json(clients.iter().map(OwnClientId::from).collect()))
    }

    /// Read a client ID
    #[oai(path = "/client-ids/:id", method = "get", operation_id = "getOwnClientId")]
    async fn read(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        /// Row id of the client ID
        id: Path<ClientRowText>,
    ) -> Result<Json<OwnClientId>, Fail<{ s::NOT_FOUND }>> {
        let row = ClientRowId(id.as_str().to_owned());
        let client = flows::client_ids::read::run(&ctx, &caller, &row).await?;
        Ok(Json((&client).into()))
    }

    /// Change a client ID
    ///
    /// What is absent stays, null unsets. Switched off or revoked, it is refused from the next call on.
    #[oai(path = "/client-ids/:id", method = "put", operation_id = "updateOwnClientId")]
    async fn update(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        /// Row id of the client ID
        id: Path<ClientRowText>,
        body: Body<UpdateOwnClientIdBody>,
    ) -> Result<Json<OwnClientId>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let body = body.0;
        let change = ClientIdChange {
            label: body.label,
            allowed_domains: body.allowed_domains.map(domains),
            is_backend: true,
            fee_percentage: changed(body.fee_percentage),
            fee_address: changed(body.fee_address),
            payee_destination: changed(body.payee_destination_id).map(|id| id.map(DestinationId)),
            operator_wallet: changed(body.operator_wallet_address),
            default_pre_approval_expiry_s: changed(body.default_pre_approval_expiry),
            default_authorization_expiry_s: changed(body.default_authorization_expiry),
            status: body.status.map(Into::into),
        };
        let row = ClientRowId(id.as_str().to_owned());
        let client = flows::client_ids::update::run(&ctx, &caller, &row, &change).await?;
        Ok(Json((&client).into()))
    }

    /// Revoke a client ID
    ///
    /// For good: it is refused from the next call on. A second time changes nothing.
    #[oai(path = "/client-ids/:id", method = "delete", operation_id = "revokeOwnClientId")]
    async fn revoke(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        /// Row id of the client ID
        id: Path<ClientRowText>,
    ) -> Result<Json<ClientIdRevoked>, Fail<{ s::NOT_FOUND }>> {
        let row = ClientRowId(id.as_str().to_owned());
        flows::client_ids::revoke::run(&ctx, &caller, &row).await?;
        Ok(Json(ClientIdRevoked { success: true }))
    }
}
