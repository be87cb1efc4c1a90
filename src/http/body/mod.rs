//! Request bodies, checked against the documented schema of their type before any other code reads them. One response
//! lists every violation, and no message repeats a value that the caller sent.

pub mod idempotency;
pub mod json;
mod overlong;
pub mod reply;

use crate::{
    domain::refusal::{FieldError, Refusal},
    http::{
        error::{FIELDS_MAX, Problem},
        forms::{
            reason::{plain, shorten_name},
            text::enforced,
            wire::one_of,
        },
    },
};
use json::JsonFlaw;
use jsonschema::{
    ValidationError, Validator,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use poem::{FromRequest, Request, RequestBody, http::header};
use poem_openapi::{
    impl_apirequest_for_payload,
    payload::{ParsePayload, Payload},
    registry::{MetaSchemaRef, Registry},
    types::{ParseFromJSON, Type},
};
use serde_json::{Value, json};
use std::{
    any::TypeId,
    collections::{HashMap, HashSet},
    marker::PhantomData,
    ops::Deref,
    sync::{Arc, LazyLock, PoisonError, RwLock},
};

/// A JSON request body.
#[derive(Debug, Clone)]
pub struct Body<T>(pub T);

impl<T> Deref for Body<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Type> Payload for Body<T> {
    const CONTENT_TYPE: &'static str = "application/json";

    fn check_content_type(content_type: &str) -> bool {
        is_json(content_type)
    }

    fn schema_ref() -> MetaSchemaRef {
        T::schema_ref()
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }
}

impl<T: ParseFromJSON + 'static> ParsePayload for Body<T> {
    const IS_REQUIRED: bool = true;

    async fn from_request(request: &Request, body: &mut RequestBody) -> poem::Result<Self> {
        let bytes = plain_bytes(request, body).await?;
        Ok(parse(&bytes).map(Self)?)
    }
}

/// A JSON request body with the violations of its schema. It is refused only after domain rules have checked it too, so
/// that one response lists all errors. A null member counts as absent.
#[derive(Debug)]
pub struct BodyDraft<T> {
    value: Value,
    violations: Vec<FieldError>,
    kind: PhantomData<T>,
}

impl<T: ParseFromJSON> BodyDraft<T> {
    /// A string member.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.value.get(name)?.as_str()
    }

    /// Ends the checks and adds the errors of domain rules to those of the schema. For one field, schema errors come
    /// first.
    ///
    /// Errors: one refusal that lists every invalid field. If no field violates the schema, so that only domain rules
    /// failed, the refusal has the message `message`.
    pub fn finish(self, also: Vec<FieldError>, message: &str) -> Result<T, Problem> {
        let mut wrong = self.violations;
        let by_schema = wrong.len();
        for error in also {
            if !wrong.iter().any(|known| known.field == error.field) {
                wrong.push(error);
            }
        }
        if !wrong.is_empty() {
            let mut refusal = Refusal::fields(wrong);
            if by_schema == 0 {
                message.clone_into(&mut refusal.message);
            }
            return Err(refusal.into());
        }
        T::parse_from_json(Some(self.value)).map_err(|error| Problem::bad_request(plain(error.message())))
    }
}

impl<T: Type> Payload for BodyDraft<T> {
    const CONTENT_TYPE: &'static str = "application/json";

    fn check_content_type(content_type: &str) -> bool {
        is_json(content_type)
    }

    fn schema_ref() -> MetaSchemaRef {
        T::schema_ref()
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }
}

impl<T: ParseFromJSON + 'static> ParsePayload for BodyDraft<T> {
    const IS_REQUIRED: bool = true;

    async fn from_request(request: &Request, body: &mut RequestBody) -> poem::Result<Self> {
        let bytes = plain_bytes(request, body).await?;
        let mut value = json::read(&bytes).map_err(|flaw| unreadable(&flaw))?;
        if let Some(members) = value.as_object_mut() {
            members.retain(|_, member| !member.is_null());
        }
        let violations = documented::<T>()?.violations(&mut value);
        Ok(Self {
            value,
            violations,
            kind: PhantomData,
        })
    }
}

