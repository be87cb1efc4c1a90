//! Wire types: one for each text form of the contract, checked with a pattern that is compiled once and documented
//! where it is used.
//!
//! Every form has a hint: the error message for an invalid value. The schema carries it in `title`, where
//! [`crate::http::body`] reads it; the published documents drop titles.

use crate::{
    domain::{
        address::Address,
        amount::{Amount, Percent},
        ids::RequestId,
        instant::parse_instant,
        reference::PaymentReference,
        refusal::Checks,
    },
    http::forms::{
        reason::plain,
        shape::shape,
        text::{LINE, Reads, WRITTEN_LINE, text},
    },
};
use alloy::primitives::B256;
use chrono::{DateTime, SecondsFormat, Utc};
use poem::{Request, RequestBody};
use poem_openapi::{
    ApiExtractor, ApiExtractorType, ExtractParamOptions,
    param::Query,
    registry::{MetaParamIn, MetaSchema, MetaSchemaRef, Registry},
    types::{ParseError, ParseFromJSON, ParseFromParameter, ParseResult, ToJSON, Type},
};
use serde_json::Value;
use std::fmt;

/// Fewest characters of a text that looks like a Tron address. An address has 34.
const TRON_LENGTH_LEAST: usize = 20;

text! {
    /// Hash of a transaction, on Tron too. Source: decisions D43.
    TxHash {
        pattern: "^0x[a-fA-F0-9]{64}$",
        length_max: 66,
        example: "0x8f4e1b2a7c6d5e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071",
        hint: "must be a transaction hash: 0x and 64 hexadecimal digits",
        hint_for: hint_for_digits,
        reads: B256 = |text: &str| text.parse::<B256>().map_err(|_| TxHash::HINT),
    }
    /// Wallet address of an EVM network or of Tron. The pattern ignores the checksum; the domain checks it.
    WalletText {
        pattern: "^(0x[a-fA-F0-9]{40}|T[1-9A-HJ-NP-Za-km-z]{33})$",
        length_max: 42,
        example: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
        hint: "must be a wallet address: 0x and 40 hexadecimal digits, or a Tron address: T and 33 more characters, in their exact case",
        reads: Address = Address::parse,
    }
    /// A wallet address in a field whose error message the published interface prescribes. Source: decisions D39.
    PayerText {
        pattern: "^(0x[a-fA-F0-9]{40}|T[1-9A-HJ-NP-Za-km-z]{33})$",
        length_max: 42,
        example: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
        hint: "Invalid Ethereum address",
        hint_for: hint_for_tron,
        reads: Address = Address::parse,
    }
    /// Code of an invite.
    InviteText {
        pattern: "^inv_[A-Za-z0-9_-]{43}$",
        length_max: 47,
        example: "inv_Zk3mV0sQy1xW8uT5rP2nL9jH6fD4bA7cE0gI3kM5oQ8",
        hint: "must be an invite: inv_ and 43 letters, digits, dashes or underscores",
    }
    /// Decimal number in human units.
    AmountText {
        pattern: r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$",
        length_max: 108,
        example: "10.5",
        hint: "must be a decimal number written as a string, for example \"10.5\": digits, optionally a point and more digits",
        reads: Amount = Amount::parse,
    }
    /// Decimal number greater than zero in human units: the amount of a request. The currency limits the number of
    /// decimals.
    AskedAmountText {
        pattern: r"^([1-9][0-9]{0,76}(\.[0-9]{1,30})?|0\.[0-9]{0,29}[1-9][0-9]{0,29})$",
        length_max: 108,
        example: "10.5",
        hint: "must be a decimal number greater than 0, written as a string, for example \"10.5\": digits, optionally a point and more digits",
        reads: Amount = Amount::parse,
    }
    /// Percentage from 0 to 100 with at most two fraction digits.
    PercentText {
        pattern: r"^(100(\.0{1,2})?|[1-9]?[0-9](\.[0-9]{1,2})?)$",
        length_min: 1,
        length_max: 6,
        example: "2.5",
        hint: "must be a number from 0 to 100 with at most 2 fraction digits, written as a string, for example \"2.5\"",
        reads: Percent = Percent::parse,
    }
    /// ULID: 26 characters of Crockford base 32.
    UlidText {
        pattern: "^[0-7][0-9A-HJKMNP-TV-Z]{25}$",
        length_max: 26,
        example: "01JZX4T9QK3M7N8P2R5S6V0WYB",
        hint: "must be a ULID: 26 digits and capital letters, for example 01JZX4T9QK3M7N8P2R5S6V0WYB",
    }
    /// Payment reference: eight bytes in hexadecimal digits; the prefix may be missing.
    ReferenceText {
        pattern: "^(0x)?[a-fA-F0-9]{16}$",
        length_max: 18,
        example: "0x06143180ee3cd1b0",
        hint: "must be a payment reference: 0x and 16 hexadecimal digits",
        reads: PaymentReference = |text: &str| PaymentReference::parse(text).ok_or(ReferenceText::HINT),
    }
    /// Id or alias of a currency, as the list of currencies names it.
    CurrencyIdText {
        pattern: r"^[^\s\x00-\x1f\x7f-\x9f]{1,64}$",
        length_max: 64,
        example: "FAU-sepolia",
        hint: "must be a currency id of 1 to 64 characters without spaces, for example USD or USDC-base",
    }
    /// Id of a network.
    NetworkText {
        pattern: "^[a-z0-9-]{1,32}$",
        length_max: 32,
        example: "sepolia",
        hint: "must be the id of a network, for example mainnet, base or arbitrum-one",
    }
    /// Id of a payee destination. The pattern checks only the form; the domain looks up the destination.
    DestinationIdText {
        pattern: r"^((0x[a-fA-F0-9]{40}|T[1-9A-HJ-NP-Za-km-z]{33})@eip155:[0-9]+#[a-fA-F0-9]{8}:[^\s\x00-\x1f\x7f-\x9f]+|[^\s:@\x00-\x1f\x7f-\x9f]+:(0x[a-fA-F0-9]{40}|T[1-9A-HJ-NP-Za-km-z]{33}):[^\s@\x00-\x1f\x7f-\x9f]+)$",
        length_max: 200,
        example: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8@eip155:11155111#121DA093:0x370DE27fdb7D1Ff1e1BaA7D11c5820a324Cf623C",
        hint: "must be the id of a payee destination: wallet@eip155:chainId#checksum:token, or network:wallet:token",
    }
    /// Your own id of a payer.
    ClientUserIdText {
        pattern: WRITTEN_LINE,
        length_min: 1,
        length_max: 255,
        example: "user-1042",
        hint: "must be one line of 1 to 255 characters, not only spaces, without control, invisible or text direction characters",
    }
    /// UUID.
    UuidText {
        pattern: "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
        length_max: 36,
        format: "uuid",
        example: "7d9f3c52-6b1e-4a8d-9c20-5e4f3a2b1c0d",
        hint: "must be a UUID, for example 7d9f3c52-6b1e-4a8d-9c20-5e4f3a2b1c0d",
    }
    /// Reference that a merchant chose.
    MerchantReference {
        pattern: LINE,
        length_min: 1,
        length_max: 255,
        example: "order-1042",
        hint: "must be one line of 1 to 255 characters, without control, invisible or text direction characters",
    }
    /// Display name.
    NameText {
        pattern: LINE,
        length_min: 1,
        length_max: 100,
        example: "Web shop",
        hint: "must be one line of 1 to 100 characters, without control, invisible or text direction characters",
    }
    /// Symbol of a currency.
    SymbolText {
        pattern: "^[A-Za-z0-9-]{1,32}$",
        length_max: 32,
        example: "USDC",
        hint: "must be a symbol of 1 to 32 letters, digits and dashes, for example USDC",
    }
    /// Id of a request: opaque to callers.
    RequestIdText {
        pattern: "^[0-9A-Za-z]{1,128}$",
        length_max: 128,
        example: "01e7864ca7b90a80f58f3995a9da4466f5c04f41fb719a23abb397d1addf5aa017",
        hint: "must be the id of a request as returned by POST /v2/request: letters and digits only",
        reads: RequestId = |text: &str| Ok::<_, &str>(RequestId(text.to_owned())),
    }
    /// Point in time with any UTC offset. Source: decisions D47.
    IsoInstantText {
        pattern: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$",
        length_max: 35,
        format: "date-time",
        example: "2030-01-31T12:00:00.000Z",
        hint: "must be a date and time with Z or an offset from UTC, for example 2030-01-31T12:00:00Z or 2030-01-31T13:00:00+01:00; in a query + is written %2B",
        reads: DateTime<Utc> = |text: &str| parse_instant(text).ok_or(IsoInstantText::HINT),
    }
    /// Point in time that ends in `Z`, as the published interface requires in searches. The schema has no `format`,
    /// because clients generated from a format send other offsets. Source: decisions D47.
    UtcTimeText {
        pattern: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$",
        length_max: 30,
        example: "2030-01-31T12:00:00.000Z",
        hint: "must be a date and time in UTC that ends in Z, for example 2030-01-31T12:00:00Z",
        reads: DateTime<Utc> = |text: &str| parse_instant(text).ok_or(UtcTimeText::HINT),
    }
    /// Public form of a client ID.
    ClientIdText {
        pattern: "^cli_[0-9A-Za-z]{30}$",
        length_max: 34,
        example: "cli_8Jd2kLmN0pQrStUvWxYz1234567890",
        hint: "must be a client ID: cli_ and 30 letters or digits",
    }
    /// Number of a page, a number in a string.
    PageText {
        pattern: "^[1-9][0-9]{0,3}$",
        length_max: 4,
        example: "1",
        hint: "must be a whole number from 1 to 9999, digits only",
    }
    /// Page size, a number in a string. Source: decisions D14.
    LimitText {
        pattern: "^([1-9][0-9]?|100)$",
        length_max: 3,
        example: "20",
        hint: "must be a whole number from 1 to 100, digits only",
    }
    /// Number of rows to skip, a number in a string. Source: decisions D14.
    OffsetText {
        pattern: "^(0|[1-9][0-9]{0,3}|10000)$",
        length_max: 5,
        example: "0",
        hint: "must be a whole number from 0 to 10000, digits only",
    }
}

