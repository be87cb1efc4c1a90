//! Has a server execute statements under `EXPLAIN` and take back what they did.

use std::fmt::Write as _;
use std::fs::File;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;
use xtask::machine::command;

use super::record::Call;

/// Longest run of one statement; one that a client would not wait for is worth no longer look.
const TIMEOUT: &str = "10s";

/// Begins what psql answers for one sample.
const MARK: &str = "@@ ";

/// What the server says about a call: its plan as JSON, or why there is none.
pub(crate) type Explained = Result<Value, String>;

/// Explains calls in their order, each with the literals that are given for it. `before` is executed first, in the same
/// transaction.
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
        // A statement is planned for its values, as the server does it while that is cheaper; what a row refers to need
        // not exist.
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
    fn an_answer_is_a_plan_or_the_reason_why_there_is_none() {
        assert_eq!(answer("\n[{\"Plan\": {\"a\": 1}}]\n"), Ok(serde_json::json!({"a": 1})));
        assert_eq!(
            answer("\nrelation \"x\" does not exist\n"),
            Err("relation \"x\" does not exist".to_owned())
        );
    }
}
