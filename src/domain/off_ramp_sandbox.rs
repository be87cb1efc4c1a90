//! How the off-ramp partner of `prs dev` fails on demand.

use super::wire_text::wire_text;

wire_text! {
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
        /// Returns the contract of the token as deposit address.
        WrongAddress = "wrong_address",
        /// Returns another payer than the requested one.
        OtherPayer = "other_payer",
        /// Returns the initial state.
        StaleVersion = "stale_version",
    }
}
