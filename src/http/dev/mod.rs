//! What a developer does to a local service: the room `/_dev`, which `prs dev` alone opens and no document shows.
//!
//! A call shows no credential, so none may come from a page of somebody else: [`routes`] asks for the own origin and the
//! own host, and for JSON, which a foreign page cannot send without being asked for permission.

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
    http::{contract::described::Described, gate::page::require_own_origin, operation::*},
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

/// What the room works on.
#[derive(Clone)]
pub struct Room {
    /// Time of the service and of its chain.
    pub time: Arc<dyn TimeMachine>,
    /// What the sandbox of rates tells.
    pub rates: Arc<dyn RateControls>,
    /// What the sandbox of screening answers.
    pub screening: Arc<dyn ScreeningControls>,
    /// How the off-ramp partner behaves.
    pub off_ramp: Arc<dyn OffRampControls>,
    /// A wallet of the local chain.
    pub wallet: Arc<dyn SandboxWallet>,
    /// What the documentation is given to work with.
    pub lent: Lent,
}

/// Credentials of this run, and who is paid in what.
#[derive(Clone)]
pub struct Lent {
    /// API key.
    pub api_key: String,
    /// Client ID of a backend.
    pub client_id: String,
    /// Key of an orchestrator.
    pub orchestrator_key: String,
    /// Session of the wallet that is paid.
    pub session: String,
    /// Who is paid.
    pub payee: Address,
    /// Id of the currency.
    pub currency: String,
}

/// Adds the room to the routes of the service.
pub fn routes(routes: Route, room: Room) -> Route {
    let service = OpenApiService::new(Described(Dev), "", "");
    routes.nest_no_strip("/_dev", service.data(room).around(of_own_page))
}

/// The paths of the room, for logs and for `Allow`.
pub fn document() -> String {
    OpenApiService::new(Described(Dev), "", "").spec()
}

async fn of_own_page<E: Endpoint>(endpoint: Arc<E>, request: Request) -> poem::Result<E::Output> {
    let own = request.data::<Ctx>().map(|ctx| ctx.own_pages.origin.clone());
    require_own_origin(&request, &own.unwrap_or_default())?;
    endpoint.call(request).await
}

/// How far the clock moves.
#[derive(Debug, Clone, Object)]
pub struct MoveClockBody {
    /// Seconds forward, at most 366 days. Example: `86400`
    #[oai(validator(minimum(value = "1"), maximum(value = "31622400")))]
    pub seconds: u32,
}

/// Where the clock stands.
#[derive(Debug, Clone, Object)]
pub struct ClockMoved {
    /// What the clock of the service shows now
    pub now: Instant,
}

/// What the sandbox of rates tells from now on; what is absent stays as it is.
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
    /// Whether it answers with an error. Example: `false`
    pub down: Option<bool>,
}

/// A rate as the service knows it.
#[derive(Debug, Clone, Object)]
pub struct RateNow {
    /// Token
    pub token: SymbolText,
    /// Fiat currency
    pub currency: SymbolText,
    /// Units of the currency for one token; null where there is no rate
    pub rate: OrNull<AmountText>,
    /// Why there is none; null where there is one. Example: `the last one is too old`
    #[oai(validator(max_length = 200))]
    pub why: OrNull<String>,
}

/// Every rate after a reading of the sandbox.
#[derive(Debug, Clone, Object)]
pub struct RatesChanged {
    /// One for each token and currency that a quote may need
    #[oai(validator(max_items = 1000))]
    pub rates: Vec<RateNow>,
}

words! {
    /// What the sandbox does when it is asked about a wallet
    SandboxAnswer as "SandboxAnswer";
    /// How the off-ramp partner of `prs dev` behaves
    OffRampBehaviour as "OffRampBehaviour";
}

/// What the sandbox of screening answers about a wallet from now on.
#[derive(Debug, Clone, Object)]
pub struct ScreenWalletBody {
    /// The wallet, an EVM one in any case
    pub wallet: WalletText,
    /// The answer: `approved`, as about every wallet at first, `rejected`, `error`, or `hang` for none in time
    pub outcome: SandboxAnswer,
    /// Which provider answers so; absent, both
    pub provider: Option<ScreeningProvider>,
}

/// What the sandbox of screening was told.
#[derive(Debug, Clone, Object)]
pub struct WalletScreened {
    /// The wallet
    pub wallet: WalletText,
    /// The answer from now on
    pub outcome: SandboxAnswer,
    /// Which provider answers so; null for both
    pub provider: OrNull<ScreeningProvider>,
}

/// How the off-ramp partner behaves from now on.
#[derive(Debug, Clone, Object)]
pub struct ChangeOffRampBody {
    /// The behaviour: `normal`, as at first; `slow` for answers after two seconds, `hang` for none in time, `down` for a 503;
    /// `silent` for callbacks that are lost; `wrong_address`, `other_payer` and `stale_version` for lies
    pub behaviour: OffRampBehaviour,
}

/// What the off-ramp partner was told.
#[derive(Debug, Clone, Object)]
pub struct OffRampChanged {
    /// Its behaviour from now on
    pub behaviour: OffRampBehaviour,
}

/// Credentials by the names of their schemes in the documents.
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
    /// Session of the wallet that is paid
    #[oai(rename = "SessionBearer", validator(max_length = 200))]
    pub session: String,
}

/// What the documentation works with.
#[derive(Debug, Clone, Object)]
pub struct KeysLent {
    /// Credentials of this run
    pub credentials: LentCredentials,
    /// Wallet that is paid
    pub payee: WalletText,
    /// Wallet that pays
    pub payer: WalletText,
    /// Currency in which it has money
    pub currency: CurrencyIdText,
}

