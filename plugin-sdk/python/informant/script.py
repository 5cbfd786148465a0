"""Loads a plugin from the text of a file: a script, or a file in a test."""

from __future__ import annotations

import linecache
import sys
import types
from collections.abc import Mapping
from typing import Any

from . import registry as _registry
from .dispatch import Dispatcher, Failed
from .failure import Failure, message_of, own_frames, shown_file
from .registry import Registry

#: The name of the module that a script is. Not that of its file, which could be that of another module.
MODULE = "informant_script"

#: What else the runner contains, for messages.
PACKAGES = ("yaml",)


def load(name: str, text: str | bytes, context: Mapping[str, Any]) -> Dispatcher:
    """Runs the script ``text``, whose file is called ``name``.

    Raises: ``Failed``, always permanent, with file and line.
    """
    stem = name.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    registry = Registry(stem)
    registry.context = context
    module = types.ModuleType(MODULE)
    module.__file__ = name
    before = _registry.use(registry)
    try:
        # It has the lines of a traceback.
        shown = text if isinstance(text, str) else text.decode("utf-8", "replace")
        linecache.cache[name] = (len(text), None, shown.splitlines(keepends=True), name)
        code = compile(text, name, "exec", dont_inherit=True)
        sys.modules[MODULE] = module
        exec(code, module.__dict__)
    except BaseException as error:
        # Also one that ends a program, such as that of sys.exit().
        raise Failed(Failure("permanent", _message(name, error))) from error
    finally:
        _registry.use(before)
    return Dispatcher(registry)


def _message(name: str, error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        frames = own_frames(error.__traceback__)
        where = f"{shown_file(frames[-1][0])}:{frames[-1][1]}" if frames else name
        package = error.name.split(".", 1)[0]
        if package in sys.stdlib_module_names:
            return f"{where}: imports {error.name}, a module of the standard library that scripts cannot use"
        return (
            f"{where}: imports {error.name}, but a script can import the standard library, informant and "
            f"{', '.join(PACKAGES)} only; with other packages, build a component: informant plugin build"
        )
    if isinstance(error, ValueError) and "null bytes" in str(error):
        return f"{name}: SyntaxError: NUL character in the script"
    return message_of(error)
