//! What creators of secure payments send and get.

use crate::{
    domain::{
        address::Address,
        amount::Percent,
        currency::Catalogue,
        destination::ScreeningProvider,
        interop_address::DestinationKey,
        network::{Family, Network},
        paying::charge::{FeeBearer, FeeKind, FeeOrigin},
        refusal::{FieldError, Refusal},
        request::plan::payment_currency,
        secure_payment::{
            About, Names, PaymentFlow, SecurePaymentKind, SecurePaymentStatus,
            access::{AskedMode, AskedPolicy},
            fee_plan::BearerSource,
            plan::{NamedFee, NewItem, NewPayout, NewSecurePayment, Wanted, unreadable_destination},
            redirect::{LABEL_ALONE, Redirect, checked_url, is_plain},
        },
    },
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
    /// Which way the money goes, as the creator sees it
    PaymentFlow as "PaymentFlow";
    /// Whether payers are screened; `inherit` as the destination has it
    AskedMode as "SecurePaymentAccessMode";
    /// Who bears a fee
    FeeBearer as "FeeBearer";
    /// What decided who bears a fee
    BearerSource as "FeeBearerSource";
    /// Whose fee it is
    FeeKind as "FeeKind";
    /// Where a fee was set
    FeeOrigin as "FeeConfigSource";
}

/// How the receiver of a fee is found
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum FeeResolver {
    /// It is a fixed address
    StaticAddress,
}

/// Version of the form of fee plans: always 1.
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
    /// Id of a payee destination. What is no id is a rule of the domain, whose sentence is that of the contract. Source: decisions D39.
    LinkDestinationText {
        pattern: r"^[^\x00]*$",
        length_max: 2048,
        example: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8@eip155:11155111#121DA093:0x370DE27fdb7D1Ff1e1BaA7D11c5820a324Cf623C",
        hint: "must be the id of a payee destination: wallet@eip155:chainId#checksum:token",
    }
    /// Where a payer may go. What is safe is a rule of the domain, whose sentence is that of the contract. Source: decisions D39.
    RedirectUrlText {
        pattern: r"^[^\x00]*$",
        length_max: 2048,
        example: "https://shop.example.com/thanks",
        hint: "must be an http or https address of at most 2048 characters, for example https://shop.example.com/thanks",
    }
    /// What a button says.
    RedirectLabelText {
        pattern: LABEL,
        length_min: 1,
        length_max: 255,
        example: "Back to the shop",
        hint: "must have 1 to 255 characters, not blanks alone, without < > & and quotes, control characters, invisible ones and marks of the writing direction",
    }
    /// Page for the payer of a secure payment.
    PayPageText {
        pattern: r"^https?://[^\s\x00-\x1f\x7f-\x9f]+$",
        length_max: 2100,
        format: "uri",
        example: "https://pay.example.com/?token=01JZX4T9QK3M7N8P2R5S6V0WYB",
        hint: "must be the address of a page",
    }
    /// The merchant's own name of somebody.
    IdentifierText {
        pattern: LINE,
        length_min: 1,
        length_max: 255,
        example: "customer-17",
        hint: "must be one line of 1 to 255 characters, without control characters, invisible ones and marks of the writing direction",
    }
}

