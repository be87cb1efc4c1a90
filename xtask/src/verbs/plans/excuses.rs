//! Findings that are known and accepted, each with the reason.

use super::judge::Finding;

/// A statement with an accepted finding: texts that only this statement contains, and the reason.
pub(super) type Excuse = (&'static [&'static str], &'static str);

const ASIDE: &str = "few rows are quarantined";
const CLOCK: &str = "repairs times once, after the clock was set back";
const RARE: &str = "queries a value that does not occur: no index begins with the client ID of a request";
const TYPES: &str = "the server cannot tell the types of its values; it finds its rows by their ids";
const FEW_OPEN: &str = "few orders are open compared with closed ones; in this database most are open";
const OPERATOR: &str = "only the operator runs it, by hand";
const PASSED: &str = "skips rows past retention that are still needed; whole months are dropped";

/// Statements whose plans may cost more than the limit.
pub(super) const PLANS: &[Excuse] = &[
    (&["UPDATE \"deliveries\" SET \"recover_from\" = (CASE"], TYPES),
    (&["UPDATE \"quotes\" SET \"ends_at\" = \"given\""], TYPES),
    (&["UPDATE \"requests\" SET \"status\" = \"given\""], TYPES),
    (
        &["FROM \"requests\" WHERE \"requests\".\"platform_id\" = $ AND \"requests\".\"client_row\" = $"],
        RARE,
    ),
    (&["WHERE \"delivery_queue\".\"lease_until\" > $"], CLOCK),
    (
        &[
            "UPDATE \"delivery_queue\" SET",
            "WHERE \"delivery_queue\".\"lease_token\" = $",
        ],
        "a worker that stops returns its leases, once",
    ),
    (
        &[
            "UPDATE \"webhook_endpoints\" SET",
            "\"webhook_endpoints\".\"failing_since\" > $ OR",
        ],
        CLOCK,
    ),
    (&["FROM \"event_keys\" INNER JOIN \"events\" ON"], PASSED),
    (
        &[
            "FROM \"event_keys\" WHERE \"event_keys\".\"event_id\" < $",
            "EXISTS(SELECT $ FROM \"events\"",
        ],
        PASSED,
    ),
    (
        &[
            "\"requests\".\"status\" NOT IN",
            "NOT EXISTS(SELECT $ FROM \"payments\"",
        ],
        OPERATOR,
    ),
    (
        &["FROM \"off_ramp_orders\" WHERE \"off_ramp_orders\".\"state\" IN ($) ORDER BY"],
        OPERATOR,
    ),
    (
        &["FROM \"chain_quarantine\" WHERE \"chain_quarantine\".\"request_row\" = $"],
        ASIDE,
    ),
    (
        &["FROM \"chain_quarantine\" WHERE \"chain_quarantine\".\"tx_hash\" = $"],
        ASIDE,
    ),
    (
        &["WITH RECURSIVE endpoints(id) AS", "SELECT min("],
        "one step for each endpoint with waiting deliveries",
    ),
    (
        &["SELECT \"client_ids\".\"allowed_domains\""],
        "reads the origins of all pages, and the result is cached",
    ),
    (
        &["FROM \"payments\" WHERE \"payments\".\"network\" = $ AND (\"payments\".\"block_number\" BETWEEN"],
        "reads the requested blocks; for the whole range, it reads all payments of the network",
    ),
    (
        &["GROUP BY \"deliveries\".\"endpoint_id\", \"deliveries\".\"state\""],
        "counts all rows that it sums up",
    ),
    (
        &[
            "COUNT(*)",
            "FROM \"off_ramp_orders\" WHERE \"off_ramp_orders\".\"state\" IN ($)",
        ],
        FEW_OPEN,
    ),
    (
        &[
            "FROM \"off_ramp_orders\" WHERE \"off_ramp_orders\".\"state\" IN ($) AND \"off_ramp_orders\".\"changed_at\" < $",
        ],
        FEW_OPEN,
    ),
    (
        &["FROM \"off_ramp_bindings\" WHERE EXISTS(SELECT $ FROM \"requests\""],
        OPERATOR,
    ),
];

const CHAIN: &str = "follows a network, for all platforms";
const CREDENTIAL: &str = "identifies the caller";
const EXPIRY: &str = "removes rows past retention";
const LINK: &str = "opens a secure payment by its token, for any platform";
const OPEN: &str = "queries the partner for open items of all platforms";
const PARTNER: &str = "the partner only sends its own ids, for any platform";
const SCREENED: &str = "screens payers, for all platforms";
const SEAL: &str = "encrypts again with another key";
const WORKER: &str = "delivers, for all platforms";

