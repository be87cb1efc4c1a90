//! Plans a request: decides whether it can be created, and with which values.

use super::{
    Origin, Request,
    price::{PriceTerms, Pricing},
    terms::{CustomerInfo, Exchange, Frequency, Recurrence, Terms},
};
use crate::domain::{
    address::Address,
    amount::{Amount, AmountError, Percent},
    client_limits::{CheckedPayment, ClientLimits, LimitedField},
    conversion::RateBounds,
    currency::{Catalogue, Currency, CurrencyKind, FIAT_CHAIN_DECIMALS},
    destination::Destination,
    ids::{RequestId, RequestRowId},
    ledger::{Ledger, PaymentEnding, SettlementUnits},
    network::{Family, Network},
    network_support, off_ramp,
    paying::{
        capture::{CaptureTerms, capture},
        charge::{ChargeBase, Charges},
    },
    payment::PaymentKind,
    reference::PaymentReference,
    refusal::{Checks, Refusal},
};
use alloy::primitives::{U256, keccak256};
use chrono::{DateTime, NaiveDate, Utc};

/// Amount that may be missing from a payment to a bank account because of rounding, in settlement units of eight
/// decimals. It is less than a cent, so payers cannot benefit from it. A request that is paid in its own currency has
/// no tolerance.
const BANK_TOLERATED: U256 = U256::from_limbs([1_000, 0, 0, 0]);

/// The message for a missing payee.
pub const PAYEE_MISSING: &str = "is required: the wallet address that receives the payment";

/// The message for a public client ID or an orchestrator when the bound destination hides the wallet of the payee.
const HIDDEN_PAYEE: &str = "must be the wallet of the payee destination that this client ID is bound to; the policy of \
                            the destination hides this wallet from public client IDs, so send the \
                            wallet or create a link";

/// Records an error when payer and payee are the same wallet; `right` describes a valid value.
pub fn check_two_wallets(
    field: impl Into<String>,
    payer: Option<Address>,
    payee: Option<Address>,
    right: &str,
    checks: &mut Checks,
) {
    if payer.is_some() && payer == payee {
        checks.fail(field, format!("must be {right}: a payment to yourself is not allowed"));
    }
}

/// Input of a caller; every value is valid on its own.
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

/// What the client ID of a caller determines for its requests. Source: decisions D33.
#[derive(Debug, Clone)]
pub struct OfClient {
    /// Payee destination that the client ID is bound to; no other payee is allowed.
    pub bound: Option<Destination>,
    /// Whether the client ID is public, so that anyone may be calling.
    pub is_public: bool,
    /// Whether the caller is an outsider of the platform: anyone with a public client ID, or an orchestrator. Messages
    /// for such a caller list no wallets that the client ID allows.
    pub is_outsider: bool,
    /// Its limits.
    pub limits: ClientLimits,
    /// Fee on every payment.
    pub fee: Option<(Percent, Address)>,
    /// Fees of the orchestrator that creates the payment with the client ID.
    pub orchestrator_fees: Vec<CaptureTerms>,
}

impl OfClient {
    /// These values without the destination, for payments whose payee the destination does not determine.
    #[must_use]
    pub fn unbound(self) -> Self {
        Self { bound: None, ..self }
    }

    /// These values for payouts. A payout may go to any recipient, so the bound destination does not apply. It still
    /// applies to a public client ID, because a stranger can read such an ID on a page. Otherwise the stranger could
    /// create payouts to their own wallet, and the service would report them as payments of the shop. Source: decisions
    /// D49.
    #[must_use]
    pub fn for_payouts(self) -> Self {
        if self.is_public { self } else { self.unbound() }
    }

