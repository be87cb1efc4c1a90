//! Provisioning commands. Secrets are shown once.

use crate::{
    boot::{context, open_database},
    domain::ids::{ApiKeyId, PlatformId},
    flows,
    settings::Settings,
};
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

/// How results are printed.
#[derive(Debug, Args)]
pub struct Output {
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Runs a verb.
pub async fn run(settings: &Settings, verb: AdminVerb) -> anyhow::Result<()> {
    let ctx = context(settings, open_database(settings).await?)?;
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
            let (id, key) = flows::platforms::api_keys::create(&ctx, &PlatformId(platform), label.as_deref()).await?;
            print(&output, &json!({ "id": id.as_str(), "apiKey": key.reveal() }));
        }
        AdminVerb::ApiKey {
            verb: ApiKeyVerb::List { platform, output },
        } => {
            for key in flows::platforms::api_keys::list(&ctx, &PlatformId(platform)).await? {
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
            let (platform, id) = (PlatformId(platform), ApiKeyId(id));
            let new = flows::platforms::api_keys::rotate(&ctx, &platform, &id, overlap_seconds).await?;
            print(
                &output,
                &json!({ "id": new.row.id.as_str(), "apiKey": new.key.reveal() }),
            );
        }
        AdminVerb::ApiKey {
            verb: ApiKeyVerb::Revoke { id, platform, output },
        } => {
            flows::platforms::api_keys::revoke(&ctx, &PlatformId(platform), &ApiKeyId(id.clone())).await?;
            print(&output, &json!({ "id": id, "revoked": true }));
        }
    }
    Ok(())
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
