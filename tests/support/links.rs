//! Helpers to create, open and pay links.

use super::{
    Answer, TestApp,
    app::Call,
    chain::PAYER,
    requests::PAYEE,
    session::sign_in,
    wallet::{TestWallet, session, token},
};
use alloy::primitives::{Address as EvmAddress, B256, U256};
use prs::{
    ctx::PermitHolder,
    domain::{
        address::Address,
        amount::Amount,
        caller::SignedInPerson,
        network::Network,
        paying::{ApprovalAmount, charge::Charges},
    },
    flows::{
        destinations::{self, NewDestination},
        idempotency::RepeatableCall,
        paying::{PayingWallet, PaymentDue, PaymentPacking, hand_out, lookup::Lookup},
    },
    store::{self, Scope},
};
use serde_json::{Value, json};

/// The body of a link with one item for each of these amounts.
pub fn link_of(amounts: &[&str]) -> Value {
    let items: Vec<Value> = amounts.iter().map(|amount| json!({ "amount": amount })).collect();
    json!({ "requests": items })
}

/// The body of a payout link.
pub fn payout_of(recipient: &str, amount: &str) -> Value {
    json!({
        "recipient": recipient,
        "creatorWalletAddress": PAYEE,
        "network": "sepolia",
        "currency": "FAU-sepolia",
        "amount": amount,
    })
}

/// Token of a created link.
pub fn token_of(made: &Value) -> String {
    made["token"].as_str().expect("a token").to_owned()
}

impl TestApp {
    /// Creates a payee destination of the tenant for a token on Sepolia, so that its links can be paid in this token.
    pub async fn is_paid_in(&self, currency: &str) {
        let wallet = Address::parse(PAYEE).expect("an address");
        self.is_paid_on(Network::Sepolia, wallet, currency).await;
    }

    /// Creates a payee destination of the tenant: a wallet that is paid in a token on a network.
    pub async fn is_paid_on(&self, network: Network, wallet: Address, currency: &str) {
        let tx = self.ctx.db.begin("a wallet").await.expect("begins");
        let bound = store::accounts::bind_wallet(&tx, &wallet, &self.platform, self.ctx.clock.now()).await;
        bound.expect("written");
        tx.commit().await.expect("commits");
        let input = NewDestination {
            token: token(self, currency),
            chain_id: network.chain_id(),
            policy: None,
        };
        let owner = session(&self.platform, SignedInPerson::Wallet(wallet));
        destinations::create::run(&self.ctx, &owner, &input, RepeatableCall::unkeyed())
            .await
            .expect("a destination");
    }

    /// Signs in the user who owns the wallet [`PAYEE`] and belongs to the tenant; returns the session header.
    pub async fn owner(&self) -> String {
        let wallet = TestWallet::payee();
        let tx = self.ctx.db.begin("a wallet").await.expect("begins");
        let bound = store::accounts::bind_wallet(&tx, &wallet.address(), &self.platform, self.ctx.clock.now()).await;
        bound.expect("written");
        tx.commit().await.expect("commits");
        format!("Bearer {}", sign_in(self, &wallet).await)
    }

    /// Looks up the link of a request with the session.
    pub async fn find_link(&self, owner: &str, request: &Value) -> Answer {
        let id = request.as_str().expect("an id");
        let call = self.get(&format!("/v2/secure-payments?requestId={id}"));
        call.header("authorization", owner).send().await
    }

    /// Creates a link with the API key.
    pub async fn link(&self, body: &Value) -> Answer {
        self.post("/v2/secure-payments").with_key().json(body).send().await
    }

    /// Creates a payout link with the API key.
    pub async fn payout_link(&self, body: &Value) -> Answer {
        self.post("/v2/secure-payments/payouts")
            .with_key()
            .json(body)
            .send()
            .await
    }

