//! Request and response bodies for creators of secure payments.

use crate::{
    domain::{
        address::Address,
        amount::Percent,
        currency::Catalogue,
        destination::ScreeningProvider,
        ids::SecurePaymentToken,
        interop_address::DestinationKey,
        network::{Family, Network},
        paying::charge::{FeeBearer, FeeKind, FeeOrigin},
        refusal::{FieldError, Refusal},
        request::plan::payment_currency,
        secure_payment::{
            LinkDetails, MerchantNames, PaymentFlow, SecurePaymentKind, SecurePaymentStatus,
            access::{AskedMode, AskedPolicy},
            fee_plan::FeeBearerSource,
            multicall::ExecutionKind,
            plan::{ItemDestination, NamedFee, NewItem, NewPayoutLink, NewSecurePayment, unreadable_destination},
            redirect::{LABEL_ALONE, RedirectButton, checked_url, is_plain},
        },
    },
    flows::secure_payments::create_multicall::NewMulticall,
    http::{
        forms::{
            shape::shape,
            text::{LABEL, LINE},
        },
        operation::*,
    },
};
use chrono::TimeDelta;
use poem_openapi::{
    registry::{MetaSchema, MetaSchemaRef},
    types::{ParseError, ParseFromJSON, ParseResult, ToJSON},
};
use serde_json::Value;

words! {
    /// State of a secure payment
    SecurePaymentStatus as "SecurePaymentStatus";
    /// How many requests a secure payment has
    SecurePaymentKind as "SecurePaymentType";
    /// Direction of the payment, as the creator sees it
    PaymentFlow as "PaymentFlow";
    /// Whether payers are screened; `inherit` uses the setting of the destination
    AskedMode as "SecurePaymentAccessMode";
    /// Who bears a fee
    FeeBearer as "FeeBearer";
    /// What decided who bears a fee
    FeeBearerSource as "FeeBearerSource";
    /// Kind of a fee
    FeeKind as "FeeKind";
    /// Where a fee was set
    FeeOrigin as "FeeConfigSource";
}

/// How the receiver of a fee is determined
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum FeeResolver {
    /// A fixed address
    StaticAddress,
}

/// Version of the fee plan format: always 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeePlanVersion;

shape! { FeePlanVersion, "FeePlanVersion", {
    let mut schema = MetaSchema::new_with_format("integer", "int64");
    schema.enum_items = vec![1.into()];
    schema.minimum = Some(1.0);
    schema.maximum = Some(1.0);
    MetaSchemaRef::Inline(Box::new(schema))
} }

impl ToJSON for FeePlanVersion {
    fn to_json(&self) -> Option<Value> {
        Some(1.into())
    }
}

impl ParseFromJSON for FeePlanVersion {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        let is_known = value.is_some_and(|value| value == 1);
        is_known.then_some(Self).ok_or_else(|| ParseError::custom("must be 1"))
    }
}

text! {
    /// Id of a payee destination. The pattern does not check its form: the domain does, because the contract gives the
    /// error message. Source: decisions D39.
    LinkDestinationText {
        pattern: r"^[^\x00]*$",
        length_max: 2048,
        example: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8@eip155:11155111#121DA093:0x370DE27fdb7D1Ff1e1BaA7D11c5820a324Cf623C",
        hint: "must be the id of a payee destination: wallet@eip155:chainId#checksum:token",
    }
    /// Address where a payer can go after the payment. The domain checks whether it is safe, because the contract gives
    /// the error message. Source: decisions D39.
    RedirectUrlText {
        pattern: r"^[^\x00]*$",
        length_max: 2048,
        example: "https://shop.example.com/thanks",
        hint: "must be an http or https address of at most 2048 characters, for example https://shop.example.com/thanks",
    }
    /// Text of a button.
    RedirectLabelText {
        pattern: LABEL,
        length_min: 1,
        length_max: 255,
        example: "Back to the shop",
        hint: "must have 1 to 255 characters, not only spaces, and no < > &, quotes, control, invisible or text direction characters",
    }
    /// Page on which the payer pays a secure payment.
    PayPageText {
        pattern: r"^https?://[^\s\x00-\x1f\x7f-\x9f]+$",
        length_max: 2100,
        format: "uri",
        example: "https://pay.example.com/?token=01JZX4T9QK3M7N8P2R5S6V0WYB",
        hint: "must be the URL of a page",
    }
    /// The merchant's own identifier for a payer or recipient.
    IdentifierText {
        pattern: LINE,
        length_min: 1,
        length_max: 255,
        example: "customer-17",
        hint: "must be one line of 1 to 255 characters, without control, invisible or text direction characters",
    }
}

