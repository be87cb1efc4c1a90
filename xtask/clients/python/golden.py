"""The golden flow with the client of openapi-python-client."""

import time
from typing import TypeVar

from generated.auth import AuthenticatedClient as AuthClient
from generated.auth.api.webhooks import create_webhook, delete_webhook
from generated.auth.models import CreateWebhookBody, WebhookCreated
from generated.v2 import AuthenticatedClient
from generated.v2.api.payments import search_payments
from generated.v2.api.payouts import create_payout
from generated.v2.api.requests import create_request, get_payment_calldata, get_request
from generated.v2.api.secure_payments import create_secure_payment, get_secure_payment, get_secure_payment_calldata
from generated.v2.models import (
    CreatePayoutBody,
    CreateRequestBody,
    CreateSecurePaymentBody,
    ErrorBody,
    PaymentCalldata,
    PaymentSearchResult,
    PayoutCreated,
    RequestCreated,
    RequestStatusView,
    SecurePaymentCreated,
    SecurePaymentItem,
    SingleCalldata,
    SingleSecurePayment,
)
from generated.v2.types import UNSET, Unset
from surroundings import Dev, Hooks, check, step

Wanted = TypeVar("Wanted")


def good(kind: type[Wanted], answer: object) -> Wanted:
    """The response, if it is of this kind; otherwise raises its typed error."""
    if isinstance(answer, kind):
        return answer
    raise AssertionError(f"not a {kind.__name__}: {answer}")


dev = Dev()
client = AuthenticatedClient(dev.base_url, token=dev.api_key, prefix="", auth_header_name="x-api-key")
auth = AuthClient(dev.auth_url, token=dev.api_key, prefix="", auth_header_name="x-api-key")
reference = f"python-{time.time_ns()}"


def asked(amount: str) -> CreateRequestBody:
    return CreateRequestBody(
        payee=dev.payee,
        amount=amount,
        invoice_currency="FAU-sepolia",
        payment_currency="FAU-sepolia",
        reference=reference,
    )


def pay(request_id: str) -> None:
    answer = get_payment_calldata.sync(request_id, client=client, wallet=dev.payer)
    dev.send(good(PaymentCalldata, answer).transactions)


hooks = Hooks()
hook = good(WebhookCreated, create_webhook.sync(client=auth, body=CreateWebhookBody(url=hooks.url)))

created = good(RequestCreated, create_request.sync(client=client, body=asked("1.5"), idempotency_key=reference))
again = good(RequestCreated, create_request.sync(client=client, body=asked("1.5"), idempotency_key=reference))
check(again.request_id == created.request_id, "an idempotency key must create only once")
step("create")

pay(created.request_id)
step("pay")

hooks.confirmed(created.request_id, hook.secret)
step("webhook")

read = good(RequestStatusView, get_request.sync(created.request_id, client=client))
check(read.has_been_paid, "a confirmed request must be paid")
found = good(
    PaymentSearchResult,
    search_payments.sync(client=client, request_id=created.request_id, from_date="2020-01-01T00:00:00Z"),
)
check(found.pagination.total == 1 and found.payments[0].amount == "1.5", "the payment must be found by its request")
step("search")

second = good(RequestCreated, create_request.sync(client=client, body=asked("1.5")))
pay(second.request_id)
hooks.confirmed(second.request_id, hook.secret)
seen: set[str] = set()
cursor: str | Unset = UNSET
while True:
    page = good(PaymentSearchResult, search_payments.sync(client=client, reference=reference, limit="1", cursor=cursor))
    check(len(page.payments) <= 1, "a page must have one payment")
    seen.update(payment.id for payment in page.payments)
    if page.next_cursor is None:
        break
    cursor = page.next_cursor
check(len(seen) == 2, f"two payments must be paged through, not {len(seen)}")
step("page")

# The document allows it, but the token has fewer digits.
refused = good(ErrorBody, create_request.sync(client=client, body=asked("0.0000000000000000001")))
check(refused.status_code == 400, "an amount must have at most the digits of its token")
check(bool(refused.errors), "a refusal must say what is wrong")
check([error.field for error in refused.errors or []] == ["amount"], "the refusal must name the field")
unknown = get_request.sync_detailed("01" + "0" * 64, client=client)
check(unknown.status_code == 404, "an unknown request must not be found")
check(good(ErrorBody, unknown.parsed).status_code == 404, "an unknown request must not be found")
step("refuse")

payout = good(
    PayoutCreated,
    create_payout.sync(
        client=client,
        body=CreatePayoutBody(
            payee=dev.payee,
            amount="2",
            invoice_currency="FAU-sepolia",
            payment_currency="FAU-sepolia",
            payer_wallet=dev.payer,
            reference=reference,
        ),
    ),
)
dev.send(payout.transactions)
hooks.confirmed(payout.request_id, hook.secret)
step("payout")

body = CreateSecurePaymentBody(
    requests=[SecurePaymentItem(destination_id=dev.destination_id, amount="3")], reference=reference
)
link = good(SecurePaymentCreated, create_secure_payment.sync(client=client, body=body))
viewed = good(SingleSecurePayment, get_secure_payment.sync(link.token, client=client))
check(viewed.amount == "3", "the link must show its one amount")
calldata = good(SingleCalldata, get_secure_payment_calldata.sync(link.token, client=client, wallet=dev.payer))
dev.send(calldata.transactions)
hooks.confirmed(link.request_ids[0], hook.secret)
step("link")

delete_webhook.sync(hook.id, client=auth)
hooks.close()
