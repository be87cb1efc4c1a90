//! The contents of a started chain: the connected payment contracts, prices, and funded tokens.
//!
//! The first account deploys in a fixed order, so the addresses are the same on every start.

use alloy::{
    primitives::{Address, B256, I256, U256, address, keccak256},
    sol,
    sol_types::{SolCall, SolValue},
};
use anyhow::{Context as _, bail};
use serde::Serialize;
use serde_json::json;

use crate::{
    bytecode::{own, published},
    node::Account,
    rpc::Rpc,
};

/// Index of the account that may trigger recurring payments.
pub const RELAYER_INDEX: usize = 9;

/// Index of the account that owns the deployed smart wallet.
pub const SMART_WALLET_OWNER_INDEX: usize = 8;

/// The factory contract of the node. Its input is a salt followed by creation code, and it deploys the contract.
pub const FACTORY: Address = address!("4e59b44847b379578588920cA78FbF26c0B4956C");

/// Price of one FAU, USDC, USDT or fee-on-transfer token, in USD with 8 decimals.
pub const TOKEN_PRICE_E8_USD: u64 = 100_000_000;
/// Price of one native coin, in USD with 8 decimals.
pub const NATIVE_PRICE_E8_USD: u64 = 250_000_000_000;
/// Price of one euro, in USD with 8 decimals.
pub const EUR_PRICE_E8_USD: u64 = 110_000_000;
/// Price of one pound sterling, in USD with 8 decimals.
pub const GBP_PRICE_E8_USD: u64 = 130_000_000;

/// Address of the token FAU on Sepolia. FAU has the same address on this chain, so that an example with the address
/// works on both.
const FAU: Address = address!("370DE27fdb7D1Ff1e1BaA7D11c5820a324Cf623C");
const FAU_NAMES: [&str; 2] = ["FaucetToken", "FAU"];
const FAU_DECIMALS: u8 = 18;

/// Age in seconds that the price feeds report for their price, so that a limit on the age can be tested.
const PRICE_AGE_SECONDS: u8 = 60;
const PRICE_DECIMALS: u8 = 8;

const FEE_ON_TRANSFER_BPS: u64 = 10;
const HOLDING_IN_WHOLE_TOKENS: u64 = 1_000_000_000;
const USDT_SUPPLY_IN_WHOLE_TOKENS: u64 = 1_000 * HOLDING_IN_WHOLE_TOKENS;

/// Addresses of the contracts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Contracts {
    /// Pays a token with reference and fee.
    pub erc20_fee_proxy: Address,
    /// Pays the native coin with reference and fee.
    pub ethereum_fee_proxy: Address,
    /// Pays a token with reference, without fee.
    pub erc20_proxy: Address,
    /// Pays the native coin with reference, without fee.
    pub ethereum_proxy: Address,
    /// Stores the prices for the conversion proxies.
    pub chainlink_conversion_path: Address,
    /// Pays a token for an amount in another currency.
    pub erc20_conversion_proxy: Address,
    /// Pays the native coin for an amount in another currency.
    pub eth_conversion_proxy: Address,
    /// Pays several requests at once, with or without conversion.
    pub batch_conversion_payments: Address,
    /// The older batch contract, without conversion.
    pub batch_payments: Address,
    /// A swap router that takes two base units of a token for one base unit of any other token.
    pub swap_router: Address,
    /// Swaps a token and pays with the proceeds.
    pub erc20_swap_to_pay: Address,
    /// Creates a payment address for each request.
    pub single_request_proxy_factory: Address,
    /// Pays a signed schedule; the account at [`RELAYER_INDEX`] may trigger it.
    pub recurring_payment_proxy: Address,
    /// An account contract owned by the account at [`SMART_WALLET_OWNER_INDEX`].
    pub smart_wallet: Address,
}

