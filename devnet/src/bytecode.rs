//! Sources of the contracts' creation code: the published packages for published contracts, our artifacts for the rest.
//! Published code is read when it is needed and never stored in the repository.

use std::{fs, path::Path};

use anyhow::Context as _;
use serde::Deserialize;

use crate::node::{dir, repair_command};

const PUBLISHED: &str = "node_modules/@requestnetwork/smart-contracts/dist/src/types/factories/src/contracts";

/// The creation code of a published contract; `path` is its path below the package's factories, without the extension.
pub(crate) fn published(path: &str) -> anyhow::Result<Vec<u8>> {
    let file = dir().join(PUBLISHED).join(format!("{path}__factory.js"));
    let text = fs::read_to_string(&file)
        .with_context(|| format!("the published contract {path} is not installed: {}", repair_command()))?;
    let start = "_bytecode = \"";
    text.find(start)
        .and_then(|at| text[at + start.len()..].split('"').next())
        .with_context(|| format!("{} holds no bytecode", file.display()))
        .and_then(|code| hex::decode(code).with_context(|| format!("{} holds malformed bytecode", file.display())))
}

/// The creation code of a contract in a package of Safe; `path` is its path below the package's contracts, without the
/// extension.
pub(crate) fn published_safe(package: &str, path: &str) -> anyhow::Result<Vec<u8>> {
    let contracts = dir()
        .join("node_modules")
        .join(package)
        .join("build/artifacts/contracts");
    compiled(&contracts.join(format!("{path}.json"))).with_context(|| {
        format!(
            "the contract {path} of {package} is not installed: {}",
            repair_command()
        )
    })
}

/// The creation code of one of our own contracts.
pub(crate) fn own(name: &str) -> anyhow::Result<Vec<u8>> {
    compiled(&dir().join("artifacts").join(format!("{name}.json")))
}

/// The creation code in the output of a compiler.
fn compiled(file: &Path) -> anyhow::Result<Vec<u8>> {
    #[derive(Deserialize)]
    struct Artifact {
        bytecode: String,
    }
    let text = fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
    let artifact: Artifact = serde_json::from_str(&text).with_context(|| format!("{} is malformed", file.display()))?;
    hex::decode(artifact.bytecode).with_context(|| format!("{} holds malformed bytecode", file.display()))
}
