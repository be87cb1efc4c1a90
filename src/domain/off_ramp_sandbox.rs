//! How the off-ramp partner of `prs dev` fails when it is told to.

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