impl Contracts {
    /// Every contract with its name.
    pub fn all(&self) -> [(&'static str, Address); 14] {
        [
            ("erc20FeeProxy", self.erc20_fee_proxy),
            ("ethereumFeeProxy", self.ethereum_fee_proxy),
            ("erc20Proxy", self.erc20_proxy),
            ("ethereumProxy", self.ethereum_proxy),
            ("chainlinkConversionPath", self.chainlink_conversion_path),
            ("erc20ConversionProxy", self.erc20_conversion_proxy),
            ("ethConversionProxy", self.eth_conversion_proxy),
            ("batchConversionPayments", self.batch_conversion_payments),
            ("batchPayments", self.batch_payments),
            ("swapRouter", self.swap_router),
            ("erc20SwapToPay", self.erc20_swap_to_pay),
            ("singleRequestProxyFactory", self.single_request_proxy_factory),
            ("recurringPaymentProxy", self.recurring_payment_proxy),
            ("smartWallet", self.smart_wallet),
        ]
    }
}

/// Addresses of the tokens. Every account, the smart wallet and the swap router own plenty of each token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    /// A plain token with 18 decimals.
    #[serde(rename = "FAU")]
    pub fau: Address,
    /// A plain token with 6 decimals.
    #[serde(rename = "USDC")]
    pub usdc: Address,
    /// A token with 6 decimals that returns nothing and refuses to change a non-zero allowance.
    #[serde(rename = "USDT")]
    pub usdt: Address,
    /// A token with 6 decimals that keeps 10 basis points of every transfer.
    pub fee_on_transfer: Address,
    /// A worthless token with 6 decimals that calls itself USDC and moves nothing.
    pub worthless: Address,
}

