//! The stage of a fault: everything that the fault needs. Database, chain and receiver are new and keep running when
//! the service dies. Meanwhile the requests of a tenant are created and paid.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use alloy::primitives::U256;
use anyhow::{Context, Result, anyhow, bail};
use chrono::DateTime;
use devnet::Devnet;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Handle, Runtime};

use crate::client::Client;
use crate::fault::{Database, Fault};
use crate::link::Link;
use crate::load::{Journal, Load, payee};
use crate::plan::Plan;
use crate::service::{Service, Settings, free_port};
use crate::sink::{Arrival, Sink};
use crate::verdict::{Acknowledged, Credit, Delivered, Found, Listed, Records, Terms, Verdict};
use xtask::machine::command;
use xtask::machine::postgres::{DATABASE, Postgres};
use xtask::service::client::Call;

/// Number of threads that create requests, unless a fault sets another number. Every second thread sends no idempotency
/// key.
const WRITERS: usize = 2;

/// Indexes of the accounts that pay. Each account has its own thread. Lower indexes are reserved for the deployment.
pub(crate) const PAYERS: [usize; 2] = [2, 3];

/// Maximum number of created requests that no payer has paid yet, unless a fault sets another number. A larger number
/// would only make the end of the run longer.
const WAITING_MAX: usize = 16;

/// How long the receiver may get no delivery before missing deliveries count as lost.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Poll interval while waiting for an event.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// Number of requests in one page of a list.
const PAGE: usize = 100;

const DELIVERY_HEADER: &str = "x-service-delivery";

/// Time limit of [`wait_for`], longer than any wait that a fault intends.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// The processes that a fault can break during the load.
pub(crate) struct Machines {
    /// The service that clients call.
    pub(crate) service: Service,
    /// The link between the service and PostgreSQL, if requested.
    pub(crate) link: Option<Link>,
    /// The receiver.
    pub(crate) sink: Sink,
    /// The database server; `None` with SQLite.
    pub(crate) postgres: Option<Postgres>,
}

/// Everything that one fault needs. The service is dropped before its dependencies.
pub(crate) struct Stage {
    /// What a fault can break.
    pub(crate) machines: Machines,
    /// Client of the merchant's page.
    pub(crate) client: Client,
    /// The chain that the service follows and that payers pay on.
    pub(crate) chain: Arc<Devnet>,
    runtime: Runtime,
    secrets: HashMap<String, String>,
    database_url: String,
    prs: PathBuf,
    folder: TempDir,
    evidence: PathBuf,
    seed: u64,
    /// Pause of each writer after a request.
    pub(crate) pace: Duration,
    /// Number of threads that create requests.
    pub(crate) writers: usize,
    /// Maximum number of requests that wait for their payer.
    pub(crate) waiting_max: usize,
    /// Number of the next round of the load. All loads of a stage use different numbers.
    round: u64,
}

impl Stage {
    /// Sets everything up and starts the service.
    pub(crate) fn open(plan: &Plan, fault: Fault, database: Database) -> Result<Self> {
        Self::open_with(plan, fault, database, false, &[])
    }

