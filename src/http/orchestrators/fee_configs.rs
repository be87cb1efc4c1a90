//! Fee configs of orchestrators.

use crate::{
    domain::{
        amount::{Amount, Percent},
        fee_config::{FeeConfig, FeeConfigChange, FeeConfigStatus},
        paying::{capture::FeeTerms, charge::FeeBearer},
        refusal::Refusal,
        secure_payment::PaymentFlow,
    },
    flows::{self, fee_configs::create::NewFeeConfig},
    http::{forms::null::changed, operation::*},
};
use poem_openapi::types::MaybeUndefined;

words! {
    /// State of a fee config; new payments carry no fee of a disabled config
    FeeConfigStatus as "FeeConfigStatus";
}

/// Kind of a fee config
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum FeeConfigType {
    /// A fee of the orchestrator
    OrchestratorFee,
}

/// Direction of the payments that carry the fee
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum FeeConfigFlow {
    /// Links with which the platform is paid: `POST /v2/secure-payments`
    Incoming,
    /// Payout links: `POST /v2/secure-payments/payouts`
    Outgoing,
}

impl From<FeeConfigFlow> for PaymentFlow {
    fn from(flow: FeeConfigFlow) -> Self {
        match flow {
            FeeConfigFlow::Incoming => Self::GetPaid,
            FeeConfigFlow::Outgoing => Self::Pay,
        }
    }
}

impl From<PaymentFlow> for FeeConfigFlow {
    fn from(flow: PaymentFlow) -> Self {
        match flow {
            PaymentFlow::GetPaid => Self::Incoming,
            PaymentFlow::Pay => Self::Outgoing,
        }
    }
}

/// Who bears the fee of a config
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum FeeConfigBearer {
    /// The payer: the fee is added to the amount
    Payer,
    /// The recipient of the payment: the fee is deducted from the amount
    Recipient,
}

impl From<FeeConfigBearer> for FeeBearer {
    fn from(bearer: FeeConfigBearer) -> Self {
        match bearer {
            FeeConfigBearer::Payer => Self::Payer,
            FeeConfigBearer::Recipient => Self::Payee,
        }
    }
}

impl From<FeeBearer> for FeeConfigBearer {
    fn from(bearer: FeeBearer) -> Self {
        match bearer {
            FeeBearer::Payer => Self::Payer,
            FeeBearer::Payee => Self::Recipient,
        }
    }
}

/// A new fee config.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreateFeeConfigBody {
    /// Rate in basis points of the amount; `0` exempts the client ID from the default config. Example: `50`
    #[oai(validator(minimum(value = "0"), maximum(value = "10000")))]
    pub bps: u32,
    /// Who bears the fee
    pub fee_bearer: FeeConfigBearer,
    /// Direction of the payments
    pub flow: FeeConfigFlow,
    /// Maximum fee of one payment in US dollars, at most 6 decimals; absent: no limit. Example: `25`
    pub usd_cap: Option<UsdCapText>,
    /// Receiver on EVM networks; if absent, payments on EVM networks carry no fee of this config
    pub evm_recipient_address: Option<WalletText>,
    /// Receiver on Tron; if absent, payments on Tron carry no fee of this config.
    /// Example: `TJRabPrwbZy45sbavfcjinPJC18kjpRTv8`
    pub tron_recipient_address: Option<WalletText>,
    /// State; absent: `active`
    pub status: Option<FeeConfigStatus>,
    /// The linked client ID whose payments carry the fee; absent: all client IDs of the orchestrator
    pub client_id: Option<ClientIdText>,
}

