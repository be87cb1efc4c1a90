//! Between column values and domain values. Reading is strict: what this program did not write is an error.

use super::StoreError;
use crate::domain::{
    address::{Address, AddressError},
    amount::Percent,
    ids::{PlatformId, RequestRowId},
    network::Network,
    paying::charge::{Charge, Charges, FeeKind},
    reference::PaymentReference,
    request::Request,
};
use alloy::primitives::{Address as EvmAddress, B256, U256};
use chrono::{DateTime, Utc};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DbBackend, EntityTrait, JsonValue, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait,
    sea_query::{Expr, Func, LockBehavior, LockType, Query},
};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Rows of one statement: well below the parameter limits of both databases for the widest table.
pub(super) const ROWS_MAX: usize = 500;

/// Rows by their owners, which is the order in which everybody takes the rows of several.
pub(super) fn by_owner<O: Ord, T>(rows: impl IntoIterator<Item = (O, T)>) -> BTreeMap<O, Vec<T>> {
    let mut owners: BTreeMap<O, Vec<T>> = BTreeMap::new();
    for (owner, row) in rows {
        owners.entry(owner).or_default().push(row);
    }
    owners
}

/// Deletes the oldest rows for which a condition holds, at most `limit`; returns how many. One for which it does not hold
/// any more when it is its turn stays.
pub(super) async fn delete_oldest<E: EntityTrait>(
    conn: &impl ConnectionTrait,
    (key, age): (E::Column, E::Column),
    condition: Condition,
    limit: u64,
) -> Result<u64, StoreError> {
    let oldest = E::find()
        .select_only()
        .column(key)
        .filter(condition.clone())
        .order_by_asc(age)
        .limit(limit)
        .into_query();
    let result = E::delete_many()
        .filter(key.in_subquery(oldest))
        .filter(condition)
        .exec(conn)
        .await?;
    Ok(result.rows_affected)
}

/// Takes rows whose time has come, the longest waiting first, and has others take them at another time. Needs a transaction.
pub(super) async fn take_due<E: EntityTrait>(
    conn: &impl ConnectionTrait,
    (key, time): (E::Column, E::Column),
    condition: Condition,
    (now, again_at): (DateTime<Utc>, DateTime<Utc>),
    limit: u64,
    key_of: impl Fn(&E::Model) -> &str,
) -> Result<Vec<E::Model>, StoreError> {
    let rows = E::find()
        .filter(time.lte(now))
        .filter(condition)
        .order_by_asc(time)
        .limit(limit)
        .lock_with_behavior(LockType::NoKeyUpdate, LockBehavior::SkipLocked)
        .all(conn)
        .await?;
    if !rows.is_empty() {
        E::update_many()
            .col_expr(time, Expr::value(again_at))
            .filter(key.is_in(rows.iter().map(key_of)))
            .exec(conn)
            .await?;
    }
    Ok(rows)
}

/// What is kept of requests, read from rows that name tenant and request, in the order of a time; a request of which
/// nothing is kept is missing.
pub(super) async fn of_requests<E: EntityTrait, T>(
    conn: &impl ConnectionTrait,
    (platform, row, time): (E::Column, E::Column, E::Column),
    requests: &[&Request],
    read: impl Fn(E::Model) -> Result<(RequestRowId, T), StoreError>,
) -> Result<HashMap<RequestRowId, Vec<T>>, StoreError> {
    let mut found: HashMap<RequestRowId, Vec<T>> = HashMap::new();
    for requests in requests.chunks(ROWS_MAX) {
        let owners: BTreeSet<&str> = requests
            .iter()
            .map(|request| request.origin.platform.as_str())
            .collect();
        let rows = E::find()
            .filter(platform.is_in(owners))
            .filter(row.is_in(requests.iter().map(|request| request.row.as_str())))
            .order_by_asc(time)
            .all(conn)
            .await?;
        for model in rows {
            let (request, kept) = read(model)?;
            found.entry(request).or_default().push(kept);
        }
    }
    Ok(found)
}

/// Whether a column holds one of many texts. They are one parameter, so that the statement has one text however many they
/// are, and the database is asked once.
pub(super) fn is_among(
    conn: &impl ConnectionTrait,
    column: impl ColumnTrait,
    texts: impl IntoIterator<Item = String>,
) -> Expr {
    let list = JsonValue::from_iter(texts);
    let mut listed = Query::select();
    match conn.get_database_backend() {
        DbBackend::Postgres => listed.expr(Func::cust("jsonb_array_elements_text").arg(list)),
        _ => listed
            .column("value")
            .from_function(Func::cust("json_each").arg(list.to_string()), "listed"),
    };
    column.in_subquery(listed)
}

/// Requests by their platforms, a part of one platform after the other: the order in which everybody locks them.
pub(super) fn in_parts<'r>(requests: &[&'r Request]) -> Vec<(&'r PlatformId, Vec<&'r Request>)> {
    let of_platform = requests.iter().map(|request| (&request.origin.platform, *request));
    let platforms = by_owner(of_platform).into_iter();
    let parts = platforms.flat_map(|(platform, mut requests)| {
        requests.sort_by(|one, other| one.row.cmp(&other.row));
        let parts = requests.chunks(ROWS_MAX).map(|part| (platform, part.to_vec()));
        parts.collect::<Vec<_>>()
    });
    parts.collect()
}

