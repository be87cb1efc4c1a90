//! Rate limits of credentials and addresses.

use crate::support::{Answer, TestApp, app::PAGE, lines::Lines, session::sign_in, wallet::TestWallet};
use poem::http::HeaderValue;
use prs::{
    domain::{ids::PlatformId, quota::Tier},
    flows,
};
use serde_json::json;

async fn limited() -> TestApp {
    let mut settings = crate::support::app::settings();
    settings.rate_limits.factor_outside_production = 1;
    TestApp::limited(settings, None).await
}

/// Creates a tenant with a rate limit tier; returns its id and its API key.
async fn tenant(app: &TestApp, tier: Option<Tier>) -> (PlatformId, String) {
    let platform = flows::platforms::create::run(&app.ctx, "Limited").await.unwrap();
    let new = flows::keys::create(&app.ctx, &platform, None).await.unwrap();
    if let Some(tier) = tier {
        let set = flows::platforms::rate_tier::set(&app.ctx, &platform, None, tier);
        set.await.unwrap();
    }
    (platform, new.key.reveal().to_owned())
}

async fn list(app: &TestApp, key: &str) -> Answer {
    app.get("/v2/currencies").header("x-api-key", key).send().await
}

fn number(answer: &Answer, header: &str) -> u64 {
    let text = answer
        .header(header)
        .unwrap_or_else(|| panic!("{header} in {:?}", answer.headers));
    text.parse().unwrap()
}

#[tokio::test]
async fn each_tier_has_its_own_limit_and_resumes_after_retry_after() {
    let app = limited().await;
    for (tier, per_minute) in [
        (Some(Tier::Basic), 120),
        (None, 300),
        (Some(Tier::Premium), 600),
        (Some(Tier::HighVolume), 1_200),
    ] {
        let (_, key) = tenant(&app, tier).await;
        let burst = per_minute / 6;
        for left in (0..burst).rev() {
            let answer = list(&app, &key).await;
            assert_eq!(answer.status, 200, "{tier:?}");
            assert_eq!(number(&answer, "ratelimit-limit"), per_minute);
            assert_eq!(number(&answer, "ratelimit-remaining"), left);
            // The burst is a sixth of a minute's quota, so it is fully refilled in ten seconds.
            assert_eq!(
                number(&answer, "ratelimit-reset"),
                ((burst - left) * 60).div_ceil(per_minute)
            );
        }
        let refused = list(&app, &key).await;
        let body = refused.expect(429);
        assert_eq!(body["message"], "Too many requests");
        assert_eq!(body["error"], "Too Many Requests");
        assert_eq!(number(&refused, "ratelimit-remaining"), 0);
        assert_eq!(number(&refused, "ratelimit-reset"), 10);
        let wait_s = number(&refused, "retry-after");
        assert!((1..=2).contains(&wait_s), "{wait_s}");
        app.advance_ms(i64::try_from(wait_s).unwrap() * 1_000);
        assert_eq!(list(&app, &key).await.status, 200, "{tier:?}");
    }
}

#[tokio::test]
async fn the_tier_of_a_client_id_overrides_its_platforms_tier() {
    let app = limited().await;
    let set = |client: Option<String>, tier| {
        let (ctx, platform) = (app.ctx.clone(), app.platform.clone());
        async move { flows::platforms::rate_tier::set(&ctx, &platform, client.as_deref(), tier).await }
    };
    set(None, Tier::HighVolume).await.unwrap();
    set(Some(app.backend_client.clone()), Tier::Basic).await.unwrap();
    let by_client = app.get("/v2/currencies").with_client().send().await;
    assert_eq!(number(&by_client, "ratelimit-limit"), 120);
    assert_eq!(number(&list(&app, &app.key).await, "ratelimit-limit"), 1_200);
    let (_, other_client) = app.other_tenant().await;
    set(Some(other_client), Tier::Basic).await.unwrap_err();
}

#[tokio::test]
async fn a_sustained_breach_blocks_for_five_minutes() {
    let app = limited().await;
    let (_, key) = tenant(&app, Some(Tier::Basic)).await;
    for _ in 0..20 {
        assert_eq!(list(&app, &key).await.status, 200);
    }
    for _ in 0..119 {
        let answer = list(&app, &key).await;
        assert_eq!((answer.status, number(&answer, "retry-after")), (429, 1));
    }
    assert_eq!(number(&list(&app, &key).await, "retry-after"), 300);
    app.advance_ms(299_000);
    assert_eq!(number(&list(&app, &key).await, "retry-after"), 1);
    app.advance_ms(1_000);
    assert_eq!(list(&app, &key).await.status, 200);
    assert_eq!(list(&app, &app.key).await.status, 200, "another credential");
}

