//! The only table that maps each failure to its HTTP status and error body. All other status numbers are here too.
//!
//! Framework errors also pass through [`render`], so every error response of this service has the same shape.
//! Source: decisions D12.

use crate::{
    domain::{
        child_failure::{BlockedChildren, ChildFacts, ChildFailure},
        paying::prepared::PayerFlaw,
        refusal::{FieldError, Refusal, RefusalCode, RefusalKind},
    },
    flows::FlowError,
    http::{
        call_id::CallId,
        forms::{
            branding::Branding,
            null::OrNull,
            reason::plain,
            wire::{CurrencyIdText, Instant, NetworkText, RequestIdText, TxHash},
        },
        routes::{ALLOW_READS, RouteTable},
    },
};
use poem::{
    Response,
    error::{MethodNotAllowedError, NotFoundError, ReadBodyError, ResponseError},
    http::{Method, StatusCode, header},
};
use poem_openapi::{
    ApiResponse, Object,
    error::{ContentTypeError, ParseParamError, ParsePathError, ParseRequestPayloadError},
    registry::{MetaMediaType, MetaResponse, MetaResponses, Registry},
    types::{Example, ToJSON, Type},
};
use serde_json::Value;
use std::{borrow::Cow, num::NonZeroU32};

/// Message for invalid input; the fields are listed separately.
const VALIDATION: &str = "Validation failed";

/// Message for a failure that only the operator can fix.
const INTERNAL: &str = "Internal server error";

/// Message while the database is unavailable or a handler takes too long.
const UNAVAILABLE: &str = "The service is temporarily unavailable; retry shortly";

/// Message for a missing or unknown credential.
const UNAUTHORIZED: &str = "Unauthorized";

/// Message for a rate-limited call.
const TOO_MANY: &str = "Too many requests";

/// Hint for a rate-limited call.
pub(in crate::http) const TOO_MANY_HINT: &str = "Wait the number of seconds in Retry-After, then call less often";

/// Message for an unsupported content type.
const NOT_JSON: &str = "The content-type header must be application/json, optionally with charset=utf-8";

/// Message for a path segment that is not valid text.
const NOT_UTF_8: &str = "must be percent-encoded UTF-8 text";

const LARGE_BODY: &str = "The body is too large";
const SLOW_BODY: &str = "The body did not arrive in time";

/// Call id used in examples.
const CALL_ID: &str = "01JZX4T9QK3M7N8P2R5S6V0WYB";

/// Token of a link of a multicall, used in examples.
const CHILD: &str = "01JZX4T9QK3M7N8P2R5S6V0WYH";

/// Maximum number of wrong fields in one response. The API documents state this number too.
pub(in crate::http) const FIELDS_MAX: usize = 1_000;

/// Hint when the list of wrong fields is truncated.
const FIELDS_HINT: &str = "More than 1000 fields are wrong; `errors` lists the first 1000 of them";

/// Maximum number of path characters that an error message repeats.
const PATH_LENGTH_SHOWN: usize = 200;

/// Error response body.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", example)]
pub struct ErrorBody {
    /// HTTP status code.
    #[oai(validator(minimum(value = "400"), maximum(value = "599")))]
    pub status_code: u16,
    /// Human-readable description of the error.
    #[oai(validator(max_length = 2000))]
    pub message: String,
    /// Name of the HTTP status.
    #[oai(validator(max_length = 64, pattern = "^[A-Za-z][A-Za-z -]*$"))]
    pub error: String,
    /// The wrong fields, when the input was rejected: at most the first 1000, and `hint` says if there are more.
    #[oai(skip_serializing_if_is_none, validator(max_items = 1000))]
    pub errors: Option<Vec<ErrorDetail>>,
    /// Code of some errors, for programs; later versions may add codes. `multicall_validation_failed`: `failures` lists
    /// the links that keep a multicall from being created or paid. `safe_wallet`: the wallet that is connected to a
    /// payment page is a Safe. `account_not_activated`: the account of the payer does not exist on Tron.
    /// `payer_blacklisted`: the issuer of the token has frozen the account of the payer on Tron. `fee_limit_exceeded`:
    /// the estimated network fee on Tron is above the limit of the service.
    #[oai(skip_serializing_if_is_none, validator(max_length = 64, pattern = "^[a-z][a-z_]*$"))]
    pub code: Option<String>,
    /// How to resolve the error. Example: `Wait the number of seconds in Retry-After, then call less often`
    #[oai(skip_serializing_if_is_none, validator(max_length = 1000))]
    pub hint: Option<String>,
    /// Status of a secure payment that is paid, `completed`, or that a Safe is about to pay, `pending`. Example: `completed`
    #[oai(skip_serializing_if_is_none, validator(max_length = 32, pattern = "^[a-z][a-z_]*$"))]
    pub status: Option<String>,
    /// Branding of the payment page of such a secure payment; absent when the page has none
    #[oai(skip_serializing_if_is_none)]
    pub branding: Option<Branding>,
    /// Payment status of the requests of such a secure payment.
    #[oai(skip_serializing_if_is_none, validator(max_items = 200))]
    pub request_statuses: Option<Vec<RequestPaid>>,
    /// The links that keep a multicall from being created or paid, in the order of the call.
    #[oai(skip_serializing_if_is_none, validator(max_items = 1000))]
    pub failures: Option<Vec<ChildFailureView>>,
    /// The exceeded number of links of a multicall.
    #[oai(skip_serializing_if_is_none)]
    pub cap: Option<ExceededCapView>,
    /// Id of the call, as in the x-request-id header; include it when you contact support.
    #[oai(
        skip_serializing_if_is_none,
        validator(max_length = 128, pattern = "^[A-Za-z0-9._:-]{1,128}$")
    )]
    pub request_id: Option<String>,
}

