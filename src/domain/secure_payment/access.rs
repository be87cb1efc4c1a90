//! Who may pay a secure payment: its policy, the list of wallets, and the decision about a wallet.

use super::flow::PaymentFlow;
use crate::domain::{
    address::Address,
    caller::PlatformCaller,
    destination::{AccessMode, DestinationPolicy, ScreeningProvider},
    elapsed::is_within,
    refusal::{Checks, FieldError, Refusal},
    wire_text::wire_text,
};
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeSet;

/// Maximum number of wallets on a list.
pub const ALLOWED_MAX: usize = 1_000;

/// Message for a wallet that may not pay. Source: rules P.3.7.
pub const NOT_ALLOWED: &str = "Wallet is not allowed to pay this secure payment";

/// Hint for a wallet that could not be screened and that no provider rejected.
const NOT_SCREENED: &str = "The wallet was not rejected: it could not be screened. Try again in a few minutes";

/// Reason code of a wallet that is not on the list. Source: rules P.7.7.
pub const NOT_LISTED: &str = "wallet_not_allowed";

/// Reason code of a wallet that is on the list of a payment without screening.
const LISTED: &str = "wallet_allowed";

/// Time after a reported rejection of a wallet in which its further rejections send no event. Source: interface §6.3.
pub const TOLD_AGAIN_AFTER: TimeDelta = TimeDelta::minutes(10);

/// Maximum number of wallets of one secure payment that are reported per hour. Rejections of further wallets send no
/// event.
pub const TOLD_IN_AN_HOUR: u64 = 20;

/// How long a reported wallet counts towards [`TOLD_IN_AN_HOUR`].
pub const TOLD_WINDOW: TimeDelta = TimeDelta::hours(1);

wire_text! {
    /// How a payment screens wallets.
    pub enum AskedMode {
        /// As its destination does.
        Inherit = "inherit",
        /// Not at all.
        Off = "off",
        /// Every one.
        KytAllWallets = "kyt_all_wallets",
    }
}

/// Policy that a creator requests; missing members are taken from the destination.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AskedPolicy {
    /// Which wallets are screened.
    pub mode: Option<AskedMode>,
    /// Screening provider.
    pub provider: Option<ScreeningProvider>,
    /// Whether everything stays hidden until the payer is approved.
    pub hides_until_approved: Option<bool>,
    /// Whether the payee is masked.
    pub hides_payee: Option<bool>,
    /// Wallets that may pay; empty if any wallet may pay.
    pub allowed: Vec<Address>,
}

/// Who may pay a secure payment, and what a payer sees. The policy never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessPolicy {
    /// Which wallets are screened.
    pub mode: AccessMode,
    /// Screening provider; set exactly when wallets are screened.
    pub provider: Option<ScreeningProvider>,
    /// Whether everything stays hidden until the payer is approved.
    pub hides_until_approved: bool,
    /// Whether the payee is masked.
    pub hides_payee: bool,
    /// Wallets that may pay; empty if any wallet may pay.
    pub allowed: Vec<Address>,
}

impl AskedPolicy {
    /// Reports members that contradict each other.
    pub fn check(&self, checks: &mut Checks) {
        const PROVIDER: &str = "accessPolicy.screeningProvider";
        match (self.mode, self.provider) {
            (Some(AskedMode::KytAllWallets), None) => checks.fail(
                PROVIDER,
                "is required when mode is kyt_all_wallets: set it to hypernative or merklescience",
            ),
            (Some(AskedMode::Off | AskedMode::Inherit), Some(_)) => {
                checks.fail(PROVIDER, "must be absent or null unless mode is kyt_all_wallets")
            }
            (None, Some(_)) => checks.fail(
                "accessPolicy.mode",
                "is required with screeningProvider: set it to kyt_all_wallets",
            ),
            (Some(AskedMode::KytAllWallets), Some(_)) | (_, None) => {}
        }
        if self.allowed.len() > ALLOWED_MAX {
            let sentence = format!("must have at most {ALLOWED_MAX} items");
            checks.fail("accessPolicy.allowedPayerAddresses", sentence);
        }
    }

