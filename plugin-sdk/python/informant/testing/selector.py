"""Label selectors in Kubernetes syntax."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Labels = "dict[str, str]"

#: One requirement. An object must meet all of them.
Requirement = Callable[[Any], bool]

_SET = re.compile(r"^(?P<label>\S+)\s+(?P<verb>in|notin)\s*\((?P<values>[^()]*)\)$")
_NAME = re.compile(r"^[^\s()!=,]+$")


def parse(selector: str) -> list[Requirement]:
    """Parses ``app=web,tier in (a, b),!canary``. An empty selector selects everything.

    Raises: ``ValueError``
    """
    if not selector.strip():
        return []
    # Commas within parentheses separate values.
    return [_requirement(part.strip()) for part in re.split(r",(?![^(]*\))", selector)]


def matches(selector: str, object: Any) -> bool:
    """Whether an object's labels match a selector."""
    labels = (object.get("metadata") or {}).get("labels") or {}
    return all(requirement(labels) for requirement in parse(selector))


def _requirement(text: str) -> Requirement:
    found = _SET.match(text)
    if found:
        label, values = found["label"], [value.strip() for value in found["values"].split(",")]
        if found["verb"] == "in":
            return lambda labels: labels.get(label) in values
        return lambda labels: labels.get(label) not in values
    for operator in ("!=", "==", "="):
        label, is_there, value = (part.strip() for part in text.partition(operator))
        if is_there and _NAME.match(label) and (not value or _NAME.match(value)):
            if operator == "!=":
                return lambda labels: labels.get(label) != value
            return lambda labels: labels.get(label) == value
    name = text[1:].strip() if text.startswith("!") else text
    if not _NAME.match(name):
        raise ValueError(f"label selector: {text!r} is not a valid requirement")
    if text.startswith("!"):
        return lambda labels: name not in labels
    return lambda labels: name in labels
