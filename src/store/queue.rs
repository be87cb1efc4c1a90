//! Rows of the queue of deliveries, one for each delivery that waits.

use super::StoreError;
use chrono::{DateTime, Utc};
use entities::{deliveries, deliveries::Column as Delivery, delivery_queue};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ConnectionTrait, EntityTrait};

/// Columns of a delivery that are null while the delivery is new. The insert leaves them out, because it has many rows.
const EMPTY: [Delivery; 9] = [
    Delivery::FinishedAt,
    Delivery::RecoverFrom,
    Delivery::RecoverAt,
    Delivery::Missed,
    Delivery::SuccessNumber,
    Delivery::SuccessStartedAt,
    Delivery::SuccessEndedAt,
    Delivery::SuccessStatus,
    Delivery::SuccessResponse,
];

/// A new delivery as a row.
pub(super) fn new_delivery(delivery: deliveries::Model) -> deliveries::ActiveModel {
    let mut row = deliveries::ActiveModel::from(delivery);
    for column in EMPTY {
        row.not_set(column);
    }
    row
}

/// Queues deliveries that the same transaction wrote as queued. They have no attempt yet, and each is due at its own
/// time.
pub(super) async fn enqueue(
    conn: &impl ConnectionTrait,
    deliveries: impl IntoIterator<Item = (deliveries::Model, DateTime<Utc>)>,
) -> Result<(), StoreError> {
    let rows = deliveries
        .into_iter()
        .map(|(delivery, next_at)| delivery_queue::ActiveModel {
            id: Set(delivery.id),
            event_id: Set(delivery.event_id),
            endpoint_id: Set(delivery.endpoint_id),
            owner_id: Set(delivery.owner_id),
            is_test: Set(delivery.is_test),
            is_replay: Set(delivery.is_replay),
            retry_count: Set(0),
            next_at: Set(next_at),
            ..Default::default()
        });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        delivery_queue::Entity::insert_many(rows)
            .exec_without_returning(conn)
            .await?;
    }
    Ok(())
}

/// A recursive part of a statement. It returns one delivery of each endpoint with queued deliveries, and `NULL` as the
/// last row. It finds the endpoints one after the other, each by one or two steps in an index, however long the queue
/// is. Two steps are needed because SQLite reads an index range only for a comparison of one column, not of two.
pub(super) const ENDPOINTS: &str = "\
endpoints(id) AS (\
  SELECT (SELECT id FROM delivery_queue ORDER BY owner_id, endpoint_id, next_at LIMIT 1) \
  UNION ALL \
  SELECT coalesce(\
    (SELECT later.id FROM delivery_queue AS later \
      WHERE later.owner_id = here.owner_id AND later.endpoint_id > here.endpoint_id \
      ORDER BY later.owner_id, later.endpoint_id, later.next_at LIMIT 1), \
    (SELECT later.id FROM delivery_queue AS later WHERE later.owner_id > here.owner_id \
      ORDER BY later.owner_id, later.endpoint_id, later.next_at LIMIT 1)) \
  FROM endpoints JOIN delivery_queue AS here ON here.id = endpoints.id)";
