//! Signing in with e-mail and password, the password, and signing out, here and elsewhere.

use crate::{
    domain::{
        ids::Secret,
        session::{Account, Session},
    },
    flows,
    http::{
        gate::{
            cookie::WithCookie,
            signing::{SessionToken, SigningIn},
        },
        operation::*,
    },
};

text! {
    /// E-mail address. Whether mail reaches anybody there is not checked.
    EmailText {
        pattern: r"^[^\s@\x00-\x1f\x7f-\x9f]{1,64}@[^\s@\x00-\x1f\x7f-\x9f]{1,252}$",
        length_max: 254,
        format: "email",
        example: "ada@example.com",
        hint: "must be an e-mail address of at most 254 characters, for example ada@example.com",
    }
}

/// A new account. Not printable, for the password in it.
#[derive(Clone, Object)]
pub struct RegisterBody {
    /// E-mail address; upper and lower case are the same. Example: `grace@example.com`
    pub email: EmailText,
    /// Password of 8 to 100 characters, none of the 10,000 most common ones. Example: `correct horse battery staple`
    #[oai(validator(min_length = 8, max_length = 100))]
    pub password: String,
    /// Invite of the operator, where accounts are opened with one
    pub invite: Option<InviteText>,
}

/// Who signs in. Not printable, for the password in it.
#[derive(Clone, Object)]
pub struct LoginBody {
    /// E-mail address; upper and lower case are the same. Example: `ada@example.com`
    pub email: EmailText,
    /// Password. Example: `correct horse battery staple`
    #[oai(validator(max_length = 1000))]
    pub password: String,
}

/// Another password. Not printable, for the passwords in it.
#[derive(Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ChangePasswordBody {
    /// The password of now. Example: `correct horse battery staple`
    #[oai(validator(max_length = 1000))]
    pub current_password: String,
    /// The password from now on: 8 to 100 characters, none of the 10,000 most common ones. Example: `another horse in the battery`
    #[oai(validator(min_length = 8, max_length = 100))]
    pub new_password: String,
}

/// Where a person is signed in.
#[derive(Debug, Clone, Object)]
#[oai(rename = "Session", rename_all = "camelCase")]
pub struct SessionView {
    /// Id of the session, which opens nothing
    pub id: UlidText,
    /// Time of the sign-in
    pub created_at: Instant,
    /// Last use, written at most once a minute
    pub last_used_at: Instant,
    /// When it ends unless it is used before
    pub expires_at: Instant,
    /// Whether it is the session of this call. Example: `true`
    pub is_current: bool,
}

/// The sessions of a person.
#[derive(Debug, Clone, Object)]
pub struct SessionList {
    /// Newest first
    #[oai(validator(max_items = 1000))]
    pub sessions: Vec<SessionView>,
}

