//! Hashing of passwords: slow on purpose, and never more of it at a time than the machine can bear.

use crate::domain::ids::Secret;
use async_trait::async_trait;

/// Why a password was not looked at.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// Too many others wait already.
    #[error("too many passwords wait to be checked")]
    Busy,
    /// The hash could not be made or read.
    #[error("{0}")]
    Broken(anyhow::Error),
}

/// Hashes and checks passwords.
#[async_trait]
pub trait Passwords: Send + Sync + 'static {
    /// Hashes a new password with this salt; the text holds everything that a check needs.
    async fn hash(&self, password: Secret, salt: [u8; 16]) -> Result<String, PasswordError>;
    /// Whether it is the password of the hash. Without a hash the answer is no, after the same work.
    async fn is_right(&self, password: Secret, hash: Option<String>) -> Result<bool, PasswordError>;
}
