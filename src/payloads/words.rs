//! Enums of the domain as named schemas of the documents.

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
    AgreementStatus: "Agreement status of a payer.";
    KycStatus: "Identity status of a payer.";
    OffRampStatus: "Status of a payout to a bank account.";
    PayerAccess: "Whether a payer passes the allow list and the screening of a link.";
    PayerStepKind: "Action of a payer on the payment page.";
    PaymentDetailStatus: "Whether a bank account can be used.";
    ReversalReason: "Why a payment was reversed.";
    ScreeningStatus: "Result of a screening.";
}
