//! Messages of the framework about unreadable values, without its internal names.

/// Removes the Rust type names that the framework adds to a message.
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
    fn plain_messages_omit_type_names() {
        let reason = "failed to parse \"TxHash\": must be short (occurred while parsing \"Search\")";
        assert_eq!(plain(reason), "must be short");
    }
}
