//! Calls to the partner: signed, within a deadline, with limited concurrency, and paused while the partner fails.

use super::{
    answers::{AddressRules, is_id, is_unknown, opened_order, parsed, refusal, same_order, word_of_failure},
    questions::{AgreementBody, BankAccountBody, OrderBody, PersonBody, QuoteBody},
};
use crate::{
    adapters::partner::{Guarded, NoAnswer, NotCalled, PartnerHealth, PartnerResponse, below, secret},
    domain::{
        address::Address,
        currency::Catalogue,
        ids::Secret,
        network::Network,
        off_ramp_signature::{CallText, CallbackText, header},
        payer::{BankAccount, DescribedPayer},
        webhook::UrlPolicy,
    },
    ports::{
        clock::Clock,
        ids::Ids,
        off_ramp::{
            AccountNews, OffRamp, OffRampError, OffRampQuote, OrderNews, OrderQuestion, PartnerKey, PartnerNews,
            PayerNews, QuoteQuestion,
        },
    },
};
use anyhow::Context;
use async_trait::async_trait;
use reqwest::{
    Method, StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use url::{Position, Url};

/// Maximum number of calls to the partner that are in flight on this instance.
const CALLS_MAX: usize = 32;

/// Statuses with which the partner refuses a call.
const REFUSES: [StatusCode; 2] = [StatusCode::BAD_REQUEST, StatusCode::UNPROCESSABLE_ENTITY];

/// Names of the calls.
pub const OPERATIONS: [&str; 10] = [
    "register",
    "agree",
    "payer",
    "add_account",
    "account",
    "quote",
    "open_order",
    "order",
    "erase",
    "erase_registered",
];

/// Possible outcomes of a call.
pub const OUTCOMES: [&str; 6] = ["done", "refused", "unknown", "busy", "no_answer", "odd"];

/// Connection to the partner, and rules for its responses.
pub struct HttpOffRampOptions {
    /// URL of the partner.
    pub url: Url,
    /// Timeout of a call.
    pub timeout: Duration,
    /// Name of the key.
    pub key_id: String,
    /// The key.
    pub key_secret: Secret,
    /// Secrets of the callbacks.
    pub callback_secrets: Vec<Secret>,
    /// The only accepted deposit addresses, by network.
    pub deposits: BTreeMap<Network, BTreeSet<Address>>,
    /// Whether links to this machine over plain http are accepted.
    pub allow_loopback: bool,
    /// Addresses of tokens and contracts, which cannot receive payments.
    pub catalogue: Arc<Catalogue>,
    /// Time source for signatures.
    pub clock: Arc<dyn Clock>,
    /// Source of call ids.
    pub ids: Arc<dyn Ids>,
}

/// The partner over HTTP.
pub struct HttpOffRamp {
    guarded: Guarded,
    url: Url,
    key_id: HeaderValue,
    key_secret: Secret,
    callback_secrets: Vec<Secret>,
    beliefs: AddressRules,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

/// Counts a call by its outcome. A call whose caller stops waiting counts as unanswered.
struct PartnerCallOutcome {
    operation: &'static str,
    outcome: &'static str,
}

impl Drop for PartnerCallOutcome {
    fn drop(&mut self) {
        metrics::counter!("prs_off_ramp_calls_total", "operation" => self.operation, "outcome" => self.outcome)
            .increment(1);
    }
}

/// A call to the partner.
struct PartnerCall<'a> {
    operation: &'static str,
    method: Method,
    path: String,
    key: Option<&'a PartnerKey>,
    body: Vec<u8>,
}

impl PartnerCall<'_> {
    fn read(operation: &'static str, path: String) -> Self {
        Self {
            operation,
            method: Method::GET,
            path,
            key: None,
            body: Vec::new(),
        }
    }
}

impl<'a> PartnerCall<'a> {
    fn post(
        operation: &'static str,
        path: String,
        key: Option<&'a PartnerKey>,
        body: &impl Serialize,
    ) -> Result<Self, OffRampError> {
        let body = serde_json::to_vec(body).map_err(|_| OffRampError::NotSent("cannot be called".to_owned()))?;
        Ok(Self {
            method: Method::POST,
            key,
            body,
            ..Self::read(operation, path)
        })
    }
}

impl HttpOffRamp {
    /// Checks the options. Errors: the name of the key is not a header value, the URL cannot be extended, or a listed
    /// deposit address is a contract.
    pub fn new(options: HttpOffRampOptions) -> anyhow::Result<Self> {
        for (network, listed) in &options.deposits {
            for address in listed {
                let checked = options.catalogue.receiver(*address, *network);
                let checked = checked.and_then(|address| options.catalogue.receiver_anywhere(address));
                checked.map_err(|why| anyhow::anyhow!("offramp.deposit_addresses.{network}: every entry {why}"))?;
            }
        }
        below(&options.url, "v1/").context("offramp.url")?;
        Ok(Self {
            guarded: Guarded::new(options.timeout, CALLS_MAX)?,
            key_id: secret(&options.key_id, "offramp.key_id")?,
            url: options.url,
            key_secret: options.key_secret,
            callback_secrets: options.callback_secrets,
            beliefs: AddressRules {
                catalogue: options.catalogue,
                deposits: options.deposits,
                links: UrlPolicy {
                    allow_loopback: options.allow_loopback,
                },
            },
            clock: options.clock,
            ids: options.ids,
        })
    }

