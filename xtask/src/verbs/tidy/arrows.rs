//! Checks which layer of the service imports which other layer. The table in ARCHITECTURE.md says what is allowed.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use super::paths::{self, Modules, module_path};

/// Folder of the service.
const SERVICE: &str = "src";

/// Modules that have a row or a column in the table.
const LAYERS: [&str; 13] = [
    "domain", "ports", "payloads", "store", "adapters", "ctx", "flows", "http", "worker", "boot", "settings", "cli",
    "main",
];

/// Modules that put the service together. They may import every layer.
const ASSEMBLY: [&str; 5] = ["", "main", "boot", "settings", "cli"];

/// Placeholder in [`ROOMS`] for every module of `http` that the list does not name. Each is named after a noun, such as
/// `payouts`.
const NOUNS: &str = "<noun>";

/// The modules of `http`, the lowest layer first. A module may import the modules before it. A module of a noun may not
/// import that of another noun.
const ROOMS: [&str; 13] = [
    "forms",
    "tags",
    "call_id",
    "routes",
    "error",
    "files",
    "body",
    "gate",
    "edge",
    "operation",
    NOUNS,
    "contract",
    "dev",
];

/// Pairs of flows of which the first may use the second. A payout is a request plus the calldata that pays it. A
/// schedule is a payout that repeats. A secure payment exposes requests to anonymous payers and screens them. Reports
/// of partners reach the flows that they concern. Rates convert the amount of a request and the value of a payment.
/// Flows that return transactions use `paying`. Flows on resources that all platforms share wait for `admission`. A
/// request to a bank account is paid with a quote for a payer, and its payments open and stop its order.
const STANDS_ON: [(&str, &str); 26] = [
    ("events", "admission"),
    ("paying", "admission"),
    ("paying", "rates"),
    ("payouts", "admission"),
    ("payouts", "paying"),
    ("payouts", "requests"),
    ("schedules", "paying"),
    ("schedules", "payouts"),
    ("schedules", "requests"),
    ("schedules", "payments"),
    ("requests", "admission"),
    ("requests", "paying"),
    ("requests", "rates"),
    ("requests", "off_ramp"),
    ("payments", "rates"),
    ("payments", "off_ramp"),
    ("secure_payments", "admission"),
    ("secure_payments", "paying"),
    ("secure_payments", "requests"),
    ("secure_payments", "payments"),
    ("provider_news", "payers"),
    ("provider_news", "off_ramp"),
    ("payers", "admission"),
    ("off_ramp", "payers"),
    ("off_ramp", "paying"),
    ("off_ramp", "rates"),
];

/// What the check of one file needs to know about all other files of the service.
pub(crate) struct Table {
    modules: Modules,
    /// Modules directly below `flows`; every other name there is an item of `flows/mod.rs`.
    flows: BTreeSet<String>,
}

impl Table {
    /// Reads the names of the flows from the files of the service.
    pub(crate) fn of_files<'p>(files: impl IntoIterator<Item = &'p Path>) -> Self {
        let modules: Modules = files
            .into_iter()
            .filter_map(|file| module_path(file, Path::new(SERVICE)))
            .collect();
        let flows = modules.iter().filter(|path| path.len() > 1 && path[0] == "flows");
        Self {
            flows: flows.map(|path| path[1].clone()).collect(),
            modules,
        }
    }

    /// The forbidden imports in a file of the service, as `line: what is wrong`.
    ///
    /// `file` is relative to the repository and starts with `src/`.
    pub(crate) fn violations(&self, file: &Path, source: &str) -> Result<Vec<String>> {
        let Some(module) = module_path(file, Path::new(SERVICE)) else {
            return Ok(Vec::new());
        };
        let layer = module.first().map_or("", String::as_str);
        if !layer.is_empty() && !LAYERS.contains(&layer) {
            return Ok(vec![format!("1: `{layer}` is in no layer of the architecture")]);
        }
        let read = paths::read(&module, &self.modules, source).with_context(|| file.display().to_string())?;
        let mut violations = Vec::new();
        for reference in read.references {
            let is_in_http = layer == "http" && reference.segments.first().is_some_and(|to| to == "http");
            let allowed = if reference.inside {
                // A test may import a layer above its own, to check that documents match their sources.
                is_in_http && reference.in_test || self.may_import(&module, &reference.segments)
            } else {
                may_use_crate(&module, &reference.segments)
            };
            if !allowed {
                let prefix = if reference.inside { "crate::" } else { "" };
                let path = reference.segments.join("::");
                let importer = if module.is_empty() {
                    "lib".to_owned()
                } else {
                    module.join("::")
                };
                violations.push(format!("{}: {importer} may not use {prefix}{path}", reference.line));
            }
        }
        Ok(violations)
    }

    fn may_import(&self, module: &[String], path: &[String]) -> bool {
        let from = module.first().map_or("", String::as_str);
        let second = path.get(1).map(String::as_str);
        let Some(to) = path.first().map(String::as_str) else {
            return true;
        };
        let has_rooms = matches!(from, "flows" | "http");
        if ASSEMBLY.contains(&from) || from == to && !has_rooms || !LAYERS.contains(&to) {
            return true;
        }
        match (from, to) {
            ("domain", _) => false,
            (_, "domain") => true,
            ("adapters" | "store" | "flows" | "worker" | "ctx" | "http", "ports") => true,
            ("http", "settings") => true,
            ("ctx", "store") => second == Some("Db"),
            ("flows", "store") => true,
            ("flows" | "http" | "worker", "ctx") => true,
            ("http" | "worker", "flows") => true,
            ("flows", "flows") => self.may_import_flow(module, path),
            ("http", "http") => may_import_room(module, path),
            ("flows", "payloads") => module.len() == 1,
            ("http", "payloads") => module.get(1).is_some_and(|folder| folder == "contract"),
            _ => false,
        }
    }

    /// Whether a flow may import a path of the flows. Every flow may import `flows/mod.rs`, `auth::identify`,
    /// `idempotency` and its own folder. Some may also import another flow.
    fn may_import_flow(&self, module: &[String], path: &[String]) -> bool {
        let Some(target) = path.get(1) else { return true };
        let own = module.get(1).is_none_or(|folder| folder == target);
        let identify = target == "auth" && path.get(2).is_some_and(|file| file == "identify");
        let stands_on = module
            .get(1)
            .is_some_and(|folder| STANDS_ON.contains(&(folder, target)));
        own || identify || stands_on || target == "idempotency" || !self.flows.contains(target)
    }
}

