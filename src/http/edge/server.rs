//! The server loop: HTTP/1.1 on plain sockets, with the timeouts and limits that the framework's own loop lacks.
//!
//! HTTP/2 and TLS belong to the proxy in front. A loop that detects the protocol from the first bytes would wait for
//! them without a timeout. Source: rules C.4.

use super::places::{ConnectionSlot, ConnectionSlots};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use ipnet::IpNet;
use poem::{
    Addr, Endpoint, EndpointExt, IntoEndpoint, Response,
    endpoint::{DynEndpoint, ToDynEndpoint},
    http::{HeaderValue, Version, header, uri::Scheme},
    web::{LocalAddr, RemoteAddr},
};
use socket2::SockRef;
use std::{
    convert::Infallible,
    io,
    net::{Ipv6Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_io_timeout::TimeoutStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Time after the stop during which the service still reads calls that clients had already sent: on connections in the
/// kernel queue, and the next call on an idle connection.
const LAST_CALLS: Duration = Duration::from_millis(250);

/// Pause after a failed accept, which usually means that the process is out of file descriptors.
const ACCEPT_PAUSE_MS: u64 = 50;

/// Maximum number of unsent response bytes in a socket. By default the kernel would buffer megabytes and report free
/// space only after sending much of them, so a slow client would look like one that reads nothing.
const UNSENT_BYTES: u32 = 64 * 1024;

/// Time without acknowledgement after which a client counts as gone. By default the kernel would wait for a quarter of
/// an hour, during which streams of a vanished client occupy their slots.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

/// Maximum size of request headers.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Connection settings of the server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Timeout for receiving request headers; an idle connection is also closed after it.
    pub head_deadline_ms: u64,
    /// Maximum number of open connections; further ones wait in the kernel queue.
    pub connections_max: usize,
    /// Maximum number of open connections from one address; further ones are closed immediately.
    pub connections_per_address_max: usize,
    /// Networks of trusted proxies; their connections count only towards the total.
    pub proxies: Vec<IpNet>,
    /// Time without progress after which the connection of a client that does not read its response is closed.
    pub write_deadline_ms: u64,
    /// Time for calls in flight to finish after the stop.
    pub drain_deadline_ms: u64,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            head_deadline_ms: 10_000,
            connections_max: 4_096,
            connections_per_address_max: 256,
            proxies: Vec::new(),
            write_deadline_ms: 20_000,
            drain_deadline_ms: 10_000,
        }
    }
}

/// Cancelled when the server stops; every request carries it, so that endless responses can end.
#[derive(Debug, Clone)]
pub struct ServerStopping(pub CancellationToken);

/// The connection of a call, which the response can close; every request carries it.
#[derive(Debug, Clone)]
pub struct HangUp {
    /// Cancelled when the connection should be closed, and when it is closed.
    connection: CancellationToken,
    /// Number of calls started on the connection.
    calls: Arc<AtomicU64>,
    /// Number of this call.
    call: u64,
}

impl HangUp {
    /// Closes the connection and discards unsent data, unless a later call has started on it.
    pub fn cut(&self) {
        if !self.is_over() {
            self.connection.cancel();
        }
    }

    /// Whether the connection is closed, or serves a later call.
    pub fn is_over(&self) -> bool {
        self.connection.is_cancelled() || self.calls.load(Ordering::Acquire) != self.call
    }
}

/// Marks a call without a valid HTTP/1.1 host; the request carries it, and the wrapper of the routes rejects it.
#[derive(Debug, Clone, Copy)]
pub struct InvalidHostMark;

/// Whether a call names one host, with or without a port; with HTTP/1.0 the host is optional.
fn names_one_host<B>(request: &hyper::Request<B>) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => request.version() < Version::HTTP_11,
        (Some(host), None) => host.to_str().is_ok_and(is_host),
        (Some(_), Some(_)) => false,
    }
}