    /// The policy of the payment. Members that the request does not set are taken from the destination; without a
    /// destination they restrict nothing. A wallet that is listed twice counts once.
    ///
    /// Errors: a public client ID or an orchestrator requests a weaker policy than the destination has (403). Source:
    /// rules P.7.7; decisions D48.
    pub fn resolved(
        &self,
        of_destination: Option<DestinationPolicy>,
        caller: &PlatformCaller,
    ) -> Result<AccessPolicy, Refusal> {
        let inherited = of_destination.map_or(AccessPolicy::OPEN, AccessPolicy::from);
        let policy = self.over(&inherited);
        match policy.shortfalls(&inherited) {
            short if caller.is_outsider() && !short.is_empty() => Err(taken_away(short)),
            _ => Ok(policy),
        }
    }

    fn over(&self, inherited: &AccessPolicy) -> AccessPolicy {
        let (mode, provider) = match self.mode {
            Some(AskedMode::Off) => (AccessMode::Off, None),
            Some(AskedMode::KytAllWallets) => (AccessMode::KytAllWallets, self.provider),
            Some(AskedMode::Inherit) | None => (inherited.mode, inherited.provider),
        };
        let mut known = BTreeSet::new();
        AccessPolicy {
            mode,
            provider,
            hides_until_approved: self.hides_until_approved.unwrap_or(inherited.hides_until_approved),
            hides_payee: self.hides_payee.unwrap_or(inherited.hides_payee),
            allowed: self
                .allowed
                .iter()
                .copied()
                .filter(|wallet| known.insert(*wallet))
                .collect(),
        }
    }
}

/// The refusal for a public client ID or an orchestrator that requests a weaker policy than the destination has. Anyone
/// can read a public client ID on a page, and could otherwise switch off the merchant's policy.
fn taken_away(short: Vec<FieldError>) -> Refusal {
    let members = short.iter().map(|error| format!("{} {}", error.field, error.message));
    let members: Vec<String> = members.collect();
    let sentence = format!(
        "Client IDs with allowed domains and orchestrators can only add to the policy of the payee destination: {}",
        members.join("; ")
    );
    Refusal {
        fields: short,
        ..Refusal::forbidden(sentence)
    }
}

impl From<DestinationPolicy> for AccessPolicy {
    fn from(policy: DestinationPolicy) -> Self {
        Self {
            mode: policy.mode,
            provider: policy.provider,
            hides_until_approved: policy.hides_until_approved,
            hides_payee: policy.hides_payee,
            allowed: Vec::new(),
        }
    }
}

wire_text! {
    /// Decision about a payer. Source: rules P.7.7.
    pub enum AccessStatus {
        /// The payer may pay.
        Approved = "approved",
        /// The payer may not pay.
        Rejected = "rejected",
        /// It is unknown whether the payer may pay. That is not an approval.
        Error = "error",
    }
}

wire_text! {
    /// Kind of a wallet.
    pub enum WalletAccountType {
        /// An account with a key.
        Eoa = "eoa",
        /// A contract that acts for an account.
        SmartAccount = "smart_account",
    }
}

/// Who wants to pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkPayer {
    /// The wallet that pays.
    pub wallet: Address,
    /// The account that controls the wallet, when the wallet is a smart account.
    pub eoa: Option<Address>,
}

impl LinkPayer {
    /// The wallet that is looked up on the allow list. For a smart account, this is the account that controls it, once
    /// this control is proven. Source: rules P.7.7.
    fn listed_as(&self) -> Address {
        self.eoa.unwrap_or(self.wallet)
    }
}

/// Result for one wallet of a payer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalletResult {
    /// The wallet.
    pub wallet: Address,
    /// Kind of the wallet.
    pub kind: WalletAccountType,
    /// The smart account that this account controls.
    pub parent: Option<Address>,
    /// Result of the check.
    pub status: AccessStatus,
    /// Reason, as a code.
    pub reason: String,
    /// Screening provider.
    pub provider: Option<ScreeningProvider>,
    /// When it was screened.
    pub evaluated_at: Option<DateTime<Utc>>,
}

