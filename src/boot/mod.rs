//! The only module that knows every layer: it builds database, adapters, handles, routes and workers from the settings,
//! and stops them.

pub mod admin;
pub mod cli;
pub mod clock;
mod counted;
mod described;
pub mod dev;
mod dev_database;
pub mod documents;
mod examples;
pub mod health;
pub mod identity;
pub mod listen;
mod log;
mod master_keys;
mod orders;
mod output;
pub mod process;
mod quarantine;
mod rate_feed;
mod rates;
mod reconcile;
pub mod role;
mod sandbox;
mod screening_sandbox;
pub mod serve;

use crate::{
    adapters::{
        self,
        nodes::{ChainOptions, NodeUrls},
    },
    boot::clock::DatabaseClock,
    ctx::{
        Ctx, Partners, PayerRules, PaymentPageCaches, PaymentRules, People, RateRules, ScheduleRules, ScreeningRules,
        SecurePaymentRules, SessionRules, WebhookRules, WorkPermits,
    },
    domain::{
        client_id::{OwnPages, normalise_domain},
        currency::Catalogue,
        ids::Secret,
        network::{Family, Network},
        waits::Waits,
        webhook::UrlPolicy,
    },
    ports::{
        chain::Chains, clock::Clock, ids::Ids, off_ramp::OffRamp, rates::RateFeed, relay::Relay, screening::Screener,
    },
    settings::{self, ChainSettings, OffRampSource, RateSource, ScreeningSource, Settings, Synchronous, catalogue},
    store::{Db, Durability},
};
use alloy::signers::local::PrivateKeySigner;
use anyhow::{Context, bail};
use chrono::TimeDelta;
use lru::LruCache;
use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::sync::{Notify, Semaphore};
use url::Url;

/// Maximum number of recently issued credentials that an instance remembers.
const ISSUED_MAX: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Maximum number of concurrent batch creations; each needs a database connection and a thread.
const BATCHES_MAX: usize = 8;

/// Maximum number of concurrent batch creations per holder: a second batch would wait for the rows that the first batch
/// locked.
const BATCHES_OF_ONE: usize = 1;

/// Maximum number of concurrent transactions that create links with public client IDs or count open requests, in total
/// and per holder. Each transaction needs a database connection, and the pool has more than this number. The
/// transactions of one client ID run one after the other.
const COUNTED_REQUESTS_MAX: usize = 6;
const COUNTED_REQUESTS_OF_ONE: usize = 2;

/// Maximum number of concurrent searches and counts in the delivery log, in total and for one platform: each needs a
/// database connection, and the pool has more of them.
const DELIVERY_SEARCHES_MAX: usize = 6;
const DELIVERY_SEARCHES_OF_ONE: usize = 2;

/// Maximum number of concurrent lookups on a network for waiting callers.
const QUESTIONS_MAX: usize = 32;

/// Maximum number of concurrent lookups on a network per holder. A platform counts as two holders, itself and its
/// public client IDs, and gets at most half of all lookups.
const QUESTIONS_OF_ONE: usize = 8;

/// Maximum number of concurrent balance lookups for payment pages, in total and for the links of one platform. One link
/// gets a quarter of the maximum of its platform. One visitor of a link needs a dozen or more lookups within two
/// seconds.
const BALANCES_MAX: usize = 64;
const BALANCES_OF_ONE: usize = 16;

/// Maximum number of balances and report counts that an instance caches.
const REMEMBERED_MAX: NonZeroUsize = NonZeroUsize::new(20_000).unwrap();
/// Maximum number of concurrent wallet screenings.
const SCREENINGS_MAX: usize = 32;

/// Maximum number of concurrent screenings for the links of one platform, so that strangers with one link do not delay
/// payers of other links.
const SCREENINGS_OF_ONE: usize = 8;

/// Maximum number of concurrent off-ramp partner calls for waiting callers. The adapter has further slots for workers.
const OFF_RAMP_CALLS_MAX: usize = 24;

/// Maximum number of concurrent off-ramp partner calls per holder. A platform counts as two holders, itself and its
/// public client IDs.
const OFF_RAMP_CALLS_OF_ONE: usize = 8;

/// Maximum number of concurrent callbacks of the off-ramp partner; each may hold a database connection.
const NEWS_MAX: usize = 4;

