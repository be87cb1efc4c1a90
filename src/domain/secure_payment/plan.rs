//! Whether a secure payment can be made, and where it pays to.

use super::{About, Names, access::AskedPolicy};
use crate::domain::{
    address::Address,
    amount::{Amount, Percent},
    destination::Destination,
    interop_address::DestinationKey,
    paying::batch_contract::admit_networks,
    refusal::{FieldError, Refusal},
    request::plan::PaymentCurrency,
};
use chrono::TimeDelta;

/// What is said of a text that names no destination. Source: rules P.3.7.
pub const NO_DESTINATION_ID: &str = "Invalid destination ID format";

/// What is said where nobody has set up where to be paid. Source: rules P.3.7.
const NO_DESTINATION: &str = "No active payment destination found for this platform";

/// What is said of another destination than the one that is set up. Source: rules P.3.7.
const ANOTHER_DESTINATION: &str = "Destination does not match the configured payment destination.";

/// What a backend client ID is told that is bound to no destination and names none. Source: rules P.3.7; decisions D49.
const UNBOUND: &str = "This client ID has no allowed domains and is bound to no payee destination: name one that is in use \
                       on this platform as destinationId, or bind the client ID to one";

/// What such a client ID is told that names another destination. Source: decisions D49.
const NOT_IN_USE: &str = "destinationId must be a payee destination that is in use on this platform";

/// What a public client ID is told that is bound to no destination where there are several. Source: decisions D49.
const UNBOUND_PUBLIC: &str = "This client ID has allowed domains and is bound to no payee destination, and its platform has \
                              several in use: bind the client ID to one";

/// What is said of a fee whose receiver the owner of a public client ID named nowhere.
const STRANGE_RECEIVER: &str = "must be a payee of this client ID (allowedPayees) or a wallet of the platform that has a \
                                destination in use: everybody may know a client ID of pages";

/// The destination that an item names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// None: the one that is set up.
    Any,
    /// This one.
    Named(DestinationKey),
    /// One of the right form that nobody can have.
    Unknown,
}

/// A fee that a call names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedFee {
    /// Rate and receiver.
    pub fee: (Percent, Address),
    /// Whether it stands in the item and not beside all of them.
    pub is_of_item: bool,
}

/// Who may get a fee that a call names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeeReceivers {
    /// Whoever is named.
    Anybody,
    /// These alone: everybody reads a public client ID off a page, and could name himself.
    Among(Vec<Address>),
}

impl FeeReceivers {
    /// Errors: somebody else is named, as a sentence for the caller.
    pub fn admit(&self, receiver: Address) -> Result<Address, String> {
        match self {
            Self::Among(known) if !known.contains(&receiver) => Err(STRANGE_RECEIVER.to_owned()),
            Self::Anybody | Self::Among(_) => Ok(receiver),
        }
    }
}

/// One amount to be paid.
#[derive(Debug, Clone)]
pub struct NewItem {
    /// Where to.
    pub destination: Wanted,
    /// How much.
    pub amount: Amount,
    /// Fee on top.
    pub fee: Option<NamedFee>,
    /// Reference of the merchant.
    pub reference: Option<String>,
}

/// A secure payment by which its creator is paid; every value holds for itself.
#[derive(Debug, Clone)]
pub struct NewSecurePayment {
    /// What is paid, at least one.
    pub items: Vec<NewItem>,
    /// What its creator says about it.
    pub about: About,
    /// What it calls whom.
    pub names: Names,
    /// Who may pay.
    pub policy: AskedPolicy,
    /// How long it can be paid; `None` for the usual time.
    pub expires_in: Option<TimeDelta>,
}

/// A secure payment by which its creator pays somebody; every value holds for itself.
#[derive(Debug, Clone)]
pub struct NewPayout {
    /// Who is paid.
    pub recipient: Address,
    /// Wallet that is to pay, as text: it is not held to it.
    pub creator: String,
    /// In what.
    pub currency: PaymentCurrency,
    /// How much.
    pub amount: Amount,
    /// Fee on top.
    pub fee: Option<(Percent, Address)>,
    /// What its creator says about it.
    pub about: About,
    /// What it calls whom.
    pub names: Names,
    /// Who may pay.
    pub policy: AskedPolicy,
    /// How long it can be paid; `None` for the usual time.
    pub expires_in: Option<TimeDelta>,
}

