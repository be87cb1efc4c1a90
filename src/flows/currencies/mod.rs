//! The currency catalogue, as the API returns it.

pub mod list;
pub mod routes;
