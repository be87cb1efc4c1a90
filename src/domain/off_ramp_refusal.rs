//! Why the off-ramp partner refuses a call, and the message for the caller.

use super::wire_text::wire_text;

wire_text! {
    /// The partner's reason. Source: ADR-0022.
    pub enum OffRampRefusal {
        /// The payer data is invalid.
        InvalidPerson = "invalid_person",
        /// The bank account data is invalid.
        InvalidAccount = "invalid_account",
        /// The partner does not support the country, currency or payment method.
        Unsupported = "unsupported",
        /// The payer may not pay.
        NotCompliant = "not_compliant",
        /// The account cannot be paid.
        AccountNotApproved = "account_not_approved",
        /// The amount is not supported.
        AmountOutOfRange = "amount_out_of_range",
        /// The quote has expired.
        QuoteEnded = "quote_ended",
        /// The state of the record does not allow the call.
        WrongState = "wrong_state",
        /// Anything else.
        Refused = "refused",
    }
}

impl OffRampRefusal {
    /// Reason and possible action, as the second half of a sentence.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::InvalidPerson => "the payer data is invalid; correct it and send it again",
            Self::InvalidAccount => "the bank account data is invalid; correct it and send it again",
            Self::Unsupported => {
                "the partner does not support this country, currency or payment method; use another one"
            }
            Self::NotCompliant => "the payer must first verify their identity and agree to the terms at the partner",
            Self::AccountNotApproved => "the bank account is not approved at the partner",
            Self::AmountOutOfRange => "the partner does not pay out this amount; use a smaller or a larger amount",
            Self::QuoteEnded => "the quote has expired; request a new quote",
            Self::WrongState => "the state of the record at the partner does not allow this call",
            Self::Refused => "the partner gave no reason; the operator of this service can request the reason",
        }
    }
}
