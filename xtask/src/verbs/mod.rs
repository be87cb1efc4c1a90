//! One file for each command of `cargo xtask`.

pub(crate) mod advisories;
pub(crate) mod artifacts;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod clients;
pub(crate) mod deny;
pub(crate) mod dev;
pub(crate) mod fuzz;
pub(crate) mod lint;
pub(crate) mod member;
pub(crate) mod openapi;
pub(crate) mod page;
pub(crate) mod plans;
pub(crate) mod schema;
pub(crate) mod test;
pub(crate) mod tidy;