/// A transaction of an answer.
#[derive(Debug, Clone, Object)]
pub struct WalletTransaction {
    /// Encoded call
    #[oai(validator(max_length = 100000, pattern = "^0x([0-9a-f]{2})*$"))]
    pub data: String,
    /// Contract that is called
    pub to: WalletText,
    /// Native coin that goes with it, in its smallest unit: a hexadecimal text, an object with `hex`, or 0, as the operations
    /// answer it. Example: `"0x0"`
    pub value: Value,
}

/// What the wallet of the local chain signs.
#[derive(Debug, Clone, Object)]
pub struct SignBody {
    /// The transactions of an answer, in its order
    #[oai(validator(min_items = 1, max_items = 100))]
    pub transactions: Vec<WalletTransaction>,
}

/// What the wallet sent.
#[derive(Debug, Clone, Object)]
pub struct TransactionsSent {
    /// Hashes in the order of the transactions
    #[oai(validator(min_items = 1, max_items = 100))]
    pub hashes: Vec<TxHash>,
}

/// The value of a transaction in each form in which the operations answer it.
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
                checks.fail(
                    field("to"),
                    "must be the address of a contract: 0x and 40 hexadecimal digits",
                );
                None
            }
        };
        let data = hex::decode(data);
        if data.is_err() {
            checks.fail(field("data"), "must be 0x and an even count of hexadecimal digits");
        }
        let value = native_units(value);
        if value.is_none() {
            let sentence =
                "must be 0x and at most 64 hexadecimal digits, an object with such a text as hex, or a number";
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
            checks.fail("price", "must come together with token and currency");
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

/// Reads the sandbox of rates. That it does not answer is what somebody asked for.
async fn read_rates(ctx: &Ctx) {
    if let Err(error) = refresh::now_once(ctx).await {
        tracing::info!(%error, "the sandbox of rates was read");
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

/// The room.
pub struct Dev;

#[OpenApi(prefix_path = "/_dev")]
impl Dev {
    /// Move the clock forward
    ///
    /// Everything that is due by then happens: retries, ends of sessions and of kept answers, periods of recurring
    /// requests. The local chain makes a block at the new time.
    ///
    /// 200: What the clock shows now
    #[oai(path = "/clock", method = "post", operation_id = "moveClock")]
    async fn clock(
        &self,
        ctx: Data<&Ctx>,
        room: Data<&Room>,
        body: Body<MoveClockBody>,
    ) -> Result<Json<ClockMoved>, Fail<{ s::BAD_REQUEST }>> {
        let moved = room.time.forward(TimeDelta::seconds(body.seconds.into())).await;
        let now = moved.map_err(|error| FlowError::from(Fault(error)))?;
        ctx.due.notify_one();
        // The rates of before are as old as the clock has moved.
        read_rates(&ctx).await;
        Ok(Json(ClockMoved { now: Instant(now) }))
    }

    /// Change what the sandbox of rates tells
    ///
    /// The feed is read at once. It tells prices in the shape of a real one over HTTP, so what it tells is judged like
    /// that: a price that is far from the last one is held back until it has held, or until `prs admin rates accept`.
    ///
    /// 200: Every rate as the service knows it then
    #[oai(path = "/rates", method = "post", operation_id = "changeRates")]
    async fn rates(
        &self,
        ctx: Data<&Ctx>,
        room: Data<&Room>,
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
    /// For the documentation, which fills them in.
    ///
    /// 200: The credentials, and two wallets of the local chain
    #[oai(path = "/keys", method = "get", operation_id = "getLentKeys")]
    async fn keys(&self, room: Data<&Room>) -> Result<Json<KeysLent>, Fail<0>> {
        let Lent {
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

    /// Take a delivery
    ///
    /// The receiver of the endpoints that the examples of the documents name. It takes everything, and keeps nothing.
    ///
    /// 200: It is taken
    #[oai(path = "/webhooks", method = "post", operation_id = "takeDelivery")]
    async fn webhooks(&self, _body: Json<Value>) -> Result<Json<Success>, Fail<0>> {
        Ok(Success::done())
    }

    /// Have a wallet of the local chain sign and send transactions
    ///
    /// What a payer does with the transactions that an operation answers.
    ///
    /// 200: What was sent; all of it is mined
    #[oai(path = "/wallet", method = "post", operation_id = "signTransactions")]
    async fn wallet(
        &self,
        room: Data<&Room>,
        body: Body<SignBody>,
    ) -> Result<Json<TransactionsSent>, Fail<{ s::BAD_REQUEST | s::CONFLICT }>> {
        let calls = calls(&body.0.transactions)?;
        let sent = room.wallet.send(&calls).await;
        let hashes = sent.map_err(|error| Refusal::conflict(format!("The local chain does not take it: {error:#}")))?;
        Ok(Json(TransactionsSent {
            hashes: hashes.into_iter().map(TxHash::written).collect(),
        }))
    }

    /// Change what the sandbox of screening answers about a wallet
    ///
    /// What was found before is kept with each payment. With one provider that fails, the other one is asked.
    ///
    /// 200: What it answers from now on
    #[oai(path = "/screening", method = "post", operation_id = "changeScreening")]
    async fn screening(
        &self,
        room: Data<&Room>,
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
    /// Calls that are under way and callbacks that were sent stay as they are.
    ///
    /// 200: Its behaviour from now on
    #[oai(path = "/offramp", method = "post", operation_id = "changeOffRamp")]
    async fn off_ramp(
        &self,
        room: Data<&Room>,
        body: Body<ChangeOffRampBody>,
    ) -> Result<Json<OffRampChanged>, Fail<{ s::BAD_REQUEST }>> {
        let behaviour = body.0.behaviour;
        room.off_ramp.behave(behaviour);
        Ok(Json(OffRampChanged { behaviour }))
    }
}
