//! Developer controls of a local service under `/_dev`. Only `prs dev` serves them, and no OpenAPI document lists them.
//!
//! The endpoints need no credential, so pages of other origins must not call them: [`routes`] requires the service's
//! own origin and host, and JSON bodies, which browsers send across origins only after a preflight.

use crate::{
    domain::{
        address::Address,
        destination::ScreeningProvider,
        off_ramp_sandbox::OffRampBehaviour,
        pair::Pair,
        rate::Rate,
        rates::RateChange,
        refusal::{Checks, Refusal},
        screening::SandboxAnswer,
    },
    flows::{
        Fault, FlowError,
        rates::{
            list::{self, ListedRate},
            refresh,
        },
    },
    http::{contract::described::DescribedDocument, gate::page::require_own_origin, operation::*},
    ports::{
        off_ramp::OffRampControls,
        rates::RateControls,
        sandbox::{SandboxWallet, TimeMachine, WalletCall},
        screening::ScreeningControls,
    },
};
use alloy::primitives::U256;
use chrono::TimeDelta;
use poem::{Endpoint, EndpointExt, Request, Route};
use poem_openapi::OpenApiService;
use serde_json::Value;
use std::sync::Arc;

/// Dependencies of the developer endpoints.
#[derive(Clone)]
pub struct DevRoom {
    /// Clock of the service and of its chain.
    pub time: Arc<dyn TimeMachine>,
    /// Controls of the rate sandbox.
    pub rates: Arc<dyn RateControls>,
    /// Controls of the screening sandbox.
    pub screening: Arc<dyn ScreeningControls>,
    /// Controls of the off-ramp partner.
    pub off_ramp: Arc<dyn OffRampControls>,
    /// A wallet of the local chain.
    pub wallet: Arc<dyn SandboxWallet>,
    /// Credentials and examples for the documentation.
    pub lent: LentKeys,
}

/// Credentials of this run, and the payee and currency of the examples.
#[derive(Clone)]
pub struct LentKeys {
    /// API key.
    pub api_key: String,
    /// Client ID of a backend.
    pub client_id: String,
    /// Key of an orchestrator.
    pub orchestrator_key: String,
    /// Session of the payee wallet.
    pub session: String,
    /// Payee of the examples.
    pub payee: Address,
    /// Currency id of the examples.
    pub currency: String,
}

/// Adds the developer endpoints to the routes of the service.
pub fn routes(routes: Route, room: DevRoom) -> Route {
    let service = OpenApiService::new(DescribedDocument(Dev), "", "");
    routes.nest_no_strip("/_dev", service.data(room).around(of_own_page))
}

/// OpenAPI document of the developer endpoints, as text. The service takes the path templates for log lines and the
/// `Allow` headers from it.
pub fn document() -> String {
    OpenApiService::new(DescribedDocument(Dev), "", "").spec()
}

async fn of_own_page<E: Endpoint>(endpoint: Arc<E>, request: Request) -> poem::Result<E::Output> {
    let own = request.data::<Ctx>().map(|ctx| ctx.own_pages.origin.clone());
    require_own_origin(&request, &own.unwrap_or_default())?;
    endpoint.call(request).await
}

/// Clock change.
#[derive(Debug, Clone, Object)]
pub struct MoveClockBody {
    /// Seconds forward, at most 366 days. Example: `86400`
    #[oai(validator(minimum(value = "1"), maximum(value = "31622400")))]
    pub seconds: u32,
}

/// New time of the clock.
#[derive(Debug, Clone, Object)]
pub struct ClockMoved {
    /// Current time of the service
    pub now: Instant,
}

/// Changes to the rate sandbox; absent members stay unchanged.
#[derive(Debug, Clone, Object)]
pub struct ChangeRatesBody {
    /// Token whose price changes. Example: `USDC`
    pub token: Option<SymbolText>,
    /// Fiat currency of the price. Example: `USD`
    pub currency: Option<SymbolText>,
    /// Price of one token. Example: `0.98`
    pub price: Option<AmountText>,
    /// Whether all prices are a day old. Example: `false`
    pub stale: Option<bool>,
    /// Whether the sandbox returns an error. Example: `false`
    pub down: Option<bool>,
}

