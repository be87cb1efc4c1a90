//! Signing in: the message that a wallet signs, what counts as its signature, how long sessions last, and what passwords
//! and e-mail addresses look like.

use super::{
    address::Address,
    caller::Person,
    ids::{AccountId, ChallengeId, PlatformId, SessionId},
    network::{Family, Network},
};
use alloy::primitives::{B256, Signature, eip191_hash_message, keccak256};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use zxcvbn::zxcvbn;

/// How long a challenge can be answered. Source: interface §4.10; interface §8.
pub const CHALLENGE_LIFETIME: TimeDelta = TimeDelta::minutes(5);

/// How often contract wallets are asked about the answers to one challenge.
pub const WALLET_CHECKS_MAX: i32 = 3;

/// How long a wallet session lasts without a call. Source: interface §5; interface §8.
pub const WALLET_IDLE: TimeDelta = TimeDelta::minutes(15);

/// How long the session of an e-mail account lasts. Source: rules P.1.6.
pub const ACCOUNT_LIFETIME: TimeDelta = TimeDelta::days(30);

/// How long such a session lasts without a call.
pub const ACCOUNT_IDLE: TimeDelta = TimeDelta::days(7);

/// How often the use of a session is noted at most.
///
/// A wallet session ends 15 minutes after the last noted use: up to this interval earlier than 15 minutes after the
/// last call, never later.
pub const TOUCH_INTERVAL: TimeDelta = TimeDelta::minutes(1);

/// Fewest characters of a password. Source: interface §8.
pub const PASSWORD_LENGTH_MIN: usize = 8;

/// Most characters of a password. Source: interface §8.
pub const PASSWORD_LENGTH_MAX: usize = 100;

/// Bytes of an ECDSA signature with its recovery byte.
const SIGNATURE_LENGTH: usize = 65;

/// What a wallet is asked to sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// Row and public id.
    pub id: ChallengeId,
    /// Wallet that has to sign.
    pub address: Address,
    /// Random part.
    pub nonce: String,
    /// The text to sign.
    pub message: String,
    /// Time of the question.
    pub created_at: DateTime<Utc>,
    /// First moment at which it is too late.
    pub expires_at: DateTime<Utc>,
    /// Time of the sign-in that it served.
    pub used_at: Option<DateTime<Utc>>,
}

impl Challenge {
    /// Writes the question. `domain` and `uri` name the service that asks.
    ///
    /// Source: EIP-4361; decisions D41; rules P.4.1.
    pub fn new(
        id: ChallengeId,
        address: Address,
        nonce: String,
        (domain, uri): (&str, &str),
        now: DateTime<Utc>,
    ) -> Self {
        let expires_at = now + CHALLENGE_LIFETIME;
        // The chain is the one that the family is named after; the session itself is bound to none.
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

    /// Whether these are the words of the challenge, to the letter, and it can still be used.
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

/// Whether the key of the address signed the message; another length or form of signature is simply not its own.
pub fn is_signed_by_key(address: &Address, message: &str, signature: &[u8]) -> bool {
    let is_known_form = signature.len() == SIGNATURE_LENGTH && matches!(signature[64], 0 | 1 | 27 | 28);
    let signature = is_known_form.then(|| Signature::from_raw(signature).ok()).flatten();
    // The twin with the other half of the curve order is not what wallets make. Source: EIP-2.
    let signature = signature.filter(|signature| signature.normalize_s().is_none());
    let signer = signature.and_then(|signature| {
        let hash = message_hash(address.family(), message);
        signature.recover_address_from_prehash(&hash).ok()
    });
    signer == Some(address.bytes())
}

/// What one network says about a signature that is not the key's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalletAnswer {
    /// There is no contract at the address.
    NoContract,
    /// The contract accepts it.
    Accepts,
    /// The contract does not.
    Refuses,
}

/// Whether a contract wallet signed: some network has it accept, and none has it refuse.
///
/// A session names an address without a network. If one network were enough, whoever can put a contract at the
/// address of somebody else's wallet on another network could sign in as its owner.
pub fn is_signed_by_contract(answers: &[WalletAnswer]) -> bool {
    answers.contains(&WalletAnswer::Accepts) && !answers.contains(&WalletAnswer::Refuses)
}

/// A person who is signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Row.
    pub id: SessionId,
    /// Hexadecimal SHA-256 of the token.
    pub token_hash: String,
    /// Tenant.
    pub platform: PlatformId,
    /// Who it is.
    pub person: Person,
    /// Time of the sign-in.
    pub created_at: DateTime<Utc>,
    /// Last noted use.
    pub last_used_at: DateTime<Utc>,
    /// First moment at which it is over, unless it is used before.
    pub expires_at: DateTime<Utc>,
}