/// Who may pay a secure payment, and what a payer sees of it. What is absent or null is as at the destination.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", example)]
pub struct SecurePaymentAccessPolicy {
    /// Which payers are screened
    #[oai(nullable)]
    pub mode: Option<AskedMode>,
    /// Who screens them: with `kyt_all_wallets` and only there
    #[oai(nullable)]
    pub screening_provider: Option<ScreeningProvider>,
    /// Whether amount and people stay hidden until the payer is approved. Example: `false`
    #[oai(nullable)]
    pub hide_until_approved: Option<bool>,
    /// Whether payers see the address of the payee masked. Example: `false`
    #[oai(nullable)]
    pub hide_payee_address: Option<bool>,
    /// Wallets that may pay; absent, null or empty for everybody. Noted on payouts, where it holds nobody
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

/// One amount of a secure payment.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct SecurePaymentItem {
    /// Where it is paid to; absent, at the destination that is set up. An API key may name another one that is in use on its
    /// platform. A client ID without domains that is bound to none has to name one. Everything else is a 403
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
    /// Your own reference of this amount
    #[oai(nullable)]
    pub reference: Option<MerchantReference>,
    /// The same as beside the items; one for a link
    #[oai(nullable)]
    pub payer_identifier: Option<IdentifierText>,
    /// The same as beside the items; one for a link
    #[oai(nullable)]
    pub redirect_url: Option<RedirectUrlText>,
    /// The same as beside the items; one for a link
    #[oai(nullable)]
    pub redirect_label: Option<RedirectLabelText>,
    /// Must be absent: the destination says who is paid. Example: `0x70997970C51812dc3A010C7d01b50e0d17dc79C8`
    #[oai(nullable, validator(max_length = 255))]
    pub payee: Option<String>,
    /// Must be absent: the destination says in what is paid. Example: `FAU-sepolia`
    #[oai(nullable, validator(max_length = 255))]
    pub currency: Option<String>,
    /// Must be absent: the destination says in what is paid. Example: `FAU-sepolia`
    #[oai(nullable, validator(max_length = 255))]
    pub invoice_currency: Option<String>,
    /// Must be absent: the destination says in what is paid. Example: `FAU-sepolia`
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

/// What is asked for with a link.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreateSecurePaymentBody {
    /// What is paid; several are paid in one transaction
    #[oai(validator(min_items = 1, max_items = 200))]
    pub requests: Vec<SecurePaymentItem>,
    /// Where all items are paid to: the same as `destinationId` of each. An addition of this service
    #[oai(nullable)]
    pub destination_id: Option<LinkDestinationText>,
    /// Fee on top of each amount, 0 to 100; needs `feeAddress`
    #[oai(nullable)]
    pub fee_percentage: Option<PercentText>,
    /// Receiver of the fee; needs `feePercentage`
    #[oai(nullable)]
    pub fee_address: Option<WalletText>,
    /// Your own reference; payers see it
    #[oai(nullable)]
    pub reference: Option<MerchantReference>,
    /// Your own name of the payer; no payer sees it
    #[oai(nullable)]
    pub payer_identifier: Option<IdentifierText>,
    /// Where the payer may go afterwards: a button, nothing redirects by itself
    #[oai(nullable)]
    pub redirect_url: Option<RedirectUrlText>,
    /// What the button says; needs `redirectUrl`
    #[oai(nullable)]
    pub redirect_label: Option<RedirectLabelText>,
    /// Who may pay, and what a payer sees
    #[oai(nullable)]
    pub access_policy: Option<SecurePaymentAccessPolicy>,
    /// Seconds for which it can be paid, 5 minutes to 90 days; absent, as the operator has it. An addition of this service. Example: `86400`
    #[oai(nullable, validator(minimum(value = "300"), maximum(value = "7776000")))]
    pub expires_in: Option<u32>,
}

impl Example for CreateSecurePaymentBody {
    /// Works as it stands where a destination is set up.
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

/// Whom to pay with a link.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreateSecurePayoutBody {
    /// Wallet that is paid
    pub recipient: WalletText,
    /// Wallet that is going to pay, usually yours; noted, and any wallet may pay
    pub creator_wallet_address: WalletText,
    /// Network of the payment. Example: `sepolia`
    pub network: Network,
    /// What is paid; has to be on `network`
    pub currency: CurrencyIdText,
    /// Amount, human units
    pub amount: AskedAmountText,
    /// Your own reference; payers see it
    #[oai(nullable)]
    pub reference: Option<MerchantReference>,
    /// Your own name of the recipient; no payer sees it
    #[oai(nullable)]
    pub recipient_identifier: Option<IdentifierText>,
    /// Fee on top of the amount, 0 to 100; needs `feeAddress`
    #[oai(nullable)]
    pub fee_percentage: Option<PercentText>,
    /// Receiver of the fee; needs `feePercentage`
    #[oai(nullable)]
    pub fee_address: Option<WalletText>,
    /// Where the payer may go afterwards: a button, nothing redirects by itself
    #[oai(nullable)]
    pub redirect_url: Option<RedirectUrlText>,
    /// What the button says; needs `redirectUrl`
    #[oai(nullable)]
    pub redirect_label: Option<RedirectLabelText>,
    /// Who is screened, and what a payer sees
    #[oai(nullable)]
    pub access_policy: Option<SecurePaymentAccessPolicy>,
    /// Seconds for which it can be paid, 5 minutes to 90 days; absent, as the operator has it. An addition of this service. Example: `86400`
    #[oai(nullable, validator(minimum(value = "300"), maximum(value = "7776000")))]
    pub expires_in: Option<u32>,
}

impl Example for CreateSecurePayoutBody {
    /// Works as it stands on a service with Sepolia.
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

/// Payouts that become one link.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CombinePayoutsBody {
    /// Tokens of payout links that nobody has paid, all on one network; they are withdrawn
    #[oai(validator(min_items = 2, max_items = 200, unique_items))]
    pub tokens: Vec<UlidText>,
    /// Where the payer may go afterwards: a button, nothing redirects by itself
    #[oai(nullable)]
    pub redirect_url: Option<RedirectUrlText>,
    /// What the button says; needs `redirectUrl`
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

/// A payment whose fees are asked for.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct PreviewFeesBody {
    /// Amount, human units
    pub amount: AskedAmountText,
    /// Id or symbol of a stablecoin. Example: `USDC`
    pub currency: CurrencyIdText,
    /// Which way the money goes
    pub flow: PaymentFlow,
    /// Who bears fees that nothing else decides about; absent, the payee of `get_paid` and the payer of `pay`
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

/// A link that was made.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct SecurePaymentCreated {
    /// The requests that it pays, in the order of the call
    #[oai(validator(min_items = 1, max_items = 200))]
    pub request_ids: Vec<RequestIdText>,
    /// Page for the payer
    pub secure_payment_url: PayPageText,
    /// Token of the link: whoever has it may read and pay it
    pub token: UlidText,
    /// Its fees in US dollars; null where it is not paid in one stablecoin
    pub fee_plan: OrNull<FeePlanView>,
}

