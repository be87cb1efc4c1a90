//! Access to the files of a SQLite database, which only the user that runs the service may have.

use super::StoreError;
use sea_orm::sqlx::sqlite::SqliteConnectOptions;
use std::{
    ffi::OsString,
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    str::FromStr,
};

/// Read and write access for the owner only.
const FILE_MODE: u32 = 0o600;

/// Mode of a folder: full access for the owner only.
const FOLDER_MODE: u32 = 0o700;

/// Which failure a commit of SQLite survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A power cut: every commit waits for the disk.
    Full,
    /// The end of the process. A power cut may undo the last commits, but never damages the file.
    Process,
}

/// Creates a missing folder and file, and removes the access of group and others to an existing file. Files that SQLite
/// adds later get the mode of the database file.
pub(super) fn prepare(url: &str) -> Result<(), StoreError> {
    let options = SqliteConnectOptions::from_str(url).map_err(|error| StoreError::Broken(error.into()))?;
    let path = options.get_filename();
    if url.contains(":memory:") || url.contains("mode=memory") || path.as_os_str().is_empty() {
        return Err(StoreError::Broken(anyhow::anyhow!(
            "a SQLite database must be a file, because readers and the writer use separate connections"
        )));
    }
    make(path).map_err(|error| StoreError::Unavailable(error.into()))?;
    for file in [path.to_owned(), beside(path, "-wal"), beside(path, "-shm")] {
        restrict(&file).map_err(|error| StoreError::Unavailable(error.into()))?;
    }
    Ok(())
}

fn make(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
    }
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path);
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn restrict(file: &Path) -> io::Result<()> {
    let mode = match fs::metadata(file) {
        Ok(metadata) => metadata.permissions().mode(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if mode & 0o077 == 0 {
        return Ok(());
    }
    // A file of another user works as well, but only its owner can change its mode.
    match fs::set_permissions(file, Permissions::from_mode(FILE_MODE)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            tracing::warn!(
                file = %file.display(),
                "other users can read the database file, and its mode cannot be changed"
            );
            Ok(())
        }
        done => done,
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
