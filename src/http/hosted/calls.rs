//! What the scripts of the page call: state, calldata, hints and telemetry.

use super::{
    look::Page,
    view::{fee_receiver, iso},
    visit::{Visit, look},
};
use crate::{
    domain::{
        address::Address,
        paying::summary::{CurrencyTotal, totals},
        refusal::{Checks, Refusal},
        secure_payment::{attempt::AttemptId, intent::Source},
    },
    flows::secure_payments::{
        attempt,
        opened::Opened,
        pay,
        record_intent::{self, Sent},
        user_event,
    },
    http::{
        body::parse,
        error::{self, Problem},
        forms::{
            handout::{HandoutTexts, StepTexts},
            payer_step::PayerStepBody,
            text::{Reads, text},
            wire::{TxHash, WalletText},
        },
    },
};
use alloy::primitives::U256;
use poem::{
    Body, Response, handler,
    http::StatusCode,
    web::{Data, Query},
};
use poem_openapi::{Object, types::ParseFromJSON};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Largest body that a page sends, in bytes.
const BODY_BYTES_MAX: usize = 8 * 1024;

fn json(status: StatusCode, body: &impl Serialize) -> Result<Response, Problem> {
    let text = serde_json::to_string(body).map_err(|error| {
        tracing::error!(%error, "an answer to a page could not be written");
        Problem::internal()
    })?;
    Ok(Response::builder()
        .status(status)
        .content_type("application/json")
        .body(text))
}

async fn read<T: ParseFromJSON + 'static>(body: Body) -> Result<T, Problem> {
    let bytes = body
        .into_bytes_limit(BODY_BYTES_MAX)
        .await
        .map_err(|_| error::too_large())?;
    parse(&bytes)
}

fn unreadable(field: &str, message: &str) -> Problem {
    Refusal::field(field, message).into()
}

/// Which wallet asks.
#[derive(Debug, Deserialize)]
pub(super) struct Asking {
    wallet: Option<String>,
}

/// The state of a link, whatever it is. Errors: 400, 404, 429.
#[handler]
pub(super) async fn state(
    Data(page): Data<&Arc<Page>>,
    Query(asking): Query<Asking>,
    visit: Visit,
) -> poem::Result<Response> {
    let opened = visit.opened().await?;
    let link = match &asking.wallet {
        Some(wallet) => visit.shown_to(page, &opened, wallet).await?,
        None => visit.shown(page, &opened).await?,
    };
    Ok(json(error::paged(false), &link)?)
}

/// A transaction as wallets take it.
#[derive(Debug, Serialize)]
struct Step {
    to: String,
    data: String,
    value: String,
}

impl From<StepTexts> for Step {
    fn from(step: StepTexts) -> Self {
        Self {
            value: step.quantity(),
            to: step.to.into(),
            data: step.data,
        }
    }
}

/// What the wallet is asked for in one currency; amounts are decimal.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Sum {
    /// Contract of a token; `None` for the coin.
    address: Option<String>,
    /// With everything on top.
    amount: String,
    /// What of it the contract of batches takes for itself.
    contract_fee: Option<ContractFee>,
    /// What of it that contract gives back.
    returned: Option<String>,
}

#[derive(Debug, Serialize)]
struct ContractFee {
    receiver: String,
    amount: String,
}

fn sum(opened: &Opened, texts: HandoutTexts<'_>, total: &CurrencyTotal) -> Sum {
    let text = |units: U256| texts.amount(total.leg, units);
    let leg = texts.0.bundle.legs.get(total.leg);
    Sum {
        address: leg.and_then(|leg| leg.token).map(|token| token.to_string()),
        amount: text(total.units),
        contract_fee: total.contract_fee.map(|fee| ContractFee {
            receiver: fee_receiver(opened, fee.receiver),
            amount: text(fee.units),
        }),
        returned: (!total.returned.is_zero()).then(|| text(total.returned)),
    }
}

/// What pays what is due now.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Calldata {
    /// Approvals first, the payment last.
    steps: Vec<Step>,
    /// What the wallet is asked for.
    asked: Vec<Sum>,
    /// Whether the wallet holds the money.
    is_funded: bool,
    /// Whether it holds the network fee.
    has_gas: bool,
    /// What the network takes about, in its coin; `None` where no node says what the wallet holds.
    gas: Option<String>,
}

/// Calldata for a wallet. Errors: as those of the interface, and 400 without a wallet.
#[handler]
pub(super) async fn calldata(Query(asking): Query<Asking>, visit: Visit) -> poem::Result<Response> {
    let opened = visit.opened().await?;
    let wallet = asking.wallet.ok_or_else(|| unreadable("wallet", "is required"))?;
    let handout = pay::run(&visit.ctx, &opened, &look(&wallet)?, None)
        .await
        .map_err(Problem::from)?;
    let texts = HandoutTexts(&handout);
    let totals = totals(&handout.bundle.legs, &handout.charges, &handout.spendings);
    let asked = totals.iter().map(|total| sum(&opened, texts, total));
    let payer = handout.payer.as_ref();
    let calldata = Calldata {
        steps: texts.steps().map(Step::from).collect(),
        asked: asked.collect(),
        is_funded: handout.has_enough_balance(),
        has_gas: payer.is_none_or(|payer| payer.has_enough_gas),
        gas: payer.map(|payer| texts.coins(payer.costs.total())),
    };
    Ok(json(error::paged(false), &calldata)?)
}

