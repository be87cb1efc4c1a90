//! Payers: their data, and their status at the partner that verifies them and pays their bank accounts.

pub mod account;
pub mod asking;
pub mod bank_rules;
pub mod birth;
pub mod compliance;
mod form;
mod record;
pub mod standing;

pub use form::{ACCOUNT_FIELDS, AccountType, BankAccount, Beneficiary, DescribedPayer, PERSON_FIELDS, Rails};
pub use record::{AccountDetails, CompliancePayer, PayableBy, PayerDetails, PayerRegistration, RegisteredAccount};
