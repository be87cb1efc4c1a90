//! How a verb ends badly: something is out of date, or something is broken.

use std::process::ExitCode;

/// A file in the repository is stale and a command can renew it.
const EXIT_NEEDS_UPDATE: u8 = 4;

/// A step of the demonstration did not come about, or a promise did not hold.
const EXIT_STEP_FAILED: u8 = 1;

/// Something has to be repaired by hand.
const EXIT_BROKEN: u8 = 100;

/// Why a verb did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// A committed file is not what the code produces; the text names the command that renews it.
    NeedsUpdate(String),
    /// The demonstration, the crash test, the abuse test or the fuzzer does not show what it should; the first cause says what.
    StepFailed(anyhow::Error),
    /// Anything else, with its chain of causes.
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

    /// Whether a command renews what is wrong.
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

/// The result of a verb or of one of its steps.
pub type Outcome = Result<(), Failure>;

/// Ends the program: a failure is printed, and its kind becomes the exit code.
pub fn ended(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}

/// The worst of several outcomes; the failures it stands for are printed, so that one run shows everything.
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
