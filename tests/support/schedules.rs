//! Helpers to create and execute recurring payments.

use super::{
    Answer, TestApp,
    chain::{PAYER, lead, transactions},
    requests::{PAYEE, fau},
    wallet::token,
};
use alloy::{
    primitives::{Address as EvmAddress, U256},
    sol,
    sol_types::SolCall,
};
use chrono::DateTime;
use devnet::{RELAYER_INDEX, TxReceiptLite};
use poem::http::Method;
use prs::{
    domain::{
        address::Address,
        amount::Amount,
        ids::ScheduleId,
        network::Network,
        permit::Permit,
        relay::RelayTransaction,
        request::Origin,
        schedule::{AskedAmount, Schedule},
    },
    flows::{
        FlowResult,
        schedules::relay::{self, RelayProgress, Sendings},
    },
    ports::relay::Relay,
    store,
};
use serde_json::{Value, json};
use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

sol! {
    function allowance(address owner, address spender) view returns (uint256);
    function grantRole(bytes32 role, address account);
    function revokeRole(bytes32 role, address account);
    function transferFromWithReferenceAndFee(address token, address to, uint256 amount, bytes paymentReference, uint256 feeAmount, address feeAddress);
}

/// First due time of [`recurring`]: long after the clock of any machine that runs the local chain.
pub const FIRST_DAY: i64 = 2_211_667_200;

/// Seconds per month in the contract.
pub const MONTH_S: i64 = 2_592_000;

/// Maximum number of relayer passes for which a helper waits.
const LOOKS_MAX: usize = 200;

/// The body of a recurring payout of 1.5 FAU a month.
pub fn recurring(app: &TestApp, total_payments: u32) -> Value {
    let mut body = fau("1.5");
    body["recurrence"] = json!({
        "startDate": "2040-02-01",
        "frequency": "MONTHLY",
        "totalPayments": total_payments,
        "payer": app.account(PAYER),
    });
    body
}

/// Creates a schedule, approves its allowance and submits the payer's signature; returns the response to the creation.
pub async fn schedule(app: &TestApp, body: &Value) -> Value {
    let made = app.new_schedule(body).await.expect(201);
    let steps = transactions(&made);
    let receipts = app.devnet().pay(PAYER, &steps).await.expect("mined");
    assert!(receipts.iter().all(|receipt| receipt.status));
    let signature = app.sign_permit(PAYER, &made["recurringPaymentPermit"]).await;
    let id = made["id"].as_str().expect("an id");
    app.activate_schedule(id, &signature).await.expect(201);
    made
}

/// Sets the time, in Unix seconds, at which the relayer next checks a schedule.
pub async fn wake_at(app: &TestApp, schedule: &Schedule, second: i64) {
    let woken = Schedule {
        wake_at: DateTime::from_timestamp(second, 0),
        ..schedule.clone()
    };
    let replaced = store::schedules::replace(app.ctx.db.writer(), schedule, &woken).await;
    assert!(replaced.expect("a write"), "no concurrent change");
}

/// Polls a future at most this number of times and drops it, as if the process were killed; `None` if the future was
/// not ready by then.
pub async fn cut<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// Creates a schedule of a client ID that waits for the signature of this payer. Writes it directly to the store,
/// without a chain.
pub async fn waiting(app: &TestApp, client_id: &str, payer: Address) -> Schedule {
    let client = store::client_ids::find_by_client_id(app.ctx.db.reader(), client_id).await;
    let client = client.expect("a read").expect("a client ID");
    let address = |last| Address::Evm(EvmAddress::with_last_byte(last));
    let token = Address::parse(&token(app, "FAU-sepolia")).expect("an address");
    let origin = Origin {
        platform: client.platform,
        client: Some(client.row),
        client_id: Some(client.client_id),
        page: None,
        orchestrator: None,
    };
    let permit = Permit {
        chain_id: Network::Sepolia.chain_id(),
        contract: address(1),
        subscriber: payer,
        token,
        recipient: address(3),
        fee_address: None,
        amount: 1,
        fee: 0,
        relayer_fee: 0,
        period_s: 86_400,
        first_payment_s: u32::try_from(FIRST_DAY).expect("32 bits"),
        total_payments: 2,
        nonce: U256::from(7),
        deadline_s: u64::try_from(FIRST_DAY + 2 * MONTH_S).expect("after 1970"),
    };
    let asked = AskedAmount {
        amount: Amount::parse("0.000000000000000001").expect("an amount"),
        currency: "FAU-sepolia".to_owned(),
    };
    let (id, now) = (ScheduleId(app.ctx.ids.ulid()), app.ctx.clock.now());
    let schedule = Schedule::unsigned(id, origin, Network::Sepolia, permit, asked, now);
    let written = store::schedules::insert(app.ctx.db.writer(), &schedule).await;
    written.expect("a write");
    schedule
}

