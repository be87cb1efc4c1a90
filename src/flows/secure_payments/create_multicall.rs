//! Creates a multicall: a link that pays the requests of several payout links in one transaction.

use super::{
    create_batch_payout::strictest,
    made::{CreatedSecurePayment, LinkDraft, begin_as, require_payable, require_wallet, respond_with},
    opened::seen_requests,
};
use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        child_failure::ChildFailure,
        ids::SecurePaymentToken,
        network::Network,
        paying::{batch_contract::admit_families, charge::Charges},
        request::Request,
        secure_payment::{
            LinkDetails, MerchantNames, PaymentFlow, SecurePayment,
            multicall::{BlockReason, ExecutionKind, admit_kind, block_of, check_children, check_count, facts_of},
        },
    },
    flows::{
        Fault, FlowResult,
        idempotency::{self, KeyedResult, RepeatableCall, ResponseStorage},
        requests::of_client::client_of,
    },
    store::{self, Scope, Tx},
};
use anyhow::anyhow;
use chrono::{DateTime, Utc};
use std::collections::{BTreeSet, HashMap, HashSet};

/// A multicall to create.
#[derive(Debug, Clone)]
pub struct NewMulticall {
    /// Tokens of the links.
    pub tokens: Vec<SecurePaymentToken>,
    /// How the caller wants to pay the multicall; if `None`, the links decide.
    pub kind: Option<ExecutionKind>,
}

/// A created multicall.
#[derive(Debug, Clone)]
pub struct CreatedMulticall {
    /// The link.
    pub link: CreatedSecurePayment,
    /// Whether one transaction can pay all links: they are on one network.
    pub is_payable: bool,
}

/// Creates a link that pays the requests of payout links of the caller. These links stay payable on their own.
///
/// The new link expires when the first of the links expires.
///
/// Errors (400): there are too many links; a link is unknown, of another platform, repeated, of another creator than the
/// first one, no single payout, not payable now, or on a network without batches; or the payments do not fit into one
/// transaction.
/// Source: rules P.3.7; decisions D4; decisions D23.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    asked: NewMulticall,
    call: RepeatableCall<CreatedMulticall>,
) -> FlowResult<KeyedResult<CreatedMulticall>> {
    let tokens = asked.tokens;
    admit_kind(asked.kind)?;
    check_count(tokens.len(), asked.kind == Some(ExecutionKind::EvmCrossChain))?;
    idempotency::once(ctx, caller, call, ResponseStorage::Secret, async |keeper| {
        require_wallet(caller)?;
        let client = client_of(ctx, caller).await?;
        let tx = begin_as(ctx, caller, "create_multicall").await?;
        store::secure_payments::lock_requests(&tx, &Scope::from(caller), &tokens).await?;
        let locked = store::secure_payments::lock_all(&tx, &Scope::from(caller), &tokens).await?;
        let now = ctx.clock.now();
        let children = gather(ctx, &tx, caller, locked).await?;
        admit_families(children.values().map(|(link, _, _)| link.network.family()))?;
        let networks: BTreeSet<Network> = children.values().map(|(link, _, _)| link.network).collect();
        check_count(tokens.len(), networks.len() > 1)?;
        check_children(failures(&tokens, &children, asked.kind, now))?;
        let missing = || Fault(anyhow!("a checked link of a multicall is missing"));
        let chosen: Option<Vec<&Child>> = tokens.iter().map(|token| children.get(token)).collect();
        let chosen = chosen.ok_or_else(missing)?;
        let links: Vec<SecurePayment> = chosen.iter().map(|(link, _, _)| link.clone()).collect();
        let due: Vec<(Request, Charges)> = chosen.iter().map(|(link, request, _)| due(link, request)).collect();
        if let Some(client) = &client {
            let requested = due.iter().map(|(request, _)| request.terms.asked());
            client.limits.check_sum("childTokens", requested, &ctx.catalogue)?;
        }
        let first = links.first().ok_or_else(missing)?;
        if networks.len() == 1 {
            require_payable(ctx, first.network, &due, "childTokens", |index| {
                format!("childTokens[{index}]")
            })?;
        }
        let is_shared = |link: &SecurePayment| link.creator == first.creator;
        let draft = LinkDraft {
            flow: PaymentFlow::Pay,
            network: first.network,
            destination: None,
            creator: first.creator.clone().filter(|_| links.iter().all(is_shared)),
            orchestrator: first.origin.orchestrator.clone(),
            policy: strictest(&links),
            about: LinkDetails::default(),
            expires_at: links.iter().map(|link| link.expires_at).min().unwrap_or(now),
            due,
        };
        let mut opened = draft.complete(ctx, caller);
        for (item, token) in opened.payment.items.iter_mut().zip(&tokens) {
            item.child = Some(token.clone());
        }
        store::secure_payments::insert(&tx, &opened.payment, &MerchantNames::default()).await?;
        crate::fail_at("create_multicall", "inserted");
        let made = CreatedMulticall {
            link: respond_with(ctx, opened),
            is_payable: networks.len() == 1,
        };
        keeper.commit(tx, &made).await?;
        Ok(made)
    })
    .await
}

