//! Operations for accounts with e-mail and password, and for sessions.

use crate::{
    domain::{
        ids::Secret,
        session::{PasswordAccount, SignInSession},
    },
    flows,
    http::{
        gate::{
            cookie::CookieResponse,
            signing::{SessionToken, SigningIn},
        },
        operation::*,
    },
};

text! {
    /// E-mail address. Whether it can receive mail is not checked.
    EmailText {
        pattern: r"^[^\s@\x00-\x1f\x7f-\x9f]{1,64}@[^\s@\x00-\x1f\x7f-\x9f]{1,252}$",
        length_max: 254,
        format: "email",
        example: "ada@example.com",
        hint: "must be an e-mail address of at most 254 characters, for example ada@example.com",
    }
}

// Types that hold passwords have no `Debug`, so that they are never printed.

/// A new account.
#[derive(Clone, Object)]
pub struct RegisterBody {
    /// E-mail address; upper and lower case are the same. Example: `grace@example.com`
    pub email: EmailText,
    /// Password of 8 to 100 characters, none of the 10,000 most common ones. Example: `correct horse battery staple`
    #[oai(validator(min_length = 8, max_length = 100))]
    pub password: String,
    /// Invite from the operator, where registration requires one
    pub invite: Option<InviteText>,
}

/// Credentials of an account.
#[derive(Clone, Object)]
pub struct LoginBody {
    /// E-mail address; upper and lower case are the same. Example: `ada@example.com`
    pub email: EmailText,
    /// Password. Example: `correct horse battery staple`
    #[oai(validator(max_length = 1000))]
    pub password: String,
}

/// A change of password.
#[derive(Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ChangePasswordBody {
    /// Current password. Example: `correct horse battery staple`
    #[oai(validator(max_length = 1000))]
    pub current_password: String,
    /// New password of 8 to 100 characters, none of the 10,000 most common ones. Example: `another horse in the battery`
    #[oai(validator(min_length = 8, max_length = 100))]
    pub new_password: String,
}

/// One session of a person.
#[derive(Debug, Clone, Object)]
#[oai(rename = "Session", rename_all = "camelCase")]
pub struct SessionView {
    /// Id of the session; it is not a credential
    pub id: UlidText,
    /// Time of the sign-in
    pub created_at: Instant,
    /// Last use, updated at most once a minute
    pub last_used_at: Instant,
    /// Time at which the session expires unless it is used again before
    pub expires_at: Instant,
    /// Whether this call uses the session. Example: `true`
    pub is_current: bool,
}

/// The sessions of a person.
#[derive(Debug, Clone, Object)]
pub struct SessionList {
    /// Newest first
    #[oai(validator(max_items = 1000))]
    pub sessions: Vec<SessionView>,
}

fn session(session: SignInSession, is_current: bool) -> SessionView {
    SessionView {
        id: UlidText::written(session.id.as_str()),
        created_at: Instant(session.created_at),
        last_used_at: Instant(session.last_used_at),
        expires_at: Instant(session.expires_at),
        is_current,
    }
}

/// An account.
#[derive(Debug, Clone, Object)]
#[oai(rename = "Account")]
pub struct AccountView {
    /// Id of the account
    pub id: UlidText,
    /// E-mail address in lower case. Example: `ada@example.com`
    #[oai(validator(max_length = 1024))]
    pub email: String,
}

impl From<PasswordAccount> for AccountView {
    fn from(account: PasswordAccount) -> Self {
        Self {
            id: UlidText::written(account.id.as_str()),
            email: account.email,
        }
    }
}

/// Accounts.
pub struct Accounts;

#[OpenApi(prefix_path = "/v1", tag = "AuthTag::Sessions")]
impl Accounts {
    /// Open an account
    ///
    /// Creates an account with its own platform and signs it in. The session ends after 30 days, or earlier after 7
    /// days without use. The operator's setting `accounts.registration` decides who may register: everyone, only people
    /// with an invite, or no one. A person who may not register gets 403.
    ///
    /// When: a person without a wallet starts
    /// Needs: an invite, where the operator requires one
    /// Next: create a key for a server with `POST /v1/api-keys`, or a client ID for a page with `POST /v1/client-ids`
    /// 201: The new account; its session is in the cookie
    /// 403: Only pages of this service may sign people in: the Origin header must be listed in http.session_origins
    /// 403: Registration requires an invite from the operator; send it as invite
    /// 409: An account with this e-mail address already exists; sign in instead
    #[oai(path = "/auth/register", method = "post", operation_id = "registerAccount")]
    async fn register(
        &self,
        ctx: Data<&Ctx>,
        from: SigningIn,
        body: Body<RegisterBody>,
    ) -> Result<CookieResponse<Created<AccountView>>, Fail<{ s::BAD_REQUEST | s::FORBIDDEN | s::CONFLICT }>> {
        let RegisterBody {
            email,
            password,
            invite,
        } = body.0;
        let invite = invite.map(|invite| Secret::new(invite.as_str()));
        let registered = flows::auth::register::run(&ctx, email.as_str(), Secret::new(password), invite, &from.0);
        let (account, signed_in) = registered.await?;
        Ok(CookieResponse::set(
            Reply::new(account.into()),
            &signed_in,
            &ctx.people.sessions,
        ))
    }

