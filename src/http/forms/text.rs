//! The macro that declares wire types; operations also use it for their own forms.

/// Characters that [`LINE`] refuses. U+2028 and U+2029 are refused too but not listed, because [`LINE`] excludes them
/// as white space: code generators copy a pattern unescaped into client code, where these two characters would end the
/// line.
macro_rules! unseen {
    () => {
        r"\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    };
}

/// Characters that [`LINE`] accepts: characters that are neither white space nor refused, and white space that does not
/// end a line.
macro_rules! seen {
    ($($refused:expr),+) => {
        concat!(r"(?:[^\s", $($refused,)+ r"]|[ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000])*")
    };
}

/// One line of text that displays as it is stored: without control characters, line breaks, text direction marks and
/// invisible characters. The joiners of letters and emojis (U+200C, U+200D, U+FE0F) are allowed.
pub const LINE: &str = concat!("^", seen!(unseen!()), "$");

/// [`LINE`] with at least one character that is not white space.
pub const WRITTEN_LINE: &str = concat!("^", seen!(unseen!()), r"[^\s", unseen!(), "]", seen!(unseen!()), "$");

/// Tag characters and noncharacters in other Unicode planes. They are not in the documents, because regex engines
/// without support for planes cannot compile them.
macro_rules! unseen_in_other_planes {
    () => {
        concat!(
            r"\u{e0000}-\u{e007f}",
            r"\u{1fffe}\u{1ffff}\u{2fffe}\u{2ffff}\u{3fffe}\u{3ffff}\u{4fffe}\u{4ffff}\u{5fffe}\u{5ffff}\u{6fffe}\u{6ffff}\u{7fffe}\u{7ffff}\u{8fffe}\u{8ffff}",
            r"\u{9fffe}\u{9ffff}\u{afffe}\u{affff}\u{bfffe}\u{bffff}\u{cfffe}\u{cffff}\u{dfffe}\u{dffff}\u{efffe}\u{effff}\u{ffffe}\u{fffff}\u{10fffe}\u{10ffff}",
        )
    };
}

/// [`LINE`] in all planes.
const LINE_IN_ALL_PLANES: &str = concat!("^", seen!(unseen!(), unseen_in_other_planes!()), "$");

/// [`WRITTEN_LINE`] in all planes.
const WRITTEN_LINE_IN_ALL_PLANES: &str = concat!(
    "^",
    seen!(unseen!(), unseen_in_other_planes!()),
    r"[^\s",
    unseen!(),
    unseen_in_other_planes!(),
    "]",
    seen!(unseen!(), unseen_in_other_planes!()),
    "$"
);

/// Characters that [`WRITTEN_LINE`] accepts and button labels refuse: markup, joiners and replacement characters.
macro_rules! unsaid {
    () => {
        r#"<>&"'`\u200c\u200d\ufffc\ufffd"#
    };
}

/// Label of a button.
pub const LABEL: &str = concat!(
    "^",
    seen!(unseen!(), unsaid!()),
    r"[^\s",
    unseen!(),
    unsaid!(),
    "]",
    seen!(unseen!(), unsaid!()),
    "$"
);

/// The pattern that is enforced for [`LABEL`] before the domain validates it.
const LABEL_TO_READ: &str = r#"^[^<>&"'`]*$"#;

/// An IBAN, with or without grouping.
pub const IBAN: &str = "^[ -]*(?:[A-Za-z][ -]*){2}(?:[0-9][ -]*){2}(?:[A-Za-z0-9][ -]*){11,30}$";

/// A BIC.
pub const BIC: &str = "^[A-Za-z0-9]{4}[A-Za-z]{2}[A-Za-z0-9]{2}(?:[A-Za-z0-9]{3})?$";

/// A sort code, with or without grouping.
pub const SORT_CODE: &str = "^[ -]*(?:[0-9][ -]*){6}$";

/// An IFSC.
pub const IFSC: &str = "^[A-Za-z]{4}0[A-Za-z0-9]{6}$";

/// The pattern that is enforced when the documents show `pattern`. For some forms the domain enforces the documented
/// pattern itself, with its own message and together with all other errors; this function then returns a weaker
/// pattern.
pub fn enforced(pattern: &str) -> &str {
    match pattern {
        LINE => LINE_IN_ALL_PLANES,
        WRITTEN_LINE | IBAN | BIC | SORT_CODE | IFSC => WRITTEN_LINE_IN_ALL_PLANES,
        LABEL => LABEL_TO_READ,
        other => other,
    }
}

/// Any text without U+0000, which no body, parameter or row may contain. Used for texts whose content the service does
/// not know.
pub const ANY: &str = r"^[^\x00]*$";

/// A text form that represents a value of the domain.
pub trait Reads {
    /// The value.
    type Value;

    /// Parses the value. Errors: the domain's message about a text of the right form, for example a wrong checksum.
    fn value(&self) -> Result<Self::Value, String>;
}

/// Declares a text form: pattern, maximum length, example and the hint for callers. `hint_for` returns a more specific
/// hint for some invalid parameters; `holds` is a check beyond the pattern; `reads` is the domain value that the text
/// represents.
macro_rules! text {
    ($(
        $(#[$doc:meta])*
        $name:ident {
            pattern: $pattern:expr,
            $(length_min: $length_min:literal,)?
            length_max: $length_max:literal,
            $(format: $format:literal,)?
            example: $example:literal,
            hint: $hint:literal,
            $(hint_for: $hint_for:expr,)?
            $(holds: $holds:expr,)?
            $(reads: $value:ty = $read:expr,)?
        }
    )+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub struct $name(String);

        impl $name {
            /// The error message for an invalid value.
            pub const HINT: &'static str = $hint;
            /// A valid value.
            pub const EXAMPLE: &'static str = $example;

            /// Parses a text. Errors: [`Self::HINT`], or the more specific message of `hint_for`.
            pub fn parse(text: &str) -> Result<Self, &'static str> {
                // Building the pattern cannot fail: each one is a literal that a test compiles.
                #[allow(clippy::expect_used)]
                static FORM: std::sync::LazyLock<regex::Regex> =
                    std::sync::LazyLock::new(|| regex::Regex::new(crate::http::forms::text::enforced($pattern)).expect("the pattern of a text form must be valid"));
                let fits = text.len() <= 4 * $length_max
                    && text.chars().count() <= $length_max
                    $(&& text.chars().count() >= $length_min)?
                    && FORM.is_match(text)
                    $(&& ($holds)(text))?;
                if fits {
                    return Ok(Self(text.to_owned()));
                }
                $(if let Some(hint) = ($hint_for)(text) {
                    return Err(hint);
                })?
                Err(Self::HINT)
            }

            /// Wraps text that the service wrote itself, without checking it.
            pub fn written(text: impl ToString) -> Self {
                Self(text.to_string())
            }

            /// The text of [`Self::EXAMPLE`].
            pub fn example() -> Self {
                Self(Self::EXAMPLE.to_owned())
            }

            /// The text as an id of the domain.
            pub fn id<I: From<String>>(&self) -> I {
                self.0.clone().into()
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        $(impl crate::http::forms::text::Reads for $name {
            type Value = $value;

            fn value(&self) -> Result<$value, String> {
                ($read)(self.as_str()).map_err(|error| error.to_string())
            }
        })?

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> Self {
                text.0
            }
        }

        crate::http::forms::shape::shape! { $name, stringify!($name), {
            let mut schema = poem_openapi::registry::MetaSchema::new("string");
            schema.title = Some($hint.to_owned());
            schema.pattern = Some($pattern.to_owned());
            $(schema.min_length = Some($length_min);)?
            schema.max_length = Some($length_max);
            schema.example = Some($example.into());
            $(schema.format = Some($format);)?
            poem_openapi::registry::MetaSchemaRef::Inline(Box::new(schema))
        } }

        impl poem_openapi::types::ParseFromJSON for $name {
            fn parse_from_json(value: Option<serde_json::Value>) -> poem_openapi::types::ParseResult<Self> {
                let text = value.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
                Self::parse(text).map_err(poem_openapi::types::ParseError::custom)
            }
        }

        impl poem_openapi::types::ParseFromParameter for $name {
            fn parse_from_parameter(text: &str) -> poem_openapi::types::ParseResult<Self> {
                Self::parse(text).map_err(poem_openapi::types::ParseError::custom)
            }
        }

        impl poem_openapi::types::ToJSON for $name {
            fn to_json(&self) -> Option<serde_json::Value> {
                Some(self.0.clone().into())
            }
        }
    )+};
}
pub(crate) use text;
