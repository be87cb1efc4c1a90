//! What the off-ramp partner of `prs dev` does: the names and numbers that lead somewhere by themselves, and how it fails
//! when it is told to.

use super::wire_text::wire_text;

wire_text! {
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

wire_text! {
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
    pub const fn outcome(self) -> &'static str {
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

wire_text! {
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
    /// Where it leads to, in words.
    pub const fn outcome(self) -> &'static str {
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
