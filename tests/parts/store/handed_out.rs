//! Calldata that was issued for requests.

use super::{
    on_both,
    samples::{at, request, wallet},
};
use prs::{
    domain::{
        amount::Percent,
        handed_out::HandedOut,
        ids::ClientRowId,
        paying::charge::{Charge, FeeOrigin},
    },
    store::{self, Db},
};
use std::collections::HashMap;

on_both! {
    equal_responses_share_a_row_and_different_ones_keep_their_order
    a_request_finds_only_calldata_issued_for_it
    fees_are_counted_per_caller
}

fn answers() -> Vec<HandedOut> {
    let named = [(250, 7), (250, 8), (10_000, 7), (1, 7)].map(|(points, receiver)| {
        let rate = Percent::from_basis_points(points);
        rate.map(|rate| Charge::platform(FeeOrigin::Call, rate, wallet(receiver)))
    });
    [None].into_iter().chain(named).map(|fee| HandedOut { fee }).collect()
}

async fn equal_responses_share_a_row_and_different_ones_keep_their_order(db: &Db) {
    let request = request("a", 1);
    store::requests::insert(db.writer(), &request).await.unwrap();
    for round in 0..2 {
        for (index, handed) in (0..).zip(answers()) {
            let now = at(100 * round + index);
            store::handed_out::keep(db.writer(), None, &[(&request, &handed)], now)
                .await
                .unwrap();
        }
    }
    let kept = store::handed_out::of_requests(db.reader(), &[&request]).await.unwrap();
    assert_eq!(kept[&request.row], answers());
}

async fn a_request_finds_only_calldata_issued_for_it(db: &Db) {
    let requests = [request("a", 1), request("a", 2), request("b", 3)];
    for request in &requests {
        store::requests::insert(db.writer(), request).await.unwrap();
    }
    for (request, handed) in requests.iter().zip(answers()).skip(1) {
        store::handed_out::keep(db.writer(), None, &[(request, &handed)], at(0))
            .await
            .unwrap();
    }
    let kept = store::handed_out::of_requests(db.reader(), &[&requests[0], &requests[1]])
        .await
        .unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[&requests[1].row], [answers()[1]]);
    let others = prs::domain::request::Request {
        origin: requests[2].origin.clone(),
        ..requests[1].clone()
    };
    assert!(
        store::handed_out::of_requests(db.reader(), &[&others])
            .await
            .unwrap()
            .is_empty()
    );
}

async fn fees_are_counted_per_caller(db: &Db) {
    let (request, other) = (request("a", 1), request("a", 2));
    for request in [&request, &other] {
        store::requests::insert(db.writer(), request).await.unwrap();
    }
    let clients = [ClientRowId("one".into()), ClientRowId("two".into())];
    let askers = [None, Some(&clients[0]), Some(&clients[1])];
    for (asker, fees) in askers.into_iter().zip([4, 2, 0]) {
        let named = answers().into_iter().filter(|handed| handed.fee.is_some());
        for handed in named.take(fees) {
            store::handed_out::keep(db.writer(), asker, &[(&request, &handed)], at(0))
                .await
                .unwrap();
        }
        store::handed_out::keep(db.writer(), asker, &[(&request, &answers()[0])], at(0))
            .await
            .unwrap();
        let counts = store::handed_out::count_fees(db.reader(), &[&request, &other], asker).await;
        let expected: HashMap<_, _> = [(request.row.clone(), fees as u64)]
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(counts.unwrap(), expected, "and none of the other request");
        let is_kept = async |index: usize| {
            let handed = &answers()[index];
            store::handed_out::is_kept(db.reader(), &request, asker, handed, at(9))
                .await
                .unwrap()
        };
        assert_eq!((is_kept(0).await, is_kept(1).await), (true, fees > 0));
    }
    let kept = store::handed_out::of_requests(db.reader(), &[&request]).await.unwrap();
    assert_eq!(kept[&request.row].len(), 4 + 2 + 3);
}
