//! Responses with pages: the payment page and the receipt of a link, and redirects to them.

use super::{
    document::{closed, document},
    headers,
    look::PageFrame,
    receipt::{ReceiptDetails, receipt},
    visit::{PageVisit, VisitResult, is_token},
    words::{self, PageWords},
};
use crate::http::error;
use maud::html;
use poem::{
    Request, Response, handler,
    http::{StatusCode, header},
    web::Data,
};
use std::sync::Arc;

/// A page of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostedPage {
    /// The page with which a payer pays.
    Payment,
    /// The receipt of a link in any status, since money may arrive late.
    Receipt,
}

/// The payment page of a link.
#[handler]
pub(super) async fn show_payment(
    Data(page): Data<&Arc<PageFrame>>,
    visit: PageVisit,
    request: &Request,
) -> poem::Result<Response> {
    show(page, &visit, request, HostedPage::Payment).await
}

/// The receipt of a link.
#[handler]
pub(super) async fn show_receipt(
    Data(page): Data<&Arc<PageFrame>>,
    visit: PageVisit,
    request: &Request,
) -> poem::Result<Response> {
    show(page, &visit, request, HostedPage::Receipt).await
}

async fn show(page: &PageFrame, visit: &PageVisit, request: &Request, asked: HostedPage) -> poem::Result<Response> {
    let words = words::chosen(request, page.language);
    answer(page, words, visit, request, asked)
        .await
        .or_else(|problem| failed(page, words, request, problem))
}

async fn answer(
    page: &PageFrame,
    words: &PageWords,
    visit: &PageVisit,
    request: &Request,
    asked: HostedPage,
) -> Result<Response, error::Problem> {
    let (status, text) = match visit.find().await? {
        VisitResult::Found(opened) => {
            let link = visit.shown(page, &opened).await?;
            match asked {
                HostedPage::Payment => {
                    let text = document(page, words, &link, first_of(request))?;
                    (error::paged(link.end().is_some()), text)
                }
                HostedPage::Receipt => {
                    let known = ReceiptDetails::of(visit, &opened).await?;
                    (error::paged(false), receipt(page, words, &link, &known))
                }
            }
        }
        VisitResult::Unknown => (error::unknown_page(), closed(page, words, "unknown", html! {})),
        VisitResult::TooOften(seconds) => {
            let text = closed(page, words, "tooMany", html! {}).into_string();
            return Ok(headers::later(request, error::crowded_page(), seconds, text));
        }
    };
    Ok(headers::page(request, status, text.into_string()))
}

/// The page for a server error: the service is unavailable. Any other problem is returned as the error.
fn failed(page: &PageFrame, words: &PageWords, request: &Request, problem: error::Problem) -> poem::Result<Response> {
    if !problem.status.is_server_error() {
        return Err(problem.into());
    }
    let text = closed(page, words, "away", html! {}).into_string();
    Ok(match problem.retry_after_s {
        Some(seconds) => headers::later(request, problem.status, seconds, text),
        None => headers::page(request, problem.status, text),
    })
}

/// Redirects links that carry their token in the query to their page. A truncated token gets the page of an unknown
/// link. Without a token, the root redirects to the documentation.
#[handler]
pub(super) fn moved(Data(page): Data<&Arc<PageFrame>>, request: &Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let token = url::form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "token");
    let token = token.map(|(_, token)| token);
    if token.is_none() && request.uri().path() == "/" {
        return led(error::elsewhere(), "/docs/".to_owned());
    }
    let Some(token) = token.filter(|token| is_token(token)) else {
        return unknown(page, request);
    };
    let language = words::asked(request).map_or_else(String::new, |words| format!("?lang={}", words.code));
    led(error::elsewhere(), format!("/pay/{token}{language}"))
}

/// Redirects a page address with a trailing slash, which some programs add, to the one without it.
#[handler]
pub(super) fn slashed(Data(page): Data<&Arc<PageFrame>>, request: &Request) -> Response {
    let token = request.raw_path_param("token").filter(|token| is_token(token));
    match (token, request.uri().query()) {
        (Some(token), Some(query)) => led(error::elsewhere_for_good(), format!("/pay/{token}?{query}")),
        (Some(token), None) => led(error::elsewhere_for_good(), format!("/pay/{token}")),
        (None, _) => unknown(page, request),
    }
}

fn led(status: StatusCode, address: String) -> Response {
    Response::builder()
        .status(status)
        .header(header::LOCATION, address)
        .finish()
}

/// The page of an unknown link.
fn unknown(page: &PageFrame, request: &Request) -> Response {
    let text = closed(page, words::chosen(request, page.language), "unknown", html! {});
    headers::page(request, error::unknown_page(), text.into_string())
}

/// The index of the first recipient to list, from the query.
fn first_of(request: &Request) -> usize {
    let query = request.uri().query().unwrap_or_default();
    let from = url::form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "from");
    from.and_then(|(_, from)| from.parse().ok()).unwrap_or_default()
}
