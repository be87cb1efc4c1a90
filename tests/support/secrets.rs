//! Leak check: the database and the log must contain no issued secret and no personal detail. When a test ends, both
//! are searched for every secret and detail that the test sent or received.

use regex::bytes::{Regex, RegexBuilder};
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection};
use std::{
    io::{self, Write},
    path::Path,
    sync::{Mutex, MutexGuard, Once, PoisonError},
};
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

/// The whole log of this process.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Prefixes of texts that are always secret.
const SECRET_PREFIXES: [&str; 3] = ["sk_", "orc_", "whsec_"];

/// Members of bodies whose values are secrets or identify a person.
const SECRET_MEMBERS: [&str; 32] = [
    "clientUserId",
    "firstName",
    "lastName",
    "companyName",
    "dateOfBirth",
    "addressLine1",
    "addressLine2",
    "postcode",
    "postalCode",
    "phone",
    "ssn",
    "sourceOfFunds",
    "businessActivity",
    "bankName",
    "accountName",
    "accountNumber",
    "routingNumber",
    "iban",
    "documentNumber",
    "documentType",
    "kycUrl",
    "agreementUrl",
    "rejectionMessage",
    "secret",
    "password",
    "currentPassword",
    "newPassword",
    "apiKey",
    "email",
    "invite",
    "payerIdentifier",
    "recipientIdentifier",
];

/// Members of bodies in which every text identifies a person.
const PERSONAL_MEMBERS: [&str; 1] = ["customerInfo"];

/// Minimum length of a searched text; a shorter text can occur by chance.
const SECRET_LENGTH_MIN: usize = 8;

/// Length of the start of a key that may be shown and stored, so that its owner can distinguish keys.
const HINT_LENGTH_MAX: usize = 8;

struct Memory;

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&LOG).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Memory {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

/// Records the log from now on, in more detail than any operator would configure.
pub fn listen() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let filter = EnvFilter::new("trace");
        let logger = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Memory);
        logger.with_ansi(false).init();
    });
}

/// Number of log lines so far that contain this text.
pub fn lines_logged_with(text: &str) -> usize {
    let log = lock(&LOG);
    let log = String::from_utf8_lossy(&log);
    log.lines().filter(|line| line.contains(text)).count()
}

/// Whether stored bytes contain a text.
pub fn holds(stored: &[u8], text: &str) -> bool {
    pattern(&regex::escape(text)).is_match(stored)
}

/// A byte pattern that searches megabytes faster than a loop in an unoptimised build.
fn pattern(text: &str) -> Regex {
    let pattern = RegexBuilder::new(text).size_limit(1 << 28).build();
    pattern.expect("a pattern")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The secrets of one test.
#[derive(Default)]
pub struct Issued(Mutex<Vec<String>>);

impl Issued {
    /// Remembers a secret.
    pub fn add(&self, secret: &str) {
        let mut known = lock(&self.0);
        if secret.len() >= SECRET_LENGTH_MIN && !known.iter().any(|one| one == secret) {
            known.push(secret.to_owned());
        }
    }

    /// Records every secret and personal detail in a body, so that the leak check searches for it.
    pub fn add_from_body(&self, text: &str) {
        if let Ok(body) = serde_json::from_str::<Value>(text) {
            self.add_from(&body);
        }
    }

    fn add_from(&self, value: &Value) {
        match value {
            Value::String(text)
                if text.len() > HINT_LENGTH_MAX && SECRET_PREFIXES.iter().any(|prefix| text.starts_with(prefix)) =>
            {
                self.add(text);
            }
            Value::Array(items) => items.iter().for_each(|item| self.add_from(item)),
            Value::Object(members) => {
                for (name, member) in members {
                    match member {
                        Value::String(text) if SECRET_MEMBERS.contains(&name.as_str()) => self.add(text),
                        person if PERSONAL_MEMBERS.contains(&name.as_str()) => self.add_texts(person),
                        _ => self.add_from(member),
                    }
                }
            }
            _ => {}
        }
    }

    fn add_texts(&self, value: &Value) {
        match value {
            Value::String(text) => self.add(text),
            Value::Array(items) => items.iter().for_each(|item| self.add_texts(item)),
            Value::Object(members) => members.values().for_each(|member| self.add_texts(member)),
            _ => {}
        }
    }

    /// Records the session token in a cookie, so that the leak check searches for it.
    pub fn add_from_cookie(&self, cookie: &str) {
        let pair = cookie.split(';').next().unwrap_or_default();
        if let Some((_, token)) = pair.split_once('=') {
            self.add(token);
        }
    }

    /// Number of secrets.
    pub fn count(&self) -> usize {
        lock(&self.0).len()
    }

    /// Secrets found in the log and in stored data.
    pub fn leaks(&self, stored: &[u8]) -> Vec<String> {
        let log = lock(&LOG);
        let places = [("a log", log.as_slice()), ("the database", stored)];
        let secrets = lock(&self.0);
        if secrets.is_empty() {
            return Vec::new();
        }
        // Searches for all secrets at once, because logs are long and there are many secrets.
        let any = secrets.iter().map(|secret| regex::escape(secret)).collect::<Vec<_>>();
        let any = pattern(&any.join("|"));
        let leaking = places.iter().filter(|(_, text)| any.is_match(text));
        // One secret can be part of another, so after a match each secret is searched for separately.
        let leaks = leaking.flat_map(|(place, text)| {
            let found = secrets.iter().filter(|secret| holds(text, secret));
            found.map(move |secret| format!("{place} holds the secret {secret}"))
        });
        leaks.collect()
    }
}

/// The files of a database.
pub fn dump_files(folder: &Path) -> Vec<u8> {
    let files = std::fs::read_dir(folder).expect("a folder");
    let paths = files.map(|file| file.expect("a file").path());
    let texts: io::Result<Vec<Vec<u8>>> = paths.filter(|path| path.is_file()).map(std::fs::read).collect();
    match texts {
        // Closing a connection removes the SQLite log and moves its rows into the database.
        Err(error) if error.kind() == io::ErrorKind::NotFound => dump_files(folder),
        texts => texts.expect("readable files").concat(),
    }
}

/// Every row of every table of a database on the server.
pub async fn dump_rows(connection: &mut PgConnection) -> sqlx::Result<Vec<u8>> {
    let tables: Vec<String> = sqlx::query_scalar("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        .fetch_all(&mut *connection)
        .await?;
    let mut rows = Vec::new();
    for table in tables {
        let statement = format!("SELECT t::text FROM \"{table}\" t");
        let texts: Vec<String> = sqlx::query_scalar(AssertSqlSafe(statement))
            .fetch_all(&mut *connection)
            .await?;
        rows.extend(texts.join("\n").into_bytes());
    }
    Ok(rows)
}
