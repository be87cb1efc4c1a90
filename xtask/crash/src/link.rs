//! A proxy in front of the database that can stop all traffic or break connections. It replaces features of the kernel
//! that a test machine may lack.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::conversation::{Conversation, Statement};

/// How often a stopped connection checks whether traffic may continue.
const LOOK: Duration = Duration::from_millis(10);

/// While responses are late, one response in this number is on time.
const IN_TIME_EVERY: u64 = 8;

/// Maximum number of responses that the proxy delays at the same time. The connection pool of the service has more
/// connections.
const HELD_AT_ONCE: u64 = 12;

/// How long the proxy delays a response, in milliseconds. Every delay is longer than a caller waits; background work
/// waits longer than the shorter delays.
const HELD_MS: std::ops::RangeInclusive<u64> = 1_000..=5_000;

/// What the proxy does with the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// They are forwarded.
    None,
    /// All bytes are held in both directions until the fault ends.
    Blackhole,
    /// Connections that are already open get no response any longer, and new connections work. This happens when a
    /// database machine is replaced.
    Replaced,
    /// The connection of the next commit breaks before the database receives the commit.
    CutBeforeCommit,
    /// The connection of the next commit breaks after the database has executed the commit and before the client gets
    /// the response.
    CutAfterCommit,
    /// Most responses to one kind of statement are delayed. Other connections are not affected.
    LateAnswers(Statement),
}

/// State that all connections of a link share.
struct State {
    fault: Mutex<Fault>,
    /// Number of replacements so far. A connection that was opened before the last replacement is dead.
    generation: AtomicU64,
    cuts: AtomicU64,
    dice: Mutex<Rng>,
    held: Mutex<BTreeMap<Statement, u64>>,
    /// Number of responses that are being delayed now.
    held_now: Arc<AtomicU64>,
}