/// The hint for a transaction hash in the form of Tron's programs: without `0x`.
fn hint_for_digits(text: &str) -> Option<&'static str> {
    let is_bare = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_bare
        .then_some("must begin with 0x, for a transaction on Tron too: write 0x in front of the 64 hexadecimal digits")
}

/// The hint for a text that looks like a Tron address in another case or of another length.
fn hint_for_tron(text: &str) -> Option<&'static str> {
    let begins = text.starts_with(['T', 't']) && text.len() >= TRON_LENGTH_LEAST;
    let is_like_tron = begins && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_like_tron.then_some(WalletText::HINT)
}

impl LimitText {
    /// The number; the pattern limits its range.
    pub fn number(&self) -> u64 {
        self.0.parse().unwrap_or(u64::MAX)
    }
}

impl PageText {
    /// The number; the pattern limits its range.
    pub fn number(&self) -> u64 {
        self.0.parse().unwrap_or(u64::MAX)
    }
}

impl OffsetText {
    /// The number; the pattern limits its range.
    pub fn number(&self) -> u64 {
        self.0.parse().unwrap_or(u64::MAX)
    }
}

/// Point in time in UTC with milliseconds, always ending in `Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub DateTime<Utc>);

impl fmt::Display for Instant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl From<DateTime<Utc>> for Instant {
    fn from(time: DateTime<Utc>) -> Self {
        Self(time)
    }
}

