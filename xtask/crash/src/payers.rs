//! Merchants and payers of links: what they make, combine, withdraw, name, report and pay while the service dies.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy::primitives::{Address, U256};
use anyhow::{Context, Result, bail};
use devnet::Devnet;
use fastrand::Rng;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use xtask::service::client::{CALL_TIMEOUT, Call};

use crate::client::{Client, Outcome};
use crate::load::{text, transactions};
use crate::stage::member;
use crate::verdict::{Acknowledged, Paid, Terms};

/// How long the calls of one turn wait for each other, so that the chain keeps up.
const PACE: Duration = Duration::from_millis(20);

/// Ways of a link, which take turns.
const WAYS: u64 = 5;

/// What a link has to answer in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// What opens it.
    pub(crate) token: String,
    /// Status and message of the answer.
    pub(crate) answer: (u16, &'static str),
    /// Steps of payers that were reported for it.
    pub(crate) reports: usize,
    /// Wallets that were refused.
    pub(crate) refused: usize,
}

/// What a link answers that is paid.
const PAID: (u16, &str) = (409, "Secure payment has already been completed");

/// What one answers that was withdrawn or combined.
const GONE: (u16, &str) = (403, "Secure payment has been withdrawn");

/// What a run leaves behind.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Requests of links that were acknowledged.
    pub(crate) acknowledged: Vec<Acknowledged>,
    /// Requests of links that were asked for without an idempotency key, by answers that say nothing.
    pub(crate) unanswered: Vec<Terms>,
    /// Payments on the chain.
    pub(crate) paid: Vec<Paid>,
    /// What links have to answer.
    pub(crate) links: Vec<Wanted>,
}

/// The state that all of them share.
pub(crate) struct Payers<'a> {
    /// Speaks for the merchant, and for payment pages.
    pub(crate) client: &'a Client,
    /// Where payers pay.
    pub(crate) chain: &'a Devnet,
    /// Where the chain is asked.
    pub(crate) runtime: &'a Handle,
    /// Makes the keys of this run its own.
    pub(crate) run: u64,
    /// Where the merchant is paid.
    pub(crate) destination: &'a str,
    /// Who gets payouts.
    pub(crate) recipient: Address,
    /// The number of the next amount: no two requests ask for the same.
    pub(crate) next: AtomicU64,
    /// Set when no more links are wanted.
    pub(crate) is_over: AtomicBool,
    /// What was done.
    pub(crate) done: Mutex<Done>,
}

/// A link that was acknowledged.
struct Link {
    token: String,
    requests: Vec<(String, String)>,
}

