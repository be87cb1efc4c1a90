//! Exports of payments: all that match in one answer, as cells or as lines of JSON.

use super::found::found;
use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        export::{ExportFormat, defused},
        refusal::{Checks, Refusal, RefusalKind},
        search::PaymentSearch,
    },
    flows::{
        FlowResult,
        payments::{export::Walk, search::FoundPayment},
    },
    http::{
        error::done,
        forms::{payment::Payment, words::words},
        gate::places::{Place, Places},
    },
};
use bytes::Bytes;
use futures_util::stream;
use poem::{Body, IntoResponse, Response, http::header};
use poem_openapi::{
    ApiResponse,
    registry::{MetaMediaType, MetaResponse, MetaResponses, MetaSchema, MetaSchemaRef, Registry},
    types::{ToJSON, Type},
};
use serde_json::Value;
use std::{io, time::Duration};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

words! {
    /// What an export is written as: a header and cells, or a line of JSON for each payment
    ExportFormat as "ExportFormat";
}

/// Exports of a platform at a time, on each instance.
const EXPORTS_MAX: u64 = 2;

/// When one of them may have ended.
const RETRY_AFTER_S: u32 = 10;

/// Bytes that go out together.
const PIECE_BYTES: usize = 32 * 1024;

/// How long a reader may take nothing; then it counts as gone.
const PATIENCE: Duration = Duration::from_secs(8);

/// Who has exports open.
static EXPORTS: Places = Places::new();

/// Names of cells, and where a payment has what stands in them.
const CELLS: [(&str, &str); 29] = [
    ("id", "/id"),
    ("timestamp", "/timestamp"),
    ("type", "/type"),
    ("amount", "/amount"),
    ("currency", "/currency"),
    ("paymentCurrency", "/paymentCurrency"),
    ("convertedAmount", "/convertedAmountSource"),
    ("conversionRate", "/conversionRateSource"),
    ("rateProvider", "/rateProvider"),
    ("network", "/sourceNetwork"),
    ("txHash", "/sourceTxHash"),
    ("feeShortfall", "/feeShortfall"),
    ("fees", "/fees"),
    ("recurringPaymentId", "/recurringPaymentId"),
    ("reversedAt", "/reversal/reversedAt"),
    ("reversalReason", "/reversal/reason"),
    ("requestId", "/request/requestId"),
    ("paymentReference", "/request/paymentReference"),
    ("hasBeenPaid", "/request/hasBeenPaid"),
    ("reference", "/request/reference"),
    ("firstName", "/request/customerInfo/firstName"),
    ("lastName", "/request/customerInfo/lastName"),
    ("email", "/request/customerInfo/email"),
    ("street", "/request/customerInfo/address/street"),
    ("city", "/request/customerInfo/address/city"),
    ("state", "/request/customerInfo/address/state"),
    ("postalCode", "/request/customerInfo/address/postalCode"),
    ("country", "/request/customerInfo/address/country"),
    ("destinationNetwork", "/destinationNetwork"),
];

/// An export that goes out while it is read.
pub struct Export {
    format: ExportFormat,
    body: Body,
}

impl IntoResponse for Export {
    fn into_response(self) -> Response {
        let (media, disposition) = match self.format {
            ExportFormat::Csv => ("text/csv; charset=utf-8", "attachment; filename=\"payments.csv\""),
            ExportFormat::Jsonl => ("application/jsonl", "attachment; filename=\"payments.jsonl\""),
        };
        Response::builder()
            .content_type(media)
            .header(header::CONTENT_DISPOSITION, disposition)
            .body(self.body)
    }
}

impl ApiResponse for Export {
    fn meta() -> MetaResponses {
        let content = [("text/csv", table()), ("application/jsonl", Payment::schema_ref())];
        MetaResponses {
            responses: vec![MetaResponse {
                description: "Payments, one after the other; the schema of JSON is that of one line.",
                status: Some(done::OK),
                status_range: None,
                content: content
                    .map(|(content_type, schema)| MetaMediaType { content_type, schema })
                    .into(),
                headers: Vec::new(),
            }],
        }
    }

    fn register(registry: &mut Registry) {
        Payment::register(registry);
    }
}

/// The header and a row, with the first of their cells.
fn table() -> MetaSchemaRef {
    let example = "id,timestamp,type,amount\r\n01KCM6Q8R5T3V9X2B1D4F6G7H8,2026-11-20T09:30:00.000Z,direct,10.5\r\n";
    MetaSchemaRef::Inline(Box::new(MetaSchema {
        example: Some(Value::from(example)),
        ..MetaSchema::new_with_format("string", "csv")
    }))
}

/// What a reader takes next; without an end, what it has is not all.
enum Piece {
    Bytes(Bytes),
    End,
}

/// What an open export holds.
struct Open {
    ctx: Ctx,
    walk: Walk,
    format: ExportFormat,
    pieces: mpsc::Sender<Piece>,
    _place: Place,
}

