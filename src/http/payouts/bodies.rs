//! Bodies of the operations on payouts.

use super::permit::RecurringCreated;
use crate::{
    domain::{
        address::Address,
        amount::Percent,
        currency::Catalogue,
        refusal::Refusal,
        request::plan::{NewRequest, invoice_currency, payment_currency},
        schedule::plan::RecurrenceInput,
    },
    flows::{payouts::create::PayoutRequest, schedules::create::NewSchedule},
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

/// Recurrence of a payout.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PayoutRecurrence {
    /// First due day, today or later, or a time with any UTC offset
    pub start_date: StartText,
    /// Period
    pub frequency: Frequency,
    /// Number of payments. Example: `12`
    #[oai(validator(minimum(value = "2"), maximum(value = "255")))]
    pub total_payments: u32,
    /// Wallet that pays; must differ from `payee`
    pub payer: WalletText,
}

/// A new payout.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreatePayoutBody {
    /// Wallet that receives the payment, on the network of `paymentCurrency`
    pub payee: WalletText,
    /// Amount in the invoice currency, in human units
    pub amount: AskedAmountText,
    /// Currency of `amount`
    pub invoice_currency: CurrencyIdText,
    /// Currency that the payer pays in
    pub payment_currency: CurrencyIdText,
    /// Fee on top of the amount, 0 to 100; needs `feeAddress`
    pub fee_percentage: Option<PercentText>,
    /// Receiver of the fee; needs `feePercentage`
    pub fee_address: Option<WalletText>,
    /// Makes the payout recurring; its payments start once the payer has signed it
    pub recurrence: Option<PayoutRecurrence>,
    /// Wallet that pays; its balance and allowance are looked up
    pub payer_wallet: Option<WalletText>,
    /// Alias of `payerWallet`
    pub payer_address: Option<WalletText>,
    /// Customer, for receipts and search
    pub customer_info: Option<CustomerInfo>,
    /// Your own reference; a filter of payment search
    pub reference: Option<MerchantReference>,
}

impl Example for CreatePayoutBody {
    /// A typical example body. It works unchanged on a service with Sepolia enabled.
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

/// A single payout, or a recurring one.
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
    /// Id of the request, used in all other operations
    pub request_id: RequestIdText,
    /// Reference that payments of the request carry on chain
    pub payment_reference: ReferenceText,
    /// Approvals first, payment last
    #[oai(validator(min_items = 1, max_items = 100))]
    pub transactions: Vec<Transaction>,
    /// Metadata of the transactions
    pub metadata: CalldataMetadata,
}

impl CreatePayoutBody {
    /// Parses the values that can be checked without the request itself. Errors: every invalid field.
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
        let payout = PayoutRequest {
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
        // An invalid recurrence was recorded and has ended the checks.
        Ok(match repetition.flatten() {
            Some(repetition) => PayoutInput::Repeatedly(NewSchedule { payout, repetition }),
            None => PayoutInput::Once(payout),
        })
    }
}

/// The payout that a body describes.
pub(super) enum PayoutInput {
    /// A payment.
    Once(PayoutRequest),
    /// A recurring payment.
    Repeatedly(NewSchedule),
}

impl PayoutRecurrence {
    /// Parses the values. `payer` is the wallet that `payerWallet` or `payerAddress` of the body names, with the name
    /// of the member.
    fn read(&self, payer: Option<(&'static str, Address)>, checks: &mut Checks) -> Option<RecurrenceInput> {
        let start = checks.take("recurrence.startDate", self.start_date.value());
        let wallet = checks.take("recurrence.payer", self.payer.value());
        Some(RecurrenceInput {
            start: start?,
            frequency: self.frequency,
            total_payments: self.total_payments,
            payer: wallet?,
            other_payer: payer,
        })
    }
}

/// The wallet of the payer, with the name of the member that has it: `payerWallet` or `payerAddress`.
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
                "must be the same wallet as payerWallet, or absent: both name the payer",
            );
            None
        }
        (Some(wallet), _) => Some(("payerWallet", wallet)),
        (None, alias) => alias.map(|alias| ("payerAddress", alias)),
    }
}

/// The fee, if both its members are present.
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
