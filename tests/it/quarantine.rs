//! Unexpected payments are quarantined: the request shows them, the operator decides, and all other payments proceed.

use crate::support::{
    TestApp,
    chain::{PAYER, transactions},
    receiver::Receiver,
    requests::{fau, request},
};
use alloy::{
    primitives::{B256, U256},
    sol_types::SolCall,
};
use devnet::batch::{MetaDetail, RequestDetail, batchPaymentsCall};
use prs::{
    domain::{
        amount::Amount,
        block_range::BlockRange,
        ids::QuarantineId,
        network::Network,
        oddity::{ConcernedRequest, OddReason, Oddity, OperatorDecision, QuarantineState},
        paying::fee_proxy::Erc20ConversionProxy,
        reconciliation::{DifferenceKind, RecordDifference},
        refusal::RefusalKind,
    },
    flows::{
        FlowError,
        payments::{
            quarantine::{self, QuarantineQuery},
            reconcile,
        },
    },
    store::{self, Scope},
};
use sea_orm::ConnectionTrait;
use serde_json::json;

/// Puts a payment of a request into the quarantine for this reason; returns the id of the quarantine row.
async fn set_aside(app: &TestApp, request_id: &str, reason: OddReason) -> QuarantineId {
    let scope = Scope {
        platform: app.platform.clone(),
        client: None,
    };
    let found = store::requests::find(app.ctx.db.reader(), &scope, request_id).await;
    let request = found.expect("a store").expect("a request");
    let odd = Oddity {
        network: Network::Sepolia,
        block_number: 7,
        tx_hash: Some(B256::repeat_byte(7)),
        position: Some(2),
        reason,
        detail: "seen by node 1".to_owned(),
        concerned: Some(ConcernedRequest {
            platform: request.origin.platform,
            request: request.row,
            stake: None,
        }),
    };
    let id = QuarantineId(app.ctx.ids.ulid());
    let put = store::quarantine::put(app.ctx.db.writer(), &odd, id.clone(), app.ctx.clock.now()).await;
    put.expect("a row");
    id
}

async fn due(app: &TestApp) -> Vec<(u64, u64)> {
    let now = app.ctx.clock.now();
    let due = store::backlogs::due(app.ctx.db.reader(), Network::Sepolia, u32::MAX.into(), now, 10).await;
    due.expect("a store")
        .iter()
        .map(|range| (range.next, range.end))
        .collect()
}

/// Sends a batch payment in FAU with this calldata, and follows the chain until it is final.
async fn send(app: &TestApp, batch: Vec<u8>) {
    let contract = app.devnet().contracts().batch_conversion_payments;
    let fau = app.devnet().tokens().fau;
    app.devnet()
        .approve(PAYER, fau, contract, U256::MAX)
        .await
        .expect("approved");
    let sent = app.devnet().send(PAYER, contract, batch, U256::ZERO).await;
    assert!(sent.expect("mined").status, "the batch succeeds");
    app.settle().await;
}

#[tokio::test]
async fn a_request_shows_quarantined_payments_only_to_its_owner() {
    let app = TestApp::start().await;
    let id = app.create_request(&fau("5")).await;
    let other = app.create_request(&fau("5")).await;
    assert!(app.read_request(&id).await.get("quarantinedPayments").is_none());
    set_aside(&app, &id, OddReason::PathNotHandedOut).await;
    let read = app.read_request(&id).await;
    let shown = json!([{
        "txHash": B256::repeat_byte(7).to_string(), "position": 2, "reason": "path_not_handed_out", "state": "open", "amount": null,
        "firstSeenAt": "2026-01-31T12:00:00.000Z",
    }]);
    assert_eq!(read["quarantinedPayments"], shown);
    assert_eq!((&read["status"], &read["paidAmount"]), (&json!("pending"), &json!("0")));
    assert!(app.read_request(&other).await.get("quarantinedPayments").is_none());
    let (key, _) = app.other_tenant().await;
    let foreign = app
        .get(&format!("/v2/request/{id}"))
        .header("x-api-key", &key)
        .send()
        .await;
    assert_eq!(foreign.status, 404);
}