/// A rate as the service currently uses it.
#[derive(Debug, Clone, Object)]
pub struct RateNow {
    /// Token
    pub token: SymbolText,
    /// Fiat currency
    pub currency: SymbolText,
    /// Units of the currency for one token; null if there is no rate
    pub rate: OrNull<AmountText>,
    /// Why there is no rate; null if there is one. Example: `the last rate is too old`
    #[oai(validator(max_length = 200))]
    pub why: OrNull<String>,
}

/// All rates after the sandbox was read.
#[derive(Debug, Clone, Object)]
pub struct RatesChanged {
    /// One rate for each pair of token and currency that a quote may need
    #[oai(validator(max_items = 1000))]
    pub rates: Vec<RateNow>,
}

words! {
    /// How the screening sandbox responds for a wallet
    SandboxAnswer as "SandboxAnswer";
    /// How the off-ramp partner of `prs dev` behaves
    OffRampBehaviour as "OffRampBehaviour";
}

/// Screening result for a wallet.
#[derive(Debug, Clone, Object)]
pub struct ScreenWalletBody {
    /// Wallet address; the lookup ignores the letter case of EVM addresses
    pub wallet: WalletText,
    /// The result: `approved` (the default for every wallet), `rejected`, `error`, or `hang` for no response in time
    pub outcome: SandboxAnswer,
    /// Provider that returns this result; if absent, both providers return it
    pub provider: Option<ScreeningProvider>,
}

/// The new screening result.
#[derive(Debug, Clone, Object)]
pub struct WalletScreened {
    /// The wallet
    pub wallet: WalletText,
    /// The result from now on
    pub outcome: SandboxAnswer,
    /// Provider that returns this result; null if both providers return it
    pub provider: OrNull<ScreeningProvider>,
}

/// New behaviour of the off-ramp partner.
#[derive(Debug, Clone, Object)]
pub struct ChangeOffRampBody {
    /// The behaviour: `normal` (the default); `slow` for responses after two seconds; `hang` for no response in time;
    /// `down` for a 503; `silent` for lost callbacks; `wrong_address`, `other_payer` and `stale_version` for false data
    pub behaviour: OffRampBehaviour,
}

/// The new behaviour of the off-ramp partner.
#[derive(Debug, Clone, Object)]
pub struct OffRampChanged {
    /// The behaviour from now on
    pub behaviour: OffRampBehaviour,
}

/// Credentials by the names of their security schemes in the OpenAPI documents.
#[derive(Debug, Clone, Object)]
pub struct LentCredentials {
    /// API key
    #[oai(rename = "ApiKey", validator(max_length = 200))]
    pub api_key: String,
    /// Client ID of a backend
    #[oai(rename = "ClientId", validator(max_length = 200))]
    pub client_id: String,
    /// Key of an orchestrator
    #[oai(rename = "OrchestratorKey", validator(max_length = 200))]
    pub orchestrator_key: String,
    /// Session of the payee wallet
    #[oai(rename = "SessionBearer", validator(max_length = 200))]
    pub session: String,
}

/// Credentials and example values for the documentation.
#[derive(Debug, Clone, Object)]
pub struct KeysLent {
    /// Credentials of this run
    pub credentials: LentCredentials,
    /// Payee wallet
    pub payee: WalletText,
    /// Payer wallet
    pub payer: WalletText,
    /// Currency that the payer holds
    pub currency: CurrencyIdText,
}

/// A transaction from a response.
#[derive(Debug, Clone, Object)]
pub struct WalletTransaction {
    /// Calldata
    #[oai(validator(max_length = 100000, pattern = "^0x([0-9a-f]{2})*$"))]
    pub data: String,
    /// Contract to call
    pub to: WalletText,
    /// Native coin to send, in its smallest unit: a hexadecimal text, an object with `hex`, or 0, as the operations
    /// return it. Example: `"0x0"`
    pub value: Value,
}

/// Transactions for the wallet of the local chain to sign.
#[derive(Debug, Clone, Object)]
pub struct SignBody {
    /// Transactions from a response, in the same order
    #[oai(validator(min_items = 1, max_items = 100))]
    pub transactions: Vec<WalletTransaction>,
}

/// Transactions that the wallet sent.
#[derive(Debug, Clone, Object)]
pub struct TransactionsSent {
    /// Transaction hashes, in the order of the transactions
    #[oai(validator(min_items = 1, max_items = 100))]
    pub hashes: Vec<TxHash>,
}

