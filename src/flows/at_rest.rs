//! Keeps stored values under the current master key: seals what is clear, wraps again what a former key wraps.
//!
//! Source: ADR-0014.

use crate::{
    ctx::Ctx,
    domain::ids::Secret,
    flows::{Fault, FlowResult},
    ports::sealer::{Place, Sealer, is_sealed},
    store::{
        self,
        key_material::Material,
        sealed_rows::{Form, SEALED_COLUMNS, SealedColumn, StaleRow, Wanted},
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

/// Name of the value that shows that nothing is left from the time before values were sealed. It gets another number
/// when a column that held clear values is sealed, so that databases which were done before are walked through again.
const ALL_SEALED: &str = "all-sealed:2";

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
    wanted: Wanted,
    replaces: bool,
    column: usize,
    after: Vec<String>,
}

/// What one step found and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Table and column.
    pub column: &'static str,
    /// Rows whose value was not as wanted.
    pub stale: u64,
    /// How many of them are now.
    pub replaced: u64,
}

impl Walk {
    /// A walk that seals what is clear and leaves every key that values name.
    pub fn to_seal() -> Self {
        Self::new(Wanted::Sealed, true)
    }

    /// A walk that brings every value under the current master key.
    pub fn to_rotate(ctx: &Ctx) -> Self {
        Self::new(Wanted::Under(ctx.sealer.current_key().to_owned()), true)
    }

    /// A walk that finds what is not under the current master key and leaves it.
    pub fn to_count(ctx: &Ctx) -> Self {
        Self::new(Wanted::Under(ctx.sealer.current_key().to_owned()), false)
    }

    fn new(wanted: Wanted, replaces: bool) -> Self {
        Self {
            wanted,
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
    let look = store::sealed_rows::stale(ctx.db.reader(), column, &walk.wanted, &walk.after, LOOK_ROWS);
    let (rows, last) = look.await?;
    let mut replaced = 0;
    if walk.replaces {
        for rows in rows.chunks(BATCH_ROWS) {
            replaced += replace(ctx, column, rows).await?;
        }
    }
    match last {
        Some(last) => walk.after = last,
        None => {
            walk.column += 1;
            walk.after.clear();
        }
    }
    let stale = u64::try_from(rows.len()).unwrap_or(u64::MAX);
    let column = column.name;
    Ok(Some(Batch {
        column,
        stale,
        replaced,
    }))
}

async fn replace(ctx: &Ctx, column: &SealedColumn, rows: &[StaleRow]) -> FlowResult<u64> {
    let mut replacements = Vec::new();
    for row in rows {
        match renewed(ctx.sealer.as_ref(), column, row) {
            Ok(value) => replacements.push((row, value)),
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(
                    column = column.name,
                    row = row.row(),
                    error,
                    "a value cannot be sealed again"
                );
            }
        }
    }
    let mut replaced = 0;
    let tx = ctx.db.begin("seal_rows").await?;
    for (row, value) in replacements {
        let done = store::sealed_rows::replace(&tx, column, row, &value).await?;
        replaced += u64::from(done);
    }
    tx.commit().await?;
    Ok(replaced)
}

/// What a column holds of a row from now on.
fn renewed(sealer: &dyn Sealer, column: &SealedColumn, row: &StaleRow) -> anyhow::Result<String> {
    let place = Place {
        column: column.name,
        owner: &row.owner,
        row: row.row(),
    };
    let renew = |text: &str| match is_sealed(text) {
        true => sealer.renew(text, place),
        false => sealer.seal(&Secret::new(text), place),
    };
    match column.form {
        Form::Text => renew(&row.value),
        Form::Json => {
            let value: Value = serde_json::from_str(&row.value).context("no JSON")?;
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            renew(&text).map(|text| Value::String(text).to_string())
        }
        Form::JsonArray => renew_members(&row.value, renew),
    }
}

/// Renews the sealed texts among the members of the objects of an array.
fn renew_members(value: &str, renew: impl Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<String> {
    let mut value: Value = serde_json::from_str(value).context("no JSON")?;
    let objects = value.as_array_mut().into_iter().flatten();
    for member in objects
        .filter_map(Value::as_object_mut)
        .flat_map(|object| object.values_mut())
    {
        if let Some(text) = member.as_str().filter(|text| is_sealed(text)) {
            *member = Value::String(renew(text)?);
        }
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
    /// Values that were under another one, or clear, when they were last counted.
    pub left: u64,
    /// Master keys under which nothing is left: the settings may forget them.
    pub retired: Vec<String>,
}

/// Brings every value under the current master key while others serve, and tells `report` of each batch that changed
/// something.
///
/// It ends when a walk finds nothing more, or after [`WALKS_MAX`] walks, when another instance goes on sealing under
/// another key or a value does not open: then something is left, and no key is retired.
pub async fn rotate(ctx: &Ctx, mut report: impl FnMut(Batch, &Rotation)) -> FlowResult<Rotation> {
    let mut rotation = Rotation {
        key: ctx.sealer.current_key().to_owned(),
        replaced: 0,
        left: walk(ctx, Walk::to_count(ctx), |_| {}).await?,
        retired: Vec::new(),
    };
    for _ in 0..WALKS_MAX {
        let found = walk(ctx, Walk::to_rotate(ctx), |batch| {
            rotation.replaced += batch.replaced;
            rotation.left = rotation.left.saturating_sub(batch.replaced);
            report(batch, &rotation);
        });
        if found.await? == 0 {
            rotation.left = 0;
            ctx.db.checkpoint().await?;
            rotation.retired = retire(ctx).await?;
            return Ok(rotation);
        }
    }
    rotation.left = walk(ctx, Walk::to_count(ctx), |_| {}).await?;
    Ok(rotation)
}

/// Walks to the end; returns how many values were not as wanted.
async fn walk(ctx: &Ctx, mut walk: Walk, mut report: impl FnMut(Batch)) -> FlowResult<u64> {
    let mut found = 0;
    while let Some(batch) = step(ctx, &mut walk).await? {
        found += batch.stale;
        if batch.replaced > 0 {
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

/// Whether everything from the time before values were sealed is known to be sealed.
pub async fn is_all_sealed(ctx: &Ctx) -> FlowResult<bool> {
    let materials = store::key_material::all(ctx.db.reader()).await?;
    Ok(materials.iter().any(|material| material.name == ALL_SEALED))
}

/// Notes that a walk found everything sealed, and empties what SQLite keeps of the time before; tells whether it could.
pub async fn conclude(ctx: &Ctx) -> FlowResult<bool> {
    if !ctx.db.checkpoint().await? {
        return Ok(false);
    }
    let sealed = ctx.sealer.seal(&Secret::new(ALL_SEALED), material_place(ALL_SEALED));
    let material = Material {
        name: ALL_SEALED.to_owned(),
        sealed: sealed.map_err(Fault)?,
    };
    store::key_material::insert(ctx.db.writer(), material, ctx.clock.now()).await?;
    Ok(true)
}
