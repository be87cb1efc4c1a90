//! What the verbs and the crash test have in common.

pub mod machine;
pub mod service;
