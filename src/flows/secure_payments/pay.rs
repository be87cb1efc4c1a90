//! Hands out the calldata that pays a secure payment.

use super::{access, open, open::Look, opened::Opened};
use crate::{
    ctx::{Ctx, Holder},
    domain::{
        address::Address,
        batch::check_networks,
        batch_call::{Batch, BatchError, BatchItem, OwnFee},
        calldata::{APPROVAL_GAS, Allowing, Standing, Step},
        caller::PlatformCaller,
        fees::{Fee, FeeLeg, Fees},
        ids::RequestId,
        refusal::Refusal,
        request::Request,
        secure_payment::{SecurePaymentKind, Unpayable, fee_plan::FeeKind},
    },
    flows::{
        FlowResult,
        requests::{
            batch_terms::batch_terms,
            keep,
            payers::{in_time, payers},
            places::in_turns_of,
            planned::{Handout, Planned, outlined, prepared},
        },
    },
};
use alloy::primitives::U256;
use futures_util::future::try_join_all;
use std::collections::HashMap;

/// What is answered to a payer.
#[derive(Debug, Clone)]
pub enum Paying {
    /// One request.
    Single(Box<Single>),
    /// Several, in one transaction.
    Batch(Box<Together>),
}

/// The calldata of one request.
#[derive(Debug, Clone)]
pub struct Single {
    /// The request.
    pub request: Request,
    /// Its calldata.
    pub handout: Handout,
    /// The fees that it pays.
    pub fees: FeeLines,
    /// What the wallet is asked for.
    pub asked: Vec<Asked>,
}

/// The calldata of several requests.
#[derive(Debug, Clone)]
pub struct Together {
    /// Those that are paid: what is paid already is left out.
    pub requests: Vec<Request>,
    /// Approvals, to be sent first.
    pub approvals: Vec<Step>,
    /// The payment of all of them.
    pub payment: Step,
    /// Whether the payer holds the money; true when no payer was named.
    pub has_enough_balance: bool,
    /// Whether the payer holds the gas; `None` when no payer was named.
    pub has_enough_gas: Option<bool>,
    /// What the network takes about for all of it, in units of its coin; `None` when no payer was named.
    pub network_fee: Option<U256>,
    /// What the payer has too little of.
    pub short_of: Vec<ShortOf>,
    /// The fees that they pay.
    pub fees: FeeLines,
    /// What the wallet is asked for.
    pub asked: Vec<Asked>,
}

/// A token of which the payer holds too little; `None` for the native coin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortOf {
    /// Contract.
    pub token: Option<Address>,
    /// Units that are needed.
    pub required: U256,
    /// Units that are there.
    pub available: U256,
}

/// One fee as it is paid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeeLine {
    /// The request that it is paid with.
    pub request: RequestId,
    /// Whose it is.
    pub kind: FeeKind,
    /// Units of the payment currency.
    pub units: U256,
    /// Id of that currency.
    pub currency: String,
    /// Who gets it.
    pub receiver: Address,
}

/// What is paid and the fees on top of it, in the order in which the transaction pays them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeeLines {
    /// Fee by fee.
    pub lines: Vec<FeeLine>,
    /// Units that the payees get; `None` when they are in several currencies.
    pub gross: Option<U256>,
}

/// What a wallet is asked for in one currency, at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Id of the currency.
    pub currency: String,
    /// Units, with everything on top of what is paid.
    pub units: U256,
    /// What of it the contract takes for itself.
    pub contract_fee: Option<FeeLeg>,
    /// What of it the contract gives back to the payer.
    pub returned: U256,
}

