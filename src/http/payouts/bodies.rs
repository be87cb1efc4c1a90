//! Bodies of the operations on payouts.

use super::permit::RecurringCreated;
use crate::{
    domain::{
        address::Address,
        amount::Percent,
        currency::Catalogue,
        refusal::Refusal,
        request::plan::{NewRequest, invoice_currency, payment_currency},
        schedule::plan::Repetition,
    },
    flows::{payouts::create::NewPayout, schedules::create::NewSchedule},
    http::{
        forms::{
            calldata::{CalldataMetadata, Transaction},
            payment::CustomerInfo,
            recurrence::{Frequency, StartText},
        },
        operation::*,
    },
};
use poem_openapi::Union;

/// Repetition of a payout.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PayoutRecurrence {
    /// First due day, today or later, or a time at any offset from UTC
    pub start_date: StartText,
    /// Period
    pub frequency: Frequency,
    /// Number of payments. Example: `12`
    #[oai(validator(minimum(value = "2"), maximum(value = "255")))]
    pub total_payments: u32,
    /// Wallet that pays; another one than `payee`
    pub payer: WalletText,
}

/// Whom to pay, and how much.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreatePayoutBody {
    /// Wallet that is paid, on the network of `paymentCurrency`
    pub payee: WalletText,
    /// Amount in the invoice currency, human units
    pub amount: AskedAmountText,
    /// Currency that the amount is written in
    pub invoice_currency: CurrencyIdText,
    /// Currency that the payer pays in
    pub payment_currency: CurrencyIdText,
    /// Fee on top of the amount, 0 to 100; needs `feeAddress`
    pub fee_percentage: Option<PercentText>,
    /// Receiver of the fee; needs `feePercentage`
    pub fee_address: Option<WalletText>,
    /// Makes it a recurring payout, which begins once its payer has signed it
    pub recurrence: Option<PayoutRecurrence>,
    /// Wallet that pays: its balance and its allowance are looked up
    pub payer_wallet: Option<WalletText>,
    /// Another name of `payerWallet`
    pub payer_address: Option<WalletText>,
    /// Customer, for receipts and search
    pub customer_info: Option<CustomerInfo>,
    /// Your own reference, found again by payment search
    pub reference: Option<MerchantReference>,
}

impl Example for CreatePayoutBody {
    /// What most callers send; it works as it stands on a service with Sepolia.
    fn example() -> Self {
        Self {
            payee: WalletText::example(),
            amount: AskedAmountText::example(),
            invoice_currency: CurrencyIdText::example(),
            payment_currency: CurrencyIdText::example(),
            fee_percentage: None,
            fee_address: None,
            recurrence: None,
            payer_wallet: None,
            payer_address: None,
            customer_info: None,
            reference: Some(MerchantReference::example()),
        }
    }
}

/// A payout to sign at once, or one that repeats.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each call, and it is written at once"
)]
#[derive(Debug, Clone, Union)]
pub enum PayoutAnswer {
    /// A single payment
    Single(PayoutCreated),
    /// A recurring payment
    Recurring(RecurringCreated),
}

/// A new request and the transactions that pay it.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PayoutCreated {
    /// Id of the request, for all other operations
    pub request_id: RequestIdText,
    /// Reference that its payments carry on chain
    pub payment_reference: ReferenceText,
    /// Approvals first, payment last
    #[oai(validator(min_items = 1, max_items = 100))]
    pub transactions: Vec<Transaction>,
    /// What is known about them
    pub metadata: CalldataMetadata,
}

impl CreatePayoutBody {
    /// Reads the values, as far as they can be judged without the request that they make. Errors: every wrong field.
    pub(super) fn read(self, catalogue: &Catalogue) -> Result<PayoutInput, Refusal> {
        let mut checks = Checks::new();
        let amount = checks.take("amount", self.amount.value());
        let invoice = invoice_currency(catalogue, self.invoice_currency.as_str());
        let invoice = checks.take("invoiceCurrency", invoice);
        let payment = payment_currency(catalogue, self.payment_currency.as_str());
        let payment = checks.take("paymentCurrency", payment);
        let payee = checks.take("payee", self.payee.value());
        let payer = payer(self.payer_wallet, self.payer_address, &mut checks);
        let fee = fee(self.fee_percentage, self.fee_address, &mut checks);
        let repetition = self.recurrence.map(|recurrence| recurrence.read(payer, &mut checks));
        let (((amount, invoice), payment), payee) = checks.finish_with(amount.zip(invoice).zip(payment).zip(payee))?;
        let payout = NewPayout {
            request: NewRequest {
                payee: Some(payee),
                payer: None,
                amount,
                invoice,
                payment,
                recurrence: None,
                is_crypto_to_fiat: false,
                customer: self.customer_info.map(Into::into),
                merchant_reference: self.reference.map(String::from),
                original_request_id: None,
                original_request_reference: None,
            },
            payer,
            fee,
        };
        // A repetition that could not be read was noted, and ended the checks.
        Ok(match repetition.flatten() {
            Some(repetition) => PayoutInput::Repeatedly(NewSchedule { payout, repetition }),
            None => PayoutInput::Once(payout),
        })
    }
}

/// What a body asks for.
pub(super) enum PayoutInput {
    /// A payment.
    Once(NewPayout),
    /// A recurring payment.
    Repeatedly(NewSchedule),
}

impl PayoutRecurrence {
    /// Reads the values; `payer` is who pays by another member of the body.
    fn read(&self, payer: Option<(&'static str, Address)>, checks: &mut Checks) -> Option<Repetition> {
        let start = checks.take("recurrence.startDate", self.start_date.value());
        let wallet = checks.take("recurrence.payer", self.payer.value());
        Some(Repetition {
            start: start?,
            frequency: self.frequency,
            total_payments: self.total_payments,
            payer: wallet?,
            other_payer: payer,
        })
    }
}

/// Who pays, and under which name.
fn payer(
    wallet: Option<WalletText>,
    alias: Option<WalletText>,
    checks: &mut Checks,
) -> Option<(&'static str, Address)> {
    let wallet = wallet.and_then(|text| checks.take("payerWallet", text.value()));
    let alias = alias.and_then(|text| checks.take("payerAddress", text.value()));
    match (wallet, alias) {
        (Some(wallet), Some(alias)) if wallet != alias => {
            checks.fail(
                "payerAddress",
                "must be the same wallet as payerWallet, or absent: both name who pays",
            );
            None
        }
        (Some(wallet), _) => Some(("payerWallet", wallet)),
        (None, alias) => alias.map(|alias| ("payerAddress", alias)),
    }
}

/// Both halves of a fee, or neither.
pub(super) fn fee(
    percent: Option<PercentText>,
    receiver: Option<WalletText>,
    checks: &mut Checks,
) -> Option<(Percent, Address)> {
    match (&percent, &receiver) {
        (Some(_), None) => checks.fail("feeAddress", "is required when feePercentage is set"),
        (None, Some(_)) => checks.fail("feePercentage", "is required when feeAddress is set"),
        _ => {}
    }
    let percent = percent.and_then(|text| checks.take("feePercentage", text.value()));
    let receiver = receiver.and_then(|text| checks.take("feeAddress", text.value()));
    percent.zip(receiver)
}
