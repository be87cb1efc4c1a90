//! Network lookups for paying: their connection, their permits and their cache.

use crate::{
    ctx::{Ctx, PermitHolder, WorkPermits},
    domain::{
        address::Address,
        caller::PlatformCaller,
        network::Network,
        paying::{
            PayerBalance, PaymentTransaction,
            prepared::{PayerResources, ReferencePoint, StepSimulation},
        },
        waits::Waits,
    },
    flows::{
        FlowError,
        admission::{HeldPermit, admit, holder_of},
    },
    ports::chain::{BatchFees, ChainError, ConvertedUnits, PreparationLookup, PriceFeeds, StandingLookup},
};
use alloy::primitives::{Address as EvmAddress, U256};
use chrono::{DateTime, Utc};
use std::{collections::HashMap, sync::Arc};
use tokio::{
    sync::{Mutex, OnceCell},
    time::timeout,
};

/// The number 1 in the fixed-point format of contract rates.
pub(super) const ONE: U256 = U256::from_limbs([1_000_000_000_000_000_000, 0, 0, 0]);

/// Lookups on a network; a lookup that the network does not support is `None`.
#[derive(Clone)]
struct ChainLookup {
    standings: Option<Arc<dyn StandingLookup>>,
    preparations: Option<Arc<dyn PreparationLookup>>,
    price_feeds: Option<Arc<dyn PriceFeeds>>,
    batch_fees: Option<Arc<dyn BatchFees>>,
}

/// The lookups of one call on one network.
pub struct Lookup {
    network: Network,
    chain: ChainLookup,
    permits: Option<(Arc<WorkPermits>, PermitHolder)>,
    /// The permit of this call. All of its lookups share it, so that a call that began can also end.
    held: OnceCell<HeldPermit>,
    waits: Arc<Waits>,
    /// Cached result of converting [`ONE`], by path of price feeds; `None` when every amount is converted by its own
    /// query.
    rates: Option<Mutex<HashMap<Vec<EvmAddress>, ConvertedUnits>>>,
}

impl Lookup {
    /// Lookups with the permits of a caller.
    pub fn of_caller(ctx: &Ctx, caller: &PlatformCaller, network: Network) -> Self {
        Self::of_holder(ctx, holder_of(caller), network)
    }

    /// Lookups with the permits of a holder.
    pub fn of_holder(ctx: &Ctx, holder: PermitHolder, network: Network) -> Self {
        let chains = &ctx.partners.chains;
        Self {
            network,
            chain: ChainLookup {
                standings: chains.standings.get(&network).cloned(),
                preparations: chains.preparations.get(&network).cloned(),
                price_feeds: chains.price_feeds.get(&network).cloned(),
                batch_fees: chains.batch_fees.get(&network).cloned(),
            },
            permits: ctx.questions.get(&network).map(|permits| (Arc::clone(permits), holder)),
            held: OnceCell::new(),
            waits: Arc::clone(&ctx.waits),
            rates: None,
        }
    }

    /// Lookups for many payments. Each path of price feeds is queried once, and amounts are converted with the rate of
    /// the path.
    #[must_use]
    pub fn with_rate_memory(self) -> Self {
        Self {
            rates: Some(Mutex::default()),
            ..self
        }
    }

    /// The network.
    pub fn network(&self) -> Network {
        self.network
    }

    /// Waits for the result of a query. Errors: the network does not respond in time.
    pub async fn in_time<T, E: From<FlowError>>(&self, asked: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let late = |_| {
            FlowError::from(ChainError::Unavailable {
                network: self.network,
                reason: "the queries of this call took too long in total".to_owned(),
            })
        };
        timeout(self.waits.calldata, asked).await.map_err(late)?
    }

    /// Balances, allowance and prices of a payer.
    pub async fn standing(
        &self,
        payer: Address,
        token: Option<Address>,
        spender: Address,
    ) -> Result<PayerBalance, ChainError> {
        let standings = self.offered(self.chain.standings.as_deref())?;
        self.permit().await?;
        standings.standing(payer, token, spender).await
    }

    /// The lookups for prepared transactions; `None` if wallets complete the transactions of this network themselves.
    pub fn preparation(&self) -> Option<PreparationQueries<'_>> {
        let chain = self.chain.preparations.as_deref()?;
        Some(PreparationQueries { lookup: self, chain })
    }

    /// Balance of an account, on which enough nodes agree.
    pub async fn balance(&self, owner: Address, token: Option<Address>) -> Result<U256, ChainError> {
        let standings = self.offered(self.chain.standings.as_deref())?;
        self.permit().await?;
        standings.balance(owner, token).await
    }

    /// Converts units by price feeds. With a rate cache it computes like the contracts: the product with the rate,
    /// rounded down. Source: rules G.2 (7).
    pub async fn convert(&self, path: &[EvmAddress], units: U256) -> Result<ConvertedUnits, ChainError> {
        let Some(rates) = &self.rates else {
            return self.ask_feeds(path, units).await;
        };
        let mut rates = rates.lock().await;
        let rate = match rates.get(path) {
            Some(rate) => *rate,
            None => {
                let rate = self.ask_feeds(path, ONE).await?;
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

    /// The fee that a batch contract itself charges, in basis points.
    pub async fn batch_fee(&self, contract: Address) -> Result<u16, ChainError> {
        let batch_fees = self.offered(self.chain.batch_fees.as_deref())?;
        self.permit().await?;
        batch_fees.batch_fee(contract).await
    }

    async fn ask_feeds(&self, path: &[EvmAddress], units: U256) -> Result<ConvertedUnits, ChainError> {
        let feeds = self.offered(self.chain.price_feeds.as_deref())?;
        self.permit().await?;
        feeds.convert(path, units).await
    }

    fn offered<'a, T: ?Sized>(&self, part: Option<&'a T>) -> Result<&'a T, ChainError> {
        part.ok_or(ChainError::NotEnabled { network: self.network })
    }

    /// Waits for the permit of this call, if it does not have it yet. Errors: the wait is too long.
    async fn permit(&self) -> Result<(), ChainError> {
        let Some((permits, holder)) = &self.permits else {
            return Ok(());
        };
        let admitted = || async {
            let permit = admit(permits, holder, self.waits.permit).await;
            permit.ok_or(ChainError::Busy { network: self.network })
        };
        self.held.get_or_try_init(admitted).await.map(drop)
    }
}

/// The lookups for prepared transactions, with the permits of a call.
#[derive(Clone, Copy)]
pub struct PreparationQueries<'a> {
    lookup: &'a Lookup,
    chain: &'a dyn PreparationLookup,
}

impl PreparationQueries<'_> {
    /// The account that is used for estimates while no payer is named.
    pub fn fallback_account(self) -> Option<Address> {
        self.chain.fallback_account()
    }

    /// The network.
    pub fn network(self) -> Network {
        self.lookup.network
    }

    /// The newest block, which is not too old at `now`.
    pub async fn reference_point(self, now: DateTime<Utc>) -> Result<ReferencePoint, ChainError> {
        self.lookup.permit().await?;
        self.chain.reference_point(now).await
    }

    /// The resources of an account.
    pub async fn resources(self, account: Address, token: Address) -> Result<PayerResources, ChainError> {
        self.lookup.permit().await?;
        self.chain.resources(account, token).await
    }

    /// The result of a simulated transaction.
    pub async fn simulate(self, owner: Address, step: &PaymentTransaction) -> Result<StepSimulation, ChainError> {
        self.lookup.permit().await?;
        self.chain.simulate(owner, step).await
    }
}