/// Who may pay a secure payment, and what a payer sees of it. Absent and null fields use the setting of the
/// destination.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", example)]
pub struct SecurePaymentAccessPolicy {
    /// Which payers are screened
    #[oai(nullable)]
    pub mode: Option<AskedMode>,
    /// Screening provider; required with `kyt_all_wallets`, not allowed otherwise
    #[oai(nullable)]
    pub screening_provider: Option<ScreeningProvider>,
    /// Whether amounts and parties stay hidden until the payer is approved. Example: `false`
    #[oai(nullable)]
    pub hide_until_approved: Option<bool>,
    /// Whether the payee's address is masked for payers. Example: `false`
    #[oai(nullable)]
    pub hide_payee_address: Option<bool>,
    /// Wallets that may pay; absent, null or empty if any wallet may pay. On payouts the list is recorded but not
    /// enforced
    #[oai(nullable, validator(max_items = 1000))]
    pub allowed_payer_addresses: Option<Vec<WalletText>>,
}

impl Example for SecurePaymentAccessPolicy {
    fn example() -> Self {
        Self {
            mode: Some(AskedMode::Off),
            screening_provider: None,
            hide_until_approved: Some(false),
            hide_payee_address: Some(false),
            allowed_payer_addresses: Some(vec![WalletText::example()]),
        }
    }
}

/// One payment of a secure payment.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct SecurePaymentItem {
    /// Destination to pay; if absent, the configured destination. An API key may name another active destination of its
    /// platform. A client ID that has no domains and is bound to no destination must name a destination. Any other
    /// destination is refused with 403
    #[oai(nullable)]
    pub destination_id: Option<LinkDestinationText>,
    /// Amount in the token of the destination, human units
    pub amount: AskedAmountText,
    /// Fee on top of this amount, 0 to 100; needs `feeAddress`
    #[oai(nullable)]
    pub fee_percentage: Option<PercentText>,
    /// Receiver of the fee; needs `feePercentage`
    #[oai(nullable)]
    pub fee_address: Option<WalletText>,
    /// Your own reference for this amount
    #[oai(nullable)]
    pub reference: Option<MerchantReference>,
    /// Must be the same as the top-level field, if both are set; a link has one value
    #[oai(nullable)]
    pub payer_identifier: Option<IdentifierText>,
    /// Must be the same as the top-level field, if both are set; a link has one value
    #[oai(nullable)]
    pub redirect_url: Option<RedirectUrlText>,
    /// Must be the same as the top-level field, if both are set; a link has one value
    #[oai(nullable)]
    pub redirect_label: Option<RedirectLabelText>,
    /// Must be absent: the destination determines the payee. Example: `0x70997970C51812dc3A010C7d01b50e0d17dc79C8`
    #[oai(nullable, validator(max_length = 255))]
    pub payee: Option<String>,
    /// Must be absent: the destination determines the currency. Example: `FAU-sepolia`
    #[oai(nullable, validator(max_length = 255))]
    pub currency: Option<String>,
    /// Must be absent: the destination determines the currency. Example: `FAU-sepolia`
    #[oai(nullable, validator(max_length = 255))]
    pub invoice_currency: Option<String>,
    /// Must be absent: the destination determines the currency. Example: `FAU-sepolia`
    #[oai(nullable, validator(max_length = 255))]
    pub payment_currency: Option<String>,
}

impl Example for SecurePaymentItem {
    fn example() -> Self {
        Self {
            destination_id: None,
            amount: AskedAmountText::example(),
            fee_percentage: None,
            fee_address: None,
            reference: None,
            payer_identifier: None,
            redirect_url: None,
            redirect_label: None,
            payee: None,
            currency: None,
            invoice_currency: None,
            payment_currency: None,
        }
    }
}