#[tokio::test]
async fn credential_guessing_is_blocked_while_valid_ones_still_work() {
    let app = limited().await;
    for guess in 0..10 {
        assert_eq!(list(&app, &format!("sk_guess{guess}")).await.status, 401);
    }
    assert_eq!(list(&app, "sk_guess").await.status, 429);
    let by_client = app
        .get("/v2/currencies")
        .header("x-client-id", "cli_guess")
        .send()
        .await;
    assert_eq!(by_client.status, 429);
    assert_eq!(list(&app, &app.key).await.status, 200);
}

#[tokio::test]
async fn guesses_from_an_address_do_not_block_its_valid_credentials() {
    let app = limited().await;
    // Another instance created the key, and this one has never seen it.
    let elsewhere = flows::auth::identify::draw_key(&app.ctx, (&app.platform).into(), None).unwrap();
    prs::store::keys::insert(app.ctx.db.writer(), &elsewhere.row)
        .await
        .unwrap();
    // Of 70 calls with unknown keys, ten return 401. The other sixty, a whole minute's quota, then block the address.
    for guess in 0..70 {
        list(&app, &format!("sk_guess{guess}")).await;
    }
    let refused = list(&app, "sk_guess").await;
    refused.expect(429);
    assert_eq!(number(&refused, "retry-after"), 300);
    assert_eq!(list(&app, elsewhere.key.reveal()).await.status, 200);
    assert_eq!(list(&app, &app.key).await.status, 200);
    let session = sign_in(&app, &TestWallet::new(7)).await;
    let signed_in = app
        .get("/v1/api-keys")
        .header("cookie", &format!("session_token={session}"));
    assert_eq!(signed_in.send().await.status, 200);
    let beside = app.get("/v2/currencies").with_key().header("x-client-id", "cli_guess");
    assert_eq!(
        beside.send().await.status,
        429,
        "a guess next to a valid key is a guess"
    );
}

#[tokio::test]
async fn unknown_keys_are_cached_for_seconds_without_blocking_new_keys() {
    let app = limited().await;
    let new = flows::auth::identify::draw_key(&app.ctx, (&app.platform).into(), None).unwrap();
    let text = new.key.reveal().to_owned();
    assert_eq!(list(&app, &text).await.status, 401);
    // Another instance creates a key with this text, of which this instance is not notified.
    prs::store::keys::insert(app.ctx.db.writer(), &new.row).await.unwrap();
    assert_eq!(list(&app, &text).await.status, 401, "the cached result is used");
    app.advance_ms(5_000);
    assert_eq!(list(&app, &text).await.status, 200);
    // A change on this instance clears the cache at once.
    let other = flows::auth::identify::draw_key(&app.ctx, (&app.platform).into(), None).unwrap();
    assert_eq!(list(&app, other.key.reveal()).await.status, 401);
    prs::store::keys::insert(app.ctx.db.writer(), &other.row).await.unwrap();
    flows::auth::identify::forget(&app.ctx);
    assert_eq!(list(&app, other.key.reveal()).await.status, 200);
}

#[tokio::test]
async fn a_client_id_sent_as_a_key_still_works_in_its_own_header() {
    let app = TestApp::start().await;
    let client = app.page_client.clone();
    for header in ["x-api-key", "x-orchestrator-key"] {
        assert_eq!(app.get("/v2/payments").header(header, &client).send().await.status, 401);
        let own = app.get("/v2/currencies").header("x-client-id", &client);
        own.header("origin", crate::support::app::PAGE).send().await.expect(200);
    }
    let key = app.get("/v2/payments").header("x-client-id", &app.key);
    assert_eq!(key.send().await.status, 401);
    assert_eq!(list(&app, &app.key).await.status, 200);
}

/// Calls until the first refusal, at most twenty times; returns the number of successful calls.
async fn until_refused(app: &TestApp, header: &str, credential: &str) -> usize {
    for answered in 0..20 {
        let call = app.get("/v2/currencies").header("origin", "https://shop.example.com");
        let call = call.header(header, credential).send().await;
        if call.status != 200 {
            call.expect(429);
            return answered;
        }
    }
    20
}

#[tokio::test]
async fn twenty_keys_of_a_platform_share_four_quotas() {
    let app = limited().await;
    let (platform, _) = tenant(&app, Some(Tier::Basic)).await;
    let mut answered = 0;
    for _ in 0..20 {
        let new = flows::keys::create(&app.ctx, &platform, None).await.unwrap();
        answered += until_refused(&app, "x-api-key", new.key.reveal()).await;
    }
    assert_eq!(answered, 4 * 20);
    let (_, other) = tenant(&app, Some(Tier::Basic)).await;
    assert_eq!(until_refused(&app, "x-api-key", &other).await, 20, "another platform");
    app.advance_ms(60_000);
    let new = flows::keys::create(&app.ctx, &platform, None).await.unwrap();
    assert_eq!(until_refused(&app, "x-api-key", new.key.reveal()).await, 20);
}

