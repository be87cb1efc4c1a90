//! The permit of a recurring payout, in the form that wallets and nodes sign.

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Name of the signed struct.
const STRUCT: &str = "SchedulePermit";

/// The signer and the typed data of a recurring payment. `answer` is a response of POST /v2/payouts, or the permit in
/// such a response. Adds the type of the domain: nodes require this type, and client libraries would add it themselves.
pub fn typed_data(answer: &Value) -> Result<(&str, Value)> {
    let permit = match &answer["recurringPaymentPermit"] {
        Value::Null => answer,
        permit => permit,
    };
    let payer = permit["values"]["subscriber"].as_str();
    let payer = payer.context("there is no recurringPaymentPermit with values.subscriber in it")?;
    let mut types = permit["types"].clone();
    types["EIP712Domain"] = json!([
        { "name": "name", "type": "string" },
        { "name": "version", "type": "string" },
        { "name": "chainId", "type": "uint256" },
        { "name": "verifyingContract", "type": "address" },
    ]);
    let data = json!({
        "types": types,
        "primaryType": STRUCT,
        "domain": permit["domain"],
        "message": permit["values"],
    });
    Ok((payer, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_is_read_from_a_response_and_on_its_own() {
        let permit = json!({
            "domain": { "chainId": 1 }, "types": { STRUCT: [] }, "values": { "subscriber": "0xab" },
        });
        let answer = json!({ "id": "01", "recurringPaymentPermit": permit });
        for given in [&answer, &permit] {
            let (payer, data) = typed_data(given).unwrap();
            assert_eq!(
                (payer, &data["message"], &data["primaryType"]),
                ("0xab", &permit["values"], &json!(STRUCT))
            );
            assert_eq!(data["types"]["EIP712Domain"].as_array().map(Vec::len), Some(4));
        }
        assert!(typed_data(&json!({})).is_err());
    }
}
