//! The page as HTML: everything that can be shown without a wallet.

use super::{
    assets,
    link::{Details, LinkCurrency, LinkItem, LinkLock, VisitedLink},
    look::PageFrame,
    words::{self, PageWords},
};
use crate::http::error;
use chrono::{DateTime, Utc};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use qrcode::{Color, EcLevel, QrCode};
use serde::Serialize;
use std::fmt::Write;

/// Maximum number of recipients listed in a document, starting with the first or with the one that `from` in the query
/// selects. Scripts fetch the rest.
const RECEIVERS_MAX: usize = 50;

/// Maximum number of fee receivers listed in a document. Scripts list all of them before the payer pays.
const FEES_MAX: usize = 8;

pub(super) fn document(
    page: &PageFrame,
    words: &PageWords,
    link: &VisitedLink,
    first: usize,
) -> Result<Markup, error::Problem> {
    if let Some(end) = link.end() {
        return Ok(closed(page, words, end, ended(words, link)));
    }
    let address = format!("{}/{}", page.address, link.token);
    let name = called(page, words, link);
    let title = match &link.details {
        Some(details) => {
            let amount = sums(words, details, |currency| &currency.total);
            words.filled("title", &[("amount", &amount), ("name", &name)])
        }
        None => words.filled("titlePlain", &[("name", &name)]),
    };
    let boot = boot(words, link, &address)?;
    Ok(html! {
        (DOCTYPE)
        html lang=(words.code) dir=(words.direction) {
            head {
                (head(page, &title))
                @for module in assets::MODULES {
                    link rel="modulepreload" href=(assets::address(module));
                }
                @if link.is_tron {
                    link rel="modulepreload" href=(assets::address(assets::TRON_MODULE));
                }
                script type="module" src=(assets::address("main.js")) {}
            }
            body {
                a.skip href="#action" { (words.text("skip")) }
                div.sheet {
                    main.card.two {
                        (summary(page, words, link, &name, first))
                        section.action #action tabindex="-1" {
                            (action(words, link))
                        }
                    }
                    aside.elsewhere #elsewhere hidden[!link.can_be_paid()] {
                        details {
                            summary { (words.text("elsewhere")) }
                            div.qr { (qr(&address, words.text("qr"))) }
                            p { (words.text("elsewhereMore")) }
                            button.plain type="button" data-copy=(address) { (words.text("copyLink")) }
                        }
                    }
                    (foot(page, words))
                }
                p.unseen #live role="status" {}
                script #boot type="application/json" { (PreEscaped(boot)) }
            }
        }
    })
}

/// What the visitor can do. The scripts replace it while the link can be paid.
fn action(words: &PageWords, link: &VisitedLink) -> Markup {
    let blocked = link.details.as_ref().filter(|details| details.blocked > 0);
    html! {
        @if link.is_completed() {
            (done(words, link))
        } @else if let Some(lock) = &link.locked {
            (locked(words, lock, link.details.as_ref()))
        } @else if let Some(details) = blocked {
            (blocked_items(words, details))
        } @else {
            noscript {
                div.note {
                    h2 { (words.text("noScript")) }
                    p { (words.text("noScriptMore")) }
                }
            }
        }
    }
}

/// The section shown while the owners of a Safe sign the payment. It warns them if items of a multicall are paid since,
/// because their transaction pays all items.
fn locked(words: &PageWords, lock: &LinkLock, details: Option<&Details>) -> Markup {
    let items = details.into_iter().flat_map(|details| &details.items);
    let paid: Vec<&LinkItem> = items.filter(|item| item.state == Some("paid")).collect();
    let text = if paid.is_empty() { "locked" } else { "lockedPaid" };
    html! {
        div.note.careful {
            h2 { (words.text(text)) }
            p { (words.text(&format!("{text}More"))) }
        }
        @if let Some(details) = details.filter(|_| !paid.is_empty()) {
            (item_list(words, details, words.text(text), &paid))
        }
        dl.rows {
            @if let Some(safe) = &lock.safe { (row(words.text("safe"), html! { bdi.code { (safe) } })) }
            (row(words.text("lockedUntil"), html! { time datetime=(lock.until) { (moment(&lock.until)) } }))
        }
    }
}

