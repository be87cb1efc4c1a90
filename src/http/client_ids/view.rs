//! Converts client IDs to response bodies, and request bodies to flow input.

use super::bodies::*;
use crate::{
    domain::{
        address::Address,
        amount::Percent,
        client_id::{ClientId, ClientIdChange, NewClientId, normalise_domain},
        client_limits::{self, LimitsChange},
        ids::{DestinationId, OrchestratorId},
        network::Network,
        refusal::Refusal,
    },
    http::{forms::null::changed, operation::*},
};
use poem_openapi::types::MaybeUndefined;

fn fee(text: &PercentText, checks: &mut Checks) -> Option<Percent> {
    checks.take("feePercentage", Percent::parse(text.as_str()))
}

fn receiver(text: &WalletText, checks: &mut Checks) -> Option<Address> {
    checks.take("feeAddress", Address::parse(text.as_str()))
}

fn operator(text: &WalletText, checks: &mut Checks) -> Option<Address> {
    let wallet = Address::parse_on(text.as_str(), Network::Mainnet);
    checks.take("operatorWalletAddress", wallet)
}

fn domains(texts: &[DomainText], checks: &mut Checks) -> Vec<String> {
    let mut domain = |(index, text): (usize, &DomainText)| {
        checks.take(&format!("allowedDomains[{index}]"), normalise_domain(text.as_str()))
    };
    texts.iter().enumerate().filter_map(&mut domain).collect()
}

/// Rejects a payee destination: it belongs to a wallet, and this operation has no wallet session.
fn bound_elsewhere(is_named: bool, checks: &mut Checks) {
    if is_named {
        let message = "must be absent: bind a payee destination with a session of its wallet, using POST \
                       /v1/client-ids or PUT /v1/client-ids/{id}";
        checks.fail("payeeDestinationId", message);
    }
}

impl CreateClientIdBody {
    /// Parses the body that creates a client ID with an API key. Errors: one refusal that lists every invalid member.
    pub fn read(self) -> Result<NewClientId, Refusal> {
        let mut checks = Checks::new();
        bound_elsewhere(self.payee_destination_id.is_some(), &mut checks);
        let new = NewClientId {
            label: self.label.into(),
            allowed_domains: domains(&self.allowed_domains, &mut checks),
            is_backend: false,
            fee_percentage: self.fee_percentage.and_then(|text| fee(&text, &mut checks)),
            fee_address: self.fee_address.and_then(|text| receiver(&text, &mut checks)),
            payee_destination: None,
            operator_wallet: self
                .operator_wallet_address
                .and_then(|text| operator(&text, &mut checks)),
            default_pre_approval_expiry_s: self.default_pre_approval_expiry,
            default_authorization_expiry_s: self.default_authorization_expiry,
            limits: limits(self.limits, &mut checks),
        };
        checks.finish()?;
        Ok(new)
    }
}

impl CreateOwnClientIdBody {
    /// Parses the body that creates a client ID with a session; the client ID may have no domains. Errors: one refusal
    /// that lists every invalid member.
    pub fn read(self) -> Result<NewClientId, Refusal> {
        let body = CreateClientIdBody {
            label: self.label,
            allowed_domains: self.allowed_domains.unwrap_or_default(),
            fee_percentage: self.fee_percentage,
            fee_address: self.fee_address,
            payee_destination_id: None,
            operator_wallet_address: self.operator_wallet_address,
            default_pre_approval_expiry: self.default_pre_approval_expiry,
            default_authorization_expiry: self.default_authorization_expiry,
            limits: self.limits,
        };
        Ok(NewClientId {
            is_backend: true,
            payee_destination: self.payee_destination_id.map(DestinationId),
            ..body.read()?
        })
    }
}

/// Parses the entries of a list; an error names the entry, for example `allowedPayees[0]`. An absent list is `None`;
/// null becomes the empty list, which means no limit.
fn entries<T, V>(
    field: &str,
    list: MaybeUndefined<Vec<T>>,
    checks: &mut Checks,
    read: impl Fn(&T) -> Result<V, String>,
) -> Option<Vec<V>> {
    let list = changed(list, Some)?.unwrap_or_default();
    let mut entry = |(index, text): (usize, &T)| checks.take(&format!("{field}[{index}]"), read(text));
    Some(list.iter().enumerate().filter_map(&mut entry).collect())
}

fn limits(body: ClientIdLimitsChange, checks: &mut Checks) -> LimitsChange {
    LimitsChange {
        payees: entries("allowedPayees", body.allowed_payees, checks, Reads::value),
        currencies: entries("allowedCurrencies", body.allowed_currencies, checks, |id| {
            Ok(id.to_string())
        }),
        networks: entries("allowedNetworks", body.allowed_networks, checks, |network| Ok(*network)),
        max_amount: changed(body.max_amount, |limit| {
            let amount = checks.take("maxAmount.amount", limit.amount.value())?;
            let currency = limit.currency.into();
            Some(client_limits::AmountLimit { amount, currency })
        }),
    }
}

