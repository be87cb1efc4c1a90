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
    /// A page of the partner.
    PartnerLinkText {
        pattern: r"^(https://|http://(127\.0\.0\.1|localhost|\[::1\])[:/])[^\s@\x00-\x1f\x7f-\x9f]+$",
        length_max: 2048,
        example: "https://pages.example.com/kyc/7f3b1c9d2e",
        hint: "must be an https address of at most 2048 characters without a user name; http only of this machine",
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

/// What is known of the identity of a payer
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum PartnerKyc {
    /// Nothing was proven yet
    NotStarted,
    /// It is looked at
    Pending,
    /// Proven
    Approved,
    /// Refused for good
    Rejected,
    /// The payer has to try again
    RetryRequired,
}

/// Whether a payer agreed to the terms
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
    /// It did not work out
    Failed,
}

/// Whether a bank account can be paid
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum PartnerAccount {
    /// It is looked at
    Pending,
    /// It can be paid
    Approved,
    /// It cannot be paid
    Failed,
}

/// How far an order is
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum PartnerOrder {
    /// Opened
    Initiated,
    /// Looked at by the partner
    PendingInternalAssessment,
    /// Checked by others
    OngoingChecks,
    /// On its way to the bank
    SendingFiat,
    /// Sent to the bank
    FiatSent,
    /// Sent back by the bank
    Bounced,
    /// Given up before it was sent
    Failed,
}

/// Something that changed at the partner. The record that the type names has to be there.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
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

impl Example for OffRampNewsBody {
    /// News of a payer; what belongs to the other kinds is left out.
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

/// What the partner knows of a payer.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub(super) struct PayerNewsBody {
    /// Its id at the partner
    pub(super) id: PartnerIdText,
    /// Under which it was registered
    pub(super) key: PartnerKeyText,
    /// Number of the change, from 1
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub(super) version: u64,
    /// Identity
    pub(super) kyc_status: PartnerKyc,
    /// Terms
    pub(super) agreement_status: PartnerAgreement,
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
    pub(super) status: PartnerAccount,
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
    pub(super) status: PartnerOrder,
    /// The partner's own word for it
    pub(super) provider_status: PartnerWordText,
}
