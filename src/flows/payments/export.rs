//! Exports all settled payments that match a search, part by part.

use super::search::{PageStart, filter};
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
        payments::{FoundPayment, PageWindow, PaymentFilter},
    },
};
use std::time::Duration;

/// How long a credential check is valid.
const BELIEVED: Duration = Duration::from_secs(5);

/// Number of payments per part. The number is so small that processing a part does not delay concurrent calls.
const PART: u64 = 100;

/// A walk over all matching payments, newest first. Each part is a separate query, so that no database resources are
/// held between two parts. A payment that is recorded meanwhile is included if it sorts after the last part.
pub struct PaymentWalk {
    ctx: Ctx,
    caller: PlatformCaller,
    /// Time of the last successful credential check, by the monotonic clock.
    admitted_at: Duration,
    scope: Scope,
    filter: PaymentFilter,
    begin: Option<PageStart>,
}

impl PaymentWalk {
    /// Starts a walk over the payments of the caller's requests.
    ///
    /// Errors (400): invalid parameters that `checks` contains, no search parameter, dates in the wrong order, or an
    /// unknown currency.
    pub fn start(ctx: &Ctx, caller: &PlatformCaller, search: &PaymentSearch, mut checks: Checks) -> FlowResult<Self> {
        let filter = filter(ctx, caller, search, &mut checks);
        checks.finish()?;
        Ok(Self {
            ctx: ctx.clone(),
            caller: caller.clone(),
            admitted_at: ctx.clock.steady(),
            scope: Scope::from(caller),
            filter,
            begin: Some(PageStart::Row(0)),
        })
    }

    /// Checks the credential of the export again, at most every few seconds. Errors: the credential is no longer valid
    /// (401).
    pub async fn require_admitted(&mut self) -> FlowResult<()> {
        let now = self.ctx.clock.steady();
        if now.saturating_sub(self.admitted_at) < BELIEVED {
            return Ok(());
        }
        if !identify::is_still_admitted(&self.ctx, &self.caller).await? {
            return Err(Refusal::unauthenticated("The credential is no longer valid").into());
        }
        self.admitted_at = now;
        Ok(())
    }

    /// The next payments with their requests; none at the end.
    pub async fn next(&mut self) -> FlowResult<Vec<FoundPayment>> {
        let Some(begin) = self.begin.take() else {
            return Ok(Vec::new());
        };
        let window = PageWindow { begin, limit: PART };
        let found = store::payments::read(self.ctx.db.reader(), &self.scope, &self.filter, &window).await?;
        let is_full = u64::try_from(found.len()).is_ok_and(|count| count == PART);
        self.begin = found.last().filter(|_| is_full).map(|(last, _)| {
            PageStart::After(PaymentPosition {
                paid_at: last.paid_at,
                id: last.id.clone(),
            })
        });
        Ok(found)
    }
}
