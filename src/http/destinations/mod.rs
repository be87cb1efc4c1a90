//! Payee destinations, set up with a signature of the wallet that is paid.

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
    /// The wallet that is to be paid signs the response (EIP-712). The signature and the nonce then add or deactivate
    /// the destination. The nonce works once, within five minutes, and only for the client ID that requested it. EVM
    /// wallets only.
    ///
    /// When: a wallet sets its destination on your page
    /// Needs: access to the wallet, to sign
    /// Next: send the signature to `POST /v2/payee-destination` or `DELETE /v2/payee-destination/{destinationId}`
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
        /// Action that the wallet signs
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
    /// Sets the destination of the wallet that signed. It replaces the previous one, and client IDs bound to the
    /// previous one are bound to the new one.
    ///
    /// When: the wallet has signed
    /// Needs: the nonce of `GET /v2/payee-destination/signing-data` and the signature
    /// Next: create a link that pays to it with `POST /v2/secure-payments`
    /// 201: The destination, active from now on
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
    /// Returns the active destination of the wallet on this platform, or null.
    ///
    /// When: you show where a wallet is paid
    /// Next: begin a change with `GET /v2/payee-destination/signing-data`
    /// 200: The active destination, or null when the wallet has none
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
    /// Returns a destination, active or not. In the path, write `#` as `%23`.
    ///
    /// When: you have the id of a destination
    /// Needs: the id exactly as this service returned it
    /// Next: create a payout to it with `POST /v2/secure-payments/payouts`
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
    /// Deactivates the destination with a signature of its wallet. The wallet can add the destination again.
    ///
    /// When: a wallet should no longer be paid at its destination
    /// Needs: the nonce of `GET /v2/payee-destination/signing-data` with the action `deactivate`, and the signature
    /// Next: activate it again with `POST /v2/payee-destination`
    /// 200: The destination is deactivated
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
