//! Exports of payments: all matches in one response, as CSV or JSON lines.

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
        FlowError, FlowResult,
        payments::{export::PaymentWalk, search::FoundPayment},
    },
    http::{
        edge::server::{HangUp, ServerStopping},
        error::done,
        forms::{payment::Payment, text::text, words::words},
        gate::places::{PlatformSlot, PlatformSlots},
    },
};
use bytes::Bytes;
use futures_util::stream;
use poem::{
    Body, IntoResponse, Request, Response,
    http::{Version, header},
};
use poem_openapi::{
    ApiResponse,
    registry::{MetaHeader, MetaMediaType, MetaResponse, MetaResponses, MetaSchema, MetaSchemaRef, Registry},
    types::{ToJSON, Type},
};
use serde_json::Value;
use std::{io, time::Duration};
use tokio::{sync::mpsc, time::timeout};

words! {
    /// Format of an export: CSV with a header, or one line of JSON per payment
    ExportFormat as "ExportFormat";
}

text! {
    /// Boolean parameter, as a string.
    MarkText {
        pattern: "^(true|false)$",
        length_max: 5,
        example: "true",
        hint: "must be true or false",
    }
}

/// Marks a file as UTF-8 for spreadsheets.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Concurrent exports of a platform on each instance.
const EXPORTS_MAX: u64 = 2;

/// Retry time when the limit is reached, in seconds.
const RETRY_AFTER_S: u32 = 10;

/// Bytes of one chunk.
const PIECE_BYTES: usize = 32 * 1024;

/// Time between two checks of the credential of a running export.
const LOOKUP_PAUSE: Duration = Duration::from_secs(5);

/// Running exports on this instance. Their number is limited because rendering them slows other calls.
static EXPORTS: PlatformSlots = PlatformSlots::new(16, "Too many exports are running; retry later");

/// Column names with the JSON pointers to their values in a payment.
const CELLS: [(&str, &str); 33] = [
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
    ("destinationTxHash", "/destinationTxHash"),
    ("destinationConvertedAmount", "/convertedAmountDestination"),
    ("destinationConversionRate", "/conversionRateDestination"),
    ("payerAccess", "/payerAccess"),
];

/// An export that is streamed while its payments are read.
pub struct PaymentExport {
    format: ExportFormat,
    body: Body,
}

