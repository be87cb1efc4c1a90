//! Reads the statements that the service executes for a search from the server's log, and runs `pgbench` with the same
//! statements.

use std::fs;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::{Filled, KINDS, Kind, Sample, mixed, psql};
use crate::load;

/// Environment variable with the path of the server's log.
const LOG: &str = "PRS_BENCH_DURABLE_POSTGRES_LOG";

/// Texts in the log before an executed prepared statement, and before the values of its placeholders.
const EXECUTED: &str = "LOG:  execute ";
const WITH_VALUES: &str = "DETAIL:  parameters: ";

/// A statement of the service.
pub(super) struct Statement {
    pub(super) text: String,
    pub(super) values: Vec<Placed>,
}

/// A kind of search, with the statements that the service executes for it.
pub(super) type Recorded = (&'static Kind, Vec<Statement>);

/// The value of a placeholder.
pub(super) enum Placed {
    /// The value is the same in each search of the kind.
    Always(String),
    /// The value comes from the sample, under this name.
    Sampled(String),
}

impl Statement {
    /// The values of the statement for a sample, as literals.
    pub(super) fn literals(&self, sample: &Sample) -> Vec<String> {
        let value = |placed: &Placed| match placed {
            Placed::Always(value) => value.clone(),
            Placed::Sampled(name) => sample[name].clone(),
        };
        self.values
            .iter()
            .map(|placed| format!("'{}'", value(placed)))
            .collect()
    }

    /// The statement as JSON, where a value that comes from the sample is given by its name.
    pub(super) fn to_json(&self) -> Value {
        let values = self.values.iter().map(|placed| match placed {
            Placed::Always(value) => json!({ "always": value }),
            Placed::Sampled(name) => json!({ "sampled": name }),
        });
        json!({ "text": self.text, "values": values.collect::<Vec<_>>() })
    }
}

/// Runs each search once on a separate service, and reads its statements from the log.
pub(super) fn record(filled: &Filled) -> anyhow::Result<Vec<Recorded>> {
    let log = std::env::var(LOG).with_context(|| format!("{LOG} names no file; run `cargo xtask bench`"))?;
    let alter = |change: &str| {
        let name = filled.database.url.rsplit('/').next().unwrap_or_default();
        psql(&filled.database.url, &format!("ALTER DATABASE {name} {change}"), &[])
    };
    alter("SET log_statement = 'all'")?;
    let folder = tempfile::tempdir()?;
    let running = filled.serve(&folder)?;
    let sample = &filled.samples[0];
    let recorded = KINDS.iter().map(|kind| {
        let call = filled.calls(running.address, std::iter::once(kind)).swap_remove(0);
        let ask = || load::run_expecting(running.address, call.clone(), 1, 200);
        // The first call also looks up the credential, so the second call is recorded.
        ask()?;
        let before = fs::read_to_string(&log)?.len();
        ask()?;
        let mut sampled = sample.clone();
        // The wallet's group key may also occur in other kinds of search, where it is not the key of a wallet.
        if kind.name != "wallet" {
            sampled.remove("wallet_group");
        }
        let statements = statements(&fs::read_to_string(&log)?[before..], &sampled);
        ensure!(!statements.is_empty(), "{} executed no statement", kind.name);
        Ok((kind, statements))
    });
    let recorded = recorded.collect::<anyhow::Result<_>>()?;
    alter("RESET log_statement")?;
    Ok(recorded)
}

fn statements(log: &str, sample: &Sample) -> Vec<Statement> {
    let mut statements: Vec<Statement> = Vec::new();
    for line in log.lines() {
        if let Some((_, executed)) = line.split_once(EXECUTED) {
            let text = executed.split_once(": ").map_or(executed, |(_, text)| text);
            let (text, values) = (text.to_owned(), Vec::new());
            statements.push(Statement { text, values });
        } else if let (Some((_, values)), Some(statement)) = (line.split_once(WITH_VALUES), statements.last_mut()) {
            statement.values = values.split(", $").map(|value| placed(value, sample)).collect();
        }
    }
    // The log also contains statements that do not concern payments, such as lookups of credentials; they are removed.
    statements.retain(|statement| statement.text.contains("\"payment"));
    statements
}

/// Parses one entry of `$1 = 'a', $2 = 'b'`. No value of a search contains a quote.
fn placed(entry: &str, sample: &Sample) -> Placed {
    let value = entry.split_once(" = ").map_or(entry, |(_, value)| value);
    let value = value.trim_matches('\'');
    match sample.iter().find(|(_, sampled)| *sampled == value) {
        Some((name, _)) => Placed::Sampled(name.clone()),
        None => Placed::Always(value.to_owned()),
    }
}

/// Measures how many searches per second `pgbench` makes with the statements of the mix. Each of its transactions draws
/// a sample and runs one search of each kind.
pub(super) fn pgbench(filled: &Filled, recorded: &[Recorded], count: usize) -> anyhow::Result<f64> {
    let names: Vec<&str> = filled.samples[0].keys().map(String::as_str).collect();
    let mut script = format!(
        "\\set n random(1, {})\nSELECT {} FROM fill.samples WHERE n = :n \\gset\n",
        filled.samples.len(),
        names.join(", ")
    );
    let mut values: Vec<String> = Vec::new();
    for statement in recorded
        .iter()
        .filter(|(kind, _)| kind.is_mixed)
        .flat_map(|(_, statements)| statements)
    {
        let mut text = statement.text.clone();
        // Placeholders are replaced in descending order: replacing `$1` first would also change `$10`.
        for (number, placed) in statement.values.iter().enumerate().rev() {
            let variable = match placed {
                Placed::Sampled(name) => format!(":{name}"),
                // pgbench accepts no empty variable.
                Placed::Always(value) if value.is_empty() => "''".to_owned(),
                Placed::Always(value) => {
                    values.push(value.clone());
                    format!(":v{}", values.len())
                }
            };
            text = text.replace(&format!("${}", number + 1), &variable);
        }
        script.push_str(&format!("{text};\n"));
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("searches.sql");
    fs::write(&file, script)?;
    let transactions = (count / load::CONNECTIONS / mixed().count()).max(1);
    let mut pgbench = Command::new("pgbench");
    pgbench.args(["--no-vacuum", "--protocol=prepared", "--jobs=2"]);
    pgbench
        .arg(format!("--client={}", load::CONNECTIONS))
        .arg(format!("--transactions={transactions}"));
    for (number, value) in values.iter().enumerate() {
        pgbench.arg(format!("--define=v{}={value}", number + 1));
    }
    let output = pgbench
        .arg("--file")
        .arg(&file)
        .arg(&filled.database.url)
        .output()
        .context("pgbench")?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(
        output.status.success(),
        "pgbench: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let rate = text
        .lines()
        .find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse::<f64>().ok());
    Ok(rate.with_context(|| format!("no rate in {text}"))? * mixed().count() as f64)
}
