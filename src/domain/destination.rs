//! Payee destinations: which ones can be registered, by whom, and what a wallet signs for it.

use super::{
    address::Address,
    currency::Catalogue,
    ids::{ClientRowId, DestinationId, PlatformId},
    interop_address::{DestinationKey, InteropAddress},
    network::{Family, Network},
    refusal::{Checks, Refusal},
    wire_text::wire_text,
};
use alloy::{
    primitives::{B256, Signature, U256},
    sol_types::{Eip712Domain, SolStruct, eip712_domain},
};
use chrono::{DateTime, TimeDelta, Utc};

/// How long signing data is valid. Source: rules P.1.6.
pub const NONCE_LIFE: TimeDelta = TimeDelta::minutes(5);

/// Tokens that destinations support. Source: rules P.4.3.
const SYMBOLS: [&str; 3] = ["USDC", "USDT", "FAU"];

/// Name of the EIP-712 domain. Source: rules P.3.8.
pub const DOMAIN_NAME: &str = "PayeeDestination";

/// Version of the EIP-712 domain.
pub const DOMAIN_VERSION: &str = "1";

/// Name of the signed structure.
pub const PRIMARY_TYPE: &str = "PayeeDestination";

mod typed {
    alloy::sol! {
        struct PayeeDestination {
            address wallet;
            string action;
            address token;
            uint256 chainId;
            string nonce;
        }
    }
}

wire_text! {
    /// Which wallets are screened before they may pay. Source: rules P.4.3.
    pub enum AccessMode {
        /// None.
        Off = "off",
        /// Every one.
        KytAllWallets = "kyt_all_wallets",
    }
}

wire_text! {
    /// Screening provider. Source: rules P.4.3.
    pub enum ScreeningProvider {
        /// Hypernative.
        Hypernative = "hypernative",
        /// Merkle Science.
        Merklescience = "merklescience",
    }
}

/// Which wallets may pay to a destination, and what a payer sees of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DestinationPolicy {
    /// Which wallets are screened.
    pub mode: AccessMode,
    /// Provider that screens the wallets; set exactly when wallets are screened.
    pub provider: Option<ScreeningProvider>,
    /// Whether the payee stays hidden until the payer is approved.
    pub hides_until_approved: bool,
    /// Whether the address of the payee is shown masked.
    pub hides_payee: bool,
}

impl DestinationPolicy {
    /// Whether the policy hides anything from payers.
    pub fn hides_anything(&self) -> bool {
        self.hides_until_approved || self.hides_payee
    }

    /// Reports members that contradict each other.
    pub fn check(&self, checks: &mut Checks) {
        const FIELD: &str = "accessPolicy.screeningProvider";
        match (self.mode, self.provider) {
            (AccessMode::KytAllWallets, None) => checks.fail(
                FIELD,
                "is required when mode is kyt_all_wallets: set it to hypernative or merklescience",
            ),
            (AccessMode::Off, Some(_)) => checks.fail(FIELD, "must be absent or null when mode is off"),
            _ => {}
        }
    }
}

/// A registered payee destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// Row.
    pub id: DestinationId,
    /// Tenant.
    pub platform: PlatformId,
    /// Wallet, network and token.
    pub key: DestinationKey,
    /// Policy; `None` if none was ever set.
    pub policy: Option<DestinationPolicy>,
    /// Whether the owner of the wallet created the destination, on this platform or another one.
    pub is_claimed: bool,
    /// Whether the owner of the wallet created the destination on this platform.
    pub is_set_up: bool,
    /// Whether the destination is active on its platform.
    pub is_active: bool,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// Last change.
    pub updated_at: DateTime<Utc>,
}

impl Destination {
    /// Whether the destination is in use on its platform: its owner set it up there and did not deactivate it. A
    /// destination that was only recorded for a payout is not in use, even if its owner set it up on another platform.
    /// Source: decisions D49.
    pub fn is_in_use(&self) -> bool {
        self.is_set_up && self.is_active
    }
}

