//! Words of the documented shapes, and those that lead somewhere by themselves.

/// Declares an enum whose values stand for texts: `ALL` in the order of declaration, and `wire`.
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
        /// As its document says.
        Normal = "normal",
        /// Answers after two seconds.
        Slow = "slow",
        /// Does not answer in time.
        Hang = "hang",
        /// Answers 503.
        Down = "down",
        /// Tells nothing by itself: its callbacks are lost.
        Silent = "silent",
        /// Gives the contract of the token as deposit address.
        WrongAddress = "wrong_address",
        /// Answers about another payer than was asked for.
        OtherPayer = "other_payer",
        /// Answers with what was known at first.
        StaleVersion = "stale_version",
    }
}

words! {
    /// What is known about the identity of a payer.
    pub enum KycStatus {
        /// Nothing was handed in.
        NotStarted = "not_started",
        /// Being checked.
        Pending = "pending",
        /// Proven.
        Approved = "approved",
        /// Refused for good.
        Rejected = "rejected",
        /// Something has to be handed in again.
        RetryRequired = "retry_required",
    }
}

words! {
    /// Whether a payer agreed to the terms.
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
        /// Refused.
        Failed = "failed",
        /// Being checked.
        Pending = "pending",
    }
}

words! {
    /// How far a payout to a bank account is.
    pub enum OrderStatus {
        /// Begun.
        Initiated = "initiated",
        /// Waits for the provider.
        PendingInternalAssessment = "pending_internal_assessment",
        /// Being checked.
        OngoingChecks = "ongoing_checks",
        /// On its way to the bank.
        SendingFiat = "sending_fiat",
        /// Handed to the bank.
        FiatSent = "fiat_sent",
        /// Came back from the bank.
        Bounced = "bounced",
    }
}

words! {
    /// A family name that leads somewhere by itself.
    pub enum FamilyName {
        /// Identity and terms.
        Approved = "Approved",
        /// No identity.
        Rejected = "Rejected",
        /// Once more.
        Retry = "Retry",
        /// Nothing for good.
        Waiting = "Waiting",
        /// No terms.
        Declined = "Declined",
        /// Terms that could not be recorded.
        Unrecorded = "Unrecorded",
    }
}

impl FamilyName {
    /// Where it leads to, in words.
    const fn outcome(self) -> &'static str {
        match self {
            Self::Approved => "identity approved, agreement completed",
            Self::Rejected => "identity rejected",
            Self::Retry => "identity has to be handed in again",
            Self::Waiting => "identity stays pending",
            Self::Declined => "identity approved, agreement rejected",
            Self::Unrecorded => "identity approved, agreement failed",
        }
    }
}

words! {
    /// The last four digits of an account number or IBAN that lead somewhere by themselves.
    pub enum AccountEnding {
        /// No account.
        Failed = "0001",
        /// Nothing for good.
        Waiting = "0002",
        /// The bank sends the money back.
        Bounced = "0003",
        /// The order is given up.
        OrderFailed = "0004",
        /// The order stays where it is.
        OrderWaiting = "0005",
        /// Quotes end soon.
        ShortQuote = "0006",
    }
}

impl AccountEnding {
    /// The one with these digits.
    pub(super) fn of(digits: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ending| ending.wire() == digits)
    }

    /// Where it leads to, in words.
    const fn outcome(self) -> &'static str {
        match self {
            Self::Failed => "account failed",
            Self::Waiting => "account stays pending",
            Self::Bounced => "account approved; its orders bounce after sending_fiat",
            Self::OrderFailed => "account approved; its orders fail after ongoing_checks",
            Self::OrderWaiting => "account approved; its orders stay at ongoing_checks",
            Self::ShortQuote => "account approved; its quotes end after 5 seconds, and orders of later payments fail",
        }
    }
}

/// What leads where: `family name Approved` and the like with the outcome, in the order in which it is shown.
pub fn outcomes() -> Vec<(String, &'static str)> {
    let names = FamilyName::ALL.map(|name| (format!("family name {}", name.wire()), name.outcome()));
    let endings = AccountEnding::ALL.map(|ending| (format!("account ending {}", ending.wire()), ending.outcome()));
    names.into_iter().chain(endings).collect()
}
