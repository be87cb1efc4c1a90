//! The stage of the abuse test: a service with two tenants, a chain, a receiver that responds and a receiver that never
//! responds.

use std::net::{Ipv4Addr, SocketAddr};

use alloy::primitives::{Address, B256, U256, keccak256};
use anyhow::ensure;
use axum::{Router, routing::post};
use devnet::{Devnet, FACTORY, Options};
use prs::{boot::dev, domain::network::Network};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::things::{Caller, Manners, PAGE, Plan, Thing, order};
use crate::database::BenchDatabase;
use crate::service::{self, Running};

/// Maximum number of endpoints of one tenant.
const SILENT_ENDPOINTS: usize = 100;

/// Rate limit in calls per minute that no client reaches.
const UNREACHED_PER_MINUTE: u32 = 100_000_000;

/// Creation code of a contract that loops without end: its code is `JUMPDEST PUSH1 0 JUMP`.
const ENDLESS: [u8; 13] = [
    0x63, 0x5b, 0x60, 0x00, 0x56, 0x60, 0x00, 0x52, 0x60, 0x04, 0x60, 0x1c, 0xf3,
];

const PASSWORD: &str = "correct horse battery";

/// A service with its dependencies.
pub(super) struct Stage {
    runtime: Runtime,
    database: BenchDatabase,
    _chain: Devnet,
    _folder: tempfile::TempDir,
    service: Running,
    modest: Plan,
    greedy: Plan,
}

impl Stage {
    /// Starts the service, the chain and the receivers, and inserts the data that the clients need for this resource.
    pub(super) fn set(thing: Thing) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let folder = tempfile::tempdir()?;
        let (database, chain) = runtime.block_on(async {
            anyhow::Ok((BenchDatabase::create().await?, Devnet::start(Options::default()).await?))
        })?;
        let mut settings = service::settings(database.url.clone())?;
        settings.rate_limits.enabled = true;
        settings.rate_limits.default_per_minute = UNREACHED_PER_MINUTE;
        let section = dev::chain_settings(&chain, vec![chain.rpc_url().to_owned()]);
        settings.chains.insert(Network::Sepolia.id().to_owned(), section);
        let payee = chain.accounts()[4].address.to_string();
        let (modest, greedy, page) = runtime.block_on(async {
            let (modest, greedy) = (service::seed(&settings).await?, service::seed(&settings).await?);
            let page = service::seed_page(&settings, &greedy, &payee, PAGE).await?;
            anyhow::Ok((modest, greedy, page))
        })?;
        let service = Running::serve(&settings, "all", folder.path())?;
        let plan = |manners, tenant: service::Tenant| Plan {
            thing,
            manners,
            service: service.address,
            seconds: 0.0,
            api_key: tenant.api_key,
            client_id: tenant.client_id,
            page_client_id: String::new(),
            request: String::new(),
            payer: chain.accounts()[3].address.to_string(),
            gas_burner: String::new(),
            email: "modest@example.com".to_owned(),
            password: PASSWORD.to_owned(),
        };
        let mut modest = plan(Manners::Modest, modest);
        let mut greedy = plan(Manners::Greedy, greedy);
        greedy.page_client_id = page;
        runtime.block_on(seed(thing, &chain, &mut modest, &mut greedy))?;
        Ok(Self {
            runtime,
            database,
            _chain: chain,
            _folder: folder,
            service,
            modest,
            greedy,
        })
    }

    /// The plan of a client that works for this number of seconds.
    pub(super) fn plan(&self, manners: Manners, seconds: f64) -> Plan {
        let plan = match manners {
            Manners::Modest => self.modest.clone(),
            Manners::Greedy => self.greedy.clone(),
        };
        Plan { seconds, ..plan }
    }

    /// Stops everything.
    pub(super) fn strike(self) -> anyhow::Result<()> {
        drop(self.service);
        self.runtime.block_on(self.database.remove())
    }
}

async fn seed(thing: Thing, chain: &Devnet, modest: &mut Plan, greedy: &mut Plan) -> anyhow::Result<()> {
    match thing {
        Thing::DeliveryPlaces => {
            let (answering, silent) = (answering().await?, silent().await?);
            register(modest, &format!("http://{answering}/")).await?;
            for number in 0..SILENT_ENDPOINTS {
                register(greedy, &format!("http://{silent}/{number}")).await?;
            }
        }
        Thing::NodeCalls => {
            let caller = Caller {
                plan: modest,
                number: 0,
            };
            let call = caller.post("/v2/request", &[("x-client-id", &modest.client_id)], &order());
            let request = caller.expect(&call, 201).await?["requestId"].clone();
            modest.request = request.as_str().unwrap_or_default().to_owned();
            greedy.gas_burner = deploy_gas_burner(chain).await?.to_string();
        }
        Thing::PasswordTries => {
            let caller = Caller {
                plan: modest,
                number: 0,
            };
            let body = json!({ "email": modest.email, "password": modest.password });
            caller
                .expect(&caller.post("/v1/auth/register", &[], &body), 201)
                .await?;
        }
        Thing::Connections | Thing::Streams | Thing::LogWriter | Thing::DatabaseWriter | Thing::Items => {}
    }
    Ok(())
}

async fn register(plan: &Plan, url: &str) -> anyhow::Result<()> {
    let caller = Caller { plan, number: 0 };
    let call = caller.post(
        "/v1/webhook",
        &[("x-client-id", &plan.client_id)],
        &json!({ "url": url }),
    );
    caller.expect(&call, 201).await.map(drop)
}

/// A receiver that accepts everything.
async fn answering() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let router = Router::new().route("/", post(async || "ok"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

/// A receiver that accepts connections and never responds.
async fn silent() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    Ok(address)
}

async fn deploy_gas_burner(chain: &Devnet) -> anyhow::Result<Address> {
    let (salt, code) = (B256::ZERO, ENDLESS);
    let sent = chain
        .send(1, FACTORY, [salt.as_slice(), &code].concat(), U256::ZERO)
        .await?;
    ensure!(sent.status, "the contract is not deployed");
    Ok(FACTORY.create2(salt, keccak256(code)))
}
