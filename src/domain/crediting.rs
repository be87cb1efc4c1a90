//! What payments that were proven make of their requests, and what is told of them.

use super::{
    event::{AccessRejected, Event, PaymentReceived},
    ids::{PaymentId, PlatformId, RequestId, RequestRowId, SecurePaymentToken},
    ledger::{Credit, Ledger},
    payment::{PayerAccess, Settled},
    request::Request,
};
use alloy::primitives::B256;
use std::collections::{BTreeMap, HashMap};

/// A payment that counts from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedPayment {
    /// Its row.
    pub id: PaymentId,
    /// Whether it never counted before.
    pub is_new: bool,
    /// Whether it was told before, and that was not taken back.
    pub is_told: bool,
}

/// What payments that count from now on make of their requests.
#[derive(Debug, Default)]
pub struct Crediting {
    /// The accounts of the requests with them, by the positions of the requests.
    pub ledgers: BTreeMap<usize, Ledger>,
    /// The events to send, in the order of the payments.
    pub events: Vec<Event>,
    /// The payments that it tells, with their owners.
    pub told: Vec<(PlatformId, PaymentId)>,
    /// Transaction and request of each payment.
    pub payments: Vec<(B256, RequestId)>,
    /// New ones that fall short of a fee.
    pub shortfalls: u64,
}

/// Credits payments that count from now on to `requests`, each by the position of its request, in the order of the chain.
/// `ledgers` are the accounts without them, and `tokens` those of the links of the requests, where twins of events are told.
pub fn credit(
    requests: &[Request],
    ledgers: BTreeMap<usize, Ledger>,
    counted: impl Iterator<Item = (Settled, usize, CountedPayment)>,
    tokens: Option<&HashMap<RequestRowId, SecurePaymentToken>>,
) -> Crediting {
    let mut crediting = Crediting {
        ledgers,
        ..Crediting::default()
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

/// That a wallet paid which is on no list of the link: told of each such payment, however often the wallet was told about.
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
