//! Where a payer can go after a payment. The button is pressed by strangers, so its URL has strict rules.

use url::Url;

/// Message for a URL that is not a plain web address. Source: rules P.3.7.
pub const UNSAFE: &str = "redirectUrl must be a safe http(s) URL with no script/HTML payload";

/// Message for a label without a URL. Source: interface §4.7; interface §7.
pub const LABEL_ALONE: &str = "redirectLabel cannot be provided without redirectUrl";

/// Refused characters: they occur in markup and in unusual notations of URLs.
const REFUSED: [char; 7] = ['<', '>', '"', '\'', '`', '\\', '\u{ad}'];

/// A button on the last screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectButton {
    /// An http or https URL without a user name, exactly as the creator wrote it.
    pub url: String,
    /// Text of the button; `None` for the default text.
    pub label: Option<String>,
}

/// Whether a character is visible and does not change the place or direction of other characters.
pub fn is_plain(letter: char) -> bool {
    let is_hidden = matches!(
        letter,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fdd0}'..='\u{fdef}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffe}'
            | '\u{e0000}'..='\u{e007f}'
    );
    // The last two code points of each plane are not characters.
    let is_none = u32::from(letter) & 0xfffe == 0xfffe;
    !letter.is_control() && !is_hidden && !is_none
}

/// Checks a URL. Errors: [`UNSAFE`]. Source: interface §4.7.
pub fn checked_url(text: &str) -> Result<&str, &'static str> {
    let fits = |letter: char| is_plain(letter) && !letter.is_whitespace() && !REFUSED.contains(&letter);
    if !text.chars().all(fits) {
        return Err(UNSAFE);
    }
    let scheme = ["http://", "https://"].into_iter().find(|scheme| {
        text.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    let url = Url::parse(text).map_err(|_| UNSAFE)?;
    // The text itself is checked, because the parser drops an empty user name.
    let authority = scheme.and_then(|scheme| text.get(scheme.len()..)?.split(['/', '?', '#']).next());
    let names_host_alone = authority.is_some_and(|authority| !authority.contains('@'));
    if names_host_alone && url.has_host() {
        Ok(text)
    } else {
        Err(UNSAFE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_web_addresses_are_accepted() {
        for text in [
            "https://shop.example/thanks",
            "http://localhost:3000/?order=1&state=a%20b#done",
            "HTTPS://SHOP.EXAMPLE",
            "https://bücher.example/straße",
        ] {
            assert_eq!(checked_url(text), Ok(text));
        }
    }

    #[test]
    fn misleading_addresses_are_rejected() {
        for text in [
            "",
            "javascript:alert(1)",
            "data:text/html,x",
            "//shop.example",
            "/thanks",
            "https:shop.example",
            "https:/shop.example",
            "https://",
            "https://user@shop.example",
            "https://user:secret@shop.example",
            "https://@shop.example",
            "https://shop.example/ thanks",
            "https://shop.example/\u{a0}",
            "https://shop.example/\"",
            "https://shop.example/'",
            "https://shop.example/`",
            "https://shop.example/<b>",
            "https://shop.example\\@evil.example",
            "https://shop.example/\n",
            "https://shop.example/\t",
            "https://shop.example/\u{7}",
            "https://shop.example/\u{202e}gpj",
            "https://shop.example/\u{200b}",
            " https://shop.example",
            "ftp://shop.example",
        ] {
            assert_eq!(checked_url(text), Err(UNSAFE), "{text:?}");
        }
    }
}
