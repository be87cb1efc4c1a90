//! Parts of messages about unreadable values.

/// Longest member name in an error message.
const NAME_LENGTH_SHOWN: usize = 64;

/// Removes the Rust type names that the framework adds to a message.
pub(in crate::http) fn plain(reason: &str) -> &str {
    let own = reason
        .find(" (occurred while parsing")
        .map_or(reason, |index| &reason[..index]);
    own.strip_prefix("failed to parse \"")
        .and_then(|rest| rest.split_once("\": "))
        .map_or(own, |(_, message)| message)
}

/// Shortens a member name for display. U+0000 becomes U+FFFD, because responses never contain it.
pub(in crate::http) fn shorten_name(name: &str) -> String {
    name.replace('\0', "\u{fffd}").chars().take(NAME_LENGTH_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_messages_omit_type_names() {
        let reason = "failed to parse \"TxHash\": must be short (occurred while parsing \"Search\")";
        assert_eq!(plain(reason), "must be short");
    }
}
