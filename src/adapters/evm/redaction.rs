//! Keeps the keys of a node's URL out of what the node says: some providers echo the URL that they were asked at.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use percent_encoding::percent_decode_str;
use regex::{Regex, RegexBuilder};
use url::Url;

/// Parts of a URL from this length on are cut out; shorter ones hold no secret and are parts of common words.
const KEY_LENGTH_MIN: usize = 4;

/// Longest text that is read.
const READ_LENGTH_MAX: usize = 4_096;

/// Longest text that is passed on.
const MESSAGE_LENGTH_MAX: usize = 200;

/// What stands in the place of what was cut out.
const CUT: &str = "…";

/// Letters that nobody sees or that rearrange others: they hide a key from a search, and lines from whoever reads a log.
const UNSEEN: &str = r"[\p{C}\p{Zl}\p{Zp}]";

/// An address behind its scheme, and the values of its query.
const ADDRESS: &str = r"(://)\S*|([?&][^\s=&?]*=)[^\s&]*";

/// Cuts out what may be a key of one URL.
#[derive(Debug)]
pub(super) struct Redaction {
    keys: Regex,
    address: Regex,
    unseen: Regex,
}

impl Redaction {
    /// For what the node behind a URL says. Errors: the URL is too long.
    pub(super) fn of(url: &Url) -> Result<Self, regex::Error> {
        let mut keys = keys(url);
        // Of two that begin alike the longer one has to be tried first.
        keys.sort_by_key(|key| std::cmp::Reverse(key.len()));
        let keys: Vec<String> = keys.iter().map(|key| regex::escape(key)).collect();
        Ok(Self {
            keys: RegexBuilder::new(&keys.join("|")).case_insensitive(true).build()?,
            address: Regex::new(ADDRESS)?,
            unseen: Regex::new(UNSEEN)?,
        })
    }

    /// A text of the node without keys, addresses and letters that nobody sees, of a sensible length.
    pub(super) fn redact(&self, text: &str) -> String {
        let text: String = text.chars().take(READ_LENGTH_MAX).collect();
        let text = self.unseen.replace_all(&text, "");
        let text = self.keys.replace_all(&text, CUT);
        let text = self.address.replace_all(&text, format!("${{1}}${{2}}{CUT}"));
        text.chars().take(MESSAGE_LENGTH_MAX).collect()
    }
}

/// The parts of a URL that may be keys, as they stand in it and as a provider may read them.
fn keys(url: &Url) -> Vec<String> {
    let mut parts: Vec<&str> = url.path_segments().into_iter().flatten().collect();
    let members = url.query().into_iter().flat_map(|query| query.split('&'));
    // A member without a value is one itself.
    parts.extend(members.map(|member| member.split_once('=').map_or(member, |(_, value)| value)));
    parts.extend([url.username(), url.password().unwrap_or_default()]);
    let host = url.host_str().unwrap_or_default();
    parts.push(host);
    parts.extend(host.split('.'));
    let decoded = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
    let mut keys: Vec<String> = parts.iter().map(|part| decoded(part)).collect();
    keys.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
    keys.extend(parts.into_iter().map(str::to_owned));
    if !url.username().is_empty() || url.password().is_some() {
        let user = format!(
            "{}:{}",
            decoded(url.username()),
            decoded(url.password().unwrap_or_default())
        );
        keys.extend([STANDARD_NO_PAD.encode(&user), URL_SAFE_NO_PAD.encode(&user)]);
    }
    keys.retain(|key| key.chars().count() >= KEY_LENGTH_MIN);
    keys.push(url.as_str().to_owned());
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redaction(url: &str) -> Redaction {
        Redaction::of(&url.parse().unwrap()).unwrap()
    }

    #[test]
    fn keys_of_the_url_do_not_survive_in_texts() {
        let said = redaction("https://user:pass-word-1@rpc.example.com/v3/0123456789abcdef?apikey=fedcba9876543210")
            .redact("bad key 0123456789abcdef / fedcba9876543210 / pass-word-1 at rpc.example.com");
        assert_eq!(said, "bad key … / … / … at …");
        let long = redaction("https://rpc.example.com/").redact(&"x".repeat(10_000));
        assert_eq!(long.len(), MESSAGE_LENGTH_MAX);
    }

    #[test]
    fn keys_do_not_survive_in_any_form_in_which_a_provider_may_echo_them() {
        let url = "https://joe:p%40ss%2Fword@abc123.Example.com/v3/k%2Fy%3D42Z/s3cret?token=a%2Bb%20c%3D&q7Kp2&d=1";
        let redaction = redaction(url);
        for (said, expected) in [
            ("a short part: S3CRET", "a short part: …"),
            (
                "path k%2Fy%3D42Z, path k%2fy%3d42z, path k/y=42Z",
                "path …, path …, path …",
            ),
            ("user joe:p%40ss%2Fword, password P@SS/WORD", "user joe:…, password …"),
            ("Authorization: Basic am9lOnBAc3Mvd29yZA==", "Authorization: Basic …=="),
            ("token a%2Bb%20c%3D, token a+b c=, q7kp2", "token …, token …, …"),
            ("host ABC123, host abc123.example.COM", "host …, host …"),
            (
                "see HTTPS://ELSE.WHERE/any/key?of=theirs for more",
                "see HTTPS://… for more",
            ),
            ("POST /other?key=unknown&d=1 failed", "POST /other?key=…&d=… failed"),
            ("spaced s\u{1}3\u{200b}c\u{202e}r\u{2066}e\u{2028}t", "spaced …"),
            ("\u{202e}backwards\u{1b}[2J", "backwards[2J"),
        ] {
            assert_eq!(redaction.redact(said), expected);
        }
    }
}
