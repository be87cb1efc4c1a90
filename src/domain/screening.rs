//! Screening: which provider checks the wallets of a secure payment, how often, and what follows from the results.

use super::{
    address::Address,
    destination::{AccessMode, ScreeningProvider},
    elapsed::is_within,
    payment::PayerAccess,
    refusal::{Refusal, RefusalKind},
    secure_payment::{
        PaymentFlow,
        access::{AccessDecision, AccessPolicy, AccessStatus, LinkPayer, WalletAccountType, WalletResult},
    },
    wire_text::wire_text,
};
use chrono::{DateTime, TimeDelta, Utc};

/// Time within which every provider has returned a result or failed. Source: rules S.8.
const ANSWERED_WITHIN: TimeDelta = TimeDelta::seconds(9);

/// Maximum number of new wallets checked within [`WINDOW`]. It applies to the wallets of one payment, and to the
/// recipients of one public client ID. Each check costs money, and strangers can name any wallet: they need only the
/// link, or a client ID from a page. Source: rules S.8.
pub const NEW_WALLETS_MAX: usize = 30;

/// Maximum number of new wallets checked within [`WINDOW`] when a wallet that paid is checked. It is twice
/// [`NEW_WALLETS_MAX`], so that checks of wallets that visitors name can use only half of it.
pub const NEW_PAYERS_MAX: usize = 2 * NEW_WALLETS_MAX;

/// How long a checked wallet counts towards [`NEW_WALLETS_MAX`] and [`NEW_PAYERS_MAX`].
pub const WINDOW: TimeDelta = TimeDelta::hours(1);

/// A wallet may be checked again at once while at most this number of checks in a row had no result. After more, the
/// next check has to wait.
const PATIENT_FAILURES: u32 = 3;

/// First wait between two checks of a wallet. Each further wait is twice as long, up to [`PAUSE_MAX`].
const PAUSE_MIN: TimeDelta = TimeDelta::seconds(5);

/// Longest wait between two checks of a wallet.
const PAUSE_MAX: TimeDelta = TimeDelta::minutes(5);

wire_text! {
    /// Result of a completed screening. Source: rules S.8.
    pub enum ScreeningStatus {
        /// The wallet may pay.
        Approved = "approved",
        /// The wallet may not pay.
        Rejected = "rejected",
    }
}

wire_text! {
    /// How the screening sandbox responds when a wallet is checked.
    pub enum SandboxAnswer {
        /// It approves.
        Approved = "approved",
        /// It rejects.
        Rejected = "rejected",
        /// It returns an error.
        Error = "error",
        /// The sandbox does not respond in time.
        Hang = "hang",
    }
}

/// A wallet to screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScreenedWallet {
    /// Its address.
    pub address: Address,
    /// Kind of the wallet.
    pub kind: WalletAccountType,
    /// The smart account that this account controls.
    pub parent: Option<Address>,
}

impl ScreenedWallet {
    /// A wallet that does not control a smart account.
    pub fn alone(address: Address) -> Self {
        Self {
            address,
            kind: WalletAccountType::Eoa,
            parent: None,
        }
    }

    /// The wallets of a payer: the wallet, and for a smart account also the account that controls it.
    pub fn of_payer(payer: &LinkPayer) -> Vec<Self> {
        let Some(eoa) = payer.eoa.filter(|eoa| *eoa != payer.wallet) else {
            return vec![Self::alone(payer.wallet)];
        };
        let behind = Self {
            parent: Some(payer.wallet),
            ..Self::alone(eoa)
        };
        let smart_account = Self {
            kind: WalletAccountType::SmartAccount,
            ..Self::alone(payer.wallet)
        };
        vec![behind, smart_account]
    }
}

/// Result of a provider about a wallet; it never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screening {
    /// The wallet.
    pub wallet: ScreenedWallet,
    /// Result.
    pub status: ScreeningStatus,
    /// Provider of the result.
    pub provider: ScreeningProvider,
    /// Status as the provider calls it.
    pub raw_status: String,
    /// Time of the result.
    pub evaluated_at: DateTime<Utc>,
}

