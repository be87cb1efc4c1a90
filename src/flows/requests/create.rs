//! Creates a payment request.

use crate::{
    ctx::Ctx,
    domain::{
        caller::{Credential, PlatformCaller},
        ids::RequestRowId,
        request::{
            Origin, Request,
            plan::{FreshRequest, NewRequest, plan},
            price::Pricing,
        },
    },
    flows::{
        Fault, FlowError, FlowResult,
        idempotency::{self, KeyedResult, RepeatableCall, ResponseKeeper, ResponseStorage},
        paying::charges_of_new,
        requests::{
            of_client::{client_of, of_client},
            room::{self, RequestRoom},
        },
    },
    ports::ids::random,
    store::{self, StoreError},
};

/// Maximum number of draws of a reference after collisions. One collision is expected in billions of requests.
pub(in crate::flows) const DRAWS_MAX: usize = 3;

/// Creates a request.
///
/// Errors: all invalid fields, including those beyond the limits of the client ID, and a fee receiver of the client ID
/// that is a contract (400); the cap of open requests is reached (429). Source: interface §4.3; rules P.3.3; decisions
/// D33.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    input: NewRequest,
    call: RepeatableCall<Request>,
) -> FlowResult<KeyedResult<Request>> {
    idempotency::once(ctx, caller, call, ResponseStorage::Shared, async |keeper| {
        let origin = origin(caller);
        let client = client_of(ctx, caller).await?;
        let of_client = of_client(ctx, caller, client.as_ref()).await?;
        let room = room::find(ctx, caller, 1).await?;
        for _ in 0..DRAWS_MAX {
            let request = plan(&input, &of_client, &origin, &fresh(ctx), &ctx.catalogue)?;
            charges_of_new(ctx, &request, None)?;
            match insert(ctx, caller, &request, &room, keeper).await {
                // Another request of the payee has the same reference: draw a new salt.
                Err(InsertError::Taken) => continue,
                Err(InsertError::Failed(error)) => return Err(error),
                Ok(()) => return Ok(request),
            }
        }
        Err(collided())
    })
    .await
}

/// Draws the values of a new request.
pub(in crate::flows) fn fresh(ctx: &Ctx) -> FreshRequest<'_> {
    FreshRequest {
        row: RequestRowId(ctx.ids.ulid()),
        entropy: random(ctx.ids.as_ref()),
        salt: random(ctx.ids.as_ref()),
        now: ctx.clock.now(),
        tolerance: ctx.payments.tolerance,
        pays_bank_accounts: ctx.partners.off_ramp.is_some(),
        pricing: Pricing {
            rate_ages: &ctx.payments.rate_ages,
            protocol_fee: ctx.payments.protocol_fee.as_ref(),
        },
    }
}

/// All drawn references belong to other requests.
pub(in crate::flows) fn collided() -> FlowError {
    FlowError::Faulted(Fault(anyhow::anyhow!(
        "{DRAWS_MAX} new payment references in a row already belong to other requests"
    )))
}

/// Why a new request was not written.
pub(in crate::flows) enum InsertError {
    /// Another request of the payee has the same reference.
    Taken,
    /// Something else.
    Failed(FlowError),
}

impl From<StoreError> for InsertError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict(store::REQUEST_REFERENCE) => Self::Taken,
            other => Self::Failed(other.into()),
        }
    }
}

/// Writes the request. If the call has no idempotency key and no count of requests is needed, one statement writes it,
/// without an explicit transaction.
async fn insert(
    ctx: &Ctx,
    caller: &PlatformCaller,
    request: &Request,
    room: &RequestRoom,
    keeper: &ResponseKeeper<'_, Request>,
) -> Result<(), InsertError> {
    if !keeper.has_key() && room.is_certain() {
        return Ok(store::requests::insert(ctx.db.writer(), request).await?);
    }
    let _permit = room.permit(ctx, caller).await.map_err(InsertError::Failed)?;
    let tx = ctx.db.begin("create_request").await?;
    store::requests::insert(&tx, request).await?;
    crate::fail_at("create_request", "inserted");
    room.check(ctx, &tx).await.map_err(InsertError::Failed)?;
    keeper.commit(tx, request).await.map_err(InsertError::Failed)
}

/// Who creates a request, and from where.
pub(in crate::flows) fn origin(caller: &PlatformCaller) -> Origin {
    let (client, client_id) = match &caller.credential {
        Credential::ClientId { id, client_id, .. } => (Some(id.clone()), Some(client_id.clone())),
        Credential::ApiKey { .. } | Credential::Session { .. } => (None, None),
    };
    Origin {
        platform: caller.platform.clone(),
        client,
        client_id,
        page: caller.origin().map(str::to_owned),
        orchestrator: caller.orchestrator().cloned(),
    }
}
