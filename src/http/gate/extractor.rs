//! Who calls: one extractor for every mode of authentication, and the policies that operations choose from.
//!
//! Precedence: orchestrator key, then API key or client ID, then session. The first credential that an operation
//! accepts decides, and no credential makes up for another one that is wrong: whatever a call shows in a header has to
//! be good, also where another header or a cookie would do. A cookie alone is passed over beside them, because browsers
//! add it by themselves. `Origin` is read, but never modelled as a parameter.
//!
//! A browser sends the cookie of a session whoever asks it to. So a call that changes something counts with a cookie
//! only when the browser says that the page is one of ours; other credentials have to be known to the page that sends
//! them, and need no such proof. Source: rules P.1.4; rules C.1; decisions D27.

use crate::{
    domain::{
        caller::Caller,
        client_id::EndpointManagers,
        refusal::{Refusal, RefusalKind},
    },
    flows::{FlowError, FlowResult},
    http::{
        error::{Problem, unauthorized},
        gate::{
            identify::Identify,
            page::{FOREIGN_COOKIE, call_origin, require_own_page, require_same_origin},
            rate_limits::{Meter, Purpose},
            scheme::{Mark, Policy, Scheme, Unusable, needs},
        },
    },
};
use poem::{Request, RequestBody};
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions, registry::Registry};
use std::{ops::Deref, sync::Arc};
use tokio::sync::SemaphorePermit;

/// What a public client ID reads where a secret is needed.
const CLOSED_TO_PUBLIC: &str = "A client ID with allowed domains is public, and this operation is closed to it; a client ID without domains opens it";

/// What is said to an orchestrator that comes with another credential. Source: rules P.1.4.
const NOT_FOR_ORCHESTRATORS: &str =
    "Orchestrators have no part in payment links on this service yet: call without x-orchestrator-key";

/// The caller of an operation under a policy. Make it the first argument, so that strangers learn nothing else.
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
        for scheme in P::ANY_OF {
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
        let shown = Shown::by(request, P::ANY_OF).await?;
        let caller = shown.caller().await?;
        if shown.scheme == Scheme::Session && !request.method().is_safe() {
            let page = require_own_page(request, shown.identify.as_ref(), FOREIGN_COOKIE);
            page.map_err(|problem| shown.counted(problem))?;
        }
        shown.require_others().await?;
        shown.admit(&caller, P::MARKS.contains(&Mark::Management)).await?;
        shown.require_marks(&caller, P::ANY_OF, P::MARKS)?;
        let caller = P::Caller::try_from(caller).map_err(|_| misplaced(P::ANY_OF))?;
        Ok(Self(caller))
    }
}

/// The credential that decides, who can look it up, and who counts.
struct Shown<'a> {
    request: &'a Request,
    identify: &'a Arc<dyn Identify>,
    meter: Option<&'a Arc<Meter>>,
    scheme: Scheme,
    credential: Result<String, Unusable>,
}

impl<'a> Shown<'a> {
    /// The first accepted credential. Errors: none, or only one that opens other operations.
    async fn by(request: &'a Request, accepted: &[Scheme]) -> Result<Self, Problem> {
        if let Some(shown) = Self::first(request, accepted)? {
            return Ok(shown);
        }
        let others: Vec<Scheme> = Scheme::ALL
            .iter()
            .copied()
            .filter(|scheme| !accepted.contains(scheme))
            .collect();
        let Some(other) = Self::first(request, &others)? else {
            return Err(missing(accepted));
        };
        // A stranger learns only that nobody knows the credential.
        let caller = other.caller().await?;
        other.require_others().await?;
        other.admit(&caller, false).await?;
        Err(misplaced(accepted))
    }

    fn first(request: &'a Request, accepted: &[Scheme]) -> Result<Option<Self>, Problem> {
        let identify = identify(request)?;
        let mut accepted = accepted.iter();
        Ok(accepted.find_map(|scheme| {
            let credential = scheme.read(request)?;
            Some(Self {
                request,
                identify,
                meter: request.data::<Arc<Meter>>(),
                scheme: *scheme,
                credential,
            })
        }))
    }

