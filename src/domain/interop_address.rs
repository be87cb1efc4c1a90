//! Addresses with their chain: ERC-7930 bytes, and the ERC-7828 text with its checksum. The id of a payee destination
//! is that text followed by a token.
//!
//! Tron is in the `eip155` namespace under its chain ID, with the 20 bytes of its Base58 address. Source: rules P.7.10;
//! ERC-7930; ERC-7828.

use super::{
    address::Address,
    network::{Family, Network},
};
use alloy::primitives::keccak256;
use std::fmt;

/// Version 1 of the binary form.
const VERSION: [u8; 2] = [0, 1];

/// Chain type of the `eip155` namespace.
const EIP155: [u8; 2] = [0, 0];

/// Number of hexadecimal digits of a checksum.
const CHECKSUM_DIGITS: usize = 8;

/// Maximum length of a destination id, in characters. The ids of this service have at most 110.
const LENGTH_MAX: usize = 200;

/// Message for a text that is not a destination id.
const FORM: &str =
    "must be the id of a payee destination: wallet@eip155:chainId#checksum:token, or network:wallet:token";

/// A wallet on a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InteropAddress {
    /// Wallet.
    pub wallet: Address,
    /// Network.
    pub network: Network,
}

impl InteropAddress {
    /// The ERC-7930 bytes.
    pub fn binary(&self) -> Vec<u8> {
        let chain_id = self.network.chain_id().to_be_bytes();
        let zeros = chain_id.iter().take_while(|byte| **byte == 0).count();
        let reference = chain_id.get(zeros..).unwrap_or_default();
        let wallet = self.wallet.bytes();
        let mut bytes = Vec::with_capacity(6 + reference.len() + wallet.len());
        bytes.extend(VERSION);
        bytes.extend(EIP155);
        bytes.extend(u8::try_from(reference.len()));
        bytes.extend(reference);
        bytes.extend(u8::try_from(wallet.len()));
        bytes.extend(wallet);
        bytes
    }

    /// The checksum: the first four bytes of the hash of everything after the version, in upper-case hexadecimal
    /// digits.
    pub fn checksum(&self) -> String {
        let binary = self.binary();
        let hashed = keccak256(binary.get(VERSION.len()..).unwrap_or_default());
        let mut digits = hex::encode_upper(hashed);
        digits.truncate(CHECKSUM_DIGITS);
        digits
    }
}

impl fmt::Display for InteropAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chain_id = self.network.chain_id();
        write!(out, "{}@eip155:{chain_id}#{}", self.wallet, self.checksum())
    }
}

/// What a payee receives: a token for a wallet on a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DestinationKey {
    /// The wallet and its network.
    pub interop: InteropAddress,
    /// Contract of the token.
    pub token: Address,
}

impl DestinationKey {
    /// Reads the id of a destination, as written by [`fmt::Display`] or as `network:wallet:token`.
    ///
    /// EVM parts and the checksum are case-insensitive. A well-formed id that cannot exist (wrong checksum, unknown
    /// chain) is `None`. Errors: the message for the caller. Source: rules P.3.8; rules P.7.10.
    pub fn parse(text: &str) -> Result<Option<Self>, &'static str> {
        if text.chars().count() > LENGTH_MAX || text.contains(char::is_control) {
            return Err(FORM);
        }
        if let Some((wallet, rest)) = text.split_once('@') {
            let rest = rest.strip_prefix("eip155:").ok_or(FORM)?;
            let (chain_id, rest) = rest.split_once('#').ok_or(FORM)?;
            let (checksum, token) = rest.split_once(':').ok_or(FORM)?;
            let is_number = !chain_id.is_empty() && chain_id.bytes().all(|byte| byte.is_ascii_digit());
            let is_checksum =
                checksum.len() == CHECKSUM_DIGITS && checksum.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_number || !is_checksum || !looks_like_wallet(wallet) || token.is_empty() {
                return Err(FORM);
            }
            let network = chain_id.parse().ok().and_then(Network::from_chain_id);
            let found = network.and_then(|network| Self::on(network, wallet, token));
            return Ok(found.filter(|key| key.interop.checksum().eq_ignore_ascii_case(checksum)));
        }
        let (network, rest) = text.split_once(':').ok_or(FORM)?;
        let (wallet, token) = rest.split_once(':').ok_or(FORM)?;
        if network.is_empty() || !looks_like_wallet(wallet) || token.is_empty() {
            return Err(FORM);
        }
        Ok(Network::from_id(network).and_then(|network| Self::on(network, wallet, token)))
    }

    fn on(network: Network, wallet: &str, token: &str) -> Option<Self> {
        let read = |text: &str| Address::parse_on(&Family::in_one_case(text), network).ok();
        Some(Self {
            interop: InteropAddress {
                wallet: read(wallet)?,
                network,
            },
            token: read(token)?,
        })
    }
}

