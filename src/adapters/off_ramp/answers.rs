//! Validates responses and callbacks of the partner. Every member must have its type, a documented value and at most
//! its maximum length, and must match the request. Messages never repeat a value, because a value may be personal data.

use crate::{
    domain::{
        address::Address,
        amount::{Amount, AmountError},
        currency::Catalogue,
        event::{AgreementStatus, ForeignJson, KycStatus, PaymentDetailStatus},
        network::Network,
        off_ramp::OffRampStatus,
        off_ramp_refusal::OffRampRefusal,
        payer::{ACCOUNT_FIELDS, PERSON_FIELDS},
        secure_payment::redirect::is_plain,
        webhook::UrlPolicy,
    },
    ports::off_ramp::{
        AccountNews, OffRampError, OffRampQuote, OrderNews, OrderQuestion, OrderStatus, PartnerKey, PartnerNews,
        PayerNews, QuoteQuestion,
    },
};
use chrono::{DateTime, TimeDelta, Utc};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Maximum length of a record id that the partner assigns.
const ID_LENGTH_MAX: usize = 128;

/// Length of a key under which a record is created.
const KEY_LENGTH: usize = 64;

/// Maximum length of a link.
const LINK_LENGTH_MAX: usize = 2_048;

/// Maximum length of a rejection reason of an account.
const REJECTION_LENGTH_MAX: usize = 500;

/// Maximum length of the partner's own status of an order.
const WORD_LENGTH_MAX: usize = 64;

/// Maximum length of a decimal.
const DECIMAL_LENGTH_MAX: usize = 64;

/// Latest expiry of a quote.
const QUOTE_LASTS_MAX: TimeDelta = TimeDelta::days(31);

/// Maximum number of form fields that a refusal names.
const FIELDS_MAX: usize = 64;

/// Maximum length of the partner's own reason of a refusal.
const REASON_LENGTH_MAX: usize = 64;

/// Rules for deposit addresses and links.
pub(super) struct AddressRules {
    /// Addresses of tokens and contracts, which cannot receive payments.
    pub(super) catalogue: Arc<Catalogue>,
    /// The only accepted deposit addresses of each network. On a network without an entry, any wallet address is
    /// accepted.
    pub(super) deposits: BTreeMap<Network, BTreeSet<Address>>,
    /// Which links are passed on.
    pub(super) links: UrlPolicy,
}

type Read<T> = Result<T, OffRampError>;

fn reject<T>(what: impl Into<String>) -> Read<T> {
    Err(OffRampError::Odd(what.into()))
}

/// An object of a response, and its name in messages.
struct Record<'a> {
    name: &'static str,
    members: &'a Map<String, Value>,
}

impl<'a> Record<'a> {
    fn of(name: &'static str, value: &'a Value) -> Read<Self> {
        match value {
            Value::Object(members) => Ok(Self { name, members }),
            _ => reject(format!("{name} must be an object")),
        }
    }

    fn wrong<T>(&self, member: &str, what: &str) -> Read<T> {
        reject(format!("{}.{member} {what}", self.name))
    }

