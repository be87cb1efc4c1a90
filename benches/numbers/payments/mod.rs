//! Searches and exports over a given number of payments, on a durable PostgreSQL.

mod export;
mod peer;
mod recorded;
mod search;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, anyhow, ensure};
use prs::settings::{ChainSettings, Settings};
use tokio::runtime::Runtime;

pub(crate) use export::measure as measure_export;
pub(crate) use search::measure as measure_search;

use crate::database::BenchDatabase;
use crate::load;
use crate::service::{self, Running, Tenant};

/// The SQL that fills a table, for this bench and for `cargo xtask plans`.
const FILL: &str = include_str!("../../../xtask/src/verbs/plans/fill.sql");

/// SQL that sets, for this bench, column values that differ from those in [`FILL`].
const CHOSEN: &str = include_str!("fill.sql");

/// SQL that adds the rows that follow from the payments: their wallets, the counts, and the samples to search for.
const FOLLOW: &str = include_str!("follow.sql");

/// Networks of the payments.
const NETWORKS: [&str; 5] = ["mainnet", "base", "matic", "optimism", "arbitrum-one"];

/// Column values of one payment to search for, by name and in the text form of PostgreSQL.
pub(crate) type Sample = BTreeMap<String, String>;

/// A database with payments, all of one tenant.
pub(crate) struct Filled {
    runtime: Runtime,
    database: BenchDatabase,
    settings: Settings,
    tenant: Tenant,
    rows: usize,
    samples: Vec<Sample>,
}

impl Filled {
    /// Creates this number of payments with their requests.
    pub(crate) fn start(rows: usize) -> anyhow::Result<Self> {
        let begun = Instant::now();
        let runtime = Runtime::new()?;
        let database = runtime.block_on(BenchDatabase::create_durable())?;
        let mut settings = service::settings(database.url.clone())?;
        for network in NETWORKS {
            // Searches and exports call no node.
            let chain = ChainSettings {
                rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
                ..ChainSettings::default()
            };
            settings.chains.insert(network.to_owned(), chain);
        }
        let tenant = runtime.block_on(service::seed(&settings))?;
        let of_tenant = |table: &str| -> anyhow::Result<String> {
            let id = psql(&database.url, &format!("SELECT id FROM {table}"), &[])?;
            Ok(id.trim().to_owned())
        };
        let values = [
            format!("--set=large={rows}"),
            "--set=medium=1".to_owned(),
            format!("--set=platform={}", of_tenant("platforms")?),
            format!("--set=client={}", of_tenant("client_ids")?),
        ];
        let psql = |script: &str| psql(&database.url, script, &values);
        // Checkpoints during the fill would only cost time.
        psql("ALTER SYSTEM SET max_wal_size = '16GB'; SELECT pg_reload_conf();")?;
        psql(&[FILL, CHOSEN].concat())?;
        std::thread::scope(|scope| {
            let requests = scope.spawn(|| psql("SELECT fill.fill('requests'); VACUUM ANALYZE requests;"));
            psql("SELECT fill.fill('payments'); VACUUM ANALYZE payments;")?;
            psql(FOLLOW)?;
            requests.join().map_err(|_| anyhow!("cannot fill the requests"))?
        })?;
        psql("ALTER SYSTEM RESET max_wal_size; SELECT pg_reload_conf(); CHECKPOINT;")?;
        let samples = psql("SELECT to_jsonb(samples) - 'n' FROM fill.samples ORDER BY n")?;
        let samples = samples.lines().map(serde_json::from_str);
        let samples: Vec<Sample> = samples.collect::<Result<_, _>>()?;
        ensure!(!samples.is_empty(), "too few payments to search for any");
        eprintln!(
            "  {rows} payments were created in {:.0} s",
            begun.elapsed().as_secs_f64()
        );
        Ok(Self {
            runtime,
            database,
            settings,
            tenant,
            rows,
            samples,
        })
    }

    /// The service, which only serves the API.
    fn serve(&self, folder: &tempfile::TempDir) -> anyhow::Result<Running> {
        Running::serve(&self.settings, "api", folder.path())
    }

