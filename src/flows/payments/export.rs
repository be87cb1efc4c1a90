//! Exports settled payments: all that match, part by part.

use super::search::{Begin, filter};
use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        refusal::{Checks, Refusal},
        search::{PaymentPosition, PaymentSearch},
    },
    flows::{FlowResult, auth::identify},
    store::{
        self, Scope,
        payments::{FoundPayment, PaymentFilter, Window},
    },
};
use std::time::Duration;

/// For how long a credential is believed that was looked up.
const BELIEVED: Duration = Duration::from_secs(5);

/// Payments of a part: as many as are read and taken apart without holding up the calls beside them.
const PART: u64 = 100;

/// A walk over all payments that match, newest first. Each part is a statement of its own, so that nothing is held in the
/// database between two; what is recorded meanwhile is met when it belongs behind the last part.
pub struct Walk {
    ctx: Ctx,
    caller: PlatformCaller,
    /// When its credential was good, by the steady clock.
    admitted_at: Duration,
    scope: Scope,
    filter: PaymentFilter,
    begin: Option<Begin>,
}

impl Walk {
    /// Begins a walk over the payments of the caller's requests.
    ///
    /// Errors: what was noted before, no search parameter, dates in the wrong order, an unknown currency (400).
    pub fn start(ctx: &Ctx, caller: &PlatformCaller, search: &PaymentSearch, mut checks: Checks) -> FlowResult<Self> {
        let filter = filter(ctx, caller, search, &mut checks);
        checks.finish()?;
        Ok(Self {
            ctx: ctx.clone(),
            caller: caller.clone(),
            admitted_at: ctx.clock.steady(),
            scope: Scope::from(caller),
            filter,
            begin: Some(Begin::Row(0)),
        })
    }

    /// Looks the credential that began this up again, at most every few seconds. Errors: it is not good any more (401).
    pub async fn require_admitted(&mut self) -> FlowResult<()> {
        let now = self.ctx.clock.steady();
        if now.saturating_sub(self.admitted_at) < BELIEVED {
            return Ok(());
        }
        if !identify::is_still_admitted(&self.ctx, &self.caller).await? {
            return Err(Refusal::unauthenticated("The credential is not good any more").into());
        }
        self.admitted_at = now;
        Ok(())
    }

    /// The next payments with their requests; none at the end.
    pub async fn next(&mut self) -> FlowResult<Vec<FoundPayment>> {
        let Some(begin) = self.begin.take() else {
            return Ok(Vec::new());
        };
        let window = Window { begin, limit: PART };
        let found = store::payments::read(self.ctx.db.reader(), &self.scope, &self.filter, &window).await?;
        let is_full = u64::try_from(found.len()).is_ok_and(|count| count == PART);
        self.begin = found.last().filter(|_| is_full).map(|(last, _)| {
            Begin::After(PaymentPosition {
                paid_at: last.paid_at,
                id: last.id.clone(),
            })
        });
        Ok(found)
    }
}
