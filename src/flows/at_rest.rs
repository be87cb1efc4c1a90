//! Re-encrypts stored values with the current master key.
//!
//! Source: ADR-0014.

use crate::{
    ctx::Ctx,
    flows::FlowResult,
    ports::sealer::{EncryptionContext, Sealer},
    store::{
        self,
        sealed_rows::{ColumnFormat, SEALED_COLUMNS, SEALED_MEMBER, SealedColumn, StaleRow},
    },
};
use anyhow::Context;
use serde_json::Value;

/// Maximum number of rows per read and per transaction. The number is small, because SQLite has one writer and calls
/// wait for it.
const LOOK_ROWS: u32 = 500;
const BATCH_ROWS: usize = 100;

/// Maximum number of passes of a rotation. The second pass finds nothing to re-encrypt, unless another instance
/// encrypted values meanwhile.
const WALKS_MAX: usize = 5;

/// Owner in the encryption context of values of the service itself, which belong to no platform or orchestrator.
const SERVICE: &str = "service";

/// Name prefix of the check values that show which master keys are in use; the key id follows.
const CHECK: &str = "master:";

/// Encryption context of a named value in the table `key_material`.
pub fn material_place(name: &str) -> EncryptionContext<'_> {
    EncryptionContext {
        column: "key_material.sealed",
        owner: SERVICE,
        row: name,
    }
}

/// Name of the check value of a master key.
pub fn check_name(key: &str) -> String {
    format!("{CHECK}{key}")
}

/// The id of the master key that a check value with this name belongs to; `None` for other names.
pub fn checked_key(name: &str) -> Option<&str> {
    name.strip_prefix(CHECK)
}

/// A pass over every encrypted column, batch by batch. It can stop anywhere: the next pass skips finished values.
#[derive(Debug, Clone)]
pub struct EncryptionWalk {
    replaces: bool,
    column: usize,
    after: Vec<String>,
}

/// Result of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Table and column.
    pub column: &'static str,
    /// Number of rows of this batch whose value was not encrypted with the current master key.
    pub stale: u64,
    /// Number of rows of this batch whose value was re-encrypted.
    pub replaced: u64,
    /// The rows of this batch whose value cannot be decrypted.
    pub unreadable: Vec<UnreadableRow>,
}

/// A row whose encrypted value cannot be decrypted with any master key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableRow {
    /// The table.
    pub table: &'static str,
    /// The column.
    pub column: &'static str,
    /// The owner.
    pub owner: String,
    /// Its id.
    pub id: String,
}

impl EncryptionWalk {
    /// A pass that re-encrypts every value with the current master key.
    pub fn to_rotate() -> Self {
        Self::new(true)
    }

    /// A pass that only counts values not encrypted with the current master key.
    pub fn to_count() -> Self {
        Self::new(false)
    }

    fn new(replaces: bool) -> Self {
        Self {
            replaces,
            column: 0,
            after: Vec::new(),
        }
    }
}

/// Runs the next step of a pass; `None` at its end.
///
/// A value that another transaction changed is skipped. A value that cannot be decrypted is logged and skipped.
pub async fn step(ctx: &Ctx, walk: &mut EncryptionWalk) -> FlowResult<Option<Batch>> {
    let Some(column) = SEALED_COLUMNS.get(walk.column) else {
        return Ok(None);
    };
    let current = ctx.sealer.current_key();
    let look = store::sealed_rows::stale(ctx.db.reader(), column, current, &walk.after, LOOK_ROWS);
    let (rows, last) = look.await?;
    let mut batch = Batch {
        column: column.name,
        stale: u64::try_from(rows.len()).unwrap_or(u64::MAX),
        replaced: 0,
        unreadable: Vec::new(),
    };
    if walk.replaces {
        for rows in rows.chunks(BATCH_ROWS) {
            replace(ctx, column, rows, &mut batch).await?;
        }
    }
    match last {
        Some(last) => walk.after = last,
        None => {
            walk.column += 1;
            walk.after.clear();
        }
    }
    Ok(Some(batch))
}

async fn replace(ctx: &Ctx, column: &SealedColumn, rows: &[StaleRow], batch: &mut Batch) -> FlowResult<()> {
    let mut replacements = Vec::new();
    for row in rows {
        match renewed(ctx.sealer.as_ref(), column, row) {
            Ok(value) => replacements.push((row, value)),
            Err(error) => batch.unreadable.push(unreadable(column, row, &error)),
        }
    }
    let tx = ctx.db.begin("renew_rows").await?;
    for (row, value) in replacements {
        let done = store::sealed_rows::replace(&tx, column, row, &value).await?;
        batch.replaced += u64::from(done);
    }
    Ok(tx.commit().await?)
}

