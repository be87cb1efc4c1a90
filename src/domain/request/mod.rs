//! Payment requests: what is asked for, what has arrived, and which payments are theirs.

pub mod payable;
pub mod plan;
pub mod price;
pub mod progress;
pub mod repetition;
pub mod terms;

use super::{
    address::Address,
    currency::{Catalogue, ContractKind},
    ids::{ClientRowId, PlatformId, RequestId, RequestRowId},
    ledger::Ledger,
    off_ramp::Deposit,
    payment::Observation,
    reference::PaymentReference,
};
use chrono::{DateTime, Utc};
use terms::{Exchange, Terms};

/// A payment request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Row.
    pub row: RequestRowId,
    /// Public id.
    pub id: RequestId,
    /// Salt of the reference, 16 hexadecimal digits.
    pub salt: String,
    /// Reference of its payments.
    pub reference: PaymentReference,
    /// Who created it.
    pub origin: Origin,
    /// What it asks for.
    pub terms: Terms,
    /// What has arrived.
    pub ledger: Ledger,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// Whether a link that pays it hides something from who is not approved; once it does, it stays so.
    pub is_hidden: bool,
    /// Until when the link that pays it can be paid; `None` for a request that no link pays.
    pub link_until: Option<DateTime<Utc>>,
    /// Whether it was made with a public client ID, which everybody can read on a page.
    pub is_by_public_client: bool,
}

/// Who created a request, and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Tenant.
    pub platform: PlatformId,
    /// Row of the client ID.
    pub client: Option<ClientRowId>,
    /// Public text of that client ID.
    pub client_id: Option<String>,
    /// Page.
    pub page: Option<String>,
}

impl Request {
    /// The request without what it says about persons. Source: decisions D32.
    #[must_use]
    pub fn without_persons(self) -> Self {
        Self {
            terms: self.terms.without_persons(),
            ..self
        }
    }

    /// Whether an observation is a payment of this request: chain, proxy, reference, token and payee all match.
    ///
    /// A conversion on chain must also name the invoice currency; a quote is paid like a direct payment. Of a request without
    /// payee, `deposits` are the addresses that were ever handed out for it: no other counts. Source: rules B.3; rules G.2 (3).
    pub fn matches(&self, observed: &Observation, deposits: &[Deposit], catalogue: &Catalogue) -> bool {
        let kind = catalogue
            .contracts(self.terms.network)
            .iter()
            .find(|contract| contract.address == observed.proxy)
            .map(|c| c.kind);
        let proxy_fits = match (self.terms.exchange(), self.terms.token.is_some(), kind) {
            (
                Exchange::Direct | Exchange::Quoted,
                true,
                Some(ContractKind::Erc20FeeProxy | ContractKind::Erc20Proxy),
            ) => observed.conversion.is_none(),
            (
                Exchange::Direct | Exchange::Quoted,
                false,
                Some(ContractKind::EthereumFeeProxy | ContractKind::EthereumProxy),
            ) => observed.conversion.is_none(),
            (Exchange::OnChain, true, Some(ContractKind::Erc20ConversionProxy))
            | (Exchange::OnChain, false, Some(ContractKind::EthConversionProxy)) => {
                let invoice = catalogue
                    .find(&self.terms.invoice_currency)
                    .and_then(|currency| Address::parse(&currency.hash).ok());
                observed
                    .conversion
                    .is_some_and(|conversion| Some(conversion.currency) == invoice)
            }
            _ => false,
        };
        proxy_fits
            && self.terms.network == observed.network
            && self.reference.topic() == observed.reference_topic
            && self.terms.token == observed.token
            && match self.terms.payee {
                Some(payee) => payee == observed.payee,
                None => deposits.iter().any(|deposit| deposit.address == observed.payee),
            }
    }

    /// The request as it is paid to an address that was handed out for it.
    #[must_use]
    pub fn paid_to(&self, deposit: Address) -> Self {
        let mut request = self.clone();
        request.terms.payee = Some(deposit);
        request
    }
}