/// A link with its request, and whether the chain shows an unconfirmed payment of it.
type Child = (SecurePayment, Request, bool);

/// Reads the first request of each link, and whether the chain shows an unconfirmed payment of it. A link with several
/// requests is refused later.
async fn gather(
    ctx: &Ctx,
    tx: &Tx,
    caller: &PlatformCaller,
    links: Vec<SecurePayment>,
) -> FlowResult<HashMap<SecurePaymentToken, Child>> {
    let owner = Scope::of_platform(&caller.platform);
    let firsts = links.iter().filter_map(|link| link.items.first());
    let ids: Vec<String> = firsts.map(|item| item.request_id.0.clone()).collect();
    let known = store::requests::find_all(tx, &owner, &ids).await?;
    let networks: BTreeSet<Network> = links.iter().map(|link| link.network).collect();
    let requests: Vec<Request> = known.values().cloned().collect();
    let mut seen = HashSet::new();
    for network in networks {
        seen.extend(seen_requests(ctx, tx, network, &requests).await?);
    }
    let mut children = HashMap::new();
    for link in links {
        // Several links can pay one request, for example a link and the one into which it was combined.
        let request = link
            .items
            .first()
            .and_then(|item| known.get(item.request_id.as_str()).cloned());
        let missing = || Fault(anyhow!("the request of secure payment {} is missing", link.id));
        let request = request.ok_or_else(missing)?;
        let is_seen = seen.contains(&request.row);
        children.insert(link.token.clone(), (link, request, is_seen));
    }
    Ok(children)
}

fn due(link: &SecurePayment, request: &Request) -> (Request, Charges) {
    let charges = link.items.first().map(|item| item.charges.clone());
    (request.clone(), charges.unwrap_or_default())
}

/// The links that the multicall cannot pay, in the order of the call.
fn failures(
    tokens: &[SecurePaymentToken],
    children: &HashMap<SecurePaymentToken, Child>,
    kind: Option<ExecutionKind>,
    now: DateTime<Utc>,
) -> Vec<ChildFailure> {
    let first = tokens.iter().find_map(|token| children.get(token));
    let mut named = HashSet::new();
    let mut failures = Vec::new();
    for (position, token) in tokens.iter().enumerate() {
        let Some((link, request, is_seen)) = children.get(token) else {
            failures.push(BlockReason::NotFound.failure(position, token, None));
            continue;
        };
        let is_repeated = !named.insert(token);
        let is_other = first.is_some_and(|(first, _, _)| !are_alike(first, link));
        let is_elsewhere = kind == Some(ExecutionKind::EvmSameChain)
            && first.is_some_and(|(first, _, _)| first.network != link.network);
        let reason = if is_repeated || is_other {
            Some(BlockReason::InvalidChildLinkage)
        } else {
            block_of(link, std::slice::from_ref(request), *is_seen, now)
        };
        let reason = reason.or(is_elsewhere.then_some(BlockReason::NotPayableChild));
        let facts = facts_of(Some(link), request, now);
        failures.extend(reason.map(|reason| reason.failure(position, token, Some(facts))));
    }
    failures
}

/// Whether two links were created with the same client ID, or both without one, and by the same orchestrator, and hide
/// the same from payers. The multicall contains the tokens of its links, so one link must not show what another hides.
fn are_alike(one: &SecurePayment, other: &SecurePayment) -> bool {
    let hidden = |link: &SecurePayment| (link.policy.hides_until_approved, link.policy.hides_payee);
    one.origin.client == other.origin.client
        && one.origin.orchestrator == other.origin.orchestrator
        && hidden(one) == hidden(other)
}