    /// The credential header of this kind of search.
    fn credential(&self, kind: &Kind) -> (&'static str, &str) {
        if kind.is_of_client {
            ("x-client-id", &self.tenant.client_id)
        } else {
            ("x-api-key", &self.tenant.api_key)
        }
    }

    /// The HTTP calls of these kinds of search: for each sample, one call of each kind.
    fn calls<'k>(&self, address: SocketAddr, kinds: impl Iterator<Item = &'k Kind> + Clone) -> Vec<Vec<u8>> {
        let calls = |sample| {
            let call = move |kind: &Kind| load::get(address, &kind.path(sample), &[self.credential(kind)]);
            kinds.clone().map(call)
        };
        self.samples.iter().flat_map(calls).collect()
    }

    /// Removes everything.
    pub(crate) fn remove(self) -> anyhow::Result<()> {
        self.runtime.block_on(self.database.remove())
    }
}

/// One kind of search.
struct Kind {
    name: &'static str,
    /// Whether the search finds a few payments by a value that only they have.
    is_keyed: bool,
    /// Whether the caller uses a client ID.
    is_of_client: bool,
    /// Whether the search is part of the mix of searches.
    is_mixed: bool,
    query: fn(&Sample) -> String,
}

impl Kind {
    fn path(&self, sample: &Sample) -> String {
        format!("/v2/payments?{}", (self.query)(sample))
    }
}

/// All kinds of searches. The name of a value is the name of its column in `fill.samples`.
const KINDS: [Kind; 12] = [
    Kind {
        is_keyed: true,
        ..kind("hash", |of| format!("txHash={}", hex(&of["tx_hash"])))
    },
    Kind {
        is_keyed: true,
        ..kind("reference", |of| format!("paymentReference={}", hex(&of["reference"])))
    },
    Kind {
        is_keyed: true,
        ..kind("request", |of| format!("requestId={}", of["request_id"]))
    },
    Kind {
        is_keyed: true,
        ..kind("own reference", |of| format!("reference={}", of["merchant_reference"]))
    },
    Kind {
        is_keyed: true,
        ..kind("wallet", |of| format!("walletAddress={}", hex(&of["wallet"])))
    },
    kind("hot wallet", |of| format!("walletAddress={}", hex(&of["hot"]))),
    kind("kind", |_| "type=direct".to_owned()),
    kind("currency", |_| "invoiceCurrency=EUR".to_owned()),
    Kind {
        is_of_client: true,
        ..kind("client ID", |_| "type=direct".to_owned())
    },
    kind("wallet and dates", |of| {
        let dates = (instant(&of["since"]), instant(&of["until"]));
        format!(
            "walletAddress={}&fromDate={}&toDate={}",
            hex(&of["hot"]),
            dates.0,
            dates.1
        )
    }),
    kind("no match", |_| "type=recurring".to_owned()),
    Kind {
        is_mixed: false,
        ..kind("offset 10,000", |of| {
            format!("walletAddress={}&offset=10000", hex(&of["hot"]))
        })
    },
];

/// The search that finds every payment.
const ALL: Kind = kind("all", |_| "paymentCurrency=USDC".to_owned());

const fn kind(name: &'static str, query: fn(&Sample) -> String) -> Kind {
    Kind {
        name,
        is_keyed: false,
        is_of_client: false,
        is_mixed: true,
        query,
    }
}

fn mixed() -> impl Iterator<Item = &'static Kind> + Clone {
    KINDS.iter().filter(|kind| kind.is_mixed)
}

/// Bytes as the API writes them.
fn hex(bytes: &str) -> String {
    bytes.replacen("\\x", "0x", 1)
}

/// A time as the API reads it.
fn instant(time: &str) -> String {
    time.replacen(' ', "T", 1).replace("+00", "Z")
}

/// Runs a script with `psql` and returns its output.
fn psql(url: &str, script: &str, options: &[String]) -> anyhow::Result<String> {
    let mut psql = Command::new("psql");
    psql.args([
        "--no-psqlrc",
        "--quiet",
        "--no-align",
        "--tuples-only",
        "--set=ON_ERROR_STOP=1",
        "--file=-",
    ]);
    psql.args(options).arg(url).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = psql.spawn().context("psql")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(script.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "psql ended with {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}
