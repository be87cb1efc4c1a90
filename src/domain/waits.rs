//! Maximum times that callers wait for shared resources and slow responses.

use std::time::Duration;

/// Maximum wait times of the service. They are not configurable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waits {
    /// Maximum time that a call waits for a permit: to query a chain or the off-ramp partner, to screen a wallet, to
    /// search deliveries, or to create counted objects.
    pub permit: Duration,
    /// Maximum time that a batch waits for earlier batches of its platform.
    pub earlier_batch: Duration,
    /// Maximum time that a call waits for another call with the same idempotency key.
    pub repeated_call: Duration,
    /// Maximum time that a credential lookup from an address that is blocked for guessing waits for a free slot. Only a
    /// flood of guesses takes this long.
    pub guess: Duration,
    /// Maximum time that a callback of the off-ramp partner waits for a free slot.
    pub news: Duration,
    /// Maximum time that a lookup for a caller waits for all nodes of a network together. Source: rules F.20 (the
    /// caller has its answer within two seconds).
    pub nodes: Duration,
    /// Maximum time that a call for calldata waits for all node responses together.
    pub calldata: Duration,
    /// Maximum time that a payment page waits for the balance on one chain, including the permit. Slower chains are
    /// left out.
    pub balance: Duration,
    /// Maximum time that a call to the off-ramp partner waits for the response. Source: ADR-0022.
    pub partner: Duration,
    /// Maximum time that a caller waits for a free slot at the off-ramp partner and for the response together. The wait
    /// for the slot may leave less than [`Self::partner`] for the response. If no response arrives in the remaining
    /// time, the call is dropped and does not count as a failure of the partner. Source: ADR-0022.
    pub partner_in_turn: Duration,
    /// Maximum time that a query to a screening provider waits for its response. Source: rules S.8.
    pub screening: Duration,
    /// Maximum time that a payer waits for the response to a concurrent query of another caller. It covers the queries
    /// to both providers together.
    pub others_screening: Duration,
    /// Maximum time that a test of endpoints waits for the worker. It is shorter than the time limit of a response, and
    /// several times the time limit of an attempt.
    pub sample: Duration,
    /// Maximum time that an export waits for a reader that accepts no data. Then the reader counts as disconnected. The
    /// server keeps its socket buffers small, so that a slow reader is still seen to read.
    pub reader: Duration,
    /// Maximum time that a health check waits for the database.
    pub health: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            permit: Duration::from_millis(1_500),
            earlier_batch: Duration::from_secs(1),
            repeated_call: Duration::from_secs(1),
            guess: Duration::from_secs(2),
            news: Duration::from_secs(2),
            nodes: Duration::from_millis(1_800),
            calldata: Duration::from_millis(2_500),
            balance: Duration::from_secs(2),
            partner: Duration::from_secs(3),
            partner_in_turn: Duration::from_millis(3_300),
            screening: Duration::from_secs(3),
            others_screening: Duration::from_secs(7),
            sample: Duration::from_secs(15),
            reader: Duration::from_secs(8),
            health: Duration::from_secs(2),
        }
    }
}