impl_apirequest_for_payload!(BodyDraft<T>, T: ParseFromJSON + 'static);

/// The bytes of a body. Errors: a compressed body.
async fn plain_bytes(request: &Request, body: &mut RequestBody) -> poem::Result<bytes::Bytes> {
    let encodings = request.headers().get_all(header::CONTENT_ENCODING);
    if !encodings
        .iter()
        .all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(
            Problem::bad_request("The content-encoding header must be absent: send the body uncompressed").into(),
        );
    }
    bytes::Bytes::from_request(request, body).await
}

/// Whether a content-type is JSON in UTF-8, the only accepted one.
pub(in crate::http) fn is_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    essence.eq_ignore_ascii_case("application/json")
        && parts.all(|parameter| {
            let charset = parameter
                .split_once('=')
                .filter(|(name, _)| name.eq_ignore_ascii_case("charset"));
            charset.is_some_and(|(_, name)| name.trim_matches('"').eq_ignore_ascii_case("utf-8"))
        })
}

impl_apirequest_for_payload!(Body<T>, T: ParseFromJSON + 'static);

/// Parses a body of a documented type. Errors: 400 with every violation.
pub fn parse<T: ParseFromJSON + 'static>(bytes: &[u8]) -> Result<T, Problem> {
    let mut value = json::read(bytes).map_err(|flaw| unreadable(&flaw))?;
    let documented = documented::<T>()?;
    let violations = documented.violations(&mut value);
    if !violations.is_empty() {
        return Err(Refusal::fields(violations).into());
    }
    T::parse_from_json(Some(value)).map_err(|error| Problem::bad_request(plain(error.message())))
}

fn unreadable(flaw: &JsonFlaw) -> Problem {
    let mut problem = Problem::bad_request(flaw.to_string());
    if let Some(path) = flaw.path() {
        let message = match flaw {
            JsonFlaw::Duplicate { .. } => "must occur only once",
            _ => "must not contain the character U+0000",
        };
        problem.fields = vec![FieldError::new(path, message)];
    }
    problem
}

/// The schema of a type, with its compiled validator.
struct BodySchema {
    schema: Value,
    validator: Validator,
}

fn documented<T: Type + 'static>() -> Result<Arc<BodySchema>, Problem> {
    static CACHE: LazyLock<RwLock<HashMap<TypeId, Arc<BodySchema>>>> = LazyLock::new(Default::default);
    let id = TypeId::of::<T>();
    if let Some(documented) = CACHE.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
        return Ok(documented.clone());
    }
    let documented = BodySchema::read(schema::<T>()).map_err(|error| {
        tracing::error!(%error, "the documented schema of a body does not compile");
        Problem::internal()
    })?;
    let documented = Arc::new(documented);
    CACHE
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(id, documented.clone());
    Ok(documented)
}

/// Bodies that grant rights or let one transaction pay several recipients. Such a body with an unknown member is refused:
/// the caller could have meant the member as a restriction.
const CLOSED: [&str; 8] = [
    "ChangePasswordBody",
    "CreateApiKeyBody",
    "CreateClientIdBody",
    "CreateMulticallBody",
    "CreateOwnClientIdBody",
    "RotateApiKeyBody",
    "UpdateClientIdBody",
    "UpdateOwnClientIdBody",
];

