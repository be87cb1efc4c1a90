//! Callback bodies as they are documented. The adapter of the partner checks what a schema cannot express.

use crate::http::operation::*;

/// Texts that the partner writes for people. The pattern accepts invisible characters, and the service removes them: a
/// callback must not fail because of such a character, since its status would be lost.
const SENT: &str = r"^[^\x00-\x1f\x7f-\x9f]*$";

text! {
    /// Id of a record of the partner.
    PartnerIdText {
        pattern: "^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$",
        length_max: 128,
        example: "pyr_7f3b1c9d2e",
        hint: "must be an id of at most 128 letters, digits, dots, underscores, colons and dashes",
    }
    /// Idempotency key with which this service created a record at the partner.
    PartnerKeyText {
        pattern: "^[0-9a-f]{64}$",
        length_max: 64,
        example: "6f0c1f7a5d3e9b8264c0a1d2e3f405162738495a6b7c8d9eaf0b1c2d3e4f5061",
        hint: "must be the key under which the record was created: 64 lower-case hexadecimal digits",
    }
    /// A page of the partner.
    PartnerLinkText {
        pattern: r"^(https://|http://(127\.0\.0\.1|localhost|\[::1\])[:/])[^\s@\x00-\x1f\x7f-\x9f]+$",
        length_max: 2048,
        example: "https://pages.example.com/kyc/7f3b1c9d2e",
        hint: "must be an https URL of at most 2048 characters without a user name; http only for localhost, 127.0.0.1 and [::1]",
    }
    /// A status word of the partner.
    PartnerWordText {
        pattern: SENT,
        length_min: 1,
        length_max: 64,
        example: "SENDING_FIAT",
        hint: "must be one line of 1 to 64 characters",
    }
    /// Why an account was rejected.
    RejectionText {
        pattern: SENT,
        length_min: 1,
        length_max: 500,
        example: "The account belongs to another person",
        hint: "must be one line of 1 to 500 characters",
    }
}

/// What changed
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "lowercase")]
pub(super) enum NewsKind {
    /// A payer
    Payer,
    /// A bank account
    Account,
    /// An order
    Order,
}

/// Identity status of a payer
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum PartnerKyc {
    /// Nothing is verified yet
    NotStarted,
    /// Verification is in progress
    Pending,
    /// Verified
    Approved,
    /// Rejected permanently
    Rejected,
    /// The payer has to repeat the verification
    RetryRequired,
}

/// Agreement status of a payer
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum PartnerAgreement {
    /// Not asked yet
    NotStarted,
    /// Asked
    Pending,
    /// Agreed
    Completed,
    /// Refused
    Rejected,
    /// The agreement failed
    Failed,
}

/// Whether a bank account can be paid
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum PartnerAccount {
    /// The check is in progress
    Pending,
    /// It can be paid
    Approved,
    /// It cannot be paid
    Failed,
}

/// Status of an order
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum PartnerOrder {
    /// Opened
    Initiated,
    /// The partner assesses it
    PendingInternalAssessment,
    /// Third parties check it
    OngoingChecks,
    /// The payment to the bank is being sent
    SendingFiat,
    /// The payment was sent to the bank
    FiatSent,
    /// The bank returned the payment
    Bounced,
    /// Abandoned before it was sent
    Failed,
}

/// A change at the partner. The record that `type` names is required.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub(super) struct OffRampNewsBody {
    /// Kind of the record
    #[oai(rename = "type")]
    pub(super) kind: NewsKind,
    /// The payer, with type `payer`
    #[oai(nullable)]
    pub(super) payer: Option<PayerNewsBody>,
    /// The bank account, with type `account`
    #[oai(nullable)]
    pub(super) account: Option<AccountNewsBody>,
    /// The order, with type `order`
    #[oai(nullable)]
    pub(super) order: Option<OrderNewsBody>,
}

impl Example for OffRampNewsBody {
    /// An example callback about a payer, without the records of the other kinds.
    fn example() -> Self {
        Self {
            kind: NewsKind::Payer,
            payer: Some(PayerNewsBody {
                id: PartnerIdText::example(),
                key: PartnerKeyText::example(),
                version: 2,
                kyc_status: PartnerKyc::Pending,
                agreement_status: PartnerAgreement::Completed,
                kyc_url: Some(PartnerLinkText::example()),
                agreement_url: None,
            }),
            account: None,
            order: None,
        }
    }
}

/// State of a payer at the partner.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub(super) struct PayerNewsBody {
    /// Id of the payer at the partner
    pub(super) id: PartnerIdText,
    /// Key under which the payer was registered
    pub(super) key: PartnerKeyText,
    /// Number of the change, from 1
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub(super) version: u64,
    /// Identity status
    pub(super) kyc_status: PartnerKyc,
    /// Agreement status
    pub(super) agreement_status: PartnerAgreement,
    /// Page where the payer proves their identity; absent when nothing is left to do
    #[oai(nullable)]
    pub(super) kyc_url: Option<PartnerLinkText>,
    /// Page where the payer agrees to the terms; absent when nothing is left to do
    #[oai(nullable)]
    pub(super) agreement_url: Option<PartnerLinkText>,
}

/// State of a bank account at the partner.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub(super) struct AccountNewsBody {
    /// Id of the account at the partner
    pub(super) id: PartnerIdText,
    /// Key under which the account was added
    pub(super) key: PartnerKeyText,
    /// Id of the account's payer at the partner
    pub(super) payer_id: PartnerIdText,
    /// Number of the change, from 1
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub(super) version: u64,
    /// Whether the account can be paid
    pub(super) status: PartnerAccount,
    /// Why it was rejected
    #[oai(nullable)]
    pub(super) rejection: Option<RejectionText>,
}

/// State of an order at the partner.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub(super) struct OrderNewsBody {
    /// Id of the order at the partner
    pub(super) id: PartnerIdText,
    /// Key under which the order was opened
    pub(super) key: PartnerKeyText,
    /// Id of the quote at the partner
    pub(super) quote_id: PartnerIdText,
    /// Number of the change, from 1
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub(super) version: u64,
    /// Status of the order
    pub(super) status: PartnerOrder,
    /// The partner's own status word
    pub(super) provider_status: PartnerWordText,
}
