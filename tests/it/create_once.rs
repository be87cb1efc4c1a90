//! Calls every documented operation that accepts an `Idempotency-Key` a hundred times at once with one key.
//!
//! New operations are called automatically, with the example of their body. If the example cannot work here, the test
//! fails until [`body_of`] has another body.

use crate::{
    access::{Operation, Tenant, objects, operations, tenant},
    support::{
        Answer, TestApp,
        app::settings,
        links::{payout_of, token_of},
        off_ramp::Partner,
        requests::PAYEE,
        wallet::{token, typed_hash},
    },
};
use futures_util::future::join_all;
use poem::http::Method;
use prs::{domain::ids::ScheduleId, http::gate::scheme::Scheme, store};
use sea_orm::{ConnectionTrait, DbBackend, Statement};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const CALLS: usize = 100;

/// Two valid request bodies for an operation. The second is needed where the first body is no longer valid after any
/// single member of it is changed.
async fn body_of(
    app: &TestApp,
    owner: &Tenant,
    objects: &BTreeMap<&str, String>,
    operation: &Operation,
) -> (Value, Option<Value>) {
    let destination = |symbol| json!({ "tokenAddress": token(app, symbol), "chainId": 11_155_111 });
    match operation.row.operation {
        "createOwnDestination" => (destination("FAU-sepolia"), Some(destination("USDC-sepolia"))),
        "addPayeeDestination" => {
            let query = format!(
                "walletAddress={}&action=add&tokenAddress={}&chainId=11155111",
                owner.wallet.address(),
                token(app, "FAU-sepolia")
            );
            let data = app.get(&format!("/v2/payee-destination/signing-data?{query}"));
            let data = data.header("x-client-id", &owner.good[Scheme::ClientId.id()]);
            let data = data.send().await.expect(200);
            let signature = owner.wallet.sign(&typed_hash(&data));
            (json!({ "signature": signature, "nonce": data["nonce"] }), None)
        }
        "activateRecurringPayment" => {
            let client_id = &owner.good[Scheme::ClientId.id()];
            let client = store::client_ids::find_by_client_id(app.ctx.db.reader(), client_id).await;
            let platform = client.expect("a read").expect("a client ID").platform;
            let id = ScheduleId(objects["/v2/payouts/recurring/{id}"].clone());
            let schedule = store::schedules::find(app.ctx.db.reader(), &platform, &id).await;
            let digest = schedule.expect("a read").expect("a schedule").permit.digest();
            (json!({ "permitSignature": owner.wallet.sign(&digest) }), None)
        }
        "linkClientId" => {
            let client_id = app.another_client(&[]).await;
            let other = app.another_client(&[]).await;
            (json!({ "clientId": client_id }), Some(json!({ "clientId": other })))
        }
        name @ ("combineSecurePayouts" | "createMulticallPayout") => {
            let mut tokens = Vec::new();
            for amount in ["1", "2"] {
                let call = app.post("/v2/secure-payments/payouts");
                let call = call.header("x-api-key", &owner.good[Scheme::ApiKey.id()]);
                let made = call.json(&payout_of(PAYEE, amount)).send().await.expect(201);
                tokens.push(token_of(&made));
            }
            let list = if name == "combineSecurePayouts" {
                "tokens"
            } else {
                "childTokens"
            };
            (json!({ list: tokens }), None)
        }
        _ => (operation.example.clone(), None),
    }
}

/// The number of rows of each table.
pub async fn counts(app: &TestApp) -> BTreeMap<String, i64> {
    let reader = app.ctx.db.reader();
    let backend = reader.get_database_backend();
    let tables = match backend {
        DbBackend::Postgres => {
            "SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace \
             AND relkind IN ('r', 'p') AND NOT relispartition"
        }
        _ => "SELECT name FROM sqlite_master WHERE type = 'table'",
    };
    let tables = reader
        .query_all_raw(Statement::from_string(backend, tables))
        .await
        .expect("reads");
    let mut counts = BTreeMap::new();
    for table in tables {
        let name: String = table.try_get("", "name").expect("a name");
        let count = format!("SELECT CAST(COUNT(*) AS BIGINT) AS rows FROM \"{name}\"");
        let row = reader
            .query_one_raw(Statement::from_string(backend, count))
            .await
            .expect("reads");
        counts.insert(name, row.expect("a row").try_get("", "rows").expect("a number"));
    }
    counts
}

/// The tables that gained rows between two counts, each with the number of new rows.
pub fn added(before: &BTreeMap<String, i64>, after: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
    let added = after
        .iter()
        .map(|(table, count)| (table.clone(), count - before[table]));
    added.filter(|(_, count)| *count != 0).collect()
}

/// One operation as called by one tenant.
struct Caller<'a> {
    app: &'a TestApp,
    operation: &'a Operation,
    scheme: Scheme,
    credential: &'a str,
    path: String,
}