/// Makes the schemas of the bodies in [`CLOSED`] refuse unknown members.
pub(in crate::http) fn close(schemas: &mut Value) {
    for name in CLOSED {
        if let Some(schema) = schemas.get_mut(name).and_then(Value::as_object_mut) {
            schema.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
    }
}

fn schema<T: Type>() -> Value {
    let mut registry = Registry::new();
    T::register(&mut registry);
    let mut schema = match T::schema_ref() {
        MetaSchemaRef::Reference(name) => json!({ "$ref": format!("#/components/schemas/{name}") }),
        inline @ MetaSchemaRef::Inline(_) => json!(inline),
    };
    let mut schemas = json!(registry.schemas);
    close(&mut schemas);
    schema["components"] = json!({ "schemas": schemas });
    schema
}

/// Checks a value against a schema and returns the error messages; the list is empty for a valid value. The schema and
/// its components have the form in which the framework prints them.
pub(in crate::http) fn refusals(schema: &Value, components: &Value, value: &Value) -> Vec<FieldError> {
    let mut schema = schema.clone();
    schema["components"] = components.clone();
    BodySchema::read(schema).map_or_else(|_| Vec::new(), |documented| documented.violations(&mut value.clone()))
}

/// Converts an OpenAPI 3.0 schema to JSON Schema: rewrites the few keywords that the two define differently, and
/// replaces documented patterns with the enforced ones.
fn executable(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(executable),
        Value::Object(object) => {
            for (bound, flag) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
                if let Some(Value::Bool(is_exclusive)) = object.get(flag).cloned() {
                    object.shift_remove(flag);
                    if is_exclusive && let Some(limit) = object.shift_remove(bound) {
                        object.insert(flag.to_owned(), limit);
                    }
                }
            }
            bound_integer(object);
            // OpenAPI has no format for URLs with an internationalized host, which are accepted too.
            if object.get("format") == Some(&json!("uri")) {
                object.insert("format".to_owned(), json!("iri"));
            }
            if object.get("nullable") == Some(&Value::Bool(true)) {
                object.shift_remove("nullable");
                nullable(object);
            }
            if let Some(Value::String(pattern)) = object.get_mut("pattern") {
                *pattern = enforced(pattern).to_owned();
            }
            object.values_mut().for_each(executable);
        }
        _ => {}
    }
}

/// Gives an integer schema the bounds of its Rust type, so that the refusal of a number outside these bounds names the
/// field.
fn bound_integer(object: &mut serde_json::Map<String, Value>) {
    if object.get("type").and_then(Value::as_str) != Some("integer") {
        return;
    }
    let unsigned = object.get("format").and_then(Value::as_str).and_then(unsigned);
    let (least, most) = unsigned.map_or((json!(i64::MIN), json!(i64::MAX)), |(_, most)| (json!(0), json!(most)));
    if !object.contains_key("exclusiveMinimum") {
        object.entry("minimum").or_insert(least);
    }
    if !object.contains_key("exclusiveMaximum") {
        object.entry("maximum").or_insert(most);
    }
}

/// For an unsigned integer format: the signed format that the documents show instead, and the largest number.
pub(in crate::http) fn unsigned(format: &str) -> Option<(&'static str, u64)> {
    match format {
        "uint8" => Some(("int32", u8::MAX.into())),
        "uint16" => Some(("int32", u16::MAX.into())),
        "uint32" => Some(("int64", u32::MAX.into())),
        "uint64" => Some(("int64", (1 << 53) - 1)),
        _ => None,
    }
}

fn nullable(object: &mut serde_json::Map<String, Value>) {
    if let Some(Value::String(name)) = object.get("type").cloned() {
        object.insert("type".to_owned(), json!([name, "null"]));
        if let Some(Value::Array(values)) = object.get_mut("enum") {
            values.push(Value::Null);
        }
        return;
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        if let Some(parts) = object.shift_remove(keyword) {
            let references = parts.as_array().into_iter().flatten();
            let mut forms: Vec<Value> = references
                .filter(|part| part.get("nullable") != Some(&Value::Bool(true)))
                .cloned()
                .collect();
            forms.push(json!({ "type": "null" }));
            object.insert("anyOf".to_owned(), forms.into());
            return;
        }
    }
}

