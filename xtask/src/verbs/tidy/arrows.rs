//! Who may import whom among the layers of the service: the table of the architecture, enforced.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use super::paths::{self, Modules, module_path};

/// Where the service is.
const SERVICE: &str = "src";

/// Modules that have a row or a column in the table.
const LAYERS: [&str; 13] = [
    "domain", "ports", "payloads", "store", "adapters", "ctx", "flows", "http", "worker", "boot", "settings", "cli",
    "main",
];

/// Modules that put everything together and therefore see everything.
const ASSEMBLY: [&str; 5] = ["", "main", "boot", "settings", "cli"];

/// What must be known about the service besides the file at hand.
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

    /// Forbidden paths in a file of the service, as `line: what is wrong`.
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
            let allowed = match reference.inside {
                true => self.may_import(&module, &reference.segments),
                false => may_use_crate(&module, &reference.segments),
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
        if ASSEMBLY.contains(&from) || from == to && from != "flows" || !LAYERS.contains(&to) {
            return true;
        }
        match (from, to) {
            ("domain", _) => false,
            (_, "domain") => true,
            ("adapters" | "flows" | "worker" | "ctx" | "http", "ports") => true,
            ("adapters" | "ctx" | "flows" | "http" | "worker", "settings") => true,
            ("ctx", "store") => second == Some("Db"),
            ("flows", "store") => true,
            ("flows" | "http" | "worker", "ctx") => true,
            ("http" | "worker", "flows") => true,
            ("flows", "flows") => self.may_import_flow(module, path),
            ("flows", "payloads") => module.len() == 1,
            ("http", "payloads") => module.get(1).is_some_and(|folder| folder == "contract"),
            _ => false,
        }
    }

    /// Flows share `flows/mod.rs`, `auth::identify`, `idempotency` and their own folder.
    fn may_import_flow(&self, module: &[String], path: &[String]) -> bool {
        let Some(target) = path.get(1) else { return true };
        let own = module.get(1).is_none_or(|folder| folder == target);
        let identify = target == "auth" && path.get(2).is_some_and(|file| file == "identify");
        own || identify || target == "idempotency" || !self.flows.contains(target)
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

    fn found(file: &str, source: &str) -> Vec<String> {
        let files = [
            "src/flows/mod.rs",
            "src/flows/requests/create.rs",
            "src/flows/payments/search.rs",
            "src/flows/auth/identify.rs",
        ];
        Table::of_files(files.iter().map(Path::new))
            .violations(Path::new(file), source)
            .unwrap()
    }

    #[test]
    fn domain_imports_nobody() {
        assert!(found("src/domain/request.rs", "use crate::domain::amount::Amount;").is_empty());
        assert_eq!(
            found("src/domain/request.rs", "//! Doc.\nuse crate::ports::clock::Clock;"),
            ["2: domain::request may not use crate::ports::clock::Clock"]
        );
    }

    #[test]
    fn grouped_imports_are_taken_apart() {
        let source = "use crate::{domain::amount, store::{self, requests}, ctx::Ctx};";
        assert_eq!(
            found("src/http/v2/requests.rs", source),
            [
                "1: http::v2::requests may not use crate::store",
                "1: http::v2::requests may not use crate::store::requests",
            ]
        );
    }

    #[test]
    fn paths_inside_expressions_count() {
        let source = "fn f() { let x = crate::store::requests::find(1); }";
        assert_eq!(
            found("src/worker/watch_chains.rs", source),
            ["1: worker::watch_chains may not use crate::store::requests::find"]
        );
    }

    #[test]
    fn comments_and_strings_do_not_count() {
        let source = "// use crate::store::x;\n/// See `crate::store::x`.\nconst A: &str = \"use crate::store::x;\";";
        assert!(found("src/domain/amount.rs", source).is_empty());
    }

    #[test]
    fn super_is_resolved() {
        assert_eq!(
            found("src/http/v2/requests.rs", "use super::super::super::store::requests;"),
            ["1: http::v2::requests may not use crate::store::requests"]
        );
        assert!(
            found(
                "src/domain/amount.rs",
                "mod tests { use super::*; use super::super::ids::Id; }"
            )
            .is_empty()
        );
        assert_eq!(
            found(
                "src/domain/amount.rs",
                "mod tests { use super::super::super::store::Db; }"
            ),
            ["1: domain::amount may not use crate::store::Db"]
        );
    }

    #[test]
    fn a_flow_sees_its_folder_the_shared_part_and_identify() {
        let file = "src/flows/requests/create.rs";
        assert!(
            found(
                file,
                "use crate::flows::{Fault, FlowResult, requests::read, auth::identify};"
            )
            .is_empty()
        );
        assert!(
            found(
                file,
                "use crate::{domain::request, ports::clock::Clock, store, ctx::Ctx};"
            )
            .is_empty()
        );
        assert_eq!(
            found(file, "use crate::flows::payments::search;"),
            ["1: flows::requests::create may not use crate::flows::payments::search"]
        );
        assert_eq!(
            found(file, "use crate::payloads::payments;"),
            ["1: flows::requests::create may not use crate::payloads::payments"]
        );
        assert!(found("src/flows/mod.rs", "use crate::payloads::payments;").is_empty());
    }

    #[test]
    fn ctx_sees_the_database_handle_alone() {
        assert!(found("src/ctx.rs", "use crate::store::Db; use crate::ports::clock::Clock;").is_empty());
        assert_eq!(
            found("src/ctx.rs", "use crate::store::Tx;"),
            ["1: ctx may not use crate::store::Tx"]
        );
    }

    #[test]
    fn only_the_contract_of_http_sees_payloads() {
        assert!(
            found(
                "src/http/contract/webhooks_document.rs",
                "use crate::payloads::payments;"
            )
            .is_empty()
        );
        assert_eq!(found("src/http/error.rs", "use crate::payloads::payments;").len(), 1);
    }

    #[test]
    fn assembly_sees_everything_and_adapters_are_seen_by_nobody_else() {
        for file in ["src/boot.rs", "src/main.rs", "src/lib.rs", "src/cli/listen.rs"] {
            assert!(
                found(file, "use crate::{adapters::evm, store, http};").is_empty(),
                "{file}"
            );
        }
        for file in [
            "src/flows/requests/create.rs",
            "src/http/mod.rs",
            "src/worker/mod.rs",
            "src/store/mod.rs",
        ] {
            assert_eq!(found(file, "use crate::adapters::evm;").len(), 1, "{file}");
        }
    }

    #[test]
    fn crates_stay_on_their_floors() {
        assert!(
            found(
                "src/store/requests.rs",
                "use sea_orm::EntityTrait; use entities::requests;"
            )
            .is_empty()
        );
        assert_eq!(
            found("src/flows/requests/create.rs", "fn f() -> sea_orm::DbErr { todo() }"),
            ["1: flows::requests::create may not use sea_orm::DbErr"]
        );
        assert_eq!(found("src/worker/mod.rs", "use poem::Route;").len(), 1);
        assert_eq!(found("src/flows/mod.rs", "use {reqwest::Client, std::fmt};").len(), 1);
        assert!(found("src/adapters/outbound.rs", "use reqwest::Client;").is_empty());
        assert!(found("src/domain/amount.rs", "use alloy::primitives::U256;").is_empty());
        assert_eq!(
            found(
                "src/adapters/tron/read.rs",
                "use alloy::{primitives::U256, providers::Provider};"
            )
            .len(),
            1
        );
        assert!(found("src/adapters/evm/read.rs", "use alloy::providers::Provider;").is_empty());
    }

    #[test]
    fn a_local_module_named_like_a_crate_is_no_crate() {
        assert!(found("src/worker/mod.rs", "use crate::flows::entities; fn f(entities: u8) {}").is_empty());
    }

    #[test]
    fn macros_of_the_root_belong_to_no_floor() {
        assert!(found("src/domain/ids.rs", "crate::domain!{} crate::text!(A);").is_empty());
    }

    #[test]
    fn a_file_on_no_floor_is_refused() {
        assert_eq!(
            found("src/extra/mod.rs", ""),
            ["1: `extra` is in no layer of the architecture"]
        );
    }
}
