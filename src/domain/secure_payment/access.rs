//! Who may pay a secure payment: its policy, the list of wallets, and what is answered to one of them.

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

/// Most wallets of a list.
pub const ALLOWED_MAX: usize = 1_000;

/// What a wallet reads that may not pay. Source: rules P.3.7.
pub const NOT_ALLOWED: &str = "Wallet is not allowed to pay this secure payment";

/// What such a wallet can do that nobody refused.
const NOT_SCREENED: &str = "The wallet was not refused: it could not be screened. Try again in a few minutes";

/// Why a wallet is refused that is not on the list. Source: rules P.7.7.
pub const NOT_LISTED: &str = "wallet_not_allowed";

/// Why a wallet is let in that is on the list of a payment that screens nobody.
const LISTED: &str = "wallet_allowed";

/// Time in which a wallet that is refused again is not told about again. Source: interface §6.3.
pub const TOLD_AGAIN_AFTER: TimeDelta = TimeDelta::minutes(10);

/// Wallets of one secure payment that are told about in an hour; the rest is counted.
pub const TOLD_IN_AN_HOUR: u64 = 20;

/// For how long a wallet counts that was told about.
pub const TOLD_WINDOW: TimeDelta = TimeDelta::hours(1);

wire_text! {
    /// Whether a payment screens wallets as its destination does.
    pub enum AskedMode {
        /// As its destination does.
        Inherit = "inherit",
        /// Not at all.
        Off = "off",
        /// Every one.
        KytAllWallets = "kyt_all_wallets",
    }
}

/// What a creator asks for; what is missing is as at the destination.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AskedPolicy {
    /// Which wallets are screened.
    pub mode: Option<AskedMode>,
    /// Who screens them.
    pub provider: Option<ScreeningProvider>,
    /// Whether everything stays hidden until the payer is approved.
    pub hides_until_approved: Option<bool>,
    /// Whether the payee is shown masked.
    pub hides_payee: Option<bool>,
    /// Wallets that may pay; none for everybody.
    pub allowed: Vec<Address>,
}

/// Who may pay, and what a payer sees, for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessPolicy {
    /// Which wallets are screened.
    pub mode: AccessMode,
    /// Who screens them; set exactly when they are screened.
    pub provider: Option<ScreeningProvider>,
    /// Whether everything stays hidden until the payer is approved.
    pub hides_until_approved: bool,
    /// Whether the payee is shown masked.
    pub hides_payee: bool,
    /// Wallets that may pay; none for everybody.
    pub allowed: Vec<Address>,
}

impl AskedPolicy {
    /// Notes what does not fit together.
    pub fn check(&self, checks: &mut Checks) {
        const PROVIDER: &str = "accessPolicy.screeningProvider";
        match (self.mode, self.provider) {
            (Some(AskedMode::KytAllWallets), None) => checks.fail(
                PROVIDER,
                "is required when mode is kyt_all_wallets: hypernative or merklescience",
            ),
            (Some(AskedMode::Off | AskedMode::Inherit), Some(_)) => {
                checks.fail(PROVIDER, "must be absent or null unless mode is kyt_all_wallets")
            }
            (None, Some(_)) => checks.fail(
                "accessPolicy.mode",
                "is required with screeningProvider: kyt_all_wallets",
            ),
            (Some(AskedMode::KytAllWallets), Some(_)) | (_, None) => {}
        }
        if self.allowed.len() > ALLOWED_MAX {
            let sentence = format!("must have at most {ALLOWED_MAX} items");
            checks.fail("accessPolicy.allowedPayerAddresses", sentence);
        }
    }

