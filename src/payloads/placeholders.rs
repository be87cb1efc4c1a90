//! Values of test deliveries. They look real but are not.

/// Request.
pub(super) const REQUEST_ID: &str = "01e273ecc29d4b526df3a0f1f05ffc59372af8752c2b678096e49ac270416a7cdb";
/// Recurring request.
pub(super) const ORIGINAL_REQUEST_ID: &str = "01b7c41d0e5f6a7283940a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60";
/// Reference of the request.
pub(super) const REFERENCE: &str = "0x9a3f5c1e7b2d4860";
/// Reference of the recurring request.
pub(super) const ORIGINAL_REFERENCE: &str = "0x1c2d3e4f5a6b7c8d";
/// Payment.
pub(super) const PAYMENT_ID: &str = "01JZX8D4EF5G6H7J8K9MNPQRST";
/// Transaction.
pub(super) const TX_HASH: &str = "0x8f4e1b2a7c6d5e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071";
/// Payer.
pub(super) const PAYER: &str = "0x7eB023BFbAeE228de6DC5B92D0BeEB1eDb1Fd567";
/// The payer, in lower case.
pub(super) const PAYER_LOWER: &str = "0x7eb023bfbaee228de6dc5b92d0beeb1edb1fd567";
/// Payee.
pub(super) const PAYEE: &str = "0xb07D2398d2004378cad234DA0EF14f1c94A530e4";
/// The payee, in lower case.
pub(super) const PAYEE_LOWER: &str = "0xb07d2398d2004378cad234da0ef14f1c94a530e4";
/// Id of a destination: the placeholder payee on Base with its checksum, and a token on Base.
pub(super) const DESTINATION_ID: &str =
    "0xb07D2398d2004378cad234DA0EF14f1c94A530e4@eip155:8453#EC7F03CE:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
/// Time of the event.
pub(super) const TIME: &str = "2030-01-31T12:00:00.000Z";
/// A time shortly before [`TIME`], as a browser reports it.
pub(super) const TIME_OF_BROWSER: &str = "2030-01-31T11:59:59.250Z";
/// Client ID.
pub(super) const CLIENT_ID: &str = "cli_abcdefghijklmnopqrstuvwxyz0123";
/// Page of the client ID.
pub(super) const ORIGIN: &str = "https://shop.example.com";
/// Secure payment.
pub(super) const SECURE_PAYMENT_TOKEN: &str = "01JZX4T9QK3M7N8P2R5S6V0WYB";
/// Endpoint.
pub(super) const WEBHOOK_ID: &str = "01JZX6B2CD3E4F5G6H7J8K9MNP";
/// The tenant's id of a payer.
pub(super) const CLIENT_USER_ID: &str = "user-1042";
/// Bank account.
pub(super) const PAYMENT_DETAIL: &str = "7d9f3c52-6b1e-4a8d-9c20-5e4f3a2b1c0d";
/// Orchestrator.
pub(super) const ORCHESTRATOR: &str = "01JZX5A1BC2D3E4F5G6H7J8K9M";
