//! Parses the traffic between a client and PostgreSQL, as far as needed to know to which statement a response belongs.
//!
//! The parser only observes. The proxy forwards all bytes at once, even if they cannot be parsed. The protocol is
//! version 3.0 of the chapter "Frontend/Backend Protocol" in the PostgreSQL manual.

use std::collections::{HashMap, VecDeque};

/// Messages that a client may send in place of a startup message.
const TLS_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const CANCEL_REQUEST: u32 = 80_877_102;

/// Number of bytes before the body of a message: its type and its length.
const HEAD: usize = 5;

/// The byte with which a server agrees to encryption.
const TLS_AGREED: u8 = b'S';

/// A statement, identified by its first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Statement {
    Begin,
    Insert,
    Commit,
    Other,
}

impl Statement {
    fn of(text: &[u8]) -> Self {
        let text = text.trim_ascii_start();
        let end = text.iter().position(|byte| !byte.is_ascii_alphabetic());
        match text[..end.unwrap_or(text.len())].to_ascii_uppercase().as_slice() {
            b"BEGIN" => Self::Begin,
            b"INSERT" => Self::Insert,
            b"COMMIT" => Self::Commit,
            _ => Self::Other,
        }
    }
}

/// What kind of message the parser expects next from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// A startup message, or a request in its place, such as one for encryption.
    Opening,
    /// Messages of a session.
    Session,
    /// Bytes that are not parsed, because they are encrypted or their content is not needed.
    Unread,
}

/// A message of the client for which the response of the server is still awaited.
#[derive(Debug)]
struct Awaited {
    /// The statement to which the response belongs; `None` for the end of a group of messages.
    statement: Option<Statement>,
    /// Whether the response ends with ReadyForQuery.
    ends_ready: bool,
    is_answered: bool,
}

impl Awaited {
    fn new(statement: Option<Statement>, ends_ready: bool) -> Self {
        Self {
            statement,
            ends_ready,
            is_answered: false,
        }
    }

    /// The statement to which the next message of the server belongs, when that message begins the response. `None` for
    /// the further messages of the response.
    fn answer(&mut self) -> Option<Statement> {
        let is_first = !std::mem::replace(&mut self.is_answered, true);
        self.statement.filter(|_| is_first)
    }
}

/// One connection between a client and PostgreSQL, observed by a proxy in between.
pub(crate) struct Conversation {
    phase: Phase,
    /// The bytes of a client message that has not arrived completely.
    asked: Vec<u8>,
    /// Whether the next byte of the server is its answer to the request for encryption.
    is_tls_asked: bool,
    /// The bytes of the header of a server message that has not arrived completely.
    head: Vec<u8>,
    /// Number of remaining bytes of the body of the current server message.
    left: usize,
    /// Prepared statements, by name.
    prepared: HashMap<Vec<u8>, Statement>,
    /// The statement of each portal, by the name of the portal.
    portals: HashMap<Vec<u8>, Statement>,
    awaited: VecDeque<Awaited>,
}