impl IntoResponse for PaymentExport {
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

impl ApiResponse for PaymentExport {
    fn meta() -> MetaResponses {
        let content = [("text/csv", table()), ("application/jsonl", Payment::schema_ref())];
        MetaResponses {
            responses: vec![MetaResponse {
                description: "Payments, one after the other; the schema is for one line.",
                status: Some(done::OK),
                status_range: None,
                content: content
                    .map(|(content_type, schema)| MetaMediaType { content_type, schema })
                    .into(),
                headers: vec![MetaHeader {
                    name: "Content-Disposition".to_owned(),
                    description: Some("Name of the file, `payments.csv` or `payments.jsonl`.".to_owned()),
                    required: true,
                    deprecated: false,
                    schema: MetaSchemaRef::Inline(Box::new(MetaSchema {
                        max_length: Some(64),
                        pattern: Some(r#"^attachment; filename="payments\.(csv|jsonl)"$"#.to_owned()),
                        example: Some("attachment; filename=\"payments.csv\"".into()),
                        ..MetaSchema::new("string")
                    })),
                }],
            }],
        }
    }

    fn register(registry: &mut Registry) {
        Payment::register(registry);
    }
}

/// Maximum length of the CSV text in the schema: a line with all texts and lists of a payment, quoted or not, is
/// shorter.
const LINE_LENGTH_MAX: usize = 1024 * 1024;

/// The header and a row.
fn table() -> MetaSchemaRef {
    let names: Vec<&str> = CELLS.iter().map(|(name, _)| *name).collect();
    let row = "01KCM6Q8R5T3V9X2B1D4F6G7H8,2026-11-20T09:30:00.000Z,direct,10.5,FAU,FAU,,,,sepolia,\
        0x4a2d5f7c1b8e3a906d7f2c4b5a1e8d3f6c9b0a7e2d5f4c1b8a3e6d9f0c7b2a5e,,[],,,,\
        01b8f4c2d7e6a3950f1c8b4d2e7a6f3c9015d8b4e2a7c6f3091b5d8e4a2c7f6b30,0x9f1c3b5d7e2a4c68,true,INV-9,\
        Ada,Lovelace,ada@example.com,,,,,,sepolia,\
        0x4a2d5f7c1b8e3a906d7f2c4b5a1e8d3f6c9b0a7e2d5f4c1b8a3e6d9f0c7b2a5e,,";
    MetaSchemaRef::Inline(Box::new(MetaSchema {
        example: Some(Value::from(format!("{}\r\n{row}\r\n", names.join(",")))),
        max_length: Some(LINE_LENGTH_MAX),
        ..MetaSchema::new_with_format("string", "csv")
    }))
}

/// The next piece for the reader. An export that stops without `End` is incomplete.
enum ExportPiece {
    Bytes(Bytes),
    End,
}

/// Why an export ends early.
enum ExportInterruption {
    /// The reader disconnected.
    Gone,
    /// The reader accepted no data for too long.
    Stalled,
    /// The payments cannot be read, or can no longer be read.
    Failed(FlowError),
    /// A payment cannot be written.
    Unwritable(io::Error),
}

impl From<FlowError> for ExportInterruption {
    fn from(error: FlowError) -> Self {
        Self::Failed(error)
    }
}

impl From<io::Error> for ExportInterruption {
    fn from(error: io::Error) -> Self {
        Self::Unwritable(error)
    }
}

/// State of a running export.
struct OpenExport {
    ctx: Ctx,
    walk: PaymentWalk,
    format: ExportFormat,
    /// Prefix of the file.
    mark: &'static str,
    pieces: mpsc::Sender<ExportPiece>,
    hang_up: Option<HangUp>,
    _place: PlatformSlot,
}

impl OpenExport {
    /// Writes the whole export, and logs why when it ends early.
    async fn run(mut self, first: Vec<FoundPayment>) {
        match self.write(first).await {
            Ok(()) => {
                drop((self.pieces, self._place));
                if let Some(connection) = self.hang_up {
                    watch_rest(self.walk, &connection).await;
                }
            }
            Err(ExportInterruption::Gone) => {}
            Err(ExportInterruption::Stalled) => {
                let waited = self.ctx.waits.reader;
                tracing::info!("an export was aborted: the client read nothing for {waited:?}");
                // The connection is cut: data that waits in it would keep it open for longer.
                self.hang_up.iter().for_each(HangUp::cut);
            }
            Err(ExportInterruption::Failed(FlowError::Refused(refusal))) => {
                tracing::info!(%refusal, "an export was aborted: the credential of the caller is no longer valid");
                // The connection is cut: data that waits in it must not reach a caller whose credential ended.
                self.hang_up.iter().for_each(HangUp::cut);
            }
            Err(ExportInterruption::Failed(error)) => {
                tracing::warn!(%error, "an export was aborted: its payments could not be read");
            }
            Err(ExportInterruption::Unwritable(error)) => tracing::error!(%error, "a payment cannot be exported"),
        }
    }

