//! Payment exports have the same rows as all pages of a search. An export is one response, and it holds no resources
//! while its client reads nothing.

use crate::support::{
    Answer, TestApp,
    app::PAGE,
    lines::Lines,
    requests::{fau, request},
    session::sign_in,
    wallet::TestWallet,
};
use alloy::primitives::{Address as EvmAddress, B256, U256};
use chrono::{DateTime, TimeDelta};
use poem::http::Method;
use prs::{
    domain::{
        address::Address,
        ids::PaymentId,
        network::Network,
        payment::{Observation, ProvenTransfer, Settled},
    },
    flows,
    http::edge::server::ServerOptions,
    ports::clock::Clock,
    store::{self, Scope, payments::SettledPayment},
};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

/// Texts that a spreadsheet would execute, that a CSV has to quote, or that change the writing direction.
const REFERENCES: [&str; 8] = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "'quoted', \"twice\"",
    "plain",
    "x;=1+1;y",
    "＝1+1",
];

/// Credits one payment for each of these numbers to a request of the platform. Three payments at a time have the same
/// timestamp.
async fn credit(app: &TestApp, id: &str, numbers: std::ops::Range<u64>) {
    let scope = Scope {
        platform: app.platform.clone(),
        client: None,
    };
    let request = store::requests::find(app.ctx.db.reader(), &scope, id).await.unwrap();
    let request = request.expect("the request");
    let wallet = Address::Evm(EvmAddress::repeat_byte(7));
    let settled: Vec<Settled> = numbers
        .map(|number| Settled {
            observed: Observation {
                network: Network::Sepolia,
                tx_hash: B256::from(U256::from(number / 2 + 1)),
                position: u32::from(number % 2 == 1),
                block_number: number,
                block_hash: B256::repeat_byte(2),
                log_index: 0,
                proxy: wallet,
                reference_topic: B256::repeat_byte(3),
                token: None,
                payee: request.terms.payee.unwrap(),
                units: U256::from(1),
                fee_units: U256::ZERO,
                fee_address: None,
                conversion: None,
            },
            proven: ProvenTransfer {
                received_units: U256::from(1),
                payer: Some(wallet),
                payer_eoa: Some(wallet),
            },
            credited: U256::from(1),
            applied: None,
            is_quoted: false,
            fee_shortfall: None,
            further_fees: Vec::new(),
            orchestrator_fees: Default::default(),
            payer_access: None,
            is_execution: false,
            at: DateTime::UNIX_EPOCH + TimeDelta::seconds(i64::try_from(number / 3).unwrap()),
        })
        .collect();
    let payments: Vec<SettledPayment<'_>> = settled
        .iter()
        .map(|settled| SettledPayment {
            id: PaymentId(ulid::Ulid::from_parts(settled.observed.block_number, 1).to_string()),
            request: &request,
            settled,
            created_at: app.clock.now(),
        })
        .collect();
    let tx = app.ctx.db.begin("credit").await.unwrap();
    let written = store::payments::insert_new(&tx, &payments).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(written.len(), payments.len());
}

async fn export(app: &TestApp, query: &str) -> Answer {
    app.get(&format!("/v2/payments/export?{query}")).with_key().send().await
}

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer
        .text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The rows of an export, each as a map from column name to cell. Quoted texts are unescaped as documented. Asserts
/// that no cell is a formula, whichever separator a spreadsheet uses.
fn rows(answer: &Answer) -> Vec<HashMap<String, String>> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    let mut reader = csv::Reader::from_reader(answer.text.as_bytes());
    let rows: Vec<HashMap<String, String>> = reader.deserialize().collect::<Result<_, _>>().unwrap();
    let signs = ['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'];
    for separator in *b",;\t" {
        for is_quoting in [true, separator == b','] {
            let mut reader = csv::ReaderBuilder::new()
                .flexible(true)
                .delimiter(separator)
                .quoting(is_quoting)
                .from_reader(answer.text.as_bytes());
            let records: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
            assert!(!records.iter().flatten().any(|cell| cell.starts_with(signs)));
        }
    }
    let rule = regex::Regex::new("(^|[;\t\r\n])'").unwrap();
    let text = |cell: String| rule.replace_all(&cell, "$1").into_owned();
    rows.into_iter()
        .map(|row| row.into_iter().map(|(name, cell)| (name, text(cell))).collect())
        .collect()
}