/// The rows of requests of few platforms, in a table that names tenant and request.
pub(super) fn among_requests<C: ColumnTrait>(
    conn: &impl ConnectionTrait,
    (platform, row): (C, C),
    requests: &[&Request],
) -> Condition {
    let owners: BTreeSet<&str> = requests
        .iter()
        .map(|request| request.origin.platform.as_str())
        .collect();
    let rows = requests.iter().map(|request| request.row.0.clone());
    Condition::all()
        .add(platform.is_in(owners))
        .add(is_among(conn, row, rows))
}

/// How many rows of a condition are kept of each request; one of which there is none is missing.
pub(super) async fn count_of_requests<E: EntityTrait>(
    conn: &impl ConnectionTrait,
    (platform, row): (E::Column, E::Column),
    requests: &[&Request],
    condition: Condition,
) -> Result<HashMap<RequestRowId, u64>, StoreError> {
    let mut counts = HashMap::new();
    for requests in requests.chunks(ROWS_MAX) {
        let counted: Vec<(String, i64)> = E::find()
            .select_only()
            .column(row)
            .column_as(Expr::cust("COUNT(*)"), "counted")
            .filter(among_requests(conn, (platform, row), requests))
            .filter(condition.clone())
            .group_by(row)
            .into_tuple()
            .all(conn)
            .await?;
        for (row, count) in counted {
            counts.insert(RequestRowId(row), number("counted", count)?);
        }
    }
    Ok(counts)
}

/// Reports a column that holds what this program would not write.
pub(super) fn broken(column: &str, value: &str) -> StoreError {
    StoreError::Broken(anyhow::anyhow!("column {column} holds {value:?}"))
}

/// The charges for which there are columns: the fee of the platform, and after it that of the service. Errors: there are
/// others, which would be lost.
pub(super) fn platform_and_protocol<'a>(
    column: &str,
    charges: &'a Charges,
) -> Result<(Option<&'a Charge>, Option<&'a Charge>), StoreError> {
    let (platform, protocol) = (charges.platform(), charges.of(FeeKind::Protocol));
    if charges.iter().eq(platform.into_iter().chain(protocol)) {
        return Ok((platform, protocol));
    }
    let kinds: Vec<&str> = charges.iter().map(|charge| charge.kind.wire()).collect();
    Err(StoreError::Broken(anyhow::anyhow!(
        "{column} has columns for one charge of platform and then one of protocol, not for {kinds:?}"
    )))
}

/// Reads a text by a rule that knows all valid ones.
pub(super) fn known<T>(column: &str, text: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, StoreError> {
    read(text).ok_or_else(|| broken(column, text))
}

/// Reads a canonical address. The zero address is one: events on chain may name it, whoever emitted them.
pub(super) fn address(column: &str, text: &str) -> Result<Address, StoreError> {
    match Address::parse(text) {
        Ok(address) => Ok(address),
        Err(AddressError::Zero) if text.starts_with('T') => Ok(Address::Tron(EvmAddress::ZERO)),
        Err(AddressError::Zero) => Ok(Address::Evm(EvmAddress::ZERO)),
        Err(_) => Err(broken(column, text)),
    }
}

/// Reads an optional canonical address.
pub(super) fn address_option(column: &str, text: Option<&str>) -> Result<Option<Address>, StoreError> {
    text.map(|text| address(column, text)).transpose()
}

/// Reads a network id.
pub(super) fn network(text: &str) -> Result<Network, StoreError> {
    known("network", text, Network::from_id)
}

/// Reads decimal digits of an unsigned 256-bit number.
pub(super) fn units(column: &str, text: &str) -> Result<U256, StoreError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let read = digits.then(|| U256::from_str_radix(text, 10).ok()).flatten();
    read.ok_or_else(|| broken(column, text))
}

/// What the 21 bytes of a Tron address begin with.
const TRON_PREFIX: u8 = 0x41;

/// Writes an address as its 20 bytes, after the prefix on Tron.
pub(super) fn address_bytes(address: &Address) -> Vec<u8> {
    match address {
        Address::Evm(bytes) => bytes.to_vec(),
        Address::Tron(bytes) => [&[TRON_PREFIX], bytes.as_slice()].concat(),
    }
}

/// Reads the bytes of an address. The zero address is one: events on chain may name it, whoever emitted them.
pub(super) fn address_of(column: &str, bytes: &[u8]) -> Result<Address, StoreError> {
    match bytes {
        [TRON_PREFIX, rest @ ..] if rest.len() == EvmAddress::len_bytes() => {
            Ok(Address::Tron(EvmAddress::from_slice(rest)))
        }
        _ if bytes.len() == EvmAddress::len_bytes() => Ok(Address::Evm(EvmAddress::from_slice(bytes))),
        _ => Err(broken(column, &hex::encode(bytes))),
    }
}

