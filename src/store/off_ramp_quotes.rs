//! Issued quotes of the off-ramp partner, with their addresses. They are stored permanently: a payment to an address
//! counts, however old the address is.

use super::{
    StoreError,
    columns::{self, RequestColumns},
    rates,
};
use crate::domain::{
    ids::{BankAccountId, OffRampQuoteId, PayerId, PlatformId, RequestRowId},
    network::Network,
    off_ramp::{CalledByPartner, DepositAddress, FiatQuote, PaidOutTo, QuoteTerms},
    rates::{AppliedRate, RateProvider},
    request::Request,
};
use entities::off_ramp_quotes::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Expr, OnConflict},
};
use std::collections::HashMap;

fn to_row(network: Network, quote: &FiatQuote) -> Model {
    let terms = &quote.terms;
    let called = |id: fn(&CalledByPartner) -> &String| quote.called.as_ref().map(id).cloned().unwrap_or_default();
    Model {
        id: quote.id.0.clone(),
        platform_id: quote.platform.0.clone(),
        request_row: quote.request.0.clone(),
        payer_id: quote.to.payer.0.clone(),
        account_id: quote.to.account.0.clone(),
        partner_payer: called(|called| &called.payer),
        partner_account: called(|called| &called.account),
        partner_quote: terms.partner_quote.clone(),
        network: network.id().to_owned(),
        deposit_address: terms.address.canonical(),
        units: terms.units.to_string(),
        settlement_units: terms.settlement.to_string(),
        rate: terms.applied.map(|applied| applied.rate.to_string()),
        rate_provider: terms.applied.map(|applied| applied.provider.wire().to_owned()),
        fee_units: terms.fee.to_string(),
        pays_out: terms.pays_out.clone(),
        currency: terms.currency.clone(),
        ends_at: terms.ends_at,
        created_at: quote.created_at,
    }
}

fn from_row(row: Model) -> Result<FiatQuote, StoreError> {
    let applied = row.rate.zip(row.rate_provider).map(|(rate, provider)| {
        Ok::<_, StoreError>(AppliedRate {
            rate: rates::rate(&rate)?,
            provider: columns::known("rate_provider", &provider, RateProvider::from_wire)?,
        })
    });
    // The erasure of a payer clears the partner's ids of the payer and the account.
    let is_called = !row.partner_payer.is_empty();
    Ok(FiatQuote {
        id: OffRampQuoteId(row.id),
        platform: PlatformId(row.platform_id),
        request: RequestRowId(row.request_row),
        to: PaidOutTo {
            payer: PayerId(row.payer_id),
            account: BankAccountId(row.account_id),
        },
        called: is_called.then_some(CalledByPartner {
            payer: row.partner_payer,
            account: row.partner_account,
        }),
        terms: QuoteTerms {
            partner_quote: row.partner_quote,
            address: columns::address("deposit_address", &row.deposit_address)?,
            units: columns::units("units", &row.units)?,
            settlement: columns::units("settlement_units", &row.settlement_units)?,
            applied: applied.transpose()?,
            fee: columns::units("fee_units", &row.fee_units)?,
            pays_out: row.pays_out,
            currency: row.currency,
            ends_at: row.ends_at,
        },
        created_at: row.created_at,
    })
}

/// Stores a quote, unless a quote with the partner's id exists; returns whether the stored quote has the same content
/// and request.
pub async fn keep(conn: &impl ConnectionTrait, network: Network, quote: &FiatQuote) -> Result<bool, StoreError> {
    let known = OnConflict::columns([Column::PlatformId, Column::RequestRow, Column::PartnerQuote])
        .do_nothing()
        .to_owned();
    Entity::insert(ActiveModel::from(to_row(network, quote)))
        .on_conflict(known)
        .exec_without_returning(conn)
        .await?;
    // The query is not limited to one tenant, because the partner's quote ids are unique across tenants.
    let kept = Entity::find()
        .filter(Column::PartnerQuote.eq(quote.terms.partner_quote.as_str()))
        .order_by_asc(Column::Id)
        .limit(2)
        .all(conn)
        .await?;
    let kept = kept.into_iter().map(from_row).collect::<Result<Vec<_>, _>>()?;
    Ok(matches!(kept.as_slice(), [kept] if kept.request == quote.request && kept.is_same(quote)))
}

/// Deletes the partner's ids of a payer and of its bank accounts from the quotes. The terms of the quotes stay, so
/// payments to their addresses can still be valued.
pub async fn forget(conn: &impl ConnectionTrait, platform: &PlatformId, payer: &PayerId) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::PartnerPayer, Expr::value(""))
        .col_expr(Column::PartnerAccount, Expr::value(""))
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::PayerId.eq(payer.as_str()))
        .exec(conn)
        .await?;
    Ok(())
}

/// Every quote of a request, the oldest first.
pub async fn of_request(conn: &impl ConnectionTrait, request: &Request) -> Result<Vec<FiatQuote>, StoreError> {
    let rows = Entity::find()
        .filter(Column::PlatformId.eq(request.origin.platform.as_str()))
        .filter(Column::RequestRow.eq(request.row.as_str()))
        .order_by_asc(Column::CreatedAt)
        .order_by_asc(Column::Id)
        .all(conn)
        .await?;
    rows.into_iter().map(from_row).collect()
}

/// The addresses that were issued for requests, the oldest first. Only requests that are paid out to a bank account
/// have addresses, so other requests are not queried.
pub async fn deposits_of(
    conn: &impl ConnectionTrait,
    requests: impl IntoIterator<Item = &Request>,
) -> Result<HashMap<RequestRowId, Vec<DepositAddress>>, StoreError> {
    let for_bank = requests.into_iter().filter(|request| request.terms.payee.is_none());
    let for_bank: Vec<&Request> = for_bank.collect();
    let columns = RequestColumns {
        platform: Column::PlatformId,
        row: Column::RequestRow,
    };
    columns::of_requests::<Entity, _>(conn, columns, Column::CreatedAt, &for_bank, |row| {
        let quote = from_row(row)?;
        Ok((quote.request.clone(), quote.deposit()))
    })
    .await
}
