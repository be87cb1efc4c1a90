"""A strict client: reads every response from a request to its deliveries, with only the standard library.

An undeclared member, a missing member, a member of another type and a whole number with a fraction end the
program. `| None` means null, a default means that the member may be missing.

Arguments: address of the service, API key, client ID, wallet, URL of a webhook, body of the request.
"""

import json
import sys
import types
import typing
import urllib.request
from dataclasses import MISSING, dataclass, fields, is_dataclass

SERVICE, KEY, CLIENT, WALLET, HOOK, ORDER = sys.argv[1:]


@dataclass
class Created:
    requestId: str
    paymentReference: str


@dataclass
class Page:
    total: int
    limit: int
    offset: int
    hasMore: bool


@dataclass
class RequestRow:
    requestId: str
    paymentReference: str
    amount: str | None
    invoiceCurrency: str
    paymentCurrency: str
    hasBeenPaid: bool
    status: str | None
    reference: str | None
    createdAt: str | None
    txHash: str | None
    payee: str | None
    payer: str | None


@dataclass
class Requests:
    requests: list[RequestRow]
    pagination: Page


@dataclass
class Address:
    street: str = ""
    city: str = ""
    state: str = ""
    postalCode: str = ""
    country: str = ""


@dataclass
class Customer:
    address: Address | types.EllipsisType = ...
    firstName: str = ""
    lastName: str = ""
    email: str = ""


@dataclass
class PaymentRequest:
    requestId: str
    paymentReference: str
    hasBeenPaid: bool
    customerInfo: Customer | None
    reference: str | None


@dataclass
class Fee:
    type: str
    stage: str
    provider: str
    amount: str
    currency: str
    network: str
    rateProvider: str
    amountInUSD: str = ""
    receiverAddress: str = ""


@dataclass
class Reversal:
    reversedAt: str
    reason: str


@dataclass
class Payment:
    id: str
    amount: str
    sourceNetwork: str
    destinationNetwork: str
    sourceTxHash: str | None
    destinationTxHash: str | None
    timestamp: str
    type: str
    conversionRateSource: str | None
    conversionRateDestination: str | None
    convertedAmountSource: str | None
    convertedAmountDestination: str | None
    currency: str
    paymentCurrency: str
    fees: list[Fee] | None
    recurringPaymentId: str | None
    rateProvider: str | None
    feeShortfall: str = ""
    reversal: Reversal | types.EllipsisType = ...
    request: PaymentRequest | types.EllipsisType = ...


@dataclass
class Search:
    payments: list[Payment]
    pagination: Page
    nextCursor: str | None


@dataclass
class RequestFee:
    type: str
    provider: str
    amount: str
    currency: str


@dataclass
class Converted:
    amount: str
    rateSource: str
    timestamp: str
    amountInUsd: str = ""
    conversionRate: str = ""


@dataclass
class Breakdown:
    paidAmount: str
    remainingAmount: str
    currentMarketRate: str | None
    currentMarketRateSource: str | None
    payments: list[Converted]
    paidAmountInUsd: str = ""
    remainingAmountInUsd: str = ""


@dataclass
class QuarantinedPayment:
    txHash: str
    position: int | None
    reason: str
    state: str
    amount: str | None
    firstSeenAt: str


@dataclass
class Request:
    hasBeenPaid: bool
    paymentReference: str
    requestId: str
    isListening: bool
    txHash: str | None
    status: str
    isCryptoToFiatAvailable: bool
    payments: list[Payment]
    isRecurrenceStopped: bool
    customerInfo: Customer | None
    reference: str | None
    amountInUsd: str | None
    conversionRate: str | None
    conversionBreakdown: Breakdown | None
    fees: list[RequestFee] | None
    payee: str | None
    requestAmount: str
    invoiceCurrency: str
    paymentCurrency: str
    paidAmount: str
    payerAddress: str | None
    payerEoaAddress: str | None
    createdAt: str
    rateSource: str = ""
    excessAmount: str = ""
    detectedAmount: str = ""
    quarantinedPayments: list[QuarantinedPayment] | types.EllipsisType = ...
    quarantinedPaymentsTotal: int | types.EllipsisType = ...
    paymentsTotal: int | types.EllipsisType = ...
    originalRequestId: str = ""
    originalRequestPaymentReference: str = ""


@dataclass
class BigNumber:
    type: str
    hex: str


@dataclass
class Step:
    data: str
    to: str
    value: BigNumber
    chainId: int


@dataclass
class PlatformFee:
    percentage: str
    address: str


@dataclass
class StepFacts:
    stepsRequired: int
    needsApproval: bool
    approvalTransactionIndex: int | None
    paymentTransactionIndex: int
    hasEnoughBalance: bool
    hasEnoughGas: bool
    platformFee: PlatformFee | types.EllipsisType = ...


@dataclass
class Payable:
    transactions: list[Step]
    metadata: StepFacts


@dataclass
class Event:
    id: str
    event: str
    requestId: str | None
    clientId: str | None
    isTest: bool
    createdAt: str
    body: str


@dataclass
class Events:
    events: list[Event]
    nextCursor: str | None


@dataclass
class Delivery:
    id: str
    eventId: str
    event: str
    endpointId: str
    url: str | None
    state: str
    retryCount: int
    isTest: bool
    isReplay: bool
    createdAt: str
    nextAttemptAt: str | None
    finishedAt: str | None
    recoveryRounds: int
    nextRoundAt: str | None


