//! What a developer does to a local service: the room `/_dev`, which `prs dev` alone opens and no document shows.
//!
//! A call shows no credential, so none may come from a page of somebody else: [`routes`] asks for the own origin and the
//! own host, and for JSON, which a foreign page cannot send without being asked for permission.

use crate::{
    domain::{
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
    ports::{off_ramp::OffRampControls, rates::RateControls, sandbox::TimeMachine, screening::ScreeningControls},
};
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
}

/// Adds the room to the routes of the service.
pub fn routes(routes: Route, room: Room) -> Route {
    let service = OpenApiService::new(Described(Dev), "", "");
    routes.nest_no_strip("/_dev", service.data(room).around(of_own_page))
}

/// The paths of the room, for logs and for `Allow`.
pub fn document() -> Option<Value> {
    serde_json::from_str(&OpenApiService::new(Described(Dev), "", "").spec()).ok()
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
        if let Err(error) = refresh::now_once(&ctx).await {
            // That it does not answer is what was asked for.
            tracing::info!(%error, "the sandbox of rates was read");
        }
        let listed = list::run(&ctx).await?;
        Ok(Json(RatesChanged {
            rates: listed.into_iter().map(rate_now).collect(),
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
