//! Local chain.
