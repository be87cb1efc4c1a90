//! Combines unpaid payouts into one secure payment.

use super::made::{CreatedSecurePayment, LinkDraft, begin_as, require_payable, require_wallet, respond_with};
use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        ids::{OrchestratorId, SecurePaymentToken},
        paying::{
            batch_contract::{admit_families, admit_networks},
            charge::Charges,
        },
        refusal::{Checks, Refusal},
        request::{Request, payable::UnpayableRequest},
        secure_payment::{
            LinkDetails, MerchantNames, PaymentFlow, SecurePayment, SecurePaymentKind, SecurePaymentStatus,
            access::AccessPolicy, attempt::WalletAttempts, redirect::RedirectButton,
        },
    },
    flows::{
        Fault, FlowResult,
        idempotency::{self, KeyedResult, RepeatableCall, ResponseStorage},
        requests::of_client::client_of,
    },
    store::{self, Scope},
};
use anyhow::anyhow;
use chrono::{DateTime, Utc};
use std::collections::{HashMap, HashSet};

/// Message for a token that is not a payable payout of the caller. The token of another platform gets the same message
/// as an unknown token.
const NOT_FOUND: &str = "must be the token of a payout link that you own and that can still be paid";

/// Message for payouts of several orchestrators.
const SEVERAL_ORCHESTRATORS: &str =
    "must be links of one orchestrator: combine the links of each orchestrator separately";

/// Creates one secure payment from several payouts, which are withdrawn in the same commit. The new secure payment pays
/// the requests of these payouts.
///
/// The new link expires when the first of the payouts would have expired.
///
/// Errors (400): a token is of another platform, is not a single payout, is fully or partly paid, is expired, or is on
/// another network; the payouts belong to several orchestrators, or together exceed what the client ID of the caller may
/// request. Source: interface §4.7; rules P.3.7; rules S.2.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    tokens: &[String],
    redirect: Option<RedirectButton>,
    call: RepeatableCall<CreatedSecurePayment>,
) -> FlowResult<KeyedResult<CreatedSecurePayment>> {
    let tokens: Vec<SecurePaymentToken> = tokens.iter().cloned().map(SecurePaymentToken).collect();
    idempotency::once(ctx, caller, call, ResponseStorage::Secret, async |keeper| {
        require_wallet(caller)?;
        let client = client_of(ctx, caller).await?;
        let tx = begin_as(ctx, caller, "combine_secure_payments").await?;
        // Requests are locked here, and before the links, because this flow may change them: what one of the combined
        // links hides becomes hidden for the requests of all. Every flow locks requests before links.
        store::secure_payments::lock_requests(&tx, &Scope::from(caller), &tokens).await?;
        let locked = store::secure_payments::lock_all(&tx, &Scope::from(caller), &tokens).await?;
        let now = ctx.clock.now();
        let originals = chosen(&tokens, locked, now)?;
        let owner = Scope::of_platform(&caller.platform);
        let items = originals.iter().flat_map(|payment| &payment.items);
        let ids: Vec<String> = items.map(|item| item.request_id.0.clone()).collect();
        let known = store::requests::find_all(&tx, &owner, &ids).await?;
        let due = due(&originals, known)?;
        if let Some(client) = &client {
            let asked = due.iter().map(|(request, _)| request.terms.asked());
            client.limits.check_sum("tokens", asked, &ctx.catalogue)?;
        }
        let first = originals
            .first()
            .ok_or_else(|| Refusal::field("tokens", "must have at least 2 items"))?;
        let network = first.network;
        require_payable(ctx, network, &due, "tokens", |index| format!("tokens[{index}]"))?;
        let creator = first.creator.clone();
        let draft = LinkDraft {
            flow: PaymentFlow::Pay,
            network,
            destination: None,
            creator: creator.filter(|creator| {
                originals
                    .iter()
                    .all(|payment| payment.creator.as_ref() == Some(creator))
            }),
            orchestrator: orchestrator(caller, &originals)?,
            policy: strictest(&originals),
            about: LinkDetails {
                redirect: redirect.clone(),
                ..LinkDetails::default()
            },
            expires_at: originals.iter().map(|payment| payment.expires_at).min().unwrap_or(now),
            due,
        };
        let mut opened = draft.complete(ctx, caller);
        // A payment in flight of one of the payouts also pays the new link, so its report is taken over.
        opened.payment.hinted_at = originals.iter().filter_map(|payment| payment.hinted_at).max();
        opened.payment.attempts = WalletAttempts {
            kept: Vec::new(),
            warned_until: originals
                .iter()
                .filter_map(|payment| payment.attempts.warn_until(&[], now))
                .max(),
        };
        for original in &originals {
            let ended = SecurePayment {
                status: SecurePaymentStatus::Invalidated,
                ..original.clone()
            };
            store::secure_payments::set_status(&tx, &ended).await?;
            crate::fail_at("combine_secure_payments", "original_ended");
        }
        store::secure_payments::insert(&tx, &opened.payment, &MerchantNames::default()).await?;
        crate::fail_at("combine_secure_payments", "inserted");
        let rows: Vec<_> = opened.payment.items.iter().map(|item| &item.request).collect();
        store::requests::set_link_until(&tx, &caller.platform, &rows, opened.payment.expires_at).await?;
        let made = respond_with(ctx, opened);
        keeper.commit(tx, &made).await?;
        Ok(made)
    })
    .await
}

