//! Currencies and conversion routes.

use crate::support::TestApp;
use serde_json::json;

fn ids(list: &serde_json::Value) -> Vec<String> {
    list.as_array()
        .expect("a list")
        .iter()
        .map(|currency| currency["id"].as_str().expect("an id").to_owned())
        .collect()
}

#[tokio::test]
async fn enabled_networks_and_fiat_are_listed() {
    let app = TestApp::start().await;
    let list = app.get("/v2/currencies").with_key().send().await.expect(200);
    let ids = ids(&list);
    for id in [
        "USD",
        "EUR",
        "FAU-sepolia",
        "USDC-sepolia",
        "USDT-sepolia",
        "ETH-sepolia-sepolia",
    ] {
        assert!(ids.contains(&id.to_owned()), "{id} in {ids:?}");
    }
    assert!(
        !ids.iter().any(|id| id.ends_with("-base")),
        "networks that are not enabled stay out: {ids:?}"
    );
}

#[tokio::test]
async fn filters_combine_and_an_alias_is_an_id() {
    let app = TestApp::start().await;
    let one = app
        .get("/v2/currencies?network=sepolia&symbol=usdc")
        .with_key()
        .send()
        .await
        .expect(200);
    assert_eq!(ids(&one), ["USDC-sepolia"]);
    assert_eq!(one[0]["decimals"], 6);
    assert_eq!(one[0]["type"], "ERC20");
    assert_eq!(one[0]["chainId"], 11_155_111);
    assert_eq!(one[0]["hash"], one[0]["address"]);
    let alias = app
        .get("/v2/currencies?id=fUSDC-sepolia")
        .with_key()
        .send()
        .await
        .expect(200);
    assert_eq!(alias, one, "one element, still an array");
    let first = app
        .get("/v2/currencies?network=sepolia&symbol=FAU&firstOnly=true")
        .with_key()
        .send()
        .await
        .expect(200);
    assert_eq!(ids(&first), ["FAU-sepolia"]);
}

#[tokio::test]
async fn wrong_filters_are_refused_with_the_published_sentences() {
    let app = TestApp::start().await;
    let bad = app.get("/v2/currencies?firstOnly=yes").with_key().send().await;
    assert_eq!(
        bad.expect(400)["message"],
        "firstOnly must be 'true' or 'false' if provided"
    );
    let alone = app.get("/v2/currencies?firstOnly=true").with_key().send().await;
    assert_eq!(
        alone.expect(400)["message"],
        "firstOnly can only be used when both network and symbol are provided"
    );
    for filter in ["symbol=NOPE", "id=NOPE-sepolia", "network=base"] {
        let none = app.get(&format!("/v2/currencies?{filter}")).with_key().send().await;
        assert_eq!(none.expect(404)["message"], "Token not found", "{filter}");
    }
}

#[tokio::test]
async fn routes_are_what_the_price_feeds_can_convert() {
    let app = TestApp::start().await;
    let usd = app
        .get("/v2/currencies/USD/conversion-routes")
        .with_key()
        .send()
        .await
        .expect(200);
    assert_eq!(usd["currencyId"], "USD");
    assert_eq!(usd.get("network"), Some(&json!(null)));
    assert_eq!(
        ids(&usd["conversionRoutes"]),
        ["ETH-sepolia-sepolia", "FAU-sepolia", "USDT-sepolia"]
    );
    let one = app
        .get("/v2/currencies/USD/conversion-routes?network=sepolia")
        .with_key()
        .send()
        .await
        .expect(200);
    assert_eq!(one["network"], "sepolia");
    let many = app
        .get("/v2/currencies/USD/conversion-routes?networks=base,polygon")
        .with_key()
        .send()
        .await
        .expect(200);
    assert_eq!(many["networks"], json!(["base", "polygon"]));
    assert_eq!(many["conversionRoutes"], json!([]));
    assert!(many.get("network").is_none());
    let none = app
        .get("/v2/currencies/USDC-sepolia/conversion-routes")
        .with_key()
        .send()
        .await
        .expect(200);
    assert_eq!(none["conversionRoutes"], json!([]));
    for networks in ["base,mat ic".to_owned(), "a".repeat(33), vec!["base"; 17].join(",")] {
        let path = format!(
            "/v2/currencies/USD/conversion-routes?networks={}",
            networks.replace(' ', "%20")
        );
        let refused = app.get(&path).with_key().send().await.expect(400);
        assert_eq!(
            refused["errors"][0]["field"], "networks",
            "{networks} could not be echoed as documented"
        );
    }
    let unknown = app.get("/v2/currencies/NOPE/conversion-routes").with_key().send().await;
    assert_eq!(unknown.expect(404)["message"], "Token not found");
}
