//! Hands out the transactions that pay requests: what every operation does that hands some out.

mod batch_terms;
mod handout;
pub mod keep;
pub mod legs;
pub mod lookup;

use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        amount::Percent,
        client_id::ClientId,
        currency::ContractKind,
        network::Network,
        paying::{
            Bundle, BundleError, Executor, Leg, PayerMeans, Standings,
            batch_contract::{BatchContract, BatchTerms, fitting},
            charge::Charges,
            fee_proxy::FeeProxy,
        },
        refusal::Refusal,
        request::Request,
    },
    flows::FlowResult,
};
use batch_terms::batch_terms;
use futures_util::future::try_join_all;
pub use handout::{HandedPayment, Handout, HandoutError, Packing, PayingWallet, PaymentDue};
use lookup::Lookup;
use std::collections::BTreeMap;

/// Hands out the transactions that make one payment, with approvals of everything. Errors: as those of [`hand_out`].
pub async fn hand_out_alone(
    ctx: &Ctx,
    lookup: &Lookup,
    due: PaymentDue,
    wallet: Option<Address>,
) -> FlowResult<Handout> {
    let wallet = PayingWallet::allowing_everything(wallet);
    let handout = hand_out(ctx, lookup, vec![due], wallet, Packing::Alone).await;
    handout.map_err(HandoutError::alone)
}

/// Hands out the transactions that pay what is due, and looks the payer up.
///
/// Charges of several receivers are paid through the batch contract, so that all of them get theirs or nobody gets anything.
/// Alone, without a wallet, and with one receiver at most, a direct payment asks no node. Errors: nothing pays a request, or
/// they are too many (400); no node that answers in time while one is needed, no rate that is beyond doubt (502).
pub async fn hand_out(
    ctx: &Ctx,
    lookup: &Lookup,
    due: Vec<PaymentDue>,
    wallet: PayingWallet,
    packing: Packing,
) -> Result<Handout, HandoutError> {
    let handed_out = async {
        let terms = match packing {
            Packing::Alone => None,
            Packing::Together { gas_max } => {
                let terms = batch_terms(ctx, lookup).await?;
                if let Some(gas_max) = gas_max {
                    // Before anybody is asked for rates.
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
        let executor = executor(ctx, lookup, &bundle, (terms, wallet.address)).await?;
        let standings = match wallet.address {
            Some(address) => standings(lookup, executor.as_ref(), address).await?,
            None => Standings::new(),
        };
        let steps = executor.steps(wallet.allowing, &standings);
        Ok(Handout {
            charges: executor.paid().to_vec(),
            spendings: executor.spendings().to_vec(),
            payer: PayerMeans::of(executor.as_ref(), steps.approvals.len(), standings),
            ends_at: match payments.as_slice() {
                [sole] => sole.quote.map(|quote| quote.until),
                _ => None,
            },
            bundle,
            payments,
            steps,
        })
    };
    lookup.in_time(handed_out).await
}

/// The contract that pays a bundle: the batch contract where its terms are known already or a fee proxy cannot do it.
async fn executor(
    ctx: &Ctx,
    lookup: &Lookup,
    bundle: &Bundle,
    (terms, payer): (Option<BatchTerms>, Option<Address>),
) -> Result<Box<dyn Executor>, HandoutError> {
    let terms = match (terms, bundle.for_fee_proxy()) {
        (None, Some(leg)) => {
            let proxy = FeeProxy::admit(legs::fee_proxy(ctx, bundle.network, leg)?, leg);
            let refused = |error| HandoutError::Payment(0, Refusal::from(error).into());
            return Ok(Box::new(proxy.map_err(refused)?));
        }
        (None, None) => batch_terms(ctx, lookup).await?,
        (Some(terms), _) => terms,
    };
    Ok(Box::new(batch(&terms, &bundle.legs, payer)?))
}

/// Puts payments together.
fn batch(terms: &BatchTerms, legs: &[Leg], payer: Option<Address>) -> Result<BatchContract, HandoutError> {
    BatchContract::admit(terms, legs, payer).map_err(|error| match error {
        BundleError::TooLarge => HandoutError::TooLarge(fitting(terms, legs, payer, u64::MAX)),
        BundleError::NoPayer => HandoutError::NoPayer,
        BundleError::TooMany => HandoutError::Failed(Refusal::from(error).into()),
    })
}

/// What the chain says about a payer, in each token that an executor takes, or else in the coin.
async fn standings(lookup: &Lookup, executor: &dyn Executor, payer: Address) -> FlowResult<Standings> {
    let tokens = executor.spendings().iter().filter(|spending| spending.token.is_some());
    let mut tokens: Vec<Option<Address>> = tokens.map(|spending| spending.token).collect();
    if tokens.is_empty() {
        tokens.push(None);
    }
    let asked = tokens.into_iter().map(|token| async move {
        let standing = lookup.standing(payer, token, executor.contract()).await?;
        FlowResult::Ok((token, standing))
    });
    Ok(try_join_all(asked).await?.into_iter().collect())
}

/// Checks that payments fit into one transaction. Errors: they do not.
fn check_gas(terms: &BatchTerms, legs: &[Leg], payer: Option<Address>, gas_max: u64) -> Result<(), HandoutError> {
    let gas = batch(terms, legs, payer)?.gas();
    if gas > gas_max {
        return Err(HandoutError::TooMuchGas {
            counts: (legs.len(), fitting(terms, legs, payer, gas_max)),
            gas: (gas, gas_max),
        });
    }
    Ok(())
}

/// Checks that requests can be paid with what is charged on top of each, as long as nothing of them is paid: several of them
/// in one transaction. No node is asked.
///
/// Errors: a payment is too large together with its charges, so that nobody could make it; they do not fit into one
/// transaction, or their network has no contract for that (400).
pub fn check_payable(ctx: &Ctx, network: Network, due: &[(Request, Charges)]) -> Result<(), HandoutError> {
    let payments = due.iter();
    let payments = payments.map(|(request, charges)| (request, request.ledger.remaining(), charges));
    let legs = legs::outlined(ctx, payments)?;
    if legs.len() == 1 {
        return Ok(());
    }
    let contract = ctx
        .catalogue
        .default_contract(network, ContractKind::BatchConversionPayments);
    // What the contract takes for itself changes no gas.
    let terms = BatchTerms {
        contract: contract.ok_or(HandoutError::NoBatchContract(network))?,
        fee_basis_points: 0,
        paths_to_usd: BTreeMap::new(),
    };
    check_gas(&terms, &legs, None, ctx.payments.batch_gas)
}

/// What is charged on top of a payment of a new request: what was fixed for it and, where that left the platform without a
/// fee, the one of the call, whose receiver was checked.
///
/// Errors: the fee of the client ID would go to a contract that keeps it (400).
pub fn charges_of_new(ctx: &Ctx, request: &Request, call: Option<(Percent, Address)>) -> FlowResult<Charges> {
    charges(ctx, request, None, call)
}

/// The same of a request that is there: before the fee of the call stands that of another client ID that asks.
pub fn charges(
    ctx: &Ctx,
    request: &Request,
    client: Option<&ClientId>,
    call: Option<(Percent, Address)>,
) -> FlowResult<Charges> {
    let network = request.terms.network;
    let other_client = client.filter(|client| request.origin.client.as_ref() != Some(&client.row));
    let other_fee = other_client.and_then(ClientId::fee);
    let charges = request.terms.price.charges.asked_with(other_fee, call, network);
    Ok(charges.checked(network, &ctx.catalogue)?)
}
