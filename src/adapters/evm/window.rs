//! How many blocks one node answers for at once: learned from its refusals, since every provider has its own limit.

/// Width that a node is first asked for.
const WIDTH_START: u64 = 2_000;

/// Widest question.
const WIDTH_MAX: u64 = 10_000;

/// Full answers at the ceiling after which a wider question is dared again.
const ANSWERS_UNTIL_RETRY: u32 = 64;

/// Why a question has to be narrower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Narrower {
    /// The node named a limit.
    Limit,
    /// The node refused for a reason that may be a limit and may be too many calls.
    Unclear,
    /// The node took too long or broke down over it, which may pass.
    Slow,
}

/// The learned width of one node.
#[derive(Debug)]
pub(super) struct Window {
    width: u64,
    ceiling: u64,
    answers_at_ceiling: u32,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            width: WIDTH_START,
            ceiling: WIDTH_MAX,
            answers_at_ceiling: 0,
        }
    }
}

impl Window {
    /// Blocks to ask for.
    pub(super) fn width(&self) -> u64 {
        self.width
    }

    /// A question over `asked` blocks was answered in full.
    pub(super) fn answered(&mut self, asked: u64) {
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

    /// A question over `asked` blocks was refused.
    pub(super) fn refused(&mut self, asked: u64, why: Narrower) {
        self.answers_at_ceiling = 0;
        self.width = match why {
            Narrower::Limit | Narrower::Slow => asked / 2,
            Narrower::Unclear => asked / 8,
        }
        .max(1);
        if why == Narrower::Limit {
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
        let mut window = Window::default();
        let mut refusals = 0;
        for _ in 0..500 {
            let asked = window.width();
            if asked > LIMIT {
                refusals += 1;
                window.refused(asked, Narrower::Limit);
            } else {
                window.answered(asked);
            }
        }
        assert!(refusals < 20, "{refusals} refusals");
        assert!((LIMIT / 2..=LIMIT + LIMIT / 4 + 1).contains(&window.width()));
    }

    #[test]
    fn a_slow_answer_does_not_lower_the_ceiling() {
        let mut window = Window::default();
        window.refused(window.width(), Narrower::Slow);
        assert_eq!(window.width(), WIDTH_START / 2);
        for _ in 0..50 {
            window.answered(window.width());
        }
        assert_eq!(window.width(), WIDTH_MAX);
    }

    #[test]
    fn short_questions_teach_nothing() {
        let mut window = Window::default();
        window.answered(1);
        assert_eq!(window.width(), WIDTH_START);
    }
}