/// Logs a row whose value cannot be decrypted.
fn unreadable(column: &SealedColumn, row: &StaleRow, error: &anyhow::Error) -> UnreadableRow {
    let unreadable = UnreadableRow {
        table: column.table,
        column: column.column,
        owner: row.owner.clone(),
        id: row.row().to_owned(),
    };
    let error = format!("{error:#}");
    tracing::error!(
        table = unreadable.table,
        column = unreadable.column,
        owner = unreadable.owner,
        id = unreadable.id,
        error,
        "an encrypted value cannot be decrypted"
    );
    unreadable
}

/// The new value of a column.
fn renewed(sealer: &dyn Sealer, column: &SealedColumn, row: &StaleRow) -> anyhow::Result<String> {
    let place = EncryptionContext {
        column: column.name,
        owner: &row.owner,
        row: row.row(),
    };
    let renew_text = |text: &mut Value| {
        let sealed = text.as_str().context("no text")?;
        *text = Value::String(sealer.renew(sealed, place)?);
        anyhow::Ok(())
    };
    let mut value: Value = match column.form {
        ColumnFormat::Text | ColumnFormat::TextOrOfPayer => return sealer.renew(&row.value, place),
        ColumnFormat::Json | ColumnFormat::JsonArray => serde_json::from_str(&row.value).context("no JSON")?,
    };
    match value.as_array_mut() {
        Some(objects) => objects
            .iter_mut()
            .filter_map(|object| object.get_mut(SEALED_MEMBER))
            .try_for_each(renew_text)?,
        None => renew_text(&mut value)?,
    }
    Ok(value.to_string())
}

/// Progress of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// Id of the target master key.
    pub key: String,
    /// Number of re-encrypted values.
    pub replaced: u64,
    /// Number of values not encrypted with the target master key at the last count.
    pub left: u64,
    /// Remaining rows whose value cannot be decrypted.
    pub unreadable: Vec<UnreadableRow>,
    /// Master keys no longer in use: they can be removed from the settings.
    pub retired: Vec<String>,
}

/// Re-encrypts every value with the current master key while other instances run, and calls `report` for each batch
/// with a change or an unreadable value.
///
/// The rotation ends when a pass finds no value that it can re-encrypt. It ends at the latest after [`WALKS_MAX`]
/// passes, because another instance may keep encrypting with a former master key. A former key is retired only when no
/// value under it is left, not even an unreadable one.
pub async fn rotate(ctx: &Ctx, mut report: impl FnMut(&Batch, &Rotation)) -> FlowResult<Rotation> {
    let mut rotation = Rotation {
        key: ctx.sealer.current_key().to_owned(),
        replaced: 0,
        left: walk(ctx, EncryptionWalk::to_count(), |_| {}).await?,
        unreadable: Vec::new(),
        retired: Vec::new(),
    };
    for _ in 0..WALKS_MAX {
        rotation.unreadable.clear();
        let found = walk(ctx, EncryptionWalk::to_rotate(), |batch| {
            rotation.replaced += batch.replaced;
            rotation.left = rotation.left.saturating_sub(batch.replaced);
            rotation.unreadable.extend(batch.unreadable.iter().cloned());
            report(&batch, &rotation);
        });
        let found = found.await?;
        let unreadable = u64::try_from(rotation.unreadable.len()).unwrap_or(u64::MAX);
        if found == unreadable {
            rotation.left = unreadable;
            if rotation.left == 0 {
                ctx.db.checkpoint().await?;
                rotation.retired = retire(ctx).await?;
            }
            return Ok(rotation);
        }
    }
    rotation.left = walk(ctx, EncryptionWalk::to_count(), |_| {}).await?;
    Ok(rotation)
}

/// Runs a whole pass; returns how many values were not encrypted with the current master key.
async fn walk(ctx: &Ctx, mut walk: EncryptionWalk, mut report: impl FnMut(Batch)) -> FlowResult<u64> {
    let mut found = 0;
    while let Some(batch) = step(ctx, &mut walk).await? {
        found += batch.stale;
        if batch.replaced > 0 || !batch.unreadable.is_empty() {
            report(batch);
        }
    }
    Ok(found)
}

/// Deletes the check values of master keys no longer in use, so that they can be removed from the settings; returns
/// their ids.
async fn retire(ctx: &Ctx) -> FlowResult<Vec<String>> {
    let current = ctx.sealer.current_key();
    let mut retired = Vec::new();
    for material in store::key_material::all(ctx.db.reader()).await? {
        if let Some(id) = checked_key(&material.name).filter(|id| *id != current) {
            store::key_material::remove(ctx.db.writer(), &material.name).await?;
            retired.push(id.to_owned());
        }
    }
    Ok(retired)
}
