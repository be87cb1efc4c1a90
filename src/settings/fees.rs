//! The service's own fee, and limits of network fees.

use crate::domain::{
    address::Address,
    amount::{Amount, Percent},
    network::Family,
    paying::{charge::ProtocolFee, prepared::FeeLimits},
};
use anyhow::{anyhow, bail, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest fee limit that Tron accepts (`getMaxFeeLimit`), in TRX.
const FEE_LIMIT_TRX_MAX: u32 = 15_000;

/// Sun in one TRX.
const SUN_PER_TRX: u64 = 1_000_000;

/// Fee of the service on every payment for which it returns calldata, on top of the amount and the platform's fee, and
/// limits of the network fees that payers sign.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FeeSettings {
    /// Share of the amount in basis points; 0 means no fee.
    #[schemars(range(min = 0, max = 1_000))]
    pub protocol_bps: u16,
    /// Maximum fee of one payment in US dollars. If absent, there is no maximum. It applies to amounts in USD, USDC,
    /// USDT or DAI.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub protocol_cap_usd: Option<u32>,
    /// EVM wallet that receives the fee; required when `fees.protocol_bps` is not 0.
    pub protocol_address: Option<String>,
    /// Tron wallet that receives the fee of payments on Tron. If absent, payments on Tron carry no such fee.
    pub protocol_tron_address: Option<String>,
    /// Maximum TRX that the approval of a payment on Tron may cost for energy. Calldata with a higher estimate is
    /// refused.
    #[schemars(range(min = 1, max = 15_000))]
    pub tron_approval_limit_trx: u32,
    /// Maximum TRX that a payment on Tron may cost for energy. Calldata with a higher estimate is refused.
    #[schemars(range(min = 1, max = 15_000))]
    pub tron_payment_limit_trx: u32,
}

impl Default for FeeSettings {
    fn default() -> Self {
        Self {
            protocol_bps: 0,
            protocol_cap_usd: None,
            protocol_address: None,
            protocol_tron_address: None,
            tron_approval_limit_trx: 100,
            tron_payment_limit_trx: 300,
        }
    }
}

impl FeeSettings {
    /// The fee, if there is one. Errors: a wrong or missing setting.
    pub fn protocol(&self) -> anyhow::Result<Option<ProtocolFee>> {
        let percent = Percent::from_basis_points(self.protocol_bps);
        let percent = percent.ok_or_else(|| anyhow!("fees.protocol_bps: must be at most 1000"))?;
        let cap = self.protocol_cap_usd.map(|dollars| Amount::parse(&dollars.to_string()));
        let cap_usd = cap
            .transpose()
            .map_err(|error| anyhow!("fees.protocol_cap_usd: {error}"))?;
        let receiver = wallet(self.protocol_address.as_deref(), Family::Evm)
            .ok_or_else(|| anyhow!("fees.protocol_address: must be an EVM wallet: 0x and 40 hexadecimal digits"))?;
        let tron_receiver = wallet(self.protocol_tron_address.as_deref(), Family::Tron).ok_or_else(|| {
            anyhow!("fees.protocol_tron_address: must be a Tron wallet: 34 Base58 characters starting with T")
        })?;
        match (percent.basis_points(), receiver) {
            (0, _) => Ok(None),
            (_, None) => bail!("fees.protocol_address: is required when fees.protocol_bps is not 0"),
            (_, Some(receiver)) => Ok(Some(ProtocolFee {
                percent,
                receiver,
                tron_receiver,
                cap_usd,
            })),
        }
    }

    /// The limits of network fees. Errors: a limit that is zero or too large.
    pub fn limits(&self) -> anyhow::Result<FeeLimits> {
        Ok(FeeLimits {
            approval_sun: sun("tron_approval_limit_trx", self.tron_approval_limit_trx)?,
            payment_sun: sun("tron_payment_limit_trx", self.tron_payment_limit_trx)?,
        })
    }
}

/// The wallet in a setting, `Some(None)` if it is absent. `None` if it is no address of the family.
fn wallet(setting: Option<&str>, family: Family) -> Option<Option<Address>> {
    let Some(text) = setting else { return Some(None) };
    let address = Address::parse(text).ok()?;
    (address.family() == family).then_some(Some(address))
}

fn sun(setting: &str, trx: u32) -> anyhow::Result<u64> {
    ensure!(
        (1..=FEE_LIMIT_TRX_MAX).contains(&trx),
        "fees.{setting}: must be 1 to {FEE_LIMIT_TRX_MAX}"
    );
    Ok(u64::from(trx) * SUN_PER_TRX)
}
