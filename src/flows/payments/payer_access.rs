//! Checks after a payment whether its payer was allowed to pay. This is needed because calldata that was issued to one
//! wallet can be sent by another wallet.

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

/// Compares payers with the payer list and the screening results of the link of their request. If a request has several
/// links, the newest link counts.
pub(super) async fn judge(ctx: &Ctx, mut payments: Vec<(&Request, &mut Settled)>) -> FlowResult<()> {
    if payments.is_empty() {
        return Ok(());
    }
    let mut paid_for: Vec<&Request> = payments.iter().map(|(request, _)| *request).collect();
    paid_for.sort_by_key(|request| &request.row);
    paid_for.dedup_by_key(|request| &request.row);
    let (links, unreadable) = store::secure_payments::newest_of_requests(ctx.db.reader(), &paid_for).await?;
    for link in &unreadable {
        tracing::error!(
            row = link.id, error = %link.error,
            "the row of a secure payment cannot be read, so it is unknown whether its payers were allowed to pay"
        );
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
                // One row that cannot be read must not stop the crediting of other payments.
                Err(FlowError::Faulted(error)) => {
                    tracing::error!(
                        link = link.id.as_str(), %error,
                        "the service could not check whether a payer was allowed to pay"
                    );
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

/// Compares the payer with the payer list and the screening results of a link; `None` when the link has neither.
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
