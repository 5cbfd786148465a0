"""Compares what an ``expect`` has with what happened."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from .format import STREAMS, entries_of
from .nodes import Node, seconds_of

#: In these members, ``*`` stands for any text.
_WITH_PATTERNS = ("error", "message", "note", "url")


def shown(value: Any) -> str:
    """A value in a difference."""
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


def fits(pattern: str, text: str) -> bool:
    """Whether a text matches one in which ``*`` stands for any text, and ``\\*`` for an asterisk."""
    parts = re.split(r"(\\\*|\*)", pattern)
    expression = "".join(".*" if part == "*" else re.escape("*" if part == r"\*" else part) for part in parts)
    return re.fullmatch(expression, text, re.DOTALL) is not None


def expects_nothing(expected: Any) -> bool:
    """Whether nothing matches: ``None``, and a mapping all of whose members are so."""
    is_mapping = isinstance(expected, dict) and len(expected) > 0
    return expected is None or (is_mapping and all(map(expects_nothing, expected.values())))


def difference(expected: Any, found: Any, path: str = "", is_pattern: bool = False) -> str | None:
    """What differs, as ``path: expected …, found …``; ``None`` if nothing does."""
    if found is None and expects_nothing(expected):
        return None
    if is_pattern and isinstance(expected, str) and isinstance(found, str) and fits(expected, found):
        return None
    if isinstance(expected, dict) and isinstance(found, dict):
        below = (
            difference(value, found.get(name), f"{path}.{name}" if path else name, name in _WITH_PATTERNS)
            for name, value in expected.items()
        )
        return next((why for why in below if why is not None), None)
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        elements = enumerate(zip(expected, found, strict=True))
        differences = (difference(value, other, f"{path}[{at}]") for at, (value, other) in elements)
        return next((why for why in differences if why is not None), None)
    if expected == found and isinstance(expected, bool) == isinstance(found, bool):
        return None
    return f"{path}: expected {shown(expected)}, found {shown(found)}"


def _entry_difference(stream: str, expected: Any, found: Any) -> str | None:
    if stream == "calls" and isinstance(expected.get("requeueAfter"), str):
        return difference({**expected, "requeueAfter": seconds_of(expected["requeueAfter"])}, found)
    if stream != "http":
        return difference(expected, found)
    rest = {name: value for name, value in expected.items() if name != "body"}
    if "headers" in rest:
        rest["headers"] = {name.lower(): value for name, value in rest["headers"].items()}
    why = difference(rest, found)
    return why if why is not None or "body" not in expected else _body_difference(expected["body"], found["body"])


def _body_difference(expected: Any, found: str) -> str | None:
    if expected is None:
        return difference(None, found or None, "body")
    if isinstance(expected, str):
        return difference(expected, found, "body", is_pattern=True)
    try:
        return difference(expected, json.loads(found), "body")
    except ValueError:
        return f"body: expected the JSON {shown(expected)}, found {shown(found)}"


def stream_differences(stream: str, node: Node, found: list[Any]) -> list[str]:
    """What differs in a list: complete and in order or, with ``includes``, with others between."""
    is_part, entries = entries_of(node, STREAMS[stream])
    if is_part:
        rest = found
        for entry, value in entries:
            at = next((at for at, other in enumerate(rest) if _entry_difference(stream, value, other) is None), None)
            if at is None:
                return [f"{entry.place}: {entry.name}: not found: {shown(value)}; there are: {shown(rest)}"]
            rest = rest[at + 1 :]
        return []
    differences = []
    for at, (entry, value) in enumerate(entries):
        why = _entry_difference(stream, value, found[at]) if at < len(found) else f"missing: {shown(value)}"
        if why is not None:
            differences.append(f"{entry.place}: {entry.name}: {why}")
    extra = found[len(entries) :]
    return [*differences, *(f"{node.place}: {node.name}: one too many: {shown(other)}" for other in extra)]


def members_differences(node: Node, name: str, find: Callable[[str, Node], str | None]) -> list[str]:
    """What differs in the members of ``kv`` and ``metrics``."""
    if not node.has(name):
        return []
    checked = [(value, find(key, value)) for key, value in node.at(name).members()]
    return [f"{value.place}: {value.name}: {why}" for value, why in checked if why is not None]


def kv_difference(expected: Any, found: bytes | None) -> str | None:
    """A text is the bytes of a value, or the JSON of a text."""
    if found is None:
        return None if expects_nothing(expected) else f"expected {shown(expected)}, but the key is not set"
    text = found.decode(errors="replace")
    if text == expected:
        return None
    try:
        return difference(expected, json.loads(text))
    except ValueError:
        return f"expected {shown(expected)}, found {shown(text)}"
