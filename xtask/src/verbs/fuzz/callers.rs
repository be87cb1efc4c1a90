//! Who calls: one credential for each way to authenticate, all of the tenant that `prs dev` begins with.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use xtask::service::chain::Chain;
use xtask::service::client::{Call, Client};
use xtask::service::ready::Ready;

/// The account of the local chain whose wallet the tenant belongs to.
const OWNER: usize = 1;

const SESSION_COOKIE: &str = "session_token";

/// Who calls.
#[derive(Debug)]
pub(super) struct Caller {
    /// What the table calls it.
    pub(super) name: &'static str,
    /// How the documents name the scheme of its credential, and where that is from; nothing for a stranger.
    scheme: Option<(&'static str, Source)>,
    /// The page that calls.
    pub(super) origin: Option<String>,
}

/// Where a credential is from.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// The line of `prs dev`, at this JSON pointer.
    Seeded(&'static str),
    /// A wallet that signs in.
    Session,
}

/// A scheme and what is sent for it.
pub(super) type Credential = (&'static str, String);

/// Every caller, in an order in which none is revoked by one before it: API keys change client IDs, sessions change API
/// keys.
pub(super) fn all(ready: &Ready) -> Result<Vec<Caller>> {
    use Source::{Seeded, Session};
    let page = ready.member("/clientOrigin")?;
    let callers = [
        ("nobody", None, None),
        ("client ID", Some(("ClientId", Seeded("/clientId"))), Some(page)),
        (
            "backend client ID",
            Some(("ClientId", Seeded("/backendClientId"))),
            None,
        ),
        (
            "orchestrator key",
            Some(("OrchestratorKey", Seeded("/orchestratorKey"))),
            None,
        ),
        ("API key", Some(("ApiKey", Seeded("/apiKey"))), None),
        ("wallet session", Some(("SessionBearer", Session)), None),
        ("cookie", Some(("Session", Session)), Some(page)),
    ];
    let callers = callers.map(|(name, scheme, origin)| Caller {
        name,
        scheme,
        origin: origin.map(str::to_owned),
    });
    Ok(callers.into())
}

/// Signs the wallet of the tenant in; returns the token of the session.
fn sign_in(ready: &Ready) -> Result<String> {
    let service = Client::new(ready.member("/baseUrl")?, Vec::new());
    let wallet = ready.account(OWNER)?;
    let challenge = service.create("/v1/auth/wallet/challenge", &json!({ "address": wallet }))?;
    let message = challenge["message"].as_str().context("a challenge has no message")?;
    let signature = Chain::of(ready)?.sign_text(wallet, message)?;
    let mut proof = json!({ "signature": signature });
    for member in ["challengeId", "nonce", "message"] {
        proof[member] = challenge[member].clone();
    }
    let answer = service.call("/v1/auth/wallet/verify", &Call::Post(&proof))?;
    let token = answer.cookie(SESSION_COOKIE).map(str::to_owned);
    answer.expect(200)?;
    token.with_context(|| format!("a sign-in set no {SESSION_COOKIE}"))
}

/// How each scheme is sent, and what it has to open as long as it is good.
const SCHEMES: [(&str, &str, &str, &str); 5] = [
    ("ApiKey", "x-api-key", "", "/v2/currencies"),
    ("ClientId", "x-client-id", "", "/v2/currencies"),
    (
        "OrchestratorKey",
        "x-orchestrator-key",
        "",
        "/v2/orchestrators/webhooks",
    ),
    ("SessionBearer", "authorization", "Bearer ", "/v2/request"),
    ("Session", "cookie", "session_token=", "/v2/request"),
];

impl Caller {
    /// The credential for a turn that begins now: a session of before would have ended while others had theirs.
    pub(super) fn credential(&self, ready: &Ready) -> Result<Option<Credential>> {
        let Some((scheme, source)) = self.scheme else {
            return Ok(None);
        };
        let value = match source {
            Source::Seeded(pointer) => ready.member(pointer)?.to_owned(),
            Source::Session => sign_in(ready)?,
        };
        Ok(Some((scheme, value)))
    }

    /// Errors: the credential opens nothing any more, so that what was tried with it says nothing.
    pub(super) fn require_good(&self, credential: Option<&Credential>, base_url: &str) -> Result<()> {
        let Some((own, value)) = credential else {
            return Ok(());
        };
        let known = SCHEMES.iter().find(|(scheme, ..)| scheme == own);
        let (_, header, before, path) = known.with_context(|| format!("no header for {own}"))?;
        let mut headers = vec![(*header, format!("{before}{value}"))];
        headers.extend(self.origin.clone().map(|origin| ("origin", origin)));
        let answer = Client::new(base_url, headers).get(path);
        answer
            .with_context(|| format!("{} was lost on the way", self.name))
            .map(drop)
    }

    /// The operations of a document that this credential opens; for a stranger those that need none.
    pub(super) fn operations<'a>(&self, document: &'a Value) -> Vec<&'a str> {
        let paths = document["paths"].as_object().into_iter().flatten();
        let operations = paths.flat_map(|(_, methods)| methods.as_object().into_iter().flatten());
        operations
            .filter(|(_, operation)| self.opens(operation))
            .filter_map(|(_, operation)| operation["operationId"].as_str())
            .collect()
    }

    fn opens(&self, operation: &Value) -> bool {
        let mut ways = operation["security"].as_array().into_iter().flatten().peekable();
        match self.scheme {
            None => ways.peek().is_none(),
            Some((scheme, _)) => ways.any(|way| way.get(scheme).is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_tries_what_its_credential_opens() {
        let document = json!({"paths": {
            "/a": {
                "get": {"operationId": "read", "security": [{"ApiKey": []}, {"ClientId": []}]},
                "post": {"operationId": "create", "security": [{"ApiKey": []}]},
                "parameters": [],
            },
            "/b": {"get": {"operationId": "open"}},
        }});
        let caller = |scheme: Option<&'static str>| Caller {
            name: "",
            scheme: scheme.map(|scheme| (scheme, Source::Session)),
            origin: None,
        };
        assert_eq!(caller(Some("ApiKey")).operations(&document), ["read", "create"]);
        assert_eq!(caller(Some("ClientId")).operations(&document), ["read"]);
        assert_eq!(caller(None).operations(&document), ["open"]);
        assert!(caller(Some("Session")).operations(&document).is_empty());
    }
}
