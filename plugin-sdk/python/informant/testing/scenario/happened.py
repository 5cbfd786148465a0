"""What happened, as an ``expect`` has it."""

from __future__ import annotations

import json
import re
from typing import Any

from ..cluster import Sent
from ..driver import HandlerCall
from ..fake import LogLine, RecordedEvent
from .format import STREAMS, Expect
from .nodes import Node


def key_text(key: Any) -> str:
    return "/".join(part for part in key[1:] if part)


def line_of(line: LogLine) -> dict[str, Any]:
    fields = {name: _value(text) for name, text in line.fields.items()}
    return {"level": line.level, "message": line.message, "fields": fields}


def call_of(call: HandlerCall) -> dict[str, Any]:
    members = call._asdict()
    members["requeueAfter"] = members.pop("requeue_after")
    if call.timer is None:
        del members["timer"], members["missed"]
    return members


def event_of(event: RecordedEvent) -> dict[str, Any]:
    related = None if event.related is None else str(event.related)
    return {**event._asdict(), "regarding": str(event.regarding), "related": related}


def write_of(sent: Sent) -> dict[str, Any]:
    base, subresource = sent.write.resource, None
    parts = base.split("/")
    # With a group, the version is the second part.
    length = 2 if re.fullmatch(r"v\d\w*", parts[0]) else 3
    if len(parts) > length:
        base, subresource = "/".join(parts[:length]), parts[length]
    return {
        "verb": sent.write.verb,
        "object": f"{base} {sent.write.object}",
        "subresource": subresource,
        "kind": sent.kind or None,
        "document": sent.write.document,
        "result": sent.result,
    }


def _value(text: str) -> Any:
    """The value of a field: text as it is, anything else as JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def expected_calls(expect: Expect | None) -> list[tuple[Any, Node]]:
    if expect is None or not expect.node.has("calls"):
        return []
    calls = expect.node.at("calls")
    entries = (calls.at("includes") if isinstance(calls.value, dict) else calls).list()
    found = []
    for entry in entries:
        short = STREAMS["calls"].short
        value = short(entry.value) if isinstance(entry.value, str) and short else entry.value
        if "call" in value:
            found.append((value, entry))
    return found
