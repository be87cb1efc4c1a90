//! The view model of a link, shared by documents, receipts and scripts.

use serde::Serialize;

/// A link as its visitor sees it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VisitedLink {
    /// Token in the address of the link.
    pub(super) token: String,
    /// Status as in the API.
    pub(super) status: &'static str,
    /// `get_paid` or `pay`.
    pub(super) flow: &'static str,
    /// The creator's reference.
    pub(super) reference: Option<String>,
    /// Network on which the link is paid; `None` whenever `details` is `None`.
    pub(super) network: Option<LinkNetwork>,
    /// Whether the link is paid on Tron. Only a wallet of Tron can then connect, so even a hidden link says this.
    pub(super) is_tron: bool,
    /// What the payer has to pay; `None` if the visitor may not see it, or may see it only later.
    pub(super) details: Option<Details>,
    /// Where the payer can go after the payment; also `None` if the visitor may not see it.
    pub(super) redirect: Option<LinkRedirect>,
    /// When the link expires.
    pub(super) expires_at: String,
    /// Current time of the service.
    pub(super) server_time: String,
    /// Whether the link is fully paid, even if it was withdrawn before the payment.
    pub(super) is_paid: bool,
    /// When the link was paid.
    pub(super) completed_at: Option<String>,
    /// The last transaction that paid the link; for a multicall, the transaction that paid all of its items.
    pub(super) tx_hash: Option<String>,
    /// Time of a solid block up to which the service has credited all payments of a link on Tron. A transaction that
    /// expired before this time, and has paid nothing, can no longer pay. `None` while this time is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) solid_time: Option<String>,
    /// A payment that is or may be in flight, also after the link has ended.
    pub(super) in_flight: Option<InFlight>,
    /// The lock of a Safe that is about to pay the link.
    pub(super) locked: Option<LinkLock>,
    /// Access decision and balances for the visitor's wallet.
    pub(super) wallet: Option<Wallet>,
}

/// A network as wallets need it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LinkNetwork {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    pub(super) chain_id: u64,
    /// Symbol of its native coin.
    pub(super) coin: String,
    /// Explorer address to which a transaction hash is appended.
    pub(super) explorer: String,
    /// RPC address for wallets that do not know the network.
    pub(super) rpc_url: Option<String>,
}

/// What is to be paid.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Details {
    /// Number of items.
    pub(super) count: usize,
    /// Number of distinct recipient addresses.
    pub(super) receivers: usize,
    /// Number of recipients with an amount due.
    pub(super) receivers_left: usize,
    /// All items; empty in documents if there are many.
    pub(super) items: Vec<LinkItem>,
    /// Currencies of the items, in the order in which items first use them.
    pub(super) currencies: Vec<LinkCurrency>,
    /// Contracts that payments may use.
    pub(super) contracts: Vec<String>,
    /// Whether the items are links of their own, which this link pays all together or not at all.
    pub(super) is_multicall: bool,
    /// Number of items that keep a multicall from being paid.
    pub(super) blocked: usize,
}

/// One payment of a link.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LinkItem {
    /// Recipient address; its middle is masked if the payer may not see it.
    pub(super) payee: String,
    /// Index in the currencies.
    pub(super) currency: usize,
    /// Requested amount, decimal.
    pub(super) amount: String,
    /// Amount due, decimal.
    pub(super) due: String,
    /// Whether the item is fully paid.
    pub(super) is_paid: bool,
    /// The creator's reference if it differs from that of the link.
    pub(super) reference: Option<String>,
    /// Payment reference on the chain.
    pub(super) payment_reference: String,
    /// Name of its network if it differs from that of the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) network: Option<&'static str>,
    /// State of an item of a multicall: `ready`, or `unpaid` if the multicall has ended; `paid`, `in_progress`, `expired`,
    /// `withdrawn` or `unpayable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<&'static str>,
    /// Transaction that paid an item of a multicall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tx_hash: Option<String>,
}

