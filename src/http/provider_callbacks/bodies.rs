//! Bodies of callbacks, as they are documented; the adapter of the partner judges what a schema cannot say.

use crate::http::operation::*;

/// Texts of the partner for people. What nobody sees is left out of them; a status is not lost because of it.
const SENT: &str = r"^[^\x00-\x1f\x7f-\x9f]*$";

text! {
    /// Id of a record of the partner.
    PartnerIdText {
        pattern: "^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$",
        length_max: 128,
        example: "pyr_7f3b1c9d2e",
        hint: "must be an id of at most 128 letters, digits, dots, underscores, colons and dashes",
    }
    /// Under which a record was made.
    PartnerKeyText {
        pattern: "^[0-9a-f]{64}$",
        length_max: 64,
        example: "6f0c1f7a5d3e9b8264c0a1d2e3f405162738495a6b7c8d9eaf0b1c2d3e4f5061",
        hint: "must be the key under which the record was made: 64 lower-case hexadecimal digits",
    }
    /// What is known of the identity of a payer.
    PartnerKycText {
        pattern: "^(not_started|pending|approved|rejected|retry_required)$",
        length_max: 32,
        example: "approved",
        hint: "must be one of not_started, pending, approved, rejected, retry_required",
    }
    /// Whether a payer agreed to the terms.
    PartnerAgreementText {
        pattern: "^(not_started|pending|completed|rejected|failed)$",
        length_max: 32,
        example: "completed",
        hint: "must be one of not_started, pending, completed, rejected, failed",
    }
    /// Whether a bank account can be paid.
    PartnerAccountText {
        pattern: "^(pending|approved|failed)$",
        length_max: 32,
        example: "approved",
        hint: "must be one of pending, approved, failed",
    }
    /// How far an order is.
    PartnerOrderText {
        pattern: "^(initiated|pending_internal_assessment|ongoing_checks|sending_fiat|fiat_sent|bounced|failed)$",
        length_max: 32,
        example: "sending_fiat",
        hint: "must be one of initiated, pending_internal_assessment, ongoing_checks, sending_fiat, fiat_sent, bounced, failed",
    }
    /// A page of the partner.
    PartnerLinkText {
        pattern: "^https?://[^\\s]+$",
        length_max: 2048,
        example: "https://pages.example.com/kyc/7f3b1c9d2e",
        hint: "must be an https address of at most 2048 characters",
    }
    /// A word of the partner's own.
    PartnerWordText {
        pattern: SENT,
        length_min: 1,
        length_max: 64,
        example: "SENDING_FIAT",
        hint: "must be one line of 1 to 64 characters",
    }
    /// Why an account was refused.
    RejectionText {
        pattern: SENT,
        length_min: 1,
        length_max: 500,
        example: "The account belongs to somebody else",
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

/// Something that changed at the partner. The record that the type names has to be there.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub(super) struct OffRampNewsBody {
    /// Of what kind the record is
    #[oai(rename = "type")]
    pub(super) kind: NewsKind,
    /// The payer, with the type `payer`
    #[oai(nullable)]
    pub(super) payer: Option<PayerNewsBody>,
    /// The bank account, with the type `account`
    #[oai(nullable)]
    pub(super) account: Option<AccountNewsBody>,
    /// The order, with the type `order`
    #[oai(nullable)]
    pub(super) order: Option<OrderNewsBody>,
}

/// What the partner knows of a payer.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub(super) struct PayerNewsBody {
    /// Its id at the partner
    pub(super) id: PartnerIdText,
    /// Under which it was registered
    pub(super) key: PartnerKeyText,
    /// Number of the change, from 1
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub(super) version: u64,
    /// Identity
    pub(super) kyc_status: PartnerKycText,
    /// Terms
    pub(super) agreement_status: PartnerAgreementText,
    /// Where the payer proves who they are, while there is something to do
    #[oai(nullable)]
    pub(super) kyc_url: Option<PartnerLinkText>,
    /// Where the payer agrees to the terms, while there is something to do
    #[oai(nullable)]
    pub(super) agreement_url: Option<PartnerLinkText>,
}

/// What the partner knows of a bank account.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub(super) struct AccountNewsBody {
    /// Its id at the partner
    pub(super) id: PartnerIdText,
    /// Under which it was added
    pub(super) key: PartnerKeyText,
    /// Id of its payer at the partner
    pub(super) payer_id: PartnerIdText,
    /// Number of the change, from 1
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub(super) version: u64,
    /// Whether it can be paid
    pub(super) status: PartnerAccountText,
    /// Why it was refused
    #[oai(nullable)]
    pub(super) rejection: Option<RejectionText>,
}

/// What the partner knows of an order.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub(super) struct OrderNewsBody {
    /// Its id at the partner
    pub(super) id: PartnerIdText,
    /// Under which it was opened
    pub(super) key: PartnerKeyText,
    /// Id of its quote at the partner
    pub(super) quote_id: PartnerIdText,
    /// Number of the change, from 1
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub(super) version: u64,
    /// How far it is
    pub(super) status: PartnerOrderText,
    /// The partner's own word for it
    pub(super) provider_status: PartnerWordText,
}
