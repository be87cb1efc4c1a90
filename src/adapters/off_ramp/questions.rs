//! Request bodies for the partner. Members without a value are omitted.

use crate::{
    domain::payer::{BankAccount, DescribedPayer},
    ports::off_ramp::{OrderQuestion, QuoteQuestion},
};
use serde::Serialize;

/// A payer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PersonBody<'a> {
    email: &'a str,
    first_name: &'a str,
    last_name: &'a str,
    beneficiary_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    company_name: Option<&'a str>,
    date_of_birth: &'a str,
    address_line1: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    address_line2: Option<&'a str>,
    city: &'a str,
    state: &'a str,
    postcode: &'a str,
    country: &'a str,
    nationality: &'a str,
    phone: &'a str,
    ssn: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_of_funds: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    business_activity: Option<&'a str>,
}

impl<'a> From<&'a DescribedPayer> for PersonBody<'a> {
    fn from(person: &'a DescribedPayer) -> Self {
        Self {
            email: &person.email,
            first_name: &person.first_name,
            last_name: &person.last_name,
            beneficiary_type: person.beneficiary.wire(),
            company_name: person.company_name.as_deref(),
            date_of_birth: &person.date_of_birth,
            address_line1: &person.address_line_1,
            address_line2: person.address_line_2.as_deref(),
            city: &person.city,
            state: &person.state,
            postcode: &person.postcode,
            country: &person.country,
            nationality: &person.nationality,
            phone: &person.phone,
            ssn: &person.ssn,
            source_of_funds: person.source_of_funds.as_deref(),
            business_activity: person.business_activity.as_deref(),
        }
    }
}

/// A bank account.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BankAccountBody<'a> {
    bank_name: &'a str,
    account_name: &'a str,
    beneficiary_type: &'static str,
    currency: &'a str,
    rails: &'static str,
    date_of_birth: &'a str,
    address_line1: &'a str,
    city: &'a str,
    country: &'a str,
    postal_code: &'a str,
    #[serde(flatten)]
    further: FurtherBody<'a>,
}

/// Fields that only some currencies and rails need.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FurtherBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    address_line2: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    account_number: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    routing_number: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sort_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iban: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    swift_bic: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document_number: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    account_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rib_number: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bsb_number: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ncc: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bank_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ifsc: Option<&'a str>,
}

impl<'a> From<&'a BankAccount> for BankAccountBody<'a> {
    fn from(account: &'a BankAccount) -> Self {
        Self {
            bank_name: &account.bank_name,
            account_name: &account.account_name,
            beneficiary_type: account.beneficiary.wire(),
            currency: &account.currency,
            rails: account.rails.wire(),
            date_of_birth: &account.date_of_birth,
            address_line1: &account.address_line_1,
            city: &account.city,
            country: &account.country,
            postal_code: &account.postal_code,
            further: FurtherBody {
                address_line2: account.address_line_2.as_deref(),
                state: account.state.as_deref(),
                account_number: account.account_number.as_deref(),
                routing_number: account.routing_number.as_deref(),
                sort_code: account.sort_code.as_deref(),
                iban: account.iban.as_deref(),
                swift_bic: account.swift_bic.as_deref(),
                document_number: account.document_number.as_deref(),
                document_type: account.document_type.as_deref(),
                account_type: account.account_type.map(|kind| kind.wire()),
                rib_number: account.rib_number.as_deref(),
                bsb_number: account.bsb_number.as_deref(),
                ncc: account.ncc.as_deref(),
                branch_code: account.branch_code.as_deref(),
                bank_code: account.bank_code.as_deref(),
                ifsc: account.ifsc.as_deref(),
            },
        }
    }
}

/// Reports that a payer agreed.
#[derive(Serialize)]
pub(super) struct AgreementBody {
    pub(super) completed: bool,
}

/// Request of a quote.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct QuoteBody<'a> {
    payer_id: &'a str,
    account_id: &'a str,
    network: &'static str,
    token: String,
    amount: &'a str,
    currency: &'a str,
}

impl<'a> From<&'a QuoteQuestion> for QuoteBody<'a> {
    fn from(question: &'a QuoteQuestion) -> Self {
        Self {
            payer_id: &question.payer,
            account_id: &question.account,
            network: question.network.id(),
            token: question.token.to_string(),
            amount: question.amount.as_str(),
            currency: &question.currency,
        }
    }
}

/// Request to open an order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OrderBody<'a> {
    quote_id: &'a str,
    payer_id: &'a str,
    account_id: &'a str,
    network: &'static str,
    deposit_address: String,
    token: String,
    amount: &'a str,
    transactions: &'a [String],
}

impl<'a> From<&'a OrderQuestion> for OrderBody<'a> {
    fn from(question: &'a OrderQuestion) -> Self {
        Self {
            quote_id: &question.quote,
            payer_id: &question.payer,
            account_id: &question.account,
            network: question.network.id(),
            deposit_address: question.deposit_address.to_string(),
            token: question.token.to_string(),
            amount: question.amount.as_str(),
            transactions: &question.transactions,
        }
    }
}