/// Changes to a fee config: an absent member stays unchanged, null removes a value. At least one receiver must remain.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct UpdateFeeConfigBody {
    /// New rate in basis points of the amount. Example: `50`
    #[oai(validator(minimum(value = "0"), maximum(value = "10000")))]
    pub bps: Option<u32>,
    /// New maximum fee of one payment in US dollars, at most 6 decimals; null removes the limit. Example: `25`
    #[oai(nullable)]
    pub usd_cap: MaybeUndefined<UsdCapText>,
    /// New receiver on EVM networks; null removes it
    #[oai(nullable)]
    pub evm_recipient_address: MaybeUndefined<WalletText>,
    /// New receiver on Tron; null removes it. Example: `TJRabPrwbZy45sbavfcjinPJC18kjpRTv8`
    #[oai(nullable)]
    pub tron_recipient_address: MaybeUndefined<WalletText>,
    /// State
    pub status: Option<FeeConfigStatus>,
    /// Condition: the config must belong to this client ID, otherwise nothing changes and the response is a 404
    pub client_id: Option<ClientIdText>,
    /// Kind, which cannot change
    pub fee_type: Option<FeeConfigType>,
    /// Who bears the fee, which cannot change
    pub fee_bearer: Option<FeeConfigBearer>,
    /// Direction, which cannot change
    pub flow: Option<FeeConfigFlow>,
}

text! {
    /// Maximum fee of one payment in US dollars, with at most six decimals.
    UsdCapText {
        pattern: r"^([1-9][0-9]{0,70}(\.[0-9]{1,6})?|0\.([1-9][0-9]{0,5}|0[1-9][0-9]{0,4}|00[1-9][0-9]{0,3}|000[1-9][0-9]{0,2}|0000[1-9][0-9]?|00000[1-9]))$",
        length_max: 78,
        example: "25",
        hint: "must be a decimal number greater than 0 with at most 6 decimals, written as a string, for example \"25\"",
        reads: Amount = Amount::parse,
    }
}

impl Example for CreateFeeConfigBody {
    fn example() -> Self {
        Self {
            bps: 50,
            fee_bearer: FeeConfigBearer::Payer,
            flow: FeeConfigFlow::Incoming,
            usd_cap: Some(UsdCapText::written("25")),
            evm_recipient_address: Some(WalletText::example()),
            tron_recipient_address: None,
            status: None,
            client_id: None,
        }
    }
}

impl Example for UpdateFeeConfigBody {
    fn example() -> Self {
        Self {
            bps: Some(75),
            usd_cap: MaybeUndefined::Value(UsdCapText::written("25")),
            evm_recipient_address: MaybeUndefined::Undefined,
            tron_recipient_address: MaybeUndefined::Undefined,
            status: None,
            client_id: None,
            fee_type: None,
            fee_bearer: None,
            flow: None,
        }
    }
}

/// A fee config.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", rename = "FeeConfig")]
pub struct FeeConfigView {
    /// Id of the fee config, for `PATCH` and `DELETE`
    pub id: UlidText,
    /// Kind
    pub fee_type: FeeConfigType,
    /// Rate in basis points of the amount. Example: `50`
    #[oai(validator(minimum(value = "0"), maximum(value = "10000")))]
    pub bps: u32,
    /// Who bears the fee
    pub fee_bearer: FeeConfigBearer,
    /// Direction of the payments
    pub flow: FeeConfigFlow,
    /// Maximum fee of one payment in US dollars; null without a limit
    pub usd_cap: OrNull<AmountText>,
    /// Receiver on EVM networks; null without one
    pub evm_recipient_address: OrNull<WalletText>,
    /// Receiver on Tron; null without one. Example: `TJRabPrwbZy45sbavfcjinPJC18kjpRTv8`
    pub tron_recipient_address: OrNull<WalletText>,
    /// State
    pub status: FeeConfigStatus,
    /// The client ID whose payments carry the fee; null for all client IDs of the orchestrator
    pub client_id: OrNull<ClientIdText>,
}

/// The default fee configs of an orchestrator, or those of one client ID.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct FeeConfigList {
    /// The fee configs, oldest first, including disabled ones
    #[oai(validator(max_items = 4))]
    pub fee_configs: Vec<FeeConfigView>,
}