impl Caller<'_> {
    async fn call(&self, body: &Value) -> Answer {
        let call = self
            .app
            .call(Method::POST, &self.path)
            .header("idempotency-key", "once");
        let call = match self.scheme {
            Scheme::OrchestratorKey => call.header("x-orchestrator-key", self.credential),
            Scheme::ApiKey => call.header("x-api-key", self.credential),
            Scheme::ClientId => call.header("x-client-id", self.credential),
            Scheme::SessionBearer => call.header("authorization", &format!("Bearer {}", self.credential)),
            Scheme::Session | Scheme::Paired => panic!("{}: a Bearer token opens it too", self.operation.row.operation),
        };
        call.json(body).send().await
    }
}

/// Copies of a value, each with one member changed.
fn changed(value: &Value) -> Vec<Value> {
    match value {
        Value::Object(members) => {
            let each = members.iter().flat_map(|(name, member)| {
                changed(member).into_iter().map(move |other| {
                    let mut value = value.clone();
                    value[name] = other;
                    value
                })
            });
            each.collect()
        }
        Value::Array(items) => {
            let each = items.iter().enumerate().flat_map(|(number, item)| {
                changed(item).into_iter().map(move |other| {
                    let mut value = value.clone();
                    value[number] = other;
                    value
                })
            });
            each.collect()
        }
        Value::String(text) => {
            let mut text = text.clone();
            let last = text.pop();
            text.push(if last == Some('0') { '1' } else { '0' });
            vec![text.into()]
        }
        Value::Number(number) => number.as_i64().map(|number| json!(number - 1)).into_iter().collect(),
        Value::Bool(is_set) => vec![(!is_set).into()],
        Value::Null => Vec::new(),
    }
}

#[tokio::test]
async fn a_hundred_calls_with_one_idempotency_key_create_once() {
    let partner = Partner::start().await;
    let app = TestApp::on_chain_as(partner.settings(settings()), 1).await;
    let owners = [tenant(&app, 7).await, tenant(&app, 8).await];
    let objects = [objects(&app, &owners[0]).await, objects(&app, &owners[1]).await];
    let (mut count, mut stored) = (0, 0);
    for operation in operations().iter().filter(|operation| operation.is_keyed) {
        let name = operation.row.operation;
        assert_eq!(operation.method, Method::POST, "{name}");
        let schemes = operation.row.any_of.iter();
        let scheme = schemes
            .copied()
            .find(|scheme| *scheme != Scheme::Session)
            .expect("a credential");
        let caller = |number: usize| Caller {
            app: &app,
            operation,
            scheme,
            credential: &owners[number].good[scheme.id()],
            path: operation.address(&objects[number]),
        };
        // One call writes as many rows as a hundred calls of another tenant.
        let (body, _) = body_of(&app, &owners[0], &objects[0], operation).await;
        let before = counts(&app).await;
        let alone = caller(0).call(&body).await;
        assert!(
            (200..300).contains(&alone.status),
            "{name}: see `body_of`: {}",
            alone.text
        );
        let of_one = added(&before, &counts(&app).await);

        let caller = caller(1);
        let (body, other) = body_of(&app, &owners[1], &objects[1], operation).await;
        let before = counts(&app).await;
        let answers = join_all((0..CALLS).map(|_| caller.call(&body))).await;
        let of_all = added(&before, &counts(&app).await);
        assert_eq!(of_all, of_one, "{name}");
        assert_eq!(of_one["idempotency_keys"], 1, "{name}");
        let is_in_flight = |answer: &&Answer| answer.status == 409 && answer.text.contains("is still in progress");
        let (refused, made): (Vec<&Answer>, Vec<&Answer>) = answers.iter().partition(|answer| answer.status >= 300);
        assert!(refused.iter().all(is_in_flight), "{name}: {refused:?}");
        let texts: BTreeSet<&str> = made.iter().map(|answer| answer.text.as_str()).collect();
        assert_eq!(texts.len(), 1, "{name}: {texts:?}");
        let fresh = made
            .iter()
            .filter(|answer| answer.header("idempotency-replayed").is_none());
        assert_eq!(fresh.count(), 1, "{name}");
        let again = caller.call(&body).await;
        assert_eq!(
            (again.status, again.text.as_str()),
            (made[0].status, made[0].text.as_str()),
            "{name}"
        );
        assert_eq!(again.header("idempotency-replayed"), Some("true"), "{name}");

        let mut clashes = 0;
        for other in other.into_iter().chain(changed(&body)) {
            let answer = caller.call(&other).await;
            let is_clash = answer.status == 409 && answer.text.contains("already used with a different body");
            assert!(
                is_clash || answer.status == 400,
                "{name} {other}: {} {}",
                answer.status,
                answer.text
            );
            clashes += u32::from(is_clash);
        }
        assert!(
            clashes > 0,
            "{name}: no other body was valid enough to conflict; see `body_of`"
        );
        assert_eq!(added(&before, &counts(&app).await), of_one, "{name}");
        (count, stored) = (count + 1, stored + made.len());
    }
    println!("create once: {count} operations, {CALLS} calls each, {stored} returned the stored response");
    assert!(count >= 11, "{count} operations");
}
