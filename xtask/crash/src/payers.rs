//! Merchants and payers of links. While the service dies, they create, combine, withdraw, lock, release, report and pay
//! links, and an orchestrator links client IDs of the merchant, sets its fees and creates payments.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy::primitives::{Address, U256};
use anyhow::{Context, Result, bail};
use chrono::Utc;
use devnet::Devnet;
use fastrand::Rng;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use xtask::service::client::{CALL_TIMEOUT, Call};

use crate::client::{Client, Outcome};
use crate::load::{text, transactions};
use crate::stage::member;
use crate::verdict::{Acknowledged, Paid, Terms};

/// Path that creates payouts.
const PAYOUTS: &str = "/v2/secure-payments/payouts";

/// Path that creates multicalls.
pub(crate) const MULTICALLS: &str = "/v2/secure-payments/multicall-payouts";

/// Rate of the orchestrator's fee.
const FEE_BPS: u64 = 100;

/// Index of the account that receives the orchestrator's fees.
const FEE_RECEIVER: usize = 7;

/// Pause of a payer after each link, so that the chain keeps up.
const PACE: Duration = Duration::from_millis(20);

/// Seconds after which the transaction of a Safe is due. They are few, so that the service reaches the end of the lock
/// within one life.
pub(crate) const DUE_S: i64 = 2;

/// Number of scenarios of a link. Payers run them in turn.
const WAYS: u64 = 7;

/// A link, and the response that the service must give for it at the end of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The token that opens the link.
    pub(crate) token: String,
    /// Status and message of the response.
    pub(crate) answer: (u16, &'static str),
    /// Number of steps that the payment page reported for the link.
    pub(crate) reports: usize,
    /// Wallets that were refused.
    pub(crate) refused: usize,
}

/// Path of the links of an orchestrator.
pub(crate) const CLIENT_IDS: &str = "/v2/orchestrators/client-ids";

/// Path of the fee configs of an orchestrator.
pub(crate) const CONFIGS: &str = "/v2/orchestrators/fee-configs";

/// A client ID that an orchestrator linked, and what must be so at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partnership {
    /// The client ID.
    pub(crate) client_id: String,
    /// Id of the fee config for this client ID.
    pub(crate) config: String,
    /// Whether the orchestrator ended the link.
    pub(crate) is_ended: bool,
}

/// A reported transaction of a Safe, which locked a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SafeReport {
    /// The hash, as 64 hexadecimal digits.
    pub(crate) hash: String,
    /// The state that the report must have at the end of the run.
    pub(crate) state: &'static str,
}

/// An acknowledged creation of a multicall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MulticallCreation {
    /// Its idempotency key.
    pub(crate) key: String,
    /// Its body.
    pub(crate) body: Value,
    /// The token in the response.
    pub(crate) token: String,
}

/// The response of a paid link.
const PAID: (u16, &str) = (409, "Secure payment has already been completed");

/// The response of a withdrawn or combined link.
const GONE: (u16, &str) = (403, "Secure payment has been withdrawn");

/// The records of a run.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Requests of links whose creation the service acknowledged.
    pub(crate) acknowledged: Vec<Acknowledged>,
    /// Requests of links that were created without an idempotency key. It is unknown whether the service created them.
    pub(crate) unanswered: Vec<Terms>,
    /// Payments on the chain.
    pub(crate) paid: Vec<Paid>,
    /// The expected responses of links.
    pub(crate) links: Vec<Wanted>,
    /// The linked client IDs.
    pub(crate) partnerships: Vec<Partnership>,
    /// The transactions of Safes that locked a link.
    pub(crate) safe_reports: Vec<SafeReport>,
    /// The created multicalls.
    pub(crate) multicalls: Vec<MulticallCreation>,
}

