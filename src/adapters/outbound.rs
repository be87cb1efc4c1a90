//! Webhooks over HTTP. The client follows no redirects, uses no proxy and checks addresses. One timeout covers the
//! whole exchange, and the size of a response is limited.

use super::{
    host_names::{HostNames, system_name_servers},
    read_limit::{LimitedConnector, ReadAllowance},
};
use crate::{
    domain::webhook::{RESPONSE_BYTES_MAX, TRY_TIMEOUT_MS, TryOutcome, UrlPolicy},
    ports::{
        clock::Clock,
        outbound::{Outbound, OutboundPost},
    },
};
use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, Response, Uri,
    body::Incoming,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT},
};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{
        Client,
        connect::{HttpConnector, dns::Name},
    },
    rt::{TokioExecutor, TokioTimer},
};
use reqwest::dns::{Addrs, Resolve};
use std::{
    error::Error,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Instant, timeout_at};
use tower::Service;

/// User agent.
const SENDER_NAME: &str = "payment-request-service";

/// Maximum number of idle connections per receiver. A webhook over a new connection costs five times as much as over an
/// idle one.
const IDLE_CONNECTIONS_MAX: usize = 16;

/// How long an idle connection is kept open. This is shorter than usual timeouts of servers and load balancers.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How often an idle connection is probed, and after how many probes without a response it is closed.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);
const PROBES_MAX: u32 = 3;

/// Maximum size of the read buffer of a connection. A response head that does not fit is an error. The buffer is
/// smaller than the [`super::read_limit`] allowance of the connection.
const BUFFER_BYTES_MAX: usize = 32 * 1024;

/// Number of response bytes recorded with the attempt.
const SNIPPET_BYTES_MAX: usize = 1_024;

/// Error for a name that does not exist and for a name with a forbidden address. Different errors would reveal names of
/// the internal network.
const NO_PUBLIC_ADDRESS: &str = "the host name must resolve, and only to public addresses";

/// The name has no address, or a forbidden one.
#[derive(Debug, thiserror::Error)]
#[error("the host name has no address, or an address that is not public")]
struct NotAdmitted;

/// Resolves names, and rejects a name if one of its addresses is not allowed.
///
/// Connections are opened to exactly the addresses that were checked here, so DNS rebinding has no effect. A name with
/// both allowed and forbidden addresses is rejected.
/// Source: rules A.4.
#[derive(Clone)]
struct GuardedResolver {
    policy: UrlPolicy,
    lookup: Arc<dyn Resolve>,
}

impl GuardedResolver {
    async fn resolve(self, name: Name) -> Result<Addrs, NotAdmitted> {
        let found = async { self.lookup.resolve(name.as_str().parse()?).await };
        let addresses: Vec<SocketAddr> = match found.await {
            Ok(addresses) => addresses.collect(),
            Err(error) => {
                tracing::debug!(host = name.as_str(), error, "the host name of a webhook has no address");
                return Err(NotAdmitted);
            }
        };
        if !addresses.is_empty() && addresses.iter().all(|address| self.policy.admits(address.ip())) {
            Ok(Box::new(addresses.into_iter()))
        } else {
            let host = name.as_str();
            tracing::debug!(host, "the host name of a webhook resolves to a non-public address");
            Err(NotAdmitted)
        }
    }
}

impl Service<Name> for GuardedResolver {
    type Response = Addrs;
    type Error = NotAdmitted;
    type Future = Pin<Box<dyn Future<Output = Result<Addrs, NotAdmitted>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NotAdmitted>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        Box::pin(self.clone().resolve(name))
    }
}

type Connector = HttpsConnector<LimitedConnector<HttpConnector<GuardedResolver>>>;

/// Sends webhooks over HTTP.
pub struct HttpOutbound {
    /// Client with a connection pool.
    keeping: Client<Connector, Full<Bytes>>,
    /// Client that opens a new connection for each post.
    opening: Client<Connector, Full<Bytes>>,
    policy: UrlPolicy,
    clock: Arc<dyn Clock>,
}

impl HttpOutbound {
    /// A sender that queries the name servers of the machine.
    pub fn new(policy: UrlPolicy, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        Self::with_resolver(policy, clock, Arc::new(HostNames(system_name_servers)))
    }

