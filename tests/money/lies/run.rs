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
            Kind::Empty => Some(json!({})),
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
        let places = ["/number", "/blockNumber", "/block_header/raw_data/number"];
        let height = places.iter().find_map(|place| number(answer.pointer(place)?));
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
pub async fn run(bench: Bench, place: Place, cell: &Cell, samples: &Arc<Samples>) -> (Bench, Outcome) {
    let begin = async |bench: &Bench, blocks: &BTreeSet<u64>| speak(&bench.nodes, place, &cell.fault, samples, blocks);
    let end = async |bench: &Bench| {
        let liars = place.liars().iter().map(|index| &bench.nodes[*index]);
        let changed = liars.map(Proxy::changed).sum();
        end(&bench.nodes, place, cell.fault.dialect);
        changed
    };
    let goes_on = Dice::new(cell.fault.seed).happens(GOES_ON_PERCENT);
    let (bench, paid, before, mut outcome) = meet(bench, cell.reading, goes_on, begin, end).await;
    if outcome.lost > 0 && place.liars().len() >= AGREEMENT && cell.fault.method == "eth_getLogs" {
        bench.reconcile(paid[0].block_number).await;
        let (changed, is_credited) = (outcome.changed, outcome.is_credited_meanwhile);
        outcome = outcome.after(judge(&bench, &paid, before, changed, is_credited, None).await);
    }
    (bench, outcome)
}

/// Pays requests, and follows the chain while nodes return false data and after they return the truth again. `begin`
/// gets the paid blocks, and `end` returns the number of changed responses. If the process does not go on, it is
/// restarted after the false data. Returns the payments, and the number of credits before them.
pub async fn meet(
    mut bench: Bench,
    reading: Reading,
    goes_on: bool,
    begin: impl AsyncFn(&Bench, &BTreeSet<u64>),
    end: impl AsyncFn(&Bench) -> usize,
) -> (Bench, Vec<Paid>, usize, Outcome) {
    let before = bench.credited().await.len();
    let paid = bench.pay_in_blocks(&[(2, 2), (3, 1)]).await;
    let paid_blocks: BTreeSet<u64> = paid.iter().map(|paid| paid.block_number).collect();
    match reading {
        Reading::Head => {
            begin(&bench, &paid_blocks).await;
            for _ in 0..2 {
                drop(bench.step().await);
            }
            bench.ground.mine(3).await;
        }
        Reading::CatchUp => {
            bench.ground.mine(70).await;
            begin(&bench, &paid_blocks).await;
        }
        Reading::AfterRestart => {
            drop(bench.step().await);
            bench.ground.mine(3).await;
            bench = bench.restarted().await;
            begin(&bench, &paid_blocks).await;
        }
    }
    let mut halted = bench
        .follow(PATIENCE_WITH_LIES, async || bench.has_credited(&paid).await)
        .await;
    let is_credited_meanwhile = bench.has_credited(&paid).await;
    let changed = end(&bench).await;
    if !is_credited_meanwhile {
        if !goes_on {
            bench = bench.restarted().await;
        }
        let after = bench
            .follow_after_failures(async || bench.has_credited(&paid).await)
            .await;
        halted = halted.or(after);
    }
    let outcome = judge(&bench, &paid, before, changed, is_credited_meanwhile, halted).await;
    (bench, paid, before, outcome)
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
