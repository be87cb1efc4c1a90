//! A secure payment that somebody opens with its token, and the requests that it pays.

use crate::{
    ctx::Ctx,
    domain::{
        fees::Fees,
        ids::SecurePaymentToken,
        refusal::Refusal,
        request::Request,
        secure_payment::{
            SecurePayment, SecurePaymentStatus, Unpayable,
            fee_plan::{FeePlan, Planned},
        },
    },
    flows::{Fault, FlowResult, requests::keep::Asker},
    store::{self, Scope},
};
use alloy::primitives::U256;
use anyhow::anyhow;
use chrono::{DateTime, Utc};

/// A secure payment with its requests, in their order, as it is at a moment.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The secure payment.
    pub payment: SecurePayment,
    /// Its requests.
    pub requests: Vec<Request>,
    /// The moment.
    pub now: DateTime<Utc>,
}

/// Opens a secure payment, whatever its state: its token is all that it takes. Errors: nobody made it (404).
/// Source: interface §2.10; rules P.3.7.
pub async fn by_token(ctx: &Ctx, token: &str) -> FlowResult<Opened> {
    let token = SecurePaymentToken(token.to_owned());
    let found = store::secure_payments::by_token(ctx.db.reader(), &token).await?;
    let payment = found.ok_or_else(|| Refusal::not_found("Secure payment not found"))?;
    with_requests(ctx, payment).await
}

/// Reads the requests of a secure payment.
pub(super) async fn with_requests(ctx: &Ctx, payment: SecurePayment) -> FlowResult<Opened> {
    let owner = Scope {
        platform: payment.origin.platform.clone(),
        client: None,
    };
    let ids: Vec<String> = payment.items.iter().map(|item| item.request_id.0.clone()).collect();
    let mut known = store::requests::find_all(ctx.db.reader(), &owner, &ids).await?;
    let requests = ids.iter().map(|id| known.remove(id));
    let requests: Option<Vec<Request>> = requests.collect();
    let missing = || Fault(anyhow!("a request of secure payment {} is not there", payment.id));
    Ok(Opened {
        requests: requests.ok_or_else(missing)?,
        now: ctx.clock.now(),
        payment,
    })
}

impl Opened {
    /// State at the moment.
    pub fn status(&self) -> SecurePaymentStatus {
        self.payment.status_at(self.now)
    }

    /// Errors: it cannot be paid any more (403), or it is paid (409).
    pub fn payable(&self) -> Result<(), Unpayable> {
        self.payment.payable_at(self.now)
    }

    /// For whom its calldata is kept: what it was made with binds whoever pays, whoever asked for it.
    pub(super) fn asker(&self) -> Asker<'_> {
        Asker {
            client: self.payment.origin.client.as_ref(),
            is_public: false,
        }
    }

    /// Requests and what is charged on top of each.
    pub fn due(&self) -> impl Iterator<Item = (&Request, &Fees)> {
        let fees = self.payment.items.iter().map(|item| &item.fees);
        self.requests.iter().zip(fees)
    }

    /// Its fees in dollars; `None` where it is not paid in one dollar token.
    pub fn fee_plan(&self, ctx: &Ctx) -> Option<FeePlan> {
        let currencies = self.requests.iter().map(|request| &request.terms.payment_currency);
        let mut currencies = currencies.clone().zip(currencies.skip(1));
        let first = self.requests.first()?;
        if currencies.any(|(one, next)| one != next) {
            return None;
        }
        let currency = ctx.catalogue.find(&first.terms.payment_currency)?;
        let payments: Vec<Planned> = self
            .due()
            .map(|(request, fees)| (request.ledger.expected, *fees))
            .collect();
        let flow = self.payment.flow;
        FeePlan::of(flow, flow.usual_bearer(), currency, &payments)
    }

    /// What is left to be paid of each request that can be paid.
    pub fn unpaid(&self) -> Vec<(&Request, &Fees, U256)> {
        let open = self.due().filter(|(request, _)| request.payable().is_ok());
        open.map(|(request, fees)| (request, fees, request.ledger.remaining()))
            .collect()
    }
}
