//! Calls to the partner: signed, within the deadline, at most a few at a time, and none while it fails.

use super::{
    answers::{Beliefs, is_id, is_unknown, opened_order, parsed, refusal, same_order, word_of_failure},
    questions::{AgreementBody, BankAccountBody, OrderBody, PersonBody, QuoteBody},
};
use crate::{
    adapters::partner::{Guarded, NoAnswer, NotCalled, Standing, Told, below, secret},
    domain::{
        address::Address,
        currency::Catalogue,
        ids::Secret,
        network::Network,
        off_ramp_signature::{CallText, CallbackText, header},
        payer::{BankAccount, Person},
        webhook::UrlPolicy,
    },
    ports::{
        clock::Clock,
        ids::Ids,
        off_ramp::{
            AccountNews, News, OffRamp, OffRampError, OffRampQuote, OrderNews, OrderQuestion, PartnerKey, PayerNews,
            QuoteQuestion,
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

/// Calls to the partner that are in flight on this instance at the same time.
const CALLS_MAX: usize = 32;

/// Statuses with which the partner refuses what it was sent.
const REFUSES: [StatusCode; 2] = [StatusCode::BAD_REQUEST, StatusCode::UNPROCESSABLE_ENTITY];

/// What is asked of the partner, by name.
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

/// How a call to the partner can end.
pub const OUTCOMES: [&str; 6] = ["done", "refused", "unknown", "busy", "no_answer", "odd"];

/// How the partner is reached, and what is believed.
pub struct HttpOffRampOptions {
    /// Its address.
    pub url: Url,
    /// How long one call may take.
    pub timeout: Duration,
    /// Name of the key.
    pub key_id: String,
    /// The key.
    pub key_secret: Secret,
    /// Secrets of its callbacks.
    pub callback_secrets: Vec<Secret>,
    /// The only deposit addresses that are believed, by network.
    pub deposits: BTreeMap<Network, BTreeSet<Address>>,
    /// Whether links to this machine over plain http are handed on.
    pub allow_loopback: bool,
    /// Tokens and contracts, which receive nothing.
    pub catalogue: Arc<Catalogue>,
    /// Tells when a call is signed.
    pub clock: Arc<dyn Clock>,
    /// Draws the ids of calls.
    pub ids: Arc<dyn Ids>,
}

/// The partner over HTTP.
pub struct HttpOffRamp {
    guarded: Guarded,
    url: Url,
    key_id: HeaderValue,
    key_secret: Secret,
    callback_secrets: Vec<Secret>,
    beliefs: Beliefs,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

/// Counts a call by how it ends. One whose caller gives up was not answered.
struct Outcome {
    operation: &'static str,
    outcome: &'static str,
}

impl Drop for Outcome {
    fn drop(&mut self) {
        metrics::counter!("prs_off_ramp_calls_total", "operation" => self.operation, "outcome" => self.outcome)
            .increment(1);
    }
}

/// One call to the partner.
struct Asked<'a> {
    operation: &'static str,
    method: Method,
    path: String,
    key: Option<&'a PartnerKey>,
    body: Vec<u8>,
}

impl Asked<'_> {
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

impl<'a> Asked<'a> {
    fn post(
        operation: &'static str,
        path: String,
        key: Option<&'a PartnerKey>,
        body: &impl Serialize,
    ) -> Result<Self, OffRampError> {
        let body = serde_json::to_vec(body).map_err(|_| OffRampError::NotSent("cannot be asked".to_owned()))?;
        Ok(Self {
            method: Method::POST,
            key,
            body,
            ..Self::read(operation, path)
        })
    }
}

impl HttpOffRamp {
    /// Checks the options. Errors: the name of the key is no header value, the address cannot be extended, or a listed
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
            beliefs: Beliefs {
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

    /// Makes a call; `read` judges the body of a success.
    async fn ask<T>(
        &self,
        asked: Asked<'_>,
        read: impl FnOnce(&Value) -> Result<T, OffRampError>,
    ) -> Result<T, OffRampError> {
        let operation = asked.operation;
        let mut counted = Outcome {
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
                tracing::warn!(operation, %error, "a call to the off-ramp partner came to nothing");
            }
            Err(OffRampError::Refused { reason, fields }) => {
                let (reason, fields) = (reason.wire(), fields.join(", "));
                tracing::warn!(
                    operation,
                    reason,
                    fields,
                    "the off-ramp partner refuses what it was sent"
                );
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
            reason = "gauges are floats; seconds since 1970 stay far below 2^52"
        )]
        metrics::gauge!("prs_off_ramp_last_ok_timestamp_seconds").set(self.clock.now().timestamp() as f64);
    }

    async fn answer<T>(
        &self,
        asked: Asked<'_>,
        read: impl FnOnce(&Value) -> Result<T, OffRampError>,
    ) -> Result<T, OffRampError> {
        let url = below(&self.url, &asked.path);
        let url = url.map_err(|_| OffRampError::NotSent("cannot be asked".to_owned()))?;
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

/// What became of a call. An answer that is not believed speaks against the partner only where it is none of its own shapes:
/// one odd record must not keep it from serving all others.
fn judge<T>(
    told: Result<Told, NoAnswer>,
    read: impl FnOnce(&Value) -> Result<T, OffRampError>,
) -> (Standing, Result<T, OffRampError>) {
    let no_answer = |why: &NoAnswer| match why {
        NoAnswer::Unreached => OffRampError::NotSent(why.to_string()),
        NoAnswer::Status(_) | NoAnswer::Broken(_) => OffRampError::NoAnswer(why.to_string()),
    };
    let told = match told {
        Ok(told) => told,
        Err(why) => return (Standing::Fails, Err(no_answer(&why))),
    };
    // A 404 of whoever stands in between says nothing about a record.
    let is_unknown = told.status == StatusCode::NOT_FOUND && is_unknown(told.text.as_bytes());
    if is_unknown {
        return (Standing::Works, Err(OffRampError::Unknown));
    }
    if !told.status.is_success() && !REFUSES.contains(&told.status) {
        let why = NoAnswer::Status(told.status);
        let said = word_of_failure(told.text.as_bytes()).map(|word| format!("{why} and says {word}"));
        let said = said.map_or_else(|| no_answer(&why), OffRampError::NoAnswer);
        return (Standing::Fails, Err(said));
    }
    let value = match parsed(told.text.as_bytes()) {
        Ok(value) => value,
        Err(odd) => return (Standing::Fails, Err(odd)),
    };
    match told.status.is_success() {
        true => (Standing::Works, read(&value)),
        false => (Standing::Works, Err(refusal(&value))),
    }
}

/// The path of a record. Errors: the id is none of the partner's.
fn at(list: &str, id: &str, below: &str) -> Result<String, OffRampError> {
    match is_id(id) {
        true => Ok(format!("v1/{list}/{id}{below}")),
        false => Err(OffRampError::Unknown),
    }
}

impl HttpOffRamp {
    /// Has a record forgotten; one that is not known counts as forgotten.
    async fn forget(&self, operation: &'static str, path: String) -> Result<(), OffRampError> {
        let asked = Asked {
            method: Method::DELETE,
            ..Asked::read(operation, path)
        };
        match self.ask(asked, erased).await {
            Err(OffRampError::Unknown) => Ok(()),
            erased => erased,
        }
    }
}

#[async_trait]
impl OffRamp for HttpOffRamp {
    async fn register(&self, key: &PartnerKey, person: &Person) -> Result<PayerNews, OffRampError> {
        let body = PersonBody::from(person);
        let asked = Asked::post("register", "v1/payers".to_owned(), Some(key), &body)?;
        self.ask(asked, |value| self.beliefs.registered(value, key)).await
    }

    async fn agree(&self, payer: &str) -> Result<PayerNews, OffRampError> {
        let body = AgreementBody { completed: true };
        let asked = Asked::post("agree", at("payers", payer, "/agreement")?, None, &body)?;
        self.ask(asked, |value| self.beliefs.same_payer(value, payer)).await
    }

    async fn payer(&self, payer: &str) -> Result<PayerNews, OffRampError> {
        let asked = Asked::read("payer", at("payers", payer, "")?);
        self.ask(asked, |value| self.beliefs.same_payer(value, payer)).await
    }

    async fn add_account(
        &self,
        key: &PartnerKey,
        payer: &str,
        account: &BankAccount,
    ) -> Result<AccountNews, OffRampError> {
        let body = BankAccountBody::from(account);
        let asked = Asked::post("add_account", at("payers", payer, "/accounts")?, Some(key), &body)?;
        self.ask(asked, |value| self.beliefs.added(value, key, payer)).await
    }

    async fn account(&self, account: &str) -> Result<AccountNews, OffRampError> {
        let asked = Asked::read("account", at("accounts", account, "")?);
        self.ask(asked, |value| self.beliefs.same_account(value, account)).await
    }

    async fn quote(&self, question: &QuoteQuestion) -> Result<OffRampQuote, OffRampError> {
        let body = QuoteBody::from(question);
        let asked = Asked::post("quote", "v1/quotes".to_owned(), Some(&question.key), &body)?;
        let now = self.clock.now();
        self.ask(asked, |value| self.beliefs.quote(value, question, now)).await
    }

    async fn open_order(&self, question: &OrderQuestion) -> Result<OrderNews, OffRampError> {
        let body = OrderBody::from(question);
        let asked = Asked::post("open_order", "v1/orders".to_owned(), Some(&question.key), &body)?;
        self.ask(asked, |value| opened_order(value, question)).await
    }

    async fn order(&self, order: &str) -> Result<OrderNews, OffRampError> {
        let asked = Asked::read("order", at("orders", order, "")?);
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

    fn news(&self, body: &[u8]) -> Result<News, OffRampError> {
        self.beliefs.news(&parsed(body)?)
    }
}

/// Reads that a payer was forgotten.
fn erased(value: &Value) -> Result<(), OffRampError> {
    match value["erased"] {
        Value::Bool(true) => Ok(()),
        _ => Err(OffRampError::Odd("erased must be true".to_owned())),
    }
}