/// A payment link to create.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreateSecurePaymentBody {
    /// Payments; several are paid in one transaction
    #[oai(validator(min_items = 1, max_items = 200))]
    pub requests: Vec<SecurePaymentItem>,
    /// Destination of all items; same as `destinationId` of each item. Added by this service
    #[oai(nullable)]
    pub destination_id: Option<LinkDestinationText>,
    /// Fee on top of each amount, 0 to 100; needs `feeAddress`
    #[oai(nullable)]
    pub fee_percentage: Option<PercentText>,
    /// Receiver of the fee; needs `feePercentage`
    #[oai(nullable)]
    pub fee_address: Option<WalletText>,
    /// Your own reference; visible to payers
    #[oai(nullable)]
    pub reference: Option<MerchantReference>,
    /// Your own identifier for the payer; not visible to payers
    #[oai(nullable)]
    pub payer_identifier: Option<IdentifierText>,
    /// Where the payer can go after the payment: the page shows a button and never redirects automatically
    #[oai(nullable)]
    pub redirect_url: Option<RedirectUrlText>,
    /// Text of the button; needs `redirectUrl`
    #[oai(nullable)]
    pub redirect_label: Option<RedirectLabelText>,
    /// Who may pay, and what a payer sees
    #[oai(nullable)]
    pub access_policy: Option<SecurePaymentAccessPolicy>,
    /// Seconds until the link expires, 5 minutes to 90 days; absent uses the operator's default. Added by this
    /// service. Example: `86400`
    #[oai(nullable, validator(minimum(value = "300"), maximum(value = "7776000")))]
    pub expires_in: Option<u32>,
}

impl Example for CreateSecurePaymentBody {
    /// An example body that works unchanged on a service where a destination is set up.
    fn example() -> Self {
        Self {
            requests: vec![SecurePaymentItem::example()],
            destination_id: None,
            fee_percentage: None,
            fee_address: None,
            reference: Some(MerchantReference::example()),
            payer_identifier: None,
            redirect_url: None,
            redirect_label: None,
            access_policy: None,
            expires_in: None,
        }
    }
}

/// A payout link to create.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreateSecurePayoutBody {
    /// Wallet that is paid
    pub recipient: WalletText,
    /// Wallet expected to pay, usually yours; only recorded, any wallet may pay
    pub creator_wallet_address: WalletText,
    /// Network of the payment. Example: `sepolia`
    pub network: Network,
    /// Currency of the payment; must be on `network`
    pub currency: CurrencyIdText,
    /// Amount, human units
    pub amount: AskedAmountText,
    /// Your own reference; visible to payers
    #[oai(nullable)]
    pub reference: Option<MerchantReference>,
    /// Your own identifier for the recipient; not visible to payers
    #[oai(nullable)]
    pub recipient_identifier: Option<IdentifierText>,
    /// Fee on top of the amount, 0 to 100; needs `feeAddress`
    #[oai(nullable)]
    pub fee_percentage: Option<PercentText>,
    /// Receiver of the fee; needs `feePercentage`
    #[oai(nullable)]
    pub fee_address: Option<WalletText>,
    /// Where the payer can go after the payment: the page shows a button and never redirects automatically
    #[oai(nullable)]
    pub redirect_url: Option<RedirectUrlText>,
    /// Text of the button; needs `redirectUrl`
    #[oai(nullable)]
    pub redirect_label: Option<RedirectLabelText>,
    /// Who is screened, and what a payer sees
    #[oai(nullable)]
    pub access_policy: Option<SecurePaymentAccessPolicy>,
    /// Seconds until the link expires, 5 minutes to 90 days; absent uses the operator's default. Added by this
    /// service. Example: `86400`
    #[oai(nullable, validator(minimum(value = "300"), maximum(value = "7776000")))]
    pub expires_in: Option<u32>,
}

