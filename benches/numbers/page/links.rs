//! Measures reads of links in a database with a given number of links. Calls are sent on a fixed schedule, even if
//! earlier responses are missing. The baseline is the bare counterpart, which reads a link by the same key.

use anyhow::{Context, ensure};
use prs::settings::ChainSettings;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::database::BenchDatabase;
use crate::load;
use crate::report::{Goal, REPEATS, Row, in_ms, percentile, scaled};
use crate::service::{self, Running};

/// Calls per second.
const RATE_PER_S: u32 = 500;

/// Number of calls in one run, which takes ten seconds.
const CALLS: usize = 5_000;

/// Number of calls before the first run.
const WARM_UP_CALLS: usize = 2_000;

/// Goal for the 99th percentile, in milliseconds.
const P99_MS_MAX: f64 = 5.0;

/// Number of links that are read, spread over all links.
const READ: usize = 10_000;

/// SQL that copies the one link that the service created; each copy has its own id, token and request.
const FILL: [&str; 5] = [
    "CREATE TABLE made AS SELECT n, left(id, 10) || upper(substr(md5('request' || n), 1, 16)) AS request_row, \
     '01' || md5('id' || n) || md5(n || 'id') AS request_id, left(id, 10) || upper(substr(md5('link' || n), 1, 16)) AS link, \
     '01' || upper(substr(md5('token' || n), 1, 24)) AS token FROM requests, generate_series(1, {rows}) AS n",
    "INSERT INTO requests SELECT row.* FROM requests AS first, made, jsonb_populate_record(first, jsonb_build_object( \
     'id', made.request_row, 'request_id', made.request_id, \
     'reference', left(first.reference, length(first.reference) - 16) || substr(md5('reference' || n), 1, 16), \
     'reference_topic', left(first.reference_topic, length(first.reference_topic) - 64) || md5('topic' || n) || md5(n || 'topic')\
     )) AS row",
    "INSERT INTO secure_payments SELECT row.* FROM secure_payments AS first, made, jsonb_populate_record(first, \
     jsonb_build_object('id', made.link, 'token', made.token)) AS row",
    "INSERT INTO secure_payment_items SELECT row.* FROM secure_payment_items AS first, made, jsonb_populate_record(first, \
     jsonb_build_object('secure_payment_id', made.link, 'request_row', made.request_row, 'request_id', made.request_id)) AS row",
    "ANALYZE requests, secure_payments, secure_payment_items",
];

/// Reads links from the service and from its bare counterpart alternately.
pub(crate) fn measure(rows: usize, scale: f64) -> anyhow::Result<Row> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let database = runtime.block_on(BenchDatabase::create())?;
    let mut settings = service::settings(database.url.clone())?;
    // The service calls no node: a read without a wallet needs no balance.
    let chain = ChainSettings {
        rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
        ..ChainSettings::default()
    };
    settings.chains.insert("sepolia".to_owned(), chain);
    let tenant = runtime.block_on(service::seed(&settings))?;
    let ours = Running::serve(&settings, "api", folder.path())?;
    let tokens = runtime.block_on(fill(&ours, &tenant.api_key, &database.url, rows))?;
    let bare = Running::bare(Some(&database.url))?;
    let calls = |service: &Running| -> Vec<Vec<u8>> {
        let call = |token: &String| {
            let path = format!("/v2/secure-payments/{token}");
            load::get(service.address, &path, &[("x-api-key", &tenant.api_key)])
        };
        tokens.iter().map(call).collect()
    };
    let sides = [(&ours, calls(&ours)), (&bare, calls(&bare))];
    for (service, calls) in &sides {
        load::run_each(service.address, calls.clone(), (load::CONNECTIONS, WARM_UP_CALLS), 200)?;
    }
    let count = scaled(CALLS, scale);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..REPEATS {
        for ((service, calls), times) in sides.iter().zip(&mut times) {
            let latencies = load::run_at(service.address, calls.clone(), (RATE_PER_S, count), 200)?;
            times.push(in_ms(percentile(&latencies, 99)));
        }
    }
    drop((ours, bare));
    runtime.block_on(database.remove())?;
    let [ours, baseline] = times;
    Ok(Row {
        name: "link, p99",
        unit: "ms",
        ours,
        baseline_name: "bare read by the same key",
        baseline,
        goal: Goal::AtMost(P99_MS_MAX),
    })
}

/// Has the service create a link, copies it, and returns the tokens of the links that are read.
async fn fill(service: &Running, api_key: &str, database_url: &str, rows: usize) -> anyhow::Result<Vec<String>> {
    let wallet = "0x7eB023BFbAeE228de6DC5B92D0BeEB1eDb1Fd567";
    let body = json!({
        "recipient": wallet, "creatorWalletAddress": wallet, "network": "sepolia", "currency": "FAU-sepolia", "amount": "12.5",
        "reference": "order-1042", "redirectUrl": "https://shop.example.com/thanks", "expiresIn": 7_776_000,
    });
    let client = reqwest::Client::builder().no_proxy().build()?;
    let call = client.post(format!("http://{}/v2/secure-payments/payouts", service.address));
    let answer = call.header("x-api-key", api_key).json(&body).send().await?;
    let made: Value = answer.json().await?;
    ensure!(made["token"].is_string(), "no link was created: {made}");
    let begun = std::time::Instant::now();
    let mut connection = PgConnection::connect(database_url).await?;
    for statement in FILL {
        let statement = AssertSqlSafe(statement.replace("{rows}", &rows.to_string()));
        connection.execute(statement).await.context("cannot copy the links")?;
    }
    let step = i64::try_from((rows / READ).max(1))?;
    let read = "SELECT token FROM made WHERE n % $1 = 0 ORDER BY md5(token)";
    let tokens: Vec<String> = sqlx::query_scalar(read).bind(step).fetch_all(&mut connection).await?;
    connection.close().await?;
    eprintln!("  {rows} links were created in {:.0} s", begun.elapsed().as_secs_f64());
    Ok(tokens)
}