/// A check of a wallet at a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScreeningAttempt {
    /// The wallet.
    pub wallet: Address,
    /// When the wallet was last checked.
    pub asked_at: DateTime<Utc>,
    /// Number of failed checks in a row.
    pub failures: u32,
    /// Whether the last check has no result yet.
    pub is_open: bool,
}

impl ScreeningAttempt {
    /// Whether a check is in progress. A check without a result counts as failed after [`ANSWERED_WITHIN`], because the
    /// process that made the check may have ended.
    fn is_in_flight(&self, now: DateTime<Utc>) -> bool {
        self.is_open && is_within(self.asked_at, ANSWERED_WITHIN, now)
    }

    /// Whether the wallet may be checked again.
    fn may_be_repeated(&self, now: DateTime<Utc>) -> bool {
        let waits = self.failures.saturating_sub(PATIENT_FAILURES);
        let pause = match waits {
            0 => return true,
            waits => PAUSE_MAX.min(PAUSE_MIN * (1 << (waits - 1).min(16))),
        };
        !is_within(self.asked_at, pause, now)
    }
}

/// Wallets to check before a decision.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WalletsToCheck {
    /// This call checks them.
    pub asked: Vec<ScreenedWallet>,
    /// Another call is checking them.
    pub awaited: Vec<ScreenedWallet>,
}

/// Providers to use under a policy, in order; none if the policy has no screening.
///
/// The next provider is used only after the previous one failed: any result ends the check. Source: rules S.8.
pub fn order(policy: &AccessPolicy, offered: &[ScreeningProvider], has_backup: bool) -> Option<Vec<ScreeningProvider>> {
    let (AccessMode::KytAllWallets, Some(chosen)) = (policy.mode, policy.provider) else {
        return None;
    };
    let others = offered.iter().filter(|offered| has_backup && **offered != chosen);
    let chosen = offered.iter().filter(|offered| **offered == chosen);
    Some(chosen.chain(others).copied().collect())
}

/// Wallets without a result. Empty if any wallet is rejected: all wallets must be approved, so further checks would not
/// help.
pub fn missing(wallets: &[ScreenedWallet], known: &[Screening]) -> Vec<ScreenedWallet> {
    let is_rejected = |screening: &Screening| screening.status == ScreeningStatus::Rejected;
    if known.iter().any(is_rejected) {
        return Vec::new();
    }
    let is_known = |wallet: &ScreenedWallet| known.iter().any(|screening| screening.wallet.address == wallet.address);
    wallets.iter().filter(|wallet| !is_known(wallet)).copied().collect()
}

/// Decides which wallets without a result are checked now. `new_max` is the maximum number of new wallets of the
/// payment within an hour, including earlier checks.
///
/// Errors: the maximum is exceeded (429).
pub fn agenda(
    missing: &[ScreenedWallet],
    questions: &[ScreeningAttempt],
    new_max: usize,
    now: DateTime<Utc>,
) -> Result<WalletsToCheck, Refusal> {
    let recent: Vec<&ScreeningAttempt> = questions
        .iter()
        .filter(|one| is_within(one.asked_at, WINDOW, now))
        .collect();
    let mut agenda = WalletsToCheck::default();
    let mut new = 0;
    for wallet in missing {
        match recent.iter().find(|question| question.wallet == wallet.address) {
            Some(question) if question.is_in_flight(now) => agenda.awaited.push(*wallet),
            Some(question) if !question.may_be_repeated(now) => {}
            Some(_) => agenda.asked.push(*wallet),
            None => {
                new += 1;
                agenda.asked.push(*wallet);
            }
        }
    }
    if new > 0 && recent.len() + new > new_max {
        let oldest = recent.iter().map(|question| question.asked_at).min().unwrap_or(now);
        let wait_s = (oldest + WINDOW - now).num_seconds() + 1;
        let message = format!(
            "This payment has reached its limit of {new_max} screened wallets per hour; use an already approved \
             wallet, or try again later"
        );
        let wait_s = u32::try_from(wait_s).unwrap_or(1);
        return Err(Refusal::new(RefusalKind::TooMany, message).after(wait_s));
    }
    Ok(agenda)
}