    /// Writes the whole export at the pace of the reader.
    async fn write(&mut self, mut part: Vec<FoundPayment>) -> Result<(), ExportInterruption> {
        let mut waiting = self.mark.as_bytes().to_vec();
        if self.format == ExportFormat::Csv {
            waiting.extend(line(CELLS.iter().map(|(name, _)| (*name).to_owned()))?);
        }
        while !part.is_empty() {
            for (record, request) in part {
                let payment = found(&self.ctx, &record, request).to_json();
                let payment = payment.ok_or_else(|| io::Error::other("the payment has no JSON form"))?;
                waiting.extend(match self.format {
                    ExportFormat::Csv => line(cells(&payment))?,
                    ExportFormat::Jsonl => format!("{payment}\n").into_bytes(),
                });
                // Writing a payment occupies a runtime thread. The task yields after each payment, so that other calls
                // make progress.
                tokio::task::yield_now().await;
                if waiting.len() >= PIECE_BYTES {
                    self.walk.require_admitted().await?;
                    self.send(ExportPiece::Bytes(std::mem::take(&mut waiting).into()))
                        .await?;
                }
            }
            part = self.walk.next().await?;
        }
        if !waiting.is_empty() {
            self.send(ExportPiece::Bytes(waiting.into())).await?;
        }
        self.send(ExportPiece::End).await
    }

    /// Waits until the reader accepts another piece.
    async fn send(&self, piece: ExportPiece) -> Result<(), ExportInterruption> {
        match timeout(self.ctx.waits.reader, self.pieces.send(piece)).await {
            Ok(sent) => sent.map_err(|_| ExportInterruption::Gone),
            Err(_) => Err(ExportInterruption::Stalled),
        }
    }
}

/// Checks the credential of an export while its last part may still wait in the connection, and cuts the connection
/// when the credential ends.
async fn watch_rest(mut walk: PaymentWalk, connection: &HangUp) {
    while !connection.is_over() {
        tokio::time::sleep(LOOKUP_PAUSE).await;
        if let Err(FlowError::Refused(refusal)) = walk.require_admitted().await {
            tracing::info!(%refusal, "the rest of an export was discarded, because the credential is no longer valid");
            return connection.cut();
        }
    }
}

/// Starts an export of the payments of a caller. It ends when the reader has everything, disconnects or stalls, or when
/// the service stops. An incomplete export is cut off in a way that HTTP clients detect.
///
/// Errors: the platform or the instance has too many running exports (429); an error in `checks`, or an invalid filter
/// (400); a call over HTTP/1.0, which cannot signal an incomplete response (400).
pub(super) async fn open(
    ctx: &Ctx,
    caller: &PlatformCaller,
    search: &PaymentSearch,
    checks: Checks,
    format: ExportFormat,
    has_mark: bool,
    request: &Request,
) -> FlowResult<PaymentExport> {
    let mut walk = PaymentWalk::start(ctx, caller, search, checks)?;
    if request.version() < Version::HTTP_11 {
        let message = "Export payments over HTTP/1.1: HTTP/1.0 cannot signal an incomplete response";
        return Err(Refusal::invalid(message).into());
    }
    let place = EXPORTS.take(&caller.platform, |own| {
        if own <= EXPORTS_MAX {
            return Ok(());
        }
        let message = format!("This platform already has {EXPORTS_MAX} running exports; retry after one has ended");
        Err(Refusal::new(RefusalKind::TooMany, message).after(RETRY_AFTER_S))
    })?;
    // A call without a server, as in tests, has no `ServerStopping`: nothing stops the export.
    let stop = request.data::<ServerStopping>().map(|stopping| stopping.0.clone());
    let stop = stop.unwrap_or_default();
    let first = walk.next().await?;
    let (pieces, taken) = mpsc::channel(1);
    let open = OpenExport {
        ctx: ctx.clone(),
        walk,
        format,
        mark: if has_mark { BYTE_ORDER_MARK } else { "" },
        pieces,
        hang_up: request.data::<HangUp>().cloned(),
        _place: place,
    };
    tokio::spawn(async move { stop.run_until_cancelled(open.run(first)).await });
    let body = stream::unfold(Some(taken), |taken| async {
        let mut taken = taken?;
        match taken.recv().await {
            Some(ExportPiece::Bytes(bytes)) => Some((Ok(bytes), Some(taken))),
            Some(ExportPiece::End) => None,
            None => Some((Err(io::Error::from(io::ErrorKind::UnexpectedEof)), None)),
        }
    });
    Ok(PaymentExport {
        format,
        body: Body::from_bytes_stream(body),
    })
}

/// The values of a payment in column order; missing values are empty, values other than strings are JSON.
fn cells(payment: &Value) -> impl Iterator<Item = String> {
    CELLS.iter().map(|(_, pointer)| match payment.pointer(pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    })
}

/// One CSV line, with quotes where needed and without formulas.
fn line(cells: impl Iterator<Item = String>) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    writer.write_record(cells.map(|cell| defused(&cell)))?;
    writer.into_inner().map_err(csv::IntoInnerError::into_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use std::collections::BTreeSet;

    /// Restores the text of a cell with the rule that the document gives to readers.
    fn read_back(cell: &str) -> String {
        let rule = regex::Regex::new("(^|[;\t\r\n])'").unwrap();
        rule.replace_all(cell, "$1").into_owned()
    }

    /// The cells of a line as a spreadsheet with this separator reads them.
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
        fn no_exported_cell_is_a_formula_and_texts_can_be_restored(
            texts in prop::collection::vec("[=+@'\t\r\n\",;＝＋－＠\u{202e}\u{2066}a-]{0,8}|\\PC{0,16}", 2..8),
        ) {
            // The first and the last cell of a payment never contain text of users.
            let fixed = || "sepolia".to_owned();
            let cells = std::iter::once(fixed()).chain(texts.clone()).chain([fixed()]);
            let bytes = line(cells).unwrap();
            let read = split(&bytes, b',', true);
            let read: Vec<String> = read[1..=texts.len()].iter().map(|cell| read_back(cell)).collect();
            prop_assert_eq!(read, texts);
            let signs = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
            for separator in *b",;\t" {
                let cells = split(&bytes, separator, true);
                prop_assert!(!cells.iter().any(|cell| cell.starts_with(signs)), "{separator}: {cells:?}");
            }
            // With another separator, quotes in the middle of a cell are text.
            for separator in *b";\t" {
                let cells = split(&bytes, separator, false);
                prop_assert!(!cells.iter().any(|cell| cell.starts_with(signs)), "{separator}: {cells:?}");
            }
        }
    }

