//! A response or member that is null when it has no value.
//!
//! A member of this type is always present and `required`. An `Option` would not do: objects with
//! `skip_serializing_if_is_none` leave out every `Option` without a value, and the framework offers no exception for
//! one member. Source: decisions D31.

use poem_openapi::{
    registry::{MetaSchema, MetaSchemaRef, Registry},
    types::{MaybeUndefined, ParseError, ParseFromJSON, ParseResult, ToJSON, Type},
};
use serde_json::Value;
use std::borrow::Cow;

/// A value, or null.
#[derive(Debug, Clone)]
pub struct OrNull<T>(pub Option<T>);

impl<T> From<Option<T>> for OrNull<T> {
    fn from(value: Option<T>) -> Self {
        Self(value)
    }
}

impl<T: Type> Type for OrNull<T> {
    const IS_REQUIRED: bool = true;
    type RawValueType = T::RawValueType;
    type RawElementValueType = T::RawElementValueType;

    fn name() -> Cow<'static, str> {
        format!("{}OrNull", T::name()).into()
    }

    fn schema_ref() -> MetaSchemaRef {
        let schema = match T::schema_ref() {
            MetaSchemaRef::Inline(schema) => MetaSchema {
                nullable: true,
                ..*schema
            },
            reference @ MetaSchemaRef::Reference(_) => MetaSchema {
                nullable: true,
                all_of: vec![reference],
                ..MetaSchema::ANY
            },
        };
        MetaSchemaRef::Inline(Box::new(schema))
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn as_raw_value(&self) -> Option<&Self::RawValueType> {
        self.0.as_ref()?.as_raw_value()
    }

    fn raw_element_iter<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Self::RawElementValueType> + 'a> {
        self.0.raw_element_iter()
    }
}

impl<T: ToJSON> ToJSON for OrNull<T> {
    fn to_json(&self) -> Option<Value> {
        self.0.to_json()
    }
}

impl<T: ParseFromJSON> ParseFromJSON for OrNull<T> {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        Option::parse_from_json(value).map(Self).map_err(ParseError::propagate)
    }
}

/// The change of a member: `None` leaves it unchanged, `Some(None)` unsets it.
pub fn changed<T, V>(member: MaybeUndefined<T>, read: impl FnOnce(T) -> Option<V>) -> Option<Option<V>> {
    match member {
        MaybeUndefined::Undefined => None,
        MaybeUndefined::Null => Some(None),
        MaybeUndefined::Value(value) => read(value).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poem_openapi::Object;

    #[derive(Debug, Object)]
    #[oai(skip_serializing_if_is_none)]
    struct SampleBody {
        always: OrNull<String>,
        sometimes: Option<String>,
        inner: OrNull<Inner>,
    }

    #[derive(Debug, Object)]
    struct Inner {
        count: u32,
    }

    #[test]
    fn a_member_that_is_null_is_present_and_required() {
        let answer = SampleBody {
            always: OrNull(None),
            sometimes: None,
            inner: OrNull(Some(Inner { count: 9 })),
        };
        let text = answer.to_json_string();
        assert_eq!(text, r#"{"always":null,"inner":{"count":9}}"#);
        let read = SampleBody::parse_from_json_string(&text).unwrap();
        assert_eq!(read.to_json_string(), text);
        let mut registry = Registry::new();
        let schema = registry.create_fake_schema::<SampleBody>();
        assert_eq!(schema.required, ["always", "inner"]);
        let member = |name| &schema.properties.iter().find(|(member, _)| *member == name).unwrap().1;
        for name in ["always", "inner"] {
            assert!(member(name).unwrap_inline().nullable, "{name}");
        }
    }
}
