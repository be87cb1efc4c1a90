//! Sign-in with e-mail and password.

use crate::{
    sessions::{caller, token},
    support::{Answer, TestApp, session::sign_in, wallet::TestWallet},
};
use futures_util::future::join_all;
use poem::http::Method;
use prs::domain::caller::{Credential, SignedInPerson};
use serde_json::{Value, json};

const DAY_MS: i64 = 86_400_000;

fn body(email: &str, password: &str) -> Value {
    json!({ "email": email, "password": password })
}

async fn register(app: &TestApp, email: &str, password: &str) -> Answer {
    app.post("/v1/auth/register").json(&body(email, password)).send().await
}

async fn login(app: &TestApp, email: &str, password: &str) -> Answer {
    app.post("/v1/auth/login").json(&body(email, password)).send().await
}

#[tokio::test]
async fn accounts_own_a_platform_and_stay_signed_in_for_thirty_days() {
    let app = TestApp::start().await;
    let answer = register(&app, "Ada@Example.com", "correct horse").await;
    let created = answer.expect(201);
    assert_eq!(created["email"], "ada@example.com");
    let first = token(&answer);
    assert_eq!(
        answer.header("set-cookie").expect("a cookie"),
        format!("session_token={first}; HttpOnly; Secure; SameSite=Lax; Path=/; Max-Age=2592000")
    );
    let owner = caller(&app, &first).await;
    assert_eq!(owner.wallet(), None);
    assert_ne!(owner.platform, app.platform);
    let Credential::Session {
        person: SignedInPerson::Account(account),
        ..
    } = &owner.credential
    else {
        panic!("{owner:?} is not an account");
    };
    assert_eq!(created["id"], account.as_str());
    let again = login(&app, "ada@example.com", "correct horse").await;
    assert_eq!(again.expect(200), created);
    assert_ne!(token(&again), first);
    assert_eq!(caller(&app, &token(&again)).await.platform, owner.platform);
    let read = || async {
        let cookie = format!("session_token={first}");
        app.get("/v2/request").header("cookie", &cookie).send().await.status
    };
    for _ in 0..4 {
        app.advance_ms(7 * DAY_MS - 1);
        assert_eq!(read().await, 200);
    }
    app.advance_ms(2 * DAY_MS + 3);
    assert_eq!(read().await, 200, "a millisecond before expiry");
    app.advance_ms(1);
    assert_eq!(read().await, 401);
}

#[tokio::test]
async fn account_sessions_expire_after_seven_days_without_use() {
    let app = TestApp::start().await;
    let token = token(&register(&app, "ada@example.com", "correct horse").await);
    let bearer = format!("Bearer {token}");
    app.advance_ms(7 * DAY_MS);
    let late = app.get("/v2/request").header("authorization", &bearer).send().await;
    late.expect(401);
}

#[tokio::test]
async fn the_most_common_passwords_are_refused() {
    let app = TestApp::start().await;
    for common in ["sunshine", "12345678", "Princess", "iloveyou", "11111111"] {
        let answer = register(&app, "ada@example.com", common).await;
        answer.expect(400);
        assert_eq!(answer.wrong_fields(), ["password"], "{common}");
    }
    let session = token(&register(&app, "ada@example.com", "correct horse").await);
    let answer = change(&app, &session, "correct horse", "sunshine").await;
    answer.expect(400);
    assert_eq!(answer.wrong_fields(), ["newPassword"]);
}

async fn change(app: &TestApp, session: &str, current: &str, new: &str) -> Answer {
    let call = app
        .post("/v1/auth/password")
        .header("authorization", &format!("Bearer {session}"));
    let body = json!({ "currentPassword": current, "newPassword": new });
    call.json(&body).send().await
}

async fn sessions(app: &TestApp, session: &str) -> Answer {
    let call = app.get("/v1/auth/sessions");
    call.header("authorization", &format!("Bearer {session}")).send().await
}

async fn end(app: &TestApp, session: &str, path: &str) -> Answer {
    let call = app.call(Method::DELETE, &format!("/v1/auth/sessions{path}"));
    call.header("authorization", &format!("Bearer {session}")).send().await
}

