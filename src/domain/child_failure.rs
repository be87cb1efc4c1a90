//! Why a multicall cannot pay some links, as the error of a call.

use super::network::Network;
use chrono::{DateTime, Utc};

/// A link that a multicall cannot pay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildFailure {
    /// Position in the call, from 0; `None` when all links are meant.
    pub position: Option<usize>,
    /// Token in the call; `*` when all links are meant.
    pub token: String,
    /// Code of the reason.
    pub reason: &'static str,
    /// Code of the way to continue.
    pub recovery: &'static str,
    /// Facts about the link, if the caller may see them.
    pub facts: Option<ChildFacts>,
}

/// Facts about a link of a multicall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildFacts {
    /// Public id of its request.
    pub request_id: String,
    /// Whether the whole amount has arrived.
    pub has_been_paid: bool,
    /// State of the link; `None` when it no longer exists.
    pub status: Option<&'static str>,
    /// State of the request.
    pub request_status: &'static str,
    /// When the link expires; `None` when it no longer exists.
    pub expires_at: Option<DateTime<Utc>>,
    /// Network of the payment.
    pub network: Network,
    /// Id of its currency.
    pub currency: String,
}

/// An exceeded number of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExceededCap {
    /// The maximum.
    pub maximum: usize,
    /// The number in the call.
    pub actual: usize,
}

/// The links that keep a multicall from being created or paid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedChildren {
    /// The links, in the order of the call.
    pub failures: Vec<ChildFailure>,
    /// The exceeded number of links.
    pub cap: Option<ExceededCap>,
}
