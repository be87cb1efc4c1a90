//! The text form of the personal data of a payer or the holder of a bank account, before it is encrypted.

use super::StoreError;
use crate::domain::{
    event::ForeignJson,
    payer::{AccountDetails, AccountType, BankAccount, Beneficiary, DescribedPayer, PayerDetails, Rails},
};
use anyhow::anyhow;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// [`PayerDetails`] as text.
#[derive(Serialize, Deserialize)]
struct EncodedPayer {
    client_user_id: String,
    #[serde(with = "PersonText")]
    person: DescribedPayer,
    partner: String,
    #[serde(default)]
    kyc_url: Option<String>,
    #[serde(default)]
    agreement_url: Option<String>,
}

/// [`AccountDetails`] as text.
#[derive(Serialize, Deserialize)]
struct AccountText {
    #[serde(with = "BankAccountText")]
    account: BankAccount,
    partner: String,
    #[serde(default)]
    rejection: Option<String>,
    raw: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "DescribedPayer")]
struct PersonText {
    email: String,
    first_name: String,
    last_name: String,
    #[serde(with = "beneficiary")]
    beneficiary: Beneficiary,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    company_name: Option<String>,
    date_of_birth: String,
    address_line_1: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address_line_2: Option<String>,
    city: String,
    state: String,
    postcode: String,
    country: String,
    nationality: String,
    phone: String,
    ssn: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source_of_funds: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    business_activity: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "BankAccount")]
struct BankAccountText {
    bank_name: String,
    account_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    account_number: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    routing_number: Option<String>,
    #[serde(with = "beneficiary")]
    beneficiary: Beneficiary,
    currency: String,
    address_line_1: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address_line_2: Option<String>,
    city: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    country: String,
    date_of_birth: String,
    postal_code: String,
    #[serde(with = "rails")]
    rails: Rails,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sort_code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    iban: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    swift_bic: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    document_number: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    document_type: Option<String>,
    #[serde(with = "account_type", default)]
    account_type: Option<AccountType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rib_number: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bsb_number: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ncc: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    branch_code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bank_code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ifsc: Option<String>,
}

/// Values of an enumeration as their texts.
macro_rules! as_text {
    ($($module:ident: $list:ty;)+) => {$(
        mod $module {
            use super::*;
            use serde::{Deserializer, Serializer, de::Error};

            pub(super) fn serialize<S: Serializer>(value: &$list, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(value.wire())
            }

            pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<$list, D::Error> {
                let text = String::deserialize(from)?;
                <$list>::from_wire(&text).ok_or_else(|| D::Error::custom("an unknown value"))
            }
        }
    )+};
}

as_text! {
    beneficiary: Beneficiary;
    rails: Rails;
}

mod account_type {
    use super::*;
    use serde::{Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(value: &Option<AccountType>, to: S) -> Result<S::Ok, S::Error> {
        value.map(AccountType::wire).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<AccountType>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        let read = |text: String| AccountType::from_wire(&text).ok_or_else(|| D::Error::custom("an unknown value"));
        text.map(read).transpose()
    }
}

pub(super) fn write_payer(details: &PayerDetails) -> Result<String, StoreError> {
    write(&EncodedPayer {
        client_user_id: details.client_user_id.clone(),
        person: details.person.clone(),
        partner: details.partner.clone(),
        kyc_url: details.kyc_url.clone(),
        agreement_url: details.agreement_url.clone(),
    })
}

pub(super) fn read_payer(text: &str) -> Result<PayerDetails, StoreError> {
    let read: EncodedPayer = read(text)?;
    Ok(PayerDetails {
        client_user_id: read.client_user_id,
        person: read.person,
        partner: read.partner,
        kyc_url: read.kyc_url,
        agreement_url: read.agreement_url,
    })
}

pub(super) fn write_account(details: &AccountDetails) -> Result<String, StoreError> {
    write(&AccountText {
        account: details.account.clone(),
        partner: details.partner.clone(),
        rejection: details.rejection.clone(),
        raw: details.raw.0.clone(),
    })
}

pub(super) fn read_account(text: &str) -> Result<AccountDetails, StoreError> {
    let read: AccountText = read(text)?;
    Ok(AccountDetails {
        account: read.account,
        partner: read.partner,
        rejection: read.rejection,
        raw: ForeignJson(read.raw),
    })
}

/// The text form of a bank account alone; equal accounts have equal texts.
pub(super) fn write_bank_account(account: &BankAccount) -> Result<String, StoreError> {
    #[derive(Serialize)]
    struct BankAccountContent<'a>(#[serde(serialize_with = "BankAccountText::serialize")] &'a BankAccount);
    write(&BankAccountContent(account))
}

fn write(value: &impl Serialize) -> Result<String, StoreError> {
    // The error message may contain a value.
    serde_json::to_string(value).map_err(|_| StoreError::Broken(anyhow!("the details of a payer cannot be serialised")))
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text)
        .map_err(|_| StoreError::Broken(anyhow!("the details of a payer have an unexpected structure")))
}
