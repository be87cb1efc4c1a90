//! Payee destinations, and their signing data.

use super::{StoreError, columns};
use crate::domain::{
    address::Address,
    destination::{AccessMode, Destination, DestinationPolicy, ScreeningProvider, SigningAction, SigningData},
    ids::{ClientRowId, DestinationId, PlatformId},
    interop_address::{DestinationKey, InteropAddress},
};
use chrono::{DateTime, Utc};
use entities::{
    destination_nonces,
    payee_destinations::{ActiveModel, Column, Entity, Model},
    wallets,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    sea_query::{Expr, OnConflict},
};

fn to_row(destination: &Destination) -> Model {
    let key = &destination.key;
    Model {
        id: destination.id.0.clone(),
        platform_id: destination.platform.0.clone(),
        wallet: key.interop.wallet.canonical(),
        network: key.interop.network.id().to_owned(),
        token: key.token.canonical(),
        policy_mode: destination.policy.map(|policy| policy.mode.wire().to_owned()),
        policy_provider: destination
            .policy
            .and_then(|policy| policy.provider)
            .map(|provider| provider.wire().to_owned()),
        hides_until_approved: destination.policy.is_some_and(|policy| policy.hides_until_approved),
        hides_payee: destination.policy.is_some_and(|policy| policy.hides_payee),
        is_claimed: destination.is_claimed,
        is_set_up: destination.is_set_up,
        is_active: destination.is_active,
        created_at: destination.created_at,
        updated_at: destination.updated_at,
    }
}

fn key(wallet: &str, network: &str, token: &str) -> Result<DestinationKey, StoreError> {
    Ok(DestinationKey {
        interop: InteropAddress {
            wallet: columns::address("wallet", wallet)?,
            network: columns::network(network)?,
        },
        token: columns::address("token", token)?,
    })
}

fn from_row(row: Model) -> Result<Destination, StoreError> {
    let provider = |text: String| columns::known("policy_provider", &text, ScreeningProvider::from_wire);
    let provider = row.policy_provider.map(provider).transpose()?;
    let policy = match row.policy_mode {
        Some(mode) => Some(DestinationPolicy {
            mode: columns::known("policy_mode", &mode, AccessMode::from_wire)?,
            provider,
            hides_until_approved: row.hides_until_approved,
            hides_payee: row.hides_payee,
        }),
        None => None,
    };
    Ok(Destination {
        id: DestinationId(row.id),
        platform: PlatformId(row.platform_id),
        key: key(&row.wallet, &row.network, &row.token)?,
        policy,
        is_claimed: row.is_claimed,
        is_set_up: row.is_set_up,
        is_active: row.is_active,
        created_at: row.created_at,
        updated_at: row.updated_at,
    })
}

fn of_wallet(platform: &PlatformId, wallet: &Address) -> Condition {
    Condition::all()
        .add(Column::PlatformId.eq(platform.as_str()))
        .add(Column::Wallet.eq(wallet.canonical()))
}

fn named(key: &DestinationKey) -> Condition {
    Condition::all()
        .add(Column::Wallet.eq(key.interop.wallet.canonical()))
        .add(Column::Network.eq(key.interop.network.id()))
        .add(Column::Token.eq(key.token.canonical()))
}

/// All destinations of a wallet, active or not, locked until the transaction ends.
pub async fn lock_all_of(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    wallet: &Address,
) -> Result<Vec<Destination>, StoreError> {
    let rows = Entity::find()
        .filter(of_wallet(platform, wallet))
        .order_by_asc(Column::Id)
        .lock_exclusive()
        .all(conn)
        .await?;
    rows.into_iter().map(from_row).collect()
}

/// The active destination of a wallet on a platform. The owner of the wallet set it up there, or the platform recorded
/// it.
pub async fn active_of(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    wallet: &Address,
) -> Result<Option<Destination>, StoreError> {
    let row = Entity::find()
        .filter(of_wallet(platform, wallet))
        .filter(Column::IsActive.eq(true))
        .one(conn)
        .await?;
    row.map(from_row).transpose()
}

/// The destinations in use of the wallets that sign in to a platform. Destinations that were only registered there with
/// a signature are excluded, because anyone with a public client ID can register one.
pub async fn own_in_use(conn: &impl ConnectionTrait, platform: &PlatformId) -> Result<Vec<Destination>, StoreError> {
    let own = wallets::Entity::find()
        .select_only()
        .column(wallets::Column::Address)
        .filter(wallets::Column::PlatformId.eq(platform.as_str()))
        .into_query();
    let rows = Entity::find()
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::IsActive.eq(true))
        .filter(Column::IsSetUp.eq(true))
        .filter(Column::Wallet.in_subquery(own))
        .order_by_asc(Column::Id)
        .all(conn)
        .await?;
    rows.into_iter().map(from_row).collect()
}

/// Finds a destination of a platform by wallet, network and token, active or not.
pub async fn find(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    key: &DestinationKey,
) -> Result<Option<Destination>, StoreError> {
    let row = Entity::find()
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(named(key))
        .one(conn)
        .await?;
    row.map(from_row).transpose()
}

/// Finds a destination of a platform by its row, active or not.
pub async fn find_by_id(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    id: &DestinationId,
) -> Result<Option<Destination>, StoreError> {
    let row = Entity::find_by_id(id.as_str())
        .filter(Column::PlatformId.eq(platform.as_str()))
        .one(conn)
        .await?;
    row.map(from_row).transpose()
}