shape! { Instant, "Instant", {
    let mut schema = MetaSchema::new_with_format("string", "date-time");
    schema.title = Some(IsoInstantText::HINT.to_owned());
    schema.max_length = Some(35);
    schema.example = Some(IsoInstantText::EXAMPLE.into());
    MetaSchemaRef::Inline(Box::new(schema))
} }

impl ParseFromJSON for Instant {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        let text = value.as_ref().and_then(Value::as_str).unwrap_or_default();
        DateTime::parse_from_rfc3339(text)
            .map(|time| Self(time.to_utc()))
            .map_err(|_| ParseError::custom(IsoInstantText::HINT))
    }
}

impl ToJSON for Instant {
    fn to_json(&self) -> Option<Value> {
        Some(self.to_string().into())
    }
}

/// A query parameter that does not fail on extraction, so that an operation can report all invalid parameters at once.
#[derive(Debug, Clone)]
pub struct QueryParameter<T, const IS_NEEDED: bool> {
    name: &'static str,
    given: Result<Option<T>, String>,
}

/// An optional parameter.
pub type Checked<T> = QueryParameter<T, false>;

/// A required parameter.
pub type Needed<T> = QueryParameter<T, true>;

impl<T> Checked<T> {
    /// Whether the caller sent the parameter, valid or not.
    pub fn is_given(&self) -> bool {
        !matches!(self.given, Ok(None))
    }
}

impl<T, const IS_NEEDED: bool> QueryParameter<T, IS_NEEDED> {
    /// Returns a valid value; records an invalid or missing one under the name of the parameter.
    pub fn take(self, checks: &mut Checks) -> Option<T> {
        checks.take(self.name, self.given).flatten()
    }

