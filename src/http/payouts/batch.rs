//! One transaction that pays many requests.

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
        payouts::batch::{NewBatch, Payments},
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
    /// Wallet that is paid, on the network of `paymentCurrency`
    pub payee: WalletText,
    /// Amount in the invoice currency, human units
    pub amount: AskedAmountText,
    /// Currency that the amount is written in
    pub invoice_currency: CurrencyIdText,
    /// Currency that the payer pays in; all of a batch are on one network
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

/// What to pay in one transaction.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreateBatchPayoutBody {
    /// Payments to make requests for; either these or `requestIds`
    #[oai(validator(min_items = 1, max_items = 200))]
    pub requests: Option<Vec<BatchPayoutItem>>,
    /// Requests that are there, of which what is left is paid; either these or `requests`
    #[oai(validator(min_items = 1, max_items = 200, unique_items))]
    pub request_ids: Option<Vec<RequestIdText>>,
    /// Wallet that pays: its allowances are looked up
    pub payer: Option<WalletText>,
    /// Fee on top of each amount, 0 to 100; needs `feeAddress`
    pub fee_percentage: Option<PercentText>,
    /// Receiver of the fee; needs `feePercentage`
    pub fee_address: Option<WalletText>,
}

impl Example for CreateBatchPayoutBody {
    /// Works as it stands on a service with Sepolia.
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
    /// Token that is called
    pub to: WalletText,
    /// Always 0: no coin goes with an approval. Example: `0`
    #[oai(validator(maximum(value = "0")))]
    pub value: u32,
    /// Chain that it is sent on. An addition of this service. Example: `11155111`
    pub chain_id: u64,
}

/// The payment of a batch for the payer to sign and send.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct BatchPaymentTransaction {
    /// Encoded call. Example: `0x92cddb91`
    #[oai(validator(max_length = 400000, pattern = "^0x([0-9a-f]{2})*$"))]
    pub data: String,
    /// Contract that is called
    pub to: WalletText,
    /// Native coin that goes with it, in its smallest unit
    pub value: BigNumber,
    /// Chain that it is sent on. An addition of this service. Example: `11155111`
    pub chain_id: u64,
}

/// The transactions that pay a batch.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct BatchPayoutCreated {
    /// One approval for each token, after a reset to 0 where the token needs it; to be mined before the payment. Empty
    /// when the allowances of `payer` are enough
    #[oai(rename = "ERC20ApprovalTransactions", validator(max_items = 100))]
    pub erc20_approval_transactions: Vec<ApprovalTransaction>,
    /// Pays everybody, or nobody when one payment fails
    pub batch_payment_transaction: BatchPaymentTransaction,
    /// Ids of the requests, in the order of the call
    #[oai(validator(min_items = 1, max_items = 200))]
    pub request_ids: Vec<RequestIdText>,
}

/// Payouts of many at once.
pub struct BatchPayouts;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::Payouts")]
impl BatchPayouts {
    /// Pay many at once
    ///
    /// Answers one transaction that pays 1 to 200 requests on one network, in tokens, in the native coin and converted,
    /// mixed as you like: `requests` makes new ones, `requestIds` pays what is left of those that are there. Either all
    /// of them are paid or none. Each is found and confirmed by itself. When no node answers, nothing is created. Requests
    /// of secure payments are paid through their links alone, also when these have ended.
    ///
    /// When: you pay many recipients on one network
    /// Needs: `payer` for an exact answer
    /// Next: send the approvals, wait until they are mined, then the one payment
    /// Events: `payment.confirmed` for each request
    /// 201: The transactions to sign, approvals first, and the requests that they pay
    /// 429: This call has 200 items, and 600 a minute are accepted, at most 200 at once: send it again after the seconds that Retry-After names
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
    /// Reads the values, as far as they can be judged without the requests. Errors: in this order, both lists or neither,
    /// Tron, several networks, every wrong field.
    fn read(self, catalogue: &Catalogue) -> Result<NewBatch, Refusal> {
        let mut checks = Checks::new();
        let payments = match (self.requests, self.request_ids) {
            (Some(items), None) => {
                check_where(&items, catalogue)?;
                Payments::New(
                    items
                        .into_iter()
                        .enumerate()
                        .filter_map(|(index, item)| item.read(index, catalogue, &mut checks))
                        .collect(),
                )
            }
            (None, Some(ids)) => Payments::Known(ids.into_iter().map(String::from).collect()),
            (Some(_), Some(_)) => {
                return Err(Refusal::field(
                    "requestIds",
                    "must be absent when requests is set: give one of them",
                ));
            }
            (None, None) => {
                return Err(Refusal::field(
                    "requests",
                    format!("is required, or requestIds: 1 to {ITEMS_MAX} of one of them"),
                ));
            }
        };
        let payer = self.payer.and_then(|text| checks.take("payer", text.value()));
        let fee = fee(self.fee_percentage, self.fee_address, &mut checks);
        checks.finish()?;
        Ok(NewBatch { payments, payer, fee })
    }
}

/// Refuses payments on Tron, be it enabled or not, and then those on different networks.
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
