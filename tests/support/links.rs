//! Making, opening and paying links.

use super::{
    Answer, TestApp,
    app::Call,
    chain::PAYER,
    requests::PAYEE,
    session::sign_in,
    wallet::{TestWallet, session, token},
};
use alloy::primitives::{Address as EvmAddress, U256};
use prs::{
    ctx::PermitHolder,
    domain::{
        address::Address,
        amount::Amount,
        caller::Person,
        network::Network,
        paying::{Allowing, charge::Charges},
    },
    flows::{
        destinations::{self, NewDestination},
        idempotency::Repeatable,
        paying::{Packing, PayingWallet, PaymentDue, hand_out, lookup::Lookup},
    },
    store::{self, Scope},
};
use serde_json::{Value, json};

/// The body of a link of so many amounts.
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

/// Token of a link that was made.
pub fn token_of(made: &Value) -> String {
    made["token"].as_str().expect("a token").to_owned()
}

impl TestApp {
    /// Gives the tenant a wallet that is paid in a token of Sepolia.
    pub async fn is_paid_in(&self, currency: &str) {
        let wallet = Address::parse(PAYEE).expect("an address");
        let tx = self.ctx.db.begin("a wallet").await.expect("begins");
        let bound = store::accounts::bind_wallet(&tx, &wallet, &self.platform, self.ctx.clock.now()).await;
        bound.expect("written");
        tx.commit().await.expect("commits");
        let input = NewDestination {
            token: token(self, currency),
            chain_id: Network::Sepolia.chain_id(),
            policy: None,
        };
        let owner = session(&self.platform, Person::Wallet(wallet));
        destinations::create::run(&self.ctx, &owner, &input, Repeatable::unkeyed())
            .await
            .expect("a destination");
    }

    /// Signs in the person of the tenant, the owner of [`PAYEE`]; returns the header that shows it.
    pub async fn owner(&self) -> String {
        let wallet = TestWallet::payee();
        let tx = self.ctx.db.begin("a wallet").await.expect("begins");
        let bound = store::accounts::bind_wallet(&tx, &wallet.address(), &self.platform, self.ctx.clock.now()).await;
        bound.expect("written");
        tx.commit().await.expect("commits");
        format!("Bearer {}", sign_in(self, &wallet).await)
    }

    /// Looks the link of a request up, as who signed in.
    pub async fn find_link(&self, owner: &str, request: &Value) -> Answer {
        let id = request.as_str().expect("an id");
        let call = self.get(&format!("/v2/secure-payments?requestId={id}"));
        call.header("authorization", owner).send().await
    }

    /// Makes a link with the API key.
    pub async fn link(&self, body: &Value) -> Answer {
        self.post("/v2/secure-payments").with_key().json(body).send().await
    }

    /// Makes a payout link with the API key.
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

    /// Asks for the calldata of a link.
    pub async fn calldata_of(&self, token: &str, wallet: Option<&str>) -> Answer {
        let query = wallet.map_or_else(String::new, |wallet| format!("?wallet={wallet}"));
        self.open_link(token, &format!("/pay{query}")).send().await
    }

    /// Pays a link from an account of the local chain; the payment is mined, not yet seen.
    pub async fn pay_link(&self, token: &str) -> Value {
        let payer = self.account(PAYER);
        let calldata = self.calldata_of(token, Some(&payer)).await.expect(200);
        self.send_calldata(&calldata).await;
        calldata
    }

    /// Sends the transactions of an answer of `/pay`.
    pub async fn send_calldata(&self, calldata: &Value) {
        let steps = link_transactions(calldata);
        let receipts = self.devnet().pay(PAYER, &steps).await.expect("mined");
        assert!(receipts.iter().all(|receipt| receipt.status), "a transaction failed");
    }

    /// Pays a part of a request in the test token as somebody who writes his calldata himself: the service hands nothing
    /// out for it. The payment is mined, not yet seen.
    pub async fn pay_past_link(&self, request: &Value, amount: &str) {
        let id = request.as_str().expect("an id");
        let owner = Scope {
            platform: self.platform.clone(),
            client: None,
        };
        let found = store::requests::find(self.ctx.db.reader(), &owner, id).await;
        let request = found.expect("readable").expect("a request");
        let units = Amount::parse(amount).expect("an amount").to_units(18).expect("units");
        let payer = Address::parse(&self.account(PAYER)).expect("an address");
        let wallet = PayingWallet {
            address: Some(payer),
            allowing: Allowing::WhatIsNeeded,
        };
        let holder = PermitHolder {
            platform: self.platform.clone(),
            is_public: false,
            link: None,
        };
        let lookup = Lookup::of_holder(&self.ctx, holder, request.terms.network);
        let due = PaymentDue {
            units,
            ..PaymentDue::all_of(request, Charges::default())
        };
        let handout = hand_out(&self.ctx, &lookup, vec![due], wallet, Packing::Alone).await;
        let steps = handout.expect("calldata").steps;
        let steps = steps.iter().map(|step| {
            let to: EvmAddress = step.to.canonical().parse().expect("an address");
            (to, step.calldata.clone(), step.value)
        });
        let receipts = self
            .devnet()
            .pay(PAYER, &steps.collect::<Vec<_>>())
            .await
            .expect("mined");
        assert!(receipts.iter().all(|receipt| receipt.status), "a transaction failed");
    }

    /// State of a link as its row says it.
    pub async fn stored_link(&self, token: &str) -> prs::domain::secure_payment::SecurePayment {
        let token = prs::domain::ids::SecurePaymentToken(token.to_owned());
        let found = store::secure_payments::by_token(self.ctx.db.reader(), &token).await;
        found.expect("readable").expect("a link")
    }
}

/// Transactions of an answer of `/pay`, of one request or several.
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
