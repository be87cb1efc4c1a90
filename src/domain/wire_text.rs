//! Enums whose values have a fixed text in the API and in the database.

/// Declares an enum whose values have a text: `Paid = "paid",` declares a variant with its text.
///
/// The enum gets `ALL` (every value in the order of declaration), `wire` and `from_wire`. The compiler reports a
/// duplicate text as an unreachable pattern.
macro_rules! wire_text {
    (
        $(#[$about:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$about_variant:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $visibility enum $name {
            $($(#[$about_variant])* $variant,)+
        }

        impl $name {
            /// Every value, in the order of declaration.
            $visibility const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// The text of the value, in the API and in the database.
            $visibility const fn wire(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// Reads the text of [`Self::wire`].
            $visibility fn from_wire(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use wire_text;

#[cfg(test)]
mod tests {
    wire_text! {
        /// Days on which nothing is paid out.
        enum Day {
            /// The sixth of the week.
            Saturday = "sat",
            /// The seventh of the week.
            Sunday = "sun",
        }
    }

    #[test]
    fn every_value_round_trips_through_text() {
        assert_eq!(Day::ALL.map(Day::wire), ["sat", "sun"]);
        assert_eq!(
            ["sat", "sun", "SAT", ""].map(Day::from_wire),
            [Some(Day::Saturday), Some(Day::Sunday), None, None]
        );
    }
}
