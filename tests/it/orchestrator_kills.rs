//! The process is killed at a commit of an orchestrator's call. When the call is repeated, either nothing was stored,
//! or the stored response is returned.

use crate::support::{database::TestDatabase, dev::Dev};
use serde_json::{Value, json};
use std::path::Path;

const CLIENT_IDS: &str = "/v2/orchestrators/client-ids";
const CONFIGS: &str = "/v2/orchestrators/fee-configs";
const KEY: &str = "x-orchestrator-key";

/// Starts `prs dev`. The process dies at the failpoint `point`; without a failpoint it keeps running.
fn start(folder: &Path, database: &TestDatabase, point: Option<&str>) -> Dev {
    let point = point.map(|point| format!("{point}=return"));
    let mut variables = vec![("PRS_DATABASE__URL", database.url.as_str())];
    variables.extend(point.as_deref().map(|point| ("FAILPOINTS", point)));
    Dev::start_with(folder, &variables)
}

/// Posts with an idempotency key; `None` when the process died before it responded.
async fn post(dev: &Dev, path: &str, body: &Value, repeat: &str) -> Option<(u16, Value)> {
    let headers = [("idempotency-key", repeat), (KEY, dev.text("/orchestratorKey"))];
    dev.send(path, &headers, Some(body)).await.ok()
}

#[tokio::test]
async fn a_kill_at_a_commit_leaves_one_link_and_one_fee_config() {
    prs::adapters::install_tls();
    let folder = tempfile::tempdir().expect("a folder");
    let database = TestDatabase::create().await;
    let client_id = start(folder.path(), &database, None)
        .text("/backendClientId")
        .to_owned();
    let config = json!({
        "bps": 50, "feeBearer": "payer", "flow": "incoming",
        "evmRecipientAddress": "0x976EA74026E726554dB657fA54763abd0C3a0aa9",
    });
    let link = json!({ "clientId": client_id });
    for (path, body, name, conflict) in [
        (CLIENT_IDS, &link, "link_client_id", "has a link"),
        (CONFIGS, &config, "create_fee_config", "exists"),
    ] {
        for edge in ["inserted", "before_commit"] {
            let dying = start(folder.path(), &database, Some(&format!("{name}.{edge}")));
            assert_eq!(
                post(&dying, path, body, name).await,
                None,
                "{name}.{edge} is not reached"
            );
        }
        let dying = start(folder.path(), &database, Some(&format!("{name}.after_commit")));
        assert_eq!(
            post(&dying, path, body, name).await,
            None,
            "{name}.after_commit is not reached"
        );
        drop(dying);
        let dev = start(folder.path(), &database, None);
        let (status, stored) = post(&dev, path, body, name).await.expect("a response");
        assert_eq!(status, 201, "the first commit stored its response: {stored}");
        let (status, refused) = post(&dev, path, body, "another-key").await.expect("a response");
        assert_eq!(status, 409, "{refused}");
        assert!(refused["message"].to_string().contains(conflict), "{refused}");
        let listed = dev.call_as((KEY, dev.text("/orchestratorKey")), path, None).await;
        let rows = [&listed["links"], &listed["feeConfigs"]].map(|rows| rows.as_array().map_or(0, Vec::len));
        // The sandbox has a disabled fee config of its own.
        let own = usize::from(path == CONFIGS);
        assert_eq!(rows.iter().sum::<usize>(), 1 + own, "{listed}");
    }
}
