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
mod tron;

use crate::{
    bench::{Bench, Ground, TRON_PAUPER},
    proxy::{Proxy, Tamper, Told},
    support::dice::Dice,
};
use fields::{Path, Samples};
use prs::domain::network::Family;
use run::{Outcome, run};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fmt::Display,
    ops::Range,
    sync::{Arc, Mutex},
};

/// Number of random cells that the suite runs for each position of the false node, for every combination of a fault and
/// a way of reading. Cells on Tron take longer.
const fn drawn(family: Family) -> usize {
    let each = match family {
        Family::Evm => 3,
        Family::Tron => 1,
    };
    each * KINDS.len() * READINGS.len()
}

/// Seed of the suite.
const SEED: u64 = 20_261_122;

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Null,
    /// An object without members.
    Empty,
    Absent,
    Wrong,
    Elsewhere,
    Late,
    Error,
}

const KINDS: [Kind; 7] = [
    Kind::Null,
    Kind::Empty,
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
    /// The node lists no events, so that the service reads every block whole. Only nodes of Tron may do so.
    NoLists,
}

/// The dialects of the nodes of a family.
const fn dialects(family: Family) -> [Dialect; 2] {
    match family {
        Family::Evm => [Dialect::Full, Dialect::NoBlockReceipts],
        Family::Tron => [Dialect::Full, Dialect::NoLists],
    }
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
/// content; `(at)` a query of a block of Tron by its height, and not of the newest one.
fn method_of(call: &Value) -> String {
    let method = call["method"].as_str().unwrap_or_default();
    if call["params"][1] == json!(true) {
        format!("{method}(full)")
    } else if call["params"].get("id_or_num").is_some() {
        format!("{method}(at)")
    } else {
        method.to_owned()
    }
}

impl Dialect {
    /// The method that the nodes of this dialect lack.
    const fn lacks(self) -> Option<&'static str> {
        match self {
            Self::Full => None,
            Self::NoBlockReceipts => Some("eth_getBlockReceipts"),
            Self::NoLists => Some("eth_getLogs"),
        }
    }

    /// If the node of this dialect lacks the called method, replaces the method with one that no node has.
    fn speak(self, call: &mut Value) {
        if self.lacks().is_some_and(|lacked| call["method"] == lacked) {
            call["method"] = json!("eth_getNothing");
        }
    }

    /// Whether responses to this method differ from those of the first dialect. Only such faults are repeated.
    fn concerns(self, method: &str) -> bool {
        match self {
            Self::Full => true,
            Self::NoBlockReceipts => method == "eth_getTransactionReceipt",
            Self::NoLists => method.starts_with("wallet/get") && !method.ends_with("/getblock"),
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
async fn listen(ground: &Ground, dialect: Dialect) -> Samples {
    let samples = Arc::new(Mutex::new(Samples::default()));
    let mut bench = Bench::start_on(ground, 1, |_| {}).await;
    bench.nodes[0].tamper(Listener {
        dialect,
        samples: samples.clone(),
    });
    bench.settle().await;
    for blocks in [3, 70, 3] {
        bench.pay_in_blocks(&[(2, 2), (3, 1)]).await;
        if matches!(ground, Ground::Tron(_)) {
            bench.pay_in_blocks(&[(TRON_PAUPER, 1)]).await;
        }
        bench.settle().await;
        ground.mine(blocks).await;
        bench.settle().await;
    }
    std::mem::take(&mut *samples.lock().expect("unpoisoned"))
}

/// Every fault of one dialect, in every field of the honest responses. Each of them is drawn `times` times in a row.
fn faults_of(dialect: Dialect, samples: &Samples, times: usize, dice: &mut Dice) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (method, path) in samples.fields() {
        if !dialect.concerns(&method) {
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

async fn matrix(family: Family, place: Place) {
    let ground = Ground::start(family).await;
    let mut dice = Dice::new(SEED);
    let (mut cells, mut samples) = (Vec::new(), BTreeMap::new());
    for dialect in dialects(family) {
        let heard = listen(&ground, dialect).await;
        cells.extend(cells_of(dialect, &heard, &mut dice));
        samples.insert(dialect, Arc::new(heard));
    }
    let known = cells.len();
    dice = Dice::new(SEED + u64::try_from(place.nodes()).expect("64 bits"));
    dice.shuffle(&mut cells);
    let asked = asked();
    let cells = in_turn(cells, asked.clone().unwrap_or(0..drawn(family)));
    let mut bench = Bench::start_on(&ground, place.nodes(), |_| {}).await;
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
    println!("{family:?}, {place:?}: {} of {known} cells", cells.len());
    print_table(&cells, &outcomes);
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

fn print_table(cells: &[Cell], outcomes: &[Outcome]) {
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
    matrix(Family::Evm, Place::OneNode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_are_credited_correctly_despite_a_false_first_node_of_two() {
    matrix(Family::Evm, Place::FirstOfTwo).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_are_credited_correctly_despite_a_false_second_node_of_two() {
    matrix(Family::Evm, Place::SecondOfTwo).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_are_credited_correctly_despite_two_equal_false_nodes_of_three() {
    matrix(Family::Evm, Place::TwoOfThree).await;
}