impl Example for CreateSecurePayoutBody {
    /// An example body that works unchanged on a service with Sepolia enabled.
    fn example() -> Self {
        Self {
            recipient: WalletText::example(),
            creator_wallet_address: WalletText::example(),
            network: Network::Sepolia,
            currency: CurrencyIdText::example(),
            amount: AskedAmountText::example(),
            reference: Some(MerchantReference::example()),
            recipient_identifier: None,
            fee_percentage: None,
            fee_address: None,
            redirect_url: None,
            redirect_label: None,
            access_policy: None,
            expires_in: None,
        }
    }
}

/// Payout links to combine into one.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CombinePayoutsBody {
    /// Tokens of unpaid payout links on one network; these links are withdrawn
    #[oai(validator(min_items = 2, max_items = 200, unique_items))]
    pub tokens: Vec<UlidText>,
    /// Where the payer can go after the payment: the page shows a button and never redirects automatically
    #[oai(nullable)]
    pub redirect_url: Option<RedirectUrlText>,
    /// Text of the button; needs `redirectUrl`
    #[oai(nullable)]
    pub redirect_label: Option<RedirectLabelText>,
}

impl Example for CombinePayoutsBody {
    fn example() -> Self {
        Self {
            tokens: ["01JZX4T9QK3M7N8P2R5S6V0WYC", "01JZX4T9QK3M7N8P2R5S6V0WYD"]
                .map(UlidText::written)
                .to_vec(),
            redirect_url: None,
            redirect_label: None,
        }
    }
}

/// Payout links that one transaction pays.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreateMulticallBody {
    /// Tokens of unpaid payout links of one creator, at most 150, and 20 on several networks; these links stay payable
    #[oai(validator(min_items = 2, max_items = 1000))]
    pub child_tokens: Vec<UlidText>,
    /// How the multicall is to be paid; if absent, this follows from the links
    #[oai(nullable)]
    pub requested_execution_kind: Option<ExecutionKind>,
}

impl Example for CreateMulticallBody {
    fn example() -> Self {
        Self {
            child_tokens: ["01JZX4T9QK3M7N8P2R5S6V0WYH", "01JZX4T9QK3M7N8P2R5S6V0WYJ"]
                .map(UlidText::written)
                .to_vec(),
            requested_execution_kind: None,
        }
    }
}

impl CreateMulticallBody {
    /// The multicall to create.
    pub(super) fn read(self) -> NewMulticall {
        let tokens = self.child_tokens.into_iter();
        NewMulticall {
            tokens: tokens.map(|token| SecurePaymentToken(token.into())).collect(),
            kind: self.requested_execution_kind,
        }
    }
}

/// A payment whose fees are calculated.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct PreviewFeesBody {
    /// Amount, human units
    pub amount: AskedAmountText,
    /// Id or symbol of a stablecoin. Example: `USDC`
    pub currency: CurrencyIdText,
    /// Direction of the payment
    pub flow: PaymentFlow,
    /// Who bears a fee if no other rule determines its bearer; if absent, the payee for `get_paid` and the payer for
    /// `pay`
    #[oai(nullable)]
    pub default_fee_bearer: Option<FeeBearer>,
}

impl Example for PreviewFeesBody {
    fn example() -> Self {
        Self {
            amount: AskedAmountText::example(),
            currency: CurrencyIdText::written("USDC"),
            flow: PaymentFlow::GetPaid,
            default_fee_bearer: None,
        }
    }
}

/// A created link.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct SecurePaymentCreated {
    /// The requests that the link pays, in the order of the call
    #[oai(validator(min_items = 1, max_items = 200))]
    pub request_ids: Vec<RequestIdText>,
    /// Page on which the payer pays
    pub secure_payment_url: PayPageText,
    /// Token of the link: anyone with it can read and pay it
    pub token: UlidText,
    /// Fees in US dollars; null unless the link is paid in one stablecoin
    pub fee_plan: OrNull<FeePlanView>,
}

