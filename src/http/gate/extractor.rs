//! Authentication: one extractor for every scheme, and the policies of operations.
//!
//! An orchestrator key decides every call that carries it: alone on the operations of orchestrators, and together with
//! a linked client ID (the pair) on the operations that accept the pair. In any other call, an accepted API key or
//! client ID decides, otherwise an accepted session. Every further credential in a header must be valid too. A session
//! cookie is ignored when a header decides, because browsers add cookies automatically. `Origin` is read, but it is not
//! a parameter in the API documents.
//!
//! A browser sends the session cookie for calls of any page. A changing call with a cookie is therefore accepted only
//! if the browser says that the page belongs to this service. Any other credential must be known to the page that sends
//! it, so it needs no such proof. Source: rules P.1.4; rules C.1; decisions D27.

use crate::{
    domain::{
        caller::Caller,
        client_id::EndpointManagers,
        client_link::linked_alone,
        refusal::{Refusal, RefusalKind},
    },
    flows::{FlowError, FlowResult},
    http::{
        error::{Problem, unauthorized},
        gate::{
            identify::Identify,
            page::{FOREIGN_COOKIE, call_origin, require_own_page, require_same_origin},
            rate_limits::{Meter, Purpose},
            scheme::{Policy, PolicyMark, Scheme, UnusableCredential, needs},
        },
    },
};
use poem::{Request, RequestBody};
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions, registry::Registry};
use std::{ops::Deref, sync::Arc};
use tokio::sync::SemaphorePermit;

/// Message for a public client ID on an operation that requires a secret credential.
const CLOSED_TO_PUBLIC: &str = "A client ID with allowed domains is public and cannot call this operation; use a \
                                client ID without allowed domains";

/// Message for a call that carries an accepted credential and also an orchestrator key, where the operation accepts no
/// orchestrator key. Source: rules P.1.4.
const NOT_FOR_ORCHESTRATORS: &str = "This operation does not accept an orchestrator key: omit x-orchestrator-key";

/// Message for an orchestrator key without a client ID, or with a further credential, where the operation accepts the
/// key only together with a linked client ID.
const ONLY_PAIRED: &str = "An orchestrator key is accepted here only together with a linked client ID: send x-client-id \
                           and no other credential";

/// The authenticated caller of an operation. Make it the first argument: then an unauthenticated caller gets no
/// messages about the other arguments.
#[derive(Debug)]
pub struct Auth<P: Policy>(pub P::Caller);

impl<P: Policy> Deref for Auth<P> {
    type Target = P::Caller;

    fn deref(&self) -> &P::Caller {
        &self.0
    }
}

impl<'a, P: Policy> ApiExtractor<'a> for Auth<P> {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::SecurityScheme];
    type ParamType = ();
    type ParamRawType = ();

    fn register(registry: &mut Registry) {
        for scheme in P::ANY_OF.iter().flat_map(|scheme| scheme.parts()) {
            registry.create_security_scheme(scheme.id(), scheme.declaration());
        }
    }

    fn security_schemes() -> Vec<&'static str> {
        P::ANY_OF.iter().map(|scheme| scheme.id()).collect()
    }

    async fn from_request(
        request: &'a Request,
        _body: &mut RequestBody,
        _options: ExtractParamOptions<()>,
    ) -> poem::Result<Self> {
        let shown = PresentedCredential::by(request, P::ANY_OF)?;
        let is_accepted = P::ANY_OF.contains(&shown.scheme);
        // An unknown caller learns only that the credential is unknown.
        let caller = shown.caller().await?;
        if is_accepted && shown.scheme == Scheme::Session && !request.method().is_safe() {
            let page = require_own_page(request, shown.identify.as_ref(), FOREIGN_COOKIE);
            page.map_err(|problem| shown.counted(problem))?;
        }
        shown.require_others().await?;
        let is_management = is_accepted && P::MARKS.contains(&PolicyMark::Management);
        shown.admit(&caller, is_management).await?;
        if !is_accepted {
            return Err(shown.misplaced(P::ANY_OF).into());
        }
        shown.require_marks(&caller, P::ANY_OF, P::MARKS)?;
        let caller = P::Caller::try_from(caller).map_err(|_| shown.misplaced(P::ANY_OF))?;
        Ok(Self(caller))
    }
}

