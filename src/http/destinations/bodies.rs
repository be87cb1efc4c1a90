//! Bodies of the operations on payee destinations.

use crate::{
    domain::destination::{self, AccessMode, ScreeningProvider, SigningAction},
    http::operation::*,
};

text! {
    /// Signature of a wallet: 65 bytes.
    SignatureText {
        pattern: "^0x[a-fA-F0-9]{130}$",
        length_max: 132,
        example: "0x9a3f5c1e7b2d48609a3f5c1e7b2d48609a3f5c1e7b2d48609a3f5c1e7b2d48609a3f5c1e7b2d48609a3f5c1e7b2d48609a3f5c1e7b2d48609a3f5c1e7b2d48601b",
        hint: "must be a signature of 65 bytes: 0x and 130 hexadecimal digits",
    }
    /// Contract of a token on an EVM network or on Tron.
    TokenText {
        pattern: "^(0x[a-fA-F0-9]{40}|T[1-9A-HJ-NP-Za-km-z]{33})$",
        length_max: 42,
        example: "0x370DE27fdb7D1Ff1e1BaA7D11c5820a324Cf623C",
        hint: "must be the contract address of a token: 0x and 40 hexadecimal digits, or a Tron address: T and 33 more characters, in their exact case",
    }
    /// Id of a chain, as digits.
    ChainIdText {
        pattern: "^[0-9]{1,16}$",
        length_max: 16,
        example: "11155111",
        hint: "must be the id of a chain in digits, for example 11155111",
    }
}

words! {
    /// Which payers are screened
    AccessMode as "DestinationAccessMode";
    /// Screening provider for payers
    ScreeningProvider as "DestinationScreeningProvider";
    /// Action that a wallet signs
    SigningAction as "DestinationAction";
}

/// Who may pay to a destination, and what a payer sees of it.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", example)]
pub struct DestinationAccessPolicy {
    /// Which payers are screened
    pub mode: AccessMode,
    /// Screening provider: required with `kyt_all_wallets`, absent or null with `off`
    #[oai(nullable)]
    pub screening_provider: Option<ScreeningProvider>,
    /// Whether the payee stays hidden until the payer is approved. Example: `false`
    #[oai(skip_serializing_if_is_none)]
    pub hide_until_approved: Option<bool>,
    /// Whether the payee's address is masked for payers. Example: `false`
    #[oai(skip_serializing_if_is_none)]
    pub hide_payee_address: Option<bool>,
}

impl Example for DestinationAccessPolicy {
    fn example() -> Self {
        Self {
            mode: AccessMode::KytAllWallets,
            screening_provider: Some(ScreeningProvider::Hypernative),
            hide_until_approved: Some(false),
            hide_payee_address: Some(false),
        }
    }
}

impl From<destination::DestinationPolicy> for DestinationAccessPolicy {
    fn from(policy: destination::DestinationPolicy) -> Self {
        Self {
            mode: policy.mode,
            screening_provider: policy.provider,
            hide_until_approved: Some(policy.hides_until_approved),
            hide_payee_address: Some(policy.hides_payee),
        }
    }
}

impl From<DestinationAccessPolicy> for destination::DestinationPolicy {
    fn from(policy: DestinationAccessPolicy) -> Self {
        Self {
            mode: policy.mode,
            provider: policy.screening_provider,
            hides_until_approved: policy.hide_until_approved.unwrap_or(false),
            hides_payee: policy.hide_payee_address.unwrap_or(false),
        }
    }
}

/// Token and chain in which a wallet is paid.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PayeeDestination {
    /// Row id, used to bind client IDs
    pub id: UlidText,
    /// Interop address of the wallet and the token, joined with a colon
    pub destination_id: DestinationIdText,
    /// Wallet that is paid
    pub wallet_address: WalletText,
    /// Contract of the token
    pub token_address: TokenText,
    /// Chain. Example: `11155111`
    pub chain_id: u64,
    /// Policy; null when none was ever set
    pub access_policy: OrNull<DestinationAccessPolicy>,
    /// Wallet on its chain as bytes (ERC-7930). Example: `0x0001000003aa36a71470997970c51812dc3a010c7d01b50e0d17dc79c8`
    #[oai(validator(max_length = 80, pattern = "^0x([0-9a-f]{2})+$"))]
    pub binary_interop_address: String,
    /// Wallet on its chain as text (ERC-7828). Example: `0x70997970C51812dc3A010C7d01b50e0d17dc79C8@eip155:11155111#121DA093`
    #[oai(validator(
        max_length = 100,
        pattern = "^(0x[a-fA-F0-9]{40}|T[1-9A-HJ-NP-Za-km-z]{33})@eip155:[0-9]{1,20}#[0-9A-F]{8}$"
    ))]
    pub human_readable_interop_address: String,
    /// Whether the owner of the wallet set up this destination. Example: `true`
    pub claimed: bool,
    /// Whether this destination is the active one of the wallet. Example: `true`
    pub active: bool,
    /// Time of creation
    pub created_at: Instant,
}

