//! Measures payouts and calldata over HTTP, on PostgreSQL and a local chain. For each call the service looks up the
//! payer at a node. The baseline is the creation of requests on the same service.

use devnet::{Devnet, Options};
use prs::boot::dev;

use crate::create::{self, BODY};
use crate::database::BenchDatabase;
use crate::latency::Merchant;
use crate::load;
use crate::report::{Goal, REPEATS, Row, rate_per_s, scaled};
use crate::service::{self, Running};

/// Calls of one run.
const CALLS: usize = 5_000;

/// Number of calls before the first run, so that connections, statements and caches are warm.
const WARM_UP_CALLS: usize = 300;

/// Goal for the rate of payouts, as a fraction of the rate of `POST /v2/request`.
const GOAL_RATIO: f64 = 0.5;

/// An account of the local chain with enough funds.
const PAYER: usize = 3;

/// Measures the three operations alternately.
pub(crate) fn measure(scale: f64) -> anyhow::Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let (database, chain) = runtime
        .block_on(async { anyhow::Ok((BenchDatabase::create().await?, Devnet::start(Options::default()).await?)) })?;
    let mut settings = service::settings(database.url.clone())?;
    let section = dev::chain_settings(&chain, vec![chain.rpc_url().to_owned()]);
    settings.chains.insert("sepolia".to_owned(), section);
    let tenant = runtime.block_on(service::seed(&settings))?;
    let ours = Running::serve(&settings, "api", folder.path())?;

    let api_key = tenant.api_key.clone();
    let headers = [("x-api-key", api_key.as_str())];
    let payer = chain.accounts()[PAYER].address;
    let payout = BODY.replacen('{', &format!(r#"{{"payerWallet":"{payer}","#), 1);
    let id = runtime.block_on(Merchant::new(&ours, tenant)?.create())?;
    let calls = [
        ("request", load::post(ours.address, "/v2/request", &headers, BODY), 201),
        (
            "payout",
            load::post(ours.address, "/v2/payouts", &headers, &payout),
            201,
        ),
        (
            "pay",
            load::get(ours.address, &format!("/v2/request/{id}/pay?wallet={payer}"), &headers),
            200,
        ),
    ];
    for (_, call, status) in &calls {
        load::run_expecting(ours.address, call.clone(), WARM_UP_CALLS, *status)?;
    }
    let count = scaled(CALLS, scale);
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..REPEATS {
        for ((name, call, status), rates) in calls.iter().zip(&mut rates) {
            let load = load::run_expecting(ours.address, call.clone(), count, *status)?;
            rates.push(rate_per_s(count, load.time));
            create::say(name, &load);
        }
    }
    drop(ours);
    runtime.block_on(database.remove())?;
    let [requests, payouts, calldata] = rates;
    let row = |name, ours| Row {
        name,
        unit: "calls/s",
        ours,
        baseline_name: "POST /v2/request",
        baseline: requests.clone(),
        goal: Goal::Ratio(GOAL_RATIO),
    };
    Ok(vec![row("payout", payouts), row("pay", calldata)])
}