/// Statements that do not select one platform, and the reason. In a database that is divided by platform, each would
/// have to query all parts.
pub(super) const NO_PLATFORM: &[Excuse] = &[
    (&["FROM \"payers\" WHERE \"payers\".\"ask_at\" <= $"], OPEN),
    (&["UPDATE \"payers\" SET \"ask_at\" = $"], OPEN),
    (&["FROM \"payers\" WHERE \"payers\".\"partner_hash\" = $"], PARTNER),
    (
        &["FROM \"payer_registrations\" WHERE \"payer_registrations\".\"ask_at\" <= $"],
        OPEN,
    ),
    (&["UPDATE \"payer_registrations\" SET \"ask_at\" = $"], OPEN),
    (
        &["FROM \"bank_accounts\" WHERE \"bank_accounts\".\"ask_at\" <= $"],
        OPEN,
    ),
    (&["UPDATE \"bank_accounts\" SET \"ask_at\" = $"], OPEN),
    (
        &["FROM \"bank_accounts\" WHERE \"bank_accounts\".\"partner_hash\" = $"],
        PARTNER,
    ),
    (
        &["FROM \"off_ramp_orders\" WHERE \"off_ramp_orders\".\"next_at\" <= $"],
        OPEN,
    ),
    (
        &["FROM \"off_ramp_orders\" WHERE \"off_ramp_orders\".\"partner_order\" = $"],
        PARTNER,
    ),
    (
        &["FROM \"off_ramp_orders\" WHERE \"off_ramp_orders\".\"state\" IN ($)"],
        OPERATOR,
    ),
    (&["FROM \"off_ramp_orders\" WHERE TRUE"], OPERATOR),
    (
        &["FROM \"off_ramp_bindings\" WHERE EXISTS(SELECT $ FROM \"requests\""],
        OPERATOR,
    ),
    (
        &["FROM \"off_ramp_addresses\" WHERE \"off_ramp_addresses\".\"network\" = $"],
        "an address of a network belongs to one account, of any platform",
    ),
    (
        &["FROM \"off_ramp_quotes\" WHERE \"off_ramp_quotes\".\"network\" = $"],
        "refuses an address that was given to another account",
    ),
    (
        &["FROM \"off_ramp_quotes\" WHERE \"off_ramp_quotes\".\"partner_quote\" = $"],
        "refuses a quote id that another quote has",
    ),
    (&["\"accounts\".\"email_hash\" = $"], CREDENTIAL),
    (&["\"client_ids\".\"client_id\" = $ LIMIT"], CREDENTIAL),
    (&["SELECT \"client_ids\".\"allowed_domains\""], CREDENTIAL),
    (&["UPDATE \"client_ids\" SET \"last_used_at\""], CREDENTIAL),
    (&["\"invites\".\"code_hash\" = $"], CREDENTIAL),
    (&["\"keys\".\"hash\" = $"], CREDENTIAL),
    (&["UPDATE \"keys\" SET \"last_used_at\""], CREDENTIAL),
    (&["\"sessions\".\"token_hash\" = $"], CREDENTIAL),
    (&["UPDATE \"sessions\" SET \"last_used_at\""], CREDENTIAL),
    (&["\"wallets\".\"address\" = $"], CREDENTIAL),
    (&["\"chain_quarantine\""], CHAIN),
    (&["\"payments\".\"network\" = $"], CHAIN),
    (&["UPDATE \"payments\" SET"], CHAIN),
    (&["\"relay_transactions\".\"network\" = $"], CHAIN),
    (&["\"requests\".\"network\" = $"], CHAIN),
    (
        &["\"secure_payment_intents\".\"network\" = $ AND (state = 'awaiting_execution')"],
        CHAIN,
    ),
    (&["UPDATE \"requests\" SET \"status\" = \"given\""], CHAIN),
    (
        &["UPDATE \"quotes\" SET \"ends_at\" = \"given\""],
        "compares with the platform of each row that it is given",
    ),
    (&["FROM \"requests\" WHERE \"requests\".\"request_id\" = $"], CHAIN),
    (
        &["FROM \"requests\" WHERE \"requests\".\"next_period_at\" <= $"],
        "creates repeating requests, for all platforms",
    ),
    (&["\"schedules\".\"network\" = $"], CHAIN),
    (
        &["\"schedules\".\"payer\" = $"],
        "a payer has one allowance for the schedules of all platforms",
    ),
    (&["FROM \"schedules\" WHERE \"schedules\".\"status\" = $"], EXPIRY),
    (
        &["UPDATE \"payee_destinations\" SET \"is_claimed\""],
        "a wallet proves itself to all platforms",
    ),
    (&["FROM \"client_ids\" WHERE \"client_ids\".\"id\" IN ($)"], WORKER),
    (&["FROM \"deliveries\" WHERE (missed = 'failed'"], WORKER),
    (&["FROM \"deliveries\" WHERE missed = "], WORKER),
    (&["UPDATE \"deliveries\" SET"], WORKER),
    (&["UPDATE deliveries SET"], WORKER),
    (&["endpoints(id) AS"], WORKER),
    (&["UPDATE delivery_queue SET"], WORKER),
    (&["UPDATE \"delivery_queue\" SET"], WORKER),
    (&["DELETE FROM \"delivery_queue\""], WORKER),
    (&["MIN(\"delivery_queue\".\"next_at\")"], WORKER),
    (
        &["FROM \"delivery_queue\" WHERE \"delivery_queue\".\"next_at\" > $"],
        WORKER,
    ),
    (
        &["FROM \"delivery_queue\" WHERE \"delivery_queue\".\"lease_until\" > $"],
        WORKER,
    ),
    (&["FROM \"webhook_endpoints\" WHERE (is_recovering)"], WORKER),
    (
        &["FROM \"webhook_endpoints\" WHERE \"webhook_endpoints\".\"id\" IN ($)"],
        WORKER,
    ),
    (&["UPDATE \"webhook_endpoints\" SET"], WORKER),
    (&["DELETE FROM \"destination_nonces\""], EXPIRY),
    (&["FROM \"deliveries\" WHERE \"deliveries\".\"event_id\" < $"], EXPIRY),
    (&["FROM \"deliveries\" WHERE \"deliveries\".\"id\" < $"], EXPIRY),
    (&["FROM \"delivery_queue\" WHERE \"delivery_queue\".\"id\" < $"], EXPIRY),
    (&["FROM \"event_keys\" WHERE \"event_keys\".\"event_id\" < $"], EXPIRY),
    (&["DELETE FROM \"idempotency_keys\""], EXPIRY),
    (&["DELETE FROM \"invites\""], EXPIRY),
    (&["FROM \"quotes\" WHERE \"quotes\".\"ends_at\" < $"], EXPIRY),
    (&["DELETE FROM \"sessions\" WHERE \"sessions\".\"id\" IN"], EXPIRY),
    (
        &[
            "FROM \"secure_payments\" WHERE \"secure_payments\".\"status\" = $ AND \"secure_payments\".\"expires_at\" < $",
        ],
        EXPIRY,
    ),
    (
        &["FROM \"secure_payments\" WHERE (NOT EXISTS(SELECT $ FROM \"secure_payment_items\""],
        EXPIRY,
    ),
    (&["FROM \"payments\" WHERE \"payer_access\" = "], SCREENED),
    (
        &["FROM \"secure_payments\" WHERE \"secure_payments\".\"token\" = $"],
        LINK,
    ),
    (&["FROM \"event_keys\" INNER JOIN \"events\" ON"], EXPIRY),
    (
        &["\"orchestrator_links\".\"orchestrator_id\" = $ AND \"orchestrator_links\".\"status\" = $"],
        "an orchestrator lists its links to client IDs of several platforms",
    ),
    (&["FROM pg_inherits"], "lists the monthly partitions of a table"),
    (&["AS place_owner"], SEAL),
    (&["AS TEXT) = $ AND ("], SEAL),
    (&["\"accounts\".\"email_hash\" IS NULL"], SEAL),
    (&["UPDATE \"accounts\" SET \"email_hash\""], SEAL),
];

