"""Projects an object to the fields that a plugin receives, as Informant does: always with apiVersion and kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from ..dispatch import _index_values
from ..objects import parse_object

_ABSENT = object()


def payload(object: Any, wanted: Any) -> Any:
    """The object projected to a payload of the manifest; ``None`` if it asks for none."""
    if wanted == "none":
        return None
    if wanted == "whole":
        return object
    return project(object, ["/metadata"] if wanted == "metadata" else wanted["fields"])


def document(object: Any, wanted: Any) -> bytes:
    """As ``payload``, in the form in which a plugin receives it."""
    shown = payload(object, wanted)
    return b"" if shown is None else json.dumps(shown, ensure_ascii=False).encode()


def project(object: Any, pointers: Sequence[str]) -> Any:
    """The object with only the fields at these JSON pointers."""
    paths = [["apiVersion"], ["kind"]]
    for pointer in pointers:
        if not pointer.startswith("/"):
            raise ValueError(f'the JSON pointer "{pointer}" does not begin with "/"')
        paths.append([part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")])
    shown = _cut(object, paths)
    return {} if shown is _ABSENT else shown


def index_function(informer: Any, name: Any, values: Any) -> Callable[[Any], list[str]]:
    """The function of an index: that of the test or, for a JSON pointer, the one of ``[informer.NAME.index]``."""
    called = f"add_index({informer!r}, {name!r}, {values!r})"
    for argument, value in (("informer", informer), ("name", name)):
        if not isinstance(value, str) or not value:
            raise TypeError(f"{called}: {argument} is not a name")

    def scalars(object: Any) -> list[Any]:
        return [value for value in object.all(values) if isinstance(value, (str, int, float))]

    is_pointer = isinstance(values, str) and values.startswith("/")
    if not is_pointer and not callable(values):
        needed = 'a JSON pointer such as "/metadata/ownerReferences/*/uid", or a function of an object'
        raise TypeError(f"{called}: values must be {needed}")
    compute = scalars if is_pointer else values
    # Handlers get such objects, too.
    origin: Any = SimpleNamespace(where=called)
    return lambda object: _index_values(origin, name, compute(parse_object(document(object, "whole"))))


def _cut(value: Any, paths: list[list[str]]) -> Any:
    """The value projected to ``paths``; ``_ABSENT`` if no path leads through it."""
    if any(not path for path in paths):
        return value
    if not paths:
        return _ABSENT

    def below(name: str) -> list[list[str]]:
        return [path[1:] for path in paths if path[0] in ("*", name)]

    if isinstance(value, dict):
        members = {name: _cut(member, below(name)) for name, member in value.items()}
        return {name: member for name, member in members.items() if member is not _ABSENT}
    if isinstance(value, list):
        # Elements keep their positions.
        elements = [_cut(element, below(str(position))) for position, element in enumerate(value)]
        empty = [type(element)() if isinstance(element, (dict, list)) else None for element in value]
        return [empty[at] if element is _ABSENT else element for at, element in enumerate(elements)]
    return _ABSENT