/// Fees of a secure payment in US dollars. They are fixed when it is created.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", example)]
pub struct FeePlanView {
    /// Version of the format, always 1. Example: `1`
    pub version: FeePlanVersion,
    /// Direction of the payment
    pub flow: PaymentFlow,
    /// Who bears a fee if no other rule determines its bearer: the bearer that the call names, otherwise the payee for
    /// `get_paid` and the payer for `pay`
    pub default_fee_bearer: FeeBearer,
    /// Amount of the request, or the sum for several requests, including the fees that the payee bears. Example: `100`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub gross_amount_usd: String,
    /// Amount that the payee receives. Example: `100`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub net_recipient_amount_usd: String,
    /// Amount that the payer pays. Example: `102.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub payer_total_amount_usd: String,
    /// Sum of all fees. Example: `2.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub total_fees_usd: String,
    /// Fees that the payee bears. Example: `0`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub payee_borne_fees_usd: String,
    /// Fees that the payer bears. Example: `2.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub payer_borne_fees_usd: String,
    /// Each fee of the plan, with its bearer and its amount
    #[oai(validator(max_items = 400))]
    pub fees: Vec<FeePlanLineView>,
}

impl Example for FeePlanView {
    fn example() -> Self {
        Self {
            version: FeePlanVersion,
            flow: PaymentFlow::GetPaid,
            default_fee_bearer: FeeBearer::Payee,
            gross_amount_usd: "100".to_owned(),
            net_recipient_amount_usd: "100".to_owned(),
            payer_total_amount_usd: "102.5".to_owned(),
            total_fees_usd: "2.5".to_owned(),
            payee_borne_fees_usd: "0".to_owned(),
            payer_borne_fees_usd: "2.5".to_owned(),
            fees: vec![FeePlanLineView {
                kind: FeeKind::Platform,
                label: "Platform fee".to_owned(),
                fee_bearer: FeeBearer::Payer,
                fee_bearer_source: FeeBearerSource::ForcedFeePolicy,
                percentage_bps: 250,
                cap_usd: OrNull(None),
                calculated_amount_usd: "2.5".to_owned(),
                destination_resolver: FeeResolver::StaticAddress,
                destination_ref: FeeDestination {
                    evm_address: Some(WalletText::example()),
                    tron_address: None,
                },
                config_source: FeeOrigin::ClientId,
            }],
        }
    }
}

/// One fee of a plan.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct FeePlanLineView {
    /// Kind of the fee
    #[oai(rename = "type")]
    pub kind: FeeKind,
    /// Name of the fee, for display. Example: `Platform fee`
    #[oai(validator(max_length = 64))]
    pub label: String,
    /// Who bears it
    pub fee_bearer: FeeBearer,
    /// What decided who bears it
    pub fee_bearer_source: FeeBearerSource,
    /// Rate in basis points. Example: `250`
    #[oai(validator(maximum(value = "10000")))]
    pub percentage_bps: u32,
    /// Maximum fee of one payment in US dollars; null without a limit. Example: `25`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub cap_usd: OrNull<String>,
    /// Amount of the fee in US dollars. Example: `2.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub calculated_amount_usd: String,
    /// How the receiver is determined: always by a fixed address
    pub destination_resolver: FeeResolver,
    /// Receiver of the fee
    pub destination_ref: FeeDestination,
    /// Where the fee was configured
    pub config_source: FeeOrigin,
}

/// Receiver of a fee.
#[derive(Debug, Clone, Default, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct FeeDestination {
    /// Address on EVM networks
    pub evm_address: Option<WalletText>,
    /// Address on Tron. Example: `TJRabPrwbZy45sbavfcjinPJC18kjpRTv8`
    pub tron_address: Option<WalletText>,
}

/// A withdrawn secure payment.
#[derive(Debug, Clone, Object)]
pub struct SecurePaymentWithdrawn {
    /// Token of the secure payment
    pub token: UlidText,
    /// State: always `invalidated`. Example: `invalidated`
    pub status: SecurePaymentStatus,
}

/// Reads a fee: both percentage and receiver, or neither. `place` is the prefix of the field names in errors, for
/// example `requests[0].`.
fn fee(
    percent: Option<PercentText>,
    receiver: Option<WalletText>,
    place: &str,
    checks: &mut Checks,
) -> Option<(Percent, Address)> {
    match (&percent, &receiver) {
        (Some(_), None) => checks.fail(format!("{place}feeAddress"), "is required when feePercentage is set"),
        (None, Some(_)) => checks.fail(format!("{place}feePercentage"), "is required when feeAddress is set"),
        _ => {}
    }
    let percent = percent.and_then(|text| checks.take(&format!("{place}feePercentage"), text.value()));
    let receiver = receiver.and_then(|text| checks.take(&format!("{place}feeAddress"), text.value()));
    percent.zip(receiver)
}

