//! Fee configs of orchestrators.

use super::{
    address::Address,
    amount::{Amount, Percent},
    currency::{Catalogue, DOLLAR_DECIMALS},
    ids::{ClientRowId, FeeConfigId, OrchestratorId},
    network::Family,
    paying::{
        capture::{CaptureTerms, FeeTerms},
        charge::{FeeBearer, FeeOrigin},
    },
    refusal::{Checks, Refusal},
    secure_payment::PaymentFlow,
    wire_text::wire_text,
};
use chrono::{DateTime, Utc};

/// Message for a change of a value that is fixed when a fee config is created.
const CANNOT_CHANGE: &str = "cannot change: create a fee config with the other value";

wire_text! {
    /// Whether new payments carry the fee of a config.
    pub enum FeeConfigStatus {
        /// New payments carry the fee.
        Active = "active",
        /// New payments carry no such fee. The config counts as absent.
        Disabled = "disabled",
    }
}

/// The client ID to which a fee config is limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeeScope {
    /// Row of the client ID.
    pub row: ClientRowId,
    /// The client ID that callers send.
    pub client_id: String,
}

/// A fee config. An orchestrator has at most one for each scope, flow and bearer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeeConfig {
    /// Id.
    pub id: FeeConfigId,
    /// Orchestrator that gets the fee.
    pub orchestrator: OrchestratorId,
    /// The client ID whose payments carry the fee; `None` for all client IDs of the orchestrator.
    pub scope: Option<FeeScope>,
    /// Direction of the payments.
    pub flow: PaymentFlow,
    /// Who bears the fee.
    pub bearer: FeeBearer,
    /// Rate, cap and receivers.
    pub terms: FeeTerms,
    /// State.
    pub status: FeeConfigStatus,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// Last change.
    pub updated_at: DateTime<Utc>,
}

/// A change of a fee config; `None` leaves a value as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeeConfigChange {
    /// Direction, which cannot change.
    pub flow: Option<PaymentFlow>,
    /// Who bears the fee, which cannot change.
    pub bearer: Option<FeeBearer>,
    /// Rate.
    pub rate: Option<Percent>,
    /// Cap; `Some(None)` removes it.
    pub cap_usd: Option<Option<Amount>>,
    /// Receiver on EVM networks; `Some(None)` removes it.
    pub evm: Option<Option<Address>>,
    /// Receiver on Tron; `Some(None)` removes it.
    pub tron: Option<Option<Address>>,
    /// State.
    pub status: Option<FeeConfigStatus>,
}

impl FeeTerms {
    /// Checks the terms. Errors (400): a cap with more than six decimals or beyond 256 bits; no receiver; a receiver of
    /// the wrong family (EVM or Tron); the address of a token or payment contract as receiver.
    pub fn checked(self, catalogue: &Catalogue) -> Result<Self, Refusal> {
        let mut checks = Checks::new();
        if let Some(cap) = &self.cap_usd
            && cap.to_units(DOLLAR_DECIMALS).is_err()
        {
            checks.fail("usdCap", "must have at most 6 decimals and fit into 256 bits");
        }
        for (field, receiver, family) in [
            ("evmRecipientAddress", self.evm, Family::Evm),
            ("tronRecipientAddress", self.tron, Family::Tron),
        ] {
            let Some(receiver) = receiver else { continue };
            if receiver.family() == family {
                checks.take(field, catalogue.receiver_anywhere(receiver));
            } else {
                checks.fail(field, wrong_family(family));
            }
        }
        if self.evm.is_none() && self.tron.is_none() {
            checks.fail(
                "evmRecipientAddress",
                "is required when tronRecipientAddress is absent: a fee needs a receiver",
            );
        }
        checks.finish()?;
        Ok(self)
    }
}

fn wrong_family(family: Family) -> &'static str {
    match family {
        Family::Evm => "must be an EVM address: 0x and 40 hexadecimal digits",
        Family::Tron => "must be a Tron address: T and 33 base58 characters",
    }
}

