//! What the examples of the documents name, made at the start of `prs dev`: whoever executes one as it stands gets what the
//! document says.
//!
//! It comes about by the operations of the service, with their own examples as bodies. What these draw by chance is told
//! beforehand, so that it is the same in every run. A database that was kept has it already, as it was left.

use super::{process::Process, role::Role, serve};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        ids::{ClientRowId, PlatformId, Secret},
        registration::Registration,
    },
    flows::auth::{challenge, verify},
    http::{
        client_ids::{ClientRowText, CreateClientIdBody},
        forms::{
            payer_step::PayerStepBody,
            recurrence::StartDayText,
            wire::{ClientUserIdText, NameText, UlidText, UuidText},
        },
        payers::{PaymentDetailsBody, RegisterPayerBody},
        payouts::CreatePayoutBody,
        requests::CreateRequestBody,
        secure_payments::{CombinePayoutsBody, CreateSecurePaymentBody, CreateSecurePayoutBody},
    },
    ports::ids::Ids,
    settings::Settings,
    store,
};
use alloy::{
    primitives::B256,
    signers::{SignerSync, local::PrivateKeySigner},
};
use anyhow::Context;
use poem::{
    Endpoint, Request, Response,
    endpoint::BoxEndpoint,
    http::{HeaderName, Method, header},
};
use poem_openapi::types::{Example, ToJSON};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

/// The orchestrator.
pub(super) const ORCHESTRATOR: &str = "01JZX4T9QK3M7N8P2R5S6V0WYF";

/// The endpoint of the orchestrator: that of the platform has the id that all other examples name.
const ORCHESTRATOR_ENDPOINT: &str = "01JZX4T9QK3M7N8P2R5S6V0WYE";

/// Days that events are kept: the id of the one that the examples name says that it is old.
pub(super) const RETENTION_DAYS: u32 = 3_650;

/// Who has an account.
const EMAIL: &str = "ada@example.com";
const PASSWORD: &str = "correct horse battery staple";

/// The longest time for which a link can be paid.
const LINK_S: u32 = 7_776_000;

/// Draws what was told beforehand, and what another one draws once that is used up.
pub(super) struct Foretold {
    told: Mutex<Draws>,
    further: Arc<dyn Ids>,
}

/// What is drawn next. `None` stands for an id that no example names.
#[derive(Default)]
struct Draws {
    ulids: VecDeque<Option<String>>,
    bytes: VecDeque<Vec<u8>>,
}

impl Foretold {
    /// Draws these ids first.
    pub(super) fn ulids(ctx: &Ctx, ulids: &[&str]) -> Ctx {
        let ids = Self::beside(ctx);
        ids.tell(Draws {
            ulids: ulids.iter().map(|ulid| Some((*ulid).to_owned())).collect(),
            ..Draws::default()
        });
        Ctx { ids, ..ctx.clone() }
    }

    fn beside(ctx: &Ctx) -> Arc<Self> {
        Arc::new(Self {
            told: Mutex::default(),
            further: ctx.ids.clone(),
        })
    }

    fn tell(&self, draws: Draws) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = draws;
    }
}

impl Ids for Foretold {
    fn ulid(&self) -> String {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let next = told.ulids.pop_front().flatten();
        next.unwrap_or_else(|| self.further.ulid())
    }

    fn fill(&self, buffer: &mut [u8]) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let next = told.bytes.front().filter(|bytes| bytes.len() == buffer.len());
        match next.is_some().then(|| told.bytes.pop_front()).flatten() {
            Some(bytes) => buffer.copy_from_slice(&bytes),
            None => self.further.fill(buffer),
        }
    }
}

/// A credential, by its header.
type Key<'a> = (HeaderName, &'a str);

/// A call that makes something.
struct Making<'a> {
    path: String,
    by: Option<Key<'a>>,
    body: Value,
    draws: Draws,
}

impl<'a> Making<'a> {
    fn new(path: impl Into<String>, by: &Key<'a>, body: Value) -> Self {
        Self {
            path: path.into(),
            by: Some(by.clone()),
            body,
            draws: Draws::default(),
        }
    }

    /// The call draws these ids.
    fn ulids<const N: usize>(mut self, ulids: [Option<&str>; N]) -> Self {
        self.draws.ulids = ulids.into_iter().map(|ulid| ulid.map(str::to_owned)).collect();
        self
    }

    /// The call draws the id and the salt of a request out of this byte.
    fn request(mut self, byte: u8) -> Self {
        self.draws.bytes = [vec![byte; 32], vec![byte; 8]].into();
        self
    }
}

/// Who calls.
pub(super) struct Callers<'a> {
    pub(super) platform: &'a PlatformId,
    pub(super) api_key: &'a str,
    pub(super) orchestrator_key: &'a str,
    pub(super) session: &'a str,
    /// A wallet that can pay.
    pub(super) payer: Address,
}

/// Makes what is not there yet. What the settings of the environment do not allow is left out and logged.
pub(super) async fn make(settings: &Settings, ctx: &Ctx, callers: &Callers<'_>) -> anyhow::Result<()> {
    let last = ClientRowId(ClientRowText::EXAMPLE.to_owned());
    if store::client_ids::find(ctx.db.reader(), callers.platform, &last)
        .await?
        .is_some()
    {
        return Ok(());
    }
    let ids = Foretold::beside(ctx);
    let own = Ctx {
        ids: ids.clone(),
        ..ctx.clone()
    };
    let app = serve::app(settings, &own, &Process::new(Role::Api));
    for making in makings(settings, ctx, callers)? {
        let path = making.path.clone();
        ids.tell(making.draws);
        let call = call(&making.path, making.by, &making.body)?;
        if let Err(why) = made(&app, call).await {
            tracing::warn!(path, why, "an example of the documents names what is not there");
        }
    }
    Ok(())
}

