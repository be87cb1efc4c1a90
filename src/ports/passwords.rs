//! Password hashing: intentionally slow, with limited concurrency.

use crate::domain::ids::Secret;
use async_trait::async_trait;

/// Why a password was not checked.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// Too many other passwords are waiting.
    #[error("too many passwords are waiting to be checked")]
    Busy,
    /// The hash could not be created or read.
    #[error("{0}")]
    Broken(anyhow::Error),
}

/// Hashes and checks passwords.
#[async_trait]
pub trait Passwords: Send + Sync + 'static {
    /// Hashes a new password with this salt. The result contains everything that a later check needs.
    async fn hash(&self, password: Secret, salt: [u8; 16]) -> Result<String, PasswordError>;
    /// Whether the password matches the hash. Without a hash the method does the same work and returns false.
    async fn is_right(&self, password: Secret, hash: Option<String>) -> Result<bool, PasswordError>;
}
