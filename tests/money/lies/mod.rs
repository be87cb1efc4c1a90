//! A matrix of tests with false data. Each cell of the matrix combines four choices: a field of a node response that
//! the service reads, what is wrong with the field, which node returns it, and when the service reads it.
//!
//! The test finds the fields in responses of honest nodes, so a field of a new call is included automatically. False
//! data must not credit anything wrong, lose a payment permanently, or stop the chain. Source: ADR-0012; rules B.2.

mod amounts;
mod emissions;
mod fields;
mod forger;
mod proofs;
mod run;
mod safes;

use crate::{
    bench::{Bench, chain},
    proxy::{Proxy, Tamper, Told},
    support::dice::Dice,
};
use devnet::Devnet;
use fields::{Path, Samples};
use run::{Outcome, run};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fmt::Display,
    ops::Range,
    sync::{Arc, Mutex},
};

/// Number of random cells that the suite runs for each position of the false node: three for every combination of a
/// fault and a way of reading.
const DRAWN: usize = 3 * KINDS.len() * READINGS.len();

/// Seed of the suite.
const SEED: u64 = 20_261_122;

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Null,
    Absent,
    Wrong,
    Elsewhere,
    Late,
    Error,
}

const KINDS: [Kind; 6] = [
    Kind::Null,
    Kind::Absent,
    Kind::Wrong,
    Kind::Elsewhere,
    Kind::Late,
    Kind::Error,
];

impl Kind {
    /// Whether the fault applies to a response as a whole, as delays and refusals do.
    fn is_of_whole(self) -> bool {
        matches!(self, Self::Late | Self::Error)
    }
}

/// Which nodes return false data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    OneNode,
    FirstOfTwo,
    SecondOfTwo,
    TwoOfThree,
}

impl Place {
    fn nodes(self) -> usize {
        match self {
            Self::OneNode => 1,
            Self::FirstOfTwo | Self::SecondOfTwo => 2,
            Self::TwoOfThree => 3,
        }
    }

    fn liars(self) -> &'static [usize] {
        match self {
            Self::OneNode | Self::FirstOfTwo => &[0],
            Self::SecondOfTwo => &[1],
            Self::TwoOfThree => &[0, 1],
        }
    }
}

/// When the service reads the false data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reading {
    /// While it follows the head.
    Head,
    /// After an outage, when the service reads ranges of blocks.
    CatchUp,
    /// After a restart, when a new process finds only what the previous process stored.
    AfterRestart,
}

const READINGS: [Reading; 3] = [Reading::Head, Reading::CatchUp, Reading::AfterRestart];

/// How the nodes of a cell respond, apart from the false data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Dialect {
    /// The node supports the same calls as the local node.
    Full,
    /// The node lacks the call for all receipts of a block, so that the service fetches each receipt separately.
    NoBlockReceipts,
}

/// What is wrong with the responses of a node.
#[derive(Debug, Clone)]
struct Fault {
    dialect: Dialect,
    method: String,
    path: Path,
    kind: Kind,
    /// Whether only responses about certain blocks are false: those that contain the payments.
    is_narrow: bool,
    seed: u64,
}

impl Display for Fault {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scope = if self.is_narrow {
            "of the paid blocks"
        } else {
            "of all blocks"
        };
        write!(
            out,
            "{} {} {:?} {scope}, {:?}",
            self.method, self.path, self.kind, self.dialect
        )
    }
}

/// One fault, and when the service meets it.
#[derive(Debug, Clone)]
struct Cell {
    fault: Fault,
    reading: Reading,
}

impl Display for Cell {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}, {:?}", self.fault, self.reading)
    }
}

/// The method of a call. `(full)` marks a query of a block with complete transactions, whose response has other
/// content.
fn method_of(call: &Value) -> String {
    let method = call["method"].as_str().unwrap_or_default();
    if call["params"][1] == json!(true) {
        format!("{method}(full)")
    } else {
        method.to_owned()
    }
}

