//! `cargo xtask bench`: measures the service and compares it with its baselines. Starts everything that a benchmark
//! needs.

use std::process::Command;

use xtask::machine::failure::Outcome;
use xtask::machine::postgres::Postgres;
use xtask::machine::{command, packages, workspace};

/// Benchmarks on PostgreSQL.
const ON_POSTGRES: [&str; 5] = ["create", "payout", "events", "links", "payer"];

/// Names of the benchmarks that need a PostgreSQL that waits for the disk at each commit.
const ON_DURABLE_POSTGRES: [&str; 4] = ["ingest", "events", "search", "export"];

/// Names of the benchmarks that compare the service with other job queues.
const BESIDE_QUEUES: [&str; 1] = ["events"];

/// Names of the benchmarks that compare the service with a service in Node.js.
const BESIDE_NODE: [&str; 1] = ["search"];

/// Names of the benchmarks that need a local chain.
const ON_CHAIN: [&str; 7] = ["idle", "payout", "ingest", "latency", "burst", "rpc", "page"];

/// Names of the benchmarks that need a browser.
const IN_BROWSER: [&str; 1] = ["page"];

/// Options of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Benchmarks to run, such as `create`. Default: all
    names: Vec<String>,
    /// Fraction of the full amount of work, such as 0.1 for a quick trial
    #[arg(long)]
    scale: Option<String>,
    /// Number of payments for `search` and `export`, and of links for `links`, such as 10000000. Default: one million
    #[arg(long)]
    rows: Option<String>,
}

/// Runs the benchmarks and prints the results. A missed goal is part of the result, not a failure.
pub(crate) fn run(options: &Options) -> Outcome {
    let postgres = needs(&options.names, &ON_POSTGRES).then(Postgres::start).transpose()?;
    let durable = needs(&options.names, &ON_DURABLE_POSTGRES);
    let durable = durable.then(|| Postgres::start_durable(&[])).transpose()?;
    if needs(&options.names, &ON_CHAIN) {
        packages::ensure_local_chains()?;
    }
    if needs(&options.names, &IN_BROWSER) {
        packages::ensure_browser()?;
    }
    if needs(&options.names, &BESIDE_QUEUES)
        && let Err(error) = packages::ensure_job_queues()
    {
        eprintln!("BullMQ and graphile-worker are left out: {error:#}");
    }
    if needs(&options.names, &BESIDE_NODE)
        && let Err(error) = packages::ensure_search_peer()
    {
        eprintln!("the search of fastify and pg is left out: {error:#}");
    }
    let mut bench = cargo_bench(options);
    if let Some(server) = &postgres {
        bench.env("PRS_BENCH_POSTGRES_URL", server.url());
    }
    if let Some(server) = &durable {
        bench.env("PRS_BENCH_DURABLE_POSTGRES_URL", server.url());
        bench.env("PRS_BENCH_DURABLE_POSTGRES_LOG", server.log());
        bench.env("PATH", server.path()?);
    }
    Ok(command::run(&mut bench)?)
}

/// Whether one of the chosen benchmarks is in this list; an empty choice means all.
fn needs(names: &[String], among: &[&str]) -> bool {
    names.is_empty() || names.iter().any(|name| among.contains(&name.as_str()))
}

fn cargo_bench(options: &Options) -> Command {
    let mut bench = workspace::cargo();
    bench
        .args([
            "bench",
            "--package",
            "payment-request-service",
            "--bench",
            "numbers",
            "--",
        ])
        .args(&options.names);
    for (name, value) in [("--scale", &options.scale), ("--rows", &options.rows)] {
        if let Some(value) = value {
            bench.args([name, value]);
        }
    }
    bench
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requirements_of_the_chosen_benchmarks_are_started() {
        let names = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        assert!(needs(&[], &ON_POSTGRES) && needs(&[], &ON_CHAIN));
        assert!(needs(&names(&["idle", "create"]), &ON_POSTGRES));
        assert!(!needs(&names(&["events", "create"]), &ON_CHAIN));
        assert!(!needs(&names(&["calldata"]), &ON_POSTGRES));
        assert!(needs(&names(&["ingest"]), &ON_DURABLE_POSTGRES) && !needs(&names(&["ingest"]), &ON_POSTGRES));
    }

    #[test]
    fn names_and_sizes_reach_the_bench() {
        let options = Options {
            names: vec!["search".to_owned()],
            scale: Some("0.1".to_owned()),
            rows: Some("20000".to_owned()),
        };
        assert!(command::shown(&cargo_bench(&options)).ends_with("--bench numbers -- search --scale 0.1 --rows 20000"));
    }
}