impl From<&FeeConfig> for FeeConfigView {
    fn from(config: &FeeConfig) -> Self {
        let terms = &config.terms;
        Self {
            id: UlidText::written(&config.id),
            fee_type: FeeConfigType::OrchestratorFee,
            bps: terms.rate.basis_points().into(),
            fee_bearer: config.bearer.into(),
            flow: config.flow.into(),
            usd_cap: OrNull(terms.cap_usd.as_ref().map(AmountText::written)),
            evm_recipient_address: OrNull(terms.evm.map(WalletText::written)),
            tron_recipient_address: OrNull(terms.tron.map(WalletText::written)),
            status: config.status,
            client_id: OrNull(
                config
                    .scope
                    .as_ref()
                    .map(|scope| ClientIdText::written(&scope.client_id)),
            ),
        }
    }
}

fn rate(bps: u32) -> Result<Percent, &'static str> {
    let rate = u16::try_from(bps).ok().and_then(Percent::from_basis_points);
    rate.ok_or("must be a number from 0 to 10000")
}

impl CreateFeeConfigBody {
    /// Parses the body that creates a fee config. Errors: one refusal that lists every member with an invalid form.
    fn read(&self) -> Result<NewFeeConfig, Refusal> {
        let mut checks = Checks::new();
        let rate = checks.take("bps", rate(self.bps));
        let mut receiver = |field, text: &Option<WalletText>| {
            let text = text.as_ref()?;
            checks.take(field, text.value())
        };
        let evm = receiver("evmRecipientAddress", &self.evm_recipient_address);
        let tron = receiver("tronRecipientAddress", &self.tron_recipient_address);
        let cap_usd = self.usd_cap.as_ref();
        let cap_usd = cap_usd.and_then(|text| checks.take("usdCap", text.value()));
        let rate = checks.finish_with(rate)?;
        Ok(NewFeeConfig {
            client_id: self.client_id.as_ref().map(|text| text.as_str().to_owned()),
            flow: self.flow.into(),
            bearer: self.fee_bearer.into(),
            terms: FeeTerms {
                rate,
                cap_usd,
                evm,
                tron,
            },
            status: self.status.unwrap_or(FeeConfigStatus::Active),
        })
    }
}

impl UpdateFeeConfigBody {
    /// Parses the body that changes a fee config. Errors: one refusal that lists every member with an invalid form.
    fn read(self) -> Result<FeeConfigChange, Refusal> {
        let mut checks = Checks::new();
        let change = FeeConfigChange {
            flow: self.flow.map(PaymentFlow::from),
            bearer: self.fee_bearer.map(FeeBearer::from),
            rate: self.bps.and_then(|bps| checks.take("bps", rate(bps))),
            cap_usd: changed(self.usd_cap, |text| checks.take("usdCap", text.value())),
            evm: changed(self.evm_recipient_address, |text| {
                checks.take("evmRecipientAddress", text.value())
            }),
            tron: changed(self.tron_recipient_address, |text| {
                checks.take("tronRecipientAddress", text.value())
            }),
            status: self.status,
        };
        checks.finish()?;
        Ok(change)
    }
}

fn created(config: &FeeConfig) -> FeeConfigView {
    config.into()
}

/// Fee configs of orchestrators.
pub struct FeeConfigs;

