//! Sign-in with a wallet.

use crate::{
    domain::{ids::Secret, network::Family, refusal::Refusal},
    flows::{self, auth::verify::WalletProof},
    http::{
        gate::{cookie::CookieResponse, signing::SigningIn},
        operation::*,
    },
};

text! {
    /// Signature in hexadecimal digits. Contract wallets can need more than the 65 bytes of a key.
    SignatureText {
        pattern: "^(0x)?([0-9a-fA-F]{2})+$",
        length_max: 16386,
        example: "0xfe8294cb6bd182dbfcf76db801c44534292b90f265cdcd9c29b5602fed4a258347e63b5bab283ad7bf1b07e8b369a2dd7b5601870afabd802d033b4f0592957f1c",
        hint: "must be a signature: 0x and an even number of hexadecimal digits",
    }
}

/// A wallet that wants to sign in.
#[derive(Debug, Clone, Object)]
pub struct ChallengeBody {
    /// Address of the wallet, of an EVM network or of Tron
    pub address: WalletText,
}

/// Message for the wallet to sign.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ChallengeView {
    /// Id of the challenge
    pub challenge_id: UlidText,
    /// Random part of the message. Example: `4f1d0c3b2a5968778695a4b3c2d1e0ff`
    #[oai(validator(max_length = 64, pattern = "^[0-9a-f]{32}$"))]
    pub nonce: String,
    /// The text to sign, in the layout of EIP-4361. Example: `auth.example.com wants you to sign in with your Ethereum account: …`
    #[oai(validator(max_length = 4000))]
    pub message: String,
    /// Time of expiry, five minutes from now
    pub expires_at: Instant,
}

/// A signed challenge.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct VerifyBody {
    /// Id of the challenge
    pub challenge_id: UlidText,
    /// Nonce of the challenge. Example: `4f1d0c3b2a5968778695a4b3c2d1e0ff`
    #[oai(validator(min_length = 1, max_length = 64))]
    pub nonce: String,
    /// The exact text that was signed. Example: `auth.example.com wants you to sign in with your Ethereum account: …`
    #[oai(validator(min_length = 1, max_length = 4000))]
    pub message: String,
    /// Signature of the wallet: `personal_sign` of EVM wallets, ERC-1271 or ERC-6492 of contract wallets,
    /// `signMessageV2` of Tron wallets
    pub signature: SignatureText,
    /// Invite of the operator; needed at the first sign-in of a wallet, where registration requires an invite
    pub invite: Option<InviteText>,
}

/// Family of a wallet
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "lowercase")]
pub enum WalletType {
    /// EVM networks
    Evm,
    /// Tron
    Tron,
}

/// A signed-in wallet.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct WalletSession {
    /// Address of the wallet
    pub address: WalletText,
    /// Family of the wallet
    pub wallet_type: WalletType,
    /// Time of expiry; each use extends it, up to one day after the sign-in
    pub expires_at: Instant,
}

/// Sign-in with a wallet.
pub struct Wallets;

#[OpenApi(prefix_path = "/v1", tag = "AuthTag::Sessions")]
impl Wallets {
    /// Request a message to sign
    ///
    /// The wallet signs the message unchanged, and `POST /v1/auth/wallet/verify` takes the signature.
    ///
    /// When: a user signs in with a wallet
    /// Needs: the address of the wallet
    /// Next: sign the message, then send the signature to `POST /v1/auth/wallet/verify`
    /// 201: The message to sign
    #[oai(
        path = "/auth/wallet/challenge",
        method = "post",
        operation_id = "createWalletChallenge"
    )]
    async fn challenge(
        &self,
        ctx: Data<&Ctx>,
        body: Body<ChallengeBody>,
    ) -> Result<Created<ChallengeView>, Fail<{ s::BAD_REQUEST }>> {
        let address = body.address.value();
        let address = address.map_err(|error| Refusal::field("address", error))?;
        let challenge = flows::auth::challenge::run(&ctx, address).await?;
        Ok(Reply::new(ChallengeView {
            challenge_id: UlidText::written(challenge.id.as_str()),
            nonce: challenge.nonce,
            message: challenge.message,
            expires_at: Instant(challenge.expires_at),
        }))
    }

    /// Sign in with the signed message
    ///
    /// A challenge works once. The session is in the cookie; it expires 15 minutes after its last use, and at the
    /// latest one day after the sign-in. The first sign-in of a wallet creates its platform if `accounts.registration`
    /// allows it; without a required operator invite the response is 403. Signatures of contract wallets are checked on
    /// the enabled networks, at most three times per challenge. If one of these networks cannot be reached, the
    /// response is 502.
    ///
    /// When: the wallet has signed the message
    /// Needs: the challenge of `POST /v1/auth/wallet/challenge`
    /// Next: set a destination with `POST /v1/payee-destination`, then create a client ID with `POST /v1/client-ids`
    /// 200: Who signed in; the session is in the cookie
    /// 401: The challenge is unknown, expired, used or has a different message; request a new one
    /// 403: Only pages of this service may sign people in: the Origin header must be listed in http.session_origins
    /// 403: Registration requires an invite from the operator; send it as invite
    #[oai(
        path = "/auth/wallet/verify",
        method = "post",
        operation_id = "verifyWalletChallenge"
    )]
    async fn verify(
        &self,
        ctx: Data<&Ctx>,
        _page: SigningIn,
        body: Body<VerifyBody>,
    ) -> Result<
        CookieResponse<Json<WalletSession>>,
        Fail<{ s::BAD_REQUEST | s::UNAUTHORIZED | s::FORBIDDEN | s::BAD_GATEWAY }>,
    > {
        let body = body.0;
        let signature =
            hex::decode(body.signature.as_str()).map_err(|_| Refusal::field("signature", SignatureText::HINT))?;
        let proof = WalletProof {
            challenge: body.challenge_id.id(),
            nonce: body.nonce,
            message: body.message,
            signature,
            invite: body.invite.map(|invite| Secret::new(invite.as_str())),
        };
        let (address, signed_in) = flows::auth::verify::run(&ctx, &proof).await?;
        let view = WalletSession {
            address: WalletText::written(address.to_string()),
            wallet_type: match address.family() {
                Family::Evm => WalletType::Evm,
                Family::Tron => WalletType::Tron,
            },
            expires_at: Instant(signed_in.session.expires_at),
        };
        Ok(CookieResponse::set(Json(view), &signed_in, &ctx.people.sessions))
    }
}
