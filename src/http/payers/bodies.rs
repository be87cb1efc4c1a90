//! Bodies of the operations on payers.

use crate::{
    domain::{
        event::{AgreementStatus, KycStatus, PaymentDetailStatus},
        payer::{AccountType, BankAccount, Beneficiary, DescribedPayer, Rails, bank_rules::ungrouped},
    },
    http::{
        forms::text::{BIC, IBAN, IFSC, SORT_CODE, WRITTEN_LINE},
        operation::*,
    },
};
use chrono::NaiveDate;

words! {
    /// Person or company
    Beneficiary as "BeneficiaryType";
    /// How a bank account is paid: over the domestic network of the currency, by SWIFT, or by wire
    Rails as "Rails";
    /// What a bank account is used for
    AccountType as "AccountType";
    /// Identity status of a payer
    KycStatus as "KycStatus";
    /// Agreement status of a payer
    AgreementStatus as "AgreementStatus";
    /// Whether a bank account can be paid
    PaymentDetailStatus as "PaymentDetailStatus";
}

text! {
    /// E-mail address of a payer.
    PayerEmailText {
        pattern: r"^[^\s@\x00-\x1f\x7f-\x9f]{1,64}@[^\s@\x00-\x1f\x7f-\x9f]{1,252}$",
        length_max: 254,
        format: "email",
        example: "ada@example.com",
        hint: "must be an e-mail address of at most 254 characters, for example ada@example.com",
    }
    /// A part of a name.
    PersonNameText {
        pattern: WRITTEN_LINE,
        length_min: 1,
        length_max: 100,
        example: "Ada",
        hint: "must be one line of 1 to 100 characters, not only spaces, without control, invisible or text direction characters",
    }
    /// One line of details about a person.
    DetailText {
        pattern: WRITTEN_LINE,
        length_min: 1,
        length_max: 255,
        example: "12 Analytical Way",
        hint: "must be one line of 1 to 255 characters, not only spaces, without control, invisible or text direction characters",
    }
    /// A code or number in the format of its country.
    CodeText {
        pattern: WRITTEN_LINE,
        length_min: 1,
        length_max: 64,
        example: "10001",
        hint: "must be one line of 1 to 64 characters, not only spaces, without control, invisible or text direction characters",
    }
    /// A date, year first.
    BirthDateText {
        pattern: r"^\d{4}-\d{2}-\d{2}$",
        length_max: 10,
        format: "date",
        example: "1985-12-12",
        hint: "must be a past date from 1900 on, written as YYYY-MM-DD, for example 1985-12-12",
        holds: |text: &str| NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok(),
    }
    /// A page of the partner.
    PartnerPageText {
        pattern: r"^https?://\S+$",
        length_max: 2048,
        format: "uri",
        example: "https://verify.example.com/agreement/4f1c",
        hint: "must be a URL of at most 2048 characters",
    }
    /// Country, ISO 3166-1.
    CountryText {
        pattern: "^[A-Za-z]{2}$",
        length_min: 2,
        length_max: 2,
        example: "US",
        hint: "must be a two-letter country code (ISO 3166-1), for example US",
    }
    /// Phone number in E.164.
    PhoneText {
        pattern: r"^\+?[1-9]\d{1,14}$",
        length_max: 16,
        example: "+12125550123",
        hint: "must be a phone number of 2 to 15 digits with its country code, for example +12125550123",
    }
    /// Fiat currency, ISO 4217.
    FiatText {
        pattern: "^[A-Za-z]{3}$",
        length_min: 3,
        length_max: 3,
        example: "usd",
        hint: "must be a three-letter currency code, for example usd",
    }
    /// Account number or bank number.
    AccountNumberText {
        pattern: "^[A-Za-z0-9][A-Za-z0-9 -]{0,33}$",
        length_min: 1,
        length_max: 34,
        example: "1234567890",
        hint: "must have 1 to 34 letters, digits, spaces and dashes",
    }
    /// IBAN, grouped or not. The domain checks its check digits.
    IbanText {
        pattern: IBAN,
        length_max: 64,
        example: "DE89370400440532013000",
        hint: "must be an IBAN with a country code and two check digits",
    }
    /// BIC of a bank. The domain checks its country code.
    BicText {
        pattern: BIC,
        length_max: 64,
        example: "DEUTDEFF",
        hint: "must be a BIC of 8 or 11 letters and digits, with a country code in positions 5 and 6",
    }
    /// Sort code of a bank in the United Kingdom, grouped or not.
    SortCodeText {
        pattern: SORT_CODE,
        length_max: 64,
        example: "123456",
        hint: "must be a sort code of 6 digits, with or without dashes",
    }
    /// IFSC of a bank in India.
    IfscText {
        pattern: IFSC,
        length_max: 64,
        example: "SBIN0005943",
        hint: "must be an IFSC: 4 letters, 0, and 6 letters or digits",
    }
}

