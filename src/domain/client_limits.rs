//! Limits of a client ID: payees, currencies, networks and the maximum amount of its requests.
//!
//! Every operation that requests payments checks each item of its input with [`ClientLimits::breaches`]. For each
//! breach, it reports an error under the member of its own request body.

use super::{
    address::Address,
    amount::Amount,
    currency::{Catalogue, Currency},
    network::Network,
    refusal::{Checks, Refusal},
};

/// Maximum number of payees of a client ID.
pub const PAYEES_MAX: usize = 20;

/// Maximum number of currencies of a client ID.
pub const CURRENCIES_MAX: usize = 50;

/// The message for a duplicate entry.
const ONLY_ONCE: &str = "must be listed only once";

/// Maximum number of values that a message lists.
const NAMED_MAX: usize = 8;

/// Limits of a client ID. An empty list is no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientLimits {
    /// Allowed payees.
    pub payees: Vec<Address>,
    /// Canonical ids of the allowed invoice and payment currencies.
    pub currencies: Vec<String>,
    /// Allowed networks.
    pub networks: Vec<Network>,
    /// Maximum amount of one request, and of the sum of all requests in one call.
    pub max_amount: Option<AmountLimit>,
}

/// A maximum amount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmountLimit {
    /// In human units.
    pub amount: Amount,
    /// Canonical id of its currency.
    pub currency: String,
}

/// Changes to the limits: `None` leaves a limit unchanged, an empty list or an inner `None` removes it.
#[derive(Debug, Clone, Default)]
pub struct LimitsChange {
    /// Allowed payees.
    pub payees: Option<Vec<Address>>,
    /// Ids or aliases of currencies.
    pub currencies: Option<Vec<String>>,
    /// Networks.
    pub networks: Option<Vec<Network>>,
    /// Maximum amount. Its currency is given by an id or an alias.
    pub max_amount: Option<Option<AmountLimit>>,
}

/// One requested payment.
#[derive(Debug, Clone, Copy)]
pub struct CheckedPayment<'a> {
    /// Payee; `None` when the payee is already refused as invalid.
    pub payee: Option<Address>,
    /// Network of the payment.
    pub network: Network,
    /// Amount in the invoice currency.
    pub amount: &'a Amount,
    /// Currency of the amount.
    pub invoice: &'a Currency,
    /// Currency of the payment.
    pub payment: &'a Currency,
    /// Whether the caller is an outsider of the platform: anyone with a public client ID, or an orchestrator. Messages
    /// for such a caller list no wallets, because a payee destination may hide its wallet.
    pub is_outsider: bool,
}

/// The part of a payment that exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedField {
    /// The payee.
    Payee,
    /// The amount.
    Amount,
    /// The currency of the amount.
    InvoiceCurrency,
    /// The currency of the payment, or the network of this currency.
    PaymentCurrency,
}

impl ClientLimits {
    /// The limits after a change. Unchanged limits are not looked up in the catalogue. So other changes stay possible
    /// even if the catalogue now lists an allowed payee as a contract. Errors: every invalid field.
    #[must_use]
    pub fn changed(&self, change: &LimitsChange, catalogue: &Catalogue, checks: &mut Checks) -> Self {
        Self {
            payees: match &change.payees {
                Some(payees) => checked_payees(payees, catalogue, checks),
                None => self.payees.clone(),
            },
            currencies: match &change.currencies {
                Some(ids) => checked_currencies(ids, catalogue, checks),
                None => self.currencies.clone(),
            },
            networks: match &change.networks {
                Some(networks) => {
                    check_distinct("allowedNetworks", networks, checks);
                    networks.clone()
                }
                None => self.networks.clone(),
            },
            max_amount: match &change.max_amount {
                Some(limit) => limit
                    .as_ref()
                    .and_then(|limit| checked_amount(limit, catalogue, checks)),
                None => self.max_amount.clone(),
            },
        }
    }

    /// Whether the payees are limited.
    pub fn names_payees(&self) -> bool {
        !self.payees.is_empty()
    }

