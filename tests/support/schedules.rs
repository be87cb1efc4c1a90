//! Setting up recurring payments, and executing them.

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
        schedule::{AskedFor, Schedule},
    },
    flows::{
        FlowResult,
        schedules::relay::{self, Look, Sendings},
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

/// Seconds of a month of the contract.
pub const MONTH_S: i64 = 2_592_000;

/// Looks that any test needs at most.
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

/// Makes a schedule, allows what it needs and signs it; returns what was answered first.
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

/// Has the relayer look at a schedule from a second on.
pub async fn wake_at(app: &TestApp, schedule: &Schedule, second: i64) {
    let woken = Schedule {
        wake_at: DateTime::from_timestamp(second, 0),
        ..schedule.clone()
    };
    let replaced = store::schedules::replace(app.ctx.db.writer(), schedule, &woken).await;
    assert!(replaced.expect("a write"), "nobody else changed it");
}

/// Runs a future for so many of its steps at most, as a process that dies in the middle of it; `None` when it did not end.
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

/// A schedule that waits for the signature of a wallet, made beside the operations by a client ID, without a chain.
pub async fn waiting(app: &TestApp, client_id: &str, payer: Address) -> Schedule {
    let client = store::client_ids::find_by_client_id(app.ctx.db.reader(), client_id).await;
    let client = client.expect("a read").expect("a client ID");
    let somebody = |last| Address::Evm(EvmAddress::with_last_byte(last));
    let token = Address::parse(&token(app, "FAU-sepolia")).expect("an address");
    let origin = Origin {
        platform: client.platform,
        client: Some(client.row),
        client_id: Some(client.client_id),
        page: None,
    };
    let permit = Permit {
        chain_id: Network::Sepolia.chain_id(),
        contract: somebody(1),
        subscriber: payer,
        token,
        recipient: somebody(3),
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
    let asked = AskedFor {
        amount: Amount::parse("0.000000000000000001").expect("an amount"),
        currency: "FAU-sepolia".to_owned(),
    };
    let (id, now) = (ScheduleId(app.ctx.ids.ulid()), app.ctx.clock.now());
    let schedule = Schedule::unsigned(id, origin, Network::Sepolia, (permit, asked), now);
    let written = store::schedules::insert(app.ctx.db.writer(), &schedule).await;
    written.expect("a write");
    schedule
}

impl TestApp {
    /// Asks for a recurring payout with the backend client ID.
    pub async fn new_schedule(&self, body: &Value) -> Answer {
        self.post("/v2/payouts").with_client().json(body).send().await
    }

    /// Has the wallet of an account sign a permit, as any wallet signs typed data.
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

    /// Hands in a signature.
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

    /// One look of a relayer without a memory, in a term of its own.
    pub async fn relay_once(&self) -> FlowResult<Look> {
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

    /// Executes what is due, follows the chain, and goes on until nothing changes and nothing is on its way.
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
            // The node makes the block of a transaction a moment after it took it.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the relayer never comes to rest");
    }

    /// Has the relayer send what is due and the node forget it; returns what was sent.
    pub async fn send_and_forget(&self) -> Vec<RelayTransaction> {
        self.devnet().set_automine(false).await.expect("set");
        self.relay_once().await.expect("a look");
        let sent = self.pending_transactions().await;
        let dropped = self.devnet().drop_transaction(sent[0].bids[0].tx_hash).await;
        dropped.expect("dropped");
        self.devnet().set_automine(true).await.expect("set");
        sent
    }

    /// Transactions that are in no final block.
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

    /// Moves the clock of the service to a second, and the chain at least as far.
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

    /// Allows the contract of schedules to take so many FAU from the payer.
    pub async fn approve_schedules(&self, amount: &str) {
        let spender = self.devnet().contracts().recurring_payment_proxy;
        let token = self.devnet().tokens().fau;
        let amount = units(amount);
        self.devnet()
            .approve(PAYER, token, spender, amount)
            .await
            .expect("mined");
    }

    /// What the contract of schedules may take of the payer's FAU.
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

    /// What the payee has of FAU.
    pub async fn payee_balance(&self) -> U256 {
        let payee = PAYEE.parse().expect("an address");
        self.devnet()
            .balance_of(self.devnet().tokens().fau, payee)
            .await
            .expect("answers")
    }

    /// Pays one unit with the reference of a payment of a schedule, as anybody can who saw it, and follows the chain.
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

    /// Gives an account the role of a relayer.
    pub async fn admit_relayer(&self, account: usize) {
        let call = grantRoleCall {
            role: alloy::primitives::keccak256("RELAYER_ROLE"),
            account: self.devnet().accounts()[account].address,
        };
        let contract = self.devnet().contracts().recurring_payment_proxy;
        let granted = self.devnet().send(0, contract, call.abi_encode(), U256::ZERO).await;
        assert!(granted.expect("mined").status);
    }

    /// Takes the role away from the relayer.
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

/// Units of FAU.
pub fn units(amount: &str) -> U256 {
    let amount = prs::domain::amount::Amount::parse(amount);
    amount.map_or(U256::ZERO, |amount| amount.to_units(18).expect("fits"))
}