    /// Makes a call; `read` validates the body of a successful response.
    async fn ask<T>(
        &self,
        asked: PartnerCall<'_>,
        read: impl FnOnce(&Value) -> Result<T, OffRampError>,
    ) -> Result<T, OffRampError> {
        let operation = asked.operation;
        let mut counted = PartnerCallOutcome {
            operation,
            outcome: "no_answer",
        };
        let answered = self.answer(asked, read).await;
        counted.outcome = match &answered {
            Ok(_) => "done",
            Err(OffRampError::Refused { .. }) => "refused",
            Err(OffRampError::Unknown) => "unknown",
            Err(OffRampError::Busy) => "busy",
            Err(OffRampError::NotSent(_) | OffRampError::NoAnswer(_)) => "no_answer",
            Err(OffRampError::Odd(_)) => "odd",
        };
        match &answered {
            Err(
                error @ (OffRampError::Busy
                | OffRampError::NotSent(_)
                | OffRampError::NoAnswer(_)
                | OffRampError::Odd(_)),
            ) => {
                tracing::warn!(operation, %error, "a call to the off-ramp partner failed");
            }
            Err(OffRampError::Refused { reason, fields }) => {
                let (reason, fields) = (reason.wire(), fields.join(", "));
                tracing::warn!(operation, reason, fields, "the off-ramp partner rejected a call");
                self.note_good();
            }
            Err(OffRampError::Unknown) => {
                tracing::info!(operation, "the off-ramp partner does not know the record");
                self.note_good();
            }
            Ok(_) => self.note_good(),
        }
        answered
    }

    fn note_good(&self) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a gauge is an f64, which is exact for whole numbers below 2^52; Unix times in seconds are smaller"
        )]
        metrics::gauge!("prs_off_ramp_last_ok_timestamp_seconds").set(self.clock.now().timestamp() as f64);
    }

    async fn answer<T>(
        &self,
        asked: PartnerCall<'_>,
        read: impl FnOnce(&Value) -> Result<T, OffRampError>,
    ) -> Result<T, OffRampError> {
        let url = below(&self.url, &asked.path);
        let url = url.map_err(|_| OffRampError::NotSent("cannot be called".to_owned()))?;
        let (time, id) = (self.clock.now().timestamp().to_string(), self.ids.ulid());
        let text = CallText {
            time: &time,
            id: &id,
            method: asked.method.as_str(),
            target: &url[Position::BeforePath..Position::AfterQuery],
            body: &asked.body,
        };
        let signature = text.signature(&self.key_secret);
        let call = |client: &reqwest::Client| {
            let mut call = client
                .request(asked.method.clone(), url.clone())
                .header(header::KEY, self.key_id.clone())
                .header(header::TIME, &time)
                .header(header::ID, &id)
                .header(header::SIGNATURE, signature);
            if let Some(key) = asked.key {
                call = call.header(header::IDEMPOTENCY_KEY, &key.0);
            }
            if !asked.body.is_empty() {
                call = call.header(CONTENT_TYPE, "application/json").body(asked.body.clone());
            }
            call
        };
        let judged = self.guarded.call(call, |told| judge(told, read)).await;
        judged.unwrap_or_else(|why| match why {
            NotCalled::Busy => Err(OffRampError::Busy),
            NotCalled::LeftAlone => Err(OffRampError::NotSent(why.to_string())),
        })
    }
}

/// Outcome of a call. An invalid response counts as a failure of the partner only if it has none of the documented
/// shapes: one invalid record must not stop all other calls.
fn judge<T>(
    told: Result<PartnerResponse, NoAnswer>,
    read: impl FnOnce(&Value) -> Result<T, OffRampError>,
) -> (PartnerHealth, Result<T, OffRampError>) {
    let no_answer = |why: &NoAnswer| match why {
        NoAnswer::Unreached => OffRampError::NotSent(why.to_string()),
        NoAnswer::Status(_) | NoAnswer::Broken(_) => OffRampError::NoAnswer(why.to_string()),
    };
    let told = match told {
        Ok(told) => told,
        Err(why) => return (PartnerHealth::Fails, Err(no_answer(&why))),
    };
    // A 404 of a proxy on the way says nothing about a record.
    let is_unknown = told.status == StatusCode::NOT_FOUND && is_unknown(told.text.as_bytes());
    if is_unknown {
        return (PartnerHealth::Works, Err(OffRampError::Unknown));
    }
    if !told.status.is_success() && !REFUSES.contains(&told.status) {
        let why = NoAnswer::Status(told.status);
        let said = word_of_failure(told.text.as_bytes()).map(|word| format!("{why} and says {word}"));
        let said = said.map_or_else(|| no_answer(&why), OffRampError::NoAnswer);
        return (PartnerHealth::Fails, Err(said));
    }
    let value = match parsed(told.text.as_bytes()) {
        Ok(value) => value,
        Err(odd) => return (PartnerHealth::Fails, Err(odd)),
    };
    if told.status.is_success() {
        (PartnerHealth::Works, read(&value))
    } else {
        (PartnerHealth::Works, Err(refusal(&value)))
    }
}

