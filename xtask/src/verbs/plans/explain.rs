//! Executes statements under `EXPLAIN` on a server and rolls back their changes.

use std::fmt::Write as _;
use std::fs::File;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;
use xtask::machine::command;

use super::record::Call;

/// Time limit of one statement. A client would not wait longer, so a slower statement needs no further analysis.
const TIMEOUT: &str = "10s";

/// Marks the start of psql's output for one sample.
const MARK: &str = "@@ ";

/// The server's plan for a call, as JSON; the error is the reason why there is no plan.
pub(crate) type Explained = Result<Value, String>;

/// Explains calls in order, each with its literals. `before` runs first, in the same transaction.
pub(crate) fn explain(psql: &mut Command, before: &str, calls: &[Call<'_>]) -> Result<Vec<Explained>> {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("explain.sql");
    std::fs::write(&script, script_of(before, calls))?;
    psql.stdin(File::open(&script)?).stderr(Stdio::null());
    let answers = String::from_utf8(command::capture(psql)?)?;
    let answers: Vec<Explained> = answers.split(MARK).skip(1).map(answer).collect();
    (answers.len() == calls.len())
        .then_some(answers)
        .with_context(|| format!("psql did not explain all of {} calls", calls.len()))
}

fn script_of(before: &str, calls: &[Call<'_>]) -> String {
    let mut script = String::new();
    for (_, sample, values) in calls {
        let arguments = match values.as_slice() {
            [] => String::new(),
            values => format!("({})", values.join(", ")),
        };
        // The server plans each statement for its actual values, as it does in production while such a plan is cheaper.
        // Foreign keys are not checked, so that a value may refer to a row that does not exist.
        let _ = writeln!(
            script,
            "\\echo '{MARK}'\n\
             BEGIN;\n\
             SET LOCAL plan_cache_mode = force_custom_plan;\n\
             SET LOCAL statement_timeout = '{TIMEOUT}';\n\
             SET LOCAL session_replication_role = replica;\n\
             {before};\n\
             PREPARE explained AS {};\n\
             \\if :ERROR\n\\echo :LAST_ERROR_MESSAGE\n\\else\n\
             EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE explained{arguments};\n\
             \\if :ERROR\n\\echo :LAST_ERROR_MESSAGE\n\\endif\n\\endif\n\
             ROLLBACK;\n\
             DEALLOCATE ALL;",
            sample.text
        );
    }
    script
}

fn answer(text: &str) -> Explained {
    let text = text.trim();
    let plans: Value =
        serde_json::from_str(text).map_err(|_| text.lines().next_back().unwrap_or_default().to_owned())?;
    plans
        .get(0)
        .and_then(|plan| plan.get("Plan"))
        .cloned()
        .ok_or_else(|| "no plan".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_a_plan_or_the_reason_why_there_is_none() {
        assert_eq!(answer("\n[{\"Plan\": {\"a\": 1}}]\n"), Ok(serde_json::json!({"a": 1})));
        assert_eq!(
            answer("\nrelation \"x\" does not exist\n"),
            Err("relation \"x\" does not exist".to_owned())
        );
    }
}
