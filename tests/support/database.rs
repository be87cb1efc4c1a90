//! A separate database for each test.

use super::secrets::{self, Issued};
use prs::store::{Db, Durability};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::path::{Path, PathBuf};
use ulid::Ulid;

/// Variable that makes every test search its whole database for leaked secrets; `cargo xtask test --leaks` sets it.
const SEARCH_ALL: &str = "PRS_TEST_LEAKS";

/// Number of secrets that every test has: the API key of its platform.
const USUAL_SECRETS: usize = 1;

/// PostgreSQL advisory lock that a process holds while it creates the template database of a server.
const TEMPLATE_LOCK: i64 = 7_365_102;

/// An empty database that is removed with the test.
pub struct TestDatabase {
    /// Database URL for the settings.
    pub url: String,
    /// Secrets that the database must not contain.
    pub issued: Issued,
    place: Place,
}

/// Location of a database.
enum Place {
    /// The folder of the database file; it is created with the file.
    Folder(PathBuf),
    /// The URL of the server, and the name of the database on that server.
    Server { url: String, name: String },
}

impl TestDatabase {
    /// Creates a database of the kind that `PRS_TEST_DATABASE` selects, with the whole schema.
    pub async fn create() -> Self {
        match std::env::var("PRS_TEST_DATABASE").as_deref() {
            Ok("postgres") => Self::migrated_postgres().await,
            Ok("sqlite") | Err(_) => Self::migrated_sqlite().await,
            Ok(other) => panic!("PRS_TEST_DATABASE is sqlite or postgres, not {other}"),
        }
    }

    /// Creates an SQLite file with the whole schema, as a copy of the template.
    pub async fn migrated_sqlite() -> Self {
        let template = sqlite_template().await;
        let database = Self::sqlite();
        let file = Path::new(database.url.trim_start_matches("sqlite:"));
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder is made");
        std::fs::copy(template, file).expect("the template is copied");
        database
    }

    /// Creates a PostgreSQL database with the whole schema, as a copy of the template.
    pub async fn migrated_postgres() -> Self {
        let server = postgres_server();
        let template = postgres_template(&server).await;
        Self::on_server(server, &format!(" TEMPLATE {template}")).await
    }

    /// The path of an SQLite file in a folder that does not exist yet.
    pub fn sqlite() -> Self {
        let folder = std::env::temp_dir().join(fresh_name());
        let file = folder.join("deeper/prs.db");
        Self::at(format!("sqlite:{}", file.display()), Place::Folder(folder))
    }

    /// Creates a PostgreSQL database without tables on the server of `PRS_TEST_POSTGRES_URL`. Without a server the test
    /// fails.
    #[allow(dead_code, reason = "not every binary that shares this begins with none")]
    pub async fn postgres() -> Self {
        Self::on_server(postgres_server(), "").await
    }

    async fn on_server(server: String, options: &str) -> Self {
        let name = fresh_name();
        let mut admin = PgConnection::connect(&server).await.expect("the test server responds");
        execute(&mut admin, format!("CREATE DATABASE {name}{options}")).await;
        admin.close().await.expect("closed");
        Self::at(database_url(&server, &name), Place::Server { url: server, name })
    }

    /// The content of the database: its files, or all rows.
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

/// A database name that no earlier run has used. This matters because a killed run does not remove its database.
#[expect(clippy::disallowed_methods, reason = "the name must differ from run to run")]
fn fresh_name() -> String {
    format!("prs_test_{}", Ulid::generate().to_string().to_lowercase())
}

/// The PostgreSQL server for tests.
fn postgres_server() -> String {
    std::env::var("PRS_TEST_POSTGRES_URL").unwrap_or_else(|_| {
        panic!("PRS_TEST_POSTGRES_URL names no PostgreSQL server: run `cargo xtask test`, which starts one")
    })
}

/// The URL of a database on the same server.
fn database_url(server: &str, name: &str) -> String {
    let (root, _) = server.rsplit_once('/').expect("a path");
    format!("{root}/{name}")
}

async fn execute(connection: &mut PgConnection, statement: String) {
    let done = sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await;
    done.expect("the statement succeeds");
}

/// The name of the template for this build of this test binary. Another build may have another schema.
fn template_name() -> String {
    let program = std::env::current_exe()
        .and_then(std::fs::metadata)
        .expect("this program");
    let built = program
        .modified()
        .expect("a time")
        .duration_since(std::time::UNIX_EPOCH);
    format!(
        "prs_template_{}_{}",
        env!("CARGO_CRATE_NAME"),
        built.expect("after 1970").as_nanos()
    )
}

/// Migrates an empty database to the current schema.
async fn migrate(url: &str) {
    let db = Db::connect_with(url, Durability::Process)
        .await
        .expect("the database opens");
    db.migrate_up().await.expect("the schema is made");
    db.close().await.expect("closed");
}

/// The migrated SQLite file that tests copy. The first process that needs the file creates it.
async fn sqlite_template() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let template = folder.join(template_name());
    if !template.exists() {
        // Several processes may create a template at the same time; each renames a complete file.
        let unfinished = folder.join(fresh_name());
        migrate(&format!("sqlite:{}", unfinished.display())).await;
        let log = folder.join(format!("{}-wal", unfinished.file_name().expect("a name").display()));
        assert!(!log.exists(), "the file contains everything");
        std::fs::rename(unfinished, &template).expect("the template gets its name");
        remove_old_templates(folder, &template);
    }
    template
}

/// Removes the templates of earlier builds of this test binary.
fn remove_old_templates(folder: &Path, newest: &Path) {
    let prefix = format!("prs_template_{}_", env!("CARGO_CRATE_NAME"));
    let files = std::fs::read_dir(folder).expect("a folder").filter_map(Result::ok);
    for file in files.filter(|file| file.path() != newest) {
        if file.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)) {
            // Another process may have removed the template already.
            let _ = std::fs::remove_file(file.path());
        }
    }
}

/// The migrated PostgreSQL database that tests copy. The first process that needs the database creates it; all others
/// wait.
async fn postgres_template(server: &str) -> String {
    let name = template_name();
    let mut admin = PgConnection::connect(server).await.expect("the test server responds");
    execute(&mut admin, format!("SELECT pg_advisory_lock({TEMPLATE_LOCK})")).await;
    let found = sqlx::query_scalar("SELECT count(*) FROM pg_database WHERE datname = $1").bind(&name);
    let found: i64 = found.fetch_one(&mut admin).await.expect("counted");
    if found == 0 {
        // The template is renamed once it is complete, so that a killed process leaves no partial one.
        let unfinished = fresh_name();
        execute(&mut admin, format!("CREATE DATABASE {unfinished}")).await;
        migrate(&database_url(server, &unfinished)).await;
        execute(&mut admin, format!("ALTER DATABASE {unfinished} RENAME TO {name}")).await;
    }
    admin.close().await.expect("closed");
    name
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // A failing test already reports its own error.
        let is_searched = self.issued.count() > USUAL_SECRETS || std::env::var_os(SEARCH_ALL).is_some();
        if !std::thread::panicking() && is_searched {
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

/// Runs a statement on the server while a test ends. Uses a runtime of its own, because the runtime of the test cannot
/// block.
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
    done.expect("no panic").expect("the test server responds")
}