impl UpdateClientIdBody {
    /// Parses the body that changes a client ID with an API key. Errors: one refusal that lists every invalid member.
    pub fn read(self) -> Result<ClientIdChange, Refusal> {
        let mut checks = Checks::new();
        bound_elsewhere(self.payee_destination_id.is_some(), &mut checks);
        let terms = self.terms;
        let change = ClientIdChange {
            label: self.label.map(String::from),
            allowed_domains: self.allowed_domains.map(|texts| domains(&texts, &mut checks)),
            is_backend: false,
            fee_percentage: changed(terms.fee_percentage, |text| fee(&text, &mut checks)),
            fee_address: changed(terms.fee_address, |text| receiver(&text, &mut checks)),
            payee_destination: None,
            operator_wallet: changed(terms.operator_wallet_address, |text| operator(&text, &mut checks)),
            default_pre_approval_expiry_s: changed(terms.default_pre_approval_expiry, Some),
            default_authorization_expiry_s: changed(terms.default_authorization_expiry, Some),
            limits: limits(self.limits, &mut checks),
            orchestrator: changed(self.orchestrator_id, |id| Some(OrchestratorId(id.to_string()))),
            status: self.status,
        };
        checks.finish()?;
        Ok(change)
    }
}

impl UpdateOwnClientIdBody {
    /// Parses the body that changes a client ID with a session. Errors: one refusal that lists every invalid member.
    pub fn read(self) -> Result<ClientIdChange, Refusal> {
        let body = UpdateClientIdBody {
            label: self.label,
            allowed_domains: self.allowed_domains,
            payee_destination_id: None,
            terms: self.terms,
            limits: self.limits,
            orchestrator_id: self.orchestrator_id,
            status: self.status,
        };
        Ok(ClientIdChange {
            is_backend: true,
            payee_destination: changed(self.payee_destination_id, |id| Some(DestinationId(id))),
            ..body.read()?
        })
    }
}

fn names(client: &ClientId) -> ClientIdNames {
    ClientIdNames {
        id: UlidText::written(client.row.as_str()),
        client_id: ClientIdText::written(&client.client_id),
        label: NameText::written(&client.label),
        allowed_domains: client.allowed_domains.iter().map(DomainText::written).collect(),
        status: client.status,
        orchestrator_id: OrNull(client.orchestrator.as_ref().map(UlidText::written)),
        orchestrator_link: OrNull(client.link.as_ref().map(|link| ClientIdLink {
            orchestrator_id: UlidText::written(&link.orchestrator),
            status: link.status,
            linked_at: Instant(link.linked_at),
        })),
    }
}

/// The entries of a limit; null when there is no limit.
fn list<'a, T, V>(entries: &'a [T], written: impl Fn(&'a T) -> V) -> OrNull<Vec<V>> {
    OrNull((!entries.is_empty()).then(|| entries.iter().map(written).collect()))
}

fn terms(client: &ClientId) -> ClientIdTerms {
    let wallet = |address: Address| WalletText::written(address.to_string());
    ClientIdTerms {
        fee_percentage: OrNull(client.fee_percentage.map(|fee| PercentText::written(fee.to_string()))),
        fee_address: OrNull(client.fee_address.map(wallet)),
        operator_wallet_address: OrNull(client.operator_wallet.map(wallet)),
        default_pre_approval_expiry: OrNull(client.default_pre_approval_expiry_s),
        default_authorization_expiry: OrNull(client.default_authorization_expiry_s),
        allowed_payees: list(&client.limits.payees, WalletText::written),
        allowed_currencies: list(&client.limits.currencies, CurrencyIdText::written),
        allowed_networks: list(&client.limits.networks, |network| *network),
        max_amount: OrNull(client.limits.max_amount.as_ref().map(|limit| AmountLimit {
            amount: AskedAmountText::written(&limit.amount),
            currency: CurrencyIdText::written(&limit.currency),
        })),
    }
}

/// A newly created client ID.
pub fn created(client: &ClientId) -> ClientIdCreated {
    ClientIdCreated {
        names: names(client),
        terms: terms(client),
        created_at: Instant(client.created_at),
    }
}

/// A changed client ID.
pub fn updated(client: &ClientId) -> ClientIdUpdated {
    ClientIdUpdated {
        names: names(client),
        terms: terms(client),
        updated_at: Instant(client.updated_at),
    }
}

/// A client ID in a list.
pub fn summary(client: &ClientId) -> ClientIdSummary {
    ClientIdSummary {
        names: names(client),
        created_at: Instant(client.created_at),
        last_used_at: OrNull(client.last_used_at.map(Instant)),
    }
}

/// A client ID with all its details.
pub fn detail(client: &ClientId) -> ClientIdDetail {
    ClientIdDetail {
        created: created(client),
        updated_at: Instant(client.updated_at),
        last_used_at: OrNull(client.last_used_at.map(Instant)),
    }
}

/// A client ID as a signed-in person sees it.
pub fn own(client: &ClientId) -> OwnClientId {
    OwnClientId {
        detail: detail(client),
        payee_destination_id: OrNull(
            client
                .payee_destination
                .as_ref()
                .map(|id| UlidText::written(id.as_str())),
        ),
    }
}
