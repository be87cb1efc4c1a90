//! The plan: which operations are called in which order, and their expected responses. The plan calls every operation
//! in such a way that the operation returns its documented success.
//!
//! In the texts, `{name}` is a placeholder for an option or for a value of an earlier response.

use std::collections::BTreeMap;

/// Values by name.
pub(crate) type Values = BTreeMap<String, String>;

/// The credential of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credential {
    /// The API key of the platform.
    Key,
    /// The client ID that the run created, with the origin of a page of its domain.
    Client,
    /// The key of an orchestrator, if given.
    Orchestrator,
    /// The session that was given, or a session of the payer's wallet.
    Wallet,
    /// The session of the account that the run registered, or else the session that the options give.
    Account,
    /// No credential.
    Nobody,
}

/// How a wallet signs data of a response.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Signing {
    /// The text of this member.
    Text(&'static str),
    /// The whole response: it is typed data.
    Data,
    /// The permit in the response, as typed data.
    Permit,
    /// The first transaction of the response, with the key of the wallet on Tron. The signed transaction is stored.
    Tron,
}

/// One call with its expected response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) operation: &'static str,
    pub(crate) credential: Credential,
    pub(crate) path: &'static [(&'static str, &'static str)],
    pub(crate) query: &'static str,
    pub(crate) body: &'static str,
    pub(crate) status: u16,
    /// Values of the response that later calls need. Each has a name, and a JSON pointer into the body.
    pub(crate) keep: &'static [(&'static str, &'static str)],
    /// The name under which the payer's signature over the response is stored, and what is signed.
    pub(crate) signed: Option<(&'static str, Signing)>,
    /// A value that an earlier step must have stored, although no text of this step contains its placeholder.
    pub(crate) needs: Option<&'static str>,
    /// The names of objects that this step removes, separated by spaces. The cleanup at the end therefore skips them.
    pub(crate) ends: Option<&'static str>,
    /// The status and words with which a deployment refuses an operation that it does not offer.
    pub(crate) unless: Option<(u16, &'static str)>,
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
        signed: None,
        needs: None,
        ends: None,
        unless: None,
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

    const fn signed(self, name: &'static str, signing: Signing) -> Self {
        Self {
            signed: Some((name, signing)),
            ..self
        }
    }

    const fn needs(self, name: &'static str) -> Self {
        Self {
            needs: Some(name),
            ..self
        }
    }

    const fn ends(self, name: &'static str) -> Self {
        Self {
            ends: Some(name),
            ..self
        }
    }

    const fn unless(self, status: u16, words: &'static str) -> Self {
        Self {
            unless: Some((status, words)),
            ..self
        }
    }
}

use Credential::{Account, Client, Key, Nobody, Orchestrator, Wallet};

/// The first steps: those that later steps depend on, and those for requests and payouts.
pub(crate) const BEGIN: &[Step] = &[
    step("listCurrencies", Key, 200).query("id={currency}"),
    step("listConversionRoutes", Key, 200).path(&[("currencyId", "{currency}")]),
    step("createClientId", Key, 201)
        .body(r#"{"label":"{name}","allowedDomains":["https://conformance.example"]}"#)
        .keep(&[("clientIdId", "/id"), ("clientId", "/clientId"), ("since", "/createdAt")]),
    step("listClientIds", Key, 200),
    step("getClientId", Key, 200).path(&[("id", "{clientIdId}")]),
    step("updateClientId", Key, 200)
        .path(&[("id", "{clientIdId}")])
        .body(r#"{"label":"{name}","allowedDomains":["https://conformance.example"],"status":"active"}"#),
    // A webhook URL can be registered only once, and a killed run leaves its endpoint behind, so the URL contains the
    // number of the run.
    step("createWebhook", Key, 201)
        .body(r#"{"url":"{receiver}/{name}"}"#)
        .keep(&[("webhookId", "/id"), ("secret", "/secret")])
        .unless(400, "must use https"),
    step("createWebhook", Client, 201)
        .body(r#"{"url":"{receiver}/{name}"}"#)
        .keep(&[("clientWebhookId", "/id")])
        .needs("webhookId")
        .unless(403, ""),
    step("approveWebhook", Key, 200).path(&[("webhookId", "{clientWebhookId}")]),
    step("deleteWebhook", Key, 200).path(&[("webhookId", "{clientWebhookId}")]),
    step("listWebhooks", Key, 200),
    step("createRequest", Key, 201)
        .body(r#"{"payee":"{payee}","amount":"1.5","invoiceCurrency":"{currency}","paymentCurrency":"{currency}","reference":"{name}"}"#)
        .keep(&[("requestId", "/requestId")]),
    step("getRequest", Key, 200).path(&[("requestId", "{requestId}")]),
    step("listRequests", Key, 200).query("walletAddress={payee}&limit=2"),
    step("getPaymentCalldata", Key, 200)
        .path(&[("requestId", "{requestId}")])
        .query("wallet={payer}"),
    step("createRequest", Key, 201)
        .body(r#"{"payee":"{payee}","payer":"{payer}","amount":"1","invoiceCurrency":"{currency}","paymentCurrency":"{currency}","reference":"{name}","recurrence":{"startDate":"2050-01-31","frequency":"MONTHLY"}}"#)
        .keep(&[("seriesId", "/requestId")]),
    step("updateRequest", Key, 200)
        .path(&[("requestId", "{seriesId}")])
        .body(r#"{"isRecurrenceStopped":true}"#),
    step("cancelRequest", Key, 200)
        .path(&[("requestId", "{seriesId}")])
        .ends("seriesId"),
    step("searchPayments", Key, 200).query("reference={name}&limit=1"),
    step("exportPayments", Key, 200).query("reference={name}"),
    step("createPayout", Key, 201)
        .body(r#"{"payee":"{payee}","amount":"1","invoiceCurrency":"{currency}","paymentCurrency":"{currency}","reference":"{name}"}"#),
    step("createPayout", Key, 201)
        .body(r#"{"payee":"{payee}","amount":"1","invoiceCurrency":"{currency}","paymentCurrency":"{currency}","reference":"{name}","recurrence":{"startDate":"2050-01-31","frequency":"MONTHLY","totalPayments":2,"payer":"{payer}"}}"#)
        .keep(&[("recurringId", "/id")])
        .signed("permitSignature", Signing::Permit)
        .unless(400, "must be absent"),
    step("getRecurringPayment", Key, 200).path(&[("id", "{recurringId}")]),
    step("activateRecurringPayment", Key, 201)
        .path(&[("id", "{recurringId}")])
        .body(r#"{"permitSignature":"{permitSignature}"}"#),
    step("updateRecurringPayment", Key, 200)
        .path(&[("id", "{recurringId}")])
        .body(r#"{"action":"cancel"}"#)
        .ends("recurringId"),
    step("createBatchPayout", Key, 201)
        .body(r#"{"requests":[{"payee":"{payee}","amount":"1","invoiceCurrency":"{currency}","paymentCurrency":"{currency}","reference":"{name}"}]}"#),
];

/// Users: accounts, wallets, and their objects.
pub(crate) const PEOPLE: &[Step] = &[
    step("createWalletChallenge", Nobody, 201)
        .body(r#"{"address":"{payer}"}"#)
        .keep(&[("challengeId", "/challengeId"), ("nonce", "/nonce"), ("message", "/message")])
        .signed("challengeSignature", Signing::Text("/message")),
    step("verifyWalletChallenge", Nobody, 200)
        .body(r#"{"challengeId":"{challengeId}","nonce":"{nonce}","message":"{message}","signature":"{challengeSignature}"}"#)
        .keep(&[("walletSession", COOKIE)])
        .unless(403, ""),
    step("registerAccount", Nobody, 201)
        .body(r#"{"email":"{email}","password":"{password}"}"#)
        .keep(&[("accountId", "/id")])
        .unless(403, ""),
    step("logIn", Nobody, 200)
        .body(r#"{"email":"{email}","password":"{password}"}"#)
        .keep(&[("accountSession", COOKIE)])
        .needs("accountId"),
    step("listSessions", Account, 200)
        .needs("accountId")
        .keep(&[("registrationSession", "/sessions/1/id")]),
    step("endSession", Account, 200).path(&[("id", "{registrationSession}")]),
    step("changePassword", Account, 200)
        .body(r#"{"currentPassword":"{password}","newPassword":"{password} again"}"#)
        .needs("accountId"),
    step("createApiKey", Account, 201)
        .body(r#"{"label":"{name}"}"#)
        .keep(&[("apiKeyId", "/id")]),
    step("listApiKeys", Account, 200),
    step("rotateApiKey", Account, 201)
        .path(&[("id", "{apiKeyId}")])
        .body(r#"{"overlapSeconds":0}"#)
        .keep(&[("rotatedKeyId", "/id")])
        .ends("apiKeyId"),
    step("revokeApiKey", Account, 200)
        .path(&[("id", "{rotatedKeyId}")])
        .ends("rotatedKeyId"),
    step("createOwnClientId", Account, 201)
        .body(r#"{"label":"{name}","allowedDomains":["https://conformance.example"]}"#)
        .keep(&[("ownClientIdId", "/id")]),
    step("listOwnClientIds", Account, 200),
    step("getOwnClientId", Account, 200).path(&[("id", "{ownClientIdId}")]),
    step("updateOwnClientId", Account, 200)
        .path(&[("id", "{ownClientIdId}")])
        .body(r#"{"label":"{name}","allowedDomains":["https://conformance.example"],"status":"active"}"#),
    step("revokeOwnClientId", Account, 200)
        .path(&[("id", "{ownClientIdId}")])
        .ends("ownClientIdId"),
];

/// The destination of the payer's wallet, and a link that pays it.
pub(crate) const DESTINATIONS: &[Step] = &[
    step("createOwnDestination", Wallet, 201)
        .body(r#"{"tokenAddress":"{tokenAddress}","chainId":"{chainId}"}"#)
        .keep(&[("ownDestinationId", "/destinationId")]),
    step("updateOwnDestination", Wallet, 200).body(r#"{"tokenAddress":"{tokenAddress}","chainId":"{chainId}"}"#),
    step("getOwnDestination", Wallet, 200),
    step("lookUpDestination", Wallet, 200).query("destinationId={ownDestinationId}"),
    step("lookUpPayoutDestination", Wallet, 200).query("walletAddress={payer}"),
    step("createSecurePayment", Wallet, 201)
        .body(r#"{"requests":[{"amount":"1"}],"reference":"{name}"}"#)
        .needs("ownDestinationId")
        .keep(&[("ownLinkRequestId", "/requestIds/0"), ("ownToken", "/token")]),
    step("findSecurePayment", Wallet, 200).query("requestId={ownLinkRequestId}"),
    step("withdrawSecurePayment", Wallet, 200)
        .path(&[("token", "{ownToken}")])
        .ends("ownToken"),
    step("createSecurePayout", Wallet, 201)
        .body(r#"{"recipient":"{payee}","creatorWalletAddress":"{payer}","network":"{network}","currency":"{currency}","amount":"1","reference":"{name}"}"#)
        .keep(&[("ownFirstToken", "/token")]),
    step("createSecurePayout", Wallet, 201)
        .body(r#"{"recipient":"{payee}","creatorWalletAddress":"{payer}","network":"{network}","currency":"{currency}","amount":"2","reference":"{name}"}"#)
        .keep(&[("ownSecondToken", "/token")]),
    step("createMulticallPayout", Wallet, 201)
        .body(r#"{"childTokens":["{ownFirstToken}","{ownSecondToken}"]}"#)
        .keep(&[("ownMulticallToken", "/token")]),
    step("getMulticallPayout", Wallet, 200).path(&[("token", "{ownMulticallToken}")]),
    step("withdrawSecurePayment", Wallet, 200)
        .path(&[("token", "{ownMulticallToken}")])
        .ends("ownMulticallToken"),
    step("withdrawSecurePayment", Wallet, 200)
        .path(&[("token", "{ownFirstToken}")])
        .ends("ownFirstToken"),
    step("withdrawSecurePayment", Wallet, 200)
        .path(&[("token", "{ownSecondToken}")])
        .ends("ownSecondToken"),
    step("deactivateOwnDestination", Wallet, 200)
        .body(r#"{"destinationId":"{ownDestinationId}"}"#)
        .ends("ownDestinationId"),
    step("getDestinationSigningData", Client, 200)
        .query("walletAddress={payer}&action=add&tokenAddress={tokenAddress}&chainId={chainId}")
        .keep(&[("addNonce", "/nonce")])
        .signed("addSignature", Signing::Data),
    step("addPayeeDestination", Client, 201)
        .body(r#"{"signature":"{addSignature}","nonce":"{addNonce}"}"#)
        .keep(&[("signedDestinationId", "/destinationId")]),
    step("getActivePayeeDestination", Client, 200).query("walletAddress={payer}"),
    step("getPayeeDestination", Client, 200).path(&[("destinationId", "{signedDestinationId}")]),
    step("getDestinationSigningData", Client, 200)
        .query("walletAddress={payer}&action=deactivate&tokenAddress={tokenAddress}&chainId={chainId}")
        .keep(&[("deactivateNonce", "/nonce")])
        .signed("deactivateSignature", Signing::Data),
    step("deactivatePayeeDestination", Client, 200)
        .path(&[("destinationId", "{signedDestinationId}")])
        .body(r#"{"signature":"{deactivateSignature}","nonce":"{deactivateNonce}"}"#)
        .ends("signedDestinationId"),
];

/// Links that other users of the deployment pay.
pub(crate) const LINKS: &[Step] = &[
    step("createSecurePayment", Key, 201)
        .body(r#"{"requests":[{"destinationId":"{destinationId}","amount":"1"}],"reference":"{name}"}"#)
        .keep(&[("givenToken", "/token")]),
    step("withdrawSecurePayment", Key, 200)
        .path(&[("token", "{givenToken}")])
        .ends("givenToken"),
    step("createSecurePayout", Key, 201)
        .body(r#"{"recipient":"{payee}","creatorWalletAddress":"{payer}","network":"{network}","currency":"{currency}","amount":"1","reference":"{name}"}"#)
        .keep(&[("firstToken", "/token")]),
    step("createSecurePayout", Key, 201)
        .body(r#"{"recipient":"{payee}","creatorWalletAddress":"{payer}","network":"{network}","currency":"{currency}","amount":"2","reference":"{name}"}"#)
        .keep(&[("secondToken", "/token")]),
    step("getSecurePayment", Key, 200).path(&[("token", "{firstToken}")]),
    // A transaction of a Safe locks the link until its owner releases it.
    step("recordSecurePaymentIntent", Key, 200)
        .path(&[("token", "{firstToken}")])
        .body(r#"{"safeTxHash":"0x5f4e1b2a7c6d5e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6072","chain":"{chain}","token":"{symbol}"}"#),
    step("releaseSecurePayment", Key, 200).path(&[("token", "{firstToken}")]),
    step("combineSecurePayouts", Key, 201)
        .body(r#"{"tokens":["{firstToken}","{secondToken}"]}"#)
        .keep(&[("token", "/token")])
        .ends("firstToken secondToken"),
    step("getSecurePayment", Key, 200).path(&[("token", "{token}")]),
    step("getSecurePaymentCalldata", Key, 200)
        .path(&[("token", "{token}")])
        .query("wallet={payer}"),
    step("reportSecurePaymentEvent", Key, 202)
        .path(&[("token", "{token}")])
        .body(r#"{"userEvent":"wallet_connected","occurredAt":"{since}"}"#),
    step("recordSecurePaymentIntent", Key, 200)
        .path(&[("token", "{token}")])
        .body(r#"{"txHash":"0x8f4e1b2a7c6d5e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071","chain":"{chain}","token":"{symbol}"}"#),
    step("withdrawSecurePayment", Key, 200)
        .path(&[("token", "{token}")])
        .ends("token"),
    // An approval moves no money, so the link stays unpaid.
    step("createSecurePayout", Key, 201)
        .body(r#"{"recipient":"{tronPayee}","creatorWalletAddress":"{tronPayer}","network":"tron","currency":"USDT-tron","amount":"1","reference":"{name}"}"#)
        .keep(&[("tronToken", "/token")]),
    step("getSecurePaymentCalldata", Key, 200)
        .path(&[("token", "{tronToken}")])
        .query("wallet={tronPayer}")
        .signed("signedTransaction", Signing::Tron),
    step("broadcastTronTransaction", Key, 200)
        .path(&[("token", "{tronToken}")])
        .body(r#"{"signedTransaction":"{signedTransaction}"}"#),
    step("withdrawSecurePayment", Key, 200)
        .path(&[("token", "{tronToken}")])
        .ends("tronToken"),
    step("previewSecurePaymentFees", Key, 200).body(r#"{"amount":"10.5","currency":"USDC","flow":"get_paid"}"#),
];

/// Payers with bank accounts, and partners.
pub(crate) const PARTNERS: &[Step] = &[
    step("registerPayer", Key, 200)
        .body(r#"{"clientUserId":"{name}","email":"{email}","firstName":"Conformance","lastName":"Approved","beneficiaryType":"individual","dateOfBirth":"1985-12-12","addressLine1":"12 Analytical Way","city":"New York","state":"NY","postcode":"10001","country":"US","nationality":"US","phone":"+12125550123","ssn":"123456789"}"#)
        .keep(&[("payerId", "/userId")])
        .unless(400, "does not pay bank accounts"),
    step("getPayer", Key, 200).path(&[("clientUserId", "{name}")]).needs("payerId"),
    step("updatePayer", Key, 200)
        .path(&[("clientUserId", "{name}")]).needs("payerId")
        .body(r#"{"agreementCompleted":true}"#),
    step("addPaymentDetails", Key, 201)
        .path(&[("clientUserId", "{name}")]).needs("payerId")
        .body(r#"{"bankName":"First Example Bank","accountName":"Conformance Approved","accountNumber":"1234567890","routingNumber":"021000021","beneficiaryType":"individual","currency":"usd","addressLine1":"12 Analytical Way","city":"New York","state":"NY","country":"US","dateOfBirth":"1985-12-12","postalCode":"10001","rails":"local"}"#),
    step("listPaymentDetails", Key, 200).path(&[("clientUserId", "{name}")]).needs("payerId"),
    step("listLinkedClientIds", Orchestrator, 200),
    // A deployment may require the consent of the platform.
    step("linkClientId", Orchestrator, 201)
        .body(r#"{"clientId":"{clientId}"}"#)
        .keep(&[("linkedClientId", "/link/clientId")])
        .unless(404, "must first name this orchestrator"),
    step("unlinkClientId", Orchestrator, 200).path(&[("clientId", "{linkedClientId}")]),
    step("listFeeConfigs", Orchestrator, 200),
    // Its configs are never deleted.
    step("createFeeConfig", Orchestrator, 201)
        .body(
            r#"{"bps":50,"feeBearer":"payer","flow":"outgoing","evmRecipientAddress":"0x976EA74026E726554dB657fA54763abd0C3a0aa9"}"#,
        )
        .keep(&[("feeConfigId", "/id")])
        .unless(409, "exists, active or disabled"),
    step("updateFeeConfig", Orchestrator, 200)
        .path(&[("id", "{feeConfigId}")])
        .body(r#"{"bps":25}"#),
    step("disableFeeConfig", Orchestrator, 200).path(&[("id", "{feeConfigId}")]),
    step("listOrchestratorWebhooks", Orchestrator, 200),
    // Its endpoints are never deleted.
    step("createOrchestratorWebhook", Orchestrator, 201)
        .body(r#"{"url":"{receiver}/{name}"}"#)
        .keep(&[("orchestratorWebhookId", "/webhook/id")])
        .unless(400, "must use https"),
    step("testOrchestratorWebhooks", Orchestrator, 200).body(r#"{"eventType":"client_id.linked"}"#),
    step("rotateOrchestratorWebhookSecret", Orchestrator, 200)
        .path(&[("id", "{orchestratorWebhookId}")])
        .body(r#"{"overlapSeconds":3600}"#),
    step("deactivateOrchestratorWebhook", Orchestrator, 200).path(&[("id", "{orchestratorWebhookId}")]),
    step("reactivateOrchestratorWebhook", Orchestrator, 200).path(&[("id", "{orchestratorWebhookId}")]),
    step("deactivateOrchestratorWebhook", Orchestrator, 200).path(&[("id", "{orchestratorWebhookId}")]),
];

/// Steps that need a delivered event.
pub(crate) const EVENTS: &[Step] = &[
    step("listEvents", Key, 200)
        .query("requestId={paidRequestId}&limit=1")
        .keep(&[("eventId", "/events/0/id")]),
    step("getEvent", Key, 200).path(&[("eventId", "{eventId}")]),
    step("listDeliveries", Key, 200)
        .query("eventId={eventId}&endpointId={webhookId}")
        .keep(&[("deliveryId", "/deliveries/0/id")]),
    step("getDelivery", Key, 200).path(&[("deliveryId", "{deliveryId}")]),
    step("retryDelivery", Key, 202).path(&[("deliveryId", "{deliveryId}")]),
    step("getDeliverySummary", Key, 200),
    step("replayEvent", Key, 202)
        .path(&[("eventId", "{eventId}")])
        .body(r#"{"endpointId":"{webhookId}"}"#),
    step("replayEvents", Key, 202).body(r#"{"since":"{since}","failedOnly":true}"#),
    step("searchPayments", Key, 200).query("requestId={paidRequestId}"),
    step("exportPayments", Key, 200).query("requestId={paidRequestId}&format=csv"),
];

/// Steps that remove what a stopped run has created.
pub(crate) const LEFT: &[Step] = &[
    step("cancelRequest", Key, 200).path(&[("requestId", "{seriesId}")]),
    step("updateRecurringPayment", Key, 200)
        .path(&[("id", "{recurringId}")])
        .body(r#"{"action":"cancel"}"#),
    step("revokeApiKey", Account, 200).path(&[("id", "{apiKeyId}")]),
    step("revokeApiKey", Account, 200).path(&[("id", "{rotatedKeyId}")]),
    step("revokeOwnClientId", Account, 200).path(&[("id", "{ownClientIdId}")]),
    step("withdrawSecurePayment", Wallet, 200).path(&[("token", "{ownToken}")]),
    step("withdrawSecurePayment", Wallet, 200).path(&[("token", "{ownMulticallToken}")]),
    step("withdrawSecurePayment", Wallet, 200).path(&[("token", "{ownFirstToken}")]),
    step("withdrawSecurePayment", Wallet, 200).path(&[("token", "{ownSecondToken}")]),
    step("deactivateOwnDestination", Wallet, 200).body(r#"{"destinationId":"{ownDestinationId}"}"#),
    step("withdrawSecurePayment", Key, 200).path(&[("token", "{givenToken}")]),
    step("withdrawSecurePayment", Key, 200).path(&[("token", "{firstToken}")]),
    step("withdrawSecurePayment", Key, 200).path(&[("token", "{secondToken}")]),
    step("withdrawSecurePayment", Key, 200).path(&[("token", "{token}")]),
    step("withdrawSecurePayment", Key, 200).path(&[("token", "{tronToken}")]),
    step("getDestinationSigningData", Client, 200)
        .query("walletAddress={payer}&action=deactivate&tokenAddress={tokenAddress}&chainId={chainId}")
        .needs("signedDestinationId")
        .keep(&[("deactivateNonce", "/nonce")])
        .signed("deactivateSignature", Signing::Data),
    step("deactivatePayeeDestination", Client, 200)
        .path(&[("destinationId", "{signedDestinationId}")])
        .body(r#"{"signature":"{deactivateSignature}","nonce":"{deactivateNonce}"}"#),
];

/// Removes the objects of the run.
pub(crate) const END: &[Step] = &[
    step("erasePayer", Key, 200)
        .path(&[("clientUserId", "{name}")])
        .needs("payerId"),
    step("rotateWebhookSecret", Key, 200)
        .path(&[("webhookId", "{webhookId}")])
        .body(r#"{"overlapSeconds":3600}"#),
    step("toggleWebhook", Key, 200).path(&[("webhookId", "{webhookId}")]),
    step("deleteWebhook", Key, 200).path(&[("webhookId", "{webhookId}")]),
    step("revokeClientId", Key, 200).path(&[("id", "{clientIdId}")]),
    step("endSessions", Account, 200).needs("accountId"),
    step("logOut", Account, 200),
];

/// JSON pointer of the session that a response opened.
pub(crate) const COOKIE: &str = "set-cookie";
