//! Cache of decrypted endpoint secrets, so that a stream of deliveries to one endpoint decrypts its secret once.

use crate::{
    domain::ids::{EndpointId, OwnerId, Secret},
    flows::webhooks::secret_place,
    ports::sealer::Sealer,
};
use lru::LruCache;
use std::{
    num::NonZeroUsize,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How long a decrypted secret is cached.
const REMEMBERED: Duration = Duration::from_secs(5);

/// Maximum number of cached secrets.
const SECRETS_MAX: usize = 1_000;

/// A decrypted secret, and its expiry on the monotonic clock.
struct CachedSecret {
    owner: OwnerId,
    endpoint: EndpointId,
    secret: Secret,
    until: Duration,
}

/// Decrypted secrets by ciphertext. A secret is returned only for the endpoint that it belongs to, and its memory is
/// wiped when it is dropped.
pub struct OpenedSecrets(Mutex<LruCache<String, CachedSecret>>);

impl Default for OpenedSecrets {
    fn default() -> Self {
        let most = NonZeroUsize::new(SECRETS_MAX).unwrap_or(NonZeroUsize::MIN);
        Self(Mutex::new(LruCache::new(most)))
    }
}

impl OpenedSecrets {
    fn entries(&self) -> MutexGuard<'_, LruCache<String, CachedSecret>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decrypts a secret of an endpoint, unless it is cached; `now` is a reading of the monotonic clock. Errors: as for
    /// the sealer.
    pub(super) fn open(
        &self,
        sealer: &dyn Sealer,
        now: Duration,
        owner: &OwnerId,
        endpoint: &EndpointId,
        sealed: &str,
    ) -> anyhow::Result<Secret> {
        if let Some(known) = self.entries().get(sealed)
            && known.owner == *owner
            && known.endpoint == *endpoint
            && known.until > now
        {
            return Ok(known.secret.clone());
        }
        let secret = sealer.open(sealed, secret_place(owner, endpoint))?;
        let opened = CachedSecret {
            owner: owner.clone(),
            endpoint: endpoint.clone(),
            secret: secret.clone(),
            until: now + REMEMBERED,
        };
        self.entries().put(sealed.to_owned(), opened);
        Ok(secret)
    }

    /// Drops expired secrets.
    pub fn forget_old(&self, now: Duration) {
        let mut entries = self.entries();
        let old = entries.iter().filter(|(_, known)| known.until <= now);
        let old: Vec<String> = old.map(|(sealed, _)| sealed.clone()).collect();
        for sealed in old {
            entries.pop(&sealed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::sealer::EncryptionContext;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts decryptions.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Sealer for Counting {
        fn seal(&self, _: &Secret, _: EncryptionContext<'_>) -> anyhow::Result<String> {
            anyhow::bail!("nothing is sealed here")
        }

        fn open(&self, sealed: &str, place: EncryptionContext<'_>) -> anyhow::Result<Secret> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Secret::new(format!("{sealed} of {}", place.row)))
        }

        fn renew(&self, _: &str, _: EncryptionContext<'_>) -> anyhow::Result<String> {
            anyhow::bail!("nothing is renewed here")
        }

        fn draw_key(&self) -> Secret {
            Secret::new("")
        }

        fn seal_with(&self, _: &Secret, _: &Secret, _: EncryptionContext<'_>) -> anyhow::Result<String> {
            anyhow::bail!("nothing is sealed here")
        }

        fn open_with(&self, _: &Secret, _: &str, _: EncryptionContext<'_>) -> anyhow::Result<Secret> {
            anyhow::bail!("nothing is opened here")
        }

        fn lookup(&self, text: &str) -> String {
            text.to_owned()
        }

        fn current_key(&self) -> &str {
            ""
        }
    }

    #[test]
    fn a_secret_is_decrypted_once_per_endpoint_in_five_seconds() {
        let (sealer, secrets) = (Counting::default(), OpenedSecrets::default());
        let owner = OwnerId("owner".into());
        let open = |second, endpoint: &str, sealed| {
            let endpoint = EndpointId(endpoint.to_owned());
            let now = Duration::from_secs(second);
            let secret = secrets.open(&sealer, now, &owner, &endpoint, sealed).unwrap();
            (secret.reveal().to_owned(), sealer.0.load(Ordering::Relaxed))
        };
        assert_eq!(open(1, "one", "a"), ("a of one".to_owned(), 1));
        assert_eq!(open(5, "one", "a"), ("a of one".to_owned(), 1));
        assert_eq!(
            open(5, "one", "b"),
            ("b of one".to_owned(), 2),
            "a rotated secret is another one"
        );
        assert_eq!(open(5, "two", "a"), ("a of two".to_owned(), 3));
        assert_eq!(
            open(10, "two", "a"),
            ("a of two".to_owned(), 4),
            "the cached secret has expired"
        );
        secrets.forget_old(Duration::from_secs(14));
        assert_eq!(secrets.entries().len(), 1);
        secrets.forget_old(Duration::from_secs(15));
        assert!(secrets.entries().is_empty());
    }
}
