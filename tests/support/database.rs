//! A database of its own for each test.

use super::secrets::{self, Issued};
use prs::store::{Db, Durability};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::path::{Path, PathBuf};
use ulid::Ulid;

/// The variable that has every test search its whole database for leaked secrets; `cargo xtask test --leaks` sets it.
const SEARCH_ALL: &str = "PRS_TEST_LEAKS";

/// The secrets that every test has: the API key of its platform.
const USUAL_SECRETS: usize = 1;

/// The advisory lock that a process holds while it makes the template of a server.
const TEMPLATE_LOCK: i64 = 7_365_102;

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
    /// The database that `PRS_TEST_DATABASE` asks for, with the whole schema.
    pub async fn create() -> Self {
        match std::env::var("PRS_TEST_DATABASE").as_deref() {
            Ok("postgres") => Self::migrated_postgres().await,
            Ok("sqlite") | Err(_) => Self::migrated_sqlite().await,
            Ok(other) => panic!("PRS_TEST_DATABASE is sqlite or postgres, not {other}"),
        }
    }

    /// A file with the whole schema: a copy of the template.
    pub async fn migrated_sqlite() -> Self {
        let template = sqlite_template().await;
        let database = Self::sqlite();
        let file = Path::new(database.url.trim_start_matches("sqlite:"));
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder is made");
        std::fs::copy(template, file).expect("the template is copied");
        database
    }

    /// A database on the server with the whole schema: a copy of the template.
    pub async fn migrated_postgres() -> Self {
        let server = postgres_server();
        let template = postgres_template(&server).await;
        Self::on_server(server, &format!(" TEMPLATE {template}")).await
    }

    /// A file in a folder that does not exist yet.
    pub fn sqlite() -> Self {
        let folder = std::env::temp_dir().join(fresh_name());
        let file = folder.join("deeper/prs.db");
        Self::at(format!("sqlite:{}", file.display()), Place::Folder(folder))
    }

    /// A database without a table on the server of `PRS_TEST_POSTGRES_URL`; a test that needs one fails where there is no
    /// server.
    #[allow(dead_code, reason = "not every binary that shares this begins with none")]
    pub async fn postgres() -> Self {
        Self::on_server(postgres_server(), "").await
    }

    async fn on_server(server: String, options: &str) -> Self {
        let name = fresh_name();
        let mut admin = PgConnection::connect(&server).await.expect("the test server answers");
        execute(&mut admin, format!("CREATE DATABASE {name}{options}")).await;
        admin.close().await.expect("closed");
        Self::at(database_url(&server, &name), Place::Server { url: server, name })
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

/// The server that tests on PostgreSQL use.
fn postgres_server() -> String {
    std::env::var("PRS_TEST_POSTGRES_URL").unwrap_or_else(|_| {
        panic!("PRS_TEST_POSTGRES_URL names no PostgreSQL server: run `cargo xtask test`, which starts one")
    })
}

/// The address of a database on the same server.
fn database_url(server: &str, name: &str) -> String {
    let (root, _) = server.rsplit_once('/').expect("a path");
    format!("{root}/{name}")
}

async fn execute(connection: &mut PgConnection, statement: String) {
    let done = sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await;
    done.expect("the statement succeeds");
}

/// The name of the template for this build of this test binary: another build may have another schema.
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

/// Brings the schema of an empty database up to date.
async fn migrate(url: &str) {
    let db = Db::connect_with(url, Durability::Process)
        .await
        .expect("the database opens");
    db.migrate_up().await.expect("the schema is made");
    db.close().await.expect("closed");
}

/// The migrated file that tests copy; the first process that needs it makes it.
async fn sqlite_template() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let template = folder.join(template_name());
    if !template.exists() {
        // Several processes may make one at the same time; each renames a whole file.
        let unfinished = folder.join(fresh_name());
        migrate(&format!("sqlite:{}", unfinished.display())).await;
        let log = folder.join(format!("{}-wal", unfinished.file_name().expect("a name").display()));
        assert!(!log.exists(), "the file holds everything");
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
            // Another process may have removed it.
            let _ = std::fs::remove_file(file.path());
        }
    }
}

/// The migrated database that tests copy; the first process that needs it makes it while the others wait.
async fn postgres_template(server: &str) -> String {
    let name = template_name();
    let mut admin = PgConnection::connect(server).await.expect("the test server answers");
    execute(&mut admin, format!("SELECT pg_advisory_lock({TEMPLATE_LOCK})")).await;
    let found = sqlx::query_scalar("SELECT count(*) FROM pg_database WHERE datname = $1").bind(&name);
    let found: i64 = found.fetch_one(&mut admin).await.expect("counted");
    if found == 0 {
        // It gets its name once it is whole, so that a process that is killed leaves no half of one.
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
        // A test that fails already has something else to say.
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
