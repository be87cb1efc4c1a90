//! The partner of `prs dev`, which implements the documented format. Three things change the state of payers, accounts
//! and orders: time, the family names and account numbers with an automatic effect, and the buttons of the partner's
//! pages.

use super::{
    signature::CallText,
    words::{AccountEnding, AccountStatus, AgreementStatus, FamilyName, KycStatus, OffRampBehaviour, OrderStatus},
};
use alloy::{
    primitives::{Address, U256, keccak256, utils::format_units},
    signers::local::PrivateKeySigner,
};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Time between two automatic steps.
const STEP: TimeDelta = TimeDelta::seconds(1);

/// How long a quote is valid: for most accounts, and for an account whose number ends with
/// [`AccountEnding::ShortQuote`].
const QUOTE_LASTS: TimeDelta = TimeDelta::minutes(15);
const SHORT_QUOTE_LASTS: TimeDelta = TimeDelta::seconds(5);

/// Fee of the partner for a payment, in basis points.
const FEE_BASIS_POINTS: u64 = 50;

/// Decimal places of the documented tokens.
const TOKEN_DECIMALS: u8 = 6;

/// Response times: of a slow partner, and of a hanging partner. The second is longer than any caller waits.
const SLOW: Duration = Duration::from_secs(2);
const HANGS: Duration = Duration::from_secs(20);

/// Exchange rates of bank currencies: ten thousandths of the currency for one dollar. For a currency without a rate,
/// the bank account gets the amount in dollars.
const RATES: [(&str, u64); 3] = [("eur", 9_200), ("gbp", 7_900), ("inr", 833_000)];

/// The key with which the service signs its calls. It does not implement `Debug`, because it contains a secret.
#[derive(Clone)]
pub struct SandboxKey {
    /// Its name.
    pub id: String,
    /// The key.
    pub secret: String,
}

/// A received call.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// Name of the key.
    pub key: &'a str,
    /// Signed parts.
    pub text: CallText<'a>,
    /// The signature.
    pub signature: &'a str,
    /// The idempotency key of a call that creates a record; empty for other calls.
    pub idempotency_key: &'a str,
}

/// The partner's response to a call, and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaction {
    /// Response time.
    pub after: Duration,
    /// Response status.
    pub status: u16,
    /// Response body.
    pub body: String,
}

/// A callback of the partner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telling {
    /// Id of the callback, which is the same for every attempt.
    pub id: String,
    /// Body.
    pub body: String,
}

/// Content of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPage {
    /// Status of the payer.
    pub status: &'static str,
    /// Outcomes of its buttons.
    pub outcomes: &'static [&'static str],
}

/// Page for a payer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageKind {
    /// Identity.
    Kyc,
    /// Terms.
    Agreement,
}

/// The partner.
pub struct OffRampSandbox {
    key: SandboxKey,
    /// Version of the first state of each record. It is larger than every version that an existing database has stored.
    first_version: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// URL of the pages.
    pages: String,
    behaviour: Option<OffRampBehaviour>,
    payers: BTreeMap<String, Payer>,
    accounts: BTreeMap<String, Account>,
    quotes: BTreeMap<String, Value>,
    orders: BTreeMap<String, Order>,
    agenda: Vec<(DateTime<Utc>, Step)>,
    outbox: Vec<Telling>,
    told: u64,
}

#[derive(Clone)]
struct Payer {
    key: String,
    version: u64,
    family_name: String,
    kyc: KycStatus,
    agreement: AgreementStatus,
}

#[derive(Clone)]
struct Account {
    key: String,
    payer: String,
    version: u64,
    currency: String,
    ending: Option<AccountEnding>,
    status: AccountStatus,
}

#[derive(Clone)]
struct Order {
    key: String,
    quote: String,
    version: u64,
    /// `None` after it was abandoned.
    status: Option<OrderStatus>,
}

/// An automatic step.
#[derive(Debug, Clone)]
enum Step {
    Kyc(String, KycStatus),
    Agreement(String, AgreementStatus),
    Account(String),
    Order(String, Option<OrderStatus>),
}