    /// A sender with another resolver; its addresses are still checked.
    pub fn with_resolver(policy: UrlPolicy, clock: Arc<dyn Clock>, lookup: Arc<dyn Resolve>) -> anyhow::Result<Self> {
        let mut http = HttpConnector::new_with_resolver(GuardedResolver { policy, lookup });
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_keepalive(Some(PROBE_INTERVAL));
        http.set_keepalive_interval(Some(PROBE_INTERVAL));
        http.set_keepalive_retries(Some(PROBES_MAX));
        let connector = HttpsConnector::from((LimitedConnector(http), super::tls()?));
        let client = |kept: usize| {
            Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE_TIMEOUT)
                .pool_max_idle_per_host(kept)
                .http1_max_buf_size(BUFFER_BYTES_MAX)
                .build(connector.clone())
        };
        Ok(Self {
            keeping: client(IDLE_CONNECTIONS_MAX),
            opening: client(0),
            policy,
            clock,
        })
    }

    fn request(&self, post: OutboundPost) -> Result<Request<Full<Bytes>>, String> {
        let url = self
            .policy
            .check(&post.url)
            .map_err(|reason| format!("the URL {reason}"))?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(SENDER_NAME));
        for (name, value) in &post.headers {
            let name = HeaderName::try_from(name).map_err(|_| format!("the header name {name:?} is not valid"))?;
            let value = HeaderValue::try_from(value).map_err(|_| format!("the value of {name} is not valid"))?;
            headers.append(name, value);
        }
        let mut request = Request::new(Full::from(post.body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::try_from(url.as_str()).map_err(|_| "the URL is not valid".to_owned())?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// Sends a request and reads its response until the deadline.
    async fn send(&self, post: OutboundPost, deadline: Instant) -> AttemptResponse {
        let client = if post.is_apart { &self.opening } else { &self.keeping };
        let request = match self.request(post) {
            Ok(request) => request,
            Err(error) => return AttemptResponse::failed(error),
        };
        match timeout_at(deadline, client.request(request)).await {
            Err(_) => AttemptResponse::failed(out_of_time()),
            Ok(Err(error)) => AttemptResponse::failed(reason(&error, error.is_connect())),
            Ok(Ok(response)) => read(response, deadline).await,
        }
    }
}

/// Partial result of an attempt.
#[derive(Default)]
struct AttemptResponse {
    status: Option<u16>,
    error: Option<String>,
    response: Option<String>,
}

impl AttemptResponse {
    fn failed(error: impl Into<String>) -> Self {
        Self {
            error: Some(error.into()),
            ..Self::default()
        }
    }
}

fn out_of_time() -> String {
    format!("no complete response within {TRY_TIMEOUT_MS} ms")
}

/// Describes an error without the URL, which may contain a token of the receiver.
fn reason(error: &dyn Error, is_connect: bool) -> String {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if inner.is::<NotAdmitted>() {
            return NO_PUBLIC_ADDRESS.to_owned();
        }
        cause = inner.source();
    }
    if is_connect {
        "the connection could not be opened"
    } else {
        "the connection broke before the response was complete"
    }
    .to_owned()
}

/// Reads the response up to the maximum size. Of a longer response, only the status is used.
async fn read(response: Response<Incoming>, deadline: Instant) -> AttemptResponse {
    let status = Some(response.status().as_u16());
    let allowance = response.extensions().get::<ReadAllowance>().cloned();
    let mut body = response.into_body();
    let mut snippet = Vec::new();
    let mut read_bytes = 0;
    let error = loop {
        if let Some(allowance) = &allowance {
            allowance.restore();
        }
        match timeout_at(deadline, body.frame()).await {
            Err(_) => break Some(out_of_time()),
            Ok(Some(Err(error))) => break Some(reason(&error, false)),
            Ok(None) => break None,
            Ok(Some(Ok(frame))) => {
                let chunk = frame.into_data().unwrap_or_default();
                let room = SNIPPET_BYTES_MAX.saturating_sub(snippet.len());
                snippet.extend_from_slice(&chunk[..chunk.len().min(room)]);
                read_bytes += chunk.len();
                if read_bytes >= RESPONSE_BYTES_MAX {
                    break None;
                }
            }
        }
    };
    AttemptResponse {
        status,
        error,
        // PostgreSQL does not allow NUL in text.
        response: Some(String::from_utf8_lossy(&snippet).replace('\0', "\u{fffd}")),
    }
}

