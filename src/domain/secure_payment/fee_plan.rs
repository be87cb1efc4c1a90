//! The fees of a secure payment in dollars: what its creator is shown, and what its payer pays on top.
//!
//! Every fee is paid on top of the amount, so the payer bears it, whoever would by default. Source: rules P.7.1.

use super::PaymentFlow;
use crate::domain::{
    amount::format_units,
    currency::Currency,
    paying::charge::{Charge, Charges, FeeBearer, FeeKind},
    wire_text::wire_text,
};
use alloy::primitives::U256;

/// Fraction digits of dollars. Source: rules P.7.1.
const DOLLAR_DECIMALS: u8 = 6;

wire_text! {
    /// What decided who bears a fee.
    pub enum BearerSource {
        /// The settings of the fee.
        FeeConfig = "fee_config",
        /// What was asked for with the payment.
        PaymentDefaultOverride = "payment_default_override",
        /// The way the money goes.
        FlowDefault = "flow_default",
        /// This kind of fee is always borne like this.
        ForcedFeePolicy = "forced_fee_policy",
    }
}

impl PaymentFlow {
    /// Who bears fees that nothing else decides about. Source: rules P.7.1.
    pub const fn usual_bearer(self) -> FeeBearer {
        match self {
            Self::GetPaid => FeeBearer::Payee,
            Self::Pay => FeeBearer::Payer,
        }
    }
}

impl FeeKind {
    /// What decides that the payer bears it.
    pub const fn bearer_source(self) -> BearerSource {
        match self {
            Self::Platform => BearerSource::ForcedFeePolicy,
            Self::Protocol | Self::Contract => BearerSource::FeeConfig,
        }
    }

    /// Name for people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Platform => "Platform fee",
            Self::Protocol => "Service fee",
            Self::Contract => "Contract fee",
        }
    }
}

/// One fee of a plan, of all payments together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeePlanLine {
    /// The charge. Its limit may differ from payment to payment.
    pub charge: Charge,
    /// Most of one payment, in dollars.
    pub cap: Option<String>,
    /// What it is, in millionths of a dollar.
    micros: U256,
}

impl FeePlanLine {
    /// What it is, in dollars.
    pub fn amount(&self) -> String {
        format_units(self.micros, DOLLAR_DECIMALS)
    }
}

/// The fees of a secure payment in dollars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeePlan {
    /// Which way the money goes.
    pub flow: PaymentFlow,
    /// Who bears fees that nothing else decides about.
    pub default_bearer: FeeBearer,
    /// Fee by fee.
    pub lines: Vec<FeePlanLine>,
    gross: U256,
    fees: U256,
}

/// One payment of a plan: units of its currency, and what is charged on top.
pub type Planned = (U256, Charges);

impl FeePlan {
    /// The plan of payments in one currency; `None` where that is no dollar, or a sum leaves 256 bits.
    pub fn of(flow: PaymentFlow, default_bearer: FeeBearer, currency: &Currency, payments: &[Planned]) -> Option<Self> {
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
        let fees = lines
            .iter()
            .try_fold(U256::ZERO, |sum, line| sum.checked_add(line.micros))?;
        gross.checked_add(fees)?;
        Some(Self {
            flow,
            default_bearer,
            lines,
            gross,
            fees,
        })
    }

    /// What is asked for, and what the payee gets of it: nothing is taken from it.
    pub fn gross(&self) -> String {
        format_units(self.gross, DOLLAR_DECIMALS)
    }

    /// What the payer pays altogether.
    pub fn payer_total(&self) -> String {
        format_units(self.gross.saturating_add(self.fees), DOLLAR_DECIMALS)
    }

    /// All fees, borne by the payer.
    pub fn fees(&self) -> String {
        format_units(self.fees, DOLLAR_DECIMALS)
    }

    /// The fee of the service alone.
    pub fn protocol_fee(&self) -> String {
        let own = self.lines.iter().filter(|line| line.charge.kind == FeeKind::Protocol);
        let sum = own.fold(U256::ZERO, |sum, line| sum.saturating_add(line.micros));
        format_units(sum, DOLLAR_DECIMALS)
    }
}

impl FeePlanLine {
    fn is_of(&self, charge: &Charge) -> bool {
        self.charge
            == Charge {
                cap: self.charge.cap,
                ..*charge
            }
    }
}

/// Units of a dollar token in millionths of a dollar, rounded half up. `None` beyond 256 bits. Source: rules P.7.1.
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
    use crate::domain::{address::Address, amount::Percent, currency::CurrencyKind, paying::charge::FeeOrigin};
    use std::collections::HashMap;

    fn currency(symbol: &str, decimals: u8) -> Currency {
        Currency {
            id: format!("{symbol}-sepolia"),
            aliases: Vec::new(),
            name: symbol.into(),
            symbol: symbol.into(),
            decimals,
            address: String::new(),
            network: None,
            kind: CurrencyKind::Erc20,
            hash: String::new(),
            conversion_paths: HashMap::new(),
        }
    }

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
    fn every_fee_is_on_top_and_equal_ones_are_one_line() {
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
        let usdc = currency("USDC", 6);
        let plan = FeePlan::of(PaymentFlow::GetPaid, FeeBearer::Payee, &usdc, &payments).unwrap();
        assert_eq!((plan.gross().as_str(), plan.fees().as_str()), ("110", "3.35"));
        assert_eq!(
            (plan.payer_total().as_str(), plan.protocol_fee().as_str()),
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
    fn what_is_no_dollar_has_no_plan() {
        let payments = [(U256::from(1), Charges::default())];
        let plan = |currency| FeePlan::of(PaymentFlow::Pay, FeeBearer::Payer, &currency, &payments);
        assert_eq!(plan(currency("FAU", 18)), None);
        let huge = [(U256::MAX, Charges::default())];
        assert_eq!(
            FeePlan::of(PaymentFlow::Pay, FeeBearer::Payer, &currency("DAI", 1), &huge),
            None
        );
    }
}
