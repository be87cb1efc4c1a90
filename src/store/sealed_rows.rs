//! Rows that are clear or sealed under a former key: finding and replacing their values. Source: ADR-0014.

use super::StoreError;
use crate::ports::sealer::{FORM, FORMER_FORM};
use sea_orm::{ConnectionTrait, DbBackend, Statement, Value};

/// How a column holds sealed texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As the text itself.
    Text,
    /// As a JSON text.
    Json,
    /// As members of JSON objects in an array.
    JsonArray,
}

/// A column with sealed values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedColumn {
    /// Table and column, as places name them.
    pub name: &'static str,
    /// How it holds them.
    pub form: Form,
    table: &'static str,
    column: &'static str,
    /// Columns of the primary key; the last one is the row of the place.
    key: &'static [&'static str],
    /// SQL of the owner of the place.
    owner: &'static str,
    /// SQL of the rows that should be sealed and are not.
    clear: &'static str,
}

/// No row of a column was ever written clear, or it is sealed by others.
const NEVER: &str = "1 = 0";

/// Every column with sealed values.
pub const SEALED_COLUMNS: [SealedColumn; 12] = [
    SealedColumn {
        name: "key_material.sealed",
        form: Form::Text,
        table: "key_material",
        column: "sealed",
        key: &["name"],
        owner: "'service'",
        clear: NEVER,
    },
    SealedColumn {
        name: "accounts.email",
        form: Form::Text,
        table: "accounts",
        column: "email",
        key: &["id"],
        owner: "platform_id",
        clear: NEVER,
    },
    // All else of a payer is sealed with this key, and stays as it is.
    SealedColumn {
        name: "payer_keys.data_key",
        form: Form::Text,
        table: "payer_keys",
        column: "data_key",
        key: &["payer_id"],
        owner: "platform_id",
        clear: NEVER,
    },
    SealedColumn {
        name: "webhook_endpoints.secret",
        form: Form::Text,
        table: "webhook_endpoints",
        column: "secret_sealed",
        key: &["id"],
        owner: "owner_id",
        clear: NEVER,
    },
    SealedColumn {
        name: "webhook_endpoints.secret",
        form: Form::JsonArray,
        table: "webhook_endpoints",
        column: "former_secrets",
        key: &["id"],
        owner: "owner_id",
        clear: NEVER,
    },
    SealedColumn {
        name: "idempotency_keys.response",
        form: Form::Text,
        table: "idempotency_keys",
        column: "response",
        key: &["owner_id", "scope", "key"],
        owner: "owner_id || ' ' || scope",
        clear: NEVER,
    },
    SealedColumn {
        name: "requests.customer",
        form: Form::Json,
        table: "requests",
        column: "customer",
        key: &["id"],
        owner: "platform_id",
        clear: "CAST(customer AS TEXT) LIKE '{%'",
    },
    SealedColumn {
        name: "secure_payments.payer_identifier",
        form: Form::Text,
        table: "secure_payments",
        column: "payer_identifier",
        key: &["id"],
        owner: "platform_id",
        clear: "payer_identifier NOT LIKE 'v_:%'",
    },
    SealedColumn {
        name: "secure_payments.recipient_identifier",
        form: Form::Text,
        table: "secure_payments",
        column: "recipient_identifier",
        key: &["id"],
        owner: "platform_id",
        clear: "recipient_identifier NOT LIKE 'v_:%'",
    },
    SealedColumn {
        name: "events.body",
        form: Form::Text,
        table: "events",
        column: "body",
        key: &["id"],
        owner: "owner_id",
        clear: "body LIKE '{%\"customerInfo\":{%'",
    },
    // After the bodies: what receivers said about sealed ones is sealed too.
    SealedColumn {
        name: "delivery_attempts.response",
        form: Form::Text,
        table: "delivery_attempts",
        column: "response",
        key: &["id"],
        owner: "(SELECT owner_id FROM deliveries WHERE deliveries.id = delivery_id)",
        clear: "response NOT LIKE 'v_:%' AND EXISTS (SELECT 1 FROM deliveries JOIN events ON events.id = event_id \
                WHERE deliveries.id = delivery_id AND events.body LIKE 'v2:%')",
    },
    // The try that arrived stands in the row of its delivery, as if that was its own.
    SealedColumn {
        name: "delivery_attempts.response",
        form: Form::Text,
        table: "deliveries",
        column: "success_response",
        key: &["id"],
        owner: "owner_id",
        clear: "success_response NOT LIKE 'v_:%' AND EXISTS (SELECT 1 FROM events WHERE events.id = event_id \
                AND events.body LIKE 'v2:%')",
    },
];

/// Under which keys values may stay as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Any that is named.
    Sealed,
    /// The one with this id.
    Under(String),
}

/// A value that is not as wanted.
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
    /// SQL of the rows that are not as wanted. The id of a key is hexadecimal and fits into SQL as it is.
    fn stale(&self, wanted: &Wanted) -> String {
        let text = self.text();
        let quote = if self.form == Form::Text { "" } else { "\"" };
        let good = match wanted {
            Wanted::Sealed => FORM.to_owned(),
            Wanted::Under(id) => format!("{FORM}{id}:"),
        };
        let sealed = match self.form {
            Form::JsonArray => format!(
                "({text} LIKE '%{quote}{FORMER_FORM}%' OR replace({text}, '{quote}{good}', '') LIKE '%{quote}{FORM}%')"
            ),
            _ => format!(
                "({text} LIKE '{quote}{FORMER_FORM}%' \
                 OR {text} LIKE '{quote}{FORM}%' AND {text} NOT LIKE '{quote}{good}%')"
            ),
        };
        format!("({sealed} OR {})", self.clear)
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

/// The next rows after a key, in the order of the primary key: those whose value is not as wanted, and the key of the
/// last one that was looked at, `None` at the end of the table. A look at a bounded number of rows costs the same
/// however large the table is and however few are stale.
pub async fn stale(
    conn: &impl ConnectionTrait,
    column: &SealedColumn,
    wanted: &Wanted,
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
        stale = column.stale(wanted),
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
    let is_json = column.form != Form::Text && conn.get_database_backend() == DbBackend::Postgres;
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
