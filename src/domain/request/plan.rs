//! Decides whether a request can be created, and what it is.

use super::{
    Origin, Request,
    price::{PriceTerms, Pricing},
    terms::{CustomerInfo, Exchange, Frequency, Recurrence, Terms},
};
use crate::domain::{
    address::Address,
    amount::{Amount, AmountError, Percent},
    client_limits::{Asked, ClientLimits, Part},
    conversion::RateBounds,
    currency::{Catalogue, Currency, CurrencyKind, FIAT_CHAIN_DECIMALS},
    destination::Destination,
    ids::{RequestId, RequestRowId},
    ledger::{Ending, Ledger, SettlementUnits},
    network::{Family, Network},
    off_ramp,
    paying::charge::{Base, Charges},
    payment::PaymentKind,
    reference::PaymentReference,
    refusal::{Checks, Refusal},
};
use alloy::primitives::{U256, keccak256};
use chrono::{DateTime, NaiveDate, Utc};

/// What rounding may take from parts of an amount for a bank account, in settlement units of eight decimals: less than a
/// cent, and nothing that a payer could leave out. A request that is paid in its own currency has none.
const BANK_TOLERATED: U256 = U256::from_limbs([1_000, 0, 0, 0]);

/// What is said when nothing names a payee.
pub const PAYEE_MISSING: &str = "is required: the wallet address that is paid";

/// What a public client ID is told whose destination hides its wallet.
const HIDDEN_PAYEE: &str = "must be the wallet of the payee destination that this client ID is bound to, whose policy hides \
                            it from public client IDs: name it, or make a link";

/// Notes that a payment would go to its own payer; `right` says what the field has to be instead.
pub fn check_two_wallets(
    field: impl Into<String>,
    payer: Option<Address>,
    payee: Option<Address>,
    right: &str,
    checks: &mut Checks,
) {
    if payer.is_some() && payer == payee {
        checks.fail(field, format!("must be {right}: nobody pays himself"));
    }
}

/// What a caller asks for; every value holds for itself.
#[derive(Debug, Clone)]
pub struct NewRequest {
    /// Payee.
    pub payee: Option<Address>,
    /// Expected payer.
    pub payer: Option<Address>,
    /// Amount.
    pub amount: Amount,
    /// Currency of the amount.
    pub invoice: Currency,
    /// Currency of the payment.
    pub payment: PaymentCurrency,
    /// First day and period.
    pub recurrence: Option<(NaiveDate, Frequency)>,
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

/// What the client ID of a caller settles about all that is asked for with it. Source: decisions D33.
#[derive(Debug, Clone)]
pub struct OfClient {
    /// Payee destination that it is bound to: nobody else may be paid.
    pub bound: Option<Destination>,
    /// Whether it is public: then anyone may be the caller.
    pub is_public: bool,
    /// What may be asked for.
    pub limits: ClientLimits,
    /// Fee on every payment.
    pub fee: Option<(Percent, Address)>,
}

impl OfClient {
    /// What holds of it where its destination does not say who is paid.
    #[must_use]
    pub fn unbound(self) -> Self {
        Self { bound: None, ..self }
    }

    /// What holds of it for payouts: they go to any recipient, but not with a public client ID. A stranger who read that off
    /// a page would have the service report payments to the stranger as those of the shop. Source: decisions D49.
    #[must_use]
    pub fn for_payouts(self) -> Self {
        match self.is_public {
            true => self,
            false => self.unbound(),
        }
    }

    /// Whether the caller is not told the wallet of the destination: its policy hides it, and the client ID is public.
    pub fn hides_bound(&self) -> bool {
        let policy = self.bound.as_ref().and_then(|bound| bound.policy);
        self.is_public && policy.is_some_and(|policy| policy.hides_anything())
    }
}

/// A currency that is paid on chain.
#[derive(Debug, Clone)]
pub struct PaymentCurrency {
    /// The currency.
    pub currency: Currency,
    /// Its network.
    pub network: Network,
}

/// Fresh values that a new request needs; the caller of [`plan`] draws them.
#[derive(Debug, Clone)]
pub struct FreshRequest<'a> {
    /// Row id.
    pub row: RequestRowId,
    /// 32 random bytes that make the public id.
    pub entropy: [u8; 32],
    /// 8 random bytes of the salt.
    pub salt: [u8; 8],
    /// Now.
    pub now: DateTime<Utc>,
    /// Part of what it asks for that may be missing when it is paid by quotes, as the settings have it at this moment.
    pub tolerance: Percent,
    /// Whether a partner pays bank accounts at this moment.
    pub pays_bank_accounts: bool,
    /// The settings of now that its price terms are made of.
    pub pricing: Pricing<'a>,
}