    /// Looks at what the call shows in further headers. Errors: one of them is wrong.
    async fn require_others(&self) -> Result<(), Problem> {
        for scheme in Scheme::ALL {
            if *scheme == self.scheme || *scheme == Scheme::Session {
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
                // Where it may be used from is asked only of the one that decides.
                Scheme::ClientId => self.identify.require_client_id(&credential).await,
                Scheme::SessionBearer | Scheme::Session => self.identify.session(&credential).await.map(drop),
            })?;
        }
        Ok(())
    }

    /// Counts the call of a caller. Errors: 429.
    async fn admit(&self, caller: &Caller, is_management: bool) -> Result<(), Problem> {
        let Some(meter) = self.meter else { return Ok(()) };
        let tier = self.identify.tier(caller).await.map_err(Problem::from)?;
        meter.admit(caller, tier, is_management)
    }

    /// The turn of a credential to be looked up. Errors: 429, when too much is guessed.
    async fn turn(&self, credential: &str) -> Result<Option<SemaphorePermit<'a>>, Problem> {
        match self.meter {
            Some(meter) if meter.is_guesser() && !self.identify.was_good(credential) => meter.turn_of_guess().await,
            _ => Ok(None),
        }
    }

    /// Errors: an orchestrator key beside it, a page of another origin, or a client ID that is public, or that the operator lets manage no endpoints, where that counts (403).
    ///
    /// Source: decisions D32.
    fn require_marks(&self, caller: &Caller, accepted: &[Scheme], marks: &[Mark]) -> Result<(), Problem> {
        let Caller::Platform(caller) = caller else {
            return Ok(());
        };
        if marks.contains(&Mark::Alone) && Scheme::OrchestratorKey.read(self.request).is_some() {
            return Err(Refusal::forbidden(NOT_FOR_ORCHESTRATORS).into());
        }
        if marks.contains(&Mark::SameOrigin) {
            require_same_origin(self.request)?;
        }
        // Where another client ID would do, the sentence says so, and a hint without client IDs would say otherwise.
        if marks.contains(&Mark::Secret) && caller.is_public() {
            return Err(Refusal::forbidden(CLOSED_TO_PUBLIC).into());
        }
        if !marks.contains(&Mark::Endpoints) || caller.client().is_none() {
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
        };
        self.judge(found)
    }

    /// What a lookup found. Guessing is counted: whoever shows too many credentials that are unknown, or good only
    /// elsewhere, gets 429 instead of 401 or 403.
    fn judge<T>(&self, found: FlowResult<T>) -> Result<T, Problem> {
        found.map_err(|error| {
            let is_refused = matches!(&error, FlowError::Refused(refusal)
                if matches!(refusal.kind, RefusalKind::Unauthenticated | RefusalKind::Forbidden));
            let problem = Problem::from(error);
            if is_refused { self.counted(problem) } else { problem }
        })
    }

    /// The refusal of a call that nobody is charged for but its address; 429 when that has had too many.
    fn counted(&self, problem: Problem) -> Problem {
        let counted = self.meter.map(|meter| meter.admit_address(Purpose::Unknown));
        counted.and_then(Result::err).unwrap_or(problem)
    }
}

pub(super) fn identify(request: &Request) -> Result<&Arc<dyn Identify>, Problem> {
    request.data::<Arc<dyn Identify>>().ok_or_else(|| {
        tracing::error!("the routes carry nobody who can identify callers");
        Problem::internal()
    })
}

fn missing(accepted: &[Scheme]) -> Problem {
    Problem::from(unauthorized()).with_hint(needs(accepted))
}

/// The refusal of a good credential that opens other operations. Source: rules P.1.4.
fn misplaced(accepted: &[Scheme]) -> Problem {
    Problem::from(Refusal::forbidden("This credential does not open this operation")).with_hint(needs(accepted))
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
        http::gate::access::{ClientOnly, KeyOnly, KeyOrClient},
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
    async fn a_wrong_credential_is_never_rescued_by_another() {
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
    async fn pages_of_the_service_itself_are_told_apart() {
        let same = [("x-client-id", "cli_1"), ("sec-fetch-site", "same-origin")];
        assert_eq!(who::<ClientOnly>(&same).await.unwrap(), "client cli_1 None true");
        let page = [("x-client-id", "cli_1"), ("origin", "https://shop.example")];
        assert_eq!(
            who::<ClientOnly>(&page).await.unwrap(),
            "client cli_1 Some(\"https://shop.example\") false"
        );
    }
}