impl Dialect {
    /// If the node of this dialect lacks the called method, replaces the method with one that no node has.
    fn speak(self, call: &mut Value) {
        if self == Self::NoBlockReceipts && call["method"] == "eth_getBlockReceipts" {
            call["method"] = json!("eth_getNothing");
        }
    }
}

/// A node that responds in a dialect, and whose responses are recorded.
struct Listener {
    dialect: Dialect,
    samples: Arc<Mutex<Samples>>,
}

impl Tamper for Listener {
    fn ask(&self, call: &mut Value) {
        self.dialect.speak(call);
    }

    fn tell(&self, call: &Value, result: Value) -> Told {
        let mut samples = self.samples.lock().expect("unpoisoned");
        samples.add(&method_of(call), &result);
        Told::Result(result)
    }
}

/// Follows payments through honest nodes, once for every way of reading. Returns the recorded responses.
async fn listen(chain: &Arc<Devnet>, dialect: Dialect) -> Samples {
    let samples = Arc::new(Mutex::new(Samples::default()));
    let mut bench = Bench::start(chain, 1, |_| {}).await;
    bench.nodes[0].tamper(Listener {
        dialect,
        samples: samples.clone(),
    });
    bench.settle().await;
    for blocks in [3, 70, 3] {
        let requests = bench.requests(2).await;
        bench.pay(2, requests).await;
        let requests = bench.requests(1).await;
        bench.pay(3, requests).await;
        bench.settle().await;
        chain.mine(blocks).await.expect("mined");
        bench.settle().await;
    }
    std::mem::take(&mut *samples.lock().expect("unpoisoned"))
}

/// Every fault of one dialect, in every field of the honest responses. Each of them is drawn `times` times in a row.
fn faults_of(dialect: Dialect, samples: &Samples, times: usize, dice: &mut Dice) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (method, path) in samples.fields() {
        // The second dialect differs from the first one in one method only.
        if dialect == Dialect::NoBlockReceipts && method != "eth_getTransactionReceipt" {
            continue;
        }
        for kind in KINDS {
            if kind.is_of_whole() && !path.is_whole() {
                continue;
            }
            for _ in 0..times {
                faults.push(Fault {
                    dialect,
                    method: method.clone(),
                    path: path.clone(),
                    kind,
                    is_narrow: dice.happens(50),
                    seed: dice.roll(),
                });
            }
        }
    }
    faults
}

/// All cells of one dialect: every fault, with every way of reading.
fn cells_of(dialect: Dialect, samples: &Samples, dice: &mut Dice) -> Vec<Cell> {
    let faults = faults_of(dialect, samples, READINGS.len(), dice);
    let cells = faults.into_iter().zip(READINGS.into_iter().cycle());
    cells.map(|(fault, reading)| Cell { fault, reading }).collect()
}

/// Orders the cells so that the combinations of fault and reading alternate, and then returns a range of them.
fn in_turn(cells: Vec<Cell>, span: Range<usize>) -> Vec<Cell> {
    let mut taken: BTreeMap<(Reading, Kind), usize> = BTreeMap::new();
    let mut turns: Vec<(usize, Cell)> = Vec::new();
    for cell in cells {
        let turn = taken.entry((cell.reading, cell.fault.kind)).or_default();
        turns.push((*turn, cell));
        *turn += 1;
    }
    turns.sort_by_key(|(turn, _)| *turn);
    let cells = turns.into_iter().map(|(_, cell)| cell);
    cells.skip(span.start).take(span.len()).collect()
}