    /// The parts of a payment that exceed the limits, each with the message for the caller.
    ///
    /// An amount is compared with a limit in the same currency. An amount in USD or a dollar token is compared with a
    /// limit in USD or any dollar token. An amount that cannot be compared with the limit is refused.
    pub fn breaches(&self, asked: &CheckedPayment<'_>, catalogue: &Catalogue) -> Vec<(LimitedField, String)> {
        let mut breaches = Vec::new();
        if let Some(payee) = asked.payee
            && !self.payees.is_empty()
            && !self.payees.contains(&payee)
        {
            let sentence = if asked.is_outsider {
                "must be an allowed payee of this client ID (allowedPayees)".to_owned()
            } else {
                among("a payee", &self.payees)
            };
            breaches.push((LimitedField::Payee, sentence));
        }
        let currencies = [
            (LimitedField::InvoiceCurrency, asked.invoice),
            (LimitedField::PaymentCurrency, asked.payment),
        ];
        for (part, currency) in currencies {
            if !self.currencies.is_empty() && !self.currencies.contains(&currency.id) {
                breaches.push((part, among("a currency", &self.currencies)));
            }
        }
        if !self.networks.is_empty() && !self.networks.contains(&asked.network) {
            let sentence = format!("must be on a network of this client ID: {}", in_words(&self.networks));
            breaches.push((LimitedField::PaymentCurrency, sentence));
        }
        if let Some(limit) = &self.max_amount {
            breaches.extend(limit.breach(asked, catalogue));
        }
        breaches
    }

    /// Checks that the sum of a link or a batch is at most the maximum amount, without converting or rounding. Each
    /// payment is an amount and the id of its currency; `list` names the body member with the payments. Errors: the sum
    /// is larger, or an amount cannot be compared with the maximum (400).
    pub fn check_sum<'a>(
        &self,
        list: &str,
        payments: impl IntoIterator<Item = (&'a Amount, &'a str)>,
        catalogue: &Catalogue,
    ) -> Result<(), Refusal> {
        let Some(limit) = &self.max_amount else {
            return Ok(());
        };
        let mut sum: Option<Amount> = None;
        for (index, (amount, currency)) in payments.into_iter().enumerate() {
            if let Some(sentence) = limit.incomparable(currency, catalogue) {
                return Err(Refusal::field(format!("{list}[{index}]"), sentence));
            }
            sum = Some(sum.map_or_else(|| amount.clone(), |sum| sum.plus(amount)));
        }
        let AmountLimit { amount, currency } = limit;
        match sum.filter(|sum| sum > amount) {
            Some(sum) => Err(Refusal::field(
                list,
                format!("must add up to at most {amount} {currency} with this client ID, but add up to {sum}"),
            )),
            None => Ok(()),
        }
    }
}

impl AmountLimit {
    fn breach(&self, asked: &CheckedPayment<'_>, catalogue: &Catalogue) -> Option<(LimitedField, String)> {
        let Self { amount, currency } = self;
        if let Some(sentence) = self.incomparable(&asked.invoice.id, catalogue) {
            return Some((LimitedField::InvoiceCurrency, sentence));
        }
        let sentence = || format!("must be at most {amount} {currency} with this client ID");
        (asked.amount > amount).then(|| (LimitedField::Amount, sentence()))
    }

    /// The message when an amount in a currency cannot be compared with this limit; `None` when it can.
    fn incomparable(&self, invoice: &str, catalogue: &Catalogue) -> Option<String> {
        let Self { amount, currency } = self;
        let is_dollar = |id: &str| catalogue.find(id).is_some_and(Currency::is_dollar);
        if invoice == currency || (is_dollar(currency) && is_dollar(invoice)) {
            return None;
        }
        let right = match currency.as_str() {
            "USD" => "USD or a dollar token".to_owned(),
            token if is_dollar(token) => format!("{token}, USD or another dollar token"),
            other => other.to_owned(),
        };
        Some(format!(
            "must be {right}: this client ID may request at most {amount} {currency}, which cannot be compared with an \
             amount in {invoice}"
        ))
    }
}

fn checked_payees(payees: &[Address], catalogue: &Catalogue, checks: &mut Checks) -> Vec<Address> {
    check_distinct("allowedPayees", payees, checks);
    check_count("allowedPayees", payees.len(), PAYEES_MAX, checks);
    for (index, payee) in payees.iter().enumerate() {
        checks.take(&format!("allowedPayees[{index}]"), catalogue.receiver_anywhere(*payee));
    }
    payees.to_vec()
}