#[tokio::test]
async fn a_password_change_applies_at_once_and_ends_all_other_sessions() {
    let app = TestApp::start().await;
    let first = token(&register(&app, "ada@example.com", "correct horse").await);
    let other = token(&login(&app, "ada@example.com", "correct horse").await);
    let bobs = token(&register(&app, "bob@example.com", "battery staple").await);
    for (current, new, field) in [
        ("wrong horse", "another one", "currentPassword"),
        ("correct horse", "correct horse", "newPassword"),
        ("correct horse", "short", "newPassword"),
    ] {
        let answer = change(&app, &first, current, new).await;
        answer.expect(400);
        assert_eq!(answer.wrong_fields(), [field], "{current} {new}");
    }
    sessions(&app, &other).await.expect(200);
    let changed = change(&app, &first, "correct horse", "another one").await;
    assert_eq!(changed.expect(200), json!({ "success": true }));
    login(&app, "ada@example.com", "correct horse").await.expect(401);
    sessions(&app, &other).await.expect(401);
    sessions(&app, &first).await.expect(200);
    sessions(&app, &bobs).await.expect(200);
    login(&app, "ada@example.com", "another one").await.expect(200);
}

#[tokio::test]
async fn sign_ins_concurrent_with_a_password_change_leave_no_session() {
    let app = TestApp::start().await;
    for round in 0..3 {
        let email = format!("ada{round}@example.com");
        let session = token(&register(&app, &email, "correct horse").await);
        let logins = join_all((0..4).map(|_| login(&app, &email, "correct horse")));
        let (changed, logins) = tokio::join!(change(&app, &session, "correct horse", "another one"), logins);
        changed.expect(200);
        for login in logins.iter().filter(|login| login.status == 200) {
            sessions(&app, &token(login)).await.expect(401);
        }
        sessions(&app, &session).await.expect(200);
    }
}

#[tokio::test]
async fn password_guesses_with_a_session_are_throttled_like_sign_ins() {
    let app = TestApp::start().await;
    let session = token(&register(&app, "ada@example.com", "correct horse").await);
    let mut statuses = Vec::new();
    for _ in 0..6 {
        statuses.push(change(&app, &session, "wrong horse", "another one").await.status);
    }
    assert_eq!(statuses, [400, 400, 400, 400, 400, 429]);
    change(&app, &session, "correct horse", "another one").await.expect(429);
}

#[tokio::test]
async fn a_user_lists_and_ends_only_their_own_sessions() {
    let app = TestApp::start().await;
    let first = token(&register(&app, "ada@example.com", "correct horse").await);
    app.advance_ms(1_000);
    let second = token(&login(&app, "ada@example.com", "correct horse").await);
    app.advance_ms(1_000);
    let third = token(&login(&app, "ada@example.com", "correct horse").await);
    let bobs = token(&register(&app, "bob@example.com", "battery staple").await);
    let listed = sessions(&app, &second).await.expect(200)["sessions"].clone();
    let current: Vec<&Value> = listed
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| &one["isCurrent"])
        .collect();
    assert_eq!(current, [false, true, false]);
    let newest = format!("/{}", listed[0]["id"].as_str().expect("text"));
    end(&app, &bobs, &newest).await.expect(404);
    sessions(&app, &third).await.expect(200);
    assert_eq!(end(&app, &first, &newest).await.expect(200), json!({ "success": true }));
    sessions(&app, &third).await.expect(401);
    end(&app, &first, &newest).await.expect(404);
    let all = end(&app, &first, "").await;
    all.expect(200);
    assert!(
        all.header("set-cookie")
            .is_some_and(|cookie| cookie.contains("Max-Age=0"))
    );
    sessions(&app, &first).await.expect(401);
    sessions(&app, &second).await.expect(401);
    assert_eq!(
        sessions(&app, &bobs).await.expect(200)["sessions"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[tokio::test]
async fn a_wallet_user_has_sessions_but_no_password() {
    let app = TestApp::start().await;
    let session = sign_in(&app, &TestWallet::new(7)).await;
    change(&app, &session, "correct horse", "another one").await.expect(403);
    assert_eq!(
        sessions(&app, &session).await.expect(200)["sessions"][0]["isCurrent"],
        true
    );
    end(&app, &session, "").await.expect(200);
    sessions(&app, &session).await.expect(401);
}

#[tokio::test]
async fn concurrent_registrations_of_an_email_create_one_account() {
    let app = TestApp::start().await;
    let calls = (0..8).map(|_| register(&app, "ada@example.com", "correct horse"));
    let mut statuses: Vec<u16> = futures_util::future::join_all(calls)
        .await
        .iter()
        .map(|answer| answer.status)
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409, 409, 409, 409]);
    register(&app, "ADA@example.com", "another one").await.expect(409);
    login(&app, "ada@example.com", "another one").await.expect(401);
}