impl PayeeDestination {
    /// The view of a destination.
    pub fn of(destination: &destination::Destination) -> Self {
        let key = &destination.key;
        Self {
            id: UlidText::written(destination.id.as_str()),
            destination_id: DestinationIdText::written(key.to_string()),
            wallet_address: WalletText::written(key.interop.wallet.to_string()),
            token_address: TokenText::written(key.token.to_string()),
            chain_id: key.interop.network.chain_id(),
            access_policy: OrNull(destination.policy.map(Into::into)),
            binary_interop_address: hex::encode_prefixed(key.interop.binary()),
            human_readable_interop_address: key.interop.to_string(),
            claimed: destination.is_claimed,
            active: destination.is_active,
            created_at: Instant(destination.created_at),
        }
    }
}

/// The EIP-712 domain.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct TypedDataDomain {
    /// Name. Example: `PayeeDestination`
    #[oai(validator(max_length = 64, pattern = "^[A-Za-z][A-Za-z0-9]*$"))]
    pub name: String,
    /// Version. Example: `1`
    #[oai(validator(max_length = 8, pattern = "^[0-9]+$"))]
    pub version: String,
    /// Chain of the destination. Example: `11155111`
    pub chain_id: u64,
}

/// A field of a signed structure.
#[derive(Debug, Clone, Object)]
pub struct TypedDataMember {
    /// Name. Example: `wallet`
    #[oai(validator(max_length = 64, pattern = "^[A-Za-z][A-Za-z0-9]*$"))]
    pub name: String,
    /// Solidity type. Example: `address`
    #[oai(rename = "type", validator(max_length = 32, pattern = "^[a-z][A-Za-z0-9]*$"))]
    pub kind: String,
}

/// The signed structures by name. `EIP712Domain` is omitted, as wallet libraries expect.
#[derive(Debug, Clone, Object)]
pub struct TypedDataTypes {
    /// Fields of the signed structure, in order
    #[oai(rename = "PayeeDestination", validator(max_items = 5))]
    pub payee_destination: Vec<TypedDataMember>,
}

/// Content of the message to sign.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct TypedDataMessage {
    /// Wallet that is paid and signs
    pub wallet: WalletText,
    /// Action that it signs
    pub action: SigningAction,
    /// Contract of the token
    pub token: TokenText,
    /// Chain. Example: `11155111`
    pub chain_id: u64,
    /// Nonce of this data. Example: `9a3f5c1e7b2d48609a3f5c1e7b2d4860`
    #[oai(validator(max_length = 64, pattern = "^[0-9a-f]{32}$"))]
    pub nonce: String,
}

/// Typed data for a wallet to sign.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct SigningData {
    /// Identifies this data when you submit the signature; works once. Example: `9a3f5c1e7b2d48609a3f5c1e7b2d4860`
    #[oai(validator(max_length = 64, pattern = "^[0-9a-f]{32}$"))]
    pub nonce: String,
    /// The EIP-712 domain
    pub domain: TypedDataDomain,
    /// The signed structures
    pub types: TypedDataTypes,
    /// Name of the signed structure. Example: `PayeeDestination`
    #[oai(validator(max_length = 64, pattern = "^[A-Za-z][A-Za-z0-9]*$"))]
    pub primary_type: String,
    /// Message to sign
    pub message: TypedDataMessage,
    /// Time of expiry, five minutes from now
    pub expires_at: Instant,
}

impl From<destination::SigningData> for SigningData {
    fn from(data: destination::SigningData) -> Self {
        let chain_id = data.key.interop.network.chain_id();
        let member = |name: &str, kind: &str| TypedDataMember {
            name: name.to_owned(),
            kind: kind.to_owned(),
        };
        Self {
            domain: TypedDataDomain {
                name: destination::DOMAIN_NAME.to_owned(),
                version: destination::DOMAIN_VERSION.to_owned(),
                chain_id,
            },
            types: TypedDataTypes {
                payee_destination: vec![
                    member("wallet", "address"),
                    member("action", "string"),
                    member("token", "address"),
                    member("chainId", "uint256"),
                    member("nonce", "string"),
                ],
            },
            primary_type: destination::PRIMARY_TYPE.to_owned(),
            message: TypedDataMessage {
                wallet: WalletText::written(data.key.interop.wallet.to_string()),
                action: data.action,
                token: TokenText::written(data.key.token.to_string()),
                chain_id,
                nonce: data.nonce.clone(),
            },
            nonce: data.nonce,
            expires_at: Instant(data.expires_at),
        }
    }
}

/// A signature over the data of a nonce.
#[derive(Debug, Clone, Object)]
pub struct SignedDestinationBody {
    /// Signature of the wallet over the typed data
    pub signature: SignatureText,
    /// Nonce of the signed data. Example: `9a3f5c1e7b2d48609a3f5c1e7b2d4860`
    #[oai(validator(min_length = 1, max_length = 64))]
    pub nonce: String,
}

/// Confirmation.
#[derive(Debug, Clone, Object)]
pub struct DestinationDeactivated {
    /// Always true. Example: `true`
    pub success: bool,
    /// Result. Example: `Destination deactivated`
    #[oai(validator(max_length = 100))]
    pub message: String,
}

impl DestinationDeactivated {
    /// The only possible confirmation.
    pub fn done() -> Json<Self> {
        Json(Self {
            success: true,
            message: "Destination deactivated".to_owned(),
        })
    }
}