/// Parses the network ID in a command.
fn network_of(id: &str) -> anyhow::Result<Network> {
    Network::from_id(id).with_context(|| {
        format!(
            "{id} is not a supported network; supported networks are {}",
            Network::ids_in_words()
        )
    })
}

/// Opens the database, migrates its schema, and checks that the master keys match its values.
pub async fn open_database(settings: &Settings) -> anyhow::Result<Db> {
    let db = connect(settings).await?;
    migrate_up(&db).await.context("the schema could not be migrated")?;
    with_master_keys(settings, &db).await
}

/// Applies and logs the missing migrations.
pub(super) async fn migrate_up(db: &Db) -> anyhow::Result<()> {
    let before = db.migrate_status().await?;
    let missing: Vec<&str> = before
        .iter()
        .filter(|migration| !migration.is_applied)
        .map(|migration| migration.name.as_str())
        .collect();
    // A read-only database cannot store migration state, and does not need to.
    if missing.is_empty() {
        return Ok(());
    }
    let begun = Instant::now();
    db.migrate_up().await?;
    if let Some(newest) = missing.last() {
        let took_ms = begun.elapsed().as_millis();
        tracing::info!(
            applied = missing.len(),
            newest,
            took_ms,
            "applied the missing migrations"
        );
    }
    Ok(())
}

/// Opens a database for a command, without creating it or changing its schema.
///
/// Errors: the database does not exist, its schema is older than this program or of another version, or its values are
/// encrypted with other master keys.
pub async fn open_existing(settings: &Settings) -> anyhow::Result<Db> {
    let url = &settings.database.url;
    let shown = settings::without_password(url);
    let file = url.strip_prefix("sqlite:").map(|path| path.trim_start_matches("//"));
    let is_missing = file.is_some_and(|path| !PathBuf::from(path.split('?').next().unwrap_or_default()).exists());
    if is_missing {
        bail!("database.url: there is no database at {shown}; `prs serve` or `prs migrate up` creates it");
    }
    let db = connect(settings).await?;
    let at = || format!("database.url: {shown}");
    let migrations = db.migrate_status().await.with_context(at)?;
    if migrations.iter().any(|migration| !migration.is_applied) {
        bail!(
            "database.url: the schema at {shown} is older than this program; run `prs migrate up` or `prs serve` first"
        );
    }
    with_master_keys(settings, &db).await
}

pub(super) async fn connect(settings: &Settings) -> anyhow::Result<Db> {
    let durability = match settings.database.synchronous {
        Synchronous::Full => Durability::Full,
        Synchronous::Normal => Durability::Process,
    };
    let db = Db::connect_with(&settings.database.url, durability).await;
    db.with_context(|| format!("database.url: {}", settings::without_password(&settings.database.url)))
}

/// The startup operations run without the time limit of a call, because they may take longer.
async fn with_master_keys(settings: &Settings, db: &Db) -> anyhow::Result<Db> {
    let db = master_keys::seal(settings, db.patient()).await?;
    Ok(db.answering_within(Duration::from_millis(settings.database.answer_timeout_ms)))
}

/// Checks that currencies and contracts are known, that a private key is valid on the curve, and that the log level is
/// valid.
fn check(settings: &Settings) -> anyhow::Result<()> {
    log::check(&settings.log)?;
    catalogue::load(settings)?;
    relayer_key(settings)?;
    Ok(())
}

/// The key that executes recurring payments; `None` if they are unavailable.
fn relayer_key(settings: &Settings) -> anyhow::Result<Option<PrivateKeySigner>> {
    let key = settings.relayer.private_key.clone().map(Secret::new);
    let key = key.map(|key| adapters::evm::signing_key(&key)).transpose();
    key.context("relayer.private_key")
}

/// Builds every handle that flows need.
pub fn context(settings: &Settings, db: Db) -> anyhow::Result<Ctx> {
    let clock = database_clock(&db);
    let ids: Arc<dyn Ids> = Arc::new(adapters::ids::SystemIds::new(clock.clone()));
    context_with(settings, db, clock, ids, Waits::default())
}

fn database_clock(db: &Db) -> Arc<dyn Clock> {
    let machine = Arc::new(adapters::clock::SystemClock);
    Arc::new(DatabaseClock::new(db, machine))
}

