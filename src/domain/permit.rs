//! The permit that a payer signs for a schedule of payments, in the form that the recurring payment contract requires.

use super::{
    address::Address, network::Network, network_support::NO_RECURRENCE, paying::PaymentTransaction,
    reference::PaymentReference,
};
use alloy::{
    primitives::{Address as EvmAddress, B256, Signature, U256},
    sol,
    sol_types::{SolCall, SolStruct, eip712_domain},
};

sol! {
    struct SchedulePermit {
        address subscriber;
        address token;
        address recipient;
        address feeAddress;
        uint128 amount;
        uint128 feeAmount;
        uint128 relayerFee;
        uint32 periodSeconds;
        uint32 firstPayment;
        uint8 totalPayments;
        uint256 nonce;
        uint256 deadline;
        bool strictOrder;
    }
    interface RecurringPaymentProxy {
        function triggerRecurringPayment(SchedulePermit permit, bytes signature, uint8 index, bytes paymentReference);
    }
}

/// Name of the EIP-712 domain.
pub const DOMAIN_NAME: &str = "ERC20RecurringPaymentProxy";

/// Version of the EIP-712 domain.
pub const DOMAIN_VERSION: &str = "1";

/// Name of the signed struct.
pub const STRUCT_NAME: &str = "SchedulePermit";

/// Members of the signed struct in order, each with its type.
///
/// Source: decisions D24 (the struct of the deployed contract).
pub const MEMBERS: [(&str, &str); 13] = [
    ("subscriber", "address"),
    ("token", "address"),
    ("recipient", "address"),
    ("feeAddress", "address"),
    ("amount", "uint128"),
    ("feeAmount", "uint128"),
    ("relayerFee", "uint128"),
    ("periodSeconds", "uint32"),
    ("firstPayment", "uint32"),
    ("totalPayments", "uint8"),
    ("nonce", "uint256"),
    ("deadline", "uint256"),
    ("strictOrder", "bool"),
];

/// Bytes of a signature.
const SIGNATURE_LENGTH: usize = 65;

/// Checks that recurring payments are supported on a network, in a token or the coin. Errors: the refused member, and
/// the reason.
pub fn admit(network: Network, is_token: bool) -> Result<(), (&'static str, &'static str)> {
    match (network, is_token) {
        (Network::Tron, _) => Err(("recurrence", NO_RECURRENCE)),
        (Network::Optimism, _) => Err((
            "recurrence",
            "must be absent: recurring payments are not supported on optimism",
        )),
        (_, false) => Err((
            "paymentCurrency",
            "must be a token: recurring payments in a native coin are not supported",
        )),
        (_, true) => Ok(()),
    }
}

/// Why a signature does not permit a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureFlaw {
    /// The text is not a signature of a key.
    #[error("must have 65 bytes: r, s and v; contract wallets cannot sign recurring payments")]
    Length,
    /// Its last byte is wrong.
    #[error("must end in 1b or 1c, the two values of v")]
    Recovery,
    /// The s value of the signature is in the upper half of the curve order (EIP-2). The contract refuses it as
    /// malleable.
    #[error("has an s in the upper half of the curve order, which the contract rejects: sign with the lower s")]
    HighS,
    /// The signature has another signer, or signs something else.
    #[error(
        "is not a signature of recurringPaymentPermit by the payer's key; a contract wallet has no such key, and the \
         contract does not support contract wallets"
    )]
    Signer,
}

/// A signature in the form that the contract accepts: r, s and v of 27 or 28.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermitSignature([u8; SIGNATURE_LENGTH]);

impl PermitSignature {
    /// Parses the bytes of a signature. The values 0 and 1 of v are accepted too.
    ///
    /// Errors: [`SignatureFlaw`], except a wrong signer, which [`Permit::check`] detects.
    pub fn parse(bytes: &[u8]) -> Result<Self, SignatureFlaw> {
        let mut bytes: [u8; SIGNATURE_LENGTH] = bytes.try_into().map_err(|_| SignatureFlaw::Length)?;
        let recovery = &mut bytes[SIGNATURE_LENGTH - 1];
        *recovery = match *recovery {
            0 | 27 => 27,
            1 | 28 => 28,
            _ => return Err(SignatureFlaw::Recovery),
        };
        let parsed = Self(bytes);
        match parsed.signature().normalize_s() {
            Some(_) => Err(SignatureFlaw::HighS),
            None => Ok(parsed),
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn signature(&self) -> Signature {
        let (numbers, recovery) = self.0.split_at(SIGNATURE_LENGTH - 1);
        Signature::from_bytes_and_parity(numbers, recovery == [28])
    }
}

/// The permitted payments: the same payment is made a number of times, once per period.
///
/// Amounts are units of the token. Source: decisions D24; EIP-712.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permit {
    /// Chain of the contract.
    pub chain_id: u64,
    /// Contract that executes the payments.
    pub contract: Address,
    /// Who pays.
    pub subscriber: Address,
    /// Token of the payments.
    pub token: Address,
    /// Who is paid.
    pub recipient: Address,
    /// Receiver of the fee.
    pub fee_address: Option<Address>,
    /// Amount of each payment.
    pub amount: u128,
    /// Fee on top of each payment, in units of the token.
    pub fee: u128,
    /// Fee of the relayer for each payment, in units of the token.
    pub relayer_fee: u128,
    /// Seconds between payments.
    pub period_s: u32,
    /// Unix time at which the first payment is due.
    pub first_payment_s: u32,
    /// Number of payments.
    pub total_payments: u8,
    /// Random number that makes two equal schedules different.
    pub nonce: U256,
    /// Unix time until which payments can be executed.
    pub deadline_s: u64,
}

impl Permit {
    /// Hash that the payer signs.
    pub fn digest(&self) -> B256 {
        let domain = eip712_domain! {
            name: DOMAIN_NAME,
            version: DOMAIN_VERSION,
            chain_id: self.chain_id,
            verifying_contract: self.contract.bytes(),
        };
        self.typed().eip712_signing_hash(&domain)
    }