/// The section shown while items of a multicall keep it from being paid.
fn blocked_items(words: &PageWords, details: &Details) -> Markup {
    let blocked: Vec<&LinkItem> = details.items.iter().filter(|item| item.is_blocked()).collect();
    let is_in_progress = blocked.iter().all(|item| item.state == Some("in_progress"));
    let text = if is_in_progress { "blockedWait" } else { "blocked" };
    html! {
        div.note.careful {
            h2 { (words.text(text)) }
            p { (words.text(&format!("{text}More"))) }
        }
        (item_list(words, details, words.text("blockedList"), &blocked))
    }
}

/// The first of some items of a multicall, with their states.
fn item_list(words: &PageWords, details: &Details, label: &str, items: &[&LinkItem]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            ul.blocked {
                @for item in items.iter().take(RECEIVERS_MAX) {
                    li {
                        bdi.code { (item.payee) }
                        @if let Some(currency) = details.currencies.get(item.currency) {
                            " · " (money(words, &item.amount, currency))
                        }
                        @if let Some(state) = item.state { " · " (state_text(words, state)) }
                    }
                }
            }
        }
    }
}

/// The state of an item of a multicall in words.
fn state_text<'a>(words: &'a PageWords, state: &str) -> &'a str {
    words.text(&format!("state_{state}"))
}

/// The `<head>` content of a page.
pub(super) fn head(page: &PageFrame, title: &str) -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        title { (title) }
        link rel="icon" href="data:,";
        link rel="stylesheet" href=(page.style_address());
    }
}

/// Details on the page of an ended link. Calldata issued before the end still works, so money may have arrived.
fn ended(words: &PageWords, link: &VisitedLink) -> Markup {
    html! {
        @if let Some(reference) = &link.reference {
            p.quiet { (words.text("reference")) ": " bdi { (reference) } }
        }
        @if link.is_paid {
            div.note {
                h2 { (words.text("endedPaid")) }
                p { (words.text("endedPaidMore")) }
            }
        } @else {
            @if link.is_partly_paid() {
                div.note { h2 { (words.text("partly")) } }
            }
            @if link.in_flight.is_some() {
                div.note.careful {
                    h2 { (words.text("endedInFlight")) }
                    p { (words.text("endedInFlightMore")) }
                }
            }
        }
        @if link.is_paid || link.is_partly_paid() {
            @if let Some(hash) = &link.tx_hash {
                dl.rows { (row(words.text("transaction"), transaction(link, hash))) }
            }
            div.stack { (receipt(words, link)) }
        }
        @if let Some(details) = link.details.as_ref().filter(|details| details.is_multicall) {
            (receivers(words, Some(details), ListedReceivers::All(&[])))
        }
    }
}

/// The link to the receipt.
fn receipt(words: &PageWords, link: &VisitedLink) -> Markup {
    html! {
        a.button.second href={ "/pay/" (link.token) "/receipt?lang=" (words.code) } target="_blank" {
            (words.text("receipt"))
        }
    }
}

/// The page of a link that cannot be paid, followed by `further`.
pub(super) fn closed(page: &PageFrame, words: &PageWords, end: &str, further: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang=(words.code) dir=(words.direction) {
            head { (head(page, words.text(end))) }
            body {
                div.sheet {
                    main.card {
                        div.action.narrow {
                            svg.sign viewBox="0 0 24 24" aria-hidden="true" {
                                circle cx="12" cy="12" r="10" {}
                                path d="M12 7v6M12 16.5v.1" {}
                            }
                            h1 { (words.text(end)) }
                            p { (words.text(&format!("{end}More"))) }
                            (further)
                        }
                    }
                    footer { (languages(words)) }
                }
            }
        }
    }
}

/// The operator's logo, on links that pay the operator.
pub(super) fn logo(page: &PageFrame, link: &VisitedLink) -> Markup {
    let address = page.logo_address().filter(|_| link.flow == "get_paid");
    html! { @if let Some(address) = address { img.logo src=(address) alt=""; } }
}

/// The name of the recipient: the brand name, a shortened address or a count; generic if the recipient is hidden.
pub(super) fn called(page: &PageFrame, words: &PageWords, link: &VisitedLink) -> String {
    let own = page.name.as_ref().filter(|_| link.flow == "get_paid");
    match (own, &link.details) {
        (Some(name), _) => name.clone(),
        (None, Some(details)) => match details.sole_receiver() {
            Some(receiver) => short(receiver),
            None => words.filled("someReceivers", &[("count", &details.receivers.to_string())]),
        },
        (None, None) => words.text("theReceiver").to_owned(),
    }
}

