//! Direction of a secure payment.

use crate::domain::wire_text::wire_text;

wire_text! {
    /// Direction of a payment, as its creator sees it. Source: rules P.7.1.
    pub enum PaymentFlow {
        /// The creator is paid.
        GetPaid = "get_paid",
        /// The creator pays.
        Pay = "pay",
    }
}
