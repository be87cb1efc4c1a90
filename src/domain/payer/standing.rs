//! Identity and terms of a payer, and the state of a bank account: which state follows which.
//!
//! The partner tells states, not what happened, and its messages are lost and overtake each other. So what it may tell next
//! is every state that can be reached from the known one, in one step or several. A bank account stays pending until its
//! payer is approved; what the partner tells meanwhile is kept and counts then. Source: rules S.5; rules S.6.

use crate::domain::{
    event::{AgreementStatus, KycStatus, PaymentDetailStatus},
    refusal::Refusal,
};

/// Identity and terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Identity.
    pub kyc: KycStatus,
    /// Terms.
    pub agreement: AgreementStatus,
}

impl Standing {
    /// Of a payer who has handed in nothing.
    pub const NEW: Self = Self {
        kyc: KycStatus::NotStarted,
        agreement: AgreementStatus::NotStarted,
    };

    /// Whether the payer may pay. Source: rules S.5.
    pub fn is_compliant(self) -> bool {
        self.kyc == KycStatus::Approved && self.agreement == AgreementStatus::Completed
    }

    /// What is known after the partner told something. A part that cannot follow stays as it is.
    #[must_use]
    pub fn hear(self, told: Self) -> Self {
        Self {
            kyc: if can_become(self.kyc, told.kyc) {
                told.kyc
            } else {
                self.kyc
            },
            agreement: match can_be_agreed(self.agreement, told.agreement) {
                true => told.agreement,
                false => self.agreement,
            },
        }
    }

    /// What is known after the tenant registered the payer again: one who was rejected begins anew, as the partner says.
    #[must_use]
    pub fn register(self, told: Self) -> Self {
        match self.kyc {
            KycStatus::Rejected if told.kyc != KycStatus::Rejected => told,
            _ => self.hear(told),
        }
    }

    /// Whether the form may change: what was proven stays as it was proven.
    pub fn takes_data(self) -> bool {
        self.kyc != KycStatus::Approved
    }

    /// Whether the tenant may say that the payer agreed; `false` when that is known. Errors: the agreement was declined or
    /// could not be recorded (400).
    pub fn may_agree(self) -> Result<bool, Refusal> {
        match self.agreement {
            AgreementStatus::NotStarted | AgreementStatus::Pending => Ok(true),
            AgreementStatus::Completed => Ok(false),
            AgreementStatus::Rejected | AgreementStatus::Failed => Err(Refusal::invalid(format!(
                "The agreement is {}: it can be completed only while it is not_started or pending; a payer who is erased and \
                 registered again begins anew",
                self.agreement.wire()
            ))),
        }
    }
}

/// Whether the partner may tell this identity next.
pub fn can_become(from: KycStatus, to: KycStatus) -> bool {
    use KycStatus::{Approved, NotStarted, Pending, Rejected, RetryRequired};
    match from {
        NotStarted | Pending | RetryRequired => to != NotStarted,
        Approved => to == Rejected,
        Rejected => false,
    }
}

/// Whether the partner may tell these terms next.
pub fn can_be_agreed(from: AgreementStatus, to: AgreementStatus) -> bool {
    use AgreementStatus::{Completed, Failed, NotStarted, Pending, Rejected};
    match from {
        NotStarted | Pending | Failed => to != NotStarted,
        Completed | Rejected => false,
    }
}

/// State of a bank account, and what the partner told that does not count yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountStanding {
    /// State.
    pub status: PaymentDetailStatus,
    /// What counts once the payer is approved.
    pub told: Option<PaymentDetailStatus>,
}

impl AccountStanding {
    /// Of an account that was handed in.
    pub const NEW: Self = Self {
        status: PaymentDetailStatus::Pending,
        told: None,
    };

    /// What is known after the partner told something. What was approved or failed stays so: the same account handed in
    /// again is another one. An approval that does not count yet may still become a failure.
    #[must_use]
    pub fn hear(self, told: PaymentDetailStatus, kyc: KycStatus) -> Self {
        if !self.is_open() || told == PaymentDetailStatus::Pending {
            return self.release(kyc);
        }
        let heard = Self {
            told: Some(told),
            ..self
        };
        heard.release(kyc)
    }

    /// What is known while the identity of the payer is this: what was kept counts once it is approved.
    #[must_use]
    pub fn release(self, kyc: KycStatus) -> Self {
        match self.told {
            Some(status) if kyc == KycStatus::Approved => Self { status, told: None },
            _ => self,
        }
    }

    /// Whether the partner still has something to say.
    pub fn is_open(self) -> bool {
        self.status == PaymentDetailStatus::Pending && self.told != Some(PaymentDetailStatus::Failed)
    }
}
