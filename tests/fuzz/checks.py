"""Additions to schemathesis: a check, and a change of the document so that it can generate values."""

import json
import re

import schemathesis
from schemathesis.core.failures import Failure


@schemathesis.check
class refused_by_a_rule:
    """A call that the document allows is accepted, or refused by a rule that no schema can express.

    Replaces `positive_data_acceptance`, which lets an operation refuse a call only for its format. Each
    rule is in the configuration: the pattern of its message, and why it is in no schema.
    """

    def __init__(self, rules: list[dict[str, str]]) -> None:
        self.rules = [re.compile(rule["says"]) for rule in rules]

    def after_response(self, ctx, response, case) -> None:
        if response.status_code != 400 or case.meta is None or not case.meta.generation.mode.is_positive:
            return
        unexplained = [told for told in sentences(response) if not any(rule.search(told) for rule in self.rules)]
        if unexplained:
            raise Failure(
                operation=case.operation.label,
                title="The document allows what the service refuses",
                message="\n".join(unexplained),
            )


def sentences(response) -> list[str]:
    """The errors in a body: each invalid field, or the message where no field is invalid."""
    try:
        body = response.json()
    except json.JSONDecodeError:
        return [response.text]
    wrong = [f"{error['field']} {error['message']}" for error in body.get("errors", [])]
    return wrong or [body["message"]]


@schemathesis.hook
def before_load_schema(context, raw_schema) -> None:
    """Removes the pattern of e-mail addresses, since their format is stricter: the generator would try texts of the
    pattern until one matches the format, and would not end."""
    waiting = [raw_schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if node.get("format") == "email":
                node.pop("pattern", None)
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