/// Whether a payer may pay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessDecision {
    /// Decision.
    pub status: AccessStatus,
    /// Reason, as a code.
    pub reason: String,
    /// Screening provider.
    pub provider: Option<ScreeningProvider>,
    /// Result for each wallet.
    pub wallets: Vec<WalletResult>,
}

impl AccessDecision {
    /// A decision about a payer by the allow list, which looks up only one wallet.
    fn about(payer: &LinkPayer, status: AccessStatus, reason: &str) -> Self {
        let wallet = payer.listed_as();
        let result = WalletResult {
            wallet,
            kind: WalletAccountType::Eoa,
            parent: payer.eoa.map(|_| payer.wallet),
            status,
            reason: reason.to_owned(),
            provider: None,
            evaluated_at: None,
        };
        Self {
            status,
            reason: reason.to_owned(),
            provider: None,
            wallets: vec![result],
        }
    }

    /// The decision when it is unknown whether the payer may pay.
    pub fn error(reason: &str, provider: Option<ScreeningProvider>) -> Self {
        Self {
            status: AccessStatus::Error,
            reason: reason.to_owned(),
            provider,
            wallets: Vec::new(),
        }
    }

    /// Checks whether the payer may pay. Errors: the payer may not pay, or it is unknown (403).
    pub fn require(&self) -> Result<(), Refusal> {
        match self.status {
            AccessStatus::Approved => Ok(()),
            AccessStatus::Rejected => Err(Refusal::forbidden(NOT_ALLOWED)),
            AccessStatus::Error => Err(Refusal::forbidden(NOT_ALLOWED).with_hint(NOT_SCREENED)),
        }
    }

    /// Whether the payer is rejected because the allow list does not name the payer.
    pub fn is_unlisted(&self) -> bool {
        self.status == AccessStatus::Rejected && self.reason == NOT_LISTED
    }
}

impl AccessPolicy {
    /// The policy without restrictions: any wallet may pay, and nothing is hidden.
    pub const OPEN: Self = Self {
        mode: AccessMode::Off,
        provider: None,
        hides_until_approved: false,
        hides_payee: false,
        allowed: Vec::new(),
    };

    /// The members in which this policy is weaker than that of a destination, each with the accepted value. Empty if
    /// this policy is at least as strict.
    ///
    /// Two policies with different providers cannot be compared: neither is stricter. A destination has no allow list.
    /// Source: decisions D48.
    pub fn shortfalls(&self, wanted: &Self) -> Vec<FieldError> {
        let mut short = Vec::new();
        let mut lacks = |member: &str, sentence: String| {
            short.push(FieldError::new(format!("accessPolicy.{member}"), sentence));
        };
        if let (AccessMode::KytAllWallets, Some(provider)) = (wanted.mode, wanted.provider) {
            let (mode, provider) = (wanted.mode.wire(), provider.wire());
            if self.mode != wanted.mode {
                lacks(
                    "mode",
                    format!("must be absent, inherit or {mode}: the destination sets {mode} with {provider}"),
                );
            } else if self.provider != wanted.provider {
                lacks(
                    "screeningProvider",
                    format!("must be {provider}: the destination sets {mode} with {provider}"),
                );
            }
        }
        let hides = [
            (
                "hideUntilApproved",
                wanted.hides_until_approved && !self.hides_until_approved,
            ),
            ("hidePayeeAddress", wanted.hides_payee && !self.hides_payee),
        ];
        for (member, _) in hides.into_iter().filter(|(_, is_short)| *is_short) {
            lacks(member, "must be absent or true: the destination sets true".to_owned());
        }
        short
    }

    /// Whether something is hidden from every payer, or from payers who are not approved.
    pub fn hides_anything(&self) -> bool {
        self.hides_until_approved || self.hides_payee
    }

    /// Whether a payer must name their wallet before they get calldata, because calldata shows what the policy hides.
    pub fn asks_who_pays(&self, flow: PaymentFlow) -> bool {
        let holds_back = flow == PaymentFlow::GetPaid && self.mode == AccessMode::KytAllWallets;
        holds_back || self.hides_until_approved || self.has_list(flow)
    }

