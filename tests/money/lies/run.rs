//! Runs one cell of the matrix: payments are made, nodes return false data, and then the nodes return the truth again.

use super::{
    Cell, Dialect, Fault, Kind, Place, Reading, end,
    fields::{Path, Samples, change, wrong},
    method_of,
};
use crate::{
    bench::{Bench, Paid},
    proxy::{Proxy, Tamper, Told, number},
    support::dice::Dice,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

/// Number of steps without progress after which the nodes return the truth again.
const PATIENCE_WITH_LIES: usize = 3;

/// Number of nodes that must agree by default.
const AGREEMENT: usize = 2;

/// Percentage of cells in which the process keeps running after the false data. In all other cells the process is
/// restarted and has only the stored state.
const GOES_ON_PERCENT: usize = 15;

/// What happened to the payments of a cell.
#[derive(Debug)]
pub struct Outcome {
    /// Changed responses.
    pub changed: usize,
    /// Whether all payments were credited while nodes still returned false data.
    pub is_credited_meanwhile: bool,
    /// Number of wrong credits. A credit is wrong if its amount or transaction is wrong, if the payment was already
    /// credited, or if the payment is unknown.
    pub wrong: usize,
    /// Number of payments that were still not credited after the false data ended, and that `prs reconcile --fix` then
    /// found. All nodes that must agree had omitted the same payments.
    pub reconciled: usize,
    /// Number of payments that were never credited.
    pub lost: usize,
    /// Why the chain stopped.
    pub halted: Option<String>,
}

impl Outcome {
    /// Whether the false data did lasting harm.
    pub fn is_bad(&self) -> bool {
        self.wrong > 0 || self.lost > 0 || self.halted.is_some()
    }

    /// The outcome after `prs reconcile --fix`: `self` is the outcome before, and `compared` the counts afterwards.
    fn after(self, compared: Self) -> Self {
        Self {
            reconciled: self.lost - compared.lost,
            halted: self.halted,
            ..compared
        }
    }
}

/// Makes a node return the false data of a fault.
struct Liar {
    fault: Fault,
    samples: Arc<Samples>,
    /// The blocks of a narrow fault.
    blocks: BTreeSet<u64>,
    dice: Mutex<Dice>,
}

impl Liar {
    fn lie(&self, mut wrapped: Value, path: &Path) -> Value {
        let mut dice = self.dice.lock().expect("unpoisoned").clone();
        let others = match self.fault.kind {
            Kind::Elsewhere => self.samples.elsewhere(&self.fault.method, &self.fault.path),
            _ => Vec::new(),
        };
        change(&mut wrapped, path, &mut |value| match self.fault.kind {
            Kind::Null => Some(Value::Null),
            Kind::Absent => None,
            Kind::Wrong => Some(wrong(&value, &mut dice)),
            Kind::Elsewhere => {
                let different: Vec<&Value> = others.iter().filter(|other| **other != value).collect();
                let chosen = different.get(dice.below(different.len())).copied();
                Some(chosen.cloned().unwrap_or(value))
            }
            Kind::Late | Kind::Error => Some(value),
        });
        wrapped
    }

    /// Changes only those elements of a list that belong to the blocks of the fault.
    fn lie_about_some(&self, elements: Vec<Value>, path: &Path) -> Value {
        let mut told = Vec::new();
        for element in elements {
            if !self.concerns(&element) {
                told.push(element);
                continue;
            }
            let mut wrapped = self.lie(json!({ "result": element }), path);
            told.extend(wrapped.as_object_mut().and_then(|members| members.remove("result")));
        }
        json!(told)
    }

    fn concerns(&self, answer: &Value) -> bool {
        let height = ["number", "blockNumber"].iter().find_map(|name| number(&answer[*name]));
        height.is_none_or(|height| self.blocks.contains(&height))
    }
}

impl Tamper for Liar {
    fn ask(&self, call: &mut Value) {
        self.fault.dialect.speak(call);
    }

    fn tell(&self, call: &Value, result: Value) -> Told {
        if method_of(call) != self.fault.method {
            return Told::Result(result);
        }
        let path = &self.fault.path;
        if self.fault.is_narrow {
            match (&result, path.of_element()) {
                (Value::Array(elements), Some(path)) => {
                    return Told::Result(self.lie_about_some(elements.clone(), &path));
                }
                (Value::Array(elements), None) if !elements.iter().any(|element| self.concerns(element)) => {
                    return Told::Result(result);
                }
                (Value::Object(_), _) if !self.concerns(&result) => return Told::Result(result),
                _ => {}
            }
        }
        match self.fault.kind {
            Kind::Late => return Told::Late,
            Kind::Error => return Told::Error(-32_000, "internal error".to_owned()),
            _ => {}
        }
        match self.lie(json!({ "result": result }), path).get_mut("result") {
            Some(result) => Told::Result(result.take()),
            None => Told::Absent,
        }
    }
}

/// A node that responds in the dialect of a fault, without false data.
struct Speaker(Dialect);

impl Tamper for Speaker {
    fn ask(&self, call: &mut Value) {
        self.0.speak(call);
    }
}

/// Makes the false nodes return the false data of a fault, and all nodes respond in its dialect. `blocks` are the
/// blocks of a narrow fault.
pub fn speak(nodes: &[Proxy], place: Place, fault: &Fault, samples: &Arc<Samples>, blocks: &BTreeSet<u64>) {
    for (index, node) in nodes.iter().enumerate() {
        if place.liars().contains(&index) {
            // All false nodes use the same seed, so that they return the same.
            node.tamper(Liar {
                fault: fault.clone(),
                samples: samples.clone(),
                blocks: blocks.clone(),
                dice: Mutex::new(Dice::new(fault.seed)),
            });
        } else {
            node.tamper(Speaker(fault.dialect));
        }
    }
}

/// Runs a cell on the service in the state in which the previous cell left it.
pub async fn run(mut bench: Bench, place: Place, cell: &Cell, samples: &Arc<Samples>) -> (Bench, Outcome) {
    let mut dice = Dice::new(cell.fault.seed);
    let before = bench.credited().await.len();
    let requests = bench.requests(2).await;
    let first = bench.pay(2, requests).await;
    let requests = bench.requests(1).await;
    let paid = [first, bench.pay(3, requests).await];
    let paid_blocks: BTreeSet<u64> = paid.iter().map(|paid| paid.block_number).collect();
    let lie = |nodes: &[Proxy]| speak(nodes, place, &cell.fault, samples, &paid_blocks);
    let chain = bench.app.devnet();
    match cell.reading {
        Reading::Head => {
            lie(&bench.nodes);
            for _ in 0..2 {
                drop(bench.step().await);
            }
            chain.mine(3).await.expect("mined");
        }
        Reading::CatchUp => {
            chain.mine(70).await.expect("mined");
            lie(&bench.nodes);
        }
        Reading::AfterRestart => {
            drop(bench.step().await);
            chain.mine(3).await.expect("mined");
            bench = bench.restarted().await;
            lie(&bench.nodes);
        }
    }
    let mut halted = bench
        .follow(PATIENCE_WITH_LIES, async || bench.has_credited(&paid).await)
        .await;
    let is_credited_meanwhile = bench.has_credited(&paid).await;
    let liars = place.liars().iter().map(|index| &bench.nodes[*index]);
    let changed = liars.map(Proxy::changed).sum();
    end(&bench.nodes, place, cell.fault.dialect);
    if !is_credited_meanwhile {
        if !dice.happens(GOES_ON_PERCENT) {
            bench = bench.restarted().await;
        }
        let after = bench
            .follow_after_failures(async || bench.has_credited(&paid).await)
            .await;
        halted = halted.or(after);
    }
    let mut outcome = judge(&bench, &paid, before, changed, is_credited_meanwhile, halted).await;
    if outcome.lost > 0 && place.liars().len() >= AGREEMENT && cell.fault.method == "eth_getLogs" {
        bench.reconcile(paid[0].block_number).await;
        outcome = outcome.after(judge(&bench, &paid, before, changed, is_credited_meanwhile, None).await);
    }
    (bench, outcome)
}

async fn judge(
    bench: &Bench,
    paid: &[Paid],
    before: usize,
    changed: usize,
    is_credited_meanwhile: bool,
    halted: Option<String>,
) -> Outcome {
    let credited = bench.credited().await;
    let mut right = 0;
    let mut lost = 0;
    for paid in paid {
        for open in &paid.requests {
            let is_right = credited.iter().any(|payment| {
                payment.request_id == open.id
                    && payment.tx_hash == paid.tx_hash
                    && payment.credited == open.units
                    && payment.block_number == paid.block_number
            });
            right += usize::from(is_right);
            lost += usize::from(!is_right);
        }
    }
    Outcome {
        changed,
        is_credited_meanwhile,
        wrong: credited.len() - before - right,
        reconciled: 0,
        lost,
        halted,
    }
}