/// The first six and last four characters of an address.
fn short(address: &str) -> String {
    match (
        address.get(..6),
        address.len().checked_sub(4).and_then(|at| address.get(at..)),
    ) {
        (Some(start), Some(end)) if address.len() > 16 => format!("{start}…{end}"),
        _ => address.to_owned(),
    }
}

/// An amount and its currency. In right-to-left text, isolates keep them and several sums in order.
pub(super) fn money(words: &PageWords, amount: &str, currency: &LinkCurrency) -> String {
    let sum = format!("{}\u{a0}{}", words.number(amount), currency.symbol);
    if words.direction == "rtl" {
        format!("\u{2066}{sum}\u{2069}")
    } else {
        sum
    }
}

fn sums(words: &PageWords, details: &Details, of: impl Fn(&LinkCurrency) -> &str) -> String {
    let each = details
        .currencies
        .iter()
        .map(|currency| money(words, of(currency), currency));
    each.collect::<Vec<_>>().join(" + ")
}

fn summary(page: &PageFrame, words: &PageWords, link: &VisitedLink, name: &str, first: usize) -> Markup {
    let is_payout = link.flow == "pay";
    let to = match (link.is_completed(), is_payout) {
        (true, true) => "paidOut",
        (true, false) => "paidTo",
        (false, true) => "payOut",
        (false, false) => "payTo",
    };
    html! {
        section.summary aria-labelledby="total" {
            (logo(page, link))
            p.to #to { (words.text(to)) }
            p.name { bdi #name { (name) } }
            h1 #total {
                @if let Some(details) = &link.details {
                    @for (index, currency) in details.currencies.iter().enumerate() {
                        @if index > 0 { " + " }
                        bdi dir="ltr" { span { (words.number(&currency.total)) } " " span.symbol { (currency.symbol) } }
                    }
                } @else { span.symbol { (words.text("hidden")) } }
            }
            dl.rows #rows { (rows(words, link, FEES_MAX)) }
            (receivers(words, link.details.as_ref(), ListedReceivers::Part(first)))
            @if !link.is_completed() {
                p.expiry #expiry {
                    span { (words.text("expires")) } " "
                    time datetime=(link.expires_at) { (moment(&link.expires_at)) }
                }
            }
        }
    }
}

