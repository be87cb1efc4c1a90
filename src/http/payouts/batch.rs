//! Batch payouts: one transaction that pays several requests.

use super::bodies::fee;
use crate::{
    domain::{
        currency::Catalogue,
        network::{Family, Network},
        paying::batch_contract::{ITEMS_MAX, admit_families, admit_networks},
        refusal::Refusal,
        request::plan::{NewRequest, invoice_currency, payment_currency},
    },
    flows::{
        self,
        paying::Handout,
        payouts::batch::{BatchPayments, NewBatch},
    },
    http::{
        forms::{
            calldata::{BigNumber, Transaction},
            handout::{HandoutTexts, StepTexts},
        },
        gate::rate_limits::Meter,
        operation::*,
    },
};
use std::sync::Arc;

/// One payment of a batch.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", example)]
pub struct BatchPayoutItem {
    /// Wallet that receives the payment, on the network of `paymentCurrency`
    pub payee: WalletText,
    /// Amount in the invoice currency, in human units
    pub amount: AskedAmountText,
    /// Currency of `amount`
    pub invoice_currency: CurrencyIdText,
    /// Currency that the payer pays in; all payments of a batch must be on one network
    pub payment_currency: CurrencyIdText,
}

impl Example for BatchPayoutItem {
    fn example() -> Self {
        Self {
            payee: WalletText::example(),
            amount: AskedAmountText::example(),
            invoice_currency: CurrencyIdText::example(),
            payment_currency: CurrencyIdText::example(),
        }
    }
}

/// Payments to combine in one transaction.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreateBatchPayoutBody {
    /// Payments for which requests are created; set either `requests` or `requestIds`
    #[oai(validator(min_items = 1, max_items = 200))]
    pub requests: Option<Vec<BatchPayoutItem>>,
    /// Existing requests whose remaining amounts are paid; set either `requestIds` or `requests`
    #[oai(validator(min_items = 1, max_items = 200, unique_items))]
    pub request_ids: Option<Vec<RequestIdText>>,
    /// Wallet that pays; its allowances are looked up
    pub payer: Option<WalletText>,
    /// Fee on top of each amount, 0 to 100; needs `feeAddress`
    pub fee_percentage: Option<PercentText>,
    /// Receiver of the fee; needs `feePercentage`
    pub fee_address: Option<WalletText>,
}

impl Example for CreateBatchPayoutBody {
    /// An example body that works unchanged on a service with Sepolia enabled.
    fn example() -> Self {
        Self {
            requests: Some(vec![BatchPayoutItem::example()]),
            request_ids: None,
            payer: None,
            fee_percentage: None,
            fee_address: None,
        }
    }
}

/// An approval for the payer to sign and send.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ApprovalTransaction {
    /// Encoded call. Example: `0x095ea7b300000000000000000000000067818703c92580c0e106e401f253e8a410a66f8bffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff`
    #[oai(validator(max_length = 138, pattern = "^0x([0-9a-f]{2})*$"))]
    pub data: String,
    /// Called token contract
    pub to: WalletText,
    /// Always 0: an approval sends no native coin. Example: `0`
    #[oai(validator(maximum(value = "0")))]
    pub value: u32,
    /// Chain of the transaction. Added by this service. Example: `11155111`
    pub chain_id: u64,
}

/// The payment of a batch for the payer to sign and send.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct BatchPaymentTransaction {
    /// Encoded call. Example: `0x92cddb91`
    #[oai(validator(max_length = 400000, pattern = "^0x([0-9a-f]{2})*$"))]
    pub data: String,
    /// Called contract
    pub to: WalletText,
    /// Amount of the native coin to send, in its smallest unit
    pub value: BigNumber,
    /// Chain of the transaction. Added by this service. Example: `11155111`
    pub chain_id: u64,
}

/// The transactions that pay a batch.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct BatchPayoutCreated {
    /// Approvals, which must be mined before the payment: one for each token, after a reset to 0 if the token requires
    /// it. Empty when the allowances of `payer` are sufficient
    #[oai(rename = "ERC20ApprovalTransactions", validator(max_items = 100))]
    pub erc20_approval_transactions: Vec<ApprovalTransaction>,
    /// Pays all requests, or none when one payment fails
    pub batch_payment_transaction: BatchPaymentTransaction,
    /// Ids of the requests, in the order of the request body
    #[oai(validator(min_items = 1, max_items = 200))]
    pub request_ids: Vec<RequestIdText>,
}