/// The orchestrator fees on a new payment of a client ID: first the fee on top of the amount, then the fee that the
/// payee bears. For each bearer, an active config of the client ID replaces the config for all client IDs. `configs`
/// are configs of one orchestrator, each either for this client ID or for all client IDs.
pub fn applicable(configs: &[FeeConfig], flow: PaymentFlow) -> Vec<CaptureTerms> {
    let of_bearer = |bearer| {
        let is_applicable = move |config: &&FeeConfig| {
            config.flow == flow && config.bearer == bearer && config.status == FeeConfigStatus::Active
        };
        let own = || configs.iter().filter(is_applicable);
        own().find(|config| config.scope.is_some()).or_else(|| own().next())
    };
    let chosen = FeeBearer::ALL.into_iter().filter_map(of_bearer);
    chosen.map(FeeConfig::capture_terms).collect()
}

impl FeeConfig {
    /// The config after a change, checked as a whole. Errors (400): the change names another payment direction or
    /// bearer, or those of [`FeeTerms::checked`].
    pub fn changed(self, change: FeeConfigChange, catalogue: &Catalogue, now: DateTime<Utc>) -> Result<Self, Refusal> {
        let mut checks = Checks::new();
        if change.flow.is_some_and(|flow| flow != self.flow) {
            checks.fail("flow", CANNOT_CHANGE);
        }
        if change.bearer.is_some_and(|bearer| bearer != self.bearer) {
            checks.fail("feeBearer", CANNOT_CHANGE);
        }
        checks.finish()?;
        let stored = self.terms;
        let terms = FeeTerms {
            rate: change.rate.unwrap_or(stored.rate),
            cap_usd: change.cap_usd.unwrap_or(stored.cap_usd),
            evm: change.evm.unwrap_or(stored.evm),
            tron: change.tron.unwrap_or(stored.tron),
        };
        Ok(Self {
            terms: terms.checked(catalogue)?,
            status: change.status.unwrap_or(self.status),
            updated_at: now,
            ..self
        })
    }

    fn capture_terms(&self) -> CaptureTerms {
        CaptureTerms {
            source: match self.scope {
                Some(_) => FeeOrigin::OrchestratorClient,
                None => FeeOrigin::OrchestratorDefault,
            },
            bearer: self.bearer,
            terms: self.terms.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(bearer: FeeBearer, points: u16, is_scoped: bool) -> FeeConfig {
        FeeConfig {
            id: FeeConfigId("01".to_owned()),
            orchestrator: OrchestratorId("o".to_owned()),
            scope: is_scoped.then(|| FeeScope {
                row: ClientRowId("c".to_owned()),
                client_id: "cli_c".to_owned(),
            }),
            flow: PaymentFlow::GetPaid,
            bearer,
            terms: FeeTerms {
                rate: Percent::from_basis_points(points).unwrap(),
                cap_usd: None,
                evm: None,
                tron: None,
            },
            status: FeeConfigStatus::Active,
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_config_of_the_client_id_replaces_the_default_of_its_bearer() {
        let default = config(FeeBearer::Payer, 100, false);
        let mut own = config(FeeBearer::Payer, 0, true);
        let payee = config(FeeBearer::Payee, 50, false);
        let rates = |configs: &[&FeeConfig], flow| -> Vec<u16> {
            let configs: Vec<FeeConfig> = configs.iter().map(|config| (*config).clone()).collect();
            let chosen = applicable(&configs, flow);
            chosen.iter().map(|terms| terms.terms.rate.basis_points()).collect()
        };
        assert_eq!(rates(&[&default, &own, &payee], PaymentFlow::GetPaid), [0, 50]);
        assert_eq!(rates(&[&default, &own, &payee], PaymentFlow::Pay), [0_u16; 0]);
        own.status = FeeConfigStatus::Disabled;
        assert_eq!(
            rates(&[&own, &default], PaymentFlow::GetPaid),
            [100],
            "a disabled config counts as absent"
        );
    }
}
