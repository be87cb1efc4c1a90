//! How a command fails: a committed file is out of date, a check failed, or a person has to fix an error.

use std::process::ExitCode;

/// Exit code: a file in the repository is stale, and a command can regenerate it.
const EXIT_NEEDS_UPDATE: u8 = 4;

/// Exit code: a step of the demonstration failed, or a tested promise was broken.
const EXIT_STEP_FAILED: u8 = 1;

/// Exit code: an error that no command can fix.
const EXIT_BROKEN: u8 = 100;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// A committed file differs from what the code produces; the text names the command that regenerates it.
    NeedsUpdate(String),
    /// The demonstration, the crash test, the abuse test or the fuzzer found a failure; the first cause describes it.
    StepFailed(anyhow::Error),
    /// Any other error, with its chain of causes.
    Broken(anyhow::Error),
}

impl Failure {
    /// The exit code of the program.
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::NeedsUpdate(_) => EXIT_NEEDS_UPDATE.into(),
            Self::StepFailed(_) => EXIT_STEP_FAILED.into(),
            Self::Broken(_) => EXIT_BROKEN.into(),
        }
    }

    /// Whether the failure is a stale file, which a command can regenerate.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::NeedsUpdate(_))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NeedsUpdate(text) => write!(formatter, "needs update: {text}"),
            Self::StepFailed(error) => write!(formatter, "failed: {error:#}"),
            Self::Broken(error) => write!(formatter, "broken: {error:#}"),
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Broken(error.into())
    }
}

/// The result of a command or of one of its steps.
pub type Outcome = Result<(), Failure>;

/// Ends the program: prints a failure and maps its kind to the exit code.
pub fn ended(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}

/// The worst of several outcomes. Prints the other failures, so that one run shows all of them.
pub fn worst(outcomes: impl IntoIterator<Item = Outcome>) -> Outcome {
    let mut failures: Vec<Failure> = outcomes.into_iter().filter_map(Result::err).collect();
    failures.sort_by_key(|failure| !failure.is_stale());
    let Some(worst) = failures.pop() else { return Ok(()) };
    for failure in failures {
        eprintln!("{failure}");
    }
    Err(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_step_is_worse_than_a_stale_file() {
        let stale = || Err(Failure::NeedsUpdate("old".to_owned()));
        let broken = || Err(Failure::Broken(anyhow::anyhow!("wrong")));
        assert!(worst([Ok(()), Ok(())]).is_ok());
        assert!(matches!(worst([Ok(()), stale()]), Err(Failure::NeedsUpdate(_))));
        assert!(matches!(worst([broken(), stale()]), Err(Failure::Broken(_))));
        assert!(matches!(worst([stale(), broken()]), Err(Failure::Broken(_))));
    }
}
