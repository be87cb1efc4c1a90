//! Values of the documented format, and the names and numbers that have an automatic effect.

/// Declares an enum whose values have texts. It defines `ALL`, the values in the order of declaration, and `wire`, the
/// text of a value.
macro_rules! words {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $($(#[$about_variant:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$about_variant])* $variant,)+
        }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// Its text.
            pub const fn wire(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }
    };
}

words! {
    /// How the partner of `prs dev` behaves.
    pub enum OffRampBehaviour {
        /// As documented.
        Normal = "normal",
        /// Responds after two seconds.
        Slow = "slow",
        /// Does not respond in time.
        Hang = "hang",
        /// Returns 503.
        Down = "down",
        /// Sends no callbacks.
        Silent = "silent",
        /// The partner returns the contract of the token as deposit address.
        WrongAddress = "wrong_address",
        /// The partner returns another payer than the requested one.
        OtherPayer = "other_payer",
        /// Returns the initial state.
        StaleVersion = "stale_version",
    }
}

words! {
    /// Identity status of a payer.
    pub enum KycStatus {
        /// Nothing was submitted.
        NotStarted = "not_started",
        /// Being checked.
        Pending = "pending",
        /// Verified.
        Approved = "approved",
        /// Rejected permanently.
        Rejected = "rejected",
        /// The payer has to submit something again.
        RetryRequired = "retry_required",
    }
}

words! {
    /// Agreement status of a payer.
    pub enum AgreementStatus {
        /// Never shown.
        NotStarted = "not_started",
        /// Shown.
        Pending = "pending",
        /// Agreed.
        Completed = "completed",
        /// Declined.
        Rejected = "rejected",
        /// Could not be recorded.
        Failed = "failed",
    }
}

words! {
    /// State of a bank account.
    pub enum AccountStatus {
        /// Usable.
        Approved = "approved",
        /// Rejected.
        Failed = "failed",
        /// Being checked.
        Pending = "pending",
    }
}

words! {
    /// Status of a payout to a bank account.
    pub enum OrderStatus {
        /// Begun.
        Initiated = "initiated",
        /// The partner checks the order internally.
        PendingInternalAssessment = "pending_internal_assessment",
        /// Being checked.
        OngoingChecks = "ongoing_checks",
        /// The money is on its way to the bank.
        SendingFiat = "sending_fiat",
        /// Handed to the bank.
        FiatSent = "fiat_sent",
        /// Returned by the bank.
        Bounced = "bounced",
    }
}

words! {
    /// A family name that makes the partner decide about a payer automatically.
    pub enum FamilyName {
        /// Identity approved, agreement completed.
        Approved = "Approved",
        /// Identity rejected.
        Rejected = "Rejected",
        /// Identity to be submitted again.
        Retry = "Retry",
        /// Stays pending permanently.
        Waiting = "Waiting",
        /// Agreement rejected.
        Declined = "Declined",
        /// Agreement that could not be recorded.
        Unrecorded = "Unrecorded",
    }
}

impl FamilyName {
    /// Its effect, in words.
    const fn outcome(self) -> &'static str {
        match self {
            Self::Approved => "identity approved, agreement completed",
            Self::Rejected => "identity rejected",
            Self::Retry => "identity must be submitted again",
            Self::Waiting => "identity stays pending",
            Self::Declined => "identity approved, agreement rejected",
            Self::Unrecorded => "identity approved, agreement failed",
        }
    }
}

words! {
    /// The last four digits of an account number or IBAN that make the partner decide about the account or its orders
    /// automatically.
    pub enum AccountEnding {
        /// Account rejected.
        Failed = "0001",
        /// Stays pending permanently.
        Waiting = "0002",
        /// The bank returns the money.
        Bounced = "0003",
        /// The order is abandoned.
        OrderFailed = "0004",
        /// The order stays in its state and does not advance.
        OrderWaiting = "0005",
        /// Quotes expire soon.
        ShortQuote = "0006",
    }
}

impl AccountEnding {
    /// The ending with these digits.
    pub(super) fn of(digits: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ending| ending.wire() == digits)
    }

    /// Its effect, in words.
    const fn outcome(self) -> &'static str {
        match self {
            Self::Failed => "account failed",
            Self::Waiting => "account stays pending",
            Self::Bounced => "account approved; its orders reach the state sending_fiat, then bounced",
            Self::OrderFailed => "account approved; its orders reach the state ongoing_checks, then failed",
            Self::OrderWaiting => "account approved; its orders stay in the state ongoing_checks",
            Self::ShortQuote => {
                "account approved; its quotes expire after 5 seconds, and orders for payments that arrive later fail"
            }
        }
    }
}

/// Family names and account numbers with an automatic effect, such as `family name Approved`, each with the text of its
/// effect, in display order.
pub fn outcomes() -> Vec<(String, &'static str)> {
    let names = FamilyName::ALL.map(|name| (format!("family name {}", name.wire()), name.outcome()));
    let endings = AccountEnding::ALL.map(|ending| (format!("account ending {}", ending.wire()), ending.outcome()));
    names.into_iter().chain(endings).collect()
}