impl BodySchema {
    fn read(mut schema: Value) -> Result<Self, ValidationError<'static>> {
        executable(&mut schema);
        let validator = jsonschema::options().should_validate_formats(true).build(&schema)?;
        Ok(Self { schema, validator })
    }

    /// Lists all violations. An overlong list gets one error, about its length: the function empties the list first, so
    /// that the entries are not checked.
    fn violations(&self, value: &mut Value) -> Vec<FieldError> {
        let overlong = overlong::empty(&self.schema, value);
        if overlong.is_empty() && self.validator.is_valid(value) {
            return Vec::new();
        }
        let overlong = overlong
            .into_iter()
            .map(|list| FieldError::new(path(&list.pointer), at_most_items(list.max)));
        let mut known = HashSet::new();
        let errors = self.validator.iter_errors(value);
        let violations = overlong.chain(errors.flat_map(|error| self.explain(&error)));
        // One message per field is enough: pattern and length of a string usually fail together.
        let violations = violations.filter(|violation| known.insert(violation.field.clone()));
        // The list may have one error more than a response shows; the response then reports that there are further
        // errors.
        violations.take(FIELDS_MAX + 1).collect()
    }

    fn explain(&self, error: &ValidationError<'_>) -> Vec<FieldError> {
        let field = path(error.instance_path().as_str());
        let schema = self.subschema(error);
        let message = match error.kind() {
            Kind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let message = describe_required(self.member(schema, name));
                return vec![FieldError::new(json::below(&field, name), message)];
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
                return self.explain_forms(field, schema, context);
            }
            Kind::AdditionalProperties { unexpected } => {
                let unknown = unexpected.iter().map(|name| json::below(&field, &shorten_name(name)));
                return unknown
                    .map(|field| FieldError::new(field, "must be absent: unknown member"))
                    .collect();
            }
            Kind::UniqueItems => return repeated(field, error.instance(), schema),
            kind => describe(kind, schema, error.instance().is_null()),
        };
        vec![FieldError::new(field, message)]
    }

    /// Explains a value that matches none of several forms: returns the errors of the closest form.
    fn explain_forms(
        &self,
        field: String,
        schema: &Value,
        context: &[Vec<ValidationError<'static>>],
    ) -> Vec<FieldError> {
        let of_another_kind = |form: &&Vec<ValidationError<'static>>| {
            form.iter()
                .any(|error| matches!(error.kind(), Kind::Type { .. }) && path(error.instance_path().as_str()) == field)
        };
        let closest = context
            .iter()
            .filter(|form| !of_another_kind(form))
            .min_by_key(|form| form.len());
        match closest {
            Some(form) => form.iter().flat_map(|error| self.explain(error)).collect(),
            None => {
                let own = context.iter().flatten().find(|error| {
                    !matches!(error.kind(), Kind::Type { kind: TypeKind::Single(single) } if single.as_str() == "null")
                });
                match own {
                    Some(error) => self.explain(error),
                    None => vec![FieldError::new(
                        field,
                        with_example("must have a different form", schema),
                    )],
                }
            }
        }
    }

    /// The schema whose keyword failed.
    fn subschema(&self, error: &ValidationError<'_>) -> &Value {
        let path = error.schema_path().as_str();
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        self.schema.pointer(parent).unwrap_or(&Value::Null)
    }

    fn member<'a>(&'a self, schema: &'a Value, name: &str) -> &'a Value {
        let member = &self.resolve(schema)["properties"][name];
        self.resolve(member)
    }

    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let reference = schema.get("$ref").and_then(Value::as_str);
        reference
            .and_then(|reference| self.schema.pointer(reference.trim_start_matches('#')))
            .unwrap_or(schema)
    }
}

/// `/items/0/amount` as `items[0].amount`.
fn path(pointer: &str) -> String {
    let segments = pointer.split('/').skip(1);
    let segments = segments.map(|segment| match segment.parse() {
        Ok(index) => json::entry(index),
        Err(_) => shorten_name(&segment.replace("~1", "/").replace("~0", "~")),
    });
    segments.fold(String::new(), |path, segment| json::below(&path, &segment))
}

fn describe_required(schema: &Value) -> String {
    match hint(schema) {
        Some(hint) => format!("is required: {hint}"),
        None => match example(schema) {
            Some(example) => format!("is required, for example {example}"),
            None => "is required".to_owned(),
        },
    }
}

/// Errors for the entries of a list that repeat an earlier entry; for an overlong list, one error for the list.
fn repeated(field: String, list: &Value, schema: &Value) -> Vec<FieldError> {
    let entries = list.as_array().map_or(&[][..], Vec::as_slice);
    let max = schema["maxItems"].as_u64().and_then(|max| usize::try_from(max).ok());
    if max.is_some_and(|max| entries.len() > max) {
        return vec![FieldError::new(field, "must not contain duplicate items")];
    }
    let again = (0..entries.len()).filter(|index| entries[..*index].contains(&entries[*index]));
    again
        .map(|index| FieldError::new(json::below(&field, &json::entry(index)), "must be listed only once"))
        .collect()
}