/// Payment status of one request of a secure payment.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct RequestPaid {
    /// Id of the request
    pub request_id: RequestIdText,
    /// Whether the whole amount has arrived. Example: `true`
    pub has_been_paid: bool,
    /// Transaction that completed the payment; null until then
    pub tx_hash: OrNull<TxHash>,
    /// Hash of the transaction of the Safe that is about to pay; absent otherwise
    pub safe_tx_hash: Option<TxHash>,
    /// Chain ID of the network of the Safe; absent unless a Safe is about to pay. Example: `11155111`
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub chain_id: Option<u64>,
    /// Unix seconds until which the link waits for the Safe; absent unless a Safe is about to pay. Example: `1896091200`
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub safe_payment_deadline: Option<i64>,
}

impl RequestPaid {
    /// A request of a paid secure payment.
    pub fn paid(request_id: RequestIdText, has_been_paid: bool, tx_hash: Option<TxHash>) -> Self {
        Self {
            request_id,
            has_been_paid,
            tx_hash: OrNull(tx_hash),
            safe_tx_hash: None,
            chain_id: None,
            safe_payment_deadline: None,
        }
    }
}

/// The progress of a secure payment that is paid or about to be paid.
#[derive(Debug, Clone)]
pub struct LinkProgress {
    /// Status of the secure payment.
    pub status: &'static str,
    /// Payment status of its requests.
    pub requests: Vec<RequestPaid>,
}

/// Why a link cannot be paid with a multicall.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ChildFailureView {
    /// Token of the link; `*` if the reason applies to all links. Example: `01JZX4T9QK3M7N8P2R5S6V0WYH`
    #[oai(validator(max_length = 26))]
    pub secure_payment_token: String,
    /// Why the link cannot be paid, as a code. Example: `already_paid`
    #[oai(validator(max_length = 64, pattern = "^[a-z][a-z_]*$"))]
    pub reason: String,
    /// Key of a message for `reason`. Example: `multicall.child.already_paid`
    #[oai(validator(max_length = 128, pattern = "^[a-z][a-z_.]*$"))]
    pub message_key: String,
    /// The link, as far as the caller may see it
    pub context: ChildContextView,
    /// What you can do about the link, as a code. Example: `remove_child`
    #[oai(validator(max_length = 64, pattern = "^[a-z][a-z_]*$"))]
    pub recovery_action: OrNull<String>,
}

/// A link of a multicall.
#[derive(Debug, Clone, Default, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct ChildContextView {
    /// Id of its request; absent for an unknown link
    pub request_id: Option<RequestIdText>,
    /// Its token; absent when all links are meant. Example: `01JZX4T9QK3M7N8P2R5S6V0WYC`
    #[oai(validator(max_length = 26))]
    pub secure_payment_token: Option<String>,
    /// Its position, from 0; absent when all links are meant. Example: `0`
    #[oai(validator(minimum(value = "0"), maximum(value = "1000")))]
    pub position: Option<u32>,
    /// Whether the whole amount has arrived; absent for an unknown link. Example: `false`
    pub has_been_paid: Option<bool>,
    /// Status of the link; absent for an unknown link. Example: `pending`
    #[oai(validator(max_length = 32, pattern = "^[a-z][a-z_]*$"))]
    pub secure_payment_status: Option<String>,
    /// Status of the request; absent for an unknown link. Example: `pending`
    #[oai(validator(max_length = 32, pattern = "^[a-z][a-z_]*$"))]
    pub request_status: Option<String>,
    /// When the link expires; absent for an unknown link
    pub expires_at: Option<Instant>,
    /// Network of the payment; absent for an unknown link
    pub network: Option<NetworkText>,
    /// Currency of the payment; absent for an unknown link
    pub currency: Option<CurrencyIdText>,
}