/// Parses the value of a transaction in each form that the operations return.
fn native_units(value: &Value) -> Option<U256> {
    if let Some(number) = value.as_u64() {
        return Some(U256::from(number));
    }
    let text = value.as_str().or_else(|| value["hex"].as_str())?;
    U256::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn calls(transactions: &[WalletTransaction]) -> Result<Vec<WalletCall>, Refusal> {
    let mut checks = Checks::new();
    let mut calls = Vec::new();
    for (index, transaction) in transactions.iter().enumerate() {
        let field = |name: &str| format!("transactions[{index}].{name}");
        let WalletTransaction { data, to, value } = transaction;
        let to = match to.value() {
            Ok(Address::Evm(to)) => Some(to),
            _ => {
                checks.fail(field("to"), "must be a contract address: 0x and 40 hexadecimal digits");
                None
            }
        };
        let data = hex::decode(data);
        if data.is_err() {
            checks.fail(field("data"), "must be 0x and an even number of hexadecimal digits");
        }
        let value = native_units(value);
        if value.is_none() {
            let sentence = "must be a number, a text of 0x and at most 64 hexadecimal digits, or an object with such \
                            a text in its member `hex`";
            checks.fail(field("value"), sentence);
        }
        if let (Some(to), Ok(data), Some(value)) = (to, data, value) {
            calls.push(WalletCall { to, data, value });
        }
    }
    checks.finish_with(Some(calls))
}

fn change(body: ChangeRatesBody, known: &[String]) -> Result<RateChange, Refusal> {
    let mut checks = Checks::new();
    let ChangeRatesBody {
        token,
        currency,
        price,
        stale,
        down,
    } = body;
    let price = match (token, currency, price) {
        (None, None, None) => None,
        (Some(token), Some(currency), Some(price)) => {
            let pair = Pair::new(&token.as_str().to_uppercase(), &currency.as_str().to_uppercase());
            if !known.contains(&pair.symbol) {
                checks.fail("token", format!("must be one of {}", known.join(", ")));
            }
            let rate = Rate::parse(price.as_str()).map_err(|why| why.to_string());
            checks.take("price", rate).map(|rate| (pair, rate))
        }
        _ => {
            checks.fail("price", "must be sent together with token and currency");
            None
        }
    };
    checks.finish()?;
    Ok(RateChange {
        price,
        is_stale: stale,
        is_down: down,
    })
}

/// Reads the rate sandbox. Errors are only logged, since the developer may have set the sandbox to fail.
async fn read_rates(ctx: &Ctx) {
    if let Err(error) = refresh::now_once(ctx).await {
        tracing::info!(%error, "the rate sandbox could not be read; the service keeps its current rates");
    }
}

fn rate_now(listed: ListedRate) -> RateNow {
    RateNow {
        token: SymbolText::written(listed.pair.symbol),
        currency: SymbolText::written(listed.pair.invoice),
        rate: OrNull(listed.now.ok().map(|applied| AmountText::written(applied.rate))),
        why: OrNull(listed.now.err().map(|flaw| flaw.sentence().to_owned())),
    }
}

/// The developer endpoints.
pub struct Dev;

#[OpenApi(prefix_path = "/_dev")]
impl Dev {
    /// Move the clock forward
    ///
    /// The service then does everything that is due by the new time: retries, expiry of sessions and stored responses,
    /// periods of recurring requests. The local chain mines a block at the new time.
    ///
    /// 200: The new time
    #[oai(path = "/clock", method = "post", operation_id = "moveClock")]
    async fn clock(
        &self,
        ctx: Data<&Ctx>,
        room: Data<&DevRoom>,
        body: Body<MoveClockBody>,
    ) -> Result<Json<ClockMoved>, Fail<{ s::BAD_REQUEST }>> {
        let moved = room.time.forward(TimeDelta::seconds(body.seconds.into())).await;
        let now = moved.map_err(|error| FlowError::from(Fault(error)))?;
        ctx.due.notify_one();
        // The change of the clock made the stored rates older.
        read_rates(&ctx).await;
        Ok(Json(ClockMoved { now: Instant(now) }))
    }

    /// Change the rate sandbox
    ///
    /// The service reads the feed at once. The sandbox serves prices over HTTP in the format of a real feed, so the
    /// usual checks apply: a price far from the last one is held back until it persists or the operator accepts it with
    /// `prs admin rates accept`.
    ///
    /// 200: All rates as the service uses them now
    #[oai(path = "/rates", method = "post", operation_id = "changeRates")]
    async fn rates(
        &self,
        ctx: Data<&Ctx>,
        room: Data<&DevRoom>,
        body: Body<ChangeRatesBody>,
    ) -> Result<Json<RatesChanged>, Fail<{ s::BAD_REQUEST }>> {
        room.rates.change(&change(body.0, &room.rates.symbols())?);
        read_rates(&ctx).await;
        let listed = list::run(&ctx).await?;
        Ok(Json(RatesChanged {
            rates: listed.into_iter().map(rate_now).collect(),
        }))
    }

    /// Get the credentials of this run
    ///
    /// The documentation pages insert these credentials into their examples.
    ///
    /// 200: The credentials, and two wallets of the local chain
    #[oai(path = "/keys", method = "get", operation_id = "getLentKeys")]
    async fn keys(&self, room: Data<&DevRoom>) -> Result<Json<KeysLent>, Fail<0>> {
        let LentKeys {
            api_key,
            client_id,
            orchestrator_key,
            session,
            payee,
            currency,
        } = room.lent.clone();
        Ok(Json(KeysLent {
            credentials: LentCredentials {
                api_key,
                client_id,
                orchestrator_key,
                session,
            },
            payee: WalletText::written(payee),
            payer: WalletText::written(room.wallet.address()),
            currency: CurrencyIdText::written(currency),
        }))
    }

    /// Accept a webhook delivery
    ///
    /// The receiver for the webhook endpoints in the documentation examples. It accepts everything and stores nothing.
    ///
    /// 200: Accepted
    #[oai(path = "/webhooks", method = "post", operation_id = "takeDelivery")]
    async fn webhooks(&self, _body: Json<Value>) -> Result<Json<Success>, Fail<0>> {
        Ok(Success::done())
    }

    /// Sign and send transactions with a wallet of the local chain
    ///
    /// Plays the payer for the transactions that an operation returns.
    ///
    /// 200: The sent transactions; all are mined
    #[oai(path = "/wallet", method = "post", operation_id = "signTransactions")]
    async fn wallet(
        &self,
        room: Data<&DevRoom>,
        body: Body<SignBody>,
    ) -> Result<Json<TransactionsSent>, Fail<{ s::BAD_REQUEST | s::CONFLICT }>> {
        let calls = calls(&body.0.transactions)?;
        let sent = room.wallet.send(&calls).await;
        let hashes =
            sent.map_err(|error| Refusal::conflict(format!("The local chain rejected the transactions: {error:#}")))?;
        Ok(Json(TransactionsSent {
            hashes: hashes.into_iter().map(TxHash::written).collect(),
        }))
    }

    /// Change the screening result of a wallet
    ///
    /// Payments that were screened before the change keep their result. If one provider fails, the service queries the
    /// other.
    ///
    /// 200: The result that is valid from now on
    #[oai(path = "/screening", method = "post", operation_id = "changeScreening")]
    async fn screening(
        &self,
        room: Data<&DevRoom>,
        body: Body<ScreenWalletBody>,
    ) -> Result<Json<WalletScreened>, Fail<{ s::BAD_REQUEST }>> {
        let ScreenWalletBody {
            wallet,
            outcome,
            provider,
        } = body.0;
        let mut checks = Checks::new();
        let address = checks.take("wallet", wallet.value());
        let address = checks.finish_with(address)?;
        room.screening.answer(&address, provider, outcome);
        Ok(Json(WalletScreened {
            wallet,
            outcome,
            provider: OrNull(provider),
        }))
    }

    /// Change how the off-ramp partner behaves
    ///
    /// Calls in progress and callbacks already sent are unaffected.
    ///
    /// 200: The behaviour that is valid from now on
    #[oai(path = "/offramp", method = "post", operation_id = "changeOffRamp")]
    async fn off_ramp(
        &self,
        room: Data<&DevRoom>,
        body: Body<ChangeOffRampBody>,
    ) -> Result<Json<OffRampChanged>, Fail<{ s::BAD_REQUEST }>> {
        let behaviour = body.0.behaviour;
        room.off_ramp.behave(behaviour);
        Ok(Json(OffRampChanged { behaviour }))
    }
}
