"""Reads deliveries from the given file, and prints for each whether the published library accepts it."""

import json
import sys

from standardwebhooks import Webhook, WebhookVerificationError


def accepts(delivery):
    try:
        Webhook(delivery["secret"]).verify(delivery["body"], delivery["headers"])
        return True
    except WebhookVerificationError:
        return False


with open(sys.argv[1], encoding="utf-8") as file:
    print(json.dumps([accepts(delivery) for delivery in json.load(file)]))