    /// Whether the allow list is enforced. For payouts the list is only recorded. Source: rules P.3.7.
    pub fn has_list(&self, flow: PaymentFlow) -> bool {
        flow == PaymentFlow::GetPaid && !self.allowed.is_empty()
    }

    /// Decision by the allow list about a payer. For a smart account, it must be proven before which account controls
    /// it. `None` without an enforced list. Source: rules P.7.7.
    pub fn by_list(&self, flow: PaymentFlow, payer: &LinkPayer) -> Option<AccessDecision> {
        if !self.has_list(flow) {
            return None;
        }
        Some(if self.allowed.contains(&payer.listed_as()) {
            AccessDecision::about(payer, AccessStatus::Approved, LISTED)
        } else {
            AccessDecision::about(payer, AccessStatus::Rejected, NOT_LISTED)
        })
    }
}

/// Earlier events about a wallet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejectionNotice {
    /// Number of events.
    pub occasions: u64,
    /// Time of the last one.
    pub at: DateTime<Utc>,
    /// Whether the deliveries of the last event to all receivers failed.
    pub has_failed: bool,
}

/// Decides whether a rejected wallet is reported now, and returns the number of its event. `wallets_in_hour` is the
/// number of wallets of the same secure payment that were reported within the hour. Source: interface §6.3.
pub fn occasion(told: Option<RejectionNotice>, wallets_in_hour: u64, now: DateTime<Utc>) -> Option<u64> {
    match told {
        Some(told) if is_within(told.at, TOLD_AGAIN_AFTER, now) && !told.has_failed => None,
        Some(told) if is_within(told.at, TOLD_WINDOW, now) => Some(told.occasions + 1),
        other if wallets_in_hour < TOLD_IN_AN_HOUR => Some(other.map_or(0, |told| told.occasions) + 1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    fn wallet(last: u8) -> Address {
        Address::Evm(alloy::primitives::Address::with_last_byte(last))
    }

    fn payer(last: u8) -> LinkPayer {
        LinkPayer {
            wallet: wallet(last),
            eoa: None,
        }
    }

    const STRICT: DestinationPolicy = DestinationPolicy {
        mode: AccessMode::KytAllWallets,
        provider: Some(ScreeningProvider::Hypernative),
        hides_until_approved: true,
        hides_payee: true,
    };

    #[test]
    fn unset_policy_members_come_from_the_destination() {
        let strict = AccessPolicy::from(STRICT);
        let inherited = AskedPolicy::default().over(&strict);
        assert_eq!(
            (inherited.mode, inherited.provider, inherited.hides_payee),
            (AccessMode::KytAllWallets, STRICT.provider, true)
        );
        let open = AskedPolicy {
            mode: Some(AskedMode::Off),
            hides_until_approved: Some(false),
            hides_payee: Some(false),
            ..AskedPolicy::default()
        };
        assert_eq!(open.over(&strict), AccessPolicy::OPEN);
        assert_eq!(AskedPolicy::default().over(&AccessPolicy::OPEN), AccessPolicy::OPEN);
    }

    /// Every combination of the members of a policy.
    fn policies() -> Vec<AccessPolicy> {
        let screenings = [
            None,
            Some(ScreeningProvider::Hypernative),
            Some(ScreeningProvider::Merklescience),
        ];
        let mut policies = Vec::new();
        for provider in screenings {
            for hides in 0..4 {
                policies.push(AccessPolicy {
                    mode: provider.map_or(AccessMode::Off, |_| AccessMode::KytAllWallets),
                    provider,
                    hides_until_approved: hides & 1 == 1,
                    hides_payee: hides & 2 == 2,
                    allowed: Vec::new(),
                });
            }
        }
        policies
    }

    #[test]
    fn policies_form_a_partial_order() {
        let policies = policies();
        let holds = |one: &AccessPolicy, other: &AccessPolicy| one.shortfalls(other).is_empty();
        for one in &policies {
            assert!(holds(one, one), "{one:?}");
            assert!(holds(one, &AccessPolicy::OPEN), "{one:?}");
            for other in &policies {
                assert!(
                    one == other || !(holds(one, other) && holds(other, one)),
                    "{one:?} {other:?}"
                );
                for third in policies.iter().filter(|third| holds(one, other) && holds(other, third)) {
                    assert!(holds(one, third), "{one:?} {other:?} {third:?}");
                }
            }
        }
    }

    #[test]
    fn each_policy_member_weaker_than_the_destination_is_named() {
        let strict = AccessPolicy::from(STRICT);
        let short = |change: fn(&mut AccessPolicy)| {
            let mut policy = strict.clone();
            change(&mut policy);
            let short = policy.shortfalls(&strict).into_iter();
            short.map(|error| error.field).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        assert_eq!(short(|_| {}), none);
        assert_eq!(short(|policy| policy.allowed.push(wallet(1))), none);
        assert_eq!(
            short(|policy| (policy.mode, policy.provider) = (AccessMode::Off, None)),
            ["accessPolicy.mode"]
        );
        assert_eq!(
            short(|policy| policy.provider = Some(ScreeningProvider::Merklescience)),
            ["accessPolicy.screeningProvider"]
        );
        assert_eq!(
            short(|policy| policy.hides_until_approved = false),
            ["accessPolicy.hideUntilApproved"]
        );
        assert_eq!(
            short(|policy| policy.hides_payee = false),
            ["accessPolicy.hidePayeeAddress"]
        );
    }

    #[test]
    fn a_link_has_a_provider_only_with_screening() {
        let hypernative = Some(ScreeningProvider::Hypernative);
        for (mode, provider, fits) in [
            (None, None, true),
            (None, hypernative, false),
            (Some(AskedMode::Off), None, true),
            (Some(AskedMode::Off), hypernative, false),
            (Some(AskedMode::Inherit), None, true),
            (Some(AskedMode::Inherit), hypernative, false),
            (Some(AskedMode::KytAllWallets), None, false),
            (Some(AskedMode::KytAllWallets), hypernative, true),
        ] {
            let mut checks = Checks::new();
            let asked = AskedPolicy {
                mode,
                provider,
                ..AskedPolicy::default()
            };
            asked.check(&mut checks);
            assert_eq!(checks.finish().is_ok(), fits, "{mode:?} {provider:?}");
        }
    }

    #[test]
    fn an_allow_list_admits_its_wallets_for_incoming_payments_only() {
        let policy = AccessPolicy {
            allowed: vec![wallet(1)],
            ..AccessPolicy::OPEN
        };
        let status = |payer: &LinkPayer| policy.by_list(PaymentFlow::GetPaid, payer).unwrap().status;
        assert_eq!(status(&payer(1)), AccessStatus::Approved);
        assert_eq!(status(&payer(2)), AccessStatus::Rejected);
        let behind = LinkPayer {
            wallet: wallet(2),
            eoa: Some(wallet(1)),
        };
        assert_eq!(
            status(&behind),
            AccessStatus::Approved,
            "the owner of a smart account counts"
        );
        assert_eq!(policy.by_list(PaymentFlow::Pay, &payer(2)), None);
        assert_eq!(AccessPolicy::OPEN.by_list(PaymentFlow::GetPaid, &payer(2)), None);
    }

    #[test]
    fn a_screening_error_does_not_grant_access() {
        assert!(AccessDecision::error("provider_error", None).require().is_err());
    }

    #[test]
    fn a_wallet_is_reported_once_in_ten_minutes_unless_delivery_failed() {
        let told = |second, has_failed| {
            Some(RejectionNotice {
                occasions: 3,
                at: at(second),
                has_failed,
            })
        };
        for (told, wallets, second, expected) in [
            (None, 0, 0, Some(1)),
            (None, 19, 0, Some(1)),
            (None, 20, 0, None),
            (told(0, false), 20, 599, None),
            (told(0, false), 20, 600, Some(4)),
            (told(0, true), 20, 1, Some(4)),
            (told(0, false), 20, 3_600, None),
            (told(0, false), 19, 3_600, Some(4)),
            (told(60, false), 19, 0, Some(4)),
        ] {
            assert_eq!(
                occasion(told, wallets, at(second)),
                expected,
                "{told:?} {wallets} {second}"
            );
        }
    }
}
