//! Keeps what is handed out for requests, so that payments can be compared with it.

use super::handout::HandedPayment;
use crate::{
    domain::{
        caller::PlatformCaller,
        handed_out::{HandedOut, NAMED_FEES_MAX},
        ids::ClientRowId,
        quote::{NAMED_QUOTES_MAX, Quote},
        refusal::Refusal,
        request::Request,
    },
    flows::FlowError,
    store::{self, StoreError, Tx},
};
use chrono::{DateTime, Utc};

/// Why nothing was kept.
#[derive(Debug)]
pub enum KeepError {
    /// One of the requests, by its place, may not be asked for like this once more.
    Refused(usize, Refusal),
    /// The database.
    Failed(StoreError),
}

impl From<StoreError> for KeepError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl From<KeepError> for FlowError {
    fn from(error: KeepError) -> Self {
        match error {
            KeepError::Refused(_, refusal) => refusal.into(),
            KeepError::Failed(error) => error.into(),
        }
    }
}

/// For whom something is handed out.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// The client ID; `None` for whoever acts for the whole platform.
    pub client: Option<&'a ClientRowId>,
    /// Whether anybody may be asking, so that the fee that is named binds nobody.
    pub is_public: bool,
}

impl<'a> From<&'a PlatformCaller> for Asker<'a> {
    fn from(caller: &'a PlatformCaller) -> Self {
        Self {
            client: caller.client(),
            is_public: caller.is_public(),
        }
    }
}

/// What is kept of an answer: a fee that the price terms of the request leave open, also that it had none. `None` of an
/// answer that says nothing beyond them, or binds nobody.
pub fn handed_out(asker: Asker<'_>, payment: &HandedPayment) -> Option<HandedOut> {
    let is_open = payment.request.terms.price.charges.platform().is_none();
    let is_binding = !asker.is_public || !payment.charges.is_platform_named();
    (is_open && is_binding).then_some(HandedOut {
        fee: payment.charges.platform().copied(),
    })
}

/// Keeps what is handed out for requests that the same transaction made, which await their payments: nothing was handed
/// out for them before.
pub async fn keep_of_new(
    tx: &Tx,
    asker: impl Into<Asker<'_>>,
    payments: &[HandedPayment],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let asker = asker.into();
    let handed = in_order(asker, payments);
    store::handed_out::keep(tx, asker.client, &pairs(&handed), now).await?;
    store::quotes::insert(tx, asker.client, &quoted(&handed)).await
}

/// Keeps in a transaction what is handed out for requests, which await their payments from then on.
///
/// The rows of several requests are locked first and in their order: transactions that have some of them in common wait
/// for each other and never in a circle. Errors: the credential of the call named too many different fees for a request,
/// or too many of its quotes of parts of it have not ended (400). Source: decisions D38.
pub async fn keep(
    tx: &Tx,
    asker: impl Into<Asker<'_>>,
    payments: &[HandedPayment],
    now: DateTime<Utc>,
) -> Result<(), KeepError> {
    let asker = asker.into();
    let handed = in_order(asker, payments);
    let named: Vec<&Handed<'_>> = handed.iter().filter(|handed| handed.names_fee()).collect();
    let parts: Vec<&Handed<'_>> = handed.iter().filter(|handed| handed.is_part()).collect();
    let requests: Vec<&Request> = handed.iter().map(|handed| handed.request).collect();
    if requests.len() > 1 || !named.is_empty() || !parts.is_empty() {
        store::requests::lock_all(tx, &requests).await?;
    }
    store::requests::set_listening(tx, &silent(requests)).await?;
    check_fees(tx, asker, &named, now).await?;
    store::handed_out::keep(tx, asker.client, &pairs(&handed), now).await?;
    let mut quoted = quoted(&handed);
    if quoted.is_empty() {
        return Ok(());
    }
    let prolonged = store::quotes::prolong(tx, asker.client, &quoted).await?;
    quoted.retain(|(request, _)| !prolonged.contains(&request.row));
    let further: Vec<&Handed<'_>> = parts
        .into_iter()
        .filter(|handed| !prolonged.contains(&handed.request.row))
        .collect();
    check_quotes(tx, asker, &further, now).await?;
    Ok(store::quotes::insert(tx, asker.client, &quoted).await?)
}

/// Notes in a transaction that calldata is handed out which keeps to the price terms of its requests: they await their
/// payments from then on.
pub async fn await_payments(tx: &Tx, requests: &[&Request]) -> Result<(), StoreError> {
    store::requests::lock_all(tx, requests).await?;
    store::requests::set_listening(tx, requests).await
}

