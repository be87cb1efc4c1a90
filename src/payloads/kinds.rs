//! The kinds of events: what each is called, when it is sent, and its body.

use super::{
    endpoints::{self, WebhookDisabledBody},
    forms::Names,
    orchestrators::{self, ClientIdLinkedBody, KytScreeningCompleted},
    payers::{self, ComplianceUpdatedBody, PaymentDetailUpdatedBody},
    payments::{
        self, PaymentConfirmed, PaymentConfirmedCheckout, PaymentConfirmedClientId, PaymentPartial,
        PaymentPartialCheckout, PaymentPartialClientId, PaymentReversedBody,
    },
    progress::{self, PaymentFailedBody, PaymentProcessingBody, PaymentRefundedBody, RequestRecurringBody},
    received,
    render::render,
    secure_payments::{self, SecurePaymentAccessRejected, SecurePaymentUserEvent},
};
use crate::domain::{currency::Catalogue, event::Event};
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// One kind of event, as receivers see it.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Name on the wire.
    pub name: &'static str,
    /// Name of its schema in the document.
    pub component: &'static str,
    /// One line for the document.
    pub summary: &'static str,
    /// When it is sent and what to do with it.
    pub description: &'static str,
    /// Its schema.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    sample: fn(&Names) -> String,
}

/// Every kind, in the order of the document.
pub const KINDS: [Kind; 18] = [
    Kind {
        name: "payment.confirmed",
        component: "PaymentConfirmed",
        summary: "A request is paid",
        description: "The whole expected amount has arrived and its last payment is final. Compare requestId, expectedAmount, currency and payee with your order, never reference alone, and deliver the goods.",
        schema: PaymentConfirmed::json_schema,
        sample: |names| {
            render(&PaymentConfirmed {
                event: "payment.confirmed",
                payment: payments::whole_sample(names),
                creator: payments::creator_sample(),
            })
        },
    },
    Kind {
        name: "payment.partial",
        component: "PaymentPartial",
        summary: "A part of a request is paid",
        description: "A payment is final, but the total is still below the expected amount. More payments may follow.",
        schema: PaymentPartial::json_schema,
        sample: |names| {
            render(&PaymentPartial {
                event: "payment.partial",
                payment: payments::part_sample(names),
                creator: payments::creator_sample(),
            })
        },
    },
    Kind {
        name: "payment.failed",
        component: "PaymentFailed",
        summary: "A payment could not be executed",
        description: "A recurring execution or a payout to a bank account failed. The member subStatus holds the reason. Crosschain payments and payments of smart accounts, which may fail too, are not in this version.",
        schema: PaymentFailedBody::json_schema,
        sample: |names| render(&progress::failed_sample(names)),
    },
    Kind {
        name: "payment.refunded",
        component: "PaymentRefunded",
        summary: "A payment went back to the payer",
        description: "Not in this version: nothing raises it but a test delivery. The payment could not be completed and the payer has the money again. Do not deliver, or take back.",
        schema: PaymentRefundedBody::json_schema,
        sample: |names| render(&progress::refunded_sample(names)),
    },
    Kind {
        name: "payment.reversed",
        component: "PaymentReversed",
        summary: "A credited payment left the chain",
        description: "An addition of this service. A payment that counted left the chain, and the request was counted again without it: totalAmountPaid is what is left. Do not deliver, or take back. It is sent once for a payment that had been told as confirmed or partial, and once for one that had not when a confirmed request is no longer paid without it; never for a surplus that was never told. It takes back an earlier payment.confirmed of the request in any case: while other payments still cover the expected amount, payment.confirmed of the one that completes it now follows. When the payment is included again, payment.confirmed or payment.partial follows once more, unless the request is confirmed by then: what arrives beyond the expected amount raises nothing. Only when the service is set to send reversals.",
        schema: PaymentReversedBody::json_schema,
        sample: |names| render(&payments::reversed_sample(names)),
    },
    Kind {
        name: "payment.processing",
        component: "PaymentProcessing",
        summary: "A payout to a bank account moved on",
        description: "Sent for every state of the payout. Once the bank has the money, payment.confirmed follows; when it bounces, payment.failed.",
        schema: PaymentProcessingBody::json_schema,
        sample: |names| render(&progress::processing_sample(names)),
    },
    Kind {
        name: "request.recurring",
        component: "RequestRecurring",
        summary: "A recurring request generated the next one",
        description: "The new request has its own id and reference; the one that repeats is named beside it.",
        schema: RequestRecurringBody::json_schema,
        sample: |names| render(&progress::recurring_sample(names)),
    },
    Kind {
        name: "compliance.updated",
        component: "ComplianceUpdated",
        summary: "Identity or agreement of a payer changed",
        description: "Sent to platform-wide endpoints only. A payer who is compliant can pay to a bank account.",
        schema: ComplianceUpdatedBody::json_schema,
        sample: |_| render(&payers::compliance_sample()),
    },
    Kind {
        name: "payment_detail.updated",
        component: "PaymentDetailUpdated",
        summary: "The verification of a bank account moved on",
        description: "Sent to platform-wide endpoints only. Only approved accounts can be paid out to.",
        schema: PaymentDetailUpdatedBody::json_schema,
        sample: |_| render(&payers::payment_detail_sample()),
    },
    Kind {
        name: "secure_payment.user_event",
        component: "SecurePaymentUserEvent",
        summary: "A payer took a step on the payment page",
        description: "Told by the browser as well as it can: its absence proves nothing, and only payment.confirmed tells that money arrived.",
        schema: SecurePaymentUserEvent::json_schema,
        sample: |_| render(&secure_payments::user_event_sample()),
    },
    Kind {
        name: "secure_payment.access_rejected",
        component: "SecurePaymentAccessRejected",
        summary: "A wallet that may not pay tried to",
        description: "The wallet is not among the allowed payers. Further attempts of the same wallet at the same payment are kept back for 10 minutes, unless no endpoint took the event. With `paid` true, an addition of this service, the wallet paid all the same, by calldata that another wallet was given: the money is credited, and each such payment is told, never kept back.",
        schema: SecurePaymentAccessRejected::json_schema,
        sample: |_| render(&secure_payments::access_rejected_sample()),
    },
    Kind {
        name: "webhook.disabled",
        component: "WebhookDisabled",
        summary: "An endpoint was switched off",
        description: "An addition of this service. Every try to the endpoint failed for days; what waited for it is cancelled, and it receives nothing until it is switched on again. The other endpoints of the same owner are told, those of a client ID when the endpoint belongs to it, and it is in the event log. Once it is on, `POST /v2/events/replay` brings all that it missed: `failingSince` as `since`, `webhookId` as `endpointId`, and `failedOnly`.",
        schema: WebhookDisabledBody::json_schema,
        sample: |_| render(&endpoints::disabled_sample()),
    },
    Kind {
        name: "payment.confirmed.client_id",
        component: "PaymentConfirmedClientId",
        summary: "A request of a client ID is paid",
        description: "A further event besides payment.confirmed, for requests that a client ID created. Only when the service is set to send scoped variants.",
        schema: PaymentConfirmedClientId::json_schema,
        sample: |names| {
            render(&PaymentConfirmedClientId {
                event: "payment.confirmed.client_id",
                payment: payments::whole_sample(names),
                scope: payments::client_id_sample(),
            })
        },
    },
    Kind {
        name: "payment.partial.client_id",
        component: "PaymentPartialClientId",
        summary: "A part of a request of a client ID is paid",
        description: "A further event besides payment.partial, for requests that a client ID created. Only when the service is set to send scoped variants.",
        schema: PaymentPartialClientId::json_schema,
        sample: |names| {
            render(&PaymentPartialClientId {
                event: "payment.partial.client_id",
                payment: payments::part_sample(names),
                scope: payments::client_id_sample(),
            })
        },
    },
    Kind {
        name: "payment.confirmed.checkout",
        component: "PaymentConfirmedCheckout",
        summary: "A request of a secure payment is paid",
        description: "A further event besides payment.confirmed, for requests that a secure payment created. Only when the service is set to send scoped variants.",
        schema: PaymentConfirmedCheckout::json_schema,
        sample: |names| {
            render(&PaymentConfirmedCheckout {
                event: "payment.confirmed.checkout",
                payment: payments::whole_sample(names),
                scope: payments::checkout_sample(),
            })
        },
    },
    Kind {
        name: "payment.partial.checkout",
        component: "PaymentPartialCheckout",
        summary: "A part of a request of a secure payment is paid",
        description: "A further event besides payment.partial, for requests that a secure payment created. Only when the service is set to send scoped variants.",
        schema: PaymentPartialCheckout::json_schema,
        sample: |names| {
            render(&PaymentPartialCheckout {
                event: "payment.partial.checkout",
                payment: payments::part_sample(names),
                scope: payments::checkout_sample(),
            })
        },
    },
    Kind {
        name: "client_id.linked",
        component: "ClientIdLinked",
        summary: "A platform finished its onboarding",
        description: "For orchestrators. Not in this version: nothing raises it but a test delivery. The platform followed a link intent to its end; find it by intentId or externalId and store clientId. Not sent when a client ID is linked directly.",
        schema: ClientIdLinkedBody::json_schema,
        sample: |_| render(&orchestrators::linked_sample()),
    },
    Kind {
        name: "kyt.screening.completed",
        component: "KytScreeningCompleted",
        summary: "A wallet was screened",
        description: "For orchestrators. Not in this version: nothing raises it but a test delivery. The screening of a wallet came to a result; an error of the provider is none.",
        schema: KytScreeningCompleted::json_schema,
        sample: |_| render(&orchestrators::screening_sample()),
    },
];