    /// JSON pointers to the values of a schema in the document; a list is one value.
    fn members(document: &Value, schema: &Value, at: &str, found: &mut BTreeSet<String>) {
        if let Some(name) = schema["$ref"].as_str() {
            let named = document.pointer(name.trim_start_matches('#')).expect("a schema");
            return members(document, named, at, found);
        }
        let parts = ["allOf", "anyOf", "oneOf"].map(|word| schema[word].as_array());
        if let Some(parts) = parts.into_iter().flatten().next() {
            return parts.iter().for_each(|part| members(document, part, at, found));
        }
        match schema["properties"].as_object() {
            Some(properties) => properties
                .iter()
                .for_each(|(name, schema)| members(document, schema, &format!("{at}/{name}"), found)),
            None => drop(found.insert(at.to_owned())),
        }
    }

    #[test]
    fn payment_members_and_exported_cells_correspond() {
        let document: Value = serde_json::from_str(include_str!("../../../openapi/v2.json")).unwrap();
        let mut documented = BTreeSet::new();
        members(
            &document,
            &json!({ "$ref": "#/components/schemas/Payment" }),
            "",
            &mut documented,
        );
        let cells: BTreeSet<String> = CELLS.iter().map(|(_, pointer)| (*pointer).to_owned()).collect();
        assert_eq!(cells, documented);
        let names: BTreeSet<&str> = CELLS.iter().map(|(name, _)| *name).collect();
        assert_eq!((names.len(), cells.len()), (CELLS.len(), CELLS.len()), "each once");
    }
}
