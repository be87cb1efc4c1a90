//! A payment as it is recorded.

use super::{
    address::Address,
    ids::{ClientRowId, PaymentId, PlatformId, RequestRowId, ScheduleId},
    ledger::{Credit, SettlementUnits},
    network::Network,
    paying::charge::FeeLeg,
    payment::{Observation, PayerAccess, PaymentKind, ProvenTransfer, ReversalReason, Settled},
    rates::AppliedRate,
    reference::PaymentReference,
};
use alloy::primitives::{B256, U256};
use chrono::{DateTime, Utc};

/// A recorded payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentRecord {
    /// Row.
    pub id: PaymentId,
    /// Tenant.
    pub platform: PlatformId,
    /// Client ID of the request.
    pub client: Option<ClientRowId>,
    /// Row of the request.
    pub request: RequestRowId,
    /// Public id of the request.
    pub request_id: String,
    /// Network.
    pub network: Network,
    /// Transaction.
    pub tx_hash: B256,
    /// Position among all events of the transaction.
    pub position: u32,
    /// Height of the block.
    pub block_number: u64,
    /// Hash of the block.
    pub block_hash: B256,
    /// Index of the event in its block.
    pub log_index: u64,
    /// Contract that emitted the event.
    pub proxy: Address,
    /// Token; `None` for the native coin.
    pub token: Option<Address>,
    /// Receiver.
    pub payee: Address,
    /// Where the money came from.
    pub payer: Option<Address>,
    /// Account behind the payer.
    pub payer_eoa: Option<Address>,
    /// Token units that arrived.
    pub units: U256,
    /// Token units that the event names.
    pub event_units: U256,
    /// Token units of the fee.
    pub fee_units: U256,
    /// Receiver of the fee.
    pub fee_address: Option<Address>,
    /// How much of the request it settled.
    pub credited: SettlementUnits,
    /// By which rate, where it was not the chain that converted.
    pub applied: Option<AppliedRate>,
    /// Whether that is what a quote promised.
    pub is_quoted: bool,
    /// How much of the fees on top is missing.
    pub fee_shortfall: Option<SettlementUnits>,
    /// Fees that its transaction paid to further receivers, in token units.
    pub further_fees: Vec<FeeLeg>,
    /// Kind.
    pub kind: PaymentKind,
    /// Currency id of the invoice.
    pub invoice_currency: String,
    /// Currency id of the payment.
    pub payment_currency: String,
    /// Merchant reference of the request.
    pub merchant_reference: Option<String>,
    /// Payment reference.
    pub reference: PaymentReference,
    /// Time of the block.
    pub paid_at: DateTime<Utc>,
    /// When it was recorded.
    pub created_at: DateTime<Utc>,
    /// When and why it was taken back, while it is.
    pub reversal: Option<Reversal>,
    /// Whether it was told as confirmed or partial, and that was not taken back.
    pub is_told: bool,
    /// Recurring payment that executed it.
    pub schedule: Option<ScheduleId>,
    /// Whether who paid a link might have; `None` where everybody might.
    pub payer_access: Option<PayerAccess>,
}

impl PaymentRecord {
    /// Its transaction, and its position among all events of that.
    pub fn place(&self) -> (B256, u32) {
        (self.tx_hash, self.position)
    }

    /// Payments as a ledger counts them.
    pub fn credits(payments: &[Self]) -> Vec<Credit> {
        let credit = |payment: &Self| Credit {
            units: payment.credited,
            tx_hash: payment.tx_hash,
            is_told: payment.is_told,
            is_quoted: payment.is_quoted,
        };
        payments.iter().map(credit).collect()
    }

    /// The payment as it was settled. What a conversion proxy said about the invoice side is not kept; how much it settled is.
    pub fn settled(&self) -> Settled {
        Settled {
            observed: Observation {
                network: self.network,
                tx_hash: self.tx_hash,
                position: self.position,
                block_number: self.block_number,
                block_hash: self.block_hash,
                log_index: self.log_index,
                proxy: self.proxy,
                reference_topic: self.reference.topic(),
                token: self.token,
                payee: self.payee,
                units: self.event_units,
                fee_units: self.fee_units,
                fee_address: self.fee_address,
                conversion: None,
            },
            proven: ProvenTransfer {
                received_units: self.units,
                payer: self.payer,
                payer_eoa: self.payer_eoa,
            },
            credited: self.credited,
            applied: self.applied,
            is_quoted: self.is_quoted,
            fee_shortfall: self.fee_shortfall,
            further_fees: self.further_fees.clone(),
            payer_access: self.payer_access,
            is_execution: self.schedule.is_some(),
            at: self.paid_at,
        }
    }

    /// The payment without whose wallet paid and what was found about it. Source: decisions D32.
    #[must_use]
    pub fn without_persons(self) -> Self {
        Self {
            payer: None,
            payer_eoa: None,
            payer_access: None,
            ..self
        }
    }
}

/// That a payment was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reversal {
    /// When.
    pub at: DateTime<Utc>,
    /// Why.
    pub reason: ReversalReason,
}
