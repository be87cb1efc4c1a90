//! Who calls.

pub mod identify;
