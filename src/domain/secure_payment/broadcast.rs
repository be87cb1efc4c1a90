//! Transactions that a wallet has signed and this service broadcasts: the checks before it, and what nodes respond.
//!
//! The encoded transaction alone decides, because its hash is what the wallet signed. The JSON form that is sent beside
//! it has to say the same.

mod stated;

use super::super::{
    address::Address,
    paying::{
        PaymentTransaction, PaymentTransactions,
        prepared::{FeeLimits, owner_call},
    },
    refusal::{Checks, Refusal, RefusalKind},
    tron::{TronTransaction, encode_signed, recover_signer},
};
use super::intent::{INTENTS_MAX, PaymentIntent};
use alloy::primitives::{B256, U256};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
pub use stated::StatedValue;

/// Field of the body with the encoded transaction.
pub const RAW_DATA_HEX: &str = "signedTransaction.raw_data_hex";

/// Field of the body with the JSON form of the transaction.
const RAW_DATA: &str = "signedTransaction.raw_data";

/// Field of the body with the hash of the transaction.
const TX_ID: &str = "signedTransaction.txID";

/// Field of the body with the signatures.
const SIGNATURE: &str = "signedTransaction.signature";

/// Bytes of the selector of a function.
const SELECTOR_LENGTH: usize = 4;

/// Bytes of a word of calldata.
const WORD_LENGTH: usize = 32;

/// The words after the selector of an approval.
const APPROVAL_WORDS: [&str; 2] = ["spender", "amount"];

/// The words after the selector of a payment through the fee proxy.
const PAYMENT_WORDS: [&str; 8] = [
    "token",
    "payee",
    "amount",
    "position of the payment reference",
    "fee",
    "fee receiver",
    "length of the payment reference",
    "payment reference",
];

/// Longest time from a broadcast to the expiration of its transaction. The service hands out transactions that expire
/// after a minute. A broadcast counts towards the maximum of its link for this time, because no node accepts its
/// transaction afterwards.
pub const LIFETIME_MAX: TimeDelta = TimeDelta::minutes(5);

/// How long the hash of a broadcast is stored at least.
pub const KEPT: TimeDelta = TimeDelta::days(1);

/// Maximum number of broadcasts of one account for a link within [`LIFETIME_MAX`].
const OF_ACCOUNT_MAX: u64 = 5;

/// What a payer who is refused can do.
const SIGN_AGAIN: &str = "get the calldata again and sign that transaction";

/// A signed transaction as a caller sent it. Nothing of it is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentTransaction {
    /// The encoded transaction in hexadecimal digits.
    pub raw_data_hex: String,
    /// The signatures in hexadecimal digits.
    pub signatures: Vec<String>,
    /// The hash in hexadecimal digits, if the caller sent it.
    pub tx_id: Option<String>,
    /// The JSON form of the transaction.
    pub raw_data: StatedValue,
}

/// A transaction that its owner signed. Its JSON form says the same as its encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedTransaction {
    transaction: TronTransaction,
    tx_id: B256,
    encoded: Vec<u8>,
}

impl SentTransaction {
    /// Checks everything that does not depend on the payment. Errors: every wrong field (400).
    pub fn check(&self) -> Result<SignedTransaction, Refusal> {
        let mut checks = Checks::new();
        let raw_data = checks.take(RAW_DATA_HEX, bytes(&self.raw_data_hex));
        let decoded = raw_data.as_deref().map(TronTransaction::decode);
        let transaction = decoded.and_then(|decoded| checks.take(RAW_DATA_HEX, decoded));
        // Without the transaction, nothing else can be compared.
        let (Some(raw_data), Some(transaction)) = (raw_data, transaction) else {
            return checks.finish_with(None);
        };
        let tx_id = transaction.tx_id();
        if let Some(sent) = &self.tx_id
            && bytes(sent).as_deref() != Ok(tx_id.as_slice())
        {
            let hash = hex::encode(tx_id);
            checks.fail(
                TX_ID,
                format!("must be {hash}, the SHA-256 hash of raw_data_hex, or absent"),
            );
        }
        stated::compare(&transaction, &self.raw_data, RAW_DATA, &mut checks);
        let signature = self.signature(&transaction, &tx_id, &mut checks);
        checks.finish_with(signature.map(|signature| SignedTransaction {
            encoded: encode_signed(&raw_data, &signature),
            transaction,
            tx_id,
        }))
    }