/// Those that do not await their payments yet.
pub fn silent(mut requests: Vec<&Request>) -> Vec<&Request> {
    requests.retain(|request| !request.ledger.is_listening);
    requests
}

/// What is handed out for one of several requests.
struct Handed<'a> {
    /// Its place among them, as the caller has them.
    place: usize,
    request: &'a Request,
    handed: Option<HandedOut>,
    is_named: bool,
    quote: Option<&'a Quote>,
}

impl Handed<'_> {
    /// Whether the call itself named a fee that binds the payment.
    fn names_fee(&self) -> bool {
        self.is_named && self.handed.is_some_and(|handed| handed.fee.is_some())
    }

    /// Whether a part of what is left is quoted.
    fn is_part(&self) -> bool {
        let remaining = self.request.ledger.remaining();
        self.quote.is_some_and(|quote| quote.settlement < remaining)
    }
}

/// In the order of their rows.
fn in_order<'a>(asker: Asker<'_>, payments: &'a [HandedPayment]) -> Vec<Handed<'a>> {
    let handed = payments.iter().enumerate().map(|(place, payment)| Handed {
        place,
        request: &payment.request,
        handed: handed_out(asker, payment),
        is_named: payment.charges.is_platform_named(),
        quote: payment.quote.as_ref(),
    });
    let mut handed: Vec<_> = handed.collect();
    handed.sort_by(|one, other| one.request.row.cmp(&other.request.row));
    handed
}

fn pairs<'a>(handed: &'a [Handed<'a>]) -> Vec<(&'a Request, &'a HandedOut)> {
    let kept = handed
        .iter()
        .filter_map(|one| Some((one.request, one.handed.as_ref()?)));
    kept.collect()
}

fn quoted<'a>(handed: &[Handed<'a>]) -> Vec<(&'a Request, &'a Quote)> {
    let quoted = handed.iter().filter_map(|one| Some((one.request, one.quote?)));
    quoted.collect()
}

/// Checks that the credential of the call may have one more part of each request quoted; they are locked, so that calls
/// at the same time wait for each other. Errors: too many of its quotes have not ended (400).
async fn check_quotes(tx: &Tx, asker: Asker<'_>, parts: &[&Handed<'_>], now: DateTime<Utc>) -> Result<(), KeepError> {
    let requests: Vec<&Request> = parts.iter().map(|part| part.request).collect();
    let open = store::quotes::count_open(tx, &requests, asker.client, now).await?;
    let full = parts.iter().find(|part| {
        open.get(&part.request.row)
            .is_some_and(|open| *open >= NAMED_QUOTES_MAX)
    });
    full.map_or(Ok(()), |full| {
        let sentence = format!(
            "{NAMED_QUOTES_MAX} quotes of this request that this credential asked for have not ended; pay one of them, \
             ask without an amount, or wait"
        );
        Err(KeepError::Refused(full.place, Refusal::invalid(sentence)))
    })
}

/// Checks that the credential of the call may name one more fee for each request; they are locked, so that calls at the
/// same time wait for each other. Errors: it named too many (400).
async fn check_fees(tx: &Tx, asker: Asker<'_>, named: &[&Handed<'_>], now: DateTime<Utc>) -> Result<(), KeepError> {
    let asker = asker.client;
    let requests: Vec<&Request> = named.iter().map(|named| named.request).collect();
    let counts = store::handed_out::count_fees(tx, &requests, asker).await?;
    let is_full = |named: &Handed<'_>| {
        let count = counts.get(&named.request.row);
        count.is_some_and(|count| *count >= NAMED_FEES_MAX)
    };
    let full: Vec<&Handed<'_>> = named.iter().copied().filter(|named| is_full(named)).collect();
    let asked = full
        .iter()
        .filter_map(|named| Some((named.request, named.handed.as_ref()?)));
    let asked: Vec<_> = asked.collect();
    let kept = store::handed_out::kept(tx, asker, &asked, now).await?;
    let further = full.iter().find(|named| !kept.contains(&named.request.row));
    further.map_or(Ok(()), |further| {
        let sentence = format!(
            "This credential asked for this request with {NAMED_FEES_MAX} different fees already; ask with one of \
             them, or without a fee"
        );
        Err(KeepError::Refused(further.place, Refusal::invalid(sentence)))
    })
}