#[OpenApi(prefix_path = "/v2/orchestrators", tag = "PlatformTag::Orchestrators")]
impl FeeConfigs {
    /// Create a fee config
    ///
    /// Sets a fee of the orchestrator on payments that it creates with a linked client ID. There is one config for each
    /// scope (all client IDs, or one), direction and bearer. A config for a client ID replaces the default config with
    /// the same direction and bearer. Each payment captures its fees when it is created: later changes do not affect it.
    ///
    /// When: you want a fee on the payments that you create for platforms
    /// Needs: a wallet that receives the fee; for a config of one client ID, a link to it
    /// Next: check the fees of a payment with `POST /v2/secure-payments/fees/preview` and both headers
    /// 201: The fee config
    /// 404: No client ID with this id is linked to this orchestrator
    /// 409: A fee config with this scope, flow and feeBearer exists, active or disabled: change it with PATCH /v2/orchestrators/fee-configs/{id}
    #[oai(path = "/fee-configs", method = "post", operation_id = "createFeeConfig")]
    async fn create(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<OrchestratorOnly>,
        key: Keyed,
        body: Body<CreateFeeConfigBody>,
    ) -> Result<Created<FeeConfigView>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND | s::CONFLICT }>> {
        let new = body.read()?;
        let once = key.once(op::createFeeConfig, &body.0);
        answer_once(once, created, async |call| {
            flows::fee_configs::create::run(&ctx, &caller, new, call).await
        })
        .await
    }

    /// List fee configs
    ///
    /// Lists the default configs of the orchestrator, or with `clientId` the configs of that client ID; disabled ones
    /// included.
    ///
    /// When: you check which fees new payments get
    /// Next: change a config with `PATCH /v2/orchestrators/fee-configs/{id}`
    /// 200: The fee configs, oldest first
    /// 404: No client ID with this id is linked to this orchestrator
    #[oai(path = "/fee-configs", method = "get", operation_id = "listFeeConfigs")]
    async fn list(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<OrchestratorOnly>,
        /// A linked client ID; absent: the default configs
        #[oai(name = "clientId")]
        client_id: Checked<ClientIdText>,
    ) -> Result<Json<FeeConfigList>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let mut checks = Checks::new();
        let client_id = client_id.take(&mut checks);
        checks.finish()?;
        let client_id = client_id.as_ref().map(ClientIdText::as_str);
        let configs = flows::fee_configs::list::run(&ctx, &caller, client_id).await?;
        Ok(Json(FeeConfigList {
            fee_configs: configs.iter().map(FeeConfigView::from).collect(),
        }))
    }

    /// Change a fee config
    ///
    /// Changes the rate, the cap, the receivers or the state of a fee config. Payments that exist keep the fees that they
    /// captured.
    ///
    /// When: a rate or a receiver changes
    /// Needs: the id of a fee config
    /// Next: nothing; the next payment gets the new fee
    /// 200: The fee config
    /// 404: Fee config not found
    #[oai(path = "/fee-configs/:id", method = "patch", operation_id = "updateFeeConfig")]
    async fn update(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<OrchestratorOnly>,
        /// Id of the fee config. Example: `01JZX4T9QK3M7N8P2R5S6V0WYG`
        id: Path<UlidText>,
        body: Body<UpdateFeeConfigBody>,
    ) -> Result<Json<FeeConfigView>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let client_id = body.client_id.clone();
        let client_id = client_id.as_ref().map(ClientIdText::as_str);
        let change = body.0.read()?;
        let config = flows::fee_configs::update::run(&ctx, &caller, &id.id(), client_id, change).await?;
        Ok(Json((&config).into()))
    }

    /// Disable a fee config
    ///
    /// Disables a fee config: new payments carry no such fee. Payments that exist keep the fees that they captured. A
    /// repeated call returns the same response; `PATCH` with `status: active` enables the config again.
    ///
    /// When: you no longer want a fee
    /// Needs: the id of a fee config
    /// Next: nothing; the next payment has no such fee
    /// 200: The disabled fee config
    /// 404: Fee config not found
    #[oai(path = "/fee-configs/:id", method = "delete", operation_id = "disableFeeConfig")]
    async fn disable(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<OrchestratorOnly>,
        /// Id of the fee config. Example: `01JZX4T9QK3M7N8P2R5S6V0WYG`
        id: Path<UlidText>,
        /// Condition: the config must belong to this client ID, otherwise nothing changes and the response is a 404
        #[oai(name = "clientId")]
        client_id: Checked<ClientIdText>,
    ) -> Result<Json<FeeConfigView>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let mut checks = Checks::new();
        let client_id = client_id.take(&mut checks);
        checks.finish()?;
        let client_id = client_id.as_ref().map(ClientIdText::as_str);
        let change = FeeConfigChange {
            status: Some(FeeConfigStatus::Disabled),
            ..FeeConfigChange::default()
        };
        let config = flows::fee_configs::update::run(&ctx, &caller, &id.id(), client_id, change).await?;
        Ok(Json((&config).into()))
    }
}
