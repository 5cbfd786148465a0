"""Remembers values across calls, instances, versions of the plugin and restarts of Informant.

Values are JSON. Changes take effect when the handler has succeeded; one that raises has changed nothing. A handler
sees its own changes. ``kv`` can be used in handlers and in ``on.startup``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from . import host as _host

__all__ = ["delete", "get", "list", "set", "set_if_absent"]


def get(key: str, default: Any = None) -> Any:
    """The value of a key, or ``default``."""
    value = _host.active.kv_get(key)
    return default if value is None else json.loads(value)


def set(key: str, value: Any) -> None:
    """Sets a key; the value must be JSON."""
    _host.active.kv_set(key, _encoded(key, value))


def set_if_absent(key: str, value: Any = True) -> bool:
    """Sets a key that has no value, and returns whether it did."""
    return _host.active.kv_set_if_absent(key, _encoded(key, value))


def delete(key: str) -> None:
    """Deletes a key, if it exists."""
    _host.active.kv_delete(key)


def list(prefix: str = "") -> Iterator[str]:
    """Iterates over the keys that start with ``prefix``, in order."""
    cursor = ""
    while True:
        keys = _host.active.kv_list(prefix, cursor, 0)
        yield from keys
        if not keys:
            return
        cursor = keys[-1]


def _encoded(key: str, value: Any) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise TypeError(f"kv: the value of {key!r} is not JSON: {error}") from None