impl Conversation {
    /// A new connection.
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Opening,
            asked: Vec::new(),
            is_tls_asked: false,
            head: Vec::with_capacity(HEAD),
            left: 0,
            prepared: HashMap::new(),
            portals: HashMap::new(),
            awaited: VecDeque::new(),
        }
    }

    /// Processes bytes of the client; returns the statements that they execute.
    pub(crate) fn hear_client(&mut self, bytes: &[u8]) -> Vec<Statement> {
        let mut run = Vec::new();
        if self.phase == Phase::Unread {
            return run;
        }
        self.asked.extend_from_slice(bytes);
        while self.phase != Phase::Unread {
            let start = usize::from(self.phase == Phase::Session);
            let Some(length) = self.asked.get(start..).and_then(number) else {
                break;
            };
            let end = start + usize::try_from(length).unwrap_or(usize::MAX - HEAD).max(4);
            if self.asked.len() < end {
                break;
            }
            let message: Vec<u8> = self.asked.drain(..end).collect();
            let body = &message[start + 4..];
            match self.phase {
                Phase::Session => run.extend(self.ask(message[0], body)),
                _ => self.open(body),
            }
        }
        run
    }

    fn open(&mut self, body: &[u8]) {
        match number(body) {
            Some(TLS_REQUEST | GSS_REQUEST) => self.is_tls_asked = true,
            Some(CANCEL_REQUEST) => self.phase = Phase::Unread,
            _ => self.phase = Phase::Session,
        }
    }

    /// Processes a message of a session; returns the statement that it executes.
    fn ask(&mut self, kind: u8, body: &[u8]) -> Option<Statement> {
        let known = |names: &HashMap<Vec<u8>, Statement>, name: &[u8]| names.get(name).copied();
        let awaited = match kind {
            b'Q' => Awaited::new(Some(Statement::of(body)), true),
            b'P' => {
                let (name, text) = split_text(body);
                self.prepared.insert(name.to_vec(), Statement::of(text));
                return None;
            }
            b'B' => {
                let (portal, rest) = split_text(body);
                let statement = known(&self.prepared, split_text(rest).0).unwrap_or(Statement::Other);
                self.portals.insert(portal.to_vec(), statement);
                return None;
            }
            b'E' => {
                let statement = known(&self.portals, split_text(body).0).unwrap_or(Statement::Other);
                Awaited::new(Some(statement), false)
            }
            b'S' => Awaited::new(None, true),
            _ => return None,
        };
        let statement = awaited.statement;
        self.awaited.push_back(awaited);
        statement
    }

    /// Processes bytes of the server; returns the offsets at which the response to a statement begins.
    pub(crate) fn hear_server(&mut self, bytes: &[u8]) -> Vec<(usize, Statement)> {
        let mut begun = Vec::new();
        let mut at = 0;
        while at < bytes.len() && self.phase != Phase::Unread {
            if self.is_tls_asked {
                self.is_tls_asked = false;
                if bytes[at] == TLS_AGREED {
                    self.phase = Phase::Unread;
                }
                at += 1;
            } else if self.left > 0 {
                let heard = self.left.min(bytes.len() - at);
                self.left -= heard;
                at += heard;
            } else {
                if self.head.is_empty() {
                    begun.extend(self.answer(bytes[at]).map(|statement| (at, statement)));
                }
                self.head.push(bytes[at]);
                at += 1;
                if self.head.len() == HEAD {
                    let length = number(&self.head[1..]).unwrap_or_default();
                    self.left = usize::try_from(length.saturating_sub(4)).unwrap_or_default();
                    self.head.clear();
                }
            }
        }
        begun
    }

    /// Processes the type of a server message; returns the statement whose response begins with it.
    fn answer(&mut self, kind: u8) -> Option<Statement> {
        let front = self.awaited.front_mut()?;
        match kind {
            b'Z' => {
                while self.awaited.pop_front().is_some_and(|one| !one.ends_ready) {}
                None
            }
            // The server skips the messages after an error, up to the end of the group.
            b'E' => {
                let statement = front.answer();
                while self.awaited.front().is_some_and(|one| !one.ends_ready) {
                    self.awaited.pop_front();
                }
                statement
            }
            b'C' | b'I' | b's' if !front.ends_ready => {
                let statement = front.answer();
                self.awaited.pop_front();
                statement
            }
            b'D' | b'C' | b'I' => front.answer(),
            // In the simple query protocol, a row description belongs to the response of the query. Otherwise it
            // answers a Describe message.
            b'T' if front.ends_ready => front.answer(),
            _ => None,
        }
    }
}

/// The number in the first four bytes.
fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?))
}