/// How a caller chooses a destination. Source: decisions D49.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choosing {
    /// The only one that is set up goes without saying; among several, and for another one, the caller names it.
    Freely,
    /// The caller has to name it: an unbound client ID of a backend.
    ByName,
    /// The caller has no choice: an unbound public client ID, which strangers use too.
    Never,
}

/// Where a caller may be paid.
#[derive(Debug, Clone)]
pub struct Destinations {
    /// Who chooses.
    pub choosing: Choosing,
    /// In use where nothing is named.
    pub own: Vec<Destination>,
    /// Those that the caller may name besides.
    pub others: Vec<Destination>,
}

impl Destinations {
    /// The one destination that all items pay to.
    ///
    /// Errors: there is none, or more than one and none is named (400); items on several networks (400); another one is
    /// named (403); a client ID has no right to the choice, or makes none (403). Source: rules P.3.7; decisions D49.
    pub fn choose(self, items: &[NewItem]) -> Result<Destination, Refusal> {
        let Self { choosing, own, others } = self;
        let is_named = items.iter().any(|item| item.destination != Wanted::Any);
        match choosing {
            Choosing::ByName if !is_named => return Err(Refusal::forbidden(UNBOUND)),
            Choosing::ByName => {}
            Choosing::Never if own.len() > 1 => return Err(Refusal::forbidden(UNBOUND_PUBLIC)),
            Choosing::Freely | Choosing::Never if own.is_empty() && others.is_empty() => {
                return Err(Refusal::invalid(NO_DESTINATION));
            }
            Choosing::Freely | Choosing::Never => {}
        }
        let named = items.iter().filter_map(|item| match item.destination {
            Wanted::Named(key) => Some(key),
            Wanted::Any | Wanted::Unknown => None,
        });
        let named: Vec<DestinationKey> = named.collect();
        let is_batch = items.len() > 1;
        if is_batch {
            admit_networks(named.iter().map(|key| key.interop.network))?;
        }
        let mismatch = || match choosing {
            Choosing::ByName => Refusal::forbidden(NOT_IN_USE),
            Choosing::Freely | Choosing::Never => Refusal::forbidden(ANOTHER_DESTINATION),
        };
        if items.iter().any(|item| item.destination == Wanted::Unknown) {
            return Err(mismatch());
        }
        let chosen = match named.first() {
            Some(first) if named.iter().all(|key| key == first) => {
                let mut known = own.into_iter().chain(others);
                known
                    .find(|destination| destination.key == *first)
                    .ok_or_else(mismatch)?
            }
            Some(_) => return Err(mismatch()),
            None => only(own)?,
        };
        if is_batch {
            admit_networks([chosen.key.interop.network])?;
        }
        Ok(chosen)
    }
}

fn only(own: Vec<Destination>) -> Result<Destination, Refusal> {
    let count = own.len();
    let mut own = own.into_iter();
    match (own.next(), count) {
        (Some(sole), 1) => Ok(sole),
        (Some(_), _) => {
            let sentence = format!("is required: this platform has {count} destinations in use");
            Err(Refusal::field("requests[0].destinationId", sentence))
        }
        (None, _) => Err(Refusal::invalid(NO_DESTINATION)),
    }
}

