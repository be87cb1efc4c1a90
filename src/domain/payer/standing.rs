//! Identity and agreement of a payer, and the state of a bank account: which state can follow which.
//!
//! The partner reports states, not transitions, and its messages can be lost or reordered. So the partner may report
//! any state that can be reached from the known state in one or more steps.
//!
//! A bank account stays pending until its payer is approved. Earlier news about the account is stored and takes effect
//! with the approval. Source: rules S.5; rules S.6.

use crate::domain::{
    event::{AgreementStatus, KycStatus, PaymentDetailStatus},
    refusal::Refusal,
};

/// Identity and agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayerCompliance {
    /// Identity status.
    pub kyc: KycStatus,
    /// Agreement status.
    pub agreement: AgreementStatus,
}

impl PayerCompliance {
    /// Compliance of a payer who has submitted nothing.
    pub const NEW: Self = Self {
        kyc: KycStatus::NotStarted,
        agreement: AgreementStatus::NotStarted,
    };

    /// Whether the payer may pay. Source: rules S.5.
    pub fn is_compliant(self) -> bool {
        self.kyc == KycStatus::Approved && self.agreement == AgreementStatus::Completed
    }

    /// The status after news of the partner. A reported identity status that cannot follow the known one is ignored.
    /// The agreement status is handled in the same way, separately.
    #[must_use]
    pub fn hear(self, told: Self) -> Self {
        Self {
            kyc: if can_become(self.kyc, told.kyc) {
                told.kyc
            } else {
                self.kyc
            },
            agreement: if can_be_agreed(self.agreement, told.agreement) {
                told.agreement
            } else {
                self.agreement
            },
        }
    }

    /// The status after the tenant registered the payer again. A rejected payer starts again with the status that the
    /// partner reports.
    #[must_use]
    pub fn register(self, told: Self) -> Self {
        match self.kyc {
            KycStatus::Rejected if told.kyc != KycStatus::Rejected => told,
            _ => self.hear(told),
        }
    }

    /// Whether the personal data may change. Verified data must stay unchanged.
    pub fn takes_data(self) -> bool {
        self.kyc != KycStatus::Approved
    }

    /// Whether the tenant may report that the payer agreed; `false` when the agreement is already completed. Errors:
    /// the agreement was declined or could not be recorded (400).
    pub fn may_agree(self) -> Result<bool, Refusal> {
        match self.agreement {
            AgreementStatus::NotStarted | AgreementStatus::Pending => Ok(true),
            AgreementStatus::Completed => Ok(false),
            AgreementStatus::Rejected | AgreementStatus::Failed => Err(Refusal::invalid(format!(
                "The agreement is {}: it can be completed only while it is not_started or pending; to start again, erase the \
                 payer and register it again",
                self.agreement.wire()
            ))),
        }
    }
}

/// Whether the partner may report this identity status next.
pub fn can_become(from: KycStatus, to: KycStatus) -> bool {
    use KycStatus::{Approved, NotStarted, Pending, Rejected, RetryRequired};
    match from {
        NotStarted | Pending | RetryRequired => to != NotStarted,
        Approved => to == Rejected,
        Rejected => false,
    }
}

/// Whether the partner may report this agreement status next.
pub fn can_be_agreed(from: AgreementStatus, to: AgreementStatus) -> bool {
    use AgreementStatus::{Completed, Failed, NotStarted, Pending, Rejected};
    match from {
        NotStarted | Pending | Failed => to != NotStarted,
        Completed | Rejected => false,
    }
}

/// State of a bank account, and stored news of the partner that takes effect once the payer is approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountStanding {
    /// State.
    pub status: PaymentDetailStatus,
    /// State that the partner reported and that takes effect once the payer is approved.
    pub told: Option<PaymentDetailStatus>,
}

impl AccountStanding {
    /// Standing of a newly submitted account.
    pub const NEW: Self = Self {
        status: PaymentDetailStatus::Pending,
        told: None,
    };

    /// The state after news of the partner. Approved and failed are final: an account that is submitted again gets a
    /// new record. While the payer is not approved, a failure may still replace a stored approval of the account.
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

    /// The state after the identity status of the payer became `kyc`. Stored news takes effect once the identity is
    /// approved.
    #[must_use]
    pub fn release(self, kyc: KycStatus) -> Self {
        match self.told {
            Some(status) if kyc == KycStatus::Approved => Self { status, told: None },
            _ => self,
        }
    }

    /// Whether more news of the partner is expected.
    pub fn is_open(self) -> bool {
        self.status == PaymentDetailStatus::Pending && self.told != Some(PaymentDetailStatus::Failed)
    }
}
