//! Published libraries of other languages that check what the service sends. They are installed from pinned lists, once
//! per target folder.

use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Runs a program; returns what it printed.
pub fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}; node, npm and python3 are needed"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Copies these files from a folder of `tests` to the target folder, installs the npm packages and runs `more`. Does
/// nothing if an earlier call did this with the same files. Returns the target folder.
pub fn installed(folder: &str, files: &[&str], more: impl FnOnce(&Path)) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let stamp = target.join("installed");
    let wanted: String = files
        .iter()
        .map(|file| fs::read_to_string(source.join(file)).expect("a file of the repository"))
        .collect();
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return target;
    }
    let _ = fs::remove_dir_all(&target);
    fs::create_dir_all(&target).expect("a folder");
    for file in files {
        fs::copy(source.join(file), target.join(file)).expect("copied");
    }
    run(Command::new("npm")
        .current_dir(&target)
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]));
    more(&target);
    fs::write(stamp, wanted).expect("written");
    target
}

/// Writes a list to a file, runs a program on the file, and returns the program's output as JSON.
pub fn verdicts<T: serde::de::DeserializeOwned>(mut program: Command, asked: &[Value]) -> T {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), Value::from(asked).to_string()).expect("written");
    let printed = run(program.arg(file.path()));
    serde_json::from_str(&printed).expect("verdicts")
}
