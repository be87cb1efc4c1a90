//! What was handed out for requests.

use super::{
    on_both,
    samples::{at, request, wallet},
};
use alloy::primitives::{Address as EvmAddress, U256};
use prs::{
    domain::{amount::Percent, conversion::RateBounds, fees::Fee, handed_out::HandedOut, ids::ClientRowId},
    store::{self, Db},
};
use std::collections::HashMap;

on_both! {
    equal_answers_are_one_row_and_different_ones_are_kept_in_their_order
    a_request_finds_what_was_handed_out_for_it_alone
    fees_are_counted_for_each_asker_and_what_binds_nobody_is_one_row
}

fn answers() -> Vec<HandedOut> {
    let rates = |hashes: &[u8], max_age_s| {
        Some(RateBounds {
            path: hashes.iter().map(|hash| EvmAddress::with_last_byte(*hash)).collect(),
            max_age_s,
        })
    };
    let fee = |points, receiver| Percent::from_basis_points(points).map(|percent| (percent, wallet(receiver)));
    let bare = HandedOut {
        fee: None,
        protocol: None,
        rates: None,
        is_binding: true,
    };
    let own = |receiver, cap: Option<u64>| {
        Percent::from_basis_points(50).map(|percent| Fee {
            percent,
            receiver: wallet(receiver),
            cap: cap.map(U256::from),
        })
    };
    vec![
        bare.clone(),
        HandedOut {
            fee: fee(250, 7),
            ..bare.clone()
        },
        HandedOut {
            fee: fee(250, 8),
            ..bare.clone()
        },
        HandedOut {
            fee: fee(10_000, 7),
            ..bare.clone()
        },
        HandedOut {
            rates: rates(&[1, 2, 3], 0),
            ..bare.clone()
        },
        HandedOut {
            rates: rates(&[1, 2, 3], 90_000),
            ..bare.clone()
        },
        HandedOut {
            fee: fee(1, 7),
            rates: rates(&[1, 3], 90_000),
            ..bare.clone()
        },
        HandedOut {
            protocol: own(7, None),
            ..bare.clone()
        },
        HandedOut {
            protocol: own(7, Some(25)),
            ..bare.clone()
        },
        HandedOut {
            protocol: own(8, Some(25)),
            is_binding: false,
            ..bare.clone()
        },
    ]
}

async fn equal_answers_are_one_row_and_different_ones_are_kept_in_their_order(db: &Db) {
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

async fn a_request_finds_what_was_handed_out_for_it_alone(db: &Db) {
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
    assert_eq!(kept[&requests[1].row], [answers()[1].clone()]);
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

async fn fees_are_counted_for_each_asker_and_what_binds_nobody_is_one_row(db: &Db) {
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
        let open = HandedOut {
            is_binding: false,
            ..answers()[0].clone()
        };
        for handed in [answers()[0].clone(), open] {
            store::handed_out::keep(db.writer(), asker, &[(&request, &handed)], at(0))
                .await
                .unwrap();
        }
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
    let of_nobody = kept[&request.row].iter().filter(|handed| !handed.is_binding);
    assert_eq!((kept[&request.row].len(), of_nobody.count()), (4 + 2 + 3 + 1, 1));
}