/// The redirect button of a body: each part with the name of its field.
struct Button {
    url: Option<FieldValue<RedirectUrlText>>,
    label: Option<FieldValue<RedirectLabelText>>,
}

impl Button {
    /// A button given at the top level.
    fn beside(url: Option<RedirectUrlText>, label: Option<RedirectLabelText>) -> Self {
        Self {
            url: url.map(|url| FieldValue::at("redirectUrl", url)),
            label: label.map(|label| FieldValue::at("redirectLabel", label)),
        }
    }

    /// The field of the button that leads the errors: when the button is invalid, the message of this field is also the
    /// message of the response. Source: decisions D39.
    fn leading(&self) -> String {
        match (&self.url, &self.label) {
            (Some(url), _) => url.field.clone(),
            (None, Some(label)) => label.field.clone(),
            (None, None) => "redirectUrl".to_owned(),
        }
    }

    /// Reads the button, or reports what is wrong with it.
    fn read(self, checks: &mut Checks) -> Option<RedirectButton> {
        let Some(url) = self.url else {
            if let Some(label) = self.label {
                checks.fail(label.field, LABEL_ALONE);
            }
            return None;
        };
        let target = checks
            .take(&url.field, checked_url(url.value.as_str()))
            .map(str::to_owned);
        let is_seen = |label: &FieldValue<RedirectLabelText>| {
            let text = label.value.as_str();
            text.chars().all(is_plain) && text.chars().any(|letter| !letter.is_whitespace())
        };
        if let Some(label) = self.label.as_ref().filter(|label| !is_seen(label)) {
            checks.fail(label.field.as_str(), RedirectLabelText::HINT);
        }
        Some(RedirectButton {
            url: target?,
            label: self.label.map(|label| label.value.into()),
        })
    }
}

/// A value with the name of its field.
struct FieldValue<T> {
    field: String,
    value: T,
}

impl<T> FieldValue<T> {
    fn at(field: impl Into<String>, value: T) -> Self {
        Self {
            field: field.into(),
            value,
        }
    }
}

/// Reads a value that may be given at the top level or in the items. A link has one value, so all given values must be
/// equal.
fn sole<T: Clone + PartialEq>(
    name: &str,
    beside: Option<T>,
    items: &[SecurePaymentItem],
    of: impl Fn(&SecurePaymentItem) -> Option<T>,
    checks: &mut Checks,
) -> Option<FieldValue<T>> {
    let mut known = beside.map(|value| FieldValue::at(name, value));
    for (index, item) in items.iter().enumerate() {
        let Some(own) = of(item) else { continue };
        let field = format!("requests[{index}].{name}");
        let differs = known.as_ref().is_some_and(|known| known.value != own);
        if differs {
            let sentence = format!("must be absent or the same everywhere: a link has one {name}");
            checks.fail(field.as_str(), sentence);
        }
        known = known.or(Some(FieldValue::at(field, own)));
    }
    known
}

impl SecurePaymentAccessPolicy {
    fn read(self, checks: &mut Checks) -> AskedPolicy {
        let wallets = self.allowed_payer_addresses.unwrap_or_default().into_iter();
        let wallets = wallets.enumerate().filter_map(|(index, wallet)| {
            let text = Family::in_one_case(wallet.as_str());
            let field = format!("accessPolicy.allowedPayerAddresses[{index}]");
            checks.take(&field, Address::parse(&text))
        });
        let asked = AskedPolicy {
            allowed: wallets.collect(),
            mode: self.mode,
            provider: self.screening_provider,
            hides_until_approved: self.hide_until_approved,
            hides_payee: self.hide_payee_address,
        };
        asked.check(checks);
        asked
    }
}

