"""Converts an exception into a message for people and a failure for Informant."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from itertools import groupby
from types import TracebackType
from typing import NamedTuple

from .errors import Refused, consequence

#: The most functions that a message lists, innermost first.
FUNCTIONS_MAX = 5

#: Where the SDK and the standard library are, of which a component has two folders.
_FOLDERS = (os.path.dirname(__file__), os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(json.__file__)))
_LIBRARIES = (*(os.path.abspath(folder) + os.sep for folder in _FOLDERS), "<frozen ")


class Failure(NamedTuple):
    """Why a call failed, and whether Informant retries it."""

    #: ``retryable``, ``retry-after`` or ``permanent``.
    kind: str
    message: str
    after_ms: int = 0


def _is_elsewhere(file: str) -> bool:
    """Whether a file is neither of the SDK nor of a library."""
    return not file.startswith(_LIBRARIES) and "site-packages" not in file


#: Whether a file is the plugin's own code.
is_own: Callable[[str], bool] = _is_elsewhere


def use_own(predicate: Callable[[str], bool]) -> None:
    """Says which files are the plugin's own code."""
    global is_own
    is_own = predicate


def failure_of(error: BaseException) -> Failure:
    """The failure of an exception, whose message says where it was raised."""
    message = message_of(error)
    follows = consequence(error)
    if follows == "permanent":
        return Failure("permanent", message)
    if isinstance(follows, int):
        return Failure("retry-after", message, follows)
    return Failure("retryable", message)


def message_of(error: BaseException) -> str:
    """``handler.py:36: KeyError: 'app' (in handle < restarted)``."""
    if isinstance(error, Refused):
        frames = own_frames(error.__traceback__)
        return f"{shown_file(frames[-1][0])}:{frames[-1][1]}: {error}" if frames else str(error)
    if isinstance(error, SyntaxError) and error.filename is not None:
        where = f"{shown_file(error.filename)}:{error.lineno or 1}:{error.offset or 1}"
        return f"{where}: {type(error).__name__}: {error.msg}"
    what = "".join(traceback.format_exception_only(type(error), error)).strip()
    # The text of a class outside of the builtins begins with the name of its module.
    name = type(error).__name__
    if what.startswith(f"{type(error).__module__}."):
        what = name + what[what.index(name) + len(name) :]
    frames = own_frames(error.__traceback__)
    if not frames:
        return what
    file, line, _ = frames[-1]
    names = [function for function, _ in groupby(name for _, _, name in reversed(frames) if not name.startswith("<"))]
    called = f" (in {' < '.join(names[:FUNCTIONS_MAX])})" if len(names) > 1 else ""
    return f"{shown_file(file)}:{line}: {what}{called}"


def own_frames(trace: TracebackType | None) -> list[tuple[str, int, str]]:
    """File, line and function of the plugin's own frames, outermost first."""
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_own(code.co_filename):
            frames.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return frames


def traceback_of(error: BaseException) -> str:
    """The traceback without the frames of the SDK that called the plugin."""
    trace = error.__traceback__
    while trace is not None and not is_own(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace)
    return "".join(lines).rstrip()


def shown_file(file: str) -> str:
    """The name of a file without the folder of the plugin."""
    for folder in sorted({*sys.path, os.getcwd()}, key=len, reverse=True):
        if folder and file.startswith(folder.rstrip(os.sep) + os.sep):
            return file[len(folder.rstrip(os.sep)) + 1 :]
    return os.path.basename(file)
