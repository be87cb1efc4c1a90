//! Stores the calldata terms issued for requests, so that payments can be compared with them.

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

/// Why nothing was stored.
#[derive(Debug)]
pub enum KeepError {
    /// The request at this position has reached a limit for this credential.
    Refused(usize, Refusal),
    /// The database failed.
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

/// The caller for whom calldata is issued.
#[derive(Debug, Clone, Copy)]
pub struct HandoutRecipient<'a> {
    /// The client ID; `None` for a caller that acts for the whole platform.
    pub client: Option<&'a ClientRowId>,
    /// Whether the caller is public. Anyone can make such a call, so a fee that the call chooses is not binding.
    pub is_public: bool,
}

impl<'a> From<&'a PlatformCaller> for HandoutRecipient<'a> {
    fn from(caller: &'a PlatformCaller) -> Self {
        Self {
            client: caller.client(),
            is_public: caller.is_public(),
        }
    }
}

/// The terms of issued calldata that have to be stored, because payments are compared with them. They are the fee of
/// the platform, or the fact that there was none. `None` if the price terms of the request already contain this fee, or
/// if the fee that the caller chose is not binding.
pub fn handed_out(asker: HandoutRecipient<'_>, payment: &HandedPayment) -> Option<HandedOut> {
    let is_open = payment.request.terms.price.charges.platform().is_none();
    let is_binding = !asker.is_public || !payment.charges.is_platform_named();
    (is_open && is_binding).then_some(HandedOut {
        fee: payment.charges.platform().copied(),
    })
}

/// Stores the terms issued for requests that the same transaction created. The requests already expect their payments,
/// and no terms were issued for them before.
pub async fn keep_of_new(
    tx: &Tx,
    asker: impl Into<HandoutRecipient<'_>>,
    payments: &[HandedPayment],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let asker = asker.into();
    let handed = in_order(asker, payments);
    store::handed_out::keep(tx, asker.client, &pairs(&handed), now).await?;
    store::quotes::insert(tx, asker.client, &quoted(&handed)).await
}

/// Stores the terms issued for requests in a transaction. The requests expect their payments from then on.
///
/// The rows of several requests are locked first, in row order, so that transactions with common requests cannot
/// deadlock. Errors: the credential of the call used too many different fees for a request, or has too many unexpired
/// quotes for parts of it (400). Source: decisions D38.
pub async fn keep(
    tx: &Tx,
    asker: impl Into<HandoutRecipient<'_>>,
    payments: &[HandedPayment],
    now: DateTime<Utc>,
) -> Result<(), KeepError> {
    let asker = asker.into();
    let handed = in_order(asker, payments);
    let named: Vec<&IssuedTerms<'_>> = handed.iter().filter(|handed| handed.names_fee()).collect();
    let parts: Vec<&IssuedTerms<'_>> = handed.iter().filter(|handed| handed.is_part()).collect();
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
    let further: Vec<&IssuedTerms<'_>> = parts
        .into_iter()
        .filter(|handed| !prolonged.contains(&handed.request.row))
        .collect();
    check_quotes(tx, asker, &further, now).await?;
    Ok(store::quotes::insert(tx, asker.client, &quoted).await?)
}

/// Records in a transaction that requests expect payments from then on. It is used for calldata without additional
/// terms.
pub async fn await_payments(tx: &Tx, requests: &[&Request]) -> Result<(), StoreError> {
    store::requests::lock_all(tx, requests).await?;
    store::requests::set_listening(tx, requests).await
}

/// The requests that do not expect payments yet.
pub fn silent(mut requests: Vec<&Request>) -> Vec<&Request> {
    requests.retain(|request| !request.ledger.is_listening);
    requests
}

/// Terms issued for one of several requests.
struct IssuedTerms<'a> {
    /// Position of the request in the call.
    place: usize,
    request: &'a Request,
    handed: Option<HandedOut>,
    is_named: bool,
    quote: Option<&'a Quote>,
}

impl IssuedTerms<'_> {
    /// Whether the call itself set a binding fee.
    fn names_fee(&self) -> bool {
        self.is_named && self.handed.is_some_and(|handed| handed.fee.is_some())
    }

    /// Whether the quote is for only a part of the remaining amount.
    fn is_part(&self) -> bool {
        let remaining = self.request.ledger.remaining();
        self.quote.is_some_and(|quote| quote.settlement < remaining)
    }
}

/// Sorts by row.
fn in_order<'a>(asker: HandoutRecipient<'_>, payments: &'a [HandedPayment]) -> Vec<IssuedTerms<'a>> {
    let handed = payments.iter().enumerate().map(|(place, payment)| IssuedTerms {
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

fn pairs<'a>(handed: &'a [IssuedTerms<'a>]) -> Vec<(&'a Request, &'a HandedOut)> {
    let kept = handed
        .iter()
        .filter_map(|one| Some((one.request, one.handed.as_ref()?)));
    kept.collect()
}

fn quoted<'a>(handed: &[IssuedTerms<'a>]) -> Vec<(&'a Request, &'a Quote)> {
    let quoted = handed.iter().filter_map(|one| Some((one.request, one.quote?)));
    quoted.collect()
}

/// Checks that the credential of the call may get one more quote for a part of each request. The requests are locked,
/// so that concurrent calls wait for each other. Errors: the credential has too many unexpired quotes (400).
async fn check_quotes(
    tx: &Tx,
    asker: HandoutRecipient<'_>,
    parts: &[&IssuedTerms<'_>],
    now: DateTime<Utc>,
) -> Result<(), KeepError> {
    let requests: Vec<&Request> = parts.iter().map(|part| part.request).collect();
    let open = store::quotes::count_open(tx, &requests, asker.client, now).await?;
    let full = parts.iter().find(|part| {
        open.get(&part.request.row)
            .is_some_and(|open| *open >= NAMED_QUOTES_MAX)
    });
    full.map_or(Ok(()), |full| {
        let sentence = format!(
            "This credential has {NAMED_QUOTES_MAX} unexpired quotes for parts of this request; pay one of them, \
             omit the amount, or wait"
        );
        Err(KeepError::Refused(full.place, Refusal::invalid(sentence)))
    })
}

/// Checks that the credential of the call may use one more fee for each request. The requests are locked, so that
/// concurrent calls wait for each other. Errors: the credential used too many fees (400).
async fn check_fees(
    tx: &Tx,
    asker: HandoutRecipient<'_>,
    named: &[&IssuedTerms<'_>],
    now: DateTime<Utc>,
) -> Result<(), KeepError> {
    let asker = asker.client;
    let requests: Vec<&Request> = named.iter().map(|named| named.request).collect();
    let counts = store::handed_out::count_fees(tx, &requests, asker).await?;
    let is_full = |named: &IssuedTerms<'_>| {
        let count = counts.get(&named.request.row);
        count.is_some_and(|count| *count >= NAMED_FEES_MAX)
    };
    let full: Vec<&IssuedTerms<'_>> = named.iter().copied().filter(|named| is_full(named)).collect();
    let asked = full
        .iter()
        .filter_map(|named| Some((named.request, named.handed.as_ref()?)));
    let asked: Vec<_> = asked.collect();
    let kept = store::handed_out::kept(tx, asker, &asked, now).await?;
    let further = full.iter().find(|named| !kept.contains(&named.request.row));
    further.map_or(Ok(()), |further| {
        let sentence = format!(
            "This credential has already used {NAMED_FEES_MAX} different fees for this request; use one of \
             them, or no fee"
        );
        Err(KeepError::Refused(further.place, Refusal::invalid(sentence)))
    })
}