/// An exceeded limit.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ExceededCapView {
    /// What is limited. Example: `child_count`
    #[oai(rename = "type", validator(max_length = 64, pattern = "^[a-z][a-z_]*$"))]
    pub kind: String,
    /// The limit. Example: `150`
    #[oai(validator(minimum(value = "1"), maximum(value = "1000")))]
    pub maximum: u32,
    /// The number in the call. Example: `151`
    #[oai(validator(minimum(value = "1"), maximum(value = "1000")))]
    pub actual: u32,
    /// How many must be left out. Example: `1`
    #[oai(validator(minimum(value = "1"), maximum(value = "1000")))]
    pub reduce_by: u32,
}

/// The links that keep a multicall from being created or paid.
#[derive(Debug, Clone)]
pub struct BlockedMulticall {
    /// The links.
    pub failures: Vec<ChildFailureView>,
    /// The exceeded number of links.
    pub cap: Option<ExceededCapView>,
}

/// One wrong field of the input.
#[derive(Debug, Clone, Object)]
#[oai(example)]
pub struct ErrorDetail {
    /// Path of the field, with dots before members and brackets around list indexes, as in `requests[17].payee`.
    #[oai(validator(max_length = 4096))]
    pub field: String,
    /// What is wrong and what is expected.
    #[oai(validator(max_length = 2000))]
    pub message: String,
}

impl Example for ErrorBody {
    fn example() -> Self {
        Problem::from(PayerFlaw::NotActivated.refusal("wallet")).body(Some(CALL_ID))
    }
}

impl Example for ErrorDetail {
    fn example() -> Self {
        Self {
            field: "amount".to_owned(),
            message: "must be greater than 0".to_owned(),
        }
    }
}

/// An error response before it is rendered.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// HTTP status.
    pub status: StatusCode,
    /// Message for the caller.
    pub message: String,
    /// All wrong fields.
    pub fields: Vec<FieldError>,
    /// How to resolve the error.
    pub hint: Option<Cow<'static, str>>,
    /// Seconds after which the caller should retry.
    pub retry_after_s: Option<u64>,
    /// The secure payment, when it is paid or about to be paid.
    pub link: Option<Box<LinkProgress>>,
    /// The links that block a multicall.
    pub multicall: Option<Box<BlockedMulticall>>,
    /// The code, if programs have to recognise the reason.
    pub code: Option<RefusalCode>,
}

