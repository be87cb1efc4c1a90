//! What a payer of a payment on Tron gets, with a chain that the test plays.

use crate::support::{
    Answer, TestApp,
    app::settings,
    links::{payout_of, token_of},
    requests::request,
};
use alloy::{
    primitives::{B256, U256},
    sol_types::SolCall,
};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use prs::{
    ctx::Partners,
    domain::{
        address::Address,
        network::Network,
        paying::{
            NetworkPrice, PayerBalance, PaymentTransaction, ResourcePrices, approval_step,
            fee_proxy::Erc20FeeProxy,
            prepared::{PayerResources, ReferencePoint, StepSimulation},
        },
        tron::{ReferenceBlock, TronTransaction},
    },
    ports::chain::{ChainError, Chains, PreparationLookup, StandingLookup},
    settings::{ChainSettings, Settings},
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) const PAYER: &str = "TQu6q2b9ctdY7tJH3EEX68ys3ywRvrbEz1";
pub(crate) const PAYEE: &str = "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8";
const FEES: &str = "TJCnKsPa7y5okkXvQAidZBzqx3QyQ6sxMW";
const OTHER_FEES: &str = "TSJDG9HZ5rq6YhvVA4LdE7U1ME1F3ub8xJ";
const FALLBACK: &str = "TQcSjdgRwK5DVzpAsZVC7C4NVBGZ6jP4mn";
pub(crate) const TOKEN: &str = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t";
pub(crate) const PROXY: &str = "TCUDPYnS9dH3WvFEaE7wN7vnDa51J4R4fd";

const BLOCK_TIME_MS: u64 = 1_790_000_000_000;

pub(crate) fn address(text: &str) -> Address {
    Address::parse(text).expect("an address")
}

/// State of the chain.
#[derive(Clone)]
pub(crate) struct PlayedState {
    fallback: Option<Address>,
    pub(crate) allowance: u64,
    pub(crate) resources: PayerResources,
    pub(crate) energy: u64,
    /// Whether the token refuses to change an allowance to another number than zero.
    wants_reset: bool,
    is_down: bool,
    simulated: Vec<PaymentTransaction>,
}

/// A chain that answers from memory.
pub(crate) struct PlayedChain(Mutex<PlayedState>);

impl PlayedChain {
    pub(crate) fn read<T>(&self, read: impl FnOnce(&mut PlayedState) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn check_up(&self) -> Result<(), ChainError> {
        if self.read(|state| state.is_down) {
            return Err(ChainError::Unavailable {
                network: Network::Tron,
                reason: "down".to_owned(),
            });
        }
        Ok(())
    }
}

#[async_trait]
impl StandingLookup for PlayedChain {
    async fn standing(&self, _: Address, _: Option<Address>, _: Address) -> Result<PayerBalance, ChainError> {
        self.check_up()?;
        Ok(PayerBalance {
            balance: U256::from(50_000_000),
            native_balance: U256::from(40_000_000),
            allowance: U256::from(self.read(|state| state.allowance)),
            price: NetworkPrice::Resources(ResourcePrices {
                energy_sun: 100,
                bandwidth_sun: 1_000,
            }),
        })
    }

    async fn balance(&self, _: Address, _: Option<Address>) -> Result<U256, ChainError> {
        Ok(U256::from(50_000_000))
    }

    async fn allowance(&self, _: Address, _: Address, _: Address) -> Result<U256, ChainError> {
        Ok(U256::from(self.read(|state| state.allowance)))
    }
}

#[async_trait]
impl PreparationLookup for PlayedChain {
    fn fallback_account(&self) -> Option<Address> {
        self.read(|state| state.fallback)
    }

    async fn reference_point(&self, _: DateTime<Utc>) -> Result<ReferencePoint, ChainError> {
        self.check_up()?;
        Ok(ReferencePoint {
            block: ReferenceBlock::of_block(&B256::repeat_byte(0xab)),
            time_ms: BLOCK_TIME_MS,
        })
    }

    async fn resources(&self, _: Address, _: Address) -> Result<PayerResources, ChainError> {
        self.check_up()?;
        Ok(self.read(|state| state.resources))
    }

