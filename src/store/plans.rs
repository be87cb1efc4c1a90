//! Query plans of SQLite, for the tests of indexes.

use super::Db;
use sea_orm::{ConnectionTrait, DbBackend, StatementBuilder};

/// Creates a migrated database, uses it and removes it.
pub(super) async fn with_database(test: impl AsyncFnOnce(&Db)) {
    let name = format!("prs_plans_{}_{:?}", std::process::id(), std::thread::current().id());
    let folder = std::env::temp_dir().join(name);
    let db = Db::connect(&format!("sqlite://{}", folder.join("prs.db").display()))
        .await
        .unwrap();
    db.migrate_up().await.unwrap();
    test(&db).await;
    db.close().await.unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}

/// The query plan of a statement, with one line for each step.
pub(super) async fn steps(db: &Db, statement: &impl StatementBuilder) -> String {
    let mut statement = DbBackend::Sqlite.build(statement);
    statement.sql.insert_str(0, "EXPLAIN QUERY PLAN ");
    let mut steps = String::new();
    for row in db.reader().query_all_raw(statement).await.unwrap() {
        steps.push_str(&row.try_get::<String>("", "detail").unwrap());
        steps.push('\n');
    }
    steps
}
