//! Recorded payments.

use super::{
    address::Address,
    ids::{ClientRowId, PaymentId, PlatformId, RequestRowId, ScheduleId},
    ledger::{Credit, SettlementUnits},
    network::Network,
    orchestrator_fees::OrchestratorFees,
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
    /// Position of the event among all events of its transaction.
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
    /// Account that paid.
    pub payer: Option<Address>,
    /// Account behind the payer.
    pub payer_eoa: Option<Address>,
    /// Token units that arrived.
    pub units: U256,
    /// Token units that the payee gets according to the event.
    pub event_units: U256,
    /// Token units of the fee.
    pub fee_units: U256,
    /// Receiver of the fee.
    pub fee_address: Option<Address>,
    /// Amount of the request that the payment settled.
    pub credited: SettlementUnits,
    /// The applied off-chain rate; `None` without a conversion, and for a conversion on chain.
    pub applied: Option<AppliedRate>,
    /// Whether a quote determined the amount.
    pub is_quoted: bool,
    /// How much of the required fees is still unpaid after the payment.
    pub fee_shortfall: Option<SettlementUnits>,
    /// Fees that the transaction paid separately from the payment, in token units.
    pub further_fees: Vec<FeeLeg>,
    /// The part of all fees of the payment that went to an orchestrator.
    pub orchestrator_fees: OrchestratorFees,
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
    /// When and why the payment was reversed; `None` when it is not reversed.
    pub reversal: Option<Reversal>,
    /// Whether an event reported the payment as confirmed or partial, and no later event reversed this report.
    pub is_told: bool,
    /// Recurring payment that executed the payment.
    pub schedule: Option<ScheduleId>,
    /// Whether the payer of a link was allowed to pay it; `None` when anyone may pay.
    pub payer_access: Option<PayerAccess>,
    /// Where the payer paid.
    pub source: PaymentSource,
}

/// Where the payer of a payment paid. It equals network, transaction and payer of a payment on one network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaymentSource {
    /// Network.
    pub network: Network,
    /// Transaction.
    pub tx_hash: B256,
    /// Account that paid.
    pub payer: Option<Address>,
}

impl PaymentRecord {
    /// Transaction of the payment, and position among all events of the transaction.
    pub fn place(&self) -> (B256, u32) {
        (self.tx_hash, self.position)
    }

    /// The payments as entries of a ledger.
    pub fn credits(payments: &[Self]) -> Vec<Credit> {
        let credit = |payment: &Self| Credit {
            units: payment.credited,
            tx_hash: payment.tx_hash,
            is_told: payment.is_told,
            is_quoted: payment.is_quoted,
            orchestrator_fees: payment.orchestrator_fees,
        };
        payments.iter().map(credit).collect()
    }

    /// The payment as it was settled. The record does not contain the invoice amounts of a conversion event, so the
    /// result lacks them.
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
            orchestrator_fees: self.orchestrator_fees,
            payer_access: self.payer_access,
            is_execution: self.schedule.is_some(),
            at: self.paid_at,
        }
    }

    /// The payment without the payer's wallet and its check results. Source: decisions D32.
    #[must_use]
    pub fn without_persons(self) -> Self {
        Self {
            payer: None,
            payer_eoa: None,
            payer_access: None,
            source: PaymentSource {
                payer: None,
                ..self.source
            },
            ..self
        }
    }
}

/// Reversal of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reversal {
    /// When.
    pub at: DateTime<Utc>,
    /// Why.
    pub reason: ReversalReason,
}
