//! Partners that build on several platforms.

use crate::domain::orchestrator::DirectLinks;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Partners that build on several platforms.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OrchestratorSettings {
    /// Which client IDs an orchestrator may link with `POST /v2/orchestrators/client-ids`: `consent` for those whose
    /// platform names the orchestrator in `orchestratorId` of the client ID, `open` for every client ID, or `off` for
    /// none. With `open`, any orchestrator can link any client ID that it reads off a page, and a client ID has one link
    /// in its life. `prs dev` uses `open`.
    pub direct_links: DirectLinkSetting,
}

/// Which client IDs an orchestrator may link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DirectLinkSetting {
    /// Those whose platform names the orchestrator.
    #[default]
    Consent,
    /// Every client ID.
    Open,
    /// None.
    Off,
}

impl From<DirectLinkSetting> for DirectLinks {
    fn from(setting: DirectLinkSetting) -> Self {
        match setting {
            DirectLinkSetting::Consent => Self::Consent,
            DirectLinkSetting::Open => Self::Open,
            DirectLinkSetting::Off => Self::Off,
        }
    }
}
