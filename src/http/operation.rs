//! Common imports of operations and their bodies.

pub(in crate::http) use crate::{
    ctx::Ctx,
    domain::refusal::Checks,
    http::{
        body::{
            Body, BodyDraft,
            idempotency::{Keyed, answer_once},
            reply::{Accepted, Answered, Created, Reply, Success},
        },
        error::{Fail, s},
        forms::{
            null::OrNull,
            text::{Reads, text},
            wire::*,
            words::words,
        },
        gate::{access::*, extractor::Auth},
        tags::{AuthTag, PlatformTag},
    },
};
pub(in crate::http) use poem::web::Data;
pub(in crate::http) use poem_openapi::{Enum, Object, OpenApi, param::Path, payload::Json, types::Example};
