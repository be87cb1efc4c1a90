//! Tests with random reorganisations of any depth. Payments are in one or several transactions. A removed transaction
//! returns in another block or never, and processes are killed in between.
//!
//! At the end, each payment on the chain is credited once, and nothing else is credited. One exception: a payment that
//! was final by the setting and still left the chain keeps its credit, because a credit is never removed silently.
//! Source: rules B.2.

use crate::{
    bench::{Bench, Open, Paid, chain},
    support::dice::Dice,
};
use alloy::primitives::{B256, U256};
use devnet::{Devnet, ReorgTransaction};
use std::{collections::BTreeMap, sync::Arc};

/// Number of blocks after which a payment is final here; the block of the payment counts.
const CONFIRMATIONS: u64 = 3;

/// Number of random schedules that the suite runs.
const DRAWN: u64 = 40;

/// Number of schedules of the full run.
const ALL: u64 = 500;

/// Indexes of the accounts that pay. Each pays at most once in a schedule, so that no transaction waits for an earlier
/// one.
const PAYERS: [usize; 7] = [2, 3, 4, 5, 6, 7, 8];

/// Totals over all schedules.
#[derive(Debug, Default)]
struct Tally {
    payments: usize,
    reorganisations: usize,
    below_finality: usize,
    moved: usize,
    dropped: usize,
    gone_after_credit: usize,
    restarts: usize,
}

/// A schedule in progress.
struct Schedule {
    bench: Bench,
    chain: Arc<Devnet>,
    dice: Dice,
    tally: Tally,
    /// Payments of this schedule that have been credited at any time, each with its block at that time.
    credited: BTreeMap<String, B256>,
}

impl Schedule {
    /// Randomly lets the service poll the chain, restarts the service after a crash, or does nothing.
    async fn maybe_look(mut self) -> Self {
        if self.dice.happens(15) {
            self.bench = self.bench.restarted().await;
            self.tally.restarts += 1;
        }
        if self.dice.happens(60) {
            self.look().await;
        }
        self
    }

    async fn look(&mut self) {
        self.bench.settle().await;
        for payment in self.bench.credited().await {
            self.credited.insert(payment.request_id, payment.block_hash);
        }
    }

    /// Pays from some accounts. Mines blocks and polls the chain in between.
    async fn pay(mut self) -> (Self, Vec<Paid>) {
        let mut payers = PAYERS.to_vec();
        self.dice.shuffle(&mut payers);
        let mut paid = Vec::new();
        for payer in payers.into_iter().take(1 + self.dice.below(3)) {
            let count = 1 + self.dice.below(3);
            let requests: Vec<Open> = self.bench.requests(count).await;
            self.tally.payments += count;
            paid.push(self.bench.pay(payer, requests).await);
            let blocks = self.dice.below(3);
            self.mine(blocks).await;
            self = self.maybe_look().await;
        }
        (self, paid)
    }

    async fn mine(&self, blocks: usize) {
        if blocks > 0 {
            let blocks = u64::try_from(blocks).expect("64 bits");
            self.chain.mine(blocks).await.expect("mined");
        }
    }

    /// Removes the newest blocks; some of their transactions return in other blocks, in another order.
    async fn reorganise(&mut self, paid: &[Paid]) {
        let depth = self.dice.below(usize::try_from(CONFIRMATIONS).expect("small") + 4);
        if depth == 0 {
            return;
        }
        let depth_blocks = u64::try_from(depth).expect("64 bits");
        let head = self.chain.block_number().await.expect("a height");
        self.tally.reorganisations += 1;
        self.tally.below_finality += usize::from(depth_blocks >= CONFIRMATIONS);
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        for paid in paid {
            let Some(receipt) = self.chain.receipt(paid.tx_hash).await.expect("an answer") else {
                continue;
            };
            if receipt.block_number.is_some_and(|number| number <= head - depth_blocks) {
                continue;
            }
            if self.dice.happens(60) {
                let raw = self.chain.raw_transaction(paid.tx_hash).await.expect("a transaction");
                let offset = u64::try_from(self.dice.below(depth)).expect("64 bits");
                kept.push((ReorgTransaction::Raw(raw), offset));
                self.tally.moved += 1;
            } else {
                dropped.push(paid.tx_hash);
                self.tally.dropped += 1;
            }
        }
        self.dice.shuffle(&mut kept);
        self.chain.reorg_with(depth_blocks, kept).await.expect("reorganised");
        for tx_hash in dropped {
            // The node may have put the transaction back into its pool.
            let _ = self.chain.drop_transaction(tx_hash).await;
        }
    }

