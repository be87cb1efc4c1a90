//! Recurring payments.

use super::{
    on_both,
    samples::{at, platform, request, wallet},
};
use alloy::primitives::U256;
use prs::{
    domain::{
        amount::Amount,
        ids::ScheduleId,
        network::Network,
        permit::Permit,
        schedule::{AskedFor, Execution, Schedule},
    },
    store::{self, Db},
};

on_both! {
    a_schedule_of_before_was_asked_for_what_it_pays
}

async fn a_schedule_of_before_was_asked_for_what_it_pays(db: &Db) {
    let first = request("a", 1);
    let permit = Permit {
        chain_id: Network::Sepolia.chain_id(),
        contract: wallet(1),
        subscriber: wallet(2),
        token: wallet(3),
        recipient: wallet(4),
        fee_address: Some(wallet(5)),
        amount: 100,
        fee: 2,
        relayer_fee: 1,
        period_s: 86_400,
        first_payment_s: 1_800_000_000,
        total_payments: 12,
        nonce: U256::from(7),
        deadline_s: 1_900_000_000,
    };
    let asked = AskedFor {
        amount: Amount::parse("99").unwrap(),
        currency: "EUR".into(),
    };
    let id = ScheduleId("schedule-1".into());
    let schedule = Schedule::unsigned(
        id.clone(),
        first.origin.clone(),
        Network::Sepolia,
        (permit, asked),
        at(0),
    );
    let execution = Execution {
        schedule: id.clone(),
        platform: platform("a"),
        number: 1,
        request: first.row.clone(),
        request_id: first.id.clone(),
        failures: 0,
        created_at: at(0),
    };
    store::requests::insert(db.writer(), &first).await.unwrap();
    store::schedules::insert(db.writer(), &schedule).await.unwrap();
    store::schedules::insert_execution(db.writer(), &execution)
        .await
        .unwrap();
    let find = async || {
        let found = store::schedules::find(db.reader(), &platform("a"), &id).await;
        found.unwrap().unwrap()
    };
    assert_eq!(find().await, schedule);

    let states = db.migrate_status().await.unwrap();
    let limited = states.iter().position(|state| state.name.ends_with("limit_schedules"));
    let steps = states.len() - limited.unwrap();
    db.migrate_down(u32::try_from(steps).unwrap()).await.unwrap();
    db.migrate_up().await.unwrap();
    let paid = AskedFor {
        amount: first.terms.amount.clone(),
        currency: first.terms.payment_currency.clone(),
    };
    assert_eq!(
        find().await,
        Schedule {
            asked: paid,
            ..schedule
        }
    );
}