fn checked_currencies(ids: &[String], catalogue: &Catalogue, checks: &mut Checks) -> Vec<String> {
    check_count("allowedCurrencies", ids.len(), CURRENCIES_MAX, checks);
    let mut listed: Vec<String> = Vec::new();
    for (index, id) in ids.iter().enumerate() {
        let field = format!("allowedCurrencies[{index}]");
        match checks.take(&field, catalogue.known(id)) {
            Some(known) if listed.contains(&known.id) => checks.fail(field, ONLY_ONCE),
            Some(known) => listed.push(known.id.clone()),
            None => {}
        }
    }
    listed
}

fn checked_amount(limit: &AmountLimit, catalogue: &Catalogue, checks: &mut Checks) -> Option<AmountLimit> {
    let currency = checks.take("maxAmount.currency", catalogue.known(&limit.currency))?;
    checks.take("maxAmount.amount", limit.amount.to_units(currency.decimals))?;
    Some(AmountLimit {
        amount: limit.amount.clone(),
        currency: currency.id.clone(),
    })
}

fn check_count(field: &str, count: usize, max: usize, checks: &mut Checks) {
    if count > max {
        checks.fail(field, format!("must have at most {max} entries"));
    }
}

fn check_distinct<T: PartialEq>(field: &str, entries: &[T], checks: &mut Checks) {
    for (index, entry) in entries.iter().enumerate() {
        if entries[..index].contains(entry) {
            checks.fail(format!("{field}[{index}]"), ONLY_ONCE);
        }
    }
}

fn among(what: &str, right: &[impl ToString]) -> String {
    format!("must be {what} of this client ID: {}", in_words(right))
}