    /// Whether the wallet of the bound destination is hidden from the caller: the policy of the destination hides it,
    /// and the client ID is public, or an orchestrator uses it.
    pub fn hides_bound(&self) -> bool {
        let policy = self.bound.as_ref().and_then(|bound| bound.policy);
        self.is_outsider && policy.is_some_and(|policy| policy.hides_anything())
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
    /// Part of the amount that may be missing with quoted payments, from the current settings.
    pub tolerance: Percent,
    /// Whether an off-ramp partner is currently configured.
    pub pays_bank_accounts: bool,
    /// The current settings for the price terms of the request.
    pub pricing: Pricing<'a>,
}

/// Plans a request: decides whether it can be created, and with which values.
///
/// Errors: a refusal that names every invalid field. Source: interface §1; interface §8; rules P.3.3.
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
    let asked = CheckedPayment {
        payee: payee.flatten(),
        network: *network,
        amount,
        invoice,
        payment,
        is_outsider: of_client.is_outsider,
    };
    for (part, sentence) in of_client.limits.breaches(&asked, catalogue) {
        checks.fail(field(part), sentence);
    }
    let payer = input
        .payer
        .and_then(|payer| checks.take("payer", payer.usable_on(*network)));
    let recurrence = input.recurrence.map(|(start_date, frequency)| {
        network_support::check_recurrence(*network, &mut checks);
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
    // The partner quotes a number of tokens. An on-chain price feed would later convert them to a different amount.
    let is_quoted = exchange == Exchange::Quoted || (is_for_bank && exchange == Exchange::OnChain);
    let kind = match (&recurrence, invoice.id == payment.id) {
        (Some(_), _) => PaymentKind::Recurring,
        (None, true) => PaymentKind::Direct,
        (None, false) => PaymentKind::Conversion,
    };
    let salt = hex::encode(fresh.salt);
    // The id commits to the content of the request, so that a collision of the entropy alone cannot give two requests
    // the same id.
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
    terms.price = price_of(&terms, invoice, payment, of_client.fee, fresh.pricing, catalogue);
    if exchange == Exchange::Direct && !is_for_bank {
        let captured = capture(&of_client.orchestrator_fees, *network, payment, expected);
        let captured = captured.map_err(|sentence| Refusal::field("amount", sentence))?;
        terms.price.charges = terms.price.charges.with_captured(captured);
    }
    // The payee gets the amount without the fee that the payee bears.
    let expected = expected.saturating_sub(terms.price.charges.payee_borne());
    Ok(Request {
        row: fresh.row.clone(),
        id,
        salt,
        reference,
        origin: origin.clone(),
        terms,
        ledger: Ledger {
            tolerated,
            ending: if is_for_bank {
                PaymentEnding::Bank
            } else {
                PaymentEnding::Wallet
            },
            ..Ledger::new(expected)
        },
        created_at: fresh.now,
        is_hidden: false,
        link_until: None,
        is_by_public_client: of_client.is_public,
    })
}

/// The price terms of a request that is created now; `client_fee` is the fee of its client ID.
pub fn price_of(
    terms: &Terms,
    invoice: &Currency,
    payment: &Currency,
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
    let base = ChargeBase {
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

/// Records why a request cannot be paid to a bank account. Source: rules P.7.6.
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
            "must be absent when isCryptoToFiatAvailable is true: the payment goes to the payer's bank account",
        );
    }
    if of_client.limits.names_payees() || (of_client.is_public && of_client.bound.is_some()) {
        checks.fail(
            "isCryptoToFiatAvailable",
            "must be false or absent: this client ID may only request payments to its allowed payees",
        );
    }
    let PaymentCurrency { currency, network } = &input.payment;
    checks.take("paymentCurrency", off_ramp::is_offered(currency, *network));
}

/// The member of the request body that a limit concerns.
pub fn field(part: LimitedField) -> &'static str {
    match part {
        LimitedField::Payee => "payee",
        LimitedField::Amount => "amount",
        LimitedField::InvoiceCurrency => "invoiceCurrency",
        LimitedField::PaymentCurrency => "paymentCurrency",
    }
}

/// The payee for a client ID that is bound to a destination. It is the wallet of the destination, whether the caller
/// names it or not.
///
/// Errors, if the caller names a payee: it is another wallet. Errors, if the caller names none: the wallet cannot be
/// paid on the network; the destination is no longer active; or the policy hides the wallet from the caller, and the
/// created request would show it. Source: decisions D33; decisions D48; rules P.3.3.
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
            "must be {wallet} or absent: this client ID is bound to the payee destination of that wallet"
        )),
        None if !bound.is_active => {
            Err("is required: the payee destination of this client ID is no longer active".to_owned())
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
            "network {network} is not enabled on this service; enabled networks: {}",
            catalogue.enabled_in_words()
        )),
        _ => Ok(()),
    }
}

/// Finds the currency of an amount. Errors: the message for the caller.
pub fn invoice_currency(catalogue: &Catalogue, id: &str) -> Result<Currency, String> {
    let currency = catalogue.known(id)?;
    enabled(catalogue, currency)?;
    admit_in_requests(catalogue, currency)?;
    Ok(currency.clone())
}

/// Errors: a coin that only pays network fees. The message names the tokens of its network.
fn admit_in_requests(catalogue: &Catalogue, currency: &Currency) -> Result<(), String> {
    match currency.network {
        Some(network) if currency.only_pays_fees() => Err(format!(
            "must be a token on {network}, {}: {} only pays network fees",
            catalogue.token_ids(network).join(" or "),
            currency.symbol
        )),
        _ => Ok(()),
    }
}

/// Finds the currency of an on-chain payment. Errors: the message for the caller.
pub fn payment_currency(catalogue: &Catalogue, id: &str) -> Result<PaymentCurrency, String> {
    let currency = catalogue.known(id)?;
    let Some(network) = currency.network else {
        return Err("must be a token or a native coin: a fiat currency cannot be paid on chain".to_owned());
    };
    enabled(catalogue, currency)?;
    admit_in_requests(catalogue, currency)?;
    Ok(PaymentCurrency {
        currency: currency.clone(),
        network,
    })
}

/// How the invoice currency is paid: directly, by on-chain price feeds, or otherwise by quotes. Errors: the invoice
/// currency cannot be paid in the payment currency.
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
        "{} cannot be paid in {}: GET /v2/currencies/{}/conversion-routes lists the possible payment currencies",
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

/// Largest fiat amount that can be converted: 10³⁰ with eight decimals. The contracts multiply it by a rate of up to 35
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
    fn a_bound_destination_is_the_payee_if_its_address_can_be_paid() {
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
    fn a_bound_client_id_pays_only_its_destination() {
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