/// The destination of a wallet with this token on this chain, whether or not it can be registered.
///
/// Errors, each under its field: an unknown chain; a wallet or token address of the wrong family (EVM or Tron).
pub fn named(wallet: Address, token: &str, chain_id: Option<u64>, checks: &mut Checks) -> Option<DestinationKey> {
    let Some(network) = chain_id.and_then(Network::from_chain_id) else {
        checks.fail("chainId", format!("must be the id of a supported chain: {}", chains()));
        return None;
    };
    if wallet.family() != network.family() {
        // The wallet is fixed by the sign-in or the signature, so only the chain can change.
        let message = match wallet.family() {
            Family::Evm => "must be the chain of an EVM network: the wallet is an EVM address",
            Family::Tron => "must be 728126428 (tron): the wallet is a Tron address",
        };
        checks.fail("chainId", message);
        return None;
    }
    let token = checks.take("tokenAddress", Address::parse_on(token, network))?;
    Some(DestinationKey {
        interop: InteropAddress { wallet, network },
        token,
    })
}

/// Checks that a wallet can be paid in this token on this chain.
///
/// Errors, each under its field: those of [`named`]; a disabled network; a token that cannot be registered. Source:
/// rules P.4.3.
pub fn registrable(
    catalogue: &Catalogue,
    wallet: Address,
    token: &str,
    chain_id: Option<u64>,
    checks: &mut Checks,
) -> Option<DestinationKey> {
    let key = named(wallet, token, chain_id, checks)?;
    let network = key.interop.network;
    if !catalogue.is_enabled(network) {
        let enabled = catalogue.enabled_in_words();
        checks.fail(
            "chainId",
            format!("network {network} is not enabled on this service; enabled networks: {enabled}"),
        );
        return None;
    }
    let is_known = catalogue
        .by_token(network, &key.token)
        .is_some_and(|currency| SYMBOLS.contains(&currency.symbol.as_str()));
    if !is_known {
        let tokens = catalogue.tokens_in_words(network, &SYMBOLS);
        checks.fail(
            "tokenAddress",
            format!("must be a token that destinations support on {network}: {tokens}"),
        );
        return None;
    }
    if catalogue.is_contract(network, &wallet) {
        checks.fail(
            "walletAddress",
            "must be a wallet: this is the address of a token or payment contract, and payments sent there are lost",
        );
        return None;
    }
    Some(key)
}

fn chains() -> String {
    let each = Network::ALL.map(|network| format!("{} ({network})", network.chain_id()));
    each.join(", ")
}

wire_text! {
    /// Action to which a wallet agrees with its signature.
    pub enum SigningAction {
        /// The wallet is paid there.
        Add = "add",
        /// The destination is deactivated: the wallet is no longer paid there.
        Deactivate = "deactivate",
    }
}

/// Checks that a wallet, which the call names in `field`, can sign the data of a destination instead of signing in.
/// Errors: the wallet is no EVM wallet; the message names the operation of a signed-in wallet (400).
pub fn check_signer(wallet: Address, action: SigningAction, field: &str) -> Result<(), Refusal> {
    let operation = match (wallet.family(), action) {
        (Family::Evm, _) => return Ok(()),
        (Family::Tron, SigningAction::Add) => "POST /v1/payee-destination",
        (Family::Tron, SigningAction::Deactivate) => "PATCH /v1/payee-destination/deactivate",
    };
    let message = format!("must name an EVM wallet: a Tron wallet signs in and uses {operation}");
    Err(Refusal::field(field, message))
}

/// Data for a wallet to sign, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningData {
    /// Identifies this data; single use.
    pub nonce: String,
    /// Tenant that requested it.
    pub platform: PlatformId,
    /// Client ID that requested the data. Only this client ID can submit the signature.
    pub client: ClientRowId,
    /// Action to agree to.
    pub action: SigningAction,
    /// The destination.
    pub key: DestinationKey,
    /// Time of expiry.
    pub expires_at: DateTime<Utc>,
}

