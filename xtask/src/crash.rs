//! `cargo xtask crash`: the service is killed again and again while requests are created and paid, and afterwards
//! nothing may be missing, doubled or changed.

mod client;
mod load;
mod service;
mod verdict;

use std::collections::HashMap;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use alloy::primitives::U256;
use anyhow::{Context, Result, anyhow, bail};
use devnet::Devnet;
use fastrand::Rng;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use self::client::{Call, Client};
use self::load::{Journal, Load, payee};
use self::service::Service;
use self::verdict::{Credit, Delivered, Found, Records, Verdict};
use crate::demo::{Delivery, Hooks};
use crate::failure::{Failure, Outcome};
use crate::postgres::Postgres;
use crate::{command, packages, workspace};

/// How long the service lives before it is killed, in milliseconds.
const LIFE_MS: std::ops::RangeInclusive<u64> = 50..=500;

/// The same for one life out of [`LONG_LIFE_EVERY`]: a slow build on a busy machine dies before it confirms or delivers
/// anything otherwise, and these steps would never be interrupted.
const LONG_LIFE_MS: std::ops::RangeInclusive<u64> = 500..=2_000;

const LONG_LIFE_EVERY: u64 = 2;

/// Threads that create requests.
const WRITERS: usize = 2;

/// Accounts that pay, each in a thread of its own; the first ones belong to the deployment.
const PAYERS: [usize; 2] = [2, 3];

/// Requests that wait for their payer; more would only make the end of the run longer.
const WAITING_MAX: usize = 16;

/// How long the receiver may hear nothing before what is still missing counts as lost.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A delivery that a killed process had claimed is sent again when its lease of 15 seconds ends; what is repeated or
/// doubled shows only after that.
const QUIET_TIME: Duration = Duration::from_secs(20);

/// How long the receiver lets a delivery wait for its answer: without it, hardly any kill would fall between an
/// arrival and its record.
const ANSWER_DELAY: Duration = Duration::from_millis(50);

/// How often something that happens by itself is looked for.
const POLL: Duration = Duration::from_millis(50);

/// The page that the client ID of the run belongs to.
const ORIGIN: &str = "http://localhost:3000";

const DELIVERY_HEADER: &str = "x-service-delivery";

/// How `cargo xtask crash` runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How often the service is killed
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    kills: u64,
    /// Where the service keeps its state
    #[arg(long, value_enum, default_value_t = Databases::Both)]
    database: Databases,
    /// Makes the moments of the kills those of an earlier run; it is printed at the start
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Databases {
    Sqlite,
    Postgres,
    Both,
}

