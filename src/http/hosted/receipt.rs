//! The receipt: a page to print that shows what anyone with the link may see.

use super::{
    document::{ListedReceivers, called, head, logo, moment, money, receivers, rows, transaction},
    link::{Details, VisitedLink},
    look::PageFrame,
    visit::PageVisit,
    words::PageWords,
};
use crate::{
    domain::{address::Address, amount::format_units, payment_record::PaymentRecord},
    flows::secure_payments::{find, opened::OpenedLink},
    http::error,
};
use alloy::primitives::U256;
use maud::{DOCTYPE, Markup, html};

/// Receipt details that the page does not show.
pub(super) struct ReceiptDetails {
    /// Payer address.
    payer: Option<Address>,
    /// Ids of the paid requests, in the order of the items.
    requests: Vec<String>,
    /// Payments of the only request, oldest first; empty if there are several requests.
    payments: Vec<PaymentRecord>,
    /// What the only request got beyond its amount.
    excess: Option<U256>,
}

impl ReceiptDetails {
    pub(super) async fn of(visit: &PageVisit, opened: &OpenedLink) -> Result<Self, error::Problem> {
        let payments = find::payments(&visit.ctx, opened).await?;
        let sole = opened.requests.first().filter(|_| opened.requests.len() == 1);
        Ok(Self {
            payer: find::payer(opened, &payments),
            requests: opened.requests.iter().map(|request| request.id.0.clone()).collect(),
            excess: sole.and_then(|request| request.ledger.excess()),
            payments: sole.map(|_| payments).unwrap_or_default(),
        })
    }

    /// The payments if a single one does not pay exactly the requested amount.
    fn parts(&self, link: &VisitedLink) -> &[PaymentRecord] {
        let is_exact = self.payments.len() == 1 && self.excess.is_none() && link.is_paid;
        if is_exact { &[] } else { &self.payments }
    }
}

/// Rows with the amount, payer and transaction of each payment, and with the excess.
fn parts(words: &PageWords, link: &VisitedLink, known: &ReceiptDetails) -> Markup {
    let currency = link.details.as_ref().and_then(|details| details.currencies.first());
    html! {
        @if let Some(currency) = currency {
            @for payment in known.parts(link) {
                div {
                    dt { (words.text("payment")) }
                    dd {
                        span.line { (money(words, &format_units(payment.credited, currency.decimals), currency)) }
                        @if let Some(payer) = payment.payer {
                            span.line { (words.text("payer")) ": " bdi.code { (payer.to_string()) } }
                        }
                        span.line { (transaction(link, &payment.tx_hash.to_string())) }
                    }
                }
            }
            @if let Some(excess) = known.excess {
                div {
                    dt { (words.text("excess")) }
                    dd { (money(words, &format_units(excess, currency.decimals), currency)) }
                }
            }
        }
    }
}

pub(super) fn receipt(page: &PageFrame, words: &PageWords, link: &VisitedLink, known: &ReceiptDetails) -> Markup {
    // Without a single transaction, the items of a multicall may have different payers.
    let has_sole_payer = |details: &Details| !details.is_multicall || link.tx_hash.is_some();
    let is_single = known.parts(link).is_empty();
    let payer = known
        .payer
        .filter(|_| is_single && link.details.as_ref().is_some_and(has_sole_payer));
    let name = called(page, words, link);
    let title = format!("{} · {name}", words.text("receiptTitle"));
    html! {
        (DOCTYPE)
        html lang=(words.code) dir=(words.direction) {
            head { (head(page, &title)) }
            body {
                div.sheet {
                    main.card {
                        div.action {
                            (logo(page, link))
                            p.to { (words.text("receiptTitle")) }
                            h1 { bdi { (name) } }
                            @if link.end().is_some() && link.is_paid {
                                p.note { (words.text("endedPaid")) ". " (words.text("endedPaidMore")) }
                            } @else if !link.is_paid {
                                p.note { (words.text(if link.is_partly_paid() { "partly" } else { "receiptPending" })) }
                            }
                            dl.rows {
                                @for currency in link.details.iter().flat_map(|details| &details.currencies) {
                                    div.strong {
                                        dt { (words.text("total")) }
                                        dd { (money(words, &currency.total, currency)) }
                                    }
                                }
                                (rows(words, link, usize::MAX))
                                @if let Some(payer) = payer {
                                    div { dt { (words.text("payer")) } dd { bdi.code { (payer.to_string()) } } }
                                }
                                @if let Some(at) = &link.completed_at {
                                    div { dt { (words.text("paidAt")) } dd { time datetime=(at) { (moment(at)) } } }
                                }
                                (parts(words, link, known))
                                @if let Some(hash) = link.tx_hash.as_ref().filter(|_| is_single) {
                                    div { dt { (words.text("transaction")) } dd { (transaction(link, hash)) } }
                                }
                                @if let Some([item]) = link.details.as_ref().map(|details| details.items.as_slice()) {
                                    @for request in &known.requests {
                                        div { dt { (words.text("requestId")) } dd { bdi.code { (request) } } }
                                    }
                                    div {
                                        dt { (words.text("reason")) }
                                        dd { bdi.code { (item.payment_reference) } }
                                    }
                                }
                            }
                            (receivers(words, link.details.as_ref(), ListedReceivers::All(&known.requests)))
                            p.quiet.no-print { (words.text("print")) }
                            p.no-print { a href={ "/pay/" (link.token) "?lang=" (words.code) } { (words.text("backToPayment")) } }
                        }
                    }
                }
            }
        }
    }
}
