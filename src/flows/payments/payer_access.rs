//! Who paid beside who might have: calldata that one wallet was let in to can be sent by another one.

use super::gather::Match;
use crate::{
    ctx::Ctx,
    domain::{address::Address, payment::PayerAccess, request::Request},
    flows::{FlowResult, secure_payments::paid},
    store,
};
use std::collections::{BTreeSet, HashMap};

/// Compares who paid with list and screening of the link that the request belongs to, of several the newest.
pub(super) async fn judge(ctx: &Ctx, requests: &[Request], matches: &mut [Match]) -> FlowResult<()> {
    let rows: BTreeSet<usize> = matches.iter().map(|found| found.request_row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let paid_for: Vec<&Request> = rows.iter().map(|row| &requests[*row]).collect();
    let links = store::secure_payments::newest_of_requests(ctx.db.reader(), &paid_for).await?;
    let mut known: HashMap<(&str, Option<Address>), Option<PayerAccess>> = HashMap::new();
    for found in matches {
        let Some(link) = links.get(&requests[found.request_row].row) else {
            continue;
        };
        let payer = found.settled.proven.payer;
        let access = match known.get(&(link.id.as_str(), payer)) {
            Some(access) => *access,
            None => paid::access(ctx, link, payer).await?,
        };
        known.insert((link.id.as_str(), payer), access);
        found.settled.payer_access = access;
    }
    Ok(())
}
