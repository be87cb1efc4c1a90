//! Crediting of proven payments to their requests, and the resulting events.

use super::{
    event::{AccessRejected, Event, PaymentReceived},
    ids::{PaymentId, PlatformId, RequestId, RequestRowId, SecurePaymentToken},
    ledger::{Credit, Ledger},
    payment::{PayerAccess, Settled},
    request::Request,
};
use alloy::primitives::B256;
use std::collections::{BTreeMap, HashMap};

/// A payment to credit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedPayment {
    /// Its row.
    pub id: PaymentId,
    /// Whether the payment is credited for the first time.
    pub is_new: bool,
    /// Whether an event reported the payment before, and no later event reversed this report.
    pub is_told: bool,
}

/// Result of crediting payments.
#[derive(Debug, Default)]
pub struct CreditingResult {
    /// The ledgers after the payments, by the position of the request in the given list.
    pub ledgers: BTreeMap<usize, Ledger>,
    /// The events to send, in the order of the payments.
    pub events: Vec<Event>,
    /// The payments that the events report, each with its platform.
    pub told: Vec<(PlatformId, PaymentId)>,
    /// Transaction and request of each payment.
    pub payments: Vec<(B256, RequestId)>,
    /// Number of new payments with a fee shortfall.
    pub shortfalls: u64,
}

/// Credits payments to `requests` in the order of the chain. Each payment comes with the position of its request.
/// `ledgers` are the ledgers before these payments. `tokens` are the link tokens of the requests. They are present when
/// the variants of payment events for client IDs and links are switched on.
pub fn credit(
    requests: &[Request],
    ledgers: BTreeMap<usize, Ledger>,
    counted: impl Iterator<Item = (Settled, usize, CountedPayment)>,
    tokens: Option<&HashMap<RequestRowId, SecurePaymentToken>>,
) -> CreditingResult {
    let mut crediting = CreditingResult {
        ledgers,
        ..CreditingResult::default()
    };
    for (settled, request_row, counted) in counted {
        let Some((request, before)) = requests.get(request_row).zip(crediting.ledgers.get(&request_row)) else {
            continue;
        };
        crediting.payments.push((settled.observed.tx_hash, request.id.clone()));
        crediting.shortfalls += u64::from(counted.is_new && settled.fee_shortfall.is_some());
        let rejected = rejected(&settled, request, &counted);
        let (ledger, told) = before.settle(Credit {
            units: settled.credited,
            tx_hash: settled.observed.tx_hash,
            is_told: counted.is_told,
            is_quoted: settled.is_quoted,
            orchestrator_fees: settled.orchestrator_fees,
        });
        if let Some(settlement) = told {
            crediting.told.push((request.origin.platform.clone(), counted.id));
            let request = Request {
                ledger: ledger.clone(),
                ..request.clone()
            };
            let token = tokens.and_then(|tokens| tokens.get(&request.row));
            let event = Event::PaymentReceived(Box::new(PaymentReceived {
                secure_payment_token: token.map(|token| token.0.clone()),
                ..PaymentReceived::new(settlement, request, settled)
            }));
            let twins = event.twins(tokens.is_some());
            crediting.events.push(event);
            crediting.events.extend(twins);
        }
        crediting.events.extend(rejected);
        crediting.ledgers.insert(request_row, ledger);
    }
    crediting
}

/// The event for a payment by a wallet that is not on the allow list of the link. It is sent for each such payment,
/// even if the wallet was reported before.
fn rejected(settled: &Settled, request: &Request, counted: &CountedPayment) -> Option<Event> {
    let wallet = settled
        .proven
        .payer
        .filter(|_| settled.payer_access == Some(PayerAccess::List))?;
    Some(Event::AccessRejected(Box::new(AccessRejected {
        platform: request.origin.platform.clone(),
        client: request.origin.client.clone(),
        request: request.id.clone(),
        wallet,
        paid: Some(counted.id.clone()),
        occasion: 0,
        at: settled.at,
    })))
}