impl SigningData {
    /// The hash that a wallet signs. Source: EIP-712; rules P.3.8.
    pub fn digest(&self) -> B256 {
        let chain_id = self.key.interop.network.chain_id();
        let domain: Eip712Domain = eip712_domain! {
            name: DOMAIN_NAME,
            version: DOMAIN_VERSION,
            chain_id: chain_id,
        };
        let message = typed::PayeeDestination {
            wallet: self.key.interop.wallet.bytes(),
            action: self.action.wire().to_owned(),
            token: self.key.token.bytes(),
            chainId: U256::from(chain_id),
            nonce: self.nonce.clone(),
        };
        message.eip712_signing_hash(&domain)
    }

    /// Whether 65 bytes are the signature of the wallet over this data.
    pub fn is_signed_by_wallet(&self, signature: &[u8]) -> bool {
        let signer = Signature::from_raw(signature)
            .ok()
            .and_then(|signature| signature.recover_address_from_prehash(&self.digest()).ok());
        signer.is_some_and(|signer| Address::Evm(signer) == self.key.interop.wallet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeSet, HashMap};

    #[test]
    fn a_destination_has_a_provider_only_with_screening() {
        for (mode, provider, fits) in [
            (AccessMode::Off, None, true),
            (AccessMode::Off, Some(ScreeningProvider::Hypernative), false),
            (AccessMode::KytAllWallets, None, false),
            (AccessMode::KytAllWallets, Some(ScreeningProvider::Merklescience), true),
        ] {
            let mut checks = Checks::new();
            let policy = DestinationPolicy {
                mode,
                provider,
                hides_until_approved: false,
                hides_payee: false,
            };
            policy.check(&mut checks);
            assert_eq!(checks.finish().is_ok(), fits, "{mode:?} {provider:?}");
        }
    }

    #[test]
    fn the_wallet_family_must_match_the_chain() {
        let networks: BTreeSet<Network> = Network::ALL.into_iter().collect();
        let catalogue = Catalogue::new(Vec::new(), HashMap::new(), networks);
        let evm = Address::parse("0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7").unwrap();
        let tron = Address::parse("TJRabPrwbZy45sbavfcjinPJC18kjpRTv8").unwrap();
        for (wallet, chain_id, named) in [(evm, 728_126_428, "EVM"), (tron, 8_453, "Tron")] {
            let mut checks = Checks::new();
            assert!(registrable(&catalogue, wallet, "x", Some(chain_id), &mut checks).is_none());
            let refusal = checks.finish().unwrap_err();
            assert_eq!(refusal.fields[0].field, "chainId");
            assert!(
                refusal.fields[0].message.contains(named),
                "{}",
                refusal.fields[0].message
            );
        }
    }

    fn data() -> SigningData {
        SigningData {
            nonce: "nonce-1".into(),
            platform: PlatformId("p".into()),
            client: ClientRowId("c".into()),
            action: SigningAction::Add,
            key: DestinationKey::parse(
                "base:0x6923831acf5c327260d7ac7c9dff5b1c3cb3c7d7:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
            )
            .unwrap()
            .unwrap(),
            expires_at: DateTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn every_field_changes_the_signed_hash() {
        let first = data();
        let other_key = |text: &str| SigningData {
            key: DestinationKey::parse(text).unwrap().unwrap(),
            ..data()
        };
        let changed = [
            SigningData {
                nonce: "nonce-2".into(),
                ..data()
            },
            SigningData {
                action: SigningAction::Deactivate,
                ..data()
            },
            other_key("base:0x6923831acf5c327260d7ac7c9dff5b1c3cb3c7d8:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"),
            other_key("base:0x6923831acf5c327260d7ac7c9dff5b1c3cb3c7d7:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02914"),
            other_key("mainnet:0x6923831acf5c327260d7ac7c9dff5b1c3cb3c7d7:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"),
        ];
        for other in changed {
            assert_ne!(other.digest(), first.digest(), "{other:?}");
        }
    }

    #[test]
    fn malformed_signatures_are_rejected() {
        for bytes in [vec![], vec![0; 65], vec![0xff; 65], vec![1; 64]] {
            assert!(!data().is_signed_by_wallet(&bytes));
        }
    }
}
