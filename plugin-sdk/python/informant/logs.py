"""Joins ``logging`` to Informant's log."""

from __future__ import annotations

import json
import logging
from typing import Any

from . import host as _host
from .failure import traceback_of

#: Below DEBUG, as ``trace`` of the contract.
TRACE = 5

#: The plugin's own logger. Any other of ``logging`` is logged, too.
log = logging.getLogger("informant.plugin")

_LEVELS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}

#: Members of every record: what is not among them was passed as ``extra``.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

#: Loggers whose name says nothing to the reader of the log.
_UNNAMED = frozenset({"root", "informant.plugin", "informant_script", "__main__"})


class InformantHandler(logging.Handler):
    """Writes records to the log of the current host. ``extra`` becomes fields."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one record."""
        try:
            message = record.getMessage()
            fields = [(name, shown(value)) for name, value in vars(record).items() if name not in _STANDARD]
            if record.name not in _UNNAMED:
                fields.append(("logger", record.name))
            if record.exc_info and record.exc_info[1] is not None:
                message = f"{message}\n{traceback_of(record.exc_info[1])}"
            if record.stack_info:
                message = f"{message}\n{record.stack_info}"
        except Exception:
            self.handleError(record)
            return
        _host.active.log(level_of(record.levelno), message, fields)


def level_of(number: int) -> int:
    """The contract's level of a number of ``logging``."""
    if number >= logging.ERROR:
        return _host.ERROR
    if number >= logging.WARNING:
        return _host.WARN
    if number >= logging.INFO:
        return _host.INFO
    return _host.DEBUG if number >= logging.DEBUG else _host.TRACE


def shown(value: Any) -> str:
    """The value of a field: text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


_handler = InformantHandler()


def install(level: str | None) -> None:
    """Sends the records of all loggers to the host, and to nothing else, from this level on; ``None`` sends none."""
    root = logging.getLogger()
    for other in root.handlers[:]:
        root.removeHandler(other)
    root.addHandler(_handler)
    root.setLevel(number_of(level))
    logging.addLevelName(TRACE, "TRACE")
    # What no line shows, and what costs time in each record: threads, processes, and the calling function.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.logAsyncioTasks = False  # type: ignore[attr-defined,unused-ignore]
    logging._srcfile = None


def number_of(level: str | None) -> int:
    """The number of ``logging`` for a level of the contract."""
    return logging.CRITICAL + 1 if level is None else _LEVELS.get(level, TRACE)


class Joined:
    """Sends the records of all loggers to the host, too, while a block runs."""

    def __init__(self, level: str | None) -> None:
        self._level = number_of(level)

    def __enter__(self) -> None:
        root = logging.getLogger()
        self._before = root.level
        # Blocks may be nested.
        self._was_there = _handler in root.handlers
        root.addHandler(_handler)
        root.setLevel(self._level)
        logging.addLevelName(TRACE, "TRACE")

    def __exit__(self, *_: Any) -> None:
        root = logging.getLogger()
        root.setLevel(self._before)
        if not self._was_there:
            root.removeHandler(_handler)
