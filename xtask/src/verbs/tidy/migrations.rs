//! Checks that no landed migration is edited. A database that has already applied the migration would never get the
//! edit.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// The landed migrations, as `sha256sum` lists them.
const LANDED: &str = "migration/landed.sha256";

/// Prefix of migration paths: their names begin with a year.
const MIGRATIONS: &str = "migration/src/m2";

/// Migrations that differ from their landed version, and those that are not listed.
pub(super) fn violations(root: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let landed = fs::read_to_string(root.join(LANDED)).with_context(|| format!("{LANDED} cannot be read"))?;
    let paths = files.iter().filter_map(|file| file.to_str());
    let lines = paths.filter(|path| path.starts_with(MIGRATIONS)).map(|path| {
        let digest = hex::encode(Sha256::digest(fs::read(root.join(path))?));
        Ok(format!("{digest}  {path}"))
    });
    Ok(compared(&landed, &lines.collect::<Result<_>>()?))
}

fn compared(landed: &str, present: &BTreeSet<String>) -> Vec<String> {
    let landed: BTreeSet<String> = landed.lines().map(str::to_owned).collect();
    let changed = landed.difference(present);
    let changed =
        changed.map(|line| format!("{LANDED}: `{line}` was edited or removed; restore it, and write a new migration"));
    let new = present.difference(&landed);
    let new = new.map(|line| format!("{LANDED}: `{line}` is not listed; add this line if the migration is new"));
    changed.chain(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_migration_is_seen_and_a_new_one_has_to_be_listed() {
        let present = BTreeSet::from(["11  m2_a.rs", "22  m2_b.rs"].map(str::to_owned));
        assert!(compared("11  m2_a.rs\n22  m2_b.rs\n", &present).is_empty());
        let found = compared("00  m2_a.rs\n", &present).join("\n");
        for wanted in [
            "`00  m2_a.rs` was edited or removed",
            "`11  m2_a.rs` is not listed",
            "`22  m2_b.rs` is not listed",
        ] {
            assert!(found.contains(wanted), "{found}");
        }
    }
}
