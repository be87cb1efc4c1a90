//! Answers that are given once: the same key and body get the stored answer, and nothing happens again.

use crate::{
    ctx::Ctx,
    domain::{
        caller::{OrchestratorCaller, PlatformCaller},
        ids::{PayerId, Secret},
        refusal::Refusal,
    },
    flows::{Fault, FlowError, FlowResult, auth::identify},
    ports::sealer::Place,
    store::{self, Holder, StoreError, Tx, idempotency::IdempotencyKey, payer_keys::Keyring},
};
use chrono::TimeDelta;
use std::sync::{Arc, PoisonError};

/// How long an answer is kept. Source: decisions D18.
const KEPT: TimeDelta = TimeDelta::hours(24);

/// Keys of one transaction of the sweep.
const BATCH_KEYS: u64 = 500;

/// What a caller reads whose key another call is using.
const IN_FLIGHT: &str =
    "A call with this Idempotency-Key is being answered at this moment; repeat it to get its answer";

/// What a caller reads whose answer named a payer who is erased since.
const ERASED: &str = "A call with this Idempotency-Key was answered before, and the payer whom it named is erased since; use a \
                      new key";

/// What a public caller reads who asks again for an answer with a secret.
const SHOWN_ONCE: &str = "A call with this Idempotency-Key was answered before, and the answer holds a secret, which a \
                          public client ID is shown once: use a new key, or look up what was made with an API key or \
                          a session";

/// What a caller who sent `Idempotency-Key` wants to be sure of.
#[derive(Debug, Clone)]
pub struct Once {
    /// The key, 1 to 255 characters.
    pub key: String,
    /// The operation.
    pub operation: &'static str,
    /// Hash of the body.
    pub body_hash: String,
}

/// Whose answer it is.
#[derive(Debug, Clone)]
pub struct Asker {
    /// Under whom it is kept.
    pub holder: Holder,
    /// The page that asks.
    page: Option<String>,
}

impl From<&PlatformCaller> for Asker {
    fn from(caller: &PlatformCaller) -> Self {
        Self {
            holder: caller.into(),
            page: caller.origin().map(str::to_owned),
        }
    }
}

impl From<&OrchestratorCaller> for Asker {
    fn from(caller: &OrchestratorCaller) -> Self {
        Holder::from(caller).into()
    }
}

impl From<Holder> for Asker {
    fn from(holder: Holder) -> Self {
        Self { holder, page: None }
    }
}

impl Once {
    /// The same call by a public client ID: its key counts for this page and this body alone, so that a stranger who uses the
    /// key first, with another body, does not occupy it.
    fn of_public_client(mut self, page: Option<&str>) -> Self {
        let page = page.unwrap_or_default();
        self.key = identify::hash(&format!("{}\n{page}\n{}", self.key, self.body_hash));
        self
    }
}

/// A call that may be repeated, and how its answer is written.
pub struct Repeatable<T> {
    once: Option<Once>,
    render: Box<dyn Fn(&T) -> String + Send + Sync>,
    admit: Option<Admission>,
}

/// What has to let a call in that is not answered with a stored answer.
type Admission = Box<dyn Fn() -> Result<(), Refusal> + Send + Sync>;

impl<T> Repeatable<T> {
    /// A call with the key that it carries, if any; `render` writes the body that it and every repetition get.
    pub fn new(once: Option<Once>, render: impl Fn(&T) -> String + Send + Sync + 'static) -> Self {
        Self {
            once,
            render: Box::new(render),
            admit: None,
        }
    }

    /// The same call, which has to be let in where nothing is stored for its key.
    #[must_use]
    pub fn admitted_by(self, admit: impl Fn() -> Result<(), Refusal> + Send + Sync + 'static) -> Self {
        Self {
            admit: Some(Box::new(admit)),
            ..self
        }
    }

    /// A call without a key, whose answer nobody asks for again.
    pub fn unkeyed() -> Self {
        Self::new(None, |_| String::new())
    }
}

/// How an answer is stored, always sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// For every caller who has the key.
    Shared,
    /// For callers who are not public, because it holds a secret.
    Secret,
    /// With the key of the payer whom it names; key and body of the call are known by keyed hashes.
    OfPayer,
}

