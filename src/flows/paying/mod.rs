//! Issues the transactions that pay requests, for all operations that return calldata.

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
        network::Network,
        paying::{
            Bundle, BundleError, Executor, Leg, PayerBalances, PayerMeans,
            batch_contract::{BatchContract, BatchTerms, fitting},
            charge::Charges,
        },
        refusal::Refusal,
        request::Request,
    },
    flows::FlowResult,
};
use batch_terms::batch_terms;
use futures_util::future::try_join_all;
pub use handout::{HandedPayment, Handout, HandoutError, PayingWallet, PaymentDue, PaymentPacking};
use legs::payment_contracts;
use lookup::Lookup;

/// Issues the transactions of one payment, with unlimited approvals. Errors: those of [`hand_out`].
pub async fn hand_out_alone(
    ctx: &Ctx,
    lookup: &Lookup,
    due: PaymentDue,
    wallet: Option<Address>,
) -> FlowResult<Handout> {
    let wallet = PayingWallet::allowing_everything(wallet);
    let handout = hand_out(ctx, lookup, vec![due], wallet, PaymentPacking::Alone).await;
    handout.map_err(HandoutError::alone)
}

/// Issues the transactions that pay the amounts due, and looks up the payer.
///
/// Charges that go to several receivers are paid through the batch contract, so that the transaction pays all of them
/// or none. No node is queried for a single direct payment if the call names no wallet and the charges go to at most
/// one receiver.
///
/// Errors: no contract can pay a request, or there are too many requests (400); no node responds in time to a needed
/// query, or there is no accepted rate (502).
pub async fn hand_out(
    ctx: &Ctx,
    lookup: &Lookup,
    due: Vec<PaymentDue>,
    wallet: PayingWallet,
    packing: PaymentPacking,
) -> Result<Handout, HandoutError> {
    let handed_out = async {
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
        let standings = match wallet.address {
            Some(address) => standings(lookup, executor.as_ref(), address).await?,
            None => PayerBalances::new(),
        };
        let unknown = PayerBalances::new();
        let allowances = if wallet.is_safe { &unknown } else { &standings };
        let steps = executor.steps(wallet.allowing, allowances);
        Ok(Handout {
            charges: executor.paid().to_vec(),
            spendings: executor.spendings().to_vec(),
            payer: PayerMeans::of(executor.as_ref(), steps.approvals.len(), standings),
            is_of_safe: wallet.is_safe,
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

/// The error for payments that a contract cannot pay.
fn refused(error: BundleError, terms: Option<&BatchTerms>, legs: &[Leg], payer: Option<Address>) -> HandoutError {
    match error {
        BundleError::TooLarge => HandoutError::TooLarge(terms.map_or(0, |terms| fitting(terms, legs, payer, u64::MAX))),
        BundleError::NoPayer => HandoutError::NoPayer,
        error => HandoutError::Failed(Refusal::from(error).into()),
    }
}

/// The on-chain state of a payer in each token that the contract spends; without a token, in the coin of the network.
async fn standings(lookup: &Lookup, executor: &dyn Executor, payer: Address) -> FlowResult<PayerBalances> {
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
    let batch = BatchContract::admit(terms, legs, payer);
    let gas = batch.map_err(|error| refused(error, Some(terms), legs, payer))?.gas();
    if gas > gas_max {
        return Err(HandoutError::TooMuchGas {
            counts: (legs.len(), fitting(terms, legs, payer, gas_max)),
            gas: (gas, gas_max),
        });
    }
    Ok(())
}

/// Checks that unpaid requests can be paid with their charges, several of them in one transaction. Queries no node.
///
/// Errors: a payment with its charges is too large; the payments do not fit into one transaction; or their network has
/// no contract for several payments (400).
pub fn check_payable(ctx: &Ctx, network: Network, due: &[(Request, Charges)]) -> Result<(), HandoutError> {
    let payments = due.iter();
    let payments = payments.map(|(request, charges)| (request, request.ledger.remaining(), charges));
    let legs = legs::outlined(ctx, payments)?;
    if legs.len() == 1 {
        return Ok(());
    }
    let terms = payment_contracts(ctx, network).terms_for_gas();
    let terms = terms.ok_or(HandoutError::NoBatchContract(network))?;
    check_gas(&terms, &legs, None, ctx.payments.batch_gas)
}

/// Charges on a payment of a new request: the charges fixed in its price terms and, if they contain no fee of the
/// platform, the fee of the call. The receiver of the fee was checked before.
///
/// Errors: the fee of the client ID would go to a contract and be lost (400).
pub fn charges_of_new(ctx: &Ctx, request: &Request, call: Option<(Percent, Address)>) -> FlowResult<Charges> {
    charges(ctx, request, None, call)
}

/// Charges on a payment of an existing request, like [`charges_of_new`]. The fee of the calling client ID takes
/// precedence over the fee of the call.
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