/// The error message: what is wrong and what is accepted.
fn describe(kind: &Kind, schema: &Value, is_null: bool) -> String {
    let sentence = match kind {
        Kind::Type { kind } if is_null => {
            let kind = with_example(&format!("must be {}", in_words(kind)), schema);
            return format!("{kind}, not null; omit an optional member that has no value");
        }
        Kind::Type { kind } => format!("must be {}", in_words(kind)),
        Kind::Enum { options } => return one_of(options.as_array().map_or(&[], Vec::as_slice)),
        Kind::Constant { expected_value } => return one_of(std::slice::from_ref(expected_value.as_ref())),
        Kind::Pattern { .. } | Kind::Format { .. } => match (hint(schema), kind) {
            (Some(hint), _) => return hint.to_owned(),
            (None, Kind::Format { format }) => format!("must be a string of the format {format}"),
            (None, _) => "must have the documented form".to_owned(),
        },
        Kind::MaxLength { .. } | Kind::MinLength { .. } if hint(schema).is_some() => {
            return hint(schema).unwrap_or_default().to_owned();
        }
        Kind::MaxLength { limit } => format!("must have at most {limit} characters"),
        Kind::MinLength { limit: 1 } => "must not be empty".to_owned(),
        Kind::MinLength { limit } => format!("must have at least {limit} characters"),
        Kind::MaxItems { limit } => return at_most_items(*limit),
        Kind::MinItems { limit } => return format!("must have at least {limit} items"),
        Kind::MaxProperties { limit } => return format!("must have at most {limit} members"),
        Kind::MinProperties { limit } => return format!("must have at least {limit} members"),
        Kind::Minimum { limit } => return format!("must be {} or more", whole(limit)),
        Kind::Maximum { limit } => return format!("must be {} or less", whole(limit)),
        Kind::ExclusiveMinimum { limit } => return format!("must be greater than {}", whole(limit)),
        Kind::ExclusiveMaximum { limit } => return format!("must be less than {}", whole(limit)),
        Kind::MultipleOf { multiple_of } => return format!("must be a multiple of {multiple_of}"),
        Kind::OneOfMultipleValid { .. } => return "must have exactly one of the accepted forms".to_owned(),
        _ => "must have the documented form".to_owned(),
    };
    with_example(&sentence, schema)
}

fn at_most_items(limit: u64) -> String {
    format!("must have at most {limit} items")
}

fn in_words(kind: &TypeKind) -> String {
    let words = |name: &str| match name {
        "array" => "an array".to_owned(),
        "integer" => "a whole number".to_owned(),
        "object" => "an object".to_owned(),
        "null" => "null".to_owned(),
        name => format!("a {name}"),
    };
    match kind {
        TypeKind::Single(single) => words(single.as_str()),
        TypeKind::Multiple(set) => {
            let names: Vec<String> = set.iter().map(|each| words(each.as_str())).collect();
            names.join(" or ")
        }
    }
}

/// Formats a bound, which the framework returns as a float, without a fraction if it has none.
fn whole(limit: &Value) -> String {
    match limit.as_f64().filter(|_| limit.is_f64()) {
        Some(limit) => limit.to_string(),
        None => limit.to_string(),
    }
}

fn hint(schema: &Value) -> Option<&str> {
    let is_text = schema.get("pattern").is_some() || schema.get("format").is_some();
    schema.get("title").and_then(Value::as_str).filter(|_| is_text)
}

fn example(schema: &Value) -> Option<&Value> {
    schema
        .get("example")
        .filter(|example| !example.is_object() && !example.is_array())
}

