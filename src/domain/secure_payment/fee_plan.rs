//! The fees of a secure payment in dollars: who bears each of them, and what the payer pays and the payee receives.
//!
//! The payer bears the fees of the platform and of the service, whatever the default says. The fee config of an
//! orchestrator decides who bears the fee of the orchestrator. Source: rules P.7.1.

use super::{PaymentFlow, multicall::AmountTotals};
use crate::domain::{
    amount::format_units,
    currency::{Currency, DOLLAR_DECIMALS},
    paying::charge::{Charge, Charges, FeeBearer, FeeKind},
    wire_text::wire_text,
};
use alloy::primitives::U256;

wire_text! {
    /// What decided who bears a fee.
    pub enum FeeBearerSource {
        /// The settings of the fee.
        FeeConfig = "fee_config",
        /// The call that created the payment.
        PaymentDefaultOverride = "payment_default_override",
        /// The direction of the payment.
        FlowDefault = "flow_default",
        /// A fixed policy: fees of this kind always have this bearer.
        ForcedFeePolicy = "forced_fee_policy",
    }
}

impl PaymentFlow {
    /// Who bears a fee by default, if nothing else decides. Source: rules P.7.1.
    pub const fn usual_bearer(self) -> FeeBearer {
        match self {
            Self::GetPaid => FeeBearer::Payee,
            Self::Pay => FeeBearer::Payer,
        }
    }
}

impl FeeKind {
    /// What decides who bears this fee.
    pub const fn bearer_source(self) -> FeeBearerSource {
        match self {
            Self::Platform | Self::Protocol | Self::Contract => FeeBearerSource::ForcedFeePolicy,
            Self::Orchestrator => FeeBearerSource::FeeConfig,
        }
    }

    /// Display name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Platform => "Platform fee",
            Self::Protocol => "Service fee",
            Self::Contract => "Contract fee",
            Self::Orchestrator => "Orchestrator fee",
        }
    }
}

/// One fee of a plan, for all payments together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeePlanLine {
    /// The charge. Its cap may differ from payment to payment.
    pub charge: Charge,
    /// Maximum per payment, in dollars.
    pub cap: Option<String>,
    /// Amount in millionths of a dollar.
    micros: U256,
}

impl FeePlanLine {
    /// Amount in dollars.
    pub fn amount(&self) -> String {
        format_units(self.micros, DOLLAR_DECIMALS)
    }
}

/// The fees of a secure payment in dollars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeePlan {
    /// Direction of the payment.
    pub flow: PaymentFlow,
    /// Who bears a fee by default, if nothing else decides.
    pub default_bearer: FeeBearer,
    /// The fees.
    pub lines: Vec<FeePlanLine>,
    gross: U256,
    payer_borne: U256,
    payee_borne: U256,
}

/// One payment of a plan: its gross amount in units of its currency, and its fees.
pub type PlannedPayment = (U256, Charges);

impl FeePlan {
    /// The plan of payments in one currency. `None` if the currency is not a dollar token, or a sum exceeds 256 bits.
    pub fn of(
        flow: PaymentFlow,
        default_bearer: FeeBearer,
        currency: &Currency,
        payments: &[PlannedPayment],
    ) -> Option<Self> {
        if !currency.is_dollar() {
            return None;
        }
        let mut lines: Vec<FeePlanLine> = Vec::new();
        let mut gross = U256::ZERO;
        for (units, charges) in payments {
            gross = gross.checked_add(micros(*units, currency.decimals)?)?;
            for charge in charges.iter() {
                let part = micros(charge.of(*units), currency.decimals)?;
                match lines.iter_mut().find(|line| line.is_of(charge)) {
                    Some(line) => line.micros = line.micros.checked_add(part)?,
                    None => lines.push(FeePlanLine {
                        charge: *charge,
                        cap: charge.cap.map(|cap| format_units(cap, currency.decimals)),
                        micros: part,
                    }),
                }
            }
        }
        let borne_by = |bearer| {
            let mut own = lines.iter().filter(|line| line.charge.bearer == bearer);
            own.try_fold(U256::ZERO, |sum, line| sum.checked_add(line.micros))
        };
        let (payer_borne, payee_borne) = (borne_by(FeeBearer::Payer)?, borne_by(FeeBearer::Payee)?);
        gross.checked_add(payer_borne)?;
        Some(Self {
            flow,
            default_bearer,
            lines,
            gross,
            payer_borne,
            payee_borne,
        })
    }

    /// The sums in dollars.
    pub fn totals(&self) -> AmountTotals {
        AmountTotals {
            gross: self.gross,
            by_payer: self.payer_borne,
            by_payee: self.payee_borne,
            decimals: DOLLAR_DECIMALS,
        }
    }

    /// The requested amount.
    pub fn gross(&self) -> String {
        format_units(self.gross, DOLLAR_DECIMALS)
    }

