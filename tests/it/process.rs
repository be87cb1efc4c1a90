//! The program as a process: what it refuses at startup, how it shuts down, and that its log never blocks it.

use crate::support::{ports, program};
use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const HEAD: &str = "GET /v2/currencies HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

/// A command that runs `prs` with a database in the folder. It listens on the first port for the API and on the second
/// port for the operator.
fn prs(folder: &Path, ports: (u16, u16)) -> Command {
    let mut command = program::prs(folder);
    command
        .env("PRS_HTTP__LISTEN", format!("127.0.0.1:{}", ports.0))
        .env("PRS_HTTP__METRICS_LISTEN", format!("127.0.0.1:{}", ports.1))
        .env("PRS_HTTP__DRAIN_MS", "1500")
        .stdout(Stdio::null());
    command
}

fn serve(folder: &Path, ports: (u16, u16)) -> Command {
    let mut command = prs(folder, ports);
    command.arg("serve");
    command
}

fn free_ports() -> (u16, u16) {
    (ports::free(), ports::free())
}

/// The response to a call, or the error.
fn call(port: u16, head: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(head.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn ready(port: u16) -> u16 {
    let head = "GET /health/ready HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let answer = call(port, head).unwrap_or_default();
    answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0)
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn terminate(child: &Child) {
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn an_unread_log_blocks_neither_calls_nor_the_shutdown() {
    let (folder, ports) = (tempfile::tempdir().expect("a folder"), free_ports());
    let mut child = serve(folder.path(), ports)
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stderr.take());
    wait_until("ready", || ready(ports.0) == 200);
    for _ in 0..20 {
        let answer = call(ports.0, HEAD).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    }
    terminate(&child);
    wait_until("ended", || child.try_wait().expect("a state").is_some());
    assert!(child.wait().expect("a state").success());
}

#[test]
fn load_balancers_see_a_shutdown_before_calls_are_refused() {
    let (folder, ports) = (tempfile::tempdir().expect("a folder"), free_ports());
    let mut child = serve(folder.path(), ports)
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    wait_until("ready", || ready(ports.0) == 200);
    terminate(&child);
    wait_until("seen as leaving", || ready(ports.0) == 503);
    for _ in 0..10 {
        let answer = call(ports.0, HEAD).expect("an answer while it leaves");
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    }
    wait_until("ended", || child.try_wait().expect("a state").is_some());
    assert!(child.wait().expect("a state").success());
}

#[test]
fn migrate_down_needs_confirmation_and_no_running_instance() {
    let (folder, ports) = (tempfile::tempdir().expect("a folder"), free_ports());
    let run = |arguments: &[&str]| {
        let output = prs(folder.path(), ports).args(arguments).stdin(Stdio::null()).output();
        let output = output.expect("it runs");
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let mut child = serve(folder.path(), ports)
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    wait_until("ready", || ready(ports.0) == 200);
    let (is_done, sentence) = run(&["migrate", "down", "1", "--yes"]);
    assert!(!is_done && sentence.contains("an instance is using"), "{sentence}");
    child.kill().expect("it can be killed");
    child.wait().expect("a state");
    assert!(!run(&["migrate", "down"]).0, "the number is required");
    let (is_done, sentence) = run(&["migrate", "down", "1"]);
    assert!(!is_done && sentence.contains("--yes"), "{sentence}");
    let (is_done, sentence) = run(&["migrate", "down", "1000", "--yes"]);
    assert!(
        !is_done && sentence.contains("1000 migrations cannot be reverted"),
        "{sentence}"
    );
    let down = prs(folder.path(), ports)
        .args(["migrate", "down", "1", "--yes"])
        .stdout(Stdio::piped())
        .output();
    let down = down.expect("it runs");
    let listed = String::from_utf8_lossy(&down.stdout).into_owned();
    assert!(down.status.success() && listed.lines().count() == 1, "{listed}");
    assert!(listed.starts_with("reverted m"), "{listed}");
    let (is_done, sentence) = run(&["admin", "quarantine", "list"]);
    assert!(!is_done && sentence.contains("prs migrate up"), "{sentence}");
}

#[test]
fn operator_commands_report_invalid_input() {
    let (folder, ports) = (tempfile::tempdir().expect("a folder"), free_ports());
    let refused = |arguments: &[&str]| {
        let output = prs(folder.path(), ports).args(arguments).output().expect("it runs");
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let migrated = prs(folder.path(), ports).args(["migrate", "up"]).status();
    assert!(migrated.expect("it runs").success());
    for name in ["two\nlines", ""] {
        for owner in ["platform", "orchestrator"] {
            let sentences = refused(&["admin", owner, "create", "--name", name]);
            assert!(
                sentences.contains("\n  name: must be one line of 1 to 100"),
                "{sentences}"
            );
        }
    }
    let unknown = refused(&["admin", "api-key", "list", "--platform", "unknown"]);
    assert!(unknown.contains("Platform not found"), "{unknown}");
}

#[test]
fn the_master_key_file_is_private_and_never_recreated() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, ports) = (tempfile::tempdir().expect("a folder"), free_ports());
    let run = |arguments: &[&str]| prs(folder.path(), ports).args(arguments).output().expect("it runs");
    assert!(run(&["migrate", "up"]).status.success());
    let create = ["admin", "platform", "create", "--name", "Shop"];
    assert!(run(&create).status.success());
    let key = folder.path().join("data/prs.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).expect("allowed");
    let told = run(&create);
    assert!(told.status.success());
    let mode = std::fs::metadata(&key).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "{}", String::from_utf8_lossy(&told.stderr));
    for damaged in ["", "zz"] {
        std::fs::write(&key, damaged).expect("written");
        let refused = run(&create);
        let told = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && told.contains("must be 64 hexadecimal digits"),
            "{told}"
        );
    }
    std::fs::remove_file(&key).expect("removed");
    let refused = run(&create);
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && told.contains("the values of this database are encrypted"),
        "{told}"
    );
    assert!(!key.exists(), "a new key would only hide that the right one is missing");
}