/// Like [`context`], with another clock, source of ids and timeouts, for tests.
pub fn context_with(
    settings: &Settings,
    db: Db,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    waits: Waits,
) -> anyhow::Result<Ctx> {
    let catalogue = catalogue::load(settings)?;
    let mut chains = Chains::default();
    let mut relays: BTreeMap<Network, Arc<dyn Relay>> = BTreeMap::new();
    let relayer_key = relayer_key(settings)?;
    for (network, chain) in settings
        .networks()
        .filter(|(network, chain)| chain.is_enabled(*network))
    {
        let options = ChainOptions {
            network,
            chain_id: network.chain_id(),
            nodes: node_urls(network, chain)?,
            api_key: chain
                .api_key
                .clone()
                .map(|key| (adapters::tron::KEY_HEADER, Secret::new(key))),
            confirmations: chain.confirmations,
            start_block: chain.start_block,
            agreement: chain.agreement,
            agreement_fallback: chain.agreement_fallback_s.map(Duration::from_secs),
            contracts: catalogue.contracts(network).to_vec(),
            call_timeout: Duration::from_millis(chain.call_timeout_ms),
            lookup_timeout: waits.nodes,
        };
        match network.family() {
            Family::Evm => {
                let connected = adapters::evm::connect(options, settings.conversion.nodes_apart_bps())?;
                if let Some(key) = &relayer_key {
                    relays.insert(network, connected.relay(key.clone()));
                }
                chains.add(network, connected.parts);
            }
            Family::Tron => chains.add(network, adapters::tron::connect(options, chain.fallback_wallet()?)?),
        }
    }
    let url_policy = UrlPolicy {
        allow_loopback: settings.allow_loopback(),
    };
    let catalogue = Arc::new(catalogue);
    let sealer = db.sealer().context("the database was opened without master keys")?;
    let webhooks = WebhookRules {
        url_policy,
        header_prefixes: settings.webhooks.header_prefix.list(),
        standard_headers: settings.webhooks.standard_headers,
        scoped_variants: settings.webhooks.scoped_variants,
        reversals: settings.webhooks.reversals,
        recovery: settings.webhooks.recovery()?,
        disable_after: settings.webhooks.disable_after(),
        client_id_management: settings.webhooks.client_id_management.into(),
        retention_days: settings.webhooks.retention_days,
    };
    let payments = PaymentRules {
        processor_crypto: settings.brand.processor_crypto.clone(),
        processor_fiat: settings.brand.processor_fiat.clone(),
        conversion_slippage_basis_points: settings.conversion.slippage_basis_points,
        minor_share: settings.conversion.minor_share(),
        rate_ages: settings.conversion.rate_ages(),
        protocol_fee: settings.fees.protocol()?,
        fee_limits: settings.tron_fee_limits(),
        batch_gas: settings.payouts.batch_gas,
        quotes_last: TimeDelta::seconds(settings.conversion.quote_s.into()),
        tolerance: settings.conversion.tolerance(),
    };
    let schedules = ScheduleRules {
        fee: settings.relayer.fee()?,
        may_public_make: settings.relayer.public_client_ids,
        lapse_after: TimeDelta::seconds(settings.relayer.sign_within_s.into()),
        retries: settings.relayer.retries(),
        bids: settings
            .networks()
            .map(|(network, chain)| (network, settings.relayer.bids(chain.relayer_max_fee(network))))
            .collect(),
    };
    if let Some(fee) = &payments.protocol_fee {
        let receivers = [
            ("protocol_address", Some(fee.receiver)),
            ("protocol_tron_address", fee.tron_receiver),
        ];
        for (setting, receiver) in receivers {
            if let Some(Err(sentence)) = receiver.map(|receiver| catalogue.receiver_anywhere(receiver)) {
                bail!("fees.{setting}: {sentence}");
            }
        }
    }
    let networks = chains.standings.keys();
    let questions = networks.map(|network| (*network, permits(QUESTIONS_MAX, QUESTIONS_OF_ONE)));
    let questions = questions.collect();
    let own_pages = OwnPages {
        origin: origin_of(&settings.public_url()),
        are_trusted: !settings.http.production,
    };
    Ok(Ctx {
        db,
        partners: Partners {
            chains: Arc::new(chains),
            relays: Arc::new(relays),
            outbound: Arc::new(adapters::outbound::HttpOutbound::new(url_policy, clock.clone())?),
            rate_feeds: rate_feeds(settings, &clock)?,
            screeners: screeners(settings, &waits)?,
            off_ramp: off_ramp(settings, &catalogue, &clock, &ids, waits.partner)?,
        },
        people: People {
            passwords: Arc::new(adapters::passwords::Argon2Passwords::new()?),
            guesses: Arc::new(adapters::guesses::MemoryGuesses::new()),
            sessions: Arc::new(session_rules(settings)),
            registration: settings.accounts.registration.into(),
        },
        clock,
        ids,
        sealer,
        catalogue,
        waits: Arc::new(waits),
        webhooks: Arc::new(webhooks),
        caps: Arc::new((&settings.caps).into()),
        payments: Arc::new(payments),
        schedules: Arc::new(schedules),
        rates: Arc::new(RateRules {
            guards: settings.conversion.rate_guards(),
            read_every: TimeDelta::seconds(settings.conversion.rate_interval_s.into()),
        }),
        direct_links: settings.orchestrators.direct_links.into(),
        payers: Arc::new(PayerRules {
            mask_bank_details: settings.mask_bank_details(),
        }),
        secure_payments: Arc::new(SecurePaymentRules {
            pay_url: settings.pay_url(),
            lasts: TimeDelta::seconds(settings.secure_payments.expires_in_s.into()),
            kept: TimeDelta::days(settings.secure_payments.kept_days.into()),
        }),
        payment_pages: Arc::new(PaymentPageCaches {
            permits: permits(BALANCES_MAX, BALANCES_OF_ONE),
            balances: Mutex::new(LruCache::new(REMEMBERED_MAX)),
            reports: Mutex::new(LruCache::new(REMEMBERED_MAX)),
            recipients: Mutex::new(LruCache::new(REMEMBERED_MAX)),
            rejected: Mutex::new(LruCache::new(REMEMBERED_MAX)),
        }),
        screening: Arc::new(ScreeningRules {
            has_backup: settings.screening.backup,
        }),
        own_pages: Arc::new(own_pages),
        credential_changes: Arc::default(),
        origin_changes: Arc::default(),
        issued: Arc::new(Mutex::new(LruCache::new(ISSUED_MAX))),
        noting: Arc::default(),
        testing: Arc::default(),
        answering: Arc::default(),
        batches: permits(BATCHES_MAX, BATCHES_OF_ONE),
        headrooms: Arc::new(Mutex::new(LruCache::new(REMEMBERED_MAX))),
        counted_requests: permits(COUNTED_REQUESTS_MAX, COUNTED_REQUESTS_OF_ONE),
        delivery_searches: permits(DELIVERY_SEARCHES_MAX, DELIVERY_SEARCHES_OF_ONE),
        questions: Arc::new(questions),
        screenings: permits(SCREENINGS_MAX, SCREENINGS_OF_ONE),
        off_ramp_calls: permits(OFF_RAMP_CALLS_MAX, OFF_RAMP_CALLS_OF_ONE),
        news: Arc::new(Semaphore::new(NEWS_MAX)),
        due: Arc::new(Notify::new()),
    })
}

