//! Commands and what they print.

use super::{
    admin, dev, documents, listen, log,
    output::{self, say},
    reconcile,
    role::Role,
    serve,
};
use crate::{
    adapters,
    domain::refusal::FieldError,
    flows::FlowError,
    settings::{Settings, markdown},
    store::{
        Db,
        presence::{Intent, Presence},
    },
};
use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use std::{
    fs,
    io::IsTerminal,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Creates payment requests, recognises their payments on chain, settles them and tells the merchant.
#[derive(Debug, Parser)]
#[command(name = "prs", version, about)]
pub struct Cli {
    /// Settings file; `prs.toml` in the working directory when absent.
    #[arg(long, global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves the API, the documents and the workers.
    Serve {
        /// What this process does.
        #[arg(long, value_enum, default_value_t = Role::All)]
        role: Role,
        /// Prints the settings with secrets hidden and ends.
        #[arg(long)]
        print_config: bool,
    },
    /// Serves with a local chain, deployed contracts, test tokens and a seeded tenant.
    Dev(dev::DevArguments),
    /// Changes the schema of the database.
    Migrate {
        #[command(subcommand)]
        verb: MigrateVerb,
    },
    /// Writes documents; needs neither database nor settings.
    Export {
        #[command(subcommand)]
        what: Export,
    },
    /// Compares the payments of a network with the chain; exit code 1 when they differ and were not mended.
    Reconcile(reconcile::ReconcileArguments),
    /// Provisions tenants, orchestrators and keys.
    Admin {
        #[command(subcommand)]
        verb: admin::AdminVerb,
    },
    /// Forwards the events of a running service to a local address, signed, as they happen.
    Listen(listen::ListenArguments),
    /// Shows events of a running service and tells them again.
    Events {
        #[command(subcommand)]
        verb: listen::EventsVerb,
    },
    /// Shows deliveries of a running service and queues them again.
    Deliveries {
        #[command(subcommand)]
        verb: listen::DeliveriesVerb,
    },
}

#[derive(Debug, Subcommand)]
enum MigrateVerb {
    /// Applies what is missing.
    Up,
    /// Takes back the last changes, and what is stored in what they added; refuses while an instance serves.
    Down {
        /// How many.
        count: u32,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Lists the changes and whether they are applied.
    Status,
    /// Prints the schema as it is.
    Dump,
}

#[derive(Debug, Subcommand)]
enum Export {
    /// An OpenAPI document.
    Openapi {
        /// Which one.
        #[arg(value_enum)]
        document: documents::Document,
        /// File; standard output when absent.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// The JSON Schema of each event, one file each.
    Events {
        /// Folder.
        #[arg(long)]
        out: PathBuf,
    },
    /// The reference of all settings.
    Settings {
        /// File; standard output when absent.
        #[arg(long)]
        out: Option<PathBuf>,
    },
}

/// Of `prs reconcile`, whose 1 says that there are differences.
const COULD_NOT_COMPARE: u8 = 2;

/// Runs a command; errors go to standard error with their causes.
pub fn run(cli: Cli) -> ExitCode {
    let compares = matches!(cli.command, Command::Reconcile(_));
    match execute(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("prs: {error:#}");
            for wrong in wrong_fields(&error) {
                eprintln!("  {}: {}", wrong.field, wrong.message);
            }
            if compares && !error.is::<reconcile::Unmended>() {
                ExitCode::from(COULD_NOT_COMPARE)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

/// What a rule says of each wrong argument; its message alone does not name them.
fn wrong_fields(error: &anyhow::Error) -> &[FieldError] {
    match error.downcast_ref() {
        Some(FlowError::Refused(refusal)) => &refusal.fields,
        _ => &[],
    }
}

fn execute(cli: Cli) -> anyhow::Result<()> {
    let config = cli.config.as_deref();
    match cli.command {
        Command::Export { what } => export(&what),
        Command::Serve { print_config: true, .. } => {
            let settings = Settings::load(config)?;
            super::check(&settings)?;
            output::write(&settings.shown()?);
            Ok(())
        }
        Command::Serve {
            role,
            print_config: false,
        } => {
            let settings = Settings::load(config)?;
            super::check(&settings)?;
            let _guard = log::start(&settings.log)?;
            runtime()?.block_on(serve::run(&settings, role))
        }
        Command::Dev(arguments) => {
            if let Some(path) = config {
                bail!("--config {}: {}", path.display(), dev::NO_FILE);
            }
            let _guard = log::start(&dev::log_settings()?)?;
            runtime()?.block_on(dev::run(&arguments))
        }
        Command::Migrate { verb } => {
            let settings = Settings::load(config)?;
            runtime()?.block_on(migrate(&settings, verb))
        }
        Command::Reconcile(arguments) => {
            let settings = Settings::load(config)?;
            let _guard = log::start(&settings.log)?;
            runtime()?.block_on(reconcile::run(&settings, &arguments))
        }
        Command::Admin { verb } => {
            let settings = Settings::load(config)?;
            let _guard = log::start(&settings.log)?;
            runtime()?.block_on(admin::run(&settings, verb))
        }
        Command::Listen(arguments) => runtime()?.block_on(listen::listen(&arguments)),
        Command::Events { verb } => runtime()?.block_on(listen::events(&verb)),
        Command::Deliveries { verb } => runtime()?.block_on(listen::deliveries(&verb)),
    }
}

/// Stack of each thread. Unoptimised, a future has a place there for every future that it may await, a megabyte in all; the
/// usual two megabytes are too few. Only what is used takes memory.
const STACK_BYTES: usize = 8 << 20;

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    adapters::install_tls();
    tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .context("runtime")
}

fn export(what: &Export) -> anyhow::Result<()> {
    match what {
        Export::Openapi { document, out } => write(out.as_deref(), &documents::described_text(*document)),
        Export::Settings { out } => write(out.as_deref(), &markdown()),
        Export::Events { out } => {
            fs::create_dir_all(out).with_context(|| out.display().to_string())?;
            for (kind, text) in documents::event_schemas() {
                write(Some(&out.join(format!("{kind}.json"))), &text)?;
            }
            Ok(())
        }
    }
}

fn write(out: Option<&Path>, text: &str) -> anyhow::Result<()> {
    match out {
        Some(path) => fs::write(path, text).with_context(|| path.display().to_string()),
        None => {
            output::write(text);
            Ok(())
        }
    }
}

async fn migrate(settings: &Settings, verb: MigrateVerb) -> anyhow::Result<()> {
    let db = super::connect(settings).await?;
    match verb {
        MigrateVerb::Up => super::migrate_up(&db).await?,
        MigrateVerb::Down { count, yes } => take_back(&db, count, yes).await?,
        MigrateVerb::Status => {
            for migration in db.migrate_status().await? {
                say!(
                    "{} {}",
                    if migration.is_applied { "applied" } else { "missing" },
                    migration.name
                );
            }
        }
        MigrateVerb::Dump => output::write(&db.dump_schema().await?),
    }
    Ok(())
}

/// Takes the last changes back, when nobody serves and the operator means it.
async fn take_back(db: &Db, count: u32, is_meant: bool) -> anyhow::Result<()> {
    let applied = db.migrate_status().await?.into_iter().filter(|state| state.is_applied);
    let names: Vec<String> = applied.map(|state| state.name).collect();
    let Some((_, last)) = names
        .len()
        .checked_sub(usize::try_from(count)?)
        .map(|kept| names.split_at(kept))
    else {
        bail!("{count} changes cannot be taken back: {} are applied", names.len());
    };
    if last.is_empty() {
        say!("nothing to take back");
        return Ok(());
    }
    let Some(_alone) = Presence::announce(db, Intent::TakeBack).await? else {
        bail!("an instance serves with this database; stop every one of them first");
    };
    if !is_meant {
        ask(last)?;
    }
    db.migrate_down(count).await?;
    for name in last.iter().rev() {
        say!("took back {name}");
    }
    Ok(())
}

/// Asks on the terminal. Errors: there is none, or the answer is not yes.
fn ask(names: &[String]) -> anyhow::Result<()> {
    if !std::io::stdin().is_terminal() {
        bail!("this deletes stored data; add --yes where nobody can be asked");
    }
    say!("Takes back, with what is stored in what they added:");
    for name in names {
        say!("  {name}");
    }
    output::write("Type yes to go on: ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "yes" => Ok(()),
        _ => bail!("nothing was changed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Clap checks the arguments of a verb only when somebody calls it, so all of them are checked here.
    #[test]
    fn the_arguments_of_every_command_agree_with_one_another() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_rejection_names_one_payment_or_what_to_look_for() {
        let reject = |arguments: &[&str]| {
            let command = ["prs", "admin", "quarantine", "reject"];
            Cli::try_parse_from(command.iter().chain(arguments)).is_ok()
        };
        assert!(reject(&["quar_1"]));
        assert!(reject(&["--network", "sepolia"]));
        assert!(!reject(&["quar_1", "--network", "sepolia"]));
        assert!(!reject(&["quar_1", "--request", "req_1", "--min-amount", "1"]));
        assert!(!reject(&[]));
    }
}