/// Result of an operation that can be repeated with a key.
#[derive(Debug, Clone)]
pub enum Answer<T> {
    /// It happened now.
    Fresh(T),
    /// It happened before: the body that was answered then.
    Replayed(String),
}

/// Stores the answer of a call in the transaction of its effect.
pub struct Keeper<'a, T> {
    ctx: &'a Ctx,
    holder: Holder,
    call: Repeatable<T>,
    storage: Storage,
}

impl<T> Keeper<'_, T> {
    /// Whether the call carries a key, so that its answer is stored.
    pub fn has_key(&self) -> bool {
        self.call.once.is_some()
    }

    /// The answer of an earlier call with the key, if there is one. Errors: that call had another body, or its answer
    /// holds a secret and anybody may be calling (409).
    async fn stored(&self) -> FlowResult<Option<String>> {
        let Some(once) = &self.call.once else {
            return Ok(None);
        };
        let Some(response) = find(self.ctx, &self.holder, once).await? else {
            return Ok(None);
        };
        if self.storage == Storage::Secret && self.holder.is_public {
            return Err(Refusal::conflict(SHOWN_ONCE).into());
        }
        Ok(Some(match self.storage {
            Storage::OfPayer => {
                let key = key(&self.holder, once);
                let owner = owner_and_scope(&key);
                let reader = self.ctx.db.reader();
                let ring = Keyring::for_texts_of(reader, [(&self.holder.owner, response.as_str())]).await?;
                let opened = ring.open(reader, response, place(&owner, &key))?;
                opened.text().ok_or_else(|| Refusal::conflict(ERASED))?
            }
            Storage::Shared | Storage::Secret => {
                let key = key(&self.holder, once);
                let owner = owner_and_scope(&key);
                let place = place(&owner, &key);
                let opened = self.ctx.sealer.open(&response, place).map_err(Fault)?;
                opened.reveal().to_owned()
            }
        }))
    }

    /// Stores the answer, if the call carries a key, and commits. Errors: another call with the key is committing at
    /// this moment (409).
    pub async fn commit(&self, tx: Tx, made: &T) -> FlowResult<()> {
        self.commit_of(tx, made, None).await
    }

    /// The same for an answer that names a payer, who is in the transaction. Errors: like [`Self::commit`].
    pub async fn commit_of(&self, tx: Tx, made: &T, payer: Option<&PayerId>) -> FlowResult<()> {
        if let Some(once) = &self.call.once {
            let response = (self.call.render)(made);
            let at = key(&self.holder, once);
            let owner = owner_and_scope(&at);
            let place = place(&owner, &at);
            let response = match (self.storage, payer) {
                (Storage::Shared | Storage::Secret, _) => {
                    self.ctx.sealer.seal(&Secret::new(response), place).map_err(Fault)?
                }
                (Storage::OfPayer, payer) => {
                    let ring = Keyring::of(&tx, &self.holder.owner, payer).await?;
                    let sealed = payer.map(|payer| ring.seal(&tx, payer, response, place)).transpose()?;
                    let sealed = sealed.flatten();
                    sealed.ok_or_else(|| Fault(anyhow::anyhow!("an answer names a payer without a key")))?
                }
            };
            let now = self.ctx.clock.now();
            match store::idempotency::insert(&tx, &key(&self.holder, once), &once.body_hash, &response, now).await {
                Err(StoreError::Conflict(_)) => return Err(Refusal::conflict(IN_FLIGHT).into()),
                other => other?,
            }
        }
        Ok(tx.commit().await?)
    }
}

/// One of the calls with the same key on this instance. They take turns, so that those that only wait for an answer hold
/// no connection of the database.
struct Queued<'a> {
    ctx: &'a Ctx,
    /// Owner and scope, and the key in it.
    key: (String, String),
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl<'a> Queued<'a> {
    fn new(ctx: &'a Ctx, key: &IdempotencyKey) -> Self {
        let key = (owner_and_scope(key), key.key.clone());
        let mut answering = ctx.answering.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, turn) = answering.entry(key.clone()).or_default();
        *count += 1;
        let turn = turn.clone();
        Self { ctx, key, turn }
    }

    /// Waits until no other call with the key is being answered. Errors: that takes too long (409).
    async fn turn(&self) -> Result<tokio::sync::MutexGuard<'_, ()>, Refusal> {
        let turn = tokio::time::timeout(self.ctx.waits.repeated_call, self.turn.lock()).await;
        turn.map_err(|_| Refusal::conflict(IN_FLIGHT))
    }
}