fn in_words(values: &[impl ToString]) -> String {
    let named: Vec<String> = values.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let further = values.len().saturating_sub(NAMED_MAX);
    match further {
        0 => named.join(", "),
        further => format!("{} and {further} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeSet, HashMap};

    const OWN: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
    const OTHER: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";

    fn currency(id: &str, network: Option<Network>) -> Currency {
        let symbol = id.split('-').next().unwrap();
        Currency {
            id: id.to_owned(),
            aliases: vec![format!("alias-{id}")],
            ..Currency::sample(symbol, if network.is_some() { 6 } else { 2 }, network)
        }
    }

    fn catalogue() -> Catalogue {
        let currencies = [
            ("USD", None),
            ("EUR", None),
            ("USDC-base", Some(Network::Base)),
            ("FAU-sepolia", Some(Network::Sepolia)),
        ];
        let currencies = currencies.map(|(id, network)| currency(id, network));
        Catalogue::new(currencies.to_vec(), HashMap::new(), BTreeSet::new())
    }

    fn breaches(limits: &ClientLimits, payee: &str, amount: &str, invoice: &str, payment: &str) -> Vec<LimitedField> {
        let catalogue = catalogue();
        let payment = catalogue.find(payment).unwrap();
        let asked = CheckedPayment {
            payee: Address::parse(payee).ok(),
            network: payment.network.unwrap(),
            amount: &Amount::parse(amount).unwrap(),
            invoice: catalogue.find(invoice).unwrap(),
            payment,
            is_outsider: false,
        };
        let found = limits.breaches(&asked, &catalogue);
        found.into_iter().map(|(part, _)| part).collect()
    }

    #[test]
    fn each_limit_names_the_field_that_exceeds_it() {
        let none = ClientLimits::default();
        assert_eq!(breaches(&none, OTHER, "1000000", "EUR", "FAU-sepolia"), []);
        let limits = ClientLimits {
            payees: vec![Address::parse(OWN).unwrap()],
            currencies: vec!["USD".into(), "USDC-base".into()],
            networks: vec![Network::Base],
            max_amount: Some(AmountLimit {
                amount: Amount::parse("100").unwrap(),
                currency: "USD".into(),
            }),
        };
        let lower = OWN.to_lowercase();
        for (payee, amount, invoice, payment, wanted) in [
            (OWN, "100", "USD", "USDC-base", vec![]),
            (&lower, "99.99", "USDC-base", "USDC-base", vec![]),
            (OTHER, "1", "USD", "USDC-base", vec![LimitedField::Payee]),
            (OWN, "100.01", "USD", "USDC-base", vec![LimitedField::Amount]),
            (OWN, "100.000001", "USDC-base", "USDC-base", vec![LimitedField::Amount]),
            (OWN, "1000", "USD", "USDC-base", vec![LimitedField::Amount]),
            (
                OWN,
                "1",
                "EUR",
                "USDC-base",
                vec![LimitedField::InvoiceCurrency, LimitedField::InvoiceCurrency],
            ),
            (
                OWN,
                "1",
                "USD",
                "FAU-sepolia",
                vec![LimitedField::PaymentCurrency, LimitedField::PaymentCurrency],
            ),
        ] {
            let found = breaches(&limits, payee, amount, invoice, payment);
            assert_eq!(found, wanted, "{payee} {amount} {invoice} {payment}");
        }
    }

    #[test]
    fn items_of_one_call_are_limited_by_their_sum() {
        let limits = ClientLimits {
            max_amount: Some(AmountLimit {
                amount: Amount::parse("100").unwrap(),
                currency: "USD".into(),
            }),
            ..ClientLimits::default()
        };
        let wrong = |limits: &ClientLimits, payments: &[(&str, &str)]| {
            let amounts: Vec<_> = payments
                .iter()
                .map(|(amount, _)| Amount::parse(amount).unwrap())
                .collect();
            let payments = amounts
                .iter()
                .zip(payments)
                .map(|(amount, (_, currency))| (amount, *currency));
            let refusal = limits.check_sum("requests", payments, &catalogue()).err()?;
            Some(refusal.fields.into_iter().map(|error| error.field).collect::<Vec<_>>())
        };
        for (payments, expected) in [
            (&[("60", "USD"), ("40", "USDC-base")][..], None),
            (&[("60", "USD"), ("40.000001", "USDC-base")], Some("requests")),
            (&[("100", "USD"), ("0.000001", "USD")], Some("requests")),
            (&[("1", "USD"), ("1", "EUR")], Some("requests[1]")),
        ] {
            let found = wrong(&limits, payments);
            assert_eq!(found, expected.map(|field| vec![field.to_owned()]), "{payments:?}");
            assert_eq!(wrong(&ClientLimits::default(), payments), None);
        }
    }

    #[test]
    fn limits_are_stored_in_canonical_form_and_invalid_ones_are_named() {
        let change = LimitsChange {
            currencies: Some(vec!["usd".into(), "alias-FAU-sepolia".into()]),
            max_amount: Some(Some(AmountLimit {
                amount: Amount::parse("5").unwrap(),
                currency: "alias-USDC-base".into(),
            })),
            ..LimitsChange::default()
        };
        let mut checks = Checks::new();
        let limits = ClientLimits::default().changed(&change, &catalogue(), &mut checks);
        checks.finish().unwrap();
        assert_eq!(limits.currencies, ["USD", "FAU-sepolia"]);
        assert_eq!(limits.max_amount.as_ref().unwrap().currency, "USDC-base");

        let wrong = LimitsChange {
            payees: Some(vec![Address::parse(OWN).unwrap(); 2]),
            currencies: Some(vec!["USD".into(), "DOGE".into(), "usd".into()]),
            networks: Some(vec![Network::Base, Network::Base]),
            max_amount: Some(Some(AmountLimit {
                amount: Amount::parse("0.001").unwrap(),
                currency: "USD".into(),
            })),
        };
        let mut checks = Checks::new();
        let _ = limits.changed(&wrong, &catalogue(), &mut checks);
        let fields: Vec<String> = checks
            .finish()
            .unwrap_err()
            .fields
            .into_iter()
            .map(|error| error.field)
            .collect();
        let wanted = [
            "allowedPayees[1]",
            "allowedCurrencies[1]",
            "allowedCurrencies[2]",
            "allowedNetworks[1]",
            "maxAmount.amount",
        ];
        assert_eq!(fields, wanted);
        let mut checks = Checks::new();
        let lifted = LimitsChange {
            currencies: Some(Vec::new()),
            max_amount: Some(None),
            ..LimitsChange::default()
        };
        let lifted = limits.changed(&lifted, &catalogue(), &mut checks);
        assert_eq!(lifted, ClientLimits::default());
    }
}
