//! Measures how fast payment events of a chain become credited payments on a durable PostgreSQL. One event in ten pays
//! a known request. The baselines are a bare loop that only reads the events and a bare loop that only writes the rows
//! of the credited payments.

use std::time::{Duration, Instant};

use alloy::{
    primitives::{Address, B256, Bytes, U256, keccak256},
    sol_types::SolCall,
};
use anyhow::{Context, bail, ensure};
use chrono::{DateTime, Utc};
use devnet::{
    Devnet, Options,
    batch::{MetaDetail, RequestDetail, batchPaymentsCall},
};
use prs::{
    adapters::clock::SystemClock,
    boot::{self, dev},
    ctx::Ctx,
    domain::{
        amount::Amount,
        ids::{PlatformId, RequestId, RequestRowId},
        ledger::Ledger,
        network::Network,
        payment::PaymentKind,
        reference::PaymentReference,
        request::{Origin, Request, price::PriceTerms, terms::Terms},
    },
    flows::payments::{
        backlog,
        lead::{self, Leadership},
        watch::{self, WatchResult},
    },
    ports::clock::Clock,
    store::{self, Db, leaders::LEASE_MAX},
};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, Postgres, QueryBuilder};
use tokio_util::sync::CancellationToken;

use crate::database::BenchDatabase;
use crate::report::{Goal, REPEATS, Row, median, rate_per_s, scaled};
use crate::service;

/// Number of blocks of the chain, each with one transaction.
const BLOCKS: usize = 10_000;

/// Payments of each transaction.
const PAYMENTS_PER_BLOCK: usize = 10;

/// One event out of this number of events pays a known request.
const EVENTS_PER_MATCH: usize = 10;

/// Units of each payment.
const UNITS: u64 = 1_000;

/// Number of blocks in one `eth_getLogs` call, and in one commit.
const BLOCKS_PER_READ: u64 = 2_000;

/// Rows of one statement.
const ROWS_PER_INSERT: usize = 500;

/// Goal for the service's rate, as a fraction of the rate of the slower bare loop. Source: rules F.18.
const GOAL_RATIO: f64 = 0.7;

/// Index of the native coin in the batch contract.
const NATIVE_PAYMENTS: u64 = 3;

/// Account that pays.
const PAYER_INDEX: usize = 1;

/// The coin of the local chain.
const COIN: &str = "ETH-sepolia-sepolia";

const PAYEE: Address = Address::repeat_byte(0xaa);
const FEE_ADDRESS: Address = Address::repeat_byte(0xbb);

/// The group key of every row that the bare loop writes: all rows have the same kind and currencies.
const ONLY_GROUP: i64 = 1;

/// Fills a chain, then measures the service and both bare loops alternately.
pub(crate) fn measure(scale: f64) -> anyhow::Result<Row> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let chain = Devnet::start(Options::default()).await?;
        let blocks = scaled(BLOCKS, scale);
        let deployed = chain.block_number().await?;
        let started = Instant::now();
        fill(&chain, blocks, PAYMENTS_PER_BLOCK).await?;
        let events = blocks * PAYMENTS_PER_BLOCK;
        eprintln!(
            "  filled {blocks} blocks with {events} payment events in {:.0} s, not counted",
            started.elapsed().as_secs_f64()
        );
        let (mut ours, mut reads, mut writes) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            reads.push(rate_per_s(events, read_bare(&chain, deployed + 1, events).await?));
            ours.push(rate_per_s(events, follow(&chain, events).await?));
            writes.push(rate_per_s(events, write_bare(&chain, blocks).await?));
        }
        eprintln!("  bare eth_getLogs loop: median {:.0} events/s", median(&reads));
        eprintln!("  bare batched inserts: median {:.0} rows/s", median(&writes));
        let (baseline_name, baseline) = if median(&reads) < median(&writes) {
            ("bare eth_getLogs loop", reads)
        } else {
            ("bare batched inserts", writes)
        };
        Ok(Row {
            name: "ingest",
            unit: "events/s",
            ours,
            baseline_name,
            baseline,
            goal: Goal::Ratio(GOAL_RATIO),
        })
    })
}

/// Mines one batch of payments in each block. The reference of a payment is its number, counted from 1.
pub(crate) async fn fill(chain: &Devnet, blocks: usize, payments_per_block: usize) -> anyhow::Result<()> {
    let batch = chain.contracts().batch_conversion_payments;
    chain.set_automine(false).await?;
    let mut reference: u64 = 0;
    let mut last = None;
    for _ in 0..blocks {
        let mut payments = Vec::with_capacity(payments_per_block);
        for _ in 0..payments_per_block {
            reference += 1;
            payments.push(RequestDetail {
                recipient: PAYEE,
                requestAmount: U256::from(UNITS),
                path: Vec::new(),
                paymentReference: Bytes::copy_from_slice(&reference.to_be_bytes()),
                feeAmount: U256::ZERO,
                maxToSpend: U256::ZERO,
                maxRateTimespan: U256::ZERO,
            });
        }
        let call = batchPaymentsCall {
            metaDetails: vec![MetaDetail {
                paymentNetworkId: U256::from(NATIVE_PAYMENTS),
                requestDetails: payments,
            }],
            pathsToUSD: Vec::new(),
            feeAddress: FEE_ADDRESS,
        };
        let value = U256::from(UNITS) * U256::from(payments_per_block);
        let hash = chain
            .send_without_waiting(PAYER_INDEX, batch, call.abi_encode(), value)
            .await?;
        chain.mine(1).await?;
        last = Some(hash);
    }
    let receipt = chain.wait_for_receipt(last.context("no block to fill")?).await?;
    ensure!(receipt.status, "a batch of payments failed");
    Ok(())
}