/// The destination to which a payment to a wallet goes: one that the owner of the wallet set up on any platform, or one
/// that this platform recorded for the wallet.
///
/// Destinations that the owner set up take precedence. Among equals, the newest is returned.
pub async fn payable(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    wallet: &Address,
) -> Result<Option<Destination>, StoreError> {
    let visible = Condition::any()
        .add(Column::IsSetUp.eq(true))
        .add(Column::PlatformId.eq(platform.as_str()));
    let row = Entity::find()
        .filter(Column::Wallet.eq(wallet.canonical()))
        .filter(Column::IsActive.eq(true))
        .filter(visible)
        .order_by_desc(Column::IsSetUp)
        .order_by_desc(Column::UpdatedAt)
        .order_by_desc(Column::Id)
        .limit(1)
        .one(conn)
        .await?;
    row.map(from_row).transpose()
}

/// Adds a destination.
///
/// Errors: [`StoreError::Conflict`] with [`super::DESTINATION`] when another transaction was first.
pub async fn insert(conn: &impl ConnectionTrait, destination: &Destination) -> Result<(), StoreError> {
    Entity::insert(ActiveModel::from(to_row(destination)))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Records a destination for a wallet whose owner has set up none. Does nothing if the insert conflicts with a
/// destination that is already stored.
pub async fn note(conn: &impl ConnectionTrait, destination: &Destination) -> Result<(), StoreError> {
    Entity::insert(ActiveModel::from(to_row(destination)))
        .on_conflict(OnConflict::new().do_nothing().to_owned())
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Writes the fields of a destination that can change.
///
/// Errors: [`StoreError::Conflict`] with [`super::DESTINATION`] when another destination of the wallet is in use.
pub async fn update(conn: &impl ConnectionTrait, destination: &Destination) -> Result<(), StoreError> {
    let row = to_row(destination);
    Entity::update_many()
        .col_expr(Column::PolicyMode, Expr::value(row.policy_mode))
        .col_expr(Column::PolicyProvider, Expr::value(row.policy_provider))
        .col_expr(Column::HidesUntilApproved, Expr::value(row.hides_until_approved))
        .col_expr(Column::HidesPayee, Expr::value(row.hides_payee))
        .col_expr(Column::IsClaimed, Expr::value(row.is_claimed))
        .col_expr(Column::IsSetUp, Expr::value(row.is_set_up))
        .col_expr(Column::IsActive, Expr::value(row.is_active))
        .col_expr(Column::UpdatedAt, Expr::value(row.updated_at))
        .filter(Column::PlatformId.eq(row.platform_id))
        .filter(Column::Id.eq(row.id))
        .exec(conn)
        .await?;
    Ok(())
}

/// Marks equal destinations that other platforms recorded for a wallet as claimed, after the owner of the wallet set
/// one up. This does not put the marked destinations in use.
pub async fn claim_everywhere(conn: &impl ConnectionTrait, key: &DestinationKey) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::IsClaimed, Expr::value(true))
        .filter(named(key))
        .filter(Column::IsClaimed.eq(false))
        .exec(conn)
        .await?;
    Ok(())
}

/// Stores signing data for a wallet.
pub async fn insert_signing_data(conn: &impl ConnectionTrait, data: &SigningData) -> Result<(), StoreError> {
    let row = destination_nonces::Model {
        nonce: data.nonce.clone(),
        platform_id: data.platform.0.clone(),
        client_row: data.client.0.clone(),
        action: data.action.wire().to_owned(),
        wallet: data.key.interop.wallet.canonical(),
        network: data.key.interop.network.id().to_owned(),
        token: data.key.token.canonical(),
        expires_at: data.expires_at,
        used_at: None,
    };
    destination_nonces::Entity::insert(destination_nonces::ActiveModel::from(row))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Deletes signing data that expired before a time.
pub async fn purge_signing_data(conn: &impl ConnectionTrait, before: DateTime<Utc>) -> Result<(), StoreError> {
    destination_nonces::Entity::delete_many()
        .filter(destination_nonces::Column::ExpiresAt.lt(before))
        .exec(conn)
        .await?;
    Ok(())
}

/// Signing data of a client ID, with the time at which it was used.
pub async fn find_signing_data(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    client: &ClientRowId,
    nonce: &str,
) -> Result<Option<(SigningData, Option<DateTime<Utc>>)>, StoreError> {
    use destination_nonces::Column;
    let row = destination_nonces::Entity::find_by_id(nonce)
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::ClientRow.eq(client.as_str()))
        .one(conn)
        .await?;
    let Some(row) = row else { return Ok(None) };
    let data = SigningData {
        action: columns::known("action", &row.action, SigningAction::from_wire)?,
        key: key(&row.wallet, &row.network, &row.token)?,
        nonce: row.nonce,
        platform: PlatformId(row.platform_id),
        client: ClientRowId(row.client_row),
        expires_at: row.expires_at,
    };
    Ok(Some((data, row.used_at)))
}

/// Uses up signing data; returns whether it was still unused.
pub async fn use_signing_data(
    conn: &impl ConnectionTrait,
    data: &SigningData,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    use destination_nonces::Column;
    let result = destination_nonces::Entity::update_many()
        .col_expr(Column::UsedAt, Expr::value(now))
        .filter(Column::Nonce.eq(data.nonce.as_str()))
        .filter(Column::PlatformId.eq(data.platform.as_str()))
        .filter(Column::UsedAt.is_null())
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}
