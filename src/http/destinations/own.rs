//! Payee destinations of the signed-in wallet.

use super::bodies::*;
use crate::{
    domain::destination::Destination,
    flows::{self, destinations::NewDestination},
    http::operation::*,
};

/// A destination to set.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct DestinationBody {
    /// Contract of a supported token: USDC, USDT, or FAU on sepolia
    pub token_address: TokenText,
    /// Chain: an EVM chain for an EVM wallet, Tron for a Tron wallet. Example: `11155111`
    pub chain_id: u64,
    /// Who may pay; if absent, the existing policy stays in force
    pub access_policy: Option<DestinationAccessPolicy>,
}

impl Example for DestinationBody {
    /// An example body that works unchanged on a service with Sepolia enabled.
    fn example() -> Self {
        Self {
            token_address: TokenText::example(),
            chain_id: 11_155_111,
            access_policy: None,
        }
    }
}

impl From<DestinationBody> for NewDestination {
    fn from(body: DestinationBody) -> Self {
        Self {
            token: body.token_address.into(),
            chain_id: body.chain_id,
            policy: body.access_policy.map(Into::into),
        }
    }
}

/// A destination to deactivate.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct DeactivateDestinationBody {
    /// Id of the destination
    pub destination_id: DestinationIdText,
}

/// Token and chain in which a recipient is paid.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PayoutDestination {
    /// Id of the destination
    pub destination_id: DestinationIdText,
    /// Wallet that is paid
    pub wallet_address: WalletText,
    /// Contract of the token
    pub token_address: TokenText,
    /// Chain. Example: `11155111`
    pub chain_id: u64,
    /// Whether the owner of the wallet set up this destination. Example: `true`
    pub claimed: bool,
}

impl From<Destination> for PayoutDestination {
    fn from(destination: Destination) -> Self {
        let key = &destination.key;
        Self {
            destination_id: DestinationIdText::written(key.to_string()),
            wallet_address: WalletText::written(key.interop.wallet.to_string()),
            token_address: TokenText::written(key.token.to_string()),
            chain_id: key.interop.network.chain_id(),
            claimed: destination.is_claimed,
        }
    }
}

/// Payee destinations of the signed-in wallet.
pub struct OwnDestinations;

#[OpenApi(prefix_path = "/v1", tag = "AuthTag::Destinations")]
impl OwnDestinations {
    /// Set the destination of the wallet
    ///
    /// Creates or reactivates a destination of the signed-in wallet. A wallet has one active destination. The new one
    /// replaces the previous one, and client IDs bound to the previous one are bound to the new one.
    ///
    /// When: you set up payment links for the first time
    /// Needs: a session of the wallet that is to be paid
    /// Next: bind a client ID to its row id with `POST /v1/client-ids`, or create a link with `POST /v2/secure-payments`
    /// 201: The destination, active from now on
    /// 403: Payee destinations belong to wallets: sign in with the wallet that is to be paid
    #[oai(path = "/payee-destination", method = "post", operation_id = "createOwnDestination")]
    async fn create(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        key: Keyed,
        body: Body<DestinationBody>,
    ) -> Result<Created<PayeeDestination>, Fail<{ s::BAD_REQUEST | s::CONFLICT }>> {
        let once = key.once(op::createOwnDestination, &body.0);
        let input = body.0.into();
        answer_once(once, PayeeDestination::of, async |call| {
            flows::destinations::create::run(&ctx, &caller, &input, call).await
        })
        .await
    }

