//! Leads a network: one instance at a time follows it, and each of its commits counts only while its term lasts.
//!
//! A lease lets others take over from a leader that is gone or out of reach. It is the term that keeps them apart: a
//! commit checks it as its last statement, together with what else has to hold, and nothing changes either until the
//! commit is done. Source: ADR-0015.

use super::moved_meanwhile;
use crate::{
    ctx::Ctx,
    domain::{network::Network, refusal::Refusal},
    flows::{FlowError, FlowResult},
    store::{self, Tx, leaders::Term},
};
use chrono::TimeDelta;
use tokio_util::sync::CancellationToken;

/// A term of this instance.
#[derive(Debug, Clone)]
pub struct Leadership {
    term: Term,
    ended: CancellationToken,
}

impl Leadership {
    /// Its number, greater than those before.
    pub fn number(&self) -> u64 {
        self.term.number
    }

    /// Cancelled when the term is over, as far as this instance knows.
    pub fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Commits, unless somebody else leads; then nothing changes.
    pub(in crate::flows) async fn commit(&self, tx: Tx) -> FlowResult<()> {
        self.check(&tx).await?;
        Ok(tx.commit().await?)
    }

    /// Ends the work of this instance when somebody else leads.
    async fn check(&self, tx: &Tx) -> FlowResult<()> {
        if store::leaders::is_current(tx, &self.term).await? {
            return Ok(());
        }
        self.ended.cancel();
        let Term { network, number } = self.term;
        let sentence = format!("another instance leads {network} since term {number} ended");
        Err(FlowError::NotYet(anyhow::anyhow!(sentence)))
    }
}

/// Begins to lead a network, for as long as `lease` unless it is renewed; `None` while somebody else does. The term ends
/// with `stop` at the latest.
pub async fn begin(
    ctx: &Ctx,
    network: Network,
    holder: &str,
    lease: TimeDelta,
    stop: &CancellationToken,
) -> FlowResult<Option<Leadership>> {
    // Who only waits takes no lock.
    if !store::leaders::is_open(ctx.db.reader(), network, holder).await? {
        return Ok(None);
    }
    let tx = ctx.db.begin("begin_term").await?;
    let term = store::leaders::begin(&tx, network, holder, lease).await?;
    tx.commit().await?;
    Ok(term.map(|term| Leadership {
        term,
        ended: stop.child_token(),
    }))
}

/// Renews the lease; `false` when somebody else leads, which ends the term.
pub async fn renew(ctx: &Ctx, leadership: &Leadership, lease: TimeDelta) -> FlowResult<bool> {
    let tx = ctx.db.begin("renew_lease").await?;
    let is_renewed = store::leaders::renew(&tx, &leadership.term, lease).await?;
    tx.commit().await?;
    if !is_renewed {
        leadership.ended.cancel();
    }
    Ok(is_renewed)
}

/// Ends the term and lets another instance lead at once.
pub async fn resign(ctx: &Ctx, leadership: &Leadership) -> FlowResult<()> {
    leadership.ended.cancel();
    Ok(store::leaders::resign(ctx.db.writer(), &leadership.term).await?)
}

/// On whose behalf a commit about a chain is made, and what has to hold for it.
#[derive(Debug, Clone)]
pub(super) enum Mandate {
    /// The leader moves the cursor, which is compared with the stored one: its term is the current one.
    Following(Leadership),
    /// The leader fills in beside: the chain is not halted either.
    Filling(Leadership),
    /// The operator mends blocks up to this one, beside whoever leads: they are still settled.
    Mending(Network, u64),
}

impl Mandate {
    /// Commits, unless what has to hold does not; then nothing changes.
    pub(super) async fn commit(&self, tx: Tx) -> FlowResult<()> {
        match self {
            Self::Following(leadership) => leadership.check(&tx).await?,
            Self::Filling(leadership) => {
                let network = leadership.term.network;
                let cursor = store::cursors::hold(&tx, network).await?;
                if cursor.is_none_or(|cursor| cursor.halted_reason.is_some()) {
                    return Err(moved_meanwhile(network));
                }
                leadership.check(&tx).await?;
            }
            Self::Mending(network, to) => {
                let cursor = store::cursors::hold(&tx, *network).await?;
                if cursor.is_none_or(|cursor| cursor.finalized.number < *to) {
                    let sentence = format!("blocks up to {to} of {network} are no longer settled; compare them again");
                    return Err(Refusal::conflict(sentence).into());
                }
            }
        }
        Ok(tx.commit().await?)
    }
}