impl Problem {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            fields: Vec::new(),
            hint: None,
            retry_after_s: None,
            link: None,
            multicall: None,
            code: None,
        }
    }

    /// Invalid input.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// A failure that only the operator can fix. Its cause goes to the log, not into the response.
    pub fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL)
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the number of seconds after which the caller should retry.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Adds the payment status of a secure payment.
    #[must_use]
    pub fn with_progress(mut self, progress: LinkProgress) -> Self {
        self.link = Some(Box::new(progress));
        self
    }

    fn body(&self, request_id: Option<&str>) -> ErrorBody {
        let are_all_named = self.fields.len() <= FIELDS_MAX;
        let hint = if are_all_named {
            self.hint.as_deref()
        } else {
            Some(FIELDS_HINT)
        };
        let details = self.fields.iter().take(FIELDS_MAX).map(|field| ErrorDetail {
            field: field.field.clone(),
            message: field.message.clone(),
        });
        ErrorBody {
            status_code: self.status.as_u16(),
            message: self.message.clone(),
            error: self.status.canonical_reason().unwrap_or("Error").to_owned(),
            errors: (!self.fields.is_empty()).then(|| details.collect()),
            code: self.code.map(|code| code.wire().to_owned()),
            hint: hint.map(str::to_owned),
            status: self.link.as_ref().map(|link| link.status.to_owned()),
            branding: None,
            request_statuses: self.link.as_ref().map(|link| link.requests.clone()),
            failures: self.multicall.as_ref().map(|blocked| blocked.failures.clone()),
            cap: self.multicall.as_ref().and_then(|blocked| blocked.cap.clone()),
            request_id: request_id.map(str::to_owned),
        }
    }

    /// Builds the response. Without an id, the member `requestId` is omitted.
    pub fn respond(&self, request_id: Option<&str>) -> Response {
        let mut response = Response::builder()
            .status(self.status)
            .content_type("application/json; charset=utf-8")
            .body(self.body(request_id).to_json_string());
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl ResponseError for Problem {
    fn status(&self) -> StatusCode {
        self.status
    }

    fn as_response(&self) -> Response {
        self.respond(None)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal.kind {
            RefusalKind::Invalid => StatusCode::BAD_REQUEST,
            RefusalKind::Unauthenticated => StatusCode::UNAUTHORIZED,
            RefusalKind::Forbidden => StatusCode::FORBIDDEN,
            RefusalKind::NotFound => StatusCode::NOT_FOUND,
            RefusalKind::Conflict => StatusCode::CONFLICT,
            RefusalKind::Locked => StatusCode::LOCKED,
            RefusalKind::TooMany => StatusCode::TOO_MANY_REQUESTS,
            RefusalKind::Upstream => StatusCode::BAD_GATEWAY,
        };
        let mut problem = Self::new(status, refusal.message);
        problem.fields = refusal.fields;
        problem.hint = refusal.hint.map(Cow::Borrowed);
        problem.multicall = refusal.blocked.map(|children| Box::new(blocked(&children)));
        problem.code = refusal.code;
        if status == StatusCode::TOO_MANY_REQUESTS {
            // Without a number of seconds, waiting does not help.
            problem.retry_after_s = refusal.retry_after_s.map(u64::from);
        }
        problem
    }
}

/// Key of the message for a reason.
pub fn message_key(reason: &str) -> String {
    format!("multicall.child.{reason}")
}

/// The links that block a multicall.
fn blocked(blocked: &BlockedChildren) -> BlockedMulticall {
    let failure = |failure: &ChildFailure| ChildFailureView {
        secure_payment_token: failure.token.clone(),
        reason: failure.reason.to_owned(),
        message_key: message_key(failure.reason),
        context: ChildContextView {
            secure_payment_token: failure.position.map(|_| failure.token.clone()),
            position: failure.position.and_then(|position| u32::try_from(position).ok()),
            ..failure.facts.as_ref().map(context).unwrap_or_default()
        },
        recovery_action: OrNull(Some(failure.recovery.to_owned())),
    };
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    BlockedMulticall {
        failures: blocked.failures.iter().map(failure).collect(),
        cap: blocked.cap.map(|cap| ExceededCapView {
            kind: "child_count".to_owned(),
            maximum: count(cap.maximum),
            actual: count(cap.actual),
            reduce_by: count(cap.actual.saturating_sub(cap.maximum)),
        }),
    }
}

fn context(facts: &ChildFacts) -> ChildContextView {
    ChildContextView {
        request_id: Some(RequestIdText::written(&facts.request_id)),
        has_been_paid: Some(facts.has_been_paid),
        secure_payment_status: facts.status.map(str::to_owned),
        request_status: Some(facts.request_status.to_owned()),
        expires_at: facts.expires_at.map(Instant),
        network: Some(NetworkText::written(facts.network)),
        currency: Some(CurrencyIdText::written(&facts.currency)),
        ..ChildContextView::default()
    }
}

impl From<FlowError> for Problem {
    fn from(error: FlowError) -> Self {
        match error {
            FlowError::Refused(refusal) => refusal.into(),
            FlowError::Unavailable(source) | FlowError::NotYet(source) => {
                tracing::error!(error = format!("{source:#}"), "the database does not respond");
                unavailable()
            }
            FlowError::Full(source) => {
                tracing::error!(error = format!("{source:#}"), "the database disk is full");
                unavailable()
            }
            FlowError::Faulted(fault) => {
                tracing::error!(error = format!("{:#}", fault.0), "fault");
                Self::internal()
            }
        }
    }
}

fn unavailable() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE).with_retry_after(1)
}

/// Success status codes.
pub mod done {
    /// OK, with a body.
    pub const OK: u16 = 200;
    /// An object was created.
    pub const CREATED: u16 = 201;
    /// The call was accepted and is processed later.
    pub const ACCEPTED: u16 = 202;
}

/// 204: a success whose information is all in the headers.
pub(in crate::http) fn empty() -> Response {
    StatusCode::NO_CONTENT.into()
}

