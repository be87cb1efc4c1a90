//! A link in front of the database that can fall silent or break: the kernel of a test machine may have no means of its
//! own for that.

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

/// How often a silent link checks whether it may go on.
const LOOK: Duration = Duration::from_millis(10);

/// One answer out of so many comes in time while answers are late.
const IN_TIME_EVERY: u64 = 8;

/// Answers that are held at the same time; the pool of the service has more connections.
const HELD_AT_ONCE: u64 = 12;

/// How long an answer is held, in milliseconds: some are waited for by background work, none by who waits for an answer.
const HELD_MS: std::ops::RangeInclusive<u64> = 1_000..=5_000;

/// What happens to the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// They arrive.
    None,
    /// They are kept until the fault ends, in both directions.
    Blackhole,
    /// Connections that are open now never answer again; new ones work. So does a machine that was replaced.
    Replaced,
    /// The next commit breaks its connection before the database has it.
    CutBeforeCommit,
    /// The next commit breaks its connection after the database made it, before anybody learns of it.
    CutAfterCommit,
    /// Most answers to a statement are held, each on its connection alone.
    LateAnswers(Statement),
}

/// What all connections of a link share.
struct State {
    fault: Mutex<Fault>,
    /// Counts replacements: a connection of an earlier generation is dead.
    generation: AtomicU64,
    cuts: AtomicU64,
    dice: Mutex<Rng>,
    held: Mutex<BTreeMap<Statement, u64>>,
    /// Answers that are held right now.
    held_now: Arc<AtomicU64>,
}

/// An answer that is held; its place is free when this is dropped.
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

    /// Takes a single cut for itself, so that only one connection breaks.
    fn take(&self, cut: Fault) -> bool {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        let is_mine = *fault == cut;
        if is_mine {
            *fault = Fault::None;
            self.cuts.fetch_add(1, Ordering::SeqCst);
        }
        is_mine
    }

    /// Draws whether the answer to a statement is held.
    fn hold(&self, statement: Statement) -> Option<Held> {
        if self.fault() != Fault::LateAnswers(statement) {
            return None;
        }
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody else adds to what is held meanwhile.
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
            // Most are held for a second or two: the sooner a connection is used again, the more it tells.
            time: Duration::from_millis(dice.u64(HELD_MS).min(dice.u64(HELD_MS))),
            held_now: Arc::clone(&self.held_now),
        })
    }

    /// Waits while the link is silent for this connection.
    async fn until_heard(&self, generation: u64) {
        while self.fault() == Fault::Blackhole || self.generation.load(Ordering::SeqCst) != generation {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// The link; gone with its connections when dropped.
pub(crate) struct Link {
    port: u16,
    state: Arc<State>,
    runtime: Option<Runtime>,
}

impl Link {
    /// Listens on a free port and leads to another one. The seed decides which answers are late.
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
                // A connection that breaks is what a link is for.
                tokio::spawn(async move { connect(near, upstream, state).await.ok() });
            }
        });
        Ok(Self {
            port,
            state,
            runtime: Some(runtime),
        })
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Begins a fault, or ends it with [`Fault::None`].
    pub(crate) fn set(&self, fault: Fault) {
        let fault = if fault == Fault::Replaced {
            self.state.generation.fetch_add(1, Ordering::SeqCst);
            Fault::None
        } else {
            fault
        };
        *self.state.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// How many connections were cut at a commit.
    pub(crate) fn cuts(&self) -> u64 {
        self.state.cuts.load(Ordering::SeqCst)
    }

    /// How many answers to this statement were held.
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
    // Whichever ends takes the other one with it: half a connection is of no use to the protocol.
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
    /// Whether the answer to a commit is to be lost.
    is_answer_lost: AtomicBool,
}

impl Session<'_> {
    fn conversation(&self) -> MutexGuard<'_, Conversation> {
        self.conversation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries what the client says.
    async fn ask(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> Result<()> {
        let mut bytes = vec![0; 65_536];
        loop {
            let length = from.read(&mut bytes).await?;
            if length == 0 {
                return Ok(());
            }
            self.state.until_heard(self.generation).await;
            let chunk = &bytes[..length];
            // The server must not answer what was not heard.
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

    /// Carries what the server says.
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

/// Lets both sides end at once, whatever is still in flight; a side may see the end of the stream or a reset.
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

    /// A server that says every byte back.
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

    /// Whether the connection ended without an answer.
    fn is_cut(answer: std::io::Result<usize>) -> bool {
        answer.map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |length| length == 0)
    }

    #[test]
    fn a_silent_wire_keeps_what_was_said() {
        let link = Link::to(echo(), 1).unwrap();
        let mut stream = dial(&link);
        assert_eq!(say(&mut stream, b"one").unwrap(), 3);
        link.set(Fault::Blackhole);
        assert_eq!(say(&mut stream, b"two").unwrap_err().kind(), ErrorKind::WouldBlock);
        link.set(Fault::None);
        assert_eq!(stream.read(&mut [0; 64]).unwrap(), 3);
    }

    #[test]
    fn a_replaced_machine_answers_only_new_connections() {
        let link = Link::to(echo(), 1).unwrap();
        let mut old = dial(&link);
        assert_eq!(say(&mut old, b"one").unwrap(), 3);
        link.set(Fault::Replaced);
        assert!(say(&mut old, b"two").is_err());
        assert_eq!(say(&mut dial(&link), b"one").unwrap(), 3);
    }

    /// Opens a session; the echo of its beginning stands for the welcome of a server.
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

    /// A server that answers every message, whatever it says, like a statement that is done.
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
    fn a_late_answer_holds_up_its_own_connection_alone() {
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