/// Hands out the calldata of what is left to be paid, with allowances of exactly that.
///
/// What is answered keeps to the price terms of the requests, with which a payment is compared. What a network is asked takes the places of
/// the platform when it calls itself, else a few of those of strangers. Errors: it cannot be paid any more (403), it
/// is paid (409), the payer may not pay it (403), who pays is not said where that counts (400), no node answers (502).
/// Source: interface §4.7; rules P.3.7; decisions D38.
pub async fn run(ctx: &Ctx, opened: &Opened, look: &Look, caller: Option<&PlatformCaller>) -> FlowResult<Paying> {
    opened.payable().map_err(Refusal::from)?;
    open::check(ctx, opened, look)?;
    let payment = &opened.payment;
    match &look.payer {
        Some(payer) => access::require(ctx, payment, payer).await?,
        None if payment.policy.asks_who_pays(payment.flow) => {
            let sentence = match payment.policy.hides_until_approved {
                true => "is required: nothing of this is shown before a wallet is named",
                false => "is required: not every wallet may pay this",
            };
            return Err(Refusal::field("wallet", sentence).into());
        }
        None => {}
    }
    open::check_source(ctx, opened, look)?;
    let unpaid = opened.unpaid();
    if unpaid.is_empty() {
        return Err(Refusal::forbidden(Unpayable::ComplianceFailed.sentence()).into());
    }
    let is_own = caller.is_some_and(|caller| opened.is_of(caller));
    let holder = Holder {
        platform: payment.origin.platform.clone(),
        is_public: !is_own,
        link: (!is_own).then(|| payment.id.clone()),
    };
    let asking = in_turns_of(ctx, holder, payment.network);
    let wallet = look.payer.map(|payer| payer.wallet);
    let due: Vec<Due> = unpaid.into_iter().map(Due::new).collect();
    match payment.kind {
        SecurePaymentKind::Single => single(&asking, due, wallet).await,
        SecurePaymentKind::Batch => together(&asking, opened, due, wallet).await,
    }
}

/// A request of which something is left.
struct Due {
    request: Request,
    fees: Fees,
    units: U256,
}

impl Due {
    fn new((request, fees, units): (&Request, &Fees, U256)) -> Self {
        Self {
            request: request.clone(),
            fees: *fees,
            units,
        }
    }
}

async fn single(ctx: &Ctx, due: Vec<Due>, wallet: Option<Address>) -> FlowResult<Paying> {
    let sole = due.first();
    let sole = sole.ok_or_else(|| Refusal::forbidden(Unpayable::ComplianceFailed.sentence()))?;
    let asked = (wallet, Allowing::WhatIsNeeded);
    let handout = prepared(ctx, &sole.request, sole.units, sole.fees, asked).await?;
    let token = sole.request.terms.token;
    let own = handout.calldata.contract_fee.map(|leg| OwnFee { token, leg });
    let fees = fee_lines(&due, own.as_slice());
    await_payments(ctx, &due).await?;
    Ok(Paying::Single(Box::new(Single {
        request: sole.request.clone(),
        asked: asked_for(&due, &fees, |_| handout.calldata.needed),
        handout,
        fees,
    })))
}

async fn together(ctx: &Ctx, opened: &Opened, due: Vec<Due>, wallet: Option<Address>) -> FlowResult<Paying> {
    let network = opened.payment.network;
    check_networks([network])?;
    let planned = due.iter().map(|due| {
        let (plan, further_fees) = outlined(ctx, &due.request, due.units, &due.fees)?;
        FlowResult::Ok(Planned {
            plan,
            further_fees,
            fees: due.fees,
            quote: None,
        })
    });
    let planned: Vec<Planned> = planned.collect::<FlowResult<_>>()?;
    let items = planned.iter().map(|planned| BatchItem {
        plan: &planned.plan,
        further_fees: &planned.further_fees,
    });
    let items: Vec<BatchItem<'_>> = items.collect();
    let (batch, standings) = in_time(network, async {
        let terms = batch_terms(ctx, network).await?;
        let batch = Batch::of(&terms, &items, wallet).map_err(unpaid_together)?;
        let standings = match wallet {
            Some(wallet) => standings(ctx, opened, &batch, (wallet, terms.contract)).await?,
            None => HashMap::new(),
        };
        FlowResult::Ok((batch, standings))
    })
    .await?;
    let approvals = batch.approvals(Allowing::WhatIsNeeded, |token| {
        standings.get(&Some(*token)).map(|standing| standing.allowance)
    });
    let short_of = short_of(&batch, &standings);
    let gas = batch.gas().saturating_add(approval_gas(approvals.len()));
    let standing = standings.values().next();
    let network_fee = standing.map(|standing| U256::from(gas).saturating_mul(standing.gas_price));
    let has_enough_gas = standing
        .zip(network_fee)
        .map(|(standing, fee)| standing.native_balance >= batch.value().saturating_add(fee));
    let fees = fee_lines(&due, batch.own_fees());
    await_payments(ctx, &due).await?;
    Ok(Paying::Batch(Box::new(Together {
        asked: asked_for(&due, &fees, |token| needed(&batch, token)),
        fees,
        requests: due.into_iter().map(|due| due.request).collect(),
        approvals,
        payment: batch.step(),
        has_enough_balance: short_of.is_empty(),
        has_enough_gas,
        network_fee,
        short_of,
    })))
}