    /// A text of printable characters; `None` if it is null or absent.
    fn optional(&self, member: &str, length_max: usize) -> Read<Option<&'a str>> {
        let text = match self.members.get(member) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => text,
            Some(_) => return self.wrong(member, "must be a string"),
        };
        let length = text.chars().count();
        if length == 0 || length > length_max {
            return self.wrong(member, &format!("must have 1 to {length_max} characters"));
        }
        if text.chars().any(char::is_control) {
            return self.wrong(member, "must be one line without control characters");
        }
        Ok(Some(text))
    }

    fn text(&self, member: &str, length_max: usize) -> Read<&'a str> {
        match self.optional(member, length_max)? {
            Some(text) => Ok(text),
            None => self.wrong(member, "is missing"),
        }
    }

    /// The id of a record of the partner. Its characters are limited because it becomes part of a URL path.
    fn id(&self, member: &str) -> Read<&'a str> {
        let id = self.text(member, ID_LENGTH_MAX)?;
        if is_id(id) {
            return Ok(id);
        }
        self.wrong(
            member,
            "must begin with a letter or digit and contain only letters, digits, '.', '_', ':' and '-'",
        )
    }

    fn same(&self, member: &str, found: &str, asked: &str) -> Read<()> {
        if found == asked {
            Ok(())
        } else {
            self.wrong(member, "is not the requested value")
        }
    }

    fn word<T>(&self, member: &str, read: impl FnOnce(&str) -> Option<T>) -> Read<T> {
        match read(self.text(member, WORD_LENGTH_MAX)?) {
            Some(value) => Ok(value),
            None => self.wrong(member, "is not a documented value"),
        }
    }

    fn version(&self) -> Read<u64> {
        let version = self.members.get("version").and_then(Value::as_u64);
        // The largest value that JavaScript and both databases can represent.
        match version.filter(|version| (1..1 << 53).contains(version)) {
            Some(version) => Ok(version),
            None => self.wrong("version", "must be a whole number from 1"),
        }
    }

    fn amount(&self, member: &str) -> Read<Amount> {
        match Amount::parse(self.text(member, DECIMAL_LENGTH_MAX)?) {
            Ok(amount) => Ok(amount),
            Err(_) => self.wrong(member, "must be a decimal greater than 0, written as a string"),
        }
    }

    fn amount_or_nothing(&self, member: &str) -> Read<Option<Amount>> {
        match Amount::parse(self.text(member, DECIMAL_LENGTH_MAX)?) {
            Ok(amount) => Ok(Some(amount)),
            Err(AmountError::Zero) => Ok(None),
            Err(_) => self.wrong(member, "must be a decimal of 0 or more, written as a string"),
        }
    }

    fn time(&self, member: &str) -> Read<DateTime<Utc>> {
        let text = self.text(member, DECIMAL_LENGTH_MAX)?;
        let time = DateTime::parse_from_rfc3339(text).ok().filter(|_| text.ends_with('Z'));
        match time {
            Some(time) => Ok(time.with_timezone(&Utc)),
            None => self.wrong(member, "must be an RFC 3339 time in UTC"),
        }
    }

    fn key(&self, key: &PartnerKey) -> Read<()> {
        self.same("key", &self.made_under()?.0, &key.0)
    }

    /// The key under which the record was created.
    fn made_under(&self) -> Read<PartnerKey> {
        let key = self.text("key", KEY_LENGTH)?;
        let is_hex = key
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if is_hex && key.len() == KEY_LENGTH {
            Ok(PartnerKey(key.to_owned()))
        } else {
            self.wrong("key", "must be 64 lower-case hexadecimal digits")
        }
    }

    fn link(&self, member: &str, links: UrlPolicy) -> Read<Option<String>> {
        let Some(text) = self.optional(member, LINK_LENGTH_MAX)? else {
            return Ok(None);
        };
        match links.check(text) {
            // Browsers accept more characters in a URL than a URI may have. The published API promises a URI.
            Ok(link) => Ok(Some(utf8_percent_encode(link.as_str(), NO_PART_OF_A_URI).to_string())),
            Err(why) => self.wrong(member, &why),
        }
    }
}

/// Characters that browsers leave in URLs but that are not allowed in a URI.
const NO_PART_OF_A_URI: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Whether a text is an id of a record of the partner.
pub(super) fn is_id(id: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-');
    id.len() <= ID_LENGTH_MAX
        && id.bytes().all(fits)
        && id.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
}

/// Parses JSON. Errors: the text is not JSON.
pub(super) fn parsed(text: &[u8]) -> Read<Value> {
    serde_json::from_slice(text).or_else(|_| reject("the body is not JSON"))
}

/// Whether the body of a 404 says that the record is unknown.
pub(super) fn is_unknown(text: &[u8]) -> bool {
    parsed(text).is_ok_and(|value| value["reason"] == "unknown")
}

/// The partner's own code for an error, for the operator: lower-case letters and `_`. Any other text may be personal
/// data and is not logged.
fn own_word(text: Option<&str>) -> Option<&str> {
    let is_word = |text: &&str| {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        (1..=REASON_LENGTH_MAX).contains(&text.len()) && text.bytes().all(fits)
    };
    text.filter(is_word)
}

/// The error code that the partner returns with a failure, if any.
pub(super) fn word_of_failure(text: &[u8]) -> Option<String> {
    let value = parsed(text).ok()?;
    own_word(value["reason"].as_str()).map(str::to_owned)
}

