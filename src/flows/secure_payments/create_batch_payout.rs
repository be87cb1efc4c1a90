//! Combines payouts that nobody has paid yet into one secure payment.

use super::made::{Draft, Made, require_payable, require_wallet, told};
use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        ids::SecurePaymentToken,
        paying::{
            batch_contract::{admit_families, admit_networks},
            charge::Charges,
        },
        refusal::{Checks, Refusal},
        request::{Request, payable::Unpayable},
        secure_payment::{
            About, Names, PaymentFlow, SecurePayment, SecurePaymentKind, SecurePaymentStatus, access::AccessPolicy,
            attempt::Attempts, redirect::Redirect,
        },
    },
    flows::{
        Fault, FlowResult,
        idempotency::{self, Answer, Repeatable, Storage},
        requests::of_client::client_of,
    },
    store::{self, Scope},
};
use anyhow::anyhow;
use chrono::{DateTime, Utc};
use std::collections::HashMap;

/// What is said of a token that names no payout of the caller that can be paid; somebody else's is like an unknown one.
const NOT_FOUND: &str = "must be the token of a payout link of yours that can still be paid";

/// Makes one secure payment of several payouts, which are withdrawn in the same commit; their requests live on in it.
///
/// Errors: one of them is somebody else's, no single payout, paid in part or in full, over, or on another network; the
/// first of them that ends, ends all; they are together more than the client ID of the caller may ask for (400). Source: interface §4.7; rules P.3.7; rules S.2.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    tokens: &[String],
    redirect: Option<Redirect>,
    call: Repeatable<Made>,
) -> FlowResult<Answer<Made>> {
    let tokens: Vec<SecurePaymentToken> = tokens.iter().cloned().map(SecurePaymentToken).collect();
    idempotency::once(ctx, caller, call, Storage::Secret, async |keeper| {
        require_wallet(caller)?;
        let client = client_of(ctx, caller).await?;
        let tx = ctx.db.begin("combine_secure_payments").await?;
        // Whoever changes requests too locks them before the links: what one of these hides is hidden of all from now on.
        store::secure_payments::lock_requests(&tx, &Scope::from(caller), &tokens).await?;
        let locked = store::secure_payments::lock_all(&tx, &Scope::from(caller), &tokens).await?;
        let now = ctx.clock.now();
        let originals = chosen(&tokens, locked, now)?;
        let owner = Scope {
            platform: caller.platform.clone(),
            client: None,
        };
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
        require_payable(ctx, network, &due, ("tokens", |index| format!("tokens[{index}]")))?;
        let creator = first.creator.clone();
        let draft = Draft {
            flow: PaymentFlow::Pay,
            network,
            destination: None,
            creator: creator.filter(|creator| {
                originals
                    .iter()
                    .all(|payment| payment.creator.as_ref() == Some(creator))
            }),
            policy: strictest(&originals),
            about: About {
                redirect: redirect.clone(),
                ..About::default()
            },
            expires_at: originals.iter().map(|payment| payment.expires_at).min().unwrap_or(now),
            due,
        };
        let mut opened = draft.made(ctx, caller);
        // A payment of one of them that is on its way pays the new link, too.
        opened.payment.hinted_at = originals.iter().filter_map(|payment| payment.hinted_at).max();
        opened.payment.attempts = Attempts {
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
        store::secure_payments::insert(&tx, &opened.payment, &Names::default()).await?;
        crate::fail_at("combine_secure_payments", "inserted");
        let rows: Vec<_> = opened.payment.items.iter().map(|item| &item.request).collect();
        store::requests::set_link_until(&tx, &caller.platform, &rows, opened.payment.expires_at).await?;
        let made = told(ctx, opened);
        keeper.commit(tx, &made).await?;
        Ok(made)
    })
    .await
}

/// The payouts in the order in which they were named. Errors: every one that cannot be combined (400).
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
            checks.fail(entry, "must be a link with one payout: this one is something else");
        } else if let Err(why) = payment.payable_at(now) {
            checks.fail(entry, format!("{NOT_FOUND}: {}", why.sentence()));
        }
        chosen.push(payment);
    }
    let networks: Vec<_> = chosen.iter().map(|payment| payment.network).collect();
    admit_families(networks.iter().map(|network| network.family()))?;
    checks.finish()?;
    admit_networks(networks)?;
    Ok(chosen)
}

/// The requests and what is charged on top of each. Errors: something arrived for one of them already (400).
fn due(originals: &[SecurePayment], mut known: HashMap<String, Request>) -> FlowResult<Vec<(Request, Charges)>> {
    let mut checks = Checks::new();
    let mut due = Vec::with_capacity(originals.len());
    for (index, original) in originals.iter().enumerate() {
        let entry = format!("tokens[{index}]");
        for item in &original.items {
            let request = known.remove(item.request_id.as_str());
            let missing = || Fault(anyhow!("a request of secure payment {} is not there", original.id));
            let request = request.ok_or_else(missing)?;
            checks.take(&entry, request.payable().map_err(Unpayable::in_list));
            if !request.ledger.credited.is_zero() {
                checks.fail(
                    &entry,
                    "must be a link for which nothing has arrived: this one is paid in part",
                );
            }
            due.push((request, item.charges.clone()));
        }
    }
    checks.finish()?;
    Ok(due)
}

/// What holds for one of them holds for all. Lists of payers are noted on payouts and hold nobody.
fn strictest(originals: &[SecurePayment]) -> AccessPolicy {
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
