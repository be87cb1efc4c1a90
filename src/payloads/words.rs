//! Closed lists of the domain as named schemas.

use crate::domain::{
    event::{AgreementStatus, KycStatus, PaymentDetailStatus},
    off_ramp::OffRampStatus,
    payment::{PayerAccess, ReversalReason},
    screening::ScreeningStatus,
    secure_payment::step::PayerStepKind,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

macro_rules! words {
    ($($list:ident: $about:literal;)+) => {$(
        impl JsonSchema for $list {
            fn schema_name() -> Cow<'static, str> {
                stringify!($list).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "description": $about, "type": "string", "enum": Self::ALL.map(Self::wire) })
            }
        }
    )+};
}

words! {
    AgreementStatus: "Whether a payer agreed to the terms.";
    KycStatus: "What is known about the identity of a payer.";
    OffRampStatus: "How far a payout to a bank account is.";
    PayerAccess: "Whether a payer passes the list and the screening of a link.";
    PayerStepKind: "What a payer did on the payment page.";
    PaymentDetailStatus: "Whether a bank account can be used.";
    ReversalReason: "Why a payment was taken back.";
    ScreeningStatus: "Result of a screening.";
}