/// 200 or 503, for health probes.
pub fn probed(is_good: bool) -> StatusCode {
    if is_good {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

/// 200 for a page; 410 for a page whose link is gone.
pub(in crate::http) fn paged(is_gone: bool) -> StatusCode {
    if is_gone { StatusCode::GONE } else { StatusCode::OK }
}

/// 302: temporary redirect.
pub(in crate::http) fn elsewhere() -> StatusCode {
    StatusCode::FOUND
}

/// 308: permanent redirect.
pub(in crate::http) fn elsewhere_for_good() -> StatusCode {
    StatusCode::PERMANENT_REDIRECT
}

/// 304: the client already has the current version.
pub(in crate::http) fn unchanged() -> StatusCode {
    StatusCode::NOT_MODIFIED
}

/// 202: accepted and processed later.
pub(in crate::http) fn taken() -> StatusCode {
    StatusCode::ACCEPTED
}

/// 404 for an HTML page.
pub(in crate::http) fn unknown_page() -> StatusCode {
    StatusCode::NOT_FOUND
}

/// 429 for an HTML page.
pub(in crate::http) fn crowded_page() -> StatusCode {
    StatusCode::TOO_MANY_REQUESTS
}

/// Bits for the statuses that an operation may return in addition to those that every operation has.
pub mod s {
    /// 400.
    pub const BAD_REQUEST: u16 = 1;
    /// 403.
    pub const FORBIDDEN: u16 = 1 << 1;
    /// 404.
    pub const NOT_FOUND: u16 = 1 << 2;
    /// 409.
    pub const CONFLICT: u16 = 1 << 3;
    /// 502.
    pub const BAD_GATEWAY: u16 = 1 << 4;
    /// 423.
    pub const LOCKED: u16 = 1 << 6;
    /// 401, for operations without a security scheme that can still reject a credential.
    pub const UNAUTHORIZED: u16 = 1 << 5;
}

/// When an operation can return a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReturnCondition {
    /// Always.
    Always,
    /// When the operation reads a body or parameters.
    Input,
    /// When the operation reads a body.
    Body,
    /// When the operation requires a credential.
    Secured,
    /// When the operation declares the status with a bit of [`s`].
    Declared,
}

/// How the API documents describe a status.
#[derive(Debug)]
pub(in crate::http) struct DocumentedStatus {
    when: ReturnCondition,
    bit: u16,
    /// The status.
    pub(in crate::http) status: u16,
    /// Name of the shared response component, used by every operation without a message of its own.
    pub(in crate::http) component: Option<&'static str>,
    /// Description of the status.
    pub(in crate::http) meaning: &'static str,
    /// Default message.
    message: &'static str,
}

macro_rules! documented {
    ($($status:literal $when:ident $(($bit:ident))? $($component:literal)?: $meaning:literal, $message:expr;)+) => {
        /// All documented error statuses.
        const DOCUMENTED: &[DocumentedStatus] = &[$(DocumentedStatus {
            when: ReturnCondition::$when,
            bit: 0 $(| s::$bit)?,
            status: $status,
            component: [$(Some($component),)? None][0],
            meaning: $meaning,
            message: $message,
        },)+];
    };
}

documented! {
    400 Input (BAD_REQUEST): "The input is invalid; the response lists every wrong field.", VALIDATION;
    401 Secured (UNAUTHORIZED) "Unauthorized": "The credential is missing, unknown, expired or revoked.", UNAUTHORIZED;
    403 Secured (FORBIDDEN) "Forbidden": "The credential is valid but does not allow this.",
        "This credential is not accepted for this operation";
    404 Declared (NOT_FOUND): "The object does not exist, or the caller may not see it.", "Not found";
    408 Body "RequestTimeout": "The body did not arrive in time.", SLOW_BODY;
    409 Declared (CONFLICT) "IdempotencyConflict":
        "The Idempotency-Key was used with a different body, or the first call with this key is still in progress.",
        "Idempotency-Key was already used with a different body; use a new key";
    413 Body "PayloadTooLarge": "The body is larger than the service accepts.", LARGE_BODY;
    423 Declared (LOCKED): "Another payment is in progress.", "Secure payment is in progress";
    429 Always "TooManyRequests":
        "Too many calls; Retry-After says when to retry. Without this header, waiting does not help.", TOO_MANY;
    500 Always "InternalServerError":
        "Unexpected failure; the operator can find it in the log by the id of the call.", INTERNAL;
    502 Declared (BAD_GATEWAY) "BadGateway": "A node or a partner of this service returned no usable response.",
        "Not enough nodes of sepolia are responding; retry shortly";
    503 Always "ServiceUnavailable": "The service is temporarily unavailable; retry shortly.", UNAVAILABLE;
}

/// The documentation of an error status; `None` for a success status.
pub(in crate::http) fn documented(status: &str) -> Option<&'static DocumentedStatus> {
    DOCUMENTED.iter().find(|row| row.status.to_string() == status)
}

/// The error responses that an operation of this kind can return without declaring them.
pub(in crate::http) fn implied(
    is_secured: bool,
    has_input: bool,
    has_body: bool,
) -> impl Iterator<Item = MetaResponse> {
    let applies = move |when| match when {
        ReturnCondition::Always => true,
        ReturnCondition::Input => has_input,
        ReturnCondition::Body => has_body,
        ReturnCondition::Secured => is_secured,
        ReturnCondition::Declared => false,
    };
    DOCUMENTED
        .iter()
        .filter(move |row| applies(row.when))
        .map(DocumentedStatus::response)
}

