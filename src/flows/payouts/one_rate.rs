//! Rates for many payments at once: each path of price feeds is asked for once.

use crate::{
    ctx::Ctx,
    domain::{address::Address, calldata::Standing, network::Network},
    flows::requests::payers::asking,
    ports::chain::{ChainError, ConvertedUnits, PayerLookup},
};
use alloy::primitives::{Address as EvmAddress, U256};
use async_trait::async_trait;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::Mutex;

/// In what the contracts write rates.
const ONE: U256 = U256::from_limbs([1_000_000_000_000_000_000, 0, 0, 0]);

/// Remembers rates.
struct OneRate {
    asked: Arc<dyn PayerLookup>,
    /// What [`ONE`] converts to.
    rates: Mutex<HashMap<Vec<EvmAddress>, ConvertedUnits>>,
}

/// The same handles, but what they ask of a network about rates is asked once for each path, as long as they live.
pub(super) fn with_one_rate(ctx: &Ctx, network: Network) -> Ctx {
    asking(ctx, network, |asked| {
        Arc::new(OneRate {
            asked,
            rates: Mutex::default(),
        })
    })
}

#[async_trait]
impl PayerLookup for OneRate {
    async fn standing(&self, payer: Address, token: Option<Address>, spender: Address) -> Result<Standing, ChainError> {
        self.asked.standing(payer, token, spender).await
    }

    async fn allowance(&self, owner: Address, token: Address, spender: Address) -> Result<U256, ChainError> {
        self.asked.allowance(owner, token, spender).await
    }

    /// As the contracts do it: the product with the rate, rounded down. Source: rules G.2 (7).
    async fn convert(&self, path: &[EvmAddress], units: U256) -> Result<ConvertedUnits, ChainError> {
        let mut rates = self.rates.lock().await;
        let rate = match rates.get(path) {
            Some(rate) => *rate,
            None => {
                let rate = self.asked.convert(path, ONE).await?;
                rates.insert(path.to_vec(), rate);
                rate
            }
        };
        let product = units.checked_mul(rate.units);
        let beyond = || ChainError::Reverted("an amount is too large to be converted".to_owned());
        Ok(ConvertedUnits {
            units: product.ok_or_else(beyond)? / ONE,
            ..rate
        })
    }

    async fn batch_fee(&self, contract: Address) -> Result<u16, ChainError> {
        self.asked.batch_fee(contract).await
    }
}