/// A currency of a link and its totals; amounts are decimal.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LinkCurrency {
    pub(super) symbol: String,
    pub(super) decimals: u8,
    /// Contract of a token; `None` for the native coin.
    pub(super) address: Option<String>,
    /// Requested amount of all items; `None` if it is what the recipients get, because they bear no fee.
    pub(super) gross: Option<String>,
    /// Amount of all items that the recipients get.
    pub(super) amount: String,
    /// Fees that the payer pays besides this amount.
    pub(super) fee: String,
    /// Amount plus fees.
    pub(super) total: String,
    /// Amount received for the items.
    pub(super) paid: String,
    /// Amount due for the items, without fees.
    pub(super) left: String,
    /// Amount due including fees.
    pub(super) due: String,
    /// Maximum amount that the page may request from the wallet.
    pub(super) most: String,
    /// Fees by receiver.
    pub(super) fees: Vec<LinkFee>,
}

/// The fee that one receiver gets on top of the items.
#[derive(Debug, Clone, Serialize)]
pub(super) struct LinkFee {
    /// Address; its middle is masked if it is a recipient that the payer may not see.
    pub(super) receiver: String,
    /// Fee for all items.
    pub(super) amount: String,
    /// Fee for the amount due.
    pub(super) due: String,
}

/// Where the payer can go after the payment.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LinkRedirect {
    pub(super) url: String,
    /// Label of the button; `None` for the default label, and if the target is not a page of the merchant.
    pub(super) label: Option<String>,
    /// Scheme, host and port of the target, as browsers show them.
    pub(super) origin: String,
    /// Whether the target is outside the domains of the public client ID that created the link.
    pub(super) is_foreign: bool,
}

/// A payment that may be in flight.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InFlight {
    /// Until when the page warns about the payment.
    pub(super) until: String,
    /// Whether the payment is on the chain; otherwise only a page or a payer reported it.
    pub(super) is_seen: bool,
}

/// The lock of a link while the owners of a Safe sign its payment.
#[derive(Debug, Clone, Serialize)]
pub(super) struct LinkLock {
    /// When the lock ends.
    pub(super) until: String,
    /// Address of the Safe; `None` if it is unknown or the visitor may not see it.
    pub(super) safe: Option<String>,
}

/// Access decision and balances for a wallet.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Wallet {
    /// `approved`, `rejected` or `error`.
    pub(super) decision: &'static str,
    /// Reason code.
    pub(super) reason: String,
    /// Balances; `None` if no node responds.
    pub(super) funds: Option<Vec<Fund>>,
}

/// A wallet's balance in one currency.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Fund {
    /// Index in the currencies.
    pub(super) currency: usize,
    pub(super) balance: String,
    /// Missing amount, if any.
    pub(super) missing: Option<String>,
}

impl LinkItem {
    /// Whether the item keeps a multicall from being paid.
    pub(super) fn is_blocked(&self) -> bool {
        self.state.is_some_and(|state| !matches!(state, "ready" | "unpaid"))
    }
}

impl Details {
    /// The only recipient; `None` if there are several.
    pub(super) fn sole_receiver(&self) -> Option<&str> {
        let first = self.items.first().filter(|_| self.receivers == 1);
        first.map(|item| item.payee.as_str())
    }

    /// Whether some items are paid and others are not.
    pub(super) fn has_paid_and_unpaid(&self) -> bool {
        self.items.iter().any(|item| item.is_paid) && !self.items.iter().all(|item| item.is_paid)
    }
}

impl VisitedLink {
    /// The id of a transaction in the form that its explorer and its wallets use.
    pub(super) fn transaction_id<'a>(&self, hash: &'a str) -> &'a str {
        if self.is_tron {
            hash.trim_start_matches("0x")
        } else {
            hash
        }
    }

    /// The terminal status, if the link can no longer be paid.
    pub(super) fn end(&self) -> Option<&'static str> {
        (!matches!(self.status, "pending" | "completed")).then_some(self.status)
    }

    /// Whether a part has arrived, as far as the visitor may see it.
    pub(super) fn is_partly_paid(&self) -> bool {
        let mut currencies = self.details.iter().flat_map(|details| &details.currencies);
        currencies.any(|currency| currency.paid != "0")
    }

    /// Whether a wallet can pay the open link now, as far as the visitor may see it.
    pub(super) fn can_be_paid(&self) -> bool {
        let is_blocked = self.details.as_ref().is_some_and(|details| details.blocked > 0);
        self.status == "pending" && self.locked.is_none() && !is_blocked
    }

    /// Whether the link was paid in full before it expired or was withdrawn.
    pub(super) fn is_completed(&self) -> bool {
        self.status == "completed"
    }
}