    /// Sign in with e-mail and password
    ///
    /// The session ends 30 days after the sign-in, or earlier after 7 days without use. After a few failed attempts for
    /// one account from one address, further attempts have to wait; `Retry-After` says how long. The service recognises
    /// a browser that signed in before by the cookie `device_token`, and any other client by its address. Failed
    /// attempts from other browsers and addresses do not delay a recognised browser or client.
    ///
    /// When: a person with an account signs in again
    /// Needs: the e-mail address and the password
    /// Next: call any operation that accepts a session, and sign out with `POST /v1/auth/logout`
    /// 200: The account that signed in; the session is in the cookie
    /// 401: The e-mail address or the password is wrong
    /// 403: Only pages of this service may sign people in: the Origin header must be listed in http.session_origins
    #[oai(path = "/auth/login", method = "post", operation_id = "logIn")]
    async fn log_in(
        &self,
        ctx: Data<&Ctx>,
        from: SigningIn,
        body: Body<LoginBody>,
    ) -> Result<CookieResponse<Json<AccountView>>, Fail<{ s::BAD_REQUEST | s::UNAUTHORIZED | s::FORBIDDEN }>> {
        let LoginBody { email, password } = body.0;
        let (account, signed_in) =
            flows::auth::login::run(&ctx, email.as_str(), Secret::new(password), &from.0).await?;
        Ok(CookieResponse::set(
            Json(account.into()),
            &signed_in,
            &ctx.people.sessions,
        ))
    }

    /// Sign out
    ///
    /// Ends the session of the cookie or Bearer token and clears the cookie. Without a session it does nothing and
    /// succeeds.
    ///
    /// When: a person signs out
    /// Needs: the cookie or the Bearer token of the session
    /// Next: sign in again with `POST /v1/auth/login` or `POST /v1/auth/wallet/challenge`
    /// 200: The session has ended, and the cookie is cleared
    /// 403: A session cookie is accepted only from pages of this service: send an Origin header that is listed in http.session_origins, or use the Authorization header
    #[oai(path = "/auth/logout", method = "post", operation_id = "logOut")]
    async fn log_out(
        &self,
        ctx: Data<&Ctx>,
        token: SessionToken,
    ) -> Result<CookieResponse<Json<Success>>, Fail<{ s::FORBIDDEN }>> {
        if let Some(token) = &token.0 {
            flows::auth::logout::run(&ctx, token).await?;
        }
        Ok(CookieResponse::clear(Success::done(), &ctx.people.sessions))
    }

    /// Change the password
    ///
    /// The call requires the current password and ends every other session of the account. After a few failed attempts,
    /// further attempts have to wait, as with sign-in.
    ///
    /// When: a person changes the password, or suspects that someone else knows it
    /// Needs: a session of an account, and its password
    /// Next: `GET /v1/auth/sessions` shows that this session is the only one
    /// 200: The new password is in effect, and every other session has ended
    /// 403: A person who signed in with a wallet has no password
    #[oai(path = "/auth/password", method = "post", operation_id = "changePassword")]
    async fn change_password(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        from: SigningIn,
        body: Body<ChangePasswordBody>,
    ) -> Result<Json<Success>, Fail<{ s::BAD_REQUEST | s::FORBIDDEN }>> {
        let ChangePasswordBody {
            current_password,
            new_password,
        } = body.0;
        let (current, new) = (Secret::new(current_password), Secret::new(new_password));
        flows::auth::password::run(&ctx, &caller, current, new, &from.0).await?;
        Ok(Success::done())
    }

    /// List sessions
    ///
    /// Lists the sessions of the caller's account or wallet.
    ///
    /// When: a person checks for unknown sign-ins
    /// Next: end an unknown session with `DELETE /v1/auth/sessions/{id}`
    /// 200: The valid sessions, newest first, at most 1000
    #[oai(path = "/auth/sessions", method = "get", operation_id = "listSessions")]
    async fn sessions(&self, ctx: Data<&Ctx>, caller: Auth<SessionOnly>) -> Result<Json<SessionList>, Fail<0>> {
        let found = flows::auth::sessions::list(&ctx, &caller).await?;
        Ok(Json(SessionList {
            sessions: found
                .into_iter()
                .map(|(found, is_current)| session(found, is_current))
                .collect(),
        }))
    }

    /// End every session
    ///
    /// Ends all sessions of the caller, including this one, and clears the cookie.
    ///
    /// When: a device is lost, or someone else may be signed in
    /// Next: sign in again with `POST /v1/auth/login` or `POST /v1/auth/wallet/challenge`
    /// 200: Every session of the person has ended
    #[oai(path = "/auth/sessions", method = "delete", operation_id = "endSessions")]
    async fn end_sessions(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
    ) -> Result<CookieResponse<Json<Success>>, Fail<0>> {
        flows::auth::sessions::end_all(&ctx, &caller).await?;
        Ok(CookieResponse::clear(Success::done(), &ctx.people.sessions))
    }

    /// End a session
    ///
    /// Ends one session of the caller, so that the device with this session is signed out.
    ///
    /// When: the list shows an unknown session
    /// Needs: the id of a session
    /// Next: change the password with `POST /v1/auth/password` if someone else may know it
    /// 200: The session has ended
    /// 404: Session not found
    #[oai(path = "/auth/sessions/:id", method = "delete", operation_id = "endSession")]
    async fn end_session(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        /// Id of the session
        id: Path<UlidText>,
    ) -> Result<Json<Success>, Fail<{ s::NOT_FOUND }>> {
        flows::auth::sessions::end(&ctx, &caller, &id.id()).await?;
        Ok(Success::done())
    }
}