    /// The signature of the owner.
    fn signature(&self, transaction: &TronTransaction, tx_id: &B256, checks: &mut Checks) -> Option<Vec<u8>> {
        if transaction.permission_id > 0 {
            let sentence = format!(
                "must be signed with the permission of the owner, without Permission_id, and has {}: a wallet that \
                 signs with another permission broadcasts its transaction itself",
                transaction.permission_id
            );
            checks.fail(RAW_DATA_HEX, sentence);
            return None;
        }
        let [signature] = self.signatures.as_slice() else {
            let sentence = format!(
                "must have one signature, and has {}: a wallet with several keys broadcasts its transaction itself",
                self.signatures.len()
            );
            checks.fail(SIGNATURE, sentence);
            return None;
        };
        let signature = bytes(signature).ok();
        let signer = signature
            .as_deref()
            .and_then(|signature| recover_signer(tx_id, signature));
        let owner = Address::Tron(transaction.call.owner);
        let sentence = match signer {
            Some(signer) if signer == owner => return signature,
            Some(signer) => format!(
                "must be the signature of the owner {owner}, and is one of {signer}: sign these bytes with the owner's \
                 key, or let a wallet whose permissions were changed broadcast its transaction itself"
            ),
            None => "must have 65 bytes: r, s in the lower half of the curve order, and v as 0, 1, 27 or 28".to_owned(),
        };
        checks.fail(format!("{SIGNATURE}[0]"), sentence);
        None
    }
}

impl SignedTransaction {
    /// The account that signed, which pays.
    pub fn owner(&self) -> Address {
        Address::Tron(self.transaction.call.owner)
    }

    /// When the transaction expires, if it is the payment. An approval pays nothing.
    pub fn payment_expires_at(&self, steps: &PaymentTransactions) -> Option<DateTime<Utc>> {
        let is_payment = self.transaction.call == owner_call(&steps.payment, self.owner());
        let at = i64::try_from(self.transaction.expiration_ms).ok();
        at.filter(|_| is_payment).and_then(DateTime::from_timestamp_millis)
    }

    /// The hash of the transaction.
    pub fn tx_id(&self) -> B256 {
        self.tx_id
    }

    /// The encoded transaction with its signature. It contains exactly the bytes that were checked.
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// Checks what needs no node: that the transaction has not expired, expires within [`LIFETIME_MAX`], and has a fee
    /// limit that some step may have. Errors: what is wrong (400).
    pub fn check_limits(&self, limits: &FeeLimits, now: DateTime<Utc>) -> Result<(), Refusal> {
        let mut checks = Checks::new();
        checks.take(RAW_DATA_HEX, self.check_expiration(now));
        self.check_fee_limit(limits.approval_sun.max(limits.payment_sun), &mut checks);
        checks.finish()
    }

    /// Checks that the transaction is one of the steps that its owner would get now, has not expired, expires within
    /// [`LIFETIME_MAX`], and does not exceed the fee limit of that step. Errors: what differs (400).
    pub fn require_step(
        &self,
        steps: &PaymentTransactions,
        limits: &FeeLimits,
        now: DateTime<Utc>,
    ) -> Result<(), Refusal> {
        let mut checks = Checks::new();
        checks.take(RAW_DATA_HEX, self.check_expiration(now));
        let cap = checks.take(RAW_DATA_HEX, self.fee_limit_of_step(steps, limits));
        if let Some(cap) = cap {
            self.check_fee_limit(cap, &mut checks);
        }
        checks.finish()
    }

    fn check_fee_limit(&self, cap: u64, checks: &mut Checks) {
        let fee_limit = self.transaction.fee_limit_sun;
        if fee_limit > cap {
            let sentence = format!("must have a fee_limit of at most {cap} sun for this step, and has {fee_limit} sun");
            checks.fail(RAW_DATA_HEX, sentence);
        }
    }

