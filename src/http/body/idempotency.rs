//! The `Idempotency-Key` header, and answers that are given once.

use crate::{
    flows::{
        FlowError, FlowResult,
        idempotency::{Answer, Once, Repeatable},
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
    /// Key under which a call is answered once.
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

/// The header of a call that may be repeated; the documents name and describe it.
#[derive(Debug)]
pub struct Keyed(Option<IdempotencyKey>);

impl Keyed {
    /// What makes the call repeatable: its key and what it asks for.
    ///
    /// Hashes are stored for a day: another formula would refuse the calls that are repeated across an upgrade.
    pub fn once<T: ToJSON>(self, operation: &'static str, body: &T) -> Option<Once> {
        self.0.map(|key| Once {
            key: key.into(),
            operation,
            body_hash: hash(&body.to_json_string()),
        })
    }

    /// [`Self::once`] of an operation on one object: the same key for another object is another call.
    pub fn once_for<T: ToJSON>(self, operation: &'static str, object: &str, body: &T) -> Option<Once> {
        self.once(operation, body).map(|once| Once {
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

    /// Errors: a value that cannot be read, or more than one; passed over, they would let a call happen twice.
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

/// Runs a flow whose answer is given once: `view` makes the body of what it made, and a repeated call gets the stored
/// body, byte for byte. Errors: those of the flow.
pub async fn answer_once<const STATUS: u16, T: 'static, V: ToJSON + 'static, E: From<FlowError>>(
    once: Option<Once>,
    view: fn(&T) -> V,
    flow: impl AsyncFnOnce(Repeatable<T>) -> FlowResult<Answer<T>>,
) -> Result<Reply<STATUS, V>, E> {
    let call = Repeatable::new(once, move |made: &T| view(made).to_json_string());
    Ok(match flow(call).await? {
        Answer::Fresh(made) => Reply::new(view(&made)),
        Answer::Replayed(body) => Reply::replayed(body),
    })
}
