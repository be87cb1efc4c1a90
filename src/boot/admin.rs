//! Provisioning commands. Secrets are shown once.

use crate::{
    boot::{context, open_existing},
    ctx::Ctx,
    domain::{
        address::Address,
        ids::{KeyId, OrchestratorId, Owner, PlatformId, QuarantineId},
        network::Network,
        oddity::Verdict,
        quota::Tier,
        registration::Invitee,
        session::normal_email,
    },
    flows::{self, keys, payments::quarantine::Quarantined},
    http::accounts::EmailText,
    settings::Settings,
};
use anyhow::{Context, anyhow, ensure};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

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

/// Verbs of `prs admin quarantine`.
#[derive(Debug, Subcommand)]
pub enum QuarantineVerb {
    /// Lists what waits for a decision, newest first; at most 1000.
    List {
        /// Only this network.
        #[arg(long)]
        network: Option<String>,
        /// Also what is accepted, rejected or settled.
        #[arg(long)]
        all: bool,
        /// How the result is printed.
        #[command(flatten)]
        output: Output,
    },
    /// Shows one in full.
    Show {
        /// Its id, as `list` prints it.
        id: String,
        /// How the result is printed.
        #[command(flatten)]
        output: Output,
    },
    /// Reads its block again: what is no longer odd is credited or forgotten by itself.
    Retry(Decision),
    /// Credits the payment as it is, once its block was read again.
    Accept(Decision),
    /// Leaves the payment alone for good.
    Reject(Decision),
}

/// A decision about something that was set aside.
#[derive(Debug, Args)]
pub struct Decision {
    /// Its id, as `list` prints it.
    id: String,
    /// Why, for those who look later.
    #[arg(long)]
    note: Option<String>,
    /// How the result is printed.
    #[command(flatten)]
    output: Output,
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

/// How results are printed.
#[derive(Debug, Args)]
pub struct Output {
    /// Prints JSON.
    #[arg(long)]
    json: bool,
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
            for key in keys::list(&ctx, &PlatformId(platform)).await? {
                let shown = json!({
                    "id": key.id.as_str(), "label": key.label, "hint": key.hint, "createdAt": key.created_at,
                    "lastUsedAt": key.last_used_at, "revokedAt": key.revoked_at,
                });
                print(&output, &shown);
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
            let invitee = match (&email, &wallet) {
                (Some(email), _) => {
                    let email = EmailText::parse(email).map_err(|hint| anyhow!("--email: {hint}"))?;
                    Invitee::Email(normal_email(email.as_str()))
                }
                (None, Some(wallet)) => {
                    let wallet = Address::parse(wallet).map_err(|error| anyhow!("--wallet: {error}"))?;
                    Invitee::Wallet(wallet)
                }
                (None, None) => Invitee::Anybody,
            };
            let new = flows::auth::invite::create(&ctx, &invitee).await?;
            let shown = json!({
                "id": new.invite.id.as_str(), "invite": new.code.as_ref().map(|code| code.reveal()),
                "email": email, "wallet": wallet, "expiresAt": new.invite.expires_at,
            });
            print(&output, &shown);
        }
        AdminVerb::Quarantine { verb } => quarantine(&ctx, verb).await?,
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
    let shown = json!({
        "masterKey": rotation.key, "replaced": rotation.replaced, "left": rotation.left, "retired": rotation.retired,
    });
    print(output, &shown);
    ensure!(
        rotation.left == 0,
        "{} values are not under {}: an instance still seals under another master key, or a value does not open (the log \
         names it); restart all instances with this one first in secrets.master_keys, then rotate again",
        rotation.left,
        rotation.key
    );
    Ok(())
}

async fn quarantine(ctx: &Ctx, verb: QuarantineVerb) -> anyhow::Result<()> {
    let (verdict, decision) = match verb {
        QuarantineVerb::List { network, all, output } => {
            let network = network.as_deref().map(network_of).transpose()?;
            for quarantined in flows::payments::quarantine::list(ctx, network, all).await? {
                print_quarantined(&output, &quarantined);
            }
            return Ok(());
        }
        QuarantineVerb::Show { id, output } => {
            let quarantined = flows::payments::quarantine::show(ctx, &QuarantineId(id)).await?;
            print_quarantined(&output, &quarantined);
            return Ok(());
        }
        QuarantineVerb::Retry(decision) => (Verdict::Retry, decision),
        QuarantineVerb::Accept(decision) => (Verdict::Accept, decision),
        QuarantineVerb::Reject(decision) => (Verdict::Reject, decision),
    };
    let id = QuarantineId(decision.id);
    let after = flows::payments::quarantine::decide(ctx, &id, verdict, decision.note.as_deref()).await?;
    print_quarantined(&decision.output, &after);
    Ok(())
}

fn print_quarantined(output: &Output, quarantined: &Quarantined) {
    let odd = &quarantined.oddity;
    let shown = json!({
        "id": quarantined.id.as_str(), "network": odd.network.id(), "blockNumber": odd.block_number,
        "txHash": odd.tx_hash, "position": odd.position, "reason": odd.reason.wire(), "detail": odd.detail,
        "platform": odd.concerned.as_ref().map(|concerned| concerned.platform.as_str()),
        "requestRow": odd.concerned.as_ref().map(|concerned| concerned.request.as_str()),
        "state": quarantined.state.wire(), "attempts": quarantined.attempts, "firstSeen": quarantined.first_seen,
        "lastSeen": quarantined.last_seen, "settledAt": quarantined.settled_at, "note": quarantined.note,
    });
    print(output, &shown);
    if !output.json {
        println!();
    }
}

fn network_of(id: &str) -> anyhow::Result<Network> {
    Network::from_id(id).with_context(|| format!("{id}: accepted are {}", Network::ids_in_words()))
}

fn print(output: &Output, result: &Value) {
    if output.json {
        println!("{result}");
        return;
    }
    for (name, value) in result.as_object().into_iter().flatten() {
        println!(
            "{name}: {}",
            value.as_str().map_or_else(|| value.to_string(), str::to_owned)
        );
    }
}
