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
        FlowError, FlowResult,
        payments::{export::Walk, search::FoundPayment},
    },
    http::{
        edge::server::{HangUp, Stopping},
        error::done,
        forms::{payment::Payment, text::text, words::words},
        gate::places::{Place, Places},
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
    /// What an export is written as: a header and cells, or a line of JSON for each payment
    ExportFormat as "ExportFormat";
}

text! {
    /// Truth value of the parameter, in a string.
    MarkText {
        pattern: "^(true|false)$",
        length_max: 5,
        example: "true",
        hint: "must be true or false",
    }
}

/// What tells spreadsheets that a file is UTF-8.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Exports of a platform at a time, on each instance.
const EXPORTS_MAX: u64 = 2;

/// When one of them may have ended.
const RETRY_AFTER_S: u32 = 10;

/// Bytes that go out together.
const PIECE_BYTES: usize = 32 * 1024;

/// Pause after which the credential of an export that is written is looked up again.
const LOOKUP_PAUSE: Duration = Duration::from_secs(5);

/// Who has exports open on this instance: rendering them takes the time of other calls.
static EXPORTS: Places = Places::new(16, "Too many exports are running; try again later");

/// Names of cells, and where a payment has what stands in them.
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
                description: "Payments, one after the other; the schema is that of one line.",
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

/// Longest line of cells: none of the texts and lists of a payment is as long, quoted or not.
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

/// What a reader takes next; without an end, what it has is not all.
enum Piece {
    Bytes(Bytes),
    End,
}

/// What ends an export early.
enum Cut {
    /// The reader went away.
    Gone,
    /// The reader took nothing for too long.
    Stalled,
    /// The payments cannot be read, or not any more.
    Failed(FlowError),
    /// A payment cannot be written.
    Unwritable(io::Error),
}

impl From<FlowError> for Cut {
    fn from(error: FlowError) -> Self {
        Self::Failed(error)
    }
}

impl From<io::Error> for Cut {
    fn from(error: io::Error) -> Self {
        Self::Unwritable(error)
    }
}

/// What an open export holds.
struct Open {
    ctx: Ctx,
    walk: Walk,
    format: ExportFormat,
    /// What stands before everything.
    mark: &'static str,
    pieces: mpsc::Sender<Piece>,
    hang_up: Option<HangUp>,
    _place: Place,
}

impl Open {
    /// Writes everything, and says why when it does not.
    async fn run(mut self, first: Vec<FoundPayment>) {
        match self.write(first).await {
            Ok(()) => {
                drop((self.pieces, self._place));
                if let Some(connection) = self.hang_up {
                    watch_rest(self.walk, &connection).await;
                }
            }
            Err(Cut::Gone) => {}
            Err(Cut::Stalled) => {
                let waited = self.ctx.waits.reader;
                tracing::info!("an export was given up: its reader took nothing for {waited:?}");
                // What waits in the connection would keep it for longer.
                self.hang_up.iter().for_each(HangUp::cut);
            }
            Err(Cut::Failed(FlowError::Refused(refusal))) => {
                tracing::info!(%refusal, "an export ends early");
                // What waits in the connection is not for somebody whose credential ended.
                self.hang_up.iter().for_each(HangUp::cut);
            }
            Err(Cut::Failed(error)) => tracing::warn!(%error, "an export ends early"),
            Err(Cut::Unwritable(error)) => tracing::error!(%error, "a payment cannot be exported"),
        }
    }

    /// Writes everything, as fast as the reader takes it.
    async fn write(&mut self, mut part: Vec<FoundPayment>) -> Result<(), Cut> {
        let mut waiting = self.mark.as_bytes().to_vec();
        if self.format == ExportFormat::Csv {
            waiting.extend(line(CELLS.iter().map(|(name, _)| (*name).to_owned()))?);
        }
        while !part.is_empty() {
            for (record, request) in part {
                let payment = found(&self.ctx, &record, request).to_json();
                let payment = payment.ok_or_else(|| io::Error::other("it has no form in JSON"))?;
                waiting.extend(match self.format {
                    ExportFormat::Csv => line(cells(&payment))?,
                    ExportFormat::Jsonl => format!("{payment}\n").into_bytes(),
                });
                // To write takes a thread of the runtime: calls of others have their turn between two payments.
                tokio::task::yield_now().await;
                if waiting.len() >= PIECE_BYTES {
                    self.walk.require_admitted().await?;
                    self.send(Piece::Bytes(std::mem::take(&mut waiting).into())).await?;
                }
            }
            part = self.walk.next().await?;
        }
        if !waiting.is_empty() {
            self.send(Piece::Bytes(waiting.into())).await?;
        }
        self.send(Piece::End).await
    }

    /// Waits until the reader has room for a piece.
    async fn send(&self, piece: Piece) -> Result<(), Cut> {
        match timeout(self.ctx.waits.reader, self.pieces.send(piece)).await {
            Ok(sent) => sent.map_err(|_| Cut::Gone),
            Err(_) => Err(Cut::Stalled),
        }
    }
}

/// Looks the credential of an export up while its last part may still wait in the connection, and cuts that off when the
/// credential ends.
async fn watch_rest(mut walk: Walk, connection: &HangUp) {
    while !connection.is_over() {
        tokio::time::sleep(LOOKUP_PAUSE).await;
        if let Err(FlowError::Refused(refusal)) = walk.require_admitted().await {
            tracing::info!(%refusal, "the rest of an export is discarded");
            return connection.cut();
        }
    }
}

/// Begins an export of the payments of a caller, until the reader has everything, goes away or takes nothing, or until the
/// service stops. What does not come to its end is cut off in a way that a client of HTTP notices.
///
/// Errors: as many exports run as a platform may have, or all together (429); what was noted before, and a filter that is
/// wrong (400); a call whose answer could not show that it breaks off (400).
pub(super) async fn open(
    ctx: &Ctx,
    caller: &PlatformCaller,
    (search, checks): (&PaymentSearch, Checks),
    (format, has_mark): (ExportFormat, bool),
    request: &Request,
) -> FlowResult<Export> {
    let mut walk = Walk::start(ctx, caller, search, checks)?;
    if request.version() < Version::HTTP_11 {
        let message = "An export needs HTTP/1.1: an answer by HTTP/1.0 does not show whether it is complete";
        return Err(Refusal::invalid(message).into());
    }
    let place = EXPORTS.take(&caller.platform, |own| {
        if own <= EXPORTS_MAX {
            return Ok(());
        }
        let message =
            format!("{EXPORTS_MAX} exports of this platform are running; one more is taken when one has ended");
        Err(Refusal::new(RefusalKind::TooMany, message).after(RETRY_AFTER_S))
    })?;
    // Without a server around it, in a test, nothing stops.
    let stop = request.data::<Stopping>().map(|stopping| stopping.0.clone());
    let stop = stop.unwrap_or_default();
    let first = walk.next().await?;
    let (pieces, taken) = mpsc::channel(1);
    let open = Open {
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
            let bytes = line(cells).unwrap();
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

    /// Where a schema of the document has values, as pointers; lists are one value.
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
    fn every_member_of_a_payment_has_a_cell_and_every_cell_a_member() {
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