/// Reads the reason of a refusal. Errors: the reason is not a documented value.
pub(super) fn refusal(value: &Value) -> OffRampError {
    let read = || -> Read<OffRampError> {
        let record = Record::of("refusal", value)?;
        let text = record.members.get("reason").and_then(Value::as_str);
        let Some(reason) = text.and_then(OffRampRefusal::from_wire) else {
            let said = own_word(text).map(|word| format!(": {word}")).unwrap_or_default();
            return record.wrong("reason", &format!("is not a documented value{said}"));
        };
        let fields = match record.members.get("fields") {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(fields)) if fields.len() <= FIELDS_MAX => fields,
            Some(_) => return record.wrong("fields", "must be a list of fields"),
        };
        // A field that no form has cannot be shown to the caller who filled in the form, so it is left out.
        let known = |field: &Value| {
            let mut forms = PERSON_FIELDS.into_iter().chain(ACCOUNT_FIELDS);
            forms.find(|known| field.as_str() == Some(*known))
        };
        Ok(OffRampError::Refused {
            reason,
            fields: fields.iter().filter_map(known).map(str::to_owned).collect(),
        })
    };
    read().unwrap_or_else(|odd| odd)
}

impl AddressRules {
    /// Reads a payer. Errors: [`OffRampError::Odd`].
    pub(super) fn payer(&self, value: &Value) -> Read<PayerNews> {
        let record = Record::of("payer", value)?;
        let (id, version) = (record.id("id")?, record.version()?);
        let kyc = record.word("kycStatus", KycStatus::from_wire)?;
        let agreement = record.word("agreementStatus", AgreementStatus::from_wire)?;
        // Links open a person's documents, so no event contains them.
        let raw = json!({
            "id": id,
            "version": version,
            "kycStatus": kyc.wire(),
            "agreementStatus": agreement.wire(),
        });
        Ok(PayerNews {
            id: id.to_owned(),
            key: record.made_under()?,
            version,
            kyc,
            agreement,
            kyc_url: record.link("kycUrl", self.links)?,
            agreement_url: record.link("agreementUrl", self.links)?,
            raw: ForeignJson(raw.to_string()),
        })
    }

    /// Reads the payer that was created under a key.
    pub(super) fn registered(&self, value: &Value, key: &PartnerKey) -> Read<PayerNews> {
        Record::of("payer", value)?.key(key)?;
        self.payer(value)
    }

    /// Reads the requested payer.
    pub(super) fn same_payer(&self, value: &Value, asked: &str) -> Read<PayerNews> {
        let news = self.payer(value)?;
        Record::of("payer", value)?.same("id", &news.id, asked)?;
        Ok(news)
    }

    /// Reads the bank account that was created for a payer under a key.
    pub(super) fn added(&self, value: &Value, key: &PartnerKey, payer: &str) -> Read<AccountNews> {
        let record = Record::of("account", value)?;
        record.key(key)?;
        let news = account(value)?;
        record.same("payerId", &news.payer, payer)?;
        Ok(news)
    }

    /// Reads the requested bank account.
    pub(super) fn same_account(&self, value: &Value, asked: &str) -> Read<AccountNews> {
        let news = account(value)?;
        Record::of("account", value)?.same("id", &news.id, asked)?;
        Ok(news)
    }

    /// Reads the quote that was requested at `now`.
    pub(super) fn quote(&self, value: &Value, asked: &QuoteQuestion, now: DateTime<Utc>) -> Read<OffRampQuote> {
        let record = Record::of("quote", value)?;
        record.key(&asked.key)?;
        let id = record.id("id")?;
        record.same("payerId", record.id("payerId")?, &asked.payer)?;
        record.same("accountId", record.id("accountId")?, &asked.account)?;
        record.same("network", record.text("network", WORD_LENGTH_MAX)?, asked.network.id())?;
        record.same("currency", record.text("currency", 3)?, &asked.currency)?;
        let token = Address::parse(record.text("token", WORD_LENGTH_MAX)?);
        if token != Ok(asked.token) {
            return record.wrong("token", "is not the requested value");
        }
        let amount = record.amount("amount")?;
        if amount != asked.amount {
            return record.wrong("amount", "is not the requested value");
        }
        let deposit_address = self.deposit_address(&record, asked.network)?;
        let fee = record.amount_or_nothing("fee")?;
        if fee.as_ref().is_some_and(|fee| *fee >= amount) {
            return record.wrong("fee", "must be less than the amount");
        }
        let token = self.catalogue.by_token(asked.network, &asked.token);
        if let Some((currency, fee)) = token.zip(fee.as_ref())
            && fee.to_units(currency.decimals).is_err()
        {
            return record.wrong("fee", "has more decimal places than the token");
        }
        let ends_at = record.time("endsAt")?;
        if ends_at <= now || ends_at > now + QUOTE_LASTS_MAX {
            return record.wrong("endsAt", "must be a time within the next 31 days");
        }
        Ok(OffRampQuote {
            id: id.to_owned(),
            is_listed: self
                .deposits
                .get(&asked.network)
                .is_some_and(|listed| !listed.is_empty()),
            deposit_address,
            fee,
            pays_out: record.amount("paysOut")?.to_string(),
            ends_at,
        })
    }