    /// Errors: the transaction has expired, or expires too late.
    fn check_expiration(&self, now: DateTime<Utc>) -> Result<(), String> {
        let text = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Millis, true);
        let expiration_ms = self.transaction.expiration_ms;
        let at = i64::try_from(expiration_ms).ok();
        let at = at.and_then(DateTime::from_timestamp_millis);
        let stated = at.map_or_else(|| format!("{expiration_ms} ms"), text);
        let latest = now + LIFETIME_MAX;
        match at {
            Some(at) if at <= now => Err(format!("must not have expired, and expired at {stated}: {SIGN_AGAIN}")),
            Some(at) if at <= latest => Ok(()),
            _ => Err(format!(
                "must expire within {} minutes, at {} at the latest, and expires at {stated}: {SIGN_AGAIN}",
                LIFETIME_MAX.num_minutes(),
                text(latest)
            )),
        }
    }

    /// The fee limit of the step that this transaction is. Errors: how it differs from the steps.
    fn fee_limit_of_step(&self, steps: &PaymentTransactions, limits: &FeeLimits) -> Result<u64, String> {
        let approvals = steps.approvals.iter();
        let approvals = approvals.map(|step| (step, &APPROVAL_WORDS[..], limits.approval_sun));
        let payment = (&steps.payment, &PAYMENT_WORDS[..], limits.payment_sun);
        let called = Address::Tron(self.transaction.call.contract);
        let mut different = None;
        for (step, words, cap) in approvals.chain([payment]).filter(|(step, ..)| step.to == called) {
            if self.transaction.call == owner_call(step, self.owner()) {
                return Ok(cap);
            }
            different = Some(self.difference(step, words));
        }
        let mut contracts: Vec<String> = steps.iter().map(|step| step.to.to_string()).collect();
        contracts.dedup();
        Err(different.unwrap_or_else(|| {
            let contracts = contracts.join(" or ");
            format!("must call {contracts}, a contract of this payment, and calls {called}: {SIGN_AGAIN}")
        }))
    }

    /// How the transaction differs from a step with the same contract. `words` are the names of the words of the
    /// calldata of the step.
    fn difference(&self, step: &PaymentTransaction, words: &[&str]) -> String {
        let call = &self.transaction.call;
        if U256::from(call.value_sun) != step.value {
            let sentence = "must send the call_value of this payment, which is";
            return format!("{sentence} {} sun, and sends {} sun", step.value, call.value_sun);
        }
        if call.token_value != 0 || call.token_id != 0 {
            return "must send no TRC-10 token: call_token_value and token_id must be absent".to_owned();
        }
        let (sent, wanted) = (call.data.as_ref(), step.calldata.as_slice());
        let differs = |what: &str| format!("must have the calldata of this payment; the {what} differs: {SIGN_AGAIN}");
        let (Some((selector, sent)), Some((wanted_selector, wanted))) = (
            sent.split_at_checked(SELECTOR_LENGTH),
            wanted.split_at_checked(SELECTOR_LENGTH),
        ) else {
            return differs("function");
        };
        if selector != wanted_selector {
            return differs("function");
        }
        let place = sent
            .chunks(WORD_LENGTH)
            .zip(wanted.chunks(WORD_LENGTH))
            .position(|(sent, wanted)| sent != wanted);
        differs(place.and_then(|place| words.get(place)).copied().unwrap_or("length"))
    }
}

/// Checks whether one more transaction of an account may be broadcast for a link. `recent` are the broadcasts of the
/// link within [`LIFETIME_MAX`].
///
/// Errors: too many, of the link or of the account (429 with the seconds until one more is accepted). The owner of the
/// link may broadcast more than others.
pub fn admit_another(
    recent: &[PaymentIntent],
    account: Address,
    is_of_owner: bool,
    now: DateTime<Utc>,
) -> Result<(), Refusal> {
    let of_link_max = if is_of_owner { 2 * INTENTS_MAX } else { INTENTS_MAX };
    let of_account = recent.iter().filter(|known| known.payer == Some(account));
    let (max, whose, wait_s) = if let Some(wait_s) = seconds_left(recent.iter(), of_link_max, now) {
        (of_link_max, "", wait_s)
    } else if let Some(wait_s) = seconds_left(of_account, OF_ACCOUNT_MAX, now) {
        (OF_ACCOUNT_MAX, " of this account", wait_s)
    } else {
        return Ok(());
    };
    let sentence = format!(
        "{max} transactions{whose} were already broadcast for this secure payment within {} minutes: retry after the \
         number of seconds in Retry-After; the wallet can still send its transactions itself",
        LIFETIME_MAX.num_minutes()
    );
    Err(Refusal::new(RefusalKind::TooMany, sentence).after(wait_s))
}