impl DocumentedStatus {
    fn response(&self) -> MetaResponse {
        MetaResponse {
            description: self.meaning,
            status: Some(self.status),
            status_range: None,
            content: vec![MetaMediaType {
                content_type: "application/json",
                schema: ErrorBody::schema_ref(),
            }],
            headers: Vec::new(),
        }
    }

    /// Whether the credential check returns this status, before the operation runs.
    pub(in crate::http) fn is_about_credentials(&self) -> bool {
        matches!(self.when, ReturnCondition::Secured)
    }

    /// Description of the status for an operation that declares messages of its own: for a 409, which depends on whether
    /// the operation takes an `Idempotency-Key`, and for a 400 if one of the messages names no field. Every other status
    /// keeps its usual description.
    pub(in crate::http) fn own_meaning(&self, is_repeatable: bool, names_no_field: bool) -> Option<&'static str> {
        match self.bit {
            s::CONFLICT if is_repeatable => Some(
                "The current state does not allow this; or the Idempotency-Key was used with a different body, or the \
                 first call with this key is still in progress.",
            ),
            s::CONFLICT => Some("The current state does not allow this."),
            s::BAD_REQUEST if names_no_field => Some(
                "The input is invalid, and `errors` lists every wrong field; or the call is refused for the reason in \
                 `message`, without `errors`.",
            ),
            _ => None,
        }
    }

    /// Whether the status is 400, whose response lists the wrong fields.
    pub(in crate::http) fn is_about_input(&self) -> bool {
        self.bit == s::BAD_REQUEST
    }

    /// Whether the status is 429, the status of rate limits.
    pub(in crate::http) fn is_about_haste(&self) -> bool {
        self.message == TOO_MANY
    }

    /// Whether the response can carry `Retry-After`.
    pub(in crate::http) fn says_when(&self) -> bool {
        matches!(self.status, 429 | 503)
    }

    /// The example body. The message, wrong fields and hint of an operation replace those of the status, if the
    /// operation has any.
    pub(in crate::http) fn example(
        &self,
        sentence: Option<&str>,
        fields: Vec<FieldError>,
        hint: Option<String>,
    ) -> Value {
        let status = StatusCode::from_u16(self.status).unwrap_or_default();
        let mut problem = Problem::new(status, sentence.unwrap_or(self.message));
        problem.fields = fields;
        problem.hint = hint.map(Cow::Owned);
        problem.body(Some(CALL_ID)).to_json().unwrap_or_default()
    }

    /// The example body of an operation for a secure payment that is paid or about to be paid; `sentence` is its message.
    pub(in crate::http) fn progress_example(&self, sentence: &str) -> Value {
        let status = StatusCode::from_u16(self.status).unwrap_or_default();
        let request_id = RequestIdText::example();
        let progress = if self.bit == s::LOCKED {
            let locked = RequestPaid {
                request_id,
                has_been_paid: false,
                tx_hash: OrNull(None),
                safe_tx_hash: Some(TxHash::example()),
                chain_id: Some(11_155_111),
                safe_payment_deadline: Some(1_896_091_200),
            };
            LinkProgress {
                status: "pending",
                requests: vec![locked],
            }
        } else {
            LinkProgress {
                status: "completed",
                requests: vec![RequestPaid::paid(request_id, true, Some(TxHash::example()))],
            }
        };
        let problem = Problem::new(status, sentence).with_progress(progress);
        problem.body(Some(CALL_ID)).to_json().unwrap_or_default()
    }

    /// The example body of an operation for a multicall that one of its links blocks; `sentence` is its message.
    pub(in crate::http) fn multicall_example(&self, sentence: &str) -> Value {
        let status = StatusCode::from_u16(self.status).unwrap_or_default();
        let mut problem = Problem::new(status, sentence);
        problem.code = Some(RefusalCode::MulticallFailed);
        let failure = ChildFailure {
            position: Some(0),
            token: CHILD.to_owned(),
            reason: "not_found",
            recovery: "remove_child",
            facts: None,
        };
        problem.multicall = Some(Box::new(blocked(&BlockedChildren {
            failures: vec![failure],
            cap: None,
        })));
        problem.body(Some(CALL_ID)).to_json().unwrap_or_default()
    }
}

/// A failure whose documented statuses are the bit set `S`: `Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>`.
#[derive(Debug)]
pub struct Fail<const S: u16>(pub Box<Problem>);