/// Batch payouts.
pub struct BatchPayouts;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::Payouts")]
impl BatchPayouts {
    /// Create a batch payout
    ///
    /// Returns one transaction that pays 1 to 200 requests on one network. Payments in tokens, in the native coin and
    /// with conversion can be mixed. `requests` creates new requests, `requestIds` pays the remaining amounts of
    /// existing ones. The transaction pays all of them or none. Each payment is detected and confirmed separately. If
    /// no node responds, nothing is created. Requests of secure payments can only be paid through their links, even
    /// after the links have ended.
    ///
    /// When: you pay several recipients on one network
    /// Needs: `payer`, if approvals that the wallet does not need should be left out
    /// Next: send the approvals, wait until they are mined, then send the payment
    /// Events: `payment.confirmed` for each request
    /// 201: The transactions to sign, approvals first, and the requests that they pay
    /// 429: This call has 200 items; the limit is 600 items per minute and 200 items at once: retry after the number of seconds in Retry-After
    /// 404 requestIds[0]: Request not found
    #[oai(path = "/payouts/batch", method = "post", operation_id = "createBatchPayout")]
    async fn create(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrClient>,
        meter: Option<Data<&Arc<Meter>>>,
        key: Keyed,
        body: Body<CreateBatchPayoutBody>,
    ) -> Result<Created<BatchPayoutCreated>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND | s::CONFLICT | s::BAD_GATEWAY }>>
    {
        let once = key.once(op::createBatchPayout, &body.0);
        let input = body.0.read(&ctx.catalogue)?;
        let items = Meter::of_items(meter.as_deref().copied(), &caller, input.payments.count());
        answer_once(once, created, async |call| {
            flows::payouts::batch::run(&ctx, &caller, input, call.admitted_by(items)).await
        })
        .await
    }
}

impl CreateBatchPayoutBody {
    /// Parses the values that can be checked without the requests. Errors, in this order: both lists or no list is set,
    /// a payment on Tron, payments on several networks, every invalid field.
    fn read(self, catalogue: &Catalogue) -> Result<NewBatch, Refusal> {
        let mut checks = Checks::new();
        let payments = match (self.requests, self.request_ids) {
            (Some(items), None) => {
                check_where(&items, catalogue)?;
                BatchPayments::New(
                    items
                        .into_iter()
                        .enumerate()
                        .filter_map(|(index, item)| item.read(index, catalogue, &mut checks))
                        .collect(),
                )
            }
            (None, Some(ids)) => BatchPayments::Known(ids.into_iter().map(String::from).collect()),
            (Some(_), Some(_)) => {
                return Err(Refusal::field(
                    "requestIds",
                    "must be absent when requests is set: send only one of the two lists",
                ));
            }
            (None, None) => {
                return Err(Refusal::field(
                    "requests",
                    format!(
                        "is required unless requestIds is set: send 1 to {ITEMS_MAX} items in one of the two lists"
                    ),
                ));
            }
        };
        let payer = self.payer.and_then(|text| checks.take("payer", text.value()));
        let fee = fee(self.fee_percentage, self.fee_address, &mut checks);
        checks.finish()?;
        Ok(NewBatch { payments, payer, fee })
    }
}

/// Refuses payments on Tron, enabled or not, and then payments on different networks.
fn check_where(items: &[BatchPayoutItem], catalogue: &Catalogue) -> Result<(), Refusal> {
    let network_of = |id: &CurrencyIdText| {
        let known = catalogue.find(id.as_str());
        known.and_then(|currency| currency.network).or_else(|| {
            let (_, network) = id.as_str().rsplit_once('-')?;
            Network::from_id(&network.to_lowercase())
        })
    };
    let families = items.iter().flat_map(|item| {
        let currencies = [&item.invoice_currency, &item.payment_currency].map(network_of);
        let of_currencies = currencies.into_iter().flatten().map(Network::family);
        of_currencies.chain([Family::of_address(item.payee.as_str())])
    });
    admit_families(families)?;
    let networks: Vec<Network> = items
        .iter()
        .filter_map(|item| network_of(&item.payment_currency))
        .collect();
    admit_networks(networks)
}

impl BatchPayoutItem {
    fn read(self, index: usize, catalogue: &Catalogue, checks: &mut Checks) -> Option<NewRequest> {
        let field = |name: &str| format!("requests[{index}].{name}");
        let amount = checks.take(&field("amount"), self.amount.value());
        let invoice = invoice_currency(catalogue, self.invoice_currency.as_str());
        let invoice = checks.take(&field("invoiceCurrency"), invoice);
        let payment = payment_currency(catalogue, self.payment_currency.as_str());
        let payment = checks.take(&field("paymentCurrency"), payment);
        let payee = checks.take(&field("payee"), self.payee.value());
        Some(NewRequest {
            payee: Some(payee?),
            payer: None,
            amount: amount?,
            invoice: invoice?,
            payment: payment?,
            recurrence: None,
            is_crypto_to_fiat: false,
            customer: None,
            merchant_reference: None,
            original_request_id: None,
            original_request_reference: None,
        })
    }
}

fn created(handout: &Handout) -> BatchPayoutCreated {
    let texts = HandoutTexts(handout);
    let approval = |StepTexts { data, to, chain_id, .. }| ApprovalTransaction {
        data,
        to,
        value: 0,
        chain_id,
    };
    let Transaction {
        data,
        to,
        value,
        chain_id,
        ..
    } = texts.payment().into();
    let requests = handout.payments.iter().map(|payment| &payment.request);
    BatchPayoutCreated {
        erc20_approval_transactions: texts.approvals().map(approval).collect(),
        batch_payment_transaction: BatchPaymentTransaction {
            data,
            to,
            value,
            chain_id,
        },
        request_ids: requests.map(|request| RequestIdText::written(&request.id)).collect(),
    }
}
