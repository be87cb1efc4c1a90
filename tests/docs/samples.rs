//! The samples of all operations in all languages, as the page generates them: they must parse, and some of them are
//! run.

use crate::reader::Reader;
use serde_json::{Value, json};
use std::{
    path::Path,
    process::{Command, Output},
};

/// Generates a sample for each operation and language, with and without the credentials of the run.
const WRITE: &str = "
    const done = arguments[arguments.length - 1];
    const at = (name) => [...document.querySelectorAll('link[rel=modulepreload]')].find((one) => one.href.endsWith(name)).href;
    const run = async () => {
        const [samples, room] = await Promise.all([import(at('/samples.js')), import(at('/room.js'))]);
        const { credentials } = await room.lent();
        const written = [];
        for (const details of document.querySelectorAll('details[data-method]')) {
            const { document: address, path, method, operation } = details.dataset;
            const contract = await (await fetch(address)).json();
            for (const [kind, keys] of [['lent', credentials], ['own', {}]]) {
                const call = samples.call(contract, path, method, contract.paths[path][method], location.origin, keys);
                for (const [language] of samples.LANGUAGES) {
                    written.push([operation, kind, language, samples.sample(language, call)]);
                }
            }
        }
        return written;
    };
    run().then(done, (error) => done(String(error)));";

/// File extension, and the command that parses files without running them.
const READERS: [(&str, &str, &[&str]); 5] = [
    (
        "curl",
        "sh",
        &["bash", "-c", "for file; do bash -n \"$file\" || exit 1; done", "each"],
    ),
    (
        "typescript",
        "mjs",
        &[
            "bash",
            "-c",
            "for file; do node --check \"$file\" || exit 1; done",
            "each",
        ],
    ),
    ("python", "py", &["python3", "-m", "py_compile"]),
    ("go", "go", &["gofmt", "-e", "-l"]),
    (
        "rust",
        "rs",
        &["rustfmt", "--edition", "2024", "--emit", "stdout", "--quiet"],
    ),
];

fn ran(folder: &Path, command: &[&str], files: &[String]) -> Option<Output> {
    let mut program = Command::new(command[0]);
    program.args(&command[1..]).args(files).current_dir(folder);
    program.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    program.output().ok()
}

/// Parses all samples of a language; returns a summary, or that no parser is installed.
fn read(folder: &Path, language: &str, samples: &[&Value]) -> String {
    let (_, ending, command) = READERS.iter().find(|(known, ..)| *known == language).expect("a reader");
    let files = samples.iter().map(|sample| {
        let name = format!("{}.{ending}", sample[0].as_str().expect("a name"));
        std::fs::write(
            folder.join(&name),
            sample[3].as_str().expect("a text").to_owned() + "\n",
        )
        .expect("written");
        name
    });
    let files: Vec<String> = files.collect();
    let Some(output) = ran(folder, command, &files) else {
        // Development without Go is allowed; where gofmt is installed, it checks the samples.
        assert_eq!(language, "go", "{} does not start", command[0]);
        return "skipped, gofmt is missing".to_owned();
    };
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{language}: {told}");
    // gofmt lists the files that it would format differently.
    assert!(
        language != "go" || output.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    format!("{} read", files.len())
}

pub async fn run(reader: &Reader) {
    reader.open("/docs/").await;
    let written = reader.browser.run(WRITE, &json!([])).await;
    let written = written.as_array().unwrap_or_else(|| panic!("{written}"));
    assert!(written.len() > 700, "{}", written.len());
    let folder = tempfile::tempdir().expect("a folder");
    for sample in written {
        let part = |index: usize| sample[index].as_str().expect("a text");
        let (operation, kind, language, text) = (part(0), part(1), part(2), part(3));
        assert!(
            !text.contains("undefined") && !text.contains("[object"),
            "{operation} {language}: {text}"
        );
        assert!(
            kind != "own" || !text.contains(reader.dev.text("/apiKey")),
            "{operation}: {text}"
        );
    }
    for (language, ..) in READERS {
        // Samples with credentials differ only in a string.
        let own = written
            .iter()
            .filter(|sample| sample[1] == "own" && sample[2] == language);
        println!(
            "samples in {language}: {}",
            read(folder.path(), language, &own.collect::<Vec<_>>())
        );
    }
    // Unchanged, with the key of this run.
    for (language, program) in [("curl", "bash"), ("typescript", "node"), ("python", "python3")] {
        let is_wanted = |sample: &&Value| sample[0] == "createRequest" && sample[1] == "lent" && sample[2] == language;
        let text = written.iter().find(is_wanted).expect("a sample")[3]
            .as_str()
            .expect("a text");
        let file = "sample.mjs";
        // A refusal says what is wrong, and so must the sample.
        let refused = text.replace(reader.dev.text("/apiKey"), "unknown");
        for (text, member) in [(text, "requestId"), (&refused, "statusCode")] {
            std::fs::write(folder.path().join(file), text).expect("written");
            let output = ran(folder.path(), &[program], &[file.to_owned()]).expect(program);
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(
                told.contains(member),
                "{language}: {told} {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        println!("{language}: ran unchanged");
    }
}