/// Gas of so many approvals.
fn approval_gas(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX).saturating_mul(APPROVAL_GAS)
}

/// Why payments are not made together, by the parameters of the call.
fn unpaid_together(error: BatchError) -> Refusal {
    match error {
        BatchError::NoPayer => Refusal::field("wallet", error.to_string()),
        BatchError::TooLarge => Refusal::forbidden(Unpayable::ComplianceFailed.sentence()),
    }
}

/// What the chain says about the payer, token by token; of the native coin alone under `None`.
async fn standings(
    ctx: &Ctx,
    opened: &Opened,
    batch: &Batch,
    (wallet, contract): (Address, Address),
) -> FlowResult<HashMap<Option<Address>, Standing>> {
    let payers = payers(ctx, opened.payment.network)?;
    let tokens: Vec<Option<Address>> = match batch.spendings() {
        [] => vec![None],
        spendings => spendings.iter().map(|spending| Some(spending.token)).collect(),
    };
    let asked = tokens.into_iter().map(|token| async move {
        let standing = payers.standing(wallet, token, contract).await?;
        FlowResult::Ok((token, standing))
    });
    Ok(try_join_all(asked).await?.into_iter().collect())
}

fn short_of(batch: &Batch, standings: &HashMap<Option<Address>, Standing>) -> Vec<ShortOf> {
    let tokens = batch.spendings().iter().map(|spending| ShortOf {
        token: Some(spending.token),
        required: spending.units,
        available: standings
            .get(&Some(spending.token))
            .map_or(spending.units, |standing| standing.balance),
    });
    let native = standings
        .values()
        .next()
        .map_or(batch.value(), |standing| standing.native_balance);
    let coin = ShortOf {
        token: None,
        required: batch.value(),
        available: native,
    };
    let all = tokens.chain([coin]);
    all.filter(|one| one.available < one.required).collect()
}

/// When a transaction pays a fee, among the payments of tokens or among those of the coin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// In a payment.
    Riding,
    /// After the payments, with what else its receiver gets in the same currency.
    Alone,
    /// At the end, by the contract itself.
    OfContract,
}