/// Seconds until fewer than `max` broadcasts count; `None` if fewer count now.
fn seconds_left<'a>(counted: impl Iterator<Item = &'a PaymentIntent>, max: u64, now: DateTime<Utc>) -> Option<u32> {
    let mut times: Vec<DateTime<Utc>> = counted.map(|known| known.created_at).collect();
    times.sort_unstable();
    let surplus = times.len().checked_sub(usize::try_from(max).ok()?)?;
    let left = *times.get(surplus)? + LIFETIME_MAX - now;
    Some(u32::try_from(left.num_seconds() + 1).unwrap_or(1))
}

/// Whether a transaction that expires at a time may still pay. `credited_until` is the time of a final block up to
/// which all payments are credited. The chain compares the expiration with the time of the previous block, so the first
/// block from this time on may still contain the transaction.
pub fn may_arrive(expires_at: DateTime<Utc>, credited_until: Option<DateTime<Utc>>) -> bool {
    credited_until.is_none_or(|credited_until| credited_until <= expires_at)
}

/// Why nodes refuse a transaction. Sending the same bytes again does not help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BroadcastRefusal {
    /// The key may not sign for the account (`SIGERROR`).
    Signature,
    /// The node does not know the block to which the transaction refers (`TAPOS_ERROR`).
    ReferenceBlock,
    /// Expired, or expires too late (`TRANSACTION_EXPIRATION_ERROR`).
    Expiration,
    /// The transaction is invalid in the state of the chain (`CONTRACT_VALIDATE_ERROR`).
    Validation,
    /// The call cannot be executed (`CONTRACT_EXE_ERROR`).
    Execution,
    /// The account cannot pay for the bytes of the transaction (`BANDWITH_ERROR`).
    Bandwidth,
    /// Too many bytes (`TOO_BIG_TRANSACTION_ERROR`).
    Size,
}

impl BroadcastRefusal {
    /// The message for the caller.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Signature => {
                "The chain refuses the signature: this key may not sign for the account; a wallet whose permissions \
                 were changed broadcasts its transaction itself"
            }
            Self::ReferenceBlock => {
                "The chain does not have the block to which the transaction refers: get the calldata again and sign \
                 that transaction"
            }
            Self::Expiration => {
                "The transaction has expired, or expires too late: unless it is in a block already, get the calldata \
                 again and sign that transaction"
            }
            Self::Validation => {
                "The chain refuses the transaction as invalid: check that the account is activated and has enough TRX, \
                 then get the calldata again"
            }
            Self::Execution => {
                "The chain cannot execute the call: check the balance and the allowance of the wallet, then get the \
                 calldata again"
            }
            Self::Bandwidth => {
                "The account has neither bandwidth nor TRX for the bytes of the transaction: send TRX to it, or wait \
                 until it has bandwidth again"
            }
            Self::Size => "The transaction is larger than the chain accepts",
        }
    }
}

/// What nodes respond to a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BroadcastOutcome {
    /// A node accepted it. This proves no payment.
    Accepted,
    /// A node had it already (`DUP_TRANSACTION_ERROR`).
    AlreadyKnown,
    /// A node refused it.
    Refused(BroadcastRefusal),
    /// No node gave a usable response.
    Unavailable,
}

impl BroadcastOutcome {
    /// The outcome of several nodes, given their responses in the order of the nodes. One node that has the
    /// transaction is sufficient; a refusal counts only without such a node, and the first refusal counts.
    pub fn of_nodes(responses: impl IntoIterator<Item = Self>) -> Self {
        let rank = |outcome: &Self| match outcome {
            Self::Accepted => 0,
            Self::AlreadyKnown => 1,
            Self::Refused(_) => 2,
            Self::Unavailable => 3,
        };
        let best = responses.into_iter().min_by_key(rank);
        best.unwrap_or(Self::Unavailable)
    }
}

/// Reads hexadecimal digits. Errors: an odd number of digits, or another character.
fn bytes(digits: &str) -> Result<Vec<u8>, &'static str> {
    // The decoder would accept a prefix.
    let plain = (!digits.starts_with("0x")).then(|| hex::decode(digits).ok()).flatten();
    plain.ok_or("must be an even number of hexadecimal digits, without 0x")
}

#[cfg(test)]
mod tests;
