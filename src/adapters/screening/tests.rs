//! Requests to providers, and invalid responses.

use super::*;
use crate::{
    domain::{address::Address, network::Network, screening::ScreeningStatus, waits::Waits},
    ports::screening::Screener,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;
use wiremock::{Mock, MockServer, ResponseTemplate, matchers::any};

const WALLET: &str = "0x7eB023BFbAeE228de6DC5B92D0BeEB1eDb1Fd567";
const LOWER: &str = "0x7eb023bfbaee228de6dc5b92d0beeb1edb1fd567";

fn wallet() -> Address {
    Address::parse(WALLET).unwrap()
}

async fn server(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(answer).mount(&server).await;
    server
}

fn hypernative(server: &MockServer, policy_id: Option<&str>) -> Hypernative {
    let options = HypernativeOptions {
        url: server.uri().parse().unwrap(),
        timeout: Waits::default().screening,
        client_id: "id".to_owned(),
        client_secret: "secret".to_owned(),
        policy_id: policy_id.map(str::to_owned),
    };
    Hypernative::new(options).unwrap()
}

fn approves() -> ResponseTemplate {
    let told = json!({ "data": [{ "address": LOWER, "recommendation": "Approve" }] });
    ResponseTemplate::new(200).set_body_json(told)
}

#[tokio::test]
async fn hypernative_gets_the_documented_query() {
    let server = server(approves()).await;
    for policy_id in [None, Some("e10bd3b9-89fc-4e78-8ffc-b5602adcfb34")] {
        let screener = hypernative(&server, policy_id);
        let finding = screener.screen(&wallet(), Network::Base).await.unwrap();
        assert_eq!(finding.status, ScreeningStatus::Approved);
        let asked = server.received_requests().await.unwrap().pop().unwrap();
        assert_eq!(
            (asked.method.as_str(), asked.url.path()),
            ("POST", "/screener/reputation")
        );
        assert_eq!(asked.headers["x-client-id"], "id");
        assert_eq!(asked.headers["x-client-secret"], "secret");
        let mut expected = json!({ "addresses": [LOWER] });
        if let Some(policy_id) = policy_id {
            expected["screenerPolicyId"] = json!(policy_id);
        }
        assert_eq!(serde_json::from_slice::<Value>(&asked.body).unwrap(), expected);
    }
}

#[tokio::test]
async fn merkle_science_is_queried_only_about_networks_with_a_number() {
    let told = json!({ "identifier": LOWER, "risk_level": 5, "risk_level_verbose": "Critical", "balance": 1.5 });
    let server = server(ResponseTemplate::new(200).set_body_json(told)).await;
    let options = MerkleScienceOptions {
        // Below a path, as behind a proxy of the operator.
        url: format!("{}/merkle", server.uri()).parse().unwrap(),
        timeout: Waits::default().screening,
        api_key: "key".to_owned(),
        blockchains: BTreeMap::from([(Network::Matic, 9)]),
        reject_from: 3,
    };
    let screener = MerkleScience::new(options).unwrap();
    let finding = screener.screen(&wallet(), Network::Matic).await.unwrap();
    assert_eq!(finding.status, ScreeningStatus::Rejected);
    assert_eq!(finding.raw_status, "5 Critical");
    let asked = server.received_requests().await.unwrap().pop().unwrap();
    assert_eq!(
        (asked.method.as_str(), asked.url.path()),
        ("POST", "/merkle/api/v4.2/addresses/")
    );
    assert_eq!(asked.headers["x-api-key"], "key");
    let expected = json!({ "identifier": LOWER, "blockchain": "9" });
    assert_eq!(serde_json::from_slice::<Value>(&asked.body).unwrap(), expected);
    let error = screener.screen(&wallet(), Network::Base).await.unwrap_err();
    assert_eq!(error.to_string(), "merklescience has no blockchain number for base");
    assert_eq!(server.received_requests().await.unwrap().len(), 1);
}

#[tokio::test]
async fn unusable_responses_are_errors_without_wallet_or_key() {
    let long = "x".repeat(1 << 21);
    for (answer, what) in [
        (ResponseTemplate::new(500), "returned status 500"),
        (ResponseTemplate::new(401), "returned status 401"),
        (ResponseTemplate::new(429), "returned status 429"),
        (ResponseTemplate::new(404), "returned status 404"),
        (
            ResponseTemplate::new(307).insert_header("location", "http://127.0.0.1:9/"),
            "returned status 307",
        ),
        (
            ResponseTemplate::new(200).set_body_string("<html>"),
            "returned something that is not a reputation",
        ),
        (
            ResponseTemplate::new(200).set_body_string(long),
            "returned more than a megabyte",
        ),
    ] {
        let server = server(answer).await;
        let error = hypernative(&server, None)
            .screen(&wallet(), Network::Base)
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), format!("hypernative {what}"));
    }
}

#[tokio::test]
async fn a_query_to_a_hanging_provider_times_out_after_three_seconds() {
    let server = server(approves().set_delay(Duration::from_secs(8))).await;
    let asked = Instant::now();
    let error = hypernative(&server, None)
        .screen(&wallet(), Network::Base)
        .await
        .unwrap_err();
    assert_eq!(error.what, "did not respond in time");
    let took = asked.elapsed();
    assert!(
        took > Duration::from_millis(2_900) && took < Duration::from_secs(5),
        "{took:?}"
    );
}

#[tokio::test]
async fn repeated_failures_pause_a_provider_but_refusals_do_not() {
    let asked = async |status: u16| {
        let server = server(ResponseTemplate::new(status)).await;
        let screener = hypernative(&server, None);
        for _ in 0..10 {
            screener.screen(&wallet(), Network::Base).await.unwrap_err();
        }
        server.received_requests().await.unwrap().len()
    };
    assert_eq!(asked(503).await, 3);
    assert_eq!(asked(400).await, 10);
}

#[tokio::test]
async fn an_unknown_result_for_one_wallet_does_not_pause_the_provider() {
    for entries in [
        json!([{ "address": LOWER, "recommendation": "Review" }]),
        json!([{ "address": LOWER, "recommendation": "Approve" }, { "address": LOWER, "recommendation": "Deny" }]),
    ] {
        let server = server(ResponseTemplate::new(200).set_body_json(json!({ "data": entries }))).await;
        let screener = hypernative(&server, None);
        for _ in 0..10 {
            let error = screener.screen(&wallet(), Network::Base).await.unwrap_err();
            assert!(error.is_answered, "{error}");
        }
        assert_eq!(server.received_requests().await.unwrap().len(), 10);
    }
}
