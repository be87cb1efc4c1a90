//! Runs the shell commands of the guides unchanged, one after another, against `prs dev`.

use crate::support::{dev::Dev, ports};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// Maximum duration of all commands of a guide.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Shell code that runs before the commands of a guide. Processes that the commands leave running are stopped at the
/// end.
const BEFORE: &str = r#"set -euo pipefail
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
cargo() { shift; "$XTASK" "$@"; }
"#;

/// Start of the line that the script prints before the output of each code fence. The line number of the fence in the
/// guide follows.
const MARK: &str = "--- line ";

/// A code fence of a guide.
struct Fence<'a> {
    /// The line of the guide at which the fence begins.
    line: usize,
    /// Its language.
    language: &'a str,
    /// The file in which the reader of the guide stores the fence. The guide names it after the language of the fence.
    file: Option<&'a str>,
    text: String,
}

fn fences(guide: &str) -> Vec<Fence<'_>> {
    let mut found: Vec<Fence<'_>> = Vec::new();
    let mut is_open = false;
    for (line, text) in (1..).zip(guide.lines()) {
        match text.strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(info) => {
                let mut words = info.split(' ');
                is_open = true;
                found.push(Fence {
                    line,
                    language: words.next().unwrap_or_default(),
                    file: words.next(),
                    text: String::new(),
                });
            }
            None if is_open => {
                let fence = found.last_mut().expect("an open fence");
                fence.text.push_str(text);
                fence.text.push('\n');
            }
            None => {}
        }
    }
    assert!(!is_open, "a fence is not closed");
    found
}

/// The shell commands of a guide as one script. The script prints a marker before each fence, so that a failure can be
/// located.
fn shell_lines(fences: &[Fence<'_>]) -> String {
    let mut script = String::from(BEFORE);
    for fence in fences.iter().filter(|fence| fence.language == "sh") {
        script.push_str(&format!(
            "echo '{MARK}{}' | tee /dev/stderr\n{}",
            fence.line, fence.text
        ));
    }
    script
}

/// The names of all members in a JSON text. The text may be shortened, as in a guide, so it is not parsed as JSON.
fn members(text: &str) -> BTreeSet<&str> {
    let parts: Vec<&str> = text.split('"').collect();
    let pairs = parts.windows(2).filter(|pair| pair[1].starts_with(':'));
    pairs.map(|pair| pair[0]).collect()
}

/// Members of the responses in a guide that the actual responses do not have.
fn invented(fences: &[Fence<'_>], printed: &str) -> Vec<String> {
    let printed: BTreeMap<&str, &str> = printed.split(MARK).filter_map(|part| part.split_once('\n')).collect();
    let mut asked = "";
    let mut found = Vec::new();
    for fence in fences {
        match fence.language {
            "sh" => {
                asked = printed
                    .get(fence.line.to_string().as_str())
                    .copied()
                    .unwrap_or_default()
            }
            "json" => {
                let there = members(asked);
                let missing = members(&fence.text).into_iter().filter(|name| !there.contains(name));
                found.extend(missing.map(|name| format!("line {}: {name}", fence.line)));
            }
            _ => {}
        }
    }
    found
}

/// The `xtask` binary, built next to the program.
fn xtask() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_prs")).with_file_name("xtask");
    if !program.exists() {
        let mut build = Command::new(env!("CARGO"));
        build
            .args(["build", "--quiet", "--bin", "xtask"])
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(build.status().expect("cargo starts").success());
    }
    program
}

/// The search path for programs, with that of the service first.
fn beside_prs() -> std::ffi::OsString {
    let folder = Path::new(env!("CARGO_BIN_EXE_prs")).with_file_name("");
    let others = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&others))).expect("paths")
}

async fn follow(guide: &str) {
    prs::adapters::install_tls();
    let folder = tempfile::tempdir().expect("a folder");
    let dev = Dev::start(folder.path());
    let path = format!("{}/docs/guides/{guide}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("a guide");
    let fences = fences(&text);
    let script = shell_lines(&fences);
    for (name, fence) in fences.iter().filter_map(|fence| Some((fence.file?, fence))) {
        std::fs::write(folder.path().join(name), &fence.text).expect("written");
    }
    let state = folder.path().join("dev.json");
    std::fs::write(&state, dev.ready.to_string()).expect("written");
    let mut shell = Command::new("timeout");
    shell
        .arg(TIMEOUT.as_secs().to_string())
        .args(["bash", "-c", &script])
        .current_dir(folder.path())
        .env("XTASK", xtask())
        .env("PATH", beside_prs())
        .env("HOOK_PORT", ports::free().to_string())
        .env("PRS_DEV", &state)
        .env("BASE", dev.text("/baseUrl"))
        .env("KEY", dev.text("/apiKey"))
        .env("ORCHESTRATOR", dev.text("/orchestratorKey"))
        .env("CLIENT", dev.text("/backendClientId"))
        .env("RPC", dev.text("/chain/rpcUrl"))
        .env("PAYER", dev.text("/chain/accounts/0/address"))
        .env("PAYEE", dev.text("/chain/accounts/1/address"))
        .env("TRON_PAYER", dev.text("/tron/accounts/0/address"))
        .env("TRON_PAYEE", dev.text("/tron/accounts/1/address"))
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || shell.output()).await;
    let output = output.expect("no panic").expect("bash starts");
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{guide}: {}\n{}", printed[0], printed[1]);
    assert_eq!(invented(&fences, &printed[0]), [""; 0], "{guide} shows them");
    let commands = fences
        .iter()
        .filter(|fence| fence.language == "sh")
        .flat_map(|fence| fence.text.lines());
    println!(
        "{guide}: {} lines of shell ran",
        commands.filter(|line| !line.is_empty()).count()
    );
}

#[tokio::test]
async fn the_quickstart_commands_work_unchanged() {
    follow("quickstart.md").await;
}

#[tokio::test]
async fn the_request_guide_commands_work_unchanged() {
    follow("request-and-pay.md").await;
}

#[tokio::test]
async fn the_webhook_guide_commands_work_unchanged() {
    follow("webhooks.md").await;
}

#[tokio::test]
async fn the_error_guide_commands_work_unchanged() {
    follow("errors-and-idempotency.md").await;
}

#[tokio::test]
async fn the_testing_guide_commands_work_unchanged() {
    follow("testing.md").await;
}

#[tokio::test]
async fn the_hosted_api_migration_guide_commands_work_unchanged() {
    follow("coming-from-the-hosted-api.md").await;
}

#[tokio::test]
async fn the_payout_guide_commands_work_unchanged() {
    follow("payouts.md").await;
}

#[tokio::test]
async fn the_payment_link_guide_commands_work_unchanged() {
    follow("payment-links.md").await;
}

#[tokio::test]
async fn the_tron_guide_commands_work_unchanged() {
    follow("tron.md").await;
}

#[tokio::test]
async fn the_bank_account_guide_commands_work_unchanged() {
    follow("crypto-to-fiat.md").await;
}

#[tokio::test]
async fn the_orchestrator_guide_commands_work_unchanged() {
    follow("orchestrators.md").await;
}

#[tokio::test]
async fn the_safe_and_multicall_guide_commands_work_unchanged() {
    follow("safe-and-multicall.md").await;
}