/// The URLs of the nodes of a network. Errors: one is no URL.
fn node_urls(network: Network, chain: &ChainSettings) -> anyhow::Result<Vec<NodeUrls>> {
    let parsed = |text: &str| Url::parse(text).with_context(|| network.node_setting());
    if network.family() == Family::Evm {
        return chain
            .rpc_urls
            .iter()
            .map(|rpc| parsed(rpc).map(NodeUrls::of_rpc))
            .collect();
    }
    let nodes = chain.tron_nodes().into_iter().map(|node| {
        Ok(NodeUrls {
            rpc: parsed(&node.jsonrpc)?,
            api: Some(parsed(&node.api)?),
        })
    });
    nodes.collect()
}

/// Permits for work: `all` in total, of which one holder may take `each`.
fn permits(all: usize, each: usize) -> Arc<WorkPermits> {
    Arc::new(WorkPermits {
        each,
        all: Arc::new(Semaphore::new(all)),
        own: Mutex::default(),
    })
}

/// The configured rate feeds. HTTP feeds take precedence over the file.
fn rate_feeds(settings: &Settings, clock: &Arc<dyn Clock>) -> anyhow::Result<Arc<[Arc<dyn RateFeed>]>> {
    use adapters::rates::{FileFeed, HttpFeed, HttpFeedOptions};
    let conversion = &settings.conversion;
    let mut feeds: Vec<Arc<dyn RateFeed>> = Vec::new();
    match (settings.partners.rates, &conversion.feed_file) {
        (RateSource::Http | RateSource::Sandbox, _) => {
            for url in conversion.urls()? {
                let feed = HttpFeed::new(HttpFeedOptions {
                    url,
                    api_key: conversion.feed_api_key.clone(),
                    coin_ids: conversion.coins(),
                });
                feeds.push(Arc::new(feed.context("conversion.feed_api_key")?));
            }
        }
        (RateSource::File, Some(path)) => {
            let feed = FileFeed::new(path.clone(), conversion.coins(), clock.clone());
            feeds.push(Arc::new(feed));
        }
        (RateSource::File, None) | (RateSource::Off, _) => {}
    }
    Ok(feeds.into())
}