/// Reason code of an approved wallet.
const APPROVED: &str = "screening_approved";

/// Reason code of a rejected wallet.
const REJECTED: &str = "screening_rejected";

/// Reason code when every provider failed.
const FAILED: &str = "provider_error";

/// Status of a payer and reason code for a result.
pub fn status(found: ScreeningStatus) -> (AccessStatus, &'static str) {
    match found {
        ScreeningStatus::Approved => (AccessStatus::Approved, APPROVED),
        ScreeningStatus::Rejected => (AccessStatus::Rejected, REJECTED),
    }
}

/// Decides about all wallets of a payer together. All must be approved, and a missing result is not an approval.
/// `chosen` is the provider of the policy. Source: rules S.8.
pub fn decide(wallets: &[ScreenedWallet], known: &[Screening], chosen: Option<ScreeningProvider>) -> AccessDecision {
    let result = |wallet: &ScreenedWallet| {
        let found = known
            .iter()
            .find(|screening| screening.wallet.address == wallet.address);
        let (status, reason) = found.map_or((AccessStatus::Error, FAILED), |found| self::status(found.status));
        WalletResult {
            wallet: wallet.address,
            kind: wallet.kind,
            parent: wallet.parent,
            status,
            reason: reason.to_owned(),
            provider: found.map(|screening| screening.provider).or(chosen),
            evaluated_at: found.map(|screening| screening.evaluated_at),
        }
    };
    let mut results: Vec<WalletResult> = wallets.iter().map(result).collect();
    let first = |status| results.iter().find(|result| result.status == status).cloned();
    let deciding = first(AccessStatus::Rejected).or_else(|| first(AccessStatus::Error));
    let Some(deciding) = deciding.or_else(|| results.first().cloned()) else {
        return AccessDecision::error(FAILED, chosen);
    };
    if deciding.status == AccessStatus::Rejected {
        // After the rejection, the wallets without a result were not checked.
        results.retain(|result| result.status != AccessStatus::Error);
    }
    AccessDecision {
        status: deciding.status,
        reason: deciding.reason,
        provider: deciding.provider,
        wallets: results,
    }
}

/// Whether the service checks after a payment whether its payer was allowed to pay the link.
pub fn asks_who_paid(policy: &AccessPolicy, flow: PaymentFlow) -> bool {
    flow == PaymentFlow::GetPaid && (policy.mode == AccessMode::KytAllWallets || !policy.allowed.is_empty())
}

