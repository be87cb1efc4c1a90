//! Whether rows that a version before wrote are left to be moved, as connections know it.

use sea_orm::ConnectionTrait;

/// A connection that remembers that no row of before is left: none is ever written again, so that they need not be looked
/// for any more.
pub trait Moving: ConnectionTrait {
    /// Whether none is left for sure.
    fn is_moved(&self) -> bool;
    /// Remembers that none is left. A transaction does not: what it moved comes back when it is undone.
    fn note_moved(&self);
}
