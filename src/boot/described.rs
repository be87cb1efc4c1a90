//! The HELP text of every metric, with its unit.

/// Names and help texts of counters.
const COUNTERS: [(&str, &str); 16] = [
    ("prs_chain_calls_total", "Calls to the nodes of a network, by outcome."),
    (
        "prs_chain_disagreements_total",
        "Lookups for which the nodes of a network returned different results.",
    ),
    (
        "prs_chain_halts_total",
        "Number of times that a network was halted. A halted network waits for the operator to resume it.",
    ),
    (
        "prs_chain_reorganisations_total",
        "Reorganisations of a network that removed blocks which the service had already read.",
    ),
    (
        "prs_http_connections_refused_total",
        "Connections that were closed before any call because too many connections were open.",
    ),
    (
        "prs_http_requests_total",
        "Completed HTTP calls, by operation and status.",
    ),
    (
        "prs_log_lines_dropped_total",
        "Log lines dropped because standard error was not read in time.",
    ),
    (
        "prs_off_ramp_asked_total",
        "Queries to the off-ramp partner for the state of a payer or a bank account, by object and result.",
    ),
    (
        "prs_off_ramp_callbacks_total",
        "Callbacks from the off-ramp partner, by outcome.",
    ),
    (
        "prs_off_ramp_calls_total",
        "Calls to the off-ramp partner, by operation and outcome.",
    ),
    (
        "prs_off_ramp_disbelieved_total",
        "Well-formed responses of the off-ramp partner that contradict known data, by operation.",
    ),
    (
        "prs_payment_fee_shortfalls_total",
        "Credited payments on a network that did not pay all additional fees.",
    ),
    (
        "prs_payments_reversed_total",
        "Credited payments on a network that were reversed because they left the chain.",
    ),
    (
        "prs_refused_wallets_untold_total",
        "Rejected wallets that tried to pay a secure payment and were not reported in an event.",
    ),
    (
        "prs_screening_answers_total",
        "Wallet screenings, by provider and outcome: approved, rejected, error or not_configured.",
    ),
    ("prs_webhook_tries_total", "Attempts to deliver an event, by result."),
];

/// Names and help texts of gauges.
const GAUGES: [(&str, &str); 26] = [
    (
        "prs_chain_confirmed",
        "Number of the newest block whose payments are settled, by network.",
    ),
    (
        "prs_chain_degraded",
        "1 while this network is the reason that the health page does not report ready, else 0.",
    ),
    (
        "prs_chain_halted",
        "1 while a network is halted and waits for the operator to resume it, else 0.",
    ),
    (
        "prs_chain_head",
        "Number of the newest block of a network that enough nodes have reached.",
    ),
    (
        "prs_chain_head_timestamp_seconds",
        "Unix timestamp of the newest block of a network, in seconds.",
    ),
    (
        "prs_chain_lag_blocks",
        "Number of final blocks whose payments are not settled yet, by network.",
    ),
    (
        "prs_chain_last_ok_timestamp_seconds",
        "Unix timestamp of the last valid response from a network, in seconds; 0 before the first one.",
    ),
    (
        "prs_database_last_write_timestamp_seconds",
        "Unix timestamp of the last successful test write to the database, in seconds.",
    ),
    (
        "prs_chain_leader",
        "1 while this process follows a network, 0 while it is on standby.",
    ),
    (
        "prs_chain_node_behind",
        "1 while a node of a network is out of sync with the other nodes, else 0. Out of sync: the node is behind or \
         alone far ahead, or its head or its final block does not advance.",
    ),
    (
        "prs_chain_quarantined",
        "Quarantined payments on a network that wait for the operator.",
    ),
    (
        "prs_chain_seen",
        "Number of the newest block whose payments are recorded, by network.",
    ),
    (
        "prs_clock_offset_seconds",
        "Offset of this machine's clock from the database clock, in seconds; positive if this machine is ahead.",
    ),
    (
        "prs_off_ramp_last_ok_timestamp_seconds",
        "Unix timestamp of the last valid response from the off-ramp partner, in seconds; 0 before the first one.",
    ),
    (
        "prs_off_ramp_oldest_order_seconds",
        "Age of the oldest open order for a payment to a bank account, in seconds.",
    ),
    (
        "prs_off_ramp_orders_open",
        "Number of orders for payments to bank accounts that are not finished: they wait to be opened, are being \
         opened, or are with the partner.",
    ),
    (
        "prs_off_ramp_orders_silent",
        "Open orders for payments to bank accounts without news from the partner for a day.",
    ),
    (
        "prs_partition_strays",
        "Number of rows whose id belongs to no monthly partition, by table; at most 10000 are counted.",
    ),
    (
        "prs_rate_usable",
        "1 if a token currently has a rate in a currency, else 0; by pair.",
    ),
    (
        "prs_relayer_admitted",
        "1 while the recurring payments contract on a network grants the relayer account its role and is not paused, \
         else 0; updated every minute, NaN if another instance leads.",
    ),
    (
        "prs_relayer_balance_coins",
        "Coin balance of the relayer account for gas on a network; updated every minute.",
    ),
    (
        "prs_relayer_oldest_due_seconds",
        "Time since the longest overdue recurring payment on a network was due, in seconds. Payments that failed \
         because of their payer do not count. Updated every minute.",
    ),
    (
        "prs_relayer_pending_transactions",
        "Transactions of the relayer on a network that are not in a final block.",
    ),
    (
        "prs_screening_last_ok_timestamp_seconds",
        "Unix timestamp of the last result of a screening provider, in seconds; 0 before the first result, absent if \
         the provider has no configured key.",
    ),
    ("prs_webhook_deliveries", "Undelivered deliveries, by state."),
    (
        "prs_webhook_oldest_due_seconds",
        "Time since the longest overdue delivery was due, in seconds.",
    ),
];

/// Names and help texts of histograms.
const HISTOGRAMS: [(&str, &str); 2] = [
    (
        "prs_http_request_duration_seconds",
        "Time from the request headers of a call to its response, in seconds.",
    ),
    (
        "prs_transaction_seconds",
        "Duration of database transactions, by name, in seconds.",
    ),
];

/// Describes every metric to the recorder of this process.
pub(super) fn begin() {
    for (name, text) in COUNTERS {
        metrics::describe_counter!(name, text);
    }
    for (name, text) in GAUGES {
        metrics::describe_gauge!(name, text);
    }
    for (name, text) in HISTOGRAMS {
        metrics::describe_histogram!(name, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fs, path::Path};

    /// The metric names in the source files below a folder, without this file.
    fn used(folder: &Path, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                used(&path, names);
            } else if !path.ends_with("boot/described.rs") {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let quoted = text.split('"').filter(|text| text.starts_with("prs_"));
                let is_name = |text: &&str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                names.extend(quoted.filter(is_name).map(str::to_owned));
            }
        }
    }

    #[test]
    fn every_metric_is_described_with_its_unit() {
        let mut names = BTreeSet::new();
        used(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut names);
        let all = || COUNTERS.iter().chain(&GAUGES).chain(&HISTOGRAMS);
        let described: BTreeSet<String> = all().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(described, names);
        for (name, text) in all() {
            assert_eq!(name.ends_with("_seconds"), text.contains("in seconds"), "{name}");
            assert!(text.ends_with('.'), "{name}");
        }
    }
}
