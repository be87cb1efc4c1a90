//! Who may do what: one row for each policy, with the operations that it guards.
//!
//! The security section of each operation, the extractor that checks it and the matrix of `cargo xtask test access`
//! come from this table. Source: interface §5; rules P.1.4.

use crate::{
    domain::caller::{Caller, OrchestratorCaller, PlatformCaller},
    http::gate::scheme::{Mark, Policy, Scheme},
};

/// One operation and the credentials that open it.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// operationId in the documents.
    pub operation: &'static str,
    /// Name of the policy.
    pub policy: &'static str,
    /// Any of them is enough, in the order of precedence; none: anybody may call.
    pub any_of: &'static [Scheme],
    /// What else holds, above all for client IDs.
    pub marks: &'static [Mark],
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
                $(const MARKS: &'static [Mark] = &[$(Mark::$mark),+];)?
            }
        )+

        /// The operationIds, each under its own name.
        #[expect(non_upper_case_globals, reason = "a constant is spelled like the operation that it names")]
        pub mod op {
            $($(
                /// The operation of this name.
                pub const $operation: &str = stringify!($operation);
            )*)+
        }

        /// Every operation.
        pub const TABLE: &[Row] = &[$($(Row {
            operation: stringify!($operation),
            policy: stringify!($policy),
            any_of: $policy::ANY_OF,
            marks: $policy::MARKS,
        },)*)+];
    };
}

access! {
    /// The platform's own servers, for what concerns the whole platform; the wider limit of management applies.
    KeyOnly: PlatformCaller [ApiKey] as Management {
        createClientId listClientIds getClientId updateClientId revokeClientId
    }

    /// The platform's own servers, for what names persons and their bank accounts.
    PayerKeeper: PlatformCaller [ApiKey] {
        registerPayer getPayer updatePayer erasePayer addPaymentDetails listPaymentDetails
    }

    /// The platform's servers, and pages or backends that act for it. Lists show a client ID what is its own; a request
    /// that it names may be any of the platform. A public client ID is told nothing about persons.
    KeyOrClient: PlatformCaller [ApiKey, ClientId] {
        listCurrencies listConversionRoutes
        createRequest updateRequest getPaymentCalldata
        createPayout createBatchPayout activateRecurringPayment getRecurringPayment
        searchPayments
    }

    /// The platform's servers, and backends that act for it: what was told, and to whom, is no matter of whoever can
    /// read a page.
    KeyOrBackend: PlatformCaller [ApiKey, ClientId] as Secret {
        listEvents followEvents getEvent replayEvent replayEvents
        listDeliveries getDeliverySummary getDelivery retryDelivery
    }

    /// Pages and backends with a client ID.
    ClientOnly: PlatformCaller [ClientId] {
        getDestinationSigningData addPayeeDestination getActivePayeeDestination
        getPayeeDestination deactivatePayeeDestination
    }

    /// The platform's servers, its people, and a client ID: a list is its own, a request that it names may be any of the
    /// platform. A public client ID is told nothing about persons.
    KeyClientOrSession: PlatformCaller [ApiKey, ClientId, SessionBearer, Session] {
        listRequests getRequest
    }

    /// The platform's servers, its people and its backends, for what takes a request back, or ends or resumes what somebody
    /// signed: whoever reads a page does not.
    Canceller: PlatformCaller [ApiKey, ClientId, SessionBearer, Session] as Secret {
        cancelRequest updateRecurringPayment
    }

    /// The same for links. An orchestrator key beside any credential for links is refused: none is linked to an orchestrator
    /// as long as these make no links.
    LinkEnder: PlatformCaller [ApiKey, ClientId, SessionBearer, Session] as Alone Secret {
        withdrawSecurePayment
    }

    /// Whoever acts for a platform makes links; what a public client ID makes, strangers make.
    LinkMaker: PlatformCaller [ApiKey, ClientId, SessionBearer, Session] as Alone {
        createSecurePayment createSecurePayout previewSecurePaymentFees
    }

    /// The same without public client IDs: what one of them made, any of its visitors made, and combining withdraws it.
    LinkCombiner: PlatformCaller [ApiKey, ClientId, SessionBearer, Session] as Alone Secret {
        combineSecurePayouts
    }

    /// Whoever calls may open and pay any link whose token he has, of whatever platform.
    LinkReader: PlatformCaller [ApiKey, ClientId] as Alone {
        getSecurePayment getSecurePaymentCalldata recordSecurePaymentIntent
    }

    /// The same for what a payment page reports; a browser does so from pages of this service alone.
    LinkReporter: PlatformCaller [ApiKey, ClientId] as Alone SameOrigin {
        reportSecurePaymentEvent
    }

    /// People who signed in, for their own links.
    LinkFinder: PlatformCaller [SessionBearer, Session] as Alone {
        findSecurePayment
    }

    /// The same for everything that was paid: a public client ID is shown a page at a time, without persons.
    Exporter: PlatformCaller [ApiKey, ClientId, SessionBearer, Session] as Secret {
        exportPayments
    }

    /// The same for endpoints, as far as the operator lets client IDs manage them. A public client ID has those that it
    /// registered and nobody approved.
    EndpointOwner: PlatformCaller [ApiKey, ClientId, SessionBearer, Session] as Endpoints {
        createWebhook listWebhooks toggleWebhook deleteWebhook testWebhooks
    }

    /// The platform's servers and its people, for what a client ID must not decide about itself.
    KeyOrSession: PlatformCaller [ApiKey, SessionBearer, Session] {
        approveWebhook
    }

    /// The same as for endpoints, for what shows a secret that is in use.
    SecretHolder: PlatformCaller [ApiKey, ClientId, SessionBearer, Session] as Endpoints Secret {
        rotateWebhookSecret
    }

    /// Partners that build on several platforms.
    OrchestratorOnly: OrchestratorCaller [OrchestratorKey] {
        createOrchestratorWebhook listOrchestratorWebhooks deactivateOrchestratorWebhook
        reactivateOrchestratorWebhook testOrchestratorWebhooks rotateOrchestratorWebhookSecret
    }

    /// People who signed in.
    SessionOnly: PlatformCaller [SessionBearer, Session] {
        createOwnClientId listOwnClientIds getOwnClientId updateOwnClientId revokeOwnClientId
        createOwnDestination updateOwnDestination getOwnDestination deactivateOwnDestination
        lookUpPayoutDestination lookUpDestination
        listApiKeys createApiKey rotateApiKey revokeApiKey
        changePassword listSessions endSession endSessions
    }

    /// Anybody: who signs in has no credential yet, and who signs out needs none.
    Anybody: Caller [] {
        createWalletChallenge verifyWalletChallenge registerAccount logIn logOut
    }

    /// Partners of the operator: no credential opens it, but a signature over the body as it comes.
    PartnerOnly: Caller [] as Signed {
        receiveOffRampNews
    }
}

