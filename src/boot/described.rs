//! What every metric counts, and in which unit: its HELP on the page of metrics.

/// Names of counters and what they count.
const COUNTERS: [(&str, &str); 16] = [
    (
        "prs_chain_calls_total",
        "Calls to a node of a network, by how they ended.",
    ),
    (
        "prs_chain_disagreements_total",
        "Answers in which nodes of a network said different things.",
    ),
    ("prs_chain_halts_total", "Halts of a network, which the operator ends."),
    (
        "prs_chain_reorganisations_total",
        "Reorganisations of a network that took back blocks that had been read.",
    ),
    (
        "prs_http_connections_refused_total",
        "Connections that were closed unheard because there were too many.",
    ),
    ("prs_http_requests_total", "Answered calls, by operation and status."),
    (
        "prs_log_lines_dropped_total",
        "Lines of the log that were dropped because nobody took them in time.",
    ),
    (
        "prs_off_ramp_asked_total",
        "Payers and bank accounts whose state the off-ramp partner was asked for, by what it is and by what came of it.",
    ),
    (
        "prs_off_ramp_callbacks_total",
        "Callbacks of the off-ramp partner, by what became of them.",
    ),
    (
        "prs_off_ramp_calls_total",
        "Calls to the off-ramp partner, by operation and by how they ended.",
    ),
    (
        "prs_off_ramp_disbelieved_total",
        "Answers of the off-ramp partner in its own shapes that contradict what is known, by operation.",
    ),
    (
        "prs_payment_fee_shortfalls_total",
        "Credited payments of a network that lack something of the fees on top.",
    ),
    (
        "prs_payments_reversed_total",
        "Credited payments of a network that were taken back because they left the chain.",
    ),
    (
        "prs_refused_wallets_untold_total",
        "Wallets that may not pay a secure payment, tried to, and were not told about.",
    ),
    (
        "prs_screening_answers_total",
        "Questions about a wallet to a provider of screening, by provider and outcome: approved, rejected, error or not_configured.",
    ),
    ("prs_webhook_tries_total", "Tries to deliver an event, by result."),
];

/// Names of gauges and what they show.
const GAUGES: [(&str, &str); 26] = [
    (
        "prs_chain_confirmed",
        "Newest block of a network whose payments are settled, as its number.",
    ),
    (
        "prs_chain_degraded",
        "1 where the health page says anything but ready because of this network, else 0.",
    ),
    (
        "prs_chain_halted",
        "1 while a network is halted until the operator resumes it, else 0.",
    ),
    (
        "prs_chain_head",
        "Newest block of a network that enough nodes have reached, as its number.",
    ),
    (
        "prs_chain_head_timestamp_seconds",
        "Time of the newest block of a network, in seconds since 1970.",
    ),
    (
        "prs_chain_lag_blocks",
        "Final blocks of a network that are not settled yet.",
    ),
    (
        "prs_chain_last_ok_timestamp_seconds",
        "When a network last gave a good answer, in seconds since 1970; 0 before the first one.",
    ),
    (
        "prs_database_last_write_timestamp_seconds",
        "When the database last took a write that was tried, in seconds since 1970.",
    ),
    (
        "prs_chain_leader",
        "1 while this process follows a network, 0 while it stands by.",
    ),
    (
        "prs_chain_node_behind",
        "1 while a node of a network is out of step with the others: behind, far ahead alone, or standing still with its head or \
         with what it calls final; else 0.",
    ),
    (
        "prs_chain_quarantined",
        "What was set aside on a network and waits for the operator, in rows.",
    ),
    (
        "prs_chain_seen",
        "Newest block of a network whose payments are noted, as its number.",
    ),
    (
        "prs_clock_offset_seconds",
        "How far the clock of this machine is ahead of that of the database, in seconds.",
    ),
    (
        "prs_off_ramp_last_ok_timestamp_seconds",
        "When the off-ramp partner last answered as it should, in seconds since 1970; 0 before the first time.",
    ),
    (
        "prs_off_ramp_oldest_order_seconds",
        "How long the oldest order of a payment to a bank account is open, in seconds.",
    ),
    (
        "prs_off_ramp_orders_open",
        "Orders of payments to bank accounts that are due, being opened, or with the partner.",
    ),
    (
        "prs_off_ramp_orders_silent",
        "Open orders of payments to bank accounts of which nothing was told for a day.",
    ),
    (
        "prs_partition_strays",
        "Rows of a table whose id fits into no month that has a partition, counted up to 10000.",
    ),
    (
        "prs_rate_usable",
        "1 where a token has a rate in a currency now, else 0; by pair.",
    ),
    (
        "prs_relayer_admitted",
        "1 while the contract of recurring payments on a network gives the account of the relayer its role and is not paused, \
         else 0; every minute, and NaN where another instance leads.",
    ),
    (
        "prs_relayer_balance_coins",
        "Coins that the account of the relayer has for gas on a network; every minute.",
    ),
    (
        "prs_relayer_oldest_due_seconds",
        "For how long the recurring payment that is due the longest waits to be executed on a network, in seconds; every \
         minute, and without those that failed for their payer.",
    ),
    (
        "prs_relayer_pending_transactions",
        "Transactions of the relayer on a network that are in no final block.",
    ),
    (
        "prs_screening_last_ok_timestamp_seconds",
        "When a provider of screening last came to a result, in seconds since 1970; 0 before the first one, absent without a key.",
    ),
    (
        "prs_webhook_deliveries",
        "Deliveries that are not delivered, by state, in rows.",
    ),
    (
        "prs_webhook_oldest_due_seconds",
        "For how long the delivery that is due the longest waits, in seconds.",
    ),
];

/// Names of distributions and what they measure.
const HISTOGRAMS: [(&str, &str); 2] = [
    (
        "prs_http_request_duration_seconds",
        "Time from the head of a call to its answer, in seconds.",
    ),
    (
        "prs_transaction_seconds",
        "Time from the begin of a transaction of the database to its end, by name, in seconds.",
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

    /// Names of metrics in the sources below a folder, but in this file.
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
    fn every_metric_is_described_and_says_its_unit() {
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
