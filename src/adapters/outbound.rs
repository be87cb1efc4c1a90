//! Webhooks over HTTP: no redirects, no proxy, guarded addresses, one deadline for everything, a capped answer.

use crate::{
    domain::webhook::{RESPONSE_BYTES_MAX, TRY_TIMEOUT_MS, TryOutcome, UrlPolicy},
    ports::{
        clock::Clock,
        outbound::{Outbound, OutboundPost},
    },
};
use async_trait::async_trait;
use reqwest::{
    Client, RequestBuilder, Response,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use std::{error::Error, net::SocketAddr, sync::Arc, time::Duration};
use tokio::time::{Instant, timeout_at};

/// Name that receivers see.
const USER_AGENT: &str = "payment-request-service";

/// Idle connections that are kept for each receiver; new ones cost five times as much per webhook.
const IDLE_CONNECTIONS_MAX: usize = 16;

/// How long an idle connection is kept; shorter than what usual servers and balancers keep theirs.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// First bytes of an answer that are recorded with the try.
const SNIPPET_BYTES_MAX: usize = 1_024;

/// Said of a name that does not exist and of one that leads where nobody may be led: which of both it is would tell a
/// stranger the names of this network.
const NO_PUBLIC_ADDRESS: &str = "the host name leads to no public address";

/// A name that leads to an address that must not be reached.
#[derive(Debug, thiserror::Error)]
#[error("the host resolves to an address that is not public")]
struct NotAdmitted;

/// Resolves names and refuses a name as soon as one of its addresses is not admitted.
///
/// Connections are opened to the very addresses that were judged here, so a name that changes its mind between the
/// check and the connection gains nothing. A name with one good and one bad address is refused as a whole.
/// Source: rules A.4.
struct GuardedResolver {
    policy: UrlPolicy,
    lookup: Arc<dyn Resolve>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.policy;
        let host = name.as_str().to_owned();
        let found = self.lookup.resolve(name);
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = found.await?.collect();
            if !addresses.is_empty() && addresses.iter().all(|address| policy.admits(address.ip())) {
                Ok(Box::new(addresses.into_iter()) as Addrs)
            } else {
                tracing::debug!(host, "the name of a webhook leads to an address that is not public");
                Err(NotAdmitted.into())
            }
        })
    }
}

/// Resolves names as the machine does.
struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(Box::new(addresses.collect::<Vec<_>>().into_iter()) as Addrs)
        })
    }
}

/// Sends webhooks over HTTP.
pub struct HttpOutbound {
    /// Keeps connections for the posts that follow.
    keeping: Client,
    /// Opens one for each post.
    opening: Client,
    policy: UrlPolicy,
    clock: Arc<dyn Clock>,
}

impl HttpOutbound {
    /// A sender that resolves names as the machine does.
    pub fn new(policy: UrlPolicy, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        Self::with_resolver(policy, clock, Arc::new(SystemResolver))
    }

    /// A sender with another source of addresses; what it answers is guarded all the same.
    pub fn with_resolver(policy: UrlPolicy, clock: Arc<dyn Clock>, lookup: Arc<dyn Resolve>) -> anyhow::Result<Self> {
        let resolver = Arc::new(GuardedResolver { policy, lookup });
        let client = |kept: usize| {
            super::client()?
                .dns_resolver(resolver.clone())
                .redirect(redirect::Policy::none())
                .no_proxy()
                .pool_max_idle_per_host(kept)
                .pool_idle_timeout(IDLE_TIMEOUT)
                .user_agent(USER_AGENT)
                .build()
                .map_err(anyhow::Error::from)
        };
        Ok(Self {
            keeping: client(IDLE_CONNECTIONS_MAX)?,
            opening: client(0)?,
            policy,
            clock,
        })
    }

    fn request(&self, post: OutboundPost) -> Result<RequestBuilder, String> {
        let url = self
            .policy
            .check(&post.url)
            .map_err(|reason| format!("the URL {reason}"))?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &post.headers {
            let name = HeaderName::try_from(name).map_err(|_| format!("the header name {name:?} is not valid"))?;
            let value = HeaderValue::try_from(value).map_err(|_| format!("the value of {name} is not valid"))?;
            headers.append(name, value);
        }
        let client = if post.is_apart { &self.opening } else { &self.keeping };
        Ok(client.post(url).headers(headers).body(post.body))
    }
}

/// What a try has learned so far.
#[derive(Default)]
struct Answer {
    status: Option<u16>,
    error: Option<String>,
    response: Option<String>,
}

impl Answer {
    fn failed(error: impl Into<String>) -> Self {
        Self {
            error: Some(error.into()),
            ..Self::default()
        }
    }
}

