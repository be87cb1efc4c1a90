//! What a tenant tells about a payer and a bank account. All of it names a person: it does not print.

use crate::domain::wire_text::wire_text;
use std::fmt;

wire_text! {
    /// Who gets the money. Source: interface §4.5.
    pub enum Beneficiary {
        /// A person.
        Individual = "individual",
        /// A company.
        Business = "business",
    }
}

wire_text! {
    /// How a bank account is paid. Source: interface §4.5.
    pub enum Rails {
        /// By the network of the currency's own country.
        Local = "local",
        /// By SWIFT.
        Swift = "swift",
        /// By wire.
        Wire = "wire",
    }
}

wire_text! {
    /// What a bank account is used for. Source: interface §4.5.
    pub enum AccountType {
        /// For payments.
        Checking = "checking",
        /// For savings.
        Savings = "savings",
    }
}

/// A payer, as the tenant describes one; every text keeps to the rules of its field.
#[derive(Clone, PartialEq, Eq)]
pub struct Person {
    /// E-mail address.
    pub email: String,
    /// Given name.
    pub first_name: String,
    /// Family name.
    pub last_name: String,
    /// Whether it is a person or a company.
    pub beneficiary: Beneficiary,
    /// Name of the company.
    pub company_name: Option<String>,
    /// Birth date, as `YYYY-MM-DD`.
    pub date_of_birth: String,
    /// Street and number.
    pub address_line_1: String,
    /// What the first line has no room for.
    pub address_line_2: Option<String>,
    /// Town.
    pub city: String,
    /// State or province.
    pub state: String,
    /// Postal code.
    pub postcode: String,
    /// Country of residence, two capital letters.
    pub country: String,
    /// Nationality, two capital letters.
    pub nationality: String,
    /// Phone number in E.164.
    pub phone: String,
    /// Social security number, or what the country has in its place.
    pub ssn: String,
    /// Where the money comes from.
    pub source_of_funds: Option<String>,
    /// What the company does.
    pub business_activity: Option<String>,
}

/// A bank account, as the tenant describes one; the parts keep to the rules of its currency and rails.
#[derive(Clone, PartialEq, Eq)]
pub struct BankAccount {
    /// Name of the bank.
    pub bank_name: String,
    /// Name of the holder.
    pub account_name: String,
    /// Number of the account.
    pub account_number: Option<String>,
    /// Routing number of a bank in the United States.
    pub routing_number: Option<String>,
    /// Whether the holder is a person or a company.
    pub beneficiary: Beneficiary,
    /// ISO 4217 code in lower case.
    pub currency: String,
    /// Street and number.
    pub address_line_1: String,
    /// What the first line has no room for.
    pub address_line_2: Option<String>,
    /// Town.
    pub city: String,
    /// State or province.
    pub state: Option<String>,
    /// Country of the holder, two capital letters.
    pub country: String,
    /// Birth date of the holder, as `YYYY-MM-DD`.
    pub date_of_birth: String,
    /// Postal code.
    pub postal_code: String,
    /// How it is paid.
    pub rails: Rails,
    /// Sort code of a bank in the United Kingdom.
    pub sort_code: Option<String>,
    /// IBAN.
    pub iban: Option<String>,
    /// BIC of the bank.
    pub swift_bic: Option<String>,
    /// Number of an identity document.
    pub document_number: Option<String>,
    /// Kind of that document.
    pub document_type: Option<String>,
    /// What the account is used for.
    pub account_type: Option<AccountType>,
    /// RIB number.
    pub rib_number: Option<String>,
    /// BSB number of a bank in Australia.
    pub bsb_number: Option<String>,
    /// National clearing code.
    pub ncc: Option<String>,
    /// Code of the branch.
    pub branch_code: Option<String>,
    /// Code of the bank.
    pub bank_code: Option<String>,
    /// IFSC of a bank in India.
    pub ifsc: Option<String>,
}

/// Members of the form of a payer, as both tenant and partner write them.
pub const PERSON_FIELDS: [&str; 17] = [
    "email",
    "firstName",
    "lastName",
    "beneficiaryType",
    "companyName",
    "dateOfBirth",
    "addressLine1",
    "addressLine2",
    "city",
    "state",
    "postcode",
    "country",
    "nationality",
    "phone",
    "ssn",
    "sourceOfFunds",
    "businessActivity",
];

/// Members of the form of a bank account, as both tenant and partner write them.
pub const ACCOUNT_FIELDS: [&str; 26] = [
    "bankName",
    "accountName",
    "accountNumber",
    "routingNumber",
    "beneficiaryType",
    "currency",
    "addressLine1",
    "addressLine2",
    "city",
    "state",
    "country",
    "dateOfBirth",
    "postalCode",
    "rails",
    "sortCode",
    "iban",
    "swiftBic",
    "documentNumber",
    "documentType",
    "accountType",
    "ribNumber",
    "bsbNumber",
    "ncc",
    "branchCode",
    "bankCode",
    "ifsc",
];

impl fmt::Debug for Person {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Person")
    }
}

impl fmt::Debug for BankAccount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("BankAccount")
    }
}
