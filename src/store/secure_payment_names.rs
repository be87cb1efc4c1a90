//! A merchant's own names for the payer and the recipient of a secure payment. They are encrypted, and only their owner
//! can read them.

use super::{Sealing, StoreError, sealed};
use crate::{
    domain::secure_payment::{MerchantNames, SecurePayment},
    ports::sealer::EncryptionContext,
};
use entities::secure_payments::{Column, Entity};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};

/// Column of the payer's name, as in its encryption context.
const PAYER: &str = "secure_payments.payer_identifier";

/// Column of the recipient's name, as in its encryption context.
const RECIPIENT: &str = "secure_payments.recipient_identifier";

fn place<'a>(column: &'static str, payment: &'a SecurePayment) -> EncryptionContext<'a> {
    EncryptionContext {
        column,
        owner: payment.origin.platform.as_str(),
        row: payment.id.as_str(),
    }
}

/// The names as they are stored.
pub(super) fn sealed(
    conn: &impl Sealing,
    payment: &SecurePayment,
    names: &MerchantNames,
) -> Result<MerchantNames, StoreError> {
    let seal = |column, name: &Option<String>| {
        let name = name.clone();
        let sealed = name.map(|name| sealed::seal(conn, name, place(column, payment)));
        sealed.transpose()
    };
    Ok(MerchantNames {
        payer: seal(PAYER, &names.payer)?,
        recipient: seal(RECIPIENT, &names.recipient)?,
    })
}

/// The names of a secure payment.
pub async fn of(conn: &impl Sealing, payment: &SecurePayment) -> Result<MerchantNames, StoreError> {
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
    Ok(MerchantNames {
        payer: open(PAYER, payer)?,
        recipient: open(RECIPIENT, recipient)?,
    })
}