/// Whether a string is a host name or an address, with or without a port.
fn is_host(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) if address.parse::<Ipv6Addr>().is_ok() => ("address", port),
        Some(_) => return false,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_name = |letter: u8| letter.is_ascii_alphanumeric() || b"-._~%".contains(&letter);
    let is_port = |port: &str| {
        let is_number = port.parse::<u16>().is_ok() && port.bytes().all(|digit| digit.is_ascii_digit());
        port.is_empty() || is_number
    };
    !host.is_empty() && host.bytes().all(is_name) && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

/// The two steps of a stop. The pause between the steps lets load balancers react; the service still accepts calls
/// during this pause.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// Cancelled first: the service reports not ready, and each connection is closed after its next response.
    pub leaving: CancellationToken,
    /// Cancelled last: no connection is accepted any longer, and calls already sent are finished.
    pub stop: CancellationToken,
}

impl Shutdown {
    fn is_begun(&self) -> bool {
        self.leaving.is_cancelled() || self.stop.is_cancelled()
    }
}

/// Serves until the shutdown stops it. Then it accepts no connections, lets calls in flight finish and returns.
///
/// Errors: the address of a listener cannot be read.
pub async fn serve<E>(
    listeners: Vec<TcpListener>,
    endpoint: E,
    options: ServerOptions,
    shutdown: Shutdown,
) -> io::Result<()>
where
    E: IntoEndpoint,
    E::Endpoint: 'static,
{
    let drain_deadline = Duration::from_millis(options.drain_deadline_ms);
    let places = ConnectionSlots::new(options.connections_per_address_max, options.proxies.clone());
    let server = Arc::new(Server {
        endpoint: Box::new(ToDynEndpoint(endpoint.into_endpoint().map_to_response())),
        connections: Arc::new(Semaphore::new(options.connections_max)),
        places: Arc::new(places),
        options,
        shutdown,
        abort: CancellationToken::new(),
        tasks: TaskTracker::new(),
    });
    for listener in listeners {
        let address = listener.local_addr()?;
        tracing::info!(%address, "listening");
        server.tasks.spawn(server.clone().accept(listener, address));
    }
    server.shutdown.stop.cancelled().await;
    server.tasks.close();
    if timeout(drain_deadline, server.tasks.wait()).await.is_err() {
        tracing::warn!(
            connections = server.tasks.len(),
            "calls in flight did not finish in time; their connections are closed"
        );
        server.abort.cancel();
        server.tasks.wait().await;
    }
    Ok(())
}

struct Server {
    endpoint: Box<dyn DynEndpoint<Output = Response>>,
    options: ServerOptions,
    connections: Arc<Semaphore>,
    places: Arc<ConnectionSlots>,
    shutdown: Shutdown,
    abort: CancellationToken,
    tasks: TaskTracker,
}

impl Server {
    async fn accept(self: Arc<Self>, listener: TcpListener, local: SocketAddr) {
        let stop = &self.shutdown.stop;
        while let Some(next) = stop.run_until_cancelled(self.next(&listener)).await {
            self.clone().admit(next, local).await;
        }
        // The kernel accepted these connections before clients could know of the stop.
        let last_calls = async {
            loop {
                let next = self.next(&listener).await;
                self.clone().admit(next, local).await;
            }
        };
        tokio::select! {
            () = last_calls => {}
            () = sleep(LAST_CALLS) => {}
            () = self.abort.cancelled() => {}
        }
    }