/// The state that all threads share.
pub(crate) struct Payers<'a> {
    /// Clients of the merchant and of payment pages.
    pub(crate) client: &'a Client,
    /// Key of the orchestrator.
    pub(crate) orchestrator_key: &'a str,
    /// URL of the service.
    pub(crate) base_url: &'a str,
    /// Client of payers.
    pub(crate) chain: &'a Devnet,
    /// RPC client of the chain.
    pub(crate) runtime: &'a Handle,
    /// Prefix of the idempotency keys of this run.
    pub(crate) run: u64,
    /// Wallet of the merchant.
    pub(crate) destination: &'a str,
    /// Wallet that receives payouts.
    pub(crate) recipient: Address,
    /// The number of the next amount. No two requests have the same amount.
    pub(crate) next: AtomicU64,
    /// Set when no more links are needed.
    pub(crate) is_over: AtomicBool,
    /// The steps that were done.
    pub(crate) done: Mutex<Done>,
}

/// An acknowledged link.
struct Link {
    token: String,
    requests: Vec<(String, String)>,
}

/// A link that a Safe locks until a deadline.
struct WaitingLink {
    link: Link,
    /// The deadline in Unix seconds. The lock includes this second.
    deadline: i64,
}

impl Payers<'_> {
    /// Creates links and pays them from an account until the run ends. Completes a link that was begun.
    pub(crate) fn work(&self, account: usize) -> Result<()> {
        let mut turn = 0;
        let mut waiting = Vec::new();
        while !self.is_over.load(Ordering::SeqCst) {
            match turn % WAYS {
                0 => self.incoming(account)?,
                1 => {
                    waiting.push(self.payout(account)?);
                    self.pay_after_deadline(account, &mut waiting)?;
                }
                2 => self.combination(account)?,
                3 => self.withdrawal(account)?,
                4 => self.partnership(account, turn % (2 * WAYS) < WAYS)?,
                5 => self.multicall(account)?,
                _ => self.refusal(account)?,
            }
            turn += 1;
            std::thread::sleep(PACE);
        }
        while !waiting.is_empty() {
            std::thread::sleep(PACE);
            self.pay_after_deadline(account, &mut waiting)?;
        }
        Ok(())
    }

    /// An incoming link of two amounts. A Safe locks it after its calldata was issued, and it is still paid.
    fn incoming(&self, account: usize) -> Result<()> {
        let link = self.make_incoming(2, &Value::Null)?;
        let calls = self.calldata(account, &link)?;
        self.lock(&link, Some(self.wallet(account)?), Some(DUE_S))?;
        self.send(account, &calls, &link.requests)?;
        self.ends(&link, PAID, 0, 0);
        Ok(())
    }

    /// A payout link, for which the payment page sends all of its reports. A Safe locks it, the merchant releases it,
    /// and another transaction of a Safe locks it until its deadline.
    fn payout(&self, account: usize) -> Result<WaitingLink> {
        let link = self.make_payout()?;
        self.name_transaction(&link)?;
        self.report(&link)?;
        let safe = self.wallet(account)?;
        let is_named = self.number().is_multiple_of(2);
        self.lock(&link, is_named.then_some(safe), None)?;
        self.open(&link, 423)?;
        let path = format!("/v2/secure-payments/{}/release", link.token);
        let released = self.client.insist(&path, &Call::Post(&json!({})))?.expect(200)?;
        if released["isLocked"] != false {
            bail!("{path} returned {released}");
        }
        self.open(&link, 200)?;
        let deadline = self.lock(&link, Some(safe), Some(DUE_S))?;
        Ok(WaitingLink { link, deadline })
    }

    /// Pays the links whose deadline has passed. The others keep waiting.
    fn pay_after_deadline(&self, account: usize, waiting: &mut Vec<WaitingLink>) -> Result<()> {
        let now = now_s();
        let links = std::mem::take(waiting).into_iter();
        let (due, later): (Vec<_>, Vec<_>) = links.partition(|link| link.deadline < now);
        *waiting = later;
        for WaitingLink { link, .. } in due {
            self.open(&link, 200)?;
            self.pay(account, &link, &link.requests)?;
            self.ends(&link, PAID, 1, 0);
        }
        Ok(())
    }

    /// Two payout links that are combined and then paid together.
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

    /// Two payout links that one transaction of a multicall pays.
    fn multicall(&self, account: usize) -> Result<()> {
        let children = [self.make_payout()?, self.make_payout()?];
        let body = json!({ "childTokens": [children[0].token, children[1].token] });
        let key = self.key();
        let made = self.client.insist(MULTICALLS, &Call::PostOnce(&body, &key))?;
        let token = text(&made.expect(201).context(MULTICALLS)?, "/token")?;
        self.done().multicalls.push(MulticallCreation {
            key,
            body,
            token: token.clone(),
        });
        let link = Link {
            token,
            requests: children.iter().flat_map(|child| child.requests.clone()).collect(),
        };
        let ids: Vec<&str> = link.requests.iter().map(|(id, _)| id.as_str()).collect();
        let shown = self.open(&link, 200)?;
        if shown["status"] != "pending" || shown["canExecute"] != true || shown["requestIds"] != json!(ids) {
            bail!("a new multicall is {shown}");
        }
        self.pay(account, &link, &link.requests)?;
        self.ends(&link, PAID, 0, 0);
        for child in &children {
            self.ends(child, PAID, 0, 0);
        }
        Ok(())
    }

    /// A payout link that is withdrawn after its calldata was issued, and is still paid.
    fn withdrawal(&self, account: usize) -> Result<()> {
        let link = self.make_payout()?;
        let calls = self.calldata(account, &link)?;
        let path = format!("/v2/secure-payments/{}/withdraw", link.token);
        let withdrawn = self.client.insist(&path, &Call::Post(&json!({})))?.expect(200)?;
        if withdrawn["status"] != "invalidated" {
            bail!("{path} returned {withdrawn}");
        }
        self.send(account, &calls, &link.requests)?;
        self.ends(&link, GONE, 0, 0);
        Ok(())
    }

    /// An incoming link that a screened wallet may not pay.
    fn refusal(&self, account: usize) -> Result<()> {
        let wallet = self.wallet(account)?;
        let policy = json!({ "allowedPayerAddresses": [wallet] });
        let link = self.make_incoming(1, &policy)?;
        let path = format!("/v2/secure-payments/{}?wallet={}", link.token, self.recipient);
        let shown = self.client.insist(&path, &Call::Get)?.expect(200)?;
        if shown["accessDecision"]["status"] != "rejected" {
            bail!("{path} returned {shown}");
        }
        self.pay(account, &link, &link.requests)?;
        self.ends(&link, PAID, 0, 1);
        Ok(())
    }

    /// A new client ID that the orchestrator links. Its payout carries the fee of the orchestrator, although the fee
    /// config is disabled before the payment; half of the links end then.
    fn partnership(&self, account: usize, is_ended: bool) -> Result<()> {
        let made = self.create(
            "/v2/client-ids",
            &json!({ "label": "Linked", "allowedDomains": ["https://shop.example.com"] }),
        )?;
        let client_id = text(&made, "/clientId")?;
        let key = ("x-orchestrator-key", self.orchestrator_key.to_owned());
        let orchestrator = Client::new(self.base_url, vec![key.clone()]);
        self.create_as(&orchestrator, CLIENT_IDS, &json!({ "clientId": client_id }))?;
        let config = json!({
            "clientId": client_id, "bps": FEE_BPS, "feeBearer": "payer", "flow": "outgoing",
            "evmRecipientAddress": self.wallet(FEE_RECEIVER)?,
        });
        let config = text(&self.create_as(&orchestrator, CONFIGS, &config)?, "/id")?;
        let pair = Client::new(self.base_url, vec![key, ("x-client-id", client_id.clone())]);
        // Only a payment in dollars carries fees of orchestrators.
        let amount = format!("1.{:06}", self.number() + 1).trim_end_matches('0').to_owned();
        let made = self.create_as(&pair, PAYOUTS, &self.payout_of("USDC-sepolia", &amount))?;
        let fees: Vec<&Value> = made["feePlan"]["fees"]
            .as_array()
            .context("no feePlan")?
            .iter()
            .collect();
        if fees.len() != 1 || fees[0]["percentageBps"] != FEE_BPS {
            bail!("a payout has the fees {fees:?}");
        }
        let link = self.made(&made, vec![amount])?;
        let path = format!("{CONFIGS}/{config}?clientId={client_id}");
        orchestrator.insist(&path, &Call::Delete)?.expect(200)?;
        if is_ended {
            let path = format!("{CLIENT_IDS}/{client_id}");
            orchestrator.insist(&path, &Call::Delete)?.expect(200)?;
        }
        self.pay(account, &link, &link.requests)?;
        self.ends(&link, PAID, 0, 0);
        self.done().partnerships.push(Partnership {
            client_id,
            config,
            is_ended,
        });
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
        self.make(PAYOUTS, 1, |amounts| self.payout_of("FAU-sepolia", &amounts[0]))
    }

    fn payout_of(&self, currency: &str, amount: &str) -> Value {
        json!({
            "recipient": self.recipient,
            "creatorWalletAddress": self.recipient,
            "network": "sepolia",
            "currency": currency,
            "amount": amount,
        })
    }

    /// Creates a link with this number of requests, even if the service dies several times meanwhile. Half of the calls
    /// have no idempotency key. If such a call gets no response, the next call uses other amounts.
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

    /// A link, read from the response to its creation.
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

    /// Creates an object exactly once, even if the service dies several times meanwhile.
    fn create(&self, path: &str, body: &Value) -> Result<Value> {
        self.create_as(self.client, path, body)
    }

    /// Like [`Self::create`], with the credential of another client.
    fn create_as(&self, client: &Client, path: &str, body: &Value) -> Result<Value> {
        let answer = client.insist(path, &Call::PostOnce(body, &self.key()))?;
        answer.expect(201).with_context(|| path.to_owned())
    }

    /// A new idempotency key.
    fn key(&self) -> String {
        format!("links-{:016x}-{}", self.run, self.number())
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
            bail!("{path} stored one transaction twice");
        }
        Ok(())
    }

    /// Reports a transaction of a Safe with the secret credential of the merchant, which locks the link; returns the
    /// end of the lock in Unix seconds. A lock without `due_s` must be released.
    fn lock(&self, link: &Link, safe: Option<Address>, due_s: Option<i64>) -> Result<i64> {
        let path = format!("/v2/secure-payments/{}/intent", link.token);
        let hash = format!("{:064x}", self.number());
        let mut body = json!({ "safeTxHash": format!("0x{hash}"), "chain": "SEPOLIA", "token": "FAU" });
        if let Some(safe) = safe {
            body["payerAddress"] = json!(safe);
        }
        let locked = loop {
            let deadline = due_s.map(|due_s| now_s() + due_s);
            if let Some(deadline) = deadline {
                body["safePaymentDeadline"] = json!(deadline);
            }
            let answer = self.client.insist(&path, &Call::Post(&body))?;
            // If the service was down until the deadline, the payer names a later one.
            let is_late = answer.status == 400 && deadline.is_some_and(|deadline| deadline <= now_s());
            if !is_late {
                break answer.expect(200).with_context(|| path.clone())?;
            }
        };
        let state = if due_s.is_some() { "deadline_passed" } else { "released" };
        self.done().safe_reports.push(SafeReport { hash, state });
        locked["safePaymentDeadline"]
            .as_i64()
            .with_context(|| format!("{path} returned {locked}"))
    }

    /// Opens a link; an error if the status differs.
    fn open(&self, link: &Link, status: u16) -> Result<Value> {
        let path = format!("/v2/secure-payments/{}", link.token);
        let answer = self.client.insist(&path, &Call::Get)?;
        answer.expect(status).with_context(|| path)
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

/// The time in Unix seconds.
#[expect(clippy::disallowed_methods, reason = "the service compares it with the time of day")]
fn now_s() -> i64 {
    Utc::now().timestamp()
}

/// Sets up a destination for a wallet of the chain, signed by the wallet; returns its id.
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

/// Approves unlimited allowances for the payment contracts, so that every later payment is a single transaction.
pub(crate) fn approve_all(chain: &Devnet, runtime: &Handle, account: usize) -> Result<()> {
    let contracts = chain.contracts();
    for spender in [contracts.erc20_fee_proxy, contracts.batch_conversion_payments] {
        for token in [chain.tokens().fau, chain.tokens().usdc] {
            runtime.block_on(chain.approve(account, token, spender, U256::MAX))?;
        }
    }
    Ok(())
}
