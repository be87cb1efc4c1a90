//! The `Idempotency-Key` header and stored responses.

use crate::{
    flows::{
        FlowError, FlowResult,
        idempotency::{IdempotentCall, KeyedResult, RepeatableCall},
    },
    http::{body::reply::Reply, forms::text::text},
};
use poem::{Request, RequestBody};
use poem_openapi::{
    ApiExtractor, ApiExtractorType, ExtractParamOptions,
    error::ParseParamError,
    param::Header,
    registry::{MetaParamIn, MetaSchemaRef, Registry},
    types::ToJSON,
};
use sha2::{Digest, Sha256};

text! {
    /// Key under which the response of a call is stored.
    IdempotencyKey {
        pattern: r"^[\x21-\x7e]{1,255}$",
        length_max: 255,
        example: "order-1042",
        hint: "must have 1 to 255 visible ASCII characters",
    }
}

type Given = Header<Option<IdempotencyKey>>;

/// Name of the header.
pub const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// The `Idempotency-Key` header of a call that may be repeated; the OpenAPI documents add its name and description.
#[derive(Debug)]
pub struct Keyed(Option<IdempotencyKey>);

impl Keyed {
    /// Identifies a repeatable call by its key and its input.
    ///
    /// The hash formula must stay the same: hashes are stored for a day, and after an upgrade with another formula,
    /// repeated calls would be rejected.
    pub fn once<T: ToJSON>(self, operation: &'static str, body: &T) -> Option<IdempotentCall> {
        self.0.map(|key| IdempotentCall {
            key: key.into(),
            operation,
            body_hash: hash(&body.to_json_string()),
        })
    }

    /// [`Self::once`] for an operation on one object: the hash covers the object too, so the same key with another
    /// object is a different call.
    pub fn once_for<T: ToJSON>(self, operation: &'static str, object: &str, body: &T) -> Option<IdempotentCall> {
        self.once(operation, body).map(|once| IdempotentCall {
            body_hash: hash(&format!("{object} {}", once.body_hash)),
            ..once
        })
    }
}

fn hash(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

impl<'a> ApiExtractor<'a> for Keyed {
    const TYPES: &'static [ApiExtractorType] = Given::TYPES;
    type ParamType = Option<IdempotencyKey>;
    type ParamRawType = IdempotencyKey;

    fn register(registry: &mut Registry) {
        Given::register(registry);
    }

    fn param_in() -> Option<MetaParamIn> {
        Given::param_in()
    }

    fn param_schema_ref() -> Option<MetaSchemaRef> {
        Given::param_schema_ref()
    }

    fn param_raw_type(&self) -> Option<&IdempotencyKey> {
        self.0.as_ref()
    }

    /// Errors: the header has an invalid value or occurs more than once. If such a header were ignored, a repeated call
    /// could be executed twice.
    async fn from_request(
        request: &'a Request,
        _body: &mut RequestBody,
        _options: ExtractParamOptions<Self::ParamType>,
    ) -> poem::Result<Self> {
        let mut values = request.headers().get_all(IDEMPOTENCY_KEY).iter();
        let key = match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => {
                let text = value.to_str().map_err(|_| IdempotencyKey::HINT);
                text.and_then(IdempotencyKey::parse).map(Some)
            }
            (Some(_), Some(_)) => Err("must be given only once"),
        };
        let wrong = |reason: &str| ParseParamError {
            name: IDEMPOTENCY_KEY,
            reason: reason.to_owned(),
        };
        Ok(Self(key.map_err(wrong)?))
    }
}

/// Runs a flow and stores its response: `view` builds the response body, and a repeated call returns the stored body
/// byte for byte. Errors: those of the flow.
pub async fn answer_once<const STATUS: u16, T: 'static, V: ToJSON + 'static, E: From<FlowError>>(
    once: Option<IdempotentCall>,
    view: fn(&T) -> V,
    flow: impl AsyncFnOnce(RepeatableCall<T>) -> FlowResult<KeyedResult<T>>,
) -> Result<Reply<STATUS, V>, E> {
    let call = RepeatableCall::new(once, move |made: &T| view(made).to_json_string());
    Ok(match flow(call).await? {
        KeyedResult::Fresh(made) => Reply::new(view(&made)),
        KeyedResult::Replayed(body) => Reply::replayed(body),
    })
}