/// The zero-terminated text at the start of the bytes, and the rest.
fn split_text(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A message of a session.
    pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind][..], &untyped(body)].concat()
    }

    fn untyped(body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&length.to_be_bytes(), body].concat()
    }

    /// The startup message of a session.
    pub(crate) fn startup() -> Vec<u8> {
        untyped(b"\0\x03\0\0user\0prs\0\0")
    }

    fn started() -> Conversation {
        let mut conversation = Conversation::new();
        assert_eq!(conversation.hear_client(&untyped(&TLS_REQUEST.to_be_bytes())), []);
        assert_eq!(conversation.hear_server(b"N"), []);
        assert_eq!(conversation.hear_client(&startup()), []);
        let welcome = [message(b'R', &[0; 4]), message(b'S', b"a\0b\0"), message(b'Z', b"I")].concat();
        assert_eq!(conversation.hear_server(&welcome), []);
        conversation
    }

    #[test]
    fn a_response_to_a_simple_query_begins_at_its_first_message() {
        let mut conversation = started();
        let asked = [message(b'Q', b"begin read only\0"), message(b'Q', b"COMMIT\0")].concat();
        assert_eq!(conversation.hear_client(&asked), [Statement::Begin, Statement::Commit]);
        let notice = message(b'N', b"there is already a transaction\0");
        let answered = [message(b'C', b"BEGIN\0"), message(b'Z', b"T")].concat();
        let ended = [message(b'C', b"COMMIT\0"), message(b'Z', b"I")].concat();
        let all = [notice.as_slice(), &answered, &ended].concat();
        assert_eq!(
            conversation.hear_server(&all),
            [
                (notice.len(), Statement::Begin),
                (notice.len() + answered.len(), Statement::Commit)
            ]
        );
    }

    #[test]
    fn a_prepared_statement_is_known_by_its_name_in_every_run() {
        let mut conversation = started();
        let prepare = [
            message(b'P', b"s1\0INSERT INTO requests VALUES ($1)\0\0\0"),
            message(b'D', b"Ss1\0"),
            message(b'S', b""),
        ];
        assert_eq!(conversation.hear_client(&prepare.concat()), []);
        let described = [message(b'1', b""), message(b't', &[0; 2]), message(b'n', b"")].concat();
        assert_eq!(conversation.hear_server(&described), []);
        assert_eq!(conversation.hear_server(&message(b'Z', b"I")), []);
        for _ in 0..2 {
            let run = [message(b'B', b"\0s1\0\0\0"), message(b'E', &[0; 5]), message(b'S', b"")];
            assert_eq!(conversation.hear_client(&run.concat()), [Statement::Insert]);
            let bound = message(b'2', b"");
            let done = [
                bound.as_slice(),
                &message(b'D', b"row"),
                &message(b'C', b"INSERT 0 1\0"),
                &message(b'Z', b"I"),
            ];
            assert_eq!(
                conversation.hear_server(&done.concat()),
                [(bound.len(), Statement::Insert)]
            );
        }
    }

    #[test]
    fn an_error_responds_to_its_statement_and_ends_its_group() {
        let mut conversation = started();
        let group = [
            message(b'P', b"\0INSERT\0\0\0"),
            message(b'B', b"\0\0\0\0"),
            message(b'E', &[0; 5]),
            message(b'E', &[0; 5]),
            message(b'S', b""),
            message(b'Q', b"COMMIT\0"),
        ];
        let run = conversation.hear_client(&group.concat());
        assert_eq!(run, [Statement::Insert, Statement::Insert, Statement::Commit]);
        assert_eq!(
            conversation.hear_server(&message(b'E', b"no\0")),
            [(0, Statement::Insert)]
        );
        assert_eq!(conversation.hear_server(&message(b'Z', b"I")), []);
        assert_eq!(
            conversation.hear_server(&message(b'C', b"COMMIT\0")),
            [(0, Statement::Commit)]
        );
    }

    #[test]
    fn messages_are_understood_however_their_bytes_are_split() {
        let mut conversation = started();
        let asked = message(b'Q', b"COMMIT\0");
        let run: Vec<Statement> = asked
            .iter()
            .flat_map(|byte| conversation.hear_client(&[*byte]))
            .collect();
        assert_eq!(run, [Statement::Commit]);
        let answer = [message(b'C', b"COMMIT\0"), message(b'Z', b"I")].concat();
        let begun: Vec<bool> = answer
            .iter()
            .map(|byte| !conversation.hear_server(&[*byte]).is_empty())
            .collect();
        assert_eq!(begun.iter().position(|is_begun| *is_begun), Some(0));
        assert_eq!(begun.iter().filter(|is_begun| **is_begun).count(), 1);
    }

    #[test]
    fn an_encrypted_connection_is_not_read() {
        let mut conversation = Conversation::new();
        conversation.hear_client(&untyped(&TLS_REQUEST.to_be_bytes()));
        conversation.hear_server(b"S");
        assert_eq!(conversation.hear_client(&message(b'Q', b"COMMIT\0")), []);
        assert_eq!(conversation.hear_server(&message(b'C', b"COMMIT\0")), []);
    }
}
