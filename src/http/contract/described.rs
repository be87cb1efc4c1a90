//! Completes what the framework's types describe for every operation.

use crate::http::{
    body::idempotency::IDEMPOTENCY_KEY,
    error::{ErrorBody, implied},
};
use indexmap::IndexMap;
use poem::{endpoint::BoxEndpoint, http::Method};
use poem_openapi::{
    OpenApi,
    registry::{MetaApi, MetaOperation, MetaParamIn, MetaPath, Registry},
    types::Type,
};
use std::collections::HashMap;

/// Wraps an API and completes its description: it merges equal paths, adds the statuses that every operation can
/// return, names and describes the header parameter `Idempotency-Key`, and removes parameters from media types.
pub struct DescribedDocument<T>(pub T);

impl<T: OpenApi> OpenApi for DescribedDocument<T> {
    fn meta() -> Vec<MetaApi> {
        let mut paths: IndexMap<String, Vec<MetaOperation>> = IndexMap::new();
        for path in T::meta().into_iter().flat_map(|api| api.paths) {
            paths.entry(path.path).or_default().extend(path.operations);
        }
        paths.values_mut().flatten().for_each(describe);
        let paths = paths
            .into_iter()
            .map(|(path, operations)| MetaPath { path, operations });
        vec![MetaApi { paths: paths.collect() }]
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
        ErrorBody::register(registry);
    }

    fn add_routes(self, routes: &mut HashMap<String, HashMap<Method, BoxEndpoint<'static>>>) {
        self.0.add_routes(routes);
    }
}

fn describe(operation: &mut MetaOperation) {
    let mut headers = operation.params.iter_mut();
    if let Some(key) = headers.find(|parameter| parameter.in_type == MetaParamIn::Header) {
        key.name = IDEMPOTENCY_KEY.to_owned();
        let about = "Makes the call safe to retry: the same key and body return the stored response for 24 hours";
        key.description = Some(about.to_owned());
    }
    let is_secured = !operation.security.is_empty();
    let has_body = operation.request.is_some();
    let has_input = has_body || !operation.params.is_empty();
    let responses = &mut operation.responses.responses;
    for answer in implied(is_secured, has_input, has_body) {
        if !responses.iter().any(|response| response.status == answer.status) {
            responses.push(answer);
        }
    }
    responses.sort_by_key(|response| response.status);
    let answers = responses.iter_mut().flat_map(|response| &mut response.content);
    let bodies = operation.request.iter_mut().flat_map(|request| &mut request.content);
    for media in answers.chain(bodies) {
        if media.content_type.starts_with("application/json;") {
            media.content_type = "application/json";
        }
    }
}
