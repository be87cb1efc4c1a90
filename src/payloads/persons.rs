//! Personal data and link tokens in event bodies, and their removal.

use serde_json::{Map, Value};

/// Members that identify a customer or a payer. In every body each of them may be null.
pub(super) const PERSONAL: [&str; 6] = [
    "customerInfo",
    "payerAccess",
    "payerAddress",
    "payerEoaAddress",
    "refundedTo",
    "attemptedPayerWalletAddress",
];

/// Members that are objects reported by the browser of a payer.
pub(super) const PERSONAL_OBJECTS: [&str; 1] = ["properties"];

/// Members with the token that opens a link, and with the requests that the link pays. Anyone can read a public client
/// ID on a page. With these values such a reader could open the links of all other visitors.
const OPENING: &str = "securePaymentToken";
const REQUESTS: &str = "requestIds";
const SOLE_REQUEST: &str = "requestId";

/// Member that is present only if a payer paid without being allowed to. `payerAccess` shows the same.
const PAID: &str = "paid";

/// The customer; absent if the request names none.
const CUSTOMER: &str = "customerInfo";

/// The payer of a payment; the same body may name a customer too.
const PAYER: &str = "payerAddress";

/// Removes personal data and link tokens from a body. A member with such data becomes null, or empty if it is always an
/// object or a list. The member `paid` is removed, and so is `requestId` if the body also has `requestIds`. The result
/// does not show whether a customer was named.
///
/// Errors: the body is not a JSON object. Source: decisions D31; decisions D32.
pub fn without_persons(body: &str) -> serde_json::Result<String> {
    let mut members: Map<String, Value> = serde_json::from_str(body)?;
    let is_payment = members.contains_key(PAYER);
    if members.contains_key(REQUESTS) {
        members.shift_remove(SOLE_REQUEST);
    }
    members.shift_remove(PAID);
    for (name, member) in &mut members {
        if name == OPENING || PERSONAL.contains(&name.as_str()) {
            *member = Value::Null;
        } else if PERSONAL_OBJECTS.contains(&name.as_str()) {
            *member = Map::new().into();
        } else if name == REQUESTS {
            *member = Value::Array(Vec::new());
        }
    }
    if is_payment {
        members.entry(CUSTOMER).or_insert(Value::Null);
    }
    serde_json::to_string(&members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_payers_payment_is_not_disclosed() {
        let body = r#"{"event":"secure_payment.access_rejected","attemptedPayerWalletAddress":"0x1","paid":true}"#;
        let bare = without_persons(body).unwrap();
        assert_eq!(
            bare,
            r#"{"event":"secure_payment.access_rejected","attemptedPayerWalletAddress":null}"#
        );
    }
}
