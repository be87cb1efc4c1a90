//! Payers, who receive payouts to bank accounts, and their bank accounts.

mod bodies;
mod view;

use crate::{
    domain::{
        country,
        payer::{
            bank_rules::{self, broken},
            birth,
        },
        refusal::{FieldError, Refusal},
    },
    flows,
    http::operation::*,
};
pub use bodies::*;
use poem_openapi::types::ParseFromJSON;

/// Message when the call does not say whether the payer agreed. Source: interface §7.
const AGREEMENT_MISSING: &str = "agreementCompleted must be provided";

/// Message when fields are invalid.
const VALIDATION: &str = "Validation failed";

/// Payers.
pub struct Payers;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::Payers")]
impl Payers {
    /// Register a payer
    ///
    /// Registers a person or company for payouts to a bank account. Returns the pages where the payer proves their
    /// identity and agrees to the terms. A repeated call with the same `clientUserId` returns the current status and
    /// links. Until the identity is approved, such a call also updates the data; for a rejected payer it starts the
    /// verification again. `compliance.updated` reports each change of status.
    ///
    /// When: the first payout of a payer to a bank account
    /// Needs: name, birth date and address of the payer
    /// Next: send the payer to `kycUrl` and `agreementUrl`; meanwhile add a bank account with `POST /v2/payer/{clientUserId}/payment-details`
    /// Events: `compliance.updated` with each change of identity or agreement
    /// 200: The status of the payer, and pages for the remaining steps
    /// 409: This payer is being erased; register it again afterwards
    /// 502: The off-ramp partner is not responding; try again
    #[oai(path = "/payer", method = "post", operation_id = "registerPayer")]
    async fn register(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<PayerKeeper>,
        key: Keyed,
        body: BodyDraft<RegisterPayerBody>,
    ) -> Result<Answered<PayerRegistered>, Fail<{ s::BAD_REQUEST | s::CONFLICT | s::BAD_GATEWAY }>> {
        let mut wrong = Vec::from_iter(birth_date(&ctx, body.text("dateOfBirth")));
        wrong.extend(place_in_paths(body.text("clientUserId")));
        wrong.extend(countries(&body, &["country", "nationality"]));
        let body = body.finish(wrong, VALIDATION)?;
        let once = key.once(op::registerPayer, &body);
        let id = String::from(body.client_user_id.clone());
        let person = body.into();
        answer_once(once, view::registered, async |call| {
            flows::payers::register::run(&ctx, &caller, &id, &person, call).await
        })
        .await
    }

