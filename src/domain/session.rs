//! Sign-in: the message that a wallet signs, what counts as its signature, how long sessions last, and rules for
//! passwords and e-mail addresses.

use super::{
    address::Address,
    caller::SignedInPerson,
    ids::{AccountId, ChallengeId, PlatformId, SessionId},
    network::{Family, Network},
};
use alloy::primitives::{B256, Signature, eip191_hash_message, keccak256};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use zxcvbn::zxcvbn;

/// How long a challenge is valid. Source: interface §4.10; interface §8.
pub const CHALLENGE_LIFETIME: TimeDelta = TimeDelta::minutes(5);

/// Maximum number of times that contract wallets are queried about signatures of one challenge.
pub const WALLET_CHECKS_MAX: i32 = 3;

/// How long a wallet session lasts without a call. Source: interface §5; interface §8.
pub const WALLET_IDLE: TimeDelta = TimeDelta::minutes(15);

/// How long the session of an e-mail account lasts. Source: rules P.1.6.
pub const ACCOUNT_LIFETIME: TimeDelta = TimeDelta::days(30);

/// How long the session of an e-mail account lasts without a call.
pub const ACCOUNT_IDLE: TimeDelta = TimeDelta::days(7);

/// Minimum interval at which the use of a session is recorded.
///
/// A wallet session ends 15 minutes after the last recorded use. Compared with the last call, it may end earlier by up
/// to this interval, but never later.
pub const TOUCH_INTERVAL: TimeDelta = TimeDelta::minutes(1);

/// Minimum length of a password in characters. Source: interface §8.
pub const PASSWORD_LENGTH_MIN: usize = 8;

/// Maximum length of a password in characters. Source: interface §8.
pub const PASSWORD_LENGTH_MAX: usize = 100;

/// Number of bytes of an ECDSA signature with its recovery byte.
const SIGNATURE_LENGTH: usize = 65;

/// Message for a wallet to sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// Row and public id.
    pub id: ChallengeId,
    /// Wallet that has to sign.
    pub address: Address,
    /// Nonce.
    pub nonce: String,
    /// The text to sign.
    pub message: String,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// First moment at which the challenge is expired.
    pub expires_at: DateTime<Utc>,
    /// Time of the sign-in that used the challenge.
    pub used_at: Option<DateTime<Utc>>,
}

impl Challenge {
    /// Writes the message. `domain` and `uri` name this service.
    ///
    /// Source: EIP-4361; decisions D41; rules P.4.1.
    pub fn new(id: ChallengeId, address: Address, nonce: String, domain: &str, uri: &str, now: DateTime<Utc>) -> Self {
        let expires_at = now + CHALLENGE_LIFETIME;
        // The chain is the main chain of the family. The session itself is bound to no chain.
        let (account, network) = match address.family() {
            Family::Evm => ("Ethereum", Network::Mainnet),
            Family::Tron => ("Tron", Network::Tron),
        };
        let chain_id = network.chain_id();
        let time = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Millis, true);
        let message = format!(
            "{domain} wants you to sign in with your {account} account:\n{address}\n\n\
             Sign in to the payment service.\n\n\
             URI: {uri}\nVersion: 1\nChain ID: {chain_id}\nNonce: {nonce}\nIssued At: {}\nExpiration Time: {}",
            time(now),
            time(expires_at),
        );
        Self {
            id,
            address,
            nonce,
            message,
            created_at: now,
            expires_at,
            used_at: None,
        }
    }

    /// Whether nonce and message are exactly those of the challenge, and the challenge is unused and valid.
    pub fn is_answered_by(&self, nonce: &str, message: &str, now: DateTime<Utc>) -> bool {
        self.used_at.is_none() && now < self.expires_at && self.nonce == nonce && self.message == message
    }
}

/// The hash that a wallet of a family signs for a message.
///
/// Source: EIP-191 (version 0x45, EVM wallets); rules G.6 (`signMessageV2`, Tron).
pub fn message_hash(family: Family, message: &str) -> B256 {
    match family {
        Family::Evm => eip191_hash_message(message),
        Family::Tron => {
            let prefix = format!("\x19TRON Signed Message:\n{}", message.len());
            keccak256([prefix.as_bytes(), message.as_bytes()].concat())
        }
    }
}

/// Whether the key of the address signed the message. A signature of another length or form is not valid.
pub fn is_signed_by_key(address: &Address, message: &str, signature: &[u8]) -> bool {
    let is_known_form = signature.len() == SIGNATURE_LENGTH && matches!(signature[64], 0 | 1 | 27 | 28);
    let signature = is_known_form.then(|| Signature::from_raw(signature).ok()).flatten();
    // Wallets do not create the equivalent signature with the other half of the curve order. Source: EIP-2.
    let signature = signature.filter(|signature| signature.normalize_s().is_none());
    let signer = signature.and_then(|signature| {
        let hash = message_hash(address.family(), message);
        signature.recover_address_from_prehash(&hash).ok()
    });
    signer == Some(address.bytes())
}

