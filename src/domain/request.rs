//! Payment requests: what is asked for, when a payment counts, what it changes.

use super::{
    address::Address,
    amount::{Amount, AmountError, format_units},
    currency::{Catalogue, ContractKind, Currency, CurrencyKind},
    destination::Destination,
    ids::{ClientRowId, PlatformId, RequestId, RequestRowId},
    network::{Family, Network},
    payment::{Observation, PaymentKind},
    reference::PaymentReference,
    refusal::{Checks, Refusal},
    wire_text::wire_text,
};
use alloy::primitives::{U256, keccak256};
use chrono::{DateTime, NaiveDate, Utc};

/// Fraction digits that conversion contracts use for fiat currencies. Source: rules G.3.
pub const FIAT_CHAIN_DECIMALS: u8 = 8;

/// Most partial events that one request raises, so that dust cannot flood a receiver.
///
/// Payments beyond it are still recorded and credited. Source: rules C.3.
pub const PARTIAL_EVENTS_MAX: u32 = 100;

/// Units in which a request is settled: token units of the payment currency when it is paid in itself, 8-decimal
/// fiat units when it is converted on chain.
pub type SettlementUnits = U256;

wire_text! {
    /// State of a request. Source: rules S.1.
    pub enum RequestStatus {
        /// Nothing final has arrived.
        Pending = "pending",
        /// Less than the expected total has arrived.
        PartiallyPaid = "partially_paid",
        /// Money is on its way through a bridge or a bank.
        Processing = "processing",
        /// The expected total has arrived.
        Paid = "paid",
        /// Execution failed.
        Failed = "failed",
        /// Money went back to the payer.
        Refunded = "refunded",
        /// Withdrawn; no operation reaches it.
        Cancelled = "cancelled",
    }
}

wire_text! {
    /// How often a recurring request repeats. Source: rules P.3.3.
    pub enum Frequency {
        /// Every day.
        Daily = "DAILY",
        /// Every week.
        Weekly = "WEEKLY",
        /// Every month.
        Monthly = "MONTHLY",
        /// Every year.
        Yearly = "YEARLY",
    }
}

/// Repetition of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recurrence {
    /// First due day as the caller wrote it.
    pub start_date: String,
    /// Period.
    pub frequency: Frequency,
}

/// Postal address of a customer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomerAddress {
    /// Street.
    pub street: Option<String>,
    /// City.
    pub city: Option<String>,
    /// State.
    pub state: Option<String>,
    /// Postal code.
    pub postal_code: Option<String>,
    /// Country, two letters.
    pub country: Option<String>,
}

/// Who the customer is, for receipts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomerInfo {
    /// Given name.
    pub first_name: Option<String>,
    /// Family name.
    pub last_name: Option<String>,
    /// E-mail address.
    pub email: Option<String>,
    /// Postal address.
    pub address: Option<CustomerAddress>,
}

/// A payment request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Row.
    pub row: RequestRowId,
    /// Tenant.
    pub platform: PlatformId,
    /// Client ID that created it.
    pub client: Option<ClientRowId>,
    /// Public text of that client ID.
    pub client_id: Option<String>,
    /// Page that created it.
    pub origin: Option<String>,
    /// Public id.
    pub id: RequestId,
    /// Salt of the reference, 16 hexadecimal digits.
    pub salt: String,
    /// Reference of its payments.
    pub reference: PaymentReference,
    /// Kind of its payments.
    pub kind: PaymentKind,
    /// State.
    pub status: RequestStatus,
    /// Network of the payment currency.
    pub network: Network,
    /// Who is paid.
    pub payee: Address,
    /// Who is expected to pay.
    pub payer: Option<Address>,
    /// Amount in the invoice currency.
    pub amount: Amount,
    /// Canonical id of the invoice currency.
    pub invoice_currency: String,
    /// Canonical id of the payment currency.
    pub payment_currency: String,
    /// Token of the payment currency; `None` for the native coin.
    pub token: Option<Address>,
    /// Expected total.
    pub expected: SettlementUnits,
    /// Credited total of final payments.
    pub credited: SettlementUnits,
    /// Number of credited payments.
    pub payment_count: u32,
    /// Transaction of the payment that completed it.
    pub tx_hash: Option<String>,
    /// Merchant reference.
    pub merchant_reference: Option<String>,
    /// Customer.
    pub customer: Option<CustomerInfo>,
    /// Repetition.
    pub recurrence: Option<Recurrence>,
    /// Whether the repetition is stopped.
    pub is_recurrence_stopped: bool,
    /// Parent of a generated request.
    pub original_request_id: Option<String>,
    /// Reference of the parent.
    pub original_request_reference: Option<String>,
    /// Whether it may be paid out to a bank account.
    pub is_crypto_to_fiat: bool,
    /// Whether calldata was issued and the payment is awaited.
    pub is_listening: bool,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
}

