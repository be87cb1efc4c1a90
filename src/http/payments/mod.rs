//! Payment search.

use crate::{
    domain::{ledger::RequestStatus, payment::PaymentKind},
    flows::{
        self,
        payments::{PaymentRecord, RequestSummary, search::PaymentSearch},
    },
    http::{
        forms::{
            paging::{Page, limit_offset},
            payment::{Payment, PaymentRequestSummary, payment},
        },
        operation::*,
    },
};

/// One page of payments, newest first.
#[derive(Debug, Clone, Object)]
pub struct PaymentSearchResult {
    /// The payments
    #[oai(validator(max_items = 100))]
    pub payments: Vec<Payment>,
    /// Where the page lies
    pub pagination: Page,
}

/// A payment that a search found.
fn found(ctx: &Ctx, record: &PaymentRecord, request: RequestSummary) -> Payment {
    let summary = PaymentRequestSummary {
        request_id: RequestIdText::written(request.request_id),
        payment_reference: ReferenceText::written(request.reference),
        has_been_paid: request.status == RequestStatus::Paid,
        customer_info: OrNull(request.customer.map(Into::into)),
        reference: OrNull(request.merchant_reference.map(MerchantReference::written)),
    };
    Payment {
        request: Some(summary),
        ..payment(ctx, record)
    }
}

/// Payment search.
pub struct Payments;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::Payments")]
impl Payments {
    /// Search payments
    ///
    /// Finds final payments of your requests. At least one filter other than dates and paging is needed; filters
    /// combine with AND. A transaction hash or wallet finds every payment of a batch.
    ///
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
        /// Your own reference
        reference: Checked<MerchantReference>,
        /// Kind of the payment
        #[oai(name = "type")]
        kind: Checked<PaymentKind>,
        /// Id or symbol of the invoice currency
        #[oai(name = "invoiceCurrency")]
        invoice_currency: Checked<CurrencyIdText>,
        /// Id or symbol of the payment currency
        #[oai(name = "paymentCurrency")]
        payment_currency: Checked<CurrencyIdText>,
        /// From this time on, inclusive; UTC ending in `Z`
        #[oai(name = "fromDate")]
        from_date: Checked<IsoInstantText>,
        /// Up to this time, inclusive; UTC ending in `Z`
        #[oai(name = "toDate")]
        to_date: Checked<IsoInstantText>,
        /// Page size, 1 to 100; 20 when absent
        limit: Checked<LimitText>,
        /// Rows before the page, 0 to 10000
        offset: Checked<OffsetText>,
    ) -> Result<Json<PaymentSearchResult>, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let mut search = PaymentSearch {
            tx_hash: tx_hash.read(&mut checks),
            wallet: wallet_address.read(&mut checks),
            reference: payment_reference.read(&mut checks),
            request_id: request_id.read(&mut checks),
            merchant_reference: reference.take(&mut checks).map(String::from),
            kind: kind.take(&mut checks),
            invoice_currency: invoice_currency.take(&mut checks).map(String::from),
            payment_currency: payment_currency.take(&mut checks).map(String::from),
            from: from_date.read(&mut checks),
            to: to_date.read(&mut checks),
            limit: 0,
            offset: 0,
        };
        (search.limit, search.offset) = limit_offset(limit, offset, &mut checks);
        checks.finish()?;
        let page = flows::payments::search::run(&ctx, &caller, &search).await?;
        let pagination = Page::new(page.total, page.limit, page.offset, page.has_more);
        let payments = page.payments.into_iter();
        let payments = payments
            .map(|(record, request)| found(&ctx, &record, request))
            .collect();
        Ok(Json(PaymentSearchResult { payments, pagination }))
    }
}