/// The fees in the order in which the transaction pays them. The contract of batches pays tokens before the coin, and knows
/// one receiver of riding fees, that of the first one.
fn fee_lines(due: &[Due], own: &[OwnFee]) -> FeeLines {
    let line = |due: &Due, kind: FeeKind, fee: Fee| FeeLine {
        request: due.request.id.clone(),
        kind,
        units: fee.of(due.units),
        currency: due.request.terms.payment_currency.clone(),
        receiver: fee.receiver,
    };
    let charged = due.iter().flat_map(|due| {
        let platform = due.fees.platform.map(|fee| line(due, FeeKind::Platform, fee));
        let protocol = due.fees.protocol.map(|fee| line(due, FeeKind::Protocol, fee));
        let lines = platform.into_iter().chain(protocol);
        lines.map(move |line| (due.request.terms.token, line))
    });
    let charged: Vec<(Option<Address>, FeeLine)> = charged.filter(|(_, line)| !line.units.is_zero()).collect();
    let taker = charged.first().map(|(_, line)| line.receiver);
    // What one receiver gets alone in a currency is paid where the first part of it stands.
    let first = |token: Option<Address>, receiver: Address| {
        let mut lines = charged.iter();
        lines.position(|(other, line)| (*other, line.receiver) == (token, receiver))
    };
    let of_calls = charged.iter().map(|(token, line)| {
        let (turn, place) = match Some(line.receiver) == taker {
            true => (Turn::Riding, None),
            false => (Turn::Alone, first(*token, line.receiver)),
        };
        ((token.is_none(), turn, place), line.clone())
    });
    let of_contract = own.iter().filter_map(|own| {
        let place = due.iter().position(|due| due.request.terms.token == own.token)?;
        let line = contract_fee(&due.get(place)?.request, own.leg);
        Some(((own.token.is_none(), Turn::OfContract, Some(place)), line))
    });
    let mut placed: Vec<_> = of_calls.chain(of_contract).collect();
    placed.sort_by_key(|(place, _)| *place);
    let currencies = due.iter().map(|due| &due.request.terms.payment_currency);
    let is_one = currencies
        .clone()
        .zip(currencies.skip(1))
        .all(|(one, next)| one == next);
    let sum = || due.iter().try_fold(U256::ZERO, |sum, due| sum.checked_add(due.units));
    FeeLines {
        lines: placed.into_iter().map(|(_, line)| line).collect(),
        gross: is_one.then(sum).flatten(),
    }
}

/// Units that leave the payer in a token, or in the coin.
fn needed(batch: &Batch, token: Option<Address>) -> U256 {
    let Some(token) = token else {
        return batch.value();
    };
    let mut spendings = batch.spendings().iter();
    let spending = spendings.find(|spending| spending.token == token);
    spending.map_or(U256::ZERO, |spending| spending.units)
}

/// What a wallet is asked for, by currency in the order of the requests.
fn asked_for(due: &[Due], fees: &FeeLines, needed: impl Fn(Option<Address>) -> U256) -> Vec<Asked> {
    let mut asked: Vec<Asked> = Vec::new();
    for due in due {
        let currency = &due.request.terms.payment_currency;
        let known = asked.iter().position(|asked| asked.currency == *currency);
        let own = known.unwrap_or_else(|| {
            let lines = || fees.lines.iter().filter(|line| line.currency == *currency);
            let of_contract = lines().find(|line| line.kind == FeeKind::Contract);
            let sum = lines().fold(U256::ZERO, |sum, line| sum.saturating_add(line.units));
            let units = needed(due.request.terms.token);
            asked.push(Asked {
                currency: currency.clone(),
                units,
                contract_fee: of_contract.map(|line| FeeLeg {
                    receiver: line.receiver,
                    units: line.units,
                }),
                // What nobody gets, once the payees below have theirs.
                returned: units.saturating_sub(sum),
            });
            asked.len() - 1
        });
        if let Some(asked) = asked.get_mut(own) {
            asked.returned = asked.returned.saturating_sub(due.units);
        }
    }
    asked
}

/// What the contract takes of all payments in the currency of this one.
fn contract_fee(request: &Request, leg: FeeLeg) -> FeeLine {
    FeeLine {
        request: request.id.clone(),
        kind: FeeKind::Contract,
        units: leg.units,
        currency: request.terms.payment_currency.clone(),
        receiver: leg.receiver,
    }
}

/// Notes that payments are awaited, unless they are already. The calldata of a link keeps to the price terms of its requests,
/// so nothing else is kept of it.
async fn await_payments(ctx: &Ctx, due: &[Due]) -> FlowResult<()> {
    let silent = keep::silent(due.iter().map(|due| &due.request).collect());
    if silent.is_empty() {
        return Ok(());
    }
    let tx = ctx.db.begin("issue_calldata").await?;
    keep::await_payments(&tx, &silent).await?;
    Ok(tx.commit().await?)
}
