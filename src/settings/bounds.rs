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
        let base = |change: fn(&mut ChainSettings)| refusal(|all| change(all.chains.get_mut("base").unwrap()));
        for (refusal, begins) in [
            (tron(|it| it.agreement = Some(2)), "chains.tron.agreement:"),
            (
                tron(|it| it.agreement_fallback_s = Some(60)),
                "chains.tron.agreement_fallback_s:",
            ),
            (
                base(|it| it.api_key = Some("k".to_owned())).unwrap_or_default(),
                "chains.base.api_key:",
            ),
            (
                base(|it| it.agreement = Some(2)).unwrap_or_default(),
                "chains.base.agreement: must be at most the number of URLs in chains.base.rpc_urls, 1",
            ),
        ] {
            assert!(refusal.starts_with(begins), "{refusal}");
        }
    }
}
