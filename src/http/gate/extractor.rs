//! Who calls: one extractor for every mode of authentication, and the policies that operations choose from.
//!
//! Precedence: orchestrator key, then API key or client ID, then session. The first credential that is present
//! decides; a wrong key is not rescued by a good cookie. `Origin` is read, but never modelled as a parameter.
//!
//! A browser sends the cookie of a session whoever asks it to. So a call that changes something counts with a cookie
//! only when the browser says that the page is one of ours; other credentials have to be known to the page that sends
//! them, and need no such proof. Source: rules P.1.4; rules C.1; decisions D27.

use crate::{
    domain::{
        caller::{Caller, OrchestratorCaller},
        ids::Secret,
        quota::Tier,
        refusal::{Refusal, RefusalKind},
    },
    flows::{FlowError, FlowResult},
    http::{
        error::Problem,
        gate::{
            access::OrchestratorOnly,
            identify::{Identify, unauthorized},
            page::{call_origin, is_own_page, require_own_page},
            rate_limits::{Meter, Purpose},
            scheme::{Policy, Scheme},
        },
    },
};
use poem::{
    FromRequest, Request, RequestBody,
    http::{StatusCode, header},
};
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions, registry::Registry};
use std::{marker::PhantomData, ops::Deref, sync::Arc};

/// Longest credential that is looked up at all.
const CREDENTIAL_LENGTH_MAX: usize = 512;

/// The caller of an operation under a policy. Make it the first argument, so that strangers learn nothing else.
#[derive(Debug)]
pub struct Auth<P>(pub Caller, PhantomData<P>);

impl<P> Deref for Auth<P> {
    type Target = Caller;

    fn deref(&self) -> &Caller {
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
        let shown = Shown::by::<P>(request).await?;
        if shown.scheme == Scheme::Session && !request.method().is_safe() {
            require_own_page(request, shown.identify.as_ref())?;
        }
        let caller = shown.judge(shown.caller().await)?;
        if let Some(meter) = shown.meter {
            let tier = shown.identify.tier(&caller).await.map_err(Problem::from)?;
            let purpose = if P::IS_MANAGEMENT {
                Purpose::Management(tier)
            } else {
                Purpose::Work(tier)
            };
            meter.admit(purpose, caller.credential.row())?;
        }
        Ok(Self(caller, PhantomData))
    }
}

/// The orchestrator that calls. Make it the first argument, so that strangers learn nothing else.
#[derive(Debug)]
pub struct OrchestratorAuth(pub OrchestratorCaller);

impl Deref for OrchestratorAuth {
    type Target = OrchestratorCaller;

    fn deref(&self) -> &OrchestratorCaller {
        &self.0
    }
}

impl<'a> ApiExtractor<'a> for OrchestratorAuth {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::SecurityScheme];
    type ParamType = ();
    type ParamRawType = ();

    fn register(registry: &mut Registry) {
        Auth::<OrchestratorOnly>::register(registry);
    }

    fn security_schemes() -> Vec<&'static str> {
        Auth::<OrchestratorOnly>::security_schemes()
    }

    async fn from_request(
        request: &'a Request,
        _body: &mut RequestBody,
        _options: ExtractParamOptions<()>,
    ) -> poem::Result<Self> {
        let shown = Shown::by::<OrchestratorOnly>(request).await?;
        let caller = shown.judge(shown.identify.orchestrator_key(&shown.credential).await)?;
        if let Some(meter) = shown.meter {
            meter.admit(Purpose::Work(Tier::default()), caller.key.as_str())?;
        }
        Ok(Self(caller))
    }
}

/// The credential that decides, who can look it up, and who counts.
struct Shown<'a> {
    request: &'a Request,
    identify: &'a Arc<dyn Identify>,
    meter: Option<&'a Arc<Meter>>,
    scheme: Scheme,
    credential: String,
}

impl<'a> Shown<'a> {
    /// The first accepted credential. Errors: none, or only one that opens other operations.
    async fn by<P: Policy>(request: &'a Request) -> Result<Self, Problem> {
        if let Some(shown) = Self::first(request, P::ANY_OF)? {
            return Ok(shown);
        }
        let others: Vec<Scheme> = Scheme::ALL
            .into_iter()
            .filter(|scheme| !P::ANY_OF.contains(scheme))
            .collect();
        let Some(other) = Self::first(request, &others)? else {
            return Err(missing(P::ANY_OF));
        };
        // A stranger learns only that nobody knows the credential.
        match other.scheme {
            Scheme::OrchestratorKey => other
                .judge(other.identify.orchestrator_key(&other.credential).await)
                .map(drop)?,
            _ => other.judge(other.caller().await).map(drop)?,
        }
        Err(misplaced(P::ANY_OF))
    }

