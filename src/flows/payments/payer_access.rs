//! Who paid beside who might have: calldata that one wallet was let in to can be sent by another one.

use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        ids::RequestRowId,
        payment::{PayerAccess, Settled},
        request::Request,
        screening::{self, ScreenedWallet},
        secure_payment::SecurePayment,
    },
    flows::{FlowError, FlowResult},
    store,
};
use std::collections::{HashMap, HashSet};

/// Compares who paid with list and screening of the link that the request belongs to, of several the newest.
pub(super) async fn judge(ctx: &Ctx, mut payments: Vec<(&Request, &mut Settled)>) -> FlowResult<()> {
    if payments.is_empty() {
        return Ok(());
    }
    let mut paid_for: Vec<&Request> = payments.iter().map(|(request, _)| *request).collect();
    paid_for.sort_by_key(|request| &request.row);
    paid_for.dedup_by_key(|request| &request.row);
    let (links, unreadable) = store::secure_payments::newest_of_requests(ctx.db.reader(), &paid_for).await?;
    for link in &unreadable {
        tracing::error!(row = link.id, error = %link.error, "a secure payment cannot be read, so whether its payers were admitted is unknown");
    }
    let unreadable: HashSet<&RequestRowId> = unreadable.iter().flat_map(|link| &link.requests).collect();
    let mut known: HashMap<(&str, Option<Address>), Option<PayerAccess>> = HashMap::new();
    for (request, settled) in &mut payments {
        if unreadable.contains(&request.row) {
            settled.payer_access = Some(PayerAccess::Unknown);
            continue;
        }
        let Some(link) = links.get(&request.row) else {
            continue;
        };
        let payer = settled.proven.payer;
        let access = match known.get(&(link.id.as_str(), payer)) {
            Some(access) => *access,
            None => match of_link(ctx, link, payer).await {
                // One odd row stops no credit.
                Err(FlowError::Faulted(error)) => {
                    tracing::error!(link = link.id.as_str(), %error, "whether a payer was admitted cannot be read and is unknown");
                    Some(PayerAccess::Unknown)
                }
                access => access?,
            },
        };
        known.insert((link.id.as_str(), payer), access);
        settled.payer_access = access;
    }
    Ok(())
}

/// Compares who paid with list and screening of a link; `None` where it has neither.
pub(in crate::flows) async fn of_link(
    ctx: &Ctx,
    link: &SecurePayment,
    payer: Option<Address>,
) -> FlowResult<Option<PayerAccess>> {
    if !screening::asks_who_paid(&link.policy, link.flow) {
        return Ok(None);
    }
    let Some(payer) = payer else {
        return Ok(Some(PayerAccess::Unknown));
    };
    let conn = ctx.db.reader();
    let owners = store::secure_payments::owners_of(conn, link, &payer).await?;
    let wallets = std::iter::once(payer).chain(owners.iter().copied());
    let wallets: Vec<ScreenedWallet> = wallets.map(ScreenedWallet::alone).collect();
    let known = store::screenings::of_wallets(conn, &link.origin.platform, &link.id, &wallets).await?;
    Ok(Some(screening::who_paid(&link.policy, payer, &owners, &known)))
}
