//! Wallet and contract addresses of both families, EVM and Tron: parsing with checksum, comparing, displaying.

use super::network::{Family, Network};
use alloy::primitives::Address as EvmAddress;
use std::fmt;

/// First byte of a decoded Tron address.
pub(crate) const TRON_PREFIX: u8 = 0x41;

/// Why a text is not a valid address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Neither an EVM nor a Tron address.
    #[error(
        "must be a wallet address: 0x and 40 hexadecimal digits, or a Tron address of 34 Base58 characters starting with T"
    )]
    Form,
    /// The address is in mixed case, and its EIP-55 checksum is wrong.
    #[error("has a wrong checksum: check the address, or write it in lower case")]
    Checksum,
    /// Wrong Base58Check checksum.
    #[error("has a wrong Base58 checksum: check the address, in which upper and lower case differ")]
    Base58,
    /// The zero address.
    #[error("must not be the zero address")]
    Zero,
    /// Wrong family for the network.
    #[error("must be {expected} for a payment on {network}")]
    Family {
        /// The expected form.
        expected: &'static str,
        /// The network of the payment.
        network: Network,
    },
}

/// An address of either family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// 20 bytes, displayed with the EIP-55 checksum.
    Evm(EvmAddress),
    /// 20 bytes, displayed as Base58Check with the Tron prefix.
    Tron(EvmAddress),
}

impl Address {
    /// Parses an EVM or a Tron address; refuses a wrong checksum and the zero address.
    ///
    /// An EVM address in only lower case or only upper case has no checksum and is accepted. In mixed case, its EIP-55
    /// checksum must be right. Source: rules C.3; decisions D25.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let address = match Family::of_address(text) {
            Family::Evm => Self::parse_evm(text)?,
            Family::Tron => Self::parse_tron(text)?,
        };
        if address.bytes().is_zero() {
            Err(AddressError::Zero)
        } else {
            Ok(address)
        }
    }

    /// Parses an address of the family of `network`.
    pub fn parse_on(text: &str, network: Network) -> Result<Self, AddressError> {
        Self::parse(text)?.usable_on(network)
    }

    /// The address, if its family fits `network`. Errors: [`AddressError::Family`].
    pub fn usable_on(self, network: Network) -> Result<Self, AddressError> {
        if self.family() == network.family() {
            return Ok(self);
        }
        let expected = match network.family() {
            Family::Evm => "an EVM address (0x and 40 hexadecimal digits)",
            Family::Tron => "a Tron address (34 Base58 characters starting with T)",
        };
        Err(AddressError::Family { expected, network })
    }

    fn parse_evm(text: &str) -> Result<Self, AddressError> {
        let digits = text
            .strip_prefix("0x")
            .filter(|digits| digits.len() == 40)
            .ok_or(AddressError::Form)?;
        let address: EvmAddress = text.parse().map_err(|_| AddressError::Form)?;
        let letters = digits.bytes().filter(u8::is_ascii_alphabetic);
        let one_case = letters.clone().all(|byte| byte.is_ascii_lowercase())
            || letters.clone().all(|byte| byte.is_ascii_uppercase());
        if one_case || address.to_checksum(None) == text {
            Ok(Self::Evm(address))
        } else {
            Err(AddressError::Checksum)
        }
    }

    fn parse_tron(text: &str) -> Result<Self, AddressError> {
        if text.len() != 34 {
            return Err(AddressError::Form);
        }
        let decoded = bs58::decode(text)
            .with_check(None)
            .into_vec()
            .map_err(|_| AddressError::Base58)?;
        match decoded.split_first() {
            Some((&TRON_PREFIX, rest)) if rest.len() == 20 => Ok(Self::Tron(EvmAddress::from_slice(rest))),
            _ => Err(AddressError::Base58),
        }
    }

    /// The address with these 20 bytes, in the address family of this network.
    pub fn on(network: Network, bytes: EvmAddress) -> Self {
        match network.family() {
            Family::Evm => Self::Evm(bytes),
            Family::Tron => Self::Tron(bytes),
        }
    }

    /// The 20 bytes.
    pub fn bytes(&self) -> EvmAddress {
        match self {
            Self::Evm(bytes) | Self::Tron(bytes) => *bytes,
        }
    }

    /// Family of the address.
    pub fn family(&self) -> Family {
        match self {
            Self::Evm(_) => Family::Evm,
            Self::Tron(_) => Family::Tron,
        }
    }

    /// The form for storage and comparison: lower case for EVM, the original Base58 for Tron.
    pub fn canonical(&self) -> String {
        match self {
            Self::Evm(_) => self.to_string().to_lowercase(),
            Self::Tron(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evm(bytes) => out.write_str(&bytes.to_checksum(None)),
            Self::Tron(bytes) => {
                let mut payload = vec![TRON_PREFIX];
                payload.extend_from_slice(bytes.as_slice());
                out.write_str(&bs58::encode(payload).with_check().into_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_wrong_checksum_is_rejected_in_both_families() {
        let good = "0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7";
        assert_eq!(Address::parse(good).unwrap().to_string(), good);
        assert!(Address::parse(&good.to_lowercase()).is_ok());
        assert_eq!(
            Address::parse("0x6923831aCf5c327260D7ac7C9DfF5b1c3cB3C7D7"),
            Err(AddressError::Checksum)
        );
        assert!(Address::parse("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t").is_ok());
        assert_eq!(
            Address::parse("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6T"),
            Err(AddressError::Base58)
        );
    }

    #[test]
    fn the_zero_address_and_the_wrong_family_are_rejected() {
        assert_eq!(
            Address::parse("0x0000000000000000000000000000000000000000"),
            Err(AddressError::Zero)
        );
        let evm = "0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7";
        assert!(matches!(
            Address::parse_on(evm, Network::Tron),
            Err(AddressError::Family { .. })
        ));
        assert!(matches!(
            Address::parse_on("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", Network::Base),
            Err(AddressError::Family { .. })
        ));
    }

    proptest! {
        #[test]
        fn both_address_forms_round_trip_through_text(bytes in any::<[u8; 20]>()) {
            prop_assume!(bytes != [0; 20]);
            for address in [Address::Evm(bytes.into()), Address::Tron(bytes.into())] {
                prop_assert_eq!(Address::parse(&address.to_string()), Ok(address));
                prop_assert_eq!(Address::parse(&address.canonical()), Ok(address));
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,50}") {
            let _ = Address::parse(&text);
        }
    }
}
