//! Rows that are encrypted under a former master key: finds their values and replaces them. Source: ADR-0014.

use super::StoreError;
use crate::ports::sealer::{FORM, PAYER_FORM};
use sea_orm::{ConnectionTrait, DbBackend, Statement, Value};

/// The member of JSON objects that contains an encrypted text.
pub const SEALED_MEMBER: &str = "sealed";

/// How a column stores encrypted texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnFormat {
    /// As the text itself.
    Text,
    /// As a JSON text.
    Json,
    /// As the member [`SEALED_MEMBER`] of each JSON object in an array.
    JsonArray,
    /// As the text itself. A text that is encrypted with the key of a payer stays unchanged in a rotation.
    TextOrOfPayer,
}

/// A column with encrypted values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedColumn {
    /// Table and column, as in the encryption context.
    pub name: &'static str,
    /// How the column stores encrypted texts.
    pub form: ColumnFormat,
    /// The table.
    pub table: &'static str,
    /// The column.
    pub column: &'static str,
    /// Columns of the primary key. The last one is the row id in the encryption context.
    key: &'static [&'static str],
    /// SQL expression for the owner in the encryption context.
    owner: &'static str,
}

/// Every column with encrypted values.
pub const SEALED_COLUMNS: [SealedColumn; 12] = [
    SealedColumn {
        name: "key_material.sealed",
        form: ColumnFormat::Text,
        table: "key_material",
        column: "sealed",
        key: &["name"],
        owner: "'service'",
    },
    SealedColumn {
        name: "accounts.email",
        form: ColumnFormat::Text,
        table: "accounts",
        column: "email",
        key: &["id"],
        owner: "platform_id",
    },
    // The key of a payer. It is encrypted with the master key, and encrypts all other data of the payer, which a
    // rotation therefore does not change.
    SealedColumn {
        name: "payer_keys.data_key",
        form: ColumnFormat::Text,
        table: "payer_keys",
        column: "data_key",
        key: &["payer_id"],
        owner: "platform_id",
    },
    SealedColumn {
        name: "webhook_endpoints.secret",
        form: ColumnFormat::Text,
        table: "webhook_endpoints",
        column: "secret_sealed",
        key: &["id"],
        owner: "owner_id",
    },
    SealedColumn {
        name: "webhook_endpoints.secret",
        form: ColumnFormat::JsonArray,
        table: "webhook_endpoints",
        column: "former_secrets",
        key: &["id"],
        owner: "owner_id",
    },
    SealedColumn {
        name: "idempotency_keys.response",
        form: ColumnFormat::TextOrOfPayer,
        table: "idempotency_keys",
        column: "response",
        key: &["owner_id", "scope", "key"],
        owner: "owner_id || ' ' || scope",
    },
    SealedColumn {
        name: "requests.customer",
        form: ColumnFormat::Json,
        table: "requests",
        column: "customer",
        key: &["platform_id", "id"],
        owner: "platform_id",
    },
    SealedColumn {
        name: "secure_payments.payer_identifier",
        form: ColumnFormat::Text,
        table: "secure_payments",
        column: "payer_identifier",
        key: &["platform_id", "id"],
        owner: "platform_id",
    },
    SealedColumn {
        name: "secure_payments.recipient_identifier",
        form: ColumnFormat::Text,
        table: "secure_payments",
        column: "recipient_identifier",
        key: &["platform_id", "id"],
        owner: "platform_id",
    },
    SealedColumn {
        name: "events.body",
        form: ColumnFormat::TextOrOfPayer,
        table: "events",
        column: "body",
        key: &["owner_id", "id"],
        owner: "owner_id",
    },
    SealedColumn {
        name: "delivery_attempts.response",
        form: ColumnFormat::TextOrOfPayer,
        table: "delivery_attempts",
        column: "response",
        key: &["owner_id", "delivery_id", "id"],
        owner: "owner_id",
    },
    // The attempt that arrived is stored in the row of its delivery. Its encryption context is that of a separate
    // attempt row.
    SealedColumn {
        name: "delivery_attempts.response",
        form: ColumnFormat::TextOrOfPayer,
        table: "deliveries",
        column: "success_response",
        key: &["owner_id", "id"],
        owner: "owner_id",
    },
];

/// A value that is encrypted under a former master key, or not encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleRow {
    /// Primary key.
    pub key: Vec<String>,
    /// Its owner.
    pub owner: String,
    /// The value of the column, as text.
    pub value: String,
}