/// Fees of a secure payment in US dollars, as they are for good once it is made.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", example)]
pub struct FeePlanView {
    /// Version of this form, always 1. Example: `1`
    pub version: FeePlanVersion,
    /// Which way the money goes
    pub flow: PaymentFlow,
    /// Who bears fees that nothing else decides about: as the call says, else the payee of `get_paid` and the payer of `pay`
    pub default_fee_bearer: FeeBearer,
    /// What is asked for. Example: `100`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub gross_amount_usd: String,
    /// What the payee gets of it. Example: `100`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub net_recipient_amount_usd: String,
    /// What the payer pays. Example: `102.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub payer_total_amount_usd: String,
    /// All fees. Example: `2.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub total_fees_usd: String,
    /// Those that the payee bears. Example: `0`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub payee_borne_fees_usd: String,
    /// Those that the payer bears. Example: `2.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub payer_borne_fees_usd: String,
    /// Fee by fee
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
                fee_bearer_source: BearerSource::ForcedFeePolicy,
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
    /// Whose it is
    #[oai(rename = "type")]
    pub kind: FeeKind,
    /// Name for people. Example: `Platform fee`
    #[oai(validator(max_length = 64))]
    pub label: String,
    /// Who bears it
    pub fee_bearer: FeeBearer,
    /// What decided that
    pub fee_bearer_source: BearerSource,
    /// Rate in basis points. Example: `250`
    #[oai(validator(maximum(value = "10000")))]
    pub percentage_bps: u32,
    /// Most of one payment; null without a limit. Example: `25`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub cap_usd: OrNull<String>,
    /// What it is. Example: `2.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub calculated_amount_usd: String,
    /// How its receiver is found: always by a fixed address
    pub destination_resolver: FeeResolver,
    /// Its receiver
    pub destination_ref: FeeDestination,
    /// Where it was set
    pub config_source: FeeOrigin,
}

/// Receiver of a fee.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct FeeDestination {
    /// On EVM networks
    pub evm_address: Option<WalletText>,
    /// On Tron
    pub tron_address: Option<WalletText>,
}

/// A secure payment that was withdrawn.
#[derive(Debug, Clone, Object)]
pub struct SecurePaymentWithdrawn {
    /// Its token
    pub token: UlidText,
    /// Its state: `invalidated`. Example: `invalidated`
    pub status: SecurePaymentStatus,
}

/// Both halves of a fee, or neither, under the names of a place in the body.
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

/// A button as a body has it: its parts, each with the place at which it stands.
struct Button {
    url: Option<Placed<RedirectUrlText>>,
    label: Option<Placed<RedirectLabelText>>,
}

impl Button {
    /// One that stands beside everything else.
    fn beside(url: Option<RedirectUrlText>, label: Option<RedirectLabelText>) -> Self {
        Self {
            url: url.map(|url| Placed::at("redirectUrl", url)),
            label: label.map(|label| Placed::at("redirectLabel", label)),
        }
    }

    /// The field whose sentence is the message, where something is wrong with the button. Source: decisions D39.
    fn leading(&self) -> String {
        match (&self.url, &self.label) {
            (Some(url), _) => url.field.clone(),
            (None, Some(label)) => label.field.clone(),
            (None, None) => "redirectUrl".to_owned(),
        }
    }

    /// What it is, or what is wrong with it.
    fn read(self, checks: &mut Checks) -> Option<Redirect> {
        let Some(url) = self.url else {
            if let Some(label) = self.label {
                checks.fail(label.field, LABEL_ALONE);
            }
            return None;
        };
        let target = checks
            .take(&url.field, checked_url(url.value.as_str()))
            .map(str::to_owned);
        let is_seen = |label: &Placed<RedirectLabelText>| {
            let text = label.value.as_str();
            text.chars().all(is_plain) && text.chars().any(|letter| !letter.is_whitespace())
        };
        if let Some(label) = self.label.as_ref().filter(|label| !is_seen(label)) {
            checks.fail(label.field.as_str(), RedirectLabelText::HINT);
        }
        Some(Redirect {
            url: target?,
            label: self.label.map(|label| label.value.into()),
        })
    }
}

