//! Connections: sizes, deadlines, caps, and how the server stops.

use super::{ID, KEY, app_with, error_of};
use poem::test::TestClient;
use prs::http::edge::{
    limits::Limits,
    server::{ServerOptions, Shutdown, serve},
};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    time::{Instant as Moment, sleep, timeout},
};

struct Running {
    address: SocketAddr,
    shutdown: Shutdown,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
}

async fn run(limits: Limits, options: ServerOptions) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = Shutdown::default();
    let task = tokio::spawn(serve(vec![listener], app_with(limits), options, shutdown.clone()));
    Running {
        address,
        shutdown,
        task,
    }
}

async fn send(address: SocketAddr, head: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    rest(&mut stream).await
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn post_head(framing: &str) -> String {
    format!(
        "POST /v2/things HTTP/1.1\r\nhost: a\r\nx-api-key: {KEY}\r\ncontent-type: application/json\r\n\
         connection: close\r\n{framing}\r\n\r\n"
    )
}

#[tokio::test]
async fn large_bodies_return_413_in_any_framing() {
    let server = run(Limits::default(), ServerOptions::default()).await;
    let body = vec![b' '; 2 * 1024 * 1024];
    let answer = send(
        server.address,
        &post_head(&format!("content-length: {}", body.len())),
        &body,
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains(r#"{"statusCode":413,"message":"The body is too large""#));
    let expecting = format!("content-length: {}\r\nexpect: 100-continue", body.len());
    let answer = send(server.address, &post_head(&expecting), b"").await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let mut chunked = Vec::new();
    for _ in 0..40 {
        chunked.extend_from_slice(b"1000\r\n");
        chunked.extend_from_slice(&[b' '; 0x1000]);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let answer = send(server.address, &post_head("transfer-encoding: chunked"), &chunked).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn small_chunked_bodies_and_reads_without_length_are_accepted() {
    let server = run(Limits::default(), ServerOptions::default()).await;
    let body = b"1c\r\n{\"amount\":\"1\",\"prices\":[]  }\r\n0\r\n\r\n";
    let answer = send(server.address, &post_head("transfer-encoding: chunked"), body).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let answer = send(
        server.address,
        "GET /health/live HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        b"",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
}

#[tokio::test]
async fn a_slow_head_is_cut_off_at_its_deadline() {
    let options = ServerOptions {
        head_deadline_ms: 300,
        ..ServerOptions::default()
    };
    let server = run(Limits::default(), options).await;
    for opening in ["", "GET /health/live HTTP/1.1\r\nx: "] {
        let started = Moment::now();
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(opening.as_bytes()).await.unwrap();
        let dripping = async {
            loop {
                sleep(Duration::from_millis(50)).await;
                if !opening.is_empty() && stream.write_all(b"a").await.is_err() {
                    break;
                }
                let mut byte = [0; 64];
                let read = timeout(Duration::from_millis(1), stream.read(&mut byte)).await;
                if let Ok(Ok(0) | Err(_)) = read {
                    break;
                }
            }
        };
        timeout(Duration::from_secs(5), dripping).await.unwrap();
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn a_slow_body_returns_408() {
    let limits = Limits {
        body_deadline_ms: 200,
        ..Limits::default()
    };
    let server = run(limits, ServerOptions::default()).await;
    let head = post_head("content-length: 100");
    let answer = timeout(Duration::from_secs(5), send(server.address, &head, b"{"))
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains(r#""statusCode":408"#));
}

#[tokio::test]
async fn a_slow_handler_returns_503() {
    let limits = Limits {
        handler_deadline_ms: 50,
        ..Limits::default()
    };
    let app = TestClient::new(app_with(limits));
    let (status, _) = error_of(app.get(format!("/v2/things/{ID}?outcome=slow")).send().await).await;
    assert_eq!(status, 503);
}

#[tokio::test]
async fn connections_beyond_the_cap_wait() {
    let options = ServerOptions {
        connections_max: 1,
        ..ServerOptions::default()
    };
    let server = run(Limits::default(), options).await;
    let holder = TcpStream::connect(server.address).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    let head = "GET /health/live HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let mut waiting = Box::pin(send(server.address, head, b""));
    assert!(timeout(Duration::from_millis(300), &mut waiting).await.is_err());
    drop(holder);
    let answer = timeout(Duration::from_secs(5), waiting).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_shutdown_lets_calls_in_flight_finish() {
    let server = run(Limits::default(), ServerOptions::default()).await;
    let head = format!("GET /v2/things/{ID}?outcome=slow HTTP/1.1\r\nhost: a\r\n\r\n");
    let idle = TcpStream::connect(server.address).await.unwrap();
    let address = server.address;
    let call = tokio::spawn(async move { send(address, &head, b"").await });
    sleep(Duration::from_millis(100)).await;
    server.shutdown.stop.cancel();
    let answer = timeout(Duration::from_secs(5), call).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    timeout(Duration::from_secs(5), server.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
    drop(idle);
}

#[tokio::test]
async fn a_shutdown_does_not_wait_forever() {
    let options = ServerOptions {
        drain_deadline_ms: 100,
        ..ServerOptions::default()
    };
    let server = run(Limits::default(), options).await;
    let head = format!("GET /v2/things/{ID}?outcome=slow HTTP/1.1\r\nhost: a\r\n\r\n");
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    sleep(Duration::from_millis(50)).await;
    server.shutdown.stop.cancel();
    let started = Moment::now();
    timeout(Duration::from_secs(5), server.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(
        started.elapsed() < Duration::from_millis(250),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn calls_without_a_path_do_not_reach_the_router() {
    let server = run(Limits::default(), ServerOptions::default()).await;
    for head in ["OPTIONS * HTTP/1.1", "CONNECT example.com:443 HTTP/1.1"] {
        let head = format!("{head}\r\nhost: a\r\nconnection: close\r\n\r\n");
        let answer = timeout(Duration::from_secs(5), send(server.address, &head, b""))
            .await
            .unwrap();
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
}

#[tokio::test]
async fn one_address_uses_only_its_own_share_of_connections() {
    let options = ServerOptions {
        connections_per_address_max: 2,
        ..ServerOptions::default()
    };
    let server = run(Limits::default(), options).await;
    let head = "GET /health/live HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let greedy = (
        TcpStream::connect(server.address).await.unwrap(),
        TcpStream::connect(server.address).await.unwrap(),
    );
    sleep(Duration::from_millis(100)).await;
    let mut further = TcpStream::connect(server.address).await.unwrap();
    let mut nothing = [0; 1];
    let closed = timeout(Duration::from_secs(2), further.read(&mut nothing)).await;
    assert!(matches!(closed, Ok(Ok(0) | Err(_))), "closed at once: {closed:?}");
    let mut neighbour = from_address("127.0.0.2", server.address).await;
    neighbour.write_all(head.as_bytes()).await.unwrap();
    assert!(rest(&mut neighbour).await.starts_with("HTTP/1.1 200"));
    drop(greedy);
    sleep(Duration::from_millis(100)).await;
    let answer = send(server.address, head, b"").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "its slots are free again: {answer}");
}

async fn from_address(address: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(address.parse().unwrap(), 0)).unwrap();
    socket.connect(to).await.unwrap()
}

#[tokio::test]
async fn a_client_that_never_reads_is_cut_off() {
    let options = ServerOptions {
        connections_max: 1,
        write_deadline_ms: 300,
        ..ServerOptions::default()
    };
    let server = run(Limits::default(), options).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut deaf = socket.connect(server.address).await.unwrap();
    // Successive calls whose responses the client does not read fill every buffer on the way.
    let call = "GET /openapi/v2.json HTTP/1.1\r\nhost: a\r\n\r\n";
    let filling = async { while deaf.write_all(call.repeat(64).as_bytes()).await.is_ok() {} };
    let begun = Moment::now();
    timeout(Duration::from_secs(10), filling).await.expect("it is cut off");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let head = "GET /health/live HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let answer = timeout(Duration::from_secs(5), send(server.address, head, b"")).await;
    assert!(answer.expect("its slot is free").starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_draining_server_closes_connections_and_answers_sent_calls() {
    let server = run(Limits::default(), ServerOptions::default()).await;
    server.shutdown.leaving.cancel();
    let head = "GET /health/live HTTP/1.1\r\nhost: a\r\n\r\n";
    let answer = send(server.address, head, b"").await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"),
        "{answer}"
    );
    let mut sent = Vec::new();
    for _ in 0..60 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        sent.push(stream);
    }
    server.shutdown.stop.cancel();
    for mut stream in sent {
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[tokio::test]
async fn an_idle_connection_gets_its_next_call_answered_after_the_stop() {
    let server = run(Limits::default(), ServerOptions::default()).await;
    let head = "GET /health/live HTTP/1.1\r\nhost: a\r\n\r\n";
    let mut kept = TcpStream::connect(server.address).await.unwrap();
    kept.write_all(head.as_bytes()).await.unwrap();
    let mut buffer = [0; 4_096];
    assert!(kept.read(&mut buffer).await.unwrap() > 0);
    server.shutdown.stop.cancel();
    sleep(Duration::from_millis(50)).await;
    kept.write_all(head.as_bytes()).await.unwrap();
    assert!(rest(&mut kept).await.starts_with("HTTP/1.1 200"));
}
