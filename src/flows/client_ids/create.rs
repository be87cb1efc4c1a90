//! Creates a client ID.

use crate::domain::caller::Caller;
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        amount::Percent,
        client_id::{ClientId, ClientStatus, normalise_domain},
        ids::{ClientRowId, PlatformId},
        refusal::Checks,
    },
    flows::{
        FlowResult,
        idempotency::{self, Answer, Once},
    },
    ports::ids::random,
    store,
};

/// Most domains of a client ID. Source: contract operations §1.6.
const DOMAINS_MAX: usize = 10;

/// Letters and digits of the public text; 30 of them hold more than 170 bits.
const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Input of a new client ID.
#[derive(Debug, Clone, Default)]
pub struct NewClientId {
    /// Name for people.
    pub label: String,
    /// Pages that may use it.
    pub allowed_domains: Vec<String>,
    /// Whether it may have no domains: a backend client ID.
    pub is_backend: bool,
    /// Fee.
    pub fee_percentage: Option<String>,
    /// Receiver of the fee.
    pub fee_address: Option<String>,
    /// Operator wallet.
    pub operator_wallet: Option<String>,
    /// Stored only.
    pub default_pre_approval_expiry_s: Option<i64>,
    /// Stored only.
    pub default_authorization_expiry_s: Option<i64>,
}

/// Creates a client ID of the caller's platform; `render` writes the answer that a repeated call gets.
///
/// Errors: every wrong field at once. Source: contract operations §3.2.
pub async fn run(
    ctx: &Ctx,
    caller: &Caller,
    input: &NewClientId,
    once: Option<&Once>,
    render: impl FnOnce(&ClientId) -> String,
) -> FlowResult<Answer<ClientId>> {
    if let Some(once) = once
        && let Some(response) = idempotency::find(ctx, caller, once).await?
    {
        return Ok(Answer::Replayed(response));
    }
    let client = plan(ctx, &caller.platform, input)?;
    let tx = ctx.db.begin("create_client_id").await?;
    store::client_ids::insert(&tx, &client).await?;
    if let Some(once) = once {
        idempotency::keep(ctx, &tx, caller, once, render(&client)).await?;
    }
    tx.commit().await?;
    Ok(Answer::Fresh(client))
}

/// Checks the input and draws the public text.
pub fn plan(ctx: &Ctx, platform: &PlatformId, input: &NewClientId) -> FlowResult<ClientId> {
    let mut checks = Checks::new();
    if input.label.trim().is_empty() || input.label.chars().count() > 100 {
        checks.fail("label", "must have 1 to 100 characters");
    }
    let mut domains: Vec<String> = Vec::new();
    for (index, text) in input.allowed_domains.iter().enumerate() {
        let field = format!("allowedDomains.{index}");
        if let Some(domain) = checks.take(&field, normalise_domain(text)) {
            if domains.contains(&domain) {
                checks.fail(field, "must be listed only once");
            } else {
                domains.push(domain);
            }
        }
    }
    if input.allowed_domains.len() > DOMAINS_MAX {
        checks.fail("allowedDomains", format!("must have at most {DOMAINS_MAX} entries"));
    }
    if input.allowed_domains.is_empty() && !input.is_backend {
        checks.fail(
            "allowedDomains",
            "must have at least 1 entry, for example https://shop.example.com",
        );
    }
    let fee_percentage = input
        .fee_percentage
        .as_deref()
        .and_then(|text| checks.take("feePercentage", Percent::parse(text)));
    let fee_address = input
        .fee_address
        .as_deref()
        .and_then(|text| checks.take("feeAddress", Address::parse(text)));
    if input.fee_percentage.is_some() && input.fee_address.is_none() {
        checks.fail("feeAddress", "is required when feePercentage is set");
    }
    if input.fee_address.is_some() && input.fee_percentage.is_none() {
        checks.fail("feePercentage", "is required when feeAddress is set");
    }
    let operator_wallet = input.operator_wallet.as_deref().and_then(|text| {
        checks.take(
            "operatorWalletAddress",
            Address::parse_on(text, crate::domain::network::Network::Mainnet),
        )
    });
    checks.finish()?;
    let now = ctx.clock.now();
    Ok(ClientId {
        row: ClientRowId(ctx.ids.ulid()),
        platform: platform.clone(),
        client_id: public_text(ctx),
        label: input.label.clone(),
        allowed_domains: domains,
        status: ClientStatus::Active,
        fee_percentage,
        fee_address,
        operator_wallet,
        default_pre_approval_expiry_s: input.default_pre_approval_expiry_s,
        default_authorization_expiry_s: input.default_authorization_expiry_s,
        created_at: now,
        updated_at: now,
        last_used_at: None,
    })
}

/// `cli_` and 30 letters or digits, each drawn evenly: bytes above the last multiple of 62 are thrown away.
fn public_text(ctx: &Ctx) -> String {
    let mut text = String::from("cli_");
    while text.len() < 34 {
        for byte in random::<32>(ctx.ids.as_ref()) {
            if byte < 248 && text.len() < 34 {
                text.push(char::from(ALPHABET[usize::from(byte % 62)]));
            }
        }
    }
    text
}
