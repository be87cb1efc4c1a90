//! Payers and bank accounts as clients see them.

use super::bodies::*;
use crate::{
    domain::payer::{CompliancePayer, RegisteredAccount},
    flows::payers::accounts::PayerAccount,
    http::operation::*,
};

/// Characters of a number that are shown when it is masked.
const SHOWN: usize = 4;

pub(super) fn registered(payer: &CompliancePayer) -> PayerRegistered {
    PayerRegistered {
        agreement_url: payer.details.agreement_url.as_ref().map(PartnerPageText::written),
        kyc_url: payer.details.kyc_url.as_ref().map(PartnerPageText::written),
        status: ComplianceStatus {
            agreement_status: payer.agreement(),
            kyc_status: payer.kyc(),
        },
        user_id: UuidText::written(&payer.user_id),
    }
}

pub(super) fn status(payer: &CompliancePayer) -> PayerStatus {
    PayerStatus {
        kyc_status: payer.kyc(),
        agreement_status: payer.agreement(),
        is_compliant: payer.standing.is_compliant(),
        user_id: UuidText::written(&payer.user_id),
    }
}

pub(super) fn added((payer, added): &PayerAccount) -> PaymentDetailsAdded {
    let account = &added.details.account;
    PaymentDetailsAdded {
        payment_detail: AddedPaymentDetail {
            id: UuidText::written(&added.payment_detail),
            client_user_id: ClientUserIdText::written(&payer.details.client_user_id),
            bank_name: DetailText::written(&account.bank_name),
            account_name: DetailText::written(&account.account_name),
            currency: FiatText::written(&account.currency),
            beneficiary_type: account.beneficiary,
        },
    }
}

/// A bank account as a response shows it. The number is the account number, or the IBAN if there is no account number.
/// The bank code is the first one that the account has: routing number, sort code, IFSC or BIC. Source: decisions D51.
pub(super) fn detail(payer: &CompliancePayer, known: &RegisteredAccount, is_masked: bool) -> PaymentDetail {
    let account = &known.details.account;
    let shown = |number: &String| if is_masked { masked(number) } else { number.clone() };
    let number = account.account_number.as_ref().or(account.iban.as_ref());
    let codes = [
        &account.routing_number,
        &account.sort_code,
        &account.ifsc,
        &account.swift_bic,
    ];
    let code = codes.into_iter().find_map(Option::as_ref);
    PaymentDetail {
        id: UuidText::written(&known.payment_detail),
        user_id: UuidText::written(&payer.user_id),
        bank_name: DetailText::written(&account.bank_name),
        account_name: DetailText::written(&account.account_name),
        beneficiary_type: account.beneficiary,
        account_number: number.map(shown).unwrap_or_default(),
        routing_number: code.cloned().unwrap_or_default(),
        iban: OrNull(account.iban.as_ref().map(shown)),
        currency: FiatText::written(&account.currency),
        status: known.status,
        rails: account.rails,
    }
}

/// Replaces all but the last four characters with asterisks. A short number shows at most half of its characters.
/// Source: decisions D42.
fn masked(number: &str) -> String {
    let length = number.chars().count();
    let shown = SHOWN.min(length / 2);
    let hidden = length - shown;
    let end = number.chars().skip(hidden);
    std::iter::repeat_n('*', hidden).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_number_shows_only_its_end() {
        for (number, shown) in [
            ("DE89370400440532013000", "******************3000"),
            ("1234567890", "******7890"),
            ("12345678", "****5678"),
            ("12345", "***45"),
            ("1", "*"),
        ] {
            assert_eq!(masked(number), shown);
        }
    }
}
