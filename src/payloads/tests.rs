//! Event bodies for the facts that flows publish.

use super::{
    KINDS, ProcessorNames, body,
    forms::foreign,
    render::{normalise, render},
    sample,
};
use crate::domain::{
    address::Address,
    amount::Amount,
    currency::{Catalogue, Currency},
    event::{
        AccessRejected, AgreementStatus, CLIENT_KINDS, ChainTransaction, ClientIdLinked, ComplianceUpdated, Event,
        EventAudience, ForeignJson, KycStatus, ORCHESTRATOR_KINDS, PayerStep, PaymentDetailStatus,
        PaymentDetailUpdated, PaymentFailed, PaymentProcessing, PaymentReceived, PaymentRefunded, PaymentReversed,
        RequestRecurring, ScreeningCompleted, WebhookDisabled,
    },
    ids::{ClientRowId, EndpointId, OwnerId, PayerId, PaymentId, PlatformId, RequestId, RequestRowId},
    ledger::{Ledger, RequestStatus, Settlement},
    network::Network,
    off_ramp::OffRampStatus,
    payment::{Observation, ObservedConversion, PaymentKind, ProvenTransfer, ReversalReason, Settled},
    reference::PaymentReference,
    request::{
        Origin, Request,
        price::PriceTerms,
        terms::{CustomerInfo, Terms},
    },
    screening::ScreeningStatus,
    secure_payment::step::PayerStepKind,
};
use alloy::primitives::{B256, U256};
use chrono::DateTime;
use serde_json::{Value, json};
use std::{
    collections::{HashMap, HashSet},
    io::Write,
    process::{Command, Stdio},
};

fn currency(id: &str, symbol: &str, decimals: u8, network: Option<Network>) -> Currency {
    Currency {
        id: id.to_owned(),
        ..Currency::sample(symbol, decimals, network)
    }
}

fn received(invoice: &str, settlement: Settlement) -> (Event, Catalogue) {
    let catalogue = Catalogue::new(
        vec![
            currency("USD", "USD", 2, None),
            currency("USDC-base", "USDC", 6, Some(Network::Base)),
        ],
        HashMap::new(),
        [Network::Base].into(),
    );
    let wallet = Address::parse("0xb07D2398d2004378cad234DA0EF14f1c94A530e4").unwrap();
    let is_fiat = invoice == "USD";
    let units = U256::from(100_515_077_u64);
    let credited = if is_fiat { U256::from(10_050_000_000_u64) } else { units };
    let request = Request {
        row: RequestRowId(String::new()),
        id: RequestId("01ab".to_owned()),
        salt: String::new(),
        reference: PaymentReference([1; 8]),
        origin: Origin {
            platform: PlatformId(String::new()),
            client: None,
            client_id: Some("cli_abcdefghijklmnopqrstuvwxyz0123".to_owned()),
            page: None,
            orchestrator: None,
        },
        terms: Terms {
            kind: PaymentKind::Direct,
            network: Network::Base,
            payee: Some(wallet),
            payer: None,
            amount: Amount::parse("100.5").unwrap(),
            invoice_currency: invoice.to_owned(),
            payment_currency: "USDC-base".to_owned(),
            token: Some(wallet),
            merchant_reference: Some("order \u{2028} \"1\"".to_owned()),
            customer: Some(CustomerInfo {
                first_name: Some("Ada".to_owned()),
                ..CustomerInfo::default()
            }),
            recurrence: None,
            original_request_id: None,
            original_request_reference: None,
            is_crypto_to_fiat: false,
            schedule: None,
            is_quoted: false,
            price: PriceTerms::default(),
        },
        ledger: Ledger {
            credited,
            payment_count: 1,
            status: RequestStatus::Paid,
            ..Ledger::new(if is_fiat { credited } else { U256::from(100_500_000_u64) })
        },
        created_at: DateTime::UNIX_EPOCH,
        is_hidden: false,
        link_until: None,
        is_by_public_client: false,
    };
    let observed = Observation {
        network: Network::Base,
        tx_hash: B256::repeat_byte(7),
        position: 0,
        block_number: 1,
        block_hash: B256::ZERO,
        log_index: 0,
        proxy: wallet,
        reference_topic: B256::ZERO,
        token: Some(wallet),
        payee: wallet,
        units,
        fee_units: U256::from(250_000),
        fee_address: Some(wallet),
        conversion: is_fiat.then_some(ObservedConversion {
            invoice_units: credited,
            invoice_fee_units: U256::ZERO,
            currency: wallet,
            max_rate_timespan_s: U256::ZERO,
        }),
    };
    let payment = Settled {
        observed,
        proven: ProvenTransfer {
            received_units: units,
            payer: Some(wallet),
            payer_eoa: None,
        },
        credited,
        applied: None,
        is_quoted: false,
        fee_shortfall: None,
        further_fees: Vec::new(),
        orchestrator_fees: Default::default(),
        payer_access: None,
        is_execution: false,
        at: DateTime::from_timestamp_millis(1_900_000_000_123).unwrap(),
    };
    let event = Event::PaymentReceived(Box::new(PaymentReceived::new(settlement, request, payment)));
    (event, catalogue)
}

