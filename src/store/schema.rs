//! The schema of the database as text. A snapshot of it shows in review what a migration changes.

use super::StoreError;
use sea_orm::{ConnectionTrait, DbBackend, Statement};

/// Tables and indexes with the statements that created them, without the bookkeeping of the migrations.
const SQLITE: &str = "SELECT sql || ';' AS line FROM sqlite_master \
    WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' AND tbl_name <> 'seaql_migrations' \
    ORDER BY tbl_name, type DESC, name";

/// Columns, constraints, indexes, storage parameters and the partitioning of each table, each as one line. Partitions
/// come and go with the months, so only their differences from their table are listed. Their storage parameters are
/// listed as those of the table.
const POSTGRES: &str = "SELECT DISTINCT line, owner COLLATE \"C\", part, place COLLATE \"C\" FROM ( \
    SELECT table_name::text AS owner, 0 AS part, lpad(ordinal_position::text, 4, '0') AS place, \
        'column ' || table_name || '.' || column_name || ' ' || data_type \
        || CASE is_nullable WHEN 'NO' THEN ' not null' ELSE '' END \
        || coalesce(' default ' || column_default, '') AS line \
    FROM information_schema.columns JOIN pg_class rel ON rel.relname = table_name \
        AND rel.relnamespace = current_schema()::regnamespace \
    WHERE table_schema = current_schema() AND NOT rel.relispartition \
    UNION ALL \
    SELECT rel.relname::text, 1, con.conname::text, \
        'constraint ' || rel.relname || '.' || con.conname || ' ' || pg_get_constraintdef(con.oid) \
    FROM pg_constraint con JOIN pg_class rel ON rel.oid = con.conrelid \
    WHERE con.connamespace = current_schema()::regnamespace AND con.contype IN ('p', 'u', 'f', 'c') \
        AND con.conparentid = 0 \
    UNION ALL \
    SELECT tablename::text, 2, indexname::text, replace(indexdef, ' ON ONLY ', ' ON ') FROM pg_indexes \
    JOIN pg_class own ON own.relname = indexname AND own.relnamespace = current_schema()::regnamespace \
    WHERE schemaname = current_schema() AND NOT own.relispartition \
    UNION ALL \
    SELECT coalesce(whole.relname, own.relname)::text, 3, '', \
        'storage ' || coalesce(whole.relname, own.relname) || ' ' || array_to_string(own.reloptions, ', ') \
    FROM pg_class own LEFT JOIN pg_inherits ON inhrelid = own.oid LEFT JOIN pg_class whole ON whole.oid = inhparent \
    WHERE own.relnamespace = current_schema()::regnamespace AND own.relkind = 'r' AND own.reloptions IS NOT NULL \
    UNION ALL \
    SELECT partrelid::regclass::text, 4, '', 'partitions ' || partrelid::regclass || ' by ' || pg_get_partkeydef(partrelid) \
    FROM pg_partitioned_table JOIN pg_class own ON own.oid = partrelid \
    WHERE own.relnamespace = current_schema()::regnamespace \
    ) AS parts WHERE owner <> 'seaql_migrations' ORDER BY 2, 3, 4";

/// One line for each part of the schema.
pub(super) async fn dump(reader: &impl ConnectionTrait) -> Result<String, StoreError> {
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