/// Decides whether a request can be created, and what it is.
///
/// Errors: a refusal that names every wrong field. Source: interface §1; interface §8; rules P.3.3.
pub fn plan(
    input: &NewRequest,
    of_client: &OfClient,
    origin: &Origin,
    fresh: &FreshRequest<'_>,
    catalogue: &Catalogue,
) -> Result<Request, Refusal> {
    let mut checks = Checks::new();
    let NewRequest { amount, invoice, .. } = input;
    let PaymentCurrency {
        currency: payment,
        network,
    } = &input.payment;
    let is_for_bank = input.is_crypto_to_fiat;
    let payee = if is_for_bank {
        check_for_bank(input, of_client, fresh, &mut checks);
        Some(None)
    } else {
        let payee = match &of_client.bound {
            Some(bound) => bound_payee(bound, of_client.hides_bound(), input.payee, *network),
            None => input.payee.ok_or_else(|| PAYEE_MISSING.to_owned()),
        };
        let payee = payee.and_then(|payee| catalogue.receiver(payee, *network));
        checks.take("payee", payee).map(Some)
    };
    let asked = Asked {
        payee: payee.flatten(),
        network: *network,
        amount,
        invoice,
        payment,
        is_public: of_client.is_public,
    };
    for (part, sentence) in of_client.limits.breaches(&asked, catalogue) {
        checks.fail(field(part), sentence);
    }
    let payer = input
        .payer
        .and_then(|payer| checks.take("payer", payer.usable_on(*network)));
    let recurrence = input.recurrence.map(|(start_date, frequency)| {
        if start_date < fresh.now.date_naive() {
            checks.fail("recurrence.startDate", "must not be in the past");
        }
        Recurrence {
            start_date,
            frequency,
            is_stopped: false,
        }
    });
    let expected = match exchange(catalogue, invoice, payment) {
        Ok(exchange) => checks
            .take("amount", expected_units(amount, invoice))
            .zip(Some(exchange)),
        Err(message) => {
            checks.fail("paymentCurrency", message);
            None
        }
    };
    let (payee, (expected, exchange)) = checks.finish_with(payee.zip(expected))?;
    // The partner's quote is for so many tokens: what a price feed on chain makes of them later is another amount.
    let is_quoted = exchange == Exchange::Quoted || (is_for_bank && exchange == Exchange::OnChain);
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
        payee.map(|payee| payee.to_string()).unwrap_or_default(),
        amount,
        invoice.id,
        payment.id
    );
    let id = RequestId::from_digest(&keccak256(content));
    let reference = PaymentReference::of_request(&id, &salt, payee.as_ref());
    let tolerated = match (is_for_bank, is_quoted) {
        (true, true) => BANK_TOLERATED,
        (false, true) => fresh.tolerance.of(expected),
        (_, false) => U256::ZERO,
    };
    let mut terms = Terms {
        kind,
        network: *network,
        payee,
        payer,
        amount: amount.clone(),
        invoice_currency: invoice.id.clone(),
        payment_currency: payment.id.clone(),
        token: payment.token(),
        merchant_reference: input.merchant_reference.clone(),
        customer: input.customer.clone(),
        recurrence,
        original_request_id: input.original_request_id.clone(),
        original_request_reference: input.original_request_reference.clone(),
        is_crypto_to_fiat: is_for_bank,
        schedule: None,
        is_quoted,
        price: PriceTerms::default(),
    };
    terms.price = price_of(&terms, (invoice, payment), of_client.fee, fresh.pricing, catalogue);
    Ok(Request {
        row: fresh.row.clone(),
        id,
        salt,
        reference,
        origin: origin.clone(),
        terms,
        ledger: Ledger {
            tolerated,
            ending: match is_for_bank {
                true => Ending::Bank,
                false => Ending::Wallet,
            },
            ..Ledger::new(expected)
        },
        created_at: fresh.now,
        is_hidden: false,
        link_until: None,
        is_by_public_client: of_client.is_public,
    })
}

/// The price terms of a request that is made now with a client ID that has this fee.
pub fn price_of(
    terms: &Terms,
    (invoice, payment): (&Currency, &Currency),
    client_fee: Option<(Percent, Address)>,
    pricing: Pricing<'_>,
    catalogue: &Catalogue,
) -> PriceTerms {
    let exchange = terms.exchange();
    // A quote is in units of the payment currency.
    let (unit, decimals) = match exchange {
        Exchange::OnChain => (invoice, terms.settlement_decimals(payment)),
        Exchange::Direct | Exchange::Quoted => (payment, payment.decimals),
    };
    let base = Base {
        network: terms.network,
        unit,
        decimals,
    };
    PriceTerms {
        rates: match exchange {
            Exchange::OnChain => RateBounds::between(catalogue, pricing.rate_ages, invoice, payment),
            Exchange::Direct | Exchange::Quoted => None,
        },
        charges: Charges::fixed(base, client_fee, pricing.protocol_fee),
    }
}

/// Notes what keeps a request from being paid to a bank account. Source: rules P.7.6.
fn check_for_bank(input: &NewRequest, of_client: &OfClient, fresh: &FreshRequest<'_>, checks: &mut Checks) {
    if !fresh.pays_bank_accounts {
        checks.fail(
            "isCryptoToFiatAvailable",
            "must be false or absent: no crypto-to-fiat provider is configured on this service",
        );
    }
    if input.payee.is_some() {
        checks.fail(
            "payee",
            "must be absent when isCryptoToFiatAvailable is true: the money goes to the bank account of the payer",
        );
    }
    if of_client.limits.names_payees() || (of_client.is_public && of_client.bound.is_some()) {
        checks.fail(
            "isCryptoToFiatAvailable",
            "must be false or absent: this client ID may ask for payments to certain payees alone",
        );
    }
    let PaymentCurrency { currency, network } = &input.payment;
    checks.take("paymentCurrency", off_ramp::is_offered(currency, *network));
}

