//! Payers: who is paid out to a bank account, and the accounts.

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

/// What a caller reads who does not say whether the payer agreed. Source: interface §7.
const AGREEMENT_MISSING: &str = "agreementCompleted must be provided";

/// What a caller reads whose fields are wrong.
const VALIDATION: &str = "Validation failed";

/// Payers.
pub struct Payers;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::Payers")]
impl Payers {
    /// Register a payer
    ///
    /// Registers whoever is to be paid out to a bank account, and answers where they prove who they are and agree to the
    /// terms. The same `clientUserId` again gets the current state and links; as long as the identity is not approved its
    /// data is updated, and a payer who was rejected begins anew. What is known of a payer is told by `compliance.updated`.
    ///
    /// When: somebody is to be paid out to a bank account for the first time
    /// Needs: who they are and where they live
    /// Next: send them to `kycUrl` and `agreementUrl`, meanwhile `POST /v2/payer/{clientUserId}/payment-details`
    /// Events: `compliance.updated` with each change of identity or agreement
    /// 200: What is known of the payer, and where the rest is done
    /// 409: This payer is being erased; register it again once that is done
    /// 502: The off-ramp partner does not answer at the moment; try again
    #[oai(path = "/payer", method = "post", operation_id = "registerPayer")]
    async fn register(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<PayerKeeper>,
        key: Keyed,
        body: Draft<RegisterPayerBody>,
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
    /// What is known of identity and agreement. In the path the id is percent-encoded.
    ///
    /// When: you want to know whether a payer can be paid out
    /// Needs: a payer of `POST /v2/payer`
    /// Next: `POST /v2/payer/{clientUserId}/payment-details` once both are approved
    /// 200: What is known of the payer
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

    /// Say that a payer agreed
    ///
    /// For a payer who agreed to the terms somewhere else than on the page of `agreementUrl`. That they did not changes
    /// nothing.
    ///
    /// When: a payer agreed to the terms on a page of yours
    /// Needs: a payer of `POST /v2/payer`
    /// Next: `GET /v2/payer/{clientUserId}`
    /// Events: `compliance.updated`
    /// 200: It is noted
    /// 400 agreementCompleted: agreementCompleted must be provided
    /// 404: Payer with client user ID user-1042 not found
    /// 502: The off-ramp partner does not answer at the moment; try again
    #[oai(path = "/payer/:clientUserId", method = "patch", operation_id = "updatePayer")]
    async fn update(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<PayerKeeper>,
        /// Your own id of the payer
        #[oai(name = "clientUserId")]
        client_user_id: Path<ClientUserIdText>,
        body: Draft<UpdatePayerBody>,
    ) -> Result<Json<Success>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND | s::BAD_GATEWAY }>> {
        let body = body.finish(Vec::new(), VALIDATION);
        let body =
            body.map_err(|_| Refusal::field("agreementCompleted", AGREEMENT_MISSING).led_by("agreementCompleted"))?;
        flows::payers::agree::run(&ctx, &caller, client_user_id.as_str(), body.agreement_completed).await?;
        Ok(Success::done())
    }

    /// Erase a payer
    ///
    /// Takes away all that names the payer, here and at the off-ramp partner: the form, the bank accounts, and what events
    /// told of both. Amounts, times and transactions of payments stay. Refused while money of the payer is on its way to a
    /// bank account; from then on no new quote is handed out for the payer, unless it is registered again. While a call to the
    /// partner about the payer may be in flight, a 409 says so, and the payer is erased by itself within seconds. Whoever was
    /// registered by a call that was answered with a 502 can be erased too. An addition of this service.
    ///
    /// When: a payer wants to be forgotten
    /// Needs: a payer without money on its way
    /// Next: nothing; the same `clientUserId` may be registered anew
    /// 200: The payer is erased
    /// 404: Payer with client user ID user-1042 not found
    /// 409: Money of this payer is on its way to a bank account; erase the payer once it has arrived or come back. Until then no new quote is handed out for the payer, unless it is registered again
    /// 502: The off-ramp partner does not answer at the moment; the payer is erased by itself once it does
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
    /// Adds a bank account to a payer. It is `pending` until the partner has checked it, and as long as the identity of the
    /// payer is not approved; `payment_detail.updated` tells each change. What an account needs follows from its currency and
    /// its rails. The same account again is not added twice, unless it failed.
    ///
    /// When: it is known to which account a payer is paid out
    /// Needs: a payer of `POST /v2/payer`
    /// Next: once approved, `POST /v2/request` with `isCryptoToFiatAvailable`, and give its id as `paymentDetailsId` of `GET /v2/request/{requestId}/pay`
    /// Events: `payment_detail.updated` with each change
    /// 201: The account
    /// 404: Payer with client user ID user-1042 not found
    /// 409: There may be 20 bank accounts of a payer at most (caps.bank_accounts); use one that the payer has, or ask the operator for more
    /// 502: The off-ramp partner does not answer at the moment; try again
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
        body: Draft<PaymentDetailsBody>,
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
    /// The bank accounts of a payer, or the one that is named. Birth dates and document numbers are never shown, and of
    /// account numbers and IBANs the last four characters alone, unless the operator chose otherwise.
    ///
    /// When: you choose the account for a payout
    /// Needs: a payer of `POST /v2/payer`
    /// Next: name an approved one in `GET /v2/request/{requestId}/pay`
    /// 200: The accounts, the oldest first
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

/// What is wrong with a birth date, beyond its form.
fn birth_date(ctx: &Ctx, text: Option<&str>) -> Option<FieldError> {
    let is_wrong = !birth::is_real(text?, ctx.clock.now());
    is_wrong.then(|| FieldError::new("dateOfBirth", birth::HINT))
}

/// What is wrong with an id that clients take out of paths, also where it is percent-encoded.
fn place_in_paths(id: Option<&str>) -> Option<FieldError> {
    let is_taken_out = matches!(id, Some("." | ".."));
    is_taken_out.then(|| {
        FieldError::new(
            "clientUserId",
            "must be another id than . and .., which no path can name",
        )
    })
}

/// The countries of a form that are none.
fn countries<T: ParseFromJSON>(body: &Draft<T>, fields: &[&'static str]) -> Vec<FieldError> {
    let is_wrong = |field: &&&str| body.text(field).is_some_and(|code| !country::is_assigned(code));
    let wrong = fields.iter().filter(is_wrong);
    wrong.map(|field| FieldError::new(*field, CountryText::HINT)).collect()
}