/// A transaction that was sent.
#[derive(Debug, Object)]
#[oai(rename_all = "camelCase")]
struct SentBody {
    tx_hash: TxHash,
    payer_address: WalletText,
}

/// Keeps a hint. Errors: as those of the interface, and 403 for others than the page.
#[handler]
pub(super) async fn intent(visit: Visit, body: Body) -> poem::Result<Response> {
    visit.require_own_page()?;
    let opened = visit.opened().await?;
    let sent: SentBody = read(body).await?;
    let mut checks = Checks::new();
    let tx_hash = checks.take("txHash", sent.tx_hash.value());
    let payer = checks.take("payerAddress", sent.payer_address.value());
    let sent = Sent {
        tx_hash: checks.finish_with(tx_hash).map_err(Problem::from)?,
        source: source(&visit, &opened)?,
        payer,
        payer_eoa: None,
    };
    record_intent::run(&visit.ctx, &opened, &sent)
        .await
        .map_err(Problem::from)?;
    Ok(error::empty())
}

/// The chain and a token of the link itself: the page knows no other way.
fn source(visit: &Visit, opened: &Opened) -> Result<Source, Problem> {
    let first = opened.requests.first();
    let currency = first.and_then(|request| visit.ctx.catalogue.find(&request.terms.payment_currency));
    let currency = currency.ok_or_else(Problem::internal)?;
    Ok(Source {
        network: opened.payment.network,
        token: currency.symbol.clone(),
    })
}

text! {
    /// What tells an attempt from all others: its page draws it at random.
    AttemptText {
        pattern: "^[0-9a-f]{32}$",
        length_max: 32,
        example: "5f1c9d0b7a3e48269b4d2c6e8f001a7d",
        hint: "must be the id of an attempt: 32 hexadecimal digits in lower case",
        reads: AttemptId = AttemptId::parse,
    }
}

/// A payment that a wallet is asked for.
#[derive(Debug, Object)]
struct AttemptBody {
    id: AttemptText,
    wallet: WalletText,
    /// Earlier attempts of the same page, of which it does not want to be warned.
    own: Option<Vec<AttemptText>>,
}

impl AttemptBody {
    /// The wallet, the attempt and the earlier ones of its page. Errors: 400.
    fn read(self) -> Result<(Address, AttemptId, Vec<AttemptId>), Refusal> {
        let mut checks = Checks::new();
        let id = checks.take("id", self.id.value());
        let wallet = checks.take("wallet", self.wallet.value());
        let own = self.own.unwrap_or_default();
        let own = checks.take("own", own.iter().map(Reads::value).collect());
        let read = wallet.zip(id).zip(own).map(|((wallet, id), own)| (wallet, id, own));
        checks.finish_with(read)
    }
}

/// An attempt that is withdrawn.
#[derive(Debug, Object)]
struct WithdrawalBody {
    id: AttemptText,
}

/// What is answered to a page that is about to ask a wallet.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Attempts {
    /// Until when attempts of other pages warn; `None` when there are none.
    others_until: Option<String>,
}

/// Notes an attempt, before the wallet is asked. Errors: 400, 404, 429; it can no longer be paid or not by this wallet, or
/// another page than this one calls (403); it is paid (409).
#[handler]
pub(super) async fn note_attempt(visit: Visit, body: Body) -> poem::Result<Response> {
    visit.require_own_page()?;
    let opened = visit.opened().await?;
    let body: AttemptBody = read(body).await?;
    let (wallet, id, own) = body.read().map_err(Problem::from)?;
    let others_until = attempt::note(&visit.ctx, &opened, wallet, (id, &own))
        .await
        .map_err(Problem::from)?
        .map(iso);
    Ok(json(error::paged(false), &Attempts { others_until })?)
}

/// Withdraws an attempt that led to no payment. Errors: 400, 403 for others than the page, 404, 429.
#[handler]
pub(super) async fn withdraw_attempt(visit: Visit, body: Body) -> poem::Result<Response> {
    visit.require_own_page()?;
    let opened = visit.opened().await?;
    let body: WithdrawalBody = read(body).await?;
    let id = body.id.value().map_err(|error| unreadable("id", &error))?;
    attempt::withdraw(&visit.ctx, &opened, id)
        .await
        .map_err(Problem::from)?;
    Ok(error::empty())
}

/// Takes an event. Errors: as those of the interface, and 403 for others than the page.
#[handler]
pub(super) async fn events(visit: Visit, body: Body) -> poem::Result<Response> {
    visit.require_own_page()?;
    let opened = visit.opened().await?;
    let told: PayerStepBody = read(body).await?;
    let report = told.read().map_err(Problem::from)?;
    user_event::run(&visit.ctx, &opened, (None, visit.address), &report)
        .await
        .map_err(Problem::from)?;
    Ok(json(error::taken(), &())?)
}
