//! Screens the wallets of payers of a secure payment, and of recipients of a payout. Each wallet is screened once per
//! payment.

use crate::{
    ctx::{Ctx, PermitHolder},
    domain::{
        address::Address,
        caller::PlatformCaller,
        destination::ScreeningProvider,
        elapsed::is_within,
        ids::PlatformId,
        network::Network,
        refusal::{Refusal, RefusalKind},
        screening::{self, ScreenedWallet, Screening, ScreeningStatus, WalletsToCheck},
        secure_payment::{
            PaymentFlow, SecurePayment,
            access::{AccessDecision, AccessPolicy, LinkPayer},
            step::ReportCount,
        },
    },
    flows::{
        FlowResult,
        admission::{HeldPermit, holder_of, require},
    },
    ports::screening::Screener,
    store,
};
use futures_util::future::join_all;
use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// Reason code when screening is required and no provider is configured.
const NO_SCREENING: &str = "screening_not_configured";

/// Outcome label of a check whose provider is not configured.
const NOT_CONFIGURED: &str = "not_configured";

/// Possible outcomes of a check.
pub const OUTCOMES: [&str; 4] = ["approved", "rejected", "error", NOT_CONFIGURED];

/// Interval at which the result of another call's check is looked up.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// Decides whether the wallets of a payer pass the screening of a secure payment; `None` if payers are not screened.
/// Payouts screen the recipient instead of payers.
///
/// Results are stored. If every provider failed for a wallet, the decision is an error, which is neither stored nor
/// reported. Errors: more new wallets than a payment may have within an hour, or too many checks in progress (429).
/// Source: rules S.8.
pub(super) async fn payer(ctx: &Ctx, payment: &SecurePayment, payer: &LinkPayer) -> FlowResult<Option<AccessDecision>> {
    judge(ctx, payment, payer, screening::NEW_WALLETS_MAX).await
}

/// Screens a wallet that has paid. The limit of wallets per hour is twice that of other checks, so visitors who name
/// many wallets cannot use it up.
pub(super) async fn who_paid(ctx: &Ctx, payment: &SecurePayment, wallet: Address) -> FlowResult<()> {
    let payer = LinkPayer { wallet, eoa: None };
    judge(ctx, payment, &payer, screening::NEW_PAYERS_MAX).await?;
    Ok(())
}

async fn judge(
    ctx: &Ctx,
    payment: &SecurePayment,
    payer: &LinkPayer,
    new_max: usize,
) -> FlowResult<Option<AccessDecision>> {
    let Some(screeners) = chosen(ctx, &payment.policy).filter(|_| payment.flow == PaymentFlow::GetPaid) else {
        return Ok(None);
    };
    if screeners.is_empty() {
        count_unasked(&payment.policy);
        return Ok(Some(AccessDecision::error(NO_SCREENING, payment.policy.provider)));
    }
    let wallets = ScreenedWallet::of_payer(payer);
    let asking = ScreeningPlan { screeners, new_max };
    let known = known(ctx, payment, &asking, &wallets).await?;
    Ok(Some(screening::decide(&wallets, &known, payment.policy.provider)))
}

/// The screening result of the recipient of a payout during its creation; `None` if recipients are not screened.
///
/// Anyone who reads a public client ID off a page can name recipients with it. So recipients are counted, and a
/// recipient who failed within the hour is not checked again. Errors: no provider returns a result, or no provider is
/// configured (502); too many checks are in progress, or the client ID reached its limit within the hour (429). Source:
/// rules S.8.
pub(super) async fn recipient(
    ctx: &Ctx,
    caller: &PlatformCaller,
    policy: &AccessPolicy,
    network: Network,
    wallet: Address,
) -> FlowResult<Option<Screening>> {
    let Some(screeners) = chosen(ctx, policy) else {
        return Ok(None);
    };
    let provider = policy.provider.map_or("", ScreeningProvider::wire);
    if screeners.is_empty() {
        count_unasked(policy);
        let sentence = format!(
            "The wallet of the recipient cannot be screened: {provider} is not configured; ask the operator, or \
             choose another accessPolicy"
        );
        return Err(Refusal::new(RefusalKind::Upstream, sentence).into());
    }
    let asked = format!("{} {provider} {network} {}", caller.platform, wallet.canonical());
    if caller.is_public() {
        count_recipient(ctx, caller)?;
        if let Some(rejected) = known_rejected(ctx, &asked) {
            return Ok(Some(rejected));
        }
    }
    let _permit = permit(ctx, &holder_of(caller)).await?;
    let found = ask(ctx, &screeners, network, &[ScreenedWallet::alone(wallet)]).await;
    let found = found.into_iter().next().ok_or_else(|| {
        let message = "The wallet of the recipient could not be screened; try again later";
        Refusal::new(RefusalKind::Upstream, message)
    })?;
    if caller.is_public() && found.status == ScreeningStatus::Rejected {
        let mut rejected = ctx
            .payment_pages
            .rejected
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        rejected.put(asked, found.clone());
    }
    Ok(Some(found))
}