fn session((session, is_current): (Session, bool)) -> SessionView {
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

impl From<Account> for AccountView {
    fn from(account: Account) -> Self {
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
    /// Opens an account with a platform of its own and signs it in. The session lasts 30 days, or until it was not
    /// used for 7 days. Who may open one is a setting of the operator, `accounts.registration`: every person, holders of an invite, or no one; others get 403.
    ///
    /// When: somebody without a wallet begins
    /// Needs: an invite, where the operator asks for one
    /// Next: `POST /v1/api-keys` for a server, `POST /v1/client-ids` for a page
    /// 201: The new account; its session is in the cookie
    /// 403: Only pages of this service may sign people in: the Origin header must be listed in http.session_origins
    /// 403: Accounts are opened with an invite of the operator; send it as invite
    /// 409: This e-mail address has an account already; sign in instead
    #[oai(path = "/auth/register", method = "post", operation_id = "registerAccount")]
    async fn register(
        &self,
        ctx: Data<&Ctx>,
        from: SigningIn,
        body: Body<RegisterBody>,
    ) -> Result<WithCookie<Created<AccountView>>, Fail<{ s::BAD_REQUEST | s::FORBIDDEN | s::CONFLICT }>> {
        let RegisterBody {
            email,
            password,
            invite,
        } = body.0;
        let invite = invite.map(|invite| Secret::new(invite.as_str()));
        let registered = flows::auth::register::run(&ctx, email.as_str(), Secret::new(password), invite, &from.0);
        let (account, signed_in) = registered.await?;
        Ok(WithCookie::set(
            Reply::new(account.into()),
            &signed_in,
            &ctx.people.sessions,
        ))
    }

    /// Sign in with e-mail and password
    ///
    /// The session lasts 30 days, or until it was not used for 7 days. After a few wrong tries for one account from one address the next ones have to wait;
    /// `Retry-After` says how long. A browser that signed in before shows that with the cookie `device_token`, another
    /// client with its address: tries from elsewhere do not keep it waiting.
    ///
    /// When: somebody with an account comes back
    /// Needs: the e-mail address and the password
    /// Next: whatever a session may do; `POST /v1/auth/logout` at the end
    /// 200: Who signed in; the session is in the cookie
    /// 401: The e-mail address or the password is wrong
    /// 403: Only pages of this service may sign people in: the Origin header must be listed in http.session_origins
    #[oai(path = "/auth/login", method = "post", operation_id = "logIn")]
    async fn log_in(
        &self,
        ctx: Data<&Ctx>,
        from: SigningIn,
        body: Body<LoginBody>,
    ) -> Result<WithCookie<Json<AccountView>>, Fail<{ s::BAD_REQUEST | s::UNAUTHORIZED | s::FORBIDDEN }>> {
        let LoginBody { email, password } = body.0;
        let (account, signed_in) =
            flows::auth::login::run(&ctx, email.as_str(), Secret::new(password), &from.0).await?;
        Ok(WithCookie::set(Json(account.into()), &signed_in, &ctx.people.sessions))
    }

    /// Sign out
    ///
    /// Ends the session of the cookie or Bearer token and clears the cookie. Without a session it does nothing and
    /// succeeds.
    ///
    /// When: somebody leaves
    /// Needs: the cookie or the Bearer token that is to end
    /// Next: `POST /v1/auth/login`, or `POST /v1/auth/wallet/challenge`, to come back
    /// 200: There is no session any more, and the cookie is cleared
    /// 403: A session cookie counts only in calls of pages of this service: send an Origin header that is listed in http.session_origins, or use the Authorization header
    #[oai(path = "/auth/logout", method = "post", operation_id = "logOut")]
    async fn log_out(
        &self,
        ctx: Data<&Ctx>,
        token: SessionToken,
    ) -> Result<WithCookie<Json<Success>>, Fail<{ s::FORBIDDEN }>> {
        if let Some(token) = &token.0 {
            flows::auth::logout::run(&ctx, token).await?;
        }
        Ok(WithCookie::clear(Success::done(), &ctx.people.sessions))
    }

    /// Change the password
    ///
    /// Takes the password of now and another one, and ends every other session of the account. After a few wrong tries the
    /// next ones have to wait, as with signing in.
    ///
    /// When: a person changes the password, or suspects that others know it
    /// Needs: a session of an account, and its password
    /// Next: `GET /v1/auth/sessions` shows that this session is the only one
    /// 200: The new password is good from now on, and every other session has ended
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
    /// Where the person who calls is signed in: with this account, or with this wallet.
    ///
    /// When: a person checks for sign-ins by others
    /// Next: `DELETE /v1/auth/sessions/{id}` for one that is not known
    /// 200: The sessions that are good, newest first, 1000 at most
    #[oai(path = "/auth/sessions", method = "get", operation_id = "listSessions")]
    async fn sessions(&self, ctx: Data<&Ctx>, caller: Auth<SessionOnly>) -> Result<Json<SessionList>, Fail<0>> {
        let found = flows::auth::sessions::list(&ctx, &caller).await?;
        Ok(Json(SessionList {
            sessions: found.into_iter().map(session).collect(),
        }))
    }

    /// End every session
    ///
    /// Signs the person who calls out everywhere, here too, and clears the cookie.
    ///
    /// When: a device is lost, or another person may be signed in
    /// Next: `POST /v1/auth/login`, or `POST /v1/auth/wallet/challenge`, to come back
    /// 200: Every session of the person has ended
    #[oai(path = "/auth/sessions", method = "delete", operation_id = "endSessions")]
    async fn end_sessions(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
    ) -> Result<WithCookie<Json<Success>>, Fail<0>> {
        flows::auth::sessions::end_all(&ctx, &caller).await?;
        Ok(WithCookie::clear(Success::done(), &ctx.people.sessions))
    }

    /// End a session
    ///
    /// Signs the person who calls out on one device.
    ///
    /// When: a session of the list is not known
    /// Needs: the id of a session
    /// Next: `POST /v1/auth/password`, where others may know the password
    /// 200: The session is refused from now on
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
