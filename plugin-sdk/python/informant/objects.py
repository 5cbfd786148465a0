"""Kubernetes objects: dicts whose members can be read as attributes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from .errors import Permanent

#: Parts of an object that every kind has or may have. If one is missing, it reads as empty, so that
#: ``pod.status.phase`` is ``None`` for a pod without a status.
_SECTIONS = frozenset({"metadata", "spec", "status"})


#: The levels of an object that is read. Deeper ones would exhaust the stack of the component.
DEPTH_MAX = 500

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


class Fields(dict):  # type: ignore[type-arg]
    """A part of an object: a dict whose members can be read and set as attributes. A missing one reads as ``None``.

    Members that are named like a method of ``dict`` (``items``, ``keys``, ``values``, ``get``, ``update``, ``copy``,
    ``pop`` and so on) need brackets: ``expression["values"]``.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            if name in _SECTIONS:
                return Fields()
            # Python asks for these itself, for example when an object is copied.
            if name.startswith("__"):
                raise AttributeError(name) from None
            return None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(name) from None

    def at(self, pointer: str, default: Any = None) -> Any:
        """The value at a JSON pointer such as ``/status/phase``, or ``default``."""
        for value in self.all(pointer):
            return value
        return default

    def all(self, pointer: str) -> Iterator[Any]:
        """Iterates over the values at a JSON pointer; ``*`` matches every element: ``/spec/containers/*/image``."""
        if not pointer.startswith("/"):
            raise ValueError(f"{pointer!r} is not a JSON pointer: it must begin with /, as in /status/phase")
        return _follow(self, [_unescape(part) for part in pointer[1:].split("/")], 0)


class Origin(NamedTuple):
    """Where an object comes from: a source of the cache, or an address of the API server."""

    source: int | None
    namespace: str
    name: str
    uid: str
    #: Only for objects from the API server.
    cluster: str = ""
    resource: str = ""


class Object(Fields):
    """A Kubernetes object. It is a dict; members can be read as attributes, and a missing one reads as ``None``."""

    __slots__ = ("_origin",)

    _origin: Origin | None

    def __init__(self, *members: Any, origin: Any = None, **more: Any) -> None:
        super().__init__(*members, **more)
        _set_origin(self, origin)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _DERIVED:
            raise AttributeError(f"{name} is derived from metadata: set it there, as in pod.metadata.labels = {{}}")
        self[name] = value

    @property
    def name(self) -> str:
        """The object's name."""
        return _of_metadata(self, "name")

    @property
    def namespace(self) -> str:
        """The object's namespace; empty if it has none."""
        return _of_metadata(self, "namespace")

    @property
    def uid(self) -> str:
        """The object's uid."""
        return _of_metadata(self, "uid")

    @property
    def key(self) -> str:
        """``namespace/name``, or ``name`` for cluster-scoped objects."""
        namespace, name = self.namespace, self.name
        return f"{namespace}/{name}" if namespace else name

    @property
    def labels(self) -> dict[str, str]:
        """The labels; empty if there are none. Changing the result changes the object only if it has labels."""
        return self.metadata.get("labels") or Fields()

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations; empty if there are none."""
        return self.metadata.get("annotations") or Fields()

    def __copy__(self) -> Object:
        return Object(self, origin=self._origin)

    def __deepcopy__(self, memo: Any) -> Object:
        from copy import deepcopy

        return Object(deepcopy(dict(self), memo), origin=self._origin)

    def __reduce__(self) -> Any:
        return _restored, (dict(self), self._origin)


_DERIVED = frozenset({"name", "namespace", "uid", "key", "labels", "annotations"})

_set_origin = Object._origin.__set__  # type: ignore[union-attr]


def _restored(members: dict[str, Any], origin: Any) -> Object:
    return Object(members, origin=origin)


def _of_metadata(of: Object, name: str) -> str:
    value = of.metadata.get(name)
    if value is None and of._origin is not None:
        # The payload may lack metadata; the call has it.
        value = getattr(of._origin, name)
    return value or ""


def parse_object(document: bytes, origin: Any = None) -> Object:
    """The object of a JSON document. ``origin`` has ``source``, ``namespace``, ``name`` and ``uid``."""
    if _may_be_too_deep(document):
        raise Permanent(f"the object has more than {DEPTH_MAX} levels: name the fields that you need (fields=[...])")
    parsed = json.loads(document, object_hook=Fields)
    if not isinstance(parsed, dict):
        raise TypeError(f"an object is a JSON object, not {type(parsed).__name__}")
    return Object(parsed, origin=origin)


def _may_be_too_deep(document: bytes) -> bool:
    """Whether a document has more than ``DEPTH_MAX`` levels. Up to twice as many may pass."""
    if document.count(b"{") + document.count(b"[") <= DEPTH_MAX:
        return False
    brackets = _STRINGS.sub(b"", document).translate(None, _NO_BRACKETS)
    for _ in range(DEPTH_MAX):
        if not brackets:
            return False
        # The innermost level.
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    return bool(brackets)


def _unescape(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _follow(value: Any, parts: list[str], position: int) -> Iterator[Any]:
    if position == len(parts):
        yield value
        return
    part = parts[position]
    if isinstance(value, dict):
        below = value.values() if part == "*" else [value[part]] if part in value else []
    elif isinstance(value, list):
        is_index = part.isdecimal() and int(part) < len(value)
        below = value if part == "*" else [value[int(part)]] if is_index else []
    else:
        return
    for element in below:
        yield from _follow(element, parts, position + 1)