fn out_of_time() -> String {
    format!("no complete answer within {TRY_TIMEOUT_MS} ms")
}

/// Says what went wrong without the URL, which may hold a token of the receiver.
fn reason(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if inner.is::<NotAdmitted>() {
            return NO_PUBLIC_ADDRESS.to_owned();
        }
        cause = inner.source();
    }
    if error.is_dns() {
        NO_PUBLIC_ADDRESS
    } else if error.is_connect() {
        "the connection could not be opened"
    } else {
        "the connection broke before the answer was complete"
    }
    .to_owned()
}

/// Reads the answer up to the cap. A receiver that keeps talking has decided already: only its status counts.
async fn read(mut response: Response, deadline: Instant) -> Answer {
    let status = Some(response.status().as_u16());
    let mut snippet = Vec::new();
    let mut read_bytes = 0;
    let error = loop {
        match timeout_at(deadline, response.chunk()).await {
            Err(_) => break Some(out_of_time()),
            Ok(Err(error)) => break Some(reason(&error)),
            Ok(Ok(None)) => break None,
            Ok(Ok(Some(chunk))) => {
                let room = SNIPPET_BYTES_MAX.saturating_sub(snippet.len());
                snippet.extend_from_slice(&chunk[..chunk.len().min(room)]);
                read_bytes += chunk.len();
                if read_bytes >= RESPONSE_BYTES_MAX {
                    break None;
                }
            }
        }
    };
    Answer {
        status,
        error,
        // PostgreSQL holds no NUL in texts.
        response: Some(String::from_utf8_lossy(&snippet).replace('\0', "\u{fffd}")),
    }
}

