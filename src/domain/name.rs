//! Display names of platforms and orchestrators.

use super::refusal::Refusal;

/// Maximum length of a name in characters.
const LENGTH_MAX: usize = 100;

/// Checks a name. Errors: it is empty, too long or not a single line.
pub fn require_name(name: &str) -> Result<(), Refusal> {
    let breaks = |letter: char| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}');
    if name.trim().is_empty() || name.chars().count() > LENGTH_MAX || name.contains(breaks) {
        return Err(Refusal::field(
            "name",
            format!("must be one line of 1 to {LENGTH_MAX} characters, without control characters"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line() {
        for name in ["Acme", &"ü".repeat(100)] {
            assert_eq!(require_name(name), Ok(()), "{name}");
        }
        for name in [
            "",
            "  ",
            &"a".repeat(101),
            "two\nlines",
            "two\u{2028}lines",
            "bell\u{7}",
        ] {
            let refusal = require_name(name).expect_err(name);
            assert_eq!(refusal.fields[0].field, "name");
        }
    }
}
