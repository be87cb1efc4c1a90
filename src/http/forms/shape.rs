//! What every wire type tells the framework in the same way.

/// Makes a type a wire type: its name, its schema, and what has to be registered with it. Validators see the value itself.
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