impl StaleRow {
    /// Its id within its owner.
    pub fn row(&self) -> &str {
        self.key.last().map_or("", String::as_str)
    }
}

impl SealedColumn {
    /// SQL condition for rows with a value under another master key than this one, or with an unencrypted value. The id
    /// of a key is hexadecimal, so it needs no escaping.
    fn stale(&self, current: &str) -> String {
        let (text, good) = (self.text(), format!("{FORM}{current}:"));
        match self.form {
            ColumnFormat::Text => format!("({text} NOT LIKE '{good}%')"),
            ColumnFormat::TextOrOfPayer => format!("({text} NOT LIKE '{good}%' AND {text} NOT LIKE '{PAYER_FORM}%')"),
            ColumnFormat::Json => format!("({text} NOT LIKE '\"{good}%')"),
            // PostgreSQL writes JSON with a space after the colon.
            ColumnFormat::JsonArray => format!(
                "(replace(replace({text}, '\": \"', '\":\"'), '\"{SEALED_MEMBER}\":\"{good}', '') LIKE '%\"{SEALED_MEMBER}\":%')"
            ),
        }
    }

    fn text(&self) -> String {
        format!("CAST({} AS TEXT)", self.column)
    }

    fn key(&self) -> String {
        let names = self.key.iter().map(|name| format!("\"{name}\""));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Placeholders `$1, $2, …`, starting at a number.
    fn placeholders(&self, from: usize) -> String {
        let numbers = (from..from + self.key.len()).map(|number| format!("${number}"));
        numbers.collect::<Vec<_>>().join(", ")
    }
}

/// Checks the next `limit` rows after a primary key, in its order. Returns those whose value is not encrypted under the
/// master key with the id `current`, and the key of the last checked row; `None` at the end of the table. The cost of a
/// call depends only on `limit`, not on the size of the table.
pub async fn stale(
    conn: &impl ConnectionTrait,
    column: &SealedColumn,
    current: &str,
    after: &[String],
    limit: u32,
) -> Result<(Vec<StaleRow>, Option<Vec<String>>), StoreError> {
    let key = column.key();
    let behind = if after.is_empty() {
        String::new()
    } else {
        format!("WHERE ({key}) > ({})", column.placeholders(1))
    };
    let sql = format!(
        "SELECT {key}, CASE WHEN {stale} THEN {} END AS place_owner, CASE WHEN {stale} THEN {} END AS place_value \
         FROM {} {behind} ORDER BY {key} LIMIT {limit}",
        column.owner,
        column.text(),
        column.table,
        stale = column.stale(current),
    );
    let values: Vec<Value> = after.iter().map(|part| part.as_str().into()).collect();
    let (mut found, mut last) = (Vec::new(), None);
    for row in conn.query_all_raw(statement(conn, sql, values)).await? {
        let parts = column.key.iter().map(|part| row.try_get("", part));
        let key: Vec<String> = parts.collect::<Result<_, _>>()?;
        let owner: Option<String> = row.try_get("", "place_owner")?;
        let value: Option<String> = row.try_get("", "place_value")?;
        if let (Some(owner), Some(value)) = (owner, value) {
            let key = key.clone();
            found.push(StaleRow { key, owner, value });
        }
        last = Some(key);
    }
    Ok((found, last))
}

/// Replaces a value; returns whether the value was unchanged until then.
pub async fn replace(
    conn: &impl ConnectionTrait,
    column: &SealedColumn,
    row: &StaleRow,
    value: &str,
) -> Result<bool, StoreError> {
    let is_json = matches!(column.form, ColumnFormat::Json | ColumnFormat::JsonArray)
        && conn.get_database_backend() == DbBackend::Postgres;
    let new = if is_json { "CAST($1 AS jsonb)" } else { "$1" };
    let sql = format!(
        "UPDATE {} SET {} = {new} WHERE {} = $2 AND ({}) = ({})",
        column.table,
        column.column,
        column.text(),
        column.key(),
        column.placeholders(3)
    );
    let mut values: Vec<Value> = vec![value.into(), row.value.as_str().into()];
    values.extend(row.key.iter().map(|part| Value::from(part.as_str())));
    let result = conn.execute_raw(statement(conn, sql, values)).await?;
    Ok(result.rows_affected() == 1)
}

fn statement(conn: &impl ConnectionTrait, sql: String, values: Vec<Value>) -> Statement {
    Statement::from_sql_and_values(conn.get_database_backend(), sql, values)
}
