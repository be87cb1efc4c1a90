//! The one way in which a rule says no: a kind that the caller can act on, and sentences that name the field.

/// What the caller can do about a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The input has to change.
    Invalid,
    /// Credentials are missing, unknown or expired.
    Unauthenticated,
    /// The credentials are good but do not allow this.
    Forbidden,
    /// There is no such object for this caller.
    NotFound,
    /// The state of the object does not allow this.
    Conflict,
    /// Too many calls.
    TooMany,
    /// A node or partner that has to be asked did not answer.
    Upstream,
}

/// One wrong field of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field as the caller wrote it: members after dots, entries of lists in brackets.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl FieldError {
    /// Builds a field error.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
        }
    }
}

/// A refused operation.
///
/// The message reaches the client word for word, so it never holds a secret or a technical detail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What the caller can do about it.
    pub kind: RefusalKind,
    /// The sentence for the caller.
    pub message: String,
    /// Every wrong field, when the refusal is about input.
    pub fields: Vec<FieldError>,
    /// Seconds after which another try makes sense, when the rule knows.
    pub retry_after_s: Option<u32>,
    /// What the caller can do about it, where the message is a fixed one that does not say so.
    pub hint: Option<&'static str>,
}

impl Refusal {
    /// A refusal without field list.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            fields: Vec::new(),
            retry_after_s: None,
            hint: None,
        }
    }

    /// Refuses input as a whole.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::Invalid, message)
    }

    /// Refuses one field of the input.
    pub fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::fields(vec![FieldError::new(field, message)])
    }

    /// Refuses several fields at once; the message is the published `Validation failed`.
    ///
    /// Source: rules P.1.1; decisions D12; decisions D13.
    pub fn fields(fields: Vec<FieldError>) -> Self {
        Self {
            kind: RefusalKind::Invalid,
            message: "Validation failed".into(),
            fields,
            retry_after_s: None,
            hint: None,
        }
    }

    /// Makes the sentence about a field the message, when that field is wrong: where the contract gives one.
    ///
    /// Source: decisions D39.
    #[must_use]
    pub fn led_by(mut self, field: &str) -> Self {
        if let Some(error) = self.fields.iter().find(|error| error.field == field) {
            self.message.clone_from(&error.message);
        }
        self
    }

    /// The same about one entry of a list: its fields are members of that entry.
    #[must_use]
    pub fn within(mut self, entry: &str) -> Self {
        for error in &mut self.fields {
            error.field = format!("{entry}.{}", error.field);
        }
        self
    }

    /// Adds after how many seconds another try makes sense.
    #[must_use]
    pub fn after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Adds what the caller can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    /// The object does not exist for this caller.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::NotFound, message)
    }

    /// The state does not allow the operation.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::Conflict, message)
    }

    /// The credentials do not allow the operation.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::Forbidden, message)
    }

    /// Credentials are missing or wrong.
    pub fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::Unauthenticated, message)
    }
}

/// Collects wrong fields, so that one answer names them all.
#[derive(Debug, Default)]
pub struct Checks(Vec<FieldError>);

impl Checks {
    /// Starts without errors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a wrong field.
    pub fn fail(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(FieldError::new(field, message));
    }

    /// Keeps the value of a rule that held, notes the field of one that did not.
    pub fn take<T, E: std::fmt::Display>(&mut self, field: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.fail(field, error.to_string())).ok()
    }

    /// Keeps what another rule decided, notes every field that it refused.
    pub fn join<T>(&mut self, result: Result<T, Refusal>) -> Option<T> {
        result.map_err(|refusal| self.0.extend(refusal.fields)).ok()
    }

    /// Ends the checks with the value that they were about. Errors: every wrong field.
    pub fn finish_with<T>(self, value: Option<T>) -> Result<T, Refusal> {
        self.finish()?;
        value.ok_or_else(|| Refusal::invalid("Validation failed"))
    }

    /// Ends the checks: a refusal with every wrong field, if there is one.
    pub fn finish(self) -> Result<(), Refusal> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Refusal::fields(self.0))
        }
    }
}