/// A delayed response. It counts towards [`HELD_AT_ONCE`] until it is dropped.
struct Held {
    time: Duration,
    held_now: Arc<AtomicU64>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.held_now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl State {
    fn fault(&self) -> Fault {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this connection has to break. Ends the fault `cut`, so that only one connection breaks.
    fn take(&self, cut: Fault) -> bool {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        let is_mine = *fault == cut;
        if is_mine {
            *fault = Fault::None;
            self.cuts.fetch_add(1, Ordering::SeqCst);
        }
        is_mine
    }

    /// Decides at random whether the response to a statement is delayed.
    fn hold(&self, statement: Statement) -> Option<Held> {
        if self.fault() != Fault::LateAnswers(statement) {
            return None;
        }
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        // The lock on the random numbers is held here, so no other thread can delay a further response meanwhile.
        if dice.u64(0..IN_TIME_EVERY) == 0 || self.held_now.load(Ordering::SeqCst) >= HELD_AT_ONCE {
            return None;
        }
        self.held_now.fetch_add(1, Ordering::SeqCst);
        *self
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(statement)
            .or_default() += 1;
        Some(Held {
            // Of two random delays, uses the shorter one, so that most are one or two seconds. The sooner a connection
            // is used again, the more errors the test finds.
            time: Duration::from_millis(dice.u64(HELD_MS).min(dice.u64(HELD_MS))),
            held_now: Arc::clone(&self.held_now),
        })
    }

    /// Waits while this connection may not transfer bytes.
    async fn until_heard(&self, generation: u64) {
        while self.fault() == Fault::Blackhole || self.generation.load(Ordering::SeqCst) != generation {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// The running proxy. On drop, it closes its port and its connections.
pub(crate) struct Link {
    port: u16,
    state: Arc<State>,
    runtime: Option<Runtime>,
}

impl Link {
    /// Listens on a free port and forwards to another port. The seed decides which responses are late.
    pub(crate) fn to(upstream: u16, seed: u64) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(State {
            fault: Mutex::new(Fault::None),
            generation: AtomicU64::new(0),
            cuts: AtomicU64::new(0),
            dice: Mutex::new(Rng::with_seed(seed)),
            held: Mutex::default(),
            held_now: Arc::default(),
        });
        let shared = Arc::clone(&state);
        runtime.spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                // Broken connections are the purpose of the link.
                tokio::spawn(async move { connect(near, upstream, state).await.ok() });
            }
        });
        Ok(Self {
            port,
            state,
            runtime: Some(runtime),
        })
    }

    /// The port that the proxy listens on.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Starts a fault, or ends it with [`Fault::None`].
    pub(crate) fn set(&self, fault: Fault) {
        let fault = if fault == Fault::Replaced {
            self.state.generation.fetch_add(1, Ordering::SeqCst);
            Fault::None
        } else {
            fault
        };
        *self.state.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Number of connections that were cut at a commit.
    pub(crate) fn cuts(&self) -> u64 {
        self.state.cuts.load(Ordering::SeqCst)
    }

    /// Number of responses to this statement that were delayed.
    pub(crate) fn held(&self, statement: Statement) -> u64 {
        let held = self.state.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.get(&statement).copied().unwrap_or_default()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }
}

async fn connect(near: TcpStream, upstream: u16, state: Arc<State>) -> Result<()> {
    let generation = state.generation.load(Ordering::SeqCst);
    state.until_heard(generation).await;
    let far = TcpStream::connect((Ipv4Addr::LOCALHOST, upstream)).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (near_in, near_out) = near.into_split();
    let (far_in, far_out) = far.into_split();
    let session = Session {
        state: &state,
        generation,
        conversation: Mutex::new(Conversation::new()),
        is_answer_lost: AtomicBool::new(false),
    };
    // When one direction ends, the other ends too: the protocol cannot use half a connection.
    tokio::select! {
        ended = session.ask(near_in, far_out) => ended,
        ended = session.answer(far_in, near_out) => ended,
    }
}

/// One connection in both directions.
struct Session<'a> {
    state: &'a State,
    generation: u64,
    conversation: Mutex<Conversation>,
    /// Whether the connection has to break before the client gets the response to the commit that was sent.
    is_answer_lost: AtomicBool,
}

impl Session<'_> {
    fn conversation(&self) -> MutexGuard<'_, Conversation> {
        self.conversation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forwards the bytes of the client.
    async fn ask(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> Result<()> {
        let mut bytes = vec![0; 65_536];
        loop {
            let length = from.read(&mut bytes).await?;
            if length == 0 {
                return Ok(());
            }
            self.state.until_heard(self.generation).await;
            let chunk = &bytes[..length];
            // The server must not respond to bytes that were dropped.
            let run = self.conversation().hear_client(chunk);
            if run.contains(&Statement::Commit) {
                if self.state.take(Fault::CutBeforeCommit) {
                    return cut(&from, &to);
                }
                if self.state.take(Fault::CutAfterCommit) {
                    self.is_answer_lost.store(true, Ordering::SeqCst);
                }
            }
            to.write_all(chunk).await?;
        }
    }

    /// Forwards the bytes of the server.
    async fn answer(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> Result<()> {
        let mut bytes = vec![0; 65_536];
        loop {
            let length = from.read(&mut bytes).await?;
            if length == 0 {
                return Ok(());
            }
            self.state.until_heard(self.generation).await;
            if self.is_answer_lost.load(Ordering::SeqCst) {
                return cut(&from, &to);
            }
            let chunk = &bytes[..length];
            let begun = self.conversation().hear_server(chunk);
            let mut sent = 0;
            for (at, statement) in begun {
                if let Some(held) = self.state.hold(statement) {
                    to.write_all(&chunk[sent..at]).await?;
                    sent = at;
                    tokio::time::sleep(held.time).await;
                }
            }
            to.write_all(&chunk[sent..]).await?;
        }
    }
}

/// Closes both sides at once, whatever is in flight. Each side sees the end of the stream or a reset.
fn cut(from: &OwnedReadHalf, to: &OwnedWriteHalf) -> Result<()> {
    from.as_ref().set_zero_linger()?;
    Ok(to.as_ref().set_zero_linger()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::tests::{message, startup};
    use std::io::{ErrorKind, Read, Write};
    use std::net;
    use std::time::Instant;

    /// A server that echoes every byte.
    fn echo() -> u16 {
        let listener = net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || {
                    let mut reader = stream.try_clone().unwrap();
                    let mut writer = stream;
                    std::io::copy(&mut reader, &mut writer)
                });
            }
        });
        port
    }

    fn dial(link: &Link) -> net::TcpStream {
        let stream = net::TcpStream::connect((Ipv4Addr::LOCALHOST, link.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        stream
    }

    fn say(stream: &mut net::TcpStream, text: &[u8]) -> std::io::Result<usize> {
        stream.write_all(text)?;
        stream.read(&mut [0; 64])
    }

    /// Whether the connection ended without a response.
    fn is_cut(answer: std::io::Result<usize>) -> bool {
        answer.map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |length| length == 0)
    }

    #[test]
    fn an_unresponsive_link_holds_the_bytes() {
        let link = Link::to(echo(), 1).unwrap();
        let mut stream = dial(&link);
        assert_eq!(say(&mut stream, b"one").unwrap(), 3);
        link.set(Fault::Blackhole);
        assert_eq!(say(&mut stream, b"two").unwrap_err().kind(), ErrorKind::WouldBlock);
        link.set(Fault::None);
        assert_eq!(stream.read(&mut [0; 64]).unwrap(), 3);
    }

    #[test]
    fn a_replaced_machine_serves_only_new_connections() {
        let link = Link::to(echo(), 1).unwrap();
        let mut old = dial(&link);
        assert_eq!(say(&mut old, b"one").unwrap(), 3);
        link.set(Fault::Replaced);
        assert!(say(&mut old, b"two").is_err());
        assert_eq!(say(&mut dial(&link), b"one").unwrap(), 3);
    }

    /// Opens a session; the echo of its startup message replaces the greeting of a server.
    fn open(link: &Link) -> net::TcpStream {
        let mut stream = dial(link);
        say(&mut stream, &startup()).unwrap();
        stream
    }

    #[test]
    fn one_commit_is_cut_and_the_next_one_is_not() {
        let link = Link::to(echo(), 1).unwrap();
        let (begin, commit) = (message(b'Q', b"BEGIN\0"), message(b'Q', b"COMMIT\0"));
        for cut in [Fault::CutBeforeCommit, Fault::CutAfterCommit] {
            link.set(cut);
            let mut stream = open(&link);
            assert_eq!(say(&mut stream, &begin).unwrap(), begin.len());
            assert!(is_cut(say(&mut stream, &commit)));
            assert_eq!(say(&mut open(&link), &commit).unwrap(), commit.len());
        }
        assert_eq!(link.cuts(), 2);
    }

    /// A server that answers every message as if it had executed a statement.
    fn server() -> u16 {
        let listener = net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || {
                    let answer = [message(b'C', b"DONE\0"), message(b'Z', b"I")].concat();
                    while stream.read(&mut [0; 256]).is_ok_and(|length| length > 0) {
                        stream.write_all(&answer).unwrap();
                    }
                });
            }
        });
        port
    }

    #[test]
    fn a_late_response_delays_only_its_own_connection() {
        let link = Link::to(server(), 1).unwrap();
        let (commit, begin) = (message(b'Q', b"COMMIT\0"), message(b'Q', b"BEGIN\0"));
        let (mut late, mut other) = (open(&link), open(&link));
        link.set(Fault::LateAnswers(Statement::Commit));
        let mut asked = Instant::now();
        while link.held(Statement::Commit) == 0 {
            asked = Instant::now();
            let heard = say(&mut late, &commit);
            assert_eq!(heard.is_err(), link.held(Statement::Commit) == 1);
        }
        assert!(say(&mut other, &begin).is_ok());
        late.set_read_timeout(None).unwrap();
        assert!(late.read(&mut [0; 64]).unwrap() > 0);
        let held_ms = u64::try_from(asked.elapsed().as_millis()).unwrap();
        assert!(held_ms >= *HELD_MS.start(), "{held_ms}");
    }
}
