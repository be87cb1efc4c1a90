//! Recurring payouts: the signature with which one begins, its state, its end.

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
    /// Begin a recurring payment
    ///
    /// Takes the signature of the payer over the `recurringPaymentPermit` that `POST /v2/payouts` answered. From now on
    /// each payment is executed when it is due, as long as the payer has and allows the money. The payer signs with the
    /// key of an account: the contract asks no contract wallet. What was made with a client ID has to be what that client
    /// ID may still ask for, whoever calls.
    ///
    /// When: the payer has signed the permit
    /// Needs: the transactions of `POST /v2/payouts` mined, and the signature; for a client ID with allowed domains a payment that it made
    /// Next: `GET /v2/payouts/recurring/{id}` shows each payment
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
    /// Its state, its requests and its payments.
    ///
    /// When: you show how far a recurring payment is
    /// Needs: the id that `POST /v2/payouts` answered
    /// Next: `PATCH /v2/payouts/recurring/{id}` to end it or to go on
    /// 200: The recurring payment and what was executed of it
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
    /// `cancel` ends it; a payment that is on its way is still executed and credited. `unpause` takes up again what was
    /// paused after failures: missed payments are executed one after the other. A client ID with allowed domains does
    /// neither: everybody reads it off its page, and would end what others signed.
    ///
    /// When: it is to end, or what made it fail is put right
    /// Needs: the id that `POST /v2/payouts` answered
    /// Next: `GET /v2/payouts/recurring/{id}` shows the state
    /// Events: none by itself; `payment.confirmed` for what is executed later
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
        body: Draft<UpdateRecurringBody>,
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

/// What a caller reads who asks for another action.
const HINT: &str = "must be cancel or unpause";

/// Longest action that is repeated.
const SHOWN_MAX: usize = 64;

/// The sentence of the contract, and what would be right beside it. Source: decisions D39.
fn unknown_action(action: &str) -> Option<Refusal> {
    let is_shown = action.len() <= SHOWN_MAX && !action.chars().any(char::is_control);
    let is_known = matches!(action, "cancel" | "unpause");
    (is_shown && !is_known).then(|| Refusal {
        message: format!("Invalid action: {action}"),
        ..Refusal::fields(vec![FieldError::new("action", HINT)])
    })
}
