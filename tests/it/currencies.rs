//! Currencies and conversion routes.

use crate::support::TestApp;
use prs::{domain::address::Address, settings::ChainSettings};
use serde_json::json;

fn ids(list: &serde_json::Value) -> Vec<String> {
    list.as_array()
        .expect("a list")
        .iter()
        .map(|currency| currency["id"].as_str().expect("an id").to_owned())
        .collect()
}

#[tokio::test]
async fn enabled_networks_and_fiat_currencies_are_listed() {
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
        "disabled networks are not listed: {ids:?}"
    );
}

#[tokio::test]
async fn filters_combine_and_an_alias_works_as_an_id() {
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

/// The service with all supported networks.
async fn everywhere() -> TestApp {
    let mut settings = crate::support::app::settings();
    for network in ["mainnet", "arbitrum-one", "optimism", "base", "matic", "bsc", "sepolia"] {
        let chain = ChainSettings {
            rpc_urls: vec!["http://127.0.0.1:1".to_owned()],
            ..ChainSettings::default()
        };
        settings.chains.insert(network.to_owned(), chain);
    }
    TestApp::with(settings, None).await
}

#[tokio::test]
async fn a_currency_is_found_by_its_alias_symbol() {
    let app = everywhere().await;
    for (network, symbol, id) in [
        ("arbitrum-one", "USDT0", "USDT-arbitrum-one"),
        ("arbitrum-one", "usdt0", "USDT-arbitrum-one"),
        ("arbitrum-one", "USDT", "USDT-arbitrum-one"),
        ("arbitrum-one", "ETH", "AETH-arbitrum-one"),
        ("sepolia", "fUSDC", "USDC-sepolia"),
    ] {
        for more in ["", "&firstOnly=true"] {
            let path = format!("/v2/currencies?network={network}&symbol={symbol}{more}");
            let found = app.get(&path).with_key().send().await.expect(200);
            assert_eq!(ids(&found), [id], "{path}");
        }
    }
    let none = app
        .get("/v2/currencies?network=base&symbol=USDT0")
        .with_key()
        .send()
        .await;
    assert_eq!(none.expect(404)["message"], "Token not found");
}

#[tokio::test]
async fn addresses_are_returned_with_their_checksum() {
    let app = everywhere().await;
    let list = app.get("/v2/currencies").with_key().send().await.expect(200);
    let list = list.as_array().expect("a list");
    assert!(list.len() > 30, "{}", list.len());
    for currency in list {
        for member in ["address", "hash"] {
            let shown = currency[member].as_str().expect("text");
            let parsed = Address::parse(&shown.to_lowercase()).expect("an address");
            assert_eq!(shown, parsed.to_string(), "{member} of {currency}");
        }
    }
}

#[tokio::test]
async fn invalid_filters_return_the_published_messages() {
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
async fn conversion_routes_match_the_price_feeds() {
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
    for (asked, id, alias) in [
        ("fUSDC-sepolia", "USDC-sepolia", Some("fUSDC-sepolia")),
        ("FUSDC-sepolia", "USDC-sepolia", Some("fUSDC-sepolia")),
        ("usdc-SEPOLIA", "USDC-sepolia", None),
        ("USD", "USD", None),
    ] {
        let path = format!("/v2/currencies/{asked}/conversion-routes");
        let found = app.get(&path).with_key().send().await.expect(200);
        assert_eq!(found["currencyId"], id, "{asked}");
        assert_eq!(found.get("alias").and_then(|alias| alias.as_str()), alias, "{asked}");
    }
    let unknown = app.get("/v2/currencies/NOPE/conversion-routes").with_key().send().await;
    assert_eq!(unknown.expect(404)["message"], "Token not found");
}