#[tokio::test]
async fn an_export_equals_all_search_pages_in_order() {
    let app = TestApp::start().await;
    let id = app.create_request(&fau("1")).await;
    credit(&app, &id, 0..1_203).await;
    let mut searched = Vec::new();
    for offset in (0..1_300).step_by(100) {
        let path = format!("/v2/payments?type=direct&limit=100&offset={offset}");
        let page = app.get(&path).with_key().send().await.expect(200);
        searched.extend(page["payments"].as_array().unwrap().clone());
    }
    assert_eq!(searched.len(), 1_203);
    let exported = lines(&export(&app, "type=direct&format=jsonl").await);
    assert_eq!(exported, searched);
    let cells = rows(&export(&app, "type=direct&format=csv").await);
    assert_eq!(cells.len(), searched.len());
    for (row, payment) in cells.iter().zip(&searched) {
        for (cell, member) in [
            ("id", "id"),
            ("timestamp", "timestamp"),
            ("amount", "amount"),
            ("txHash", "sourceTxHash"),
        ] {
            assert_eq!(payment[member], row[cell].as_str(), "{cell}");
        }
        assert_eq!(row["requestId"], id);
    }
    let of_one = lines(&export(&app, &format!("format=jsonl&txHash={:#x}", B256::from(U256::from(3)))).await);
    assert_eq!(of_one.len(), 2, "every payment of a batch");
    assert_eq!(
        lines(&export(&app, "format=jsonl&type=conversion").await),
        Vec::<Value>::new()
    );
    assert_eq!(rows(&export(&app, "type=conversion").await), Vec::new());
}

#[tokio::test]
async fn a_csv_has_a_byte_order_mark_only_on_request() {
    const MARK: &str = "\u{feff}";
    let app = TestApp::start().await;
    let id = app.create_request(&fau("1")).await;
    credit(&app, &id, 0..3).await;
    let plain = export(&app, "type=direct").await.text;
    assert!(plain.starts_with("id,"), "{plain}");
    assert_eq!(export(&app, "type=direct&bom=false").await.text, plain);
    for query in ["type=direct&bom=true", "type=direct&format=csv&bom=true"] {
        let marked = export(&app, query).await;
        assert_eq!((marked.status, marked.text), (200, format!("{MARK}{plain}")), "{query}");
    }
    for query in ["type=direct&bom=yes", "type=direct&bom=true&format=jsonl"] {
        let refused = export(&app, query).await;
        assert_eq!(
            (refused.status, refused.wrong_fields()),
            (400, vec!["bom".to_owned()]),
            "{query}"
        );
    }
}

#[tokio::test]
async fn csv_texts_cannot_execute_as_spreadsheet_formulas() {
    let app = TestApp::start().await;
    for (number, reference) in (0_u64..).zip(REFERENCES) {
        let mut input = fau("1");
        input["reference"] = json!(reference);
        // References are stored as they are; customer names are encrypted.
        let name = format!("{reference} Ada");
        input["customerInfo"] = json!({ "firstName": name, "address": { "city": "=cmd|' /C calc'!A0" } });
        let id = app.create_request(&input).await;
        credit(&app, &id, number * 2..number * 2 + 1).await;
    }
    let answer = export(&app, "type=direct").await;
    assert_eq!(answer.header("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!(
        answer.header("content-disposition"),
        Some("attachment; filename=\"payments.csv\"")
    );
    let rows = rows(&answer);
    let read: Vec<&str> = rows.iter().rev().map(|row| row["reference"].as_str()).collect();
    assert_eq!(read, REFERENCES);
    assert!(
        rows.iter()
            .all(|row| row["firstName"] == format!("{} Ada", row["reference"]) && row["city"].starts_with("=cmd"))
    );
}

#[tokio::test]
async fn keys_sessions_and_backends_can_export_but_pages_cannot() {
    let app = TestApp::start().await;
    let path = "/v2/payments/export?type=direct";
    assert_eq!(app.get(path).with_key().send().await.status, 200);
    assert_eq!(app.get(path).with_client().send().await.status, 200);
    let session = sign_in(&app, &TestWallet::new(7)).await;
    let bearer = format!("Bearer {session}");
    assert_eq!(app.get(path).header("authorization", &bearer).send().await.status, 200);
    let page = app
        .get(path)
        .header("x-client-id", &app.page_client)
        .header("origin", PAGE);
    assert_eq!(page.send().await.status, 403);
    let (other, _) = app.other_tenant().await;
    let id = app.create_request(&fau("1")).await;
    credit(&app, &id, 0..2).await;
    let of_other = app
        .get("/v2/payments/export?type=direct&format=jsonl")
        .header("x-api-key", &other);
    assert_eq!(of_other.send().await.text, "");
}

#[tokio::test]
async fn invalid_export_parameters_are_named() {
    let app = TestApp::start().await;
    for (query, field) in [
        ("", "query"),
        ("format=csv", "query"),
        ("type=direct&format=xml", "format"),
        ("txHash=0x12", "txHash"),
        ("type=direct&limit=1", "limit"),
        ("type=direct&cursor=nonsense", "cursor"),
        ("type=direct&offset=0", "offset"),
        (
            "type=direct&fromDate=2026-01-02T00:00:00Z&toDate=2026-01-01T00:00:00Z",
            "toDate",
        ),
    ] {
        let answer = export(&app, query).await;
        assert_eq!(
            (answer.status, answer.wrong_fields()),
            (400, vec![field.to_owned()]),
            "{query}"
        );
    }
}

/// Starts an export over a raw socket. Reads only the status line, and leaves the rest of the response unread.
fn begin(address: SocketAddr, credential: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!(
        "GET /v2/payments/export?type=direct&format=jsonl HTTP/1.1\r\nhost: a\r\n{credential}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    (stream, String::from_utf8_lossy(&status[9..]).into_owned())
}

#[tokio::test]
async fn exports_over_http_1_0_are_rejected() {
    let app = TestApp::start().await;
    let (address, key) = (app.listen().await, app.key.clone());
    let check = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!("GET /v2/payments/export?type=direct HTTP/1.0\r\nhost: a\r\nx-api-key: {key}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 400 ") && answer.contains("HTTP/1.1"), "{answer}");
    };
    tokio::task::spawn_blocking(check).await.unwrap();
}

