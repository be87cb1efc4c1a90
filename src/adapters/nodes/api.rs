//! The HTTP API that some nodes serve beside JSON-RPC.

use crate::domain::ids::Secret;
use reqwest::header::HeaderName;
use url::Url;

/// The HTTP API that a node serves beside JSON-RPC.
#[derive(Debug, Clone)]
pub(in crate::adapters) struct NodeApi {
    /// Its URL, to which paths are appended.
    pub(in crate::adapters) url: Url,
    /// Header with the key of the caller.
    pub(in crate::adapters) key: Option<(HeaderName, Secret)>,
}

impl NodeApi {
    /// The URL of a path below the API, such as `wallet/getblock`.
    pub(super) fn at(&self, path: &str) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path.split('/'));
        }
        url
    }
}