    /// Compares the credited payments with those on the chain.
    async fn check(&mut self, number: u64, paid: &[Paid]) {
        let credited = self.bench.credited().await;
        for paid in paid {
            let receipt = self.chain.receipt(paid.tx_hash).await.expect("an answer");
            for open in &paid.requests {
                let own: Vec<_> = credited
                    .iter()
                    .filter(|payment| payment.request_id == open.id)
                    .collect();
                let status = self.bench.app.read_request(&open.id).await["status"].clone();
                let context = format!("schedule {number}, request {}, {own:?}", open.id);
                match (&receipt, self.credited.get(&open.id)) {
                    (Some(receipt), _) => {
                        assert_eq!(own.len(), 1, "missing or twice: {context}");
                        let place = Some(own[0].block_hash);
                        assert_eq!(place, receipt.block_hash, "elsewhere: {context}, {receipt:?}");
                        assert_eq!(own[0].reversal, None, "on the chain, and reversed: {context}");
                        assert_eq!(
                            (own[0].credited, own[0].tx_hash),
                            (open.units, paid.tx_hash),
                            "{context}"
                        );
                        assert_eq!(status, "paid", "{context}");
                    }
                    (None, None) => {
                        assert!(own.is_empty(), "never credited before, and gone: {context}");
                        assert_eq!(status, "pending", "{context}");
                    }
                    (None, Some(_)) => {
                        assert_eq!(own.len(), 1, "a credit is never removed silently: {context}");
                        assert!(own[0].reversal.is_some(), "left the chain, and not reversed: {context}");
                        assert_eq!(status, "pending", "{context}");
                        self.tally.gone_after_credit += 1;
                    }
                }
            }
        }
    }
}

async fn run(schedules: u64, seed: u64) {
    let chain = chain().await;
    let bench = Bench::start(&chain, 1, |section| section.confirmations = Some(CONFIRMATIONS)).await;
    bench.settle().await;
    let mut schedule = Schedule {
        bench,
        chain,
        dice: Dice::new(seed),
        tally: Tally::default(),
        credited: BTreeMap::new(),
    };
    for number in 0..schedules {
        schedule.dice = Dice::new(seed.wrapping_add(number));
        // Payments that were final before belong to earlier schedules.
        schedule.mine(8).await;
        schedule.look().await;
        schedule.credited.clear();
        let (next, paid) = schedule.pay().await;
        schedule = next;
        for _ in 0..=schedule.dice.below(2) {
            schedule.reorganise(&paid).await;
            schedule = schedule.maybe_look().await;
            let blocks = schedule.dice.below(3);
            schedule.mine(blocks).await;
        }
        schedule.mine(usize::try_from(CONFIRMATIONS).expect("small") + 4).await;
        schedule.look().await;
        schedule.check(number, &paid).await;
    }
    let total: U256 = schedule
        .bench
        .credited()
        .await
        .iter()
        .map(|payment| payment.credited)
        .sum();
    println!(
        "{schedules} schedules from seed {seed}: {:?}, {total} units credited",
        schedule.tally
    );
    assert!(schedule.tally.below_finality > 0 && schedule.tally.moved > 0 && schedule.tally.dropped > 0);
}

/// Runs random schedules. `PRS_TEST_MONEY=all` runs all of them, which takes several minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_random_reorganisations_payments_on_the_chain_count_once() {
    let is_all = std::env::var("PRS_TEST_MONEY").is_ok_and(|text| text == "all");
    run(if is_all { ALL } else { DRAWN }, 20_261_122).await;
}
