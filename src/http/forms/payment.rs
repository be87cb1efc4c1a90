//! A payment as clients see it, alone or inside its request, with its customer and fees.

use crate::{
    ctx::Ctx,
    domain::{
        currency::Currency,
        paying::charge::FeeLeg,
        payment::{PayerAccess, PaymentKind, ReversalReason},
        payment_record::PaymentRecord,
        rates::RateProvider,
        request::{
            progress::{CreditedPayment, Scale},
            terms,
        },
    },
    http::forms::{
        null::OrNull,
        text::{LINE, text},
        wire::*,
        words::words,
    },
};
use poem_openapi::{Enum, Object, types::Email};

words! {
    /// Kind of a payment
    PaymentKind as "PaymentType";
    /// Whether the list of allowed wallets and the screening of a link let its payer pay
    PayerAccess as "PayerAccess";
    /// Why a payment was reversed
    ReversalReason as "ReversalReason";
}

text! {
    /// Street and number.
    StreetText {
        pattern: LINE,
        length_max: 255,
        example: "1 Main Street",
        hint: "must be one line of at most 255 characters, without control, invisible or text direction characters",
    }
    /// City, state or region.
    PlaceText {
        pattern: LINE,
        length_max: 100,
        example: "London",
        hint: "must be one line of at most 100 characters, without control, invisible or text direction characters",
    }
    /// Postal code.
    PostalCodeText {
        pattern: LINE,
        length_max: 20,
        example: "SW1A 1AA",
        hint: "must be one line of at most 20 characters, without control, invisible or text direction characters",
    }
    /// Country, two letters.
    CountryText {
        pattern: LINE,
        length_min: 2,
        length_max: 2,
        example: "GB",
        hint: "must be a two-letter country code, for example GB",
        holds: |text: &str| text.chars().count() == 2,
    }
}

/// Postal address of a customer.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct CustomerAddress {
    /// Street and number.
    pub street: Option<StreetText>,
    /// City.
    pub city: Option<PlaceText>,
    /// State or region.
    pub state: Option<PlaceText>,
    /// Postal code.
    pub postal_code: Option<PostalCodeText>,
    /// Country, two letters.
    pub country: Option<CountryText>,
}

/// Customer details, for receipts.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct CustomerInfo {
    /// Given name. Example: `Ada`
    pub first_name: Option<NameText>,
    /// Family name. Example: `Lovelace`
    pub last_name: Option<NameText>,
    /// E-mail address. Example: `ada@example.com`
    #[oai(validator(max_length = 255))]
    pub email: Option<Email>,
    /// Postal address
    pub address: Option<CustomerAddress>,
}

/// Kind of a fee
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "kebab-case")]
pub enum FeeType {
    /// Network fee
    Gas,
    /// Fee of the platform
    Platform,
    /// Fee of a bridge
    Crosschain,
    /// Fee of a conversion to a bank account
    CryptoToFiat,
    /// Fee of an off-ramp
    Offramp,
}

/// Source of the rate of one payment
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "lowercase")]
pub enum PaymentRateSource {
    /// Bridge
    Lifi,
    /// On-chain price feeds
    Chainlink,
    /// Rate service
    Coingecko,
    /// Not known
    Unknown,
}

/// Stage of the payment at which a fee was charged
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "lowercase")]
pub enum FeeStage {
    /// When the payer sends
    Sending,
    /// When the payee receives
    Receiving,
    /// In the payment contract
    Proxying,
    /// On a refund
    Refunding,
}

/// Fee of a payment.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct Fee {
    /// Kind
    #[oai(rename = "type")]
    pub kind: FeeType,
    /// Where it was charged
    pub stage: FeeStage,
    /// Who charged it. Example: `service-network`
    #[oai(validator(max_length = 64))]
    pub provider: String,
    /// Amount in the currency of the fee, human units. Example: `0.25`
    pub amount: AmountText,
    /// The same amount in US dollars; absent when the service has no dollar price for the currency. Example: `0.25`
    #[oai(rename = "amountInUSD")]
    pub amount_in_usd: Option<AmountText>,
    /// Symbol of the currency
    pub currency: SymbolText,
    /// Wallet that received the fee
    pub receiver_address: Option<WalletText>,
    /// Network on which the fee was charged
    pub network: NetworkText,
    /// Source of the dollar price. Example: `unknown`
    #[oai(validator(max_length = 32))]
    pub rate_provider: String,
}

