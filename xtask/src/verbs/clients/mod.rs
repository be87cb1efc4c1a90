//! `cargo xtask clients`: for each language, generates a client from the committed documents, compiles it strictly, and
//! runs it against a running service. The run follows the golden flow, a fixed sequence of calls. Also checks that each
//! generator rejects a broken document.

mod collection;
mod documents;
mod go;
mod language;
mod postman;
mod python;
mod rust;
mod typescript;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use xtask::machine::failure::{Failure, Outcome};
use xtask::machine::{command, workspace};
use xtask::service::dev::{Dev, StartOptions, scratch};

use self::documents::Broken;
use self::language::{Language, Work};

/// The steps of the golden flow, which each client makes in this order.
const STEPS: [&str; 8] = ["create", "pay", "webhook", "search", "page", "refuse", "payout", "link"];

/// All languages in display order.
const LANGUAGES: [&Language; 5] = [
    &typescript::FETCH,
    &typescript::ZOD,
    &python::PYTHON,
    &rust::RUST,
    &go::GO,
];

/// Maximum length of a printed complaint.
const COMPLAINT_LETTERS: usize = 150;

/// Maximum number of places without a type that are printed for each language.
const PLACES_SHOWN: usize = 5;

/// The `prs dev` that clients call: the running one whose file `PRS_DEV` names, or one that this run starts and stops.
struct Target {
    /// The file with the line that `prs dev --json` printed.
    file: PathBuf,
    _service: Option<Dev>,
}

impl Target {
    /// Starts a service unless `PRS_DEV` names one.
    fn find() -> Result<Self> {
        if let Some(file) = env::var_os("PRS_DEV") {
            return Ok(Self {
                file: file.into(),
                _service: None,
            });
        }
        let service = Dev::start(&StartOptions::default(), "clients-service", &[])?;
        let file = scratch()?.join("target.json");
        fs::write(&file, service.ready.text())?;
        Ok(Self {
            file,
            _service: Some(service),
        })
    }
}

/// Options of `cargo xtask clients`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// typescript-fetch, typescript-zod, python, rust, go, `collection` or `postman`. Default: all
    languages: Vec<String>,
    /// Generate from the documents in this folder instead of `openapi/`
    #[arg(long)]
    documents: Option<PathBuf>,
    /// Store the collection in this folder; only with `collection`
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Checks each language, also after a failure, and prints a table.
pub(crate) fn run(options: &Options) -> Outcome {
    let names: Vec<&str> = LANGUAGES
        .iter()
        .map(|language| language.name)
        .chain([collection::NAME, postman::NAME])
        .collect();
    if let Some(unknown) = options.languages.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(anyhow!("{unknown} is none of {}", names.join(", ")).into());
    }
    let is_wanted = |name: &str| options.languages.is_empty() || options.languages.iter().any(|wanted| wanted == name);
    let documents = options
        .documents
        .clone()
        .unwrap_or_else(|| workspace::root().join("openapi"));
    let service = Target::find()?;
    let begun = Instant::now();
    let mut rows = Vec::new();
    for language in LANGUAGES.iter().filter(|language| is_wanted(language.name)) {
        eprintln!("{}: {}", language.name, language.generator);
        rows.push(look(language, &documents, &service.file));
        if command::interrupted() {
            break;
        }
    }
    let mut failed: Vec<&str> = rows
        .iter()
        .filter(|row| !row.is_fine())
        .map(|row| row.language.name)
        .collect();
    if !rows.is_empty() {
        print(&rows);
        if print_open_types(&documents)? > 0 {
            failed.push("the documents have types that are open or have no name");
        }
    }
    type Collected<'a> = &'a dyn Fn() -> Result<String>;
    let collections: [(&'static str, Collected<'_>); 2] = [
        (collection::NAME, &|| {
            collection::run(&documents, &service.file, options.out.as_deref())
        }),
        (postman::NAME, &|| postman::run(&documents, &service.file)),
    ];
    for (name, run) in collections.into_iter().filter(|(name, _)| is_wanted(name)) {
        match run() {
            Ok(said) => println!("{name:<17} {said}"),
            Err(error) => {
                println!("{name:<17} failed: {error:#}");
                failed.push(name);
            }
        }
    }
    println!("{:<17} {:.0} s", "total", begun.elapsed().as_secs_f32());
    match failed.as_slice() {
        [] => Ok(()),
        failed => Err(Failure::StepFailed(anyhow!("{}", failed.join(", ")))),
    }
}

/// The result of one step: its duration if it passed, else the complaint.
type Part = Result<Duration, String>;

/// Results of one language.
struct Row {
    language: &'static Language,
    prepared: Part,
    generated: Part,
    compiled: Part,
    golden: Part,
    untyped: Vec<String>,
    twins: Vec<String>,
    broken: Vec<(Broken, Result<String, String>)>,
}

impl Row {
    fn is_fine(&self) -> bool {
        let parts = [&self.prepared, &self.generated, &self.compiled, &self.golden];
        parts.iter().all(|part| part.is_ok())
            && self.untyped.is_empty()
            && self.broken.iter().all(|(_, said)| said.is_ok())
    }
}

