//! Registers an endpoint.

use crate::{
    ctx::Ctx,
    domain::{
        ids::{EndpointId, Secret},
        refusal::Refusal,
    },
    flows::{
        FlowResult,
        idempotency::{self, KeyHolder, KeyedResult, RepeatableCall, ResponseStorage},
        webhooks::{Endpoint, Holder, secret_place},
    },
    ports::ids::random,
    store::{self, StoreError},
};

/// An endpoint and its secret, which is shown only once.
#[derive(Debug, Clone)]
pub struct NewEndpoint {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// 64 hexadecimal digits.
    pub secret: Secret,
}

/// Generates the secret of an endpoint. Source: decisions D22; decisions D30.
pub(super) fn draw_secret(ctx: &Ctx) -> Secret {
    Secret::new(hex::encode(random::<32>(ctx.ids.as_ref())))
}

/// Registers an endpoint of `holder` for `asker`, under whom the response is stored. An endpoint of a public client ID
/// waits for approval.
///
/// Errors: a URL that is not allowed, a prefix that is not in the settings (400); an already registered URL, more
/// endpoints than the cap (409).
/// Source: interface §4.8; interface §4.9; decisions D16; decisions D18; decisions D20; decisions D22; decisions D32;
/// decisions D35.
pub async fn run(
    ctx: &Ctx,
    asker: impl Into<KeyHolder>,
    holder: Holder,
    url: &str,
    header_prefix: Option<&str>,
    call: RepeatableCall<NewEndpoint>,
) -> FlowResult<KeyedResult<NewEndpoint>> {
    let asker = asker.into();
    let is_public = asker.holder.is_public;
    idempotency::once(ctx, asker, call, ResponseStorage::Secret, async |keeper| {
        let url = ctx
            .webhooks
            .url_policy
            .check(url)
            .map_err(|message| Refusal::field("url", message))?;
        let configured = &ctx.webhooks.header_prefixes;
        if header_prefix.is_some_and(|chosen| !configured.iter().any(|prefix| prefix == chosen)) {
            let message = format!("must be one of {}", configured.join(", "));
            return Err(Refusal::field("headerPrefix", message).into());
        }
        let secret = draw_secret(ctx);
        let endpoint = Endpoint {
            id: EndpointId(ctx.ids.ulid()),
            owner: holder.owner,
            client: holder.client,
            url: url.to_string(),
            secret_sealed: String::new(),
            former_secrets: Vec::new(),
            is_active: true,
            is_approved: !is_public,
            created_at: ctx.clock.now(),
            header_prefix: header_prefix.map(str::to_owned),
            failing_since: None,
        };
        let secret_sealed = ctx
            .sealer
            .seal(&secret, secret_place(&endpoint.owner, &endpoint.id))
            .map_err(crate::flows::Fault)?;
        let created = NewEndpoint {
            endpoint: Endpoint {
                secret_sealed,
                ..endpoint
            },
            secret,
        };
        let tx = ctx.db.begin("create_webhook").await?;
        store::owners::lock(&tx, &created.endpoint.owner).await?;
        match store::endpoints::insert(&tx, &created.endpoint).await {
            Err(StoreError::Conflict(_)) => return Err(Refusal::conflict("This URL is already registered").into()),
            other => other?,
        }
        let Endpoint { owner, client, .. } = &created.endpoint;
        match client {
            Some(client) if is_public => {
                let count = store::endpoints::count_unapproved(&tx, owner, client).await?;
                ctx.caps.admit_unapproved_endpoints(count)?;
            }
            _ => ctx.caps.admit_endpoints(store::endpoints::count(&tx, owner).await?)?,
        }
        keeper.commit(tx, &created).await?;
        Ok(created)
    })
    .await
}