const KYC_OUTCOMES: [&str; 4] = ["submit", "approve", "reject", "ask again"];
const AGREEMENT_OUTCOMES: [&str; 3] = ["agree", "decline", "fail"];

fn id_of(kind: &str, key: &str) -> String {
    let digest = Sha256::digest(format!("{kind} {key}"));
    format!("{kind}_{}", hex::encode(&digest[..12]))
}

/// Deposit address of a quote. Anyone can derive the private key, as for all addresses of this partner.
fn deposit_address(quote: &str) -> Option<Address> {
    let key = keccak256(format!("deposit address of the sandbox: {quote}"));
    let signer = PrivateKeySigner::from_bytes(&key).ok()?;
    Some(signer.address())
}

fn refused(reason: &str, fields: &[&str]) -> (u16, Value) {
    (422, json!({ "reason": reason, "fields": fields }))
}

fn unknown() -> (u16, Value) {
    (404, json!({ "reason": "unknown" }))
}

impl OffRampSandbox {
    /// Creates a partner whose callers sign with this key, and whose pages are below this URL.
    pub fn new(key: SandboxKey, pages: String, first_version: u64) -> Self {
        Self {
            key,
            first_version: first_version.max(1),
            state: Mutex::new(State {
                pages,
                ..State::default()
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reaction to a call.
    pub fn react(&self, call: &Received<'_>, now: DateTime<Utc>) -> Reaction {
        let is_signed = call.key == self.key.id && call.text.is_signed(&self.key.secret, now, call.signature);
        let mut state = self.state();
        let behaviour = state.behaviour.unwrap_or(OffRampBehaviour::Normal);
        let (status, mut body) = match behaviour {
            OffRampBehaviour::Down | OffRampBehaviour::Hang => (503, json!({ "reason": "down" })),
            _ if !is_signed => (401, json!({ "reason": "signature" })),
            _ => {
                state.move_on(now);
                self.answer(&mut state, call, now)
            }
        };
        if status == 200 {
            self.lie(&mut body, behaviour);
        }
        let after = match behaviour {
            OffRampBehaviour::Slow => SLOW,
            OffRampBehaviour::Hang => HANGS,
            _ => Duration::ZERO,
        };
        Reaction {
            after,
            status,
            body: body.to_string(),
        }
    }

    fn lie(&self, body: &mut Value, behaviour: OffRampBehaviour) {
        let other = || json!(id_of("pyr", "another payer"));
        match behaviour {
            OffRampBehaviour::WrongAddress if body.get("depositAddress").is_some() => {
                body["depositAddress"] = body["token"].clone();
            }
            OffRampBehaviour::OtherPayer if body.get("payerId").is_some() => body["payerId"] = other(),
            OffRampBehaviour::OtherPayer if body.get("kycStatus").is_some() => {
                body["id"] = other();
                body["key"] = json!("0".repeat(64));
            }
            OffRampBehaviour::StaleVersion if body.get("version").is_some() => {
                body["version"] = json!(self.first_version);
                for (member, first) in [
                    ("kycStatus", KycStatus::NotStarted.wire()),
                    ("agreementStatus", AgreementStatus::NotStarted.wire()),
                ] {
                    if body.get(member).is_some() {
                        body[member] = json!(first);
                    }
                }
            }
            _ => {}
        }
    }

    fn answer(&self, state: &mut State, call: &Received<'_>, now: DateTime<Utc>) -> (u16, Value) {
        let path = call.text.target.rsplit_once("/v1/").map_or("", |(_, path)| path);
        let segments: Vec<&str> = path.split('/').collect();
        let body: Value = serde_json::from_slice(call.text.body).unwrap_or_default();
        let key = call.idempotency_key;
        match (call.text.method, segments.as_slice()) {
            ("POST", ["payers"]) => self.register(state, key, &body, now),
            ("GET", ["payers", id]) => state.shown_payer(id),
            ("DELETE", ["payers", id]) => erase(state, id),
            ("DELETE", ["registrations", key]) => erase(state, &id_of("pyr", key)),
            ("POST", ["payers", id, "agreement"]) => {
                let is_known = state.payers.contains_key(*id);
                if is_known {
                    state.agree(id, AgreementStatus::Completed);
                }
                state.shown_payer(id)
            }
            ("POST", ["payers", id, "accounts"]) => self.add_account(state, key, id, &body, now),
            ("GET", ["accounts", id]) => state
                .accounts
                .get(*id)
                .map_or_else(unknown, |account| shown(id, account)),
            ("POST", ["quotes"]) => quote(state, key, &body, now),
            ("POST", ["orders"]) => self.open_order(state, key, &body, now),
            ("GET", ["orders", id]) => state
                .orders
                .get(*id)
                .map_or_else(unknown, |order| shown_order(id, order)),
            _ => unknown(),
        }
    }

    fn register(&self, state: &mut State, key: &str, body: &Value, now: DateTime<Utc>) -> (u16, Value) {
        let Some(family_name) = body["lastName"].as_str() else {
            return refused("invalid_person", &["lastName"]);
        };
        let id = id_of("pyr", key);
        let begins = match state.payers.get_mut(&id) {
            Some(payer) => {
                family_name.clone_into(&mut payer.family_name);
                payer.kyc == KycStatus::Rejected
            }
            None => true,
        };
        if begins {
            let version = state
                .payers
                .get(&id)
                .map_or(self.first_version, |payer| payer.version + 1);
            let payer = Payer {
                key: key.to_owned(),
                version,
                family_name: family_name.to_owned(),
                kyc: KycStatus::NotStarted,
                agreement: AgreementStatus::NotStarted,
            };
            state.payers.insert(id.clone(), payer);
            state.plan_payer(&id, now);
        }
        state.shown_payer(&id)
    }

    fn add_account(&self, state: &mut State, key: &str, payer: &str, body: &Value, now: DateTime<Utc>) -> (u16, Value) {
        let Some(known) = state.payers.get(payer) else {
            return unknown();
        };
        let is_proven = known.kyc == KycStatus::Approved;
        let number = body["accountNumber"].as_str().or(body["iban"].as_str());
        let (Some(number), Some(currency)) = (number, body["currency"].as_str()) else {
            return refused("invalid_account", &["accountNumber", "iban"]);
        };
        let id = id_of("acc", key);
        if !state.accounts.contains_key(&id) {
            let from = number.len().saturating_sub(4);
            let account = Account {
                key: key.to_owned(),
                payer: payer.to_owned(),
                version: self.first_version,
                currency: currency.to_owned(),
                ending: number.get(from..).and_then(AccountEnding::of),
                status: AccountStatus::Pending,
            };
            state.accounts.insert(id.clone(), account);
            if is_proven {
                state.agenda.push((now + STEP, Step::Account(id.clone())));
            }
        }
        state
            .accounts
            .get(&id)
            .map_or_else(unknown, |account| shown(&id, account))
    }

    fn open_order(&self, state: &mut State, key: &str, body: &Value, now: DateTime<Utc>) -> (u16, Value) {
        let quote = body["quoteId"].as_str().unwrap_or_default();
        let Some(known) = state.quotes.get(quote) else {
            return unknown();
        };
        let account = known["accountId"].as_str().unwrap_or_default();
        let ending = state.accounts.get(account).and_then(|account| account.ending);
        let has_ended = known["endsAt"]
            .as_str()
            .and_then(|text| DateTime::parse_from_rfc3339(text).ok())
            .is_some_and(|end| end <= now);
        let id = id_of("ord", key);
        if !state.orders.contains_key(&id) {
            let order = Order {
                key: key.to_owned(),
                quote: quote.to_owned(),
                version: self.first_version,
                status: Some(OrderStatus::Initiated),
            };
            state.orders.insert(id.clone(), order);
            state.plan_order(&id, ending, has_ended, now);
        }
        state
            .orders
            .get(&id)
            .map_or_else(unknown, |order| shown_order(&id, order))
    }

    /// Sets how the partner behaves from now on.
    pub fn behave(&self, behaviour: OffRampBehaviour) {
        self.state().behaviour = Some(behaviour);
    }

    /// The due callbacks: each change until `now` is returned once. Changes are lost while the partner is set to send
    /// no callbacks.
    pub fn tell(&self, now: DateTime<Utc>) -> Vec<Telling> {
        let mut state = self.state();
        state.move_on(now);
        let tellings = std::mem::take(&mut state.outbox);
        match state.behaviour {
            Some(OffRampBehaviour::Silent) => Vec::new(),
            _ => tellings,
        }
    }

    /// A page of the partner for a payer. Opening the page of the terms sets the agreement of the payer to pending,
    /// because the payer has now seen the terms.
    pub fn page(&self, kind: PageKind, payer: &str, now: DateTime<Utc>) -> Option<SandboxPage> {
        let mut state = self.state();
        state.move_on(now);
        let known = state.payers.get(payer)?.clone();
        match kind {
            PageKind::Kyc => Some(SandboxPage {
                status: known.kyc.wire(),
                outcomes: &KYC_OUTCOMES,
            }),
            PageKind::Agreement => {
                if known.agreement == AgreementStatus::NotStarted {
                    state.agree(payer, AgreementStatus::Pending);
                }
                Some(SandboxPage {
                    status: state.payers.get(payer)?.agreement.wire(),
                    outcomes: &AGREEMENT_OUTCOMES,
                })
            }
        }
    }

    /// Presses a button of a page; returns `false` if the page has no such button.
    pub fn press(&self, kind: PageKind, payer: &str, outcome: &str, now: DateTime<Utc>) -> bool {
        let mut state = self.state();
        state.move_on(now);
        if !state.payers.contains_key(payer) {
            return false;
        }
        let kyc = match (kind, outcome) {
            (PageKind::Kyc, "submit") => KycStatus::Pending,
            (PageKind::Kyc, "approve") => KycStatus::Approved,
            (PageKind::Kyc, "reject") => KycStatus::Rejected,
            (PageKind::Kyc, "ask again") => KycStatus::RetryRequired,
            (PageKind::Agreement, "agree") => return state.agree(payer, AgreementStatus::Completed),
            (PageKind::Agreement, "decline") => return state.agree(payer, AgreementStatus::Rejected),
            (PageKind::Agreement, "fail") => return state.agree(payer, AgreementStatus::Failed),
            _ => return false,
        };
        // The status changes to pending first, because an identity is submitted before it is decided.
        state.prove(payer, KycStatus::Pending, now);
        state.prove(payer, kyc, now);
        true
    }
}

fn shown(id: &str, account: &Account) -> (u16, Value) {
    let is_failed = account.status == AccountStatus::Failed;
    let body = json!({
        "id": id,
        "key": account.key,
        "payerId": account.payer,
        "version": account.version,
        "status": account.status.wire(),
        "rejection": is_failed.then_some("The bank does not know the account"),
    });
    (200, body)
}

fn shown_order(id: &str, order: &Order) -> (u16, Value) {
    let status = order.status.map_or("failed", OrderStatus::wire);
    let body = json!({
        "id": id,
        "key": order.key,
        "quoteId": order.quote,
        "version": order.version,
        "status": status,
        "providerStatus": status.to_uppercase(),
    });
    (200, body)
}

fn erase(state: &mut State, payer: &str) -> (u16, Value) {
    if state.payers.remove(payer).is_none() {
        return unknown();
    }
    state.accounts.retain(|_, account| account.payer != payer);
    (200, json!({ "erased": true }))
}

/// Splits token units into the units without the partner's fee, and the fee.
fn fees(amount: U256) -> (U256, U256) {
    let fee = (amount * U256::from(FEE_BASIS_POINTS) / U256::from(10_000)).max(U256::ONE);
    (amount.saturating_sub(fee), fee)
}

/// Token units of a decimal amount; `None` if the amount has more decimals than the token.
fn units_of(amount: &str) -> Option<U256> {
    let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
    let padding = usize::from(TOKEN_DECIMALS).checked_sub(fraction.len())?;
    format!("{whole}{fraction}{}", "0".repeat(padding)).parse().ok()
}

/// A decimal without trailing zeros.
fn decimal(units: U256, decimals: u8) -> String {
    let text = format_units(units, decimals).unwrap_or_default();
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn quote(state: &mut State, key: &str, body: &Value, now: DateTime<Utc>) -> (u16, Value) {
    let text = |member: &str| body[member].as_str().unwrap_or_default();
    let Some(account) = state.accounts.get(text("accountId")).cloned() else {
        return unknown();
    };
    if account.status != AccountStatus::Approved {
        return refused("account_not_approved", &[]);
    }
    let Some(units) = units_of(text("amount")) else {
        return refused("unsupported", &[]);
    };
    let (rest, fee) = fees(units);
    let rate = RATES.iter().find(|(currency, _)| *currency == account.currency);
    let cents = rest * U256::from(rate.map_or(10_000, |(_, rate)| *rate)) / U256::from(100_000_000_u64);
    if cents.is_zero() {
        return refused("amount_out_of_range", &[]);
    }
    let id = id_of("qte", key);
    let Some(deposit_address) = deposit_address(&id) else {
        return refused("refused", &[]);
    };
    let lasts = match account.ending {
        Some(AccountEnding::ShortQuote) => SHORT_QUOTE_LASTS,
        _ => QUOTE_LASTS,
    };
    let made = json!({
        "id": id,
        "key": key,
        "payerId": account.payer,
        "accountId": text("accountId"),
        "network": text("network"),
        "token": text("token"),
        "amount": text("amount"),
        "currency": account.currency,
        "depositAddress": deposit_address.to_string(),
        "fee": decimal(fee, TOKEN_DECIMALS),
        "paysOut": decimal(cents, 2),
        "endsAt": (now + lasts).to_rfc3339_opts(SecondsFormat::Millis, true),
    });
    (200, state.quotes.entry(id).or_insert(made).clone())
}

impl State {
    fn queue(&mut self, body: &Value) {
        self.told += 1;
        let digest = Sha256::digest(format!("{} {body}", self.told));
        self.outbox.push(Telling {
            id: format!("cb_{}", hex::encode(&digest[..12])),
            body: body.to_string(),
        });
    }

    /// Executes due steps, in order.
    fn move_on(&mut self, now: DateTime<Utc>) {
        loop {
            let next = self.agenda.iter().enumerate().min_by_key(|(_, (at, _))| *at);
            let Some((index, at)) = next.map(|(index, (at, _))| (index, *at)).filter(|(_, at)| *at <= now) else {
                return;
            };
            let (_, step) = self.agenda.remove(index);
            match step {
                Step::Kyc(payer, status) => self.prove(&payer, status, at),
                Step::Agreement(payer, status) => {
                    self.agree(&payer, status);
                }
                Step::Account(account) => self.verify(&account),
                Step::Order(order, status) => self.move_order(&order, status),
            }
        }
    }

    fn plan_payer(&mut self, id: &str, now: DateTime<Utc>) {
        use AgreementStatus as A;
        use KycStatus as K;
        let name = self
            .payers
            .get(id)
            .map(|payer| payer.family_name.clone())
            .unwrap_or_default();
        let Some(name) = FamilyName::ALL
            .into_iter()
            .find(|one| one.wire().eq_ignore_ascii_case(&name))
        else {
            return;
        };
        let (kyc, agreement) = match name {
            FamilyName::Approved => (K::Approved, Some(A::Completed)),
            FamilyName::Rejected => (K::Rejected, None),
            FamilyName::Retry => (K::RetryRequired, None),
            FamilyName::Waiting => (K::Pending, None),
            FamilyName::Declined => (K::Approved, Some(A::Rejected)),
            FamilyName::Unrecorded => (K::Approved, Some(A::Failed)),
        };
        self.agenda.push((now + STEP, Step::Kyc(id.to_owned(), K::Pending)));
        if kyc != K::Pending {
            self.agenda.push((now + STEP * 2, Step::Kyc(id.to_owned(), kyc)));
        }
        if let Some(status) = agreement {
            self.agenda
                .push((now + STEP * 3, Step::Agreement(id.to_owned(), status)));
        }
    }

    fn plan_order(&mut self, id: &str, ending: Option<AccountEnding>, has_ended: bool, now: DateTime<Utc>) {
        use OrderStatus as S;
        let all = [
            Some(S::PendingInternalAssessment),
            Some(S::OngoingChecks),
            Some(S::SendingFiat),
            Some(S::FiatSent),
        ];
        let steps: Vec<Option<S>> = match ending {
            // With this account number, an order that is opened after its quote expired fails. For all other accounts
            // it succeeds, because the money may have arrived before the quote expired: this partner does not know when
            // it arrived.
            Some(AccountEnding::ShortQuote) if has_ended => vec![all[0], None],
            Some(AccountEnding::OrderFailed) => vec![all[0], all[1], None],
            Some(AccountEnding::OrderWaiting) => vec![all[0], all[1]],
            Some(AccountEnding::Bounced) => vec![all[0], all[1], all[2], Some(S::Bounced)],
            _ => all.to_vec(),
        };
        let mut at = now;
        for status in steps {
            at += STEP;
            self.agenda.push((at, Step::Order(id.to_owned(), status)));
        }
    }

    fn prove(&mut self, id: &str, kyc: KycStatus, at: DateTime<Utc>) {
        let Some(payer) = self.payers.get_mut(id) else { return };
        let is_decided = matches!(payer.kyc, KycStatus::Approved | KycStatus::Rejected);
        let is_revoked = payer.kyc == KycStatus::Approved && kyc == KycStatus::Rejected;
        if payer.kyc == kyc || is_decided && !is_revoked {
            return;
        }
        payer.kyc = kyc;
        payer.version += 1;
        self.tell_payer(id);
        if kyc == KycStatus::Approved {
            let waiting = self.accounts.iter().filter(|(_, account)| account.payer == id);
            let steps: Vec<_> = waiting
                .map(|(account, _)| (at + STEP, Step::Account(account.clone())))
                .collect();
            self.agenda.extend(steps);
        }
    }

    /// Stores the agreement of a payer. Returns `true`, because the pressed button existed.
    fn agree(&mut self, id: &str, agreement: AgreementStatus) -> bool {
        if let Some(payer) = self.payers.get_mut(id)
            && payer.agreement != agreement
            && payer.agreement != AgreementStatus::Completed
        {
            payer.agreement = agreement;
            payer.version += 1;
            self.tell_payer(id);
        }
        true
    }

    fn verify(&mut self, id: &str) {
        let Some(account) = self.accounts.get_mut(id) else {
            return;
        };
        let status = match account.ending {
            Some(AccountEnding::Waiting) => return,
            Some(AccountEnding::Failed) => AccountStatus::Failed,
            _ => AccountStatus::Approved,
        };
        if account.status != AccountStatus::Pending {
            return;
        }
        account.status = status;
        account.version += 1;
        let (_, body) = shown(id, account);
        self.queue(&json!({ "type": "account", "account": body }));
    }

    fn move_order(&mut self, id: &str, status: Option<OrderStatus>) {
        let Some(order) = self.orders.get_mut(id) else { return };
        order.status = status;
        order.version += 1;
        let (_, body) = shown_order(id, order);
        self.queue(&json!({ "type": "order", "order": body }));
    }

    fn shown_payer(&self, id: &str) -> (u16, Value) {
        let Some(payer) = self.payers.get(id) else {
            return unknown();
        };
        let is_proven = payer.kyc == KycStatus::Approved;
        let has_agreed = payer.agreement == AgreementStatus::Completed;
        let link = |page: &str, is_done: bool| (!is_done).then(|| format!("{}/{page}/{id}", self.pages));
        let body = json!({
            "id": id,
            "key": payer.key,
            "version": payer.version,
            "kycStatus": payer.kyc.wire(),
            "agreementStatus": payer.agreement.wire(),
            "kycUrl": link("kyc", is_proven),
            "agreementUrl": link("agreement", has_agreed),
        });
        (200, body)
    }

    fn tell_payer(&mut self, id: &str) {
        let (_, payer) = self.shown_payer(id);
        self.queue(&json!({ "type": "payer", "payer": payer }));
    }
}
