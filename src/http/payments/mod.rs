//! Payment search and payment exports.

mod export;
mod found;
mod query;

use crate::{
    domain::{export::ExportFormat, payment::PaymentKind},
    flows::{self, payments::search::Start},
    http::{
        forms::{
            paging::{PageRange, limit_offset},
            payment::Payment,
        },
        operation::*,
    },
};
use export::MarkText;
pub use export::PaymentExport;
use found::found;
use poem::Request;
use query::FilterTexts;

text! {
    /// Start of a page of a search: `nextCursor` of the previous page.
    SearchCursorText {
        pattern: "^[A-Za-z0-9_-]{40,128}$",
        length_max: 128,
        example: "8b1f6e2d3c4a5b69788796a5b4c3d2e1AAY1w0mC4AAwMUtDTTZRUDhSNVQzVjlYMkIxRDRGNkdI",
        hint: "must be the nextCursor of a page of this search, with the same filters and credential; omit it to start again",
    }
}

/// Parameters of a search that an export does not accept.
const PAGING: [&str; 3] = ["limit", "offset", "cursor"];

/// One page of payments, newest first.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PaymentSearchResult {
    /// Payments of this page, newest first
    #[oai(validator(max_items = 100))]
    pub payments: Vec<Payment>,
    /// Position of the page
    pub pagination: PageRange,
    /// `cursor` of the next page; null after the last one
    pub next_cursor: OrNull<SearchCursorText>,
}

