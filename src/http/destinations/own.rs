//! Payee destinations of the wallet that signed in.

use super::bodies::*;
use crate::{
    domain::destination::Destination,
    flows::{self, destinations::NewDestination},
    http::operation::*,
};

/// Where to be paid.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct DestinationBody {
    /// Contract of a supported token: USDC, USDT, or FAU on sepolia
    pub token_address: TokenText,
    /// Chain; it has to fit the wallet. Example: `11155111`
    pub chain_id: u64,
    /// Who may pay; without it the policy that there is stays
    pub access_policy: Option<DestinationAccessPolicy>,
}

impl Example for DestinationBody {
    /// It works as it stands on a service with Sepolia.
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

/// A destination to take out of use.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct DeactivateDestinationBody {
    /// Id of the destination
    pub destination_id: DestinationIdText,
}

/// Where a recipient wants to be paid.
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
    /// Whether the owner of the wallet set it up. Example: `true`
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

/// Payee destinations of the wallet that signed in.
pub struct OwnDestinations;

#[OpenApi(prefix_path = "/v1", tag = "AuthTag::Destinations")]
impl OwnDestinations {
    /// Set where the wallet is paid
    ///
    /// Creates the destination of the wallet that signed in, or brings it back. A wallet has one at a time: this one
    /// replaces the one before, and client IDs that are bound to that one follow.
    ///
    /// When: you set up payment links for the first time
    /// Needs: a session of the wallet that is to be paid
    /// Next: `POST /v1/client-ids` with its row id, or `POST /v2/secure-payments`
    /// 201: The destination, in use from now on
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

    /// Change where the wallet is paid
    ///
    /// Replaces the destination that is in use; client IDs that are bound to it follow.
    ///
    /// When: you want to be paid in another token or on another network
    /// Needs: a destination in use
    /// Next: nothing; new links pay there
    /// 200: The destination, in use from now on
    /// 403: Payee destinations belong to wallets: sign in with the wallet that is to be paid
    /// 404: Payee destination not found
    /// 409: The destination of this wallet is being changed at this moment; try again
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

    /// Get where the wallet is paid
    ///
    /// The destination in use, or null.
    ///
    /// When: you show where you are paid
    /// Needs: a session of a wallet
    /// Next: `PUT /v1/payee-destination` to change it
    /// 200: The destination in use, or null when the wallet has none
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

    /// Look up where a recipient is paid
    ///
    /// What the owner of a wallet set up, on this platform or another one, or null. Use it before a payout.
    ///
    /// When: you pay a recipient who has a destination
    /// Needs: the wallet of the recipient
    /// Next: `POST /v2/secure-payments/payouts` with its id
    /// 200: Where the wallet wants to be paid, or null when it set up nothing
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
    /// A destination of this platform, in use or not.
    ///
    /// When: you have the id of one
    /// Needs: an id as this service wrote it
    /// Next: `PUT /v1/payee-destination` if it is yours
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

    /// Stop being paid at a destination
    ///
    /// Takes the destination of the wallet that signed in out of use; its row stays and can come back.
    ///
    /// When: you no longer want to be paid there
    /// Needs: a destination in use
    /// Next: `POST /v1/payee-destination` brings it back
    /// 200: The destination is out of use
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
