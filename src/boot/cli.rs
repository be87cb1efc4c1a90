//! Commands and what they print.

use super::{admin, dev, documents, listen, reconcile, role::Role, serve};
use crate::{
    adapters,
    settings::{Settings, markdown},
    store::Db,
};
use anyhow::Context;
use clap::{Parser, Subcommand};
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};
use tracing_subscriber::EnvFilter;

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
    /// Takes back the last changes.
    Down {
        /// How many; all when absent.
        count: Option<u32>,
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

/// Runs a command; errors go to standard error with their causes.
pub fn run(cli: Cli) -> ExitCode {
    match execute(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("prs: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn execute(cli: Cli) -> anyhow::Result<()> {
    let config = cli.config.as_deref();
    match cli.command {
        Command::Export { what } => export(&what),
        Command::Serve { print_config: true, .. } => {
            print!("{}", Settings::load(config)?.shown()?);
            Ok(())
        }
        Command::Serve {
            role,
            print_config: false,
        } => {
            start_logging();
            let settings = Settings::load(config)?;
            runtime()?.block_on(serve::run(&settings, role))
        }
        Command::Dev(arguments) => {
            start_logging();
            runtime()?.block_on(dev::run(&arguments))
        }
        Command::Migrate { verb } => {
            let settings = Settings::load(config)?;
            runtime()?.block_on(migrate(&settings, verb))
        }
        Command::Reconcile(arguments) => {
            start_logging();
            let settings = Settings::load(config)?;
            runtime()?.block_on(reconcile::run(&settings, &arguments))
        }
        Command::Admin { verb } => {
            let settings = Settings::load(config)?;
            runtime()?.block_on(admin::run(&settings, verb))
        }
        Command::Listen(arguments) => runtime()?.block_on(listen::listen(&arguments)),
        Command::Events { verb } => runtime()?.block_on(listen::events(&verb)),
        Command::Deliveries { verb } => runtime()?.block_on(listen::deliveries(&verb)),
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    adapters::install_tls();
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("runtime")
}

/// JSON lines on standard error; `RUST_LOG` chooses what is logged.
fn start_logging() {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,sqlx=warn,sea_orm_migration=warn"));
    tracing_subscriber::fmt()
        .json()
        .with_writer(std::io::stderr)
        .with_env_filter(filter)
        .init();
}

fn export(what: &Export) -> anyhow::Result<()> {
    match what {
        Export::Openapi { document, out } => write(out.as_deref(), &documents::text(*document)),
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
            print!("{text}");
            Ok(())
        }
    }
}

async fn migrate(settings: &Settings, verb: MigrateVerb) -> anyhow::Result<()> {
    let db = Db::connect(&settings.database.url).await.context("database.url")?;
    match verb {
        MigrateVerb::Up => db.migrate_up().await?,
        MigrateVerb::Down { count } => db.migrate_down(count.unwrap_or(u32::MAX)).await?,
        MigrateVerb::Status => {
            for migration in db.migrate_status().await? {
                println!(
                    "{} {}",
                    if migration.is_applied { "applied" } else { "missing" },
                    migration.name
                );
            }
        }
        MigrateVerb::Dump => print!("{}", db.dump_schema().await?),
    }
    Ok(())
}
