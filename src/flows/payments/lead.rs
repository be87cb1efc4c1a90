//! Leadership of a network: one instance at a time follows it. The commits of the leader are valid only during its
//! term.
//!
//! A lease lets another instance take over from a leader that is gone or unreachable. Every leadership has a term with
//! a higher number than the previous one. The last statement before a commit checks that its term is current and its
//! other conditions hold. It locks the checked rows, so that the result is still valid at the commit. Source: ADR-0015.

use super::moved_meanwhile;
use crate::{
    ctx::Ctx,
    domain::{network::Network, refusal::Refusal},
    flows::{FlowError, FlowResult},
    store::{self, Tx, leaders::LeaderTerm},
};
use chrono::TimeDelta;
use tokio_util::sync::CancellationToken;

/// A term of this instance.
#[derive(Debug, Clone)]
pub struct Leadership {
    term: LeaderTerm,
    ended: CancellationToken,
}

impl Leadership {
    /// Number of the term, greater than all previous numbers.
    pub fn number(&self) -> u64 {
        self.term.number
    }

    /// Cancelled when the term is over, as far as this instance knows.
    pub fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Commits, unless another instance leads; then nothing changes.
    pub(in crate::flows) async fn commit(&self, tx: Tx) -> FlowResult<()> {
        self.check(&tx).await?;
        Ok(tx.commit().await?)
    }

    /// Ends the work of this instance when another one leads.
    async fn check(&self, tx: &Tx) -> FlowResult<()> {
        if store::leaders::is_current(tx, &self.term).await? {
            return Ok(());
        }
        self.ended.cancel();
        let LeaderTerm { network, number } = self.term;
        let sentence =
            format!("the term {number} of this instance as leader of {network} has ended; another instance leads");
        Err(FlowError::NotYet(anyhow::anyhow!(sentence)))
    }
}

/// Starts to lead a network for the time of `lease`, which can be renewed; `None` while another instance leads. The
/// term ends at the latest when `stop` is cancelled.
pub async fn begin(
    ctx: &Ctx,
    network: Network,
    holder: &str,
    lease: TimeDelta,
    stop: &CancellationToken,
) -> FlowResult<Option<Leadership>> {
    // The first check reads without a lock, so that an instance that waits to lead blocks nothing.
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

/// Renews the lease; `false` when another instance leads, which ends the term.
pub async fn renew(ctx: &Ctx, leadership: &Leadership, lease: TimeDelta) -> FlowResult<bool> {
    let tx = ctx.db.begin("renew_lease").await?;
    let is_renewed = store::leaders::renew(&tx, &leadership.term, lease).await?;
    tx.commit().await?;
    if !is_renewed {
        leadership.ended.cancel();
    }
    Ok(is_renewed)
}

/// Ends the term and lets another instance lead immediately.
pub async fn resign(ctx: &Ctx, leadership: &Leadership) -> FlowResult<()> {
    leadership.ended.cancel();
    Ok(store::leaders::resign(ctx.db.writer(), &leadership.term).await?)
}

/// Who writes a commit about a chain, and which conditions the commit checks.
#[derive(Debug, Clone)]
pub(super) enum Mandate {
    /// The leader moves the cursor, which is compared with the stored cursor. Condition: the term of the leader is
    /// current.
    Following(Leadership),
    /// The leader reads a range of older blocks. Conditions: its term is current, and the chain is not halted.
    Filling(Leadership),
    /// The operator fixes blocks up to this number, in parallel with the leader. Condition: the blocks are still
    /// settled.
    Mending(Network, u64),
}

impl Mandate {
    /// Commits if the conditions hold; otherwise changes nothing.
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
