//! Events: a test event, and one of a payment whose first try is refused; their bodies, headers, signatures, and what the
//! interface tells of them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use xtask::machine::command::{self, POLL};
use xtask::service::chain::Chain;
use xtask::service::delivery::{Delivery, EVENT};
use xtask::service::hooks::Hooks;

use crate::document::event_schema;
use crate::judge::{flaws, validator};
use crate::plan::{Credential, EVENTS};
use crate::report::Verdict;
use crate::walk::{Ended, Missing, STOPPED, Walk, missing};

/// Under which name events stand in the report.
const WEBHOOKS: &str = "webhooks";

/// The operation that sends a test event.
const TEST: &str = "testWebhooks";

/// The operation that goes on telling of events.
const STREAM: &str = "followEvents";

/// How long an event may take to arrive, its payment included.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the next try of a refused delivery may take; it comes after a second.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a delivery that arrived may take to be known as such.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);

/// An event before all others, after which a stream begins with the oldest one.
const BEFORE_ALL: &str = "00000000000000000000000000";

/// Marks a test event.
const TEST_HEADER: &str = "x-service-test";

/// How many tries came before.
const COUNT_HEADER: &str = "x-service-retry-count";

/// Names a delivery, the same for each of its tries.
const DELIVERY_HEADER: &str = "x-service-delivery";

/// How the receiver of a run answers: the first try of an event about a payment is refused, to see the next one.
pub(crate) fn refused_once(delivery: &Delivery) -> u16 {
    let is_test = delivery.headers.contains_key(TEST_HEADER);
    let is_first = delivery.headers.get(COUNT_HEADER).is_some_and(|count| count == "0");
    let is_replay = delivery.headers.contains_key("x-service-replay");
    let event: Value = serde_json::from_slice(&delivery.body).unwrap_or_default();
    if event["event"] == EVENT && is_first && !is_test && !is_replay {
        503
    } else {
        200
    }
}

/// A test event is sent, and its signature fits.
pub(crate) fn test(walk: &mut Walk<'_>, receiver: Option<&Hooks>) {
    let (asked, arrived) = match ask_for_test(walk, receiver) {
        Ok((asked, receiver, secret)) => (asked, waited_for(arrival_of_test(receiver, &secret))),
        Err(Ended::Missing(Missing(why))) => (Verdict::LeftOut(why.clone()), Verdict::LeftOut(why)),
        Err(ended) => (
            Verdict::from(ended),
            Verdict::LeftOut("whether it was sent is not known".to_owned()),
        ),
    };
    walk.report.add(TEST, "200", asked);
    walk.report.add(WEBHOOKS, "test event", arrived);
}

/// What was waited for; that it did not come before a stop says nothing.
fn waited_for(ended: Result<Verdict, Ended>) -> Verdict {
    match ended.unwrap_or_else(Verdict::from) {
        Verdict::Failed(_) if command::interrupted() => Verdict::LeftOut(STOPPED.to_owned()),
        verdict => verdict,
    }
}

/// What was answered, who receives the event, and with which secret it is signed.
fn ask_for_test<'r>(walk: &Walk<'_>, receiver: Option<&'r Hooks>) -> Result<(Verdict, &'r Hooks, String), Ended> {
    let receiver = receiver.ok_or_else(|| missing("receiver"))?;
    let secret = walk.filled("{secret}")?;
    let (operation, headers) = (walk.operation(TEST)?, walk.headers(Credential::Key)?);
    let body = json!({ "eventType": EVENT }).to_string();
    let answer = walk.call(operation, operation.path, "", &headers, &body)?;
    Ok((walk.judged(operation, &answer, 200), receiver, secret))
}

fn arrival_of_test(receiver: &Hooks, secret: &str) -> Result<Verdict, Ended> {
    let is_meant = |event: &Value, delivery: &Delivery| {
        event["event"] == EVENT && delivery.headers.contains_key(TEST_HEADER) && delivery.verify(secret).is_ok()
    };
    let wrong = match receiver.wait(1, EVENT_TIMEOUT, is_meant).first() {
        Some(delivery) => body_flaws(&delivery.body)?,
        None => vec![format!("no signed test event after {} s", EVENT_TIMEOUT.as_secs())],
    };
    Ok(Verdict::of(wrong))
}

/// A request is paid on the chain; its event is refused once, comes again with the same bytes and identity, and fits its
/// schema and its signature both times. Then what the interface tells of it is read.
pub(crate) fn payment(walk: &mut Walk<'_>, chain: Option<&Chain>, receiver: Option<&Hooks>) {
    let verdict = waited_for(paid(walk, chain, receiver));
    walk.report.add(WEBHOOKS, "payment, retry, signatures", verdict);
    walk.steps(EVENTS);
    let verdict = followed(walk).unwrap_or_else(Verdict::from);
    walk.report.add(STREAM, "200", verdict);
}

fn paid(walk: &mut Walk<'_>, chain: Option<&Chain>, receiver: Option<&Hooks>) -> Result<Verdict, Ended> {
    let receiver = receiver.ok_or_else(|| missing("receiver"))?;
    let chain = chain.ok_or_else(|| missing("paidRequestId"))?;
    let (request_id, secret) = (walk.filled("{requestId}")?, walk.filled("{secret}")?);
    pay(walk, chain, &request_id)?;
    let tries = receiver.wait(2, EVENT_TIMEOUT + RETRY_TIMEOUT, |event, delivery| {
        let is_meant = event["event"] == EVENT && event["requestId"] == request_id.as_str();
        is_meant && !delivery.headers.contains_key(TEST_HEADER)
    });
    let wrong = tried(&tries, &secret)?;
    if wrong.is_empty() {
        walk.values.insert("paidRequestId".to_owned(), request_id);
        wait_until_recorded(walk)?;
    }
    Ok(Verdict::of(wrong))
}

