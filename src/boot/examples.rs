//! Creates the objects in the examples of the API documents when `prs dev` starts, so that an example executed
//! unchanged returns the documented response.
//!
//! The operations of the service create the objects, with their documented examples as bodies. Random ids are fixed in
//! advance, so that every run has the same ids. An existing database already has the objects, in their last state.

use super::{process::Process, role::Role, serve};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        ids::{ClientRowId, PlatformId, Secret},
        registration::Registration,
    },
    flows::{
        auth::{challenge, verify},
        client_ids::create::ALPHABET,
    },
    http::{
        client_ids::{ClientRowText, CreateClientIdBody},
        forms::{
            payer_step::PayerStepBody,
            recurrence::StartDayText,
            wire::{ClientIdText, ClientUserIdText, NameText, UlidText, UuidText, WalletText},
        },
        payers::{PaymentDetailsBody, RegisterPayerBody},
        payouts::CreatePayoutBody,
        requests::CreateRequestBody,
        secure_payments::{CombinePayoutsBody, CreateMulticallBody, CreateSecurePaymentBody, CreateSecurePayoutBody},
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

/// Id of the orchestrator's fee config.
const FEE_CONFIG: &str = "01JZX4T9QK3M7N8P2R5S6V0WYG";

/// Id of the orchestrator's webhook endpoint. In all other examples, the endpoint is the platform's, with another id.
const ORCHESTRATOR_ENDPOINT: &str = "01JZX4T9QK3M7N8P2R5S6V0WYE";

/// Token of the multicall. The links that it pays are those of the example that creates a multicall.
const MULTICALL: &str = "01JZX4T9QK3M7N8P2R5S6V0WYK";

/// Days for which events are stored. The id of the example event encodes an old time, so a shorter retention would
/// delete it.
pub(super) const RETENTION_DAYS: u32 = 3_650;

/// E-mail address of the account.
const EMAIL: &str = "ada@example.com";
const PASSWORD: &str = "correct horse battery staple";

/// Maximum lifetime of a link.
const LINK_S: u32 = 7_776_000;

/// A source of ids that returns fixed ids first, then the ids of another source.
pub(super) struct FixedIdSource {
    told: Mutex<FixedIdQueue>,
    further: Arc<dyn Ids>,
}

/// The fixed ids and random bytes that are returned next. For a `None`, the other source draws the id; no example
/// contains such an id.
#[derive(Default)]
struct FixedIdQueue {
    ulids: VecDeque<Option<String>>,
    bytes: VecDeque<Vec<u8>>,
}

impl FixedIdSource {
    /// Returns these ids first.
    pub(super) fn ulids(ctx: &Ctx, ulids: &[&str]) -> Ctx {
        let ids = Self::beside(ctx);
        ids.tell(FixedIdQueue {
            ulids: ulids.iter().map(|ulid| Some((*ulid).to_owned())).collect(),
            ..FixedIdQueue::default()
        });
        Ctx { ids, ..ctx.clone() }
    }

    fn beside(ctx: &Ctx) -> Arc<Self> {
        Arc::new(Self {
            told: Mutex::default(),
            further: ctx.ids.clone(),
        })
    }

    fn tell(&self, draws: FixedIdQueue) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = draws;
    }
}

impl Ids for FixedIdSource {
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
type ExampleCredential<'a> = (HeaderName, &'a str);

/// A call that creates something.
struct ExampleCall<'a> {
    path: String,
    by: Option<ExampleCredential<'a>>,
    body: Value,
    draws: FixedIdQueue,
}

impl<'a> ExampleCall<'a> {
    fn new(path: impl Into<String>, by: &ExampleCredential<'a>, body: Value) -> Self {
        Self {
            path: path.into(),
            by: Some(by.clone()),
            body,
            draws: FixedIdQueue::default(),
        }
    }

