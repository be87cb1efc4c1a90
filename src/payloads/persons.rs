//! What bodies tell about persons and about what opens a link, and bodies without it.

use serde_json::{Map, Value};

/// Members that say who a customer or a payer is. Each may be null wherever it stands.
pub(super) const PERSONAL: [&str; 6] = [
    "customerInfo",
    "payerAccess",
    "payerAddress",
    "payerEoaAddress",
    "refundedTo",
    "attemptedPayerWalletAddress",
];

/// Members that are objects of what a browser told about a person.
pub(super) const PERSONAL_OBJECTS: [&str; 1] = ["properties"];

/// What opens a link, and what it pays. Whoever reads a public client ID off a page would have the links of all other
/// visitors by it.
const OPENING: &str = "securePaymentToken";
const REQUESTS: &str = "requestIds";
const SOLE_REQUEST: &str = "requestId";

/// That a payer who was not admitted paid all the same, which is what `payerAccess` says; absent otherwise.
const PAID: &str = "paid";

/// The customer, who is absent where nobody was named.
const CUSTOMER: &str = "customerInfo";

/// The payer of a payment, whose body may name a customer too.
const PAYER: &str = "payerAddress";

/// A body without what it says about persons and about what opens a link: null instead, and an empty object or list where
/// a member always is one. Whether a customer was named does not show.
///
/// Errors: the body is no object. Source: decisions D31; decisions D32.
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
    fn that_a_rejected_payer_paid_is_not_told() {
        let body = r#"{"event":"secure_payment.access_rejected","attemptedPayerWalletAddress":"0x1","paid":true}"#;
        let bare = without_persons(body).unwrap();
        assert_eq!(
            bare,
            r#"{"event":"secure_payment.access_rejected","attemptedPayerWalletAddress":null}"#
        );
    }
}