    async fn simulate(&self, _: Address, step: &PaymentTransaction) -> Result<StepSimulation, ChainError> {
        self.check_up()?;
        Ok(self.read(|state| {
            state.simulated.push(step.clone());
            let is_reset = *step == approval_step(address(TOKEN), address(PROXY), U256::ZERO);
            if step.to == address(TOKEN) && state.wants_reset && !is_reset {
                return StepSimulation::Reverts { reason: String::new() };
            }
            StepSimulation::Succeeds { energy: state.energy }
        }))
    }
}

pub(crate) async fn app_with(change: impl FnOnce(&mut Settings)) -> (TestApp, Arc<PlayedChain>) {
    let mut settings = settings();
    let tron = ChainSettings {
        api_urls: vec!["http://127.0.0.1:9".to_owned()],
        ..ChainSettings::default()
    };
    settings.chains.insert("tron".to_owned(), tron);
    change(&mut settings);
    let chain = Arc::new(PlayedChain(Mutex::new(PlayedState {
        fallback: Some(address(FALLBACK)),
        allowance: 0,
        resources: PayerResources::NONE,
        energy: 65_000,
        wants_reset: false,
        is_down: false,
        simulated: Vec::new(),
    })));
    let app = TestApp::with(settings, None).await;
    let played = chain.clone();
    let app = app.with_ctx(|ctx| {
        let standings: Arc<dyn StandingLookup> = played.clone();
        let preparations: Arc<dyn PreparationLookup> = played;
        let mut chains = Chains::clone(&ctx.partners.chains);
        chains.standings.insert(Network::Tron, standings);
        chains.preparations.insert(Network::Tron, preparations);
        ctx.partners = Partners {
            chains: Arc::new(chains),
            ..ctx.partners.clone()
        };
    });
    (app, chain)
}

fn usdt(amount: &str) -> Value {
    let mut body = request(amount, "USDT-tron", "USDT-tron");
    body["payee"] = json!(PAYEE);
    body
}

pub(crate) fn payout_link(amount: &str) -> Value {
    let mut body = payout_of(PAYEE, amount);
    body["network"] = json!("tron");
    body["currency"] = json!("USDT-tron");
    body["creatorWalletAddress"] = json!(PAYER);
    body
}

impl TestApp {
    async fn pay_answer(&self, id: &str, query: &str) -> Answer {
        self.get(&format!("/v2/request/{id}/pay{query}"))
            .with_client()
            .send()
            .await
    }
}

/// Decodes the unsigned transaction of an item, and checks that its members agree.
pub(crate) fn decoded(item: &Value) -> TronTransaction {
    let text = |name: &str| item[name].as_str().unwrap_or_else(|| panic!("{name} in {item}"));
    let bytes = hex::decode(text("raw_data_hex")).expect("hexadecimal");
    let transaction = TronTransaction::decode(&bytes).expect("a transaction");
    assert_eq!(hex::encode(transaction.tx_id()), text("txID"));
    let call = &item["raw_data"]["contract"][0]["parameter"]["value"];
    assert_eq!(format!("0x{}", call["data"].as_str().expect("text")), text("data"));
    assert_eq!(address(text("to")).bytes(), transaction.call.contract);
    transaction
}

#[tokio::test]
async fn without_a_wallet_the_fallback_account_serves_the_estimates() {
    let (app, chain) = app_with(|_| {}).await;
    let id = app.create_request(&usdt("10")).await;
    let answer = app.pay_answer(&id, "").await.expect(200);
    let items = answer["transactions"].as_array().expect("a list");
    assert_eq!(items.len(), 2);
    assert_eq!(
        (items[0]["to"].as_str(), items[1]["to"].as_str()),
        (Some(TOKEN), Some(PROXY))
    );
    assert_eq!(items[0]["chainId"], 728_126_428);
    assert_eq!(items[0]["value"], json!({ "type": "BigNumber", "hex": "0x00" }));
    assert!(items.iter().all(|item| item.get("raw_data").is_none()));
    let metadata = &answer["metadata"];
    assert_eq!(metadata["energy"], json!({ "approval": 65_000, "payment": 170_000 }));
    assert_eq!(metadata["isPaymentEnergyAssumed"], true);
    assert_eq!(metadata["approvalFeeLimit"], "100000000");
    assert_eq!(metadata["paymentFeeLimit"], "300000000");
    assert!(metadata.get("balance").is_none() && metadata.get("estimatedNetworkFeeUsd").is_none());
    chain.read(|state| state.is_down = true);
    let answer = app.pay_answer(&id, "").await.expect(200);
    assert!(answer["metadata"].get("energy").is_none(), "no node is needed");
}

#[tokio::test]
async fn with_a_wallet_each_transaction_is_complete_and_lives_for_sixty_seconds() {
    let (app, chain) = app_with(|_| {}).await;
    let id = app.create_request(&usdt("10")).await;
    let answer = app.pay_answer(&id, &format!("?wallet={PAYER}")).await.expect(200);
    let items = answer["transactions"].as_array().expect("a list");
    let transactions: Vec<TronTransaction> = items.iter().map(decoded).collect();
    for transaction in &transactions {
        assert_eq!(transaction.call.owner, address(PAYER).bytes());
        assert_eq!(transaction.timestamp_ms, BLOCK_TIME_MS);
        assert_eq!(transaction.expiration_ms, BLOCK_TIME_MS + 60_000);
        assert_eq!(
            transaction.reference_block,
            ReferenceBlock::of_block(&B256::repeat_byte(0xab))
        );
    }
    let limits: Vec<u64> = transactions
        .iter()
        .map(|transaction| transaction.fee_limit_sun)
        .collect();
    assert_eq!(limits, [100_000_000, 300_000_000]);
    let metadata = &answer["metadata"];
    assert_eq!(
        (&metadata["balance"], &metadata["allowance"]),
        (&json!("50"), &json!("0"))
    );
    assert_eq!(
        (&metadata["requiredAmount"], &metadata["nativeBalance"]),
        (&json!("10"), &json!("40"))
    );
    assert_eq!(metadata["hasEnoughAllowance"], false);
    assert_eq!(metadata["hasEnoughGas"], true);
    chain.read(|state| {
        state.allowance = 10_000_000;
        state.resources.energy = 60_000;
        state.resources.free_bandwidth = 600;
    });
    let answer = app.pay_answer(&id, &format!("?wallet={PAYER}")).await.expect(200);
    assert_eq!(answer["transactions"].as_array().expect("a list").len(), 1);
    let metadata = &answer["metadata"];
    assert_eq!(metadata["energy"], json!({ "approval": 0, "payment": 65_000 }));
    assert_eq!(metadata["isPaymentEnergyAssumed"], false);
    assert_eq!(metadata["estimatedPaymentNetworkFee"], "0.5", "5,000 units of energy");
    assert_eq!(metadata["estimatedNetworkFee"], "0.5");
}

#[tokio::test]
async fn a_reset_is_returned_only_if_the_simulated_approval_fails() {
    let (app, chain) = app_with(|_| {}).await;
    let id = app.create_request(&usdt("10")).await;
    let query = format!("?wallet={PAYER}");
    chain.read(|state| state.allowance = 3);
    let answer = app.pay_answer(&id, &query).await.expect(200);
    assert_eq!(answer["transactions"].as_array().expect("a list").len(), 2);
    chain.read(|state| state.wants_reset = true);
    let answer = app.pay_answer(&id, &query).await.expect(200);
    let items = answer["transactions"].as_array().expect("a list");
    assert_eq!(items.len(), 3);
    let reset = approval_step(address(TOKEN), address(PROXY), U256::ZERO);
    assert_eq!(decoded(&items[0]).call.data, reset.calldata);
    assert_eq!(answer["metadata"]["approvalTransactionIndex"], 1);
    chain.read(|state| state.allowance = 0);
    let refused = app.pay_answer(&id, &query).await;
    refused.expect(400);
    assert_eq!(refused.wrong_fields(), ["wallet"]);
}

#[tokio::test]
async fn payers_that_can_pay_nothing_are_refused_in_words() {
    let (app, chain) = app_with(|_| {}).await;
    let id = app.create_request(&usdt("10")).await;
    let payout = {
        let mut body = usdt("10");
        body["payerWallet"] = json!(PAYER);
        body
    };
    for (flaw, words) in [
        (
            PayerResources {
                is_activated: false,
                ..PayerResources::NONE
            },
            "is not activated",
        ),
        (
            PayerResources {
                is_blocked: true,
                ..PayerResources::NONE
            },
            "is frozen by the issuer",
        ),
    ] {
        chain.read(|state| state.resources = flaw);
        let refused = app.pay_answer(&id, &format!("?wallet={PAYER}")).await;
        refused.expect(400);
        assert!(refused.text.contains(words), "{}", refused.text);
        assert_eq!(refused.wrong_fields(), ["wallet"]);
        let refused = app.post("/v2/payouts").with_key().json(&payout).send().await;
        refused.expect(400);
        assert_eq!(refused.wrong_fields(), ["payerWallet"]);
    }
}

#[tokio::test]
async fn an_estimate_above_the_limit_is_refused_with_both_figures() {
    let (app, chain) = app_with(|settings| {
        let tron = settings.chains.get_mut("tron").expect("enabled");
        tron.payment_fee_limit_trx = Some(20);
    })
    .await;
    let id = app.create_request(&usdt("10")).await;
    chain.read(|state| {
        state.allowance = 10_000_000;
        state.energy = 200_001;
    });
    let refused = app.pay_answer(&id, &format!("?wallet={PAYER}")).await;
    refused.expect(400);
    assert!(
        refused.text.contains("20.0001 TRX") && refused.text.contains("at most 20 TRX"),
        "{}",
        refused.text
    );
}

#[tokio::test]
async fn two_receivers_of_charges_are_refused_by_the_member_of_the_call() {
    let (app, _) = app_with(|settings| {
        settings.fees.protocol_bps = 10;
        settings.fees.protocol_address = Some("0x14dC79964da2C08b23698B3D3cc7Ca32193d9955".to_owned());
        settings.fees.protocol_tron_address = Some(FEES.to_owned());
    })
    .await;
    let id = app.create_request(&usdt("10")).await;
    let fee = |receiver: &str| format!("?feePercentage=1&feeAddress={receiver}");
    let refused = app.pay_answer(&id, &fee(OTHER_FEES)).await;
    refused.expect(400);
    assert_eq!(refused.wrong_fields(), ["feeAddress"]);
    let answer = app.pay_answer(&id, &fee(FEES)).await.expect(200);
    let data = answer["transactions"][1]["data"].as_str().expect("text");
    let data = hex::decode(data).expect("hexadecimal");
    let call = Erc20FeeProxy::transferFromWithReferenceAndFeeCall::abi_decode(&data).expect("the call of the proxy");
    assert_eq!(call.feeAddress, address(FEES).bytes());
    assert_eq!(call.feeAmount, U256::from(100_000 + 10_000));
    let mut link = payout_link("10");
    link["feePercentage"] = json!("1");
    link["feeAddress"] = json!(OTHER_FEES);
    let refused = app.payout_link(&link).await;
    refused.expect(400);
    assert_eq!(refused.wrong_fields(), ["feeAddress"]);
}

#[tokio::test]
async fn without_a_tron_receiver_the_service_charges_no_fee_on_tron() {
    let (app, _) = app_with(|settings| {
        settings.fees.protocol_bps = 10;
        settings.fees.protocol_address = Some("0x14dC79964da2C08b23698B3D3cc7Ca32193d9955".to_owned());
    })
    .await;
    let id = app.create_request(&usdt("10")).await;
    let answer = app.pay_answer(&id, "").await.expect(200);
    assert!(answer["metadata"].get("protocolFee").is_none());
}

#[tokio::test]
async fn links_return_hexadecimal_values_and_balances_without_a_wallet() {
    let (app, _) = app_with(|_| {}).await;
    let token = token_of(&app.payout_link(&payout_link("10")).await.expect(201));
    let shown = app.open_link(&token, "").send().await.expect(200);
    let option = &shown["paymentOptions"]["TRON"]["USDT"];
    let expected = json!({ "balance": "50", "hasEnoughBalance": true, "neededAmount": "10" });
    assert_eq!(option, &expected);
    let answer = app.calldata_of(&token, Some(PAYER)).await.expect(200);
    let items = answer["transactions"].as_array().expect("a list");
    let approval = approval_step(address(TOKEN), address(PROXY), U256::from(10_000_000));
    assert_eq!(decoded(&items[0]).call.data, approval.calldata, "exactly the amount");
    assert_eq!(
        (&items[1]["value"], &items[1]["chainId"]),
        (&json!("0x0"), &json!(728_126_428))
    );
    let metadata = &answer["metadata"];
    assert_eq!(metadata["transactionSponsorshipFeeUsd"], Value::Null);
    assert_eq!(metadata["paymentFeeLimit"], "300000000");
}