/// Reads the rest of a response from a socket; returns whether the response was complete.
fn is_complete(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    rest.ends_with(b"\r\n0\r\n\r\n")
}

/// More payments than the buffers of two sockets can hold.
const MANY: std::ops::Range<u64> = 0..12_000;

#[tokio::test]
async fn a_platform_runs_two_exports_and_unread_ones_are_aborted() {
    let app = TestApp::start().await;
    let id = app.create_request(&fau("1")).await;
    credit(&app, &id, MANY).await;
    let (lines, _listening) = Lines::listen();
    let (address, key) = (app.listen().await, format!("x-api-key: {}", app.key));
    let hurried = app.hurried(|waits| waits.reader /= 4).await.listen().await;
    let (other_key, _) = app.other_tenant().await;
    let check = move || {
        let (gone, first) = begin(address, &key);
        let (next, second) = begin(address, &key);
        assert_eq!((first.as_str(), second.as_str()), ("200", "200"));
        assert_eq!(begin(address, &key).1, "429");
        let other = format!("x-api-key: {other_key}");
        assert_eq!(begin(address, &other).1, "200", "another platform has its own limit");
        let begun = Instant::now();
        drop(gone);
        while begin(address, &key).1 != "200" {
            assert!(
                begun.elapsed() < Duration::from_secs(5),
                "a disconnected reader still holds its slot"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        // A reader that reads nothing is disconnected; this instance waits only a short time.
        drop(next);
        let (mut stalled, mut status) = begin(hurried, &key);
        while status != "200" {
            assert!(begun.elapsed() < Duration::from_secs(5), "no slot is free");
            std::thread::sleep(Duration::from_millis(20));
            (stalled, status) = begin(hurried, &key);
        }
        let are_both_free = || {
            let (_one, third) = begin(address, &key);
            let (_two, fourth) = begin(address, &key);
            third == "200" && fourth == "200"
        };
        while !are_both_free() {
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "a stalled reader still holds its slot"
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        assert!(!is_complete(&mut stalled), "a truncated export looks complete");
    };
    tokio::task::spawn_blocking(check).await.unwrap();
    let text = lines.text();
    assert_eq!(text.matches("an export was aborted").count(), 1, "{text}");
}

#[tokio::test]
async fn an_aborted_export_frees_its_connection() {
    let app = TestApp::start().await;
    let id = app.create_request(&fau("1")).await;
    credit(&app, &id, MANY).await;
    let app = app.hurried(|waits| waits.reader /= 4).await;
    let options = ServerOptions {
        connections_max: 1,
        ..ServerOptions::default()
    };
    let (address, key) = (app.listen_with(options).await, format!("x-api-key: {}", app.key));
    let check = move || {
        let (_stalled, status) = begin(address, &key);
        assert_eq!(status, "200");
        let begun = Instant::now();
        assert_eq!(begin(address, &key).1, "200");
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(5), "{waited:?}");
    };
    tokio::task::spawn_blocking(check).await.unwrap();
}

#[tokio::test]
async fn a_slow_but_steady_reader_gets_the_whole_export() {
    let app = TestApp::start().await;
    let id = app.create_request(&fau("1")).await;
    credit(&app, &id, MANY).await;
    let app = app.hurried(|waits| waits.reader /= 4).await;
    let (address, key) = (app.listen().await, format!("x-api-key: {}", app.key));
    let patience = app.ctx.waits.reader;
    let check = move || {
        let (mut stream, status) = begin(address, &key);
        assert_eq!(status, "200");
        // The response takes longer than the time that a reader may be idle, at 320 kB per second.
        let mut piece = [0; 8_000];
        let begun = Instant::now();
        while begun.elapsed() < patience * 3 / 2 {
            stream.read_exact(&mut piece).unwrap();
            std::thread::sleep(Duration::from_millis(25));
        }
        assert!(is_complete(&mut stream), "the export was cut off");
    };
    tokio::task::spawn_blocking(check).await.unwrap();
}

#[tokio::test]
async fn an_export_ends_when_its_credential_does() {
    let app = TestApp::start().await;
    let id = app.create_request(&fau("1")).await;
    credit(&app, &id, MANY).await;
    let address = app.listen().await;
    let key = flows::keys::create(&app.ctx, &app.platform, None).await.unwrap();
    let (key_row, key) = (key.row.id, key.key.reveal().to_owned());
    let wallet = TestWallet::new(7);
    let tx = app.ctx.db.begin("bind").await.unwrap();
    let bound = store::accounts::bind_wallet(&tx, &wallet.address(), &app.platform, app.clock.now()).await;
    tx.commit().await.unwrap();
    assert!(bound.unwrap());
    let session = sign_in(&app, &wallet).await;
    let client = app.backend_client.clone();
    let started = |credential: String| async move {
        let (stream, status) = tokio::task::spawn_blocking(move || begin(address, &credential))
            .await
            .unwrap();
        assert_eq!(status, "200");
        stream
    };
    let ends = async |mut stream: TcpStream| {
        app.advance_ms(6_000);
        !tokio::task::spawn_blocking(move || is_complete(&mut stream))
            .await
            .unwrap()
    };

    let still_good = started(format!("x-api-key: {key}")).await;
    assert!(!ends(still_good).await, "a valid key");
    let by_key = started(format!("x-api-key: {key}")).await;
    flows::keys::revoke(&app.ctx, &app.platform, &key_row).await.unwrap();
    assert!(ends(by_key).await, "a revoked key");

    let still_good = started(format!("authorization: Bearer {session}")).await;
    assert!(!ends(still_good).await, "a valid session");
    let by_session = started(format!("authorization: Bearer {session}")).await;
    let out = app
        .post("/v1/auth/logout")
        .header("authorization", &format!("Bearer {session}"));
    out.send().await;
    assert!(ends(by_session).await, "a session that was signed out");

    let still_good = started(format!("x-client-id: {client}")).await;
    assert!(!ends(still_good).await, "a valid client ID");
    let by_client = started(format!("x-client-id: {client}")).await;
    let found = store::client_ids::find_by_client_id(app.ctx.db.reader(), &client).await;
    let path = format!("/v2/client-ids/{}", found.unwrap().expect("a client ID").row.as_str());
    app.call(Method::DELETE, &path).with_key().send().await;
    assert!(ends(by_client).await, "a revoked client ID");
}

#[tokio::test]
async fn a_native_coin_symbol_matches_on_every_network() {
    let app = TestApp::start().await;
    let id = app.create_request(&request("1", "ETH-sepolia", "ETH-sepolia")).await;
    credit(&app, &id, 0..3).await;
    for query in [
        "paymentCurrency=ETH",
        "invoiceCurrency=eth",
        "paymentCurrency=ETH-sepolia",
    ] {
        let answer = app.get(&format!("/v2/payments?{query}")).with_key().send().await;
        assert_eq!(answer.expect(200)["pagination"]["total"], 3, "{query}");
        assert_eq!(lines(&export(&app, &format!("{query}&format=jsonl")).await).len(), 3);
    }
    for query in ["paymentCurrency=POL", "paymentCurrency=ETH-base"] {
        let answer = app.get(&format!("/v2/payments?{query}")).with_key().send().await;
        assert_eq!(answer.expect(200)["pagination"]["total"], 0, "{query}");
    }
}