/// The destination that a text names. A text in no known format is reported.
fn wanted(text: Option<&LinkDestinationText>, field: &str, unreadable: &mut Vec<FieldError>) -> ItemDestination {
    let Some(text) = text else { return ItemDestination::Any };
    match DestinationKey::parse(text.as_str()) {
        Ok(Some(key)) => ItemDestination::Named(key),
        Ok(None) => ItemDestination::Unknown,
        Err(_) => {
            unreadable.push(FieldError::new(field, LinkDestinationText::HINT));
            ItemDestination::Unknown
        }
    }
}

/// Values given at the top level, which apply to every item.
struct TopLevelValues<'a> {
    destination: ItemDestination,
    fee: Option<NamedFee>,
    reference: Option<&'a str>,
}

impl SecurePaymentItem {
    /// Reads an item.
    fn read(
        self,
        index: usize,
        beside: &TopLevelValues<'_>,
        unreadable: &mut Vec<FieldError>,
        checks: &mut Checks,
    ) -> Option<NewItem> {
        let place = format!("requests[{index}].");
        let foreign = [
            ("payee", &self.payee),
            ("currency", &self.currency),
            ("invoiceCurrency", &self.invoice_currency),
            ("paymentCurrency", &self.payment_currency),
        ];
        for (name, given) in foreign {
            if given.is_some() {
                let sentence = "must be absent: the payment destination determines payee and currency";
                checks.fail(format!("{place}{name}"), sentence);
            }
        }
        let amount = checks.take(&format!("{place}amount"), self.amount.value());
        let own = fee(self.fee_percentage, self.fee_address, &place, checks);
        let fee = match (own, beside.fee) {
            (Some(own), Some(beside)) if own != beside.fee => {
                let sentence = "must be absent or the same as at the top level: both set the fee of this amount";
                let differs = [
                    ("feePercentage", own.0 != beside.fee.0),
                    ("feeAddress", own.1 != beside.fee.1),
                ];
                for (name, _) in differs.into_iter().filter(|(_, differs)| *differs) {
                    checks.fail(format!("{place}{name}"), sentence);
                }
                None
            }
            (Some(fee), _) => Some(NamedFee { fee, is_of_item: true }),
            (None, beside) => beside,
        };
        let own = self.reference.map(String::from);
        if let (Some(own), Some(beside)) = (&own, beside.reference)
            && own != beside
        {
            let sentence = "must be absent or the same as at the top level";
            checks.fail(format!("{place}reference"), sentence);
        }
        let field = format!("{place}destinationId");
        let destination = match (
            wanted(self.destination_id.as_ref(), &field, unreadable),
            beside.destination,
        ) {
            (ItemDestination::Any, beside) => beside,
            (own, beside) => {
                if beside != ItemDestination::Any && own != beside {
                    checks.fail(field, "must be absent or the same as at the top level");
                }
                own
            }
        };
        Some(NewItem {
            destination,
            amount: amount?,
            fee,
            reference: own,
        })
    }
}

impl CreateSecurePaymentBody {
    /// Reads the values, as far as this is possible without the destination. Errors: every wrong field, then every text
    /// that is not a destination id.
    pub(super) fn read(self) -> Result<NewSecurePayment, Refusal> {
        let mut checks = Checks::new();
        let items = &self.requests;
        let url = sole(
            "redirectUrl",
            self.redirect_url,
            items,
            |item| item.redirect_url.clone(),
            &mut checks,
        );
        let label = sole(
            "redirectLabel",
            self.redirect_label,
            items,
            |item| item.redirect_label.clone(),
            &mut checks,
        );
        let payer = |item: &SecurePaymentItem| item.payer_identifier.clone();
        let payer = sole("payerIdentifier", self.payer_identifier, items, payer, &mut checks);
        let button = Button { url, label };
        let leading = button.leading();
        let redirect = button.read(&mut checks);
        let beside = fee(self.fee_percentage, self.fee_address, "", &mut checks);
        let beside = beside.map(|fee| NamedFee { fee, is_of_item: false });
        let reference = self.reference.map(String::from);
        let mut unreadable = Vec::new();
        let beside = TopLevelValues {
            destination: wanted(self.destination_id.as_ref(), "destinationId", &mut unreadable),
            fee: beside,
            reference: reference.as_deref(),
        };
        let count = self.requests.len();
        let items = self.requests.into_iter().enumerate();
        let items = items.filter_map(|(index, item)| item.read(index, &beside, &mut unreadable, &mut checks));
        let items: Vec<NewItem> = items.collect();
        let policy = self
            .access_policy
            .map(|policy| policy.read(&mut checks))
            .unwrap_or_default();
        checks.finish().map_err(|refusal| refusal.led_by(&leading))?;
        if !unreadable.is_empty() {
            return Err(unreadable_destination(unreadable));
        }
        let of_item = match (count, items.first()) {
            (1, Some(sole)) => sole.reference.clone(),
            _ => None,
        };
        Ok(NewSecurePayment {
            items,
            about: LinkDetails {
                reference: reference.or(of_item),
                redirect,
            },
            names: MerchantNames {
                payer: payer.map(|payer| payer.value.into()),
                recipient: None,
            },
            policy,
            expires_in: self.expires_in.map(|seconds| TimeDelta::seconds(seconds.into())),
        })
    }
}