impl Databases {
    fn each(self) -> &'static [Database] {
        match self {
            Self::Sqlite => &[Database::Sqlite],
            Self::Postgres => &[Database::Postgres],
            Self::Both => &[Database::Sqlite, Database::Postgres],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Database {
    Sqlite,
    Postgres,
}

impl Database {
    fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// What one run showed.
#[derive(Debug)]
struct Report {
    database: Database,
    kills: u64,
    repeated_creates: usize,
    verdict: Verdict,
    /// From each start after a kill to readiness.
    restarts: Vec<Duration>,
    /// Deliveries that arrived before the last request was paid; the fewer they are, the less the kills could hit.
    deliveries_under_load: usize,
}

/// Runs on each database, prints the counts, and fails when one of them is wrong.
pub(crate) fn run(options: &Options) -> Outcome {
    packages::ensure_chain_node()?;
    let prs = workspace::build_prs()?;
    let seed = options.seed.unwrap_or_else(|| RandomState::new().hash_one(0_u8));
    eprintln!("seed {seed}");
    let mut reports = Vec::new();
    for database in options.database.each() {
        let report = prove(*database, &prs, options.kills, seed)
            .map_err(|error| Failure::StepFailed(error.context(database.name())))?;
        reports.push(report);
    }
    println!("{}", table(&reports));
    for Report { database, verdict, .. } in &reports {
        println!(
            "{}: requests wrong {}, credits wrong {}, events wrong {}",
            database.name(),
            verdict.requests_wrong(),
            verdict.credits_wrong(),
            verdict.events_wrong(),
        );
    }
    if reports.iter().all(|report| report.verdict.is_clean()) {
        Ok(())
    } else {
        Err(Failure::StepFailed(anyhow!(
            "a kill cost something; repeat it with --seed {seed}"
        )))
    }
}

/// One run: a fresh database, a fresh chain, and a receiver that all outlive the service.
fn prove(database: Database, prs: &Path, kills: u64, seed: u64) -> Result<Report> {
    let name = database.name();
    let evidence = workspace::target_directory()?.join("xtask/crash").join(name);
    if evidence.exists() {
        fs::remove_dir_all(&evidence)?;
    }
    fs::create_dir_all(&evidence)?;
    let folder = tempfile::Builder::new().prefix("prs-crash-").tempdir()?;
    let postgres = match database {
        Database::Sqlite => None,
        Database::Postgres => Some(Postgres::start_durable()?),
    };
    let database_url = match &postgres {
        None => format!("sqlite:{}", folder.path().join("prs.db").display()),
        Some(postgres) => postgres.url(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let chain = runtime.block_on(start_chain())?;
    let hooks = Hooks::listen_slowly(ANSWER_DELAY)?;
    let log = evidence.join("service.log");
    let mut service = Service::new(prs, folder.path(), &log, &database_url, &chain)?;
    let (client, secret) = introduce(&mut service, &hooks)?;
    let load = Load {
        client: &client,
        run: seed,
        journal: Mutex::new(Journal::create(&evidence.join("acknowledged.jsonl"))?),
        paid: Mutex::default(),
        next: AtomicU64::new(0),
        round: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    };
    eprintln!("{name}: killing {kills} times; evidence in {}", evidence.display());
    let restarts = kill_under_load(&load, &mut service, &chain, &runtime, kills, seed)?;

    let mut records = Records {
        acknowledged: load.journal.lock().unwrap_or_else(PoisonError::into_inner).read()?,
        paid: std::mem::take(&mut *load.paid.lock().unwrap_or_else(PoisonError::into_inner)),
        ..Records::default()
    };
    eprintln!("{name}: {} requests paid; settling", records.paid.len());
    collect(&mut records, &hooks, &secret);
    let deliveries_under_load = records.deliveries.len();
    settle(&mut records, &hooks, &secret)?;
    read_back(&mut records, &client, kills)?;
    Ok(Report {
        database,
        kills,
        repeated_creates: client.repeated_creates(),
        verdict: Verdict::of(&records),
        restarts,
        deliveries_under_load,
    })
}

/// A chain whose payers have approved the proxy once and for all, so that every request is one transaction.
async fn start_chain() -> Result<Devnet> {
    let chain = Devnet::start(devnet::Options::default()).await?;
    let (token, spender) = (chain.tokens().fau, chain.contracts().erc20_fee_proxy);
    for payer in PAYERS {
        chain.approve(payer, token, spender, U256::MAX).await?;
    }
    Ok(chain)
}

/// Makes a tenant with a client ID and an endpoint; gives back the client and the secret of the endpoint.
fn introduce(service: &mut Service, hooks: &Hooks) -> Result<(Client, String)> {
    let platform = service.provision(&["platform", "create", "--name", "Crash test"])?;
    let key = service.provision(&["api-key", "create", "--platform", member(&platform, "id")?])?;
    service.start()?;
    let owner = Client::new(
        service.base_url(),
        vec![("x-api-key", member(&key, "apiKey")?.to_owned())],
    );
    let body = json!({"label": "Crash test", "allowedDomains": [ORIGIN]});
    let page = create(&owner, "/v2/client-ids", &body)?;
    let headers = vec![
        ("x-client-id", member(&page, "clientId")?.to_owned()),
        ("origin", ORIGIN.to_owned()),
    ];
    let client = Client::new(service.base_url(), headers);
    let endpoint = create(&client, "/v1/webhook", &json!({"url": hooks.url}))?;
    Ok((client, member(&endpoint, "secret")?.to_owned()))
}

fn create(client: &Client, path: &str, body: &Value) -> Result<Value> {
    let answer = client.call(path, &Call::Post { body, key: "crash" })?;
    answer.expect(201).with_context(|| path.to_owned())
}

fn member<'a>(body: &'a Value, name: &str) -> Result<&'a str> {
    body[name].as_str().with_context(|| format!("no {name} in {body}"))
}

/// Creates and pays while the service is killed and started; ends when everything that was created is paid.
fn kill_under_load(
    load: &Load<'_>,
    service: &mut Service,
    chain: &Devnet,
    runtime: &Runtime,
    kills: u64,
    seed: u64,
) -> Result<Vec<Duration>> {
    let (to_pay, queue) = mpsc::sync_channel(WAITING_MAX);
    let queue = Arc::new(Mutex::new(queue));
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for _ in 0..WRITERS {
            let to_pay = to_pay.clone();
            threads.push(scope.spawn(move || load.write(&to_pay)));
        }
        for account in PAYERS {
            let queue = Arc::clone(&queue);
            threads.push(scope.spawn(move || load.pay(chain, runtime.handle(), account, &queue)));
        }
        // The ends that the threads hold are the only ones, so that each side sees when the other one is gone.
        drop((to_pay, queue));

        let mut rng = Rng::with_seed(seed);
        let mut restarts = Vec::new();
        let mut live_through = || -> Result<()> {
            for round in 1..=kills {
                let is_long = round.is_multiple_of(LONG_LIFE_EVERY);
                let life_ms = rng.u64(if is_long { LONG_LIFE_MS } else { LIFE_MS });
                thread::sleep(Duration::from_millis(life_ms));
                if command::interrupted() {
                    bail!("interrupted");
                }
                if threads.iter().any(|thread| thread.is_finished()) {
                    bail!("the load ended before the last kill");
                }
                service.kill()?;
                restarts.push(service.start().with_context(|| format!("start after kill {round}"))?);
                load.round.store(round, Ordering::SeqCst);
            }
            Ok(())
        };
        let lived = live_through();
        load.is_over.store(true, Ordering::SeqCst);
        if lived.is_err() {
            load.client.give_up();
        }
        let mut outcomes = vec![lived];
        for thread in threads {
            outcomes.push(
                thread
                    .join()
                    .unwrap_or_else(|_| Err(anyhow!("a thread of the load panicked"))),
            );
        }
        // What stopped the load explains more than the end of the kills, which follows from it.
        outcomes.reverse();
        outcomes.into_iter().collect::<Result<()>>()?;
        Ok(restarts)
    })
}

/// Takes what has arrived.
fn collect(records: &mut Records, hooks: &Hooks, secret: &str) {
    while let Ok(delivery) = hooks.deliveries.try_recv() {
        records.deliveries.push(delivered(delivery, secret));
    }
}

/// Takes deliveries until every payment is confirmed and repeats have had their time.
fn settle(records: &mut Records, hooks: &Hooks, secret: &str) -> Result<()> {
    let begun = Instant::now();
    let mut last_arrival = begun;
    loop {
        let known = records.deliveries.len();
        collect(records, hooks, secret);
        if records.deliveries.len() > known {
            last_arrival = Instant::now();
        }
        let is_complete = begun.elapsed() > QUIET_TIME && Verdict::of(records).events_lost == 0;
        if is_complete || last_arrival.elapsed() > SILENCE_MAX {
            return Ok(());
        }
        if command::interrupted() {
            bail!("interrupted");
        }
        thread::sleep(POLL);
    }
}

fn delivered(delivery: Delivery, secret: &str) -> Delivered {
    let is_signed = delivery.verify(secret).is_ok();
    let event: Value = serde_json::from_slice(&delivery.body).unwrap_or_default();
    let member = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    Delivered {
        id: delivery.headers.get(DELIVERY_HEADER).cloned(),
        event: member("event"),
        request_id: member("requestId"),
        is_signed,
        body: delivery.body,
    }
}

/// Asks the service for everything that it acknowledged, and for how much it has.
fn read_back(records: &mut Records, client: &Client, kills: u64) -> Result<()> {
    let mut found = HashMap::new();
    for acknowledged in &records.acknowledged {
        let id = &acknowledged.request_id;
        let path = format!("/v2/request/{id}");
        let request = client.insist(&path, &Call::Get)?;
        if request.status == 404 {
            continue;
        }
        let is_paid = request.expect(200).with_context(|| path)?["hasBeenPaid"] == true;
        let path = format!("/v2/payments?requestId={id}");
        let payments = client
            .insist(&path, &Call::Get)?
            .expect(200)
            .with_context(|| path.clone())?;
        let payments = payments["payments"].as_array().with_context(|| path)?;
        let credits = payments.iter().map(credit).collect::<Result<_>>()?;
        found.insert(id.clone(), Found { is_paid, credits });
    }
    records.found = found;
    for round in 0..=kills {
        let path = format!("/v2/request?walletAddress={}&limit=1", payee(round));
        let page = client
            .insist(&path, &Call::Get)?
            .expect(200)
            .with_context(|| path.clone())?;
        records.listed += total(&page).with_context(|| path)?;
    }
    Ok(())
}

fn credit(payment: &Value) -> Result<Credit> {
    Ok(Credit {
        tx_hash: member(payment, "sourceTxHash")?.to_owned(),
        amount: member(payment, "amount")?.to_owned(),
    })
}

/// The number of matches; the document says that it is a number, and some encoders write `3.0`.
fn total(page: &Value) -> Result<usize> {
    let total = page.pointer("/pagination/total").context("no total")?.to_string();
    total
        .trim_end_matches(".0")
        .parse()
        .with_context(|| format!("total {total}"))
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// The counts, one column for each database.
fn table(reports: &[Report]) -> String {
    type Count = fn(&Report) -> String;
    let rows: [(&str, Count); 18] = [
        ("kills of the service", |report| report.kills.to_string()),
        ("requests acknowledged", |report| {
            report.verdict.acknowledged.to_string()
        }),
        ("creations repeated with their key", |report| {
            report.repeated_creates.to_string()
        }),
        ("requests lost", |report| report.verdict.requests_lost.to_string()),
        ("requests too many", |report| {
            report.verdict.requests_surplus.to_string()
        }),
        ("payments on the chain", |report| report.verdict.paid.to_string()),
        ("credited twice", |report| report.verdict.credited_twice.to_string()),
        ("not credited", |report| report.verdict.not_credited.to_string()),
        ("events expected", |report| report.verdict.events_expected.to_string()),
        ("events lost", |report| report.verdict.events_lost.to_string()),
        ("events under two identities", |report| {
            report.verdict.events_doubled.to_string()
        }),
        ("events without payment", |report| {
            report.verdict.events_surplus.to_string()
        }),
        ("deliveries", |report| report.verdict.deliveries.to_string()),
        ("deliveries under load", |report| {
            report.deliveries_under_load.to_string()
        }),
        ("deliveries repeated (allowed)", |report| {
            report.verdict.deliveries_repeated.to_string()
        }),
        ("repeats with changed bytes", |report| {
            report.verdict.deliveries_changed.to_string()
        }),
        ("deliveries without a right signature", |report| {
            report.verdict.deliveries_unsigned.to_string()
        }),
        ("restart to ready, median / longest", |report| {
            let longest = report.restarts.iter().max().copied().unwrap_or_default();
            format!("{} / {} ms", median(&report.restarts).as_millis(), longest.as_millis())
        }),
    ];
    let cell = |text: &str| format!(" {text:>14} |");
    let mut lines = vec![
        format!("| {:<36} |", "")
            + &reports
                .iter()
                .map(|report| cell(report.database.name()))
                .collect::<String>(),
        format!("|{}|", "-".repeat(38)) + &format!("{}:|", "-".repeat(15)).repeat(reports.len()),
    ];
    for (name, count) in rows {
        lines.push(format!("| {name:<36} |") + &reports.iter().map(|report| cell(&count(report))).collect::<String>());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_column_for_each_database() {
        let report = |database| Report {
            database,
            kills: 7,
            repeated_creates: 2,
            verdict: Verdict::default(),
            restarts: [3, 1, 2].map(Duration::from_millis).to_vec(),
            deliveries_under_load: 0,
        };
        let table = table(&[report(Database::Sqlite), report(Database::Postgres)]);
        let lines: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split('|').map(str::trim).collect())
            .collect();
        assert_eq!(lines[0], ["", "", "sqlite", "postgres", ""]);
        assert_eq!(lines[2], ["", "kills of the service", "7", "7", ""]);
        assert_eq!(lines.last().unwrap()[2], "2 / 3 ms");
    }

    #[test]
    fn a_total_is_read_however_the_number_is_written() {
        for (text, expected) in [("3", 3), ("3.0", 3), ("10.0", 10), ("100", 100), ("0.0", 0)] {
            let page = serde_json::from_str(&format!(r#"{{"pagination": {{"total": {text}}}}}"#)).unwrap();
            assert_eq!(total(&page).unwrap(), expected, "{text}");
        }
        assert!(total(&json!({})).is_err());
    }
}