// Types that hold personal data have no `Debug`, so that they are never printed.

/// A payer to register.
#[derive(Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct RegisterPayerBody {
    /// Your own id of the payer, unique on the platform
    pub client_user_id: ClientUserIdText,
    /// E-mail address
    pub email: PayerEmailText,
    /// Given name. Example: `Ada`
    pub first_name: PersonNameText,
    /// Family name. Example: `Lovelace`
    pub last_name: PersonNameText,
    /// A person or a company
    pub beneficiary_type: Beneficiary,
    /// Name of the company. Example: `Engines Ltd`
    #[oai(nullable)]
    pub company_name: Option<DetailText>,
    /// Birth date, from 1900-01-01 to yesterday
    pub date_of_birth: BirthDateText,
    /// Street and number
    pub address_line1: DetailText,
    /// Second address line. Example: `Floor 3`
    #[oai(nullable)]
    pub address_line2: Option<DetailText>,
    /// City. Example: `New York`
    pub city: PersonNameText,
    /// State or province. Example: `NY`
    pub state: PersonNameText,
    /// Postal code
    pub postcode: CodeText,
    /// Country of residence
    pub country: CountryText,
    /// Nationality
    pub nationality: CountryText,
    /// Phone number
    pub phone: PhoneText,
    /// Social security number or the national equivalent; never returned. Example: `123456789`
    pub ssn: CodeText,
    /// Source of funds. Example: `Salary`
    #[oai(nullable)]
    pub source_of_funds: Option<DetailText>,
    /// Business of the company. Example: `Software`
    #[oai(nullable)]
    pub business_activity: Option<DetailText>,
}

impl Example for RegisterPayerBody {
    fn example() -> Self {
        Self {
            client_user_id: ClientUserIdText::example(),
            email: PayerEmailText::example(),
            first_name: PersonNameText::example(),
            last_name: PersonNameText::written("Lovelace"),
            beneficiary_type: Beneficiary::Individual,
            company_name: None,
            date_of_birth: BirthDateText::example(),
            address_line1: DetailText::example(),
            address_line2: None,
            city: PersonNameText::written("New York"),
            state: PersonNameText::written("NY"),
            postcode: CodeText::example(),
            country: CountryText::example(),
            nationality: CountryText::example(),
            phone: PhoneText::example(),
            ssn: CodeText::written("123456789"),
            source_of_funds: None,
            business_activity: None,
        }
    }
}

impl From<RegisterPayerBody> for DescribedPayer {
    fn from(body: RegisterPayerBody) -> Self {
        Self {
            email: body.email.into(),
            first_name: body.first_name.into(),
            last_name: body.last_name.into(),
            beneficiary: body.beneficiary_type,
            company_name: body.company_name.map(String::from),
            date_of_birth: body.date_of_birth.into(),
            address_line_1: body.address_line1.into(),
            address_line_2: body.address_line2.map(String::from),
            city: body.city.into(),
            state: body.state.into(),
            postcode: body.postcode.into(),
            country: body.country.as_str().to_ascii_uppercase(),
            nationality: body.nationality.as_str().to_ascii_uppercase(),
            phone: body.phone.into(),
            ssn: body.ssn.into(),
            source_of_funds: body.source_of_funds.map(String::from),
            business_activity: body.business_activity.map(String::from),
        }
    }
}

/// Identity and agreement status of a payer.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ComplianceStatus {
    /// Agreement status
    pub agreement_status: AgreementStatus,
    /// Identity status
    pub kyc_status: KycStatus,
}

/// A registered payer and its remaining steps.
#[derive(Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct PayerRegistered {
    /// Page where the payer agrees to the terms; absent when nothing is left to do
    pub agreement_url: Option<PartnerPageText>,
    /// Page where the payer proves their identity; absent when nothing is left to do. Example: `https://verify.example.com/identity/4f1c`
    pub kyc_url: Option<PartnerPageText>,
    /// Status
    pub status: ComplianceStatus,
    /// Id of the payer
    pub user_id: UuidText,
}

/// Status of a payer.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PayerStatus {
    /// Identity status
    pub kyc_status: KycStatus,
    /// Agreement status
    pub agreement_status: AgreementStatus,
    /// Whether the identity is approved and the agreement completed. Example: `false`
    pub is_compliant: bool,
    /// Id of the payer
    pub user_id: UuidText,
}

/// Agreement of a payer.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct UpdatePayerBody {
    /// Whether the payer agreed to the terms; false changes nothing. Example: `true`
    pub agreement_completed: bool,
}

