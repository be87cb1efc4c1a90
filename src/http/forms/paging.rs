//! Paging: parameters are strings, results are whole numbers.

use crate::{
    domain::refusal::Checks,
    http::forms::wire::{Checked, LimitText, OffsetText},
};
use poem_openapi::Object;

/// Default page size. Source: decisions D14.
const LIMIT_DEFAULT: u64 = 20;

/// Position of a page in a list.
#[derive(Debug, Clone, Object)]
#[oai(rename = "Pagination", rename_all = "camelCase")]
pub struct PageRange {
    /// Number of matches. The service counts at most 10000 of them, so 10000 means 10000 or more. Only a payment search
    /// that filters by nothing except wallet, kind and currencies returns an exact number above 10000. Example: `1`
    pub total: u64,
    /// Page size. Example: `20`
    pub limit: u64,
    /// Rows before the page. Example: `0`
    pub offset: u64,
    /// Whether there are more rows after the page. Example: `false`
    pub has_more: bool,
}

impl PageRange {
    /// Creates the position of a page.
    pub fn new(total: u64, limit: u64, offset: u64, has_more: bool) -> Self {
        Self {
            total,
            limit,
            offset,
            has_more,
        }
    }
}

/// Reads `limit`.
pub fn page_limit(limit: Checked<LimitText>, checks: &mut Checks) -> u64 {
    limit.take(checks).map_or(LIMIT_DEFAULT, |text| text.number())
}

/// Reads `limit` and `offset`.
pub fn limit_offset(limit: Checked<LimitText>, offset: Checked<OffsetText>, checks: &mut Checks) -> (u64, u64) {
    let limit = page_limit(limit, checks);
    (limit, offset.take(checks).map_or(0, |text| text.number()))
}
