//! Entities.
