//! The findings, as text and as JUnit.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Held,
    Failed(Vec<String>),
    /// The check was skipped, with the reason.
    LeftOut(String),
}

impl Verdict {
    /// The check failed if the list has any entry.
    pub(crate) fn of(wrong: Vec<String>) -> Self {
        if wrong.is_empty() {
            Self::Held
        } else {
            Self::Failed(wrong)
        }
    }
}

/// One check of one operation.
#[derive(Debug)]
pub(crate) struct Check {
    /// The operationId of the checked operation, or `webhooks`.
    pub(crate) operation: String,
    /// What is checked, such as the status `201`.
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
}

/// All checks, in order.
#[derive(Debug, Default)]
pub(crate) struct Report(pub(crate) Vec<Check>);

impl Report {
    pub(crate) fn add(&mut self, operation: &str, name: &str, verdict: Verdict) {
        self.0.push(Check {
            operation: operation.to_owned(),
            name: name.to_owned(),
            verdict,
        });
    }

    /// The operations with a failed check, each once.
    pub(crate) fn failed(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for check in self
            .0
            .iter()
            .filter(|check| matches!(check.verdict, Verdict::Failed(_)))
        {
            if !names.contains(&check.operation.as_str()) {
                names.push(&check.operation);
            }
        }
        names
    }

    /// The skipped checks, each once: the operation and the check.
    pub(crate) fn left_out(&self) -> Vec<(&str, &str)> {
        let left_out = self
            .0
            .iter()
            .filter(|check| matches!(check.verdict, Verdict::LeftOut(_)));
        let mut named: Vec<_> = left_out
            .map(|check| (check.operation.as_str(), check.name.as_str()))
            .collect();
        named.sort_unstable();
        named.dedup();
        named
    }

    fn count(&self, is_meant: impl Fn(&Verdict) -> bool) -> usize {
        self.0.iter().filter(|check| is_meant(&check.verdict)).count()
    }

    /// One line for each operation, followed by its failed and skipped checks, and the totals.
    pub(crate) fn text(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for check in &self.0 {
            if !names.contains(&check.operation.as_str()) {
                names.push(&check.operation);
            }
        }
        let mut text = String::new();
        for name in &names {
            let checks = self.0.iter().filter(|check| check.operation == *name);
            let held: Vec<&str> = checks
                .clone()
                .filter(|check| check.verdict == Verdict::Held)
                .map(|check| check.name.as_str())
                .collect();
            let mark = match self.failed().contains(name) {
                true => "FAIL",
                false if held.is_empty() => "out ",
                false => "ok  ",
            };
            let _ = writeln!(text, "{mark} {name:<34} {}", held.join(", "));
            for check in checks {
                match &check.verdict {
                    Verdict::Held => {}
                    Verdict::Failed(wrong) => {
                        for line in wrong {
                            let _ = writeln!(text, "       {}: {line}", check.name);
                        }
                    }
                    Verdict::LeftOut(why) => {
                        let _ = writeln!(text, "       {}: skipped, {why}", check.name);
                    }
                }
            }
        }
        let failed = self.count(|verdict| matches!(verdict, Verdict::Failed(_)));
        let skipped = self.count(|verdict| matches!(verdict, Verdict::LeftOut(_)));
        let held = self.count(|verdict| *verdict == Verdict::Held);
        let _ = writeln!(
            text,
            "{} subjects: {held} checks passed, {failed} failed, {skipped} skipped",
            names.len()
        );
        text
    }

    /// Writes the report as JUnit XML, for programs that display test results.
    pub(crate) fn write_junit(&self, path: &Path) -> Result<()> {
        let failed = self.count(|verdict| matches!(verdict, Verdict::Failed(_)));
        let skipped = self.count(|verdict| matches!(verdict, Verdict::LeftOut(_)));
        let mut xml = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"conformance\" tests=\"{}\" failures=\"{failed}\" skipped=\"{skipped}\">\n",
            self.0.len()
        );
        for check in &self.0 {
            let (class, name) = (escaped(&check.operation), escaped(&check.name));
            let _ = match &check.verdict {
                Verdict::Held => writeln!(xml, "  <testcase classname=\"{class}\" name=\"{name}\"/>"),
                Verdict::Failed(wrong) => writeln!(
                    xml,
                    "  <testcase classname=\"{class}\" name=\"{name}\"><failure message=\"{}\"/></testcase>",
                    escaped(&wrong.join("; "))
                ),
                Verdict::LeftOut(why) => writeln!(
                    xml,
                    "  <testcase classname=\"{class}\" name=\"{name}\"><skipped message=\"{}\"/></testcase>",
                    escaped(why)
                ),
            };
        }
        xml.push_str("</testsuite>\n");
        fs::write(path, xml).with_context(|| path.display().to_string())
    }
}

/// A text for an XML attribute; XML cannot represent other control characters.
fn escaped(text: &str) -> String {
    let mut written = String::new();
    for letter in text.chars() {
        match letter {
            '&' => written.push_str("&amp;"),
            '<' => written.push_str("&lt;"),
            '>' => written.push_str("&gt;"),
            '"' => written.push_str("&quot;"),
            letter if letter.is_control() => written.push(' '),
            letter => written.push(letter),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_with_several_failures_is_listed_once() {
        let mut report = Report::default();
        report.add("getRequest", "200", Verdict::Failed(vec!["/a is <missing>".to_owned()]));
        report.add("getRequest", "401", Verdict::Failed(vec!["x".to_owned()]));
        report.add("logIn", "200", Verdict::Held);
        assert_eq!(report.failed(), ["getRequest"]);
        assert!(
            report
                .text()
                .ends_with("2 subjects: 1 checks passed, 2 failed, 0 skipped\n")
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("junit.xml");
        report.write_junit(&file).unwrap();
        assert!(std::fs::read_to_string(file).unwrap().contains("/a is &lt;missing&gt;"));
    }
}