/// What is said of an item that names its destination in no known form. Source: rules P.3.7; decisions D39.
pub fn unreadable_destination(errors: Vec<FieldError>) -> Refusal {
    Refusal {
        message: NO_DESTINATION_ID.to_owned(),
        ..Refusal::fields(errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        ids::{DestinationId, PlatformId},
        refusal::RefusalKind,
    };
    use chrono::DateTime;

    const FAU: &str = "sepolia:0x6923831acf5c327260d7ac7c9dff5b1c3cb3c7d7:0x370DE27fdb7D1Ff1e1BaA7D11c5820a324Cf623C";
    const OTHER: &str = "sepolia:0x90F79bf6EB2c4f870365E785982E1f101E93b906:0x370DE27fdb7D1Ff1e1BaA7D11c5820a324Cf623C";
    const BASE: &str = "base:0x6923831acf5c327260d7ac7c9dff5b1c3cb3c7d7:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
    const TRON: &str = "tron:TJRabPrwbZy45sbavfcjinPJC18kjpRTv8:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t";

    fn key(text: &str) -> DestinationKey {
        DestinationKey::parse(text).unwrap().unwrap()
    }

    fn known(texts: &[&str]) -> Vec<Destination> {
        let destination = |text: &&str| Destination {
            id: DestinationId("d".into()),
            platform: PlatformId("p".into()),
            key: key(text),
            policy: None,
            is_claimed: true,
            is_set_up: true,
            is_active: true,
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
        };
        texts.iter().map(destination).collect()
    }

    fn items(wanted: &[Wanted]) -> Vec<NewItem> {
        let item = |wanted: &Wanted| NewItem {
            destination: *wanted,
            amount: Amount::parse("1").unwrap(),
            fee: None,
            reference: None,
        };
        wanted.iter().map(item).collect()
    }

    #[test]
    fn all_items_pay_to_the_one_destination_that_is_set_up() {
        use Choosing::{ByName, Freely, Never};
        use RefusalKind::{Forbidden, Invalid};
        use Wanted::{Any, Named, Unknown};
        let (fau, other, base, tron) = (key(FAU), key(OTHER), key(BASE), key(TRON));
        for (choosing, own, others, wanted, expected) in [
            (Freely, &[FAU][..], &[][..], &[Any][..], Ok(fau)),
            (Freely, &[FAU], &[], &[Any, Named(fau)], Ok(fau)),
            (Freely, &[FAU], &[OTHER], &[Named(other)], Ok(other)),
            (Freely, &[FAU], &[], &[Named(other)], Err(Forbidden)),
            (Freely, &[FAU], &[], &[Unknown], Err(Forbidden)),
            (Freely, &[FAU], &[OTHER], &[Named(fau), Named(other)], Err(Forbidden)),
            (Freely, &[FAU], &[BASE], &[Named(fau), Named(base)], Err(Invalid)),
            (Freely, &[], &[OTHER], &[Any], Err(Invalid)),
            (Freely, &[], &[], &[Named(fau)], Err(Invalid)),
            (Freely, &[FAU, OTHER], &[], &[Any], Err(Invalid)),
            (Freely, &[FAU, OTHER], &[], &[Named(other)], Ok(other)),
            (Freely, &[TRON], &[], &[Any], Ok(tron)),
            (Freely, &[TRON], &[], &[Any, Any], Err(Invalid)),
            (ByName, &[], &[FAU], &[Named(fau)], Ok(fau)),
            (ByName, &[], &[FAU], &[Any, Named(fau)], Ok(fau)),
            (ByName, &[], &[], &[Any], Err(Forbidden)),
            (ByName, &[], &[], &[Named(fau)], Err(Forbidden)),
            (ByName, &[], &[], &[Unknown], Err(Forbidden)),
            (ByName, &[], &[FAU], &[Named(fau), Named(other)], Err(Forbidden)),
            (ByName, &[], &[FAU], &[Named(fau), Named(base)], Err(Invalid)),
            (ByName, &[], &[TRON], &[Named(tron), Any], Err(Invalid)),
            (Never, &[FAU], &[], &[Any], Ok(fau)),
            (Never, &[FAU], &[], &[Named(fau)], Ok(fau)),
            (Never, &[FAU], &[], &[Named(other)], Err(Forbidden)),
            (Never, &[FAU, OTHER], &[], &[Any], Err(Forbidden)),
            (Never, &[FAU, OTHER], &[], &[Named(fau)], Err(Forbidden)),
            (Never, &[], &[], &[Any], Err(Invalid)),
        ] {
            let destinations = Destinations {
                choosing,
                own: known(own),
                others: known(others),
            };
            let chosen = destinations.choose(&items(wanted));
            let chosen = chosen.map(|chosen| chosen.key).map_err(|refusal| refusal.kind);
            assert_eq!(chosen, expected, "{choosing:?} {own:?} {others:?} {wanted:?}");
        }
    }
}
