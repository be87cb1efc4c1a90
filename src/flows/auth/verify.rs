//! Signs in a wallet with a signed challenge.

use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        caller::SignedInPerson,
        ids::{ChallengeId, PlatformId, Secret},
        network::Family,
        refusal::Refusal,
        session::{self, Challenge, WALLET_CHECKS_MAX},
    },
    flows::{
        FlowResult,
        auth::{SignedIn, add_platform, begin, invite},
    },
    store::{self, Tx},
};
use futures_util::future::try_join_all;

/// A signed challenge.
#[derive(Debug, Clone)]
pub struct WalletProof {
    /// Id of the challenge.
    pub challenge: ChallengeId,
    /// Its random part.
    pub nonce: String,
    /// The text that was signed.
    pub message: String,
    /// The signature.
    pub signature: Vec<u8>,
    /// Code of an invite, for a new wallet.
    pub invite: Option<Secret>,
}

/// Signs in. At its first sign-in, the wallet gets its platform.
///
/// Errors:
/// - 401: the challenge is unknown, used, expired or has a different message; the signature is invalid; or the
///   challenge already had three contract wallet checks.
/// - 403: a new wallet that may not register.
/// - 429: too many contract wallet checks are in progress.
/// - 502: a check is not possible.
///
/// Source: rules P.4.1; rules C.2; ERC-1271; ERC-6492.
pub async fn run(ctx: &Ctx, proof: &WalletProof) -> FlowResult<(Address, SignedIn)> {
    let found = store::challenges::find(ctx.db.reader(), &proof.challenge).await?;
    let now = ctx.clock.now();
    let challenge = found
        .filter(|challenge| challenge.is_answered_by(&proof.nonce, &proof.message, now))
        .ok_or_else(stale)?;
    if !is_signed(ctx, &challenge, &proof.signature).await? {
        return Err(Refusal::unauthenticated("The signature does not match the address of the challenge").into());
    }
    let tx = ctx.db.begin("sign_wallet_in").await?;
    if !store::challenges::take(&tx, &challenge.id, ctx.clock.now()).await? {
        return Err(stale().into());
    }
    let platform = platform_of(ctx, &tx, &challenge.address, proof.invite.as_ref()).await?;
    let signed_in = begin(ctx, &tx, platform, SignedInPerson::Wallet(challenge.address)).await?;
    tx.commit().await?;
    Ok((challenge.address, signed_in))
}

fn stale() -> Refusal {
    Refusal::unauthenticated("The challenge is unknown, expired, used or has a different message; request a new one")
}

/// Checks the signature against the key of the address first. For addresses that may be contracts, then checks every
/// network on which contract wallets are accepted.
async fn is_signed(ctx: &Ctx, challenge: &Challenge, signature: &[u8]) -> FlowResult<bool> {
    let address = &challenge.address;
    if session::is_signed_by_key(address, &challenge.message, signature) {
        return Ok(true);
    }
    if address.family() != Family::Evm {
        return Ok(false);
    }
    let hash = session::message_hash(Family::Evm, &challenge.message);
    let named = &ctx.people.sessions.wallet_networks;
    let wallets = ctx.partners.chains.wallets.iter();
    let asked = wallets.filter(|(network, _)| named.is_empty() || named.contains(network));
    // The attempt is counted before the check, so that concurrent calls cannot exceed the maximum.
    let tx = ctx.db.begin("count_wallet_check").await?;
    if !store::challenges::count_check(&tx, &challenge.id, WALLET_CHECKS_MAX).await? {
        return Err(Refusal::unauthenticated("Too many wrong signatures for this challenge; request a new one").into());
    }
    tx.commit().await?;
    let questions = asked.map(|(_, wallets)| wallets.check_signature(address.bytes(), hash, signature));
    // An unreachable network may be the only network that rejects the signature, so it is never skipped.
    let answers = try_join_all(questions).await?;
    Ok(session::is_signed_by_contract(&answers))
}

/// The platform of the wallet, which is created with its first session.
async fn platform_of(ctx: &Ctx, tx: &Tx, wallet: &Address, code: Option<&Secret>) -> FlowResult<PlatformId> {
    if let Some(platform) = store::accounts::platform_of_wallet(tx, wallet).await? {
        return Ok(platform);
    }
    let platform = PlatformId(ctx.ids.ulid());
    if store::accounts::bind_wallet(tx, wallet, &platform, ctx.clock.now()).await? {
        invite::admit_wallet(ctx, tx, wallet, code, &platform).await?;
        add_platform(ctx, tx, &platform, &wallet.to_string()).await?;
        return Ok(platform);
    }
    // Another sign-in of the same wallet was faster; its commit is already visible.
    let winner = store::accounts::platform_of_wallet(tx, wallet).await?;
    Ok(winner.ok_or_else(|| {
        crate::flows::Fault(anyhow::anyhow!(
            "the wallet is already bound to a platform, but the platform was not found"
        ))
    })?)
}
