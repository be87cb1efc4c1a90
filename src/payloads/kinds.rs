//! The kinds of events: their names, when they are sent, and their bodies.

use super::{
    endpoints::{self, WebhookDisabledBody},
    forms::ProcessorNames,
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
pub struct PayloadKind {
    /// Name in the API.
    pub name: &'static str,
    /// Name of its schema in the document.
    pub component: &'static str,
    /// One-line summary for the document.
    pub summary: &'static str,
    /// When the event is sent, and what a receiver should do.
    pub description: &'static str,
    /// Its schema.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    sample: fn(&ProcessorNames) -> String,
}

/// Every kind, in the order of the document.
pub const KINDS: [PayloadKind; 18] = [
    PayloadKind {
        name: "payment.confirmed",
        component: "PaymentConfirmed",
        summary: "A request is paid",
        description: "The whole expected amount has arrived and its last payment is final. Compare requestId, expectedAmount, currency and payee with your order, never reference alone, then deliver the goods.",
        schema: PaymentConfirmed::json_schema,
        sample: |names| {
            render(&PaymentConfirmed {
                event: "payment.confirmed",
                payment: payments::whole_sample(names),
                creator: payments::creator_sample(),
            })
        },
    },
    PayloadKind {
        name: "payment.partial",
        component: "PaymentPartial",
        summary: "A request is partly paid",
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
    PayloadKind {
        name: "payment.failed",
        component: "PaymentFailed",
        summary: "A payment could not be executed",
        description: "A recurring execution, a payout to a bank account or a payment by a Safe failed. The member subStatus contains the reason. Crosschain payments, which can fail too, are not in this version.",
        schema: PaymentFailedBody::json_schema,
        sample: |names| render(&progress::failed_sample(names)),
    },
    PayloadKind {
        name: "payment.refunded",
        component: "PaymentRefunded",
        summary: "A payment was refunded to the payer",
        description: "Not in this version: only test deliveries send it. The payment could not be completed and the payer has the money back. Do not ship the goods, or take them back.",
        schema: PaymentRefundedBody::json_schema,
        sample: |names| render(&progress::refunded_sample(names)),
    },
    PayloadKind {
        name: "payment.reversed",
        component: "PaymentReversed",
        summary: "A credited payment was reversed by a reorganisation",
        description: "Added by this service. A credited payment left the chain, and the totals of the request were computed again without it: totalAmountPaid is the remaining total. Do not ship the goods, or take them back. It is sent once for a payment that was reported as confirmed or partial. For a payment that was not reported, it is sent once if a confirmed request is no longer fully paid without it. It is never sent for a surplus that was not reported. If payment.confirmed was sent for the request, this event revokes it. If other payments still cover the expected amount, payment.confirmed follows for the payment that now completes the request. When the payment is included again, payment.confirmed or payment.partial is sent again, unless the request is already confirmed by then, because payments beyond the expected amount send no event. Sent only if the service is configured to send reversals.",
        schema: PaymentReversedBody::json_schema,
        sample: |names| render(&payments::reversed_sample(names)),
    },
    PayloadKind {
        name: "payment.processing",
        component: "PaymentProcessing",
        summary: "The status of a payout to a bank account changed",
        description: "Sent for every status of the payout. payment.confirmed follows once the bank has the money, payment.failed if the bank returns it.",
        schema: PaymentProcessingBody::json_schema,
        sample: |names| render(&progress::processing_sample(names)),
    },
    PayloadKind {
        name: "request.recurring",
        component: "RequestRecurring",
        summary: "A recurring request generated the next one",
        description: "The new request has its own id and reference; originalRequestId names the recurring request.",
        schema: RequestRecurringBody::json_schema,
        sample: |names| render(&progress::recurring_sample(names)),
    },
    PayloadKind {
        name: "compliance.updated",
        component: "ComplianceUpdated",
        summary: "The identity or agreement status of a payer changed",
        description: "Sent to platform-wide endpoints only. A compliant payer can receive payouts to a bank account.",
        schema: ComplianceUpdatedBody::json_schema,
        sample: |_| render(&payers::compliance_sample()),
    },
    PayloadKind {
        name: "payment_detail.updated",
        component: "PaymentDetailUpdated",
        summary: "The verification status of a bank account changed",
        description: "Sent to platform-wide endpoints only. Payouts need an approved account.",
        schema: PaymentDetailUpdatedBody::json_schema,
        sample: |_| render(&payers::payment_detail_sample()),
    },
    PayloadKind {
        name: "secure_payment.user_event",
        component: "SecurePaymentUserEvent",
        summary: "A payer took a step on the payment page",
        description: "Reported by the browser when possible. A missing event proves nothing, and only payment.confirmed shows that money arrived.",
        schema: SecurePaymentUserEvent::json_schema,
        sample: |_| render(&secure_payments::user_event_sample()),
    },
    PayloadKind {
        name: "secure_payment.access_rejected",
        component: "SecurePaymentAccessRejected",
        summary: "A wallet that may not pay attempted to pay",
        description: "The wallet is not on the list of allowed payers. Further attempts of the same wallet at the same payment are suppressed for 10 minutes, unless no endpoint accepted the event. `paid` is added by this service: if it is true, the wallet paid with calldata that was issued to another wallet. The money is credited, and the event is sent for each such payment and never suppressed.",
        schema: SecurePaymentAccessRejected::json_schema,
        sample: |_| render(&secure_payments::access_rejected_sample()),
    },
    PayloadKind {
        name: "webhook.disabled",
        component: "WebhookDisabled",
        summary: "An endpoint was switched off",
        description: "Added by this service. Every attempt to reach the endpoint failed for days. Its queued deliveries are cancelled, and it receives nothing until it is switched on again. The event goes to the other endpoints of the same owner, or of the client ID if the endpoint belongs to one, and to the event log. After switching the endpoint on, `POST /v2/events/replay` sends everything it missed: pass `failingSince` as `since`, `webhookId` as `endpointId`, and `failedOnly`.",
        schema: WebhookDisabledBody::json_schema,
        sample: |_| render(&endpoints::disabled_sample()),
    },
    PayloadKind {
        name: "payment.confirmed.client_id",
        component: "PaymentConfirmedClientId",
        summary: "A request of a client ID is paid",
        description: "Sent in addition to payment.confirmed, for requests that a client ID created. Sent only if the service is configured to send scoped variants.",
        schema: PaymentConfirmedClientId::json_schema,
        sample: |names| {
            render(&PaymentConfirmedClientId {
                event: "payment.confirmed.client_id",
                payment: payments::whole_sample(names),
                scope: payments::client_id_sample(),
            })
        },
    },
    PayloadKind {
        name: "payment.partial.client_id",
        component: "PaymentPartialClientId",
        summary: "A request of a client ID is partly paid",
        description: "Sent in addition to payment.partial, for requests that a client ID created. Sent only if the service is configured to send scoped variants.",
        schema: PaymentPartialClientId::json_schema,
        sample: |names| {
            render(&PaymentPartialClientId {
                event: "payment.partial.client_id",
                payment: payments::part_sample(names),
                scope: payments::client_id_sample(),
            })
        },
    },
    PayloadKind {
        name: "payment.confirmed.checkout",
        component: "PaymentConfirmedCheckout",
        summary: "A request of a secure payment is paid",
        description: "Sent in addition to payment.confirmed, for requests that a secure payment created. Sent only if the service is configured to send scoped variants.",
        schema: PaymentConfirmedCheckout::json_schema,
        sample: |names| {
            render(&PaymentConfirmedCheckout {
                event: "payment.confirmed.checkout",
                payment: payments::whole_sample(names),
                scope: payments::checkout_sample(),
            })
        },
    },
    PayloadKind {
        name: "payment.partial.checkout",
        component: "PaymentPartialCheckout",
        summary: "A request of a secure payment is partly paid",
        description: "Sent in addition to payment.partial, for requests that a secure payment created. Sent only if the service is configured to send scoped variants.",
        schema: PaymentPartialCheckout::json_schema,
        sample: |names| {
            render(&PaymentPartialCheckout {
                event: "payment.partial.checkout",
                payment: payments::part_sample(names),
                scope: payments::checkout_sample(),
            })
        },
    },
    PayloadKind {
        name: "client_id.linked",
        component: "ClientIdLinked",
        summary: "A platform finished its onboarding",
        description: "For orchestrators. Not in this version: only test deliveries send it. The platform completed a link intent; find it by intentId or externalId and store clientId. Not sent when a client ID is linked directly.",
        schema: ClientIdLinkedBody::json_schema,
        sample: |_| render(&orchestrators::linked_sample()),
    },
    PayloadKind {
        name: "kyt.screening.completed",
        component: "KytScreeningCompleted",
        summary: "A wallet was screened",
        description: "For orchestrators. Not in this version: only test deliveries send it. The screening of a wallet produced a result; a provider error is not a result.",
        schema: KytScreeningCompleted::json_schema,
        sample: |_| render(&orchestrators::screening_sample()),
    },
];

/// The body of an event: the bytes that are stored, signed and sent.
pub fn body(event: &Event, catalogue: &Catalogue, names: &ProcessorNames) -> String {
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

/// A body with placeholder values for test deliveries; `None` for an unknown kind.
pub fn sample(kind: &str, names: &ProcessorNames) -> Option<String> {
    KINDS
        .iter()
        .find(|known| known.name == kind)
        .map(|known| (known.sample)(names))
}
