//! Payment search.

use crate::{
    ctx::Ctx,
    domain::{address::Address, payment::PaymentKind, reference::PaymentReference, refusal::Checks},
    flows::{self, payments::search::PaymentSearch},
    http::{
        contract::tags::PlatformTag,
        error::{Fail, s},
        forms::{
            null::OrNull,
            paging::{Page, limit_offset},
            wire::{
                Checked, CurrencyIdText, Instant, IsoInstantText, LimitText, MerchantReference, OffsetText,
                ReferenceText, RequestIdText, TxHash, WalletText,
            },
        },
        gate::{access::KeyOrClient, extractor::Auth},
        requests::{CustomerInfo, FeeType, PaymentRateSource},
    },
};
use poem::web::Data;
use poem_openapi::{Enum, Object, OpenApi, param::Query, payload::Json};

/// Kind of a payment
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "lowercase")]
pub enum PaymentType {
    /// Paid in the invoice currency
    Direct,
    /// Invoice currency differs from payment currency
    Conversion,
    /// Paid from another chain
    Crosschain,
    /// Execution of a schedule
    Recurring,
}

impl From<PaymentKind> for PaymentType {
    fn from(kind: PaymentKind) -> Self {
        match kind {
            PaymentKind::Direct => Self::Direct,
            PaymentKind::Conversion => Self::Conversion,
            PaymentKind::Crosschain => Self::Crosschain,
            PaymentKind::Recurring => Self::Recurring,
        }
    }
}

/// Where in the flow of the money a fee was charged
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "lowercase")]
pub enum FeeStage {
    /// On the way from the payer
    Sending,
    /// On the way to the payee
    Receiving,
    /// In the payment contract
    Proxying,
    /// On the way back
    Refunding,
}

/// Fee of a payment.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct Fee {
    /// Kind
    #[oai(rename = "type")]
    pub kind: FeeType,
    /// Where it was charged
    pub stage: FeeStage,
    /// Who charged it. Example: `service-network`
    #[oai(validator(max_length = 64))]
    pub provider: String,
    /// Amount in the currency of the fee, human units. Example: `0.25`
    #[oai(validator(max_length = 110))]
    pub amount: String,
    /// The same in US dollars; absent when the currency has no dollar price here. Example: `0.25`
    #[oai(rename = "amountInUSD", validator(max_length = 110))]
    pub amount_in_usd: Option<String>,
    /// Symbol of the currency. Example: `USDC`
    #[oai(validator(max_length = 32))]
    pub currency: String,
    /// Receiver. Example: `0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7`
    #[oai(validator(max_length = 42))]
    pub receiver_address: Option<String>,
    /// Network on which it was charged. Example: `sepolia`
    #[oai(validator(max_length = 32))]
    pub network: String,
    /// Where the dollar price comes from. Example: `unknown`
    #[oai(validator(max_length = 32))]
    pub rate_provider: String,
}

/// The request that a payment settles.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PaymentRequestSummary {
    /// Id of the request. Example: `0112fe71c1b7e1f3b7b1d8a4f6f0c6d7e9b2a5c8d1e4f7a0b3c6d9e2f5a8b1c4d7`
    #[oai(validator(max_length = 66))]
    pub request_id: String,
    /// Reference that its payments carry on chain. Example: `0xb3581f0b0f74cc61`
    #[oai(validator(max_length = 18))]
    pub payment_reference: String,
    /// Whether the whole amount has arrived. Example: `true`
    pub has_been_paid: bool,
    /// Customer as given at creation
    pub customer_info: OrNull<CustomerInfo>,
    /// Your own reference. Example: `INV-1042`
    #[oai(validator(max_length = 255))]
    pub reference: OrNull<String>,
}

/// A settled payment.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct Payment {
    /// Id of the payment. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub id: String,
    /// Amount that it settles, in the invoice currency, human units. Example: `10.5`
    #[oai(validator(max_length = 110))]
    pub amount: String,
    /// Network it was paid on. Example: `sepolia`
    #[oai(validator(max_length = 32))]
    pub source_network: String,
    /// Network it was received on. Example: `sepolia`
    #[oai(validator(max_length = 32))]
    pub destination_network: String,
    /// Transaction on the source network. Example: `0x5d5b1f0cbe0f9ee0d1f4f2b7c8c1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3`
    #[oai(validator(max_length = 66))]
    pub source_tx_hash: OrNull<String>,
    /// Transaction on the destination network. Example: `0x5d5b1f0cbe0f9ee0d1f4f2b7c8c1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3`
    #[oai(validator(max_length = 66))]
    pub destination_tx_hash: OrNull<String>,
    /// Time of its block
    pub timestamp: Instant,
    /// Kind
    #[oai(rename = "type")]
    pub kind: PaymentType,
    /// Invoice units for one unit of the payment currency, where it was paid; null when nothing was converted. Example: `0.9997`
    #[oai(validator(max_length = 110))]
    pub conversion_rate_source: OrNull<String>,
    /// The same where it was received. Example: `0.9997`
    #[oai(validator(max_length = 110))]
    pub conversion_rate_destination: OrNull<String>,
    /// Amount in the payment currency, where it was paid; null when nothing was converted. Example: `10.503`
    #[oai(validator(max_length = 110))]
    pub converted_amount_source: OrNull<String>,
    /// The same where it was received. Example: `10.503`
    #[oai(validator(max_length = 110))]
    pub converted_amount_destination: OrNull<String>,
    /// Symbol of the invoice currency. Example: `USDC`
    #[oai(validator(max_length = 32))]
    pub currency: String,
    /// Symbol of the payment currency. Example: `USDC`
    #[oai(validator(max_length = 32))]
    pub payment_currency: String,
    /// Fees that were paid with it
    #[oai(validator(max_items = 16))]
    pub fees: OrNull<Vec<Fee>>,
    /// Schedule that it belongs to. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub recurring_payment_id: OrNull<String>,
    /// Where the rate comes from; null when nothing was converted
    pub rate_provider: OrNull<PaymentRateSource>,
    /// The request that it settles; absent inside that request
    pub request: Option<PaymentRequestSummary>,
}

