//! Argon2id on blocking threads, with limited concurrency.

use crate::{
    domain::ids::Secret,
    ports::passwords::{PasswordError, Passwords},
};
use anyhow::anyhow;
use argon2::{
    Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version,
    password_hash::{self, phc::PasswordHash},
};
use async_trait::async_trait;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::Semaphore;

/// Memory, passes and lanes of one hash: 19 MiB, 2, 1. Source: rules C.1 (figures of the OWASP cheat sheet).
const MEMORY_KIB: u32 = 19 * 1_024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// Maximum number of concurrent hashes; together they use less than 80 MiB.
const AT_A_TIME: usize = 4;

/// Maximum number of waiting callers; further ones are rejected immediately.
const WAITING_MAX: usize = 64;

/// Hash that is checked for an account that does not exist. The check takes the same work as for an existing account,
/// and no password matches.
const NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Checks passwords with Argon2id.
pub struct Argon2Passwords {
    argon2: Argon2<'static>,
    turns: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

/// A slot in the queue; dropping it frees the slot.
struct HashingSlot(Arc<AtomicUsize>);

impl Drop for HashingSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Argon2Passwords {
    /// Prepares the parameters. Errors: the parameters are outside the bounds of the algorithm.
    pub fn new() -> anyhow::Result<Self> {
        let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|error| anyhow!("argon2: {error}"))?;
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        Ok(Self {
            argon2,
            turns: Arc::new(Semaphore::new(AT_A_TIME)),
            waiting: Arc::default(),
        })
    }

    /// Runs the work when a slot is free. The work keeps its slot to the end, even if the caller no longer waits.
    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Argon2<'static>) -> Result<T, password_hash::Error> + Send + 'static,
    ) -> Result<T, PasswordError> {
        let ahead = self.waiting.fetch_add(1, Ordering::AcqRel);
        let place = HashingSlot(self.waiting.clone());
        if ahead >= WAITING_MAX + AT_A_TIME {
            return Err(PasswordError::Busy);
        }
        let turn = self.turns.clone().acquire_owned().await;
        let turn = turn.map_err(|error| PasswordError::Broken(error.into()))?;
        let argon2 = self.argon2.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _held = (turn, place);
            work(&argon2)
        });
        done.await
            .map_err(|error| PasswordError::Broken(error.into()))?
            .map_err(|error| PasswordError::Broken(anyhow!("argon2: {error}")))
    }
}

fn hash(argon2: &Argon2<'_>, password: &str, salt: &[u8]) -> Result<String, password_hash::Error> {
    let made: PasswordHash = argon2.hash_password_with_salt(password.as_bytes(), salt)?;
    Ok(made.to_string())
}

#[async_trait]
impl Passwords for Argon2Passwords {
    async fn hash(&self, password: Secret, salt: [u8; 16]) -> Result<String, PasswordError> {
        self.in_turn(move |argon2| hash(argon2, password.reveal(), &salt)).await
    }

    async fn is_right(&self, password: Secret, known: Option<String>) -> Result<bool, PasswordError> {
        let exists = known.is_some();
        let known = known.unwrap_or_else(|| NOBODY.to_owned());
        let fits = self.in_turn(move |argon2| {
            let known = PasswordHash::new(&known)?;
            match PasswordVerifier::<PasswordHash>::verify_password(argon2, password.reveal().as_bytes(), &known) {
                Ok(()) => Ok(true),
                Err(password_hash::Error::PasswordInvalid) => Ok(false),
                Err(error) => Err(error),
            }
        });
        Ok(fits.await? && exists)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text)
    }

    #[tokio::test]
    async fn a_hash_matches_only_its_password_and_unknown_users_cost_the_same() {
        let passwords = Argon2Passwords::new().unwrap();
        let hash = passwords.hash(secret("correct horse"), [7; 16]).await.unwrap();
        let work = "$argon2id$v=19$m=19456,t=2,p=1$";
        assert!(hash.starts_with(work) && NOBODY.starts_with(work), "{hash}");
        assert_eq!(hash.len(), NOBODY.len());
        assert!(
            passwords
                .is_right(secret("correct horse"), Some(hash.clone()))
                .await
                .unwrap()
        );
        assert!(!passwords.is_right(secret("Correct horse"), Some(hash)).await.unwrap());
        assert!(!passwords.is_right(secret(""), None).await.unwrap());
        let damaged = passwords.is_right(secret("x"), Some("plain".to_owned())).await;
        assert!(matches!(damaged, Err(PasswordError::Broken(_))));
    }

    #[tokio::test]
    async fn a_flood_is_rejected_and_leaves_the_queue_empty() {
        let passwords = Arc::new(Argon2Passwords::new().unwrap());
        let calls = (0..200).map(|_| passwords.is_right(secret("guess"), None));
        let answers = futures_util::future::join_all(calls).await;
        let busy = answers
            .iter()
            .filter(|answer| matches!(answer, Err(PasswordError::Busy)))
            .count();
        assert_eq!(busy, 200 - WAITING_MAX - AT_A_TIME);
        assert_eq!(passwords.waiting.load(Ordering::Acquire), 0);
        assert!(!passwords.is_right(secret("guess"), None).await.unwrap());
    }
}
