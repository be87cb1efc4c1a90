//! The callers of the fuzzer. There is one for each way to authenticate, and all belong to the tenant that `prs dev`
//! creates.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use xtask::service::chain::Chain;
use xtask::service::client::{Call, Client};
use xtask::service::ready::Ready;

/// Index of the local chain account whose wallet belongs to the tenant.
const OWNER: usize = 1;

const SESSION_COOKIE: &str = "session_token";

/// A caller with its credential.
#[derive(Debug)]
pub(super) struct Caller {
    /// Its name in the table.
    pub(super) name: &'static str,
    /// The name of the caller's security scheme in the documents, and the source of the credential; `None` for an
    /// anonymous caller.
    scheme: Option<(&'static str, Source)>,
    /// The origin of the calling page.
    pub(super) origin: Option<String>,
}

/// Where a credential comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// The credential is in the line that `prs dev` prints when it is ready, at this JSON pointer.
    Seeded(&'static str),
    /// The credential is a session token, which the wallet gets by signing in.
    Session,
}

/// The name of a security scheme, and the credential that is sent for it.
pub(super) type Credential = (&'static str, String);

/// All callers, in an order in which no caller revokes the credential of a later one: API keys change client IDs, and
/// sessions change API keys.
pub(super) fn all(ready: &Ready) -> Result<Vec<Caller>> {
    use Source::{Seeded, Session};
    let page = ready.member("/clientOrigin")?;
    let callers = [
        ("anonymous", None, None),
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

/// Signs in the wallet of the tenant; returns the session token.
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

/// For each security scheme: its name, the header, the prefix of the credential in the header, and a path. A GET of
/// this path succeeds as long as the credential is valid.
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
    /// The credential of the caller for the trial that begins now. A session is opened anew for each trial, because an
    /// earlier session would have expired.
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

    /// Returns an error if the credential is no longer valid, because the results of the trial would then be
    /// meaningless.
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
            .with_context(|| format!("{} became invalid during the run", self.name))
            .map(drop)
    }

    /// The operations of a document that the caller may call with this credential. For an anonymous caller, the
    /// operations that need no credential.
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
    fn a_caller_calls_the_operations_of_its_credential() {
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
