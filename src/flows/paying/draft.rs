//! Drafts of transactions: the payments, the contract that pays them, and the steps of the payer.

use super::{
    batch_terms::{batch_terms, check_gas, refused},
    handout::{HandoutError, PayingWallet, PaymentDraft, PaymentDue, PaymentPacking},
    legs::{self, payment_contracts},
    lookup::Lookup,
    prepare,
};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        paying::{Bundle, Executor, PayerBalances, prepared::SimulatedEnergy},
    },
};
use futures_util::future::{try_join, try_join_all};

/// Plans the transactions that pay the amounts due, and looks up the payer. Errors: those of [`super::hand_out`],
/// except estimates above a limit and failing payments.
pub(super) async fn draft(
    ctx: &Ctx,
    lookup: &Lookup,
    due: Vec<PaymentDue>,
    wallet: PayingWallet,
    packing: PaymentPacking,
) -> Result<PaymentDraft, HandoutError> {
    let terms = match packing {
        PaymentPacking::Alone => None,
        PaymentPacking::Together { gas_max } => {
            let terms = batch_terms(ctx, lookup).await?;
            if let Some(gas_max) = gas_max {
                // The gas limit is checked before any rate is queried.
                let due = due.iter().map(|due| (&due.request, due.units, &due.charges));
                check_gas(&terms, &legs::outlined(ctx, due)?, wallet.address, gas_max)?;
            }
            Some(terms)
        }
    };
    let (legs, payments) = legs::priced(ctx, lookup, due).await?;
    let bundle = Bundle {
        network: lookup.network(),
        legs,
    };
    let terms = match (terms, bundle.for_fee_proxy()) {
        (None, None) => Some(batch_terms(ctx, lookup).await?),
        (terms, _) => terms,
    };
    let contracts = payment_contracts(ctx, bundle.network);
    let executor = contracts.executor(&bundle, terms.as_ref(), wallet.address);
    let executor = executor.map_err(|error| refused(error, terms.as_ref(), &bundle.legs, wallet.address))?;
    let (standings, resources) = match wallet.address {
        Some(address) => {
            let standings = standings(lookup, executor.as_ref(), address);
            try_join(standings, prepare::payer_resources(lookup, executor.as_ref(), address)).await?
        }
        None => (PayerBalances::new(), None),
    };
    let unknown = PayerBalances::new();
    let allowances = if wallet.is_safe { &unknown } else { &standings };
    let steps = executor.steps(wallet.allowing, allowances);
    let (steps, simulated) = match wallet.address {
        Some(address) => prepare::with_resets(lookup, address, &standings, steps).await?,
        None => (steps, SimulatedEnergy::default()),
    };
    Ok(PaymentDraft {
        bundle,
        payments,
        executor,
        standings,
        resources,
        simulated,
        steps,
    })
}

/// The on-chain state of a payer in each token that the contract spends; without a token, in the coin of the network.
async fn standings(lookup: &Lookup, executor: &dyn Executor, payer: Address) -> Result<PayerBalances, HandoutError> {
    let tokens = executor.spendings().iter().filter(|spending| spending.token.is_some());
    let mut tokens: Vec<Option<Address>> = tokens.map(|spending| spending.token).collect();
    if tokens.is_empty() {
        tokens.push(None);
    }
    let asked = tokens.into_iter().map(|token| async move {
        let standing = lookup.standing(payer, token, executor.contract()).await?;
        Ok::<_, HandoutError>((token, standing))
    });
    Ok(try_join_all(asked).await?.into_iter().collect())
}
