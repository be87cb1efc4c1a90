//! Payment requests: their terms, their ledger, and the payments that match them.

pub mod payable;
pub mod plan;
pub mod price;
pub mod progress;
pub mod repetition;
pub mod terms;

use super::{
    address::Address,
    currency::{Catalogue, ContractKind},
    ids::{ClientRowId, OrchestratorId, PlatformId, RequestId, RequestRowId},
    ledger::Ledger,
    off_ramp::DepositAddress,
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
    /// Terms of the request.
    pub terms: Terms,
    /// Amounts received so far.
    pub ledger: Ledger,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// Whether a link for the request hides details from unapproved visitors. The value is permanent once set.
    pub is_hidden: bool,
    /// When the link for the request expires; `None` for a request without a link.
    pub link_until: Option<DateTime<Utc>>,
    /// Whether a public client ID created the request. Any visitor can read such an ID on a page.
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
    /// Orchestrator that created the request with its own key and that client ID.
    pub orchestrator: Option<OrchestratorId>,
}

impl Request {
    /// The request without personal data. Source: decisions D32.
    #[must_use]
    pub fn without_persons(self) -> Self {
        Self {
            terms: self.terms.without_persons(),
            ..self
        }
    }

    /// Whether an observation is a payment of this request: chain, proxy, reference, token and payee all match.
    ///
    /// The event of an on-chain conversion must also name the invoice currency. A payment by a quote is matched like a
    /// direct one. For a request without a payee, `deposits` are all addresses that were issued for it, and no other
    /// address counts. Source: rules B.3; rules G.2 (3).
    pub fn matches(&self, observed: &Observation, deposits: &[DepositAddress], catalogue: &Catalogue) -> bool {
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

    /// The request with one of its deposit addresses as the payee.
    #[must_use]
    pub fn paid_to(&self, deposit: Address) -> Self {
        let mut request = self.clone();
        request.terms.payee = Some(deposit);
        request
    }
}