/// A bank account.
#[derive(Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct PaymentDetailsBody {
    /// Name of the bank. Example: `First Example Bank`
    pub bank_name: DetailText,
    /// Name of the holder. Example: `Ada Lovelace`
    pub account_name: DetailText,
    /// Account number; needed for usd and gbp with the rails `local` or `wire`, and for inr
    #[oai(nullable)]
    pub account_number: Option<AccountNumberText>,
    /// Routing number of a bank in the United States, with its check digit; needed for usd with the rails `local` or
    /// `wire`. Example: `021000021`
    #[oai(nullable)]
    pub routing_number: Option<AccountNumberText>,
    /// A person or a company
    pub beneficiary_type: Beneficiary,
    /// Currency of the account, in upper or lower case
    pub currency: FiatText,
    /// Street and number of the holder
    pub address_line1: DetailText,
    /// Second address line. Example: `Floor 3`
    #[oai(nullable)]
    pub address_line2: Option<DetailText>,
    /// City. Example: `New York`
    pub city: PersonNameText,
    /// State or province; needed in the United States. Example: `NY`
    #[oai(nullable)]
    pub state: Option<PersonNameText>,
    /// Country of the holder
    pub country: CountryText,
    /// Birth date of the holder, from 1900-01-01 to yesterday; never returned
    pub date_of_birth: BirthDateText,
    /// Postal code
    pub postal_code: CodeText,
    /// Rails by which the account is paid; `local` when absent
    #[oai(nullable)]
    pub rails: Option<Rails>,
    /// Sort code of a bank in the United Kingdom, 6 digits; needed for gbp with the rails `local` or `wire`
    #[oai(nullable)]
    pub sort_code: Option<SortCodeText>,
    /// IBAN with its check digits; needed for eur, and for gbp with the rails `swift`
    #[oai(nullable)]
    pub iban: Option<IbanText>,
    /// BIC of the bank, 8 or 11 letters and digits; needed with the rails `swift`, and for inr
    #[oai(nullable)]
    pub swift_bic: Option<BicText>,
    /// Number of an identity document; never returned. Example: `X1234567`
    #[oai(nullable)]
    pub document_number: Option<CodeText>,
    /// Type of the identity document. Example: `passport`
    #[oai(nullable)]
    pub document_type: Option<CodeText>,
    /// What the account is used for
    #[oai(nullable)]
    pub account_type: Option<AccountType>,
    /// RIB number. Example: `30004000031234567890143`
    #[oai(nullable)]
    pub rib_number: Option<CodeText>,
    /// BSB number of a bank in Australia. Example: `062000`
    #[oai(nullable)]
    pub bsb_number: Option<CodeText>,
    /// National clearing code. Example: `026009593`
    #[oai(nullable)]
    pub ncc: Option<CodeText>,
    /// Branch code. Example: `00003`
    #[oai(nullable)]
    pub branch_code: Option<CodeText>,
    /// Bank code. Example: `30004`
    #[oai(nullable)]
    pub bank_code: Option<CodeText>,
    /// IFSC of a bank in India; needed for inr
    #[oai(nullable)]
    pub ifsc: Option<IfscText>,
}

impl Example for PaymentDetailsBody {
    fn example() -> Self {
        Self {
            bank_name: DetailText::written("First Example Bank"),
            account_name: DetailText::written("Ada Lovelace"),
            account_number: Some(AccountNumberText::example()),
            routing_number: Some(AccountNumberText::written("021000021")),
            beneficiary_type: Beneficiary::Individual,
            currency: FiatText::example(),
            address_line1: DetailText::example(),
            address_line2: None,
            city: PersonNameText::written("New York"),
            state: Some(PersonNameText::written("NY")),
            country: CountryText::example(),
            date_of_birth: BirthDateText::example(),
            postal_code: CodeText::example(),
            rails: Some(Rails::Local),
            sort_code: None,
            iban: None,
            swift_bic: None,
            document_number: None,
            document_type: None,
            account_type: None,
            rib_number: None,
            bsb_number: None,
            ncc: None,
            branch_code: None,
            bank_code: None,
            ifsc: None,
        }
    }
}

