//! Patterns of texts in bodies, for the documents.

/// Decimal number in human units.
pub(super) const AMOUNT: &str = r"^[0-9]+(\.[0-9]+)?$";
/// Client ID.
pub(super) const CLIENT_ID: &str = "^cli_[0-9A-Za-z]{30}$";
/// Name of a state, or empty.
pub(super) const CODE: &str = "^[a-z_]*$";
/// Symbol of a currency, or its id.
pub(super) const CURRENCY: &str = r"^[^\s\x00-\x1f\x7f-\x9f]+$";
/// Id of a network.
pub(super) const NETWORK: &str = "^[a-z0-9-]+$";
/// Reference of a payment.
pub(super) const REFERENCE: &str = "^0x[0-9a-f]{16}$";
/// Id of a request.
pub(super) const REQUEST_ID: &str = "^[0-9A-Za-z]+$";
/// Hash of a transaction.
pub(super) const TX_HASH: &str = "^(0x)?[0-9a-fA-F]{64}$";
/// ULID.
pub(super) const ULID: &str = "^[0-7][0-9A-HJKMNP-TV-Z]{25}$";
/// Address of a wallet.
pub(super) const WALLET: &str = "^(0x[a-fA-F0-9]{40}|T[1-9A-HJ-NP-Za-km-z]{33})$";
