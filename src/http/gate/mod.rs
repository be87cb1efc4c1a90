//! Who may call: credentials, the operations that each opens, the rules for pages of browsers, and how often.

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