@dataclass
class EventDetail:
    event: Event
    deliveries: list[Delivery]


@dataclass
class Deliveries:
    deliveries: list[Delivery]
    nextCursor: str | None


@dataclass
class Try:
    round: int
    number: int
    startedAt: str
    durationMs: int
    status: int | None
    error: str | None
    response: str | None


@dataclass
class DeliveryDetail:
    delivery: Delivery
    tries: list[Try]


@dataclass
class HookCreated:
    id: str
    secret: str
    standardSecret: str


@dataclass
class Hook:
    id: str
    url: str
    isActive: bool
    createdAt: str
    isApproved: bool
    clientId: str = ""
    headerPrefix: str = ""


@dataclass
class Hooks:
    webhooks: list[Hook]


@dataclass
class Tested:
    sent: int
    failed: int


@dataclass
class Success:
    success: bool


def take(kind, value, place):
    """The value as the declared type, or an error that names its path."""
    origin = typing.get_origin(kind)
    if origin is types.UnionType:
        kinds = typing.get_args(kind)
        if value is None and type(None) in kinds:
            return None
        return take(kinds[0], value, place)
    if origin is list:
        if type(value) is not list:
            raise TypeError(f"{place}: {value!r} is no list")
        (item,) = typing.get_args(kind)
        return [take(item, one, f"{place}[{number}]") for number, one in enumerate(value)]
    if not is_dataclass(kind):
        # A boolean is a whole number to isinstance, and 9.0 equals 9.
        if type(value) is not kind:
            raise TypeError(f"{place}: {value!r} is no {kind.__name__}")
        return value
    if type(value) is not dict:
        raise TypeError(f"{place}: {value!r} is no object")
    declared = {field.name: field for field in fields(kind)}
    unknown = value.keys() - declared.keys()
    missing = {name for name, field in declared.items() if field.default is MISSING} - value.keys()
    if unknown or missing:
        raise TypeError(f"{place}: unknown {sorted(unknown)}, missing {sorted(missing)}")
    hints = typing.get_type_hints(kind)
    return kind(**{name: take(hints[name], member, f"{place}.{name}") for name, member in value.items()})


count = 0
text = ""


def call(kind, method, path, body=None, header=("x-api-key", KEY)):
    """Makes a call and reads its response; urllib raises an error for every status except 2xx."""
    global count, text
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(SERVICE + path, data, method=method)
    request.add_header(*header)
    if data is not None:
        request.add_header("content-type", "application/json")
    with opener.open(request, timeout=20) as answer:
        text = answer.read().decode()
    count += 1
    return take(kind, json.loads(text), f"{method} {path}")


def expect(found, wanted):
    """Compares two values."""
    if found != wanted:
        raise AssertionError(f"{found!r} is not {wanted!r}")


opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
client = ("x-client-id", CLIENT)
hook = call(HookCreated, "POST", "/v1/webhook", {"url": HOOK}, client)
expect([one.id for one in call(Hooks, "GET", "/v1/webhook", None, client).webhooks], [hook.id])
sample = {"eventType": "payment.confirmed"}
expect(call(Tested, "POST", "/v1/webhook/test", sample, client), Tested(1, 0))

created = call(Created, "POST", "/v2/request", json.loads(ORDER), client)
path = f"/v2/request/{created.requestId}"
listed = call(Requests, "GET", "/v2/request")
expect(listed.pagination, Page(1, 20, 0, False))
expect(listed.requests[0].txHash, None)
expect(call(Request, "GET", path).status, "pending")

fee = f"feePercentage=2.5&feeAddress={WALLET}"
payable = call(Payable, "GET", f"{path}/pay?wallet={WALLET}&{fee}")
expect(payable.metadata.platformFee, PlatformFee("2.5", WALLET))
print("pay", text, flush=True)
expect(sys.stdin.readline(), "paid\n")

paid = call(Request, "GET", path)
expect((paid.status, paid.hasBeenPaid, len(paid.payments)), ("paid", True, 1))
found = call(Search, "GET", f"/v2/payments?requestId={created.requestId}")
expect((found.pagination.total, found.payments[0].sourceTxHash), (1, paid.txHash))
expect((found.payments[0].reversal, paid.quarantinedPayments), (..., ...))

print("undo", paid.txHash, flush=True)
expect(sys.stdin.readline(), "undone\n")
undone = call(Request, "GET", path)
expect((undone.status, undone.hasBeenPaid, undone.payments), ("pending", False, []))
expect([(one.position, one.reason, one.state) for one in undone.quarantinedPayments], [(2, "nothing_moved", "open")])
found = call(Search, "GET", f"/v2/payments?requestId={created.requestId}")
expect([one.reversal.reason for one in found.payments], ["reorganised"])

events = call(Events, "GET", "/v2/events")
expect(len(events.events), 3)
for event in events.events:
    expect(call(EventDetail, "GET", f"/v2/events/{event.id}").event, event)
deliveries = call(Deliveries, "GET", "/v2/deliveries")
expect(len(deliveries.deliveries), 3)
for delivery in deliveries.deliveries:
    detail = call(DeliveryDetail, "GET", f"/v2/deliveries/{delivery.id}")
    expect([(one.number, one.status) for one in detail.tries], [(1, 200)])

expect(call(Hook, "PUT", f"/v1/webhook/{hook.id}", None, client).isActive, False)
expect(call(Success, "DELETE", f"/v1/webhook/{hook.id}", None, client), Success(True))
print("read", count)