impl TestApp {
    /// Creates a recurring payout with the backend client ID.
    pub async fn new_schedule(&self, body: &Value) -> Answer {
        self.post("/v2/payouts").with_client().json(body).send().await
    }

    /// Signs a permit with the wallet of an account, as typed data.
    pub async fn sign_permit(&self, account: usize, permit: &Value) -> String {
        let member = |name: &str, kind: &str| json!({ "name": name, "type": kind });
        let mut types = permit["types"].clone();
        types["EIP712Domain"] = json!([
            member("name", "string"),
            member("version", "string"),
            member("chainId", "uint256"),
            member("verifyingContract", "address"),
        ]);
        let data = json!({
            "types": types,
            "primaryType": "SchedulePermit",
            "domain": permit["domain"],
            "message": permit["values"],
        });
        let signed = self
            .devnet()
            .rpc("eth_signTypedData_v4", json!([self.account(account), data]));
        let signed = signed.await.expect("a signature");
        signed.as_str().expect("text").to_owned()
    }

    /// Submits a signature.
    pub async fn activate_schedule(&self, id: &str, signature: &str) -> Answer {
        let body = json!({ "permitSignature": signature });
        let path = format!("/v2/payouts/recurring/{id}");
        self.post(&path).with_client().json(&body).send().await
    }

    /// Reads a schedule.
    pub async fn read_schedule(&self, id: &str) -> Value {
        let path = format!("/v2/payouts/recurring/{id}");
        self.get(&path).with_key().send().await.expect(200)
    }

    /// Cancels or unpauses a schedule.
    pub async fn update_schedule(&self, id: &str, action: &str) -> Answer {
        let body = json!({ "action": action });
        let path = format!("/v2/payouts/recurring/{id}");
        self.call(Method::PATCH, &path).with_client().json(&body).send().await
    }

    /// The account that executes payments.
    pub fn relayer(&self) -> Arc<dyn Relay> {
        self.ctx.partners.relays[&Network::Sepolia].clone()
    }

    /// Makes one pass of the relayer, as the leader of a new term. The relayer remembers nothing from earlier passes.
    pub async fn relay_once(&self) -> FlowResult<RelayProgress> {
        let chain = &self.ctx.partners.chains.followed[&Network::Sepolia];
        let leadership = lead(&self.ctx, Network::Sepolia).await;
        relay::run(
            &self.ctx,
            self.relayer().as_ref(),
            chain.as_ref(),
            &leadership,
            &Sendings::default(),
        )
        .await
    }

