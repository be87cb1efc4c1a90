//! Values of closed lists, each with its text.

/// Declares an enum whose values stand for texts: `Paid = "paid",` gives each variant its text once.
///
/// The enum gets `ALL` in the order of declaration, `wire` and `from_wire`. A text that stands twice is an unreachable
/// pattern, which the compiler reports.
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

            /// Its text, on the wire and in the database.
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
    fn every_value_is_read_back_from_its_own_text() {
        assert_eq!(Day::ALL.map(Day::wire), ["sat", "sun"]);
        assert_eq!(
            ["sat", "sun", "SAT", ""].map(Day::from_wire),
            [Some(Day::Saturday), Some(Day::Sunday), None, None]
        );
    }
}
