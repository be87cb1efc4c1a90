//! The committed bytecode matches the committed sources.

use std::{collections::BTreeMap, fs};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Artifact {
    source_sha256: BTreeMap<String, String>,
}

#[test]
fn every_source_has_an_artifact_of_exactly_that_source() {
    let mut count = 0;
    for entry in fs::read_dir(devnet::dir().join("contracts")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let name = file.strip_suffix(".sol").unwrap();
        let artifact = fs::read(devnet::dir().join("artifacts").join(format!("{name}.json"))).unwrap();
        let artifact: Artifact = serde_json::from_slice(&artifact).unwrap();
        assert!(
            artifact.source_sha256.contains_key(&file),
            "the artifact {name} must contain the checksum of its source {file}"
        );
        for (path, expected) in artifact.source_sha256 {
            let source = fs::read(devnet::dir().join("contracts").join(&path)).unwrap();
            let found = hex::encode(Sha256::digest(source));
            assert_eq!(
                found, expected,
                "{path} changed after {name} was compiled: run `npm run compile` in devnet"
            );
        }
        count += 1;
    }
    let artifacts = fs::read_dir(devnet::dir().join("artifacts")).unwrap().count();
    assert_eq!(artifacts, count, "every artifact must have a source in contracts/");
}

#[test]
fn lockfile_names_no_registry() {
    let lock = fs::read_to_string(devnet::dir().join("package-lock.json")).unwrap();
    assert!(!lock.contains("://"));
}
