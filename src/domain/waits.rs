//! How long callers wait for what others hold or are slow to answer.

use std::time::Duration;

/// The longest waits of the service: each field names who waits, and for what. No setting changes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waits {
    /// A call, for a permit to ask a chain or the off-ramp partner, to screen a wallet or to make what is counted.
    pub permit: Duration,
    /// A batch, for those of its platform before it.
    pub earlier_batch: Duration,
    /// A call, for another one with its idempotency key.
    pub repeated_call: Duration,
    /// A credential, to be looked up for an address that is blocked for guessing. Only a flood of guesses takes so long.
    pub guess: Duration,
    /// News of the off-ramp partner, for a place.
    pub news: Duration,
    /// A lookup on behalf of a caller, for all nodes of a network together. Source: rules F.20 (the caller has its answer
    /// within two seconds).
    pub nodes: Duration,
    /// Calldata, for all that its network has to answer together.
    pub calldata: Duration,
    /// A payment page, for the balance on one chain, with the permit; a chain that takes longer is left out.
    pub balance: Duration,
    /// A call of the off-ramp partner, for its answer. Source: ADR-0022.
    pub partner: Duration,
    /// A caller, for its turn at the off-ramp partner and the answer together. A call that waited, and so had less time than
    /// the partner is given, is dropped and says nothing of the partner. Source: ADR-0022.
    pub partner_in_turn: Duration,
    /// A question to a provider of screening, for its answer. Source: rules S.8.
    pub screening: Duration,
    /// A payer, for the answer to a question that somebody else asked: as long as both providers have together.
    pub others_screening: Duration,
    /// A test of endpoints, for the worker. It is within the time of one answer, and several times that of one try.
    pub sample: Duration,
    /// An export, for a reader who takes nothing; then it counts as gone. The server keeps what waits in its sockets small, so
    /// that whoever takes a little at a time is seen to take it.
    pub reader: Duration,
    /// Who asks for the health of the service, for the database.
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