/// Accepted statements that change rows of all owners, in tables whose primary key begins with the owner.
pub(super) const ALL_OWNERS: &[Excuse] = &[(
    &[
        "UPDATE \"deliveries\" SET \"recover_from\" = $, \"recover_at\" = $, \"finished_at\" = $ WHERE (missed = 'failed'",
    ],
    CLOCK,
)];

/// Removes the accepted findings from the list; returns the excuses that matched no finding.
pub(super) fn settle(excuses: &[Excuse], findings: &mut Vec<Finding>) -> Vec<Finding> {
    let covers = |parts: &[&str], shape: &str| parts.iter().all(|part| shape.contains(part));
    let is_unused = |(parts, _): &&Excuse| !findings.iter().any(|(shape, _)| covers(parts, shape));
    let unused = excuses.iter().filter(is_unused);
    let unused = unused.map(|(parts, why)| (parts.join(" … "), format!("no longer needs an excuse ({why})")));
    let unused = unused.collect();
    findings.retain(|(shape, _)| !excuses.iter().any(|(parts, _)| covers(parts, shape)));
    unused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excuse_covers_its_statements_and_has_to_be_needed() {
        let excuses: &[Excuse] = &[(&["FROM a", "b = $"], "read once"), (&["FROM c"], "small")];
        let finding = |shape: &str| (shape.to_owned(), "reads all".to_owned());
        let mut findings = vec![finding("SELECT FROM a WHERE b = $"), finding("SELECT FROM a")];
        let unused = settle(excuses, &mut findings);
        assert_eq!(findings, [finding("SELECT FROM a")]);
        assert_eq!(
            unused,
            [("FROM c".to_owned(), "no longer needs an excuse (small)".to_owned())]
        );
    }
}