/// The body of an event: the bytes that are stored, signed and sent.
pub fn body(event: &Event, catalogue: &Catalogue, names: &Names) -> String {
    match event {
        Event::PaymentReceived(facts) => received::body(facts, catalogue, names),
        Event::PaymentFailed(facts) => render(&progress::failed(facts, names)),
        Event::PaymentRefunded(facts) => render(&progress::refunded(facts, catalogue, names)),
        Event::PaymentReversed(facts) => render(&received::reversed(facts, catalogue, names)),
        Event::PaymentProcessing(facts) => render(&progress::processing(facts, names)),
        Event::RequestRecurring(facts) => render(&progress::recurring(facts, names)),
        Event::ComplianceUpdated(facts) => render(&payers::compliance(facts)),
        Event::PaymentDetailUpdated(facts) => render(&payers::payment_detail(facts)),
        Event::PayerStep(facts) => render(&secure_payments::user_event(facts)),
        Event::AccessRejected(facts) => render(&secure_payments::access_rejected(facts)),
        Event::WebhookDisabled(facts) => render(&endpoints::disabled(facts)),
        Event::ClientIdLinked(facts) => render(&orchestrators::linked(facts)),
        Event::ScreeningCompleted(facts) => render(&orchestrators::screening(facts)),
    }
}

/// A body with placeholder values for test deliveries; `None` when there is no such kind.
pub fn sample(kind: &str, names: &Names) -> Option<String> {
    KINDS
        .iter()
        .find(|known| known.name == kind)
        .map(|known| (known.sample)(names))
}
