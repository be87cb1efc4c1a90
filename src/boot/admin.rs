//! Provisioning commands. Secrets are shown once.

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

/// Rows that a sentence names.
const NAMED_MAX: usize = 5;

/// Verbs of `prs admin`.
#[derive(Debug, Subcommand)]
pub enum AdminVerb {
    /// Tenants.
    Platform {
        /// What to do.
        #[command(subcommand)]
        verb: PlatformVerb,
    },
    /// API keys of a tenant.
    ApiKey {
        /// What to do.
        #[command(subcommand)]
        verb: ApiKeyVerb,
    },
    /// Invites to open an account.
    Invite {
        /// What to do.
        #[command(subcommand)]
        verb: InviteVerb,
    },
    /// Master keys of sealed values.
    Keys {
        /// What to do.
        #[command(subcommand)]
        verb: KeysVerb,
    },
    /// Chains that are followed.
    Chain {
        /// What to do.
        #[command(subcommand)]
        verb: ChainVerb,
    },
    /// What is odd about payments and was set aside.
    Quarantine {
        /// What to do.
        #[command(subcommand)]
        verb: QuarantineVerb,
    },
    /// Orders by which payments reach bank accounts.
    Offramp {
        /// What to do.
        #[command(subcommand)]
        verb: OfframpVerb,
    },
    /// Rates of feeds beside the chains.
    Rates {
        /// What to do.
        #[command(subcommand)]
        verb: RatesVerb,
    },
    /// How often a tenant may call.
    RateTier {
        /// What to do.
        #[command(subcommand)]
        verb: RateTierVerb,
    },
    /// Partners that build on several platforms.
    Orchestrator {
        /// What to do.
        #[command(subcommand)]
        verb: OrchestratorVerb,
    },
    /// Keys of an orchestrator.
    OrchestratorKey {
        /// What to do.
        #[command(subcommand)]
        verb: OrchestratorKeyVerb,
    },
}

/// Verbs of `prs admin orchestrator`.
#[derive(Debug, Subcommand)]
pub enum OrchestratorVerb {
    /// Creates an orchestrator with a key; the key is shown this once.
    Create {
        /// Name for people.
        #[arg(long)]
        name: String,
        /// How the result is printed.
        #[command(flatten)]
        output: Output,
    },
}

/// Verbs of `prs admin orchestrator-key`.
#[derive(Debug, Subcommand)]
pub enum OrchestratorKeyVerb {
    /// Makes a further key; it is shown this once.
    Create {
        /// Orchestrator.
        #[arg(long)]
        orchestrator: String,
        /// Name for people.
        #[arg(long)]
        label: Option<String>,
        /// How the result is printed.
        #[command(flatten)]
        output: Output,
    },
    /// Revokes a key for good.
    Revoke {
        /// Id of the key, as `create` printed it.
        id: String,
        /// Orchestrator.
        #[arg(long)]
        orchestrator: String,
        /// How the result is printed.
        #[command(flatten)]
        output: Output,
    },
}

/// Verbs of `prs admin platform`.
#[derive(Debug, Subcommand)]
pub enum PlatformVerb {
    /// Creates a tenant.
    Create {
        /// Name for people.
        #[arg(long)]
        name: String,
        /// How the result is printed.
        #[command(flatten)]
        output: Output,
    },
}

/// Verbs of `prs admin api-key`.
#[derive(Debug, Subcommand)]
pub enum ApiKeyVerb {
    /// Makes a key; it is shown this once.
    Create {
        /// Tenant.
        #[arg(long)]
        platform: String,
        /// Name for people.
        #[arg(long)]
        label: Option<String>,
        /// How the result is printed.
        #[command(flatten)]
        output: Output,
    },
    /// Lists the keys of a tenant, never their text.
    List {
        /// Tenant.
        #[arg(long)]
        platform: String,
        /// How the result is printed.
        #[command(flatten)]
        output: Output,
    },
    /// Makes the successor of a key; it is shown this once.
    Rotate {
        /// Id of the key, as `create` or `list` printed it.
        id: String,
        /// Tenant.
        #[arg(long)]
        platform: String,
        /// Seconds that the key before stays good.
        #[arg(long, default_value_t = 0)]
        overlap_seconds: u32,
        /// How the result is printed.
        #[command(flatten)]
        output: Output,
    },
    /// Revokes a key for good.
    Revoke {
        /// Id of the key, as `create` printed it.
        id: String,
        /// Tenant.
        #[arg(long)]
        platform: String,
        /// How the result is printed.
        #[command(flatten)]
        output: Output,
    },
}

