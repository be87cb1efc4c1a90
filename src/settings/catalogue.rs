//! The catalogue of currencies, aliases and contracts, with the overrides from the settings.

use super::{ChainSettings, RateSource, Settings, USUAL_RATE_AGE};
use crate::domain::{
    address::Address,
    currency::{Catalogue, ContractKind, Currency, CurrencyKind, KnownContract},
    network::Network,
};
use anyhow::{Context, bail};
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap};

const CATALOGUE: &str = include_str!("catalogue.json");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CatalogueFile {
    currencies: Vec<CurrencyRow>,
    contracts: HashMap<String, Vec<ContractRow>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CurrencyRow {
    id: String,
    aliases: Vec<String>,
    name: String,
    symbol: String,
    decimals: u8,
    address: String,
    network: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    hash: String,
    #[serde(default)]
    conversion_paths: HashMap<String, Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ContractRow {
    name: String,
    address: String,
    creation_block: u64,
    default: bool,
}

/// Builds the catalogue of the enabled networks.
///
/// Errors: a contract or token override with an unknown name or an invalid address.
pub fn load(settings: &Settings) -> anyhow::Result<Catalogue> {
    let file: CatalogueFile = serde_json::from_str(CATALOGUE).context("catalogue file")?;
    let mut currencies = file
        .currencies
        .into_iter()
        .map(currency)
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut contracts = HashMap::new();
    for (network, rows) in file.contracts {
        let network = Network::from_id(&network).with_context(|| format!("catalogue: unknown network {network}"))?;
        contracts.insert(
            network,
            rows.into_iter().map(contract).collect::<anyhow::Result<Vec<_>>>()?,
        );
    }
    let mut enabled = BTreeSet::new();
    for (network, chain) in settings.networks() {
        if chain.is_enabled(network) {
            enabled.insert(network);
        }
        override_contracts(network, chain, contracts.entry(network).or_default())?;
        override_tokens(network, chain, &mut currencies)?;
    }
    let mut catalogue = Catalogue::new(currencies, contracts, enabled);
    for symbol in settings.conversion.coin_ids.keys() {
        if !catalogue.knows_symbol(symbol) {
            bail!("conversion.coin_ids.{symbol}: {symbol} is not the symbol of a known currency; remove it");
        }
    }
    if settings.partners.rates != RateSource::Off {
        catalogue = catalogue.pricing(settings.conversion.coins().into_keys().collect());
    }
    for symbol in settings.conversion.max_rate_age_s.keys() {
        if symbol != USUAL_RATE_AGE && !catalogue.knows_symbol(symbol) {
            bail!(
                "conversion.max_rate_age_s.{symbol}: {symbol} is neither `{USUAL_RATE_AGE}` nor the symbol of a known \
                 currency; remove it"
            );
        }
    }
    Ok(catalogue)
}

fn currency(row: CurrencyRow) -> anyhow::Result<Currency> {
    let kind = match row.kind.as_str() {
        "ERC20" => CurrencyKind::Erc20,
        "TRC20" => CurrencyKind::Trc20,
        "ETH" => CurrencyKind::Native,
        "ISO4217" => CurrencyKind::Fiat,
        other => bail!("catalogue: unknown type {other} of {}", row.id),
    };
    let network = match row.network {
        Some(id) => Some(Network::from_id(&id).with_context(|| format!("catalogue: unknown network {id}"))?),
        None => None,
    };
    Ok(Currency {
        id: row.id,
        aliases: row.aliases,
        name: row.name,
        symbol: row.symbol,
        decimals: row.decimals,
        address: row.address,
        network,
        kind,
        hash: row.hash,
        conversion_paths: row.conversion_paths,
    })
}

fn contract(row: ContractRow) -> anyhow::Result<KnownContract> {
    let kind =
        ContractKind::from_name(&row.name).with_context(|| format!("catalogue: unknown contract {}", row.name))?;
    let address = Address::parse(&row.address).with_context(|| format!("catalogue: address of {}", row.name))?;
    Ok(KnownContract {
        kind,
        address,
        creation_block: row.creation_block,
        is_default: row.default,
    })
}

/// Replaces all published contracts of a network by those in the settings, if there are any.
fn override_contracts(network: Network, chain: &ChainSettings, known: &mut Vec<KnownContract>) -> anyhow::Result<()> {
    if chain.contracts.is_empty() {
        return Ok(());
    }
    // A chain with its own contracts does not have the published ones.
    known.clear();
    for (name, address) in &chain.contracts {
        let kind = ContractKind::from_name(name).with_context(|| {
            let names: Vec<_> = ContractKind::ALL.iter().map(|kind| kind.wire()).collect();
            format!(
                "chains.{network}.contracts.{name}: unknown contract; known contracts are {}",
                names.join(", ")
            )
        })?;
        let address = Address::parse_on(address, network)
            .map_err(|error| anyhow::anyhow!("chains.{network}.contracts.{name}: {error}"))?;
        let creation_block = chain.start_block.unwrap_or(0);
        known.push(KnownContract {
            kind,
            address,
            creation_block,
            is_default: true,
        });
    }
    Ok(())
}

fn override_tokens(network: Network, chain: &ChainSettings, currencies: &mut [Currency]) -> anyhow::Result<()> {
    for (symbol, address) in &chain.tokens {
        let parsed = Address::parse_on(address, network)
            .map_err(|error| anyhow::anyhow!("chains.{network}.tokens.{symbol}: {error}"))?;
        let currency = currencies
            .iter_mut()
            .find(|currency| currency.network == Some(network) && currency.symbol.eq_ignore_ascii_case(symbol))
            .with_context(|| {
                format!("chains.{network}.tokens.{symbol}: the catalogue of {network} has no such token")
            })?;
        let old_hash = currency.hash.to_lowercase();
        for hash in currency.conversion_paths.values_mut().flatten() {
            if hash.to_lowercase() == old_hash {
                *hash = parsed.to_string();
            }
        }
        currency.address = parsed.to_string();
        currency.hash = parsed.to_string();
    }
    Ok(())
}
