//! What the framework says of a value that cannot be read, without its own words.

/// Drops the names of Rust types that the framework puts around a message.
pub(in crate::http) fn plain(reason: &str) -> &str {
    let own = reason
        .find(" (occurred while parsing")
        .map_or(reason, |index| &reason[..index]);
    own.strip_prefix("failed to parse \"")
        .and_then(|rest| rest.split_once("\": "))
        .map_or(own, |(_, message)| message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_messages_lose_the_type_names() {
        let reason = "failed to parse \"TxHash\": must be short (occurred while parsing \"Search\")";
        assert_eq!(plain(reason), "must be short");
    }
}