fn with_example(sentence: &str, schema: &Value) -> String {
    example(schema).map_or_else(
        || sentence.to_owned(),
        |example| format!("{sentence}, for example {example}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::forms::wire::{AmountText, MerchantReference, PercentText};
    use poem_openapi::{Enum, Object, Union};

    #[derive(Debug, Enum)]
    #[oai(rename_all = "UPPERCASE")]
    enum SamplePace {
        Daily,
        Weekly,
    }

    #[derive(Debug, Object)]
    #[oai(rename_all = "camelCase")]
    struct SampleLine {
        amount: AmountText,
        #[oai(validator(minimum(value = "1"), maximum(value = "9")))]
        count: u32,
    }

    #[derive(Debug, Object)]
    #[oai(rename_all = "camelCase")]
    struct Order {
        amount: AmountText,
        reference: Option<MerchantReference>,
        #[oai(nullable)]
        fee: Option<PercentText>,
        #[oai(nullable)]
        extra: Option<SampleLine>,
        pace: Option<SamplePace>,
        #[oai(validator(min_items = 1, max_items = 2))]
        lines: Vec<SampleLine>,
        is_urgent: Option<bool>,
    }

    #[derive(Debug, Union)]
    enum Either {
        Line(SampleLine),
        Order(Box<Order>),
    }

    fn problems<T: ParseFromJSON + std::fmt::Debug + 'static>(text: &str) -> Vec<(String, String)> {
        let problem = parse::<T>(text.as_bytes()).unwrap_err();
        problem
            .fields
            .into_iter()
            .map(|field| (field.field, field.message))
            .collect()
    }

    #[test]
    fn every_invalid_field_is_reported_at_once() {
        let text = r#"{"amount":10.5,"reference":"","fee":"250","pace":"HOURLY","lines":[{"amount":"hush","count":12},{"count":"1"}],"isUrgent":"yes"}"#;
        let mut found = problems::<Order>(text);
        found.sort();
        let expected = [
            ("amount", "must be a string, for example \"10.5\""),
            ("fee", PercentText::HINT),
            ("isUrgent", "must be a boolean"),
            ("lines[0].amount", AmountText::HINT),
            ("lines[0].count", "must be 9 or less"),
            (
                "lines[1].amount",
                "is required: must be a decimal number written as a string, for example \"10.5\": digits, optionally a point and more digits",
            ),
            ("lines[1].count", "must be a whole number"),
            ("pace", "must be one of DAILY, WEEKLY"),
            ("reference", MerchantReference::HINT),
        ];
        let expected: Vec<_> = expected.map(|(f, m)| (f.to_owned(), m.to_owned())).to_vec();
        assert_eq!(found, expected);
        assert!(!found.iter().any(|(_, message)| message.contains("hush")));
    }

    #[test]
    fn null_is_accepted_only_where_it_is_documented() {
        let good = r#"{"amount":"1","fee":null,"extra":null,"lines":[{"amount":"1","count":1}]}"#;
        assert!(parse::<Order>(good.as_bytes()).is_ok());
        let found = problems::<Order>(r#"{"amount":"1","reference":null,"lines":[{"amount":"1","count":1}]}"#);
        assert_eq!(found[0].0, "reference");
        let expected = "must be a string, for example \"order-1042\", not null";
        assert!(found[0].1.starts_with(expected), "{}", found[0].1);
    }

    #[test]
    fn a_nullable_object_is_checked_like_any_other() {
        let found =
            problems::<Order>(r#"{"amount":"1","extra":{"amount":"x","count":1},"lines":[{"amount":"1","count":1}]}"#);
        assert_eq!(found, [("extra.amount".to_owned(), AmountText::HINT.to_owned())]);
        let found = problems::<Order>(r#"{"amount":"1","extra":7,"lines":[{"amount":"1","count":1}]}"#);
        assert_eq!(found, [("extra".to_owned(), "must be an object".to_owned())]);
    }

    #[test]
    fn a_union_explains_the_closest_form() {
        let found = problems::<Either>(r#"{"amount":"x","count":3}"#);
        assert_eq!(found, [("amount".to_owned(), AmountText::HINT.to_owned())]);
    }

    #[test]
    fn a_too_long_list_is_rejected_without_reading_its_entries() {
        let text = format!(r#"{{"amount":"hush","lines":[{}{{}}]}}"#, "{},".repeat(20_000));
        let mut found = problems::<Order>(&text);
        found.sort();
        let expected = [("amount", AmountText::HINT), ("lines", "must have at most 2 items")];
        let expected = expected.map(|(field, message)| (field.to_owned(), message.to_owned()));
        assert_eq!(found, expected);
    }

    #[test]
    fn unknown_members_are_ignored() {
        let text = r#"{"amount":"1","count":1,"note":"x"}"#;
        assert!(parse::<SampleLine>(text.as_bytes()).is_ok());
    }

    #[test]
    fn duplicate_members_are_refused_with_their_path() {
        let problem = parse::<SampleLine>(br#"{"amount":"1","count":1,"count":2}"#).unwrap_err();
        assert_eq!(
            problem.message,
            "The body contains the member `count` twice: send it once"
        );
        assert_eq!(problem.fields[0].field, "count");
    }
}