impl Open {
    /// Writes everything, as fast as the reader takes it.
    async fn write(mut self, mut part: Vec<FoundPayment>) {
        let mut waiting = match self.format {
            ExportFormat::Csv => line(CELLS.iter().map(|(name, _)| (*name).to_owned())),
            ExportFormat::Jsonl => Vec::new(),
        };
        while !part.is_empty() {
            for (record, request) in part {
                let payment = found(&self.ctx, &record, request).to_json().unwrap_or_default();
                waiting.extend(match self.format {
                    ExportFormat::Csv => line(cells(&payment)),
                    ExportFormat::Jsonl => format!("{payment}\n").into_bytes(),
                });
                if waiting.len() >= PIECE_BYTES && !self.send(Piece::Bytes(std::mem::take(&mut waiting).into())).await {
                    return;
                }
            }
            part = match self.walk.next().await {
                Ok(part) => part,
                Err(error) => return tracing::warn!(%error, "an export ends early"),
            };
        }
        if waiting.is_empty() || self.send(Piece::Bytes(waiting.into())).await {
            self.send(Piece::End).await;
        }
    }

    /// Waits until the reader has room; tells whether it took the piece.
    async fn send(&self, piece: Piece) -> bool {
        matches!(timeout(PATIENCE, self.pieces.send(piece)).await, Ok(Ok(())))
    }
}

/// Begins an export of the payments of a caller, until the reader has everything, goes away or takes nothing, or until the
/// service stops. What does not come to its end is cut off in a way that a client of HTTP notices.
///
/// Errors: as many exports run as a platform may have (429); what was noted before, and a filter that is wrong (400).
pub(super) async fn open(
    ctx: &Ctx,
    caller: &PlatformCaller,
    (search, checks): (&PaymentSearch, Checks),
    format: ExportFormat,
    stop: CancellationToken,
) -> FlowResult<Export> {
    let mut walk = Walk::start(ctx, caller, search, checks)?;
    let place = EXPORTS.take(&caller.platform, |own, _| match own {
        ..=EXPORTS_MAX => Ok(()),
        _ => {
            let message =
                format!("{EXPORTS_MAX} exports of this platform are running; one more is taken when one has ended");
            Err(Refusal::new(RefusalKind::TooMany, message).after(RETRY_AFTER_S))
        }
    })?;
    let first = walk.next().await?;
    let (pieces, taken) = mpsc::channel(1);
    let open = Open {
        ctx: ctx.clone(),
        walk,
        format,
        pieces,
        _place: place,
    };
    tokio::spawn(async move { stop.run_until_cancelled(open.write(first)).await });
    let body = stream::unfold(Some(taken), |taken| async {
        let mut taken = taken?;
        match taken.recv().await {
            Some(Piece::Bytes(bytes)) => Some((Ok(bytes), Some(taken))),
            Some(Piece::End) => None,
            None => Some((Err(io::Error::from(io::ErrorKind::UnexpectedEof)), None)),
        }
    });
    Ok(Export {
        format,
        body: Body::from_bytes_stream(body),
    })
}

/// The texts of a payment in the order of the cells; what it does not have is empty, what is no text is JSON.
fn cells(payment: &Value) -> impl Iterator<Item = String> {
    CELLS.iter().map(|(_, pointer)| match payment.pointer(pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    })
}

/// One line of cells, in quotes where they need them, none of which is a formula.
fn line(cells: impl Iterator<Item = String>) -> Vec<u8> {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    let cells = cells.map(|cell| defused(&cell));
    // Memory takes every byte, and one line has no other to be as long as.
    let written = writer.write_record(cells);
    debug_assert!(written.is_ok());
    writer.into_inner().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule for readers, as the document says it.
    fn read_back(cell: &str) -> String {
        let rule = regex::Regex::new("(^|[;\t\r\n])'").unwrap();
        rule.replace_all(cell, "$1").into_owned()
    }

    /// The cells of a line as a spreadsheet has them that separates by this sign.
    fn split(line: &[u8], separator: u8, is_quoting: bool) -> Vec<String> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(separator)
            .quoting(is_quoting)
            .from_reader(line);
        let records: Vec<_> = reader.records().collect::<Result<_, _>>().unwrap();
        records.iter().flatten().map(str::to_owned).collect()
    }

    proptest! {
        #[test]
        fn whatever_separates_cells_none_is_a_formula_and_the_texts_come_back(
            texts in prop::collection::vec("[=+@'\t\r\n\",;＝＋－＠\u{202e}\u{2066}a-]{0,8}|\\PC{0,16}", 2..8),
        ) {
            // The first and the last cell of a payment are no text of others.
            let fixed = || "sepolia".to_owned();
            let cells = std::iter::once(fixed()).chain(texts.clone()).chain([fixed()]);
            let bytes = line(cells);
            let read = split(&bytes, b',', true);
            let read: Vec<String> = read[1..=texts.len()].iter().map(|cell| read_back(cell)).collect();
            prop_assert_eq!(read, texts);
            let signs = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
            for separator in *b",;\t" {
                let cells = split(&bytes, separator, true);
                prop_assert!(!cells.iter().any(|cell| cell.starts_with(signs)), "{separator}: {cells:?}");
            }
            // Where another sign separates, quotes in the middle of a cell are text.
            for separator in *b";\t" {
                let cells = split(&bytes, separator, false);
                prop_assert!(!cells.iter().any(|cell| cell.starts_with(signs)), "{separator}: {cells:?}");
            }
        }
    }
}
