//! A wire to the PostgreSQL server of the tests that reads what passes: it holds single answers back, or all of them.

use std::{collections::HashMap, net::Ipv4Addr, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// Body of the message that asks for encryption.
const ENCRYPTION: [u8; 4] = 80_877_103_u32.to_be_bytes();

/// What the wire does, and what it saw.
#[derive(Debug, Default)]
struct State {
    /// Answers to statements that begin with this text are held; an empty text stands for everything.
    held: Option<String>,
    /// Connections that wait for an answer that is held.
    waiting: Vec<usize>,
    /// Statements of each connection since an answer to it was held, the held one first.
    asked: HashMap<usize, Vec<String>>,
    /// Connections that the client closed.
    closed: Vec<usize>,
}

/// A wire to a server.
#[derive(Clone)]
pub struct Wire {
    /// Address of the database behind it.
    pub url: String,
    state: Arc<watch::Sender<State>>,
}

impl Wire {
    /// A wire to the server of a database.
    pub async fn to(address: &str) -> Self {
        let mut url = url::Url::parse(address).expect("a URL");
        let server = (url.host_str().expect("a host").to_owned(), url.port().expect("a port"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        url.set_host(Some("127.0.0.1")).expect("a host");
        url.set_port(Some(listener.local_addr().expect("an address").port()))
            .expect("a port");
        let state = Arc::new(watch::Sender::new(State::default()));
        let seen = state.clone();
        tokio::spawn(async move {
            for connection in 0.. {
                let Ok((near, _)) = listener.accept().await else { return };
                let far = TcpStream::connect((server.0.as_str(), server.1))
                    .await
                    .expect("connected");
                let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                tokio::spawn(ask(connection, near_in, far_out, seen.clone()));
                tokio::spawn(answer(connection, far_in, near_out, seen.clone()));
            }
        });
        Self {
            url: url.to_string(),
            state,
        }
    }

    /// Holds the answers to statements that begin with a text, until [`Self::let_go`].
    pub fn hold(&self, text: &str) {
        self.state.send_modify(|state| {
            *state = State {
                held: Some(text.to_owned()),
                ..State::default()
            }
        });
    }

    /// Holds everything back, in both directions.
    pub fn fall_silent(&self) {
        self.hold("");
    }

    /// Passes on what was held, and everything from now on.
    pub fn let_go(&self) {
        self.state.send_modify(|state| {
            state.held = None;
            state.waiting.clear();
        });
    }

    /// Waits until the client has closed every connection whose answer was held; returns what it asked there, from the
    /// statement whose answer was held on.
    pub async fn asked_until_closed(&self) -> Vec<Vec<String>> {
        let mut state = self.state.subscribe();
        let all_closed = |state: &State| state.asked.keys().all(|connection| state.closed.contains(connection));
        let state = state.wait_for(all_closed).await.expect("the wire");
        state.asked.values().cloned().collect()
    }
}

/// Passes on what a client asks.
async fn ask(connection: usize, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: Arc<watch::Sender<State>>) {
    let mut bytes = [0; 8_192];
    let mut questions = Questions::default();
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let mut silence = state.subscribe();
        let is_heard = |state: &State| state.held.as_deref() != Some("");
        if silence.wait_for(is_heard).await.is_err() {
            return;
        }
        for statement in questions.read(&bytes[..length]) {
            state.send_modify(|state| {
                let is_held = state.held.as_ref().is_some_and(|held| statement.starts_with(held));
                if is_held && !state.waiting.contains(&connection) {
                    state.waiting.push(connection);
                    state.asked.entry(connection).or_default();
                }
                if let Some(asked) = state.asked.get_mut(&connection) {
                    asked.push(statement);
                }
            });
        }
        if to.write_all(&bytes[..length]).await.is_err() {
            break;
        }
    }
    state.send_modify(|state| state.closed.push(connection));
}

/// Passes on what the server answers.
async fn answer(connection: usize, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: Arc<watch::Sender<State>>) {
    let mut bytes = [0; 8_192];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let mut held = state.subscribe();
        let is_heard = |state: &State| state.held.as_deref() != Some("") && !state.waiting.contains(&connection);
        if held.wait_for(is_heard).await.is_err() || to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}

/// The statements in the messages of a client.
#[derive(Default)]
struct Questions {
    rest: Vec<u8>,
    has_begun: bool,
    prepared: HashMap<Vec<u8>, String>,
}

impl Questions {
    /// Statements that are run by further bytes, in their order.
    fn read(&mut self, bytes: &[u8]) -> Vec<String> {
        self.rest.extend_from_slice(bytes);
        let mut statements = Vec::new();
        loop {
            // The first messages have no kind: the question for encryption, which the test server denies, and the start.
            let head = usize::from(self.has_begun);
            let Some(length) = self.rest.get(head..head + 4) else {
                break;
            };
            let length = u32::from_be_bytes(length.try_into().expect("four bytes"));
            let end = head + usize::try_from(length).expect("a length");
            if self.rest.len() < end {
                break;
            }
            let message: Vec<u8> = self.rest.drain(..end).collect();
            if self.has_begun {
                statements.extend(self.statement(message[0], &message[5..]));
            }
            self.has_begun |= message[4..] != ENCRYPTION;
        }
        statements
    }

    /// The statement that a message runs.
    fn statement(&mut self, kind: u8, body: &[u8]) -> Option<String> {
        let mut texts = body.split(|byte| *byte == 0);
        let mut text = || texts.next().unwrap_or_default();
        match kind {
            b'Q' => Some(String::from_utf8_lossy(text()).into_owned()),
            b'P' => {
                let name = text().to_vec();
                let statement = String::from_utf8_lossy(text()).into_owned();
                self.prepared.insert(name, statement);
                None
            }
            b'B' => {
                let (_portal, name) = (text(), text());
                self.prepared.get(name).cloned()
            }
            _ => None,
        }
    }
}
