//! API keys managed by their owner.

use crate::support::{
    TestApp,
    wallet::{TestWallet, session},
};
use prs::{
    domain::{
        caller::SignedInPerson,
        ids::{AccountId, KeyId, PlatformId, Secret},
        refusal::RefusalKind,
    },
    flows::{
        FlowError,
        idempotency::{IdempotentCall, KeyedResult, RepeatableCall},
        keys::{self, NewKey, OVERLAP_MAX_S},
    },
};

async fn status(app: &TestApp, key: &Secret) -> u16 {
    let call = app.get("/v2/currencies").header("x-api-key", key.reveal());
    call.send().await.status
}

async fn issue(app: &TestApp, label: Option<&str>) -> NewKey {
    let caller = session(&app.platform, SignedInPerson::Account(AccountId("account".to_owned())));
    match keys::issue(&app.ctx, &caller, label, RepeatableCall::unkeyed()).await {
        Ok(KeyedResult::Fresh(new)) => new,
        other => panic!("{other:?}"),
    }
}

fn kind(error: &FlowError) -> RefusalKind {
    match error {
        FlowError::Refused(refusal) => refusal.kind,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn keys_are_listed_without_their_secret() {
    let app = TestApp::start().await;
    let new = issue(&app, Some("Shop server")).await;
    assert!(new.key.reveal().starts_with("sk_") && new.key.reveal().len() == 46);
    assert_eq!(status(&app, &new.key).await, 200);
    let listed = keys::list(&app.ctx, &app.platform).await.expect("a list");
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0].id, new.row.id);
    assert_eq!(listed[0].label.as_deref(), Some("Shop server"));
    assert!(listed[0].last_used_at.is_some() && listed[0].revoked_at.is_none());
    assert!(!format!("{listed:?}").contains(new.key.reveal()));
    assert!(new.key.reveal().starts_with(&listed[0].hint) && listed[0].hint.len() == 8);
    let other = PlatformId("other".to_owned());
    assert!(keys::list(&app.ctx, &other).await.expect("a list").is_empty());
}

#[tokio::test]
async fn a_rotated_key_ends_immediately_or_after_the_overlap() {
    let app = TestApp::start().await;
    let first = issue(&app, Some("Shop server")).await;
    assert_eq!(status(&app, &first.key).await, 200);
    let second = keys::rotate(&app.ctx, &app.platform, &first.row.id, 0)
        .await
        .expect("a key");
    assert_eq!(second.row.label.as_deref(), Some("Shop server"));
    assert_eq!(
        (status(&app, &first.key).await, status(&app, &second.key).await),
        (401, 200)
    );
    let third = keys::rotate(&app.ctx, &app.platform, &second.row.id, 60)
        .await
        .expect("a key");
    assert_eq!(
        (status(&app, &second.key).await, status(&app, &third.key).await),
        (200, 200)
    );
    app.advance_ms(59_999);
    assert_eq!(status(&app, &second.key).await, 200);
    app.advance_ms(1);
    assert_eq!(
        (status(&app, &second.key).await, status(&app, &third.key).await),
        (401, 200)
    );
    let again = keys::rotate(&app.ctx, &app.platform, &second.row.id, 0).await;
    assert_eq!(kind(&again.unwrap_err()), RefusalKind::NotFound);
}

#[tokio::test]
async fn a_revoked_key_is_rejected_on_the_next_call() {
    let app = TestApp::start().await;
    let new = issue(&app, None).await;
    assert_eq!(status(&app, &new.key).await, 200);
    let stranger = PlatformId("other".to_owned());
    for (platform, id) in [(&stranger, &new.row.id), (&app.platform, &KeyId("nothing".to_owned()))] {
        let refused = keys::revoke(&app.ctx, platform, id).await.unwrap_err();
        assert_eq!(kind(&refused), RefusalKind::NotFound);
        let refused = keys::rotate(&app.ctx, platform, id, 0).await.unwrap_err();
        assert_eq!(kind(&refused), RefusalKind::NotFound);
    }
    assert_eq!(status(&app, &new.key).await, 200);
    for _ in 0..2 {
        keys::revoke(&app.ctx, &app.platform, &new.row.id)
            .await
            .expect("revoked");
        assert_eq!(status(&app, &new.key).await, 401);
    }
    let overlapping = issue(&app, None).await;
    keys::rotate(&app.ctx, &app.platform, &overlapping.row.id, 600)
        .await
        .expect("a key");
    assert_eq!(status(&app, &overlapping.key).await, 200);
    keys::revoke(&app.ctx, &app.platform, &overlapping.row.id)
        .await
        .expect("revoked");
    assert_eq!(status(&app, &overlapping.key).await, 401);
}

#[tokio::test]
async fn invalid_input_names_its_field() {
    let app = TestApp::start().await;
    let caller = TestWallet::new(1).session(&app.platform);
    for label in ["", "  ", &"x".repeat(101)] {
        let refused = keys::issue(&app.ctx, &caller, Some(label), RepeatableCall::unkeyed()).await;
        let FlowError::Refused(refusal) = refused.unwrap_err() else {
            panic!("a refusal")
        };
        assert_eq!(refusal.fields[0].field, "label");
    }
    let new = issue(&app, None).await;
    let refused = keys::rotate(&app.ctx, &app.platform, &new.row.id, OVERLAP_MAX_S + 1).await;
    let FlowError::Refused(refusal) = refused.unwrap_err() else {
        panic!("a refusal")
    };
    assert_eq!(refusal.fields[0].field, "overlapSeconds");
    assert_eq!(status(&app, &new.key).await, 200);
}

#[tokio::test]
async fn a_repeated_call_returns_the_same_key_and_creates_no_other() {
    let app = TestApp::start().await;
    let caller = TestWallet::new(1).session(&app.platform);
    let once = IdempotentCall {
        key: "once".to_owned(),
        operation: "createApiKey",
        body_hash: "hash".to_owned(),
    };
    let render = |new: &NewKey| new.key.reveal().to_owned();
    let first = keys::issue(&app.ctx, &caller, None, RepeatableCall::new(Some(once.clone()), render))
        .await
        .expect("a key");
    let KeyedResult::Fresh(first) = first else {
        panic!("the first call")
    };
    let again = keys::issue(&app.ctx, &caller, None, RepeatableCall::new(Some(once.clone()), render))
        .await
        .expect("an answer");
    let KeyedResult::Replayed(text) = again else {
        panic!("the second call")
    };
    assert_eq!(text, first.key.reveal());
    assert_eq!(keys::list(&app.ctx, &app.platform).await.expect("a list").len(), 2);
    let other = IdempotentCall {
        body_hash: "another body".to_owned(),
        ..once
    };
    let refused = keys::issue(&app.ctx, &caller, None, RepeatableCall::new(Some(other), render)).await;
    assert_eq!(kind(&refused.unwrap_err()), RefusalKind::Conflict);
}

#[tokio::test]
async fn a_refusal_is_printed_without_repetition() {
    let app = TestApp::start().await;
    let unknown = KeyId("01K9Z0T3G9R5M1N2P3Q4R5S6T7".to_owned());
    let refused = keys::revoke(&app.ctx, &app.platform, &unknown).await;
    let printed = format!("{:#}", anyhow::Error::new(refused.unwrap_err()));
    assert_eq!(printed, "API key not found");
}