    /// Like [`Self::open`], on PostgreSQL. The service that clients call follows no network and sends no deliveries.
    pub(crate) fn open_api(plan: &Plan, fault: Fault, environment: &[(&'static str, String)]) -> Result<Self> {
        Self::open_as("api", plan, fault, Database::Postgres, false, environment)
    }

    /// Like [`Self::open`], with a link in front of PostgreSQL.
    pub(crate) fn open_wired(plan: &Plan, fault: Fault) -> Result<Self> {
        Self::open_with(plan, fault, Database::Postgres, true, &[])
    }

    /// Like [`Self::open_wired`], but the service behind the link follows no network and sends no deliveries. Also
    /// returns a worker that does both, with a direct connection to PostgreSQL; the worker is not started yet.
    pub(crate) fn open_wired_api(plan: &Plan, fault: Fault) -> Result<(Self, Service)> {
        let mut stage = Self::open_as("api", plan, fault, Database::Postgres, true, &[])?;
        let postgres = stage.machines.postgres.as_ref().context("PostgreSQL is not running")?;
        let wired = std::mem::replace(&mut stage.database_url, postgres.url());
        let worker = stage.worker("worker")?;
        stage.database_url = wired;
        Ok((stage, worker))
    }

    /// Like [`Self::open`], with environment variables for the service and its database server, or with a link.
    pub(crate) fn open_with(
        plan: &Plan,
        fault: Fault,
        database: Database,
        is_linked: bool,
        environment: &[(&'static str, String)],
    ) -> Result<Self> {
        Self::open_as("all", plan, fault, database, is_linked, environment)
    }

    fn open_as(
        role: &str,
        plan: &Plan,
        fault: Fault,
        database: Database,
        is_linked: bool,
        environment: &[(&'static str, String)],
    ) -> Result<Self> {
        let evidence = plan.evidence.join(format!("{}-{}", fault.name(), database.name()));
        if evidence.exists() {
            fs::remove_dir_all(&evidence)?;
        }
        fs::create_dir_all(&evidence)?;
        let folder = tempfile::Builder::new().prefix("prs-crash-").tempdir()?;
        let postgres = match database {
            Database::Sqlite => None,
            Database::Postgres => Some(Postgres::start_durable(environment)?),
        };
        let link = match &postgres {
            Some(postgres) if is_linked => Some(Link::to(postgres.port(), plan.seed)?),
            _ => None,
        };
        let database_url = match (&postgres, &link) {
            (None, _) => format!("sqlite:{}", folder.path().join("prs.db").display()),
            (Some(postgres), None) => postgres.url(),
            (Some(postgres), Some(link)) => {
                let direct = format!(":{}/", postgres.port());
                postgres.url().replace(&direct, &format!(":{}/", link.port()))
            }
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let chain = Arc::new(runtime.block_on(start_chain())?);
        let mut service = Service::new(Settings {
            prs: &plan.prs,
            folder: folder.path(),
            name: "prs",
            role,
            log: &evidence.join("service.log"),
            database_url: &database_url,
            chain: &chain,
        })?;
        for (name, value) in environment {
            service.set_variable(name, value.clone());
        }
        let platform = service.provision(&["platform", "create", "--name", "Crash test"])?;
        let key = service.provision(&["api-key", "create", "--platform", member(&platform, "id")?])?;
        service.start()?;
        let headers = vec![("x-api-key", member(&key, "apiKey")?.to_owned())];
        Ok(Self {
            client: Client::new(service.base_url(), headers),
            machines: Machines {
                service,
                link,
                sink: Sink::open(free_port()?)?,
                postgres,
            },
            chain,
            runtime,
            secrets: HashMap::new(),
            database_url,
            prs: plan.prs.clone(),
            folder,
            evidence,
            seed: plan.seed,
            pace: Duration::ZERO,
            writers: WRITERS,
            waiting_max: WAITING_MAX,
            round: 0,
        })
    }

    /// Creates a worker of the same service, on the same database and chain, and does not start it.
    pub(crate) fn worker(&self, name: &str) -> Result<Service> {
        self.instance(name, "worker")
    }

    /// Like [`Self::worker`], with another role.
    pub(crate) fn instance(&self, name: &str, role: &str) -> Result<Service> {
        Service::new(Settings {
            prs: &self.prs,
            folder: self.folder.path(),
            name,
            role,
            log: &self.evidence.join(format!("{name}.log")),
            database_url: &self.database_url,
            chain: &self.chain,
        })
    }

    /// Registers the receiver's path as an endpoint; returns its id.
    pub(crate) fn register(&mut self, path: &str) -> Result<String> {
        let body = json!({"url": self.machines.sink.url(path)});
        let endpoint = self.client.create("/v1/webhook", &body)?;
        self.secrets
            .insert(format!("/{path}"), member(&endpoint, "secret")?.to_owned());
        Ok(member(&endpoint, "id")?.to_owned())
    }

    /// Deletes an endpoint.
    pub(crate) fn deregister(&self, id: &str) -> Result<()> {
        let answer = self.client.call(&format!("/v1/webhook/{id}"), &Call::Delete)?;
        answer.expect(200).map(|_| ())
    }

    /// Creates and pays requests during a fault; ends when every created request is paid.
    pub(crate) fn under_load<T>(
        &mut self,
        meanwhile: impl FnOnce(&mut Machines, &Pressure<'_>) -> Result<T>,
    ) -> Result<(T, Records)> {
        let journal = self.evidence.join("acknowledged.jsonl");
        let load = Load {
            client: &self.client,
            pace: self.pace,
            run: self.seed.wrapping_add(self.round),
            journal: Mutex::new(Journal::create(&journal)?),
            unanswered: Mutex::default(),
            unknown: Mutex::default(),
            paid: Mutex::default(),
            next: AtomicU64::new(0),
            round: AtomicU64::new(self.round),
            is_over: AtomicBool::new(false),
        };
        let (to_pay, queue) = mpsc::sync_channel(self.waiting_max);
        let queue = Arc::new(Mutex::new(queue));
        let (chain, runtime, machines) = (&self.chain, self.runtime.handle(), &mut self.machines);
        let value = thread::scope(|scope| {
            let mut threads = Vec::new();
            for number in 0..self.writers {
                let (load, to_pay) = (&load, to_pay.clone());
                threads.push(scope.spawn(move || load.write(number.is_multiple_of(2), &to_pay)));
            }
            for account in PAYERS {
                let (load, queue) = (&load, Arc::clone(&queue));
                threads.push(scope.spawn(move || load.pay(chain, runtime, account, &queue)));
            }
            // Drops the channel ends of this function. Only the threads have ends now, so each side notices when the
            // other side has stopped.
            drop((to_pay, queue));
            let pressure = Pressure {
                load: &load,
                is_broken: &|| threads.iter().any(|thread| thread.is_finished()),
            };
            let value = meanwhile(machines, &pressure);
            load.is_over.store(true, Ordering::SeqCst);
            if value.is_err() {
                load.client.give_up();
            }
            let mut outcome = Ok(());
            for thread in threads {
                let ended = thread
                    .join()
                    .unwrap_or_else(|_| Err(anyhow!("a thread of the load panicked")));
                outcome = outcome.and(ended);
            }
            // If the load stopped with an error, that error is the cause of the fault's error and is returned in its
            // place.
            outcome.and(value)
        })?;
        let last_round = load.round.load(Ordering::SeqCst);
        let records = Records {
            acknowledged: load.journal.lock().unwrap_or_else(PoisonError::into_inner).read()?,
            unanswered: std::mem::take(&mut *load.unanswered.lock().unwrap_or_else(PoisonError::into_inner)),
            unknown: std::mem::take(&mut *load.unknown.lock().unwrap_or_else(PoisonError::into_inner)),
            paid: std::mem::take(&mut *load.paid.lock().unwrap_or_else(PoisonError::into_inner)),
            payees: (self.round..=last_round).map(payee).collect(),
            ..Records::default()
        };
        drop(load);
        self.round = last_round + 1;
        Ok((value, records))
    }

    /// Creates and pays this number of requests, adds them to the records, and waits until their events are in the log.
    pub(crate) fn make_events(&mut self, records: &mut Records, count: usize) -> Result<Vec<Logged>> {
        let known = self.events()?.len();
        let ((), mut made) = self.under_load(|_, pressure| {
            while pressure.load.paid.lock().unwrap_or_else(PoisonError::into_inner).len() < count {
                pressure.pause(POLL)?;
            }
            Ok(())
        })?;
        let expected = known + made.paid.len();
        records.payees.append(&mut made.payees);
        records.acknowledged.append(&mut made.acknowledged);
        records.unanswered.append(&mut made.unanswered);
        records.unknown.extend(made.unknown);
        records.paid.append(&mut made.paid);
        wait_for("events in the log", || {
            let mut events = self.events()?;
            let is_complete = events.len() >= expected;
            // The newest come first.
            events.truncate(events.len().saturating_sub(known));
            Ok(is_complete.then_some(events))
        })
    }

    /// The event log, newest first.
    pub(crate) fn events(&self) -> Result<Vec<Logged>> {
        let pages = self.pages("/v2/events?event=payment.confirmed", "events")?;
        pages.iter().map(Logged::read).collect()
    }

    /// All objects of a list with a cursor.
    pub(crate) fn pages(&self, path: &str, list: &str) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.get(&format!("{path}&limit=100{cursor}"))?;
            all.extend(page[list].as_array().context("no list")?.iter().cloned());
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(all),
            }
        }
    }

    /// RPC client of the chain.
    pub(crate) fn runtime(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Reads a path of the service; repeats the call until the response is final.
    pub(crate) fn get(&self, path: &str) -> Result<Value> {
        read(&self.client, path)
    }

    /// Replays all events; returns the number of queued deliveries.
    pub(crate) fn replay(&self, is_failed_only: bool) -> Result<u64> {
        let body = json!({"since": "2020-01-01T00:00:00.000Z", "failedOnly": is_failed_only});
        let call = Call::Post(&body);
        let answer = self.client.call("/v2/events/replay", &call)?.expect(202)?;
        answer["replayed"].as_u64().context("no number of replays")
    }

    /// Waits until the service has confirmed every payment, the deliveries to `path` have arrived, and deliveries that
    /// are sent again had time to arrive. Then reads back everything that the service acknowledged.
    pub(crate) fn settle(&self, records: &mut Records, path: &str, quiet: Duration) -> Result<Verdict> {
        let begun = Instant::now();
        let mut last = (0, begun);
        loop {
            self.collect(records, path);
            if records.deliveries.len() > last.0 {
                last = (records.deliveries.len(), Instant::now());
            }
            let is_complete = begun.elapsed() > quiet && Verdict::of(records).events_lost == 0;
            if is_complete || last.1.elapsed() > SILENCE_MAX {
                break;
            }
            if command::interrupted() {
                bail!("interrupted");
            }
            thread::sleep(POLL);
        }
        read_back(records, &self.client)?;
        let stored = self.query("SELECT request_id FROM requests")?;
        records.stored = stored.map(HashSet::from_iter);
        Ok(Verdict::of(records))
    }

    /// The rows that a query reads directly from the tables of PostgreSQL, one line each; `None` on SQLite.
    pub(crate) fn query(&self, sql: &str) -> Result<Option<Vec<String>>> {
        let Some(postgres) = &self.machines.postgres else {
            return Ok(None);
        };
        let mut psql = postgres.psql(DATABASE);
        let rows = command::capture(psql.args(["--command", sql]))?;
        Ok(Some(String::from_utf8(rows)?.lines().map(str::to_owned).collect()))
    }

    /// Collects the deliveries to `path`.
    pub(crate) fn collect(&self, records: &mut Records, path: &str) {
        let path = format!("/{path}");
        let secret = self.secrets.get(&path).map_or("", String::as_str);
        let arrivals = self.machines.sink.arrivals();
        records.deliveries = arrivals
            .iter()
            .filter(|arrival| arrival.path == path)
            .map(|arrival| delivered(arrival, secret))
            .collect();
    }
}

/// An event in the log.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    /// The request that the event is about.
    pub(crate) request_id: String,
    /// When the event was written, in milliseconds since 1970.
    pub(crate) created_ms: i64,
}

impl Logged {
    fn read(event: &Value) -> Result<Self> {
        Ok(Self {
            request_id: member(event, "requestId")?.to_owned(),
            created_ms: milliseconds(member(event, "createdAt")?)?,
        })
    }
}

/// Lets a fault control the load of its stage.
pub(crate) struct Pressure<'a> {
    /// The shared state of the load.
    pub(crate) load: &'a Load<'a>,
    is_broken: &'a dyn Fn() -> bool,
}

impl Pressure<'_> {
    /// Pauses, and returns an error if the load has stopped meanwhile.
    pub(crate) fn pause(&self, time: Duration) -> Result<()> {
        thread::sleep(time);
        if command::interrupted() {
            bail!("interrupted");
        }
        if (self.is_broken)() {
            bail!("the load ended before the last round");
        }
        Ok(())
    }

    /// Starts the next round of the load. The requests of the new round pay a new wallet.
    pub(crate) fn next_round(&self) {
        self.load.round.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls until `ask` returns a result. Returns an error after the time limit.
pub(crate) fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(value) = ask()? {
            return Ok(value);
        }
        if command::interrupted() {
            bail!("interrupted");
        }
        if begun.elapsed() > WAIT_MAX {
            bail!("timed out waiting for {what} after {} s", WAIT_MAX.as_secs());
        }
        thread::sleep(POLL);
    }
}

/// A chain whose payers have approved the proxy permanently, so that every request is one transaction.
async fn start_chain() -> Result<Devnet> {
    let chain = Devnet::start(devnet::Options::default()).await?;
    let (token, spender) = (chain.tokens().fau, chain.contracts().erc20_fee_proxy);
    for payer in PAYERS {
        chain.approve(payer, token, spender, U256::MAX).await?;
    }
    Ok(chain)
}

/// A string member of an object.
pub(crate) fn member<'a>(body: &'a Value, name: &str) -> Result<&'a str> {
    body[name].as_str().with_context(|| format!("no {name} in {body}"))
}

fn delivered(arrival: &Arrival, secret: &str) -> Delivered {
    let delivery = &arrival.delivery;
    let event: Value = serde_json::from_slice(&delivery.body).unwrap_or_default();
    let member = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    Delivered {
        id: delivery.headers.get(DELIVERY_HEADER).cloned(),
        event: member("event"),
        request_id: member("requestId"),
        is_signed: delivery.verify(secret).is_ok(),
        body: delivery.body.clone(),
    }
}

fn read(client: &Client, path: &str) -> Result<Value> {
    let answer = client.insist(path, &Call::Get)?;
    answer.expect(200).with_context(|| path.to_owned())
}

/// Reads from the service everything that it acknowledged, as it is stored now.
fn read_back(records: &mut Records, client: &Client) -> Result<()> {
    let mut found = HashMap::new();
    for Acknowledged { request_id, .. } in &records.acknowledged {
        if let Some(request) = find(client, request_id)? {
            found.insert(request_id.clone(), request);
        }
    }
    records.found = found;
    records.listed.clear();
    for payee in &records.payees {
        records.listed.extend(listed(client, payee)?);
    }
    Ok(())
}

/// All requests that pay a wallet, from every page.
pub(crate) fn listed(client: &Client, payee: &str) -> Result<Vec<Listed>> {
    let mut all = Vec::new();
    loop {
        let path = format!("/v2/request?walletAddress={payee}&limit={PAGE}&offset={}", all.len());
        let page = read(client, &path)?;
        for request in page["requests"].as_array().context("no requests")? {
            all.push(Listed {
                request_id: member(request, "requestId")?.to_owned(),
                terms: Terms::new(payee, member(request, "amount")?),
            });
        }
        if page.pointer("/pagination/hasMore") != Some(&Value::Bool(true)) {
            return Ok(all);
        }
    }
}

/// A request as the service shows it, with its payments; `None` if the service does not know the request.
pub(crate) fn find(client: &Client, request_id: &str) -> Result<Option<Found>> {
    let path = format!("/v2/request/{request_id}");
    let request = client.insist(&path, &Call::Get)?;
    if request.status == 404 {
        return Ok(None);
    }
    let is_paid = request.expect(200).with_context(|| path)?["hasBeenPaid"] == true;
    let path = format!("/v2/payments?requestId={request_id}");
    let payments = read(client, &path)?;
    let payments = payments["payments"].as_array().with_context(|| path)?;
    let credits = payments.iter().map(credit).collect::<Result<_>>()?;
    Ok(Some(Found { is_paid, credits }))
}

fn credit(payment: &Value) -> Result<Credit> {
    Ok(Credit {
        tx_hash: member(payment, "sourceTxHash")?.to_owned(),
        amount: member(payment, "amount")?.to_owned(),
    })
}

/// Milliseconds since 1970 of a time such as `2030-01-31T12:00:00.000Z`.
pub(crate) fn milliseconds(text: &str) -> Result<i64> {
    let time = DateTime::parse_from_rfc3339(text).with_context(|| format!("{text} is not a time"))?;
    Ok(time.timestamp_millis())
}
