//! Idempotent calls: the same key and body return the stored response, without repeating the effect.

use crate::{
    ctx::Ctx,
    domain::{
        caller::{OrchestratorCaller, PlatformCaller},
        ids::{OrchestratorId, PayerId, Secret},
        refusal::Refusal,
    },
    flows::{Fault, FlowError, FlowResult, auth::identify},
    ports::sealer::EncryptionContext,
    store::{self, Holder, StoreError, Tx, idempotency::IdempotencyKey, payer_keys::Keyring},
};
use chrono::TimeDelta;
use std::sync::{Arc, PoisonError};

/// How long a response is stored. Source: decisions D18.
const KEPT: TimeDelta = TimeDelta::hours(24);

/// Number of keys per transaction of the sweep.
const BATCH_KEYS: u64 = 500;

/// Message when another call is using the key.
const IN_FLIGHT: &str = "Another call with this Idempotency-Key is still in progress; retry to get its response";

/// Message when the payer in the stored response has been erased.
const ERASED: &str = "A call with this Idempotency-Key has already completed, and the payer in its response has been \
                      erased since; use a new key";

/// Message for a public caller that repeats a call whose response contains a secret.
const SHOWN_ONCE: &str = "A call with this Idempotency-Key has already completed, and the response contains a secret, \
                          which is shown to a public client ID only once: use a new key, or look up the created \
                          object with an API key or a session";

/// The idempotency key of a call, with its operation and body.
#[derive(Debug, Clone)]
pub struct IdempotentCall {
    /// The key, 1 to 255 characters.
    pub key: String,
    /// The operation.
    pub operation: &'static str,
    /// Hash of the body.
    pub body_hash: String,
}

/// Owner of a stored response.
#[derive(Debug, Clone)]
pub struct KeyHolder {
    /// Holder under whom the response is stored.
    pub holder: Holder,
    /// Origin of the calling page.
    page: Option<String>,
    /// The orchestrator, if the call has an orchestrator key and a client ID. Its idempotency keys are separate from
    /// those that the client ID uses alone.
    orchestrator: Option<OrchestratorId>,
}

impl From<&PlatformCaller> for KeyHolder {
    fn from(caller: &PlatformCaller) -> Self {
        Self {
            holder: caller.into(),
            page: caller.origin().map(str::to_owned),
            orchestrator: caller.orchestrator().cloned(),
        }
    }
}

impl From<&OrchestratorCaller> for KeyHolder {
    fn from(caller: &OrchestratorCaller) -> Self {
        Holder::from(caller).into()
    }
}

impl From<Holder> for KeyHolder {
    fn from(holder: Holder) -> Self {
        Self {
            holder,
            page: None,
            orchestrator: None,
        }
    }
}

impl IdempotentCall {
    /// Makes an idempotency key of a public client ID valid only for this page and body. So a stranger who uses the
    /// same key first with another body does not block the call.
    fn of_public_client(mut self, page: Option<&str>) -> Self {
        let page = page.unwrap_or_default();
        self.key = identify::hash(&format!("{}\n{page}\n{}", self.key, self.body_hash));
        self
    }
}

/// A repeatable call, and how its response is rendered.
pub struct RepeatableCall<T> {
    once: Option<IdempotentCall>,
    render: Box<dyn Fn(&T) -> String + Send + Sync>,
    admit: Option<Admission>,
}

/// Admission check for a call without a stored response.
type Admission = Box<dyn Fn() -> Result<(), Refusal> + Send + Sync>;

impl<T> RepeatableCall<T> {
    /// A call with its key, if any; `render` creates the body for the call and every repetition.
    pub fn new(once: Option<IdempotentCall>, render: impl Fn(&T) -> String + Send + Sync + 'static) -> Self {
        Self {
            once,
            render: Box::new(render),
            admit: None,
        }
    }

    /// Adds an admission check, which runs if no response is stored for the key.
    #[must_use]
    pub fn admitted_by(self, admit: impl Fn() -> Result<(), Refusal> + Send + Sync + 'static) -> Self {
        Self {
            admit: Some(Box::new(admit)),
            ..self
        }
    }

    /// A call without a key, whose response is not stored.
    pub fn unkeyed() -> Self {
        Self::new(None, |_| String::new())
    }
}

/// How a response is stored; it is always encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseStorage {
    /// The stored response is returned to every caller with the key.
    Shared,
    /// The stored response is not returned to public callers, because it contains a secret.
    Secret,
    /// The response contains data of a payer, so it is encrypted with the key of this payer. The idempotency key and
    /// the body are stored as keyed hashes.
    OfPayer,
}

