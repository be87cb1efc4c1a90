//! Tests that the webhook sender never connects to the internal network, however an address is spelled. A listener on
//! loopback counts the connections.

use prs::{
    adapters::{clock::SystemClock, outbound::HttpOutbound},
    domain::webhook::UrlPolicy,
    ports::outbound::{Outbound, OutboundPost},
};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::net::TcpListener;

const STRICT: UrlPolicy = UrlPolicy { allow_loopback: false };

/// URLs of internal addresses in every spelling; `@` is the placeholder for the port of the listener. An endpoint with
/// such a URL must be refused.
const LITERALS: [&str; 84] = [
    "https://127.0.0.1:@/",
    "http://127.0.0.1:@/",
    "https://127.0.0.1.:@/",
    "https://127.1:@/",
    "https://127.0.1:@/",
    "https://2130706433:@/",
    "https://2130706433.:@/",
    "https://0x7f000001:@/",
    "https://0X7F000001:@/",
    "https://0x7f.0.0.1:@/",
    "https://0x7f.1:@/",
    "https://0x7F.0x0.0x0.0x1:@/",
    "https://017700000001:@/",
    "https://0177.0.0.1:@/",
    "https://0177.0.0.01:@/",
    "https://0177.0x0.0.1:@/",
    "https://127.000.000.001:@/",
    "https://127.255.255.254:@/",
    "https://127.0.0.2:@/",
    "https://%31%32%37.0.0.1:@/",
    "https://127%2E0%2E0%2E1:@/",
    "https://１２７.０.０.１:@/",
    "https://①②⑦.0.0.1:@/",
    "https://127。0。0。1:@/",
    "https://0.0.0.0:@/",
    "https://0:@/",
    "https://0x0:@/",
    "https://00:@/",
    "https://[::1]:@/",
    "http://[::1]:@/",
    "https://[0:0:0:0:0:0:0:1]:@/",
    "https://[0000:0000:0000:0000:0000:0000:0000:0001]:@/",
    "https://[::]:@/",
    "https://[::ffff:127.0.0.1]:@/",
    "https://[::FFFF:127.0.0.1]:@/",
    "https://[::ffff:7f00:1]:@/",
    "https://[0:0:0:0:0:ffff:7f00:0001]:@/",
    "https://[::127.0.0.1]:@/",
    "https://[::7f00:1]:@/",
    "https://[64:ff9b::127.0.0.1]:@/",
    "https://[64:ff9b::7f00:1]:@/",
    "https://[64:ff9b:1::7f00:1]:@/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://[2002:7f00:1::]:@/",
    "https://[2002:7f00:0001:0:0:0:0:1]:@/",
    "https://[2002:a9fe:a9fe::1]/",
    "https://[2001:0:7f00:1::]:@/",
    "https://[2001:0000:4136:e378:8000:63bf:80ff:fffe]:@/",
    "https://[fe80::1]:@/",
    "https://[fe80::1%25lo]:@/",
    "https://[fe80::1%lo]:@/",
    "https://[::1%25lo]:@/",
    "https://[fec0::1]/",
    "https://[fc00::1]/",
    "https://[fd00:ec2::254]/",
    "https://[ff02::1]:@/",
    "https://[2001:db8::1]/",
    "https://[3fff::1]/",
    "https://[100::1]/",
    "https://[5f00::1]/",
    "https://10.0.0.1/",
    "https://10.1/",
    "https://0xa.1/",
    "https://012.1/",
    "https://167772161/",
    "https://172.16.0.1/",
    "https://172.31.255.255/",
    "https://192.168.0.1/",
    "https://0xc0a80001/",
    "https://169.254.169.254/latest/meta-data/",
    "https://2852039166/",
    "https://0xa9fea9fe/",
    "https://0251.0376.0251.0376/",
    "https://[::ffff:169.254.169.254]/",
    "https://[::ffff:a9fe:a9fe]/",
    "https://100.64.0.1/",
    "https://192.0.0.1/",
    "https://192.0.2.1/",
    "https://192.88.99.1/",
    "https://198.18.0.1/",
    "https://198.51.100.1/",
    "https://203.0.113.1/",
    "https://224.0.0.1/",
    "https://255.255.255.255/",
];

/// Other URLs that must not be registered: wrong schemes, credentials in the URL, and spellings that two parsers read
/// differently.
const FORMS: [&str; 34] = [
    "",
    " ",
    "nonsense",
    "/relative",
    "//127.0.0.1:@/",
    "https://",
    "https:///",
    "http:127.0.0.1:@",
    "https:127.0.0.1:@/",
    "https:/127.0.0.1:@/",
    "https:\\\\127.0.0.1:@\\",
    "https://127.0.0.1:@\\@example.com/",
    "https://example.com@127.0.0.1:@/",
    "https://user:secret@127.0.0.1:@/",
    "https://user@example.com/",
    "https://:secret@example.com/",
    "https://example.com%40127.0.0.1:@/",
    "https://127.0.0.1:@#@example.com/",
    "https://127.0.0.1:@?@example.com/",
    " https://127.0.0.1:@/",
    "https://127.0.0.1:@/ ",
    "ht\ttps://127.0.0.1:@/",
    "https://127.0\t.0.1:@/",
    "https://127.0\n.0.1:@/",
    "https://127.0.0.1\r\n:@/",
    "HTTPS://127.0.0.1:@/",
    "hTTp://LOCALHOST:@/",
    "https://localhost:@/",
    "https://LocalHost:@/",
    "https://ｌｏｃａｌｈｏｓｔ:@/",
    "https://%6cocalhost:@/",
    "ftp://127.0.0.1:@/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:@/_x",
];

