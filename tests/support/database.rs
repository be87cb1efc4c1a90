//! A database of its own for each test.

use super::secrets::{self, Issued};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::path::PathBuf;
use ulid::Ulid;

/// An empty database that goes away with the test.
pub struct TestDatabase {
    /// Address for the settings.
    pub url: String,
    /// Secrets that must not be found in it.
    pub issued: Issued,
    place: Place,
}

/// Where a database is.
enum Place {
    /// The folder of its file, which is made with the file.
    Folder(PathBuf),
    /// The server, and the name of the database there.
    Server { url: String, name: String },
}

impl TestDatabase {
    /// The database that `PRS_TEST_DATABASE` asks for.
    pub async fn create() -> Self {
        match std::env::var("PRS_TEST_DATABASE").as_deref() {
            Ok("postgres") => Self::postgres().await,
            Ok("sqlite") | Err(_) => Self::sqlite(),
            Ok(other) => panic!("PRS_TEST_DATABASE is sqlite or postgres, not {other}"),
        }
    }

    /// A file in a folder that does not exist yet.
    pub fn sqlite() -> Self {
        let folder = std::env::temp_dir().join(fresh_name());
        let file = folder.join("deeper/prs.db");
        Self::at(format!("sqlite:{}", file.display()), Place::Folder(folder))
    }

    /// A database on the server of `PRS_TEST_POSTGRES_URL`; a test that needs one fails where there is no server.
    pub async fn postgres() -> Self {
        let server = std::env::var("PRS_TEST_POSTGRES_URL").unwrap_or_else(|_| {
            panic!("PRS_TEST_POSTGRES_URL names no PostgreSQL server: run `cargo xtask test`, which starts one")
        });
        let name = fresh_name();
        let mut admin = PgConnection::connect(&server).await.expect("the test server answers");
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(create)
            .execute(&mut admin)
            .await
            .expect("a database is made");
        admin.close().await.expect("closed");
        let (root, _) = server.rsplit_once('/').expect("a path");
        Self::at(format!("{root}/{name}"), Place::Server { url: server, name })
    }

    /// What its files or rows hold.
    pub fn stored(&self) -> Vec<u8> {
        match &self.place {
            Place::Folder(folder) => secrets::dump_files(&folder.join("deeper")),
            Place::Server { .. } => on_server(&self.url, secrets::dump_rows),
        }
    }

    fn at(url: String, place: Place) -> Self {
        secrets::listen();
        Self {
            url,
            issued: Issued::default(),
            place,
        }
    }
}

/// A name that no earlier run used either: one that was killed leaves its files behind.
#[expect(clippy::disallowed_methods, reason = "the name must differ from run to run")]
fn fresh_name() -> String {
    format!("prs_test_{}", Ulid::generate().to_string().to_lowercase())
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // A test that fails already has something else to say.
        if !std::thread::panicking() && self.issued.count() > 0 {
            let leaks = self.issued.leaks(&self.stored());
            assert!(leaks.is_empty(), "{leaks:?}");
        }
        match &self.place {
            Place::Folder(folder) => {
                let _ = std::fs::remove_dir_all(folder);
            }
            Place::Server { url, name } => {
                let drop = AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"));
                on_server(url, async |server| {
                    sqlx::raw_sql(drop).execute(server).await.map(|_| ())
                });
            }
        }
    }
}

/// Works on a server from a test that ends: within its own runtime, which must not be blocked on from the inside.
fn on_server<T: Send>(url: &str, work: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T> + Send) -> T {
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let mut connection = PgConnection::connect(url).await?;
            let outcome = work(&mut connection).await?;
            connection.close().await?;
            Ok::<_, sqlx::Error>(outcome)
        })
    };
    let done = std::thread::scope(|scope| scope.spawn(work).join());
    done.expect("no panic").expect("the test server answers")
}