/// The request that a payment settles.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PaymentRequestSummary {
    /// Id of the request
    pub request_id: RequestIdText,
    /// Reference that payments of this request carry on chain
    pub payment_reference: ReferenceText,
    /// Whether the whole amount has arrived and is final. Example: `true`
    pub has_been_paid: bool,
    /// Customer as given at creation
    pub customer_info: OrNull<CustomerInfo>,
    /// Your own reference
    pub reference: OrNull<MerchantReference>,
}

/// Reversal of a payment.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct Reversal {
    /// When the payment was reversed
    pub reversed_at: Instant,
    /// Reason
    pub reason: ReversalReason,
}

/// A settled payment.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct Payment {
    /// Id of the payment
    pub id: UlidText,
    /// Amount that the payment settles, in the invoice currency, in human units
    pub amount: AmountText,
    /// Network on which the payer paid
    pub source_network: NetworkText,
    /// Network on which the payee received the payment
    pub destination_network: NetworkText,
    /// Transaction on the source network
    pub source_tx_hash: OrNull<TxHash>,
    /// Transaction on the destination network
    pub destination_tx_hash: OrNull<TxHash>,
    /// Time of the block that contains the payment
    pub timestamp: Instant,
    /// Kind
    #[oai(rename = "type")]
    pub kind: PaymentKind,
    /// Invoice units per unit of the payment currency on the source network; null without conversion. Example: `0.9997`
    pub conversion_rate_source: OrNull<AmountText>,
    /// Invoice units per unit of the payment currency on the destination network; null without conversion.
    /// Example: `0.9997`
    pub conversion_rate_destination: OrNull<AmountText>,
    /// Amount in the payment currency on the source network; null without conversion. Example: `10.503`
    pub converted_amount_source: OrNull<AmountText>,
    /// Amount in the payment currency on the destination network; null without conversion. Example: `10.503`
    pub converted_amount_destination: OrNull<AmountText>,
    /// Symbol of the invoice currency
    pub currency: SymbolText,
    /// Symbol of the payment currency
    pub payment_currency: SymbolText,
    /// How much of the required fees this payment did not pay, in the invoice currency; absent when nothing is missing.
    /// `amount` does not contain the fees, so the payment is credited with the whole `amount`. Example: `0.25`
    pub fee_shortfall: Option<AmountText>,
    /// Fees paid with this payment
    #[oai(validator(max_items = 16))]
    pub fees: OrNull<Vec<Fee>>,
    /// Recurring payment that this payment belongs to
    pub recurring_payment_id: OrNull<UlidText>,
    /// Source of the rate; null without conversion
    pub rate_provider: OrNull<PaymentRateSource>,
    /// Present only if the payment left the chain after it was credited, and no longer counts. Added by this service
    pub reversal: Option<Reversal>,
    /// Present only for payments of a link that has a list of allowed wallets or requires screening: `ok`, or the check
    /// that the payer fails; `unknown` while the payer is not screened, or when the chain does not show who paid. The
    /// payment is credited in any case. Added by this service
    pub payer_access: Option<PayerAccess>,
    /// The request that the payment settles; absent inside that request
    pub request: Option<PaymentRequestSummary>,
}

impl From<RateProvider> for PaymentRateSource {
    fn from(provider: RateProvider) -> Self {
        match provider {
            RateProvider::Lifi => Self::Lifi,
            RateProvider::Chainlink => Self::Chainlink,
            RateProvider::Coingecko => Self::Coingecko,
            RateProvider::Unknown => Self::Unknown,
        }
    }
}

impl From<CustomerInfo> for terms::CustomerInfo {
    fn from(info: CustomerInfo) -> Self {
        Self {
            first_name: info.first_name.map(String::from),
            last_name: info.last_name.map(String::from),
            email: info.email.map(|email| email.0),
            address: info.address.map(|address| terms::CustomerAddress {
                street: address.street.map(String::from),
                city: address.city.map(String::from),
                state: address.state.map(String::from),
                postal_code: address.postal_code.map(String::from),
                country: address.country.map(String::from),
            }),
        }
    }
}

impl From<terms::CustomerInfo> for CustomerInfo {
    fn from(info: terms::CustomerInfo) -> Self {
        Self {
            first_name: info.first_name.map(NameText::written),
            last_name: info.last_name.map(NameText::written),
            email: info.email.map(Email),
            address: info.address.map(|address| CustomerAddress {
                street: address.street.map(StreetText::written),
                city: address.city.map(PlaceText::written),
                state: address.state.map(PlaceText::written),
                postal_code: address.postal_code.map(PostalCodeText::written),
                country: address.country.map(CountryText::written),
            }),
        }
    }
}

/// A payment with its currencies from the catalogue.
pub(in crate::http) struct PricedPayment<'a> {
    record: &'a PaymentRecord,
    scale: Scale,
    payment_currency: Option<&'a Currency>,
}

