//! Initialises every counter with 0. Without this, an alert on an increase would miss the first increment, which
//! creates the counter.

use crate::{
    adapters::{nodes, off_ramp},
    ctx::Ctx,
    domain::{destination::ScreeningProvider, network::Network},
    flows::{
        payers::{disbelieved, follow},
        secure_payments::screen::OUTCOMES as SCREENING_OUTCOMES,
    },
    http::provider_callbacks,
    settings::Settings,
};

/// Counters without labels.
const PLAIN: [&str; 3] = [
    "prs_http_connections_refused_total",
    "prs_log_lines_dropped_total",
    "prs_refused_wallets_untold_total",
];

/// Counters of each network.
const OF_NETWORKS: [&str; 5] = [
    "prs_chain_disagreements_total",
    "prs_chain_halts_total",
    "prs_chain_reorganisations_total",
    "prs_payment_fee_shortfalls_total",
    "prs_payments_reversed_total",
];

/// Gauges of each network. This module sets them to 0, because their first value may come only with the first scrape or
/// the first poll of a worker.
const GAUGES_OF_NETWORKS: [&str; 4] = [
    "prs_chain_head",
    "prs_chain_seen",
    "prs_chain_confirmed",
    "prs_chain_lag_blocks",
];

/// Initialises the counters.
pub(super) fn begin(settings: &Settings, ctx: &Ctx) {
    for name in PLAIN {
        metrics::counter!(name).increment(0);
    }
    for result in ["delivered", "failed"] {
        metrics::counter!("prs_webhook_tries_total", "result" => result).increment(0);
    }
    for provider in ScreeningProvider::ALL {
        for outcome in SCREENING_OUTCOMES {
            metrics::counter!("prs_screening_answers_total", "provider" => provider.wire(), "outcome" => outcome)
                .increment(0);
        }
    }
    for screener in ctx.partners.screeners.iter() {
        metrics::gauge!("prs_screening_last_ok_timestamp_seconds", "provider" => screener.provider().wire())
            .increment(0.0);
    }
    for outcome in provider_callbacks::OUTCOMES {
        metrics::counter!("prs_off_ramp_callbacks_total", "outcome" => outcome).increment(0);
    }
    for what in follow::ABOUT {
        for result in follow::RESULTS {
            metrics::counter!("prs_off_ramp_asked_total", "what" => what, "result" => result).increment(0);
        }
    }
    for operation in off_ramp::OPERATIONS {
        for outcome in off_ramp::OUTCOMES {
            metrics::counter!("prs_off_ramp_calls_total", "operation" => operation, "outcome" => outcome).increment(0);
        }
    }
    for operation in disbelieved::OPERATIONS {
        metrics::counter!("prs_off_ramp_disbelieved_total", "operation" => operation).increment(0);
    }
    if ctx.partners.off_ramp.is_some() {
        metrics::gauge!("prs_off_ramp_last_ok_timestamp_seconds").increment(0.0);
    }
    for network in ctx.partners.chains.followed.keys().copied() {
        of_network(settings, network);
    }
}

fn of_network(settings: &Settings, network: Network) {
    for name in OF_NETWORKS {
        metrics::counter!(name, "network" => network.id()).increment(0);
    }
    for name in GAUGES_OF_NETWORKS {
        metrics::gauge!(name, "network" => network.id()).increment(0.0);
    }
    let nodes = settings
        .chains
        .get(network.id())
        .map_or(0, |chain| chain.node_urls(network).len());
    for node in 1..=nodes {
        for outcome in nodes::OUTCOMES {
            let labels = [
                ("network", network.id().to_owned()),
                ("node", node.to_string()),
                ("outcome", outcome.to_owned()),
            ];
            metrics::counter!("prs_chain_calls_total", &labels).increment(0);
        }
    }
}
