//! Keys of sealed values.

use crate::tables::Creation;
use sea_orm_migration::{prelude::*, schema::*};

pub(crate) const MIGRATION: Creation = Creation {
    path: module_path!(),
    tables: &[key_material],
    indexes: &[],
};

fn key_material() -> TableCreateStatement {
    Table::create()
        .table("key_material")
        .col(text("name").primary_key())
        .col(text("sealed"))
        .col(timestamp_with_time_zone("created_at"))
        .to_owned()
}