/// Payment search.
pub struct Payments;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::Payments")]
impl Payments {
    /// Search payments
    ///
    /// Finds final payments of your requests. At least one filter other than dates and paging is required; filters
    /// combine with AND. A transaction hash or wallet finds every payment of a batch. Paging with `cursor` returns
    /// every payment once, even while new payments arrive.
    ///
    /// When: you search for payments, or reconcile them
    /// Needs: one filter other than dates and paging
    /// Next: read the request of a payment with `GET /v2/request/{requestId}`
    /// 200: One page of payments, newest first, each with the request that it settles
    #[oai(path = "/payments", method = "get", operation_id = "searchPayments")]
    #[expect(
        clippy::too_many_arguments,
        reason = "the function has one argument for each parameter of the operation"
    )]
    async fn search(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrClient>,
        /// Source or destination transaction
        #[oai(name = "txHash")]
        tx_hash: Checked<TxHash>,
        /// Payer or payee
        #[oai(name = "walletAddress")]
        wallet_address: Checked<WalletText>,
        /// Reference that payments carry on chain
        #[oai(name = "paymentReference")]
        payment_reference: Checked<ReferenceText>,
        /// Id of the request that the payment settles
        #[oai(name = "requestId")]
        request_id: Checked<RequestIdText>,
        /// Your own reference. Filled in: `order-1042`
        reference: Checked<MerchantReference>,
        /// Kind of the payment
        #[oai(name = "type")]
        kind: Checked<PaymentKind>,
        /// Id of the invoice currency; or a symbol, such as `USDC` or `ETH`, which matches the currencies with this
        /// symbol on all networks
        #[oai(name = "invoiceCurrency")]
        invoice_currency: Checked<CurrencyIdText>,
        /// Id of the payment currency; or a symbol, such as `USDC` or `ETH`, which matches the currencies with this
        /// symbol on all networks
        #[oai(name = "paymentCurrency")]
        payment_currency: Checked<CurrencyIdText>,
        /// Earliest time, inclusive; UTC ending in `Z`
        #[oai(name = "fromDate")]
        from_date: Checked<UtcTimeText>,
        /// Latest time, inclusive; UTC ending in `Z`
        #[oai(name = "toDate")]
        to_date: Checked<UtcTimeText>,
        /// Page size, 1 to 100; 20 when absent
        limit: Checked<LimitText>,
        /// Rows before the page, 0 to 10000
        offset: Checked<OffsetText>,
        /// `nextCursor` of the previous page, with the same filters; cannot be combined with `offset`
        cursor: Checked<SearchCursorText>,
    ) -> Result<Json<PaymentSearchResult>, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let texts = FilterTexts {
            tx_hash,
            wallet: wallet_address,
            reference: payment_reference,
            request_id,
            merchant_reference: reference,
            kind,
            invoice_currency,
            payment_currency,
            from: from_date,
            to: to_date,
        };
        let search = texts.read(&mut checks);
        if offset.is_given() && cursor.is_given() {
            checks.fail(
                "cursor",
                "cannot be combined with offset: the cursor sets the start of the page",
            );
        }
        let (limit, offset) = limit_offset(limit, offset, &mut checks);
        let start = match cursor.take(&mut checks) {
            Some(cursor) => Start::Cursor(cursor.into()),
            None => Start::Row(offset),
        };
        let page = flows::payments::search::run(&ctx, &caller, &search, start, limit, checks).await?;
        let pagination = PageRange::new(page.total, limit, offset, page.has_more);
        let payments = page.payments.into_iter();
        let payments = payments
            .map(|(record, request)| found(&ctx, &record, request))
            .collect();
        Ok(Json(PaymentSearchResult {
            payments,
            pagination,
            next_cursor: OrNull(page.next.map(SearchCursorText::written)),
        }))
    }

    /// Export payments
    ///
    /// Streams every payment that the filters of `GET /v2/payments` find, newest first, in one response. An export has
    /// no pages: the parameters `limit`, `offset` and `cursor` are refused.
    ///
    /// Read CSV columns by the names in the header; new columns may be added at the end. `fees` is JSON, `hasBeenPaid`
    /// is `true` or `false`, and missing values are empty.
    ///
    /// The export prevents formula injection in spreadsheets with any separator. It adds a `'` at the start of a cell,
    /// and after each `;`, tab or line break, if the next character is `=`, `+`, `-`, `@`, a full-width form of these,
    /// a tab, a carriage return or `'`. After a `;`, tab or line break it also adds a `'` before `"`. To restore the
    /// text, replace `(^|[;\t\r\n])'` with its group in each cell.
    ///
    /// An export ends without its last chunk, which clients report as an error, in three cases: it cannot be completed,
    /// the reader accepts no data for eight seconds, or the credential ends. HTTP/1.0 has no chunks and is refused.
    /// Payments that are recorded during the export may be missing.
    ///
    /// When: accounting needs all payments in one file
    /// Needs: one filter other than dates
    /// Next: nothing
    /// 200: The payments, each with the request that it settles
    /// 429: This platform already has 2 running exports; retry after one has ended
    #[oai(path = "/payments/export", method = "get", operation_id = "exportPayments")]
    #[expect(
        clippy::too_many_arguments,
        reason = "one argument for each parameter of the contract"
    )]
    async fn export(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<Exporter>,
        request: &Request,
        /// Format of the response; `csv` when absent
        format: Checked<ExportFormat>,
        /// Source or destination transaction
        #[oai(name = "txHash")]
        tx_hash: Checked<TxHash>,
        /// Payer or payee
        #[oai(name = "walletAddress")]
        wallet_address: Checked<WalletText>,
        /// Reference that payments carry on chain
        #[oai(name = "paymentReference")]
        payment_reference: Checked<ReferenceText>,
        /// Id of the request that the payment settles
        #[oai(name = "requestId")]
        request_id: Checked<RequestIdText>,
        /// Your own reference. Filled in: `order-1042`
        reference: Checked<MerchantReference>,
        /// Kind of the payment
        #[oai(name = "type")]
        kind: Checked<PaymentKind>,
        /// Id of the invoice currency; or a symbol, such as `USDC` or `ETH`, which matches the currencies with this
        /// symbol on all networks
        #[oai(name = "invoiceCurrency")]
        invoice_currency: Checked<CurrencyIdText>,
        /// Id of the payment currency; or a symbol, such as `USDC` or `ETH`, which matches the currencies with this
        /// symbol on all networks
        #[oai(name = "paymentCurrency")]
        payment_currency: Checked<CurrencyIdText>,
        /// Earliest time, inclusive; UTC ending in `Z`
        #[oai(name = "fromDate")]
        from_date: Checked<UtcTimeText>,
        /// Latest time, inclusive; UTC ending in `Z`
        #[oai(name = "toDate")]
        to_date: Checked<UtcTimeText>,
        /// `true` starts the CSV with a byte order mark, which some spreadsheets need to detect UTF-8; needs the format
        /// `csv`
        bom: Checked<MarkText>,
    ) -> Result<PaymentExport, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let format = format.take(&mut checks).unwrap_or(ExportFormat::Csv);
        let has_mark = bom.take(&mut checks).is_some_and(|text| text.as_str() == "true");
        if has_mark && format != ExportFormat::Csv {
            checks.fail(
                "bom",
                "must be false or absent: only a CSV can start with a byte order mark",
            );
        }
        let texts = FilterTexts {
            tx_hash,
            wallet: wallet_address,
            reference: payment_reference,
            request_id,
            merchant_reference: reference,
            kind,
            invoice_currency,
            payment_currency,
            from: from_date,
            to: to_date,
        };
        let search = texts.read(&mut checks);
        // Unknown parameters are ignored elsewhere. The paging parameters of the search are refused, because callers
        // know them and would expect them to apply.
        for (name, _) in url::form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()) {
            if PAGING.contains(&name.as_ref()) {
                checks.fail(name, "must be absent: an export has no pages, unlike GET /v2/payments");
            }
        }
        Ok(export::open(&ctx, &caller, &search, checks, format, has_mark, request).await?)
    }
}