/// The deciding credential, with the services that look it up and count the call.
struct PresentedCredential<'a> {
    request: &'a Request,
    identify: &'a Arc<dyn Identify>,
    meter: Option<&'a Arc<Meter>>,
    scheme: Scheme,
    credential: Result<String, UnusableCredential>,
}

impl<'a> PresentedCredential<'a> {
    /// Chooses the credential that decides the call: the first one that the operation accepts, otherwise the first one
    /// in the order of precedence. If the call has an orchestrator key, only this key or the pair can decide. Errors:
    /// the call has no credential.
    fn by(request: &'a Request, accepted: &[Scheme]) -> Result<Self, Problem> {
        let identify = identify(request)?;
        let has_key = Scheme::OrchestratorKey.read(request).is_some();
        let mut candidates = accepted
            .iter()
            .chain(Scheme::ALL)
            .filter(|scheme| !has_key || scheme.parts().contains(&Scheme::OrchestratorKey));
        let shown = candidates.find_map(|scheme| {
            let credential = scheme.read(request)?;
            Some(Self {
                request,
                identify,
                meter: request.data::<Arc<Meter>>(),
                scheme: *scheme,
                credential,
            })
        });
        shown.ok_or_else(|| missing(accepted))
    }

    /// Checks the credentials that the call carries besides the deciding one. Errors: a credential is wrong; the pair
    /// decides and the call has a further credential (403).
    async fn require_others(&self) -> Result<(), Problem> {
        for scheme in Scheme::ALL {
            if self.scheme.parts().contains(scheme) || matches!(scheme, Scheme::Session | Scheme::Paired) {
                continue;
            }
            let Some(read) = scheme.read(self.request) else {
                continue;
            };
            let Ok(credential) = read else {
                return self.judge(Err(unauthorized().into()));
            };
            let _turn = self.turn(&credential).await?;
            self.judge(match scheme {
                Scheme::OrchestratorKey => self.identify.orchestrator_key(&credential).await.map(drop),
                Scheme::ApiKey => self.identify.api_key(&credential).await.map(drop),
                // The calling page is checked only for the deciding credential, and operations of orchestrators ignore
                // the client ID.
                Scheme::ClientId => match self.identify.require_client_id(&credential).await {
                    Err(FlowError::Refused(refusal))
                        if self.scheme == Scheme::OrchestratorKey && refusal.kind == RefusalKind::Forbidden =>
                    {
                        Ok(())
                    }
                    found => found,
                },
                Scheme::SessionBearer | Scheme::Session | Scheme::Paired => {
                    self.identify.session(&credential).await.map(drop)
                }
            })?;
            if self.scheme == Scheme::Paired {
                return Err(Refusal::forbidden(ONLY_PAIRED).into());
            }
        }
        Ok(())
    }

    /// Counts the call of a caller. Errors: 429.
    async fn admit(&self, caller: &Caller, is_management: bool) -> Result<(), Problem> {
        let Some(meter) = self.meter else { return Ok(()) };
        let tier = self.identify.tier(caller).await.map_err(Problem::from)?;
        meter.admit(caller, tier, is_management)
    }

