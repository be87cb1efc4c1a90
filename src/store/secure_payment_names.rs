//! A merchant's own names for who pays a secure payment and who is paid: sealed, and read for their owner alone.

use super::{Sealing, StoreError, sealed};
use crate::{
    domain::secure_payment::{Names, SecurePayment},
    ports::sealer::Place,
};
use entities::secure_payments::{Column, Entity};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};

/// Column of the payer's name, as its place is called.
const PAYER: &str = "secure_payments.payer_identifier";

/// The same of the recipient.
const RECIPIENT: &str = "secure_payments.recipient_identifier";

fn place<'a>(column: &'static str, payment: &'a SecurePayment) -> Place<'a> {
    Place {
        column,
        owner: payment.origin.platform.as_str(),
        row: payment.id.as_str(),
    }
}

/// The names as they are stored.
pub(super) fn sealed(conn: &impl Sealing, payment: &SecurePayment, names: &Names) -> Result<Names, StoreError> {
    let seal = |column, name: &Option<String>| {
        let name = name.clone();
        let sealed = name.map(|name| sealed::seal(conn, name, place(column, payment)));
        sealed.transpose()
    };
    Ok(Names {
        payer: seal(PAYER, &names.payer)?,
        recipient: seal(RECIPIENT, &names.recipient)?,
    })
}

/// The names of a secure payment.
pub async fn of(conn: &impl Sealing, payment: &SecurePayment) -> Result<Names, StoreError> {
    let row: Option<(Option<String>, Option<String>)> = Entity::find()
        .select_only()
        .columns([Column::PayerIdentifier, Column::RecipientIdentifier])
        .filter(Column::PlatformId.eq(payment.origin.platform.as_str()))
        .filter(Column::Id.eq(payment.id.as_str()))
        .into_tuple()
        .one(conn)
        .await?;
    let (payer, recipient) = row.unwrap_or_default();
    let open = |column, name: Option<String>| {
        let opened = name.map(|name| sealed::open(conn, &name, place(column, payment)));
        opened.transpose()
    };
    Ok(Names {
        payer: open(PAYER, payer)?,
        recipient: open(RECIPIENT, recipient)?,
    })
}