/// Input of a new request, already checked for shape.
#[derive(Debug, Clone, Default)]
pub struct NewRequest {
    /// Payee.
    pub payee: Option<String>,
    /// Payee destination that the client ID of the caller is bound to; stands in for a missing payee.
    pub bound: Option<Destination>,
    /// Expected payer.
    pub payer: Option<String>,
    /// Amount.
    pub amount: String,
    /// Invoice currency id.
    pub invoice_currency: String,
    /// Payment currency id.
    pub payment_currency: String,
    /// First day and period: both texts.
    pub recurrence: Option<(String, String)>,
    /// Crypto-to-fiat.
    pub is_crypto_to_fiat: bool,
    /// Customer.
    pub customer: Option<CustomerInfo>,
    /// Merchant reference.
    pub merchant_reference: Option<String>,
    /// Parent request.
    pub original_request_id: Option<String>,
    /// Reference of the parent.
    pub original_request_reference: Option<String>,
}

/// Fresh values that a new request needs; the caller of [`plan`] draws them.
#[derive(Debug, Clone)]
pub struct FreshRequest {
    /// Row id.
    pub row: RequestRowId,
    /// 32 random bytes that make the public id.
    pub entropy: [u8; 32],
    /// 8 random bytes of the salt.
    pub salt: [u8; 8],
    /// Now.
    pub now: DateTime<Utc>,
}

/// Owner of a new request.
#[derive(Debug, Clone)]
pub struct Owner {
    /// Tenant.
    pub platform: PlatformId,
    /// Client ID: row and public text.
    pub client: Option<(ClientRowId, String)>,
    /// Page.
    pub origin: Option<String>,
}

