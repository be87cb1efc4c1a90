//! Payers: who they are to a tenant, and to the partner that proves them and pays their bank accounts.

mod form;

pub use form::{AccountType, BankAccount, Beneficiary, Person, Rails};
