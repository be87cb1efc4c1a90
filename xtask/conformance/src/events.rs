//! Checks a test event and the event of a payment. The receiver refuses the first attempt of the payment event. The
//! checks cover body, headers and signature of both events, and what the API reports about them.

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

/// Name of the events in the report.
const WEBHOOKS: &str = "webhooks";

/// The operation that sends a test event.
const TEST: &str = "testWebhooks";

/// The operation that streams events.
const STREAM: &str = "followEvents";

/// How long an event may take to arrive, including the payment that causes it.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the next attempt of a refused delivery may take to arrive. It is due a second after the refusal.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the service may take to record an accepted delivery.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);

/// An event id that sorts before all others; a stream that starts after it begins with the oldest event.
const BEFORE_ALL: &str = "00000000000000000000000000";

/// Type of a test event.
const TEST_HEADER: &str = "x-service-test";

/// Header with the number of previous attempts.
const COUNT_HEADER: &str = "x-service-retry-count";

/// Header with the delivery id, the same for each of its attempts.
const DELIVERY_HEADER: &str = "x-service-delivery";

/// How the receiver of a run responds: it refuses the first attempt of a payment event, so that the service makes a
/// second attempt.
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

/// Sends a test event and checks its signature.
pub(crate) fn test(walk: &mut Walk<'_>, receiver: Option<&Hooks>) {
    let (asked, arrived) = match ask_for_test(walk, receiver) {
        Ok((asked, receiver, secret)) => (asked, waited_for(arrival_of_test(receiver, &secret))),
        Err(Ended::Missing(Missing(why))) => (Verdict::LeftOut(why.clone()), Verdict::LeftOut(why)),
        Err(ended) => (
            Verdict::from(ended),
            Verdict::LeftOut("it is unknown whether the event was sent".to_owned()),
        ),
    };
    walk.report.add(TEST, "200", asked);
    walk.report.add(WEBHOOKS, "test event", arrived);
}

/// The verdict on a check that waited for an event. If the user stopped the run meanwhile, a failure counts as skipped.
fn waited_for(ended: Result<Verdict, Ended>) -> Verdict {
    match ended.unwrap_or_else(Verdict::from) {
        Verdict::Failed(_) if command::interrupted() => Verdict::LeftOut(STOPPED.to_owned()),
        verdict => verdict,
    }
}

/// Asks for a test event. Returns the verdict on the response, the receiver of the event, and the secret that signs it.
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

/// Pays a request on the chain. The receiver refuses the payment event once, so it must arrive again with the same
/// bytes and identity. Both attempts must match the schema and the signature. Then checks what the API reports about
/// the event.
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

/// Pays a request with the calldata that the deployment returns.
fn pay(walk: &Walk<'_>, chain: &Chain, request_id: &str) -> Result<(), Ended> {
    let payer = walk.filled("{payer}")?;
    let (is_on, meant) = (chain.id()?.to_string(), walk.filled("{chainId}")?);
    if is_on != meant {
        return Err(anyhow!("the node is on chain {is_on}, but the currency is on {meant}: no payment is sent").into());
    }
    let (operation, headers) = (walk.operation("getPaymentCalldata")?, walk.headers(Credential::Key)?);
    let path = operation.path.replace("{requestId}", request_id);
    let calldata = walk.call(operation, &path, &format!("wallet={payer}"), &headers, "")?;
    let sent = chain.send_all(&calldata.json(), &payer);
    Ok(sent.map(drop).context("the payment on the chain")?)
}

/// The problems with the attempts of one delivery whose first attempt the receiver refused.
fn tried(tries: &[Delivery], secret: &str) -> Result<Vec<String>> {
    let [first, second, ..] = tries else {
        return Ok(vec![match tries.len() {
            0 => format!("no {EVENT} for the paid request"),
            _ => "a refused delivery was not repeated".to_owned(),
        }]);
    };
    let mut wrong = body_flaws(&first.body)?;
    for (number, delivery) in [first, second].into_iter().enumerate() {
        if let Err(error) = delivery.verify(secret) {
            wrong.push(format!("try {}: {error:#}", number + 1));
        }
        if delivery.headers.get(COUNT_HEADER) != Some(&number.to_string()) {
            wrong.push(format!("attempt {} has a wrong {COUNT_HEADER}", number + 1));
        }
    }
    if first.headers.get(DELIVERY_HEADER) != second.headers.get(DELIVERY_HEADER) {
        wrong.push(format!("the second attempt has another {DELIVERY_HEADER}"));
    }
    if first.body != second.body {
        wrong.push("the second attempt has another body".to_owned());
    }
    Ok(wrong)
}

/// Violations of the event's schema in a body.
fn body_flaws(body: &[u8]) -> Result<Vec<String>> {
    let body: Value = serde_json::from_slice(body).context("an event is not JSON")?;
    Ok(flaws(&validator(&event_schema(EVENT)?)?, &body))
}

/// Waits until the delivery is recorded as delivered, which happens after the receiver responded.
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

/// Streams the events from the oldest one, and reads the first message.
fn followed(walk: &Walk<'_>) -> Result<Verdict, Ended> {
    walk.filled("{eventId}")?;
    let (operation, headers) = (walk.operation(STREAM)?, walk.headers(Credential::Key)?);
    let query = format!("after={BEFORE_ALL}");
    let exchange = walk.call(operation, operation.path, &query, &headers, "")?;
    Ok(if exchange.body.is_empty() {
        Verdict::Failed(vec!["the stream ended before its first message".to_owned()])
    } else {
        walk.judged(operation, &exchange, 200)
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
    fn only_the_first_attempt_of_a_payment_event_is_refused() {
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
        // These attempts match no schema, have no valid signature, report no second attempt, and differ in their
        // bodies.
        assert!(tried(&[delivery("0", "{}"), delivery("0", "[]")], "").unwrap().len() >= 5);
    }
}