    fn deposit_address(&self, record: &Record<'_>, network: Network) -> Read<Address> {
        const MEMBER: &str = "depositAddress";
        let text = record.text(MEMBER, WORD_LENGTH_MAX)?;
        let address = Address::parse_on(text, network).map_err(|why| why.to_string());
        let address = address.and_then(|address| self.catalogue.receiver(address, network));
        let address = address.and_then(|address| self.catalogue.receiver_anywhere(address));
        let address = address.or_else(|why| record.wrong(MEMBER, &why))?;
        let listed = self.deposits.get(&network).filter(|listed| !listed.is_empty());
        if listed.is_none_or(|listed| listed.contains(&address)) {
            Ok(address)
        } else {
            record.wrong(MEMBER, "is not in offramp.deposit_addresses")
        }
    }

    /// Reads the body of a callback.
    pub(super) fn news(&self, value: &Value) -> Read<PartnerNews> {
        let record = Record::of("callback", value)?;
        let of = |member: &str| record.members.get(member).unwrap_or(&Value::Null);
        match record.text("type", WORD_LENGTH_MAX)? {
            "payer" => self.payer(of("payer")).map(PartnerNews::Payer),
            "account" => account(of("account")).map(PartnerNews::Account),
            "order" => order(of("order")).map(PartnerNews::Order),
            _ => record.wrong("type", "is not a documented value"),
        }
    }
}

/// A text for people without invisible characters; `None` when no character is left. An empty text does not make the
/// response invalid.
fn cleaned(text: &str) -> Option<String> {
    let text: String = text.chars().filter(|letter| is_plain(*letter)).collect();
    (!text.trim().is_empty()).then_some(text)
}

fn account(value: &Value) -> Read<AccountNews> {
    let record = Record::of("account", value)?;
    let (id, payer, version) = (record.id("id")?, record.id("payerId")?, record.version()?);
    let status = record.word("status", PaymentDetailStatus::from_wire)?;
    let rejection = record.optional("rejection", REJECTION_LENGTH_MAX)?.and_then(cleaned);
    let raw = json!({
        "id": id,
        "payerId": payer,
        "version": version,
        "status": status.wire(),
        "rejection": rejection,
    });
    Ok(AccountNews {
        id: id.to_owned(),
        key: record.made_under()?,
        payer: payer.to_owned(),
        version,
        status,
        rejection,
        raw: ForeignJson(raw.to_string()),
    })
}

fn order(value: &Value) -> Read<OrderNews> {
    let record = Record::of("order", value)?;
    let known = |word: &str| match word {
        "failed" => Some(OrderStatus::Failed),
        word => OffRampStatus::from_wire(word).map(OrderStatus::Moved),
    };
    record.id("quoteId")?;
    let status = record.text("status", WORD_LENGTH_MAX)?;
    Ok(OrderNews {
        id: record.id("id")?.to_owned(),
        key: record.made_under()?,
        version: record.version()?,
        status: record.word("status", known)?,
        word: cleaned(record.text("providerStatus", WORD_LENGTH_MAX)?).unwrap_or_else(|| status.to_owned()),
    })
}

/// Reads the order that was opened.
pub(super) fn opened_order(value: &Value, asked: &OrderQuestion) -> Read<OrderNews> {
    let record = Record::of("order", value)?;
    record.key(&asked.key)?;
    record.same("quoteId", record.id("quoteId")?, &asked.quote)?;
    order(value)
}

/// Reads the requested order.
pub(super) fn same_order(value: &Value, asked: &str) -> Read<OrderNews> {
    let news = order(value)?;
    Record::of("order", value)?.same("id", &news.id, asked)?;
    Ok(news)
}
