//! Decides whether a secure payment can be created, and to which destination it pays.

use super::{LinkDetails, MerchantNames, access::AskedPolicy};
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

/// Message for a text that is not a destination id. Source: rules P.3.7.
pub const NO_DESTINATION_ID: &str = "Invalid destination ID format";

/// Message when no destination is set up. Source: rules P.3.7.
const NO_DESTINATION: &str = "No active payment destination found for this platform";

/// Message for another destination than the configured one. Source: rules P.3.7.
const ANOTHER_DESTINATION: &str = "Destination does not match the configured payment destination.";

/// Message for a backend client ID that is bound to no destination and does not name one. Source: rules P.3.7;
/// decisions D49.
const UNBOUND: &str = "This client ID has no allowed domains and is bound to no payee destination: set destinationId to an \
                       active one of this platform, or bind the client ID to one";

/// Message for an unbound backend client ID that names a destination that the platform does not use. Source: decisions
/// D49.
const NOT_IN_USE: &str = "destinationId must be an active payee destination of this platform";

/// Message for a public client ID that is bound to no destination, on a platform with several destinations. Source:
/// decisions D49.
const UNBOUND_PUBLIC: &str = "This client ID has allowed domains and is bound to no payee destination, and its platform has \
                              several active ones: bind the client ID to one";

/// Message for a public client ID or an orchestrator that names a fee receiver which the platform did not allow.
const STRANGE_RECEIVER: &str = "must be an allowed payee of this client ID (allowedPayees) or a wallet of the platform with \
                                an active destination: a public client ID and an orchestrator cannot name other fee receivers";

/// The destination that an item names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemDestination {
    /// None: the configured one.
    Any,
    /// This one.
    Named(DestinationKey),
    /// A well-formed id of a destination that does not exist.
    Unknown,
}

/// A fee that a call names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedFee {
    /// Rate and receiver.
    pub fee: (Percent, Address),
    /// Whether the item contains the fee. Otherwise the fee is at the top level of the body.
    pub is_of_item: bool,
}

/// Who may receive a fee that a call names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeeReceivers {
    /// Any receiver.
    Anybody,
    /// Only these receivers, for public client IDs and orchestrators. Anyone can read a public client ID on a page, and
    /// could otherwise name their own wallet. An orchestrator gets a fee by its fee config instead.
    Among(Vec<Address>),
}

impl FeeReceivers {
    /// Checks a fee receiver. Errors: the message for the caller, if this receiver is not allowed.
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
    /// Destination.
    pub destination: ItemDestination,
    /// Amount.
    pub amount: Amount,
    /// Fee on top.
    pub fee: Option<NamedFee>,
    /// Reference of the merchant.
    pub reference: Option<String>,
}

/// Input for a secure payment that pays its creator. Every value is valid on its own.
#[derive(Debug, Clone)]
pub struct NewSecurePayment {
    /// Items to pay, at least one.
    pub items: Vec<NewItem>,
    /// Data from its creator.
    pub about: LinkDetails,
    /// Its identifiers of people.
    pub names: MerchantNames,
    /// Who may pay.
    pub policy: AskedPolicy,
    /// How long the secure payment can be paid; `None` for the default.
    pub expires_in: Option<TimeDelta>,
}

/// Input for a secure payment by which its creator pays a recipient. Every value is valid on its own.
#[derive(Debug, Clone)]
pub struct NewPayoutLink {
    /// Recipient.
    pub recipient: Address,
    /// Wallet that is expected to pay, as text. Any other wallet may pay too.
    pub creator: String,
    /// Currency.
    pub currency: PaymentCurrency,
    /// Amount.
    pub amount: Amount,
    /// Fee on top.
    pub fee: Option<(Percent, Address)>,
    /// Data from its creator.
    pub about: LinkDetails,
    /// Its identifiers of people.
    pub names: MerchantNames,
    /// Who may pay.
    pub policy: AskedPolicy,
    /// How long the secure payment can be paid; `None` for the default.
    pub expires_in: Option<TimeDelta>,
}

/// How a caller chooses a destination. Source: decisions D49.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DestinationChooser {
    /// A single destination of the platform is the default. If the platform has several, the caller must name one. The
    /// caller may also name a destination that is not a default.
    Freely,
    /// The caller must name the destination: a backend client ID that is bound to none.
    ByName,
    /// The caller cannot choose: a public client ID that is bound to none, which strangers use too.
    Never,
}

/// Destinations that a caller may use.
#[derive(Debug, Clone)]
pub struct DestinationChoice {
    /// How the caller chooses.
    pub choosing: DestinationChooser,
    /// Default destinations, when the caller names none.
    pub own: Vec<Destination>,
    /// Other destinations that the caller may name.
    pub others: Vec<Destination>,
}

impl DestinationChoice {
    /// The single destination to which all items pay.
    ///
    /// Errors (400): there is no destination; there are several destinations and a caller that may choose names none;
    /// the items are on several networks. Errors (403): the caller names a destination that it may not use; it must
    /// name one and names none; it cannot choose and there are several. Source: rules P.3.7; decisions D49.
    pub fn choose(self, items: &[NewItem]) -> Result<Destination, Refusal> {
        let Self { choosing, own, others } = self;
        let is_named = items.iter().any(|item| item.destination != ItemDestination::Any);
        match choosing {
            DestinationChooser::ByName if !is_named => return Err(Refusal::forbidden(UNBOUND)),
            DestinationChooser::ByName => {}
            DestinationChooser::Never if own.len() > 1 => return Err(Refusal::forbidden(UNBOUND_PUBLIC)),
            DestinationChooser::Freely | DestinationChooser::Never if own.is_empty() && others.is_empty() => {
                return Err(Refusal::invalid(NO_DESTINATION));
            }
            DestinationChooser::Freely | DestinationChooser::Never => {}
        }
        let named = items.iter().filter_map(|item| match item.destination {
            ItemDestination::Named(key) => Some(key),
            ItemDestination::Any | ItemDestination::Unknown => None,
        });
        let named: Vec<DestinationKey> = named.collect();
        let is_batch = items.len() > 1;
        if is_batch {
            admit_networks(named.iter().map(|key| key.interop.network))?;
        }
        let mismatch = || match choosing {
            DestinationChooser::ByName => Refusal::forbidden(NOT_IN_USE),
            DestinationChooser::Freely | DestinationChooser::Never => Refusal::forbidden(ANOTHER_DESTINATION),
        };
        if items.iter().any(|item| item.destination == ItemDestination::Unknown) {
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
            let sentence = format!("is required: this platform has {count} active destinations");
            Err(Refusal::field("requests[0].destinationId", sentence))
        }
        (None, _) => Err(Refusal::invalid(NO_DESTINATION)),
    }
}

/// The refusal of items that name a destination in an unknown format. Source: rules P.3.7; decisions D39.
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

    fn items(wanted: &[ItemDestination]) -> Vec<NewItem> {
        let item = |wanted: &ItemDestination| NewItem {
            destination: *wanted,
            amount: Amount::parse("1").unwrap(),
            fee: None,
            reference: None,
        };
        wanted.iter().map(item).collect()
    }

    #[test]
    fn all_items_pay_to_the_one_configured_destination() {
        use DestinationChooser::{ByName, Freely, Never};
        use ItemDestination::{Any, Named, Unknown};
        use RefusalKind::{Forbidden, Invalid};
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
            let destinations = DestinationChoice {
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
