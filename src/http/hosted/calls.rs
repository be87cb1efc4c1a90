//! Endpoints for the scripts of the page: the state of the link, calldata, reports of sent payments, and telemetry.

use super::{
    look::PageFrame,
    view::{fee_receiver, iso},
    visit::{PageVisit, look},
};
use crate::{
    domain::{
        address::Address,
        paying::summary::{CurrencyTotal, totals},
        refusal::{Checks, Refusal},
        secure_payment::{attempt::AttemptId, intent::Source},
    },
    flows::secure_payments::{
        attempt, broadcast,
        opened::OpenedLink,
        pay,
        record_intent::{self, ReportedHash, ReportedPayment},
        user_event,
    },
    http::{
        body::parse,
        error::{self, Problem},
        forms::{
            handout::{HandoutTexts, StepTexts},
            payer_step::PayerStepBody,
            signed_transaction::BroadcastBody,
            text::{Reads, text},
            unsigned::UnsignedTexts,
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
use poem_openapi::{
    Object,
    types::{ParseFromJSON, ToJSON},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Largest body that a page sends, in bytes.
const BODY_BYTES_MAX: usize = 8 * 1024;

fn json(status: StatusCode, body: &impl Serialize) -> Result<Response, Problem> {
    let text = serde_json::to_string(body).map_err(|error| {
        tracing::error!(%error, "a response to a page could not be serialised; the page gets 500");
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

/// The wallet in the query.
#[derive(Debug, Deserialize)]
pub(super) struct AskingWallet {
    wallet: Option<String>,
}

/// The state of a link in any status. Errors: 400, 404, 429.
#[handler]
pub(super) async fn state(
    Data(page): Data<&Arc<PageFrame>>,
    Query(asking): Query<AskingWallet>,
    visit: PageVisit,
) -> poem::Result<Response> {
    let opened = visit.opened().await?;
    let link = match &asking.wallet {
        Some(wallet) => visit.shown_to(page, &opened, wallet).await?,
        None => visit.shown(page, &opened).await?,
    };
    Ok(json(error::paged(false), &link)?)
}

/// A transaction in the format of wallets.
#[derive(Debug, Serialize)]
struct WalletStep {
    to: String,
    data: String,
    value: String,
    /// The whole transaction, if the service prepares it.
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction: Option<TransactionToSign>,
}

/// An unsigned transaction in the format of wallets and nodes.
#[derive(Debug, Serialize)]
struct TransactionToSign {
    raw_data: Option<Value>,
    raw_data_hex: String,
    #[serde(rename = "txID")]
    tx_id: String,
}

impl From<UnsignedTexts> for TransactionToSign {
    fn from(texts: UnsignedTexts) -> Self {
        Self {
            raw_data: texts.raw_data.to_json(),
            raw_data_hex: texts.raw_data_hex,
            tx_id: texts.tx_id,
        }
    }
}

impl From<StepTexts> for WalletStep {
    fn from(step: StepTexts) -> Self {
        Self {
            value: step.quantity(),
            to: step.to.into(),
            data: step.data,
            transaction: step.unsigned.map(TransactionToSign::from),
        }
    }
}

/// The amount that the wallet pays in one currency; amounts are decimal.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WalletAmount {
    /// Contract of a token; `None` for the native coin.
    address: Option<String>,
    /// Total, including all fees.
    amount: String,
    /// The part that the batch contract keeps as its fee.
    contract_fee: Option<ContractFee>,
    /// The part that the batch contract refunds.
    returned: Option<String>,
}

#[derive(Debug, Serialize)]
struct ContractFee {
    receiver: String,
    amount: String,
}

fn sum(opened: &OpenedLink, texts: HandoutTexts<'_>, total: &CurrencyTotal) -> WalletAmount {
    let text = |units: U256| texts.amount(total.leg, units);
    let leg = texts.0.bundle.legs.get(total.leg);
    WalletAmount {
        address: leg.and_then(|leg| leg.token).map(|token| token.to_string()),
        amount: text(total.units),
        contract_fee: total.contract_fee.map(|fee| ContractFee {
            receiver: fee_receiver(opened, fee.receiver),
            amount: text(fee.units),
        }),
        returned: (!total.returned.is_zero()).then(|| text(total.returned)),
    }
}

/// Transactions that pay the amount due now.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Calldata {
    /// Approvals first, the payment last.
    steps: Vec<WalletStep>,
    /// Amounts that the wallet pays, by currency.
    asked: Vec<WalletAmount>,
    /// Whether the wallet holds enough of each currency.
    is_funded: bool,
    /// Whether the wallet holds enough for the network fee.
    has_gas: bool,
    /// Estimated network fee in the native coin; `None` if no node reports the balances of the wallet.
    gas: Option<String>,
}

/// Calldata for a wallet. Errors: those of the public operation, and 400 without a wallet or for a Safe. The page would
/// take the hash of a proposed transaction of a Safe for that of a payment, and would lock no other payer out.
#[handler]
pub(super) async fn calldata(Query(asking): Query<AskingWallet>, visit: PageVisit) -> poem::Result<Response> {
    let opened = visit.opened().await?;
    let wallet = asking.wallet.ok_or_else(|| unreadable("wallet", "is required"))?;
    let looking = look(&wallet)?;
    let handout = pay::run(&visit.ctx, &opened, &looking, None)
        .await
        .map_err(Problem::from)?;
    if let Some(payer) = looking.payer
        && pay::is_safe(&visit.ctx, &opened.payment, payer.wallet).await
    {
        return Err(error::safe_wallet().into());
    }
    let texts = HandoutTexts(&handout);
    let totals = totals(&handout.bundle.legs, &handout.charges, &handout.spendings);
    let asked = totals.iter().map(|total| sum(&opened, texts, total));
    let payer = handout.payer.as_ref();
    let calldata = Calldata {
        steps: texts.steps().map(WalletStep::from).collect(),
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

/// Records a transaction that the payer sent. Errors: those of the public operation, and 403 for callers other than the
/// page.
#[handler]
pub(super) async fn intent(visit: PageVisit, body: Body) -> poem::Result<Response> {
    visit.require_own_page()?;
    let opened = visit.opened().await?;
    let sent: SentBody = read(body).await?;
    let mut checks = Checks::new();
    let tx_hash = checks.take("txHash", sent.tx_hash.value());
    let payer = checks.take("payerAddress", sent.payer_address.value());
    let sent = ReportedPayment {
        hash: ReportedHash::Transaction(checks.finish_with(tx_hash).map_err(Problem::from)?),
        source: source(&visit, &opened)?,
        amount: None,
        payer,
        payer_eoa: None,
    };
    record_intent::run(&visit.ctx, &opened, &sent, None)
        .await
        .map_err(Problem::from)?;
    Ok(error::empty())
}

/// The source from which the page pays: the network of the link and the token of its first request. The page supports
/// no other source.
fn source(visit: &PageVisit, opened: &OpenedLink) -> Result<Source, Problem> {
    let first = opened.requests.first();
    let currency = first.and_then(|request| visit.ctx.catalogue.find(&request.terms.payment_currency));
    let currency = currency.ok_or_else(Problem::internal)?;
    Ok(Source {
        network: opened.payment.network,
        token: currency.symbol.clone(),
    })
}

text! {
    /// Id of an attempt, generated at random by its page.
    AttemptText {
        pattern: "^[0-9a-f]{32}$",
        length_max: 32,
        example: "5f1c9d0b7a3e48269b4d2c6e8f001a7d",
        hint: "must be an attempt id: 32 lower-case hexadecimal digits",
        reads: AttemptId = AttemptId::parse,
    }
}

/// An attempt: the page is about to ask a wallet for a payment.
#[derive(Debug, Object)]
struct AttemptBody {
    id: AttemptText,
    wallet: WalletText,
    /// Earlier attempts of the same page. The page is not warned about them.
    own: Option<Vec<AttemptText>>,
}

impl AttemptBody {
    /// The wallet, the attempt id and the earlier attempt ids of its page. Errors: 400.
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

/// The attempt to withdraw.
#[derive(Debug, Object)]
struct WithdrawalBody {
    id: AttemptText,
}

/// Response to a page that is about to ask a wallet.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AttemptAnswer {
    /// When the last warning about attempts of other pages expires; `None` if no other page has an attempt.
    others_until: Option<String>,
}

/// Records an attempt before the page asks the wallet. Errors: 400, also if a multicall cannot pay one of its links; 404,
/// 429; 403 if the link is no longer payable, not payable by this wallet, or the caller is not the page; 409 if the link
/// is paid; 423 if a Safe is about to pay it.
#[handler]
pub(super) async fn note_attempt(visit: PageVisit, body: Body) -> poem::Result<Response> {
    visit.require_own_page()?;
    let opened = visit.opened().await?;
    let body: AttemptBody = read(body).await?;
    let (wallet, id, own) = body.read().map_err(Problem::from)?;
    let others_until = attempt::note(&visit.ctx, &opened, wallet, id, &own)
        .await
        .map_err(Problem::from)?
        .map(iso);
    Ok(json(error::paged(false), &AttemptAnswer { others_until })?)
}

/// Withdraws an attempt that led to no payment. Errors: 400, 403 for callers other than the page, 404, 429.
#[handler]
pub(super) async fn withdraw_attempt(visit: PageVisit, body: Body) -> poem::Result<Response> {
    visit.require_own_page()?;
    let opened = visit.opened().await?;
    let body: WithdrawalBody = read(body).await?;
    let id = body.id.value().map_err(|error| unreadable("id", &error))?;
    attempt::withdraw(&visit.ctx, &opened, id)
        .await
        .map_err(Problem::from)?;
    Ok(error::empty())
}

/// Broadcasts a transaction that the wallet signed. Errors: those of the public operation, and 403 for callers other
/// than the page.
#[handler]
pub(super) async fn broadcast_transaction(visit: PageVisit, body: Body) -> poem::Result<Response> {
    visit.require_own_page()?;
    let opened = visit.opened().await?;
    let sent: BroadcastBody = read(body).await?;
    broadcast::run(&visit.ctx, &opened, &sent.into(), None)
        .await
        .map_err(Problem::from)?;
    Ok(error::empty())
}

/// Records a telemetry event of the page. Errors: those of the public operation, and 403 for callers other than the
/// page.
#[handler]
pub(super) async fn events(visit: PageVisit, body: Body) -> poem::Result<Response> {
    visit.require_own_page()?;
    let opened = visit.opened().await?;
    let told: PayerStepBody = read(body).await?;
    let report = told.read().map_err(Problem::from)?;
    user_event::run(&visit.ctx, &opened, None, visit.address, &report)
        .await
        .map_err(Problem::from)?;
    Ok(json(error::taken(), &())?)
}
