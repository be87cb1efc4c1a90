//! Loads master keys, and checks at startup that they match the database. Source: ADR-0014.

use crate::{
    adapters::{
        clock::SystemClock,
        ids::SystemIds,
        sealer::{EnvelopeSealer, MasterKeys},
    },
    domain::ids::Secret,
    flows::at_rest::{check_name, checked_key, material_place},
    ports::{
        clock::Clock,
        ids::{Ids, random},
        sealer::Sealer,
    },
    settings::Settings,
    store::{self, Db, key_material::NamedKeyMaterial},
};
use anyhow::{Context, bail, ensure};
use std::{
    collections::HashMap,
    fs,
    io::Write,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::process::Command;

/// Prefix of a `secrets.master_keys` entry that is a shell command.
const COMMAND: &str = "command:";

/// Name of the lookup key, which is generated once and never changes.
const LOOKUP: &str = "lookup";

/// Permissions of a key file.
const OWNER_ALONE: u32 = 0o600;

/// Permission bits of the group of a file, and of all other users.
const OTHERS: u32 = 0o077;

/// Sets the keys of the database after checking that they match.
///
/// Errors: no key, a key that is not 64 hexadecimal digits, a database whose values are encrypted with another key.
pub(super) async fn seal(settings: &Settings, db: Db) -> anyhow::Result<Db> {
    let ids: Arc<dyn Ids> = Arc::new(SystemIds::new(Arc::new(SystemClock)));
    let is_sealed = !by_name(&db).await?.is_empty();
    let texts = texts(settings, is_sealed, ids.as_ref()).await?;
    let (current, former) = texts.split_first().context("secrets.master_keys: must not be empty")?;
    let keys = MasterKeys::new(current, former, ids.clone());
    let lookup_key = check(&db, &keys, ids.as_ref()).await?;
    let sealer: Arc<dyn Sealer> = Arc::new(EnvelopeSealer::new(keys, lookup_key));
    Ok(db.sealed_with(&sealer))
}

/// Compares the keys with the check values in the database; returns the lookup key.
async fn check(db: &Db, keys: &MasterKeys, ids: &dyn Ids) -> anyhow::Result<Secret> {
    let now = SystemClock.now();
    if by_name(db).await?.is_empty() {
        let drawn = Secret::new(hex::encode(random::<32>(ids)));
        // If several instances start at once, one of them stores its key, and the others must use the stored key.
        store::key_material::insert(db.writer(), material(keys, LOOKUP, &drawn)?, now).await?;
    }
    let kept = by_name(db).await?;
    let known = keys.known();
    let used: Vec<&str> = kept.keys().filter_map(|name| checked_key(name)).collect();
    let missing: Vec<&str> = used.into_iter().filter(|id| !known.contains(id)).collect();
    ensure!(
        missing.is_empty(),
        "secrets.master_keys: values of this database are encrypted with the master key {}, but the settings have {}. \
         Find out why this instance has another key, or add the missing key to secrets.master_keys behind the first \
         key, which encrypts new values",
        missing.join(", "),
        known.join(", ")
    );
    for (name, sealed) in &kept {
        keys.open(sealed, material_place(name)).with_context(|| {
            format!(
                "secrets.master_keys: these are not the keys of this database: they cannot decrypt {name}; set the \
                 keys that encrypted it"
            )
        })?;
    }
    let current = check_name(known.first().copied().unwrap_or_default());
    if !kept.contains_key(&current) {
        let id = Secret::new(current.as_str());
        store::key_material::insert(db.writer(), material(keys, &current, &id)?, now).await?;
    }
    let lookup = kept.get(LOOKUP).context("the lookup key is missing in the database")?;
    keys.open(lookup, material_place(LOOKUP))
}

async fn by_name(db: &Db) -> anyhow::Result<HashMap<String, String>> {
    let kept = store::key_material::all(db.writer()).await?;
    Ok(kept
        .into_iter()
        .map(|material| (material.name, material.sealed))
        .collect())
}

fn material(keys: &MasterKeys, name: &str, value: &Secret) -> anyhow::Result<NamedKeyMaterial> {
    Ok(NamedKeyMaterial {
        name: name.to_owned(),
        sealed: keys.seal(value, material_place(name))?,
    })
}

/// The master keys from the settings, the current one first, or the key file next to an embedded database. The file is
/// created if the database has no encrypted values yet.
async fn texts(settings: &Settings, is_sealed: bool, ids: &dyn Ids) -> anyhow::Result<Vec<Secret>> {
    let mut texts = Vec::new();
    for (index, entry) in settings.secrets.master_keys.iter().enumerate() {
        let name = format!("secrets.master_keys[{index}]");
        let text = match entry.strip_prefix(COMMAND) {
            Some(command) => run(&name, command.trim()).await?,
            None => entry.clone(),
        };
        texts.push(key(&name, text)?);
    }
    if let Some(text) = &settings.secrets.master_key {
        texts.push(key("secrets.master_key", text.clone())?);
    }
    match (key_file(settings), texts.is_empty()) {
        (Some(file), _) if file.exists() => texts.push(read(&file)?),
        (Some(file), true) => {
            ensure!(
                !is_sealed,
                "secrets.master_keys: the values of this database are encrypted, but their key file is missing: \
                 restore {}, or set the key in secrets.master_keys",
                file.display()
            );
            texts.push(make(&file, ids)?);
        }
        (None, true) => {
            bail!(
                "secrets.master_keys: PostgreSQL requires a master key: 64 hexadecimal digits, the same on every \
                   instance"
            )
        }
        _ => {}
    }
    Ok(texts)
}

/// Parses a key. Error messages contain neither the entry nor the output of its command, because both may contain the
/// key or most of it.
fn key(name: &str, text: String) -> anyhow::Result<Secret> {
    ensure!(
        text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{name}: must be 64 hexadecimal digits, for example the output of `openssl rand -hex 32`, or `command:` and a \
         shell command that prints them"
    );
    Ok(Secret::new(text))
}

async fn run(name: &str, command: &str) -> anyhow::Result<String> {
    let output = Command::new("sh")
        .args(["-c", command])
        .stderr(std::process::Stdio::inherit())
        .output()
        .await
        .with_context(|| format!("{name}: the command could not be run"))?;
    ensure!(
        output.status.success(),
        "{name}: the command failed with {}",
        output.status
    );
    let text = String::from_utf8(output.stdout)
        .map_err(|_| anyhow::anyhow!("{name}: the output of the command is not text"))?;
    Ok(text.trim().to_owned())
}

/// Path of the key file of an embedded database.
fn key_file(settings: &Settings) -> Option<PathBuf> {
    let path = settings.database.url.strip_prefix("sqlite:")?;
    let path = path.trim_start_matches("//").split('?').next().unwrap_or_default();
    Some(PathBuf::from(path).with_extension("key"))
}

/// Reads the key, and restricts its file to the owner.
fn read(path: &Path) -> anyhow::Result<Secret> {
    let shown = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("the master key in {shown} cannot be read"))?;
    let mut permissions = fs::metadata(path)?.permissions();
    if permissions.mode() & OTHERS != 0 {
        permissions.set_mode(OWNER_ALONE);
        fs::set_permissions(path, permissions).with_context(|| {
            format!("other users can read the master key in {shown}, and its permissions could not be set to 0600")
        })?;
        tracing::warn!(path = %shown, "other users could read the master key; its permissions are now 0600");
    }
    key(&format!("the master key in {shown}"), text.trim().to_owned())
}

fn write_key(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(OWNER_ALONE)
        .open(path)?;
    writeln!(file, "{text}")?;
    file.sync_all()
}

fn make(path: &Path, ids: &dyn Ids) -> anyhow::Result<Secret> {
    let text = hex::encode(random::<32>(ids));
    let unwritten = || format!("no master key is set, and {} could not be written", path.display());
    // The key is written to a temporary file first. The complete file then gets its name, which fails if a key file
    // already exists.
    let unfinished = path.with_extension(format!("key.{}", std::process::id()));
    let written = write_key(&unfinished, &text).and_then(|()| fs::hard_link(&unfinished, path));
    let _ = fs::remove_file(&unfinished);
    written.with_context(unwritten)?;
    tracing::info!(
        path = %path.display(),
        "created a master key next to the database; store a copy separately from the database backups"
    );
    Ok(Secret::new(text))
}