/// A value with the name of the place at which it stands.
struct Placed<T> {
    field: String,
    value: T,
}

impl<T> Placed<T> {
    fn at(field: impl Into<String>, value: T) -> Self {
        Self {
            field: field.into(),
            value,
        }
    }
}

/// What stands beside the items or in them; of a link there is one, so all places have to say the same.
fn sole<T: Clone + PartialEq>(
    name: &str,
    beside: Option<T>,
    items: &[SecurePaymentItem],
    of: impl Fn(&SecurePaymentItem) -> Option<T>,
    checks: &mut Checks,
) -> Option<Placed<T>> {
    let mut known = beside.map(|value| Placed::at(name, value));
    for (index, item) in items.iter().enumerate() {
        let Some(own) = of(item) else { continue };
        let field = format!("requests[{index}].{name}");
        let differs = known.as_ref().is_some_and(|known| known.value != own);
        if differs {
            let sentence = format!("must be absent or the same as in the other places: a link has one {name}");
            checks.fail(field.as_str(), sentence);
        }
        known = known.or(Some(Placed::at(field, own)));
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

/// The destination that a text names; notes one that names none in any known form.
fn wanted(text: Option<&LinkDestinationText>, field: &str, unreadable: &mut Vec<FieldError>) -> Wanted {
    let Some(text) = text else { return Wanted::Any };
    match DestinationKey::parse(text.as_str()) {
        Ok(Some(key)) => Wanted::Named(key),
        Ok(None) => Wanted::Unknown,
        Err(_) => {
            unreadable.push(FieldError::new(field, LinkDestinationText::HINT));
            Wanted::Unknown
        }
    }
}

/// What stands beside the items and holds for each of them.
struct Beside<'a> {
    destination: Wanted,
    fee: Option<NamedFee>,
    reference: Option<&'a str>,
}

impl SecurePaymentItem {
    /// Reads an item.
    fn read(
        self,
        index: usize,
        beside: &Beside<'_>,
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
                let sentence = "must be absent: the payment destination says who is paid and in what";
                checks.fail(format!("{place}{name}"), sentence);
            }
        }
        let amount = checks.take(&format!("{place}amount"), self.amount.value());
        let own = fee(self.fee_percentage, self.fee_address, &place, checks);
        let fee = match (own, beside.fee) {
            (Some(own), Some(beside)) if own != beside.fee => {
                let sentence = "must be absent or the same as beside the items: both say what this amount is charged";
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
            let sentence = "must be absent or the same as beside the items";
            checks.fail(format!("{place}reference"), sentence);
        }
        let field = format!("{place}destinationId");
        let destination = match (
            wanted(self.destination_id.as_ref(), &field, unreadable),
            beside.destination,
        ) {
            (Wanted::Any, beside) => beside,
            (own, beside) => {
                if beside != Wanted::Any && own != beside {
                    checks.fail(field, "must be absent or the same as beside the items");
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
    /// Reads the values, as far as they can be judged without the destination. Errors: every wrong field, then every text
    /// that names no destination.
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
        let beside = Beside {
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
            about: About {
                reference: reference.or(of_item),
                redirect,
            },
            names: Names {
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
    pub(super) fn read(self, catalogue: &Catalogue) -> Result<NewPayout, Refusal> {
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
                "must be on {network}, which network names: this one is on {}",
                currency.network
            );
            checks.fail("currency", sentence);
        }
        let fee = fee(self.fee_percentage, self.fee_address, "", &mut checks);
        let policy = self
            .access_policy
            .map(|policy| policy.read(&mut checks))
            .unwrap_or_default();
        // Of a Tron address the form is enough here: no money goes there.
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
        Ok(NewPayout {
            recipient,
            creator,
            currency,
            amount,
            fee,
            about: About {
                reference: self.reference.map(String::from),
                redirect,
            },
            names: Names {
                payer: None,
                recipient: self.recipient_identifier.map(String::from),
            },
            policy,
            expires_in: self.expires_in.map(|seconds| TimeDelta::seconds(seconds.into())),
        })
    }
}

impl CombinePayoutsBody {
    /// Reads the values. Errors: a button that is none.
    pub(super) fn read(self) -> Result<(Vec<String>, Option<Redirect>), Refusal> {
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
    fn the_documents_take_what_a_button_may_say() {
        let form = Regex::new(LABEL).unwrap();
        for letter in (0..=0xffff).filter_map(char::from_u32) {
            let is_taken = is_plain(letter) && !"<>&\"'`".contains(letter);
            assert_eq!(form.is_match(&format!("a{letter}b")), is_taken, "{letter:?}");
            let is_seen = is_taken && !letter.is_whitespace();
            assert_eq!(form.is_match(&letter.to_string()), is_seen, "{letter:?} alone");
        }
    }
}