#[async_trait]
impl Outbound for HttpOutbound {
    async fn post(&self, post: OutboundPost) -> TryOutcome {
        let started_at = self.clock.now();
        let deadline = Instant::now() + Duration::from_millis(TRY_TIMEOUT_MS);
        let answer = match self.request(post) {
            Err(error) => Answer::failed(error),
            Ok(request) => match timeout_at(deadline, request.send()).await {
                Err(_) => Answer::failed(out_of_time()),
                Ok(Err(error)) => Answer::failed(reason(&error)),
                Ok(Ok(response)) => read(response, deadline).await,
            },
        };
        TryOutcome {
            status: answer.status,
            error: answer.error,
            response: answer.response,
            started_at,
            ended_at: self.clock.now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::clock::SystemClock;
    use std::net::Ipv4Addr;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };
    use wiremock::{
        Mock, MockServer, ResponseTemplate,
        matchers::{body_string, header, method},
    };

    const LOOSE: UrlPolicy = UrlPolicy { allow_loopback: true };

    fn post_to(url: &str) -> OutboundPost {
        OutboundPost {
            url: url.to_owned(),
            headers: vec![("x-service-delivery".to_owned(), "01J".to_owned())],
            body: "{\"event\":\"payment.confirmed\"}".to_owned(),
            is_apart: false,
        }
    }

    async fn try_once(url: &str) -> TryOutcome {
        let outbound = HttpOutbound::new(LOOSE, Arc::new(SystemClock)).unwrap();
        outbound.post(post_to(url)).await
    }

    /// A receiver that reads the head of a request and then does what it is told.
    async fn receiver<F: Future<Output = ()> + Send + 'static>(
        then: impl FnOnce(TcpStream) -> F + Send + 'static,
    ) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 4_096];
            let _ = stream.read(&mut head).await.unwrap();
            then(stream).await;
        });
        url
    }

    #[tokio::test]
    async fn the_body_arrives_byte_for_byte_with_its_headers() {
        let server = MockServer::start().await;
        Mock::given(method("POST"))
            .and(header("content-type", "application/json"))
            .and(header("user-agent", USER_AGENT))
            .and(header("x-service-delivery", "01J"))
            .and(body_string("{\"event\":\"payment.confirmed\"}"))
            .respond_with(ResponseTemplate::new(200).set_body_string("taken\0"))
            .expect(1)
            .mount(&server)
            .await;
        let outcome = try_once(&server.uri()).await;
        assert!(outcome.is_success());
        assert_eq!(outcome.response.as_deref(), Some("taken\u{fffd}"));
        assert!(outcome.started_at <= outcome.ended_at);
    }

    #[tokio::test]
    async fn redirects_are_answers_and_not_followed() {
        let server = MockServer::start().await;
        Mock::given(method("POST"))
            .respond_with(ResponseTemplate::new(302).insert_header("location", server.uri()))
            .expect(1)
            .mount(&server)
            .await;
        let outcome = try_once(&server.uri()).await;
        assert_eq!((outcome.status, outcome.is_success()), (Some(302), false));
    }

    #[tokio::test]
    async fn a_body_that_never_ends_fails_at_the_deadline() {
        let url = receiver(|mut stream| async move {
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n")
                .await;
            while stream.write_all(b".").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
        .await;
        let started = Instant::now();
        let outcome = try_once(&url).await;
        let elapsed_ms = started.elapsed().as_millis();
        assert!((5_000..5_200).contains(&elapsed_ms), "{elapsed_ms} ms");
        assert_eq!(outcome.status, Some(200));
        assert!(!outcome.is_success());
    }

    #[tokio::test]
    async fn a_body_beyond_the_cap_is_not_read_and_the_status_counts() {
        let url = receiver(|mut stream| async move {
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n")
                .await;
            while stream.write_all(&[b'x'; 8_192]).await.is_ok() {}
        })
        .await;
        let outcome = try_once(&url).await;
        assert!(outcome.is_success(), "{:?}", outcome.error);
        assert_eq!(outcome.response.map(|text| text.len()), Some(SNIPPET_BYTES_MAX));
    }

    #[tokio::test]
    async fn an_answer_that_breaks_off_is_a_failure() {
        let url = receiver(|mut stream| async move {
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
                .await;
        })
        .await;
        let outcome = try_once(&url).await;
        assert_eq!((outcome.status, outcome.is_success()), (Some(200), false));
    }

    #[tokio::test]
    async fn a_closed_port_and_a_bad_header_are_outcomes_and_name_no_url() {
        let outcome = try_once("http://127.0.0.1:1/secret-path").await;
        assert_eq!(outcome.status, None);
        assert!(!outcome.error.unwrap().contains("secret-path"));
        let outbound = HttpOutbound::new(LOOSE, Arc::new(SystemClock)).unwrap();
        let mut post = post_to("http://127.0.0.1:1/");
        post.headers = vec![("x-note".to_owned(), "two\r\nlines".to_owned())];
        assert!(outbound.post(post).await.error.unwrap().contains("x-note"));
    }

    /// Answers every name with the same addresses.
    struct Fixed(Vec<SocketAddr>);

    impl Resolve for Fixed {
        fn resolve(&self, _: Name) -> Resolving {
            let addresses = self.0.clone();
            Box::pin(async move { Ok(Box::new(addresses.into_iter()) as Addrs) })
        }
    }

    #[tokio::test]
    async fn a_name_with_one_private_address_is_refused_before_anything_connects() {
        let strict = UrlPolicy { allow_loopback: false };
        for hidden in ["127.0.0.1:0", "10.0.0.1:0", "[::ffff:169.254.169.254]:0"] {
            let addresses = ["93.184.215.14:0", hidden].map(|text| text.parse().unwrap()).to_vec();
            let outbound =
                HttpOutbound::with_resolver(strict, Arc::new(SystemClock), Arc::new(Fixed(addresses))).unwrap();
            let outcome = outbound.post(post_to("https://hooks.example.com/")).await;
            assert_eq!(outcome.error.as_deref(), Some(NO_PUBLIC_ADDRESS), "{hidden}");
        }
    }

    /// Knows no name.
    struct Unknown;

    impl Resolve for Unknown {
        fn resolve(&self, _: Name) -> Resolving {
            Box::pin(async { Err(std::io::Error::other("failed to lookup address information").into()) })
        }
    }

    #[tokio::test]
    async fn a_name_of_the_inner_network_looks_like_one_that_does_not_exist() {
        let strict = UrlPolicy { allow_loopback: false };
        let inner: Arc<dyn Resolve> = Arc::new(Fixed(vec!["10.0.0.1:0".parse().unwrap()]));
        let mut errors = Vec::new();
        for lookup in [inner, Arc::new(Fixed(Vec::new())), Arc::new(Unknown)] {
            let outbound = HttpOutbound::with_resolver(strict, Arc::new(SystemClock), lookup).unwrap();
            errors.push(outbound.post(post_to("https://vault.corp.example/")).await.error);
        }
        assert_eq!(errors[0].as_deref(), Some(NO_PUBLIC_ADDRESS));
        assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
    }

    #[tokio::test]
    async fn literal_private_addresses_are_refused() {
        let strict = UrlPolicy { allow_loopback: false };
        let outbound = HttpOutbound::new(strict, Arc::new(SystemClock)).unwrap();
        for url in [
            "https://127.0.0.1/",
            "https://[::1]/",
            "https://2130706433/",
            "http://localhost/",
        ] {
            let outcome = outbound.post(post_to(url)).await;
            assert!(outcome.error.unwrap().starts_with("the URL must"), "{url}");
        }
    }
}
