//! A proxy to the PostgreSQL test server. It reads the traffic and can delay single responses or stop all traffic.

use std::{collections::HashMap, net::Ipv4Addr, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// Body of the SSL request message.
const ENCRYPTION: [u8; 4] = 80_877_103_u32.to_be_bytes();

/// State of the proxy, and the traffic that it has seen.
#[derive(Debug, Default)]
struct State {
    /// The proxy holds back the responses to statements that start with this text. An empty text means every statement.
    held: Option<String>,
    /// Connections on which the client waits for a held response.
    waiting: Vec<usize>,
    /// For each connection with a held response: the statement to which the response belongs, followed by the later
    /// statements on this connection.
    asked: HashMap<usize, Vec<String>>,
    /// Connections closed by the client.
    closed: Vec<usize>,
}

/// A proxy to a server.
#[derive(Clone)]
pub struct Wire {
    /// URL of the database through the proxy.
    pub url: String,
    state: Arc<watch::Sender<State>>,
}

impl Wire {
    /// Starts a proxy to the server of a database.
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

    /// Holds back the responses to statements that start with this text until [`Self::let_go`] is called.
    pub fn hold(&self, text: &str) {
        self.state.send_modify(|state| {
            *state = State {
                held: Some(text.to_owned()),
                ..State::default()
            }
        });
    }

    /// Holds back all traffic, in both directions.
    pub fn fall_silent(&self) {
        self.hold("");
    }

    /// Forwards the held responses, and forwards all traffic from now on.
    pub fn let_go(&self) {
        self.state.send_modify(|state| {
            state.held = None;
            state.waiting.clear();
        });
    }

    /// Waits until the client has closed every connection with a held response. Returns the statements of each such
    /// connection, starting with the statement whose response was held.
    pub async fn asked_until_closed(&self) -> Vec<Vec<String>> {
        let mut state = self.state.subscribe();
        let all_closed = |state: &State| state.asked.keys().all(|connection| state.closed.contains(connection));
        let state = state.wait_for(all_closed).await.expect("the wire");
        state.asked.values().cloned().collect()
    }
}

/// Forwards messages of a client.
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

/// Forwards responses of the server.
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

/// Finds the statements in the messages that a client sends.
#[derive(Default)]
struct Questions {
    rest: Vec<u8>,
    has_begun: bool,
    prepared: HashMap<Vec<u8>, String>,
}

impl Questions {
    /// Adds bytes from the client; returns the statements that these bytes execute, in order.
    fn read(&mut self, bytes: &[u8]) -> Vec<String> {
        self.rest.extend_from_slice(bytes);
        let mut statements = Vec::new();
        loop {
            // The first messages have no type: the SSL request, which the test server denies, and the startup message.
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

    /// The statement that a message executes, if any.
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
