//! Signed schedules, and the signature of a contract account.

use alloy::{
    primitives::{Address, B256, Bytes, U256, hex},
    sol,
    sol_types::{Eip712Domain, SolCall as _, SolStruct as _, eip712_domain},
};
use devnet::{Account, Devnet, RELAYER_INDEX, SMART_WALLET_OWNER_INDEX, TxReceiptLite};
use k256::ecdsa::SigningKey;

use crate::{
    contracts::{ERC20_PAYMENT, REFERENCE, SmartWallet, logs_of, topics},
    refusal, started, units,
};

const SUBSCRIBER_INDEX: usize = 2;
const PAYEE: Address = Address::repeat_byte(0xaa);
const FEE_ADDRESS: Address = Address::repeat_byte(0xbb);
const PERIOD_SECONDS: u32 = 3_600;

const NOT_DUE_YET: &str = "0xb39d2709";
const PAYMENT_OUT_OF_ORDER: &str = "0x061235ef";
const BAD_SIGNATURE: &str = "0xd5a4f5ea";
const INDEX_OUT_OF_BOUNDS: &str = "0xbec060dd";
const SIGNATURE_EXPIRED: &str = "0xda023c0b";
const ALREADY_PAID: &str = "0x544db32b";

sol! {
    #[derive(Debug)]
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

    function triggerRecurringPayment(
        SchedulePermit permit, bytes signature, uint8 index, bytes reference
    ) external;
}

fn sign(account: &Account, digest: B256) -> Bytes {
    let key = SigningKey::from_slice(account.private_key.as_slice()).unwrap();
    let (signature, recovery) = key.sign_prehash_recoverable(digest.as_slice()).unwrap();
    [signature.to_bytes().as_slice(), &[27 + recovery.to_byte()]]
        .concat()
        .into()
}

fn domain(chain_id: u64, contract: Address) -> Eip712Domain {
    eip712_domain! {
        name: "ERC20RecurringPaymentProxy",
        version: "1",
        chain_id: chain_id,
        verifying_contract: contract,
    }
}

struct Subscription {
    chain: Devnet,
    permit: SchedulePermit,
    signature: Bytes,
}

impl Subscription {
    /// Creates a signed schedule of three payments with all approvals. The first payment is due now.
    async fn new(token: impl Fn(&Devnet) -> Address, strict_order: bool) -> Self {
        let chain = started().await;
        let now = chain
            .block(alloy::eips::BlockNumberOrTag::Latest)
            .await
            .unwrap()
            .unwrap()
            .timestamp;
        let permit = SchedulePermit {
            subscriber: chain.accounts()[SUBSCRIBER_INDEX].address,
            token: token(&chain),
            recipient: PAYEE,
            feeAddress: FEE_ADDRESS,
            amount: 1_000_000,
            feeAmount: 25_000,
            relayerFee: 1_000,
            periodSeconds: PERIOD_SECONDS,
            firstPayment: now.try_into().unwrap(),
            totalPayments: 3,
            nonce: units(7),
            deadline: U256::from(now + 100 * u64::from(PERIOD_SECONDS)),
            strictOrder: strict_order,
        };
        let contract = chain.contracts().recurring_payment_proxy;
        let digest = permit.eip712_signing_hash(&domain(chain.chain_id(), contract));
        let signature = sign(&chain.accounts()[SUBSCRIBER_INDEX], digest);
        chain
            .approve(SUBSCRIBER_INDEX, permit.token, contract, units(3 * 1_026_000))
            .await
            .unwrap();
        Self {
            chain,
            permit,
            signature,
        }
    }

    fn call(&self, index: u8) -> Vec<u8> {
        triggerRecurringPaymentCall {
            permit: self.permit.clone(),
            signature: self.signature.clone(),
            index,
            reference: REFERENCE,
        }
        .abi_encode()
    }

    async fn trigger(&self, index: u8) -> TxReceiptLite {
        let contract = self.chain.contracts().recurring_payment_proxy;
        self.chain
            .send(RELAYER_INDEX, contract, self.call(index), U256::ZERO)
            .await
            .unwrap()
    }

    async fn refusal(&self, index: u8) -> String {
        let contract = self.chain.contracts().recurring_payment_proxy;
        refusal(
            self.chain
                .call(RELAYER_INDEX, contract, self.call(index), U256::ZERO)
                .await,
        )
    }
}

