//! Places for work that holds what all platforms share: each of them has a few, so that nobody waits for long behind one
//! that asks for everything at once.

use super::payers::asking;
use crate::{
    ctx::{Ctx, Holder, Places},
    domain::{address::Address, calldata::Standing, caller::PlatformCaller, network::Network},
    ports::chain::{ChainError, ConvertedUnits, PayerLookup},
};
use alloy::primitives::{Address as EvmAddress, U256};
use async_trait::async_trait;
use std::{
    sync::{Arc, PoisonError, Weak},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// How long a question waits for a place.
const QUESTION_WAITS: Duration = Duration::from_millis(1_500);

/// One link has this part of the places of its holder, so that its visitors leave some to other payers.
const LINKS: usize = 4;

/// A place; free again when it is dropped.
#[derive(Debug)]
pub struct Place {
    _of_link: Option<OwnedSemaphorePermit>,
    _own: OwnedSemaphorePermit,
    _shared: OwnedSemaphorePermit,
}

/// Who takes the places of a caller.
pub fn holder(caller: &PlatformCaller) -> Holder {
    Holder {
        platform: caller.platform.clone(),
        is_public: caller.is_public(),
        link: None,
    }
}

/// Waits for a place, behind those who came before; `None` when that takes longer than `patience`.
pub async fn take(places: &Places, holder: &Holder, patience: Duration) -> Option<Place> {
    let of_link = holder
        .link
        .as_ref()
        .map(|_| own(places, holder, (places.each / LINKS).max(1)));
    let whole = Holder {
        link: None,
        ..holder.clone()
    };
    let own = own(places, &whole, places.each);
    let taken = async {
        // Who waits behind others at one link takes no place of its owner meanwhile.
        let of_link = match of_link {
            Some(of_link) => Some(of_link.acquire_owned().await.ok()?),
            None => None,
        };
        let own = own.acquire_owned().await.ok()?;
        let shared = places.all.clone().acquire_owned().await.ok()?;
        Some(Place {
            _of_link: of_link,
            _own: own,
            _shared: shared,
        })
    };
    timeout(patience, taken).await.ok().flatten()
}

/// The places of a holder, so many. They are forgotten once he has none and waits for none.
fn own(places: &Places, holder: &Holder, each: usize) -> Arc<Semaphore> {
    let mut own = places.own.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = own.get(holder).and_then(Weak::upgrade) {
        return known;
    }
    own.retain(|_, semaphore| semaphore.strong_count() > 0);
    let fresh = Arc::new(Semaphore::new(each));
    own.insert(holder.clone(), Arc::downgrade(&fresh));
    fresh
}

/// The same handles, but what they ask a network about payers takes the places of a caller.
pub fn in_turns(ctx: &Ctx, caller: &PlatformCaller, network: Network) -> Ctx {
    in_turns_of(ctx, holder(caller), network)
}

/// The same with the places of a holder.
pub fn in_turns_of(ctx: &Ctx, holder: Holder, network: Network) -> Ctx {
    asking(ctx, network, |asked| match ctx.questions.get(&network) {
        Some(places) => Arc::new(InTurns {
            asked,
            places: Arc::clone(places),
            holder,
            network,
        }),
        None => asked,
    })
}

/// Asks with the places of a holder.
struct InTurns {
    asked: Arc<dyn PayerLookup>,
    places: Arc<Places>,
    holder: Holder,
    network: Network,
}

impl InTurns {
    async fn place(&self) -> Result<Place, ChainError> {
        let place = take(&self.places, &self.holder, QUESTION_WAITS).await;
        place.ok_or(ChainError::Busy { network: self.network })
    }
}

#[async_trait]
impl PayerLookup for InTurns {
    async fn standing(&self, payer: Address, token: Option<Address>, spender: Address) -> Result<Standing, ChainError> {
        let _place = self.place().await?;
        self.asked.standing(payer, token, spender).await
    }

    async fn allowance(&self, owner: Address, token: Address, spender: Address) -> Result<U256, ChainError> {
        let _place = self.place().await?;
        self.asked.allowance(owner, token, spender).await
    }

    async fn convert(&self, path: &[EvmAddress], units: U256) -> Result<ConvertedUnits, ChainError> {
        let _place = self.place().await?;
        self.asked.convert(path, units).await
    }

    async fn batch_fee(&self, contract: Address) -> Result<u16, ChainError> {
        let _place = self.place().await?;
        self.asked.batch_fee(contract).await
    }
}
