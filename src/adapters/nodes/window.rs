//! The number of blocks per query that each node accepts. The service learns it from errors, because every provider has
//! its own limit.

/// Initial width.
const WIDTH_START: u64 = 2_000;

/// Maximum width.
const WIDTH_MAX: u64 = 10_000;

/// Number of complete responses at the learned limit after which the service tries a query over more blocks.
const ANSWERS_UNTIL_RETRY: u32 = 64;

/// Why a query has to cover fewer blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::adapters) enum NarrowingCause {
    /// The node named a limit.
    Limit,
    /// The node rejected the query, because of a limit or too many calls.
    Unclear,
    /// The node timed out or failed, which may be temporary.
    Slow,
}

/// The number of blocks that one node was found to accept.
#[derive(Debug)]
pub(in crate::adapters) struct RangeWindow {
    width: u64,
    ceiling: u64,
    answers_at_ceiling: u32,
}

impl Default for RangeWindow {
    fn default() -> Self {
        Self {
            width: WIDTH_START,
            ceiling: WIDTH_MAX,
            answers_at_ceiling: 0,
        }
    }
}

impl RangeWindow {
    /// Number of blocks to query.
    pub(in crate::adapters) fn width(&self) -> u64 {
        self.width
    }

    /// A query over `asked` blocks returned a complete response.
    pub(in crate::adapters) fn answered(&mut self, asked: u64) {
        if asked < self.width {
            return;
        }
        if self.width < self.ceiling {
            self.width = (self.width + self.width / 4 + 1).min(self.ceiling);
            return;
        }
        self.answers_at_ceiling += 1;
        if self.answers_at_ceiling >= ANSWERS_UNTIL_RETRY {
            self.answers_at_ceiling = 0;
            self.ceiling = (self.ceiling + self.ceiling / 4 + 1).min(WIDTH_MAX);
        }
    }

    /// A query over `asked` blocks was rejected.
    pub(in crate::adapters) fn refused(&mut self, asked: u64, why: NarrowingCause) {
        self.answers_at_ceiling = 0;
        self.width = match why {
            NarrowingCause::Limit | NarrowingCause::Slow => asked / 2,
            NarrowingCause::Unclear => asked / 8,
        }
        .max(1);
        if why == NarrowingCause::Limit {
            self.ceiling = self.width;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_found_and_remembered() {
        const LIMIT: u64 = 10;
        let mut window = RangeWindow::default();
        let mut refusals = 0;
        for _ in 0..500 {
            let asked = window.width();
            if asked > LIMIT {
                refusals += 1;
                window.refused(asked, NarrowingCause::Limit);
            } else {
                window.answered(asked);
            }
        }
        assert!(refusals < 20, "{refusals} refusals");
        assert!((LIMIT / 2..=LIMIT + LIMIT / 4 + 1).contains(&window.width()));
    }

    #[test]
    fn a_slow_response_does_not_lower_the_ceiling() {
        let mut window = RangeWindow::default();
        window.refused(window.width(), NarrowingCause::Slow);
        assert_eq!(window.width(), WIDTH_START / 2);
        for _ in 0..50 {
            window.answered(window.width());
        }
        assert_eq!(window.width(), WIDTH_MAX);
    }

    #[test]
    fn short_queries_do_not_change_the_window() {
        let mut window = RangeWindow::default();
        window.answered(1);
        assert_eq!(window.width(), WIDTH_START);
    }
}