    /// Sets the ids that the service draws during the call.
    fn ulids<const N: usize>(mut self, ulids: [Option<&str>; N]) -> Self {
        self.draws.ulids = ulids.into_iter().map(|ulid| ulid.map(str::to_owned)).collect();
        self
    }

    /// The random bytes of the call all have this value, so the id and the salt of its request are fixed.
    fn request(mut self, byte: u8) -> Self {
        self.draws.bytes = [vec![byte; 32], vec![byte; 8]].into();
        self
    }
}

/// The callers.
pub(super) struct Callers<'a> {
    pub(super) platform: &'a PlatformId,
    pub(super) api_key: &'a str,
    pub(super) orchestrator_key: &'a str,
    pub(super) session: &'a str,
    /// A wallet that can pay.
    pub(super) payer: Address,
}

/// Creates the missing objects. Objects that the environment settings do not allow are skipped and logged.
pub(super) async fn make(settings: &Settings, ctx: &Ctx, callers: &Callers<'_>) -> anyhow::Result<()> {
    let last = ClientRowId(ClientRowText::EXAMPLE.to_owned());
    if store::client_ids::find(ctx.db.reader(), callers.platform, &last)
        .await?
        .is_some()
    {
        return Ok(());
    }
    let ids = FixedIdSource::beside(ctx);
    let own = Ctx {
        ids: ids.clone(),
        ..ctx.clone()
    };
    let app = serve::app(settings, &own, &Process::new(Role::Api));
    for making in makings(settings, ctx, callers)? {
        let path = making.path.clone();
        ids.tell(making.draws);
        let call = call(&making.path, making.by, &making.body)?;
        if let Err(why) = send_call(&app, call).await {
            tracing::warn!(
                path,
                why,
                "could not create an object that the examples of the API documents use"
            );
        }
    }
    Ok(())
}

