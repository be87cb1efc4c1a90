//! Keeps stored values under the current master key: wraps again what a former key wraps.
//!
//! Source: ADR-0014.

use crate::{
    ctx::Ctx,
    flows::FlowResult,
    ports::sealer::{Place, Sealer},
    store::{
        self,
        sealed_rows::{Form, SEALED_COLUMNS, SEALED_MEMBER, SealedColumn, StaleRow},
    },
};
use anyhow::Context;
use serde_json::Value;

/// Rows of one look, and of one transaction: few, because SQLite has one writer and calls wait for it.
const LOOK_ROWS: u32 = 500;
const BATCH_ROWS: usize = 100;

/// Walks of a rotation: the second one finds nothing, unless somebody else sealed meanwhile.
const WALKS_MAX: usize = 5;

/// Whose the values are that belong to no tenant.
const SERVICE: &str = "service";

/// How the names of the values begin that show which master keys are in use; the id follows.
const CHECK: &str = "master:";

/// Where a value of the key material stands.
pub fn material_place(name: &str) -> Place<'_> {
    Place {
        column: "key_material.sealed",
        owner: SERVICE,
        row: name,
    }
}

/// Name of the value that shows that a master key is in use.
pub fn check_name(key: &str) -> String {
    format!("{CHECK}{key}")
}

/// The id of the master key whose use a value shows.
pub fn checked_key(name: &str) -> Option<&str> {
    name.strip_prefix(CHECK)
}

/// A walk over every sealed column, batch by batch. It can end anywhere: the next one skips what is done.
#[derive(Debug, Clone)]
pub struct Walk {
    replaces: bool,
    column: usize,
    after: Vec<String>,
}

/// What one step found and did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Table and column.
    pub column: &'static str,
    /// Rows whose value was not under the current master key.
    pub stale: u64,
    /// How many of them are now.
    pub replaced: u64,
    /// Those of them whose value does not open.
    pub unreadable: Vec<UnreadableRow>,
}

/// A row whose sealed value does not open with any of the master keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableRow {
    /// The table.
    pub table: &'static str,
    /// The column.
    pub column: &'static str,
    /// Whose row it is.
    pub owner: String,
    /// Its id.
    pub id: String,
}

impl Walk {
    /// A walk that brings every value under the current master key.
    pub fn to_rotate() -> Self {
        Self::new(true)
    }

    /// A walk that finds what is not under the current master key and leaves it.
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

/// Takes the next step of a walk; `None` at its end.
///
/// A value that somebody changes at the same moment is left as they wrote it. One that does not open is logged and left.
pub async fn step(ctx: &Ctx, walk: &mut Walk) -> FlowResult<Option<Batch>> {
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

/// Tells the operator of a row whose value does not open.
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
        "a sealed value does not open"
    );
    unreadable
}

/// What a column holds of a row from now on.
fn renewed(sealer: &dyn Sealer, column: &SealedColumn, row: &StaleRow) -> anyhow::Result<String> {
    let place = Place {
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
        Form::Text | Form::TextOrOfPayer => return sealer.renew(&row.value, place),
        Form::Json | Form::JsonArray => serde_json::from_str(&row.value).context("no JSON")?,
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

/// What a rotation did so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// Id of the master key that everything is brought under.
    pub key: String,
    /// Values that were brought under it.
    pub replaced: u64,
    /// Values that were not under it when they were last counted.
    pub left: u64,
    /// Rows among those that are left whose value does not open.
    pub unreadable: Vec<UnreadableRow>,
    /// Master keys under which nothing is left: the settings may forget them.
    pub retired: Vec<String>,
}

/// Brings every value under the current master key while others serve, and tells `report` of each batch that changed
/// something or did not open.
///
/// It ends when a walk finds nothing more that opens, or after [`WALKS_MAX`] walks, when another instance goes on sealing
/// under another key. While something is left, no key is retired.
pub async fn rotate(ctx: &Ctx, mut report: impl FnMut(&Batch, &Rotation)) -> FlowResult<Rotation> {
    let mut rotation = Rotation {
        key: ctx.sealer.current_key().to_owned(),
        replaced: 0,
        left: walk(ctx, Walk::to_count(), |_| {}).await?,
        unreadable: Vec::new(),
        retired: Vec::new(),
    };
    for _ in 0..WALKS_MAX {
        rotation.unreadable.clear();
        let found = walk(ctx, Walk::to_rotate(), |batch| {
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
    rotation.left = walk(ctx, Walk::to_count(), |_| {}).await?;
    Ok(rotation)
}

/// Walks to the end; returns how many values were not under the current master key.
async fn walk(ctx: &Ctx, mut walk: Walk, mut report: impl FnMut(Batch)) -> FlowResult<u64> {
    let mut found = 0;
    while let Some(batch) = step(ctx, &mut walk).await? {
        found += batch.stale;
        if batch.replaced > 0 || !batch.unreadable.is_empty() {
            report(batch);
        }
    }
    Ok(found)
}

/// Forgets the master keys under which nothing is left, so that the settings may; returns their ids.
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