fn row(name: &str, value: Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

/// Details of a payment besides its total. If there are more than `fees_max` fee receivers, the rows show only the sum
/// of the fees.
pub(super) fn rows(words: &PageWords, link: &VisitedLink, fees_max: usize) -> Markup {
    let Some(details) = &link.details else {
        return html! {};
    };
    let currencies = &details.currencies;
    let each = |is_shown: fn(&LinkCurrency) -> bool, of: fn(&LinkCurrency) -> &str| {
        html! {
            @for currency in currencies.iter().filter(|currency| is_shown(currency)) {
                span.line { (money(words, of(currency), currency)) }
            }
        }
    };
    let has_fees = currencies.iter().any(|currency| currency.fee != "0");
    let fees = currencies.iter().map(|currency| currency.fees.len()).sum::<usize>();
    let is_partly = currencies
        .iter()
        .any(|currency| currency.paid != "0" && currency.due != "0");
    html! {
        @if let Some(reference) = &link.reference { (row(words.text("reference"), html! { bdi { (reference) } })) }
        @match details.sole_receiver() {
            Some(receiver) => (row(words.text("receiver"), html! { bdi.code { (receiver) } })),
            None => (row(words.text("receivers"), html! { (details.receivers) })),
        }
        @if let Some(network) = &link.network { (row(words.text("network"), html! { (network.name) })) }
        @if has_fees {
            @if currencies.iter().any(|currency| currency.gross.is_some()) {
                (row(words.text("amount"), each(|_| true, |currency| currency.gross.as_ref().unwrap_or(&currency.amount))))
                (row(words.text("net"), each(|_| true, |currency| &currency.amount)))
            } @else {
                (row(words.text("amount"), each(|_| true, |currency| &currency.amount)))
            }
            @if fees > fees_max {
                (row(words.text("fee"), each(|currency| currency.fee != "0", |currency| &currency.fee)))
            } @else {
                @for currency in currencies {
                    @for fee in &currency.fees {
                        (row(words.text("fee"), html! {
                            span.line { (money(words, &fee.amount, currency)) }
                            bdi.code { (fee.receiver) }
                        }))
                    }
                }
            }
        }
        @if is_partly {
            (row(words.text("arrived"), each(|currency| currency.paid != "0", |currency| &currency.paid)))
            (row(words.text("stillDue"), each(|currency| currency.due != "0", |currency| &currency.due)))
        }
    }
}

/// Which recipients are listed.
pub(super) enum ListedReceivers<'a> {
    /// A part of the recipients, starting at this index.
    Part(usize),
    /// All recipients, each with the request that pays it if these are known.
    All(&'a [String]),
}

/// The list of recipients and amounts. It is hidden if the recipients are not known yet or if there is only one.
pub(super) fn receivers(words: &PageWords, details: Option<&Details>, listed: ListedReceivers<'_>) -> Markup {
    let several = details.filter(|details| details.items.len() > 1);
    let count = several.map_or(0, |details| details.items.len());
    let unsaid: &[String] = &[];
    let (first, most, requests) = match listed {
        ListedReceivers::Part(first) if first < count => (first, RECEIVERS_MAX, unsaid),
        ListedReceivers::Part(_) => (0, RECEIVERS_MAX, unsaid),
        ListedReceivers::All(requests) => (0, count, requests),
    };
    let entries = several.iter().flat_map(|details| &details.items).zip(0..);
    let entries = entries.skip(first).take(most);
    let multicall = several.filter(|details| details.is_multicall);
    let marks_paid = multicall.is_none() && several.is_some_and(Details::has_paid_and_unpaid);
    html! {
        details.receivers #receivers hidden[several.is_none()] open[count <= most || first > 0] {
            summary { (words.text("list")) }
            div.scroll tabindex="0" role="region" aria-label=(words.text("list")) {
                table {
                    thead {
                        tr {
                            th scope="col" { (words.text("receiver")) }
                            th.number scope="col" { (words.text("amount")) }
                            @if multicall.is_some() { th #state scope="col" { (words.text("state")) } }
                        }
                    }
                    tbody #entries {
                        @for (item, position) in entries {
                            tr {
                                td {
                                    bdi.code { (item.payee) }
                                    @if let Some(reference) = &item.reference {
                                        span.line.quiet { (words.text("reference")) ": " bdi { (reference) } }
                                    }
                                    @if let Some(network) = item.network {
                                        span.line.quiet { (words.text("network")) ": " (network) }
                                    }
                                    @if let Some(request) = requests.get::<usize>(position) {
                                        span.line.quiet { (words.text("requestId")) ": " bdi.code { (request) } }
                                    }
                                }
                                td.number {
                                    @if let Some(currency) = details.and_then(|details| details.currencies.get(item.currency)) {
                                        (money(words, &item.amount, currency))
                                    }
                                    @if marks_paid && item.is_paid { span.line.quiet { (words.text("complete")) } }
                                }
                                @if let Some(state) = item.state { td.state { (state_text(words, state)) } }
                            }
                        }
                    }
                    @if let Some(details) = multicall { (item_sums(words, details)) }
                }
            }
            @if count > most { (further(words, first, count)) }
        }
    }
}

/// The last row of the table of a multicall: the sums of its items by currency.
fn item_sums(words: &PageWords, details: &Details) -> Markup {
    html! {
        tfoot {
            tr {
                th scope="row" { (words.text("total")) }
                td.number {
                    @for currency in &details.currencies {
                        span.line { (money(words, &currency.amount, currency)) }
                    }
                }
                td {}
            }
        }
    }
}

/// Links to the other parts of a long list.
fn further(words: &PageWords, first: usize, count: usize) -> Markup {
    let parts = (0..count).step_by(RECEIVERS_MAX);
    html! {
        nav.parts #further aria-label=(words.text("list")) {
            @for from in parts {
                a href={ "?lang=" (words.code) "&from=" (from) } aria-current=[(from == first).then_some("page")] {
                    (from + 1) "–" (count.min(from + RECEIVERS_MAX))
                }
            }
        }
    }
}

