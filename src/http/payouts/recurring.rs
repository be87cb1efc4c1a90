//! Recurring payouts: activate, read, cancel and resume.

use super::{recurring_bodies::*, recurring_view as view};
use crate::{
    domain::{
        permit::SignatureFlaw,
        refusal::{FieldError, Refusal},
    },
    flows,
    http::operation::*,
};

/// Recurring payouts.
pub struct RecurringPayouts;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::Payouts")]
impl RecurringPayouts {
    /// Activate a recurring payment
    ///
    /// Takes the payer's signature of the `recurringPaymentPermit` that `POST /v2/payouts` returned. Each payment is
    /// then executed when it is due, as long as the payer's balance and allowance are sufficient. The payer must sign
    /// with the key of an account; the contract does not support contract wallets. A recurring payment that a client ID
    /// created must still be within the limits of that client ID, even if another caller activates it.
    ///
    /// When: the payer has signed the permit
    /// Needs: the mined transactions of `POST /v2/payouts`, and the signature; a client ID with allowed domains can only activate recurring payments that it created
    /// Next: read each payment with `GET /v2/payouts/recurring/{id}`
    /// Events: `payment.confirmed` for each payment, `payment.failed` when one could not be executed
    /// 201: The recurring payment is active
    /// 404: Recurring payment not found
    #[oai(
        path = "/payouts/recurring/:id",
        method = "post",
        operation_id = "activateRecurringPayment"
    )]
    async fn activate(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrClient>,
        key: Keyed,
        /// Id of the recurring payment
        id: Path<UlidText>,
        body: Body<ActivateRecurringBody>,
    ) -> Result<Created<RecurringActivated>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND | s::CONFLICT }>> {
        let once = key.once_for(op::activateRecurringPayment, id.as_str(), &body.0);
        let signature = hex::decode(body.permit_signature.as_str());
        let signature = signature.map_err(|_| Refusal::field("permitSignature", SignatureFlaw::Length.to_string()))?;
        answer_once(once, view::activated, async |call| {
            flows::schedules::activate::run(&ctx, &caller, &id.id(), &signature, call).await
        })
        .await
    }

    /// Read a recurring payment
    ///
    /// Returns the state, the requests and the payments of a recurring payment.
    ///
    /// When: you show the progress of a recurring payment
    /// Needs: the id that `POST /v2/payouts` returned
    /// Next: cancel or resume it with `PATCH /v2/payouts/recurring/{id}`
    /// 200: The recurring payment and its executed payments
    /// 404: Recurring payment not found
    #[oai(
        path = "/payouts/recurring/:id",
        method = "get",
        operation_id = "getRecurringPayment"
    )]
    async fn read(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrClient>,
        /// Id of the recurring payment
        id: Path<UlidText>,
    ) -> Result<Json<RecurringView>, Fail<{ s::NOT_FOUND }>> {
        let detail = flows::schedules::read::run(&ctx, &caller, &id.id()).await?;
        Ok(Json(view::recurring(&ctx, &detail)))
    }

    /// Cancel or resume a recurring payment
    ///
    /// `cancel` ends the recurring payment; a payment in flight is still executed and credited. `unpause` resumes a
    /// recurring payment that was paused after failures: missed payments are executed one after the other. A client ID
    /// with allowed domains can do neither: it is visible on a page, so any visitor could cancel what others signed.
    ///
    /// When: you end a recurring payment, or the cause of its failures is fixed
    /// Needs: the id that `POST /v2/payouts` returned
    /// Next: read the state with `GET /v2/payouts/recurring/{id}`
    /// Events: none immediately; `payment.confirmed` for payments that are executed later
    /// 200: The recurring payment is changed
    /// 404: Recurring payment not found
    #[oai(
        path = "/payouts/recurring/:id",
        method = "patch",
        operation_id = "updateRecurringPayment"
    )]
    async fn update(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<Canceller>,
        /// Id of the recurring payment
        id: Path<UlidText>,
        body: BodyDraft<UpdateRecurringBody>,
    ) -> Result<Json<RecurringUpdated>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        if let Some(refusal) = body.text("action").and_then(unknown_action) {
            return Err(refusal.into());
        }
        let changed = match body.finish(Vec::new(), HINT)?.action {
            RecurringPaymentAction::Cancel => flows::schedules::update::cancel(&ctx, &caller, &id.id()).await?,
            RecurringPaymentAction::Unpause => flows::schedules::update::unpause(&ctx, &caller, &id.id()).await?,
        };
        Ok(Json(view::updated(&changed)))
    }
}

/// Hint for an action that is unknown.
const HINT: &str = "must be cancel or unpause";

/// Maximum length of an action that an error message repeats.
const SHOWN_MAX: usize = 64;

/// The refusal of an unknown action: the message of the contract, and the accepted values. Source: decisions D39.
fn unknown_action(action: &str) -> Option<Refusal> {
    let is_shown = action.len() <= SHOWN_MAX && !action.chars().any(char::is_control);
    let is_known = matches!(action, "cancel" | "unpause");
    (is_shown && !is_known).then(|| Refusal {
        message: format!("Invalid action: {action}"),
        ..Refusal::fields(vec![FieldError::new("action", HINT)])
    })
}