#[tokio::test]
async fn headers_show_the_tighter_limit_and_platform_refusals_cost_no_quota() {
    let mut settings = crate::support::app::settings();
    settings.rate_limits.factor_outside_production = 1;
    settings.rate_limits.platform_factor = 2;
    let app = TestApp::limited(settings, None).await;
    let (platform, first) = tenant(&app, Some(Tier::Basic)).await;
    let more = async || {
        let new = flows::keys::create(&app.ctx, &platform, None).await.unwrap();
        new.key.reveal().to_owned()
    };
    let (second, third) = (more().await, more().await);
    // The platform has a burst of forty calls, and each key a burst of twenty.
    for (key, calls) in [(&first, 20), (&second, 16)] {
        for _ in 0..calls {
            list(&app, key).await.expect(200);
        }
    }
    let shown = |answer: &Answer| {
        ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"].map(|header| number(answer, header))
    };
    for left in (0..4).rev() {
        let reset_s = if left == 0 { 10 } else { 10 - left / 4 };
        let answer = list(&app, &third).await;
        assert_eq!((answer.status, shown(&answer)), (200, [240, left, reset_s]));
    }
    for _ in 0..30 {
        let refused = list(&app, &third).await;
        assert_eq!((refused.status, shown(&refused)), (429, [240, 0, 10]));
        assert_eq!(number(&refused, "retry-after"), 1);
    }
    app.advance_ms(1_000);
    // The platform has four more calls; the key has eighteen of its twenty.
    assert_eq!(shown(&list(&app, &third).await), [240, 3, 10]);
}

#[tokio::test]
async fn rate_limit_headers_stay_within_the_documented_range() {
    let mut settings = crate::support::app::settings();
    settings.rate_limits.default_per_minute = 100_000_000;
    settings.rate_limits.platform_factor = 1_000;
    let app = TestApp::limited(settings, None).await;
    let answer = list(&app, &app.key).await;
    answer.expect(200);
    for header in ["ratelimit-limit", "ratelimit-remaining"] {
        assert_eq!(number(&answer, header), 1_000_000, "{header}");
    }
}

#[tokio::test]
async fn twenty_client_ids_at_one_address_share_four_quotas() {
    let app = limited().await;
    flows::platforms::rate_tier::set(&app.ctx, &app.platform, None, Tier::Basic)
        .await
        .unwrap();
    let mut answered = 0;
    for _ in 0..6 {
        let new = app.shop_client(&json!({ "label": "One more" })).await;
        answered += until_refused(&app, "x-client-id", new["clientId"].as_str().unwrap()).await;
    }
    assert_eq!(answered, 4 * 20);
    // Strangers use client IDs and must not use up the quota of the platform's keys.
    assert_eq!(list(&app, &app.key).await.status, 200);
}

#[tokio::test]
async fn calls_refused_with_403_are_metered_like_others() {
    let app = limited().await;
    let (_, key) = tenant(&app, Some(Tier::Basic)).await;
    let session = sign_in(&app, &TestWallet::new(7)).await;
    // A valid credential in the header of another scheme counts against the quota of that credential.
    let misplaced = || app.get("/v1/api-keys").header("x-api-key", &key).send();
    for left in (0..20).rev() {
        let answer = misplaced().await;
        assert_eq!(answer.status, 403);
        assert_eq!(
            (
                number(&answer, "ratelimit-limit"),
                number(&answer, "ratelimit-remaining")
            ),
            (120, left)
        );
    }
    assert_eq!(misplaced().await.status, 429);
    assert_eq!(list(&app, &key).await.status, 429, "one quota for both");
    // The client ID is valid only on the pages of other origins. A call with it counts as a guess, because its origin
    // is none of these.
    for call in 0..10 {
        let foreign = match call % 2 {
            0 => app.get("/v2/currencies").header("x-client-id", &app.page_client),
            _ => app
                .post("/v1/api-keys")
                .header("cookie", &format!("session_token={session}"))
                .json(&json!({})),
        };
        let answer = foreign.header("origin", "https://evil.example").send().await;
        assert_eq!(answer.status, 403, "{call}");
        assert_eq!(number(&answer, "ratelimit-limit"), 60);
    }
    let foreign = app.get("/v2/currencies").header("x-client-id", &app.page_client);
    let foreign = foreign.header("origin", "https://evil.example").send().await;
    assert_eq!(foreign.status, 429);
    let own = app.get("/v2/currencies").header("x-client-id", &app.page_client);
    assert_eq!(own.header("origin", PAGE).send().await.status, 200);
}

