//! The receipt: a page to print that shows what anyone with the link may see.

use super::{
    document::{ListedReceivers, called, closed, failed, head, logo, moment, money, receivers, rows, transaction},
    headers,
    link::{Details, VisitedLink},
    look::PageFrame,
    visit::{PageVisit, VisitResult},
    words::{self, PageWords},
};
use crate::{domain::address::Address, flows::secure_payments::find, http::error};
use maud::{DOCTYPE, Markup, html};
use poem::{Request, Response, handler, web::Data};
use std::sync::Arc;

/// The receipt of a link in any status, since money may arrive late.
#[handler]
pub(super) async fn shown(
    Data(page): Data<&Arc<PageFrame>>,
    visit: PageVisit,
    request: &Request,
) -> poem::Result<Response> {
    let words = words::chosen(request, page.language);
    match answered(page, words, &visit, request).await {
        Ok(response) => Ok(response),
        Err(problem) => failed(page, words, request, problem),
    }
}

async fn answered(
    page: &PageFrame,
    words: &PageWords,
    visit: &PageVisit,
    request: &Request,
) -> Result<Response, error::Problem> {
    let (status, text) = match visit.find().await? {
        VisitResult::Found(opened) => {
            let link = visit.shown(page, &opened).await?;
            let known = ReceiptDetails {
                payer: find::payer(&visit.ctx, &opened).await?,
                requests: opened.requests.iter().map(|request| request.id.0.clone()).collect(),
            };
            (error::paged(false), receipt(page, words, &link, &known))
        }
        VisitResult::Unknown => (error::unknown_page(), closed(page, words, "unknown", html! {})),
        VisitResult::TooOften(seconds) => {
            let text = closed(page, words, "tooMany", html! {}).into_string();
            return Ok(headers::later(request, error::crowded_page(), seconds, text));
        }
    };
    Ok(headers::page(request, status, text.into_string()))
}

/// Receipt details that the page does not show.
struct ReceiptDetails {
    /// Payer address.
    payer: Option<Address>,
    /// Ids of the paid requests, in the order of the items.
    requests: Vec<String>,
}

fn receipt(page: &PageFrame, words: &PageWords, link: &VisitedLink, known: &ReceiptDetails) -> Markup {
    // Without a single transaction, the items of a multicall may have different payers.
    let has_sole_payer = |details: &Details| !details.is_multicall || link.tx_hash.is_some();
    let payer = known
        .payer
        .filter(|_| link.details.as_ref().is_some_and(has_sole_payer));
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
                                @if let Some(hash) = &link.tx_hash {
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