/// Whether the wallet that paid a link was allowed to pay it. The allow list is checked first: it must contain the
/// wallet or one of its owners. Then the screening must not have rejected the wallet or an owner. `owners` are the
/// accounts that are proven to own the payer's wallet.
pub fn who_paid(policy: &AccessPolicy, payer: Address, owners: &[Address], known: &[Screening]) -> PayerAccess {
    let is_listed = |wallet: &Address| policy.allowed.contains(wallet);
    if !policy.allowed.is_empty() && !is_listed(&payer) && !owners.iter().any(is_listed) {
        return PayerAccess::List;
    }
    if policy.mode != AccessMode::KytAllWallets {
        return PayerAccess::Ok;
    }
    if known.iter().any(|found| found.status == ScreeningStatus::Rejected) {
        return PayerAccess::Screening;
    }
    if known.iter().any(|found| found.wallet.address == payer) {
        PayerAccess::Ok
    } else {
        PayerAccess::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ScreeningProvider::{Hypernative, Merklescience};

    fn address(number: u8) -> Address {
        Address::Evm(alloy::primitives::Address::repeat_byte(number))
    }

    fn found(number: u8, status: ScreeningStatus) -> Screening {
        Screening {
            wallet: ScreenedWallet::alone(address(number)),
            status,
            provider: Hypernative,
            raw_status: "Approve".to_owned(),
            evaluated_at: DateTime::UNIX_EPOCH,
        }
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    fn question(number: u8, failures: u32) -> ScreeningAttempt {
        ScreeningAttempt {
            wallet: address(number),
            asked_at: at(0),
            failures,
            is_open: false,
        }
    }

    /// A smart account and its owner.
    fn payer() -> LinkPayer {
        LinkPayer {
            wallet: address(2),
            eoa: Some(address(1)),
        }
    }

    #[test]
    fn both_wallets_must_be_approved() {
        use ScreeningStatus::{Approved, Rejected};
        let wallets = ScreenedWallet::of_payer(&payer());
        for (eoa, smart_account, status, shown) in [
            (Some(Approved), Some(Approved), AccessStatus::Approved, 2),
            (Some(Approved), Some(Rejected), AccessStatus::Rejected, 2),
            (Some(Rejected), Some(Approved), AccessStatus::Rejected, 2),
            (Some(Rejected), None, AccessStatus::Rejected, 1),
            (None, Some(Rejected), AccessStatus::Rejected, 1),
            (Some(Approved), None, AccessStatus::Error, 2),
            (None, Some(Approved), AccessStatus::Error, 2),
            (None, None, AccessStatus::Error, 2),
        ] {
            let known = [(1, eoa), (2, smart_account)];
            let known = known
                .into_iter()
                .filter_map(|(number, status)| Some(found(number, status?)));
            let known: Vec<Screening> = known.collect();
            let decision = decide(&wallets, &known, Some(Merklescience));
            assert_eq!(
                (decision.status, decision.wallets.len()),
                (status, shown),
                "{eoa:?} {smart_account:?}"
            );
            assert_eq!(decision.require().is_ok(), status == AccessStatus::Approved);
            let is_open = !missing(&wallets, &known).is_empty();
            assert_eq!(is_open, status == AccessStatus::Error, "{eoa:?} {smart_account:?}");
        }
    }

    #[test]
    fn a_decision_names_the_deciding_provider_or_else_the_chosen_one() {
        let wallets = [ScreenedWallet::alone(address(1))];
        let by_backup = decide(&wallets, &[found(1, ScreeningStatus::Approved)], Some(Merklescience));
        assert_eq!(
            (by_backup.provider, by_backup.reason.as_str()),
            (Some(Hypernative), APPROVED)
        );
        let by_nobody = decide(&wallets, &[], Some(Merklescience));
        assert_eq!(
            (by_nobody.provider, by_nobody.reason.as_str()),
            (Some(Merklescience), FAILED)
        );
        assert_eq!(by_nobody.wallets[0].evaluated_at, None);
    }

    #[test]
    fn the_owner_of_a_smart_account_is_screened_too() {
        let shown = |payer| {
            let wallets = ScreenedWallet::of_payer(&payer).into_iter();
            wallets
                .map(|wallet| (wallet.address, wallet.kind, wallet.parent))
                .collect::<Vec<_>>()
        };
        let both = [
            (address(1), WalletAccountType::Eoa, Some(address(2))),
            (address(2), WalletAccountType::SmartAccount, None),
        ];
        assert_eq!(shown(payer()), both);
        for eoa in [None, Some(address(2))] {
            let sole = LinkPayer { eoa, ..payer() };
            assert_eq!(shown(sole), [(address(2), WalletAccountType::Eoa, None)]);
        }
    }

    #[test]
    fn the_chosen_provider_is_first_and_another_only_a_backup() {
        let policy = |mode, provider| AccessPolicy {
            mode,
            provider,
            ..AccessPolicy::OPEN
        };
        let both = [Hypernative, Merklescience];
        let all = |provider| policy(AccessMode::KytAllWallets, Some(provider));
        for (policy, offered, has_backup, expected) in [
            (policy(AccessMode::Off, None), &both[..], true, None),
            (all(Hypernative), &both, true, Some(vec![Hypernative, Merklescience])),
            (all(Merklescience), &both, true, Some(vec![Merklescience, Hypernative])),
            (all(Merklescience), &both, false, Some(vec![Merklescience])),
            (all(Merklescience), &[Hypernative], false, Some(vec![])),
            (all(Merklescience), &[], true, Some(vec![])),
        ] {
            assert_eq!(order(&policy, offered, has_backup), expected, "{policy:?} {offered:?}");
        }
    }

    #[test]
    fn thirty_new_wallets_an_hour_are_screened_and_known_ones_again() {
        let asked: Vec<ScreeningAttempt> = (1..=29).map(|number| question(number, 1)).collect();
        let one = [ScreenedWallet::alone(address(90))];
        let two = [90, 91].map(|number| ScreenedWallet::alone(address(number)));
        let known = [90, 1].map(|number| ScreenedWallet::alone(address(number)));
        assert_eq!(agenda(&one, &asked, NEW_WALLETS_MAX, at(60)).unwrap().asked, one);
        assert_eq!(agenda(&known, &asked, NEW_WALLETS_MAX, at(60)).unwrap().asked, known);
        let refusal = agenda(&two, &asked, NEW_WALLETS_MAX, at(60)).unwrap_err();
        assert_eq!(
            (refusal.kind, refusal.retry_after_s),
            (RefusalKind::TooMany, Some(3_541))
        );
        let full: Vec<ScreeningAttempt> = (1..=30).map(|number| question(number, 1)).collect();
        assert!(agenda(&one, &full, NEW_WALLETS_MAX, at(60)).is_err());
        assert_eq!(
            agenda(&one, &full, NEW_PAYERS_MAX, at(60)).unwrap().asked,
            one,
            "payers have a separate limit"
        );
        let old = [ScreenedWallet::alone(address(1))];
        assert_eq!(agenda(&old, &full, NEW_WALLETS_MAX, at(60)).unwrap().asked, old);
        assert_eq!(
            agenda(&[], &full, NEW_WALLETS_MAX, at(60)).unwrap(),
            WalletsToCheck::default()
        );
        assert_eq!(agenda(&one, &full, NEW_WALLETS_MAX, at(3_600)).unwrap().asked, one);
    }

    #[test]
    fn a_wallet_without_a_result_is_screened_at_growing_intervals() {
        let wallet = [ScreenedWallet::alone(address(1))];
        let is_asked = |failures, seconds| {
            let agenda = agenda(&wallet, &[question(1, failures)], NEW_WALLETS_MAX, at(seconds)).unwrap();
            !agenda.asked.is_empty()
        };
        for (failures, pause_s) in [
            (0, 0),
            (1, 0),
            (3, 0),
            (4, 5),
            (5, 10),
            (9, 160),
            (10, 300),
            (u32::MAX, 300),
        ] {
            assert!(is_asked(failures, pause_s), "{failures}");
            assert!(pause_s == 0 || !is_asked(failures, pause_s - 1), "{failures}");
        }
    }

    #[test]
    fn a_wallet_is_screened_once_until_the_open_lookup_expires() {
        let wallet = [ScreenedWallet::alone(address(1))];
        let open = ScreeningAttempt {
            is_open: true,
            ..question(1, 0)
        };
        assert_eq!(
            agenda(&wallet, &[open], NEW_WALLETS_MAX, at(8)).unwrap().awaited,
            wallet
        );
        assert_eq!(agenda(&wallet, &[open], NEW_WALLETS_MAX, at(9)).unwrap().asked, wallet);
    }
}
