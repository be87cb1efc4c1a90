//! The schema as text, for a snapshot that shows in review what a migration changes.

use super::StoreError;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, Statement};

/// Tables and indexes with the statements that made them; the bookkeeping of the migrations is left out.
const SQLITE: &str = "SELECT sql || ';' AS line FROM sqlite_master \
    WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' AND tbl_name <> 'seaql_migrations' \
    ORDER BY tbl_name, type DESC, name";

/// Columns, constraints, indexes and storage parameters, each as one line.
const POSTGRES: &str = "SELECT line FROM ( \
    SELECT table_name::text AS owner, 0 AS part, lpad(ordinal_position::text, 4, '0') AS place, \
        'column ' || table_name || '.' || column_name || ' ' || data_type \
        || CASE is_nullable WHEN 'NO' THEN ' not null' ELSE '' END \
        || coalesce(' default ' || column_default, '') AS line \
    FROM information_schema.columns WHERE table_schema = current_schema() \
    UNION ALL \
    SELECT rel.relname::text, 1, con.conname::text, \
        'constraint ' || rel.relname || '.' || con.conname || ' ' || pg_get_constraintdef(con.oid) \
    FROM pg_constraint con JOIN pg_class rel ON rel.oid = con.conrelid \
    WHERE con.connamespace = current_schema()::regnamespace AND con.contype IN ('p', 'u', 'f', 'c') \
    UNION ALL \
    SELECT tablename::text, 2, indexname::text, indexdef FROM pg_indexes WHERE schemaname = current_schema() \
    UNION ALL \
    SELECT relname::text, 3, '', 'storage ' || relname || ' ' || array_to_string(reloptions, ', ') \
    FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND reloptions IS NOT NULL \
    ) AS parts WHERE owner <> 'seaql_migrations' ORDER BY owner COLLATE \"C\", part, place COLLATE \"C\"";

/// One line for each part of the schema.
pub(super) async fn dump(reader: &DatabaseConnection) -> Result<String, StoreError> {
    let backend = reader.get_database_backend();
    let sql = match backend {
        DbBackend::Postgres => POSTGRES,
        _ => SQLITE,
    };
    let mut text = String::new();
    for row in reader.query_all_raw(Statement::from_string(backend, sql)).await? {
        let line: String = row.try_get("", "line")?;
        text.extend(line.split_whitespace().flat_map(|word| [word, " "]));
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    Ok(text)
}