/// The path of a record. Errors: the id is not a partner id.
fn at(list: &str, id: &str, below: &str) -> Result<String, OffRampError> {
    if is_id(id) {
        Ok(format!("v1/{list}/{id}{below}"))
    } else {
        Err(OffRampError::Unknown)
    }
}

impl HttpOffRamp {
    /// Requests the erasure of a record; an unknown record counts as erased.
    async fn forget(&self, operation: &'static str, path: String) -> Result<(), OffRampError> {
        let asked = PartnerCall {
            method: Method::DELETE,
            ..PartnerCall::read(operation, path)
        };
        match self.ask(asked, erased).await {
            Err(OffRampError::Unknown) => Ok(()),
            erased => erased,
        }
    }
}

#[async_trait]
impl OffRamp for HttpOffRamp {
    async fn register(&self, key: &PartnerKey, person: &DescribedPayer) -> Result<PayerNews, OffRampError> {
        let body = PersonBody::from(person);
        let asked = PartnerCall::post("register", "v1/payers".to_owned(), Some(key), &body)?;
        self.ask(asked, |value| self.beliefs.registered(value, key)).await
    }

    async fn agree(&self, payer: &str) -> Result<PayerNews, OffRampError> {
        let body = AgreementBody { completed: true };
        let asked = PartnerCall::post("agree", at("payers", payer, "/agreement")?, None, &body)?;
        self.ask(asked, |value| self.beliefs.same_payer(value, payer)).await
    }

    async fn payer(&self, payer: &str) -> Result<PayerNews, OffRampError> {
        let asked = PartnerCall::read("payer", at("payers", payer, "")?);
        self.ask(asked, |value| self.beliefs.same_payer(value, payer)).await
    }

    async fn add_account(
        &self,
        key: &PartnerKey,
        payer: &str,
        account: &BankAccount,
    ) -> Result<AccountNews, OffRampError> {
        let body = BankAccountBody::from(account);
        let asked = PartnerCall::post("add_account", at("payers", payer, "/accounts")?, Some(key), &body)?;
        self.ask(asked, |value| self.beliefs.added(value, key, payer)).await
    }

    async fn account(&self, account: &str) -> Result<AccountNews, OffRampError> {
        let asked = PartnerCall::read("account", at("accounts", account, "")?);
        self.ask(asked, |value| self.beliefs.same_account(value, account)).await
    }

    async fn quote(&self, question: &QuoteQuestion) -> Result<OffRampQuote, OffRampError> {
        let body = QuoteBody::from(question);
        let asked = PartnerCall::post("quote", "v1/quotes".to_owned(), Some(&question.key), &body)?;
        let now = self.clock.now();
        self.ask(asked, |value| self.beliefs.quote(value, question, now)).await
    }

    async fn open_order(&self, question: &OrderQuestion) -> Result<OrderNews, OffRampError> {
        let body = OrderBody::from(question);
        let asked = PartnerCall::post("open_order", "v1/orders".to_owned(), Some(&question.key), &body)?;
        self.ask(asked, |value| opened_order(value, question)).await
    }

    async fn order(&self, order: &str) -> Result<OrderNews, OffRampError> {
        let asked = PartnerCall::read("order", at("orders", order, "")?);
        self.ask(asked, |value| same_order(value, order)).await
    }

    async fn erase(&self, payer: &str) -> Result<(), OffRampError> {
        self.forget("erase", at("payers", payer, "")?).await
    }

    async fn erase_registered(&self, key: &PartnerKey) -> Result<(), OffRampError> {
        self.forget("erase_registered", at("registrations", &key.0, "")?).await
    }

    fn is_signed(&self, callback: &CallbackText<'_>, signature: &str) -> bool {
        callback.is_signed(&self.callback_secrets, self.clock.now(), signature)
    }

    fn news(&self, body: &[u8]) -> Result<PartnerNews, OffRampError> {
        self.beliefs.news(&parsed(body)?)
    }
}

/// Reads the confirmation that a payer was erased.
fn erased(value: &Value) -> Result<(), OffRampError> {
    match value["erased"] {
        Value::Bool(true) => Ok(()),
        _ => Err(OffRampError::Odd("erased must be true".to_owned())),
    }
}