/// Whether one module of `http` may import another. Only lower modules are allowed.
fn may_import_room(module: &[String], path: &[String]) -> bool {
    let height = |room: &str| ROOMS.iter().position(|one| *one == room);
    match (module.get(1), path.get(1)) {
        (Some(from), Some(to)) => from == to || height(to).or(height(NOUNS)) < height(from).or(height(NOUNS)),
        _ => true,
    }
}

fn may_use_crate(module: &[String], path: &[String]) -> bool {
    let layer = module.first().map_or("", String::as_str);
    let below = |folder: &str| module.get(1).is_some_and(|file| file == folder);
    match path[0].as_str() {
        "sea_orm" | "entities" | "sqlx" | "sea_query" => layer == "store",
        "poem" | "poem_openapi" => matches!(layer, "http" | "boot"),
        "reqwest" => matches!(layer, "adapters" | "cli"),
        "alloy_provider" => layer == "adapters" && below("evm"),
        "alloy" => path.get(1).is_none_or(|part| part != "providers") || layer == "adapters" && below("evm"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Each row has a file below `src`, its text, and the forbidden imports in it. A line with `#` describes the rows
    /// after it.
    const CASES: &str = r#"
# the domain imports no other layer
domain/request.rs | use crate::domain::amount::Amount; |
domain/request.rs | use crate::ports::clock::Clock; | domain::request may not use crate::ports::clock::Clock
# grouped imports are split, expressions count, comments and strings do not
http/requests/mod.rs | use crate::{domain::amount, store::{self, requests}, ctx::Ctx}; | http::requests may not use crate::store & http::requests may not use crate::store::requests
worker/watch.rs | fn f() { let x = crate::store::requests::find(1); } | worker::watch may not use crate::store::requests::find
worker/watch.rs | use crate::flows; fn f() { flows::requests::create::run() } |
domain/amount.rs | /* use crate::store::x; */ const A: &str = "use crate::store::x;"; |
# super is resolved, also in inline modules
http/v2/requests.rs | use super::super::super::store::requests; | http::v2::requests may not use crate::store::requests
domain/amount.rs | mod tests { use super::*; use super::super::ids::Id; } |
domain/amount.rs | mod tests { use super::super::super::store::Db; } | domain::amount may not use crate::store::Db
# a flow may import its folder, the shared part and identify
flows/requests/create.rs | use crate::flows::{Fault, FlowResult, requests::read, auth::identify}; |
flows/requests/create.rs | use crate::{domain::request, ports::clock::Clock, store, ctx::Ctx}; |
flows/requests/create.rs | use crate::flows::payments::search; | flows::requests::create may not use crate::flows::payments::search
flows/requests/create.rs | use crate::flows::{idempotency, keys}; | flows::requests::create may not use crate::flows::keys
flows/payouts/create.rs | use crate::flows::requests::create; |
flows/requests/pay.rs | use crate::flows::payouts::create; | flows::requests::pay may not use crate::flows::payouts::create
flows/schedules/create.rs | use crate::flows::{requests::create, payouts::create}; |
flows/requests/create.rs | use crate::payloads::payments; | flows::requests::create may not use crate::payloads::payments
flows/mod.rs | use crate::payloads::payments; |
# ctx may import only the database handle, and in http only the contract imports payloads
ctx.rs | use crate::store::Db; use crate::ports::clock::Clock; |
ctx.rs | use crate::store::Tx; | ctx may not use crate::store::Tx
http/contract/webhooks_document.rs | use crate::payloads::payments; |
http/error.rs | use crate::payloads::payments; | http::error may not use crate::payloads::payments
# of the layers below the settings, only http may import them
http/gate/rate_limits.rs | use crate::settings::RateLimitSettings; |
flows/requests/create.rs | use crate::settings::Settings; | flows::requests::create may not use crate::settings::Settings
# a module of http may import its own folder and lower modules: a noun no other noun, the contract every noun
http/requests/view.rs | use super::bodies::Recurrence; use crate::http::{forms::payment::Payment, operation::*}; |
http/webhooks/mod.rs | use crate::http::orchestrators::Facts; | http::webhooks may not use crate::http::orchestrators::Facts
http/wallets/mod.rs | fn f() { super::accounts::cookie() } | http::wallets may not use crate::http::accounts::cookie
http/forms/payment.rs | use crate::http::payments::Payment; | http::forms::payment may not use crate::http::payments::Payment
http/contract/apis.rs | use crate::http::{events, webhooks::orchestrators}; |
http/wallets/mod.rs | use crate::http::contract::document; | http::wallets may not use crate::http::contract::document
http/edge/mod.rs | use crate::http::{error, gate::address}; |
http/gate/rate_limits.rs | use crate::http::edge::cors; | http::gate::rate_limits may not use crate::http::edge::cors
http/error.rs | use crate::http::{forms::wire, routes::RouteTable, body}; | http::error may not use crate::http::body
http/forms/wire.rs | use crate::http::error::Problem; | http::forms::wire may not use crate::http::error::Problem
http/gate/access.rs | #[cfg(test)] mod tests { use crate::http::contract::document; } |
http/dev/mod.rs | use crate::http::{contract::described, operation::*}; |
# assembly may import everything, and no other layer imports adapters
boot.rs | use crate::{adapters::evm, store, http}; |
main.rs | use crate::{adapters::evm, store, http}; |
lib.rs | use crate::{adapters::evm, store, http}; |
cli/listen.rs | use crate::{adapters::evm, store, http}; |
flows/requests/create.rs | use crate::adapters::evm; | flows::requests::create may not use crate::adapters::evm
http/mod.rs | use crate::adapters::evm; | http may not use crate::adapters::evm
worker/mod.rs | use crate::adapters::evm; | worker may not use crate::adapters::evm
store/mod.rs | use crate::adapters::evm; | store may not use crate::adapters::evm
# the store encrypts what it stores
store/requests.rs | use crate::ports::sealer::Place; |
# crates stay in their layers
store/requests.rs | use sea_orm::EntityTrait; use entities::requests; |
flows/requests/create.rs | fn f() -> sea_orm::DbErr { x() } | flows::requests::create may not use sea_orm::DbErr
worker/mod.rs | use poem::Route; | worker may not use poem::Route
flows/mod.rs | use {reqwest::Client, std::fmt}; | flows may not use reqwest::Client
adapters/outbound.rs | use reqwest::Client; |
domain/amount.rs | use alloy::primitives::U256; |
adapters/tron/read.rs | use alloy::{primitives::U256, providers::Provider}; | adapters::tron::read may not use alloy::providers::Provider
adapters/evm/read.rs | use alloy::providers::Provider; |
worker/mod.rs | use crate::flows::entities; fn f(entities: u8) {} |
# macros of the root belong to no layer, and every file belongs to one
domain/ids.rs | crate::domain!{} crate::text!(A); |
extra/mod.rs | | `extra` is in no layer of the architecture"#;

    #[test]
    fn every_layer_may_import_only_allowed_layers() {
        let flows = [
            "mod",
            "idempotency",
            "keys",
            "requests/create",
            "payouts/create",
            "payments/search",
            "auth/identify",
        ];
        let files = flows.map(|flow| PathBuf::from(format!("src/flows/{flow}.rs")));
        let table = Table::of_files(files.iter().map(PathBuf::as_path));
        for case in CASES.trim().lines().filter(|line| !line.starts_with('#')) {
            let [file, source, expected] = case.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
                panic!("{case}")
            };
            let found = table.violations(&Path::new("src").join(file), source).unwrap();
            let expected = expected.split(" & ").filter(|text| !text.is_empty());
            assert_eq!(
                found,
                expected.map(|text| format!("1: {text}")).collect::<Vec<_>>(),
                "{case}"
            );
        }
    }
}