/// The member of a request that holds a part of what is asked for.
pub fn field(part: Part) -> &'static str {
    match part {
        Part::Payee => "payee",
        Part::Amount => "amount",
        Part::InvoiceCurrency => "invoiceCurrency",
        Part::PaymentCurrency => "paymentCurrency",
    }
}

/// Who is paid with a client ID that is bound to a destination: its wallet, named or not.
///
/// Errors: another payee; none, while the wallet cannot be paid on the network, its destination is no longer active, or
/// the wallet is hidden from the caller, who would read it in the request. Source: decisions D33; decisions D48; rules P.3.3.
pub fn bound_payee(
    bound: &Destination,
    is_hidden: bool,
    named: Option<Address>,
    network: Network,
) -> Result<Address, String> {
    let interop = bound.key.interop;
    let wallet = interop.wallet;
    match named {
        Some(payee) if payee == wallet => Ok(wallet),
        _ if is_hidden => Err(HIDDEN_PAYEE.to_owned()),
        Some(_) => Err(format!(
            "must be {wallet} or absent: this client ID is bound to a payee destination of that wallet"
        )),
        None if !bound.is_active => {
            Err("is required: the payee destination of this client ID is not active any more".to_owned())
        }
        None if network.family() == interop.network.family() => Ok(wallet),
        None => Err(format!(
            "is required for a payment on {network}: the payee destination of this client ID is a wallet on {}",
            interop.network
        )),
    }
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

/// Finds the currency that an amount is written in. Errors: the sentence for the caller.
pub fn invoice_currency(catalogue: &Catalogue, id: &str) -> Result<Currency, String> {
    let currency = catalogue.known(id)?;
    enabled(catalogue, currency)?;
    Ok(currency.clone())
}

/// Finds the currency of a payment on chain. Errors: the sentence for the caller.
pub fn payment_currency(catalogue: &Catalogue, id: &str) -> Result<PaymentCurrency, String> {
    let currency = catalogue.known(id)?;
    let Some(network) = currency.network else {
        return Err("must be a token or a native coin: fiat currencies cannot be paid on chain".to_owned());
    };
    enabled(catalogue, currency)?;
    Ok(PaymentCurrency {
        currency: currency.clone(),
        network,
    })
}

/// How the invoice currency is paid: in itself, by price feeds on chain, or else by quotes. Errors: it cannot be.
fn exchange(catalogue: &Catalogue, invoice: &Currency, payment: &Currency) -> Result<Exchange, String> {
    let is_routed = catalogue.conversion_path(invoice, payment).is_some();
    let is_evm = payment.network.is_some_and(|network| network.family() == Family::Evm);
    if invoice.id == payment.id {
        return Ok(Exchange::Direct);
    }
    if is_routed && is_evm {
        return Ok(Exchange::OnChain);
    }
    if catalogue.quoted_pair(invoice, payment).is_some() {
        return Ok(Exchange::Quoted);
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
    let units = amount.to_units(FIAT_CHAIN_DECIMALS)?;
    if units > converted_units_max() {
        return Err(AmountError::TooLarge);
    }
    Ok(units)
}

/// Largest fiat amount that is converted: 10³⁰ with eight decimals. The contracts multiply it with a rate of up to 35
/// digits and revert beyond 256 bits.
fn converted_units_max() -> U256 {
    U256::from(10).pow(U256::from(30 + u64::from(FIAT_CHAIN_DECIMALS)))
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
            is_set_up: true,
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
            let payee = bound_payee(&destination, false, None, network);
            assert_eq!(payee.is_ok(), is_payee, "{key} on {network}");
            match payee {
                Ok(payee) => assert_eq!(payee, destination.key.interop.wallet),
                Err(message) => assert!(message.contains(network.id()), "{message}"),
            }
        }
        assert!(bound_payee(&bound(evm, false), false, None, Network::Base).is_err());
    }

    #[test]
    fn nobody_else_is_paid_while_a_client_id_is_bound() {
        let key = "base:0x6923831acf5c327260d7ac7c9dff5b1c3cb3c7d7:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
        let other = Address::parse("0x90F79bf6EB2c4f870365E785982E1f101E93b906").unwrap();
        for is_active in [true, false] {
            let destination = bound(key, is_active);
            let wallet = destination.key.interop.wallet;
            assert_eq!(
                bound_payee(&destination, false, Some(wallet), Network::Base),
                Ok(wallet)
            );
            let refused = bound_payee(&destination, false, Some(other), Network::Base).unwrap_err();
            assert!(refused.contains(&wallet.to_string()), "{refused}");
        }
    }
}
