//! Reports of a payment page about the steps of its visitor. A report contains a few known properties and never a
//! wallet address.

use crate::domain::{address::Address, refusal::Refusal, wire_text::wire_text};
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;

/// Maximum size of the properties of a report: bytes of all names and values.
pub const PROPERTIES_BYTES_MAX: usize = 8 * 1024;

/// Maximum number of reports per hour about one secure payment from one IP address.
pub const OF_ADDRESS_MAX: u32 = 20;

/// Maximum number of reports per hour about one secure payment.
pub const OF_PAYMENT_MAX: u32 = 100;

/// Period over which reports are counted.
const HOUR: Duration = Duration::from_hours(1);

/// Properties that are passed on; all others are dropped. Source: interface §6.3.
pub const KNOWN: [&str; 6] = [
    "wallet_provider",
    "wallet_address_hashed",
    "payment_submission_id",
    "payment_submission_id_type",
    "selected_source_chain",
    "payment_type",
];

/// How far the clock of a browser may be ahead of this service.
const AHEAD_MAX: TimeDelta = TimeDelta::days(1);

wire_text! {
    /// A step of a payer on the payment page. Source: interface §6.3.
    pub enum PayerStepKind {
        /// The wallet is connected.
        WalletConnected = "wallet_connected",
        /// The page sent the wallet a request to sign.
        PaymentSentToWallet = "payment_sent_to_wallet",
        /// The wallet signed.
        PaymentApprovedInWallet = "payment_approved_in_wallet",
    }
}

/// A report of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageReport {
    /// The step.
    pub step: PayerStepKind,
    /// When the step happened, by the browser's clock.
    pub occurred_at: DateTime<Utc>,
    /// Further properties, by known names.
    pub properties: Vec<(&'static str, String)>,
}

impl PageReport {
    /// Checks a report. Errors: a value contains the address of a wallet, the values together are too long, or the time
    /// is in the future (400). Source: interface §6.3.
    pub fn check(&self, now: DateTime<Utc>) -> Result<(), Refusal> {
        let bytes: usize = self
            .properties
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        if bytes > PROPERTIES_BYTES_MAX {
            return Err(Refusal::field("properties", "must have at most 8 KB"));
        }
        if self.occurred_at > now + AHEAD_MAX {
            return Err(Refusal::field("occurredAt", "must not be in the future"));
        }
        match self.properties.iter().find(|(_, value)| shows_wallet(value)) {
            Some((name, _)) => Err(Refusal::field(
                format!("properties.{name}"),
                "must not contain the address of a wallet: send its hash as wallet_address_hashed",
            )),
            None => Ok(()),
        }
    }
}

/// Number of hexadecimal digits of an EVM address.
const EVM_DIGITS: usize = 40;

/// Number of hexadecimal digits of a hash, the only value that may have 40 or more digits in a row.
const HASH_DIGITS: usize = 64;

/// Zeros in front of an address that is padded to a word of 32 bytes.
const PADDING: &str = "000000000000000000000000";

/// Number of characters of a Tron address.
const TRON_LETTERS: usize = 34;

/// Whether a text contains the address of a wallet, even with separators between its digits or in full-width letters.
/// Two things count as an address: a run of hexadecimal digits that is as long as an EVM address or longer and is not a
/// hash, and Base58 characters that may be a Tron address.
pub fn shows_wallet(text: &str) -> bool {
    let plain: String = text.chars().map(narrow).collect();
    let joined: String = plain.chars().filter(char::is_ascii_alphanumeric).collect();
    let is_checked = |window: &str| Address::parse(window).is_ok();
    holds_evm(&plain) || holds_evm(&joined) || holds_tron(&plain, |_| true) || holds_tron(&joined, is_checked)
}

/// The normal form of a full-width letter.
fn narrow(letter: char) -> char {
    let narrow = u32::from(letter)
        .checked_sub(0xfee0)
        .filter(|code| (0x21..=0x7e).contains(code));
    narrow.and_then(char::from_u32).unwrap_or(letter)
}

fn holds_evm(text: &str) -> bool {
    let mut runs = text.split(|letter: char| !letter.is_ascii_hexdigit());
    runs.any(|run| run.len() >= EVM_DIGITS && (run.len() != HASH_DIGITS || run.starts_with(PADDING)))
}

fn holds_tron(text: &str, is_one: impl Fn(&str) -> bool) -> bool {
    let is_base58 = |letter: char| letter.is_ascii_alphanumeric() && !matches!(letter, '0' | 'O' | 'I' | 'l');
    let mut runs = text.split(|letter: char| !is_base58(letter));
    runs.any(|run| {
        let mut starts = run.match_indices('T');
        starts.any(|(start, _)| run.get(start..start + TRON_LETTERS).is_some_and(&is_one))
    })
}

/// Number of reports in the current hour, which begins with the first of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportCount {
    since: Duration,
    reports: u32,
}

impl ReportCount {
    /// Counts one more report at a reading of a monotonic clock. Errors: seconds until the next report is accepted.
    pub fn one_more(before: Option<Self>, max: u32, now: Duration) -> Result<Self, u32> {
        let running = before.filter(|counted| now < counted.since + HOUR);
        let counted = running.unwrap_or(Self { since: now, reports: 0 });
        if counted.reports >= max {
            let left = (counted.since + HOUR).saturating_sub(now).as_secs();
            return Err(u32::try_from(left).unwrap_or(u32::MAX).max(1));
        }
        Ok(Self {
            reports: counted.reports + 1,
            ..counted
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_detected_but_hashes_are_not() {
        let digits = "6923831acf5c327260d7ac7c9dff5b1c3cb3c7d7";
        let padded = format!("0x{}{digits}", "0".repeat(24));
        for text in [
            format!("0x{digits}"),
            digits.to_uppercase(),
            format!("0X{digits}"),
            format!("eip155:1:0x{digits}"),
            format!("my wallet is 0x{digits}."),
            format!("41{digits}"),
            padded,
            "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8".to_owned(),
            "tron:TJRabPrwbZy45sbavfcjinPJC18kjpRTv8!".to_owned(),
            "xTJRabPrwbZy45sbavfcjinPJC18kjpRTv8x".to_owned(),
            "TJRabPrwb Zy45sbavf cjinPJC18 kjpRTv8".to_owned(),
            format!("0x{} {}", &digits[..20], &digits[20..]),
            format!("{}\u{200b}{}", &digits[..7], &digits[7..]),
            digits.split("").collect::<Vec<_>>().join("_"),
            digits
                .chars()
                .filter_map(|letter| char::from_u32(u32::from(letter) + 0xfee0))
                .collect(),
            format!("{digits}{digits}"),
            format!("ab{digits}"),
        ] {
            assert!(shows_wallet(&text), "{text}");
        }
        for text in [
            String::new(),
            "metamask".to_owned(),
            "ab".repeat(32),
            format!("0x{}", "8f".repeat(32)),
            "Trust Wallet, the one with a very long name indeed".to_owned(),
            "01JZX4T9QK3M7N8P2R5S6V0WYB".to_owned(),
        ] {
            assert!(!shows_wallet(&text), "{text}");
        }
    }

    #[test]
    fn steps_are_limited_by_the_hour() {
        let second = Duration::from_secs;
        let mut counted = None;
        for _ in 0..3 {
            counted = Some(ReportCount::one_more(counted, 3, second(10)).unwrap());
        }
        assert_eq!(ReportCount::one_more(counted, 3, second(11)), Err(3_599));
        assert!(ReportCount::one_more(counted, 3, second(3_610)).is_ok());
    }
}
