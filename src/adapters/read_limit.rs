//! Connections of webhooks that fail when a receiver sends too much before its response.
//!
//! The HTTP client skips interim responses such as `103 Early Hints`, however many arrive, and continues to read in the
//! same poll. A receiver that sends them at full speed keeps a thread of the runtime busy and delays the timers on that
//! thread.

use crate::domain::webhook::TRY_TIMEOUT_MS;
use hyper::Uri;
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use std::{
    error::Error,
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::timeout,
};
use tower::Service;

/// Bytes that a receiver may send while the attempt makes no progress. They are a TLS handshake, interim responses and
/// the head of the response, or the framing of the next part of the body.
const READ_BYTES_MAX: usize = 64 * 1024;

/// Maximum time to open a connection. It is longer than an attempt, so that an attempt ends at its own deadline.
const OPEN_TIMEOUT: Duration = Duration::from_millis(TRY_TIMEOUT_MS + 1_000);

/// Number of bytes that a connection may still read. Progress of the attempt resets it to the full allowance.
#[derive(Clone)]
pub(super) struct ReadAllowance(Arc<AtomicUsize>);

impl ReadAllowance {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(READ_BYTES_MAX)))
    }

    /// Resets the allowance: the attempt has received the head of its response or a part of the body.
    pub(super) fn restore(&self) {
        self.0.store(READ_BYTES_MAX, Ordering::Relaxed);
    }

    fn is_used_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    fn deduct(&self, bytes: usize) {
        let rest = self.0.load(Ordering::Relaxed).saturating_sub(bytes);
        self.0.store(rest, Ordering::Relaxed);
    }
}

/// A connection that fails when its allowance is used up. The extensions of the response contain the allowance.
pub(super) struct LimitedStream {
    stream: TcpStream,
    allowance: ReadAllowance,
}

impl Connection for LimitedStream {
    fn connected(&self) -> Connected {
        self.stream.connected().extra(self.allowance.clone())
    }
}

impl AsyncRead for LimitedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.allowance.is_used_up() {
            let text = format!("the receiver sent {READ_BYTES_MAX} bytes that are not part of a response");
            return Poll::Ready(Err(io::Error::other(text)));
        }
        let filled = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.allowance.deduct(buf.filled().len() - filled);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for LimitedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Opens limited connections. The HTTP client continues to open a connection even if its attempt got another one, so
/// opening has its own time limit.
#[derive(Clone)]
pub(super) struct LimitedConnector<C>(pub(super) C);

impl<C> Service<Uri> for LimitedConnector<C>
where
    C: Service<Uri, Response = TokioIo<TcpStream>, Error: Into<Box<dyn Error + Send + Sync>>, Future: Send + 'static>,
{
    type Response = TokioIo<LimitedStream>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let opened = timeout(OPEN_TIMEOUT, self.0.call(uri));
        Box::pin(async move {
            let stream = opened.await?.map_err(Into::into)?.into_inner();
            Ok(TokioIo::new(LimitedStream {
                stream,
                allowance: ReadAllowance::new(),
            }))
        })
    }
}