#[test]
fn production_is_the_default_mode() {
    let (folder, ports) = (tempfile::tempdir().expect("a folder"), free_ports());
    let shown = |name: &str, value: &str| {
        let mut command = prs(folder.path(), ports);
        let output = command
            .args(["serve", "--print-config"])
            .env(name, value)
            .stdout(Stdio::piped())
            .output();
        let output = output.expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (text, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (text, _) = shown("PRS_LOG__LEVEL", "info");
    assert!(text.contains("production = true"), "{text}");
    for listener in ["PRS_HTTP__LISTEN", "PRS_HTTP__AUTH_LISTEN", "PRS_HTTP__METRICS_LISTEN"] {
        let mut open = prs(folder.path(), ports);
        let output = open
            .args(["serve", "--print-config"])
            .env("PRS_HTTP__PRODUCTION", "false")
            .env(listener, "0.0.0.0:8080")
            .output();
        let sentence = String::from_utf8_lossy(&output.expect("it runs").stderr).into_owned();
        assert!(
            sentence.contains("http.production: false is only for one machine"),
            "{listener}: {sentence}"
        );
    }
    let digits = "1".repeat(64);
    let (text, sentence) = shown("PRS_SECRETS__MASTER_KEY", &digits);
    assert!(
        text.contains("(hidden)") && !text.contains(&digits),
        "{text} {sentence}"
    );
    let url = "postgres://prs@db/prs?password=geheim&sslmode=require";
    let (text, _) = shown("PRS_DATABASE__URL", url);
    assert!(text.contains("sslmode=require") && !text.contains("geheim"), "{text}");
}

#[test]
fn an_unreachable_database_is_reported_without_its_password() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_ports().0;
    for arguments in [&["serve"][..], &["migrate", "status"]] {
        let mut command = prs(folder.path(), free_ports());
        let url = format!("postgres://me:s3cretpw@127.0.0.1:{port}/pay?password=s3cretpw");
        command.env("PRS_DATABASE__URL", url).args(arguments);
        let output = command.stderr(Stdio::piped()).output().expect("runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
        assert!(text.to_lowercase().contains("connection refused"), "{text}");
        assert!(!text.contains("s3cretpw"), "{text}");
    }
}

/// One more than the largest private key.
const ORDER_OF_THE_CURVE: &str = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";

#[test]
fn nonsensical_settings_are_rejected_with_a_message() {
    let (folder, ports) = (tempfile::tempdir().expect("a folder"), free_ports());
    let prefix = "webhooks.header_prefix: ";
    let large = format!("1{}", "0".repeat(45));
    for (name, value, sentence) in [
        ("LOG__LEVEL", "inof", "log.level: must be a level such as info"),
        ("LOG__LEVEL", "warn,prs=infoo", "prs=infoo is neither"),
        ("LOG__LEVEL", "", "log.level: must be a level such as info"),
        ("BRAND__PROCESSOR_CRYPTO", " ", "brand.processor_crypto: must be a name"),
        ("BRAND__PROCESSOR_FIAT", "", "brand.processor_fiat: must be a name"),
        (
            "WEBHOOKS__HEADER_PREFIX",
            "[[1]]",
            "must be letters, digits and single dashes",
        ),
        ("WEBHOOKS__HEADER_PREFIX", "-", prefix),
        ("WEBHOOKS__HEADER_PREFIX", "--", prefix),
        ("WEBHOOKS__HEADER_PREFIX", "x-", prefix),
        ("WEBHOOKS__HEADER_PREFIX", "content-type", "standard HTTP headers"),
        ("WEBHOOKS__HEADER_PREFIX", "Proxy", "standard HTTP headers"),
        ("WEBHOOKS__HEADER_PREFIX", r#"["x-a","x-a-signature"]"#, "signature"),
        (
            "RELAYER__FEE",
            &large,
            "relayer.fee: must be at most 340282366920938463463",
        ),
        (
            "RELAYER__FEE",
            "340282366920938463463.374607431768211456",
            "relayer.fee: must be at most",
        ),
        (
            "RELAYER__FEE",
            "0.0000000000000000001",
            "relayer.fee: must have at most 18 fraction digits",
        ),
        ("RELAYER__FEE", "-1", "relayer.fee: must be a decimal number"),
        (
            "CONVERSION__RATE_AGE_S",
            "30",
            "conversion.rate_age_s: must be at least conversion.rate_interval_s",
        ),
        (
            "CONVERSION__COIN_IDS",
            r#"{usdc="same",usdt="same"}"#,
            "conversion.coin_ids.usdt: must be the id of this coin at the feed",
        ),
        (
            "RELAYER__PRIVATE_KEY",
            "",
            "relayer.private_key: must have 64 hexadecimal digits",
        ),
        ("RELAYER__PRIVATE_KEY", "abc", "relayer.private_key: must have 64"),
        ("RELAYER__PRIVATE_KEY", "0x12", "relayer.private_key: must have 64"),
        (
            "RELAYER__PRIVATE_KEY",
            &"0".repeat(64),
            "relayer.private_key: must be a valid secp256k1 private key",
        ),
        (
            "RELAYER__PRIVATE_KEY",
            ORDER_OF_THE_CURVE,
            "relayer.private_key: must be a valid secp256k1 private key",
        ),
        (
            "CONVERSION__MAX_RATE_AGE_S",
            "{zzz=1}",
            "conversion.max_rate_age_s.zzz: zzz is neither",
        ),
        (
            "CONVERSION__COIN_IDS",
            r#"{zzz="z"}"#,
            "conversion.coin_ids.zzz: zzz is not the symbol",
        ),
        (
            "SCREENING__MERKLESCIENCE_API_KEY",
            " ",
            "screening.merklescience_api_key: must not be blank",
        ),
        (
            "SCREENING__HYPERNATIVE_POLICY_ID",
            "mine",
            "screening.hypernative_policy_id: must be a UUID",
        ),
        (
            "SCREENING__HYPERNATIVE_URL",
            "https://a:b@screening.example.com",
            "screening.hypernative_url: must be a URL without a user name",
        ),
        (
            "SCREENING__MERKLESCIENCE_URL",
            "https://screening.example.com/?key=b",
            "screening.merklescience_url: must be a URL without a query",
        ),
        (
            "HTTP__PAY_URL",
            "ftp://pay.example.com",
            "http.pay_url: must be an http or https",
        ),
        (
            "HTTP__PAY_URL",
            "http://pay.example.com",
            "http.pay_url: must be an https",
        ),
        (
            "HTTP__PAY_URL",
            "https://a:b@pay.example.com",
            "http.pay_url: must be a URL without a user name",
        ),
        (
            "HTTP__PAY_URL",
            "https://example.com/shop/pay",
            "http.pay_url: must be a URL with no path or with the path /pay",
        ),
        (
            "HTTP__PUBLIC_URL",
            "https://example.com/requests",
            "http.public_url: must be a URL without a path",
        ),
        (
            "HTTP__PUBLIC_URL",
            "https://example.com/pay",
            "http.public_url: must be a URL without a path",
        ),
        (
            "HTTP__PUBLIC_URL",
            "https://pay.example.com/?a=b",
            "http.public_url: must be a URL without a query",
        ),
        (
            "HTTP__AUTH_URL",
            "https://pay.example.com/#a",
            "http.auth_url: must be a URL without a query",
        ),
    ] {
        for arguments in [&["serve"][..], &["serve", "--print-config"]] {
            let mut start = prs(folder.path(), ports);
            let output = start.env(format!("PRS_{name}"), value).args(arguments).output();
            let output = output.expect("it runs");
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(
                !output.status.success() && told.contains(sentence),
                "{name}={value} {arguments:?}: {told}"
            );
        }
    }
    assert!(
        !folder.path().join("data").exists(),
        "refused settings create no database"
    );
}

#[test]
fn the_largest_and_smallest_relayer_fees_are_accepted() {
    let (folder, ports) = (tempfile::tempdir().expect("a folder"), free_ports());
    for fee in ["0", "0.000000000000000001", "340282366920938463463.374607431768211455"] {
        let mut shown = prs(folder.path(), ports);
        let shown = shown.args(["serve", "--print-config"]).stdout(Stdio::piped());
        let output = shown.env("PRS_RELAYER__FEE", fee).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains(&format!("fee = \"{fee}\"")),
            "{text}"
        );
    }
}

#[test]
fn prs_dev_refuses_production_and_reports_ignored_settings() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = prs(folder.path(), free_ports());
    let production = "PRS_HTTP__PRODUCTION";
    command
        .arg("dev")
        .env(production, "true")
        .env("PRS_WEBHOOKS__CONCURRENCY", "7")
        .env("PRS_RELAYER__FEE", "7");
    let output = command.stderr(Stdio::piped()).output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && told.contains("PRS_HTTP__PRODUCTION: `prs dev` is only for development"),
        "{told}"
    );
    let ignored = told
        .lines()
        .find(|line| line.contains("ignores these environment variables"));
    let ignored = ignored.unwrap_or_else(|| panic!("{told}"));
    assert!(
        ignored.contains("PRS_HTTP__LISTEN") && ignored.contains("PRS_RELAYER__FEE"),
        "{ignored}"
    );
    for taken in ["PRS_DATABASE__URL", "PRS_WEBHOOKS__CONCURRENCY"] {
        assert!(!ignored.contains(taken), "{ignored}");
    }
}

#[test]
fn prs_dev_with_a_settings_file_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = prs(folder.path(), free_ports());
    command.args(["dev", "--config", "prs.toml"]).stderr(Stdio::piped());
    let output = command.output().expect("it runs");
    let sentence = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(
        sentence.contains("--config prs.toml") && sentence.contains("`prs serve`"),
        "{sentence}"
    );
}
