//! Two TypeScript clients: one with types only, and one with schemas that validate every body.

use anyhow::Result;
use xtask::machine::packages;

use super::documents;
use super::language::{Language, Work, document, has_word, none, said};

/// The client that consists of types, and of calls that use these types. It validates nothing at run time.
pub(super) const FETCH: Language = Language {
    name: "typescript-fetch",
    generator: "openapi-typescript 7.13.0, openapi-fetch 0.17.0",
    folder: "typescript",
    adaptations: &[],
    prepare: typescript,
    generate: |work| {
        for name in documents::NAMES {
            let output = format!("generated/fetch/{name}.d.ts");
            said(
                work.node("openapi-typescript")
                    .arg(document(name))
                    .arg("--output")
                    .arg(output),
            )?;
        }
        Ok(())
    },
    compile: |work| said(work.node("tsc").args(["--project", "tsconfig.fetch.json"])),
    golden: |work| work.run("node", &["built/fetch/fetch.js"]),
    untyped: |work| {
        // The generator gives headers no type, whatever the document says about them.
        let open = |line: &str| line.trim() == "[name: string]: unknown;";
        work.lines(&["generated/fetch"], |line| {
            has_word(line, &["any", "unknown", "object"]) && !open(line)
        })
    },
    twins: none,
};

/// The client that validates the body of every request and response at run time.
pub(super) const ZOD: Language = Language {
    name: "typescript-zod",
    generator: "@hey-api/openapi-ts 0.95.0 with zod 4",
    folder: "typescript",
    adaptations: &[],
    prepare: typescript,
    generate: |work| said(&mut work.node("openapi-ts")),
    compile: |work| said(work.node("tsc").args(["--project", "tsconfig.zod.json"])),
    golden: |work| work.run("node", &["built/zod/zod.js"]),
    untyped: |work| {
        let files =
            ["v2", "auth"].map(|name| ["types", "zod"].map(|part| format!("generated/zod/{name}/{part}.gen.ts")));
        let files: Vec<&str> = files.iter().flatten().map(String::as_str).collect();
        work.lines(&files, |line| {
            has_word(line, &["any", "unknown", "object"]) && !line.contains("z.object(")
        })
    },
    twins: none,
};

fn typescript(work: &Work) -> Result<()> {
    packages::ensure_program("node", &["nodejs"])?;
    packages::fetch_into(&work.path("."), "the TypeScript generators")
}