    /// The part of the requested amount that the payee receives.
    pub fn net(&self) -> String {
        format_units(self.gross.saturating_sub(self.payee_borne), DOLLAR_DECIMALS)
    }

    /// The total that the payer pays.
    pub fn payer_total(&self) -> String {
        format_units(self.gross.saturating_add(self.payer_borne), DOLLAR_DECIMALS)
    }

    /// The sum of all fees.
    pub fn fees(&self) -> String {
        format_units(self.payer_borne.saturating_add(self.payee_borne), DOLLAR_DECIMALS)
    }

    /// The fees of a bearer.
    pub fn fees_of(&self, bearer: FeeBearer) -> String {
        let sum = match bearer {
            FeeBearer::Payer => self.payer_borne,
            FeeBearer::Payee => self.payee_borne,
        };
        format_units(sum, DOLLAR_DECIMALS)
    }

    /// The fees of one owner that a bearer bears.
    pub fn fees_to(&self, owner: FeeKind, bearer: FeeBearer) -> String {
        let own = self.lines.iter();
        let own = own.filter(|line| line.charge.kind == owner && line.charge.bearer == bearer);
        let sum = own.fold(U256::ZERO, |sum, line| sum.saturating_add(line.micros));
        format_units(sum, DOLLAR_DECIMALS)
    }
}

impl FeePlanLine {
    fn is_of(&self, charge: &Charge) -> bool {
        self.charge
            == Charge {
                cap: self.charge.cap,
                captured: self.charge.captured,
                ..*charge
            }
    }
}

/// Units of a dollar token in millionths of a dollar, rounded half up. `None` above 256 bits. Source: rules P.7.1.
fn micros(units: U256, decimals: u8) -> Option<U256> {
    let ten = |digits: u8| U256::from(10).checked_pow(U256::from(digits));
    match decimals.checked_sub(DOLLAR_DECIMALS) {
        Some(0) => Some(units),
        Some(finer) => {
            let scale = ten(finer)?;
            let (whole, rest) = units.div_rem(scale);
            let is_up = rest >= scale / U256::from(2);
            whole.checked_add(U256::from(u8::from(is_up)))
        }
        None => units.checked_mul(ten(DOLLAR_DECIMALS - decimals)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{address::Address, amount::Percent, network::Network, paying::charge::FeeOrigin};

    #[test]
    fn units_are_rounded_half_up_to_millionths() {
        for (units, decimals, expected) in [
            (1_500_000_u64, 6, 1_500_000),
            (499_999_999_999, 18, 0),
            (500_000_000_000, 18, 1),
            (1_499_999_999_999, 18, 1),
            (15, 1, 1_500_000),
        ] {
            assert_eq!(
                micros(U256::from(units), decimals),
                Some(U256::from(expected)),
                "{units}"
            );
        }
    }

    #[test]
    fn fees_are_added_on_top_and_equal_ones_are_merged() {
        let rate = |points| Percent::from_basis_points(points).unwrap();
        let receiver = |last| Address::Evm(alloy::primitives::Address::with_last_byte(last));
        let charges = [
            Charge::platform(FeeOrigin::Call, rate(250), receiver(2)),
            Charge::protocol(rate(100), receiver(3), Some(U256::from(500_000))),
        ];
        let charges: Charges = charges.into_iter().collect();
        let payments = [
            (U256::from(100_000_000), charges.clone()),
            (U256::from(10_000_000), charges),
        ];
        let usdc = Currency::sample("USDC", 6, Some(Network::Sepolia));
        let plan = FeePlan::of(PaymentFlow::GetPaid, FeeBearer::Payee, &usdc, &payments).unwrap();
        assert_eq!((plan.gross().as_str(), plan.fees().as_str()), ("110", "3.35"));
        assert_eq!(
            (
                plan.payer_total().as_str(),
                plan.fees_to(FeeKind::Protocol, FeeBearer::Payer).as_str()
            ),
            ("113.35", "0.6")
        );
        let lines: Vec<_> = plan
            .lines
            .iter()
            .map(|line| (line.charge.kind, line.amount()))
            .collect();
        assert_eq!(
            lines,
            [(FeeKind::Platform, "2.75".into()), (FeeKind::Protocol, "0.6".into())]
        );
        assert_eq!(plan.lines[1].cap.as_deref(), Some("0.5"));
    }

    #[test]
    fn only_dollar_amounts_have_a_plan() {
        let payments = [(U256::from(1), Charges::default())];
        let plan = |currency| FeePlan::of(PaymentFlow::Pay, FeeBearer::Payer, &currency, &payments);
        assert_eq!(plan(Currency::sample("FAU", 18, Some(Network::Sepolia))), None);
        let huge = [(U256::MAX, Charges::default())];
        assert_eq!(
            FeePlan::of(
                PaymentFlow::Pay,
                FeeBearer::Payer,
                &Currency::sample("DAI", 1, Some(Network::Sepolia)),
                &huge
            ),
            None
        );
    }
}
