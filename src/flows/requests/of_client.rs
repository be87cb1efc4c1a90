//! The settings of the calling client ID that apply to every operation that creates a request.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller, client_id::ClientId, client_limits::ClientLimits, fee_config::applicable,
        paying::capture::CaptureTerms, request::plan::OfClient, secure_payment::PaymentFlow,
    },
    flows::{Fault, FlowResult},
    store,
};

/// The client ID of the call. Errors: the call has an orchestrator key and a client ID, and their link has ended since
/// the call was admitted (403).
pub async fn client_of(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<Option<ClientId>> {
    let Some(row) = caller.client() else {
        return Ok(None);
    };
    let client = store::client_ids::find(ctx.db.reader(), &caller.platform, row).await?;
    if let (Some(client), Some(orchestrator)) = (&client, caller.orchestrator()) {
        client.require_link(orchestrator)?;
    }
    Ok(client)
}

/// The payee destination to which the client ID of the call is bound, its limits and its fee. A caller without client
/// ID has none of these. Source: decisions D33; decisions D48.
pub async fn of_client(ctx: &Ctx, caller: &PlatformCaller, client: Option<&ClientId>) -> FlowResult<OfClient> {
    let Some(client) = client else {
        return Ok(OfClient {
            is_public: caller.is_public(),
            is_outsider: caller.is_outsider(),
            bound: None,
            limits: ClientLimits::default(),
            fee: None,
            orchestrator_fees: Vec::new(),
        });
    };
    let bound = match &client.payee_destination {
        Some(id) => {
            let found = store::destinations::find_by_id(ctx.db.reader(), &caller.platform, id).await?;
            // A missing destination is an error. Otherwise a client ID that is bound to a destination could be used for
            // any payee.
            let missing = || Fault(anyhow::anyhow!("payee destination {id} of a client ID is missing"));
            Some(found.ok_or_else(missing)?)
        }
        None => None,
    };
    Ok(OfClient {
        is_public: caller.is_public(),
        is_outsider: caller.is_outsider(),
        bound,
        limits: client.limits.clone(),
        fee: client.fee(),
        orchestrator_fees: Vec::new(),
    })
}

/// Does what [`of_client`] does for a call that creates a payment link, with the fees of its orchestrator.
pub async fn of_link_creator(
    ctx: &Ctx,
    caller: &PlatformCaller,
    client: Option<&ClientId>,
    flow: PaymentFlow,
) -> FlowResult<OfClient> {
    Ok(OfClient {
        orchestrator_fees: orchestrator_fees(ctx, caller, flow).await?,
        ..of_client(ctx, caller, client).await?
    })
}

/// The fees of the orchestrator of a call on a new payment; none for a call without an orchestrator.
pub async fn orchestrator_fees(ctx: &Ctx, caller: &PlatformCaller, flow: PaymentFlow) -> FlowResult<Vec<CaptureTerms>> {
    let Some((orchestrator, client)) = caller.orchestrator().zip(caller.client()) else {
        return Ok(Vec::new());
    };
    let configs = store::fee_configs::list_for_payment(ctx.db.reader(), orchestrator, client).await?;
    Ok(applicable(&configs, flow))
}
