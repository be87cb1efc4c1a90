//! What an attack on the way of the money once found, and the tests that show that it is over.

use std::collections::BTreeMap;

/// What was found, and the last parts of the paths of its tests.
const FINDINGS: [(&str, &[&str]); 10] = [
    (
        "a rate age of 2^63 stops a network",
        &["a_rate_age_that_no_clock_counts_holds_up_no_other_payment"],
    ),
    (
        "one of two nodes proves its own lie",
        &[
            "one_of_two_nodes_cannot_prove_its_own_lie",
            "fewer_forgers_than_have_to_agree_credit_nothing_and_lose_nothing",
        ],
    ),
    (
        "one late or changed answer loses a payment",
        &[
            "receipts_that_are_null_for_a_while_lose_nothing",
            "one_changed_amount_in_a_list_of_events_loses_nothing",
            "a_wrong_block_hash_while_catching_up_loses_nothing",
            "empty_lists_of_events_while_far_behind_lose_nothing",
        ],
    ),
    (
        "many payments in one transaction never confirm",
        &["a_thousand_payments_in_one_transaction_are_confirmed_by_few_calls"],
    ),
    (
        "halts that come back, and halts for nothing",
        &[
            "a_restart_while_the_only_node_lags_waits_for_it",
            "a_reorganisation_at_one_confirmation_halts_nothing",
            "a_reorganisation_below_finality_stops_the_chain_and_deletes_nothing",
        ],
    ),
    (
        "identity changes with what is watched",
        &[
            "watching_one_more_contract_moves_no_payment",
            "payments_that_were_counted_are_placed_and_credited_once",
        ],
    ),
    (
        "a missing final block falls back to a depth",
        &[
            "a_final_block_that_is_null_for_a_while_is_never_replaced_by_a_depth",
            "without_a_tag_the_depth_of_the_network_counts_until_the_tag_was_served",
        ],
    ),
    (
        "a first start reads years of blocks before anything new",
        &["a_first_start_begins_at_the_final_block_and_fills_in_an_older_start_beside"],
    ),
    (
        "payments that are not what was handed out",
        &[
            "a_payer_who_changes_the_conversion_path_is_not_credited",
            "a_payer_who_changes_the_age_of_rates_is_not_credited",
            "a_payer_who_strips_the_fee_is_credited_and_the_shortfall_is_told",
            "the_chain_refuses_rates_that_are_older_than_the_settings_say",
            "a_coin_payment_of_nothing_raises_nothing",
            "calldata_without_a_wallet_resets_an_allowance_that_the_token_refuses_to_change",
            "a_fee_of_the_largest_amounts_is_exact_or_refused",
        ],
    ),
    (
        "a refusal of a range leaves the cursor where it is",
        &["any_refusal_of_a_range_leaves_the_cursor_free_to_move"],
    ),
];

/// Names of all these tests.
pub(super) fn tests() -> impl Iterator<Item = &'static str> {
    FINDINGS.iter().flat_map(|(_, tests)| tests.iter().copied())
}

/// Lists them with what became of them in each run; `false` when one did not run at all.
pub(super) fn print(runs: &[(&str, &BTreeMap<String, bool>)]) -> bool {
    let mut is_complete = true;
    for (number, (found, tests)) in FINDINGS.iter().enumerate() {
        println!("{:>2}. {found}", number + 1);
        for test in *tests {
            let outcomes = outcomes(test, runs);
            is_complete &= !outcomes.is_empty();
            let shown = if outcomes.is_empty() {
                "not run".to_owned()
            } else {
                outcomes.join(", ")
            };
            println!("    {test}: {shown}");
        }
    }
    is_complete
}

fn outcomes(test: &str, runs: &[(&str, &BTreeMap<String, bool>)]) -> Vec<String> {
    let in_run = |(run, tests): &(&str, &BTreeMap<String, bool>)| {
        let found = tests.iter().find(|(path, _)| path.rsplit("::").next() == Some(test));
        found.map(|(_, passed)| format!("{run} {}", if *passed { "passed" } else { "FAILED" }))
    };
    runs.iter().filter_map(in_run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_did_not_run_is_missed() {
        let all: BTreeMap<String, bool> = tests().map(|test| (format!("findings::{test}"), true)).collect();
        assert!(print(&[("sqlite", &all)]));
        let mut some = all.clone();
        some.pop_first();
        assert!(!print(&[("sqlite", &some)]));
        assert_eq!(
            outcomes(tests().next().expect("one"), &[("sqlite", &all)]),
            ["sqlite passed"]
        );
    }
}
