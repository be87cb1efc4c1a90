//! Measures how many requests are created per second over HTTP on PostgreSQL, compared with a bare handler that inserts
//! the same rows.

use prs::settings::ChainSettings;

use crate::database::BenchDatabase;
use crate::load::{self, Load};
use crate::report::{Goal, REPEATS, Row, in_ms, percentile, rate_per_s, scaled};
use crate::service::{self, Running};

/// Requests of one run.
const REQUESTS: usize = 20_000;

/// Number of requests before the first run, so that connections, statements and caches are warm on both sides.
const WARM_UP_REQUESTS: usize = 1_000;

/// Goal for the service's rate, as a fraction of the bare handler's rate.
const GOAL_RATIO: f64 = 0.7;

pub(crate) const BODY: &str = r#"{"payee":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","amount":"1.5","invoiceCurrency":"FAU-sepolia","paymentCurrency":"FAU-sepolia"}"#;

/// Measures the service and its bare counterpart alternately, each as a separate process with its own database.
pub(crate) fn measure(scale: f64) -> anyhow::Result<Row> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let (database, bare_database) =
        runtime.block_on(async { anyhow::Ok((BenchDatabase::create().await?, BenchDatabase::create().await?)) })?;
    let mut settings = service::settings(database.url.clone())?;
    // The network must be enabled; creating a request calls no node.
    let chain = ChainSettings {
        rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
        ..ChainSettings::default()
    };
    settings.chains.insert("sepolia".to_owned(), chain);
    let mut bare_settings = settings.clone();
    bare_settings.database.url = bare_database.url.clone();
    let tenant = runtime.block_on(async {
        service::seed(&bare_settings).await?;
        service::seed(&settings).await
    })?;
    let ours = Running::serve(&settings, "api", folder.path())?;
    let bare = Running::bare(Some(&bare_database.url))?;

    let headers = [("x-api-key", tenant.api_key.as_str())];
    let send = |running: &Running, count: usize| {
        let request = load::post(running.address, "/v2/request", &headers, BODY);
        load::run(running.address, request, count)
    };
    let (mut our_rates, mut bare_rates) = (Vec::new(), Vec::new());
    for running in [&ours, &bare] {
        send(running, WARM_UP_REQUESTS)?;
    }
    let count = scaled(REQUESTS, scale);
    for _ in 0..REPEATS {
        for (name, running, rates) in [("ours", &ours, &mut our_rates), ("bare", &bare, &mut bare_rates)] {
            let load = send(running, count)?;
            rates.push(rate_per_s(count, load.time));
            say(name, &load);
        }
    }
    drop((ours, bare));
    runtime.block_on(async {
        database.remove().await?;
        bare_database.remove().await
    })?;
    Ok(Row {
        name: "create",
        unit: "requests/s",
        ours: our_rates,
        baseline_name: "bare axum + sqlx",
        baseline: bare_rates,
        goal: Goal::Ratio(GOAL_RATIO),
    })
}

/// Prints how a run went.
pub(crate) fn say(name: &str, load: &Load) {
    eprintln!(
        "  {name}: {} requests in {:.1} s, p50 {:.1} ms, p99 {:.1} ms",
        load.latencies.len(),
        load.time.as_secs_f64(),
        in_ms(percentile(&load.latencies, 50)),
        in_ms(percentile(&load.latencies, 99)),
    );
}