/// The calls, in the order in which they are made. If the object of the last call exists, an earlier run created all
/// objects.
fn makings<'a>(settings: &Settings, ctx: &Ctx, callers: &Callers<'a>) -> anyhow::Result<Vec<ExampleCall<'a>>> {
    let platform: ExampleCredential<'a> = (HeaderName::from_static("x-api-key"), callers.api_key);
    let orchestrator: ExampleCredential<'a> = (HeaderName::from_static("x-orchestrator-key"), callers.orchestrator_key);
    let person: ExampleCredential<'a> = (header::AUTHORIZATION, callers.session);
    let one = UlidText::EXAMPLE;
    let payer = ClientUserIdText::EXAMPLE;
    let receiver = json!({ "url": format!("{}/_dev/webhooks", settings.public_url()) });
    let details = hex::decode(UuidText::EXAMPLE.replace('-', "")).context("the example UUID must be hexadecimal")?;
    let mut account = ExampleCall::new(
        format!("/v2/payer/{payer}/payment-details"),
        &platform,
        json(&PaymentDetailsBody::example()),
    );
    account.draws.bytes = [details].into();
    let mut schedule = ExampleCall::new(
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
    // The payer's signature in the examples covers this nonce, so the nonce is fixed.
    schedule.draws.bytes.push_back(vec![3; 32]);
    let recurrence = json!({ "startDate": StartDayText::EXAMPLE, "frequency": "MONTHLY" });
    let repeated = with(&CreateRequestBody::example(), "recurrence", recurrence);
    let lasting = with(&CreateSecurePaymentBody::example(), "expiresIn", json!(LINK_S));
    let payout = with(&CreateSecurePayoutBody::example(), "expiresIn", json!(LINK_S));
    let mut makings = vec![
        ExampleCall::new("/v2/payer", &platform, json(&RegisterPayerBody::example())),
        account,
        ExampleCall::new("/v2/request", &platform, repeated).request(1),
        schedule,
        ExampleCall::new("/v2/secure-payments", &platform, lasting)
            .ulids([None, None, Some(one)])
            .request(2),
    ];
    let multicall = CreateMulticallBody::example();
    for token in CombinePayoutsBody::example()
        .tokens
        .iter()
        .chain(&multicall.child_tokens)
    {
        let making = ExampleCall::new("/v2/secure-payments/payouts", &platform, payout.clone());
        makings.push(making.ulids([None, None, Some(token.as_str())]));
    }
    makings.extend([
        ExampleCall::new("/v2/secure-payments/multicall-payouts", &platform, json(&multicall))
            .ulids([None, Some(MULTICALL)]),
        ExampleCall::new("/v1/webhook", &platform, receiver.clone()).ulids([Some(one)]),
        ExampleCall::new("/v2/orchestrators/webhooks", &orchestrator, receiver).ulids([Some(ORCHESTRATOR_ENDPOINT)]),
        // The fee config is disabled, so that payments of the orchestrator carry no fee that the reader did not set.
        ExampleCall::new(
            "/v2/orchestrators/fee-configs",
            &orchestrator,
            json!({
                "bps": 50, "feeBearer": "recipient", "flow": "outgoing", "evmRecipientAddress": WalletText::EXAMPLE,
                "status": "disabled",
            }),
        )
        .ulids([Some(FEE_CONFIG)]),
        // The event and its delivery.
        ExampleCall::new(
            format!("/v2/secure-payments/{one}/events"),
            &platform,
            json(&PayerStepBody::example()),
        )
        .ulids([Some(one), Some(one)]),
        ExampleCall::new("/v1/api-keys", &person, json!({ "label": NameText::EXAMPLE })).ulids([Some(one)]),
    ]);
    if ctx.people.registration == Registration::Open {
        makings.push(ExampleCall {
            path: "/v1/auth/register".to_owned(),
            by: None,
            body: json!({ "email": EMAIL, "password": PASSWORD }),
            draws: FixedIdQueue::default(),
        });
    }
    let mut client = ExampleCall::new("/v2/client-ids", &platform, json(&CreateClientIdBody::example()))
        .ulids([Some(ClientRowText::EXAMPLE)]);
    client.draws.bytes = [drawn_client_id()].into();
    makings.push(client);
    Ok(makings)
}

/// The random bytes from which the service draws the client ID in the examples.
fn drawn_client_id() -> Vec<u8> {
    let letters = ClientIdText::EXAMPLE.bytes().skip("cli_".len());
    let numbers = letters.filter_map(|letter| (0..).zip(ALPHABET).find(|(_, known)| **known == letter));
    let mut drawn: Vec<u8> = numbers.map(|(number, _)| number).collect();
    drawn.resize(32, 0);
    drawn
}

fn json(body: &impl ToJSON) -> Value {
    body.to_json().unwrap_or_default()
}

/// Adds a member to a body.
fn with(body: &impl ToJSON, member: &str, value: Value) -> Value {
    let mut body = json(body);
    body[member] = value;
    body
}

fn call(path: &str, by: Option<ExampleCredential<'_>>, body: &Value) -> anyhow::Result<Request> {
    let mut call = Request::builder()
        .method(Method::POST)
        .uri(path.parse().with_context(|| path.to_owned())?)
        // Without this header, the service would draw a call id, and the next object would get another id than the
        // example.
        .header("x-request-id", "prs-dev")
        .content_type("application/json");
    if let Some((name, value)) = by {
        call = call.header(name, value);
    }
    let body = body.to_string();
    Ok(call.header(header::CONTENT_LENGTH, body.len()).body(body))
}

/// Makes a call. Errors: the error response.
async fn send_call(app: &BoxEndpoint<'static, Response>, call: Request) -> Result<(), String> {
    let answer = app.get_response(call).await;
    if answer.status().is_success() {
        return Ok(());
    }
    Err(answer.into_body().into_string().await.unwrap_or_default())
}

/// Signs in with a wallet of the local chain; returns the session token.
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
