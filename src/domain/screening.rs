//! Screening: who is asked about the wallets of a secure payment, how often, and what follows from the results.

use super::{
    address::Address,
    destination::{AccessMode, ScreeningProvider},
    elapsed::is_within,
    payment::PayerAccess,
    refusal::{Refusal, RefusalKind},
    secure_payment::{
        PaymentFlow,
        access::{AccessDecision, AccessPolicy, AccessStatus, Payer, WalletResult, WalletType},
    },
    wire_text::wire_text,
};
use chrono::{DateTime, TimeDelta, Utc};

/// When every provider had its time to answer a question. Source: rules S.8.
const ANSWERED_WITHIN: TimeDelta = TimeDelta::seconds(9);

/// Wallets of one payment that are asked about within [`WINDOW`], at most, and recipients of one public client ID: each costs
/// money, and everybody who has the link, or read the client ID off a page, may name any. Source: rules S.8.
pub const NEW_WALLETS_MAX: usize = 30;

/// The same when a wallet that paid is asked about: those that visitors name leave half of it for the wallets that paid.
pub const NEW_PAYERS_MAX: usize = 2 * NEW_WALLETS_MAX;

/// For how long a wallet counts that was asked about.
pub const WINDOW: TimeDelta = TimeDelta::hours(1);

/// After so many questions without a result the next ones wait.
const PATIENT_FAILURES: u32 = 3;

/// How long the first of them waits; each further one twice as long, up to [`PAUSE_MAX`].
const PAUSE_MIN: TimeDelta = TimeDelta::seconds(5);

/// Longest wait between two questions about a wallet.
const PAUSE_MAX: TimeDelta = TimeDelta::minutes(5);

wire_text! {
    /// Result of a screening that came to one. Source: rules S.8.
    pub enum ScreeningStatus {
        /// The wallet may pay.
        Approved = "approved",
        /// The wallet may not pay.
        Rejected = "rejected",
    }
}

wire_text! {
    /// What the sandbox of screening does when it is asked about a wallet.
    pub enum SandboxAnswer {
        /// It approves.
        Approved = "approved",
        /// It rejects.
        Rejected = "rejected",
        /// It answers with an error.
        Error = "error",
        /// It does not answer in time.
        Hang = "hang",
    }
}

/// A wallet that is screened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScreenedWallet {
    /// Its address.
    pub address: Address,
    /// What it is.
    pub kind: WalletType,
    /// The smart account that it stands behind.
    pub parent: Option<Address>,
}

impl ScreenedWallet {
    /// An account of its own.
    pub fn alone(address: Address) -> Self {
        Self {
            address,
            kind: WalletType::Eoa,
            parent: None,
        }
    }

    /// The wallets of a payer: of a smart account also the account behind it.
    pub fn of_payer(payer: &Payer) -> Vec<Self> {
        let Some(eoa) = payer.eoa.filter(|eoa| *eoa != payer.wallet) else {
            return vec![Self::alone(payer.wallet)];
        };
        let behind = Self {
            parent: Some(payer.wallet),
            ..Self::alone(eoa)
        };
        let smart_account = Self {
            kind: WalletType::SmartAccount,
            ..Self::alone(payer.wallet)
        };
        vec![behind, smart_account]
    }
}

/// What a provider found about a wallet; it never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screening {
    /// The wallet.
    pub wallet: ScreenedWallet,
    /// Result.
    pub status: ScreeningStatus,
    /// Who found it.
    pub provider: ScreeningProvider,
    /// What the provider calls it.
    pub raw_status: String,
    /// When it was found.
    pub evaluated_at: DateTime<Utc>,
}

/// That somebody was asked about a wallet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The wallet.
    pub wallet: Address,
    /// When it was asked about last.
    pub asked_at: DateTime<Utc>,
    /// How many questions in a row failed.
    pub failures: u32,
    /// Whether the last one has not been answered.
    pub is_open: bool,
}

impl Question {
    /// Whether somebody is asking at this moment. A question whose asker is gone is over once every provider had its time.
    fn is_in_flight(&self, now: DateTime<Utc>) -> bool {
        self.is_open && is_within(self.asked_at, ANSWERED_WITHIN, now)
    }

    /// Whether the wallet may be asked about again.
    fn may_be_repeated(&self, now: DateTime<Utc>) -> bool {
        let waits = self.failures.saturating_sub(PATIENT_FAILURES);
        let pause = match waits {
            0 => return true,
            waits => PAUSE_MAX.min(PAUSE_MIN * (1 << (waits - 1).min(16))),
        };
        !is_within(self.asked_at, pause, now)
    }
}

/// What has to be done about wallets before it can be decided.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Agenda {
    /// They are asked about.
    pub asked: Vec<ScreenedWallet>,
    /// Somebody else is asking about them.
    pub awaited: Vec<ScreenedWallet>,
}

/// Whom to ask about wallets under a policy, the one that counts first; nobody where none is screened.
///
/// The next one is asked only after the one before it failed: a result ends it, whatever it is. Source: rules S.8.
pub fn order(policy: &AccessPolicy, offered: &[ScreeningProvider], has_backup: bool) -> Option<Vec<ScreeningProvider>> {
    let (AccessMode::KytAllWallets, Some(chosen)) = (policy.mode, policy.provider) else {
        return None;
    };
    let others = offered.iter().filter(|offered| has_backup && **offered != chosen);
    let chosen = offered.iter().filter(|offered| **offered == chosen);
    Some(chosen.chain(others).copied().collect())
}