impl<const S: u16> From<Problem> for Fail<S> {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl<const S: u16> From<Refusal> for Fail<S> {
    fn from(refusal: Refusal) -> Self {
        Problem::from(refusal).into()
    }
}

impl<const S: u16> From<FlowError> for Fail<S> {
    fn from(error: FlowError) -> Self {
        Problem::from(error).into()
    }
}

impl<const S: u16> From<Fail<S>> for poem::Error {
    fn from(fail: Fail<S>) -> Self {
        let status = fail.0.status;
        let is_known = |row: &DocumentedStatus| {
            S & row.bit != 0 || !matches!(row.when, ReturnCondition::Declared | ReturnCondition::Input)
        };
        debug_assert!(
            documented(status.as_str()).is_some_and(is_known),
            "status {status} is not documented for this operation"
        );
        (*fail.0).into()
    }
}

impl<const S: u16> ApiResponse for Fail<S> {
    fn meta() -> MetaResponses {
        let declared = DOCUMENTED.iter().filter(|row| S & row.bit != 0);
        MetaResponses {
            responses: declared.map(DocumentedStatus::response).collect(),
        }
    }

    fn register(registry: &mut Registry) {
        ErrorBody::register(registry);
    }
}

/// The failed call, as [`render`] needs it.
pub(in crate::http) struct FailedCall {
    pub(in crate::http) method: Method,
    pub(in crate::http) path: String,
    pub(in crate::http) request_id: Option<CallId>,
}

/// Turns every error of handlers and framework into the standard error body.
pub(in crate::http) fn render(error: poem::Error, call: &FailedCall, routes: &RouteTable) -> Response {
    let status = error.status();
    let problem = if let Some(problem) = error.downcast_ref::<Problem>() {
        problem.clone()
    } else if error.is::<NotFoundError>() {
        not_found(call)
    } else if error.is::<MethodNotAllowedError>() {
        if routes.names_nothing(&call.path) {
            not_found(call)
        } else {
            method_not_allowed(call)
        }
    } else if let Some(error) = error.downcast_ref::<ParseParamError>() {
        Refusal::field(error.name, plain(&error.reason)).into()
    } else if let Some(error) = error.downcast_ref::<ParsePathError>() {
        let name = routes.path_parameter(&call.path, error.name).unwrap_or("path");
        Refusal::field(name, plain(&error.reason)).into()
    } else if error.is::<poem::error::ParsePathError>() {
        let name = routes.unreadable_parameter(&call.path).unwrap_or("path");
        Refusal::field(name, NOT_UTF_8).into()
    } else if let Some(error) = error.downcast_ref::<ParseRequestPayloadError>() {
        Problem::bad_request(plain(&error.reason))
    } else if error.is::<ContentTypeError>() {
        Problem::bad_request(NOT_JSON)
    } else if let Some(error) = error.downcast_ref::<ReadBodyError>() {
        unreadable(error)
    } else if status.is_server_error() {
        tracing::error!(%error, "unexpected failure");
        Problem::internal()
    } else {
        from_status(status, call)
    };
    problem.respond(call.request_id.as_ref().map(CallId::as_str))
}

/// The error body for a response that has only a status.
pub(in crate::http) fn from_status(status: StatusCode, call: &FailedCall) -> Problem {
    match status {
        StatusCode::NOT_FOUND => not_found(call),
        StatusCode::METHOD_NOT_ALLOWED => method_not_allowed(call),
        StatusCode::SERVICE_UNAVAILABLE => unavailable(),
        StatusCode::TOO_MANY_REQUESTS => Problem::new(status, TOO_MANY).with_retry_after(1),
        status if status.is_server_error() => Problem::internal(),
        status => Problem::new(status, status.canonical_reason().unwrap_or("Error")),
    }
}

fn not_found(call: &FailedCall) -> Problem {
    let shown: String = call.path.chars().take(PATH_LENGTH_SHOWN).collect();
    Problem::new(StatusCode::NOT_FOUND, format!("Cannot {} {shown}", call.method))
        .with_hint("The operations are listed at /docs")
}

fn method_not_allowed(call: &FailedCall) -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{} is not supported on this path", call.method),
    )
    .with_hint("The Allow header lists the methods of this path")
}

fn unreadable(error: &ReadBodyError) -> Problem {
    match error {
        ReadBodyError::PayloadTooLarge => too_large(),
        ReadBodyError::Io(_) => Problem::bad_request("The body could not be read completely: send the call again"),
        ReadBodyError::Utf8(_) => Problem::bad_request("The body is not valid UTF-8"),
        ReadBodyError::BodyHasBeenTaken => Problem::internal(),
    }
}

/// 400: the call has no Host header, or several.
pub(in crate::http) fn no_host() -> Problem {
    Problem::bad_request(
        "The Host header must be present once, as a host with an optional port, for example api.example.com",
    )
}

/// 406: no available encoding is acceptable to the client.
pub(in crate::http) fn no_coding() -> Problem {
    Problem::new(
        StatusCode::NOT_ACCEPTABLE,
        "Accept-Encoding excludes every available encoding of this file",
    )
    .with_hint("Omit the Accept-Encoding header, or accept br, gzip or identity")
}