/// Counts, in a metric, a screening that was required although its provider is not configured.
fn count_unasked(policy: &AccessPolicy) {
    let provider = policy.provider.map_or("", ScreeningProvider::wire);
    metrics::counter!("prs_screening_answers_total", "provider" => provider, "outcome" => NOT_CONFIGURED).increment(1);
}

/// The result of a recipient who failed within the hour.
fn known_rejected(ctx: &Ctx, asked: &str) -> Option<Screening> {
    let mut rejected = ctx
        .payment_pages
        .rejected
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let known = rejected.get(asked).cloned();
    known.filter(|known| is_within(known.evaluated_at, screening::WINDOW, ctx.clock.now()))
}

/// Counts a recipient for the public client ID that names it. Errors: 429.
fn count_recipient(ctx: &Ctx, caller: &PlatformCaller) -> Result<(), Refusal> {
    let client = caller.client().map_or("", |client| client.as_str());
    let key = format!("{} {client}", caller.platform);
    let max = u32::try_from(screening::NEW_WALLETS_MAX).unwrap_or(u32::MAX);
    let mut counted = ctx
        .payment_pages
        .recipients
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let one_more = ReportCount::one_more(counted.get(&key).copied(), max, ctx.clock.steady()).map_err(|wait_s| {
        let sentence = format!(
            "This public client ID has reached its limit of {max} screened recipients per hour; try again later, or create \
             the link with an API key"
        );
        Refusal::new(RefusalKind::TooMany, sentence).after(wait_s)
    })?;
    counted.put(key, one_more);
    Ok(())
}

/// Providers to use under a policy, in order; `None` if it has no screening.
fn chosen(ctx: &Ctx, policy: &AccessPolicy) -> Option<Vec<Arc<dyn Screener>>> {
    let all = &ctx.partners.screeners;
    let offered: Vec<ScreeningProvider> = all.iter().map(|screener| screener.provider()).collect();
    let order = screening::order(policy, &offered, ctx.screening.has_backup)?;
    let of = |provider: &ScreeningProvider| all.iter().find(|screener| screener.provider() == *provider).cloned();
    Some(order.iter().filter_map(of).collect())
}

/// Waits for a permit to screen. Errors: too many wallets are being screened (429).
async fn permit(ctx: &Ctx, holder: &PermitHolder) -> Result<HeldPermit, Refusal> {
    let sentence = "Too many wallets are being screened; try again";
    require(&ctx.screenings, holder, ctx.waits.permit, sentence).await
}

/// Providers to use, and the maximum number of new wallets of a payment within an hour.
struct ScreeningPlan {
    screeners: Vec<Arc<dyn Screener>>,
    new_max: usize,
}

/// The results for wallets of a payment, after the providers checked those without a stored result.
async fn known(
    ctx: &Ctx,
    payment: &SecurePayment,
    asking: &ScreeningPlan,
    wallets: &[ScreenedWallet],
) -> FlowResult<Vec<Screening>> {
    let (platform, reader) = (&payment.origin.platform, ctx.db.reader());
    let known = store::screenings::of_wallets(reader, platform, &payment.id, wallets).await?;
    let missing = screening::missing(wallets, &known);
    if missing.is_empty() {
        return Ok(known);
    }
    // A caller that checks too often is refused before any lock is taken, and a caller that waits for another call
    // takes no lock.
    let questions = store::screenings::questions(reader, platform, &payment.id).await?;
    let planned = screening::agenda(&missing, &questions, asking.new_max, ctx.clock.now())?;
    let awaited = if planned.asked.is_empty() {
        planned.awaited
    } else {
        ask_in_turn(ctx, payment, asking, &missing).await?
    };
    await_others(ctx, payment, &awaited).await?;
    Ok(store::screenings::of_wallets(reader, platform, &payment.id, wallets).await?)
}

/// Checks wallets of a payment and stores the results; returns the wallets that another call is checking.
async fn ask_in_turn(
    ctx: &Ctx,
    payment: &SecurePayment,
    asking: &ScreeningPlan,
    missing: &[ScreenedWallet],
) -> FlowResult<Vec<ScreenedWallet>> {
    let holder = PermitHolder {
        platform: payment.origin.platform.clone(),
        is_public: true,
        link: None,
    };
    let _permit = permit(ctx, &holder).await?;
    let WalletsToCheck { asked, awaited } = open(ctx, payment, missing, asking.new_max).await?;
    if !asked.is_empty() {
        let found = ask(ctx, &asking.screeners, payment.network, &asked).await;
        close(ctx, payment, &asked, &found).await?;
    }
    Ok(awaited)
}