async fn matrix(place: Place) {
    let chain = chain().await;
    let mut dice = Dice::new(SEED);
    let full = listen(&chain, Dialect::Full).await;
    let bare = listen(&chain, Dialect::NoBlockReceipts).await;
    let mut cells = cells_of(Dialect::Full, &full, &mut dice);
    cells.extend(cells_of(Dialect::NoBlockReceipts, &bare, &mut dice));
    let known = cells.len();
    dice = Dice::new(SEED + u64::try_from(place.nodes()).expect("64 bits"));
    dice.shuffle(&mut cells);
    let asked = asked();
    let cells = in_turn(cells, asked.clone().unwrap_or(0..DRAWN));
    let samples = BTreeMap::from([
        (Dialect::Full, Arc::new(full)),
        (Dialect::NoBlockReceipts, Arc::new(bare)),
    ]);
    let mut bench = Bench::start(&chain, place.nodes(), |_| {}).await;
    let unpaid = bench.request().await;
    // The service does not search for payments from before its first poll, so it polls once first.
    bench.settle().await;
    let mut outcomes = Vec::new();
    for cell in &cells {
        let (same, outcome) = run(bench, place, cell, &samples[&cell.fault.dialect]).await;
        bench = same;
        if asked.is_some() || outcome.is_bad() {
            println!("{place:?} {cell}: {outcome:?}");
        }
        outcomes.push(outcome);
    }
    print_table(place, &cells, &outcomes, known);
    let bad: Vec<String> = cells
        .iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| outcome.is_bad())
        .map(|(cell, outcome)| format!("{cell}: {outcome:?}"))
        .collect();
    assert!(bad.is_empty(), "{} of {} cells: {bad:#?}", bad.len(), cells.len());
    let credited = bench.credited().await;
    assert!(
        credited.iter().all(|payment| payment.request_id != unpaid.id),
        "an unpaid request was credited"
    );
    let met = outcomes.iter().filter(|outcome| outcome.changed > 0).count();
    // A node behind an honest one gets few calls.
    assert!(met * 5 > outcomes.len(), "{met} of {} faults were read", outcomes.len());
}

fn print_table(place: Place, cells: &[Cell], outcomes: &[Outcome], known: usize) {
    println!("{place:?}: {} of {known} cells", cells.len());
    println!(
        "  reading       fault       cells  met  credited meanwhile     afterwards  by reconcile  wrong  lost  halts"
    );
    for reading in READINGS {
        for kind in KINDS {
            let chosen: Vec<&Outcome> = cells
                .iter()
                .zip(outcomes)
                .filter(|(cell, _)| (cell.reading, cell.fault.kind) == (reading, kind))
                .map(|(_, outcome)| outcome)
                .collect();
            let count = |is: fn(&Outcome) -> bool| chosen.iter().filter(|outcome| is(outcome)).count();
            println!(
                "  {:<12}  {:<9}  {:>6}  {:>3}  {:>18}  {:>13}  {:>12}  {:>5}  {:>4}  {:>5}",
                format!("{reading:?}"),
                format!("{kind:?}"),
                chosen.len(),
                count(|outcome| outcome.changed > 0),
                count(|outcome| outcome.is_credited_meanwhile),
                count(|outcome| !outcome.is_credited_meanwhile && outcome.lost + outcome.reconciled == 0),
                count(|outcome| outcome.reconciled > 0),
                count(|outcome| outcome.wrong > 0),
                count(|outcome| outcome.lost > 0),
                count(|outcome| outcome.halted.is_some()),
            );
        }
    }
}

/// All nodes return the truth again.
fn end(nodes: &[Proxy], place: Place, dialect: Dialect) {
    for (index, node) in nodes.iter().enumerate() {
        if place.liars().contains(&index) || dialect != Dialect::Full {
            node.end();
        }
    }
}

/// The range of cells that `PRS_TEST_MONEY` selects. `all` selects all cells, which take most of an hour for each node
/// position. A number selects the cells from that number on, to continue an interrupted run.
fn asked() -> Option<Range<usize>> {
    let text = std::env::var("PRS_TEST_MONEY").ok()?;
    let from = match text.as_str() {
        "all" => 0,
        from => from.parse().expect("PRS_TEST_MONEY is `all` or the number of a cell"),
    };
    Some(from..usize::MAX)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_are_credited_correctly_if_the_only_node_is_false() {
    matrix(Place::OneNode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_are_credited_correctly_despite_a_false_first_node_of_two() {
    matrix(Place::FirstOfTwo).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_are_credited_correctly_despite_a_false_second_node_of_two() {
    matrix(Place::SecondOfTwo).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_are_credited_correctly_despite_two_equal_false_nodes_of_three() {
    matrix(Place::TwoOfThree).await;
}