/// Reads the bytes of an optional address.
pub(super) fn address_option_of(column: &str, bytes: Option<&[u8]>) -> Result<Option<Address>, StoreError> {
    bytes.map(|bytes| address_of(column, bytes)).transpose()
}

/// Reads the 32 bytes of a hash.
pub(super) fn hash_of(column: &str, bytes: &[u8]) -> Result<B256, StoreError> {
    B256::try_from(bytes).map_err(|_| broken(column, &hex::encode(bytes)))
}

/// Reads the eight bytes of a payment reference.
pub(super) fn reference_of(bytes: &[u8]) -> Result<PaymentReference, StoreError> {
    let known = bytes.try_into().map(PaymentReference);
    known.map_err(|_| broken("reference", &hex::encode(bytes)))
}

/// Writes 32 bytes as 64 hexadecimal digits.
pub(super) fn hash_text(hash: &B256) -> String {
    hex::encode(hash)
}

/// Reads 64 hexadecimal digits.
pub(super) fn hash(column: &str, text: &str) -> Result<B256, StoreError> {
    hex::decode_to_array(text)
        .map(B256::new)
        .map_err(|_| broken(column, text))
}

/// Writes a payment reference as 16 hexadecimal digits.
pub(super) fn reference_text(reference: &PaymentReference) -> String {
    hex::encode(reference.0)
}

/// Reads 16 hexadecimal digits.
pub(super) fn reference(text: &str) -> Result<PaymentReference, StoreError> {
    known("reference", text, PaymentReference::parse)
}

/// Converts between the signed numbers of columns and the unsigned ones of the domain.
pub(super) fn number<N: Copy + std::fmt::Display, M: TryFrom<N>>(column: &str, number: N) -> Result<M, StoreError> {
    M::try_from(number).map_err(|_| broken(column, &number.to_string()))
}

/// Reads a part in basis points.
pub(super) fn percent(column: &str, points: i32) -> Result<Percent, StoreError> {
    let percent = u16::try_from(points).ok().and_then(Percent::from_basis_points);
    percent.ok_or_else(|| broken(column, &points.to_string()))
}

/// Reads Unix seconds.
pub(super) fn unix_time(column: &str, seconds: i64) -> Result<DateTime<Utc>, StoreError> {
    DateTime::from_timestamp(seconds, 0).ok_or_else(|| broken(column, &seconds.to_string()))
}

/// Writes a structure as JSON.
pub(super) fn to_json<T: Serialize>(column: &str, value: &T) -> Result<JsonValue, StoreError> {
    serde_json::to_value(value).map_err(|error| broken(column, &error.to_string()))
}

/// Reads a structure from JSON.
pub(super) fn from_json<T: DeserializeOwned>(column: &str, value: JsonValue) -> Result<T, StoreError> {
    // Neither the value nor the complaint about it is reported, since both may show personal details.
    serde_json::from_value(value)
        .map_err(|_| StoreError::Broken(anyhow::anyhow!("column {column} holds JSON of another shape")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::paying::charge::FeeOrigin;

    #[test]
    fn values_that_were_never_written_are_errors() {
        for text in ["", "-1", "+1", "1.0", "0x1", " 1", "1_0"] {
            assert!(units("units", text).is_err(), "{text:?}");
        }
        assert!(hash("hash", "0x").is_err());
        assert!(reference("123").is_err());
        assert!(network("ethereum").is_err());
        assert!(number::<i64, u64>("number", -1).is_err());
        assert!(number::<u64, i64>("number", u64::MAX).is_err());
        assert!(unix_time("time_s", i64::MAX).is_err());
    }

    #[test]
    fn charges_without_a_column_of_their_own_are_errors() {
        let receiver = Address::Evm(EvmAddress::ZERO);
        let rate = percent("rate", 5).unwrap();
        let platform = Charge::platform(FeeOrigin::Call, rate, receiver);
        let protocol = Charge::protocol(rate, receiver, None);
        let contract = Charge {
            kind: FeeKind::Contract,
            ..protocol
        };
        for (charges, is_kept) in [
            (vec![], true),
            (vec![platform], true),
            (vec![protocol], true),
            (vec![platform, protocol], true),
            (vec![protocol, platform], false),
            (vec![platform, platform], false),
            (vec![platform, protocol, contract], false),
            (vec![contract], false),
        ] {
            let charges: Charges = charges.into_iter().collect();
            assert_eq!(platform_and_protocol("price", &charges).is_ok(), is_kept, "{charges:?}");
        }
    }

    #[test]
    fn the_largest_units_and_the_zero_address_survive() {
        assert_eq!(units("units", &U256::MAX.to_string()).unwrap(), U256::MAX);
        for zero in [Address::Evm(EvmAddress::ZERO), Address::Tron(EvmAddress::ZERO)] {
            assert_eq!(address("payee", &zero.canonical()).unwrap(), zero);
        }
    }
}