/// Verbs of `prs admin invite`.
#[derive(Debug, Subcommand)]
pub enum InviteVerb {
    /// Makes an invite for one account, good for 7 days; its code is shown this once.
    Create {
        /// Only for this e-mail address.
        #[arg(long, conflicts_with = "wallet")]
        email: Option<String>,
        /// Only for this wallet, which then signs in without a code.
        #[arg(long)]
        wallet: Option<String>,
        /// How the result is printed.
        #[command(flatten)]
        output: Output,
    },
}

/// Verbs of `prs admin keys`.
#[derive(Debug, Subcommand)]
pub enum KeysVerb {
    /// Brings every sealed value under the first of the master keys, while the service runs; exit code 1 when something
    /// is left.
    Rotate {
        /// How the result is printed.
        #[command(flatten)]
        output: Output,
    },
}

/// Verbs of `prs admin chain`.
#[derive(Debug, Subcommand)]
pub enum ChainVerb {
    /// Has settled blocks read again, beside new ones.
    Rescan {
        /// Network ID, such as `base`.
        network: String,
        /// First block.
        #[arg(long)]
        from: u64,
        /// How the result is printed.
        #[command(flatten)]
        output: Output,
    },
    /// Lets a halted chain go on, once its nodes have been looked at.
    Resume {
        /// Network ID, such as `base`.
        network: String,
        /// How the result is printed.
        #[command(flatten)]
        output: Output,
    },
}

/// Verbs of `prs admin rate-tier`.
#[derive(Debug, Subcommand)]
pub enum RateTierVerb {
    /// Sets the tier of a tenant, or of one client ID.
    Set {
        /// Tenant.
        #[arg(long)]
        platform: String,
        /// Only this client ID of the tenant.
        #[arg(long)]
        client_id: Option<String>,
        /// basic, default, premium or high-volume.
        #[arg(long)]
        tier: Tier,
        /// How the result is printed.
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
            let found: Vec<Value> = found.collect();
            if output.json {
                say!("{}", json!({ "apiKeys": found }));
            } else {
                found.iter().for_each(|key| print(&output, key));
            }
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

async fn invite(ctx: &Ctx, email: Option<String>, wallet: Option<String>) -> anyhow::Result<Value> {
    ensure!(
        ctx.people.registration != Registration::Off,
        "an invite opens no account while accounts.registration is off; set it to invited"
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

/// Progress goes to standard error, so that the result can be read by a program.
async fn rotate_master_key(ctx: &Ctx, output: &Output) -> anyhow::Result<()> {
    // Nobody waits for an answer, and a look at many rows may take longer than a call may.
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
        "the values of {} rows do not open: {}; restore or empty them as docs/operations.md says, then rotate again",
        rotation.unreadable.len(),
        named(&rotation.unreadable)
    );
    ensure!(
        rotation.left == 0,
        "{} values are not under {}: an instance still seals under another master key; restart all instances with this \
         one first in secrets.master_keys, then rotate again",
        rotation.left,
        rotation.key
    );
    Ok(())
}

/// The first rows of a list, for people; the log names all of them.
fn named(rows: &[UnreadableRow]) -> String {
    let mut named: Vec<String> = rows
        .iter()
        .take(NAMED_MAX)
        .map(|row| format!("{}.{} of {} {}", row.table, row.column, row.owner, row.id))
        .collect();
    if rows.len() > NAMED_MAX {
        named.push("further ones in the log".to_owned());
    }
    named.join(", ")
}
