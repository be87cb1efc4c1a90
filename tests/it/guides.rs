//! The guides: their shell lines work as they stand, one after the other, against `prs dev`.

use crate::support::dev::Dev;
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// How long the lines of a guide may take together.
const TIMEOUT: Duration = Duration::from_secs(240);

/// What stands in the fences of shell lines, with a mark for each that says where a guide stopped.
fn shell_lines(guide: &str) -> String {
    let mut script = String::from("set -euo pipefail\ncargo() { shift; \"$XTASK\" \"$@\"; }\n");
    let mut is_shell = false;
    for (number, line) in (1..).zip(guide.lines()) {
        if line.starts_with("```") {
            is_shell = line == "```sh";
            if is_shell {
                script.push_str(&format!("echo '--- line {number}' >&2\n"));
            }
        } else if is_shell {
            script.push_str(line);
            script.push('\n');
        }
    }
    script
}

/// The commands of the repository, built beside the program.
fn xtask() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_prs")).with_file_name("xtask");
    if !program.exists() {
        let mut build = Command::new(env!("CARGO"));
        build
            .args(["build", "--quiet", "--package", "xtask"])
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(build.status().expect("cargo starts").success());
    }
    program
}

async fn follow(guide: &str) {
    prs::adapters::install_tls();
    let folder = tempfile::tempdir().expect("a folder");
    let dev = Dev::start(folder.path());
    let path = format!("{}/docs/guides/{guide}", env!("CARGO_MANIFEST_DIR"));
    let script = shell_lines(&std::fs::read_to_string(&path).expect("a guide"));
    let state = folder.path().join("dev.json");
    std::fs::write(&state, dev.ready.to_string()).expect("written");
    let mut shell = Command::new("timeout");
    shell
        .arg(TIMEOUT.as_secs().to_string())
        .args(["bash", "-c", &script])
        .current_dir(folder.path())
        .env("XTASK", xtask())
        .env("PRS_DEV", &state)
        .env("BASE", dev.text("/baseUrl"))
        .env("KEY", dev.text("/apiKey"))
        .env("PAYER", dev.text("/chain/accounts/0/address"))
        .env("PAYEE", dev.text("/chain/accounts/1/address"))
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || shell.output()).await;
    let output = output.expect("no panic").expect("bash starts");
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{guide}: {}\n{}", printed[0], printed[1]);
}

#[tokio::test]
async fn the_lines_of_the_guide_to_payouts_work_as_they_stand() {
    follow("payouts.md").await;
}

#[tokio::test]
async fn the_lines_of_the_guide_to_payment_links_work_as_they_stand() {
    follow("payment-links.md").await;
}

#[tokio::test]
async fn the_lines_of_the_guide_to_bank_accounts_work_as_they_stand() {
    follow("crypto-to-fiat.md").await;
}