impl Session {
    /// A session that begins now. `wallet_absolute` is how long one of a wallet lasts at most.
    pub fn new(
        id: SessionId,
        token_hash: String,
        platform: PlatformId,
        person: Person,
        wallet_absolute: TimeDelta,
        now: DateTime<Utc>,
    ) -> Self {
        let lifetime = match &person {
            Person::Wallet(_) => WALLET_IDLE.min(wallet_absolute),
            Person::Account(_) => ACCOUNT_IDLE,
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

    /// Whether it still counts. Ages that were lowered count for sessions that began before, too.
    pub fn is_active(&self, wallet_absolute: TimeDelta, now: DateTime<Utc>) -> bool {
        let is_within = match &self.person {
            Person::Wallet(_) => now < self.created_at + wallet_absolute,
            Person::Account(_) => now < self.last_used_at + ACCOUNT_IDLE,
        };
        is_within && now < self.expires_at
    }

    /// The end that a use at this moment gives it, when the use has to be noted.
    pub fn end_after_use(&self, wallet_absolute: TimeDelta, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        (now - self.last_used_at >= TOUCH_INTERVAL).then(|| match &self.person {
            Person::Wallet(_) => (now + WALLET_IDLE).min(self.created_at + wallet_absolute),
            Person::Account(_) => (now + ACCOUNT_IDLE).min(self.created_at + ACCOUNT_LIFETIME),
        })
    }
}

/// A person who signs in with e-mail and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
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

/// The form in which e-mail addresses are stored and compared: one person does not register twice by writing it in
/// another case.
pub fn normal_email(email: &str) -> String {
    email.to_lowercase()
}

/// Characters of a password that are estimated: no common one is longer, and the time of the estimator grows with the square
/// of the length.
const ESTIMATED_LENGTH: usize = 16;

/// Tries after which every one of the 10,000 most common passwords is found, by the count of the estimator: its rank and one.
const COMMON_GUESSES: u64 = 10_001;

/// Checks a new password: its length in characters, and that it is none of those that are tried first, which are the 10,000
/// most common ones and what is as quickly guessed, such as one letter again and again. Errors: the sentence for the caller.
/// Source: interface §8.
pub fn check_password(password: &str) -> Result<(), String> {
    if !(PASSWORD_LENGTH_MIN..=PASSWORD_LENGTH_MAX).contains(&password.chars().count()) {
        return Err(format!(
            "must have {PASSWORD_LENGTH_MIN} to {PASSWORD_LENGTH_MAX} characters"
        ));
    }
    // Capitals at the usual places make no other password of it, and what follows such a beginning makes it no better.
    let beginning: String = password.chars().take(ESTIMATED_LENGTH).collect();
    if zxcvbn(&beginning.to_lowercase(), &[]).guesses() <= COMMON_GUESSES {
        return Err(
            "must not be one of the most common passwords; several words that do not belong together are good"
                .to_owned(),
        );
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
    fn the_message_has_the_layout_of_the_contract() {
        let address = Address::parse("0xa3c311EB2df8E1387e3942c997723DAab9138E81").unwrap();
        let service = ("auth.example.com", "https://auth.example.com");
        let id = ChallengeId("01".to_owned());
        let challenge = Challenge::new(id.clone(), address, "0123456789ab".to_owned(), service, at(0));
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
        let challenge = Challenge::new(id, tron, "n".to_owned(), service, at(0));
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
    fn a_challenge_is_answered_to_the_letter_and_in_time() {
        let address = Address::parse("0xa3c311EB2df8E1387e3942c997723DAab9138E81").unwrap();
        let id = ChallengeId("01".to_owned());
        let mut challenge = Challenge::new(id, address, "abc".to_owned(), ("a", "b"), at(0));
        let text = challenge.message.clone();
        assert!(challenge.is_answered_by("abc", &text, at(299)));
        assert!(!challenge.is_answered_by("abc", &text, at(300)));
        assert!(!challenge.is_answered_by("ABC", &text, at(0)));
        assert!(!challenge.is_answered_by("abc", &format!("{text} "), at(0)));
        challenge.used_at = Some(at(1));
        assert!(!challenge.is_answered_by("abc", &text, at(2)));
    }

    #[test]
    fn one_network_that_refuses_outweighs_others_that_accept() {
        use WalletAnswer::{Accepts, NoContract, Refuses};
        assert!(is_signed_by_contract(&[NoContract, Accepts]));
        assert!(!is_signed_by_contract(&[Accepts, Refuses]));
        assert!(!is_signed_by_contract(&[NoContract]));
        assert!(!is_signed_by_contract(&[]));
    }

    #[test]
    fn sessions_slide_up_to_their_absolute_end() {
        let absolute = TimeDelta::seconds(1_000);
        let begin = |person| {
            Session::new(
                SessionId(String::new()),
                String::new(),
                PlatformId(String::new()),
                person,
                absolute,
                at(0),
            )
        };
        let wallet = begin(Person::Wallet(Address::Evm([1; 20].into())));
        assert!(wallet.is_active(absolute, at(899)));
        assert!(!wallet.is_active(absolute, at(900)));
        assert!(!wallet.is_active(TimeDelta::seconds(500), at(500)));
        assert_eq!(wallet.end_after_use(absolute, at(59)), None);
        assert_eq!(wallet.end_after_use(absolute, at(60)), Some(at(960)));
        assert_eq!(wallet.end_after_use(absolute, at(101)), Some(at(1_000)));
        let account = begin(Person::Account(AccountId(String::new())));
        let day = 86_400;
        assert!(account.is_active(absolute, at(7 * day - 1)));
        assert!(!account.is_active(absolute, at(7 * day)));
        assert_eq!(account.end_after_use(absolute, at(60)), Some(at(7 * day + 60)));
        assert_eq!(account.end_after_use(absolute, at(25 * day)), Some(at(30 * day)));
        // One that began under a version that let it idle for all of its thirty days.
        let former = Session {
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
    fn passwords_that_are_tried_first_are_none() {
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
