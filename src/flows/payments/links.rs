//! What payments make of the secure payments whose requests they pay, in the commit that credits them.

use crate::{
    domain::{
        ids::{RequestRowId, SecurePaymentToken},
        ledger::Ledger,
        request::Request,
    },
    flows::FlowResult,
    store::{self, Tx},
};
use chrono::{DateTime, Utc};
use std::collections::HashMap;

/// Moves on the secure payments of requests whose accounts were written before in the same transaction, as far as one of
/// them became paid or due again. Source: rules S.2.
pub(super) async fn follow(tx: &Tx, changes: &[(&Request, &Ledger)], now: DateTime<Utc>) -> FlowResult<()> {
    let turned = changes
        .iter()
        .filter(|(before, after)| before.ledger.has_been_paid() != after.has_been_paid());
    let turned: Vec<&Request> = turned.map(|(request, _)| *request).collect();
    if turned.is_empty() {
        return Ok(());
    }
    let (payments, unreadable) = store::secure_payments::lock_of_requests(tx, &turned).await?;
    for link in unreadable {
        tracing::error!(row = link.id, error = %link.error, "a secure payment cannot be read and keeps its status, although its requests were paid");
    }
    if payments.is_empty() {
        return Ok(());
    }
    let unpaid = store::secure_payments::unpaid(tx, &payments).await?;
    for payment in payments {
        let are_all_paid = payment.items.iter().all(|item| !unpaid.contains(&item.request));
        let after = payment.after_payments(are_all_paid, now);
        if after != payment {
            store::secure_payments::set_status(tx, &after).await?;
        }
    }
    Ok(())
}

/// The tokens that twins of payment events name; none where no twins are told.
pub(super) async fn tokens(
    tx: &Tx,
    requests: &[&Request],
    are_twins_told: bool,
) -> FlowResult<HashMap<RequestRowId, SecurePaymentToken>> {
    match are_twins_told {
        true => Ok(store::secure_payments::tokens_of(tx, requests).await?),
        false => Ok(HashMap::new()),
    }
}
