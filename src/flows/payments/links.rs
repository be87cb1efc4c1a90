//! Updates the secure payments of paid requests, in the commit that credits the payments.

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

/// Updates the secure payments of requests that became paid or due again. The ledgers of the requests were written
/// earlier in the same transaction. Source: rules S.2.
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
        tracing::error!(
            row = link.id, error = %link.error,
            "the row of a secure payment cannot be read; the secure payment keeps its status, although its requests \
             were paid"
        );
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

/// The link tokens that the duplicate events of a payment contain; none when no duplicates are sent.
pub(super) async fn tokens(
    tx: &Tx,
    requests: &[&Request],
    are_twins_told: bool,
) -> FlowResult<HashMap<RequestRowId, SecurePaymentToken>> {
    if are_twins_told {
        Ok(store::secure_payments::tokens_of(tx, requests).await?)
    } else {
        Ok(HashMap::new())
    }
}