    /// A slot for looking up a credential. Errors: 429, when there are too many guesses.
    async fn turn(&self, credential: &str) -> Result<Option<SemaphorePermit<'a>>, Problem> {
        match self.meter {
            Some(meter) if meter.is_guesser() && !self.identify.was_good(credential) => meter.turn_of_guess().await,
            _ => Ok(None),
        }
    }

    /// Checks the marks of a policy. Errors (403), if a mark forbids them: a page of another origin, a public client ID,
    /// a linked client ID without the key of its orchestrator, or a client ID that may not manage endpoints.
    ///
    /// Source: decisions D32.
    fn require_marks(&self, caller: &Caller, accepted: &[Scheme], marks: &[PolicyMark]) -> Result<(), Problem> {
        let Caller::Platform(caller) = caller else {
            return Ok(());
        };
        if marks.contains(&PolicyMark::SameOrigin) {
            require_same_origin(self.request)?;
        }
        // The message says that a client ID without domains would be accepted. There is no hint, because the usual hint
        // would list only the other credentials and so contradict the message.
        if marks.contains(&PolicyMark::Secret) && caller.is_public() {
            return Err(Refusal::forbidden(CLOSED_TO_PUBLIC).into());
        }
        if marks.contains(&PolicyMark::Unlinked) && caller.is_linked_alone() {
            return Err(linked_alone().into());
        }
        if !marks.contains(&PolicyMark::Endpoints) || caller.client().is_none() {
            return Ok(());
        }
        let managers = self.identify.endpoint_managers();
        managers.require(caller.is_public()).map_err(|refused| {
            let problem = Problem::from(refused);
            if managers != EndpointManagers::Off {
                return problem;
            }
            let others = accepted.iter().copied().filter(|scheme| *scheme != Scheme::ClientId);
            problem.with_hint(needs(&others.collect::<Vec<_>>()))
        })
    }

    async fn caller(&self) -> Result<Caller, Problem> {
        let identify = self.identify;
        let Ok(credential) = &self.credential else {
            return self.judge(Err(unauthorized().into()));
        };
        let _turn = self.turn(credential).await?;
        let found = match self.scheme {
            Scheme::OrchestratorKey => identify.orchestrator_key(credential).await.map(Caller::Orchestrator),
            Scheme::ApiKey => identify.api_key(credential).await.map(Caller::Platform),
            Scheme::ClientId => {
                let found = identify.client_id(credential, call_origin(self.request)).await;
                found.map(Caller::Platform)
            }
            Scheme::SessionBearer | Scheme::Session => identify.session(credential).await.map(Caller::Platform),
            Scheme::Paired => {
                let Some(Ok(client_id)) = Scheme::ClientId.read(self.request) else {
                    return self.judge(Err(unauthorized().into()));
                };
                let _turn = self.turn(&client_id).await?;
                let found = identify.pair(credential, &client_id, call_origin(self.request)).await;
                found.map(Caller::Platform)
            }
        };
        self.judge(found)
    }

    /// The refusal of a valid credential that the operation does not accept, or accepts only without an orchestrator
    /// key. Source: rules P.1.4.
    fn misplaced(&self, accepted: &[Scheme]) -> Problem {
        let is_beside = accepted.iter().any(|scheme| scheme.read(self.request).is_some());
        let sentence = if !is_beside {
            "This credential is not accepted for this operation"
        } else if accepted.contains(&Scheme::Paired) {
            ONLY_PAIRED
        } else {
            NOT_FOR_ORCHESTRATORS
        };
        Problem::from(Refusal::forbidden(sentence)).with_hint(needs(accepted))
    }

    /// The result of a lookup. Guesses are counted: a caller that sends too many unknown credentials, or credentials
    /// for other operations, gets 429 instead of 401 or 403.
    fn judge<T>(&self, found: FlowResult<T>) -> Result<T, Problem> {
        found.map_err(|error| {
            let is_refused = matches!(&error, FlowError::Refused(refusal)
                if matches!(refusal.kind, RefusalKind::Unauthenticated | RefusalKind::Forbidden));
            let problem = Problem::from(error);
            if is_refused { self.counted(problem) } else { problem }
        })
    }

    /// Counts a rejected call for its address. Returns the rejection, or 429 when the address has sent too many such
    /// calls.
    fn counted(&self, problem: Problem) -> Problem {
        let counted = self.meter.map(|meter| meter.admit_address(Purpose::Unknown));
        counted.and_then(Result::err).unwrap_or(problem)
    }
}

pub(super) fn identify(request: &Request) -> Result<&Arc<dyn Identify>, Problem> {
    request.data::<Arc<dyn Identify>>().ok_or_else(|| {
        tracing::error!("a route was built without the service that identifies callers; the call gets 500");
        Problem::internal()
    })
}

