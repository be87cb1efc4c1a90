//! Decides whether a request can be created, and what it is.

use super::{
    Origin, Request,
    terms::{CustomerInfo, Frequency, Recurrence, Terms},
};
use crate::domain::{
    address::Address,
    amount::{Amount, AmountError},
    currency::{Catalogue, Currency, CurrencyKind, FIAT_CHAIN_DECIMALS},
    destination::Destination,
    ids::{RequestId, RequestRowId},
    ledger::{Ledger, SettlementUnits},
    network::{Family, Network},
    payment::PaymentKind,
    reference::PaymentReference,
    refusal::{Checks, Refusal},
};
use alloy::primitives::keccak256;
use chrono::{DateTime, NaiveDate, Utc};

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

/// Decides whether a request can be created, and what it is.
///
/// Errors: a refusal that names every wrong field. Source: interface §1; interface §8; rules P.3.3.
pub fn plan(
    input: &NewRequest,
    origin: &Origin,
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
        (Some(text), Some(network)) => checks.take("payee", catalogue.receiver(text, network)),
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
            is_stopped: false,
        })
    });
    let expected = match (&amount, invoice, payment) {
        (Some(amount), Some(invoice), Some(payment)) => match payable_in(catalogue, invoice, payment) {
            Ok(()) => checks.take("amount", expected_units(amount, invoice)),
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
        origin.platform,
        payee,
        amount,
        invoice.id,
        payment.id
    );
    let id = RequestId::from_digest(&keccak256(content));
    let reference = PaymentReference::derive(&id, &salt, &payee);
    Ok(Request {
        row: fresh.row.clone(),
        id,
        salt,
        reference,
        origin: origin.clone(),
        terms: Terms {
            kind,
            network,
            payee,
            payer,
            amount,
            invoice_currency: invoice.id.clone(),
            payment_currency: payment.id.clone(),
            token: payment.token(),
            merchant_reference: input.merchant_reference.clone(),
            customer: input.customer.clone(),
            recurrence,
            original_request_id: input.original_request_id.clone(),
            original_request_reference: input.original_request_reference.clone(),
            is_crypto_to_fiat: false,
        },
        ledger: Ledger::new(expected),
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
fn known<'a>(catalogue: &'a Catalogue, id: &str) -> Result<&'a Currency, String> {
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

/// Checks that the invoice currency is paid in itself or can be converted on chain.
fn payable_in(catalogue: &Catalogue, invoice: &Currency, payment: &Currency) -> Result<(), String> {
    let is_routed = catalogue.conversion_path(invoice, payment).is_some();
    let is_evm = payment.network.is_some_and(|network| network.family() == Family::Evm);
    if invoice.id == payment.id || (is_routed && is_evm) {
        return Ok(());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        ids::{DestinationId, PlatformId},
        interop_address::DestinationKey,
    };

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