    fn first(request: &'a Request, accepted: &[Scheme]) -> Result<Option<Self>, Problem> {
        let identify = identify(request)?;
        let mut accepted = accepted.iter();
        let shown = accepted.find_map(|scheme| {
            let credential = scheme.read(request)?;
            Some(Self {
                request,
                identify,
                meter: request.data::<Arc<Meter>>(),
                scheme: *scheme,
                credential,
            })
        });
        if let Some(shown) = &shown
            && shown.credential.len() > CREDENTIAL_LENGTH_MAX
        {
            shown.judge(Err::<(), _>(unauthorized().into()))?;
        }
        Ok(shown)
    }

    async fn caller(&self) -> FlowResult<Caller> {
        match self.scheme {
            Scheme::OrchestratorPair => self.pair().await,
            Scheme::OrchestratorKey => Err(unauthorized().into()),
            Scheme::ApiKey => self.identify.api_key(&self.credential).await,
            Scheme::ClientId => {
                self.identify
                    .client_id(&self.credential, call_origin(self.request))
                    .await
            }
            Scheme::SessionBearer | Scheme::Session => self.identify.session(&self.credential).await,
        }
    }

    /// The platform of the client ID, with the orchestrator that acts for it. Source: rules P.1.4.
    async fn pair(&self) -> FlowResult<Caller> {
        let partner = self.identify.orchestrator_key(&self.credential).await?;
        let Some(client) = Scheme::ClientId.read(self.request) else {
            let message = "An orchestrator acts for a platform: send the x-client-id of the platform as well";
            return Err(Refusal::forbidden(message).into());
        };
        let caller = self.identify.client_id(&client, call_origin(self.request)).await?;
        Ok(caller.paired_with(partner.id))
    }

    /// What a lookup found. Guessing is counted: whoever shows too many unknown credentials gets 429 instead of 401.
    fn judge<T>(&self, found: FlowResult<T>) -> Result<T, Problem> {
        found.map_err(|error| {
            let is_unknown =
                matches!(&error, FlowError::Refused(refusal) if refusal.kind == RefusalKind::Unauthenticated);
            let counted = self.meter.filter(|_| is_unknown);
            match counted.map(|meter| meter.admit(Purpose::Unknown, "")) {
                Some(Err(problem)) => problem,
                _ => error.into(),
            }
        })
    }
}

fn identify(request: &Request) -> Result<&Arc<dyn Identify>, Problem> {
    request.data::<Arc<dyn Identify>>().ok_or_else(|| {
        tracing::error!("the routes carry nobody who can identify callers");
        Problem::internal()
    })
}

/// A call that begins a session: any program may make it, but of pages only our own, so that no foreign page signs
/// somebody in whom they do not expect to be.
#[derive(Debug)]
pub struct SigningIn;

impl<'a> FromRequest<'a> for SigningIn {
    async fn from_request(request: &'a Request, _body: &mut RequestBody) -> poem::Result<Self> {
        let is_browser = request.headers().contains_key(header::ORIGIN) || request.header("sec-fetch-site").is_some();
        if is_browser {
            let identify = identify(request)?;
            if !is_own_page(request, identify.as_ref()) {
                let message = "Only pages of this service may sign people in: the Origin header must be listed in \
                               http.session_origins";
                return Err(Problem::new(StatusCode::FORBIDDEN, message).into());
            }
            require_own_page(request, identify.as_ref())?;
        }
        Ok(Self)
    }
}

/// The token of the session that a call shows, whether or not there is such a session.
#[derive(Debug)]
pub struct SessionToken(pub Option<Secret>);

impl<'a> FromRequest<'a> for SessionToken {
    async fn from_request(request: &'a Request, _body: &mut RequestBody) -> poem::Result<Self> {
        let schemes = [Scheme::SessionBearer, Scheme::Session];
        let shown = schemes
            .into_iter()
            .find_map(|scheme| scheme.read(request).map(|token| (scheme, token)));
        if matches!(shown, Some((Scheme::Session, _))) {
            require_own_page(request, identify(request)?.as_ref())?;
        }
        let token = shown.map(|(_, token)| token);
        Ok(Self(
            token
                .filter(|token| token.len() <= CREDENTIAL_LENGTH_MAX)
                .map(Secret::new),
        ))
    }
}

