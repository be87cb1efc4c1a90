//! Enums of the domain as wire types.

/// Makes wire types of domain enums: the domain defines the text of each value, the operation defines the name and
/// description of the enum in the document.
macro_rules! words {
    ($(#[doc = $about:literal] $list:ty as $name:literal;)+) => {$(
        crate::http::forms::shape::shape! {
            $list, $name, { poem_openapi::registry::MetaSchemaRef::Reference($name.to_owned()) },
            |registry: &mut poem_openapi::registry::Registry| {
                registry.create_schema::<Self, _>($name.to_owned(), |_| poem_openapi::registry::MetaSchema {
                    description: Some($about.trim_ascii()),
                    enum_items: Self::ALL.iter().map(|value| value.wire().into()).collect(),
                    ..poem_openapi::registry::MetaSchema::new("string")
                });
            }
        }

        impl poem_openapi::types::ToJSON for $list {
            fn to_json(&self) -> Option<serde_json::Value> {
                Some(self.wire().into())
            }
        }

        impl poem_openapi::types::ParseFromJSON for $list {
            fn parse_from_json(value: Option<serde_json::Value>) -> poem_openapi::types::ParseResult<Self> {
                let text = value.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
                poem_openapi::types::ParseFromParameter::parse_from_parameter(text)
            }
        }

        impl poem_openapi::types::ParseFromParameter for $list {
            fn parse_from_parameter(text: &str) -> poem_openapi::types::ParseResult<Self> {
                Self::from_wire(text).ok_or_else(|| poem_openapi::types::ParseError::custom("must be a documented value"))
            }
        }
    )+};
}
pub(crate) use words;