/// URLs with a host name. They may be registered, because the sender checks the addresses of a name when it connects.
const NAMES: [&str; 10] = [
    "https://localhost.:@/",
    "https://inside.localhost:@/",
    "https://hooks.example.com:@/",
    "https://hooks.example.com.:@/",
    "https://HOOKS.EXAMPLE.COM:@/",
    "https://127.0.0.1.example.com:@/",
    "https://127-0-0-1.example.com:@/",
    "https://xn--mnchen-3ya.example:@/",
    "https://münchen.example:@/",
    "https://metadata.google.internal:@/",
];

/// A listener on loopback, over IPv4 and, where the machine has it, IPv6, that counts connections.
async fn counter() -> (u16, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let first = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.expect("a port");
    let port = first.local_addr().expect("an address").port();
    let second = TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await.ok();
    for listener in std::iter::once(first).chain(second) {
        let count = count.clone();
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    (port, count)
}

/// A name resolver. Each lookup returns the next list of addresses; after the last list, every lookup returns the last
/// list again.
struct Lists {
    lists: Vec<Vec<SocketAddr>>,
    asked: AtomicUsize,
}

impl Lists {
    fn new(lists: &[&[&str]]) -> Arc<Self> {
        let parse = |list: &&[&str]| list.iter().map(|text| text.parse().expect("an address")).collect();
        Arc::new(Self {
            lists: lists.iter().map(parse).collect(),
            asked: AtomicUsize::new(0),
        })
    }
}

impl Resolve for Lists {
    fn resolve(&self, _: Name) -> Resolving {
        let position = self.asked.fetch_add(1, Ordering::SeqCst).min(self.lists.len() - 1);
        let addresses = self.lists[position].clone();
        Box::pin(async move { Ok(Box::new(addresses.into_iter()) as Addrs) })
    }
}

fn sender(lookup: Arc<Lists>) -> HttpOutbound {
    HttpOutbound::with_resolver(STRICT, Arc::new(SystemClock), lookup).expect("a sender")
}

fn post_to(url: &str) -> OutboundPost {
    OutboundPost {
        url: url.to_owned(),
        headers: Vec::new(),
        body: "{}".to_owned(),
        is_apart: false,
    }
}

#[tokio::test]
async fn no_form_of_an_inner_address_is_registered_or_connected_to() {
    let (port, count) = counter().await;
    // Worst case: every name leads to loopback.
    let outbound = sender(Lists::new(&[&["127.0.0.1:0"]]));
    for form in LITERALS.iter().chain(&FORMS) {
        let url = form.replace(":@", &format!(":{port}"));
        assert!(STRICT.check(&url).is_err(), "{form:?} can be registered");
        let outcome = outbound.post(post_to(&url)).await;
        assert!(outcome.status.is_none() && outcome.error.is_some(), "{form:?}");
    }
    for form in NAMES {
        let url = form.replace(":@", &format!(":{port}"));
        let outcome = outbound.post(post_to(&url)).await;
        let error = outcome.error.expect("refused");
        assert!(
            error.contains("not public") || error.contains("public address"),
            "{form}: {error}"
        );
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(count.load(Ordering::SeqCst), 0, "connections");
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_never_followed_inside() {
    let (port, count) = counter().await;
    // A public address that is not assigned, so that no external host is ever reached.
    let rebinding = Lists::new(&[&["[2000::1]:0"], &["127.0.0.1:0"]]);
    let outbound = sender(rebinding.clone());
    let url = format!("https://hooks.example.com:{port}/");
    let started = Instant::now();
    for _ in 0..3 {
        let outcome = outbound.post(post_to(&url)).await;
        assert!(outcome.status.is_none() && outcome.error.is_some());
    }
    assert_eq!(
        rebinding.asked.load(Ordering::SeqCst),
        3,
        "each attempt uses one lookup"
    );
    assert!(started.elapsed() < Duration::from_millis(5_700));
    for mixed in [
        ["[2000::1]:0", "127.0.0.1:0"],
        ["127.0.0.1:0", "[2000::1]:0"],
        ["[2000::1]:0", "[::1]:0"],
        ["[2000::1]:0", "[::ffff:127.0.0.1]:0"],
        ["[2000::1]:0", "[64:ff9b::7f00:1]:0"],
    ] {
        let outcome = sender(Lists::new(&[&mixed])).post(post_to(&url)).await;
        let error = outcome.error.expect("refused");
        assert!(
            error.contains("must resolve, and only to public addresses"),
            "{mixed:?}: {error}"
        );
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(count.load(Ordering::SeqCst), 0, "connections");
}