#[tokio::test]
async fn an_accepted_payment_is_read_again_and_leaves_the_quarantine() {
    let app = TestApp::start().await;
    let request = app.create_request(&fau("5")).await;
    let id = set_aside(&app, &request, OddReason::RateAgeNotHandedOut).await;
    assert_eq!(due(&app).await, []);
    let accepted = quarantine::decide(&app.ctx, &id, OperatorDecision::Accept, Some("the merchant agrees")).await;
    let accepted = accepted.expect("accepted");
    assert_eq!(accepted.state, QuarantineState::Accepted);
    assert_eq!(accepted.note.as_deref(), Some("the merchant agrees"));
    assert_eq!(due(&app).await, [(7, 7)]);
    assert!(app.read_request(&request).await.get("quarantinedPayments").is_none());
    let refused = quarantine::decide(&app.ctx, &id, OperatorDecision::Reject, None).await;
    assert!(
        matches!(&refused, Err(FlowError::Refused(refusal)) if refusal.kind == RefusalKind::Conflict),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_rejected_payment_stays_visible_and_can_be_retried() {
    let app = TestApp::start().await;
    let request = app.create_request(&fau("5")).await;
    let id = set_aside(&app, &request, OddReason::NothingMoved).await;
    let unproven = quarantine::decide(&app.ctx, &id, OperatorDecision::Accept, None).await;
    unproven.expect_err("money that never arrived is never credited");
    quarantine::decide(&app.ctx, &id, OperatorDecision::Reject, None)
        .await
        .expect("rejected");
    assert_eq!(due(&app).await, []);
    let read = app.read_request(&request).await;
    assert_eq!(read["quarantinedPayments"][0]["state"], "rejected");
    assert!(
        quarantine::list(&app.ctx, &QuarantineQuery::default(), false, None)
            .await
            .expect("a list")
            .is_empty()
    );
    assert_eq!(
        quarantine::list(&app.ctx, &QuarantineQuery::default(), true, None)
            .await
            .expect("a list")
            .len(),
        1
    );
    quarantine::decide(&app.ctx, &id, OperatorDecision::Retry, None)
        .await
        .expect("a retry");
    assert_eq!(due(&app).await, [(7, 7)]);
    let on_sepolia = QuarantineQuery {
        network: Some(Network::Sepolia),
        ..QuarantineQuery::default()
    };
    let waiting = quarantine::list(&app.ctx, &on_sepolia, false, None)
        .await
        .expect("a list");
    assert_eq!(waiting[0].state, QuarantineState::Retrying);
    let unknown = quarantine::show(&app.ctx, &QuarantineId("nobody".to_owned())).await;
    unknown.expect_err("no such row");
}

#[tokio::test]
async fn a_conversion_on_other_terms_is_credited_once_the_operator_accepts_it() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let id = app.create_request(&request("10", "USD", "FAU-sepolia")).await;
    let mut steps = transactions(&app.calldata(&id, "").await);
    let payment = &mut steps.last_mut().expect("a payment").1;
    let mut call =
        Erc20ConversionProxy::transferFromWithReferenceAndFeeCall::abi_decode(payment).expect("a conversion");
    call.maxRateTimespan = U256::from(1_000_000_000);
    *payment = call.abi_encode();
    app.devnet().pay(PAYER, &steps).await.expect("mined");
    let other = app.paid_request("5").await;
    app.settle().await;
    assert_eq!(
        app.read_request(&other).await["status"],
        "paid",
        "all other payments proceed"
    );
    let read = app.read_request(&id).await;
    assert_eq!(read["status"], "pending");
    assert_eq!(read["quarantinedPayments"][0]["reason"], "rate_age_not_handed_out");
    let waiting = quarantine::list(&app.ctx, &QuarantineQuery::default(), false, None)
        .await
        .expect("a list");
    let row = &waiting[0].id;
    quarantine::decide(&app.ctx, row, OperatorDecision::Retry, None)
        .await
        .expect("a retry");
    app.settle().await;
    assert_eq!(
        app.read_request(&id).await["status"],
        "pending",
        "a retry does not credit an unexpected payment"
    );
    let again = quarantine::show(&app.ctx, row).await.expect("a row");
    assert_eq!(
        (again.state, again.attempts),
        (QuarantineState::Open, 2),
        "the reason is unchanged"
    );
    assert_eq!(due(&app).await, []);
    quarantine::decide(&app.ctx, row, OperatorDecision::Accept, None)
        .await
        .expect("accepted");
    app.settle().await;
    let read = app.read_request(&id).await;
    assert_eq!(read["status"], "paid");
    assert!(read.get("quarantinedPayments").is_none());
    // The operator may repeat the verdict.
    quarantine::decide(&app.ctx, row, OperatorDecision::Accept, None)
        .await
        .expect("accepted");
    app.settle().await;
    for id in [&id, &other] {
        assert_eq!(
            app.payments_of(id).await.len(),
            1,
            "a payment that is read again is not credited again"
        );
    }
    assert_eq!(receiver.received().await.len(), 2);
    let after = quarantine::show(&app.ctx, row).await.expect("a row");
    assert_eq!(after.state, QuarantineState::Accepted);
    let open = store::quarantine::count_open(app.ctx.db.reader())
        .await
        .expect("a count");
    assert!(open.is_empty());
}

#[tokio::test]
async fn a_transfer_matching_two_platforms_is_credited_to_neither() {
    let app = TestApp::on_chain().await;
    let paid = app.create_request(&fau("5")).await;
    let (key, _) = app.other_tenant().await;
    let other = app.create_request_as(("x-api-key", &key), &fau("5")).await;
    // In a database that is partitioned by owner no other constraint separates two platforms.
    let alike = format!(
        "DROP INDEX requests_reference_key; \
         UPDATE requests SET (salt, reference, reference_topic) = \
           (SELECT one.salt, one.reference, one.reference_topic FROM requests AS one WHERE one.request_id = '{paid}') \
           WHERE request_id = '{other}'"
    );
    let db = app.ctx.db.writer();
    db.execute_unprepared(&alike).await.expect("two requests are alike");
    app.pay(&paid, "").await;
    app.settle().await;
    let read_other = async || {
        let call = app.get(&format!("/v2/request/{other}")).header("x-api-key", &key);
        call.send().await.expect(200)
    };
    for read in [app.read_request(&paid).await, read_other().await] {
        assert_eq!((&read["status"], &read["paidAmount"]), (&json!("pending"), &json!("0")));
        assert!(
            read.get("quarantinedPayments").is_none(),
            "neither owner learns of the other request"
        );
    }
    let waiting = quarantine::list(&app.ctx, &QuarantineQuery::default(), false, None)
        .await
        .expect("a list");
    let [row] = waiting.as_slice() else {
        panic!("one transfer has one quarantine row: {waiting:?}")
    };
    let detail = &row.oddity.detail;
    assert!(detail.contains(&paid) && detail.contains(&other), "{detail}");
    let accepted = quarantine::decide(&app.ctx, &row.id, OperatorDecision::Accept, None).await;
    accepted.expect_err("the right request is unknown");
    let mut compared = Vec::new();
    let mut tell = |found: &RecordDifference| compared.push((found.kind, found.detail.clone()));
    let chain = app.ctx.partners.chains.followed[&Network::Sepolia].clone();
    let to = app.devnet().block_number().await.expect("a height");
    let report = reconcile::run(&app.ctx, chain.as_ref(), BlockRange { from: 1, to }, true, &mut tell).await;
    assert_eq!(report.expect("compared").failures, 1);
    assert_eq!(
        compared,
        [(DifferenceKind::Uncompared, detail.clone())],
        "uncredited money is reported"
    );
    let apart = format!("UPDATE requests SET reference_topic = reference || salt WHERE request_id = '{other}'");
    db.execute_unprepared(&apart)
        .await
        .expect("the two requests differ again");
    quarantine::decide(&app.ctx, &row.id, OperatorDecision::Retry, None)
        .await
        .expect("a retry");
    app.settle().await;
    assert_eq!(app.read_request(&paid).await["status"], "paid");
    assert_eq!(read_other().await["status"], "pending");
    assert_eq!(app.payments_of(&paid).await.len(), 1);
}

#[tokio::test]
async fn a_repeated_verdict_keeps_the_first_one() {
    let app = TestApp::start().await;
    let request = app.create_request(&fau("5")).await;
    for (reason, verdict) in [
        (OddReason::PathNotHandedOut, OperatorDecision::Accept),
        (OddReason::NothingMoved, OperatorDecision::Reject),
    ] {
        let id = set_aside(&app, &request, reason).await;
        let first = quarantine::decide(&app.ctx, &id, verdict, Some("first"))
            .await
            .expect("decided");
        let waiting = due(&app).await;
        app.advance_ms(5_000);
        let second = quarantine::decide(&app.ctx, &id, verdict, Some("second"))
            .await
            .expect("decided");
        assert_eq!(second, first, "{verdict:?}");
        assert_eq!(due(&app).await, waiting, "{verdict:?}");
    }
}

#[tokio::test]
async fn a_real_payment_is_found_among_a_strangers_dust() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&request("10", "USD", "FAU-sepolia")).await;
    let mut steps = transactions(&app.calldata(&id, "").await);
    let payment = steps.last_mut().expect("a payment").1.clone();
    let call = Erc20ConversionProxy::transferFromWithReferenceAndFeeCall::abi_decode(&payment).expect("a conversion");
    let dust = RequestDetail {
        recipient: call.to,
        requestAmount: U256::from(1_000),
        path: call.path.clone(),
        paymentReference: call.paymentReference.clone(),
        feeAmount: U256::ZERO,
        maxToSpend: U256::from(10).pow(U256::from(18)),
        maxRateTimespan: U256::from(1_000_000_000),
    };
    let batch = batchPaymentsCall {
        metaDetails: vec![MetaDetail {
            paymentNetworkId: U256::ZERO,
            requestDetails: vec![dust; 110],
        }],
        pathsToUSD: Vec::new(),
        feeAddress: app.devnet().accounts()[6].address,
    };
    send(&app, batch.abi_encode()).await;
    let waiting = quarantine::list(&app.ctx, &QuarantineQuery::default(), false, None)
        .await
        .expect("a list");
    assert!(waiting.is_empty(), "dust awaits no decision");
    let customer = Erc20ConversionProxy::transferFromWithReferenceAndFeeCall {
        maxRateTimespan: U256::from(1_000_000_000),
        ..call
    };
    steps.last_mut().expect("a payment").1 = customer.abi_encode();
    app.devnet().pay(PAYER, &steps).await.expect("mined");
    app.settle().await;
    let read = app.read_request(&id).await;
    let shown = read["quarantinedPayments"].as_array().expect("a list");
    assert_eq!((shown.len(), &read["quarantinedPaymentsTotal"]), (100, &json!(111)));
    assert_eq!(
        (&shown[0]["amount"], &shown[0]["state"]),
        (&json!("10"), &json!("open"))
    );
    assert_eq!(
        (&shown[1]["amount"], &shown[1]["state"]),
        (&json!("0.00001"), &json!("minor"))
    );
    let large = QuarantineQuery {
        request_id: Some(id.clone()),
        min_amount: Some(Amount::parse("9.5").expect("an amount")),
        ..QuarantineQuery::default()
    };
    let found = quarantine::list(&app.ctx, &large, true, None).await.expect("a list");
    assert_eq!(found.len(), 1);
    quarantine::decide(&app.ctx, &found[0].id, OperatorDecision::Accept, None)
        .await
        .expect("accepted");
    app.settle().await;
    assert_eq!(app.read_request(&id).await["status"], "paid");
    let of_request = QuarantineQuery {
        min_amount: None,
        ..large
    };
    assert_eq!(
        quarantine::reject_all(&app.ctx, &of_request, None)
            .await
            .expect("rejected"),
        110
    );
    let unknown = QuarantineQuery {
        request_id: Some("01nobody".to_owned()),
        ..QuarantineQuery::default()
    };
    quarantine::list(&app.ctx, &unknown, true, None)
        .await
        .expect_err("no such request");
    quarantine::reject_all(&app.ctx, &QuarantineQuery::default(), None)
        .await
        .expect_err("never everything");
}

