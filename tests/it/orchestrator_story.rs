//! Two orchestrators and three platforms in one `prs dev`: who is linked, which fees each payment carries, and what
//! arrives on the chain.

use crate::support::{database::TestDatabase, dev::Dev, program::prs};
use alloy::primitives::U256;
use serde_json::{Value, json};
use std::path::Path;

const PAYER: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const PAYEE: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const RECIPIENT: &str = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";
const FIRST_FEES: &str = "0x976EA74026E726554dB657fA54763abd0C3a0aa9";
const SECOND_FEES: &str = "0x14dC79964da2C08b23698B3D3cc7Ca32193d9955";

const LINKS: &str = "/v2/secure-payments";
const PAYOUTS: &str = "/v2/secure-payments/payouts";

/// One USDC in units.
const USDC: u64 = 1_000_000;

struct World {
    dev: Dev,
    database: TestDatabase,
}

/// A platform with an API key and a client ID.
struct Tenant {
    key: String,
    client_id: String,
    /// Id of the client ID's row.
    row: String,
}

/// An orchestrator with its key.
struct Partner {
    id: String,
    key: String,
}

/// The master key of the service and of its commands.
fn master_key() -> String {
    "5a".repeat(32)
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

impl World {
    async fn start(folder: &Path) -> Self {
        let database = TestDatabase::create().await;
        let master_key = master_key();
        let variables = [
            ("PRS_DATABASE__URL", database.url.as_str()),
            ("PRS_SECRETS__MASTER_KEY", master_key.as_str()),
            ("PRS_ORCHESTRATORS__DIRECT_LINKS", "consent"),
        ];
        Self {
            dev: Dev::start_with(folder, &variables),
            database,
        }
    }

    fn admin(&self, folder: &Path, arguments: &[&str]) -> Value {
        let mut command = prs(folder);
        command.env("PRS_DATABASE__URL", &self.database.url);
        command.env("PRS_SECRETS__MASTER_KEY", master_key());
        let output = command.arg("admin").args(arguments).arg("--json").output();
        serde_json::from_slice(&output.expect("it runs").stdout).expect("JSON")
    }

    async fn tenant(&self, key: String) -> Tenant {
        let body = json!({ "label": "Shop", "allowedDomains": ["https://shop.example.com"] });
        let made = self
            .dev
            .call_as(("x-api-key", &key), "/v2/client-ids", Some(&body))
            .await;
        Tenant {
            client_id: text(&made["clientId"]),
            row: text(&made["id"]),
            key,
        }
    }

    /// Changes a client ID.
    async fn change(&self, path: &str, (name, value): (&str, &str), body: &Value) {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let call = client.put(format!("{}{path}", self.dev.text("/baseUrl")));
        let call = call.header(name, value).header("content-type", "application/json");
        let response = call.body(body.to_string()).send().await.expect("a response");
        let status = response.status().as_u16();
        assert_eq!(status, 200, "{:?}", response.text().await);
    }

    /// The platform lets an orchestrator link its client ID.
    async fn consent(&self, tenant: &Tenant, partner: &Partner) {
        let path = format!("/v2/client-ids/{}", tenant.row);
        let body = json!({ "orchestratorId": partner.id });
        self.change(&path, ("x-api-key", &tenant.key), &body).await;
    }

    async fn link(&self, partner: &Partner, tenant: &Tenant) -> u16 {
        let body = json!({ "clientId": tenant.client_id });
        let headers = [("x-orchestrator-key", partner.key.as_str())];
        let sent = self.dev.send("/v2/orchestrators/client-ids", &headers, Some(&body));
        sent.await.expect("a response").0
    }

    async fn config(&self, partner: &Partner, flow: &str, bearer: &str, bps: u32, receiver: &str) {
        let body = json!({ "bps": bps, "feeBearer": bearer, "flow": flow, "evmRecipientAddress": receiver });
        let credential = ("x-orchestrator-key", partner.key.as_str());
        let path = "/v2/orchestrators/fee-configs";
        self.dev.call_as(credential, path, Some(&body)).await;
    }

    async fn pair(&self, partner: &Partner, tenant: &Tenant, path: &str, body: &Value) -> (u16, Value) {
        let headers = [
            ("x-orchestrator-key", partner.key.as_str()),
            ("x-client-id", &tenant.client_id),
        ];
        self.dev.send(path, &headers, Some(body)).await.expect("a response")
    }

    /// Pays a link from the first account of the chain and waits until its request is paid; returns the request.
    async fn pay(&self, tenant: &Tenant, made: &Value) -> Value {
        let credential = ("x-api-key", tenant.key.as_str());
        let path = format!("{LINKS}/{}/pay?wallet={PAYER}", text(&made["token"]));
        let calldata = self.dev.call_as(credential, &path, None).await;
        let batch = calldata.get("batchPaymentTransaction");
        let approvals = calldata["ERC20ApprovalTransactions"].as_array().into_iter().flatten();
        let single = calldata["transactions"].as_array().into_iter().flatten();
        for step in single.chain(approvals).chain(batch) {
            let value = step["value"].get("hex").unwrap_or(&step["value"]);
            let call = json!([{ "from": PAYER, "to": step["to"], "data": step["data"], "value": value }]);
            let hash = self.dev.ask_node("eth_sendTransaction", call).await;
            assert_eq!(self.dev.receipt_of(&hash).await["status"], "0x1", "{step}");
        }
        let path = format!("/v2/request/{}", text(&made["requestIds"][0]));
        for _ in 0..5_000 {
            let read = self.dev.call_as(credential, &path, None).await;
            if read["status"] == "paid" {
                return read;
            }
        }
        panic!("the payment was not credited");
    }

    async fn balance(&self, holder: &str) -> U256 {
        let data = format!("0x70a08231{:0>64}", holder.trim_start_matches("0x"));
        let call = json!([{ "to": self.dev.text("/chain/tokens/USDC"), "data": data }, "latest"]);
        let answer = self.dev.ask_node("eth_call", call).await;
        text(&answer).parse().expect("a balance")
    }

    /// Ids of the requests of the confirmed payments of a platform.
    async fn confirmed(&self, tenant: &Tenant) -> Vec<String> {
        let credential = ("x-api-key", tenant.key.as_str());
        let listed = self
            .dev
            .call_as(credential, "/v2/events?event=payment.confirmed", None)
            .await;
        let events = listed["events"].as_array().expect("events").iter();
        let bodies = events.map(|event| serde_json::from_str::<Value>(event["body"].as_str().expect("text")));
        bodies.map(|body| text(&body.expect("JSON")["requestId"])).collect()
    }
}

fn payout() -> Value {
    json!({
        "recipient": RECIPIENT, "creatorWalletAddress": PAYER, "network": "sepolia",
        "currency": "USDC-sepolia", "amount": "50",
    })
}

#[tokio::test]
async fn two_orchestrators_take_their_own_fees_from_the_platforms_that_let_them() {
    prs::adapters::install_tls();
    let folder = tempfile::tempdir().expect("a folder");
    let world = World::start(folder.path()).await;
    let dev = &world.dev;
    let key_of = |name: &str| {
        let platform = world.admin(folder.path(), &["platform", "create", "--name", name]);
        let id = text(&platform["id"]);
        text(&world.admin(folder.path(), &["api-key", "create", "--platform", &id])["apiKey"])
    };
    let shop = world.tenant(dev.text("/apiKey").to_owned()).await;
    let (agency, stranger) = (
        world.tenant(key_of("Agency")).await,
        world.tenant(key_of("Stranger")).await,
    );
    let made = world.admin(folder.path(), &["orchestrator", "create", "--name", "Second"]);
    let first = Partner {
        id: dev.text("/orchestratorId").to_owned(),
        key: dev.text("/orchestratorKey").to_owned(),
    };
    let second = Partner {
        id: text(&made["id"]),
        key: text(&made["orchestratorKey"]),
    };

    // Only the platform that names an orchestrator lets it link its client ID.
    for (tenant, partner) in [(&shop, &first), (&agency, &second)] {
        assert_eq!(world.link(partner, tenant).await, 404, "without consent");
        world.consent(tenant, partner).await;
    }
    assert_eq!(world.link(&second, &shop).await, 404, "the consent is for another one");
    for (tenant, partner, expected) in [
        (&shop, &first, 201),
        (&agency, &second, 201),
        (&stranger, &first, 404),
        (&stranger, &second, 404),
    ] {
        assert_eq!(world.link(partner, tenant).await, expected);
    }
    world.config(&first, "incoming", "payer", 100, FIRST_FEES).await;
    world.config(&first, "incoming", "recipient", 200, FIRST_FEES).await;
    world.config(&second, "outgoing", "payer", 50, SECOND_FEES).await;
    world.config(&second, "outgoing", "recipient", 300, SECOND_FEES).await;

    let usdc = json!({ "tokenAddress": dev.text("/chain/tokens/USDC"), "chainId": 11_155_111 });
    let session = format!("Bearer {}", dev.text("/sessionToken"));
    let destination = dev
        .call_as(("authorization", &session), "/v1/payee-destination", Some(&usdc))
        .await;
    let path = format!("/v1/client-ids/{}", shop.row);
    let bound = json!({ "payeeDestinationId": destination["id"] });
    world.change(&path, ("authorization", &session), &bound).await;
    let link = json!({ "requests": [{ "amount": "50" }] });
    let (status, incoming) = world.pair(&first, &shop, LINKS, &link).await;
    assert_eq!(status, 201, "{incoming}");
    let (status, outgoing) = world.pair(&second, &agency, PAYOUTS, &payout()).await;
    assert_eq!(status, 201, "{outgoing}");
    for (partner, tenant) in [(&first, &agency), (&second, &shop), (&first, &stranger)] {
        let (status, refused) = world.pair(partner, tenant, PAYOUTS, &payout()).await;
        assert_eq!(status, 403, "{refused}");
    }
    for (made, net, total) in [(&incoming, "49", "50.5"), (&outgoing, "48.5", "50.25")] {
        assert_eq!(made["feePlan"]["netRecipientAmountUsd"], net, "{made}");
        assert_eq!(made["feePlan"]["payerTotalAmountUsd"], total, "{made}");
    }
    let key = ("x-api-key", stranger.key.as_str());
    let free = dev.call_as(key, PAYOUTS, Some(&payout())).await;
    assert_eq!(
        free["feePlan"]["totalFeesUsd"], "0",
        "a platform without a link pays no fee"
    );

    let holders = [PAYER, PAYEE, RECIPIENT, FIRST_FEES, SECOND_FEES];
    let mut before = Vec::new();
    for holder in holders {
        before.push(world.balance(holder).await);
    }
    for (tenant, made) in [(&shop, &incoming), (&agency, &outgoing), (&stranger, &free)] {
        let read = world.pay(tenant, made).await;
        assert_eq!(read["requestAmount"], "50", "{read}");
        assert_eq!(read["payments"][0]["feeShortfall"], Value::Null, "{read}");
        assert_eq!(world.confirmed(tenant).await, [text(&made["requestIds"][0])]);
    }
    let mut moved = Vec::new();
    for (holder, before) in holders.into_iter().zip(before) {
        moved.push(world.balance(holder).await.abs_diff(before));
    }
    // The payer pays 50.5, 50.25 and 50; the merchant receives 49, and the recipients 48.5 and 50.
    let expected = [150_750, 49_000, 98_500, 1_500, 1_750].map(|milli| U256::from(milli * (USDC / 1_000)));
    assert_eq!(moved, expected);
    for (partner, tenant) in [(&first, &shop), (&second, &agency)] {
        let key = ("x-orchestrator-key", partner.key.as_str());
        let listed = dev.call_as(key, "/v2/orchestrators/client-ids", None).await;
        let links = listed["links"].as_array().expect("links");
        assert_eq!(links.len(), 1, "an orchestrator sees its own links only: {listed}");
        assert_eq!(links[0]["clientId"], tenant.client_id);
    }
}