impl CreateSecurePayoutBody {
    /// Reads the values. Errors: every wrong field.
    pub(super) fn read(self, catalogue: &Catalogue) -> Result<NewPayoutLink, Refusal> {
        let mut checks = Checks::new();
        let button = Button::beside(self.redirect_url, self.redirect_label);
        let leading = button.leading();
        let redirect = button.read(&mut checks);
        let recipient = checks.take("recipient", self.recipient.value());
        let amount = checks.take("amount", self.amount.value());
        let network = self.network;
        let currency = checks.take("currency", payment_currency(catalogue, self.currency.as_str()));
        if let Some(currency) = &currency
            && currency.network != network
        {
            let sentence = format!(
                "must be on the network in `network`, which is {network}: this currency is on {}",
                currency.network
            );
            checks.fail("currency", sentence);
        }
        let fee = fee(self.fee_percentage, self.fee_address, "", &mut checks);
        let policy = self
            .access_policy
            .map(|policy| policy.read(&mut checks))
            .unwrap_or_default();
        // The format check is enough for a Tron address, because nothing is paid to the creator.
        let creator = match self.creator_wallet_address.value() {
            Ok(creator) => Some(creator.to_string()),
            Err(_) if Family::of_address(self.creator_wallet_address.as_str()) == Family::Tron => {
                Some(self.creator_wallet_address.as_str().to_owned())
            }
            Err(sentence) => checks.take("creatorWalletAddress", Err::<String, _>(sentence)),
        };
        let given = recipient.zip(amount).zip(currency.zip(creator));
        let ((recipient, amount), (currency, creator)) =
            checks.finish_with(given).map_err(|refusal| refusal.led_by(&leading))?;
        Ok(NewPayoutLink {
            recipient,
            creator,
            currency,
            amount,
            fee,
            about: LinkDetails {
                reference: self.reference.map(String::from),
                redirect,
            },
            names: MerchantNames {
                payer: None,
                recipient: self.recipient_identifier.map(String::from),
            },
            policy,
            expires_in: self.expires_in.map(|seconds| TimeDelta::seconds(seconds.into())),
        })
    }
}

impl CombinePayoutsBody {
    /// Reads the values. Errors: an invalid button.
    pub(super) fn read(self) -> Result<(Vec<String>, Option<RedirectButton>), Refusal> {
        let mut checks = Checks::new();
        let button = Button::beside(self.redirect_url, self.redirect_label);
        let leading = button.leading();
        let redirect = button.read(&mut checks);
        checks.finish().map_err(|refusal| refusal.led_by(&leading))?;
        Ok((self.tokens.into_iter().map(String::from).collect(), redirect))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::Regex;

    #[test]
    fn the_documented_pattern_matches_the_allowed_button_texts() {
        let form = Regex::new(LABEL).unwrap();
        for letter in (0..=0xffff).filter_map(char::from_u32) {
            let is_taken = is_plain(letter) && !"<>&\"'`".contains(letter);
            assert_eq!(form.is_match(&format!("a{letter}b")), is_taken, "{letter:?}");
            let is_seen = is_taken && !letter.is_whitespace();
            assert_eq!(form.is_match(&letter.to_string()), is_seen, "{letter:?} alone");
        }
    }
}
