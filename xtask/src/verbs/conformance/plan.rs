//! What is called, in which order, and what is expected: every operation with its documented success where an operator can
//! have it without a wallet, and with its refusals everywhere.
//!
//! `{name}` in a text stands for a value that was given or that an earlier answer had.

/// With what a call says who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Credential {
    /// The API key of the platform.
    Key,
    /// The client ID that the run created, from a page of its domain.
    Client,
    /// The key of an orchestrator, when one was given.
    Orchestrator,
    /// The session of an account that the run registered, or of the token that was given.
    Session,
    /// Nothing.
    Nobody,
}

/// One call with its expected answer.
pub(super) struct Step {
    pub(super) operation: &'static str,
    pub(super) credential: Credential,
    pub(super) path: &'static [(&'static str, &'static str)],
    pub(super) query: &'static str,
    pub(super) body: &'static str,
    pub(super) status: u16,
    /// Values of the answer that later calls need: their names, and where they are in the body.
    pub(super) keep: &'static [(&'static str, &'static str)],
}

const fn step(operation: &'static str, credential: Credential, status: u16) -> Step {
    Step {
        operation,
        credential,
        path: &[],
        query: "",
        body: "",
        status,
        keep: &[],
    }
}

impl Step {
    const fn path(self, path: &'static [(&'static str, &'static str)]) -> Self {
        Self { path, ..self }
    }

    const fn query(self, query: &'static str) -> Self {
        Self { query, ..self }
    }

    const fn body(self, body: &'static str) -> Self {
        Self { body, ..self }
    }

    const fn keep(self, keep: &'static [(&'static str, &'static str)]) -> Self {
        Self { keep, ..self }
    }
}

use Credential::{Client, Key, Nobody, Orchestrator, Session};

