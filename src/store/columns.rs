//! Conversion between column values and domain values. Reading is strict: a value that this program did not write is an
//! error.

use super::StoreError;
use crate::domain::{
    address::{Address, AddressError},
    amount::Percent,
    ids::{PlatformId, RequestRowId},
    network::Network,
    orchestrator_fees::OrchestratorFees,
    paying::charge::{CapturedFee, Charge, Charges, FeeBearer, FeeKind, FeeOrigin},
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
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Maximum number of rows in one statement, well below the parameter limits of both databases for the widest table.
pub(super) const ROWS_MAX: usize = 500;

/// Rows grouped by owner. All transactions lock the rows of several owners in this order.
pub(super) fn by_owner<O: Ord, T>(rows: impl IntoIterator<Item = (O, T)>) -> BTreeMap<O, Vec<T>> {
    let mut owners: BTreeMap<O, Vec<T>> = BTreeMap::new();
    for (owner, row) in rows {
        owners.entry(owner).or_default().push(row);
    }
    owners
}

/// The columns of a table that refer to the request of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestColumns<C> {
    /// Tenant.
    pub(super) platform: C,
    /// Internal id of the request.
    pub(super) row: C,
}

/// Times for taking due rows: now, and when the taken rows are due again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Postponement {
    /// Rows up to this time are due.
    pub(super) now: DateTime<Utc>,
    /// The taken rows are due again at this time.
    pub(super) again_at: DateTime<Utc>,
}

/// Deletes the rows that match a condition, those with the lowest `age` first, at most `limit`; returns how many. `key`
/// is the primary key. A row that no longer matches at the time of its deletion stays.
pub(super) async fn delete_oldest<E: EntityTrait>(
    conn: &impl ConnectionTrait,
    key: E::Column,
    age: E::Column,
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

/// Returns the rows whose time in the column `time` has come, the longest waiting first, and sets their time to
/// `again_at`, so that no other instance takes them until then. `key` is the primary key. Needs a transaction.
pub(super) async fn take_due<E: EntityTrait>(
    conn: &impl ConnectionTrait,
    key: E::Column,
    time: E::Column,
    condition: Condition,
    postponement: Postponement,
    limit: u64,
    key_of: impl Fn(&E::Model) -> &str,
) -> Result<Vec<E::Model>, StoreError> {
    let rows = E::find()
        .filter(time.lte(postponement.now))
        .filter(condition)
        .order_by_asc(time)
        .limit(limit)
        .lock_with_behavior(LockType::NoKeyUpdate, LockBehavior::SkipLocked)
        .all(conn)
        .await?;
    if !rows.is_empty() {
        E::update_many()
            .col_expr(time, Expr::value(postponement.again_at))
            .filter(key.is_in(rows.iter().map(key_of)))
            .exec(conn)
            .await?;
    }
    Ok(rows)
}

/// For each request, the values stored for it, in the order of the column `time`. A request without rows is missing
/// from the result.
pub(super) async fn of_requests<E: EntityTrait, T>(
    conn: &impl ConnectionTrait,
    columns: RequestColumns<E::Column>,
    time: E::Column,
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
            .filter(columns.platform.is_in(owners))
            .filter(columns.row.is_in(requests.iter().map(|request| request.row.as_str())))
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

/// Condition that the value of a column is one of many texts. The texts are one parameter, so the statement is the same
/// for any number of texts.
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

/// Requests grouped by platform, in batches, one platform after the other. All transactions lock requests in this
/// order.
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

/// Condition for the rows of requests of a few platforms.
pub(super) fn among_requests<C: ColumnTrait>(
    conn: &impl ConnectionTrait,
    columns: RequestColumns<C>,
    requests: &[&Request],
) -> Condition {
    let owners: BTreeSet<&str> = requests
        .iter()
        .map(|request| request.origin.platform.as_str())
        .collect();
    let rows = requests.iter().map(|request| request.row.0.clone());
    Condition::all()
        .add(columns.platform.is_in(owners))
        .add(is_among(conn, columns.row, rows))
}

/// Number of rows of each request that match a condition; a request without rows is missing from the result.
pub(super) async fn count_of_requests<E: EntityTrait>(
    conn: &impl ConnectionTrait,
    columns: RequestColumns<E::Column>,
    requests: &[&Request],
    condition: Condition,
) -> Result<HashMap<RequestRowId, u64>, StoreError> {
    let mut counts = HashMap::new();
    for requests in requests.chunks(ROWS_MAX) {
        let counted: Vec<(String, i64)> = E::find()
            .select_only()
            .column(columns.row)
            .column_as(Expr::cust("COUNT(*)"), "counted")
            .filter(among_requests(conn, columns, requests))
            .filter(condition.clone())
            .group_by(columns.row)
            .into_tuple()
            .all(conn)
            .await?;
        for (row, count) in counted {
            counts.insert(RequestRowId(row), number("counted", count)?);
        }
    }
    Ok(counts)
}

/// Reports a column with a value that this program would not write.
pub(super) fn broken(column: &str, value: &str) -> StoreError {
    StoreError::Broken(anyhow::anyhow!("column {column} contains an invalid value: {value:?}"))
}

/// The charges of a request or of an item of a secure payment, by the columns that store them.
pub(super) struct ChargeColumns<'a> {
    /// The fee of the platform.
    pub(super) platform: Option<&'a Charge>,
    /// The fee of the service.
    pub(super) protocol: Option<&'a Charge>,
    /// The fees of an orchestrator.
    pub(super) captured: Vec<CapturedFeeColumn>,
}

/// A fee of an orchestrator, as it was captured at creation.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CapturedFeeColumn {
    source: String,
    bearer: String,
    basis_points: i32,
    receiver: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cap: Option<String>,
    gross: String,
    units: String,
}