#[test]
fn a_confirmed_payment_has_every_contract_member() {
    let (event, catalogue) = received("USDC-base", Settlement::Confirmed);
    let text = body(&event, &catalogue, &ProcessorNames::default());
    assert!(text.starts_with(r#"{"event":"payment.confirmed","requestId":"01ab","requestID":"01ab","#));
    let body: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(body["amount"], "100.515077");
    assert_eq!(body["totalAmountPaid"], "100.515077");
    assert_eq!(body["expectedAmount"], "100.5");
    assert_eq!(body["excessAmount"], "0.015077");
    assert_eq!(body["timestamp"], "2030-03-17T17:46:40.123Z");
    assert_eq!(body["network"], "base");
    assert_eq!(body["currency"], "USDC");
    assert_eq!(body["payerEoaAddress"], Value::Null);
    assert_eq!(body["subStatus"], "");
    assert_eq!(body["paymentProcessor"], "service-network");
    assert_eq!(body["fees"][0]["amount"], "0.25");
    assert_eq!(body["clientId"], "cli_abcdefghijklmnopqrstuvwxyz0123");
    assert_eq!(body["customerInfo"]["firstName"], "Ada");
    assert_eq!(body["reference"], "order \u{2028} \"1\"");
    assert!(body.get("origin").is_none());
    assert!(body.get("conversionRate").is_none());
    assert_eq!(text, normalise(body).to_string());
}

#[test]
fn a_converted_payment_contains_the_paid_amount_and_rate() {
    let (event, catalogue) = received("USD", Settlement::Partial);
    let body: Value = serde_json::from_str(&body(&event, &catalogue, &ProcessorNames::default())).unwrap();
    assert_eq!(body["event"], "payment.partial");
    assert_eq!(body["currency"], "USD");
    assert_eq!(body["paymentCurrency"], "USDC");
    assert_eq!(body["amount"], "100.5");
    assert_eq!(body["convertedAmountSource"], "100.515077");
    assert_eq!(body["convertedAmountDestination"], "100.515077");
    assert_eq!(body["conversionRate"], "0.999850002602097195");
    assert_eq!(body["rateProvider"], "chainlink");
    assert!(body.get("excessAmount").is_none());
}

/// A text that breaks naive JSON writers.
const HOSTILE_TEXT: &str = "</script>\u{2028}\u{2029}\u{0}\u{7f}\u{feff}\"\\/\r\n\t👩‍🚀 e\u{301}";

/// One event of every kind. All texts of third parties in it are `text`, and all their objects are `json`.
fn every_event(text: &str, json: &str) -> (Vec<Event>, Catalogue) {
    let (plain, catalogue) = received("USDC-base", Settlement::Confirmed);
    let Event::PaymentReceived(base) = plain else {
        unreachable!("a payment")
    };
    let mut base = *base;
    base.secure_payment_token = Some("01JZX4T9QK3M7N8P2R5S6V0WYB".to_owned());
    base.recurring_payment = Some("rec_1".to_owned());
    base.request.origin.client = Some(ClientRowId("row".to_owned()));
    base.request.origin.page = Some("https://shop.example.com".to_owned());
    base.request.terms.merchant_reference = Some(text.to_owned());
    base.request.terms.customer = Some(CustomerInfo {
        first_name: Some(text.to_owned()),
        ..CustomerInfo::default()
    });
    let request = base.request.clone();
    let wallet = Address::parse("0xb07D2398d2004378cad234DA0EF14f1c94A530e4").unwrap();
    let tron = Address::parse("TJRabPrwbZy45sbavfcjinPJC18kjpRTv8").unwrap();
    let at = base.payment.at;
    let payment = base.payment.clone();
    let platform = || PlatformId("platform".to_owned());
    let raw = || ForeignJson(json.to_owned());
    let transaction = ChainTransaction {
        network: Network::Tron,
        hash: "0xab".to_owned(),
    };
    let partial = PaymentReceived {
        settlement: Settlement::Partial,
        ..base.clone()
    };
    let mut events = Vec::new();
    for received in [base, partial] {
        let event = Event::PaymentReceived(Box::new(received));
        let twins = event.twins(true);
        events.push(event);
        events.extend(twins);
    }
    events.push(Event::PaymentReversed(Box::new(PaymentReversed {
        request: request.clone(),
        payment,
        id: PaymentId("01JZX8D4EF5G6H7J8K9MNPQRST".to_owned()),
        reason: ReversalReason::NotOnChain,
    })));
    events.push(Event::PaymentFailed(Box::new(PaymentFailed {
        request: request.clone(),
        reason: "insufficient_funds".to_owned(),
        message: Some(text.repeat(200)),
        execution: 3,
        recurring_payment: Some("rec_1".to_owned()),
        transaction: Some(transaction.clone()),
        at,
    })));
    events.push(Event::PaymentRefunded(Box::new(PaymentRefunded {
        request: request.clone(),
        paid_tx_hash: "0x01".to_owned(),
        network: Network::Base,
        refunded_to: wallet,
        amount: Amount::parse("99.5").unwrap(),
        currency: "USDC-base".to_owned(),
        tx_hash: None,
        at,
    })));
    events.push(Event::PaymentProcessing(Box::new(PaymentProcessing {
        request: request.clone(),
        off_ramp_id: "off_1".to_owned(),
        status: OffRampStatus::OngoingChecks,
        provider_status: text.to_owned(),
        provider_id: "77".to_owned(),
        transaction: Some(transaction),
        at,
    })));
    events.push(Event::RequestRecurring(Box::new(RequestRecurring {
        request: request.clone(),
        original_request_id: "01cd".to_owned(),
        original_request_reference: "0x0202020202020202".to_owned(),
    })));
    events.push(Event::ComplianceUpdated(Box::new(ComplianceUpdated {
        payer: PayerId("01JZX4T9QK3M7N8P2R5S6V0WYB".to_owned()),
        platform: platform(),
        client_user_id: text.to_owned(),
        kyc: KycStatus::Approved,
        agreement: AgreementStatus::Pending,
        version: 2,
        raw: raw(),
        at,
    })));
    events.push(Event::PaymentDetailUpdated(Box::new(PaymentDetailUpdated {
        payer: PayerId("01JZX4T9QK3M7N8P2R5S6V0WYB".to_owned()),
        platform: platform(),
        payment_detail: "7d9f3c52-6b1e-4a8d-9c20-5e4f3a2b1c0d".to_owned(),
        client_user_id: text.to_owned(),
        status: PaymentDetailStatus::Failed,
        rejection_message: Some(text.to_owned()),
        version: 2,
        raw: raw(),
        at,
    })));
    events.push(Event::PayerStep(Box::new(PayerStep {
        platform: platform(),
        client: None,
        secure_payment_token: "01JZX4T9QK3M7N8P2R5S6V0WYB".to_owned(),
        step: PayerStepKind::PaymentSentToWallet,
        requests: vec![RequestId("01ab".to_owned()), RequestId("01cd".to_owned())],
        orchestrator: None,
        occurred_at: at,
        received_at: at,
        properties: raw(),
    })));
    events.push(Event::AccessRejected(Box::new(AccessRejected {
        platform: platform(),
        client: None,
        request: RequestId("01ab".to_owned()),
        wallet,
        paid: None,
        occasion: 1,
        at,
    })));
    events.push(Event::ClientIdLinked(Box::new(ClientIdLinked {
        orchestrator: "01JZX5A1BC2D3E4F5G6H7J8K9M".to_owned(),
        client_id: "cli_abcdefghijklmnopqrstuvwxyz0123".to_owned(),
        link: "01JZX8D4EF5G6H7J8K9MNPQRST".to_owned(),
        intent: "01JZX9E5FG6H7J8K9MNPQRSTVW".to_owned(),
        external_id: None,
        destination_id: "destination".to_owned(),
        wallet,
        network: Network::Base,
        currency_symbol: "USDC".to_owned(),
        at,
    })));
    events.push(Event::ScreeningCompleted(Box::new(ScreeningCompleted {
        orchestrator: "01JZX5A1BC2D3E4F5G6H7J8K9M".to_owned(),
        secure_payment_token: "01JZX4T9QK3M7N8P2R5S6V0WYB".to_owned(),
        wallet: tron,
        eoa: None,
        smart_account: None,
        status: ScreeningStatus::Rejected,
        provider: "screening".to_owned(),
        policy_id: None,
        at,
    })));
    events.push(Event::WebhookDisabled(Box::new(WebhookDisabled {
        owner: OwnerId("platform".to_owned()),
        client: None,
        client_id: None,
        endpoint: EndpointId("01JZX6B2CD3E4F5G6H7J8K9MNP".to_owned()),
        is_approved: true,
        host: "hooks.example.com".to_owned(),
        failing_since: at,
        at,
    })));
    (events, catalogue)
}

/// The body of the first event of a kind.
fn body_of(kind: &str) -> Value {
    let (events, catalogue) = every_event("text", r#"{"level":1.5}"#);
    let event = events.iter().find(|event| event.kind() == kind).unwrap();
    serde_json::from_str(&body(event, &catalogue, &ProcessorNames::default())).unwrap()
}

#[test]
fn every_kind_has_facts_a_schema_and_a_sample() {
    let (events, _) = every_event("text", "{}");
    let told: HashSet<&str> = events.iter().map(Event::kind).collect();
    let known: HashSet<&str> = CLIENT_KINDS.into_iter().chain(ORCHESTRATOR_KINDS).collect();
    let described: HashSet<&str> = KINDS.iter().map(|kind| kind.name).collect();
    assert_eq!(told, known);
    assert_eq!(described, known);
    for kind in known {
        let body: Value = serde_json::from_str(&sample(kind, &ProcessorNames::default()).unwrap()).unwrap();
        assert_eq!(body["event"], kind);
    }
    assert_eq!(sample("payment.unknown", &ProcessorNames::default()), None);
}

#[test]
fn bodies_and_samples_match_the_schema_of_their_kind() {
    let (events, catalogue) = every_event(HOSTILE_TEXT, &super::render::tests::hostile().to_string());
    let names = ProcessorNames::default();
    for kind in KINDS {
        let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
        let mut generator = settings.into_generator();
        let mut schema = (kind.schema)(&mut generator);
        schema.insert("$defs".to_owned(), generator.take_definitions(true).into());
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(schema.as_value())
            .unwrap();
        let told = events.iter().filter(|event| event.kind() == kind.name);
        let bodies = told
            .map(|event| body(event, &catalogue, &names))
            .chain(sample(kind.name, &names));
        for text in bodies {
            let body: Value = serde_json::from_str(&text).unwrap();
            let errors: Vec<String> = validator.iter_errors(&body).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{}: {errors:?} in {text}", kind.name);
            for member in body.as_object().unwrap().keys() {
                assert!(
                    schema.as_value()["properties"].get(member).is_some(),
                    "{}: the schema must describe {member}",
                    kind.name
                );
            }
        }
    }
}

#[test]
fn every_kind_has_the_contract_members_in_order() {
    for (kind, members) in [
        (
            "payment.failed",
            "event requestId requestID paymentReference subStatus paymentProcessor timestamp failureReason \
             recurringPayment explorer",
        ),
        (
            "payment.refunded",
            "event requestId requestID paymentReference refundedTo refundAmount currency timestamp paymentProcessor \
             txHash network",
        ),
        (
            "payment.processing",
            "event requestId requestID paymentReference offrampId timestamp subStatus paymentProcessor rawPayload \
             explorer",
        ),
        (
            "request.recurring",
            "event requestId requestID originalRequestId paymentReference originalRequestPaymentReference timestamp \
             paymentProcessor",
        ),
        (
            "compliance.updated",
            "event clientUserId kycStatus agreementStatus isCompliant timestamp rawPayload",
        ),
        (
            "payment_detail.updated",
            "event paymentDetailsId paymentAccountId clientUserId status rejectionMessage timestamp rawPayload",
        ),
        (
            "secure_payment.user_event",
            "event userEvent securePaymentToken requestIds orchestratorId occurredAt timestamp properties",
        ),
        (
            "secure_payment.access_rejected",
            "event requestId attemptedPayerWalletAddress timestamp",
        ),
        (
            "client_id.linked",
            "event clientId orchestratorId linkId intentId externalId destinationId destinationWalletAddress chain \
             currency timestamp",
        ),
        (
            "kyt.screening.completed",
            "event paymentToken walletAddress eoaAddress smartAccountAddress status provider policyId timestamp",
        ),
    ] {
        let body = body_of(kind);
        let told: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(told, members.split_whitespace().collect::<Vec<_>>(), "{kind}");
    }
}

#[test]
fn facts_are_written_to_their_members() {
    let failed = body_of("payment.failed");
    assert_eq!(failed["explorer"], "https://tronscan.org/#/transaction/ab");
    assert_eq!(failed["recurringPayment"]["id"], "rec_1");
    let refunded = body_of("payment.refunded");
    assert_eq!(
        (&refunded["currency"], &refunded["txHash"]),
        (&json!("USDC"), &Value::Null)
    );
    let processing = body_of("payment.processing");
    assert_eq!(processing["paymentProcessor"], "service-tech");
    assert_eq!(
        processing["rawPayload"],
        json!({ "status": "text", "providerId": "77" })
    );
    let compliance = body_of("compliance.updated");
    assert_eq!(compliance["isCompliant"], false);
    assert_eq!(compliance["rawPayload"], json!({ "level": "1.5" }));
    let detail = body_of("payment_detail.updated");
    assert_eq!(detail["paymentDetailsId"], detail["paymentAccountId"]);
    assert_eq!(
        body_of("secure_payment.access_rejected")["attemptedPayerWalletAddress"],
        "0xb07d2398d2004378cad234da0ef14f1c94a530e4"
    );
    assert_eq!(
        body_of("kyt.screening.completed")["walletAddress"],
        "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8"
    );
}

#[test]
fn a_step_names_its_request_only_when_there_is_exactly_one() {
    let (events, catalogue) = every_event("text", "{}");
    let step = events.iter().find_map(|event| match event {
        Event::PayerStep(step) => Some(step.clone()),
        _ => None,
    });
    let mut step = step.unwrap();
    step.requests.truncate(1);
    let event = Event::PayerStep(step);
    assert_eq!(event.request_id(), Some("01ab"));
    let body: Value = serde_json::from_str(&body(&event, &catalogue, &ProcessorNames::default())).unwrap();
    assert_eq!(
        (&body["requestId"], &body["requestIds"]),
        (&json!("01ab"), &json!(["01ab"]))
    );
}

#[test]
fn partner_texts_are_preserved() {
    for (written, told) in [
        (r#"{"a":1}"#, json!({ "a": 1 })),
        ("[1]", json!({ "text": "[1]" })),
        ("<html>", json!({ "text": "<html>" })),
        ("", json!({ "text": "" })),
    ] {
        assert_eq!(Value::Object(foreign(&ForeignJson(written.to_owned()))), told);
    }
}

#[test]
fn scoped_variants_depend_on_what_created_the_request() {
    let (event, catalogue) = received("USDC-base", Settlement::Partial);
    let kinds = |events: &[Event]| events.iter().map(Event::kind).collect::<Vec<_>>();
    assert!(event.twins(false).is_empty());
    let twins = event.twins(true);
    assert_eq!(kinds(&twins), ["payment.partial.client_id"]);
    assert!(
        twins[0].twins(true).is_empty(),
        "a scoped variant must have no further variants"
    );
    let twin: Value = serde_json::from_str(&body(&twins[0], &catalogue, &ProcessorNames::default())).unwrap();
    assert_eq!(
        (&twin["clientId"], &twin["origin"]),
        (&json!("cli_abcdefghijklmnopqrstuvwxyz0123"), &Value::Null)
    );
    assert_eq!(twins[0].audience(), event.audience());
    let Event::PaymentReceived(mut facts) = event else {
        unreachable!("a payment")
    };
    facts.secure_payment_token = Some("01JZX4T9QK3M7N8P2R5S6V0WYB".to_owned());
    facts.request.origin.client_id = None;
    let twins = Event::PaymentReceived(facts).twins(true);
    assert_eq!(kinds(&twins), ["payment.partial.checkout"]);
    let twin: Value = serde_json::from_str(&body(&twins[0], &catalogue, &ProcessorNames::default())).unwrap();
    assert_eq!(
        (&twin["securePaymentToken"], &twin["clientId"]),
        (&json!("01JZX4T9QK3M7N8P2R5S6V0WYB"), &Value::Null)
    );
}

#[test]
fn every_event_has_a_unique_key() {
    let (events, _) = every_event("a:1", "{}");
    let keys: HashSet<String> = events.iter().map(Event::deduplication_key).collect();
    assert_eq!(keys.len(), events.len());
    for event in &events {
        assert!(event.deduplication_key().starts_with(&format!("{}:", event.kind())));
    }
}

#[test]
fn orchestrators_and_platforms_receive_different_kinds() {
    let (events, _) = every_event("text", "{}");
    for event in events {
        let is_for_orchestrators = matches!(
            event.audience(),
            EventAudience::Orchestrator { .. } | EventAudience::Owner { .. }
        );
        assert_eq!(is_for_orchestrators, ORCHESTRATOR_KINDS.contains(&event.kind()));
        let belongs_to_no_client = matches!(event.audience(), EventAudience::PlatformOnly { .. });
        let is_about_a_payer = ["compliance.updated", "payment_detail.updated"].contains(&event.kind());
        assert_eq!(belongs_to_no_client, is_about_a_payer);
    }
}

#[test]
fn javascript_reserialises_every_body_byte_for_byte() {
    let hostile = super::render::tests::hostile();
    let (events, catalogue) = every_event(HOSTILE_TEXT, &hostile.to_string());
    let names = ProcessorNames::default();
    let mut bodies: Vec<String> = events.iter().map(|event| body(event, &catalogue, &names)).collect();
    bodies.extend(KINDS.iter().filter_map(|kind| sample(kind.name, &names)));
    bodies.push(render(&hostile));
    // A compact body has no line break, so one line is one body.
    let script = "const lines = require('fs').readFileSync(0, 'utf8').split('\\n');\
                  process.stdout.write(lines.map(line => JSON.stringify(JSON.parse(line))).join('\\n'))";
    let child = Command::new("node")
        .args(["-e", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.expect("Node.js is needed to check the bytes");
    let sent = bodies.join("\n");
    child.stdin.take().unwrap().write_all(sent.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let written = String::from_utf8(output.stdout).unwrap();
    let written: Vec<&str> = written.split('\n').collect();
    assert_eq!(written, bodies);
}
