//! The access table: one row for each policy, with the operations that it guards.
//!
//! The security section of each operation, the extractor that checks it and the matrix of `cargo xtask test access`
//! come from this table. Source: interface §5; rules P.1.4.

use crate::{
    domain::caller::{Caller, OrchestratorCaller, PlatformCaller},
    http::gate::scheme::{Policy, PolicyMark, Scheme},
};

/// One operation and the credentials that it accepts.
#[derive(Debug, Clone, Copy)]
pub struct AccessRule {
    /// operationId in the documents.
    pub operation: &'static str,
    /// Name of the policy.
    pub policy: &'static str,
    /// The accepted credentials, in order of precedence; any of them is sufficient. If empty, the operation needs no
    /// credential.
    pub any_of: &'static [Scheme],
    /// Further rules, mainly for client IDs.
    pub marks: &'static [PolicyMark],
}

macro_rules! access {
    ($($(#[$doc:meta])* $policy:ident: $caller:ident [$($scheme:ident),*] $(as $($mark:ident)+)? { $($operation:ident)* })+) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $policy;

            impl Policy for $policy {
                type Caller = $caller;
                const ANY_OF: &'static [Scheme] = &[$(Scheme::$scheme),*];
                $(const MARKS: &'static [PolicyMark] = &[$(PolicyMark::$mark),+];)?
            }
        )+

        /// The operationIds as constants.
        #[expect(non_upper_case_globals, reason = "a constant is spelled like its operationId")]
        pub mod op {
            $($(
                /// The operation with this name.
                pub const $operation: &str = stringify!($operation);
            )*)+
        }

        /// Every operation.
        pub const TABLE: &[AccessRule] = &[$($(AccessRule {
            operation: stringify!($operation),
            policy: stringify!($policy),
            any_of: $policy::ANY_OF,
            marks: $policy::MARKS,
        },)*)+];
    };
}

access! {
    /// For the servers of the platform: operations on the whole platform. Calls have the higher rate limit of client ID
    /// management.
    KeyOnly: PlatformCaller [ApiKey] as Management {
        createClientId listClientIds getClientId updateClientId revokeClientId
    }

    /// For the servers of the platform: operations on persons and their bank accounts.
    PayerKeeper: PlatformCaller [ApiKey] {
        registerPayer getPayer updatePayer erasePayer addPaymentDetails listPaymentDetails
    }

    /// For the servers of the platform, and for pages and backends with its client IDs. Lists show a client ID only its
    /// own objects, but a client ID can read any request of the platform by id. A public client ID receives no personal
    /// data.
    KeyOrClient: PlatformCaller [ApiKey, ClientId] {
        listCurrencies listConversionRoutes
        createRequest updateRequest getPaymentCalldata
        createPayout createBatchPayout activateRecurringPayment getRecurringPayment
        searchPayments
    }

    /// For the servers of the platform, and for backends with its client IDs: events and deliveries are not visible to
    /// public client IDs.
    KeyOrBackend: PlatformCaller [ApiKey, ClientId] as Secret {
        listEvents followEvents getEvent replayEvent replayEvents
        listDeliveries getDeliverySummary getDelivery retryDelivery
    }

    /// For pages and backends with a client ID.
    ClientOnly: PlatformCaller [ClientId] {
        getDestinationSigningData addPayeeDestination getActivePayeeDestination
        getPayeeDestination deactivatePayeeDestination
    }

    /// For the servers of the platform, its people, and its client IDs. Lists show a client ID only its own objects,
    /// but a client ID can read any request of the platform by id. A public client ID receives no personal data.
    KeyClientOrSession: PlatformCaller [ApiKey, ClientId, SessionBearer, Session] {
        listRequests getRequest
    }

    /// For the servers, people and backends of the platform: to cancel a request, and to end or resume a signed
    /// schedule. Public client IDs are refused.
    Canceller: PlatformCaller [ApiKey, ClientId, SessionBearer, Session] as Secret {
        cancelRequest updateRecurringPayment
    }

    /// For the servers, people and backends of the platform: to withdraw a link, or to release it from a Safe.
    LinkEnder: PlatformCaller [ApiKey, ClientId, SessionBearer, Session] as Secret {
        withdrawSecurePayment releaseSecurePayment
    }

    /// For anyone who acts for a platform: to create links. Links created with a public client ID may come from
    /// strangers. A client ID that is linked to an orchestrator needs the key of the orchestrator.
    LinkMaker: PlatformCaller [ApiKey, ClientId, SessionBearer, Session, Paired] as Unlinked {
        createSecurePayment createSecurePayout
    }

    /// For anyone who acts for a platform: to preview the fees of links.
    LinkPreviewer: PlatformCaller [ApiKey, ClientId, SessionBearer, Session, Paired] {
        previewSecurePaymentFees
    }

    /// For the servers, people and backends of the platform: to combine links. Public client IDs are refused: any
    /// visitor may have created their links, and combining links withdraws them. A client ID that is linked to an
    /// orchestrator needs the key of the orchestrator.
    LinkCombiner: PlatformCaller [ApiKey, ClientId, SessionBearer, Session, Paired] as Secret Unlinked {
        combineSecurePayouts createMulticallPayout
    }

    /// For any caller with the token of a link: to open and pay this link, of any platform.
    LinkReader: PlatformCaller [ApiKey, ClientId] {
        getSecurePayment getSecurePaymentCalldata recordSecurePaymentIntent broadcastTronTransaction
    }

    /// For any caller with the token of a link: to send the reports of its payment page. Browsers may report only from
    /// pages of this service.
    LinkReporter: PlatformCaller [ApiKey, ClientId] as SameOrigin {
        reportSecurePaymentEvent
    }

    /// For people who signed in: to find their own links.
    LinkFinder: PlatformCaller [SessionBearer, Session] {
        findSecurePayment getMulticallPayout
    }

    /// For the servers, people and backends of the platform: to export payments. Public client IDs are refused; they
    /// search page by page with `searchPayments`.
    Exporter: PlatformCaller [ApiKey, ClientId, SessionBearer, Session] as Secret {
        exportPayments
    }

    /// For the servers and people of the platform, and for the client IDs that `webhooks.client_id_management` allows:
    /// to manage webhook endpoints. A public client ID has only its own unapproved endpoints.
    EndpointOwner: PlatformCaller [ApiKey, ClientId, SessionBearer, Session] as Endpoints {
        createWebhook listWebhooks toggleWebhook deleteWebhook testWebhooks
    }

    /// For the servers and people of the platform: decisions that a client ID must not make about itself.
    KeyOrSession: PlatformCaller [ApiKey, SessionBearer, Session] {
        approveWebhook
    }

    /// For the callers of `EndpointOwner` except public client IDs, because the response contains a secret in use.
    SecretHolder: PlatformCaller [ApiKey, ClientId, SessionBearer, Session] as Endpoints Secret {
        rotateWebhookSecret
    }

    /// For partners that build on several platforms.
    OrchestratorOnly: OrchestratorCaller [OrchestratorKey] {
        createOrchestratorWebhook listOrchestratorWebhooks deactivateOrchestratorWebhook
        reactivateOrchestratorWebhook testOrchestratorWebhooks rotateOrchestratorWebhookSecret
        listLinkedClientIds linkClientId unlinkClientId
        createFeeConfig listFeeConfigs updateFeeConfig disableFeeConfig
    }

    /// For people who signed in.
    SessionOnly: PlatformCaller [SessionBearer, Session] {
        createOwnClientId listOwnClientIds getOwnClientId updateOwnClientId revokeOwnClientId
        createOwnDestination updateOwnDestination getOwnDestination deactivateOwnDestination
        lookUpPayoutDestination lookUpDestination
        listApiKeys createApiKey rotateApiKey revokeApiKey
        changePassword listSessions endSession endSessions
    }

    /// For anyone: a caller who signs in has no credential yet, and a caller who signs out needs none.
    Anybody: Caller [] {
        createWalletChallenge verifyWalletChallenge registerAccount logIn logOut
    }

    /// For partners of the operator, who send a signature over the raw body instead of a credential.
    PartnerOnly: Caller [] as Signed {
        receiveOffRampNews
    }
}

/// The row of an operation.
pub fn row(operation: &str) -> Option<&'static AccessRule> {
    TABLE.iter().find(|row| row.operation == operation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::contract::document;
    use serde_json::Value;
    use std::collections::{BTreeMap, BTreeSet};

    /// The credentials of an operation: a set of alternatives. Each alternative is a set of schemes that a call has to
    /// satisfy together.
    type Alternatives = BTreeSet<BTreeSet<String>>;

    fn documented() -> BTreeMap<String, Alternatives> {
        let documents = [document::v2(), document::auth()];
        let documents = documents.map(|text| serde_json::from_str::<Value>(&text).unwrap());
        let mut found = BTreeMap::new();
        for document in &documents {
            let items = document["paths"].as_object().unwrap().values();
            for operation in items.flat_map(|item| item.as_object().unwrap().values()) {
                let alternatives = operation["security"].as_array().into_iter().flatten();
                let schemes =
                    alternatives.map(|alternative| alternative.as_object().unwrap().keys().cloned().collect());
                let id = operation["operationId"].as_str().unwrap().to_owned();
                assert!(found.insert(id.clone(), schemes.collect()).is_none(), "{id} twice");
            }
        }
        found
    }

    #[test]
    fn every_operation_documents_the_credentials_of_its_table_row() {
        let table: BTreeMap<String, Alternatives> = TABLE
            .iter()
            .map(|row| {
                let parts = |scheme: &Scheme| scheme.parts().iter().map(|part| part.id().to_owned()).collect();
                (row.operation.to_owned(), row.any_of.iter().map(parts).collect())
            })
            .collect();
        assert_eq!(table.len(), TABLE.len(), "an operation has two rows");
        assert_eq!(table, documented());
    }
}