#[tokio::test]
async fn invalid_input_names_its_field() {
    let app = TestApp::start().await;
    for (email, password, field) in [
        ("ada@example.com", "7777777", "password"),
        ("ada@example.com", &"x".repeat(101), "password"),
        ("ada", "correct horse", "email"),
        ("a da@example.com", "correct horse", "email"),
    ] {
        let answer = register(&app, email, password).await;
        answer.expect(400);
        assert_eq!(answer.wrong_fields(), [field], "{email} {password}");
    }
    register(&app, "ada@example.com", "zürçêñöþ").await.expect(201);
    register(&app, "bob@example.com", &"zürç".repeat(25)).await.expect(201);
}

#[tokio::test]
async fn sign_in_does_not_reveal_which_emails_have_accounts() {
    let app = TestApp::start().await;
    register(&app, "ada@example.com", "correct horse").await.expect(201);
    let mut answers = Vec::new();
    for email in ["ada@example.com", "nobody@example.com"] {
        let mut seen = Vec::new();
        for _ in 0..7 {
            let answer = login(&app, email, "wrong horse").await;
            let mut told = answer.json();
            told["requestId"] = Value::Null;
            let wait = answer.header("retry-after").map(str::to_owned);
            seen.push((answer.status, wait, told));
        }
        answers.push(seen);
    }
    assert_eq!(answers[0], answers[1]);
    let statuses: Vec<u16> = answers[0].iter().map(|(status, ..)| *status).collect();
    assert_eq!(statuses, [401, 401, 401, 401, 401, 429, 429]);
    assert_eq!(answers[0][6].1.as_deref(), Some("1"));
}

#[tokio::test]
async fn password_guess_delays_grow_and_a_success_resets_them() {
    let app = TestApp::start().await;
    register(&app, "ada@example.com", "correct horse").await.expect(201);
    for _ in 0..5 {
        login(&app, "ada@example.com", "wrong horse").await.expect(401);
    }
    // The right password waits too; otherwise a delay would reveal that a guess is wrong.
    login(&app, "ada@example.com", "correct horse").await.expect(429);
    for wait_s in [1, 2, 4] {
        let refused = login(&app, "ada@example.com", "wrong horse").await;
        refused.expect(429);
        assert_eq!(refused.header("retry-after"), Some(wait_s.to_string().as_str()));
        app.advance_ms(wait_s * 1_000);
        login(&app, "ada@example.com", "wrong horse").await.expect(401);
    }
    // Another account is not delayed.
    login(&app, "bob@example.com", "wrong horse").await.expect(401);
    app.advance_ms(8_000);
    login(&app, "ada@example.com", "correct horse").await.expect(200);
    login(&app, "ada@example.com", "wrong horse").await.expect(401);
}

#[tokio::test]
async fn concurrent_password_guesses_share_one_limit() {
    let app = TestApp::start().await;
    register(&app, "ada@example.com", "correct horse").await.expect(201);
    let calls = (0..30).map(|_| login(&app, "ada@example.com", "wrong horse"));
    let answers = futures_util::future::join_all(calls).await;
    let looked_at = answers.iter().filter(|answer| answer.status == 401).count();
    assert_eq!(looked_at, 5);
}
