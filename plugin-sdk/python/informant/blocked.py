"""Refuses modules that cannot work in a component when they are imported, and says what to use instead."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

#: By module, why it cannot work and what to do.
BLOCKED = {
    "asyncio": "there is no event loop: write an ordinary function; for a later call, return again(seconds=…)",
    "ctypes": "there is no native code in a component",
    "multiprocessing": "there are no processes: let Informant run several instances (parallel and limits.instances)",
    "select": "there are no sockets: send requests with informant.http",
    "selectors": "there are no sockets: send requests with informant.http",
    "socket": "there are no sockets: send requests with informant.http",
    "socketserver": "there are no sockets: Informant has no servers",
    "subprocess": "there are no processes",
    "threading": "there are no threads: a handler runs alone; let Informant run several instances for more at once",
    "concurrent": "there are no threads: let Informant run several instances (parallel and limits.instances)",
}

#: Part of the standard library that builds on sockets.
BLOCKED_SUBMODULES = {
    "urllib.request": "there are no sockets: send requests with informant.http",
    "http.client": "there are no sockets: send requests with informant.http",
    "http.server": "there are no sockets: Informant has no servers",
}


def reason(module: str) -> str | None:
    """Why a module is refused; ``None`` if it is not."""
    return BLOCKED_SUBMODULES.get(module) or BLOCKED.get(module.split(".", 1)[0])


def install(is_own: Callable[[dict[str, Any]], bool]) -> Callable[[], None]:
    """Refuses blocked modules in the modules for whose globals ``is_own`` is true. Returns what ends that.

    Other modules may import them: the standard library does, and so do packages for parts that are never used.
    """
    original = builtins.__import__

    def checked(
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        if level == 0 and globals is not None and is_own(globals):
            names = [name, *(f"{name}.{member}" for member in fromlist or ())]
            for module in names:
                why = reason(module)
                if why is not None:
                    raise ImportError(f"{module} does not work in Informant: {why}", name=module)
        return original(name, globals, locals, fromlist, level)

    builtins.__import__ = checked

    def remove() -> None:
        builtins.__import__ = original

    return remove