/// Pays a request with the calldata that the deployment gives.
fn pay(walk: &Walk<'_>, chain: &Chain, request_id: &str) -> Result<(), Ended> {
    let payer = walk.filled("{payer}")?;
    let (is_on, meant) = (chain.id()?.to_string(), walk.filled("{chainId}")?);
    if is_on != meant {
        return Err(anyhow!("the node is on chain {is_on}, and the currency on {meant}: nothing is paid").into());
    }
    let (operation, headers) = (walk.operation("getPaymentCalldata")?, walk.headers(Credential::Key)?);
    let path = operation.path.replace("{requestId}", request_id);
    let calldata = walk.call(operation, &path, &format!("wallet={payer}"), &headers, "")?;
    let sent = chain.send_all(&calldata.json(), &payer);
    Ok(sent.map(drop).context("the payment on the chain")?)
}

/// What is wrong with the tries of one delivery, of which the first was refused.
fn tried(tries: &[Delivery], secret: &str) -> Result<Vec<String>> {
    let [first, second, ..] = tries else {
        return Ok(vec![match tries.len() {
            0 => format!("no {EVENT} of a request that was paid"),
            _ => "a refused delivery did not come again".to_owned(),
        }]);
    };
    let mut wrong = body_flaws(&first.body)?;
    for (number, delivery) in [first, second].into_iter().enumerate() {
        if let Err(error) = delivery.verify(secret) {
            wrong.push(format!("try {}: {error:#}", number + 1));
        }
        if delivery.headers.get(COUNT_HEADER) != Some(&number.to_string()) {
            wrong.push(format!("try {} does not say so in {COUNT_HEADER}", number + 1));
        }
    }
    if first.headers.get(DELIVERY_HEADER) != second.headers.get(DELIVERY_HEADER) {
        wrong.push(format!("the second try has another {DELIVERY_HEADER}"));
    }
    if first.body != second.body {
        wrong.push("the second try has another body".to_owned());
    }
    Ok(wrong)
}

/// What a body has that the schema of its event does not say.
fn body_flaws(body: &[u8]) -> Result<Vec<String>> {
    let body: Value = serde_json::from_slice(body).context("an event is no JSON")?;
    Ok(flaws(&validator(&event_schema(EVENT)?)?, &body))
}

/// Waits until the delivery is known to have arrived, which is noted after the receiver answered.
fn wait_until_recorded(walk: &Walk<'_>) -> Result<(), Ended> {
    let (operation, headers) = (walk.operation("listDeliveries")?, walk.headers(Credential::Key)?);
    let query = walk.filled("endpointId={webhookId}&state=delivered")?;
    let deadline = Instant::now() + RECORD_TIMEOUT;
    while Instant::now() < deadline && !command::interrupted() {
        let listed = walk.call(operation, operation.path, &query, &headers, "")?.json();
        let mut deliveries = listed["deliveries"].as_array().into_iter().flatten();
        if deliveries.any(|delivery| delivery["isTest"] == false) {
            break;
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Follows the events from the oldest one, and reads the first message.
fn followed(walk: &Walk<'_>) -> Result<Verdict, Ended> {
    walk.filled("{eventId}")?;
    let (operation, headers) = (walk.operation(STREAM)?, walk.headers(Credential::Key)?);
    let query = format!("after={BEFORE_ALL}");
    let exchange = walk.call(operation, operation.path, &query, &headers, "")?;
    Ok(match exchange.body.is_empty() {
        true => Verdict::Failed(vec!["the stream ended before it said anything".to_owned()]),
        false => walk.judged(operation, &exchange, 200),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn delivery(count: &str, body: &str) -> Delivery {
        Delivery {
            headers: BTreeMap::from([(COUNT_HEADER.to_owned(), count.to_owned())]),
            body: body.as_bytes().to_vec(),
            arrived: Instant::now(),
        }
    }

    #[test]
    fn only_the_first_try_about_a_payment_is_refused() {
        let body = json!({ "event": EVENT }).to_string();
        assert_eq!(refused_once(&delivery("0", &body)), 503);
        assert_eq!(refused_once(&delivery("1", &body)), 200);
        assert_eq!(refused_once(&delivery("0", r#"{"event":"payer.updated"}"#)), 200);
        for header in [TEST_HEADER, "x-service-replay"] {
            let mut other = delivery("0", &body);
            other.headers.insert(header.to_owned(), "true".to_owned());
            assert_eq!(refused_once(&other), 200, "{header}");
        }
    }

    #[test]
    fn a_delivery_that_does_not_come_again_is_wrong() {
        assert_eq!(tried(&[], "").unwrap().len(), 1);
        assert_eq!(tried(&[delivery("0", "{}")], "").unwrap().len(), 1);
        // No schema, no signature twice, no count, another body.
        assert!(tried(&[delivery("0", "{}"), delivery("0", "[]")], "").unwrap().len() >= 5);
    }
}