/// Response of one network about a signature that was not made by the key of the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalletAnswer {
    /// There is no contract at the address.
    NoContract,
    /// The contract accepts it.
    Accepts,
    /// The contract does not accept the signature.
    Refuses,
}

/// Whether a contract wallet signed: at least one network accepts the signature, and none refuses it.
///
/// A session is for an address without a network, so a single network cannot be enough. Otherwise anyone who can deploy
/// a contract at the address of another user's wallet on another network could sign in as that user.
pub fn is_signed_by_contract(answers: &[WalletAnswer]) -> bool {
    answers.contains(&WalletAnswer::Accepts) && !answers.contains(&WalletAnswer::Refuses)
}

/// A signed-in person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInSession {
    /// Row.
    pub id: SessionId,
    /// Hexadecimal SHA-256 of the token.
    pub token_hash: String,
    /// Tenant.
    pub platform: PlatformId,
    /// The person.
    pub person: SignedInPerson,
    /// Time of the sign-in.
    pub created_at: DateTime<Utc>,
    /// Last recorded use.
    pub last_used_at: DateTime<Utc>,
    /// First moment at which the session is expired, unless a use extends it before.
    pub expires_at: DateTime<Utc>,
}

impl SignInSession {
    /// A new session. `wallet_absolute` is the maximum duration of a wallet session.
    pub fn new(
        id: SessionId,
        token_hash: String,
        platform: PlatformId,
        person: SignedInPerson,
        wallet_absolute: TimeDelta,
        now: DateTime<Utc>,
    ) -> Self {
        let lifetime = match &person {
            SignedInPerson::Wallet(_) => WALLET_IDLE.min(wallet_absolute),
            SignedInPerson::Account(_) => ACCOUNT_IDLE,
        };
        Self {
            id,
            token_hash,
            platform,
            person,
            created_at: now,
            last_used_at: now,
            expires_at: now + lifetime,
        }
    }

    /// Whether the session is still valid. If the operator shortens the maximum duration of wallet sessions, existing
    /// sessions end earlier too.
    pub fn is_active(&self, wallet_absolute: TimeDelta, now: DateTime<Utc>) -> bool {
        let is_within = match &self.person {
            SignedInPerson::Wallet(_) => now < self.created_at + wallet_absolute,
            SignedInPerson::Account(_) => now < self.last_used_at + ACCOUNT_IDLE,
        };
        is_within && now < self.expires_at
    }

    /// The new expiry of a session that is used at `now`; `None` if this use does not have to be recorded.
    pub fn end_after_use(&self, wallet_absolute: TimeDelta, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        (now - self.last_used_at >= TOUCH_INTERVAL).then(|| match &self.person {
            SignedInPerson::Wallet(_) => (now + WALLET_IDLE).min(self.created_at + wallet_absolute),
            SignedInPerson::Account(_) => (now + ACCOUNT_IDLE).min(self.created_at + ACCOUNT_LIFETIME),
        })
    }
}

/// A person who signs in with e-mail and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordAccount {
    /// Row and public id.
    pub id: AccountId,
    /// The platform of this account.
    pub platform: PlatformId,
    /// E-mail address as [`normal_email`] writes it.
    pub email: String,
    /// Hash of the password.
    pub password_hash: String,
    /// Time of the registration.
    pub created_at: DateTime<Utc>,
}

/// The form in which e-mail addresses are stored and compared. A person cannot register twice with different letter
/// cases.
pub fn normal_email(email: &str) -> String {
    email.to_lowercase()
}

/// Number of leading characters of a password whose strength is estimated. No common password is longer, and the run
/// time of the estimator grows with the square of the length.
const ESTIMATED_LENGTH: usize = 16;

/// A password counts as common if the estimator needs at most this number of guesses. The estimator has a list of
/// 10,000 common passwords. For a password on the list, it needs as many guesses as the rank of the password plus one.
const COMMON_GUESSES: u64 = 10_001;

