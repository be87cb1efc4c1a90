//! Payment search, and exports of what it finds.

mod export;
mod found;
mod query;

use crate::{
    domain::{export::ExportFormat, payment::PaymentKind},
    flows::{self, payments::search::Start},
    http::{
        forms::{
            paging::{Page, limit_offset},
            payment::Payment,
        },
        operation::*,
    },
};
pub use export::Export;
use export::MarkText;
use found::found;
use poem::Request;
use query::FilterTexts;

text! {
    /// Where a page of a search begins: `nextCursor` of the page before.
    SearchCursorText {
        pattern: "^[A-Za-z0-9_-]{40,128}$",
        length_max: 128,
        example: "8b1f6e2d3c4a5b69788796a5b4c3d2e1AAY1w0mC4AAwMUtDTTZRUDhSNVQzVjlYMkIxRDRGNkdI",
        hint: "must be the nextCursor of a page of this search, with the same filters and credential; leave it out to begin again",
    }
}

/// Parameters of a search that an export does not have.
const PAGING: [&str; 3] = ["limit", "offset", "cursor"];

/// One page of payments, newest first.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PaymentSearchResult {
    /// The payments
    #[oai(validator(max_items = 100))]
    pub payments: Vec<Payment>,
    /// Where the page lies
    pub pagination: Page,
    /// `cursor` of the next page; null after the last one
    pub next_cursor: OrNull<SearchCursorText>,
}

/// Payment search.
pub struct Payments;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::Payments")]
impl Payments {
    /// Search payments
    ///
    /// Finds final payments of your requests. At least one filter other than dates and paging is needed; filters
    /// combine with AND. A transaction hash or wallet finds every payment of a batch. Pages that are read with `cursor`
    /// show every payment once, also while others arrive.
    ///
    /// When: you look for a payment by what you know of it, or reconcile
    /// Needs: one filter other than dates and paging
    /// Next: `GET /v2/request/{requestId}` for the request of a payment
    /// 200: One page of payments, newest first, each with the request that it settles
    #[oai(path = "/payments", method = "get", operation_id = "searchPayments")]
    #[expect(
        clippy::too_many_arguments,
        reason = "one argument for each parameter of the contract"
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
        /// Id of the request
        #[oai(name = "requestId")]
        request_id: Checked<RequestIdText>,
        /// Your own reference. Filled in: `order-1042`
        reference: Checked<MerchantReference>,
        /// Kind of the payment
        #[oai(name = "type")]
        kind: Checked<PaymentKind>,
        /// Id of the invoice currency, or a symbol or coin on all networks, like `USDC` or `ETH`
        #[oai(name = "invoiceCurrency")]
        invoice_currency: Checked<CurrencyIdText>,
        /// Id of the payment currency, or a symbol or coin on all networks, like `USDC` or `ETH`
        #[oai(name = "paymentCurrency")]
        payment_currency: Checked<CurrencyIdText>,
        /// From this time on, inclusive; UTC ending in `Z`
        #[oai(name = "fromDate")]
        from_date: Checked<UtcTimeText>,
        /// Up to this time, inclusive; UTC ending in `Z`
        #[oai(name = "toDate")]
        to_date: Checked<UtcTimeText>,
        /// Page size, 1 to 100; 20 when absent
        limit: Checked<LimitText>,
        /// Rows before the page, 0 to 10000
        offset: Checked<OffsetText>,
        /// `nextCursor` of the page before, with the same filters; not beside `offset`
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
                "must not stand beside offset: the cursor says where the page begins",
            );
        }
        let (limit, offset) = limit_offset(limit, offset, &mut checks);
        let start = match cursor.take(&mut checks) {
            Some(cursor) => Start::Cursor(cursor.into()),
            None => Start::Row(offset),
        };
        let page = flows::payments::search::run(&ctx, &caller, &search, (start, limit), checks).await?;
        let pagination = Page::new(page.total, limit, offset, page.has_more);
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
    /// Every payment that the same filters find, newest first, in one answer that is written while you read it. An
    /// export has no pages: `limit`, `offset` and `cursor` are refused.
    ///
    /// A CSV is read by the names of its header; columns may be added at the end. `fees` is JSON, `hasBeenPaid` is `true`
    /// or `false`, what a payment does not have is empty. So that no spreadsheet takes a text for a formula, whatever it
    /// separates cells by, `=`, `+`, `-`, `@`, their wide forms, a tab, a carriage return and `'` get one `'` in front where
    /// they stand at the beginning of a cell or behind `;`, a tab or a line break, and `"` where it stands behind one of
    /// these. Replace `(^|[;\t\r\n])'` by its group in each cell to have the texts again.
    ///
    /// An export that cannot be finished, whose reader takes nothing for eight seconds, or whose credential ends, breaks
    /// off without the end of its last chunk, which clients report; HTTP/1.0 has no chunks and is refused. Payments that
    /// are recorded meanwhile may be left out.
    ///
    /// When: bookkeeping wants everything in one file
    /// Needs: one filter other than dates
    /// Next: nothing
    /// 200: The payments, each with the request that it settles
    /// 429: 2 exports of this platform are running; one more is taken when one has ended
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
        /// Form of the answer; `csv` when absent
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
        /// Id of the request
        #[oai(name = "requestId")]
        request_id: Checked<RequestIdText>,
        /// Your own reference. Filled in: `order-1042`
        reference: Checked<MerchantReference>,
        /// Kind of the payment
        #[oai(name = "type")]
        kind: Checked<PaymentKind>,
        /// Id of the invoice currency, or a symbol or coin on all networks, like `USDC` or `ETH`
        #[oai(name = "invoiceCurrency")]
        invoice_currency: Checked<CurrencyIdText>,
        /// Id of the payment currency, or a symbol or coin on all networks, like `USDC` or `ETH`
        #[oai(name = "paymentCurrency")]
        payment_currency: Checked<CurrencyIdText>,
        /// From this time on, inclusive; UTC ending in `Z`
        #[oai(name = "fromDate")]
        from_date: Checked<UtcTimeText>,
        /// Up to this time, inclusive; UTC ending in `Z`
        #[oai(name = "toDate")]
        to_date: Checked<UtcTimeText>,
        /// `true` begins a CSV with a byte order mark, by which some spreadsheets know that it is UTF-8; needs the format `csv`
        bom: Checked<MarkText>,
    ) -> Result<Export, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let format = format.take(&mut checks).unwrap_or(ExportFormat::Csv);
        let has_mark = bom.take(&mut checks).is_some_and(|text| text.as_str() == "true");
        if has_mark && format != ExportFormat::Csv {
            checks.fail(
                "bom",
                "must be false or absent: only a CSV begins with a byte order mark",
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
        // Parameters that nobody knows are passed over; these are known beside it, and would be thought to count.
        for (name, _) in url::form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()) {
            if PAGING.contains(&name.as_ref()) {
                checks.fail(name, "is of GET /v2/payments: an export has no pages");
            }
        }
        Ok(export::open(&ctx, &caller, (&search, checks), (format, has_mark), request).await?)
    }
}