impl Drop for Queued<'_> {
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

/// Does `work` once for each key of `asker`: a repeated call gets the stored answer and nothing happens again.
///
/// `work` gathers, decides and ends with [`Keeper::commit`]. Errors: the key was used with another body, or its first
/// call is in flight (409); the stored answer holds a secret and the holder is public (409); the call is not let in. With a
/// public client ID another body is another call.
/// Source: decisions D18; decisions D34.
pub async fn once<T>(
    ctx: &Ctx,
    asker: impl Into<Asker>,
    mut call: Repeatable<T>,
    storage: Storage,
    work: impl AsyncFnOnce(&Keeper<'_, T>) -> FlowResult<T>,
) -> FlowResult<Answer<T>> {
    let Asker { holder, page } = asker.into();
    if holder.is_public {
        call.once = call.once.map(|once| once.of_public_client(page.as_deref()));
    }
    let mut keeper = Keeper {
        ctx,
        holder,
        call,
        storage,
    };
    if storage == Storage::OfPayer
        && let Some(once) = &mut keeper.call.once
    {
        // What it hashes names somebody, and could be guessed; so may the key, which can be an e-mail address.
        once.body_hash = ctx.sealer.lookup(&once.body_hash);
        once.key = ctx.sealer.lookup(&format!("idempotency_keys.key\n{}", once.key));
    }
    let keyed = keeper.call.once.as_ref();
    let queued = keyed.map(|once| Queued::new(ctx, &key(&keeper.holder, once)));
    let _turn = match &queued {
        Some(queued) => Some(queued.turn().await?),
        None => None,
    };
    if let Some(response) = keeper.stored().await? {
        return Ok(Answer::Replayed(response));
    }
    if let Some(admit) = &keeper.call.admit {
        admit()?;
    }
    match work(&keeper).await {
        // The first call with the key may have committed since, and its own effect stands in the way of this one.
        Err(FlowError::Refused(refusal)) => match keeper.stored().await? {
            Some(response) => Ok(Answer::Replayed(response)),
            None => Err(refusal.into()),
        },
        done => done.map(Answer::Fresh),
    }
}

async fn find(ctx: &Ctx, holder: &Holder, once: &Once) -> FlowResult<Option<String>> {
    let key = key(holder, once);
    let Some(used) = store::idempotency::find(ctx.db.reader(), &key).await? else {
        return Ok(None);
    };
    let cutoff = ctx.clock.now() - KEPT;
    if used.created_at < cutoff {
        store::idempotency::free(ctx.db.writer(), &key, cutoff).await?;
        return Ok(None);
    }
    if used.body_hash != once.body_hash {
        return Err(Refusal::conflict("Idempotency-Key was used before with another body; use a new key").into());
    }
    Ok(Some(used.response))
}

/// Forgets one batch of the answers that were kept long enough; tells whether there may be more.
pub async fn sweep(ctx: &Ctx) -> FlowResult<bool> {
    let tx = ctx.db.begin("sweep_idempotency_keys").await?;
    let gone = store::idempotency::forget(&tx, ctx.clock.now() - KEPT, BATCH_KEYS).await?;
    tx.commit().await?;
    Ok(gone == BATCH_KEYS)
}

/// Whose answer it is, and to what.
fn owner_and_scope(key: &IdempotencyKey) -> String {
    format!("{} {}", key.owner, key.scope)
}

/// Where a sealed answer stands.
fn place<'a>(owner: &'a str, key: &'a IdempotencyKey) -> Place<'a> {
    Place {
        column: "idempotency_keys.response",
        owner,
        row: &key.key,
    }
}

/// Keys of different client IDs and operations do not meet.
fn key(caller: &Holder, once: &Once) -> IdempotencyKey {
    let client = caller.client.as_ref().map_or("platform", |client| client.as_str());
    IdempotencyKey {
        owner: caller.owner.clone(),
        scope: format!("{}:{client}", once.operation),
        key: once.key.clone(),
    }
}