/// The section shown after a payment: date, transaction, redirect and receipt.
fn done(words: &PageWords, link: &VisitedLink) -> Markup {
    html! {
        svg.sign.good viewBox="0 0 24 24" aria-hidden="true" {
            circle cx="12" cy="12" r="10" {}
            path d="m7.5 12.5 3 3 6-7" {}
        }
        h2 { (words.text("complete")) }
        p.quiet { (words.text("completeMore")) }
        dl.rows {
            @if let Some(at) = &link.completed_at {
                (row(words.text("paidAt"), html! { time datetime=(at) { (moment(at)) } }))
            }
            @if let Some(hash) = &link.tx_hash {
                (row(words.text("transaction"), transaction(link, hash)))
            }
        }
        div.stack {
            @if let Some(redirect) = &link.redirect {
                @if redirect.is_foreign {
                    p.note.careful { (words.filled("foreign", &[("origin", &redirect.origin)])) }
                }
                a.button.second[redirect.is_foreign] href=(redirect.url) rel="noopener noreferrer" {
                    (redirect.label.as_deref().unwrap_or_else(|| words.text("back")))
                }
                p.quiet.middle { (words.filled("leadsTo", &[("origin", &redirect.origin)])) }
            }
            (receipt(words, link))
        }
    }
}

pub(super) fn transaction(link: &VisitedLink, hash: &str) -> Markup {
    let hash = link.transaction_id(hash);
    html! {
        @if let Some(network) = &link.network {
            a href={ (network.explorer) (hash) } target="_blank" rel="noopener noreferrer" { bdi.code { (hash) } }
        } @else { bdi.code { (hash) } }
    }
}

/// A time in UTC, for readers without scripts. Scripts replace it with local time.
pub(super) fn moment(iso: &str) -> String {
    match DateTime::parse_from_rfc3339(iso) {
        Ok(at) => at.with_timezone(&Utc).format("%Y-%m-%d %H:%M UTC").to_string(),
        Err(_) => iso.to_owned(),
    }
}

fn languages(words: &PageWords) -> Markup {
    html! {
        nav aria-label=(words.text("languages")) {
            @for other in words::all() {
                a href={ "?lang=" (other.code) } lang=(other.code) hreflang=(other.code)
                    aria-current=[(other.code == words.code).then_some("true")] { (other.name) }
            }
        }
    }
}

fn foot(page: &PageFrame, words: &PageWords) -> Markup {
    html! {
        footer {
            (languages(words))
            @for (name, address) in [("terms", &page.terms), ("privacy", &page.privacy)] {
                @if let Some(address) = address {
                    a href=(address) rel="noopener noreferrer" { (words.text(name)) }
                }
            }
        }
    }
}

/// A QR code as one SVG path, in which each run of dark fields is one rectangle.
fn qr(text: &str, label: &str) -> Markup {
    let Ok(code) = QrCode::with_error_correction_level(text, EcLevel::M) else {
        return html! {};
    };
    let width = code.width();
    let mut path = String::new();
    for (y, fields) in code.to_colors().chunks(width).enumerate() {
        let mut x = 0;
        for run in fields.chunk_by(|one, next| one == next) {
            if run.first() == Some(&Color::Dark) {
                // Writing to a String cannot fail.
                let _ = write!(path, "M{x},{y}h{length}v1h-{length}z", length = run.len());
            }
            x += run.len();
        }
    }
    html! {
        svg viewBox={ "0 0 " (width) " " (width) } role="img" aria-label=(label) shape-rendering="crispEdges" {
            path d=(path) {}
        }
    }
}

/// Initial state for the scripts.
#[derive(Serialize)]
struct Boot<'a> {
    link: &'a VisitedLink,
    words: &'a words::Texts,
    /// Further texts of links on Tron. They replace texts of the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    tron: Option<&'a words::Texts>,
    locale: words::Locale<'a>,
    page: &'a str,
}

/// The initial state as JSON with `<` escaped, so that it cannot close the script element.
fn boot(words: &PageWords, link: &VisitedLink, page: &str) -> Result<String, error::Problem> {
    // With many recipients, scripts fetch the list when the payer opens it or checks a wallet.
    let mut link = link.clone();
    if let Some(details) = link.details.as_mut().filter(|details| details.count > RECEIVERS_MAX) {
        details.items.clear();
        for currency in &mut details.currencies {
            currency.fees.clear();
        }
    }
    let boot = Boot {
        link: &link,
        words: &words.page,
        tron: link.is_tron.then_some(&words.tron),
        locale: words.locale(),
        page,
    };
    let text = serde_json::to_string(&boot).map_err(|error| {
        tracing::error!(%error, "the state of a page could not be serialised; the page gets 500");
        error::Problem::internal()
    })?;
    Ok(text.replace('<', "\\u003c"))
}
