//! Prepares transactions completely, on networks where wallets only sign them: resets of allowances, estimates of fees,
//! and the reference to a block.

use super::{
    handout::{HandoutError, PaymentDraft},
    lookup::{Lookup, PreparationQueries},
};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        network::Network,
        paying::{
            Executor, NetworkPrice, PayerBalance, PayerBalances, PaymentTransaction, PaymentTransactions,
            ResourcePrices, Spending, approval_step,
            prepared::{
                PayerFlaw, PayerResources, PreparationFacts, PreparedPayment, ReferencePoint, SimulatedEnergy,
                StepSimulation,
            },
        },
        rate::Rate,
        refusal::Refusal,
        tron::ReferenceBlock,
    },
    flows::{FlowError, FlowResult, rates},
    store,
};
use alloy::primitives::U256;
use chrono::TimeDelta;
use futures_util::future::try_join;
use tokio::time::timeout;

/// Maximum age of the final block to which transactions refer. The chain accepts a reference to one of its last 65,536
/// blocks, which is more than two days.
const AGREED_BLOCK_AGE_MAX: TimeDelta = TimeDelta::days(1);

/// The resources of a payer; `None` if wallets complete the transactions themselves. Errors: the payer can pay nothing.
pub(super) async fn payer_resources(
    lookup: &Lookup,
    executor: &dyn Executor,
    payer: Address,
) -> Result<Option<PayerResources>, HandoutError> {
    let (Some(queries), Some((token, _))) = (lookup.preparation(), token_spending(executor)) else {
        return Ok(None);
    };
    let resources = queries.resources(payer, token).await?;
    resources.usable().map_err(HandoutError::Payer)?;
    Ok(Some(resources))
}

/// Simulates the approvals of a payer. A reset to zero is added before an approval that fails, if the reset itself
/// would succeed.
///
/// Errors: the token refuses the approval and the reset, or a reset would change nothing.
pub(super) async fn with_resets(
    lookup: &Lookup,
    payer: Address,
    standings: &PayerBalances,
    steps: PaymentTransactions,
) -> Result<(PaymentTransactions, SimulatedEnergy), HandoutError> {
    let Some(queries) = lookup.preparation() else {
        return Ok((steps, SimulatedEnergy::default()));
    };
    let PaymentTransactions { approvals, payment } = steps;
    let mut simulated: Vec<(PaymentTransaction, Option<u64>)> = Vec::with_capacity(approvals.len());
    for approval in approvals {
        match queries.simulate(payer, &approval).await? {
            StepSimulation::Succeeds { energy } => simulated.push((approval, Some(energy))),
            StepSimulation::Reverts { reason } => {
                let allowance = standings.get(&Some(approval.to)).map(|standing| standing.allowance);
                if allowance.is_none_or(|allowance| allowance.is_zero()) {
                    return Err(HandoutError::Payer(PayerFlaw::approval(&reason)));
                }
                let reset = approval_step(approval.to, payment.to, U256::ZERO);
                match queries.simulate(payer, &reset).await? {
                    StepSimulation::Succeeds { energy } => simulated.push((reset, Some(energy))),
                    StepSimulation::Reverts { reason } => {
                        return Err(HandoutError::Payer(PayerFlaw::approval(&reason)));
                    }
                }
                // The approval itself cannot be simulated before the reset is executed.
                simulated.push((approval, None));
            }
        }
    }
    let (approvals, energies) = simulated.into_iter().unzip();
    let simulated = SimulatedEnergy {
        approvals: energies,
        payment: None,
    };
    Ok((PaymentTransactions { approvals, payment }, simulated))
}

/// What the chain says about the account that is used for the estimates.
struct AccountFacts {
    account: Address,
    resources: PayerResources,
    prices: ResourcePrices,
    simulated: SimulatedEnergy,
    reference: Option<ReferencePoint>,
}

/// Estimates the transactions of a draft and prepares them for the signature of the payer. Without a payer, the
/// fallback account of the settings is used for the estimates, and there is nothing to sign.
///
/// `None` if wallets complete the transactions themselves, and without a payer also if there is no fallback account or
/// no node responds. Errors: an estimate is above its limit, a simulated payment fails (400), or no node responds to a
/// query about the payer (502).
pub(super) async fn prepare(
    ctx: &Ctx,
    lookup: &Lookup,
    draft: &PaymentDraft,
    payer: Option<Address>,
) -> Result<Option<PreparedPayment>, HandoutError> {
    let Some(queries) = lookup.preparation() else {
        return Ok(None);
    };
    let facts = match payer {
        Some(payer) => payer_facts(ctx, queries, draft, payer).await?,
        None => match timeout(ctx.waits.balance, fallback_facts(lookup, queries, draft)).await {
            Ok(Ok(facts)) => facts,
            Ok(Err(error)) => {
                tracing::warn!(?error, "a payment is returned without estimates of its fees");
                None
            }
            Err(_) => None,
        },
    };
    let Some(facts) = facts else { return Ok(None) };
    let prepared = PreparedPayment::new(
        &draft.steps,
        PreparationFacts {
            account: facts.account,
            resources: facts.resources,
            prices: facts.prices,
            simulated: &facts.simulated,
            usual: draft.executor.work(),
            limits: ctx.payments.fee_limits,
            reference: facts.reference,
        },
    );
    let prepared = prepared.map_err(|error| HandoutError::Failed(Refusal::from(error).into()))?;
    Ok(Some(prepared))
}