impl fmt::Display for DestinationKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.interop, self.token)
    }
}

fn looks_like_wallet(text: &str) -> bool {
    let evm = text.strip_prefix("0x");
    let is_evm = evm.is_some_and(|digits| digits.len() == 40 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_base58 = |byte: u8| byte.is_ascii_alphanumeric() && !matches!(byte, b'0' | b'O' | b'I' | b'l');
    is_evm || (text.len() == 34 && text.starts_with('T') && text.bytes().all(is_base58))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    const VECTORS: &str = include_str!("../../tests/vectors/interop-address.json");

    #[test]
    fn every_vector_round_trips() {
        let file: Value = serde_json::from_str(VECTORS).unwrap();
        let vectors = file["vectors"].as_array().unwrap();
        assert_eq!(vectors.len(), 8);
        for vector in vectors {
            let text = |name: &str| vector[name].as_str().unwrap();
            let network = Network::from_chain_id(vector["chainId"].as_u64().unwrap()).unwrap();
            let interop = InteropAddress {
                wallet: Address::parse_on(text("address"), network).unwrap(),
                network,
            };
            assert_eq!(hex::encode_prefixed(interop.wallet.bytes()), text("addressBytes"));
            assert_eq!(hex::encode_prefixed(interop.binary()), text("binary"));
            assert_eq!(interop.checksum(), text("checksum"));
            assert_eq!(interop.to_string(), text("name"));
            let key = DestinationKey::parse(text("destinationId")).unwrap().unwrap();
            assert_eq!(key.interop, interop);
            assert_eq!(key.to_string(), text("destinationId"));
        }
        for sample in file["docsExamples"].as_array().unwrap() {
            let network = Network::from_chain_id(sample["chainId"].as_u64().unwrap()).unwrap();
            let interop = InteropAddress {
                wallet: Address::parse_on(sample["address"].as_str().unwrap(), network).unwrap(),
                network,
            };
            let printed = sample["printed"].as_str().unwrap();
            assert_eq!(
                interop.checksum() == printed,
                sample["matchesRule"].as_bool().unwrap(),
                "{printed}"
            );
        }
    }

    #[test]
    fn published_checksums_are_valid() {
        let wallet = Address::parse("0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045").unwrap();
        for (network, checksum) in [(Network::Mainnet, "4CA88C9C"), (Network::Base, "17DE0709")] {
            assert_eq!(InteropAddress { wallet, network }.checksum(), checksum);
        }
    }

    #[test]
    fn letter_case_is_ignored_where_it_has_no_meaning() {
        let right = "0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7@eip155:8453#89CDCBED:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
        for text in [
            right,
            &right.to_lowercase(),
            &right.replace("ACf5c", "aCF5C"),
            "base:0x6923831acf5c327260d7ac7c9dff5b1c3cb3c7d7:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
        ] {
            assert_eq!(
                DestinationKey::parse(text).unwrap().unwrap().to_string(),
                right,
                "{text}"
            );
        }
    }

    #[test]
    fn unknown_names_find_nothing_and_malformed_ones_are_errors() {
        let wallet = "0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7";
        let token = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
        for nothing in [
            format!("{wallet}@eip155:8453#89CDCBEE:{token}"),
            format!("{wallet}@eip155:1#89CDCBED:{token}"),
            format!("{wallet}@eip155:99999999999999999999#89CDCBED:{token}"),
            format!("{wallet}@eip155:8453#89CDCBED:USDC"),
            format!("TJRabPrwbZy45sbavfcjinPJC18kjpRTv8@eip155:8453#17734355:{token}"),
            format!("nowhere:{wallet}:{token}"),
        ] {
            assert_eq!(DestinationKey::parse(&nothing), Ok(None), "{nothing}");
        }
        for broken in [
            "",
            wallet,
            "base",
            &format!("{wallet}@eip155:8453#89CDCBED"),
            &format!("{wallet}@eip155:8453#89CDCBED:"),
            &format!("{wallet}@eip155:8453#89CDCBE:{token}"),
            &format!("{wallet}@eip155:#89CDCBED:{token}"),
            &format!("{wallet}@eip155:+8453#89CDCBED:{token}"),
            &format!("{wallet}@solana:8453#89CDCBED:{token}"),
            &format!("{}@eip155:8453#89CDCBED:{token}", &wallet[..41]),
            &format!("base:{}:{token}", &wallet[..41]),
            &format!("base:{wallet}"),
            &format!("base:{wallet}:\n"),
            &format!("base:{wallet}:{}", "x".repeat(200)),
        ] {
            assert_eq!(DestinationKey::parse(broken), Err(FORM), "{broken}");
        }
    }

    fn any_key() -> impl Strategy<Value = DestinationKey> {
        let address = any::<[u8; 20]>().prop_filter("not zero", |bytes| *bytes != [0; 20]);
        (address.clone(), address, 0..Network::ALL.len()).prop_map(|(wallet, token, index)| {
            let network = Network::ALL[index];
            DestinationKey {
                interop: InteropAddress {
                    wallet: Address::on(network, wallet.into()),
                    network,
                },
                token: Address::on(network, token.into()),
            }
        })
    }

    proptest! {
        #[test]
        fn names_round_trip_through_text(key in any_key()) {
            prop_assert_eq!(DestinationKey::parse(&key.to_string()), Ok(Some(key)));
            let short = format!("{}:{}:{}", key.interop.network, key.interop.wallet, key.token);
            prop_assert_eq!(DestinationKey::parse(&short), Ok(Some(key)));
        }

        #[test]
        fn the_bytes_contain_lengths_chain_and_wallet(key in any_key()) {
            let bytes = key.interop.binary();
            prop_assert_eq!(&bytes[..4], &[0, 1, 0, 0]);
            let length = usize::from(bytes[4]);
            let chain_id = bytes[5..5 + length].iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
            prop_assert_eq!(chain_id, key.interop.network.chain_id());
            prop_assert!(bytes[5] != 0, "the chain ID is minimal");
            prop_assert_eq!(bytes[5 + length], 20);
            let wallet = key.interop.wallet.bytes();
            prop_assert_eq!(&bytes[6 + length..], wallet.as_slice());
        }

        #[test]
        fn one_wrong_checksum_digit_finds_nothing(key in any_key(), place in 0usize..8, by in 1u32..16) {
            let checksum = key.interop.checksum();
            let wrong: String = checksum.chars().enumerate().map(|(index, digit)| {
                let value = digit.to_digit(16).unwrap();
                let value = if index == place { (value + by) % 16 } else { value };
                char::from_digit(value, 16).unwrap()
            }).collect();
            let text = key.to_string().replace(&format!("#{checksum}"), &format!("#{wrong}"));
            prop_assert_eq!(DestinationKey::parse(&text), Ok(None));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,80}") {
            let _ = DestinationKey::parse(&text);
        }
    }
}
