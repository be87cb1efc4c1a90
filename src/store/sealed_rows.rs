//! Rows that are sealed under a former key: finding and replacing their values. Source: ADR-0014.

use super::StoreError;
use crate::ports::sealer::{FORM, PAYER_FORM};
use sea_orm::{ConnectionTrait, DbBackend, Statement, Value};

/// The member of JSON objects that holds a sealed text.
pub const SEALED_MEMBER: &str = "sealed";

/// How a column holds sealed texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As the text itself.
    Text,
    /// As a JSON text.
    Json,
    /// As the member [`SEALED_MEMBER`] of JSON objects in an array.
    JsonArray,
    /// As the text itself, or sealed with the key of a payer, which a rotation leaves as it is.
    TextOrOfPayer,
}

/// A column with sealed values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedColumn {
    /// Table and column, as places name them.
    pub name: &'static str,
    /// How it holds them.
    pub form: Form,
    /// The table.
    pub table: &'static str,
    /// The column.
    pub column: &'static str,
    /// Columns of the primary key; the last one is the row of the place.
    key: &'static [&'static str],
    /// SQL of the owner of the place.
    owner: &'static str,
}

/// Every column with sealed values.
pub const SEALED_COLUMNS: [SealedColumn; 12] = [
    SealedColumn {
        name: "key_material.sealed",
        form: Form::Text,
        table: "key_material",
        column: "sealed",
        key: &["name"],
        owner: "'service'",
    },
    SealedColumn {
        name: "accounts.email",
        form: Form::Text,
        table: "accounts",
        column: "email",
        key: &["id"],
        owner: "platform_id",
    },
    // All else of a payer is sealed with this key, and stays as it is.
    SealedColumn {
        name: "payer_keys.data_key",
        form: Form::Text,
        table: "payer_keys",
        column: "data_key",
        key: &["payer_id"],
        owner: "platform_id",
    },
    SealedColumn {
        name: "webhook_endpoints.secret",
        form: Form::Text,
        table: "webhook_endpoints",
        column: "secret_sealed",
        key: &["id"],
        owner: "owner_id",
    },
    SealedColumn {
        name: "webhook_endpoints.secret",
        form: Form::JsonArray,
        table: "webhook_endpoints",
        column: "former_secrets",
        key: &["id"],
        owner: "owner_id",
    },
    SealedColumn {
        name: "idempotency_keys.response",
        form: Form::TextOrOfPayer,
        table: "idempotency_keys",
        column: "response",
        key: &["owner_id", "scope", "key"],
        owner: "owner_id || ' ' || scope",
    },
    SealedColumn {
        name: "requests.customer",
        form: Form::Json,
        table: "requests",
        column: "customer",
        key: &["platform_id", "id"],
        owner: "platform_id",
    },
    SealedColumn {
        name: "secure_payments.payer_identifier",
        form: Form::Text,
        table: "secure_payments",
        column: "payer_identifier",
        key: &["platform_id", "id"],
        owner: "platform_id",
    },
    SealedColumn {
        name: "secure_payments.recipient_identifier",
        form: Form::Text,
        table: "secure_payments",
        column: "recipient_identifier",
        key: &["platform_id", "id"],
        owner: "platform_id",
    },
    SealedColumn {
        name: "events.body",
        form: Form::TextOrOfPayer,
        table: "events",
        column: "body",
        key: &["owner_id", "id"],
        owner: "owner_id",
    },
    SealedColumn {
        name: "delivery_attempts.response",
        form: Form::TextOrOfPayer,
        table: "delivery_attempts",
        column: "response",
        key: &["owner_id", "delivery_id", "id"],
        owner: "owner_id",
    },
    // The try that arrived stands in the row of its delivery, as if that was its own.
    SealedColumn {
        name: "delivery_attempts.response",
        form: Form::TextOrOfPayer,
        table: "deliveries",
        column: "success_response",
        key: &["owner_id", "id"],
        owner: "owner_id",
    },
];

/// A value that is not under the current master key, or no sealed value at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleRow {
    /// Primary key.
    pub key: Vec<String>,
    /// Whose row it is.
    pub owner: String,
    /// What the column holds, as text.
    pub value: String,
}

impl StaleRow {
    /// Which row of its owner it is.
    pub fn row(&self) -> &str {
        self.key.last().map_or("", String::as_str)
    }
}

impl SealedColumn {
    /// SQL of the rows that hold a value under another master key than this one, or nothing that was ever sealed. The id of
    /// a key is hexadecimal and fits into SQL as it is.
    fn stale(&self, current: &str) -> String {
        let (text, good) = (self.text(), format!("{FORM}{current}:"));
        match self.form {
            Form::Text => format!("({text} NOT LIKE '{good}%')"),
            Form::TextOrOfPayer => format!("({text} NOT LIKE '{good}%' AND {text} NOT LIKE '{PAYER_FORM}%')"),
            Form::Json => format!("({text} NOT LIKE '\"{good}%')"),
            // PostgreSQL writes JSON with a space behind the colon.
            Form::JsonArray => format!(
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

    /// `$1, $2, …` from a number on.
    fn placeholders(&self, from: usize) -> String {
        let numbers = (from..from + self.key.len()).map(|number| format!("${number}"));
        numbers.collect::<Vec<_>>().join(", ")
    }
}

/// The next rows after a key, in the order of the primary key: those whose value is not under the master key with the id
/// `current`, and the key of the last one that was looked at, `None` at the end of the table. A look at a bounded number of rows costs the same
/// however large the table is and however few are stale.
pub async fn stale(
    conn: &impl ConnectionTrait,
    column: &SealedColumn,
    current: &str,
    after: &[String],
    limit: u32,
) -> Result<(Vec<StaleRow>, Option<Vec<String>>), StoreError> {
    let key = column.key();
    let behind = match after.is_empty() {
        true => String::new(),
        false => format!("WHERE ({key}) > ({})", column.placeholders(1)),
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

/// Replaces a value; tells whether it was still there.
pub async fn replace(
    conn: &impl ConnectionTrait,
    column: &SealedColumn,
    row: &StaleRow,
    value: &str,
) -> Result<bool, StoreError> {
    let is_json =
        matches!(column.form, Form::Json | Form::JsonArray) && conn.get_database_backend() == DbBackend::Postgres;
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
