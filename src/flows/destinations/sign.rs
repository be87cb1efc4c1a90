//! Payee destinations that a wallet sets up and deactivates with a signature instead of a session.

use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        caller::PlatformCaller,
        destination::{self, Destination, NONCE_LIFE, SigningAction, SigningData},
        ids::ClientRowId,
        refusal::{Checks, Refusal},
    },
    flows::{
        FlowResult,
        destinations::{end, key_of, put_in_use},
        idempotency::{self, KeyedResult, RepeatableCall, ResponseStorage},
    },
    ports::ids::random,
    store::{self, Tx},
};
use chrono::TimeDelta;

/// How long signing data is stored after it expires, so that a late signature gets the right message.
const REMEMBERED: TimeDelta = TimeDelta::hours(1);

/// Data for a wallet to sign.
#[derive(Debug, Clone)]
pub struct SigningInput {
    /// Action to sign.
    pub action: SigningAction,
    /// Contract of the token.
    pub token: String,
    /// Chain, in digits.
    pub chain_id: String,
}

fn client_of(caller: &PlatformCaller) -> FlowResult<&ClientRowId> {
    Ok(caller
        .client()
        .ok_or_else(|| Refusal::forbidden("Send x-client-id: signing data belongs to a client ID"))?)
}

/// Creates the data that a wallet signs; it can be used once within five minutes.
///
/// Errors: every wrong field at once (400). Source: rules P.1.6; rules P.3.8.
pub async fn prepare(
    ctx: &Ctx,
    caller: &PlatformCaller,
    wallet: Address,
    input: &SigningInput,
) -> FlowResult<SigningData> {
    let client = client_of(caller)?.clone();
    destination::check_signer(wallet, input.action, "walletAddress")?;
    let mut checks = Checks::new();
    let chain_id = input.chain_id.parse().ok();
    let key = match input.action {
        SigningAction::Add => destination::registrable(&ctx.catalogue, wallet, &input.token, chain_id, &mut checks),
        SigningAction::Deactivate => destination::named(wallet, &input.token, chain_id, &mut checks),
    };
    let key = checks.finish_with(key)?;
    let now = ctx.clock.now();
    let data = SigningData {
        nonce: hex::encode(random::<16>(ctx.ids.as_ref())),
        platform: caller.platform.clone(),
        client,
        action: input.action,
        key,
        expires_at: now + NONCE_LIFE,
    };
    let tx = ctx.db.begin("prepare_destination").await?;
    store::destinations::purge_signing_data(&tx, now - REMEMBERED).await?;
    store::destinations::insert_signing_data(&tx, &data).await?;
    tx.commit().await?;
    Ok(data)
}

/// Sets up a destination that its wallet signed.
///
/// Errors: a nonce that is unknown, used, expired or for something else, and a signature of another wallet or over
/// other data (400). Source: rules P.3.8.
pub async fn add(
    ctx: &Ctx,
    caller: &PlatformCaller,
    nonce: &str,
    signature: &str,
    call: RepeatableCall<Destination>,
) -> FlowResult<KeyedResult<Destination>> {
    idempotency::once(ctx, caller, call, ResponseStorage::Shared, async |keeper| {
        let data = proven(ctx, caller, SigningAction::Add, nonce, signature).await?;
        let tx = ctx.db.begin("add_signed_destination").await?;
        use_up(ctx, &tx, &data).await?;
        let destination = put_in_use(ctx, &tx, &caller.platform, &data.key, None).await?;
        keeper.commit(tx, &destination).await?;
        Ok(destination)
    })
    .await
}

/// Deactivates a destination with a signature of its wallet; its row stays.
///
/// Errors: those of [`add`], a destination of a wallet that cannot sign the data, and a destination that is not active
/// (400). Source: rules P.3.8.
pub async fn deactivate(ctx: &Ctx, caller: &PlatformCaller, id: &str, nonce: &str, signature: &str) -> FlowResult<()> {
    let key = key_of(id)?;
    if let Some(key) = &key {
        destination::check_signer(key.interop.wallet, SigningAction::Deactivate, "destinationId")?;
    }
    let data = proven(ctx, caller, SigningAction::Deactivate, nonce, signature).await?;
    if key.is_some_and(|key| key != data.key) {
        return Err(Refusal::field(
            "nonce",
            "was issued for another destination: request signing data for this one",
        )
        .into());
    }
    let tx = ctx.db.begin("deactivate_signed_destination").await?;
    use_up(ctx, &tx, &data).await?;
    if key.is_none() || !end(ctx, &tx, &caller.platform, &data.key).await? {
        return Err(Refusal::invalid("Payee destination not found").into());
    }
    tx.commit().await?;
    Ok(())
}

/// The data of a nonce, if its wallet signed exactly this data.
async fn proven(
    ctx: &Ctx,
    caller: &PlatformCaller,
    action: SigningAction,
    nonce: &str,
    signature: &str,
) -> FlowResult<SigningData> {
    let refused = |message: String| Refusal::field("nonce", message);
    let client = client_of(caller)?;
    let found = store::destinations::find_signing_data(ctx.db.reader(), &caller.platform, client, nonce).await?;
    let (data, used_at) = found.ok_or_else(|| {
        refused("is unknown: GET /v2/payee-destination/signing-data issues one for this client ID".to_owned())
    })?;
    if used_at.is_some() {
        return Err(used().into());
    }
    if data.expires_at <= ctx.clock.now() {
        return Err(refused("has expired: request new signing data; it is valid for 5 minutes".to_owned()).into());
    }
    if data.action != action {
        let message = format!(
            "was issued for the action {}: request signing data with the action {}",
            data.action.wire(),
            action.wire()
        );
        return Err(refused(message).into());
    }
    let bytes = hex::decode(signature).unwrap_or_default();
    if !data.is_signed_by_wallet(&bytes) {
        let wallet = data.key.interop.wallet;
        let message = format!("must be the signature of {wallet} over the typed data of this nonce, unchanged");
        return Err(Refusal::field("signature", message).into());
    }
    Ok(data)
}

async fn use_up(ctx: &Ctx, tx: &Tx, data: &SigningData) -> FlowResult<()> {
    if store::destinations::use_signing_data(tx, data, ctx.clock.now()).await? {
        Ok(())
    } else {
        Err(used().into())
    }
}

fn used() -> Refusal {
    Refusal::field("nonce", "was already used: request new signing data")
}
