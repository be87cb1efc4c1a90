//! Paging: strings on the way in, whole numbers on the way out.

use crate::{
    domain::refusal::Checks,
    http::forms::wire::{Checked, LimitText, OffsetText},
};
use poem_openapi::Object;

/// Page size when none is asked for. Source: decisions D14.
const LIMIT_DEFAULT: u64 = 20;

/// Where a page lies.
#[derive(Debug, Clone, Object)]
#[oai(rename = "Pagination", rename_all = "camelCase")]
pub struct Page {
    /// Number of matches. In a search of payments 10000 may stand for more: above that it is exact by wallet, kind and
    /// currencies without dates. Example: `1`
    pub total: u64,
    /// Page size. Example: `20`
    pub limit: u64,
    /// Rows before the page. Example: `0`
    pub offset: u64,
    /// Whether there are more rows after the page. Example: `false`
    pub has_more: bool,
}

impl Page {
    /// Where a page of some matches lies.
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