/// Follows the chain from start to head with the service's flow, on a database that has the requests.
async fn follow(chain: &Devnet, events: usize) -> anyhow::Result<Duration> {
    let database = BenchDatabase::create_durable().await?;
    let mut settings = service::settings(database.url.clone())?;
    settings.chains.insert(
        Network::Sepolia.id().to_owned(),
        dev::chain_settings(chain, vec![chain.rpc_url().to_owned()]),
    );
    let ctx = boot::context(&settings, boot::open_database(&settings).await?)?;
    let matches = events / EVENTS_PER_MATCH;
    insert_requests(&ctx.db, events).await?;
    let started = Instant::now();
    catch_up(&ctx).await?;
    let time = started.elapsed();
    ctx.db.clone().close().await?;
    ensure!(
        rows_in(&database.url).await? == i64::try_from(matches)?,
        "the service did not credit {matches} payments"
    );
    database.remove().await?;
    Ok(time)
}

/// Inserts the requests that some of the events pay.
async fn insert_requests(db: &Db, events: usize) -> anyhow::Result<()> {
    for number in (EVENTS_PER_MATCH..=events).step_by(EVENTS_PER_MATCH) {
        store::requests::insert(db.writer(), &request(u64::try_from(number)?)?).await?;
    }
    Ok(())
}

/// Builds a request that is paid in full by the payment with this number.
pub(crate) fn request(number: u64) -> anyhow::Result<Request> {
    Ok(Request {
        row: RequestRowId(format!("request-{number:08}")),
        id: RequestId(format!("01{number:064x}")),
        salt: "0011223344556677".to_owned(),
        reference: PaymentReference(number.to_be_bytes()),
        origin: Origin {
            platform: PlatformId("platform".to_owned()),
            client: None,
            client_id: None,
            page: None,
            orchestrator: None,
        },
        terms: Terms {
            is_quoted: false,
            price: PriceTerms::default(),
            kind: PaymentKind::Direct,
            network: Network::Sepolia,
            payee: Some(prs::domain::address::Address::Evm(PAYEE)),
            payer: None,
            amount: Amount::parse("0.000000000000001").context("an amount")?,
            invoice_currency: COIN.to_owned(),
            payment_currency: COIN.to_owned(),
            token: None,
            merchant_reference: None,
            customer: None,
            recurrence: None,
            original_request_id: None,
            original_request_reference: None,
            is_crypto_to_fiat: false,
            schedule: None,
        },
        is_hidden: false,
        link_until: None,
        is_by_public_client: false,
        ledger: Ledger::new(U256::from(UNITS)),
        created_at: SystemClock.now(),
    })
}

/// Begins a leader term of the network.
pub(crate) async fn lead(ctx: &Ctx, network: Network) -> anyhow::Result<Leadership> {
    let begun = lead::begin(ctx, network, "bench", LEASE_MAX, &CancellationToken::new()).await?;
    begun.context("another instance leads")
}

/// Follows the chain until no work is left.
pub(crate) async fn catch_up(ctx: &Ctx) -> anyhow::Result<()> {
    let chain = ctx
        .partners
        .chains
        .followed
        .get(&Network::Sepolia)
        .context("the chain is not enabled")?;
    let (leadership, rates) = (lead(ctx, Network::Sepolia).await?, backlog::BacklogSpeeds::default());
    loop {
        let position = match watch::run(ctx, chain.as_ref(), &leadership).await? {
            WatchResult::At(position) => position,
            WatchResult::Halted(reason) => bail!("the chain is halted: {reason}"),
        };
        let is_at_head = !position.moved && position.confirmed == position.head.number;
        // The service reads blocks older than the newest final block in a separate flow, `backlog`.
        if !backlog::run(ctx, chain.as_ref(), &leadership, &rates).await? && is_at_head {
            return Ok(());
        }
    }
}

