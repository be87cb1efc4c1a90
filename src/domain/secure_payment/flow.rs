//! Which way the money of a secure payment goes.

use crate::domain::wire_text::wire_text;

wire_text! {
    /// Which way the money goes, as its creator sees it. Source: rules P.7.1.
    pub enum PaymentFlow {
        /// The creator is paid.
        GetPaid = "get_paid",
        /// The creator pays.
        Pay = "pay",
    }
}
