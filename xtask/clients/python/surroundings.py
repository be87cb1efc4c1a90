"""The environment of a generated client: the running service, the chain for payments, a receiver of webhooks."""

import hashlib
import hmac
import json
import os
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol, TypeVar

WAIT_S = 30

Found = TypeVar("Found")


class Quantity(Protocol):
    hex_: str


class Transaction(Protocol):
    to: str
    data: str

    @property
    def value(self) -> Quantity | str: ...


class Dev:
    """The part of the line of `prs dev --json` that the flow needs."""

    def __init__(self) -> None:
        ready = json.loads(Path(os.environ["PRS_DEV"]).read_text())
        self.base_url: str = ready["baseUrl"]
        self.auth_url: str = ready["authUrl"]
        self.api_key: str = ready["apiKey"]
        self.destination_id: str = ready["destinationId"]
        self.payer: str = ready["chain"]["accounts"][0]["address"]
        self.payee: str = ready["chain"]["accounts"][1]["address"]
        self._rpc_url: str = ready["chain"]["rpcUrl"]

    def send(self, transactions: Iterable[Transaction]) -> None:
        """Sends transactions in order from an account that the local node has unlocked."""
        for transaction in transactions:
            value = transaction.value
            call = {
                "from": self.payer,
                "to": transaction.to,
                "data": transaction.data,
                "value": value if isinstance(value, str) else hex(int(value.hex_, 16)),
            }
            receipt = self._receipt(self._rpc("eth_sendTransaction", [call]))
            check(receipt["status"] == "0x1", f"a transaction failed on the chain: {receipt}")

    def _receipt(self, sent: Any) -> Any:
        return until("a receipt", lambda: self._rpc("eth_getTransactionReceipt", [sent]))

    def _rpc(self, method: str, params: list[Any]) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        request = urllib.request.Request(self._rpc_url, body, {"content-type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            said = json.load(answer)
        check("error" not in said, f"{method}: {said.get('error')}")
        return said["result"]


def step(name: str) -> None:
    """Prints that a step of the flow passed."""
    print(f"step {name}", flush=True)


def check(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)


def until(what: str, ask: Callable[[], Found | None]) -> Found:
    """Polls until there is a result."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        found = ask()
        if found is not None:
            return found
        time.sleep(0.05)
    raise AssertionError(f"timed out waiting for {what} after {WAIT_S} s")


def is_signed(body: bytes, signature: str, secret: str) -> bool:
    """Whether the service signed these bytes: an HMAC-SHA-256 over the raw body, keyed with the shown secret."""
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, signature)


class Hooks:
    """A receiver of webhooks on a free port of this machine."""

    def __init__(self) -> None:
        deliveries: list[tuple[bytes, str]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                deliveries.append((body, self.headers["x-service-signature"]))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Suppresses the log line of each delivery."""

        self._deliveries = deliveries
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    def confirmed(self, request_id: str, secret: str) -> None:
        """Waits for the event that a request is paid, and checks that its signature matches only its own bytes."""

        def find() -> tuple[bytes, str] | None:
            for body, signature in self._deliveries:
                event = json.loads(body)
                if event["event"] == "payment.confirmed" and event.get("requestId") == request_id:
                    return body, signature
            return None

        body, signature = until(f"payment.confirmed of {request_id}", find)
        check(is_signed(body, signature, secret), "the signature does not match the body")
        check(not is_signed(body + b" ", signature, secret), "the signature matches another body")

    def close(self) -> None:
        self._server.shutdown()