/// Everything up to the events, which are provoked after it.
pub(super) const BEGIN: &[Step] = &[
    step("listCurrencies", Key, 200).query("id={currency}"),
    step("listConversionRoutes", Key, 200).path(&[("currencyId", "{currency}")]),
    step("createClientId", Key, 201)
        .body(r#"{"label":"{name}","allowedDomains":["https://conformance.example"]}"#)
        .keep(&[("clientIdId", "/id"), ("clientId", "/clientId")]),
    step("listClientIds", Key, 200),
    step("getClientId", Key, 200).path(&[("id", "{clientIdId}")]),
    step("updateClientId", Key, 200)
        .path(&[("id", "{clientIdId}")])
        .body(r#"{"label":"{name}","allowedDomains":["https://conformance.example"],"status":"active"}"#),
    step("createWebhook", Key, 201)
        .body(r#"{"url":"{receiver}"}"#)
        .keep(&[("webhookId", "/id"), ("secret", "/secret")]),
    step("listWebhooks", Key, 200),
    step("createRequest", Key, 201)
        .body(r#"{"payee":"{payee}","amount":"1.5","invoiceCurrency":"{currency}","paymentCurrency":"{currency}","reference":"{name}"}"#)
        .keep(&[("requestId", "/requestId")]),
    step("getRequest", Key, 200).path(&[("requestId", "{requestId}")]),
    step("listRequests", Key, 200).query("walletAddress={payee}&limit=2"),
    step("getPaymentCalldata", Key, 200).path(&[("requestId", "{requestId}")]).query("wallet={payer}"),
    step("createRequest", Key, 201)
        .body(r#"{"payee":"{payee}","payer":"{payee}","amount":"1","invoiceCurrency":"{currency}","paymentCurrency":"{currency}","reference":"{name}","recurrence":{"startDate":"2050-01-31","frequency":"MONTHLY"}}"#)
        .keep(&[("seriesId", "/requestId")]),
    step("updateRequest", Key, 200).path(&[("requestId", "{seriesId}")]).body(r#"{"isRecurrenceStopped":true}"#),
    step("cancelRequest", Key, 200).path(&[("requestId", "{seriesId}")]),
    step("searchPayments", Key, 200).query("reference={name}&limit=1"),
    step("exportPayments", Key, 200).query("reference={name}&format=csv"),
    step("createPayout", Key, 201)
        .body(r#"{"payee":"{payee}","amount":"1","invoiceCurrency":"{currency}","paymentCurrency":"{currency}","reference":"{name}"}"#),
    step("createPayout", Key, 201)
        .body(r#"{"payee":"{payee}","amount":"1","invoiceCurrency":"{currency}","paymentCurrency":"{currency}","reference":"{name}","recurrence":{"startDate":"2050-01-31","frequency":"MONTHLY","totalPayments":2,"payer":"{payer}"}}"#)
        .keep(&[("recurringId", "/id")]),
    step("getRecurringPayment", Key, 200).path(&[("id", "{recurringId}")]),
    step("updateRecurringPayment", Key, 200).path(&[("id", "{recurringId}")]).body(r#"{"action":"cancel"}"#),
    step("createBatchPayout", Key, 201)
        .body(r#"{"requests":[{"payee":"{payee}","amount":"1","invoiceCurrency":"{currency}","paymentCurrency":"{currency}","reference":"{name}"}]}"#),
    step("createSecurePayment", Key, 201)
        .body(r#"{"requests":[{"destinationId":"{destinationId}","amount":"1"}],"reference":"{name}"}"#),
    step("createSecurePayout", Key, 201)
        .body(r#"{"recipient":"{payee}","creatorWalletAddress":"{payer}","network":"{network}","currency":"{currency}","amount":"1","reference":"{name}"}"#)
        .keep(&[("firstToken", "/token")]),
    step("createSecurePayout", Key, 201)
        .body(r#"{"recipient":"{payee}","creatorWalletAddress":"{payer}","network":"{network}","currency":"{currency}","amount":"2","reference":"{name}"}"#)
        .keep(&[("secondToken", "/token")]),
    step("getSecurePayment", Key, 200).path(&[("token", "{firstToken}")]),
    step("combineSecurePayouts", Key, 201)
        .body(r#"{"tokens":["{firstToken}","{secondToken}"]}"#)
        .keep(&[("token", "/token")]),
    step("getSecurePayment", Key, 200).path(&[("token", "{token}")]),
    step("getSecurePaymentCalldata", Key, 200).path(&[("token", "{token}")]).query("wallet={payer}"),
    step("reportSecurePaymentEvent", Key, 202)
        .path(&[("token", "{token}")])
        .body(r#"{"userEvent":"wallet_connected","occurredAt":"2026-01-31T12:00:00.000Z"}"#),
    step("withdrawSecurePayment", Key, 200).path(&[("token", "{token}")]),
    step("previewSecurePaymentFees", Key, 200).body(r#"{"amount":"10.5","currency":"USDC","flow":"get_paid"}"#),
    step("getDestinationSigningData", Client, 200)
        .query("walletAddress={payee}&action=add&tokenAddress={tokenAddress}&chainId={chainId}"),
    step("getActivePayeeDestination", Client, 200).query("walletAddress={payee}"),
    step("listOrchestratorWebhooks", Orchestrator, 200),
    step("createOrchestratorWebhook", Orchestrator, 201)
        .body(r#"{"url":"{receiver}"}"#)
        .keep(&[("orchestratorWebhookId", "/id")]),
    step("testOrchestratorWebhooks", Orchestrator, 200).body(r#"{"eventType":"client_id.linked"}"#),
    step("rotateOrchestratorWebhookSecret", Orchestrator, 200)
        .path(&[("id", "{orchestratorWebhookId}")])
        .body(r#"{"overlapSeconds":3600}"#),
    step("deactivateOrchestratorWebhook", Orchestrator, 200).path(&[("id", "{orchestratorWebhookId}")]),
    step("reactivateOrchestratorWebhook", Orchestrator, 200).path(&[("id", "{orchestratorWebhookId}")]),
    step("deactivateOrchestratorWebhook", Orchestrator, 200).path(&[("id", "{orchestratorWebhookId}")]),
    step("createWalletChallenge", Nobody, 201).body(r#"{"address":"{payee}"}"#),
    step("registerAccount", Nobody, 201).body(r#"{"email":"{email}","password":"{password}"}"#),
    step("logIn", Nobody, 200).body(r#"{"email":"{email}","password":"{password}"}"#),
    step("createApiKey", Session, 201).body(r#"{"label":"{name}"}"#).keep(&[("apiKeyId", "/id")]),
    step("listApiKeys", Session, 200),
    step("rotateApiKey", Session, 201)
        .path(&[("id", "{apiKeyId}")])
        .body(r#"{"overlapSeconds":0}"#)
        .keep(&[("rotatedKeyId", "/id")]),
    step("revokeApiKey", Session, 200).path(&[("id", "{rotatedKeyId}")]),
    step("createOwnClientId", Session, 201)
        .body(r#"{"label":"{name}","allowedDomains":["https://conformance.example"]}"#)
        .keep(&[("ownClientIdId", "/id")]),
    step("listOwnClientIds", Session, 200),
    step("getOwnClientId", Session, 200).path(&[("id", "{ownClientIdId}")]),
    step("updateOwnClientId", Session, 200)
        .path(&[("id", "{ownClientIdId}")])
        .body(r#"{"label":"{name}","allowedDomains":["https://conformance.example"],"status":"active"}"#),
    step("revokeOwnClientId", Session, 200).path(&[("id", "{ownClientIdId}")]),
    step("getOwnDestination", Session, 200),
];

/// What comes once there are events.
pub(super) const EVENTS: &[Step] = &[
    step("listEvents", Key, 200)
        .query("requestId={requestId}&limit=1")
        .keep(&[("eventId", "/events/0/id")]),
    step("getEvent", Key, 200).path(&[("eventId", "{eventId}")]),
    step("listDeliveries", Key, 200)
        .query("eventId={eventId}&endpointId={webhookId}")
        .keep(&[("deliveryId", "/deliveries/0/id")]),
    step("getDelivery", Key, 200).path(&[("deliveryId", "{deliveryId}")]),
    step("getDeliverySummary", Key, 200),
    step("replayEvent", Key, 202)
        .path(&[("eventId", "{eventId}")])
        .body(r#"{"endpointId":"{webhookId}"}"#),
    step("searchPayments", Key, 200).query("requestId={requestId}"),
];

/// What takes away again what the run made.
pub(super) const END: &[Step] = &[
    step("rotateWebhookSecret", Key, 200)
        .path(&[("webhookId", "{webhookId}")])
        .body(r#"{"overlapSeconds":3600}"#),
    step("toggleWebhook", Key, 200).path(&[("webhookId", "{webhookId}")]),
    step("deleteWebhook", Key, 200).path(&[("webhookId", "{webhookId}")]),
    step("revokeClientId", Key, 200).path(&[("id", "{clientIdId}")]),
    step("logOut", Session, 200),
];
