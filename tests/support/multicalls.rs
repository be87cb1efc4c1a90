//! Helpers to create, read and block multicalls.

use super::{
    Answer, TestApp,
    links::{payout_of, token_of},
    screening::Providers,
};
use prs::domain::screening::SandboxAnswer;
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};

/// A link that a test names as a child of a multicall.
#[derive(Debug, Clone)]
pub struct ChildLink {
    /// Its token.
    pub token: String,
    /// The id of its first request.
    pub request: String,
}

impl ChildLink {
    /// Reads the response about a created link.
    pub fn read(made: &Value) -> Self {
        Self {
            token: token_of(made),
            request: made["requestIds"][0].as_str().expect("an id").to_owned(),
        }
    }
}

/// The body of a multicall with these children.
pub fn multicall_of(children: &[&ChildLink]) -> Value {
    let tokens: Vec<&str> = children.iter().map(|child| child.token.as_str()).collect();
    json!({ "childTokens": tokens })
}

/// Why the children of a multicall cannot be paid, in order; `-` for a child that can be paid.
pub fn block_reasons(multicall: &Value) -> Vec<&str> {
    let children = multicall["children"].as_array().expect("children").iter();
    let reasons = children.map(|child| {
        let reason = child["blockReason"].as_str();
        assert_eq!(child["executable"], reason.is_none(), "{child}");
        reason.unwrap_or("-")
    });
    reasons.collect()
}

impl TestApp {
    /// Creates a payout link with the API key.
    pub async fn child_link(&self, body: &Value) -> ChildLink {
        ChildLink::read(&self.payout_link(body).await.expect(201))
    }

    /// Sends the body of a multicall with the API key.
    pub async fn post_multicall(&self, body: &Value) -> Answer {
        let call = self.post("/v2/secure-payments/multicall-payouts").with_key();
        call.json(body).send().await
    }

    /// Creates a multicall with the API key; returns its token.
    pub async fn multicall(&self, children: &[&ChildLink]) -> String {
        token_of(&self.post_multicall(&multicall_of(children)).await.expect(201))
    }

    /// Reads a multicall with a session.
    pub async fn read_multicall(&self, session: &str, token: &str) -> Answer {
        let call = self.get(&format!("/v2/secure-payments/multicall-payouts/{token}"));
        call.header("authorization", session).send().await
    }

    /// Combines payout links with the API key.
    pub async fn combine_links(&self, children: &[&ChildLink]) -> Answer {
        let tokens: Vec<&str> = children.iter().map(|child| child.token.as_str()).collect();
        let call = self.post("/v2/secure-payments/batch-payouts").with_key();
        call.json(&json!({ "tokens": tokens })).send().await
    }

    /// Withdraws a link with the API key.
    pub async fn withdraw_link(&self, token: &str) -> Answer {
        let path = format!("/v2/secure-payments/{token}/withdraw");
        self.post(&path).with_key().send().await
    }

    /// Reports a payment of a link with the API key.
    pub async fn report_payment(&self, token: &str, body: &Value) -> Answer {
        let path = format!("/v2/secure-payments/{token}/intent");
        self.post(&path).with_key().json(body).send().await
    }

    /// Creates a payout link whose recipient fails screening. The response is a 403 without the token, so the link is
    /// read from the database.
    pub async fn refused_link(&self, providers: &Providers, recipient: &str, lasts_s: Option<i64>) -> ChildLink {
        providers.answer(recipient, None, SandboxAnswer::Rejected);
        let mut body = payout_of(recipient, "5");
        if let Some(lasts_s) = lasts_s {
            body["expiresIn"] = json!(lasts_s);
        }
        body["accessPolicy"] = json!({ "mode": "kyt_all_wallets", "screeningProvider": "hypernative" });
        self.payout_link(&body).await.expect(403);
        let reader = self.ctx.db.reader();
        let newest = "SELECT token, request_id FROM secure_payments JOIN secure_payment_items \
                      ON secure_payments.id = secure_payment_id WHERE status = 'compliance_failed' \
                      ORDER BY secure_payments.id DESC LIMIT 1";
        let newest = Statement::from_string(reader.get_database_backend(), newest);
        let row = reader.query_one_raw(newest).await.expect("reads").expect("a link");
        let text = |name: &str| row.try_get::<String>("", name).expect("text");
        ChildLink {
            token: text("token"),
            request: text("request_id"),
        }
    }

    /// Runs a statement that changes the database.
    pub async fn change_rows(&self, statement: &str) {
        self.ctx
            .db
            .writer()
            .execute_unprepared(statement)
            .await
            .expect("written");
    }
}
