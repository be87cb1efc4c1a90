//! Rates of feeds: a doubtful value is not a rate and never causes a wrong amount.

use crate::support::{
    TestApp,
    rates::{Feed, rated_by},
    requests::request,
};
use chrono::TimeDelta;
use prs::flows::rates::list;
use serde_json::value::RawValue;
use std::time::Duration;

/// Reads the feeds and requests calldata; `None` if there is no rate, in which case the response has to say so.
async fn quoted(app: &TestApp, id: &str) -> Option<String> {
    app.read_rates().await;
    let answer = app.get(&format!("/v2/request/{id}/pay")).with_key().send().await;
    if answer.status == 502 {
        let message = answer.json()["message"].as_str().expect("a sentence").to_owned();
        assert!(message.contains("USDC in USD"), "{message}");
        return None;
    }
    let answer = answer.expect(200);
    let steps = crate::support::chain::transactions(&answer);
    Some(
        hex::encode(&steps.last().expect("a payment").1[4 + 64..4 + 96])
            .trim_start_matches('0')
            .to_owned(),
    )
}

fn units(amount: u64) -> Option<String> {
    Some(format!("{amount:x}"))
}

/// Sets every field of a feed's response to every kind of invalid value. No invalid value may lead to an amount.
#[tokio::test]
async fn no_invalid_feed_field_ever_produces_an_amount() {
    let feed = Feed::start().await;
    let app = TestApp::on_chain_as(rated_by(&[&feed]), 1).await;
    let id = app.create_request(&request("97", "USD", "USDC-sepolia")).await;
    let now = || app.ctx.clock.now().timestamp();
    let odd = [
        "null", "\"1\"", "\"\"", "true", "[]", "{}", "-1", "0", "0.0", "1e400", "1e-30",
    ];
    let mut texts: Vec<String> = Vec::new();
    for value in odd {
        texts.push(format!(
            r#"{{"usd-coin":{{"usd":{value},"last_updated_at":{}}}}}"#,
            now()
        ));
        texts.push(format!(r#"{{"usd-coin":{value}}}"#));
        texts.push(value.to_owned());
    }
    for value in [
        "null",
        "\"1\"",
        "true",
        "[]",
        "{}",
        "-1",
        "0",
        "1.5",
        "99999999999999999999",
    ] {
        texts.push(format!(r#"{{"usd-coin":{{"usd":0.97,"last_updated_at":{value}}}}}"#));
    }
    texts.extend([
        String::new(),
        "<html>".to_owned(),
        "{}".to_owned(),
        format!(r#"{{"usd-coin":{{"last_updated_at":{}}}}}"#, now()),
        r#"{"usd-coin":{"usd":0.97}}"#.to_owned(),
        format!(r#"{{"usd-coin":{{"eur":0.97,"last_updated_at":{}}}}}"#, now()),
        format!(r#"{{"tether":{{"usd":0.97,"last_updated_at":{}}}}}"#, now()),
        format!(r#"{{"usd-coin":{{"usd":0.97,"last_updated_at":{}}}}}"#, now() - 1_000),
        format!(r#"{{"usd-coin":{{"usd":0.97,"last_updated_at":{}}}}}"#, now() + 1_000),
        format!(r#"{{"usd-coin":{{"usd":0.5,"last_updated_at":{}}}}}"#, now()),
        format!(r#"{{"usd-coin":{{"usd":2,"last_updated_at":{}}}}}"#, now()),
        format!(r#"{{"usd-coin":{{"usd":0.97,"last_updated_at":{}}}"#, now()),
    ]);
    // The last accepted rate is too old. If it still counted, an invalid rate close to it would be accepted at once.
    feed.tells("0.97", app.ctx.clock.now());
    assert_eq!(quoted(&app, &id).await, units(100_000_000));
    app.advance_ms(901_000);
    for text in &texts {
        feed.tells_text(text.clone());
        assert_eq!(quoted(&app, &id).await, None, "{text}");
    }
    // The same invalid responses, each directly after a valid rate. The valid rate then stops counting, or it keeps
    // counting if the feed is merely unresponsive.
    for text in texts {
        app.advance_ms(60_000);
        feed.tells("0.97", app.ctx.clock.now());
        assert_eq!(quoted(&app, &id).await, units(100_000_000));
        feed.tells_text(text.clone());
        let is_answer = text.starts_with('{') && serde_json::from_str::<&RawValue>(&text).is_ok();
        let expected = if is_answer { None } else { units(100_000_000) };
        assert_eq!(quoted(&app, &id).await, expected, "{text}");
    }
    for status in [404, 429, 500, 503] {
        app.advance_ms(60_000);
        feed.tells("0.97", app.ctx.clock.now());
        quoted(&app, &id).await.expect("a rate");
        feed.fails(status);
        assert_eq!(
            quoted(&app, &id).await,
            units(100_000_000),
            "the last rate is valid while it is fresh"
        );
        app.advance_ms(901_000);
        assert_eq!(quoted(&app, &id).await, None, "{status}");
    }
    feed.tells("0.97", app.ctx.clock.now());
    feed.dawdles(Duration::from_secs(7));
    assert_eq!(quoted(&app, &id).await, None, "a late response is ignored");
}

#[tokio::test]
async fn two_feeds_have_to_agree() {
    let (one, other) = (Feed::start().await, Feed::start().await);
    let app = TestApp::on_chain_as(rated_by(&[&one, &other]), 1).await;
    let id = app.create_request(&request("97", "USD", "USDC-sepolia")).await;
    for (first, second, is_rate) in [
        ("0.97", "0.97", true),
        ("0.97", "0.9797", true),
        ("0.97", "0.97971", false),
        ("0.97", "0.96", false),
        ("0.97", "null", false),
        ("null", "0.97", false),
    ] {
        app.advance_ms(1_000);
        one.tells(first, app.ctx.clock.now());
        other.tells(second, app.ctx.clock.now());
        let found = quoted(&app, &id).await;
        assert_eq!(found, is_rate.then(|| units(100_000_000)).flatten(), "{first} {second}");
    }
    app.advance_ms(1_000);
    one.tells("0.97", app.ctx.clock.now());
    other.tells("0.97", app.ctx.clock.now() - TimeDelta::minutes(16));
    assert_eq!(quoted(&app, &id).await, None, "one of the rates is old");
}

#[tokio::test]
async fn a_token_off_its_peg_has_no_rate_in_any_currency() {
    let feed = Feed::start().await;
    let app = TestApp::on_chain_as(rated_by(&[&feed]), 1).await;
    let id = app.create_request(&request("9", "JPY", "USDC-sepolia")).await;
    for (usd, status) in [("1", 200), ("0.94", 502), ("null", 502), ("1", 200)] {
        let now = app.ctx.clock.now().timestamp();
        feed.tells_text(format!(
            r#"{{"usd-coin":{{"usd":{usd},"jpy":150.5,"last_updated_at":{now}}},"tether":{{"jpy":150.5,"last_updated_at":{now}}}}}"#
        ));
        app.read_rates().await;
        let answer = app.get(&format!("/v2/request/{id}/pay")).with_key().send().await;
        assert_eq!(answer.status, status, "{usd}: {}", answer.text);
    }
}

#[tokio::test]
async fn the_operator_sees_every_pair_and_why_it_has_no_rate() {
    let feed = Feed::start().await;
    let app = TestApp::on_chain_as(rated_by(&[&feed]), 1).await;
    feed.tells("0.98", app.ctx.clock.now());
    app.read_rates().await;
    let listed = list::run(&app.ctx).await.expect("a list");
    let of = |pair: &str| listed.iter().find(|one| one.pair.to_string() == pair).expect("a pair");
    assert_eq!(of("USDC/USD").now.expect("a rate").rate.to_string(), "0.98");
    assert!(of("USDC/EUR").now.is_err());
    assert!(of("USDC/EUR").last_accepted.is_none());
}

/// A feed response with the price in yen of one USDC, and of one USDT if `usdt` is given. In dollars, either costs one.
fn yen(app: &TestApp, usdc: &str, usdt: Option<&str>) -> String {
    let now = app.ctx.clock.now().timestamp();
    let of = |coin: &str, yen: &str| format!(r#""{coin}":{{"usd":1,"jpy":{yen},"last_updated_at":{now}}}"#);
    let tether = usdt.map(|yen| format!(",{}", of("tether", yen))).unwrap_or_default();
    format!("{{{}{tether}}}", of("usd-coin", usdc))
}

#[tokio::test]
async fn a_first_rate_counts_once_it_has_lasted_or_is_confirmed() {
    for (usdt, is_rate) in [(None, false), (Some("150"), true), (Some("15000"), false)] {
        let feed = Feed::start().await;
        let app = TestApp::on_chain_as(rated_by(&[&feed]), 1).await;
        let id = app.create_request(&request("9", "JPY", "USDC-sepolia")).await;
        let path = format!("/v2/request/{id}/pay");
        for (minute, is_held) in [(0, true), (8, true), (16, false)] {
            feed.tells_text(yen(&app, "150", usdt));
            app.read_rates().await;
            let answer = app.get(&path).with_key().send().await;
            let expected = if is_held && !is_rate { 502 } else { 200 };
            assert_eq!(answer.status, expected, "{usdt:?} {minute}: {}", answer.text);
            app.advance_ms(8 * 60_000);
        }
    }
    let (one, other) = (Feed::start().await, Feed::start().await);
    let app = TestApp::on_chain_as(rated_by(&[&one, &other]), 1).await;
    let id = app.create_request(&request("9", "JPY", "USDC-sepolia")).await;
    for feed in [&one, &other] {
        feed.tells_text(yen(&app, "150", None));
    }
    app.read_rates().await;
    app.calldata(&id, "").await;
}

#[tokio::test]
async fn a_pair_with_only_an_old_rate_is_measured_as_having_none() {
    let (app, feed) = TestApp::quoting("1").await;
    let usable = async || {
        let page = app.get("/metrics").send().await.text;
        let value = |line: &str| {
            line.strip_prefix("prs_rate_usable{pair=\"USDC/USD\"} ")
                .map(str::to_owned)
        };
        page.lines().find_map(value)
    };
    assert_eq!(usable().await.as_deref(), Some("1"));
    feed.fails(500);
    app.pass(3_600).await;
    app.read_rates().await;
    assert_eq!(usable().await.as_deref(), Some("0"));
}