#[async_trait]
impl Outbound for HttpOutbound {
    async fn post(&self, post: OutboundPost) -> TryOutcome {
        let started_at = self.clock.now();
        let deadline = Instant::now() + Duration::from_millis(TRY_TIMEOUT_MS);
        let answer = self.send(post, deadline).await;
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
    use hickory_resolver::{
        config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts},
        proto::{
            op::Message,
            rr::{RData, Record, RecordType},
        },
    };
    use reqwest::dns::{self, Resolving};
    use std::{
        cell::Cell,
        io::{Read, Write},
        net::Ipv4Addr,
    };
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream, UdpSocket},
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

    /// A receiver that reads the head of a request and then acts as configured.
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
    async fn body_and_headers_arrive_unchanged() {
        let server = MockServer::start().await;
        Mock::given(method("POST"))
            .and(header("content-type", "application/json"))
            .and(header("user-agent", SENDER_NAME))
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
    async fn redirects_are_not_followed() {
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

    /// A receiver that sends interim responses at full speed. Its thread ends when the sender closes the connection.
    fn flooding_receiver() -> (String, std::thread::JoinHandle<usize>) {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let receiver = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4_096]).unwrap();
            let flood = b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(2_000);
            let mut sent_bytes = 0;
            while let Ok(bytes) = stream.write(&flood) {
                sent_bytes += bytes;
            }
            sent_bytes
        });
        (url, receiver)
    }

    /// Waits for short timers in an endless loop, and records the largest delay of a timer.
    async fn measure_timers(latest: &Cell<Duration>) {
        loop {
            let due = Instant::now() + Duration::from_millis(10);
            tokio::time::sleep_until(due).await;
            latest.set(latest.get().max(due.elapsed()));
        }
    }

    #[tokio::test]
    async fn endless_interim_responses_end_the_attempt_and_delay_no_timer() {
        let (url, receiver) = flooding_receiver();
        let latest = Cell::new(Duration::ZERO);
        let started = Instant::now();
        let outcome = tokio::select! {
            outcome = try_once(&url) => outcome,
            () = measure_timers(&latest) => unreachable!(),
        };
        let (elapsed, latest) = (started.elapsed(), latest.get());
        assert_eq!((outcome.status, outcome.is_success()), (None, false));
        assert!(
            elapsed < Duration::from_millis(TRY_TIMEOUT_MS + 200),
            "ended after {elapsed:?}"
        );
        assert!(latest < Duration::from_millis(200), "a timer was {latest:?} late");
        let sent_bytes = receiver.join().unwrap();
        assert!(sent_bytes > 0, "the receiver sent nothing");
    }

    #[tokio::test]
    async fn a_few_interim_responses_are_skipped() {
        let url = receiver(|mut stream| async move {
            let interim = b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n".repeat(100);
            let _ = stream.write_all(&interim).await;
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                .await;
        })
        .await;
        let outcome = try_once(&url).await;
        assert!(outcome.is_success(), "{:?}", outcome.error);
        assert_eq!(outcome.response.as_deref(), Some("ok"));
    }

    #[tokio::test]
    async fn a_body_in_chunks_of_one_byte_arrives() {
        let url = receiver(|mut stream| async move {
            let chunks = b"1\r\nx\r\n".repeat(RESPONSE_BYTES_MAX - 1);
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
                .await;
            let _ = stream.write_all(&chunks).await;
            let _ = stream.write_all(b"0\r\n\r\n").await;
        })
        .await;
        let outcome = try_once(&url).await;
        assert!(outcome.is_success(), "{:?}", outcome.error);
    }

    #[tokio::test]
    async fn a_kept_connection_carries_any_number_of_responses() {
        let server = MockServer::start().await;
        Mock::given(method("POST"))
            .respond_with(ResponseTemplate::new(200).set_body_string("x".repeat(15_000)))
            .expect(20)
            .mount(&server)
            .await;
        let outbound = HttpOutbound::new(LOOSE, Arc::new(SystemClock)).unwrap();
        for _ in 0..20 {
            let outcome = outbound.post(post_to(&server.uri())).await;
            assert!(outcome.is_success(), "{:?}", outcome.error);
        }
    }

    #[tokio::test]
    async fn a_truncated_response_is_a_failure() {
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
    async fn connection_and_header_errors_are_outcomes_without_the_url() {
        let outcome = try_once("http://127.0.0.1:1/secret-path").await;
        assert_eq!(outcome.status, None);
        assert!(!outcome.error.unwrap().contains("secret-path"));
        let outbound = HttpOutbound::new(LOOSE, Arc::new(SystemClock)).unwrap();
        let mut post = post_to("http://127.0.0.1:1/");
        post.headers = vec![("x-note".to_owned(), "two\r\nlines".to_owned())];
        assert!(outbound.post(post).await.error.unwrap().contains("x-note"));
    }

    /// Resolves every name to the same addresses.
    struct Fixed(Vec<SocketAddr>);

    impl Resolve for Fixed {
        fn resolve(&self, _: dns::Name) -> Resolving {
            let addresses = self.0.clone();
            Box::pin(async move { Ok(Box::new(addresses.into_iter()) as Addrs) })
        }
    }

    #[tokio::test]
    async fn a_name_with_one_private_address_is_rejected_before_connecting() {
        let strict = UrlPolicy { allow_loopback: false };
        for hidden in ["127.0.0.1:0", "10.0.0.1:0", "[::ffff:169.254.169.254]:0"] {
            let addresses = ["93.184.215.14:0", hidden].map(|text| text.parse().unwrap()).to_vec();
            let outbound =
                HttpOutbound::with_resolver(strict, Arc::new(SystemClock), Arc::new(Fixed(addresses))).unwrap();
            let outcome = outbound.post(post_to("https://hooks.example.com/")).await;
            assert_eq!(outcome.error.as_deref(), Some(NO_PUBLIC_ADDRESS), "{hidden}");
        }
    }

    /// Resolves no name.
    struct Unknown;

    impl Resolve for Unknown {
        fn resolve(&self, _: dns::Name) -> Resolving {
            Box::pin(async { Err(std::io::Error::other("failed to lookup address information").into()) })
        }
    }

    #[tokio::test]
    async fn internal_names_are_indistinguishable_from_unknown_ones() {
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

    /// A sender that queries one name server on this machine.
    fn outbound_with_name_server(socket: &UdpSocket) -> HttpOutbound {
        let mut connection = ConnectionConfig::udp();
        connection.port = socket.local_addr().unwrap().port();
        let server = NameServerConfig::new(Ipv4Addr::LOCALHOST.into(), true, vec![connection]);
        let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
        let lookup = HostNames(move || Ok((config.clone(), ResolverOpts::default())));
        HttpOutbound::with_resolver(LOOSE, Arc::new(SystemClock), Arc::new(lookup)).unwrap()
    }

    /// Returns the next query that a name server receives, and who sent it.
    async fn query(socket: &UdpSocket) -> (Message, SocketAddr) {
        let mut bytes = [0; 512];
        let (length, sender) = socket.recv_from(&mut bytes).await.unwrap();
        (Message::from_vec(&bytes[..length]).unwrap(), sender)
    }

    #[test]
    fn an_unresponsive_name_server_holds_no_thread_beyond_the_attempt() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
            let tasks_before = tasks();
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let outbound = outbound_with_name_server(&socket);
            let started = Instant::now();
            let mut attempt = outbound.post(post_to("https://unresponsive.example/"));
            tokio::select! {
                outcome = &mut attempt => panic!("ended before its lookup: {:?}", outcome.error),
                _ = query(&socket) => {}
            }
            // The one thread of the pool is free while the lookup waits.
            tokio::select! {
                outcome = &mut attempt => panic!("no thread was free before its end: {:?}", outcome.error),
                done = tokio::task::spawn_blocking(|| ()) => done.unwrap(),
            }
            let outcome = attempt.await;
            let elapsed_ms = started.elapsed().as_millis();
            assert!((5_000..5_200).contains(&elapsed_ms), "{elapsed_ms} ms");
            assert_eq!(outcome.error, Some(out_of_time()));
            let ended = async {
                while tasks() > tasks_before {
                    tokio::task::yield_now().await;
                }
            };
            assert!(timeout_at(Instant::now() + Duration::from_secs(1), ended).await.is_ok());
        });
    }

    #[tokio::test]
    async fn lookups_without_a_response_leave_other_names_unaffected() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let outbound = outbound_with_name_server(&socket);
        // There are two names; the name server responds to queries of only one of them.
        let serve = async {
            loop {
                let (query, sender) = query(&socket).await;
                let name = query.queries[0].name().clone();
                if name.to_string().starts_with("responsive") {
                    let mut response = Message::response(query.metadata.id, query.metadata.op_code);
                    response.add_query(query.queries[0].clone());
                    if query.queries[0].query_type() == RecordType::A {
                        response.add_answer(Record::from_rdata(name, 60, RData::A(Ipv4Addr::LOCALHOST.into())));
                    }
                    socket.send_to(&response.to_vec().unwrap(), sender).await.unwrap();
                }
            }
        };
        let unresponsive = (0..100).map(|n| outbound.post(post_to(&format!("https://unresponsive-{n}.example/"))));
        let url = format!("https://responsive.example:{port}/");
        let good = async {
            let (outcome, accepted) = tokio::join!(outbound.post(post_to(&url)), async {
                drop(listener.accept().await.unwrap());
            });
            (outcome, accepted)
        };
        let outcome = tokio::select! {
            (outcome, ()) = good => outcome,
            () = serve => unreachable!(),
            _ = futures_util::future::join_all(unresponsive) => panic!("the other name waited for these"),
        };
        // The listener does not speak TLS.
        assert_eq!(outcome.error.as_deref(), Some("the connection could not be opened"));
    }

    #[tokio::test]
    async fn literal_private_addresses_are_rejected() {
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
