//! A database of its own for each test.

use super::secrets::{self, Issued};
use sea_orm::{ConnectionTrait, Database};
use std::{
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// An empty database that goes away with the test.
pub struct TestDatabase {
    /// Address for the settings.
    pub url: String,
    /// Secrets that must not be found in it.
    pub issued: Issued,
    folder: Option<PathBuf>,
}

impl TestDatabase {
    /// Makes the database that `PRS_TEST_DATABASE` asks for.
    pub async fn create() -> Self {
        secrets::listen();
        let name = format!(
            "prs_test_{}_{}",
            std::process::id(),
            COUNTER.fetch_add(1, Ordering::SeqCst)
        );
        match std::env::var("PRS_TEST_DATABASE").as_deref() {
            Ok("postgres") => {
                let admin =
                    std::env::var("PRS_TEST_POSTGRES_URL").expect("PRS_TEST_POSTGRES_URL: run `cargo xtask test`");
                let connection = Database::connect(&admin).await.expect("the test server answers");
                connection
                    .execute_unprepared(&format!("CREATE DATABASE {name}"))
                    .await
                    .expect("a database is made");
                connection.close().await.expect("closed");
                let (root, _) = admin.rsplit_once('/').expect("a path");
                Self {
                    url: format!("{root}/{name}"),
                    issued: Issued::default(),
                    folder: None,
                }
            }
            _ => {
                let folder = std::env::temp_dir().join(name);
                std::fs::create_dir_all(&folder).expect("a folder is made");
                Self {
                    url: format!("sqlite:{}", folder.join("prs.db").display()),
                    issued: Issued::default(),
                    folder: Some(folder),
                }
            }
        }
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // A test that fails already has something else to say.
        if !std::thread::panicking() {
            let stored = match &self.folder {
                Some(folder) => secrets::dump_files(folder),
                None => secrets::dump_server(&self.url),
            };
            self.issued.assert_kept(&stored);
        }
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