/// Result of an idempotent operation.
#[derive(Debug, Clone)]
pub enum KeyedResult<T> {
    /// The operation ran now.
    Fresh(T),
    /// The operation ran before. The value is the body of the stored response.
    Replayed(String),
}

/// Stores the response of a call in the transaction of its effect.
pub struct ResponseKeeper<'a, T> {
    ctx: &'a Ctx,
    holder: Holder,
    orchestrator: Option<OrchestratorId>,
    call: RepeatableCall<T>,
    storage: ResponseStorage,
}

impl<T> ResponseKeeper<'_, T> {
    /// Keys of different client IDs and operations are independent, and so are those of a client ID with and without the
    /// key of its orchestrator.
    fn key(&self, once: &IdempotentCall) -> IdempotencyKey {
        let client = self.holder.client.as_ref();
        let client = client.map_or("platform", |client| client.as_str());
        let mut scope = format!("{}:{client}", once.operation);
        if let Some(orchestrator) = &self.orchestrator {
            scope = format!("{scope}:{orchestrator}");
        }
        IdempotencyKey {
            owner: self.holder.owner.clone(),
            scope,
            key: once.key.clone(),
        }
    }

    async fn find(&self, once: &IdempotentCall) -> FlowResult<Option<String>> {
        let (ctx, key) = (self.ctx, self.key(once));
        let Some(used) = store::idempotency::find(ctx.db.reader(), &key).await? else {
            return Ok(None);
        };
        let cutoff = ctx.clock.now() - KEPT;
        if used.created_at < cutoff {
            store::idempotency::free(ctx.db.writer(), &key, cutoff).await?;
            return Ok(None);
        }
        if used.body_hash != once.body_hash {
            return Err(
                Refusal::conflict("Idempotency-Key was already used with a different body; use a new key").into(),
            );
        }
        Ok(Some(used.response))
    }

    /// Whether the call has a key, so that its response is stored.
    pub fn has_key(&self) -> bool {
        self.call.once.is_some()
    }

    /// The response of an earlier call with the key, if there is one. Errors: that call had a different body, or its
    /// response contains a secret and the caller is public (409).
    async fn stored(&self) -> FlowResult<Option<String>> {
        let Some(once) = &self.call.once else {
            return Ok(None);
        };
        let Some(response) = self.find(once).await? else {
            return Ok(None);
        };
        if self.storage == ResponseStorage::Secret && self.holder.is_public {
            return Err(Refusal::conflict(SHOWN_ONCE).into());
        }
        Ok(Some(match self.storage {
            ResponseStorage::OfPayer => {
                let key = self.key(once);
                let owner = owner_and_scope(&key);
                let reader = self.ctx.db.reader();
                let ring = Keyring::for_texts_of(reader, [(&self.holder.owner, response.as_str())]).await?;
                let opened = ring.open(reader, response, place(&owner, &key))?;
                opened.text().ok_or_else(|| Refusal::conflict(ERASED))?
            }
            ResponseStorage::Shared | ResponseStorage::Secret => {
                let key = self.key(once);
                let owner = owner_and_scope(&key);
                let place = place(&owner, &key);
                let opened = self.ctx.sealer.open(&response, place).map_err(Fault)?;
                opened.reveal().to_owned()
            }
        }))
    }

    /// Stores the response, if the call has a key, and commits. Errors: another call with the key is committing (409).
    pub async fn commit(&self, tx: Tx, made: &T) -> FlowResult<()> {
        self.commit_of(tx, made, None).await
    }

    /// Like [`Self::commit`], for a response that names a payer. It reads the key of the payer in the transaction.
    pub async fn commit_of(&self, tx: Tx, made: &T, payer: Option<&PayerId>) -> FlowResult<()> {
        if let Some(once) = &self.call.once {
            let response = (self.call.render)(made);
            let at = self.key(once);
            let owner = owner_and_scope(&at);
            let place = place(&owner, &at);
            let response = match (self.storage, payer) {
                (ResponseStorage::Shared | ResponseStorage::Secret, _) => {
                    self.ctx.sealer.seal(&Secret::new(response), place).map_err(Fault)?
                }
                (ResponseStorage::OfPayer, payer) => {
                    let ring = Keyring::of(&tx, &self.holder.owner, payer).await?;
                    let sealed = payer.map(|payer| ring.seal(&tx, payer, response, place)).transpose()?;
                    let sealed = sealed.flatten();
                    sealed.ok_or_else(|| {
                        Fault(anyhow::anyhow!(
                            "a response contains a payer whose encryption key is missing"
                        ))
                    })?
                }
            };
            let now = self.ctx.clock.now();
            match store::idempotency::insert(&tx, &self.key(once), &once.body_hash, &response, now).await {
                Err(StoreError::Conflict(_)) => return Err(Refusal::conflict(IN_FLIGHT).into()),
                other => other?,
            }
        }
        Ok(tx.commit().await?)
    }
}

