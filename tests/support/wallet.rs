//! A wallet that signs, and the API calls of its owner.

use super::{TestApp, requests::PAYEE};
use alloy::primitives::{Address as EvmAddress, B256, U256, keccak256};
use k256::ecdsa::SigningKey;
use prs::domain::{
    address::Address,
    caller::{Credential, PlatformCaller, SignedInPerson},
    currency::ContractKind,
    ids::{PlatformId, SessionId},
    network::Network,
};
use serde_json::Value;

/// A wallet of an EVM network.
pub struct TestWallet(SigningKey);

impl TestWallet {
    /// A wallet whose key repeats this byte.
    pub fn new(number: u8) -> Self {
        Self(SigningKey::from_slice(&[number; 32]).expect("a key"))
    }

    /// The wallet of [`PAYEE`], an account of every local chain.
    pub fn payee() -> Self {
        const KEY: &str = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";
        let key = hex::decode(KEY).expect("hexadecimal");
        let wallet = Self(SigningKey::from_slice(&key).expect("a key"));
        assert_eq!(wallet.address().to_string(), PAYEE);
        wallet
    }

    /// Its address.
    pub fn address(&self) -> Address {
        let public = self.0.verifying_key().to_encoded_point(false);
        let hashed = keccak256(&public.as_bytes()[1..]);
        Address::Evm(EvmAddress::from_slice(&hashed[12..]))
    }

    /// Signs a hash.
    pub fn sign(&self, hash: &B256) -> String {
        let (signature, recovery) = self.0.sign_prehash_recoverable(hash.as_slice()).expect("a signature");
        let mut bytes = signature.to_bytes().to_vec();
        bytes.push(27 + recovery.to_byte());
        hex::encode_prefixed(bytes)
    }

    /// The caller as which the service sees the owner of the wallet after sign-in to a platform.
    pub fn session(&self, platform: &PlatformId) -> PlatformCaller {
        session(platform, SignedInPerson::Wallet(self.address()))
    }
}

/// The caller as which the service sees a person after sign-in to a platform.
pub fn session(platform: &PlatformId, person: SignedInPerson) -> PlatformCaller {
    PlatformCaller {
        platform: platform.clone(),
        credential: Credential::Session {
            id: SessionId("session".to_owned()),
            person,
        },
    }
}

/// The hash of typed data as a wallet computes it from its JSON. Source: EIP-712.
pub fn typed_hash(data: &Value) -> B256 {
    let word = |number: &Value| B256::from(U256::from(number.as_u64().expect("a number")));
    let text = |text: &Value| keccak256(text.as_str().expect("text"));
    let address = |text: &Value| {
        let address: EvmAddress = text.as_str().expect("text").parse().expect("an address");
        address.into_word()
    };
    let domain = [
        keccak256("EIP712Domain(string name,string version,uint256 chainId)"),
        text(&data["domain"]["name"]),
        text(&data["domain"]["version"]),
        word(&data["domain"]["chainId"]),
    ];
    let name = data["primaryType"].as_str().expect("text");
    let members = data["types"][name].as_array().expect("members");
    let listed: Vec<String> = members
        .iter()
        .map(|member| {
            format!(
                "{} {}",
                member["type"].as_str().expect("text"),
                member["name"].as_str().expect("text")
            )
        })
        .collect();
    let mut structure = vec![keccak256(format!("{name}({})", listed.join(",")))];
    for member in members {
        let value = &data["message"][member["name"].as_str().expect("text")];
        structure.push(match member["type"].as_str() {
            Some("address") => address(value),
            Some("uint256") => word(value),
            _ => text(value),
        });
    }
    let hashed = |words: &[B256]| keccak256(words.concat());
    keccak256([&[0x19, 0x01], hashed(&domain).as_slice(), hashed(&structure).as_slice()].concat())
}

/// The contract address of a token in the catalogue.
pub fn token(app: &TestApp, currency: &str) -> String {
    app.ctx.catalogue.find(currency).expect("known").address.clone()
}

/// The contract for token payments.
pub fn fee_proxy(app: &TestApp) -> String {
    let proxy = app
        .ctx
        .catalogue
        .default_contract(Network::Sepolia, ContractKind::Erc20FeeProxy);
    proxy.expect("known").to_string()
}
