//! The benchmarks of the service, each with a baseline that is measured in the same run.
//!
//! `cargo xtask bench` starts what the benchmarks need and runs them; docs/performance.md describes each benchmark. A
//! missed goal is printed and does not fail the run. Only in [`abuse`], which `cargo xtask test abuse` runs, a missed
//! goal fails the run.

mod abuse;
mod backlog;
mod bare;
mod burst;
mod calldata;
mod create;
mod database;
mod events;
mod idle;
mod ingest;
mod latency;
mod limits;
mod load;
mod page;
mod payer;
mod payments;
mod payout;
mod report;
mod rpc;
mod service;
mod support;

use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, ValueEnum};

use crate::payments::Filled;
use crate::report::{Machine, Row, scaled};

/// Default number of payments that are searched and exported, and of links that are read.
const ROWS: usize = 1_000_000;

#[derive(Debug, Parser)]
#[command(name = "numbers")]
struct Arguments {
    /// Benchmarks to run; all of them if none is named
    names: Vec<Number>,
    /// Share of the full amount of work, for a quick trial
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Number of payments to search and export, and of links to read; default one million
    #[arg(long)]
    rows: Option<usize>,
    /// Set by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
    /// Serve as the bare counterpart of the service on this port
    #[arg(long, hide = true)]
    bare_port: Option<u16>,
    /// The database of the bare counterpart
    #[arg(long, hide = true, requires = "bare_port")]
    bare_database: Option<String>,
    /// Send webhooks to this URL without a queue and without records, as the baseline of the delivery benchmarks
    #[arg(long, hide = true, requires = "bare_count")]
    bare_send: Option<String>,
    /// Number of webhooks to send with `--bare-send`
    #[arg(long, hide = true)]
    bare_count: Option<usize>,
    /// Measure how a greedy tenant affects a modest one; a missed goal fails the run
    #[arg(long, hide = true)]
    abuse: bool,
    /// Run as one of the two clients of the abuse test, with this plan
    #[arg(long, hide = true)]
    abuse_client: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Number {
    /// Requests created over HTTP
    Create,
    /// Payouts and calldata over HTTP, with a node lookup for each
    Payout,
    /// Payments encoded in process
    Calldata,
    /// Payment events read from a chain into committed rows
    Ingest,
    /// From the mined receipt to the arrival of the webhook
    Latency,
    /// A thousand payments confirmed through distant nodes
    Burst,
    /// Memory while a long backlog is filled in
    Backlog,
    /// Start and memory of the idle service
    Idle,
    /// Delivery of events
    Events,
    /// Node calls per day
    Rpc,
    /// Calls with and without rate limits
    Limits,
    /// Searches of payments
    Search,
    /// Exports of payments
    Export,
    /// The payment page in a browser
    Page,
    /// Links read by their token
    Links,
    /// Payers, updates from the partner, and a partner that hangs
    Payer,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("numbers: a goal was missed");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("numbers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the selected benchmarks; returns false if a goal that must be met was missed.
fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    if let Some(port) = arguments.bare_port {
        return bare::serve(port, arguments.bare_database.as_deref()).map(|()| true);
    }
    if let (Some(url), Some(count)) = (&arguments.bare_send, arguments.bare_count) {
        return events::send_bare(url, count).map(|()| true);
    }
    if let Some(plan) = &arguments.abuse_client {
        return abuse::run_client(plan).map(|()| true);
    }
    // `cargo test --all-targets` also starts this program; a test run must not measure.
    if !arguments.bench {
        println!("benchmarks run only in `cargo xtask bench`");
        return Ok(true);
    }
    anyhow::ensure!(
        arguments.scale > 0.0 && arguments.scale <= 1.0,
        "--scale: must be greater than 0 and at most 1"
    );
    prs::adapters::install_tls();
    if arguments.abuse {
        return abuse::run(arguments.scale);
    }
    let names = if arguments.names.is_empty() {
        Number::value_variants()
    } else {
        arguments.names.as_slice()
    };
    let before = Machine::look();
    let mut filled = None;
    let (mut rows, mut failed): (Vec<Row>, Vec<anyhow::Error>) = (Vec::new(), Vec::new());
    for name in names {
        eprintln!("measuring {name:?} …");
        // An error of one benchmark does not stop the others, so that their results are still printed.
        match measure(*name, arguments, &mut filled) {
            Ok(measured) => rows.extend(measured),
            Err(error) => failed.push(error.context(format!("{name:?}"))),
        }
    }
    report::print(&rows, &before, &Machine::look(), arguments.scale);
    if let Some(filled) = filled {
        filled.remove()?;
    }
    // Only errors fail the run: a missed goal is printed as a result.
    failed.into_iter().next().map_or(Ok(true), Err)
}

fn measure(name: Number, arguments: &Arguments, filled: &mut Option<Filled>) -> anyhow::Result<Vec<Row>> {
    let scale = arguments.scale;
    Ok(match name {
        Number::Create => vec![create::measure(scale)?],
        Number::Calldata => vec![calldata::measure()?, calldata::measure_batch()?],
        Number::Payout => payout::measure(scale)?,
        Number::Ingest => vec![ingest::measure(scale)?],
        Number::Latency => latency::measure(scale)?,
        Number::Burst => vec![burst::measure(scale)?],
        Number::Backlog => backlog::measure(scale)?,
        Number::Idle => idle::measure(scale)?,
        Number::Events => events::measure(scale)?,
        Number::Rpc => rpc::measure(scale)?,
        Number::Limits => vec![limits::measure(scale)?],
        Number::Search => payments::measure_search(fill(filled, arguments)?, scale)?,
        Number::Export => payments::measure_export(fill(filled, arguments)?, scale)?,
        Number::Page => page::measure(scale)?,
        Number::Links => vec![page::measure_links(rows(arguments), scale)?],
        Number::Payer => payer::measure(scale)?,
    })
}

/// The database with payments, which searches and exports share.
fn fill<'f>(filled: &'f mut Option<Filled>, arguments: &Arguments) -> anyhow::Result<&'f Filled> {
    if filled.is_none() {
        *filled = Some(Filled::start(rows(arguments))?);
    }
    filled.as_ref().context("no payments")
}

fn rows(arguments: &Arguments) -> usize {
    arguments.rows.unwrap_or_else(|| scaled(ROWS, arguments.scale))
}