/// The payouts in the order of the call. Errors: every payout that cannot be combined (400).
fn chosen(
    tokens: &[SecurePaymentToken],
    locked: Vec<SecurePayment>,
    now: DateTime<Utc>,
) -> Result<Vec<SecurePayment>, Refusal> {
    let mut known: HashMap<SecurePaymentToken, SecurePayment> = locked
        .into_iter()
        .map(|payment| (payment.token.clone(), payment))
        .collect();
    let mut checks = Checks::new();
    let mut chosen = Vec::with_capacity(tokens.len());
    for (index, token) in tokens.iter().enumerate() {
        let entry = format!("tokens[{index}]");
        let Some(payment) = known.remove(token) else {
            checks.fail(entry, NOT_FOUND);
            continue;
        };
        if payment.flow != PaymentFlow::Pay || payment.kind() != SecurePaymentKind::Single {
            checks.fail(entry, "must be a link with exactly one payout");
        } else if let Err(why) = payment.payable_at(now) {
            checks.fail(entry, format!("{NOT_FOUND}: {}", why.sentence()));
        } else if payment.locked_at(now).is_some() {
            checks.fail(entry, format!("{NOT_FOUND}: a Safe is about to pay it"));
        }
        chosen.push(payment);
    }
    let networks: Vec<_> = chosen.iter().map(|payment| payment.network).collect();
    admit_families(networks.iter().map(|network| network.family()))?;
    checks.finish()?;
    admit_networks(networks)?;
    Ok(chosen)
}

/// The requests and the fees of each request. Errors: a payment already arrived for a request (400).
fn due(originals: &[SecurePayment], mut known: HashMap<String, Request>) -> FlowResult<Vec<(Request, Charges)>> {
    let mut checks = Checks::new();
    let mut due = Vec::with_capacity(originals.len());
    for (index, original) in originals.iter().enumerate() {
        let entry = format!("tokens[{index}]");
        for item in &original.items {
            let request = known.remove(item.request_id.as_str());
            let missing = || Fault(anyhow!("a request of secure payment {} is missing", original.id));
            let request = request.ok_or_else(missing)?;
            checks.take(&entry, request.payable().map_err(UnpayableRequest::in_list));
            if !request.ledger.credited.is_zero() {
                checks.fail(&entry, "must be an unpaid link: this one is partly paid");
            }
            due.push((request, item.charges.clone()));
        }
    }
    checks.finish()?;
    Ok(due)
}

/// The orchestrator of the combined payout: that of the payouts, or the caller. Errors: the payouts belong to several
/// orchestrators, each of which takes its own fee (400).
fn orchestrator(caller: &PlatformCaller, originals: &[SecurePayment]) -> Result<Option<OrchestratorId>, Refusal> {
    let of_parts = originals
        .iter()
        .filter_map(|payment| payment.origin.orchestrator.as_ref());
    let involved: HashSet<&OrchestratorId> = of_parts.chain(caller.orchestrator()).collect();
    if involved.len() > 1 {
        return Err(Refusal::field("tokens", SEVERAL_ORCHESTRATORS));
    }
    Ok(involved.into_iter().next().cloned())
}

/// The policy of a link that pays several payouts: the strictest value of each setting. Payer lists are stored on payouts but not
/// enforced.
pub(super) fn strictest(originals: &[SecurePayment]) -> AccessPolicy {
    let policies = originals.iter().map(|payment| &payment.policy);
    let screening = policies.clone().find(|policy| policy.provider.is_some());
    AccessPolicy {
        mode: screening.map_or(AccessPolicy::OPEN.mode, |policy| policy.mode),
        provider: screening.and_then(|policy| policy.provider),
        hides_until_approved: policies.clone().any(|policy| policy.hides_until_approved),
        hides_payee: policies.clone().any(|policy| policy.hides_payee),
        allowed: Vec::new(),
    }
}