    /// Opens a link with the backend client ID.
    pub fn open_link<'a>(&'a self, token: &str, query: &str) -> Call<'a> {
        self.get(&format!("/v2/secure-payments/{token}{query}")).with_client()
    }

    /// Requests the calldata of a link.
    pub async fn calldata_of(&self, token: &str, wallet: Option<&str>) -> Answer {
        let query = wallet.map_or_else(String::new, |wallet| format!("?wallet={wallet}"));
        self.open_link(token, &format!("/pay{query}")).send().await
    }

    /// Pays a link from an account of the local chain. The payment is mined but not yet detected.
    pub async fn pay_link(&self, token: &str) -> Value {
        let payer = self.account(PAYER);
        let calldata = self.calldata_of(token, Some(&payer)).await.expect(200);
        self.send_calldata(&calldata).await;
        calldata
    }

    /// Sends the transactions of a `/pay` response.
    pub async fn send_calldata(&self, calldata: &Value) {
        let steps = link_transactions(calldata);
        let receipts = self.devnet().pay(PAYER, &steps).await.expect("mined");
        assert!(receipts.iter().all(|receipt| receipt.status), "a transaction failed");
    }

    /// Pays part of a request in the test token with a call that the test encodes without the service. The payment is
    /// mined, but the service has not detected it yet.
    pub async fn pay_past_link(&self, request: &Value, amount: &str) {
        self.pay_past_link_in(request, amount, 18).await;
    }

    /// Like [`Self::pay_past_link`], but pays in a token with this number of decimals.
    pub async fn pay_past_link_in(&self, request: &Value, amount: &str, decimals: u8) {
        self.pay_past_link_from(PAYER, request, (amount, decimals), Charges::default())
            .await;
    }

    /// Pays part of a link with one request from an account, and the fees that the calldata of the link contains. The
    /// amount has this number of decimals. Returns the hashes of the transactions.
    pub async fn pay_part_of_link(&self, account: usize, token: &str, amount: (&str, u8)) -> Vec<B256> {
        let item = self.stored_link(token).await.items.remove(0);
        let request = serde_json::json!(item.request_id.as_str());
        self.pay_past_link_from(account, &request, amount, item.charges).await
    }

    async fn pay_past_link_from(
        &self,
        account: usize,
        request: &Value,
        (amount, decimals): (&str, u8),
        charges: Charges,
    ) -> Vec<B256> {
        let id = request.as_str().expect("an id");
        let owner = Scope {
            platform: self.platform.clone(),
            client: None,
        };
        let found = store::requests::find(self.ctx.db.reader(), &owner, id).await;
        let request = found.expect("readable").expect("a request");
        let units = Amount::parse(amount)
            .expect("an amount")
            .to_units(decimals)
            .expect("units");
        let payer = Address::parse(&self.account(account)).expect("an address");
        let wallet = PayingWallet {
            address: Some(payer),
            allowing: ApprovalAmount::WhatIsNeeded,
            is_safe: false,
        };
        let holder = PermitHolder {
            platform: self.platform.clone(),
            is_public: false,
            link: None,
        };
        let lookup = Lookup::of_holder(&self.ctx, holder, request.terms.network);
        let due = PaymentDue {
            units,
            ..PaymentDue::all_of(request, charges)
        };
        let handout = hand_out(&self.ctx, &lookup, vec![due], wallet, PaymentPacking::Alone).await;
        let steps = handout.expect("calldata").steps;
        let steps = steps.iter().map(|step| {
            let to: EvmAddress = step.to.canonical().parse().expect("an address");
            (to, step.calldata.clone(), step.value)
        });
        let receipts = self
            .devnet()
            .pay(account, &steps.collect::<Vec<_>>())
            .await
            .expect("mined");
        assert!(receipts.iter().all(|receipt| receipt.status), "a transaction failed");
        receipts.iter().map(|receipt| receipt.tx_hash).collect()
    }

    /// The stored row of a link.
    pub async fn stored_link(&self, token: &str) -> prs::domain::secure_payment::SecurePayment {
        let token = prs::domain::ids::SecurePaymentToken(token.to_owned());
        let found = store::secure_payments::by_token(self.ctx.db.reader(), &token).await;
        found.expect("readable").expect("a link")
    }
}

/// The transactions in a `/pay` response, for one request or for several requests.
pub fn link_transactions(calldata: &Value) -> Vec<(EvmAddress, Vec<u8>, U256)> {
    let step = |step: &Value| {
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let value = U256::from_str_radix(text(&step["value"]).trim_start_matches("0x"), 16).expect("a number");
        assert!(step["chainId"].is_u64(), "{step}");
        let data = hex::decode(text(&step["data"])).expect("hexadecimal");
        (text(&step["to"]).parse().expect("an address"), data, value)
    };
    match calldata["transactions"].as_array() {
        Some(steps) => steps.iter().map(step).collect(),
        None => {
            let approvals = calldata["ERC20ApprovalTransactions"].as_array().expect("approvals");
            let payment = &calldata["batchPaymentTransaction"];
            approvals.iter().chain([payment]).map(step).collect()
        }
    }
}