impl From<PaymentDetailsBody> for BankAccount {
    fn from(body: PaymentDetailsBody) -> Self {
        let capitals = |text: String| text.to_ascii_uppercase();
        let plain = |text: String| ungrouped(&text);
        Self {
            bank_name: body.bank_name.into(),
            account_name: body.account_name.into(),
            account_number: body.account_number.map(String::from),
            routing_number: body.routing_number.map(String::from),
            beneficiary: body.beneficiary_type,
            currency: body.currency.as_str().to_ascii_lowercase(),
            address_line_1: body.address_line1.into(),
            address_line_2: body.address_line2.map(String::from),
            city: body.city.into(),
            state: body.state.map(String::from),
            country: body.country.as_str().to_ascii_uppercase(),
            date_of_birth: body.date_of_birth.into(),
            postal_code: body.postal_code.into(),
            rails: body.rails.unwrap_or(Rails::Local),
            sort_code: body.sort_code.map(String::from).map(plain),
            iban: body.iban.map(String::from).map(plain),
            swift_bic: body.swift_bic.map(String::from).map(capitals),
            document_number: body.document_number.map(String::from),
            document_type: body.document_type.map(String::from),
            account_type: body.account_type,
            rib_number: body.rib_number.map(String::from),
            bsb_number: body.bsb_number.map(String::from),
            ncc: body.ncc.map(String::from),
            branch_code: body.branch_code.map(String::from),
            bank_code: body.bank_code.map(String::from),
            ifsc: body.ifsc.map(String::from).map(capitals),
        }
    }
}

/// An added bank account.
#[derive(Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct AddedPaymentDetail {
    /// Id of the account: the `paymentDetailsId` of a payment
    pub id: UuidText,
    /// Your own id of the payer
    pub client_user_id: ClientUserIdText,
    /// Name of the bank. Example: `First Example Bank`
    pub bank_name: DetailText,
    /// Name of the holder. Example: `Ada Lovelace`
    pub account_name: DetailText,
    /// Currency, in lower case
    pub currency: FiatText,
    /// A person or a company
    pub beneficiary_type: Beneficiary,
}

/// A bank account added to a payer.
#[derive(Clone, Object)]
pub struct PaymentDetailsAdded {
    /// The account
    pub payment_detail: AddedPaymentDetail,
}

/// A bank account of a payer.
#[derive(Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PaymentDetail {
    /// Id of the account
    pub id: UuidText,
    /// Id of the payer
    pub user_id: UuidText,
    /// Name of the bank. Example: `First Example Bank`
    pub bank_name: DetailText,
    /// Name of the holder. Example: `Ada Lovelace`
    pub account_name: DetailText,
    /// A person or a company
    pub beneficiary_type: Beneficiary,
    /// Account number, or the IBAN if the account has no account number. If the service masks numbers, asterisks
    /// replace all but the last four characters. Example: `******7890`
    #[oai(validator(max_length = 34))]
    pub account_number: String,
    /// Routing number, sort code, IFSC or BIC of the bank; empty if the account has none of these. Example: `021000021`
    #[oai(validator(max_length = 34))]
    pub routing_number: String,
    /// IBAN; null if the account has no IBAN. If the service masks numbers, asterisks replace all but the last four
    /// characters. Example: `******************3000`
    #[oai(validator(max_length = 34))]
    pub iban: OrNull<String>,
    /// Currency, in lower case
    pub currency: FiatText,
    /// Whether the account can be paid
    pub status: PaymentDetailStatus,
    /// How it is paid
    pub rails: Rails,
}

/// Bank accounts of a payer.
#[derive(Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PaymentDetailList {
    /// The accounts, oldest first
    #[oai(validator(max_items = 1000))]
    pub payment_details: Vec<PaymentDetail>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::payer::bank_rules::broken;
    use regex::Regex;

    #[test]
    fn the_documented_patterns_match_the_bank_account_rules() {
        let of = |part: &str, pattern: &str, right: &[&str], wrong: &[&str]| {
            let form = Regex::new(pattern).unwrap();
            let is_right = |text: &str| {
                let errors = broken(|name| (name == part).then_some(text));
                !errors.iter().any(|error| error.field == part)
            };
            for text in right {
                assert!(form.is_match(text) && is_right(text), "{part} {text}");
            }
            for text in wrong {
                assert!(!form.is_match(text) && !is_right(text), "{part} {text}");
            }
        };
        let german = [
            "DE89370400440532013000",
            "de89 3704 0044 0532 0130 00",
            " -DE8-9370400440532013000-",
        ];
        of(
            "iban",
            IBAN,
            &german,
            &["DE8937040044", "8937040044053201300000", "DE89_370400440532013000", " "],
        );
        of(
            "swiftBic",
            BIC,
            &["DEUTDEFF", "deutdeff500"],
            &["DEUTDEF", "DEUT1EFF", "DEUT-EFF", "DEUTDEFF50"],
        );
        of(
            "sortCode",
            SORT_CODE,
            &["123456", "12-34-56", "1 2 3 4 5 6 "],
            &["12345", "1234567", "12345a", "-"],
        );
        of(
            "ifsc",
            IFSC,
            &["SBIN0005943", "hdfc0000001"],
            &["SBIN1005943", "SBI00005943", "SBIN000594"],
        );
    }
}
