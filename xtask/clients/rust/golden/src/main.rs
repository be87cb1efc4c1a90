//! Runs the golden flow with the client that progenitor generated. The golden flow is the fixed sequence of calls that
//! `cargo xtask clients` makes in every language.

#![deny(warnings)]

mod surroundings;

use std::collections::BTreeSet;
use std::time::SystemTime;

use client::v2::types::{
    CreatePayoutBody, CreateRequestBody, CreateSecurePaymentBody, ErrorBody, PayResponse, PayoutAnswer, SecureCalldata,
    SecurePaymentItem, SecurePaymentView,
};
use client::{auth, v2};
use progenitor_client::Error;

use crate::surroundings::{Dev, Hooks, Outcome, check, step};

struct Flow {
    dev: Dev,
    service: v2::Client,
    reference: String,
}

impl Flow {
    fn asked(&self, amount: &str) -> Outcome<CreateRequestBody> {
        Ok(CreateRequestBody {
            payee: Some(self.dev.payee().parse()?),
            amount: amount.parse()?,
            invoice_currency: "FAU-sepolia".parse()?,
            payment_currency: "FAU-sepolia".parse()?,
            reference: Some(self.reference.parse()?),
            customer_info: None,
            is_crypto_to_fiat_available: None,
            original_request_id: None,
            original_request_payment_reference: None,
            payer: None,
            recurrence: None,
        })
    }

    async fn pay(&self, request_id: &str) -> Outcome<()> {
        let (id, wallet) = (request_id.parse()?, self.dev.payer().parse()?);
        let calldata = self
            .service
            .get_payment_calldata(&id, None, None, None, None, None, None, None, Some(&wallet));
        match calldata.await?.into_inner() {
            PayResponse::Calldata(calldata) => self.dev.send(&calldata.transactions).await,
            PayResponse::IntentCalldata(_) => Err("a payment on one chain must not be an intent".into()),
        }
    }

    /// The ids of one page of payments, and the cursor of the next page.
    async fn page(&self, cursor: Option<&str>) -> Outcome<(Vec<String>, Option<String>)> {
        let cursor = cursor.map(str::parse).transpose()?;
        let (limit, reference) = ("1".parse()?, self.reference.parse()?);
        let (limit, reference) = (Some(&limit), Some(&reference));
        let page = self.service.search_payments(
            cursor.as_ref(),
            None,
            None,
            limit,
            None,
            None,
            None,
            reference,
            None,
            None,
            None,
            None,
            None,
        );
        let page = page.await?.into_inner();
        let ids = page.payments.iter().map(|payment| payment.id.to_string()).collect();
        Ok((ids, page.next_cursor.map(|cursor| cursor.to_string())))
    }
}

