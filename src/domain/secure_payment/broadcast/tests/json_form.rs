//! The JSON form of a transaction compared with its encoding.

use super::*;

#[test]
fn each_member_that_differs_from_the_encoding_is_named() {
    let field = |part: &str, name: &str| match part {
        "" => format!("{RAW_DATA}.{name}"),
        "contract" => format!("{RAW_DATA}.contract[0].{name}"),
        "parameter" => format!("{RAW_DATA}.contract[0].parameter.{name}"),
        _ => format!("{RAW_DATA}.contract[0].parameter.value.{name}"),
    };
    let cases = [
        (
            "",
            [
                "ref_block_bytes",
                "ref_block_hash",
                "expiration",
                "timestamp",
                "fee_limit",
                "data",
            ]
            .as_slice(),
        ),
        ("contract", &["type", "Permission_id", "provider"]),
        ("parameter", &["type_url", "other"]),
        (
            "value",
            &[
                "owner_address",
                "contract_address",
                "data",
                "call_value",
                "call_token_value",
                "token_id",
            ],
        ),
    ];
    let unknown = [
        field("", "data"),
        field("contract", "provider"),
        field("parameter", "other"),
    ];
    for (part, names) in cases {
        for name in names {
            let mut wrongs = vec![
                StatedValue::Integer(7),
                StatedValue::Text("c7a2".to_owned()),
                StatedValue::Other,
                StatedValue::List(vec![StatedValue::Integer(0)]),
            ];
            // An empty member that has no field says nothing.
            if !unknown.contains(&field(part, name)) {
                wrongs.extend([StatedValue::List(Vec::new()), StatedValue::Object(Vec::new())]);
            }
            for wrong in wrongs {
                let mut sent = sent(0);
                *member(&mut sent.raw_data, part, name) = wrong;
                assert_eq!(refused(&sent).0, field(part, name));
            }
        }
    }
    let mut without = sent(0);
    let StatedValue::Object(members) = &mut without.raw_data else {
        unreachable!()
    };
    members.retain(|(name, _)| name != "fee_limit");
    let missing = (
        format!("{RAW_DATA}.fee_limit"),
        "is required: raw_data_hex has this field".to_owned(),
    );
    assert_eq!(refused(&without), missing);
    for wrong in [StatedValue::Other, StatedValue::Text(String::new())] {
        let sent = SentTransaction {
            raw_data: wrong,
            ..sent(0)
        };
        assert_eq!(refused(&sent).0, RAW_DATA);
    }
}

#[test]
fn members_of_left_out_fields_may_be_zero_and_addresses_may_be_base58() {
    let mut sent = sent(0);
    for name in ["call_value", "call_token_value", "token_id"] {
        *member(&mut sent.raw_data, "value", name) = StatedValue::Integer(0);
    }
    *member(&mut sent.raw_data, "contract", "Permission_id") = StatedValue::Integer(0);
    for (name, empty) in [
        ("data", StatedValue::Text(String::new())),
        ("scripts", StatedValue::Text(String::new())),
        ("auths", StatedValue::List(Vec::new())),
        ("provider", StatedValue::Object(Vec::new())),
        ("version", StatedValue::Integer(0)),
    ] {
        *member(&mut sent.raw_data, "", name) = empty;
    }
    let owner = "TQu6q2b9ctdY7tJH3EEX68ys3ywRvrbEz1";
    *member(&mut sent.raw_data, "value", "owner_address") = StatedValue::Text(owner.to_owned());
    sent.tx_id = sent.tx_id.map(|hash| hash.to_uppercase());
    sent.check().unwrap();
    *member(&mut sent.raw_data, "value", "owner_address") = StatedValue::Text(owner.to_lowercase());
    sent.check().unwrap_err();
}
