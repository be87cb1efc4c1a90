//! Why the off-ramp partner refuses what it was asked, and what whoever asked is told of it.

use super::wire_text::wire_text;

wire_text! {
    /// The partner's word for it. Source: ADR-0022.
    pub enum OffRampRefusal {
        /// The form of the payer.
        InvalidPerson = "invalid_person",
        /// The form of the bank account.
        InvalidAccount = "invalid_account",
        /// What it does not offer.
        Unsupported = "unsupported",
        /// The payer may not pay.
        NotCompliant = "not_compliant",
        /// The account may not be paid.
        AccountNotApproved = "account_not_approved",
        /// The amount.
        AmountOutOfRange = "amount_out_of_range",
        /// The quote is over.
        QuoteEnded = "quote_ended",
        /// The record is in another state.
        WrongState = "wrong_state",
        /// Anything else.
        Refused = "refused",
    }
}

impl OffRampRefusal {
    /// What is wrong and what can be done, as the end of a sentence.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::InvalidPerson => "something in the form of the payer is wrong; correct it and send it again",
            Self::InvalidAccount => "something in the form of the bank account is wrong; correct it and send it again",
            Self::Unsupported => "it does not serve this country, currency or way of payment; use another one",
            Self::NotCompliant => "the payer has not proven the identity or not agreed to the terms there",
            Self::AccountNotApproved => "the bank account is not approved there",
            Self::AmountOutOfRange => "it pays out no such amount; use a smaller or a larger one",
            Self::QuoteEnded => "its quote has ended; ask again",
            Self::WrongState => "the state of the record there does not allow it",
            Self::Refused => "it gives no reason; the operator of this service can ask it",
        }
    }
}