/// 400: the wallet that is connected to a payment page is a Safe.
pub(in crate::http) fn safe_wallet() -> Problem {
    let sentence = "must be no Safe: the payment page cannot pay from a Safe; use the calldata of \
                    /v2/secure-payments/{token}/pay with isSafe=true";
    Refusal::field("wallet", sentence)
        .with_code(Some(RefusalCode::SafeWallet))
        .into()
}

/// 413.
pub(in crate::http) fn too_large() -> Problem {
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, LARGE_BODY)
}

/// 408.
pub(in crate::http) fn too_slow() -> Problem {
    Problem::new(StatusCode::REQUEST_TIMEOUT, SLOW_BODY)
}

/// 401: the credential is missing or unknown.
pub fn unauthorized() -> Refusal {
    Refusal::unauthenticated(UNAUTHORIZED)
}

/// 429.
pub(in crate::http) fn too_many(retry_after_s: u64) -> Problem {
    Problem::new(StatusCode::TOO_MANY_REQUESTS, TOO_MANY)
        .with_hint(TOO_MANY_HINT)
        .with_retry_after(retry_after_s.max(1))
}

/// 429: the call has more items than the remaining quota allows. `quota` is the maximum number of items per minute, and
/// the maximum number of items at once.
pub(in crate::http) fn too_many_items(
    items: NonZeroU32,
    (per_minute, burst): (NonZeroU32, NonZeroU32),
    retry_after_s: u64,
) -> Refusal {
    let sentence = format!(
        "This call has {items} items; the limit is {per_minute} items per minute and {burst} items at once: retry \
         after the number of seconds in Retry-After"
    );
    let seconds = u32::try_from(retry_after_s.max(1)).unwrap_or(u32::MAX);
    Refusal::new(RefusalKind::TooMany, sentence).after(seconds)
}

/// 503: the handler did not finish in time.
pub(in crate::http) fn out_of_time() -> Problem {
    unavailable()
}

/// The response after a panic. The panic text goes only to the log.
pub(in crate::http) fn panicked(panic: &(dyn std::any::Any + Send), call: &FailedCall) -> Response {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text");
    tracing::error!(panic = text, "a handler panicked");
    Problem::internal().respond(call.request_id.as_ref().map(CallId::as_str))
}

/// Adds the `Allow` header to a 405. The framework may have returned the 405 without a [`Problem`].
pub(in crate::http) fn name_methods(response: &mut Response, call: &FailedCall, routes: &RouteTable) {
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        let allow = routes.allow(&call.path).unwrap_or(ALLOW_READS);
        response.headers_mut().insert(header::ALLOW, allow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::Fault;

    #[test]
    fn every_kind_of_refusal_has_its_status() {
        let table = [
            (RefusalKind::Invalid, 400),
            (RefusalKind::Unauthenticated, 401),
            (RefusalKind::Forbidden, 403),
            (RefusalKind::NotFound, 404),
            (RefusalKind::Conflict, 409),
            (RefusalKind::Locked, 423),
            (RefusalKind::TooMany, 429),
            (RefusalKind::Upstream, 502),
        ];
        for (kind, status) in table {
            assert_eq!(Problem::from(Refusal::new(kind, "no")).status.as_u16(), status);
        }
    }

    #[test]
    fn faults_do_not_show_their_cause() {
        let fault = FlowError::Faulted(Fault(anyhow::anyhow!("select secret from api_keys")));
        let problem = Problem::from(fault);
        assert_eq!((problem.status.as_u16(), problem.message.as_str()), (500, INTERNAL));
        let not_yet = FlowError::NotYet(anyhow::anyhow!("block 132 cannot be proven"));
        assert_eq!(not_yet.to_string(), "not possible yet: block 132 cannot be proven");
        assert_eq!(Problem::from(not_yet).status.as_u16(), 503);
        let away = Problem::from(FlowError::Unavailable(anyhow::anyhow!("10.0.0.7:5432")));
        assert_eq!(away.status.as_u16(), 503);
        assert!(!away.message.contains("10.0.0.7"));
        let full = Problem::from(FlowError::Full(anyhow::anyhow!("/srv/prs.db")));
        assert_eq!((full.status.as_u16(), full.message.as_str()), (503, UNAVAILABLE));
    }

    #[test]
    fn the_three_contract_members_come_first() {
        let body = Problem::from(Refusal::field("amount", "must be greater than 0")).respond(Some("01X"));
        let text = futures_util::future::FutureExt::now_or_never(body.into_body().into_string())
            .unwrap()
            .unwrap();
        assert_eq!(
            text,
            r#"{"statusCode":400,"message":"Validation failed","error":"Bad Request","errors":[{"field":"amount","message":"must be greater than 0"}],"requestId":"01X"}"#
        );
    }
}