impl<'a> PricedPayment<'a> {
    /// Looks up the currencies of a payment.
    pub(in crate::http) fn new(ctx: &'a Ctx, record: &'a PaymentRecord) -> Self {
        Self {
            record,
            scale: Scale::of(&ctx.catalogue, &record.invoice_currency, &record.payment_currency),
            payment_currency: ctx.catalogue.find(&record.payment_currency),
        }
    }

    /// Amount of its request that the payment settled.
    pub(in crate::http) fn amount(&self) -> AmountText {
        AmountText::written(self.scale.amount(self.record.credited))
    }

    /// Invoice units per unit of the payment currency at the time of payment.
    pub(in crate::http) fn rate(&self) -> Option<AmountText> {
        let part = CreditedPayment {
            credited: self.record.credited,
            units: self.record.units,
            applied: self.record.applied,
        };
        self.scale.rate(part).map(AmountText::written)
    }

    /// Source of the applied rate; Chainlink if no rate was applied.
    pub(in crate::http) fn rate_source(&self) -> PaymentRateSource {
        let applied = self.record.applied;
        applied.map_or(PaymentRateSource::Chainlink, |applied| applied.provider.into())
    }

    /// The fees paid with the payment, each with its receiver.
    pub(in crate::http) fn fees(&self) -> impl Iterator<Item = (AmountText, WalletText)> {
        let riding = self.record.fee_address.map(|receiver| FeeLeg {
            receiver,
            units: self.record.fee_units,
        });
        let fees = riding.into_iter().chain(self.record.further_fees.iter().copied());
        fees.filter_map(|fee| {
            let amount = self.scale.fee(fee.units, Some(fee.receiver))?;
            Some((AmountText::written(amount), WalletText::written(fee.receiver)))
        })
    }

    /// Symbol of the payment currency.
    pub(in crate::http) fn symbol(&self) -> SymbolText {
        let symbol = self.payment_currency.map(|currency| &currency.symbol);
        SymbolText::written(symbol.unwrap_or(&self.record.payment_currency))
    }
}

/// A payment inside its request.
pub(in crate::http) fn payment(ctx: &Ctx, record: &PaymentRecord) -> Payment {
    let shown = PricedPayment::new(ctx, record);
    let is_converted = record.invoice_currency != record.payment_currency;
    let converted = is_converted.then(|| AmountText::written(shown.scale.paid(record.units)));
    let rate = shown.rate().filter(|_| is_converted);
    let network = NetworkText::written(record.network);
    let tx_hash = Some(TxHash::written(record.tx_hash));
    let invoice = ctx.catalogue.find(&record.invoice_currency);
    Payment {
        id: UlidText::written(&record.id),
        amount: shown.amount(),
        source_network: NetworkText::written(record.source.network),
        destination_network: network,
        source_tx_hash: OrNull(Some(TxHash::written(record.source.tx_hash))),
        destination_tx_hash: OrNull(tx_hash),
        timestamp: Instant(record.paid_at),
        kind: record.kind,
        conversion_rate_source: OrNull(rate.clone()),
        conversion_rate_destination: OrNull(rate),
        converted_amount_source: OrNull(converted.clone()),
        converted_amount_destination: OrNull(converted),
        currency: SymbolText::written(invoice.map_or(&record.invoice_currency, |currency| &currency.symbol)),
        payment_currency: shown.symbol(),
        fee_shortfall: record
            .fee_shortfall
            .map(|missing| AmountText::written(shown.scale.amount(missing))),
        recurring_payment_id: OrNull(record.schedule.as_ref().map(UlidText::written)),
        fees: OrNull(Some(
            shown
                .fees()
                .map(|(amount, receiver)| fee(ctx, &shown, amount, receiver))
                .collect(),
        )),
        rate_provider: OrNull(is_converted.then(|| shown.rate_source())),
        reversal: record.reversal.map(|reversal| Reversal {
            reversed_at: Instant(reversal.at),
            reason: reversal.reason,
        }),
        payer_access: record.payer_access,
        request: None,
    }
}

fn fee(ctx: &Ctx, shown: &PricedPayment<'_>, amount: AmountText, receiver: WalletText) -> Fee {
    let is_dollar = shown.payment_currency.is_some_and(Currency::is_dollar);
    Fee {
        kind: FeeType::Platform,
        stage: FeeStage::Proxying,
        provider: ctx.payments.processor_crypto.clone(),
        amount_in_usd: is_dollar.then(|| amount.clone()),
        amount,
        currency: shown.symbol(),
        receiver_address: Some(receiver),
        network: NetworkText::written(shown.record.network),
        rate_provider: "unknown".to_owned(),
    }
}
