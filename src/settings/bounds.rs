//! Bounds of numeric settings: each setting declares them with its type (`schemars(range)`), and the service does not
//! start with a value outside them.

use anyhow::{Context, bail};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Rejects all numbers outside their bounds in one error.
pub(super) fn check<T: JsonSchema + Serialize>(settings: &T) -> anyhow::Result<()> {
    let schema =
        serde_json::to_value(schemars::schema_for!(T)).context("the schema of the settings must be serialisable")?;
    let values = serde_json::to_value(settings).context("the settings as values")?;
    let mut wrong = Vec::new();
    compare(&schema, &schema, &values, "", &mut wrong);
    if !wrong.is_empty() {
        bail!("settings: {}", wrong.join("; "));
    }
    Ok(())
}

/// Minimum and maximum of a setting; `None` if it is not a number.
pub(super) fn bounds(schema: &Value) -> Option<(u64, u64)> {
    Some((schema["minimum"].as_u64()?, schema["maximum"].as_u64()?))
}

pub(super) fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    schema["$ref"]
        .as_str()
        .and_then(|pointer| root.pointer(pointer.trim_start_matches('#')))
        .unwrap_or(schema)
}

fn compare(root: &Value, schema: &Value, value: &Value, path: &str, wrong: &mut Vec<String>) {
    let schema = resolve(root, schema);
    let Value::Object(members) = value else {
        let (Some(number), Some((least, most))) = (value.as_u64(), bounds(schema)) else {
            return;
        };
        if !(least..=most).contains(&number) {
            wrong.push(format!(
                "{path}: must be an integer from {least} to {most}, but is {number}"
            ));
        }
        return;
    };
    for (name, member) in members {
        let schema = schema["properties"]
            .get(name)
            .unwrap_or(&schema["additionalProperties"]);
        let path = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        compare(root, schema, member, &path, wrong);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ChainSettings, Settings, reference::markdown};
    use std::net::SocketAddr;

    /// Every numeric setting with its bounds, by section and name.
    fn numbers() -> Vec<(String, Option<(u64, u64)>)> {
        let root = serde_json::to_value(schemars::schema_for!(Settings)).unwrap();
        let is_number = |schema: &Value| schema["type"] == "integer" || schema["type"][0] == "integer";
        let mut numbers = Vec::new();
        for (section, schema) in root["properties"].as_object().unwrap() {
            let schema = match section.as_str() {
                "chains" => &schema["additionalProperties"],
                _ => schema,
            };
            let settings = resolve(&root, schema)["properties"].as_object().unwrap();
            let of_section = settings.iter().filter(|(_, schema)| is_number(schema));
            numbers.extend(of_section.map(|(name, schema)| (format!("{section}.{name}"), bounds(schema))));
        }
        numbers
    }

    fn refusal(change: impl FnOnce(&mut Settings)) -> Option<String> {
        let mut settings = Settings::development(SocketAddr::from(([127, 0, 0, 1], 8080)));
        let chain = ChainSettings {
            rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
            ..ChainSettings::default()
        };
        settings.chains.insert("base".to_owned(), chain);
        change(&mut settings);
        settings.validate().err().map(|error| error.to_string())
    }

    #[test]
    fn every_number_has_its_own_documented_bounds() {
        let reference = markdown();
        let numbers = numbers();
        assert!(numbers.len() > 25, "{numbers:?}");
        for (name, bounds) in numbers {
            let (least, most) = bounds.unwrap_or_else(|| panic!("{name} has no #[schemars(range(min = …, max = …))]"));
            assert!(least < most && most < 1 << 53, "{name}");
            let row = reference
                .lines()
                .find(|line| line.starts_with(&format!("| `{}` |", name.replace("chains.", "chains.<network>."))));
            let row = row.unwrap_or_else(|| panic!("{name} is not documented"));
            assert!(row.contains(&format!("| {least} to {most} |")), "{row}");
        }
    }

    #[test]
    fn the_default_settings_are_within_bounds() {
        assert_eq!(refusal(|_| {}), None);
        check(&Settings::default()).unwrap();
    }

    #[test]
    fn an_out_of_range_number_is_rejected_with_its_name_and_bounds() {
        let chain = |change: fn(&mut ChainSettings)| refusal(|all| change(all.chains.get_mut("base").unwrap()));
        for (refusal, name, bounds, value) in [
            (
                chain(|it| it.confirmations = Some(0)),
                "chains.base.confirmations",
                "1 to 100000",
                "0",
            ),
            (
                chain(|it| it.confirmations = Some(u64::MAX)),
                "chains.base.confirmations",
                "1 to 100000",
                "18446744073709551615",
            ),
            (chain(|it| it.poll_ms = 0), "chains.base.poll_ms", "20 to 600000", "0"),
            (
                chain(|it| it.poll_ms = u64::MAX),
                "chains.base.poll_ms",
                "20 to 600000",
                "18446744073709551615",
            ),
            (
                chain(|it| it.call_timeout_ms = 0),
                "chains.base.call_timeout_ms",
                "50 to 60000",
                "0",
            ),
            (
                chain(|it| it.agreement_fallback_s = Some(0)),
                "chains.base.agreement_fallback_s",
                "10 to 604800",
                "0",
            ),
            (
                refusal(|all| all.health.chain_stale_s = 0),
                "health.chain_stale_s",
                "30 to 604800",
                "0",
            ),
            (
                refusal(|all| all.webhooks.concurrency = 0),
                "webhooks.concurrency",
                "1 to 10000",
                "0",
            ),
        ] {
            let expected = format!("settings: {name}: must be an integer from {bounds}, but is {value}");
            assert_eq!(refusal, Some(expected));
        }
    }

    #[test]
    fn every_invalid_number_is_reported_at_once() {
        let refusal = refusal(|all| {
            all.http.connections_max = 0;
            all.health.chain_stale_s = u64::MAX;
        });
        let refusal = refusal.expect("refused");
        for name in ["http.connections_max", "health.chain_stale_s"] {
            assert!(refusal.contains(name), "{refusal}");
        }
    }

    #[test]
    fn a_setting_for_another_kind_of_network_is_rejected() {
        let tron = |change: fn(&mut ChainSettings)| {
            refusal(|all| change(all.chains.entry("tron".to_owned()).or_default())).unwrap_or_default()
        };
        let base = |change: fn(&mut ChainSettings)| {
            refusal(|all| change(all.chains.get_mut("base").unwrap())).unwrap_or_default()
        };
        for (refusal, begins) in [
            (
                tron(|it| it.rpc_urls = vec!["http://127.0.0.1:9".to_owned()]),
                "chains.tron.rpc_urls: tron does not have this setting; set chains.tron.api_urls, and",
            ),
            (
                tron(|it| it.confirmations = Some(20)),
                "chains.tron.confirmations: tron does not have this setting; remove it: a payment on Tron is final",
            ),
            (
                tron(|it| it.relayer_max_fee_gwei = Some(1)),
                "chains.tron.relayer_max_fee_gwei: tron does not have this setting; remove it",
            ),
            (
                tron(|it| it.agreement = Some(2)),
                "chains.tron.agreement: must be at most the number of URLs in chains.tron.api_urls, 0",
            ),
            (
                base(|it| it.api_key = Some("k".to_owned())),
                "chains.base.api_key: base does not have this setting; remove it",
            ),
            (
                base(|it| it.api_urls = vec!["http://127.0.0.1:9".to_owned()]),
                "chains.base.api_urls: base does not have this setting; set rpc_urls instead",
            ),
            (
                base(|it| it.payment_fee_limit_trx = Some(300)),
                "chains.base.payment_fee_limit_trx: base does not have this setting; remove it",
            ),
            (
                base(|it| it.agreement = Some(2)),
                "chains.base.agreement: must be at most the number of URLs in chains.base.rpc_urls, 1",
            ),
        ] {
            assert!(refusal.starts_with(begins), "{refusal}");
        }
    }

    #[test]
    fn the_settings_of_tron_are_checked() {
        let tron = |change: fn(&mut ChainSettings)| {
            let mut chain = ChainSettings {
                api_urls: vec![
                    "https://one.example/hunter2".to_owned(),
                    "https://two.example".to_owned(),
                ],
                ..ChainSettings::default()
            };
            change(&mut chain);
            refusal(|all| drop(all.chains.insert("tron".to_owned(), chain)))
        };
        let good: [fn(&mut ChainSettings); 5] = [
            |_| {},
            |it| (it.agreement, it.agreement_fallback_s) = (Some(2), Some(60)),
            |it| it.jsonrpc_urls = vec!["https://one.example/jsonrpc".to_owned()],
            |it| it.api_key = Some("9a1f-hunter2".to_owned()),
            |it| it.fallback_address = Some("TJRabPrwbZy45sbavfcjinPJC18kjpRTv8".to_owned()),
        ];
        for change in good {
            assert_eq!(tron(change), None);
        }
        for (refusal, begins) in [
            (
                tron(|it| it.api_urls = vec!["hunter2".to_owned()]),
                "chains.tron.api_urls: every entry must be an http or https URL",
            ),
            (
                tron(|it| it.api_urls = vec!["https://one.example?key=hunter2".to_owned()]),
                "chains.tron.api_urls: every entry must be an http or https URL without a query",
            ),
            (
                tron(|it| it.jsonrpc_urls = vec!["hunter2".to_owned()]),
                "chains.tron.jsonrpc_urls: every entry must be an http or https URL",
            ),
            (
                tron(|it| it.jsonrpc_urls = vec!["https://one.example/hunter2".to_owned(); 3]),
                "chains.tron.jsonrpc_urls: must have at most as many entries as chains.tron.api_urls, 2",
            ),
            (
                tron(|it| it.agreement = Some(3)),
                "chains.tron.agreement: must be at most the number of URLs in chains.tron.api_urls, 2",
            ),
            (
                tron(|it| it.api_key = Some("hunter2 ".to_owned())),
                "chains.tron.api_key: must be the key of the provider",
            ),
            (
                tron(|it| {
                    it.api_urls = vec!["http://one.example".to_owned()];
                    it.api_key = Some("hunter2".to_owned());
                }),
                "chains.tron.api_key: must be absent unless every entry",
            ),
            (
                tron(|it| it.fallback_address = Some("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".to_owned())),
                "chains.tron.fallback_address: must be a Tron address",
            ),
            (
                tron(|it| it.fallback_address = Some("TJRabPrwbZy45sbavfcjinPJC18kjpRTv9".to_owned())),
                "chains.tron.fallback_address: has a wrong Base58 checksum",
            ),
            (
                tron(|it| it.approval_fee_limit_trx = Some(0)),
                "settings: chains.tron.approval_fee_limit_trx: must be an integer from 1 to 15000, but is 0",
            ),
            (
                tron(|it| it.payment_fee_limit_trx = Some(15_001)),
                "settings: chains.tron.payment_fee_limit_trx: must be an integer from 1 to 15000, but is 15001",
            ),
        ] {
            let refusal = refusal.unwrap_or_default();
            assert!(refusal.starts_with(begins), "{refusal}");
            assert!(!refusal.contains("hunter2"), "{refusal}");
        }
    }

    #[test]
    fn printed_settings_hide_the_key_and_the_paths_of_tron_nodes() {
        let mut settings = Settings::default();
        let chain = ChainSettings {
            api_urls: vec!["https://one.example/hunter2".to_owned()],
            jsonrpc_urls: vec!["https://two.example/hunter2".to_owned()],
            api_key: Some("hunter2".to_owned()),
            ..ChainSettings::default()
        };
        settings.chains.insert("tron".to_owned(), chain);
        let shown = settings.shown().unwrap();
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(
            shown.contains("https://one.example/…") && shown.contains("https://two.example/…"),
            "{shown}"
        );
    }

    #[test]
    fn a_tron_node_without_a_json_rpc_url_has_it_under_its_api_url() {
        let mut chain = ChainSettings {
            api_urls: vec!["https://one.example/key/".to_owned(), "https://two.example".to_owned()],
            jsonrpc_urls: vec!["https://rpc.example".to_owned()],
            ..ChainSettings::default()
        };
        let nodes = |chain: &ChainSettings| {
            let nodes = chain.tron_nodes().into_iter();
            nodes.map(|node| (node.api, node.jsonrpc)).collect::<Vec<_>>()
        };
        let pair = |api: &str, jsonrpc: &str| (api.to_owned(), jsonrpc.to_owned());
        let second = pair("https://two.example", "https://two.example/jsonrpc");
        assert_eq!(
            nodes(&chain),
            [pair("https://one.example/key", "https://rpc.example"), second.clone()]
        );
        chain.jsonrpc_urls.clear();
        let first = pair("https://one.example/key", "https://one.example/key/jsonrpc");
        assert_eq!(nodes(&chain), [first, second]);
        assert_eq!(
            (chain.approval_fee_limit_sun(), chain.payment_fee_limit_sun()),
            (100_000_000, 300_000_000)
        );
    }
}