/// Wallets without a result; none once one of the others is rejected, because every one has to be approved.
pub fn missing(wallets: &[ScreenedWallet], known: &[Screening]) -> Vec<ScreenedWallet> {
    let is_rejected = |screening: &Screening| screening.status == ScreeningStatus::Rejected;
    if known.iter().any(is_rejected) {
        return Vec::new();
    }
    let is_known = |wallet: &ScreenedWallet| known.iter().any(|screening| screening.wallet.address == wallet.address);
    wallets.iter().filter(|wallet| !is_known(wallet)).copied().collect()
}

/// Decides which wallets without a result are asked about now, after the questions about wallets of the same payment, of
/// which it may have at most `new_max` within an hour.
///
/// Errors: more new wallets than that (429).
pub fn agenda(
    missing: &[ScreenedWallet],
    questions: &[Question],
    new_max: usize,
    now: DateTime<Utc>,
) -> Result<Agenda, Refusal> {
    let recent: Vec<&Question> = questions
        .iter()
        .filter(|one| is_within(one.asked_at, WINDOW, now))
        .collect();
    let mut agenda = Agenda::default();
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
            "As many wallets as one payment may have screened within an hour, {new_max}, were screened for it; \
             use a wallet that was approved before, or try again later"
        );
        let wait_s = u32::try_from(wait_s).unwrap_or(1);
        return Err(Refusal::new(RefusalKind::TooMany, message).after(wait_s));
    }
    Ok(agenda)
}

/// What is said of a wallet that is approved.
const APPROVED: &str = "screening_approved";

/// What is said of one that is rejected.
const REJECTED: &str = "screening_rejected";

/// What is said of one about which no provider could say anything.
const FAILED: &str = "provider_error";

/// What a result is to a payer, and its code.
pub fn status(found: ScreeningStatus) -> (AccessStatus, &'static str) {
    match found {
        ScreeningStatus::Approved => (AccessStatus::Approved, APPROVED),
        ScreeningStatus::Rejected => (AccessStatus::Rejected, REJECTED),
    }
}

/// Decides about all wallets of a payer together: every one has to be approved, and one without a result is not yes.
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
        // Nobody was asked about the others any more.
        results.retain(|result| result.status != AccessStatus::Error);
    }
    AccessDecision {
        status: deciding.status,
        reason: deciding.reason,
        provider: deciding.provider,
        wallets: results,
    }
}

/// Whether the payer of a link is compared with what it asks of payers.
pub fn asks_who_paid(policy: &AccessPolicy, flow: PaymentFlow) -> bool {
    flow == PaymentFlow::GetPaid && (policy.mode == AccessMode::KytAllWallets || !policy.allowed.is_empty())
}

/// Whether who paid a link might have: a payer who fails the list, or the screening, or of whom a proven owner was rejected.
/// The list goes first. `owners` are the accounts that were proven to own the wallet of the payer.
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
    match known.iter().any(|found| found.wallet.address == payer) {
        true => PayerAccess::Ok,
        false => PayerAccess::Unknown,
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

    fn question(number: u8, failures: u32) -> Question {
        Question {
            wallet: address(number),
            asked_at: at(0),
            failures,
            is_open: false,
        }
    }

    /// A smart account and the account behind it.
    fn payer() -> Payer {
        Payer {
            wallet: address(2),
            eoa: Some(address(1)),
        }
    }

    #[test]
    fn both_wallets_have_to_be_approved() {
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
    fn a_decision_names_who_decided_and_the_chosen_one_where_nobody_did() {
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
    fn of_a_smart_account_the_account_behind_it_is_screened_too() {
        let shown = |payer| {
            let wallets = ScreenedWallet::of_payer(&payer).into_iter();
            wallets
                .map(|wallet| (wallet.address, wallet.kind, wallet.parent))
                .collect::<Vec<_>>()
        };
        let both = [
            (address(1), WalletType::Eoa, Some(address(2))),
            (address(2), WalletType::SmartAccount, None),
        ];
        assert_eq!(shown(payer()), both);
        for eoa in [None, Some(address(2))] {
            let sole = Payer { eoa, ..payer() };
            assert_eq!(shown(sole), [(address(2), WalletType::Eoa, None)]);
        }
    }

    #[test]
    fn the_chosen_provider_comes_first_and_another_one_only_as_a_backup() {
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
    fn thirty_new_wallets_are_asked_about_within_an_hour_and_known_ones_again() {
        let asked: Vec<Question> = (1..=29).map(|number| question(number, 1)).collect();
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
        let full: Vec<Question> = (1..=30).map(|number| question(number, 1)).collect();
        assert!(agenda(&one, &full, NEW_WALLETS_MAX, at(60)).is_err());
        assert_eq!(
            agenda(&one, &full, NEW_PAYERS_MAX, at(60)).unwrap().asked,
            one,
            "it paid"
        );
        let old = [ScreenedWallet::alone(address(1))];
        assert_eq!(agenda(&old, &full, NEW_WALLETS_MAX, at(60)).unwrap().asked, old);
        assert_eq!(agenda(&[], &full, NEW_WALLETS_MAX, at(60)).unwrap(), Agenda::default());
        assert_eq!(agenda(&one, &full, NEW_WALLETS_MAX, at(3_600)).unwrap().asked, one);
    }

    #[test]
    fn a_wallet_that_comes_to_no_result_is_asked_about_less_and_less() {
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
    fn nobody_asks_while_somebody_else_does_unless_that_one_is_gone() {
        let wallet = [ScreenedWallet::alone(address(1))];
        let open = Question {
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