fn missing(accepted: &[Scheme]) -> Problem {
    Problem::from(unauthorized()).with_hint(needs(accepted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{
            caller::{Credential, OrchestratorCaller, PlatformCaller},
            client_id::{CallOrigin, EndpointManagers},
            ids::{ClientRowId, KeyId, OrchestratorId, PlatformId},
            quota::Tier,
        },
        http::gate::access::{ClientOnly, KeyOnly, KeyOrClient, LinkMaker},
    };
    use async_trait::async_trait;

    struct Sessions;

    impl Policy for Sessions {
        type Caller = PlatformCaller;
        const ANY_OF: &'static [Scheme] = &[Scheme::ApiKey, Scheme::SessionBearer, Scheme::Session];
    }

    struct Echo;

    #[async_trait]
    impl Identify for Echo {
        async fn api_key(&self, key: &str) -> FlowResult<PlatformCaller> {
            named(&format!("key {key}"))
        }

        async fn client_id(&self, id: &str, call: CallOrigin<'_>) -> FlowResult<PlatformCaller> {
            if id == "cli_unknown" {
                return Err(unauthorized().into());
            }
            let caller = named(&format!("client {id} {:?} {}", call.origin, call.is_same_origin))?;
            Ok(PlatformCaller {
                credential: Credential::ClientId {
                    id: ClientRowId(String::new()),
                    client_id: id.to_owned(),
                    is_public: false,
                    origin: None,
                    linked: None,
                    is_paired: false,
                },
                ..caller
            })
        }

        async fn require_client_id(&self, id: &str) -> FlowResult<()> {
            if id == "cli_unknown" {
                return Err(unauthorized().into());
            }
            Ok(())
        }

        async fn pair(&self, key: &str, id: &str, _call: CallOrigin<'_>) -> FlowResult<PlatformCaller> {
            self.orchestrator_key(key).await?;
            self.require_client_id(id).await?;
            named(&format!("pair {key} {id}"))
        }

        async fn session(&self, token: &str) -> FlowResult<PlatformCaller> {
            named(&format!("session {token}"))
        }

        async fn orchestrator_key(&self, key: &str) -> FlowResult<OrchestratorCaller> {
            let id = key.strip_prefix("orc_").ok_or_else(unauthorized)?;
            Ok(OrchestratorCaller {
                id: OrchestratorId(id.to_owned()),
                key: KeyId(String::new()),
            })
        }

        fn is_session_page(&self, _origin: &str) -> bool {
            false
        }

        fn was_good(&self, _credential: &str) -> bool {
            true
        }

        fn endpoint_managers(&self) -> EndpointManagers {
            EndpointManagers::All
        }

        async fn tier(&self, _caller: &Caller) -> FlowResult<Tier> {
            Ok(Tier::default())
        }
    }

    fn named(name: &str) -> FlowResult<PlatformCaller> {
        Ok(PlatformCaller {
            platform: PlatformId(name.to_owned()),
            credential: Credential::ApiKey {
                id: crate::domain::ids::KeyId(String::new()),
            },
        })
    }

    async fn who<P: Policy<Caller = PlatformCaller>>(headers: &[(&str, &str)]) -> Result<String, u16> {
        let mut builder = Request::builder();
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        let mut request = builder.finish();
        let identify: Arc<dyn Identify> = Arc::new(Echo);
        request.set_data(identify);
        let auth = Auth::<P>::from_request(&request, &mut RequestBody::default(), ExtractParamOptions::default()).await;
        auth.map(|auth| auth.platform.to_string())
            .map_err(|error| error.status().as_u16())
    }

    #[tokio::test]
    async fn the_first_accepted_credential_decides() {
        let both = [("x-client-id", "cli_1"), ("x-api-key", "k1")];
        assert_eq!(who::<KeyOrClient>(&both).await.unwrap(), "key k1");
        assert_eq!(who::<ClientOnly>(&both).await.unwrap(), "client cli_1 None false");
        assert_eq!(who::<KeyOnly>(&[("x-client-id", "cli_1")]).await, Err(403));
        assert_eq!(who::<KeyOnly>(&[("x-orchestrator-key", "unknown")]).await, Err(401));
        assert_eq!(who::<KeyOnly>(&[("x-orchestrator-key", "orc_1")]).await, Err(403));
        assert_eq!(who::<KeyOrClient>(&[]).await, Err(401));
        assert_eq!(who::<KeyOrClient>(&[("x-api-key", " ")]).await, Err(401));
        let long = "k".repeat(513);
        assert_eq!(who::<KeyOnly>(&[("x-api-key", &long)]).await, Err(401));
    }

    #[tokio::test]
    async fn an_invalid_credential_fails_despite_a_valid_one() {
        let unknown = ("x-client-id", "cli_unknown");
        assert_eq!(who::<KeyOrClient>(&[("x-api-key", "k1"), unknown]).await, Err(401));
        assert_eq!(
            who::<Sessions>(&[("cookie", "session_token=t1"), unknown]).await,
            Err(401)
        );
        let orchestrator = ("x-orchestrator-key", "unknown");
        assert_eq!(who::<KeyOnly>(&[("x-api-key", "k1"), orchestrator]).await, Err(401));
        assert_eq!(who::<ClientOnly>(&[("x-api-key", "k1"), orchestrator]).await, Err(401));
        let cookie = ("cookie", "session_token=t1; session_token=t2");
        assert_eq!(who::<KeyOnly>(&[("x-api-key", "k1"), cookie]).await.unwrap(), "key k1");
    }

    #[tokio::test]
    async fn an_orchestrator_key_decides_only_with_a_client_id_and_nothing_else() {
        let (key, client) = (("x-orchestrator-key", "orc_1"), ("x-client-id", "cli_1"));
        let cookie = ("cookie", "session_token=t1");
        assert_eq!(who::<LinkMaker>(&[key, client]).await.unwrap(), "pair orc_1 cli_1");
        assert_eq!(
            who::<LinkMaker>(&[key, client, cookie]).await.unwrap(),
            "pair orc_1 cli_1"
        );
        for further in [("x-api-key", "k1"), ("authorization", "Bearer t1")] {
            assert_eq!(who::<LinkMaker>(&[key, client, further]).await, Err(403), "{further:?}");
            assert_eq!(who::<LinkMaker>(&[key, further]).await, Err(403), "{further:?}");
        }
        assert_eq!(who::<LinkMaker>(&[key]).await, Err(403));
        assert_eq!(who::<LinkMaker>(&[key, cookie]).await, Err(403));
        assert_eq!(who::<LinkMaker>(&[key, ("x-client-id", "cli_unknown")]).await, Err(401));
        assert_eq!(
            who::<LinkMaker>(&[("x-orchestrator-key", "unknown"), client]).await,
            Err(401)
        );
        assert_eq!(
            who::<KeyOrClient>(&[key, client]).await,
            Err(403),
            "the pair is not accepted"
        );
        assert_eq!(who::<KeyOrClient>(&[key, ("x-api-key", "k1")]).await, Err(403));
    }

    #[tokio::test]
    async fn sessions_come_as_bearer_token_or_cookie() {
        assert_eq!(
            who::<Sessions>(&[("authorization", "bearer t1")]).await.unwrap(),
            "session t1"
        );
        assert_eq!(
            who::<Sessions>(&[("cookie", "a=b; session_token=t2")]).await.unwrap(),
            "session t2"
        );
        assert_eq!(who::<Sessions>(&[("authorization", "Basic t1")]).await, Err(401));
    }

    #[tokio::test]
    async fn pages_of_the_service_itself_are_recognised() {
        let same = [("x-client-id", "cli_1"), ("sec-fetch-site", "same-origin")];
        assert_eq!(who::<ClientOnly>(&same).await.unwrap(), "client cli_1 None true");
        let page = [("x-client-id", "cli_1"), ("origin", "https://shop.example")];
        assert_eq!(
            who::<ClientOnly>(&page).await.unwrap(),
            "client cli_1 Some(\"https://shop.example\") false"
        );
    }
}
