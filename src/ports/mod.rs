//! Interfaces to external systems in domain terms. Each trait has a real implementation; tests and `prs dev` use
//! others.

pub mod chain;
pub mod clock;
pub mod guesses;
pub mod ids;
pub mod off_ramp;
pub mod outbound;
pub mod passwords;
pub mod rates;
pub mod relay;
pub mod sandbox;
pub mod screening;
pub mod sealer;
