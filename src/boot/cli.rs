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
        presence::{InstancePresence, PresencePurpose},
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

/// Creates payment requests, detects their payments on chain, settles them and notifies the merchant.
#[derive(Debug, Parser)]
#[command(name = "prs", version, about)]
pub struct Cli {
    /// Settings file. Default: `prs.toml` in the working directory.
    #[arg(long, global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the API, the API documents and the workers.
    Serve {
        /// Role of this process.
        #[arg(long, value_enum, default_value_t = Role::All)]
        role: Role,
        /// Prints the settings with secrets hidden, then exits.
        #[arg(long)]
        print_config: bool,
    },
    /// Runs the service with a local chain, deployed contracts, test tokens and a seeded platform.
    Dev(dev::DevArguments),
    /// Migrates the database schema.
    Migrate {
        #[command(subcommand)]
        verb: MigrateVerb,
    },
    /// Exports documents; needs no database and no settings.
    Export {
        #[command(subcommand)]
        what: ExportCommand,
    },
    /// Compares the payments of a network with the chain; exit code 1 if they differ and were not fixed.
    Reconcile(reconcile::ReconcileArguments),
    /// Administration: platforms, keys, invites, rates, networks, quarantine and bank payments.
    Admin {
        #[command(subcommand)]
        verb: admin::AdminVerb,
    },
    /// Forwards events of a running service to a local URL, signed, as they happen.
    Listen(listen::ListenArguments),
    /// Lists and replays events of a running service.
    Events {
        #[command(subcommand)]
        verb: listen::EventsVerb,
    },
    /// Lists and retries deliveries of a running service.
    Deliveries {
        #[command(subcommand)]
        verb: listen::DeliveriesVerb,
    },
}

#[derive(Debug, Subcommand)]
enum MigrateVerb {
    /// Applies the missing migrations.
    Up,
    /// Reverts the last migrations. Deletes the data in the tables and columns that they added. Fails while an instance
    /// runs.
    Down {
        /// Number of migrations to revert.
        count: u32,
        /// Does not ask for confirmation.
        #[arg(long)]
        yes: bool,
    },
    /// Lists the migrations and whether they are applied.
    Status,
    /// Prints the current schema.
    Dump,
}

#[derive(Debug, Subcommand)]
enum ExportCommand {
    /// An OpenAPI document.
    Openapi {
        /// Document to export.
        #[arg(value_enum)]
        document: documents::PublishedDocument,
        /// Output file. Default: standard output.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// The JSON Schema of each event, one file per event.
    Events {
        /// Output folder.
        #[arg(long)]
        out: PathBuf,
    },
    /// The reference of all settings.
    Settings {
        /// Output file. Default: standard output.
        #[arg(long)]
        out: Option<PathBuf>,
    },
}

/// Exit code of `prs reconcile` when payments, requests or blocks could not be compared. Exit code 1 means that there
/// are differences.
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
            if compares && !error.is::<reconcile::UnfixedDifferences>() {
                ExitCode::from(COULD_NOT_COMPARE)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

/// The rejected arguments with their messages. The message of the refusal itself does not name them.
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

/// Stack size of each thread. In unoptimised builds a future reserves space for every future that it may await, a
/// megabyte in total, so the default of two megabytes is too small. Only the used part of a stack takes memory.
const STACK_BYTES: usize = 8 << 20;

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    adapters::install_tls();
    tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .context("runtime")
}

fn export(what: &ExportCommand) -> anyhow::Result<()> {
    match what {
        ExportCommand::Openapi { document, out } => write(out.as_deref(), &documents::described_text(*document)),
        ExportCommand::Settings { out } => write(out.as_deref(), &markdown()),
        ExportCommand::Events { out } => {
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

/// Reverts the last migrations, if no instance runs and the operator confirms.
async fn take_back(db: &Db, count: u32, is_meant: bool) -> anyhow::Result<()> {
    let applied = db.migrate_status().await?.into_iter().filter(|state| state.is_applied);
    let names: Vec<String> = applied.map(|state| state.name).collect();
    let Some((_, last)) = names
        .len()
        .checked_sub(usize::try_from(count)?)
        .map(|kept| names.split_at(kept))
    else {
        bail!(
            "{count} migrations cannot be reverted: only {} are applied",
            names.len()
        );
    };
    if last.is_empty() {
        say!("nothing to revert");
        return Ok(());
    }
    let Some(_alone) = InstancePresence::announce(db, PresencePurpose::TakeBack).await? else {
        bail!("an instance is using this database; stop all instances first");
    };
    if !is_meant {
        ask(last)?;
    }
    db.migrate_down(count).await?;
    for name in last.iter().rev() {
        say!("reverted {name}");
    }
    Ok(())
}

/// Asks on the terminal. Errors: there is no terminal, or the answer is not yes.
fn ask(names: &[String]) -> anyhow::Result<()> {
    if !std::io::stdin().is_terminal() {
        bail!("this deletes stored data; add --yes to run without a terminal");
    }
    say!("Reverts these migrations and deletes the data in the tables and columns that they added:");
    for name in names {
        say!("  {name}");
    }
    output::write("Type yes to continue: ");
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

    /// Clap checks the arguments of a verb only when the verb is called, so this test checks all of them.
    #[test]
    fn the_arguments_of_every_command_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn reject_takes_either_one_payment_or_search_criteria() {
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