/// Checks a new password. Its length must be valid. It must not be one of the 10,000 most common passwords, or as easy
/// to guess, such as one letter repeated. Errors: the message for the caller. Source: interface §8.
pub fn check_password(password: &str) -> Result<(), String> {
    if !(PASSWORD_LENGTH_MIN..=PASSWORD_LENGTH_MAX).contains(&password.chars().count()) {
        return Err(format!(
            "must have {PASSWORD_LENGTH_MIN} to {PASSWORD_LENGTH_MAX} characters"
        ));
    }
    // A common password with capital letters is still common. Text after a common beginning does not make it stronger.
    let beginning: String = password.chars().take(ESTIMATED_LENGTH).collect();
    if zxcvbn(&beginning.to_lowercase(), &[]).guesses() <= COMMON_GUESSES {
        return Err("must not be a common password; use several unrelated words".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
    }

    #[test]
    fn the_message_has_the_contract_layout() {
        let address = Address::parse("0xa3c311EB2df8E1387e3942c997723DAab9138E81").unwrap();
        let (domain, uri) = ("auth.example.com", "https://auth.example.com");
        let id = ChallengeId("01".to_owned());
        let challenge = Challenge::new(id.clone(), address, "0123456789ab".to_owned(), domain, uri, at(0));
        assert_eq!(
            challenge.message,
            "auth.example.com wants you to sign in with your Ethereum account:\n\
             0xa3c311EB2df8E1387e3942c997723DAab9138E81\n\
             \n\
             Sign in to the payment service.\n\
             \n\
             URI: https://auth.example.com\n\
             Version: 1\n\
             Chain ID: 1\n\
             Nonce: 0123456789ab\n\
             Issued At: 2027-01-15T08:00:00.000Z\n\
             Expiration Time: 2027-01-15T08:05:00.000Z"
        );
        let tron = Address::parse("TQu6q2b9ctdY7tJH3EEX68ys3ywRvrbEz1").unwrap();
        let challenge = Challenge::new(id, tron, "n".to_owned(), domain, uri, at(0));
        assert!(
            challenge
                .message
                .contains("with your Tron account:\nTQu6q2b9ctdY7tJH3EEX68ys3ywRvrbEz1\n")
        );
        assert!(
            challenge
                .message
                .contains("\nVersion: 1\nChain ID: 728126428\nNonce: n\n")
        );
    }

    #[test]
    fn a_challenge_response_must_match_exactly_and_be_in_time() {
        let address = Address::parse("0xa3c311EB2df8E1387e3942c997723DAab9138E81").unwrap();
        let id = ChallengeId("01".to_owned());
        let mut challenge = Challenge::new(id, address, "abc".to_owned(), "a", "b", at(0));
        let text = challenge.message.clone();
        assert!(challenge.is_answered_by("abc", &text, at(299)));
        assert!(!challenge.is_answered_by("abc", &text, at(300)));
        assert!(!challenge.is_answered_by("ABC", &text, at(0)));
        assert!(!challenge.is_answered_by("abc", &format!("{text} "), at(0)));
        challenge.used_at = Some(at(1));
        assert!(!challenge.is_answered_by("abc", &text, at(2)));
    }

    #[test]
    fn one_rejecting_network_outweighs_accepting_ones() {
        use WalletAnswer::{Accepts, NoContract, Refuses};
        assert!(is_signed_by_contract(&[NoContract, Accepts]));
        assert!(!is_signed_by_contract(&[Accepts, Refuses]));
        assert!(!is_signed_by_contract(&[NoContract]));
        assert!(!is_signed_by_contract(&[]));
    }

    #[test]
    fn sessions_are_extended_up_to_their_absolute_expiry() {
        let absolute = TimeDelta::seconds(1_000);
        let begin = |person| {
            SignInSession::new(
                SessionId(String::new()),
                String::new(),
                PlatformId(String::new()),
                person,
                absolute,
                at(0),
            )
        };
        let wallet = begin(SignedInPerson::Wallet(Address::Evm([1; 20].into())));
        assert!(wallet.is_active(absolute, at(899)));
        assert!(!wallet.is_active(absolute, at(900)));
        assert!(!wallet.is_active(TimeDelta::seconds(500), at(500)));
        assert_eq!(wallet.end_after_use(absolute, at(59)), None);
        assert_eq!(wallet.end_after_use(absolute, at(60)), Some(at(960)));
        assert_eq!(wallet.end_after_use(absolute, at(101)), Some(at(1_000)));
        let account = begin(SignedInPerson::Account(AccountId(String::new())));
        let day = 86_400;
        assert!(account.is_active(absolute, at(7 * day - 1)));
        assert!(!account.is_active(absolute, at(7 * day)));
        assert_eq!(account.end_after_use(absolute, at(60)), Some(at(7 * day + 60)));
        assert_eq!(account.end_after_use(absolute, at(25 * day)), Some(at(30 * day)));
        // A session of an older version, which could be idle for all thirty days.
        let former = SignInSession {
            expires_at: at(30 * day),
            ..account
        };
        assert!(!former.is_active(absolute, at(7 * day)));
    }

    #[test]
    fn passwords_are_measured_in_characters() {
        assert!(check_password("zürçêñö").is_err());
        assert!(check_password("zürçêñöþ").is_ok());
        assert!(check_password(&"zürç".repeat(25)).is_ok());
        assert!(check_password(&"zürç".repeat(26)).is_err());
    }

    #[test]
    fn common_passwords_are_rejected() {
        for common in [
            "aaaaaaaaaaaaaaaaaaaaaaaa",
            "password",
            "12345678",
            "Password",
            "PASSWORD",
            "princess",
            "11111111",
            "iloveyou",
            "aaaaaaaa",
            "abcdefgh",
        ] {
            assert!(check_password(common).is_err(), "{common}");
        }
        for good in ["correct horse", "battery staple", "another one", "kX2mV9cB"] {
            assert!(check_password(good).is_ok(), "{good}");
        }
    }
}