/// The row of an operation.
pub fn row(operation: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.operation == operation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::contract::document;
    use serde_json::Value;
    use std::collections::{BTreeMap, BTreeSet};

    fn documented() -> BTreeMap<String, BTreeSet<String>> {
        let documents = [document::v2(), document::auth()];
        let documents = documents.map(|text| serde_json::from_str::<Value>(&text).unwrap());
        let mut found = BTreeMap::new();
        for document in &documents {
            let items = document["paths"].as_object().unwrap().values();
            for operation in items.flat_map(|item| item.as_object().unwrap().values()) {
                let alternatives = operation["security"].as_array().into_iter().flatten();
                let schemes = alternatives.flat_map(|alternative| alternative.as_object().unwrap().keys().cloned());
                let id = operation["operationId"].as_str().unwrap().to_owned();
                assert!(found.insert(id.clone(), schemes.collect()).is_none(), "{id} twice");
            }
        }
        found
    }

    #[test]
    fn every_operation_has_a_row_and_asks_for_what_the_row_says() {
        let table: BTreeMap<String, BTreeSet<String>> = TABLE
            .iter()
            .map(|row| {
                let schemes = row.any_of.iter().map(|scheme| scheme.id().to_owned());
                (row.operation.to_owned(), schemes.collect())
            })
            .collect();
        assert_eq!(table.len(), TABLE.len(), "an operation has two rows");
        assert_eq!(table, documented());
    }
}