#[tokio::test]
async fn limits_apply_per_address_and_only_trusted_proxies_name_one() {
    let mut settings = crate::support::app::settings();
    settings.rate_limits.factor_outside_production = 1;
    settings.rate_limits.trusted_proxies = vec!["127.0.0.9".to_owned()];
    let app = TestApp::limited(settings, None).await;
    let (_, key) = tenant(&app, Some(Tier::Basic)).await;
    let address = app.listen().await;
    let call = |from: &'static str, forwarded: Option<&'static str>| {
        let (key, url) = (key.clone(), format!("http://{address}/v2/currencies"));
        async move {
            let from: std::net::IpAddr = from.parse().unwrap();
            let client = reqwest::Client::builder()
                .no_proxy()
                .local_address(from)
                .build()
                .unwrap();
            let mut request = client.get(url).header("x-api-key", key);
            if let Some(forwarded) = forwarded {
                request = request.header("x-forwarded-for", forwarded);
            }
            request.send().await.unwrap().status().as_u16()
        }
    };
    for _ in 0..20 {
        assert_eq!(call("127.0.0.1", None).await, 200);
    }
    assert_eq!(call("127.0.0.1", None).await, 429);
    assert_eq!(call("127.0.0.2", None).await, 200);
    assert_eq!(
        call("127.0.0.1", Some("203.0.113.7")).await,
        429,
        "that address is not a trusted proxy"
    );
    assert_eq!(call("127.0.0.9", Some("203.0.113.7")).await, 200);
    assert_eq!(
        call("127.0.0.9", Some("127.0.0.2, 127.0.0.1")).await,
        429,
        "the nearest entry counts"
    );
}

#[tokio::test]
async fn callers_behind_a_proxy_are_distinguished_in_every_notation() {
    let mut settings = crate::support::app::settings();
    settings.rate_limits.factor_outside_production = 1;
    settings.rate_limits.trusted_proxies = vec!["127.0.0.0/8".to_owned()];
    let app = TestApp::limited(settings, None).await;
    let address = app.listen().await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let guess = |forwarded: String| {
        let call = client.get(format!("http://{address}/v2/currencies"));
        let call = call
            .header("x-api-key", "sk_guess")
            .header("x-forwarded-for", forwarded);
        async move { call.send().await.unwrap().status().as_u16() }
    };
    for (number, (written, again)) in [
        ("203.0.113.{n}:5678", "203.0.113.{n}:9012"),
        ("[2001:db8:{n}::1]:443", "[2001:db8:{n}::1]:444"),
        ("[2001:db8:{n}::1]", "2001:db8:{n}::2"),
        ("\"203.0.113.{n}\"", "\"203.0.113.{n}:80\""),
        ("198.51.100.1, 203.0.113.{n}:80", "203.0.113.{n}"),
    ]
    .into_iter()
    .enumerate()
    {
        let of = |text: &str, caller: usize| text.replace("{n}", &(10 + 2 * number + caller).to_string());
        for _ in 0..10 {
            assert_eq!(guess(of(written, 0)).await, 401, "{written}");
        }
        assert_eq!(guess(of(again, 0)).await, 429, "{again}: the same caller");
        assert_eq!(guess(of(written, 1)).await, 401, "{written}: another one");
    }
    // The author of a line before an unreadable line is unknown.
    let unreadable = HeaderValue::from_bytes(b"\xff, 203.0.113.98").unwrap();
    for _ in 0..11 {
        let call = client.get(format!("http://{address}/v2/currencies"));
        let call = call
            .header("x-api-key", "sk_guess")
            .header("x-forwarded-for", "203.0.113.99")
            .header("x-forwarded-for", unreadable.clone());
        call.send().await.unwrap();
    }
    assert_eq!(
        guess("203.0.113.99".to_owned()).await,
        401,
        "the address came from an untrusted source"
    );
}

#[tokio::test]
async fn an_ignored_proxy_header_is_logged_once() {
    let (lines, _listening) = Lines::listen();
    let app = limited().await;
    let address = app.listen().await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for _ in 0..3 {
        let call = client.get(format!("http://{address}/health/live"));
        call.header("x-forwarded-for", "203.0.113.7").send().await.unwrap();
    }
    let text = lines.text();
    assert_eq!(text.matches("x-forwarded-for was ignored").count(), 1, "{text}");
    assert!(text.contains("rate_limits.trusted_proxies"), "{text}");
}

#[tokio::test]
async fn pages_and_health_are_not_limited() {
    let app = limited().await;
    for _ in 0..400 {
        assert_eq!(app.get("/health/live").send().await.status, 200);
    }
    assert_eq!(app.get("/openapi/v2.json").send().await.header("ratelimit-limit"), None);
}
