//! Benchmarks of payers on PostgreSQL: how fast updates of the partner are forwarded, what a hanging partner and forged
//! callbacks cost other clients, and a hundred thousand payers.

mod beside;
mod crowd;
mod news;
mod partner;
mod stage;

use crate::report::Row;

/// Runs all payer benchmarks.
pub(crate) fn measure(scale: f64) -> anyhow::Result<Vec<Row>> {
    let mut rows = news::measure(scale)?;
    rows.extend(beside::measure(scale)?);
    rows.extend(crowd::measure(scale)?);
    Ok(rows)
}