    /// Parses the value of the text; records an invalid or missing one under the name of the parameter.
    pub fn read(self, checks: &mut Checks) -> Option<T::Value>
    where
        T: Reads,
    {
        let name = self.name;
        let text = self.take(checks)?;
        checks.take(name, text.value())
    }

    fn of(name: &'static str, texts: &[String]) -> Self
    where
        T: ParseFromParameter,
    {
        let given = match texts {
            [] if IS_NEEDED => Err(missing::<T>()),
            [] => Ok(None),
            [text] => T::parse_from_parameter(text)
                .map(Some)
                .map_err(|error| accepted_values::<T>().unwrap_or_else(|| plain(error.message()).to_owned())),
            _ => Err("must be given only once".to_owned()),
        };
        Self { name, given }
    }
}

impl<'a, T: ParseFromParameter, const IS_NEEDED: bool> ApiExtractor<'a> for QueryParameter<T, IS_NEEDED> {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::Parameter];
    const PARAM_IS_REQUIRED: bool = IS_NEEDED;
    type ParamType = T;
    type ParamRawType = T::RawValueType;

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn param_in() -> Option<MetaParamIn> {
        Some(MetaParamIn::Query)
    }

    fn param_schema_ref() -> Option<MetaSchemaRef> {
        Some(T::schema_ref())
    }

    fn param_raw_type(&self) -> Option<&T::RawValueType> {
        self.given.as_ref().ok()?.as_ref()?.as_raw_value()
    }

    async fn from_request(
        request: &'a Request,
        body: &mut RequestBody,
        options: ExtractParamOptions<T>,
    ) -> poem::Result<Self> {
        let name = options.name;
        let options = ExtractParamOptions {
            name,
            ..ExtractParamOptions::default()
        };
        let texts = Query::<Vec<String>>::from_request(request, body, options).await?;
        Ok(Self::of(name, &texts.0))
    }
}

/// The error message for a missing parameter.
fn missing<T: Type>() -> String {
    let right = accepted_values::<T>().or_else(|| match T::schema_ref() {
        MetaSchemaRef::Inline(schema) => schema.title,
        MetaSchemaRef::Reference(_) => None,
    });
    right.map_or_else(|| "is required".to_owned(), |right| format!("is required: {right}"))
}

/// The error message that lists the values of an enumeration; `None` for other types.
fn accepted_values<T: Type>() -> Option<String> {
    let mut registry = Registry::new();
    let values = registry.create_fake_schema::<T>().enum_items;
    (!values.is_empty()).then(|| one_of(&values))
}

