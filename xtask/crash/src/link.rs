//! A link in front of the database that can fall silent or break: the kernel of a test machine may have no means of its
//! own for that.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// How often a silent link checks whether it may go on.
const LOOK: Duration = Duration::from_millis(10);

/// The text with which PostgreSQL is asked to commit.
const COMMIT: &[u8] = b"COMMIT\0";

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
}

/// What all connections of a link share.
struct State {
    fault: Mutex<Fault>,
    /// Counts replacements: a connection of an earlier generation is dead.
    generation: AtomicU64,
    cuts: AtomicU64,
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
    /// Listens on a free port and leads to another one.
    pub(crate) fn to(upstream: u16) -> Result<Self> {
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
    let is_answer_lost = AtomicBool::new(false);
    let there = pump(near_in, far_out, &state, generation, Direction::There(&is_answer_lost));
    let back = pump(far_in, near_out, &state, generation, Direction::Back(&is_answer_lost));
    // Whichever ends takes the other one with it: half a connection is of no use to the protocol.
    tokio::select! {
        ended = there => ended,
        ended = back => ended,
    }
}

/// Which way bytes go, and whether the answer to a commit is to be lost.
enum Direction<'a> {
    There(&'a AtomicBool),
    Back(&'a AtomicBool),
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    state: &State,
    generation: u64,
    direction: Direction<'_>,
) -> Result<()> {
    let mut bytes = vec![0; 65_536];
    loop {
        let length = from.read(&mut bytes).await?;
        if length == 0 {
            return Ok(());
        }
        state.until_heard(generation).await;
        let chunk = &bytes[..length];
        match direction {
            Direction::There(is_answer_lost) if chunk.windows(COMMIT.len()).any(|window| window == COMMIT) => {
                if state.take(Fault::CutBeforeCommit) {
                    return cut(&from, &to);
                }
                if state.take(Fault::CutAfterCommit) {
                    is_answer_lost.store(true, Ordering::SeqCst);
                }
            }
            Direction::Back(is_answer_lost) if is_answer_lost.load(Ordering::SeqCst) => return cut(&from, &to),
            Direction::There(_) | Direction::Back(_) => {}
        }
        to.write_all(chunk).await?;
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
    use std::io::{ErrorKind, Read, Write};
    use std::net;

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
        let link = Link::to(echo()).unwrap();
        let mut stream = dial(&link);
        assert_eq!(say(&mut stream, b"one").unwrap(), 3);
        link.set(Fault::Blackhole);
        assert_eq!(say(&mut stream, b"two").unwrap_err().kind(), ErrorKind::WouldBlock);
        link.set(Fault::None);
        assert_eq!(stream.read(&mut [0; 64]).unwrap(), 3);
    }

    #[test]
    fn a_replaced_machine_answers_only_new_connections() {
        let link = Link::to(echo()).unwrap();
        let mut old = dial(&link);
        assert_eq!(say(&mut old, b"one").unwrap(), 3);
        link.set(Fault::Replaced);
        assert!(say(&mut old, b"two").is_err());
        assert_eq!(say(&mut dial(&link), b"one").unwrap(), 3);
    }

    #[test]
    fn one_commit_is_cut_and_the_next_one_is_not() {
        let link = Link::to(echo()).unwrap();
        for cut in [Fault::CutBeforeCommit, Fault::CutAfterCommit] {
            link.set(cut);
            let mut stream = dial(&link);
            assert_eq!(say(&mut stream, b"BEGIN\0").unwrap(), 6);
            assert!(is_cut(say(&mut stream, COMMIT)));
            assert_eq!(say(&mut dial(&link), COMMIT).unwrap(), COMMIT.len());
        }
        assert_eq!(link.cuts(), 2);
    }
}
