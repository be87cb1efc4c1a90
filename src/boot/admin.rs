//! Administration commands. Secrets are shown once.

use crate::{
    boot::{
        context, network_of, open_existing,
        orders::{self, OfframpVerb},
        output::{Output, print, say},
        quarantine::{self, QuarantineVerb},
        rates::{self, RatesVerb},
    },
    ctx::Ctx,
    domain::{
        address::Address,
        ids::{KeyId, OrchestratorId, Owner, PlatformId},
        quota::Tier,
        registration::{Invitee, Registration},
        session::normal_email,
    },
    flows::{self, at_rest::UnreadableRow, keys},
    http::{accounts::EmailText, forms::wire::Instant},
    settings::Settings,
    store,
};
use anyhow::{anyhow, ensure};
use chrono::{DateTime, Utc};
use clap::Subcommand;
use serde_json::{Value, json};

/// Maximum number of rows named in an error.
const NAMED_MAX: usize = 5;

/// Verbs of `prs admin`.
#[derive(Debug, Subcommand)]
pub enum AdminVerb {
    /// Platforms.
    Platform {
        /// Command.
        #[command(subcommand)]
        verb: PlatformVerb,
    },
    /// API keys of a platform.
    ApiKey {
        /// Command.
        #[command(subcommand)]
        verb: ApiKeyVerb,
    },
    /// Invites for registration.
    Invite {
        /// Command.
        #[command(subcommand)]
        verb: InviteVerb,
    },
    /// Master keys of encrypted values.
    Keys {
        /// Command.
        #[command(subcommand)]
        verb: KeysVerb,
    },
    /// Followed chains.
    Chain {
        /// Command.
        #[command(subcommand)]
        verb: ChainVerb,
    },
    /// Quarantined payments.
    Quarantine {
        /// Command.
        #[command(subcommand)]
        verb: QuarantineVerb,
    },
    /// Orders: payouts to bank accounts through the off-ramp partner.
    Offramp {
        /// Command.
        #[command(subcommand)]
        verb: OfframpVerb,
    },
    /// Rates from off-chain feeds.
    Rates {
        /// Command.
        #[command(subcommand)]
        verb: RatesVerb,
    },
    /// Rate limit tier of a platform.
    RateTier {
        /// Command.
        #[command(subcommand)]
        verb: RateTierVerb,
    },
    /// Partners that build on several platforms.
    Orchestrator {
        /// Command.
        #[command(subcommand)]
        verb: OrchestratorVerb,
    },
    /// Keys of an orchestrator.
    OrchestratorKey {
        /// Command.
        #[command(subcommand)]
        verb: OrchestratorKeyVerb,
    },
}

