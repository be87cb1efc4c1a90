//! Hands out the transactions that pay requests: what every operation does that hands some out.

mod batch_terms;
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
        ledger::SettlementUnits,
        network::Network,
        paying::{
            Allowing, Bundle, BundleError, Executor, Leg, PayerMeans, Spending, Standings, Steps,
            batch_contract::{BatchContract, BatchTerms, fitting},
            charge::Charges,
            fee_proxy::FeeProxy,
            summary::{PaidCharge, paid_charges},
        },
        quote::Quote,
        rates::AppliedRate,
        refusal::Refusal,
        request::Request,
    },
    flows::{FlowError, FlowResult},
    ports::chain::ChainError,
};
use batch_terms::batch_terms;
use chrono::{DateTime, Utc};
use futures_util::future::try_join_all;
use lookup::Lookup;
use std::collections::BTreeMap;

/// So much of a request, which is to be paid.
#[derive(Debug, Clone)]
pub struct PaymentDue {
    /// The request.
    pub request: Request,
    /// How much of it.
    pub units: SettlementUnits,
    /// What is charged on top.
    pub charges: Charges,
    /// The rate, where it is agreed already; `None` for that of now.
    pub rate: Option<AppliedRate>,
}

impl PaymentDue {
    /// All that is left of a request, by the rate of now.
    pub fn all_of(request: Request, charges: Charges) -> Self {
        Self {
            units: request.ledger.remaining(),
            request,
            charges,
            rate: None,
        }
    }
}

/// Whose wallet pays, and what it allows.
#[derive(Debug, Clone, Copy)]
pub struct PayingWallet {
    /// Its address; `None` when nobody is named, of whom nothing is looked up.
    pub address: Option<Address>,
    /// How much its approvals allow.
    pub allowing: Allowing,
}

/// How payments are put into a transaction.
#[derive(Debug, Clone, Copy)]
pub enum Packing {
    /// One payment, through a fee proxy where one receiver gets all charges.
    Alone,
    /// Any number of payments through the batch contract.
    Together {
        /// Most gas that they may need; `None` where that was checked before.
        gas_max: Option<u64>,
    },
}

/// What is handed out for one request.
#[derive(Debug, Clone)]
pub struct HandedPayment {
    /// The request.
    pub request: Request,
    /// What is charged on top.
    pub charges: Charges,
    /// What is promised, where no price feed on chain converts.
    pub quote: Option<Quote>,
}

/// What is handed out.
#[derive(Debug, Clone)]
pub struct Handout {
    /// What is paid.
    pub bundle: Bundle,
    /// The request of each payment of the bundle, in their order.
    pub payments: Vec<HandedPayment>,
    /// What the payer signs.
    pub steps: Steps,
    /// What leaves the payer at most.
    pub spendings: Vec<Spending>,
    /// The fees, in the order in which they are paid.
    pub charges: Vec<PaidCharge>,
    /// What the payer has; `None` when nobody is named.
    pub payer: Option<PayerMeans>,
    /// When what was quoted ends.
    pub ends_at: Option<DateTime<Utc>>,
}

impl Handout {
    /// Whether the payer holds the money; true when nobody is named.
    pub fn has_enough_balance(&self) -> bool {
        self.payer.as_ref().is_none_or(|payer| payer.shortages.is_empty())
    }
}

/// Why nothing is handed out.
#[derive(Debug)]
pub enum HandoutError {
    /// One payment cannot be made, by its place.
    Payment(usize, FlowError),
    /// The payments up to one, by its place, are more than 256 bits of units.
    TooLarge(usize),
    /// The contract takes a fee that nobody would get but the payer, who is not named.
    NoPayer,
    /// The payments need more gas than one transaction may.
    TooMuchGas {
        /// How many they are, and how many of the first ones fit.
        counts: (usize, usize),
        /// What they need, and what they may.
        gas: (u64, u64),
    },
    /// Nothing makes several payments at once on the network.
    NoBatchContract(Network),
    /// Something else.
    Failed(FlowError),
}

impl From<FlowError> for HandoutError {
    fn from(error: FlowError) -> Self {
        Self::Failed(error)
    }
}

impl From<Refusal> for HandoutError {
    fn from(refusal: Refusal) -> Self {
        Self::Failed(refusal.into())
    }
}

impl From<ChainError> for HandoutError {
    fn from(error: ChainError) -> Self {
        Self::Failed(error.into())
    }
}

impl HandoutError {
    /// As a call says it that makes one payment.
    pub fn alone(self) -> FlowError {
        match self {
            Self::Payment(_, error) | Self::Failed(error) => error,
            Self::TooLarge(_) => Refusal::from(BundleError::TooLarge).into(),
            Self::NoPayer => Refusal::from(BundleError::NoPayer).into(),
            Self::TooMuchGas { .. } | Self::NoBatchContract(_) => Refusal::from(BundleError::TooMany).into(),
        }
    }
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
            charges: paid_charges(&bundle.legs, executor.own_fees()),
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
            let proxy = legs::fee_proxy(ctx, bundle.network, leg)?;
            let proxy = FeeProxy::admit(proxy, leg).map_err(Refusal::from)?;
            return Ok(Box::new(proxy));
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
        BundleError::TooMany => Refusal::from(error).into(),
    })
}

/// What the chain says about a payer, in each token that an executor takes, or else in the coin.
async fn standings(lookup: &Lookup, executor: &dyn Executor, payer: Address) -> Result<Standings, ChainError> {
    let tokens = executor.spendings().iter().filter(|spending| spending.token.is_some());
    let mut tokens: Vec<Option<Address>> = tokens.map(|spending| spending.token).collect();
    if tokens.is_empty() {
        tokens.push(None);
    }
    let asked = tokens.into_iter().map(|token| async move {
        let standing = lookup.standing(payer, token, executor.contract()).await?;
        Ok((token, standing))
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
