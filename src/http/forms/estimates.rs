//! Estimates of network fees on networks where the service prepares the transactions.

use super::handout::HandoutTexts;
use crate::domain::paying::spent;
use alloy::primitives::U256;
use poem_openapi::Object;

/// Resources that the transactions use, whether or not the wallet pays for them.
#[derive(Debug, Clone, Object)]
pub struct StepResources {
    /// Of the approvals; 0 if there are none. Example: `99764`
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub approval: u64,
    /// Of the payment. Example: `150000`
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub payment: u64,
}

/// Estimates and limits of network fees on Tron; all members are absent on other networks. They are also absent if no
/// wallet is named and the service has no account for estimates.
#[derive(Debug, Clone, Default, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct FeeEstimates {
    /// `estimatedNetworkFee` in US dollars; present only on Tron, if the service has a rate of TRX. Example: `8.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub estimated_network_fee_usd: Option<String>,
    /// `estimatedApprovalNetworkFee` in US dollars; present only on Tron, if the service has a rate of TRX.
    /// Example: `3.4`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub estimated_approval_network_fee_usd: Option<String>,
    /// `estimatedPaymentNetworkFee` in US dollars; present only on Tron, if the service has a rate of TRX.
    /// Example: `5.1`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub estimated_payment_network_fee_usd: Option<String>,
    /// Maximum fee for energy that each approval may cost, in sun; present only on Tron. Example: `100000000`
    #[oai(validator(max_length = 20, pattern = "^[0-9]{1,20}$"))]
    pub approval_fee_limit: Option<String>,
    /// Maximum fee for energy that the payment may cost, in sun; present only on Tron. Example: `300000000`
    #[oai(validator(max_length = 20, pattern = "^[0-9]{1,20}$"))]
    pub payment_fee_limit: Option<String>,
    /// Estimated energy; present only on Tron. Added by this service
    pub energy: Option<StepResources>,
    /// Estimated bandwidth in bytes; present only on Tron. Added by this service
    pub bandwidth: Option<StepResources>,
    /// Whether `energy.payment` is a usual value: a payment can be simulated only once the allowance and the balance
    /// suffice. Present only on Tron. Added by this service. Example: `true`
    pub is_payment_energy_assumed: Option<bool>,
}

impl From<HandoutTexts<'_>> for FeeEstimates {
    fn from(texts: HandoutTexts<'_>) -> Self {
        let Some(prepared) = &texts.0.prepared else {
            return Self::default();
        };
        let (costs, approvals) = (prepared.costs(), prepared.approval_resources());
        Self {
            estimated_network_fee_usd: texts.dollars(costs.total()),
            estimated_approval_network_fee_usd: texts.dollars(costs.approvals),
            estimated_payment_network_fee_usd: texts.dollars(costs.payment),
            approval_fee_limit: Some(prepared.limits.approval_sun.to_string()),
            payment_fee_limit: Some(prepared.limits.payment_sun.to_string()),
            energy: Some(StepResources {
                approval: approvals.energy,
                payment: prepared.payment.energy,
            }),
            bandwidth: Some(StepResources {
                approval: approvals.bandwidth,
                payment: prepared.payment.bandwidth,
            }),
            is_payment_energy_assumed: Some(prepared.payment.is_assumed),
        }
    }
}

/// Balances and allowance of a payer, and the network fees. In the metadata of a request, all members are absent on
/// other networks than Tron.
#[derive(Debug, Clone, Default, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct PayerReadiness {
    /// Whether the contract may take the amount that it needs; present only if a wallet is named. Example: `false`
    pub has_enough_allowance: Option<bool>,
    /// Balance in the payment currency; present only if a wallet is named. Example: `250`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub balance: Option<String>,
    /// Amount that the contract may take from the wallet; present only if a wallet is named. Example: `0`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub allowance: Option<String>,
    /// Amount needed including all fees. Example: `10.25`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub required_amount: Option<String>,
    /// Balance of the native coin; present only if a wallet is named. Example: `40.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub native_balance: Option<String>,
    /// Network fee of all transactions in the native coin: estimated on Tron, otherwise the maximum. Example: `25.5`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub estimated_network_fee: Option<String>,
    /// Network fee of the approvals: estimated on Tron, otherwise the maximum. Example: `10.1`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub estimated_approval_network_fee: Option<String>,
    /// Network fee of the payment: estimated on Tron, otherwise the maximum. Example: `15.4`
    #[oai(validator(max_length = 108, pattern = r"^(0|[1-9][0-9]{0,76})(\.[0-9]{1,30})?$"))]
    pub estimated_payment_network_fee: Option<String>,
    /// Estimates and limits
    #[oai(flatten)]
    pub estimates: FeeEstimates,
}

impl PayerReadiness {
    /// Only where the service prepares the transactions.
    pub fn where_prepared(texts: HandoutTexts<'_>) -> Self {
        texts.0.prepared.as_ref().map_or_else(Self::default, |_| texts.into())
    }
}

impl From<HandoutTexts<'_>> for PayerReadiness {
    fn from(texts: HandoutTexts<'_>) -> Self {
        let handout = texts.0;
        let token = handout.bundle.legs.first().and_then(|leg| leg.token);
        let human = |units: U256| texts.amount(0, units);
        let (payer, costs) = (handout.payer.as_ref(), handout.costs());
        let standing = payer.and_then(|payer| payer.standings.get(&token));
        // A multicall can spend several currencies; amounts in one of them would mislead.
        let is_sole = handout.spendings.len() == 1;
        Self {
            has_enough_allowance: payer.map(|_| texts.approval_index().is_none()),
            balance: standing.filter(|_| is_sole).map(|standing| human(standing.balance)),
            allowance: standing
                .filter(|_| is_sole && token.is_some())
                .map(|standing| human(standing.allowance)),
            required_amount: is_sole.then(|| human(spent(&handout.spendings, token))),
            native_balance: standing.map(|standing| texts.coins(standing.native_balance)),
            estimated_network_fee: costs.map(|costs| texts.coins(costs.total())),
            estimated_approval_network_fee: costs.map(|costs| texts.coins(costs.approvals)),
            estimated_payment_network_fee: costs.map(|costs| texts.coins(costs.payment)),
            estimates: texts.into(),
        }
    }
}