/// Verbs of `prs admin orchestrator`.
#[derive(Debug, Subcommand)]
pub enum OrchestratorVerb {
    /// Creates an orchestrator with a key; the key is shown only once.
    Create {
        /// Display name.
        #[arg(long)]
        name: String,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
    /// Lists the orchestrators.
    List {
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
    /// Refuses the keys of an orchestrator; its links and payments stay.
    Disable {
        /// Orchestrator.
        id: String,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
    /// Accepts the keys of an orchestrator again.
    Enable {
        /// Orchestrator.
        id: String,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
}

/// Verbs of `prs admin orchestrator-key`.
#[derive(Debug, Subcommand)]
pub enum OrchestratorKeyVerb {
    /// Creates an additional key; it is shown only once.
    Create {
        /// Orchestrator.
        #[arg(long)]
        orchestrator: String,
        /// Display name.
        #[arg(long)]
        label: Option<String>,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
    /// Revokes a key permanently.
    Revoke {
        /// Id of the key, as printed by `create`.
        id: String,
        /// Orchestrator.
        #[arg(long)]
        orchestrator: String,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
}

/// Verbs of `prs admin platform`.
#[derive(Debug, Subcommand)]
pub enum PlatformVerb {
    /// Creates a platform.
    Create {
        /// Display name.
        #[arg(long)]
        name: String,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
}

/// Verbs of `prs admin api-key`.
#[derive(Debug, Subcommand)]
pub enum ApiKeyVerb {
    /// Creates a key; it is shown only once.
    Create {
        /// Platform.
        #[arg(long)]
        platform: String,
        /// Display name.
        #[arg(long)]
        label: Option<String>,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
    /// Lists the keys of a platform, without their secrets.
    List {
        /// Platform.
        #[arg(long)]
        platform: String,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
    /// Replaces a key; the new key is shown only once.
    Rotate {
        /// Id of the key, as printed by `create` or `list`.
        id: String,
        /// Platform.
        #[arg(long)]
        platform: String,
        /// Seconds for which the old key stays valid.
        #[arg(long, default_value_t = 0)]
        overlap_seconds: u32,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
    /// Revokes a key permanently.
    Revoke {
        /// Id of the key, as printed by `create`.
        id: String,
        /// Platform.
        #[arg(long)]
        platform: String,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
}

/// Verbs of `prs admin invite`.
#[derive(Debug, Subcommand)]
pub enum InviteVerb {
    /// Creates an invite for one account, valid for 7 days; its code is shown only once.
    Create {
        /// Only for this e-mail address.
        #[arg(long, conflicts_with = "wallet")]
        email: Option<String>,
        /// Wallet that the invite is for. It signs in without a code.
        #[arg(long)]
        wallet: Option<String>,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
}

/// Verbs of `prs admin keys`.
#[derive(Debug, Subcommand)]
pub enum KeysVerb {
    /// Re-encrypts every encrypted value with the first master key, while the service runs; exit code 1 if a value is
    /// left.
    Rotate {
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
}

/// Verbs of `prs admin chain`.
#[derive(Debug, Subcommand)]
pub enum ChainVerb {
    /// Reads settled blocks again, in parallel with new ones.
    Rescan {
        /// Network ID, such as `base`.
        network: String,
        /// First block.
        #[arg(long)]
        from: u64,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
    /// Resumes a halted chain, after the operator has checked its nodes.
    Resume {
        /// Network ID, such as `base`.
        network: String,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
}

/// Verbs of `prs admin rate-tier`.
#[derive(Debug, Subcommand)]
pub enum RateTierVerb {
    /// Sets the tier of a platform, or of one client ID.
    Set {
        /// Platform.
        #[arg(long)]
        platform: String,
        /// Only for this client ID of the platform.
        #[arg(long)]
        client_id: Option<String>,
        /// basic, default, premium or high-volume.
        #[arg(long)]
        tier: Tier,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
}

/// Runs a verb.
pub async fn run(settings: &Settings, verb: AdminVerb) -> anyhow::Result<()> {
    let ctx = context(settings, open_existing(settings).await?)?;
    match verb {
        AdminVerb::Platform {
            verb: PlatformVerb::Create { name, output },
        } => {
            let id = flows::platforms::create::run(&ctx, &name).await?;
            print(&output, &json!({ "id": id.as_str(), "name": name }));
        }
        AdminVerb::ApiKey {
            verb:
                ApiKeyVerb::Create {
                    platform,
                    label,
                    output,
                },
        } => {
            let new = keys::create(&ctx, &PlatformId(platform), label.as_deref()).await?;
            print(
                &output,
                &json!({ "id": new.row.id.as_str(), "apiKey": new.key.reveal() }),
            );
        }
        AdminVerb::ApiKey {
            verb: ApiKeyVerb::List { platform, output },
        } => {
            let time = |time: DateTime<Utc>| Instant(time).to_string();
            let platform = PlatformId(platform);
            ensure!(
                store::platforms::exists(ctx.db.reader(), &platform).await?,
                "Platform not found"
            );
            let found = keys::list(&ctx, &platform).await?;
            let found = found.iter().map(|key| {
                json!({
                    "id": key.id.as_str(), "label": key.label, "hint": key.hint, "createdAt": time(key.created_at),
                    "lastUsedAt": key.last_used_at.map(time), "revokedAt": key.revoked_at.map(time),
                })
            });
            print_all(&output, "apiKeys", found.collect());
        }
        AdminVerb::ApiKey {
            verb:
                ApiKeyVerb::Rotate {
                    id,
                    platform,
                    overlap_seconds,
                    output,
                },
        } => {
            let (platform, id) = (PlatformId(platform), KeyId(id));
            let new = keys::rotate(&ctx, &platform, &id, overlap_seconds).await?;
            print(
                &output,
                &json!({ "id": new.row.id.as_str(), "apiKey": new.key.reveal() }),
            );
        }
        AdminVerb::ApiKey {
            verb: ApiKeyVerb::Revoke { id, platform, output },
        } => {
            keys::revoke(&ctx, &PlatformId(platform), &KeyId(id.clone())).await?;
            print(&output, &json!({ "id": id, "revoked": true }));
        }
        AdminVerb::Chain {
            verb: ChainVerb::Resume { network, output },
        } => {
            let known = network_of(&network)?;
            let reason = flows::payments::resume::run(&ctx, known).await?;
            print(&output, &json!({ "network": known.id(), "wasHaltedBecause": reason }));
        }
        AdminVerb::Chain {
            verb: ChainVerb::Rescan { network, from, output },
        } => {
            let known = network_of(&network)?;
            let to = flows::payments::rescan::run(&ctx, known, from).await?;
            print(&output, &json!({ "network": known.id(), "from": from, "to": to }));
        }
        AdminVerb::Keys {
            verb: KeysVerb::Rotate { output },
        } => rotate_master_key(&ctx, &output).await?,
        AdminVerb::Invite {
            verb: InviteVerb::Create { email, wallet, output },
        } => {
            print(&output, &invite(&ctx, email, wallet).await?);
        }
        AdminVerb::Quarantine { verb } => quarantine::run(&ctx, verb).await?,
        AdminVerb::Offramp { verb } => orders::run(&ctx, verb).await?,
        AdminVerb::Rates { verb } => rates::run(&ctx, verb).await?,
        AdminVerb::RateTier {
            verb:
                RateTierVerb::Set {
                    platform,
                    client_id,
                    tier,
                    output,
                },
        } => {
            let platform = PlatformId(platform);
            flows::platforms::rate_tier::set(&ctx, &platform, client_id.as_deref(), tier).await?;
            print(
                &output,
                &json!({ "platform": platform.as_str(), "clientId": client_id, "tier": tier.wire() }),
            );
        }
        AdminVerb::Orchestrator {
            verb: OrchestratorVerb::Create { name, output },
        } => {
            let new = flows::orchestrators::create::run(&ctx, &name).await?;
            let shown = json!({
                "id": new.id.as_str(), "name": name, "keyId": new.key_id.as_str(), "orchestratorKey": new.key.reveal(),
            });
            print(&output, &shown);
        }
        AdminVerb::Orchestrator {
            verb: OrchestratorVerb::List { output },
        } => {
            let time = |time: DateTime<Utc>| Instant(time).to_string();
            let found = flows::orchestrators::disable::list(&ctx).await?;
            let found = found.iter().map(|known| {
                json!({
                    "id": known.id.as_str(), "name": known.name, "createdAt": time(known.created_at),
                    "disabledAt": known.disabled_at.map(time),
                })
            });
            print_all(&output, "orchestrators", found.collect());
        }
        AdminVerb::Orchestrator {
            verb: OrchestratorVerb::Disable { id, output },
        } => {
            flows::orchestrators::disable::set(&ctx, &OrchestratorId(id.clone()), true).await?;
            print(&output, &json!({ "id": id, "disabled": true }));
        }
        AdminVerb::Orchestrator {
            verb: OrchestratorVerb::Enable { id, output },
        } => {
            flows::orchestrators::disable::set(&ctx, &OrchestratorId(id.clone()), false).await?;
            print(&output, &json!({ "id": id, "disabled": false }));
        }
        AdminVerb::OrchestratorKey {
            verb:
                OrchestratorKeyVerb::Create {
                    orchestrator,
                    label,
                    output,
                },
        } => {
            let new = keys::create(&ctx, &OrchestratorId(orchestrator), label.as_deref()).await?;
            print(
                &output,
                &json!({ "id": new.row.id.as_str(), "orchestratorKey": new.key.reveal() }),
            );
        }
        AdminVerb::OrchestratorKey {
            verb:
                OrchestratorKeyVerb::Revoke {
                    id,
                    orchestrator,
                    output,
                },
        } => {
            let owner = Owner::Orchestrator(OrchestratorId(orchestrator));
            if !keys::revoke(&ctx, owner.clone(), &KeyId(id.clone())).await? {
                return Err(keys::unknown(&owner).into());
            }
            print(&output, &json!({ "id": id, "revoked": true }));
        }
    }
    Ok(())
}

/// Prints a list: with `--json` as one JSON object with the member `name`, otherwise entry by entry.
fn print_all(output: &Output, name: &str, entries: Vec<Value>) {
    if output.json {
        say!("{}", json!({ name: entries }));
    } else {
        entries.iter().for_each(|entry| print(output, entry));
    }
}

async fn invite(ctx: &Ctx, email: Option<String>, wallet: Option<String>) -> anyhow::Result<Value> {
    ensure!(
        ctx.people.registration != Registration::Off,
        "invites have no effect while accounts.registration is off; set it to invited"
    );
    let email = email.map(|text| EmailText::parse(&text).map_err(|hint| anyhow!("--email: {hint}")));
    let email = email.transpose()?.map(|email| normal_email(email.as_str()));
    let wallet = wallet.map(|text| Address::parse(&text).map_err(|error| anyhow!("--wallet: {error}")));
    let wallet = wallet.transpose()?;
    let invitee = match (&email, wallet) {
        (Some(email), _) => Invitee::Email(email.clone()),
        (None, Some(wallet)) => Invitee::Wallet(wallet),
        (None, None) => Invitee::Anybody,
    };
    let new = flows::auth::invite::create(ctx, &invitee).await?;
    Ok(json!({
        "id": new.invite.id.as_str(), "invite": new.code.as_ref().map(|code| code.reveal()), "email": email,
        "wallet": wallet.map(|wallet| wallet.to_string()), "expiresAt": Instant(new.invite.expires_at).to_string(),
    }))
}

/// Progress goes to standard error, so that standard output contains only the result, for another program to read.
async fn rotate_master_key(ctx: &Ctx, output: &Output) -> anyhow::Result<()> {
    // No caller waits for a response, and reading many rows can take longer than the timeout of a call.
    let ctx = &Ctx {
        db: ctx.db.patient(),
        ..ctx.clone()
    };
    let rotation = flows::at_rest::rotate(ctx, |batch, rotation| {
        eprintln!(
            "{}: {} rows; {} in all, {} left",
            batch.column, batch.replaced, rotation.replaced, rotation.left
        );
    })
    .await?;
    let unreadable = rotation
        .unreadable
        .iter()
        .map(|row| json!({ "table": row.table, "column": row.column, "owner": row.owner, "id": row.id }));
    let unreadable: Vec<Value> = unreadable.collect();
    let shown = json!({
        "masterKey": rotation.key, "replaced": rotation.replaced, "left": rotation.left, "unreadable": unreadable,
        "retired": rotation.retired,
    });
    print(output, &shown);
    ensure!(
        rotation.unreadable.is_empty(),
        "the encrypted values of {} rows cannot be decrypted: {}; restore or empty them as \
         docs/operations/keys-and-backups.md says, then rotate again",
        rotation.unreadable.len(),
        named(&rotation.unreadable)
    );
    ensure!(
        rotation.left == 0,
        "{} values are not encrypted with the first master key, {}: an instance still encrypts with another key; put \
         this key first in secrets.master_keys of every instance, restart all instances, then rotate again",
        rotation.left,
        rotation.key
    );
    Ok(())
}

/// The first ids of a list, for the error message. The log contains all of them.
fn named(rows: &[UnreadableRow]) -> String {
    let mut named: Vec<String> = rows
        .iter()
        .take(NAMED_MAX)
        .map(|row| format!("{}.{} of {} {}", row.table, row.column, row.owner, row.id))
        .collect();
    if rows.len() > NAMED_MAX {
        named.push("more in the log".to_owned());
    }
    named.join(", ")
}
