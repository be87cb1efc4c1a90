//! The framework implementation that all wire types share.

/// Implements the framework's `Type` for a wire type: its name, its schema and the types to register with it. A
/// validator of a field gets the wire type itself.
macro_rules! shape {
    ($own:ty, $name:expr, $schema:block $(, $register:expr)?) => {
        impl poem_openapi::types::Type for $own {
            const IS_REQUIRED: bool = true;
            type RawValueType = Self;
            type RawElementValueType = Self;

            fn name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn schema_ref() -> poem_openapi::registry::MetaSchemaRef $schema

            $(fn register(registry: &mut poem_openapi::registry::Registry) {
                $register(registry);
            })?

            fn as_raw_value(&self) -> Option<&Self> {
                Some(self)
            }

            fn raw_element_iter<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Self> + 'a> {
                Box::new(std::iter::once(self))
            }
        }
    };
}
pub(crate) use shape;
