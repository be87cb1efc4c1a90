//! Boot.
