//! The recurring items that a run creates: schedules that payers have signed, and recurring requests.

use alloy::primitives::{Address, U256};
use anyhow::{Context, Result};
use chrono::{Days, NaiveDate};
use serde_json::{Value, json};
use xtask::service::permit::typed_data;

use crate::calendar::{Calendar, next_thirty_first};
use crate::load::payee;
use crate::stage::{PAYERS, Stage, member};

/// Number of schedules, each with its own payee.
pub(crate) const SCHEDULES: u64 = 6;

/// Number of recurring requests, each with its own payee.
pub(crate) const PARENTS: u64 = 5;

/// The number of the first payee of recurring requests. Payees of schedules have lower numbers.
const FIRST_PARENT: u64 = 1_000;

/// Days between the starts of two schedules, and of two recurring requests, so that something is due every few days.
const STAGGER_DAYS: u64 = 5;

/// Number of days that a month has in the contract of recurring payments. Source: rules P.7.5.
const MONTH_DAYS: u64 = 30;
/// The amount of every payment.
pub(crate) const AMOUNT: &str = "0.5";
/// The recurring items that were created before the first process died.
pub(crate) struct Asked {
    /// The schedules: the id of each, and its payee.
    pub(crate) schedules: Vec<(String, Address)>,
    /// Number of payments of each schedule.
    pub(crate) payments: usize,
    /// The recurring requests: the id of each, its payee, and its first day.
    pub(crate) parents: Vec<(String, String, NaiveDate)>,
    /// Days until the last payment of the last schedule is due.
    pub(crate) days: u64,
}

/// Makes the payers sign schedules, and creates recurring requests.
pub(crate) fn ask_for_all(stage: &Stage, calendar: &Calendar, payments: u32) -> Result<Asked> {
    let (chain, today) = (&stage.chain, calendar.begun.date_naive());
    let (token, spender) = (chain.tokens().fau, chain.contracts().recurring_payment_proxy);
    for payer in PAYERS {
        stage
            .runtime()
            .block_on(chain.approve(payer, token, spender, U256::MAX))?;
    }
    let day = |days: u64| today.checked_add_days(Days::new(days)).context("no such day");
    let mut schedules = Vec::new();
    for number in 0..SCHEDULES {
        let account = PAYERS[usize::try_from(number)? % PAYERS.len()];
        let payer = chain.accounts().get(account).context("no such account")?.address;
        let mut body = payment(number);
        body["recurrence"] = json!({
            "startDate": day(1 + number * STAGGER_DAYS)?.to_string(),
            "frequency": "MONTHLY",
            "totalPayments": payments,
            "payer": payer,
        });
        let made = stage.client.create("/v2/payouts", &body)?;
        let id = member(&made, "id")?.to_owned();
        let (_, data) = typed_data(&made)?;
        let signing = chain.rpc("eth_signTypedData_v4", json!([payer, data]));
        let signature = stage.runtime().block_on(signing)?;
        let body = json!({ "permitSignature": signature });
        stage.client.create(&format!("/v2/payouts/recurring/{id}"), &body)?;
        schedules.push((id, payee(number).parse()?));
    }
    let mut parents = Vec::new();
    for number in 0..PARENTS {
        // Some of the requests are due on the last day of every month, however short the month is.
        let first = match number {
            0 => next_thirty_first(today)?,
            _ => day(number * STAGGER_DAYS)?,
        };
        let number = FIRST_PARENT + number;
        let mut body = payment(number);
        body["recurrence"] = json!({ "startDate": first.to_string(), "frequency": "MONTHLY" });
        let made = stage.client.create("/v2/request", &body)?;
        parents.push((member(&made, "requestId")?.to_owned(), payee(number), first));
    }
    let payments_days = MONTH_DAYS * u64::from(payments.saturating_sub(1));
    Ok(Asked {
        schedules,
        payments: usize::try_from(payments)?,
        parents,
        days: 1 + (SCHEDULES - 1) * STAGGER_DAYS + payments_days,
    })
}

fn payment(number: u64) -> Value {
    json!({
        "payee": payee(number),
        "amount": AMOUNT,
        "invoiceCurrency": "FAU-sepolia",
        "paymentCurrency": "FAU-sepolia",
    })
}
