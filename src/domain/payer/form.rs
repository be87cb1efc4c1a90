//! Personal data that a tenant submits about a payer and a bank account. It is never printed.

use crate::domain::wire_text::wire_text;
use std::fmt;

wire_text! {
    /// Who receives the money. Source: interface §4.5.
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
        /// Over the domestic network of the currency.
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

/// A payer, as the tenant describes them; every text follows the rules of its field.
#[derive(Clone, PartialEq, Eq)]
pub struct DescribedPayer {
    /// E-mail address.
    pub email: String,
    /// Given name.
    pub first_name: String,
    /// Family name.
    pub last_name: String,
    /// Whether the payer is a person or a company.
    pub beneficiary: Beneficiary,
    /// Name of the company.
    pub company_name: Option<String>,
    /// Birth date, as `YYYY-MM-DD`.
    pub date_of_birth: String,
    /// Street and number.
    pub address_line_1: String,
    /// Second address line.
    pub address_line_2: Option<String>,
    /// City.
    pub city: String,
    /// State or province.
    pub state: String,
    /// Postal code.
    pub postcode: String,
    /// Country of residence, two upper-case letters.
    pub country: String,
    /// Nationality, two upper-case letters.
    pub nationality: String,
    /// Phone number in E.164.
    pub phone: String,
    /// Social security number or the national equivalent.
    pub ssn: String,
    /// Source of funds.
    pub source_of_funds: Option<String>,
    /// Business of the company.
    pub business_activity: Option<String>,
}

/// A bank account, as the tenant describes it; its fields follow the rules of its currency and rails.
#[derive(Clone, PartialEq, Eq)]
pub struct BankAccount {
    /// Name of the bank.
    pub bank_name: String,
    /// Name of the holder.
    pub account_name: String,
    /// Account number.
    pub account_number: Option<String>,
    /// Routing number of a bank in the United States.
    pub routing_number: Option<String>,
    /// Whether the holder is a person or a company.
    pub beneficiary: Beneficiary,
    /// ISO 4217 code in lower case.
    pub currency: String,
    /// Street and number.
    pub address_line_1: String,
    /// Second address line.
    pub address_line_2: Option<String>,
    /// City.
    pub city: String,
    /// State or province.
    pub state: Option<String>,
    /// Country of the holder, two upper-case letters.
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
    /// Type of that document.
    pub document_type: Option<String>,
    /// What the account is used for.
    pub account_type: Option<AccountType>,
    /// RIB number.
    pub rib_number: Option<String>,
    /// BSB number of a bank in Australia.
    pub bsb_number: Option<String>,
    /// National clearing code.
    pub ncc: Option<String>,
    /// Branch code.
    pub branch_code: Option<String>,
    /// Bank code.
    pub bank_code: Option<String>,
    /// IFSC of a bank in India.
    pub ifsc: Option<String>,
}

/// Names of the fields of a payer, the same for tenant and partner.
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

/// Names of the fields of a bank account, the same for tenant and partner.
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

impl fmt::Debug for DescribedPayer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Person")
    }
}

impl fmt::Debug for BankAccount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("BankAccount")
    }
}
