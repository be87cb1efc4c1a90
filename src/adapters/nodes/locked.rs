//! Access to small values that several calls share. A panic in one call does not poison the mutex for the others.

use std::sync::{Mutex, PoisonError};

/// The value.
pub(in crate::adapters) fn locked<T: Copy>(mutex: &Mutex<T>) -> T {
    *mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Replaces the value.
pub(in crate::adapters) fn store<T>(mutex: &Mutex<T>, value: T) {
    *mutex.lock().unwrap_or_else(PoisonError::into_inner) = value;
}