fn missing(accepted: &[Scheme]) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "Unauthorized").with_hint(needs(accepted))
}

/// The refusal of a good credential that opens other operations. Source: rules P.1.4.
fn misplaced(accepted: &[Scheme]) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "This credential does not open this operation").with_hint(needs(accepted))
}

fn needs(accepted: &[Scheme]) -> String {
    let carriers: Vec<&str> = accepted.iter().map(|scheme| scheme.carrier()).collect();
    format!("This operation needs {}", carriers.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{
            caller::Credential,
            ids::{ClientRowId, KeyId, OrchestratorId, PlatformId},
        },
        http::gate::{
            access::{ClientOnly, Creator, KeyOnly, KeyOrClient},
            identify::CallOrigin,
        },
    };
    use async_trait::async_trait;

    struct Sessions;

    impl Policy for Sessions {
        const ANY_OF: &'static [Scheme] = &[Scheme::ApiKey, Scheme::SessionBearer, Scheme::Session];
    }

    struct Echo;

    #[async_trait]
    impl Identify for Echo {
        async fn api_key(&self, key: &str) -> FlowResult<Caller> {
            named(&format!("key {key}"))
        }

        async fn client_id(&self, id: &str, call: CallOrigin<'_>) -> FlowResult<Caller> {
            if id == "cli_unknown" {
                return Err(unauthorized().into());
            }
            let caller = named(&format!("client {id} {:?} {}", call.origin, call.is_same_origin))?;
            Ok(Caller {
                credential: Credential::ClientId {
                    id: ClientRowId(String::new()),
                    client_id: id.to_owned(),
                    origin: None,
                    orchestrator: None,
                },
                ..caller
            })
        }

        async fn session(&self, token: &str) -> FlowResult<Caller> {
            named(&format!("session {token}"))
        }

        async fn orchestrator_key(&self, key: &str) -> FlowResult<OrchestratorCaller> {
            let id = key.strip_prefix("orc_").ok_or_else(unauthorized)?;
            Ok(OrchestratorCaller {
                id: OrchestratorId(id.to_owned()),
                key: KeyId(String::new()),
            })
        }
    }

    fn named(name: &str) -> FlowResult<Caller> {
        Ok(Caller {
            platform: PlatformId(name.to_owned()),
            credential: Credential::ApiKey {
                id: crate::domain::ids::KeyId(String::new()),
            },
        })
    }

    async fn who<P: Policy>(headers: &[(&str, &str)]) -> Result<String, u16> {
        let mut builder = Request::builder();
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        let mut request = builder.finish();
        let identify: Arc<dyn Identify> = Arc::new(Echo);
        request.set_data(identify);
        let auth = Auth::<P>::from_request(&request, &mut RequestBody::default(), ExtractParamOptions::default()).await;
        auth.map(|auth| match auth.orchestrator() {
            Some(orchestrator) => format!("{orchestrator} for {}", auth.platform),
            None => auth.platform.to_string(),
        })
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
        let long = "k".repeat(CREDENTIAL_LENGTH_MAX + 1);
        assert_eq!(who::<KeyOnly>(&[("x-api-key", &long)]).await, Err(401));
    }

    #[tokio::test]
    async fn an_orchestrator_acts_for_the_platform_of_a_client_id() {
        let key = ("x-orchestrator-key", "orc_1");
        let both = [key, ("x-client-id", "cli_1"), ("x-api-key", "k1")];
        assert_eq!(who::<Creator>(&both).await.unwrap(), "1 for client cli_1 None false");
        assert_eq!(who::<Creator>(&[key]).await, Err(403));
        assert_eq!(
            who::<Creator>(&[key, ("x-api-key", "k1")]).await,
            Err(403),
            "not rescued by a key"
        );
        assert_eq!(who::<Creator>(&[key, ("x-client-id", "cli_unknown")]).await, Err(401));
        let stranger = [("x-orchestrator-key", "unknown"), ("x-client-id", "cli_1")];
        assert_eq!(who::<Creator>(&stranger).await, Err(401));
        assert_eq!(
            who::<Creator>(&[("x-client-id", "cli_1")]).await.unwrap(),
            "client cli_1 None false"
        );
        assert_eq!(
            who::<Creator>(&[("cookie", "session_token=t1")]).await.unwrap(),
            "session t1"
        );
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
