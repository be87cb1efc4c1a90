//! The service's own fee.

use crate::domain::{
    address::Address,
    amount::{Amount, Percent},
    network::Family,
    paying::charge::ProtocolFee,
};
use anyhow::{anyhow, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fee of the service on every payment for which it returns calldata, on top of the amount and the platform's fee.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
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
}

/// The wallet in a setting, `Some(None)` if it is absent. `None` if it is no address of the family.
fn wallet(setting: Option<&str>, family: Family) -> Option<Option<Address>> {
    let Some(text) = setting else { return Some(None) };
    let address = Address::parse(text).ok()?;
    (address.family() == family).then_some(Some(address))
}