/// The calls, in their order. The last one makes what tells that all was made.
fn makings<'a>(settings: &Settings, ctx: &Ctx, callers: &Callers<'a>) -> anyhow::Result<Vec<Making<'a>>> {
    let platform: Key<'a> = (HeaderName::from_static("x-api-key"), callers.api_key);
    let orchestrator: Key<'a> = (HeaderName::from_static("x-orchestrator-key"), callers.orchestrator_key);
    let person: Key<'a> = (header::AUTHORIZATION, callers.session);
    let one = UlidText::EXAMPLE;
    let payer = ClientUserIdText::EXAMPLE;
    let receiver = json!({ "url": format!("{}/_dev/webhooks", settings.public_url()) });
    let details = hex::decode(UuidText::EXAMPLE.replace('-', "")).context("the example of a UUID")?;
    let mut account = Making::new(
        format!("/v2/payer/{payer}/payment-details"),
        &platform,
        json(&PaymentDetailsBody::example()),
    );
    account.draws.bytes = [details].into();
    let mut schedule = Making::new(
        "/v2/payouts",
        &platform,
        with(
            &CreatePayoutBody::example(),
            "recurrence",
            json!({
                "startDate": StartDayText::EXAMPLE,
                "frequency": "MONTHLY",
                "totalPayments": 12,
                "payer": callers.payer.to_string(),
            }),
        ),
    )
    .ulids([Some(one)])
    .request(3);
    // What its payer signs has this nonce, and the example of the signature is over that.
    schedule.draws.bytes.push_back(vec![3; 32]);
    let recurrence = json!({ "startDate": StartDayText::EXAMPLE, "frequency": "MONTHLY" });
    let repeated = with(&CreateRequestBody::example(), "recurrence", recurrence);
    let lasting = with(&CreateSecurePaymentBody::example(), "expiresIn", json!(LINK_S));
    let payout = with(&CreateSecurePayoutBody::example(), "expiresIn", json!(LINK_S));
    let mut makings = vec![
        Making::new("/v2/payer", &platform, json(&RegisterPayerBody::example())),
        account,
        Making::new("/v2/request", &platform, repeated).request(1),
        schedule,
        Making::new("/v2/secure-payments", &platform, lasting)
            .ulids([None, None, Some(one)])
            .request(2),
    ];
    for token in CombinePayoutsBody::example().tokens {
        let making = Making::new("/v2/secure-payments/payouts", &platform, payout.clone());
        makings.push(making.ulids([None, None, Some(token.as_str())]));
    }
    makings.extend([
        Making::new("/v1/webhook", &platform, receiver.clone()).ulids([Some(one)]),
        Making::new("/v2/orchestrators/webhooks", &orchestrator, receiver).ulids([Some(ORCHESTRATOR_ENDPOINT)]),
        // The event and its delivery.
        Making::new(
            format!("/v2/secure-payments/{one}/events"),
            &platform,
            json(&PayerStepBody::example()),
        )
        .ulids([Some(one), Some(one)]),
        Making::new("/v1/api-keys", &person, json!({ "label": NameText::EXAMPLE })).ulids([Some(one)]),
    ]);
    if ctx.people.registration == Registration::Open {
        makings.push(Making {
            path: "/v1/auth/register".to_owned(),
            by: None,
            body: json!({ "email": EMAIL, "password": PASSWORD }),
            draws: Draws::default(),
        });
    }
    makings.push(
        Making::new("/v2/client-ids", &platform, json(&CreateClientIdBody::example()))
            .ulids([Some(ClientRowText::EXAMPLE)]),
    );
    Ok(makings)
}

fn json(body: &impl ToJSON) -> Value {
    body.to_json().unwrap_or_default()
}

/// A body with a member more.
fn with(body: &impl ToJSON, member: &str, value: Value) -> Value {
    let mut body = json(body);
    body[member] = value;
    body
}

fn call(path: &str, by: Option<Key<'_>>, body: &Value) -> anyhow::Result<Request> {
    let mut call = Request::builder()
        .method(Method::POST)
        .uri(path.parse().with_context(|| path.to_owned())?)
        // Without one the call would draw an id.
        .header("x-request-id", "prs-dev")
        .content_type("application/json");
    if let Some((name, value)) = by {
        call = call.header(name, value);
    }
    let body = body.to_string();
    Ok(call.header(header::CONTENT_LENGTH, body.len()).body(body))
}

/// Makes a call. Errors: what it was refused with.
async fn made(app: &BoxEndpoint<'static, Response>, call: Request) -> Result<(), String> {
    let answer = app.get_response(call).await;
    if answer.status().is_success() {
        return Ok(());
    }
    Err(answer.into_body().into_string().await.unwrap_or_default())
}

/// Signs a wallet of the local chain in; returns what it shows from then on.
pub(super) async fn sign_in(ctx: &Ctx, wallet: Address, key: &B256) -> anyhow::Result<Secret> {
    let challenge = challenge::run(ctx, wallet).await?;
    let signature = PrivateKeySigner::from_bytes(key)?.sign_message_sync(challenge.message.as_bytes())?;
    let proof = verify::WalletProof {
        challenge: challenge.id,
        nonce: challenge.nonce,
        message: challenge.message,
        signature: signature.as_bytes().to_vec(),
        invite: None,
    };
    let (_, signed_in) = verify::run(ctx, &proof).await?;
    Ok(signed_in.token)
}
