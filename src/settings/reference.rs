//! Generates the reference of all settings from the types, so that it cannot become outdated.

use super::{
    ChainSettings, Settings,
    bounds::{bounds, resolve},
};
use serde_json::Value;
use std::fmt::Write;

/// The text of `docs/settings.md`.
pub fn markdown() -> String {
    let schema = serde_json::to_value(schemars::schema_for!(Settings)).unwrap_or_default();
    let defaults = serde_json::to_value(Settings::default()).unwrap_or_default();
    let mut text = String::from(
        "# Settings\n\nGenerated from the code by `cargo xtask openapi generate`; do not edit.\n\nOrder: compiled-in \
         defaults, `prs.toml` (or `--config FILE`), environment.\nA setting `section.name` is `PRS_SECTION__NAME` in \
         the environment; lists are written `[a, b]`.\n`prs serve --print-config` shows the result with secrets \
         hidden.\nThe service does not start with an unknown or invalid setting.\n\n| setting | default | accepted | \
         meaning |\n|---|---|---|---|\n",
    );
    for (section, section_schema) in properties(&schema) {
        let resolved = resolve(&schema, section_schema);
        if section == "chains" {
            let chain = serde_json::to_value(schemars::schema_for!(ChainSettings)).unwrap_or_default();
            let defaults = serde_json::to_value(ChainSettings::default()).unwrap_or_default();
            rows(&mut text, "chains.<network>", &chain, &defaults);
        } else {
            rows(&mut text, section, resolved, &defaults[section]);
        }
    }
    text
}

fn rows(text: &mut String, section: &str, schema: &Value, defaults: &Value) {
    for (name, property) in properties(schema) {
        let default = match &defaults[name] {
            Value::Null => "–".to_owned(),
            Value::String(text) => format!("`{text}`"),
            other => format!("`{other}`"),
        };
        let meaning = property["description"]
            .as_str()
            .unwrap_or_default()
            .replace('\n', " ")
            .replace('|', "\\|");
        let accepted = match bounds(property) {
            Some((least, most)) => format!("{least} to {most}"),
            None => String::new(),
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "| `{section}.{name}` | {default} | {accepted} | {meaning} |");
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}