    /// Change the destination of the wallet
    ///
    /// Replaces the active destination. Client IDs bound to it are bound to the new one.
    ///
    /// When: you want to be paid in another token or on another network
    /// Needs: an active destination
    /// Next: nothing; new links pay to the new destination
    /// 200: The destination, active from now on
    /// 403: Payee destinations belong to wallets: sign in with the wallet that is to be paid
    /// 404: Payee destination not found
    /// 409: Another call is changing the destination of this wallet; try again
    #[oai(path = "/payee-destination", method = "put", operation_id = "updateOwnDestination")]
    async fn update(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        body: Body<DestinationBody>,
    ) -> Result<Json<PayeeDestination>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND | s::CONFLICT }>> {
        let changed = flows::destinations::update::run(&ctx, &caller, &body.0.into()).await?;
        Ok(Json(PayeeDestination::of(&changed)))
    }

    /// Get the destination of the wallet
    ///
    /// Returns the active destination, or null.
    ///
    /// When: you show where you are paid
    /// Needs: a session of a wallet
    /// Next: change it with `PUT /v1/payee-destination`
    /// 200: The active destination, or null when the wallet has none
    /// 403: Payee destinations belong to wallets: sign in with the wallet that is to be paid
    #[oai(path = "/payee-destination", method = "get", operation_id = "getOwnDestination")]
    async fn active(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
    ) -> Result<Json<OrNull<PayeeDestination>>, Fail<0>> {
        let found = flows::destinations::read::own(&ctx, &caller).await?;
        Ok(Json(OrNull(found.as_ref().map(PayeeDestination::of))))
    }

    /// Look up the destination of a recipient
    ///
    /// Returns the destination that the owner of a wallet set up, on this platform or another one, or null. Call this
    /// operation before a payout.
    ///
    /// When: you pay a recipient who has a destination
    /// Needs: the wallet of the recipient
    /// Next: create a payout with `POST /v2/secure-payments/payouts` and its id
    /// 200: The destination of the wallet, or null when its owner set up none
    #[oai(
        path = "/payee-destination/payout-lookup",
        method = "get",
        operation_id = "lookUpPayoutDestination"
    )]
    async fn payout_lookup(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        /// Wallet of the recipient
        #[oai(name = "walletAddress")]
        wallet_address: Needed<WalletText>,
    ) -> Result<Json<OrNull<PayoutDestination>>, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let recipient = wallet_address.read(&mut checks);
        let recipient = checks.finish_with(recipient)?;
        let found = flows::destinations::read::for_payout(&ctx, &caller, &recipient).await?;
        Ok(Json(OrNull(found.map(Into::into))))
    }

    /// Look up a destination by its id
    ///
    /// Returns a destination of this platform, active or not.
    ///
    /// When: you have the id of a destination
    /// Needs: the id exactly as this service returned it
    /// Next: change it with `PUT /v1/payee-destination` if it is yours
    /// 200: The destination
    /// 404: Payee destination not found
    #[oai(
        path = "/payee-destination/lookup",
        method = "get",
        operation_id = "lookUpDestination"
    )]
    async fn lookup(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        /// Id of the destination
        #[oai(name = "destinationId")]
        destination_id: Needed<DestinationIdText>,
    ) -> Result<Json<PayeeDestination>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let mut checks = Checks::new();
        let id = destination_id.take(&mut checks);
        let id = checks.finish_with(id)?;
        let found = flows::destinations::read::by_id(&ctx, &caller, id.as_str()).await?;
        Ok(Json(PayeeDestination::of(&found)))
    }

    /// Deactivate the destination of the wallet
    ///
    /// Deactivates the destination of the signed-in wallet. It remains stored and can be reactivated.
    ///
    /// When: you no longer want to be paid at this destination
    /// Needs: an active destination
    /// Next: activate it again with `POST /v1/payee-destination`
    /// 200: The destination is deactivated
    /// 403: Payee destinations belong to wallets: sign in with the wallet that is to be paid
    /// 404: Payee destination not found
    #[oai(
        path = "/payee-destination/deactivate",
        method = "patch",
        operation_id = "deactivateOwnDestination"
    )]
    async fn deactivate(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        body: Body<DeactivateDestinationBody>,
    ) -> Result<Json<DestinationDeactivated>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        flows::destinations::deactivate::run(&ctx, &caller, body.destination_id.as_str()).await?;
        Ok(DestinationDeactivated::done())
    }
}