    /// The policy of the payment: what is asked for, else what its destination has, else nothing. A wallet that is listed
    /// twice counts once.
    ///
    /// Errors: the caller is public and asks for less than the destination has (403). Source: rules P.7.7; decisions D48.
    pub fn resolved(
        &self,
        of_destination: Option<DestinationPolicy>,
        caller: &PlatformCaller,
    ) -> Result<AccessPolicy, Refusal> {
        let inherited = of_destination.map_or(AccessPolicy::OPEN, AccessPolicy::from);
        let policy = self.over(&inherited);
        match policy.shortfalls(&inherited) {
            short if caller.is_public() && !short.is_empty() => Err(taken_away(short)),
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

/// A public client ID asks for less than the destination has: a stranger who reads it off a page would switch off what
/// the merchant wants.
fn taken_away(short: Vec<FieldError>) -> Refusal {
    let members = short.iter().map(|error| format!("{} {}", error.field, error.message));
    let members: Vec<String> = members.collect();
    let sentence = format!(
        "A client ID with allowed domains may add to the policy of the payee destination and take nothing away: {}",
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
    /// What is answered to a payer. Source: rules P.7.7.
    pub enum AccessStatus {
        /// The payer may pay.
        Approved = "approved",
        /// The payer may not pay.
        Rejected = "rejected",
        /// Nobody can say at the moment; that is not yes.
        Error = "error",
    }
}

wire_text! {
    /// What a wallet is.
    pub enum WalletType {
        /// An account with a key.
        Eoa = "eoa",
        /// A contract that acts for one.
        SmartAccount = "smart_account",
    }
}

/// Who wants to pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Payer {
    /// The wallet that pays.
    pub wallet: Address,
    /// The account behind it, when the wallet is a smart account.
    pub eoa: Option<Address>,
}

impl Payer {
    /// The wallet that a list is asked about: of a smart account the account behind it, once that is proven. Source: rules
    /// P.7.7.
    fn listed_as(&self) -> Address {
        self.eoa.unwrap_or(self.wallet)
    }
}

/// What was found out about one wallet of a payer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalletResult {
    /// The wallet.
    pub wallet: Address,
    /// What it is.
    pub kind: WalletType,
    /// The smart account that an account stands behind.
    pub parent: Option<Address>,
    /// What came of it.
    pub status: AccessStatus,
    /// Why, as a code.
    pub reason: String,
    /// Who screened it.
    pub provider: Option<ScreeningProvider>,
    /// When it was screened.
    pub evaluated_at: Option<DateTime<Utc>>,
}

/// Whether a payer may pay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessDecision {
    /// What is answered.
    pub status: AccessStatus,
    /// Why, as a code.
    pub reason: String,
    /// Who screened.
    pub provider: Option<ScreeningProvider>,
    /// Wallet by wallet.
    pub wallets: Vec<WalletResult>,
}

impl AccessDecision {
    /// A decision about the one wallet that was looked at.
    fn about(payer: &Payer, status: AccessStatus, reason: &str) -> Self {
        let wallet = payer.listed_as();
        let result = WalletResult {
            wallet,
            kind: WalletType::Eoa,
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

    /// Nobody can say at the moment whether the payer may pay.
    pub fn error(reason: &str, provider: Option<ScreeningProvider>) -> Self {
        Self {
            status: AccessStatus::Error,
            reason: reason.to_owned(),
            provider,
            wallets: Vec::new(),
        }
    }

    /// Whether the payer may pay. Errors: 403.
    pub fn require(&self) -> Result<(), Refusal> {
        match self.status {
            AccessStatus::Approved => Ok(()),
            AccessStatus::Rejected => Err(Refusal::forbidden(NOT_ALLOWED)),
            AccessStatus::Error => Err(Refusal::forbidden(NOT_ALLOWED).with_hint(NOT_SCREENED)),
        }
    }

    /// Whether it is the list that refuses.
    pub fn is_unlisted(&self) -> bool {
        self.status == AccessStatus::Rejected && self.reason == NOT_LISTED
    }
}

impl AccessPolicy {
    /// Open to everybody, and nothing hidden.
    pub const OPEN: Self = Self {
        mode: AccessMode::Off,
        provider: None,
        hides_until_approved: false,
        hides_payee: false,
        allowed: Vec::new(),
    };

    /// What this policy lacks of what a destination has, member by member, with what would be right; nothing where it is at
    /// least as strict.
    ///
    /// That is an order in part: of two providers none is stricter. A destination has no list. Source: decisions D48.
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

    /// Whether something is hidden from whoever is not approved, or from every payer.
    pub fn hides_anything(&self) -> bool {
        self.hides_until_approved || self.hides_payee
    }

    /// Whether a payer has to say who he is before he is told how to pay: calldata shows what else is hidden, too.
    pub fn asks_who_pays(&self, flow: PaymentFlow) -> bool {
        let holds_back = flow == PaymentFlow::GetPaid && self.mode == AccessMode::KytAllWallets;
        holds_back || self.hides_until_approved || self.has_list(flow)
    }

    /// Whether the list counts: on payouts it is noted and holds nobody. Source: rules P.3.7.
    pub fn has_list(&self, flow: PaymentFlow) -> bool {
        flow == PaymentFlow::GetPaid && !self.allowed.is_empty()
    }

    /// What the list says about a payer, whose account behind the wallet was proven; `None` where there is none that counts.
    /// Source: rules P.7.7.
    pub fn by_list(&self, flow: PaymentFlow, payer: &Payer) -> Option<AccessDecision> {
        if !self.has_list(flow) {
            return None;
        }
        Some(match self.allowed.contains(&payer.listed_as()) {
            true => AccessDecision::about(payer, AccessStatus::Approved, LISTED),
            false => AccessDecision::about(payer, AccessStatus::Rejected, NOT_LISTED),
        })
    }
}

/// What was told about a wallet before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// How often.
    pub occasions: u64,
    /// When last.
    pub at: DateTime<Utc>,
    /// Whether everybody who was to be told could not be reached.
    pub has_failed: bool,
}

/// Whether a refused wallet is told about now, as which occasion; `wallets_in_hour` counts those of the same payment that
/// were told about within the hour. Source: interface §6.3.
pub fn occasion(told: Option<Told>, wallets_in_hour: u64, now: DateTime<Utc>) -> Option<u64> {
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

    fn payer(last: u8) -> Payer {
        Payer {
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
    fn what_a_payment_leaves_open_is_as_at_its_destination() {
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
    fn policies_are_ordered_in_part() {
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
    fn each_member_that_is_less_than_the_destination_is_named() {
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
    fn a_provider_stands_with_screening_alone() {
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
    fn a_list_lets_in_whom_it_names_and_counts_for_incoming_payments_alone() {
        let policy = AccessPolicy {
            allowed: vec![wallet(1)],
            ..AccessPolicy::OPEN
        };
        let status = |payer: &Payer| policy.by_list(PaymentFlow::GetPaid, payer).unwrap().status;
        assert_eq!(status(&payer(1)), AccessStatus::Approved);
        assert_eq!(status(&payer(2)), AccessStatus::Rejected);
        let behind = Payer {
            wallet: wallet(2),
            eoa: Some(wallet(1)),
        };
        assert_eq!(status(&behind), AccessStatus::Approved, "the account behind counts");
        assert_eq!(policy.by_list(PaymentFlow::Pay, &payer(2)), None);
        assert_eq!(AccessPolicy::OPEN.by_list(PaymentFlow::GetPaid, &payer(2)), None);
    }

    #[test]
    fn an_error_is_not_yes() {
        assert!(AccessDecision::error("provider_error", None).require().is_err());
    }

    #[test]
    fn a_wallet_is_told_about_once_in_ten_minutes_unless_nobody_heard() {
        let told = |second, has_failed| {
            Some(Told {
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