/// `must be one of a, b, c`.
pub(in crate::http) fn one_of(values: &[Value]) -> String {
    let words: Vec<String> = values
        .iter()
        .filter(|value| !value.is_null())
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        .collect();
    format!("must be one of {}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! examples_fit {
        ($($name:ident),+) => {$(
            assert_eq!($name::parse($name::EXAMPLE).unwrap().as_str(), $name::EXAMPLE);
            assert_eq!($name::parse("\u{0}"), Err($name::HINT));
            assert_eq!($name::parse(""), Err($name::HINT));
            assert!($name::HINT.starts_with("must be "));
        )+};
    }

    #[test]
    fn every_example_matches_its_format_and_no_empty_text_does() {
        examples_fit!(
            TxHash,
            WalletText,
            AmountText,
            AskedAmountText,
            DestinationIdText,
            PercentText,
            UlidText,
            ReferenceText,
            CurrencyIdText,
            NetworkText,
            MerchantReference,
            IsoInstantText,
            UtcTimeText,
            LimitText,
            OffsetText
        );
    }

    #[test]
    fn formats_reject_near_misses() {
        assert!(AmountText::parse("007").is_err());
        assert!(AmountText::parse("1e3").is_err());
        assert!(AmountText::parse("10.5\n").is_err());
        assert!(AmountText::parse("0.00").is_ok());
        for zero in ["0", "0.0", "0.000", "00", ".5", "01"] {
            assert!(AskedAmountText::parse(zero).is_err(), "{zero}");
        }
        for asked in ["1", "10", "0.1", "0.010", "1.0", &format!("0.{}1", "0".repeat(29))] {
            assert!(AskedAmountText::parse(asked).unwrap().value().is_ok(), "{asked}");
        }
        let fau = "0x370DE27fdb7D1Ff1e1BaA7D11c5820a324Cf623C";
        let named = format!("sepolia:0x7eB023BFbAeE228de6DC5B92D0BeEB1eDb1Fd567:{fau}");
        assert!(DestinationIdText::parse(&named).is_ok());
        for wrong in [
            fau,
            "sepolia:x:y",
            "sepolia",
            &named.replace("sepolia", ""),
            &format!("{named}@"),
        ] {
            assert!(DestinationIdText::parse(wrong).is_err(), "{wrong}");
        }
        for (least, most) in [("0", "101"), ("-1", "1000"), ("007", "1e2")] {
            assert!(LimitText::parse(least).is_err() && LimitText::parse(most).is_err());
        }
        assert!(LimitText::parse("1").is_ok() && LimitText::parse("100").is_ok());
        assert!(OffsetText::parse("10000").is_ok() && OffsetText::parse("10001").is_err());
        assert!(PercentText::parse("100.01").is_err());
        assert!(PercentText::parse("2.555").is_err());
        assert!(UlidText::parse("81JZX4T9QK3M7N8P2R5S6V0WYB").is_err());
        for wrong in [
            "2030-02-30T00:00:00Z",
            "2030-13-01T00:00:00Z",
            "2030-12-31T23:59:60Z",
            "0000-01-01T00:00:00Z",
        ] {
            assert!(IsoInstantText::parse(wrong).unwrap().value().is_err(), "{wrong}");
            assert!(UtcTimeText::parse(wrong).unwrap().value().is_err(), "{wrong}");
        }
        for outside in [
            "9999-12-31T23:59:59-00:01",
            "0001-01-01T00:00:00+00:01",
            "2030-01-31T12:00:00+24:00",
        ] {
            assert!(IsoInstantText::parse(outside).unwrap().value().is_err(), "{outside}");
        }
        for offset in ["+00:00", "-05:00", "", "z", "+0100", " 01:00"] {
            assert!(
                UtcTimeText::parse(&format!("2030-01-31T12:00:00{offset}")).is_err(),
                "{offset}"
            );
        }
        assert!(MerchantReference::parse(&"ü".repeat(256)).is_err());
        assert!(MerchantReference::parse(&"ü".repeat(255)).is_ok());
        assert!(ReferenceText::parse("9a3f5c1e7b2d4860").is_ok());
        let digits = "aB".repeat(32);
        assert!(TxHash::parse(&digits).is_err_and(|hint| hint.starts_with("must begin with 0x")));
        assert_eq!(TxHash::parse(&digits.replace('a', "x")), Err(TxHash::HINT));
        assert!(TxHash::parse(&format!("0x{digits}")).is_ok());
    }

    #[test]
    fn an_instant_must_fit_both_databases() {
        let finer = parse_instant("2030-01-31T12:00:00.000001999Z").unwrap();
        assert_eq!(Some(finer), parse_instant("2030-01-31T12:00:00.000001Z"));
        assert_eq!(Some(finer), parse_instant("2030-01-31T17:30:00.000001+05:30"));
    }

    #[test]
    fn instants_print_milliseconds_and_z() {
        let time = DateTime::parse_from_rfc3339("2030-01-31T13:00:00.5+01:00").unwrap();
        assert_eq!(Instant(time.to_utc()).to_string(), "2030-01-31T12:00:00.500Z");
    }

    #[test]
    fn checked_parameters_report_what_was_wrong() {
        let mut checks = Checks::new();
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let wrong = Checked::<TxHash>::of("txHash", &texts(&["0x12"]));
        assert!(wrong.is_given());
        assert!(wrong.take(&mut checks).is_none());
        let twice = Checked::<NetworkText>::of("network", &texts(&["base", "bsc"]));
        assert!(twice.take(&mut checks).is_none());
        let missing = Needed::<TxHash>::of("needed", &[]);
        assert!(missing.take(&mut checks).is_none());
        let absent = Checked::<LimitText>::of("limit", &[]);
        assert!(!absent.is_given());
        assert!(absent.take(&mut checks).is_none());
        let refusal = checks.finish().unwrap_err();
        let fields: Vec<_> = refusal.fields.iter().map(|field| field.field.as_str()).collect();
        assert_eq!(fields, ["txHash", "network", "needed"]);
        assert_eq!(refusal.fields[2].message, format!("is required: {}", TxHash::HINT));
        assert_eq!(refusal.fields[0].message, TxHash::HINT);
    }
}