impl Payers<'_> {
    /// Makes links and pays them from an account until it is over. What has begun is brought to its end.
    pub(crate) fn work(&self, account: usize) -> Result<()> {
        let mut turn = 0;
        while !self.is_over.load(Ordering::SeqCst) {
            match turn % WAYS {
                0 => self.incoming(account)?,
                1 => self.payout(account)?,
                2 => self.combination(account)?,
                3 => self.withdrawal(account)?,
                _ => self.refusal(account)?,
            }
            turn += 1;
            std::thread::sleep(PACE);
        }
        Ok(())
    }

    /// An incoming link of two amounts.
    fn incoming(&self, account: usize) -> Result<()> {
        let link = self.make_incoming(2, &Value::Null)?;
        self.pay(account, &link, &link.requests)?;
        self.ends(&link, PAID, 0, 0);
        Ok(())
    }

    /// A payout, with all that its payment page tells.
    fn payout(&self, account: usize) -> Result<()> {
        let link = self.make_payout()?;
        self.name_transaction(&link)?;
        self.report(&link)?;
        self.pay(account, &link, &link.requests)?;
        self.ends(&link, PAID, 1, 0);
        Ok(())
    }

    /// Two payouts that are combined and paid together.
    fn combination(&self, account: usize) -> Result<()> {
        let originals = [self.make_payout()?, self.make_payout()?];
        let body = json!({ "tokens": [originals[0].token, originals[1].token] });
        let requests: Vec<(String, String)> = originals.iter().flat_map(|link| link.requests.clone()).collect();
        let made = self.create("/v2/secure-payments/batch-payouts", &body)?;
        let link = Link {
            token: text(&made, "/token")?,
            requests,
        };
        let named: Vec<&str> = made["requestIds"]
            .as_array()
            .context("no requestIds")?
            .iter()
            .filter_map(Value::as_str)
            .collect();
        if named != link.requests.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>() {
            bail!("a combination pays {named:?}");
        }
        self.pay(account, &link, &link.requests)?;
        self.ends(&link, PAID, 0, 0);
        for original in &originals {
            self.ends(original, GONE, 0, 0);
        }
        Ok(())
    }

    /// A payout that is withdrawn once its calldata is out, and paid all the same.
    fn withdrawal(&self, account: usize) -> Result<()> {
        let link = self.make_payout()?;
        let calls = self.calldata(account, &link)?;
        let path = format!("/v2/secure-payments/{}/withdraw", link.token);
        let withdrawn = self.client.insist(&path, &Call::Post(&json!({})))?.expect(200)?;
        if withdrawn["status"] != "invalidated" {
            bail!("{path} answered {withdrawn}");
        }
        self.send(account, &calls, &link.requests)?;
        self.ends(&link, GONE, 0, 0);
        Ok(())
    }

    /// An incoming link that a stranger's wallet may not pay.
    fn refusal(&self, account: usize) -> Result<()> {
        let wallet = self.wallet(account)?;
        let policy = json!({ "allowedPayerAddresses": [wallet] });
        let link = self.make_incoming(1, &policy)?;
        let path = format!("/v2/secure-payments/{}?wallet={}", link.token, self.recipient);
        let shown = self.client.insist(&path, &Call::Get)?.expect(200)?;
        if shown["accessDecision"]["status"] != "rejected" {
            bail!("{path} answered {shown}");
        }
        self.pay(account, &link, &link.requests)?;
        self.ends(&link, PAID, 0, 1);
        Ok(())
    }

    fn make_incoming(&self, count: usize, policy: &Value) -> Result<Link> {
        self.make("/v2/secure-payments", count, |amounts| {
            let items = amounts
                .iter()
                .map(|amount| json!({ "amount": amount, "destinationId": self.destination }));
            let mut body = json!({ "requests": items.collect::<Vec<_>>() });
            if !policy.is_null() {
                body["accessPolicy"] = policy.clone();
            }
            body
        })
    }

    fn make_payout(&self) -> Result<Link> {
        self.make("/v2/secure-payments/payouts", 1, |amounts| {
            json!({
                "recipient": self.recipient,
                "creatorWalletAddress": self.recipient,
                "network": "sepolia",
                "currency": "FAU-sepolia",
                "amount": amounts[0],
            })
        })
    }

    /// Makes a link of this many requests, however often the service dies meanwhile. Half of the calls have no idempotency key;
    /// one of these that is left without an answer is followed by one with other amounts.
    fn make(&self, path: &str, count: usize, body: impl Fn(&[String]) -> Value) -> Result<Link> {
        loop {
            let amounts: Vec<String> = (0..count).map(|_| self.amount()).collect();
            let body = body(&amounts);
            if Rng::with_seed(self.run.wrapping_add(self.number())).bool() {
                return self.made(&self.create(path, &body)?, amounts);
            }
            match self.client.create_unkeyed(CALL_TIMEOUT, path, &body)? {
                Outcome::Known(answer) => {
                    return self.made(&answer.expect(201).with_context(|| path.to_owned())?, amounts);
                }
                Outcome::Unknown => {
                    let payee = self.recipient.to_string();
                    let unanswered = amounts.iter().map(|amount| Terms::new(&payee, amount));
                    self.done().unanswered.extend(unanswered);
                }
            }
        }
    }

    /// A link as its answer shows it.
    fn made(&self, made: &Value, amounts: Vec<String>) -> Result<Link> {
        let ids = made["requestIds"].as_array().context("no requestIds")?;
        let ids = ids.iter().map(|id| Ok(id.as_str().context("no text")?.to_owned()));
        let ids: Vec<String> = ids.collect::<Result<_>>()?;
        let requests: Vec<(String, String)> = ids.into_iter().zip(amounts).collect();
        let acknowledged = requests.iter().map(|(request_id, amount)| Acknowledged {
            key: None,
            request_id: request_id.clone(),
            amount: amount.clone(),
        });
        self.done().acknowledged.extend(acknowledged);
        let token = text(made, "/token")?;
        Ok(Link { token, requests })
    }

    /// Creates something once, however often the service dies meanwhile.
    fn create(&self, path: &str, body: &Value) -> Result<Value> {
        let key = format!("links-{:016x}-{}", self.run, self.number());
        let answer = self.client.insist(path, &Call::PostOnce(body, &key))?;
        answer.expect(201).with_context(|| path.to_owned())
    }

    fn done(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name_transaction(&self, link: &Link) -> Result<()> {
        let path = format!("/v2/secure-payments/{}/intent", link.token);
        let hash = format!("0x{:064x}", self.number());
        let body = json!({ "txHash": hash, "chain": "SEPOLIA", "token": "FAU" });
        let first = self.client.insist(&path, &Call::Post(&body))?.expect(200)?;
        let again = self.client.insist(&path, &Call::Post(&body))?.expect(200)?;
        if first["intentId"] != again["intentId"] {
            bail!("{path} kept one transaction twice");
        }
        Ok(())
    }

    fn report(&self, link: &Link) -> Result<()> {
        let path = format!("/v2/secure-payments/{}/events", link.token);
        let body = json!({ "userEvent": "payment_approved_in_wallet", "occurredAt": "2020-01-01T00:00:00Z" });
        self.client.insist(&path, &Call::Post(&body))?.expect(202).map(drop)
    }

    fn calldata(&self, account: usize, link: &Link) -> Result<Value> {
        let path = format!(
            "/v2/secure-payments/{}/pay?wallet={}",
            link.token,
            self.wallet(account)?
        );
        self.client.insist(&path, &Call::Get)?.expect(200).with_context(|| path)
    }

    fn pay(&self, account: usize, link: &Link, requests: &[(String, String)]) -> Result<()> {
        let calls = self.calldata(account, link)?;
        self.send(account, &calls, requests)
    }

    fn send(&self, account: usize, calls: &Value, requests: &[(String, String)]) -> Result<()> {
        let calls = match calls.get("batchPaymentTransaction") {
            Some(batch) => transactions(&json!({ "transactions": [batch] }))?,
            None => transactions(calls)?,
        };
        let receipts = self.runtime.block_on(self.chain.pay(account, &calls))?;
        let payment = receipts.last().context("nothing to send")?;
        if !receipts.iter().all(|receipt| receipt.status) {
            bail!("transaction {} failed on the chain", payment.tx_hash);
        }
        let mut done = self.done();
        for (request_id, amount) in requests {
            done.paid.push(Paid {
                request_id: request_id.clone(),
                tx_hash: payment.tx_hash.to_string(),
                amount: amount.clone(),
            });
        }
        Ok(())
    }

    fn ends(&self, link: &Link, answer: (u16, &'static str), reports: usize, refused: usize) {
        let mut done = self.done();
        done.links.push(Wanted {
            token: link.token.clone(),
            answer,
            reports,
            refused,
        });
    }

    fn wallet(&self, account: usize) -> Result<Address> {
        Ok(self.chain.accounts().get(account).context("no such account")?.address)
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    fn amount(&self) -> String {
        crate::load::amount(self.number())
    }
}

/// Sets a destination of a wallet of the chain up, signed by it; returns its id.
pub(crate) fn destination(
    client: &Client,
    base_url: &str,
    (chain, runtime): (&Devnet, &Handle),
    wallet: Address,
) -> Result<String> {
    const PAGE: &str = "http://localhost:3000";
    let made = client.create("/v2/client-ids", &json!({ "label": "Page", "allowedDomains": [PAGE] }))?;
    let client_id = member(&made, "clientId")?.to_owned();
    let own = Client::new(base_url, vec![("x-client-id", client_id), ("origin", PAGE.to_owned())]);
    let token = chain.tokens().fau;
    let query = format!("walletAddress={wallet}&action=add&tokenAddress={token}&chainId=11155111");
    let mut data = own.get(&format!("/v2/payee-destination/signing-data?{query}"))?;
    data["types"]["EIP712Domain"] = json!([
        { "name": "name", "type": "string" },
        { "name": "version", "type": "string" },
        { "name": "chainId", "type": "uint256" },
    ]);
    let signing = chain.rpc("eth_signTypedData_v4", json!([wallet, data]));
    let signature = runtime.block_on(signing)?;
    let body = json!({ "signature": signature, "nonce": data["nonce"] });
    let set_up = own.create("/v2/payee-destination", &body)?;
    Ok(member(&set_up, "destinationId")?.to_owned())
}

/// Allows the contracts everything, once and for all, so that every payment is one transaction.
pub(crate) fn approve_all(chain: &Devnet, runtime: &Handle, account: usize) -> Result<()> {
    let contracts = chain.contracts();
    for spender in [contracts.erc20_fee_proxy, contracts.batch_conversion_payments] {
        runtime.block_on(chain.approve(account, chain.tokens().fau, spender, U256::MAX))?;
    }
    Ok(())
}
