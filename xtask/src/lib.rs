//! Code that the xtask commands and the crash test share.

pub mod machine;
pub mod service;