/// Fetches all events of the payment contracts, range by range, without decoding them.
async fn read_bare(chain: &Devnet, mut from: u64, events: usize) -> anyhow::Result<Duration> {
    let head = chain.block_number().await?;
    let client = reqwest::Client::builder().no_proxy().build()?;
    let contracts = chain.contracts();
    let addresses = [
        contracts.erc20_fee_proxy,
        contracts.ethereum_fee_proxy,
        contracts.erc20_proxy,
        contracts.ethereum_proxy,
        contracts.erc20_conversion_proxy,
        contracts.eth_conversion_proxy,
    ];
    let mut bodies = Vec::new();
    let started = Instant::now();
    while from <= head {
        let to = head.min(from + BLOCKS_PER_READ - 1);
        let filter = json!({
            "fromBlock": format!("{from:#x}"),
            "toBlock": format!("{to:#x}"),
            "address": addresses,
        });
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getLogs", "params": [filter]});
        bodies.push(client.post(chain.rpc_url()).json(&call).send().await?.bytes().await?);
        from = to + 1;
    }
    let time = started.elapsed();
    let mut found = 0;
    for body in bodies {
        let answer: Value = serde_json::from_slice(&body)?;
        found += answer["result"].as_array().context("a response without logs")?.len();
    }
    ensure!(found == events, "the node shows {found} of {events} payment events");
    Ok(time)
}

/// One row whose values are prepared before the clock starts.
struct ReadyRow {
    id: String,
    request_row: String,
    tx_hash: Vec<u8>,
    position: i32,
    block_number: i64,
    block_hash: Vec<u8>,
    reference: Vec<u8>,
}

/// The bare loop that only writes: inserts the same number of payments as the service credits, into the same table.
async fn write_bare(chain: &Devnet, blocks: usize) -> anyhow::Result<Duration> {
    let database = BenchDatabase::create_durable().await?;
    let settings = service::settings(database.url.clone())?;
    let db = boot::open_database(&settings).await?;
    insert_requests(&db, blocks * PAYMENTS_PER_BLOCK).await?;
    db.close().await?;
    let rows = ready_rows(blocks)?;
    let proxy = chain.contracts().ethereum_fee_proxy.to_vec();
    let payee = PAYEE.to_vec();
    let now: DateTime<Utc> = SystemClock.now();
    let mut connection = PgConnection::connect(&database.url).await?;
    let started = Instant::now();
    for committed in rows.chunks(usize::try_from(BLOCKS_PER_READ)?) {
        let mut tx = connection.begin().await?;
        for inserted in committed.chunks(ROWS_PER_INSERT) {
            let mut insert = QueryBuilder::<Postgres>::new(
                "INSERT INTO payments (id, platform_id, request_row, request_id, network, tx_hash, position, \
                 block_number, block_hash, log_index, proxy, payee, units, event_units, fee_units, \
                 credited, kind, invoice_currency, payment_currency, reference, paid_at, created_at, is_told, group_key) ",
            );
            insert.push_values(inserted, |mut values, row| {
                values
                    .push_bind(&row.id)
                    .push_bind("platform")
                    .push_bind(&row.request_row)
                    .push_bind(&row.request_row)
                    .push_bind(Network::Sepolia.id())
                    .push_bind(&row.tx_hash)
                    .push_bind(row.position)
                    .push_bind(row.block_number)
                    .push_bind(&row.block_hash)
                    .push_bind(i64::from(row.position))
                    .push_bind(&proxy)
                    .push_bind(&payee)
                    .push_bind("1000")
                    .push_bind("1000")
                    .push_bind("0")
                    .push_bind("1000")
                    .push_bind(PaymentKind::Direct.wire())
                    .push_bind(COIN)
                    .push_bind(COIN)
                    .push_bind(&row.reference)
                    .push_bind(now)
                    .push_bind(now)
                    .push_bind(false)
                    .push_bind(ONLY_GROUP);
            });
            insert.build().execute(&mut *tx).await?;
        }
        tx.commit().await?;
    }
    let time = started.elapsed();
    connection.close().await?;
    ensure!(
        rows_in(&database.url).await? == i64::try_from(rows.len())?,
        "rows are missing"
    );
    database.remove().await?;
    Ok(time)
}

fn ready_rows(blocks: usize) -> anyhow::Result<Vec<ReadyRow>> {
    let hash = |kind: &str, number: usize| -> Vec<u8> {
        let hash: B256 = keccak256(format!("{kind} {number}"));
        hash.to_vec()
    };
    let row = |number: usize| {
        let block = (number - 1) / PAYMENTS_PER_BLOCK;
        Ok(ReadyRow {
            id: format!("payment-{number:08}"),
            request_row: format!("request-{number:08}"),
            tx_hash: hash("transaction", block),
            position: i32::try_from((number - 1) % PAYMENTS_PER_BLOCK)?,
            block_number: i64::try_from(block)?,
            block_hash: hash("block", block),
            reference: u64::try_from(number)?.to_be_bytes().to_vec(),
        })
    };
    (EVENTS_PER_MATCH..=blocks * PAYMENTS_PER_BLOCK)
        .step_by(EVENTS_PER_MATCH)
        .map(row)
        .collect()
}

async fn rows_in(url: &str) -> anyhow::Result<i64> {
    let mut connection = PgConnection::connect(url).await?;
    let count = sqlx::query_scalar("SELECT count(*) FROM payments")
        .fetch_one(&mut connection)
        .await?;
    connection.close().await?;
    Ok(count)
}