    /// Executes due payments and follows the chain until nothing changes and nothing is pending.
    pub async fn execute(&self) {
        for _ in 0..LOOKS_MAX {
            self.follow().await;
            let look = self.relay_once().await.expect("a look");
            if look.has_moved {
                continue;
            }
            if look.pending == 0 {
                return;
            }
            // The node mines a transaction shortly after accepting it.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the relayer never becomes idle");
    }

    /// Lets the relayer send due payments and makes the node drop them; returns what was sent.
    pub async fn send_and_forget(&self) -> Vec<RelayTransaction> {
        self.devnet().set_automine(false).await.expect("set");
        self.relay_once().await.expect("a look");
        let sent = self.pending_transactions().await;
        let dropped = self.devnet().drop_transaction(sent[0].bids[0].tx_hash).await;
        dropped.expect("dropped");
        self.devnet().set_automine(true).await.expect("set");
        sent
    }

    /// Transactions that are not in a final block.
    pub async fn pending_transactions(&self) -> Vec<RelayTransaction> {
        let relayer = self.relayer().address();
        let pending = store::relays::pending(self.ctx.db.reader(), Network::Sepolia, relayer, 100);
        pending.await.expect("a read")
    }

    /// Moves the clock of the service to a second.
    pub async fn clock_to(&self, second: i64) {
        let time = DateTime::from_timestamp(second, 0).expect("a time");
        self.clock.advance(time - self.ctx.clock.now());
    }

    /// Moves the clock of the service to a Unix second, and the time of the chain to at least the same second.
    pub async fn both_to(&self, second: i64) {
        self.clock_to(second).await;
        let newest = self.devnet().block(alloy::eips::BlockNumberOrTag::Latest).await;
        let newest = newest.expect("asked").expect("a block").timestamp;
        let wanted = u64::try_from(second).expect("after 1970");
        if newest < wanted {
            self.devnet().increase_time(wanted - newest).await.expect("moved");
            self.devnet().mine(1).await.expect("mined");
        }
        self.follow().await;
    }

    /// Sets how much of the payer's FAU the schedule contract may transfer.
    pub async fn approve_schedules(&self, amount: &str) {
        let spender = self.devnet().contracts().recurring_payment_proxy;
        let token = self.devnet().tokens().fau;
        let amount = units(amount);
        self.devnet()
            .approve(PAYER, token, spender, amount)
            .await
            .expect("mined");
    }

    /// How much of the payer's FAU the schedule contract may still transfer.
    pub async fn schedule_allowance(&self) -> U256 {
        let call = allowanceCall {
            owner: self.devnet().accounts()[PAYER].address,
            spender: self.devnet().contracts().recurring_payment_proxy,
        };
        let answer = self
            .devnet()
            .call(PAYER, self.devnet().tokens().fau, call.abi_encode(), U256::ZERO);
        U256::from_be_slice(&answer.await.expect("answers"))
    }

    /// FAU balance of the payee.
    pub async fn payee_balance(&self) -> U256 {
        let payee = PAYEE.parse().expect("an address");
        self.devnet()
            .balance_of(self.devnet().tokens().fau, payee)
            .await
            .expect("answers")
    }

    /// Sends one unit with the payment reference of a scheduled payment, and follows the chain. Any observer of the
    /// chain can send such a payment.
    pub async fn send_dust(&self, id: &str, payment: usize) {
        let read = self.read_schedule(id).await;
        let reference = read["requests"][payment]["paymentReference"].as_str().expect("text");
        let (chain, stranger) = (self.devnet(), 5);
        let (proxy, token) = (chain.contracts().erc20_fee_proxy, chain.tokens().fau);
        let approved = chain.approve(stranger, token, proxy, U256::from(1)).await;
        assert!(approved.expect("mined").status);
        let call = transferFromWithReferenceAndFeeCall {
            token,
            to: PAYEE.parse().expect("an address"),
            amount: U256::from(1),
            paymentReference: hex::decode(reference).expect("hexadecimal").into(),
            feeAmount: U256::ZERO,
            feeAddress: EvmAddress::ZERO,
        };
        let paid = chain.send(stranger, proxy, call.abi_encode(), U256::ZERO).await;
        assert!(paid.expect("mined").status);
        self.follow().await;
    }

    /// Grants an account the relayer role.
    pub async fn admit_relayer(&self, account: usize) {
        let call = grantRoleCall {
            role: alloy::primitives::keccak256("RELAYER_ROLE"),
            account: self.devnet().accounts()[account].address,
        };
        let contract = self.devnet().contracts().recurring_payment_proxy;
        let granted = self.devnet().send(0, contract, call.abi_encode(), U256::ZERO).await;
        assert!(granted.expect("mined").status);
    }

    /// Revokes the role of the relayer.
    pub async fn revoke_relayer(&self) -> TxReceiptLite {
        let call = revokeRoleCall {
            role: alloy::primitives::keccak256("RELAYER_ROLE"),
            account: self.devnet().accounts()[RELAYER_INDEX].address,
        };
        let contract = self.devnet().contracts().recurring_payment_proxy;
        self.devnet()
            .send(0, contract, call.abi_encode(), U256::ZERO)
            .await
            .expect("mined")
    }
}

/// FAU amount in its smallest unit.
pub fn units(amount: &str) -> U256 {
    let amount = prs::domain::amount::Amount::parse(amount);
    amount.map_or(U256::ZERO, |amount| amount.to_units(18).expect("fits"))
}