impl Tokens {
    /// Every token with its name.
    pub fn all(&self) -> [(&'static str, Address); 5] {
        [
            ("FAU", self.fau),
            ("USDC", self.usdc),
            ("USDT", self.usdt),
            ("feeOnTransfer", self.fee_on_transfer),
            ("worthless", self.worthless),
        ]
    }
}

/// The hash of a non-token currency in the conversion contracts; `kind` is `ISO4217` or `ETH`.
pub fn currency_hash(kind: &str, symbol: &str) -> Address {
    let preimage = format!(r#"{{"type":"{kind}","value":"{symbol}"}}"#).to_lowercase();
    Address::from_word(keccak256(preimage))
}

/// The hash of a chain's native coin in the conversion contracts.
pub fn native_currency_hash(chain_id: u64) -> Address {
    let symbol = match chain_id {
        10 => "ETH-optimism",
        56 => "BNB",
        137 => "MATIC",
        8453 => "ETH-base",
        42161 => "AETH",
        11_155_111 => "ETH-sepolia",
        728_126_428 => "TRX",
        _ => "ETH",
    };
    currency_hash("ETH", symbol)
}

sol! {
    interface Setup {
        function updateAggregatorsList(address[] inputs, address[] outputs, address[] aggregators) external;
        function setNativeAndUSDAddress(address native, address usd) external;
        function setBatchFeeAmountUSDLimit(uint64 limit) external;
        function approveRouterToSpend(address token) external;
        function approvePaymentProxyToSpend(address token, address proxy) external;
        function transfer(address to, uint256 amount) external;
        function mint(address to, uint256 amount) external;
    }

    interface ConversionBatch {
        function setBatchFee(uint16 fee) external;
    }

    interface PlainBatch {
        function setBatchFee(uint256 fee) external;
    }
}

struct Step {
    label: String,
    to: Option<Address>,
    code_or_call: Vec<u8>,
}

/// The deployment as transactions of the first account, in order.
struct Plan {
    deployer: Address,
    steps: Vec<Step>,
}

impl Plan {
    fn create(&mut self, label: &str, code: Vec<u8>, arguments: Vec<u8>) -> Address {
        let address = self.deployer.create(self.steps.len() as u64);
        self.steps.push(Step {
            label: label.to_owned(),
            to: None,
            code_or_call: [code, arguments].concat(),
        });
        address
    }

    fn create_published(&mut self, path: &str, arguments: Vec<u8>) -> anyhow::Result<Address> {
        Ok(self.create(path, published(path)?, arguments))
    }

    fn create_own(&mut self, name: &str, arguments: Vec<u8>) -> anyhow::Result<Address> {
        Ok(self.create(name, own(name)?, arguments))
    }

    fn call<C: SolCall>(&mut self, to: Address, call: C) {
        self.steps.push(Step {
            label: C::SIGNATURE.to_owned(),
            to: Some(to),
            code_or_call: call.abi_encode(),
        });
    }

    async fn run(&self, rpc: &Rpc) -> anyhow::Result<()> {
        // Every nonce is explicit, so all transactions can be sent at once and still execute in order.
        let calls: Vec<_> = self
            .steps
            .iter()
            .enumerate()
            .map(|(nonce, step)| {
                // The gas limit is explicit: an estimate would need the contracts of the previous steps.
                let gas = 1_000_000 + 300 * step.code_or_call.len();
                let mut transaction = json!({
                    "from": self.deployer,
                    "nonce": format!("{nonce:#x}"),
                    "gas": format!("{gas:#x}"),
                    "input": hex::encode_prefixed(&step.code_or_call),
                });
                if let Some(to) = step.to {
                    transaction["to"] = json!(to);
                }
                ("eth_sendTransaction", json!([transaction]))
            })
            .collect();
        let hashes = rpc.call_all(&calls).await?;
        rpc.call("anvil_mine", json!([])).await?;
        let calls: Vec<_> = hashes
            .into_iter()
            .map(|hash| ("eth_getTransactionReceipt", json!([hash])))
            .collect();
        for (step, receipt) in self.steps.iter().zip(rpc.call_all(&calls).await?) {
            if receipt["status"] != "0x1" {
                bail!("the step `{}` of the deployment failed: {receipt}", step.label);
            }
        }
        Ok(())
    }
}

/// Deploys everything on a fresh chain that mines on demand.
pub(crate) async fn deploy(rpc: &Rpc, accounts: &[Account], chain_id: u64) -> anyhow::Result<(Contracts, Tokens)> {
    let account = |index: usize| {
        accounts
            .get(index)
            .map(|account| account.address)
            .context("too few accounts")
    };
    let deployer = account(0)?;
    let mut plan = Plan {
        deployer,
        steps: Vec::new(),
    };

    let erc20_fee_proxy = plan.create_published("ERC20FeeProxy", Vec::new())?;
    let ethereum_fee_proxy = plan.create_published("EthereumFeeProxy", Vec::new())?;
    let erc20_proxy = plan.create_published("ERC20Proxy", Vec::new())?;
    let ethereum_proxy = plan.create_published("EthereumProxy", Vec::new())?;
    let native = native_currency_hash(chain_id);
    let chainlink_conversion_path = plan.create_published(
        "ChainlinkConversionPath.sol/ChainlinkConversionPath",
        (native, deployer).abi_encode_params(),
    )?;
    let erc20_conversion_proxy = plan.create_published(
        "Erc20ConversionProxy",
        (erc20_fee_proxy, chainlink_conversion_path, deployer).abi_encode_params(),
    )?;
    let eth_conversion_proxy = plan.create_published(
        "EthConversionProxy",
        (ethereum_fee_proxy, chainlink_conversion_path, native, deployer).abi_encode_params(),
    )?;
    let batch_conversion_payments = plan.create_published(
        "BatchConversionPayments",
        (
            erc20_fee_proxy,
            ethereum_fee_proxy,
            erc20_conversion_proxy,
            eth_conversion_proxy,
            chainlink_conversion_path,
            deployer,
        )
            .abi_encode_params(),
    )?;
    let batch_payments = plan.create_published(
        "BatchPayments",
        (erc20_fee_proxy, ethereum_fee_proxy, deployer).abi_encode_params(),
    )?;
    let swap_router = plan.create_published("FakeSwapRouter", Vec::new())?;
    let erc20_swap_to_pay = plan.create_published(
        "ERC20SwapToPay.sol/ERC20SwapToPay",
        (swap_router, deployer).abi_encode_params(),
    )?;
    let single_request_proxy_factory = plan.create_published(
        "SingleRequestProxyFactory",
        (ethereum_fee_proxy, erc20_fee_proxy, deployer).abi_encode_params(),
    )?;
    let recurring_payment_proxy = plan.create_own(
        "RecurringPaymentProxy",
        (deployer, account(RELAYER_INDEX)?, erc20_fee_proxy).abi_encode_params(),
    )?;
    let smart_wallet = plan.create_own("SmartWallet", account(SMART_WALLET_OWNER_INDEX)?.abi_encode())?;

    let mut holders: Vec<Address> = accounts.iter().map(|account| account.address).collect();
    holders.extend([smart_wallet, swap_router]);
    place_fau(rpc).await?;
    let tokens = create_tokens(&mut plan, &holders)?;

    let usd = currency_hash("ISO4217", "USD");
    let token_price = create_price(&mut plan, TOKEN_PRICE_E8_USD)?;
    let prices = [
        (tokens.fau, token_price),
        (tokens.usdc, token_price),
        (tokens.usdt, token_price),
        (tokens.fee_on_transfer, token_price),
        (native, create_price(&mut plan, NATIVE_PRICE_E8_USD)?),
        (
            currency_hash("ISO4217", "EUR"),
            create_price(&mut plan, EUR_PRICE_E8_USD)?,
        ),
        (
            currency_hash("ISO4217", "GBP"),
            create_price(&mut plan, GBP_PRICE_E8_USD)?,
        ),
    ];
    let (inputs, aggregators) = prices.into_iter().unzip();
    plan.call(
        chainlink_conversion_path,
        Setup::updateAggregatorsListCall {
            inputs,
            outputs: vec![usd; prices.len()],
            aggregators,
        },
    );

    plan.call(
        batch_conversion_payments,
        Setup::setNativeAndUSDAddressCall { native, usd },
    );
    plan.call(
        batch_conversion_payments,
        Setup::setBatchFeeAmountUSDLimitCall { limit: u64::MAX },
    );
    plan.call(batch_conversion_payments, ConversionBatch::setBatchFeeCall { fee: 0 });
    plan.call(batch_payments, PlainBatch::setBatchFeeCall { fee: U256::ZERO });
    for token in [tokens.fau, tokens.usdc, tokens.usdt] {
        plan.call(erc20_swap_to_pay, Setup::approveRouterToSpendCall { token });
        plan.call(
            erc20_swap_to_pay,
            Setup::approvePaymentProxyToSpendCall {
                token,
                proxy: erc20_fee_proxy,
            },
        );
    }

    plan.run(rpc).await?;
    let contracts = Contracts {
        erc20_fee_proxy,
        ethereum_fee_proxy,
        erc20_proxy,
        ethereum_proxy,
        chainlink_conversion_path,
        erc20_conversion_proxy,
        eth_conversion_proxy,
        batch_conversion_payments,
        batch_payments,
        swap_router,
        erc20_swap_to_pay,
        single_request_proxy_factory,
        recurring_payment_proxy,
        smart_wallet,
    };
    Ok((contracts, tokens))
}

/// Places FAU at its Sepolia address: the code that its constructor returns, and the names that the constructor stores.
/// No address owns any FAU yet.
async fn place_fau(rpc: &Rpc) -> anyhow::Result<()> {
    let [name, symbol] = FAU_NAMES;
    let holders: Vec<Address> = Vec::new();
    let arguments = (name, symbol, U256::from(FAU_DECIMALS), holders, U256::ZERO).abi_encode_params();
    let creation = hex::encode_prefixed([own("TestToken")?, arguments].concat());
    let code = rpc.call("eth_call", json!([{ "input": creation }, "latest"])).await?;
    rpc.call("anvil_setCode", json!([FAU, code])).await?;
    for (slot, text) in FAU_NAMES.iter().enumerate() {
        // A short text is stored in its slot, with twice its length in the last byte.
        let mut word = B256::right_padding_from(text.as_bytes());
        word[31] = u8::try_from(2 * text.len()).context("the name or symbol of FAU is too long for a storage slot")?;
        let slot = B256::from(U256::from(slot));
        rpc.call("anvil_setStorageAt", json!([FAU, slot, word])).await?;
    }
    Ok(())
}

fn create_tokens(plan: &mut Plan, holders: &[Address]) -> anyhow::Result<Tokens> {
    let base_units = |whole: u64, decimals: u8| U256::from(whole) * U256::from(10).pow(U256::from(decimals));
    let holding = base_units(HOLDING_IN_WHOLE_TOKENS, 6);
    for &to in holders {
        let amount = base_units(HOLDING_IN_WHOLE_TOKENS, FAU_DECIMALS);
        plan.call(FAU, Setup::mintCall { to, amount });
    }
    let usdc = plan.create_own(
        "TestToken",
        ("USD Coin", "USDC", U256::from(6), holders.to_vec(), holding).abi_encode_params(),
    )?;
    let supply = base_units(USDT_SUPPLY_IN_WHOLE_TOKENS, 6);
    let usdt = plan.create_published(
        "BadERC20.sol/BadERC20",
        (supply, "Tether USD", "USDT", U256::from(6)).abi_encode_params(),
    )?;
    let deployer = plan.deployer;
    for &holder in holders.iter().filter(|&&holder| holder != deployer) {
        plan.call(
            usdt,
            Setup::transferCall {
                to: holder,
                amount: holding,
            },
        );
    }
    let fee_on_transfer = plan.create_own(
        "FeeOnTransferToken",
        (
            holders.to_vec(),
            holding,
            plan.deployer,
            U256::from(FEE_ON_TRANSFER_BPS),
        )
            .abi_encode_params(),
    )?;
    let worthless = plan.create_own("WorthlessToken", Vec::new())?;
    Ok(Tokens {
        fau: FAU,
        usdc,
        usdt,
        fee_on_transfer,
        worthless,
    })
}

/// Deploys a price feed whose price never changes; returns its address.
fn create_price(plan: &mut Plan, price_e8_usd: u64) -> anyhow::Result<Address> {
    let arguments = (
        I256::from_raw(U256::from(price_e8_usd)),
        U256::from(PRICE_DECIMALS),
        U256::from(PRICE_AGE_SECONDS),
    );
    plan.create_published("test/AggregatorMock", arguments.abi_encode_params())
}
