//! What a page knows of a link: the one form in which documents, receipts and scripts read it.

use serde::Serialize;

/// A link as its visitor sees it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Link {
    /// What opens it.
    pub(super) token: String,
    /// State, as the interface names it.
    pub(super) status: &'static str,
    /// `get_paid` or `pay`.
    pub(super) flow: &'static str,
    /// What its creator calls it.
    pub(super) reference: Option<String>,
    /// Where it is paid; `None` like `details`.
    pub(super) network: Option<Network>,
    /// What is asked for; `None` for who may not see it, or not yet.
    pub(super) details: Option<Details>,
    /// Where the payer may go afterwards; `None` for who may not see it, too.
    pub(super) redirect: Option<Redirect>,
    /// Until when it can be paid.
    pub(super) expires_at: String,
    /// What the clock of the service shows.
    pub(super) server_time: String,
    /// Whether all of it has arrived: for a link that was withdrawn before, too.
    pub(super) is_paid: bool,
    /// When it was paid.
    pub(super) completed_at: Option<String>,
    /// The transaction that paid it last.
    pub(super) tx_hash: Option<String>,
    /// A payment is on its way, or may be, also after the end of the link.
    pub(super) in_flight: Option<InFlight>,
    /// What it means for the wallet that asks.
    pub(super) wallet: Option<Wallet>,
}

/// A network, as wallets have to know it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Network {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    pub(super) chain_id: u64,
    /// Symbol of its coin.
    pub(super) coin: String,
    /// Where people look at its transactions: what a hash is added to.
    pub(super) explorer: String,
    /// A node for wallets that do not know the network.
    pub(super) rpc_url: Option<String>,
}

/// What is asked for.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Details {
    /// How many items there are.
    pub(super) count: usize,
    /// How many addresses they are for.
    pub(super) receivers: usize,
    /// Those among them to whom something is due.
    pub(super) receivers_left: usize,
    /// All of them; in documents none where there are many.
    pub(super) items: Vec<Item>,
    /// In the order in which items name them.
    pub(super) currencies: Vec<Currency>,
    /// Contracts that payments may go through.
    pub(super) contracts: Vec<String>,
}

/// One payment of a link.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Item {
    /// Receiver; its middle is hidden where the payer may not see it.
    pub(super) payee: String,
    /// Position among the currencies.
    pub(super) currency: usize,
    /// Decimal, as it was asked for.
    pub(super) amount: String,
    /// Decimal, what is left of it.
    pub(super) due: String,
    /// Whether all of it has arrived.
    pub(super) is_paid: bool,
    /// What its creator calls it, where that is not what the link is called.
    pub(super) reference: Option<String>,
    /// What the payment carries.
    pub(super) payment_reference: String,
}

/// A currency of a link, and what is paid in it; amounts are decimal.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Currency {
    pub(super) symbol: String,
    pub(super) decimals: u8,
    /// Contract of a token; `None` for the coin.
    pub(super) address: Option<String>,
    /// All items as they were asked for.
    pub(super) amount: String,
    /// Fees on top of that.
    pub(super) fee: String,
    /// Both together.
    pub(super) total: String,
    /// What has arrived for the items.
    pub(super) paid: String,
    /// What is left of the items.
    pub(super) left: String,
    /// What is left, with the fees on top of it.
    pub(super) due: String,
    /// The most that may leave the wallet for it.
    pub(super) most: String,
    /// Fees by receiver.
    pub(super) fees: Vec<Fee>,
}

/// What a receiver of fees gets on top of the items.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Fee {
    /// Its middle is hidden where it is a receiver whom the payer may not see.
    pub(super) receiver: String,
    /// On top of all of them.
    pub(super) amount: String,
    /// On top of what is left.
    pub(super) due: String,
}

/// Where the payer may go afterwards.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Redirect {
    pub(super) url: String,
    /// What the button says; `None` for the usual text, and where the redirect is foreign.
    pub(super) label: Option<String>,
    /// Scheme, host and port that it leads to, as browsers show them.
    pub(super) origin: String,
    /// Whether that is no page of the public client ID that made the link.
    pub(super) is_foreign: bool,
}

/// A payment that may be on its way.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InFlight {
    /// Until when that is believed.
    pub(super) until: String,
    /// Whether the chain shows it, and not a page or a payer alone.
    pub(super) is_seen: bool,
}

/// What a link means for a wallet.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Wallet {
    /// `approved`, `rejected` or `error`.
    pub(super) decision: &'static str,
    /// Why, as a code.
    pub(super) reason: String,
    /// What it holds; `None` where no node answers.
    pub(super) funds: Option<Vec<Fund>>,
}

/// What a wallet holds of a currency.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Fund {
    /// Position among the currencies.
    pub(super) currency: usize,
    pub(super) balance: String,
    /// What is not there.
    pub(super) missing: Option<String>,
}

impl Details {
    /// Who receives all of it; `None` of several receivers.
    pub(super) fn sole_receiver(&self) -> Option<&str> {
        let first = self.items.first().filter(|_| self.receivers == 1);
        first.map(|item| item.payee.as_str())
    }

    /// Whether some items are paid and others are not.
    pub(super) fn has_paid_and_unpaid(&self) -> bool {
        self.items.iter().any(|item| item.is_paid) && !self.items.iter().all(|item| item.is_paid)
    }
}

impl Link {
    /// Whether the page ends here, and as what.
    pub(super) fn end(&self) -> Option<&'static str> {
        (!matches!(self.status, "pending" | "completed")).then_some(self.status)
    }

    /// Whether a part has arrived, as far as its visitor may see that.
    pub(super) fn is_partly_paid(&self) -> bool {
        let mut currencies = self.details.iter().flat_map(|details| &details.currencies);
        currencies.any(|currency| currency.paid != "0")
    }

    /// Whether all of it was paid while that completed it.
    pub(super) fn is_completed(&self) -> bool {
        self.status == "completed"
    }
}
