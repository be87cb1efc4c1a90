//! A callback of the off-ramp partner. Its signature is checked over the received bytes, before they are parsed and
//! before any database query.

use super::bodies::OffRampNewsBody;
use crate::{
    ctx::Ctx,
    domain::{
        off_ramp_signature::{CALLBACK_BYTES_MAX, CallbackText, header},
        refusal::Refusal,
    },
    http::{
        body,
        error::{Problem, too_large, unauthorized},
        gate::rate_limits::Meter,
    },
    ports::off_ramp::PartnerNews,
};
use poem::{FromRequest, Request, RequestBody};
use poem_openapi::{
    ApiExtractor, ApiExtractorType, ExtractParamOptions,
    registry::{MetaMediaType, MetaRequest, Registry},
    types::Type,
};
use std::sync::Arc;

/// Possible results of a callback.
pub const OUTCOMES: [&str; 6] = ["changed", "nothing", "unknown", "unsigned", "unreadable", "failed"];

/// A change that the partner reported, after its signature is verified.
pub(super) struct SignedNews(pub(super) PartnerNews);

pub(super) fn count(outcome: &'static str) {
    metrics::counter!("prs_off_ramp_callbacks_total", "outcome" => outcome).increment(1);
}

/// The value of a header that occurs exactly once; otherwise an empty text, which fails verification.
fn only<'a>(request: &'a Request, name: &str) -> &'a str {
    let mut values = request.headers().get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().unwrap_or_default(),
        _ => "",
    }
}

fn read(ctx: &Ctx, request: &Request, bytes: &[u8]) -> Result<PartnerNews, Problem> {
    let callback = CallbackText {
        time: only(request, header::TIME),
        id: only(request, header::ID),
        body: bytes,
    };
    let signature = only(request, header::SIGNATURE);
    let partner = ctx.partners.off_ramp.as_ref();
    let partner = partner.filter(|partner| partner.is_signed(&callback, signature));
    let Some(partner) = partner else {
        count("unsigned");
        if let Some(meter) = request.data::<Arc<Meter>>() {
            meter.admit_forged()?;
        }
        return Err(unauthorized().into());
    };
    // The schema checks the form. The adapter checks the rest, for example which links may be passed on.
    body::parse::<OffRampNewsBody>(bytes).inspect_err(|_| count("unreadable"))?;
    partner.news(bytes).map_err(|error| {
        count("unreadable");
        tracing::warn!(%error, "a callback of the off-ramp partner is unreadable; the partner gets 400");
        Refusal::invalid(error.to_string()).into()
    })
}

impl<'a> ApiExtractor<'a> for SignedNews {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::RequestObject];
    type ParamType = ();
    type ParamRawType = ();

    fn register(registry: &mut Registry) {
        OffRampNewsBody::register(registry);
    }

    fn request_meta() -> Option<MetaRequest> {
        Some(MetaRequest {
            description: None,
            content: vec![MetaMediaType {
                content_type: "application/json",
                schema: OffRampNewsBody::schema_ref(),
            }],
            required: true,
        })
    }

    async fn from_request(
        request: &'a Request,
        body: &mut RequestBody,
        _options: ExtractParamOptions<()>,
    ) -> poem::Result<Self> {
        let ctx = request.data::<Ctx>().ok_or_else(Problem::internal)?;
        let bytes = <bytes::Bytes as FromRequest>::from_request(request, body).await?;
        if bytes.len() > CALLBACK_BYTES_MAX {
            return Err(too_large().into());
        }
        Ok(Self(read(ctx, request, &bytes)?))
    }
}
