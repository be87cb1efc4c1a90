//! Payers on PostgreSQL: how fast news of the partner go on, what a partner that hangs and whoever forges its news cost
//! others, and a hundred thousand payers.

mod beside;
mod crowd;
mod news;
mod partner;
mod stage;

use crate::report::Row;

/// Measures everything about payers.
pub(crate) fn measure(scale: f64) -> anyhow::Result<Vec<Row>> {
    let mut rows = news::measure(scale)?;
    rows.extend(beside::measure(scale)?);
    rows.extend(crowd::measure(scale)?);
    Ok(rows)
}
