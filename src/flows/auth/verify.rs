//! Signs a wallet in that answers its challenge.

use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        caller::Person,
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

/// What a wallet answers.
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
    /// Code of an invite, for a wallet that never signed in.
    pub invite: Option<Secret>,
}

/// Signs in. The first time, the wallet gets its platform.
///
/// Errors: 401 for a challenge that is unknown, used, too old or of other words, for a signature that is not the
/// wallet's, and after three questions to contract wallets; 403 for a wallet that never signed in and may not; 429 while
/// too many contract wallets are asked; 502 when one cannot be asked. Source: rules P.4.1; rules C.2; ERC-1271; ERC-6492.
pub async fn run(ctx: &Ctx, proof: &WalletProof) -> FlowResult<(Address, SignedIn)> {
    let found = store::challenges::find(ctx.db.reader(), &proof.challenge).await?;
    let now = ctx.clock.now();
    let challenge = found
        .filter(|challenge| challenge.is_answered_by(&proof.nonce, &proof.message, now))
        .ok_or_else(stale)?;
    if !is_signed(ctx, &challenge, &proof.signature).await? {
        return Err(Refusal::unauthenticated("The signature does not belong to the address of the challenge").into());
    }
    let tx = ctx.db.begin("sign_wallet_in").await?;
    if !store::challenges::take(&tx, &challenge.id, ctx.clock.now()).await? {
        return Err(stale().into());
    }
    let platform = platform_of(ctx, &tx, &challenge.address, proof.invite.as_ref()).await?;
    let signed_in = begin(ctx, &tx, platform, Person::Wallet(challenge.address)).await?;
    tx.commit().await?;
    Ok((challenge.address, signed_in))
}

fn stale() -> Refusal {
    Refusal::unauthenticated("The challenge is unknown, expired, used or has other words; ask for a new one")
}

/// Asks the key first, then, for the addresses that may be contracts, every network on which one counts.
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
    // Counted before it is asked, so that many answers at once are not all among the first.
    let tx = ctx.db.begin("count_wallet_check").await?;
    if !store::challenges::count_check(&tx, &challenge.id, WALLET_CHECKS_MAX).await? {
        return Err(Refusal::unauthenticated("This challenge had too many wrong answers; ask for a new one").into());
    }
    tx.commit().await?;
    let questions = asked.map(|(_, wallets)| wallets.check_signature(address.bytes(), hash, signature));
    // A network that cannot be asked may be the one that refuses, so it is never passed over.
    let answers = try_join_all(questions).await?;
    Ok(session::is_signed_by_contract(&answers))
}

/// The platform of the wallet, which is made with its first session.
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
    // Another sign-in of the same wallet was faster; its commit is visible by now.
    let winner = store::accounts::platform_of_wallet(tx, wallet).await?;
    Ok(winner.ok_or_else(|| crate::flows::Fault(anyhow::anyhow!("a wallet is bound and has no platform")))?)
}