/// A call in the queue for its key. Calls with the same key on this instance run one after the other, so that waiting
/// calls hold no database connection.
struct QueuedCall<'a> {
    ctx: &'a Ctx,
    /// Owner and scope of the key as one text, and the idempotency key.
    key: (String, String),
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl<'a> QueuedCall<'a> {
    fn new(ctx: &'a Ctx, key: &IdempotencyKey) -> Self {
        let key = (owner_and_scope(key), key.key.clone());
        let mut answering = ctx.answering.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, turn) = answering.entry(key.clone()).or_default();
        *count += 1;
        let turn = turn.clone();
        Self { ctx, key, turn }
    }

    /// Waits until no other call with the key is in progress. Errors: timeout (409).
    async fn turn(&self) -> Result<tokio::sync::MutexGuard<'_, ()>, Refusal> {
        let turn = tokio::time::timeout(self.ctx.waits.repeated_call, self.turn.lock()).await;
        turn.map_err(|_| Refusal::conflict(IN_FLIGHT))
    }
}

impl Drop for QueuedCall<'_> {
    fn drop(&mut self) {
        let mut answering = self.ctx.answering.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((count, _)) = answering.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                answering.remove(&self.key);
            }
        }
    }
}

/// Does `work` once for each key of `asker`: a repeated call returns the stored response without repeating the effect.
///
/// `work` gathers, decides and ends with [`ResponseKeeper::commit`]. For a public client ID, the same key with a
/// different body is a different call.
///
/// Errors: the key was used with a different body, the first call with the key is in flight, or the stored response
/// contains a secret and the holder is public (409); the call is not admitted. Source: decisions D18; decisions D34.
pub async fn once<T>(
    ctx: &Ctx,
    asker: impl Into<KeyHolder>,
    mut call: RepeatableCall<T>,
    storage: ResponseStorage,
    work: impl AsyncFnOnce(&ResponseKeeper<'_, T>) -> FlowResult<T>,
) -> FlowResult<KeyedResult<T>> {
    let KeyHolder {
        holder,
        page,
        orchestrator,
    } = asker.into();
    if holder.is_public {
        call.once = call.once.map(|once| once.of_public_client(page.as_deref()));
    }
    let mut keeper = ResponseKeeper {
        ctx,
        holder,
        orchestrator,
        call,
        storage,
    };
    if storage == ResponseStorage::OfPayer
        && let Some(once) = &mut keeper.call.once
    {
        // The body contains personal data, and its plain hash could be guessed. The same applies to the key, which may
        // be an e-mail address.
        once.body_hash = ctx.sealer.lookup(&once.body_hash);
        once.key = ctx.sealer.lookup(&format!("idempotency_keys.key\n{}", once.key));
    }
    let keyed = keeper.call.once.as_ref();
    let queued = keyed.map(|once| QueuedCall::new(ctx, &keeper.key(once)));
    let _turn = match &queued {
        Some(queued) => Some(queued.turn().await?),
        None => None,
    };
    if let Some(response) = keeper.stored().await? {
        return Ok(KeyedResult::Replayed(response));
    }
    if let Some(admit) = &keeper.call.admit {
        admit()?;
    }
    match work(&keeper).await {
        // The first call with the key may have committed since, and its effect conflicts with this call.
        Err(FlowError::Refused(refusal)) => match keeper.stored().await? {
            Some(response) => Ok(KeyedResult::Replayed(response)),
            None => Err(refusal.into()),
        },
        done => done.map(KeyedResult::Fresh),
    }
}

/// Deletes one batch of expired responses; returns whether there may be more.
pub async fn sweep(ctx: &Ctx) -> FlowResult<bool> {
    let tx = ctx.db.begin("sweep_idempotency_keys").await?;
    let gone = store::idempotency::forget(&tx, ctx.clock.now() - KEPT, BATCH_KEYS).await?;
    tx.commit().await?;
    Ok(gone == BATCH_KEYS)
}

/// Owner and operation of a response.
fn owner_and_scope(key: &IdempotencyKey) -> String {
    format!("{} {}", key.owner, key.scope)
}

/// Location of an encrypted response.
fn place<'a>(owner: &'a str, key: &'a IdempotencyKey) -> EncryptionContext<'a> {
    EncryptionContext {
        column: "idempotency_keys.response",
        owner,
        row: &key.key,
    }
}
