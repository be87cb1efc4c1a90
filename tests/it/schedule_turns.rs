//! Recurring payments of many owners are executed in turns: failures of one owner do not delay other owners.

use crate::support::{
    TestApp,
    chain::lead,
    clock::FixedClock,
    schedules::{FIRST_DAY, recurring, wake_at},
};
use alloy::primitives::B256;
use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use prs::{
    domain::{
        address::Address,
        ids::ScheduleId,
        network::Network,
        paying::PaymentTransaction,
        permit::Permit,
        relay::{Bid, UnsignedTransaction},
        schedule::Schedule,
    },
    flows::schedules::relay::{self, RelayProgress, Sendings},
    ports::{
        chain::ChainError,
        relay::{ContractState, Receipt, Relay, RelayAccount, SendResult},
    },
    store,
};
use sea_orm::ConnectionTrait;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// A relayer whose simulation of a payment always fails.
struct Refusing {
    relay: Arc<dyn Relay>,
    clock: Arc<FixedClock>,
    /// How long the simulation of a payment takes, in milliseconds on the clock of the service.
    takes_ms: i64,
    rehearsing: AtomicUsize,
    together: AtomicUsize,
    rehearsed: AtomicUsize,
    contract_asked: AtomicUsize,
}

impl Refusing {
    fn of(app: &TestApp, takes_ms: i64) -> Self {
        Self {
            relay: app.relayer(),
            clock: app.clock.clone(),
            takes_ms,
            rehearsing: AtomicUsize::new(0),
            together: AtomicUsize::new(0),
            rehearsed: AtomicUsize::new(0),
            contract_asked: AtomicUsize::new(0),
        }
    }

    async fn look(&self, app: &TestApp) -> RelayProgress {
        let chain = &app.ctx.partners.chains.followed[&Network::Sepolia];
        let leadership = lead(&app.ctx, Network::Sepolia).await;
        let sendings = Sendings::default();
        let look = relay::run(&app.ctx, self, chain.as_ref(), &leadership, &sendings).await;
        look.expect("a look")
    }
}

#[async_trait]
impl Relay for Refusing {
    fn address(&self) -> Address {
        self.relay.address()
    }

    fn sign(&self, transaction: &UnsignedTransaction, now: DateTime<Utc>) -> anyhow::Result<Bid> {
        self.relay.sign(transaction, now)
    }

    async fn account(&self) -> Result<RelayAccount, ChainError> {
        self.relay.account().await
    }

    async fn counted(&self, former: Address) -> Result<u64, ChainError> {
        self.relay.counted(former).await
    }

    async fn contract(&self, contract: Address) -> Result<ContractState, ChainError> {
        self.contract_asked.fetch_add(1, Ordering::SeqCst);
        self.relay.contract(contract).await
    }

    async fn counted_next(&self, permit: &Permit) -> Result<u8, ChainError> {
        self.relay.counted_next(permit).await
    }

    async fn counted_by(&self, permit: &Permit, block: u64) -> Result<u8, ChainError> {
        self.relay.counted_by(permit, block).await
    }

    async fn rehearse(&self, _: &PaymentTransaction) -> Result<u64, ChainError> {
        self.rehearsed.fetch_add(1, Ordering::SeqCst);
        let rehearsing = self.rehearsing.fetch_add(1, Ordering::SeqCst) + 1;
        self.together.fetch_max(rehearsing, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(200)).await;
        self.clock.advance(TimeDelta::milliseconds(self.takes_ms));
        self.rehearsing.fetch_sub(1, Ordering::SeqCst);
        Err(ChainError::Reverted("no".to_owned()))
    }

    async fn send(&self, raw: &[u8]) -> Result<SendResult, ChainError> {
        self.relay.send(raw).await
    }

    async fn receipt(&self, tx_hashes: &[B256]) -> Result<Option<Receipt>, ChainError> {
        self.relay.receipt(tx_hashes).await
    }
}

/// Creates a schedule with a client ID, due from this second on.
async fn due_from(app: &TestApp, client_id: &str, second: i64) -> Schedule {
    let call = app.post("/v2/payouts").header("x-client-id", client_id);
    let made = call.json(&recurring(app, 3)).send().await.expect(201);
    let id = ScheduleId(made["id"].as_str().expect("an id").to_owned());
    let sql = format!(
        "UPDATE schedules SET status = 'active', signature = '{}1b' WHERE id = '{}'",
        "11".repeat(64),
        id
    );
    app.ctx.db.writer().execute_unprepared(&sql).await.expect("a write");
    let conn = app.ctx.db.reader();
    let owner = store::client_ids::find_by_client_id(conn, client_id).await;
    let owner = owner.expect("a read").expect("a client ID").platform;
    let schedule = store::schedules::find(conn, &owner, &id).await;
    let schedule = schedule.expect("a read").expect("a schedule");
    wake_at(app, &schedule, second).await;
    schedule
}

async fn failures_of(app: &TestApp, schedule: &Schedule) -> u32 {
    let found = store::schedules::find(app.ctx.db.reader(), &schedule.origin.platform, &schedule.id).await;
    found.expect("a read").expect("a schedule").failures
}

#[tokio::test]
async fn a_pass_ends_after_two_seconds_and_newly_due_schedules_follow() {
    let app = TestApp::on_chain().await;
    let (_, other) = app.other_tenant().await;
    for second in 0..20 {
        due_from(&app, &app.backend_client, FIRST_DAY + second).await;
    }
    let neighbour = due_from(&app, &other, FIRST_DAY + 100).await;
    app.both_to(FIRST_DAY + 99).await;
    let refusing = Refusing::of(&app, 500);
    let look = refusing.look(&app).await;
    let rehearsed = refusing.rehearsed.load(Ordering::SeqCst);
    assert_eq!(
        (look.has_moved, rehearsed),
        (true, 8),
        "and no further ones in this pass"
    );
    assert_eq!(refusing.together.load(Ordering::SeqCst), 8);
    assert_eq!(refusing.contract_asked.load(Ordering::SeqCst), 1);
    app.both_to(FIRST_DAY + 110).await;
    refusing.look(&app).await;
    assert_eq!(
        failures_of(&app, &neighbour).await,
        1,
        "it was executed in the next pass"
    );
}

#[tokio::test]
async fn an_owner_gets_ten_schedules_per_pass_while_others_are_due() {
    let app = TestApp::on_chain().await;
    let (_, other) = app.other_tenant().await;
    for second in 0..14 {
        due_from(&app, &app.backend_client, FIRST_DAY + second).await;
    }
    let neighbour = due_from(&app, &other, FIRST_DAY + 50).await;
    app.both_to(FIRST_DAY + 60).await;
    let refusing = Refusing::of(&app, 0);
    refusing.look(&app).await;
    assert_eq!(refusing.rehearsed.load(Ordering::SeqCst), 11);
    assert_eq!(failures_of(&app, &neighbour).await, 1);
    refusing.look(&app).await;
    assert_eq!(
        refusing.rehearsed.load(Ordering::SeqCst),
        15,
        "and all when no other owner waits"
    );
}
