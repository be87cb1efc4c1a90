//! The server loop: HTTP/1.1 on plain sockets, with the deadlines and caps that the framework's own loop lacks.
//!
//! HTTP/2 and TLS belong to the proxy in front. A loop that guesses the protocol from the first bytes would wait for
//! them without a deadline. Source: rules C.4.

use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use poem::{
    Addr, Endpoint, EndpointExt, IntoEndpoint, Response,
    endpoint::{DynEndpoint, ToDynEndpoint},
    http::uri::Scheme,
    web::{LocalAddr, RemoteAddr},
};
use std::{convert::Infallible, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Pause after a failed accept, which mostly means that the process is out of file descriptors.
const ACCEPT_PAUSE_MS: u64 = 50;

/// Largest head of a request.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// How the server treats connections.
#[derive(Debug, Clone, Copy)]
pub struct ServerOptions {
    /// Time in which the head of a request has to arrive; an idle connection is closed after it too.
    pub head_deadline_ms: u64,
    /// Open connections at a time; further ones wait in the queue of the kernel.
    pub connections_max: usize,
    /// Time that calls in flight have to finish after the stop.
    pub drain_deadline_ms: u64,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            head_deadline_ms: 10_000,
            connections_max: 4_096,
            drain_deadline_ms: 10_000,
        }
    }
}

/// Cancelled when the server stops; carried by every request, so that answers without an end know when to end.
#[derive(Debug, Clone)]
pub struct Stopping(pub CancellationToken);

/// Serves until `shutdown` is cancelled: then accepts nothing more, lets calls in flight finish and returns.
///
/// Errors: a listener whose address cannot be read.
pub async fn serve<E>(
    listeners: Vec<TcpListener>,
    endpoint: E,
    options: ServerOptions,
    shutdown: CancellationToken,
) -> io::Result<()>
where
    E: IntoEndpoint,
    E::Endpoint: 'static,
{
    let server = Arc::new(Server {
        endpoint: Box::new(ToDynEndpoint(endpoint.into_endpoint().map_to_response())),
        options,
        connections: Arc::new(Semaphore::new(options.connections_max)),
        shutdown,
        abort: CancellationToken::new(),
        tasks: TaskTracker::new(),
    });
    for listener in listeners {
        let address = listener.local_addr()?;
        tracing::info!(%address, "listening");
        server.tasks.spawn(server.clone().accept(listener, address));
    }
    server.shutdown.cancelled().await;
    server.tasks.close();
    let drained = timeout(Duration::from_millis(options.drain_deadline_ms), server.tasks.wait()).await;
    if drained.is_err() {
        tracing::warn!(
            connections = server.tasks.len(),
            "calls in flight did not finish in time"
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
    shutdown: CancellationToken,
    abort: CancellationToken,
    tasks: TaskTracker,
}

impl Server {
    async fn accept(self: Arc<Self>, listener: TcpListener, local: SocketAddr) {
        loop {
            let Some((permit, accepted)) = self.shutdown.run_until_cancelled(self.next(&listener)).await else {
                return;
            };
            match accepted {
                Ok((stream, remote)) => {
                    let connection = self.clone().connection(stream, local, remote, permit);
                    self.tasks.spawn(connection);
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await;
                }
            }
        }
    }

    /// Waits for a free place first, so that nothing is accepted that cannot be served.
    async fn next(
        &self,
        listener: &TcpListener,
    ) -> (Option<OwnedSemaphorePermit>, io::Result<(TcpStream, SocketAddr)>) {
        // The semaphore is never closed, so there is always a permit.
        let permit = self.connections.clone().acquire_owned().await.ok();
        (permit, listener.accept().await)
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        local: SocketAddr,
        remote: SocketAddr,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let service = service_fn(|mut request: hyper::Request<Incoming>| {
            let server = self.clone();
            request.extensions_mut().insert(Stopping(self.shutdown.clone()));
            async move {
                let local = LocalAddr(Addr::socket(local));
                let remote = RemoteAddr(Addr::socket(remote));
                let request = (request, local, remote, Scheme::HTTP).into();
                Ok::<hyper::Response<_>, Infallible>(server.endpoint.get_response(request).await.into())
            }
        });
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(self.options.head_deadline_ms))
            .max_buf_size(HEAD_BYTES_MAX);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = self.abort.cancelled() => Ok(()),
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended early");
        }
        drop(permit);
    }
}