    /// Read a payer
    ///
    /// Returns the identity and agreement status. Percent-encode the id in the path.
    ///
    /// When: you want to know whether a payer can receive payouts
    /// Needs: a payer of `POST /v2/payer`
    /// Next: once both are approved, add a bank account with `POST /v2/payer/{clientUserId}/payment-details`
    /// 200: The status of the payer
    /// 404: Payer with client user ID user-1042 not found
    #[oai(path = "/payer/:clientUserId", method = "get", operation_id = "getPayer")]
    async fn read(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<PayerKeeper>,
        /// Your own id of the payer
        #[oai(name = "clientUserId")]
        client_user_id: Path<ClientUserIdText>,
    ) -> Result<Json<PayerStatus>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let payer = flows::payers::read::run(&ctx, &caller, client_user_id.as_str()).await?;
        Ok(Json(view::status(&payer)))
    }

    /// Record the agreement of a payer
    ///
    /// Records that a payer agreed to the terms elsewhere than on the page of `agreementUrl`. `false` changes nothing.
    ///
    /// When: a payer agreed to the terms on your own page
    /// Needs: a payer of `POST /v2/payer`
    /// Next: read the state with `GET /v2/payer/{clientUserId}`
    /// Events: `compliance.updated`
    /// 200: The agreement is recorded
    /// 400 agreementCompleted: agreementCompleted must be provided
    /// 404: Payer with client user ID user-1042 not found
    /// 502: The off-ramp partner is not responding; try again
    #[oai(path = "/payer/:clientUserId", method = "patch", operation_id = "updatePayer")]
    async fn update(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<PayerKeeper>,
        /// Your own id of the payer
        #[oai(name = "clientUserId")]
        client_user_id: Path<ClientUserIdText>,
        body: BodyDraft<UpdatePayerBody>,
    ) -> Result<Json<Success>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND | s::BAD_GATEWAY }>> {
        let body = body.finish(Vec::new(), VALIDATION);
        let body =
            body.map_err(|_| Refusal::field("agreementCompleted", AGREEMENT_MISSING).led_by("agreementCompleted"))?;
        flows::payers::agree::run(&ctx, &caller, client_user_id.as_str(), body.agreement_completed).await?;
        Ok(Success::done())
    }

    /// Erase a payer
    ///
    /// Deletes all personal data of the payer here and at the off-ramp partner: the form, the bank accounts, and the
    /// contents of events about the payer or the accounts. Amounts, times and transactions of payments remain. A payer
    /// whose registration returned 502 can be erased too. Added by this service.
    ///
    /// The call is refused while a payout of the payer to a bank account is in progress. After this refusal the payer
    /// gets no new quotes unless it is registered again. If a call to the partner about the payer may still be in
    /// flight, the response is a 409 with another message, and the service erases the payer automatically within
    /// seconds.
    ///
    /// When: a payer asks for erasure
    /// Needs: a payer without a payout in progress
    /// Next: nothing; the same `clientUserId` can be registered again
    /// 200: The payer is erased
    /// 404: Payer with client user ID user-1042 not found
    /// 409: A payout of this payer to a bank account is in progress; erase the payer once the payout has arrived or come back. Until then the payer gets no new quotes, unless the payer is registered again
    /// 502: The off-ramp partner is not responding; the payer is erased automatically once it responds
    #[oai(path = "/payer/:clientUserId", method = "delete", operation_id = "erasePayer")]
    async fn erase(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<PayerKeeper>,
        /// Your own id of the payer
        #[oai(name = "clientUserId")]
        client_user_id: Path<ClientUserIdText>,
    ) -> Result<Json<Success>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND | s::CONFLICT | s::BAD_GATEWAY }>> {
        flows::payers::erase::run(&ctx, &caller, client_user_id.as_str()).await?;
        Ok(Success::done())
    }

    /// Add a bank account
    ///
    /// Adds a bank account to a payer. It is `pending` until the partner has checked it and the identity of the payer
    /// is approved; `payment_detail.updated` reports each change. The required fields depend on the currency and the
    /// rails. The same account is not added twice, unless it failed.
    ///
    /// When: you know the bank account of a payer
    /// Needs: a payer of `POST /v2/payer`
    /// Next: once the account is approved, create a request with `POST /v2/request` and `isCryptoToFiatAvailable`, and pass the id of the account as `paymentDetailsId` of `GET /v2/request/{requestId}/pay`
    /// Events: `payment_detail.updated` with each change
    /// 201: The account
    /// 404: Payer with client user ID user-1042 not found
    /// 409: The limit is 20 bank accounts per payer (caps.bank_accounts); use an existing one, or ask the operator for a higher limit
    /// 502: The off-ramp partner is not responding; try again
    #[oai(
        path = "/payer/:clientUserId/payment-details",
        method = "post",
        operation_id = "addPaymentDetails"
    )]
    async fn add_account(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<PayerKeeper>,
        /// Your own id of the payer
        #[oai(name = "clientUserId")]
        client_user_id: Path<ClientUserIdText>,
        key: Keyed,
        body: BodyDraft<PaymentDetailsBody>,
    ) -> Result<Created<PaymentDetailsAdded>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND | s::CONFLICT | s::BAD_GATEWAY }>>
    {
        let mut wrong = broken(|name| body.text(name));
        wrong.extend(birth_date(&ctx, body.text("dateOfBirth")));
        wrong.extend(countries(&body, &["country"]));
        let body = body.finish(wrong, bank_rules::INVALID)?;
        let id = client_user_id.as_str();
        let once = key.once_for(op::addPaymentDetails, id, &body);
        let account = body.into();
        answer_once(once, view::added, async |call| {
            flows::payers::accounts::add(&ctx, &caller, id, &account, call).await
        })
        .await
    }

    /// List bank accounts
    ///
    /// Returns the bank accounts of a payer, or only the one that `paymentDetailsId` names. Birth dates and document
    /// numbers are never returned. Account numbers and IBANs show only their last four characters, unless the operator
    /// chose otherwise.
    ///
    /// When: you choose the account for a payout
    /// Needs: a payer of `POST /v2/payer`
    /// Next: pass the id of an approved account to `GET /v2/request/{requestId}/pay`
    /// 200: The accounts, oldest first
    /// 404: Payer with client user ID user-1042 not found
    #[oai(
        path = "/payer/:clientUserId/payment-details",
        method = "get",
        operation_id = "listPaymentDetails"
    )]
    async fn list_accounts(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<PayerKeeper>,
        /// Your own id of the payer
        #[oai(name = "clientUserId")]
        client_user_id: Path<ClientUserIdText>,
        /// Only this account
        #[oai(name = "paymentDetailsId")]
        payment_details_id: Checked<UuidText>,
    ) -> Result<Json<PaymentDetailList>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let mut checks = Checks::new();
        let wanted = payment_details_id.take(&mut checks);
        checks.finish()?;
        let wanted = wanted.map(|id| id.as_str().to_ascii_lowercase());
        let (payer, accounts) =
            flows::payers::accounts::list(&ctx, &caller, client_user_id.as_str(), wanted.as_deref()).await?;
        let is_masked = ctx.payers.mask_bank_details;
        let accounts = accounts.iter().map(|account| view::detail(&payer, account, is_masked));
        Ok(Json(PaymentDetailList {
            payment_details: accounts.collect(),
        }))
    }
}

/// Checks a birth date beyond its form.
fn birth_date(ctx: &Ctx, text: Option<&str>) -> Option<FieldError> {
    let is_wrong = !birth::is_real(text?, ctx.clock.now());
    is_wrong.then(|| FieldError::new("dateOfBirth", birth::HINT))
}

/// Rejects ids that clients remove from paths, even percent-encoded.
fn place_in_paths(id: Option<&str>) -> Option<FieldError> {
    let is_taken_out = matches!(id, Some("." | ".."));
    is_taken_out.then(|| FieldError::new("clientUserId", "must not be . or .., which URL paths cannot contain"))
}

/// Finds the country fields whose value is not a country code.
fn countries<T: ParseFromJSON>(body: &BodyDraft<T>, fields: &[&'static str]) -> Vec<FieldError> {
    let is_wrong = |field: &&&str| body.text(field).is_some_and(|code| !country::is_assigned(code));
    let wrong = fields.iter().filter(is_wrong);
    wrong.map(|field| FieldError::new(*field, CountryText::HINT)).collect()
}