impl CapturedFeeColumn {
    /// Writes a captured fee; `None` for every other charge.
    fn of(charge: &Charge) -> Option<Self> {
        let captured = charge.captured?;
        Some(Self {
            source: charge.source.wire().to_owned(),
            bearer: charge.bearer.wire().to_owned(),
            basis_points: charge.rate.basis_points().into(),
            receiver: charge.receiver.canonical(),
            cap: charge.cap.map(|cap| cap.to_string()),
            gross: captured.gross.to_string(),
            units: captured.units.to_string(),
        })
    }

    /// Reads the charge.
    pub(super) fn charge(&self) -> Result<Charge, StoreError> {
        let read = |text: &str| units("orchestrator_fees", text);
        Ok(Charge {
            kind: FeeKind::Orchestrator,
            source: known("orchestrator_fees", &self.source, FeeOrigin::from_wire)?,
            bearer: known("orchestrator_fees", &self.bearer, FeeBearer::from_wire)?,
            rate: percent("orchestrator_fees", self.basis_points)?,
            cap: self.cap.as_deref().map(read).transpose()?,
            receiver: address("orchestrator_fees", &self.receiver)?,
            captured: Some(CapturedFee::unpaid(read(&self.gross)?, read(&self.units)?)),
        })
    }
}

impl<'a> ChargeColumns<'a> {
    /// Sorts charges into their columns, which store the fee of the platform, then the fee of the service, then the
    /// fees of an orchestrator. Errors: other charges, or another order, which would be lost.
    pub(super) fn of(column: &str, charges: &'a Charges) -> Result<Self, StoreError> {
        let (platform, protocol) = (charges.platform(), charges.of(FeeKind::Protocol));
        let captured = || charges.iter().filter(|charge| charge.captured.is_some());
        if charges
            .iter()
            .eq(platform.into_iter().chain(protocol).chain(captured()))
        {
            return Ok(Self {
                platform,
                protocol,
                captured: captured().filter_map(CapturedFeeColumn::of).collect(),
            });
        }
        let kinds: Vec<&str> = charges.iter().map(|charge| charge.kind.wire()).collect();
        Err(StoreError::Broken(anyhow::anyhow!(
            "a row of {column} stores charges only in this order: the platform's, the protocol's, the orchestrator's; \
             these are {kinds:?}"
        )))
    }
}

