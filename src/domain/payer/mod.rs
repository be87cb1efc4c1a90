//! Payers: who they are to a tenant, and to the partner that proves them and pays their bank accounts.

pub mod account;
pub mod asking;
pub mod bank_rules;
pub mod birth;
pub mod compliance;
mod form;
mod record;
pub mod standing;

pub use form::{ACCOUNT_FIELDS, AccountType, BankAccount, Beneficiary, PERSON_FIELDS, Person, Rails};
pub use record::{AccountDetails, PayableBy, Payer, PayerDetails, PayerRegistration, RegisteredAccount};