/// Facts about a payer, with a reference block.
async fn payer_facts(
    ctx: &Ctx,
    queries: PreparationQueries<'_>,
    draft: &PaymentDraft,
    payer: Address,
) -> Result<Option<AccountFacts>, HandoutError> {
    let spending = token_spending(draft.executor.as_ref());
    let (Some((token, spending)), Some(resources)) = (spending, draft.resources) else {
        return Ok(None);
    };
    let Some((standing, prices)) = draft.standings.get(&Some(token)).and_then(priced) else {
        return Ok(None);
    };
    let payment = async {
        if !is_ready(&standing, spending) {
            return Ok(None);
        }
        match queries.simulate(payer, &draft.steps.payment).await? {
            StepSimulation::Succeeds { energy } => Ok(Some(energy)),
            StepSimulation::Reverts { reason } => Err(HandoutError::Payer(PayerFlaw::payment(&reason))),
        }
    };
    let reference = reference(ctx, queries);
    let (payment, reference) = try_join(payment, reference).await?;
    Ok(Some(AccountFacts {
        account: payer,
        resources,
        prices,
        simulated: SimulatedEnergy {
            payment,
            ..draft.simulated.clone()
        },
        reference: Some(reference),
    }))
}

/// The block to which the transactions refer: the newest one that enough nodes agreed to be final, at the time of the
/// newest block of a node. The newest block of one node may belong to a fork that only this node shows.
async fn reference(ctx: &Ctx, queries: PreparationQueries<'_>) -> Result<ReferencePoint, HandoutError> {
    let now = ctx.clock.now();
    let point = queries.reference_point(now).await?;
    let cursor = store::cursors::load(ctx.db.reader(), queries.network())
        .await
        .map_err(FlowError::from)?;
    let agreed = cursor.filter(|cursor| cursor.updated_at > now - AGREED_BLOCK_AGE_MAX);
    Ok(ReferencePoint {
        block: agreed.map_or(point.block, |cursor| ReferenceBlock::of_block(&cursor.finalized.hash)),
        ..point
    })
}

/// Facts about the fallback account, as if it had no resources of its own.
async fn fallback_facts(
    lookup: &Lookup,
    queries: PreparationQueries<'_>,
    draft: &PaymentDraft,
) -> Result<Option<AccountFacts>, HandoutError> {
    let executor = draft.executor.as_ref();
    let (Some(account), Some((token, spending))) = (queries.fallback_account(), token_spending(executor)) else {
        return Ok(None);
    };
    let standing = lookup.standing(account, Some(token), executor.contract()).await?;
    let Some((standing, prices)) = priced(&standing) else {
        return Ok(None);
    };
    let mut simulated = SimulatedEnergy::default();
    for approval in &draft.steps.approvals {
        simulated.approvals.push(energy(queries, account, approval).await?);
    }
    if is_ready(&standing, spending) {
        simulated.payment = energy(queries, account, &draft.steps.payment).await?;
    }
    Ok(Some(AccountFacts {
        account,
        resources: PayerResources::NONE,
        prices,
        simulated,
        reference: None,
    }))
}

/// Energy of a step; `None` if it fails.
async fn energy(
    queries: PreparationQueries<'_>,
    account: Address,
    step: &PaymentTransaction,
) -> Result<Option<u64>, HandoutError> {
    Ok(match queries.simulate(account, step).await? {
        StepSimulation::Succeeds { energy } => Some(energy),
        StepSimulation::Reverts { .. } => None,
    })
}

/// The spent token.
fn token_spending(executor: &dyn Executor) -> Option<(Address, &Spending)> {
    let mut spendings = executor.spendings().iter();
    spendings.find_map(|spending| Some((spending.token?, spending)))
}

/// An on-chain state with the prices of resources; `None` if the network charges for gas.
fn priced(standing: &PayerBalance) -> Option<(PayerBalance, ResourcePrices)> {
    match standing.price {
        NetworkPrice::Resources(prices) => Some((*standing, prices)),
        NetworkPrice::Gas(_) => None,
    }
}

/// Whether a payment would succeed now, so that it can be simulated.
fn is_ready(standing: &PayerBalance, spending: &Spending) -> bool {
    standing.allowance >= spending.units && standing.balance >= spending.units
}

/// Price of the coin of a network in US dollars; `None` if it has no valid rate.
pub(super) async fn coin_rate(ctx: &Ctx, network: Network) -> FlowResult<Option<Rate>> {
    let Some(pair) = ctx.catalogue.coin_pair(network) else {
        return Ok(None);
    };
    let found = rates::at(ctx, &pair, ctx.clock.now()).await?;
    Ok(found.ok().map(|applied| applied.rate))
}