/// Reads the orchestrator fees that the payments of a request have paid so far: the units borne by the payer, and the
/// units borne by the payee.
pub(super) fn orchestrator_fees(text: Option<&str>) -> Result<OrchestratorFees, StoreError> {
    let Some(text) = text else {
        return Ok(OrchestratorFees::default());
    };
    let parts = text.split_once(',');
    let (payer, payee) = parts.ok_or_else(|| broken("orchestrator_fees", text))?;
    Ok(OrchestratorFees {
        payer: units("orchestrator_fees", payer)?,
        payee: units("orchestrator_fees", payee)?,
    })
}

/// Writes what [`orchestrator_fees`] reads; `None` for no fees.
pub(super) fn orchestrator_fees_text(fees: OrchestratorFees) -> Option<String> {
    (!fees.is_zero()).then(|| format!("{},{}", fees.payer, fees.payee))
}

/// Parses a text with `read`, which returns `None` for a text that is not valid.
pub(super) fn known<T>(column: &str, text: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, StoreError> {
    read(text).ok_or_else(|| broken(column, text))
}

/// Reads a canonical address. The zero address is valid, because any contract may emit an event that contains it.
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

/// First of the 21 bytes of a Tron address.
const TRON_PREFIX: u8 = 0x41;

/// Writes an address as its 20 bytes, after the prefix on Tron.
pub(super) fn address_bytes(address: &Address) -> Vec<u8> {
    match address {
        Address::Evm(bytes) => bytes.to_vec(),
        Address::Tron(bytes) => [&[TRON_PREFIX], bytes.as_slice()].concat(),
    }
}

/// Reads the bytes of an address. The zero address is valid, because any contract may emit an event that contains it.
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

/// Reads a share in basis points.
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
    // The error contains neither the value nor the cause, because both may show personal details.
    serde_json::from_value(value).map_err(|_| {
        StoreError::Broken(anyhow::anyhow!(
            "column {column} contains JSON with an unexpected structure"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_column_values_are_errors() {
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
    fn charges_without_their_own_column_are_errors() {
        let receiver = Address::Evm(EvmAddress::ZERO);
        let rate = percent("rate", 5).unwrap();
        let platform = Charge::platform(FeeOrigin::Call, rate, receiver);
        let protocol = Charge::protocol(rate, receiver, None);
        let contract = Charge {
            kind: FeeKind::Contract,
            ..protocol
        };
        let captured = Charge {
            kind: FeeKind::Orchestrator,
            captured: Some(CapturedFee::unpaid(U256::from(2), U256::from(1))),
            ..protocol
        };
        for (charges, is_kept) in [
            (vec![], true),
            (vec![platform], true),
            (vec![protocol], true),
            (vec![platform, protocol], true),
            (vec![platform, protocol, captured], true),
            (vec![captured, captured], true),
            (vec![captured, protocol], false),
            (vec![protocol, platform], false),
            (vec![platform, platform], false),
            (vec![platform, protocol, contract], false),
            (vec![contract], false),
        ] {
            let charges: Charges = charges.into_iter().collect();
            assert_eq!(ChargeColumns::of("price", &charges).is_ok(), is_kept, "{charges:?}");
        }
    }

    #[test]
    fn the_largest_units_and_the_zero_address_are_read_back() {
        assert_eq!(units("units", &U256::MAX.to_string()).unwrap(), U256::MAX);
        for zero in [Address::Evm(EvmAddress::ZERO), Address::Tron(EvmAddress::ZERO)] {
            assert_eq!(address("payee", &zero.canonical()).unwrap(), zero);
        }
    }
}