/// Decides whether a request can be created, and what it is.
///
/// Errors: a refusal that names every wrong field. Source: interface §1; interface §8; rules P.3.3.
pub fn plan(
    input: &NewRequest,
    owner: &Owner,
    fresh: &FreshRequest,
    catalogue: &Catalogue,
) -> Result<Request, Refusal> {
    let mut checks = Checks::new();
    let amount = checks.take("amount", Amount::parse(&input.amount));
    let invoice = checks.take("invoiceCurrency", known(catalogue, &input.invoice_currency));
    let payment = checks.take("paymentCurrency", payable(catalogue, &input.payment_currency));
    if let Some(invoice) = invoice.filter(|invoice| invoice.kind != CurrencyKind::Fiat)
        && let Err(message) = enabled(catalogue, invoice)
    {
        checks.fail("invoiceCurrency", message);
    }
    let network = payment.and_then(|payment| payment.network);
    if input.is_crypto_to_fiat {
        checks.fail(
            "isCryptoToFiatAvailable",
            "must be false or absent: no crypto-to-fiat provider is configured on this service",
        );
    }
    let payee = match (&input.payee, network) {
        (Some(text), Some(network)) => checks.take("payee", receiver(catalogue, text, network)),
        (Some(text), None) => checks.take("payee", Address::parse(text).map_err(|error| error.to_string())),
        (None, _) => checks.take("payee", bound_payee(input.bound.as_ref(), network)),
    };
    let payer = match (&input.payer, network) {
        (Some(text), Some(network)) => checks.take("payer", Address::parse_on(text, network)),
        (Some(text), None) => checks.take("payer", Address::parse(text)),
        (None, _) => None,
    };
    let recurrence = input.recurrence.as_ref().and_then(|(start, frequency)| {
        let start = checks.take("recurrence.startDate", start_date(start, fresh.now.date_naive()));
        let frequency = Frequency::from_wire(frequency);
        if frequency.is_none() {
            checks.fail("recurrence.frequency", "must be one of DAILY, WEEKLY, MONTHLY, YEARLY");
        }
        Some(Recurrence {
            start_date: start?,
            frequency: frequency?,
        })
    });
    let expected = match (&amount, invoice, payment) {
        (Some(amount), Some(invoice), Some(payment)) => match settlement_kind(catalogue, invoice, payment) {
            Ok(_) => checks.take("amount", expected_units(amount, invoice)),
            Err(message) => {
                checks.fail("paymentCurrency", message);
                None
            }
        },
        _ => None,
    };
    checks.finish()?;
    let (Some(amount), Some(invoice), Some(payment), Some(network), Some(payee), Some(expected)) =
        (amount, invoice, payment, network, payee, expected)
    else {
        return Err(Refusal::invalid("Validation failed"));
    };
    let kind = match (&recurrence, invoice.id == payment.id) {
        (Some(_), _) => PaymentKind::Recurring,
        (None, true) => PaymentKind::Direct,
        (None, false) => PaymentKind::Conversion,
    };
    let salt = hex::encode(fresh.salt);
    // The id commits to what was asked for, so that two requests can never share it by accident of the entropy alone.
    let content = format!(
        "{}|{}|{}|{}|{}|{}|{}",
        hex::encode(fresh.entropy),
        salt,
        owner.platform,
        payee,
        amount,
        invoice.id,
        payment.id
    );
    let id = RequestId::from_digest(&keccak256(content));
    let reference = PaymentReference::derive(&id, &salt, &payee);
    Ok(Request {
        row: fresh.row.clone(),
        platform: owner.platform.clone(),
        client: owner.client.as_ref().map(|(row, _)| row.clone()),
        client_id: owner.client.as_ref().map(|(_, text)| text.clone()),
        origin: owner.origin.clone(),
        id,
        salt,
        reference,
        kind,
        status: RequestStatus::Pending,
        network,
        payee,
        payer,
        amount,
        invoice_currency: invoice.id.clone(),
        payment_currency: payment.id.clone(),
        token: payment.token(),
        expected,
        credited: U256::ZERO,
        payment_count: 0,
        tx_hash: None,
        merchant_reference: input.merchant_reference.clone(),
        customer: input.customer.clone(),
        recurrence,
        is_recurrence_stopped: false,
        original_request_id: input.original_request_id.clone(),
        original_request_reference: input.original_request_reference.clone(),
        is_crypto_to_fiat: false,
        is_listening: false,
        created_at: fresh.now,
    })
}

/// The payee of a request that names none. Source: rules P.3.3.
fn bound_payee(bound: Option<&Destination>, network: Option<Network>) -> Result<Address, String> {
    let Some(bound) = bound else {
        return Err("is required: the wallet address that is paid".to_owned());
    };
    if !bound.is_active {
        return Err("is required: the payee destination of this client ID is not active any more".to_owned());
    }
    let interop = bound.key.interop;
    match network {
        Some(network) if network.family() != interop.network.family() => Err(format!(
            "is required for a payment on {network}: the payee destination of this client ID is a wallet on {}",
            interop.network
        )),
        _ => Ok(interop.wallet),
    }
}

/// Finds a currency or says how ids look.
pub fn known<'a>(catalogue: &'a Catalogue, id: &str) -> Result<&'a Currency, String> {
    catalogue.find(id).ok_or_else(|| {
        "is not a known currency id: GET /v2/currencies lists them, for example USD or USDC-base".to_owned()
    })
}

fn enabled(catalogue: &Catalogue, currency: &Currency) -> Result<(), String> {
    match currency.network {
        Some(network) if !catalogue.is_enabled(network) => Err(format!(
            "network {network} is not enabled on this service; enabled are: {}",
            catalogue.enabled_in_words()
        )),
        _ => Ok(()),
    }
}