/// Records the wallets that this call checks. So no other call checks them at the same time, and all of them are
/// counted.
async fn open(
    ctx: &Ctx,
    payment: &SecurePayment,
    missing: &[ScreenedWallet],
    new_max: usize,
) -> FlowResult<WalletsToCheck> {
    let (platform, now) = (&payment.origin.platform, ctx.clock.now());
    let tx = ctx.db.begin("ask_screening").await?;
    store::secure_payments::lock_one(&tx, platform, &payment.id).await?;
    store::screenings::forget_questions(&tx, platform, &payment.id, now - screening::WINDOW).await?;
    let questions = store::screenings::questions(&tx, platform, &payment.id).await?;
    let known = store::screenings::of_wallets(&tx, platform, &payment.id, missing).await?;
    let agenda = screening::agenda(&screening::missing(missing, &known), &questions, new_max, now)?;
    store::screenings::open_questions(&tx, platform, &payment.id, &agenda.asked, now).await?;
    tx.commit().await?;
    Ok(agenda)
}

/// Results of the providers; a wallet for which every provider failed is missing.
async fn ask(
    ctx: &Ctx,
    screeners: &[Arc<dyn Screener>],
    network: Network,
    wallets: &[ScreenedWallet],
) -> Vec<Screening> {
    let found = wallets.iter().map(|wallet| ask_about(ctx, screeners, network, wallet));
    join_all(found).await.into_iter().flatten().collect()
}

async fn ask_about(
    ctx: &Ctx,
    screeners: &[Arc<dyn Screener>],
    network: Network,
    wallet: &ScreenedWallet,
) -> Option<Screening> {
    for screener in screeners {
        let provider = screener.provider();
        let finding = screener.screen(&wallet.address, network).await;
        let outcome = finding.as_ref().map_or("error", |finding| finding.status.wire());
        metrics::counter!("prs_screening_answers_total", "provider" => provider.wire(), "outcome" => outcome)
            .increment(1);
        match finding {
            Ok(finding) => {
                let evaluated_at = ctx.clock.now();
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "a gauge is an f64, which is exact for whole numbers below 2^52; Unix times in seconds \
                              are smaller"
                )]
                metrics::gauge!("prs_screening_last_ok_timestamp_seconds", "provider" => provider.wire())
                    .set(evaluated_at.timestamp() as f64);
                return Some(Screening {
                    wallet: *wallet,
                    status: finding.status,
                    provider,
                    raw_status: finding.raw_status,
                    evaluated_at,
                });
            }
            Err(error) => {
                tracing::warn!(%network, %error, "a wallet was not screened");
                // The next provider is only for failures of the first. Otherwise a payer could choose the provider with
                // the better result.
                if error.is_answered {
                    return None;
                }
            }
        }
    }
    None
}

/// Stores the results. For the other wallets, stores that the check ended without a result.
async fn close(ctx: &Ctx, payment: &SecurePayment, asked: &[ScreenedWallet], found: &[Screening]) -> FlowResult<()> {
    let platform: &PlatformId = &payment.origin.platform;
    let is_found = |address: &Address| found.iter().any(|screening| screening.wallet.address == *address);
    let (answered, failed): (Vec<Address>, Vec<Address>) =
        asked.iter().map(|wallet| wallet.address).partition(is_found);
    let tx = ctx.db.begin("keep_screening").await?;
    store::screenings::keep(&tx, platform, &payment.id, found).await?;
    for (wallets, is_answered) in [(answered, true), (failed, false)] {
        store::screenings::close_questions(&tx, platform, &payment.id, &wallets, is_answered).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// Waits until other calls' checks of wallets have ended.
async fn await_others(ctx: &Ctx, payment: &SecurePayment, awaited: &[ScreenedWallet]) -> FlowResult<()> {
    let until = Instant::now() + ctx.waits.others_screening;
    while !awaited.is_empty() && Instant::now() < until {
        let questions = store::screenings::questions(ctx.db.reader(), &payment.origin.platform, &payment.id).await?;
        let is_awaited = |address| awaited.iter().any(|wallet| wallet.address == address);
        if !questions
            .iter()
            .any(|question| question.is_open && is_awaited(question.wallet))
        {
            break;
        }
        sleep(LOOK_PAUSE).await;
    }
    Ok(())
}