fn look(language: &'static Language, documents: &Path, service: &Path) -> Row {
    let mut row = Row {
        language,
        prepared: Err("not tried".to_owned()),
        generated: Err("not tried".to_owned()),
        compiled: Err("not tried".to_owned()),
        golden: Err("not tried".to_owned()),
        untyped: Vec::new(),
        twins: Vec::new(),
        broken: Vec::new(),
    };
    let begun = Instant::now();
    let work = match language.prepared(service) {
        Ok(work) => work,
        Err(error) => {
            row.prepared = Err(format!("{error:#}"));
            return row;
        }
    };
    row.prepared = Ok(begun.elapsed());
    row.generated = timed(|| {
        documents::write(documents, &work.documents(), language.adaptations, None)?;
        (language.generate)(&work)
    });
    if row.generated.is_err() {
        return row;
    }
    match (language.untyped)(&work).and_then(|places| Ok((places, (language.twins)(&work)?))) {
        Ok((places, twins)) => (row.untyped, row.twins) = (places, twins),
        Err(error) => row.untyped.push(format!("{error:#}")),
    }
    row.compiled = timed(|| (language.compile)(&work));
    if row.compiled.is_ok() {
        row.golden = timed(|| {
            let steps = language.golden(&work)?;
            if steps != STEPS {
                bail!("only {}", steps.join(", "));
            }
            Ok(())
        });
        row.broken = [Broken::Reference, Broken::Member]
            .map(|broken| (broken, notices(language, &work, documents, broken)))
            .into();
    }
    row
}

fn timed(part: impl FnOnce() -> Result<()>) -> Part {
    let begun = Instant::now();
    part().map(|()| begun.elapsed()).map_err(|error| format!("{error:#}"))
}

/// Runs the steps on a broken document. Says which step rejects it, and with which message.
fn notices(language: &Language, work: &Work, documents: &Path, broken: Broken) -> Result<String, String> {
    let written = documents::write(documents, &work.documents(), language.adaptations, Some(broken));
    written.map_err(|error| format!("{error:#}"))?;
    let (who, complaint) = match (language.generate)(work) {
        Err(complaint) => ("generator", complaint),
        Ok(()) => match (language.compile)(work) {
            Err(complaint) => ("compiler", complaint),
            Ok(()) => return Err("accepted".to_owned()),
        },
    };
    let complaint = format!("{complaint:#}");
    let line = complaint
        .lines()
        .skip(usize::from(complaint.lines().count() > 1))
        .find(|line| broken.is_named_in(line));
    match line.or_else(|| complaint.lines().find(|line| broken.is_named_in(line))) {
        Some(line) => Ok(format!("{who}: {}", shortened(line))),
        None => Err(format!("{who}, without a name: {}", shortened(&complaint))),
    }
}

fn shortened(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(COMPLAINT_LETTERS).collect()
}

fn print(rows: &[Row]) {
    println!(
        "{:<17} {:>9} {:>10} {:>9} {:>15} {:>13}  broken documents",
        "", "prepared", "generated", "compiled", "golden flow", "open, unnamed"
    );
    for row in rows {
        let part = |part: &Part| match part {
            Ok(time) => format!("{:.1} s", time.as_secs_f32()),
            Err(_) => "no".to_owned(),
        };
        let golden = match &row.golden {
            Ok(time) => format!("{0} of {0}, {1:.1} s", STEPS.len(), time.as_secs_f32()),
            Err(_) => "no".to_owned(),
        };
        let refused = row.broken.iter().filter(|(_, said)| said.is_ok()).count();
        println!(
            "{:<17} {:>9} {:>10} {:>9} {:>15} {:>13}  {refused} of 2 refused",
            row.language.name,
            part(&row.prepared),
            part(&row.generated),
            part(&row.compiled),
            golden,
            row.untyped.len(),
        );
    }
    println!();
    for row in rows {
        println!("{}: {}", row.language.name, row.language.generator);
        for adaptation in row.language.adaptations {
            println!("  adapted     {}", adaptation.reason);
        }
        for (name, part) in [
            ("prepared", &row.prepared),
            ("generated", &row.generated),
            ("compiled", &row.compiled),
            ("golden flow", &row.golden),
        ] {
            if let Err(complaint) = part {
                println!("  {name:<11} no: {complaint}");
            }
        }
        for place in row.untyped.iter().take(PLACES_SHOWN) {
            println!("  untyped     {place}");
        }
        if let Some(first) = row.twins.first() {
            println!(
                "  or null     {} names of nullable components with a suffix of the generator, such as {first}",
                row.twins.len()
            );
        }
        for (broken, said) in &row.broken {
            let (Ok(said) | Err(said)) = said;
            println!("  {}: {said}", broken.title());
        }
    }
    println!();
}

/// Prints where unnamed types come from; returns their number.
fn print_open_types(documents: &Path) -> Result<usize> {
    let mut open = 0;
    for name in documents::NAMES {
        let places = documents::unnamed(&documents::read(documents, name)?);
        println!("types of {name}.json that are open or have no name: {}", places.len());
        open += places.len();
        for place in places {
            println!("  {place}");
        }
    }
    Ok(open)
}
