//! How a verb ends badly: something is out of date, or something is broken.

use std::process::ExitCode;

/// A file in the repository is stale and a command can renew it.
const EXIT_NEEDS_UPDATE: u8 = 4;

/// A step of the demonstration did not come about.
const EXIT_STEP_FAILED: u8 = 1;

/// Something has to be repaired by hand.
const EXIT_BROKEN: u8 = 100;

/// Why a verb did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A committed file is not what the code produces; the text names the command that renews it.
    NeedsUpdate(String),
    /// The demonstration stopped; the first cause names the step.
    StepFailed(anyhow::Error),
    /// Anything else, with its chain of causes.
    Broken(anyhow::Error),
}

impl Failure {
    /// The exit code of the program.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::NeedsUpdate(_) => EXIT_NEEDS_UPDATE.into(),
            Self::StepFailed(_) => EXIT_STEP_FAILED.into(),
            Self::Broken(_) => EXIT_BROKEN.into(),
        }
    }

    /// The worse of two failures, so that a broken step is not hidden by a stale one.
    pub(crate) fn worse(self, other: Self) -> Self {
        if matches!(self, Self::Broken(_) | Self::StepFailed(_)) {
            self
        } else {
            other
        }
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
pub(crate) type Outcome = Result<(), Failure>;
