//! How a rule rejects an operation: a kind that the caller can act on, and messages that name the field.

use super::{child_failure::BlockedChildren, wire_text::wire_text};

/// Kinds of refusals, by what the caller can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The input is invalid.
    Invalid,
    /// Credentials are missing, unknown or expired.
    Unauthenticated,
    /// The credentials are valid but do not allow this.
    Forbidden,
    /// The object does not exist, or the caller may not see it.
    NotFound,
    /// The state of the object does not allow this.
    Conflict,
    /// Another payment of the object is in progress.
    Locked,
    /// Too many calls.
    TooMany,
    /// A node or partner did not respond.
    Upstream,
}

wire_text! {
    /// Reasons that programs have to recognise: all values of `code` in error responses.
    pub enum RefusalCode {
        /// Links keep a multicall from being created or paid.
        MulticallFailed = "multicall_validation_failed",
        /// The wallet that is connected to a payment page is a Safe.
        SafeWallet = "safe_wallet",
        /// The account of the payer does not exist on Tron.
        AccountNotActivated = "account_not_activated",
        /// The issuer of the token has frozen the account of the payer on Tron.
        PayerBlacklisted = "payer_blacklisted",
        /// The estimated network fee on Tron is above the limit of the service.
        FeeLimitExceeded = "fee_limit_exceeded",
    }
}

/// One wrong field of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field as the caller wrote it, with dots before members and brackets around list indexes.
    pub field: String,
    /// What is wrong and what is expected.
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

/// A rejected operation.
///
/// The message is sent to the client unchanged, so it never contains a secret or a technical detail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Kind of the refusal.
    pub kind: RefusalKind,
    /// The message for the caller.
    pub message: String,
    /// All wrong fields, when the refusal is about input.
    pub fields: Vec<FieldError>,
    /// Seconds after which the caller should retry, if the rule knows them.
    pub retry_after_s: Option<u32>,
    /// How to resolve the problem, if the fixed message does not say so.
    pub hint: Option<&'static str>,
    /// The code, if programs have to recognise the reason.
    pub code: Option<RefusalCode>,
    /// The links that block a multicall.
    pub blocked: Option<Box<BlockedChildren>>,
}

impl Refusal {
    /// Creates a refusal without a field list.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            fields: Vec::new(),
            retry_after_s: None,
            hint: None,
            code: None,
            blocked: None,
        }
    }

    /// Rejects the input as a whole.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::Invalid, message)
    }

    /// Rejects a multicall because of its links. Source: rules P.3.7.
    pub fn blocked(blocked: BlockedChildren) -> Self {
        Self {
            code: Some(RefusalCode::MulticallFailed),
            blocked: Some(Box::new(blocked)),
            ..Self::invalid("Multicall validation failed")
        }
    }

    /// Rejects one field of the input.
    pub fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::fields(vec![FieldError::new(field, message)])
    }

    /// Rejects several fields at once; the message is the published `Validation failed`.
    ///
    /// Source: rules P.1.1; decisions D12; decisions D13.
    pub fn fields(fields: Vec<FieldError>) -> Self {
        Self {
            fields,
            ..Self::invalid("Validation failed")
        }
    }

    /// Uses the message of `field` as the main message when that field is wrong. The contract requires this for some
    /// fields.
    ///
    /// Source: decisions D39.
    #[must_use]
    pub fn led_by(mut self, field: &str) -> Self {
        if let Some(error) = self.fields.iter().find(|error| error.field == field) {
            self.message.clone_from(&error.message);
        }
        self
    }

    /// Prefixes the paths of the fields with the list entry that contains them.
    #[must_use]
    pub fn within(mut self, entry: &str) -> Self {
        for error in &mut self.fields {
            error.field = format!("{entry}.{}", error.field);
        }
        self
    }

    /// Adds the number of seconds after which the caller should retry.
    #[must_use]
    pub fn after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    /// Adds a code.
    #[must_use]
    pub fn with_code(mut self, code: Option<RefusalCode>) -> Self {
        self.code = code;
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

/// Collects wrong fields, so that one response lists them all.
#[derive(Debug, Default)]
pub struct Checks(Vec<FieldError>);

impl Checks {
    /// Starts without errors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a wrong field.
    pub fn fail(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.add(FieldError::new(field, message));
    }

    /// Returns the value of a successful check, or records the error under the field.
    pub fn take<T, E: std::fmt::Display>(&mut self, field: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.fail(field, error.to_string())).ok()
    }

    /// Returns the value of another rule, or records every field that it rejected.
    pub fn join<T>(&mut self, result: Result<T, Refusal>) -> Option<T> {
        let add = |refusal: Refusal| refusal.fields.into_iter().for_each(|error| self.add(error));
        result.map_err(add).ok()
    }

    /// Adds an error, unless the same error is already listed for the field.
    fn add(&mut self, error: FieldError) {
        if !self.0.contains(&error) {
            self.0.push(error);
        }
    }

    /// Finishes the checks and returns the checked value. Errors: all wrong fields.
    pub fn finish_with<T>(self, value: Option<T>) -> Result<T, Refusal> {
        self.finish()?;
        value.ok_or_else(|| Refusal::invalid("Validation failed"))
    }

    /// Finishes the checks. Errors: all wrong fields.
    pub fn finish(self) -> Result<(), Refusal> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Refusal::fields(self.0))
        }
    }
}
