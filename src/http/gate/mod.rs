//! Access control: credentials, access table, rules for browser pages, and rate limits.

pub mod access;
pub mod address;
pub mod cookie;
pub mod extractor;
pub mod identify;
pub mod page;
pub mod places;
pub mod rate_limits;
pub mod scheme;
pub mod signing;