    /// Checks that the payer signed exactly this permit. Errors: [`SignatureFlaw::Signer`].
    pub fn check(&self, signature: &PermitSignature) -> Result<(), SignatureFlaw> {
        let signer = signature.signature().recover_address_from_prehash(&self.digest());
        match signer {
            Ok(signer) if signer == self.subscriber.bytes() => Ok(()),
            _ => Err(SignatureFlaw::Signer),
        }
    }

    /// The call that executes a payment; payments are counted from 1.
    pub fn trigger_step(
        &self,
        signature: &PermitSignature,
        number: u8,
        reference: PaymentReference,
    ) -> PaymentTransaction {
        let call = RecurringPaymentProxy::triggerRecurringPaymentCall {
            permit: self.typed(),
            signature: signature.0.to_vec().into(),
            index: number,
            paymentReference: reference.0.to_vec().into(),
        };
        PaymentTransaction {
            to: self.contract,
            calldata: call.abi_encode(),
            value: U256::ZERO,
        }
    }

    /// Units that leave the payer with each payment.
    pub fn units_per_payment(&self) -> U256 {
        // The sum of three 128-bit numbers fits into 256 bits.
        U256::from(self.amount) + U256::from(self.fee) + U256::from(self.relayer_fee)
    }

    /// Unix time at which a payment is due; payments are counted from 1.
    pub fn due_s(&self, number: u8) -> u64 {
        let periods = u64::from(number.saturating_sub(1));
        u64::from(self.first_payment_s) + periods * u64::from(self.period_s)
    }

    fn typed(&self) -> SchedulePermit {
        SchedulePermit {
            subscriber: self.subscriber.bytes(),
            token: self.token.bytes(),
            recipient: self.recipient.bytes(),
            feeAddress: self.fee_address.map_or(EvmAddress::ZERO, |address| address.bytes()),
            amount: self.amount,
            feeAmount: self.fee,
            relayerFee: self.relayer_fee,
            periodSeconds: self.period_s,
            firstPayment: self.first_payment_s,
            totalPayments: self.total_payments,
            nonce: self.nonce,
            deadline: U256::from(self.deadline_s),
            // Payments are never skipped: missed ones are executed later, in order.
            strictOrder: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::signers::{SignerSync, local::PrivateKeySigner};

    fn address(last: u8) -> Address {
        Address::Evm(EvmAddress::with_last_byte(last))
    }

    fn signed() -> (Permit, PermitSignature) {
        let key = PrivateKeySigner::from_bytes(&B256::repeat_byte(7)).unwrap();
        let permit = Permit {
            chain_id: 11_155_111,
            contract: address(1),
            subscriber: Address::Evm(key.address()),
            token: address(2),
            recipient: address(3),
            fee_address: None,
            amount: 1,
            fee: 2,
            relayer_fee: u128::MAX,
            period_s: 86_400,
            first_payment_s: 1_790_000_000,
            total_payments: 12,
            nonce: U256::from(7),
            deadline_s: 1_900_000_000,
        };
        let signature = key.sign_hash_sync(&permit.digest()).unwrap();
        (permit, PermitSignature::parse(&signature.as_bytes()).unwrap())
    }

    #[test]
    fn the_struct_hash_covers_the_members_that_wallets_display() {
        let listed: Vec<String> = MEMBERS.iter().map(|(name, kind)| format!("{kind} {name}")).collect();
        let expected = format!("{STRUCT_NAME}({})", listed.join(","));
        assert_eq!(SchedulePermit::eip712_root_type(), expected);
    }

    #[test]
    fn only_the_payers_signature_over_the_same_permit_is_valid() {
        let (permit, signature) = signed();
        assert_eq!(permit.check(&signature), Ok(()));
        let changed = [
            Permit {
                amount: 2,
                ..permit.clone()
            },
            Permit {
                chain_id: 1,
                ..permit.clone()
            },
            Permit {
                contract: address(9),
                ..permit.clone()
            },
            Permit {
                subscriber: address(9),
                ..permit.clone()
            },
            Permit {
                nonce: U256::from(8),
                ..permit.clone()
            },
        ];
        for changed in changed {
            assert_eq!(changed.check(&signature), Err(SignatureFlaw::Signer), "{changed:?}");
        }
        assert_eq!(permit.units_per_payment(), U256::from(u128::MAX) + U256::from(3));
    }

    #[test]
    fn only_the_signature_form_of_the_contract_is_accepted() {
        let (_, signature) = signed();
        let bytes = signature.bytes();
        let with_v = |v: u8| [&bytes[..64], &[v]].concat();
        assert_eq!(PermitSignature::parse(&with_v(bytes[64] - 27)), Ok(signature));
        assert_eq!(PermitSignature::parse(&with_v(29)), Err(SignatureFlaw::Recovery));
        for wrong in [&bytes[..64], &[bytes, &[0]].concat(), &[]] {
            assert_eq!(PermitSignature::parse(wrong), Err(SignatureFlaw::Length));
        }
        let order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
        let order = U256::from_str_radix(order, 16).unwrap();
        let high = order - U256::from_be_slice(&bytes[32..64]);
        let twin = [&bytes[..32], high.to_be_bytes::<32>().as_slice(), &[55 - bytes[64]]].concat();
        assert_eq!(PermitSignature::parse(&twin), Err(SignatureFlaw::HighS));
    }
}