#[test]
fn schedule_encodes_and_hashes_as_the_deployed_contract_expects() {
    let permit = SchedulePermit {
        subscriber: "0xd2D1Dd3E5B041700fE42c8F5856DACE2A4bB551c".parse().unwrap(),
        token: "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48".parse().unwrap(),
        recipient: "0x6672AD631DD0F65b9988B884064eCafbA410cAc2".parse().unwrap(),
        feeAddress: "0xBbec8949Dd89E3818184f063693516c1F65967e4".parse().unwrap(),
        amount: 1_000_000,
        feeAmount: 25_000,
        relayerFee: 1_000,
        periodSeconds: 2_592_000,
        firstPayment: 1_790_000_000,
        totalPayments: 12,
        nonce: units(7),
        deadline: units(1_900_000_000),
        strictOrder: true,
    };
    let contract = "0xF0Bebbc99E26Ba7F651E7Ff14e0D3029B0228880".parse().unwrap();
    assert_eq!(
        permit.eip712_signing_hash(&domain(1, contract)),
        B256::from(hex!("322beccea059e66b3461677ec5d26859e522a12d986c486d48c54a6c72dfa619"))
    );
    assert_eq!(triggerRecurringPaymentCall::SELECTOR, hex!("ac7a9e00"));
}

#[tokio::test]
async fn due_payment_goes_through_the_fee_proxy() {
    for token in [(|chain| chain.tokens().usdc) as fn(&Devnet) -> Address, |chain| {
        chain.tokens().usdt
    }] {
        let subscription = Subscription::new(token, true).await;
        let Subscription { chain, permit, .. } = &subscription;
        let relayer = chain.accounts()[RELAYER_INDEX].address;
        let before = chain.balance_of(permit.token, relayer).await.unwrap();
        for index in 1..=3 {
            let receipt = subscription.trigger(index).await;
            assert!(receipt.status, "payment {index}");
            let logs = logs_of(chain, &receipt, chain.contracts().erc20_fee_proxy).await;
            assert_eq!(topics(&logs), [ERC20_PAYMENT]);
            chain.increase_time(PERIOD_SECONDS.into()).await.unwrap();
        }
        assert_eq!(chain.balance_of(permit.token, PAYEE).await.unwrap(), units(3_000_000));
        assert_eq!(
            chain.balance_of(permit.token, FEE_ADDRESS).await.unwrap(),
            units(75_000)
        );
        assert_eq!(
            chain.balance_of(permit.token, relayer).await.unwrap(),
            before + units(3_000)
        );
    }
}

#[tokio::test]
async fn trigger_is_refused_with_the_deployed_contract_s_errors() {
    let mut subscription = Subscription::new(|chain| chain.tokens().usdc, true).await;
    assert!(subscription.refusal(2).await.contains(PAYMENT_OUT_OF_ORDER));
    assert!(subscription.trigger(1).await.status);
    assert!(subscription.refusal(1).await.contains(PAYMENT_OUT_OF_ORDER));
    assert!(subscription.refusal(2).await.contains(NOT_DUE_YET));

    let signature = std::mem::replace(&mut subscription.signature, vec![1; 65].into());
    assert!(subscription.refusal(2).await.contains(BAD_SIGNATURE));
    subscription.signature = signature;

    subscription
        .chain
        .increase_time(101 * u64::from(PERIOD_SECONDS))
        .await
        .unwrap();
    assert!(subscription.refusal(2).await.contains(SIGNATURE_EXPIRED));
}

#[tokio::test]
async fn loose_schedule_pays_each_index_once_and_none_beyond_the_last() {
    let subscription = Subscription::new(|chain| chain.tokens().usdc, false).await;
    subscription
        .chain
        .increase_time(2 * u64::from(PERIOD_SECONDS))
        .await
        .unwrap();
    assert!(subscription.trigger(3).await.status);
    assert!(subscription.refusal(3).await.contains(ALREADY_PAID));
    assert!(subscription.trigger(1).await.status);
    assert!(subscription.refusal(0).await.contains(INDEX_OUT_OF_BOUNDS));
    assert!(subscription.refusal(4).await.contains(INDEX_OUT_OF_BOUNDS));
}

#[tokio::test]
async fn only_the_relayer_may_trigger() {
    let subscription = Subscription::new(|chain| chain.tokens().usdc, true).await;
    let contract = subscription.chain.contracts().recurring_payment_proxy;
    let answer = subscription
        .chain
        .call(SUBSCRIBER_INDEX, contract, subscription.call(1), U256::ZERO)
        .await;
    assert!(refusal(answer).contains("AccessControl"));
}

#[tokio::test]
async fn smart_wallet_accepts_only_its_owner_s_signature() {
    let chain = started().await;
    let hash = B256::repeat_byte(0x42);
    let accepted = async |signer_index: usize| {
        let signature = sign(&chain.accounts()[signer_index], hash);
        let call = SmartWallet::isValidSignatureCall { hash, signature }.abi_encode();
        let answer = chain
            .call(0, chain.contracts().smart_wallet, call, U256::ZERO)
            .await
            .unwrap();
        SmartWallet::isValidSignatureCall::abi_decode_returns(&answer).unwrap() == hex!("1626ba7e")
    };
    assert!(accepted(SMART_WALLET_OWNER_INDEX).await);
    assert!(!accepted(SUBSCRIBER_INDEX).await);
}