fn payable<'a>(catalogue: &'a Catalogue, id: &str) -> Result<&'a Currency, String> {
    let currency = known(catalogue, id)?;
    if currency.kind == CurrencyKind::Fiat {
        return Err("must be a token or a native coin: fiat currencies cannot be paid on chain".to_owned());
    }
    enabled(catalogue, currency)?;
    Ok(currency)
}

/// Reads an address that is to receive money on a network.
///
/// Errors: form, checksum, zero, wrong family, and contracts of the protocol or tokens, where money would be lost.
pub fn receiver(catalogue: &Catalogue, text: &str, network: Network) -> Result<Address, String> {
    let address = Address::parse_on(text, network).map_err(|error| error.to_string())?;
    if catalogue.is_contract(network, &address) {
        return Err(
            "must be a wallet: this is the address of a token or payment contract, and money sent there is lost"
                .to_owned(),
        );
    }
    Ok(address)
}

fn start_date(text: &str, today: NaiveDate) -> Result<String, String> {
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d")
        .or_else(|_| DateTime::parse_from_rfc3339(text).map(|time| time.with_timezone(&Utc).date_naive()))
        .map_err(|_| "must be a date, for example \"2030-01-01\"".to_owned())?;
    if day < today {
        Err("must not be in the past".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

/// Whether the invoice currency is paid in itself (`false`) or converted on chain (`true`).
fn settlement_kind(catalogue: &Catalogue, invoice: &Currency, payment: &Currency) -> Result<bool, String> {
    if invoice.id == payment.id {
        return Ok(false);
    }
    let routed = catalogue.conversion_path(invoice, payment).is_some();
    if routed && payment.network.is_some_and(|network| network.family() == Family::Evm) {
        return Ok(true);
    }
    Err(format!(
        "{} cannot be paid in {}: GET /v2/currencies/{}/conversion-routes lists what can",
        invoice.id, payment.id, invoice.id
    ))
}

/// Expected total: token units, or 8-decimal fiat units for a converted request.
fn expected_units(amount: &Amount, invoice: &Currency) -> Result<SettlementUnits, AmountError> {
    if invoice.kind != CurrencyKind::Fiat {
        return amount.to_units(invoice.decimals);
    }
    amount.to_units(invoice.decimals)?;
    amount.to_units(FIAT_CHAIN_DECIMALS)
}

impl Request {
    /// Fraction digits of the settlement units.
    pub fn settlement_decimals(&self, payment: &Currency) -> u8 {
        if self.is_converted() {
            FIAT_CHAIN_DECIMALS
        } else {
            payment.decimals
        }
    }

    /// Whether the payment is converted on chain.
    pub fn is_converted(&self) -> bool {
        self.invoice_currency != self.payment_currency
    }

    /// What is still to be paid.
    pub fn remaining(&self) -> SettlementUnits {
        self.expected.saturating_sub(self.credited)
    }

    /// What was paid beyond the expected total, in human units.
    pub fn excess(&self, payment: &Currency) -> Option<String> {
        let excess = self
            .credited
            .checked_sub(self.expected)
            .filter(|excess| !excess.is_zero())?;
        Some(format_units(excess, self.settlement_decimals(payment)))
    }

    /// Whether the whole amount has arrived.
    pub fn has_been_paid(&self) -> bool {
        self.status == RequestStatus::Paid
    }

    /// Whether a sighting is a payment of this request: chain, proxy, reference, token and payee all match.
    ///
    /// A conversion must also name the invoice currency. Source: rules B.3; rules G.2 (3).
    pub fn matches(&self, observed: &Observation, catalogue: &Catalogue) -> bool {
        let kind = catalogue
            .contracts(self.network)
            .iter()
            .find(|contract| contract.address == observed.proxy)
            .map(|c| c.kind);
        let proxy_fits = match (self.is_converted(), self.token.is_some(), kind) {
            (false, true, Some(ContractKind::Erc20FeeProxy | ContractKind::Erc20Proxy)) => {
                observed.conversion.is_none()
            }
            (false, false, Some(ContractKind::EthereumFeeProxy | ContractKind::EthereumProxy)) => {
                observed.conversion.is_none()
            }
            (true, true, Some(ContractKind::Erc20ConversionProxy))
            | (true, false, Some(ContractKind::EthConversionProxy)) => {
                let invoice = catalogue
                    .find(&self.invoice_currency)
                    .and_then(|currency| Address::parse(&currency.hash).ok());
                observed
                    .conversion
                    .is_some_and(|conversion| Some(conversion.currency) == invoice)
            }
            _ => false,
        };
        proxy_fits
            && self.network == observed.network
            && self.reference.topic() == observed.reference_topic
            && self.token == observed.token
            && self.payee == observed.payee
    }

    /// How much of the request a proven payment settles.
    ///
    /// For a conversion the event names the invoice amount; when less than the promised tokens arrived, the invoice
    /// amount shrinks in proportion, rounded down.
    pub fn credit(&self, observed: &Observation, received_units: U256) -> SettlementUnits {
        match observed.conversion {
            None => received_units,
            Some(conversion) if received_units >= observed.units => conversion.invoice_units,
            Some(conversion) => {
                let product = alloy::primitives::U512::from(conversion.invoice_units)
                    * alloy::primitives::U512::from(received_units);
                let share = product / alloy::primitives::U512::from(observed.units);
                U256::checked_from_limbs_slice(share.as_limbs()).unwrap_or(U256::MAX)
            }
        }
    }

    /// Adds a proven payment: the new totals and state, and what has to be told.
    ///
    /// Shape: `credited` in settlement units. A payment after completion is recorded and raises nothing.
    /// Source: rules S.1; interface §6.2.
    pub fn settle(mut self, credited: SettlementUnits, tx_hash: &str) -> (Self, Option<Settlement>) {
        let was_paid = self.has_been_paid();
        self.credited = self.credited.saturating_add(credited);
        self.payment_count += 1;
        if was_paid {
            return (self, None);
        }
        if self.credited >= self.expected {
            self.status = RequestStatus::Paid;
            self.tx_hash = Some(tx_hash.to_owned());
            self.is_listening = false;
            return (self, Some(Settlement::Confirmed));
        }
        self.status = RequestStatus::PartiallyPaid;
        let told = (self.payment_count <= PARTIAL_EVENTS_MAX).then_some(Settlement::Partial);
        (self, told)
    }
}

/// What a payment means for its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// The expected total has arrived.
    Confirmed,
    /// A part has arrived.
    Partial,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ids::DestinationId, interop_address::DestinationKey};

    fn bound(key: &str, is_active: bool) -> Destination {
        Destination {
            id: DestinationId("d".into()),
            platform: PlatformId("p".into()),
            key: DestinationKey::parse(key).unwrap().unwrap(),
            policy: None,
            is_claimed: true,
            is_active,
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_bound_destination_is_the_payee_where_its_address_can_be_paid() {
        let evm = "base:0x6923831acf5c327260d7ac7c9dff5b1c3cb3c7d7:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
        let tron = "tron:TJRabPrwbZy45sbavfcjinPJC18kjpRTv8:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t";
        for (key, network, is_payee) in [
            (evm, Network::Base, true),
            (evm, Network::Mainnet, true),
            (evm, Network::Tron, false),
            (tron, Network::Tron, true),
            (tron, Network::Base, false),
        ] {
            let destination = bound(key, true);
            let payee = bound_payee(Some(&destination), Some(network));
            assert_eq!(payee.is_ok(), is_payee, "{key} on {network}");
            match payee {
                Ok(payee) => assert_eq!(payee, destination.key.interop.wallet),
                Err(message) => assert!(message.contains(network.id()), "{message}"),
            }
        }
        assert!(bound_payee(Some(&bound(evm, false)), Some(Network::Base)).is_err());
        assert!(bound_payee(None, Some(Network::Base)).is_err());
    }
}