/// The typed error body, if the call was refused.
fn refusal<T>(answer: Result<T, Error<ErrorBody>>) -> Outcome<ErrorBody> {
    match answer {
        Err(Error::ErrorResponse(answer)) => Ok(answer.into_inner()),
        Err(error) => Err(error.into()),
        Ok(_) => Err("this should have been refused".into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let dev = Dev::read()?;
    let auth = auth::Client::new_with_client(&dev.auth_url, dev.caller()?);
    let service = v2::Client::new_with_client(&dev.base_url, dev.caller()?);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let flow = Flow {
        dev,
        service,
        reference: format!("rust-{}", now.as_nanos()),
    };
    let Flow {
        dev,
        service,
        reference,
    } = &flow;

    let hooks = Hooks::listen()?;
    let body = auth::types::CreateWebhookBody {
        url: hooks.url.parse()?,
        client_id: None,
        header_prefix: None,
    };
    let hook = auth.create_webhook(None, &body).await?.into_inner();

    let key = reference.parse()?;
    let created = service
        .create_request(Some(&key), &flow.asked("1.5")?)
        .await?
        .into_inner();
    let again = service
        .create_request(Some(&key), &flow.asked("1.5")?)
        .await?
        .into_inner();
    check(
        again.request_id == created.request_id,
        "an idempotency key must create only once",
    )?;
    step("create");

    flow.pay(&created.request_id).await?;
    step("pay");

    hooks.confirmed(&created.request_id, &hook.secret)?;
    step("webhook");

    let read = service.get_request(&created.request_id.parse()?).await?.into_inner();
    check(read.has_been_paid, "a confirmed request must be paid")?;
    let id = created.request_id.parse()?;
    let found = service.search_payments(
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        Some(&id),
        None,
        None,
        None,
        None,
    );
    let found = found.await?.into_inner();
    check(found.pagination.total == 1, "the payment must be found by its request")?;
    check(found.payments[0].amount.as_str() == "1.5", "the payment must have its amount")?;
    step("search");

    let second = service.create_request(None, &flow.asked("1.5")?).await?.into_inner();
    flow.pay(&second.request_id).await?;
    hooks.confirmed(&second.request_id, &hook.secret)?;
    let (mut seen, mut cursor) = (BTreeSet::new(), None);
    loop {
        let (ids, next) = flow.page(cursor.as_deref()).await?;
        check(ids.len() <= 1, "a page must have one payment")?;
        seen.extend(ids);
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    check(seen.len() == 2, "two payments must be paged through")?;
    step("page");

    // The document allows more decimal places than the token has.
    let refused = refusal(service.create_request(None, &flow.asked("0.0000000000000000001")?).await)?;
    check(refused.status_code == 400, "an amount must have at most the digits of its token")?;
    check(
        refused.errors.iter().any(|error| error.field.as_str() == "amount"),
        "the refusal must name the field",
    )?;
    let unknown = format!("01{}", "0".repeat(64)).parse()?;
    let refused = refusal(service.get_request(&unknown).await)?;
    check(refused.status_code == 404, "an unknown request must not be found")?;
    step("refuse");

    let body = CreatePayoutBody {
        payee: dev.payee().parse()?,
        amount: "2".parse()?,
        invoice_currency: "FAU-sepolia".parse()?,
        payment_currency: "FAU-sepolia".parse()?,
        payer_wallet: Some(dev.payer().parse()?),
        reference: Some(reference.parse()?),
        customer_info: None,
        fee_address: None,
        fee_percentage: None,
        payer_address: None,
        recurrence: None,
    };
    let PayoutAnswer::PayoutCreated(payout) = service.create_payout(None, &body).await?.into_inner() else {
        return Err("a one-time payout must not be recurring".into());
    };
    dev.send(&payout.transactions).await?;
    hooks.confirmed(&payout.request_id, &hook.secret)?;
    step("payout");

    let item = SecurePaymentItem {
        destination_id: Some(dev.destination_id.parse()?),
        amount: "3".parse()?,
        currency: None,
        fee_address: None,
        fee_percentage: None,
        invoice_currency: None,
        payee: None,
        payer_identifier: None,
        payment_currency: None,
        redirect_label: None,
        redirect_url: None,
        reference: None,
    };
    let body = CreateSecurePaymentBody {
        requests: vec![item],
        reference: Some(reference.parse()?),
        access_policy: None,
        destination_id: None,
        expires_in: None,
        fee_address: None,
        fee_percentage: None,
        payer_identifier: None,
        redirect_label: None,
        redirect_url: None,
    };
    let link = service.create_secure_payment(None, &body).await?.into_inner();
    let viewed = service
        .get_secure_payment(&link.token.parse()?, None, None, None, None, None)
        .await?;
    let SecurePaymentView::SingleSecurePayment(viewed) = viewed.into_inner() else {
        return Err("the link must have one amount".into());
    };
    check(viewed.amount.as_str() == "3", "the link must show its one amount")?;
    let (token, wallet) = (link.token.parse()?, dev.payer().parse()?);
    let calldata = service
        .get_secure_payment_calldata(&token, None, None, None, None, Some(&wallet))
        .await?;
    let SecureCalldata::SingleCalldata(calldata) = calldata.into_inner() else {
        return Err("one amount must be paid by a list of transactions".into());
    };
    dev.send(&calldata.transactions).await?;
    hooks.confirmed(&link.request_ids[0], &hook.secret)?;
    step("link");

    auth.delete_webhook(&hook.id.parse()?).await?;
    Ok(())
}