#[tokio::test]
async fn a_request_with_many_payments_shows_the_largest_and_the_count() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&request("10", "USD", "FAU-sepolia")).await;
    let mut steps = transactions(&app.calldata(&id, "&amount=4").await);
    let payment = steps.pop().expect("a payment");
    let call = Erc20ConversionProxy::transferFromWithReferenceAndFeeCall::abi_decode(&payment.1).expect("a conversion");
    let dust = RequestDetail {
        recipient: call.to,
        requestAmount: U256::from(1_000),
        path: call.path.clone(),
        paymentReference: call.paymentReference.clone(),
        feeAmount: U256::ZERO,
        maxToSpend: U256::from(10).pow(U256::from(18)),
        maxRateTimespan: call.maxRateTimespan,
    };
    let batch = batchPaymentsCall {
        metaDetails: vec![MetaDetail {
            paymentNetworkId: U256::ZERO,
            requestDetails: vec![dust; 105],
        }],
        pathsToUSD: Vec::new(),
        feeAddress: app.devnet().accounts()[6].address,
    };
    steps.push(payment);
    app.devnet().pay(PAYER, &steps).await.expect("mined");
    send(&app, batch.abi_encode()).await;
    let read = app.read_request(&id).await;
    let shown = read["payments"].as_array().expect("a list");
    assert_eq!((shown.len(), &read["paymentsTotal"]), (100, &json!(106)));
    assert_eq!(
        (&shown[0]["amount"], &read["paidAmount"]),
        (&json!("4"), &json!("4.00105"))
    );
}
