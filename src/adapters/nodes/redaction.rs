//! Redacts the keys of a node's URL in messages of the node, because some providers repeat the called URL in an error.

use super::api::NodeApi;
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use percent_encoding::percent_decode_str;
use regex::{Regex, RegexBuilder};
use url::Url;

/// Minimum length of redacted URL parts. Shorter parts contain no secret and occur in common words.
const KEY_LENGTH_MIN: usize = 4;

/// Maximum length of a text that is read.
const READ_LENGTH_MAX: usize = 4_096;

/// Maximum length of a redacted text.
const MESSAGE_LENGTH_MAX: usize = 200;

/// Replacement of redacted parts.
const CUT: &str = "…";

/// Invisible characters and characters that change the text direction. Inside a key they would prevent its redaction,
/// and in a log they could hide lines from readers.
const UNSEEN: &str = r"[\p{C}\p{Zl}\p{Zp}]";

/// A URL after its scheme, and its query values.
const ADDRESS: &str = r"(://)\S*|([?&][^\s=&?]*=)[^\s&]*";

/// Redacts possible keys of the URLs of one node.
#[derive(Debug)]
pub(super) struct Redaction {
    keys: Regex,
    address: Regex,
    unseen: Regex,
}

impl Redaction {
    /// Prepares the redaction of messages of the node with these URLs. Errors: they are too long.
    pub(super) fn of(url: &Url, api: Option<&NodeApi>) -> Result<Self, regex::Error> {
        let mut keys = keys(url);
        keys.extend(api.into_iter().flat_map(|api| self::keys(&api.url)));
        let key = api.and_then(|api| api.key.as_ref());
        keys.extend(key.map(|(_, key)| key.reveal().to_owned()));
        // If one part is a prefix of another, the longer one must be tried first.
        keys.sort_by_key(|key| std::cmp::Reverse(key.len()));
        let keys: Vec<String> = keys.iter().map(|key| regex::escape(key)).collect();
        Ok(Self {
            keys: RegexBuilder::new(&keys.join("|")).case_insensitive(true).build()?,
            address: Regex::new(ADDRESS)?,
            unseen: Regex::new(UNSEEN)?,
        })
    }

    /// A message of the node without keys, URLs and invisible characters, of limited length.
    pub(super) fn redact(&self, text: &str) -> String {
        let text: String = text.chars().take(READ_LENGTH_MAX).collect();
        let text = self.unseen.replace_all(&text, "");
        let text = self.keys.replace_all(&text, CUT);
        let text = self.address.replace_all(&text, format!("${{1}}${{2}}{CUT}"));
        text.chars().take(MESSAGE_LENGTH_MAX).collect()
    }
}

/// The parts of a URL that may be keys, encoded and decoded.
fn keys(url: &Url) -> Vec<String> {
    let mut parts: Vec<&str> = url.path_segments().into_iter().flatten().collect();
    let members = url.query().into_iter().flat_map(|query| query.split('&'));
    // A query parameter without `=` is treated as a value, because it may be a key.
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
        Redaction::of(&url.parse().unwrap(), None).unwrap()
    }

    #[test]
    fn url_keys_are_redacted_from_texts() {
        let said = redaction("https://user:pass-word-1@rpc.example.com/v3/0123456789abcdef?apikey=fedcba9876543210")
            .redact("bad key 0123456789abcdef / fedcba9876543210 / pass-word-1 at rpc.example.com");
        assert_eq!(said, "bad key … / … / … at …");
        let long = redaction("https://rpc.example.com/").redact(&"x".repeat(10_000));
        assert_eq!(long.len(), MESSAGE_LENGTH_MAX);
    }

    #[test]
    fn keys_are_redacted_in_every_form_a_provider_may_echo() {
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