/// The screening providers that have an API key in the settings.
fn screeners(settings: &Settings, waits: &Waits) -> anyhow::Result<Arc<[Arc<dyn Screener>]>> {
    use adapters::screening::{Hypernative, HypernativeOptions, MerkleScience, MerkleScienceOptions};
    let screening = &settings.screening;
    let mut screeners: Vec<Arc<dyn Screener>> = Vec::new();
    if settings.partners.screening == ScreeningSource::Off {
        return Ok(screeners.into());
    }
    let key = screening
        .hypernative_client_id
        .clone()
        .zip(screening.hypernative_client_secret.clone());
    if let Some((client_id, client_secret)) = key {
        screeners.push(Arc::new(Hypernative::new(HypernativeOptions {
            url: screening.hypernative_url()?,
            timeout: waits.screening,
            client_id,
            client_secret,
            policy_id: screening.hypernative_policy_id.clone(),
        })?));
    }
    if let Some(api_key) = screening.merklescience_api_key.clone() {
        screeners.push(Arc::new(MerkleScience::new(MerkleScienceOptions {
            url: screening.merklescience_url()?,
            timeout: waits.screening,
            api_key,
            blockchains: screening.blockchains()?,
            reject_from: screening.merklescience_reject_from,
        })?));
    }
    Ok(screeners.into())
}

/// The configured partner.
fn off_ramp(
    settings: &Settings,
    catalogue: &Arc<Catalogue>,
    clock: &Arc<dyn Clock>,
    ids: &Arc<dyn Ids>,
    timeout: Duration,
) -> anyhow::Result<Option<Arc<dyn OffRamp>>> {
    use adapters::off_ramp::{HttpOffRamp, HttpOffRampOptions};
    if settings.partners.offramp == OffRampSource::Off {
        return Ok(None);
    }
    let access = settings.offramp.access()?;
    let partner = HttpOffRamp::new(HttpOffRampOptions {
        url: access.url,
        timeout,
        key_id: access.key_id,
        key_secret: access.key_secret,
        callback_secrets: access.callback_secrets,
        deposits: settings.offramp.deposits()?,
        allow_loopback: settings.partners.offramp == OffRampSource::Sandbox,
        catalogue: catalogue.clone(),
        clock: clock.clone(),
        ids: ids.clone(),
    })?;
    Ok(Some(Arc::new(partner)))
}

fn session_rules(settings: &Settings) -> SessionRules {
    let uri = settings.auth_url();
    let own = [origin_of(&settings.public_url()), origin_of(&uri)];
    let listed = settings.http.session_origins.iter();
    SessionRules {
        domain: origin_of(&uri)
            .split_once("://")
            .map(|(_, host)| host.to_owned())
            .unwrap_or_default(),
        pages: own
            .into_iter()
            .chain(listed.filter_map(|origin| normalise_domain(origin).ok()))
            .collect(),
        uri,
        is_cookie_secure: !settings.http.insecure_cookies,
        wallet_absolute: TimeDelta::seconds(i64::from(settings.wallet_session.absolute_s)),
        wallet_networks: settings
            .http
            .wallet_networks
            .iter()
            .filter_map(|id| Network::from_id(id))
            .collect(),
    }
}

fn origin_of(address: &str) -> String {
    Url::parse(address)
        .map(|url| url.origin().ascii_serialization())
        .unwrap_or_default()
}
