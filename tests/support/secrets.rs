//! No issued secret and no personal detail may be found in the database or in a log: whatever a test gave or was given is
//! looked for when it ends.

use regex::bytes::{Regex, RegexBuilder};
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection};
use std::{
    io::{self, Write},
    path::Path,
    sync::{Mutex, MutexGuard, Once, PoisonError},
};
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

/// Everything that this process has logged.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Beginnings of texts that are secret wherever they stand.
const SECRET_PREFIXES: [&str; 3] = ["sk_", "orc_", "whsec_"];

/// Members of bodies that hold secrets or say who somebody is.
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

/// Members all of whose texts are personal.
const PERSONAL_MEMBERS: [&str; 1] = ["customerInfo"];

/// Shorter texts could be part of anything.
const SECRET_LENGTH_MIN: usize = 8;

/// The first characters of a key may be shown and kept, to tell keys apart.
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

/// Keeps what is logged from now on, in more detail than an operator would ever ask for.
pub fn listen() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let filter = EnvFilter::new("trace");
        let logger = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Memory);
        logger.with_ansi(false).init();
    });
}

/// How many lines with this text were logged so far.
pub fn lines_logged_with(text: &str) -> usize {
    let log = lock(&LOG);
    let log = String::from_utf8_lossy(&log);
    log.lines().filter(|line| line.contains(text)).count()
}

/// Whether a text stands in what is stored.
pub fn holds(stored: &[u8], text: &str) -> bool {
    pattern(&regex::escape(text)).is_match(stored)
}

/// A pattern that finds bytes in megabytes quicker than a loop of an unoptimised build does.
fn pattern(text: &str) -> Regex {
    let pattern = RegexBuilder::new(text).size_limit(1 << 28).build();
    pattern.expect("a pattern")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The secrets that one test was given.
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

    /// Remembers every secret of a body.
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

    /// Remembers the session of a cookie.
    pub fn add_from_cookie(&self, cookie: &str) {
        let pair = cookie.split(';').next().unwrap_or_default();
        if let Some((_, token)) = pair.split_once('=') {
            self.add(token);
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        lock(&self.0).len()
    }

    /// Where a secret is found in what was logged and stored.
    pub fn leaks(&self, stored: &[u8]) -> Vec<String> {
        let log = lock(&LOG);
        let places = [("a log", log.as_slice()), ("the database", stored)];
        let secrets = lock(&self.0);
        if secrets.is_empty() {
            return Vec::new();
        }
        // All at once: there are long logs, and many secrets.
        let any = secrets.iter().map(|secret| regex::escape(secret)).collect::<Vec<_>>();
        let any = pattern(&any.join("|"));
        let leaking = places.iter().filter(|(_, text)| any.is_match(text));
        // One secret can be a part of another one, so each is looked for by itself where there is any.
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
        // A connection that closes takes the log of SQLite with it, and its rows are in the database only then.
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