    async fn admit(self: Arc<Self>, next: AcceptedConnection, local: SocketAddr) {
        let (permit, accepted) = next;
        match accepted {
            Ok((stream, remote)) => {
                if let Some(place) = self.places.take(remote.ip()) {
                    let connection = self.clone().connection(stream, local, remote, permit, place);
                    self.tasks.spawn(connection);
                } else {
                    metrics::counter!("prs_http_connections_refused_total").increment(1);
                    tracing::debug!(%remote, "a connection was closed: its address has too many connections");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await;
            }
        }
    }

    /// Waits for a free connection slot before it accepts, so that every accepted connection can be served.
    async fn next(&self, listener: &TcpListener) -> AcceptedConnection {
        // The semaphore is never closed, so acquiring a permit cannot fail.
        let permit = self.connections.clone().acquire_owned().await.ok();
        (permit, listener.accept().await)
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        local: SocketAddr,
        remote: SocketAddr,
        permit: Option<OwnedSemaphorePermit>,
        place: ConnectionSlot,
    ) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        if let Err(error) = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES) {
            tracing::debug!(%error, "TCP_NOTSENT_LOWAT could not be set");
        }
        if let Err(error) = SockRef::from(&stream).set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX)) {
            tracing::debug!(%error, "TCP_USER_TIMEOUT could not be set");
        }
        let (hang_up, calls) = (CancellationToken::new(), Arc::new(AtomicU64::new(0)));
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(Duration::from_millis(self.options.write_deadline_ms)));
        let service = service_fn(|mut request: hyper::Request<Incoming>| {
            let server = self.clone();
            request
                .extensions_mut()
                .insert(ServerStopping(self.shutdown.stop.clone()));
            request.extensions_mut().insert(HangUp {
                connection: hang_up.clone(),
                calls: calls.clone(),
                call: calls.fetch_add(1, Ordering::AcqRel) + 1,
            });
            if !names_one_host(&request) {
                request.extensions_mut().insert(InvalidHostMark);
            }
            async move {
                let local = LocalAddr(Addr::socket(local));
                let remote = RemoteAddr(Addr::socket(remote));
                let request = (request, local, remote, Scheme::HTTP).into();
                let mut response = server.endpoint.get_response(request).await;
                if server.shutdown.is_begun() {
                    let headers = response.headers_mut();
                    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<hyper::Response<_>, Infallible>(response.into())
            }
        });
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(self.options.head_deadline_ms))
            .max_buf_size(HEAD_BYTES_MAX);
        let mut connection = builder.serve_connection(TokioIo::new(Box::pin(stream)), service);
        let last_calls = async {
            self.shutdown.stop.cancelled().await;
            sleep(LAST_CALLS).await;
        };
        let ended = tokio::select! {
            // The cancellation is polled first, so that nothing is written to a connection that is to be closed.
            biased;
            () = hang_up.cancelled() => Ok(()),
            ended = &mut connection => ended,
            () = last_calls => {
                std::pin::Pin::new(&mut connection).graceful_shutdown();
                tokio::select! {
                    biased;
                    () = hang_up.cancelled() => Ok(()),
                    ended = &mut connection => ended,
                    () = self.abort.cancelled() => Ok(()),
                }
            }
            () = self.abort.cancelled() => Ok(()),
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended early");
        }
        if hang_up.is_cancelled() {
            // The kernel would continue to send its buffer; with a linger time of zero it discards the buffer.
            let socket = connection.into_parts().io.into_inner();
            if let Err(error) = socket.get_ref().set_zero_linger() {
                tracing::debug!(%error, "unsent data of a connection could not be discarded");
            }
        }
        hang_up.cancel();
        drop(permit);
        drop(place);
    }
}

/// A connection and its slot.
type AcceptedConnection = (Option<OwnedSemaphorePermit>, io::Result<(TcpStream, SocketAddr)>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_an_optional_port() {
        for good in [
            "api.example.com",
            "localhost:8080",
            "127.0.0.1",
            "[::1]:8080",
            "[2001:db8::1]",
            "pay_api",
            // RFC 3986 allows a port without digits.
            "localhost:",
        ] {
            assert!(is_host(good), "{good}");
        }
        for bad in [
            "",
            ":80",
            "a b",
            "a@b",
            "a/b",
            "a, b",
            "a,b",
            "a:b",
            "a:+1",
            "a:65536",
            "a:1:2",
            "::1",
            "[::1",
            "[a]",
            "[::1]8080",
        ] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
