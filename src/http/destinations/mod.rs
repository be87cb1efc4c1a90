//! Payee destinations, set up by the signature of the wallet that is paid.

mod bodies;
pub mod own;

use crate::{
    domain::destination::SigningAction,
    flows::{self, destinations::sign::SigningInput},
    http::operation::*,
};
pub use bodies::*;

/// Payee destinations.
pub struct Destinations;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::Destinations")]
impl Destinations {
    /// Get typed data to sign
    ///
    /// The wallet that is to be paid signs the answer (EIP-712); the signature and the nonce then add or deactivate the
    /// destination. The nonce works once, within five minutes, for the client ID that asked. EVM wallets only.
    ///
    /// When: a wallet is to say on your page where it is paid
    /// Needs: the wallet at hand, to sign
    /// Next: `POST /v2/payee-destination`, or `DELETE /v2/payee-destination/{destinationId}`
    /// 200: The typed data that the wallet signs
    #[oai(
        path = "/payee-destination/signing-data",
        method = "get",
        operation_id = "getDestinationSigningData"
    )]
    async fn signing_data(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<ClientOnly>,
        /// Wallet that is to be paid
        #[oai(name = "walletAddress")]
        wallet_address: Needed<WalletText>,
        /// What the wallet agrees to
        action: Needed<SigningAction>,
        /// Contract of the token
        #[oai(name = "tokenAddress")]
        token_address: Needed<TokenText>,
        /// Chain
        #[oai(name = "chainId")]
        chain_id: Needed<ChainIdText>,
    ) -> Result<Json<SigningData>, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let wallet = wallet_address.read(&mut checks);
        let action = action.take(&mut checks);
        let token = token_address.take(&mut checks);
        let chain_id = chain_id.take(&mut checks);
        let given = wallet.zip(action).zip(token.zip(chain_id));
        let ((wallet, action), (token, chain_id)) = checks.finish_with(given)?;
        let input = SigningInput {
            action,
            token: token.into(),
            chain_id: chain_id.into(),
        };
        let data = flows::destinations::sign::prepare(&ctx, &caller, wallet, &input).await?;
        Ok(Json(data.into()))
    }

    /// Add a payee destination
    ///
    /// Sets the destination of the wallet that signed. It replaces the one before; client IDs that are bound to that
    /// one follow.
    ///
    /// When: the wallet has signed
    /// Needs: the nonce of `GET /v2/payee-destination/signing-data` and the signature
    /// Next: `POST /v2/secure-payments`, which pays to it
    /// 201: The destination, in use from now on
    #[oai(path = "/payee-destination", method = "post", operation_id = "addPayeeDestination")]
    async fn add(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<ClientOnly>,
        key: Keyed,
        body: Body<SignedDestinationBody>,
    ) -> Result<Created<PayeeDestination>, Fail<{ s::BAD_REQUEST | s::CONFLICT }>> {
        let once = key.once(op::addPayeeDestination, &body.0);
        let signature = body.signature.as_str();
        answer_once(once, PayeeDestination::of, async |call| {
            flows::destinations::sign::add(&ctx, &caller, &body.nonce, signature, call).await
        })
        .await
    }

    /// Get the payee destination of a wallet
    ///
    /// The one that is in use on this platform, or null.
    ///
    /// When: you show where a wallet is paid
    /// Next: `GET /v2/payee-destination/signing-data` to change it
    /// 200: The destination in use, or null when the wallet has none
    #[oai(
        path = "/payee-destination",
        method = "get",
        operation_id = "getActivePayeeDestination"
    )]
    async fn active(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<ClientOnly>,
        /// Wallet that is paid
        #[oai(name = "walletAddress")]
        wallet_address: Needed<WalletText>,
    ) -> Result<Json<OrNull<PayeeDestination>>, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let wallet = wallet_address.read(&mut checks);
        let wallet = checks.finish_with(wallet)?;
        let found = flows::destinations::read::active(&ctx, &caller, &wallet).await?;
        Ok(Json(OrNull(found.as_ref().map(PayeeDestination::of))))
    }

    /// Read a payee destination
    ///
    /// In use or not. In a path `#` has to be written `%23`.
    ///
    /// When: you have the id of one
    /// Needs: an id as this service wrote it
    /// Next: `POST /v2/secure-payments/payouts` pays to it
    /// 200: The destination
    /// 404: Payee destination not found
    #[oai(
        path = "/payee-destination/:destinationId",
        method = "get",
        operation_id = "getPayeeDestination"
    )]
    async fn read(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<ClientOnly>,
        /// Id of the destination
        #[oai(name = "destinationId")]
        destination_id: Path<DestinationIdText>,
    ) -> Result<Json<PayeeDestination>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let found = flows::destinations::read::by_id(&ctx, &caller, destination_id.as_str()).await?;
        Ok(Json(PayeeDestination::of(&found)))
    }

    /// Deactivate a payee destination
    ///
    /// Takes it out of use with a signature of its wallet; it can be added again.
    ///
    /// When: a wallet is no longer to be paid there
    /// Needs: the nonce of `GET /v2/payee-destination/signing-data` with the action `deactivate`, and the signature
    /// Next: `POST /v2/payee-destination` brings it back
    /// 200: The destination is out of use
    #[oai(
        path = "/payee-destination/:destinationId",
        method = "delete",
        operation_id = "deactivatePayeeDestination"
    )]
    async fn deactivate(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<ClientOnly>,
        /// Id of the destination
        #[oai(name = "destinationId")]
        destination_id: Path<DestinationIdText>,
        body: Body<SignedDestinationBody>,
    ) -> Result<Json<DestinationDeactivated>, Fail<{ s::BAD_REQUEST }>> {
        let id = destination_id.as_str();
        let signature = body.signature.as_str();
        flows::destinations::sign::deactivate(&ctx, &caller, id, &body.nonce, signature).await?;
        Ok(DestinationDeactivated::done())
    }
}
