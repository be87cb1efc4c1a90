//! A bank account: which state follows which. It stays pending until its payer is approved; what the partner tells
//! meanwhile is kept and counts then. Source: rules S.6.

use crate::domain::event::{KycStatus, PaymentDetailStatus};

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
    /// again is another one.
    #[must_use]
    pub fn hear(self, told: PaymentDetailStatus, kyc: KycStatus) -> Self {
        let is_open = self.status == PaymentDetailStatus::Pending && self.told.is_none();
        if !is_open || told == PaymentDetailStatus::Pending {
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
        self.status == PaymentDetailStatus::Pending && self.told.is_none()
    }
}