/// One page of payments, newest first.
#[derive(Debug, Clone, Object)]
pub struct PaymentSearchResult {
    /// The payments
    #[oai(validator(max_items = 100))]
    pub payments: Vec<Payment>,
    /// Where the page lies
    pub pagination: Page,
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
        tx_hash: Query<Checked<TxHash>>,
        /// Payer or payee
        #[oai(name = "walletAddress")]
        wallet_address: Query<Checked<WalletText>>,
        /// Reference that payments carry on chain
        #[oai(name = "paymentReference")]
        payment_reference: Query<Checked<ReferenceText>>,
        /// Id of the request
        #[oai(name = "requestId")]
        request_id: Query<Checked<RequestIdText>>,
        /// Your own reference
        reference: Query<Checked<MerchantReference>>,
        /// Kind of the payment
        #[oai(name = "type")]
        kind: Query<Checked<PaymentType>>,
        /// Id or symbol of the invoice currency
        #[oai(name = "invoiceCurrency")]
        invoice_currency: Query<Checked<CurrencyIdText>>,
        /// Id or symbol of the payment currency
        #[oai(name = "paymentCurrency")]
        payment_currency: Query<Checked<CurrencyIdText>>,
        /// From this time on, inclusive; UTC ending in `Z`
        #[oai(name = "fromDate")]
        from_date: Query<Checked<IsoInstantText>>,
        /// Up to this time, inclusive; UTC ending in `Z`
        #[oai(name = "toDate")]
        to_date: Query<Checked<IsoInstantText>>,
        /// Page size, 1 to 100; 20 when absent
        limit: Query<Checked<LimitText>>,
        /// Rows before the page, 0 to 10000
        offset: Query<Checked<OffsetText>>,
    ) -> Result<Json<PaymentSearchResult>, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let wallet = wallet_address.0.take("walletAddress", &mut checks);
        let wallet = wallet.and_then(|text| checks.take("walletAddress", Address::parse(text.as_str())));
        let from = from_date.0.take("fromDate", &mut checks);
        let to = to_date.0.take("toDate", &mut checks);
        let mut search = PaymentSearch {
            tx_hash: tx_hash
                .0
                .take("txHash", &mut checks)
                .and_then(|text| text.as_str().parse().ok()),
            wallet,
            reference: payment_reference
                .0
                .take("paymentReference", &mut checks)
                .and_then(|text| PaymentReference::parse(text.as_str())),
            request_id: request_id
                .0
                .take("requestId", &mut checks)
                .map(|t| t.as_str().to_owned()),
            merchant_reference: reference
                .0
                .take("reference", &mut checks)
                .map(|t| t.as_str().to_owned()),
            kind: kind.0.take("type", &mut checks).map(|kind| match kind {
                PaymentType::Direct => PaymentKind::Direct,
                PaymentType::Conversion => PaymentKind::Conversion,
                PaymentType::Crosschain => PaymentKind::Crosschain,
                PaymentType::Recurring => PaymentKind::Recurring,
            }),
            invoice_currency: invoice_currency
                .0
                .take("invoiceCurrency", &mut checks)
                .map(|text| text.as_str().to_owned()),
            payment_currency: payment_currency
                .0
                .take("paymentCurrency", &mut checks)
                .map(|text| text.as_str().to_owned()),
            from: from.and_then(|text| text.instant()),
            to: to.and_then(|text| text.instant()),
            limit: 0,
            offset: 0,
        };
        (search.limit, search.offset) = limit_offset(limit.0, offset.0, &mut checks);
        checks.finish()?;
        let page = flows::payments::search::run(&ctx, &caller, &search).await?;
        let pagination = Page::new(page.total, page.limit, page.offset, page.has_more);
        let payments = page
            .payments
            .into_iter()
            .map(|(record, request)| super::requests::found_payment(&ctx, &record, request))
            .collect();
        Ok(Json(PaymentSearchResult { payments, pagination }))
    }
}
