"""The values of a scenario file, which know where they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NoReturn

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


class ScenarioError(Exception):
    """Something is wrong with a scenario file, or a driver cannot do what it has."""


class Node:
    """A value of the file."""

    def __init__(self, file: str, value: Any, marks: Any, path: tuple[Any, ...] = ()) -> None:
        self._file = file
        self._marks = marks
        self._path = path
        self.value = value

    @staticmethod
    def read(file: str) -> Node:
        """The root of a file."""
        yaml, loader = _yaml()
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
        try:
            marks = yaml.compose(text, Loader=loader)
            return Node(file, yaml.load(text, Loader=loader), marks)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = 1 if mark is None else mark.line + 1
            raise ScenarioError(f"{file}:{line}: {getattr(error, 'problem', None) or error}") from None

    @property
    def place(self) -> str:
        """``FILE:LINE``; of a TOML file, ``FILE``."""
        return self._file if self._marks is None else f"{self._file}:{self._marks.start_mark.line + 1}"

    @property
    def name(self) -> str:
        """``steps[1].expect.calls``."""
        parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in self._path]
        return "".join(parts).removeprefix(".")

    def fail(self, message: str) -> NoReturn:
        """Refuses the value."""
        raise ScenarioError(f"{self.place}: {self.name}: {message}" if self.name else f"{self.place}: {message}")

    def needs_informant(self, what: str = "this", remedy: str = "") -> NoReturn:
        """Refuses what a driver cannot do."""
        self.fail(f"a Driver cannot do {what}: run the scenario with `informant plugin test`{remedy}")

    def toml(self, file: str) -> Node:
        """The root of the TOML file that this value names."""
        try:
            import tomllib
        except ImportError:
            why = "a config.toml before Python 3.11, which has no reader of TOML"
            self.needs_informant(why, ", or write its sections here as YAML")
        try:
            with open(file, "rb") as opened:
                return Node(file, tomllib.load(opened), None)
        except FileNotFoundError:
            self.fail(f"there is no file {file}")
        except ValueError as error:
            self.fail(f"{file}: {error}")

    def has(self, member: str) -> bool:
        """Whether a mapping has a member."""
        return isinstance(self.value, dict) and member in self.value

    def at(self, member: str | int) -> Node:
        """A member or an element."""
        marks = self._marks
        if marks is None:
            below = None
        elif isinstance(member, int):
            below = marks.value[member]
        else:
            below = next((value for key, value in marks.value if str(key.value) == str(member)), marks)
        return Node(self._file, self.value[member], below, (*self._path, member))

    def members(self, known: Sequence[str] | None = None) -> list[tuple[Any, Node]]:
        """The members of a mapping. Others than the ``known`` are an error."""
        if not isinstance(self.value, dict):
            self.fail(f"{self.value!r} is not a mapping")
        for name in self.value:
            if known is not None and name not in known:
                self.at(name).fail(f"there is no such member; there are {', '.join(known)}")
        return [(name, self.at(name)) for name in self.value]

    def list(self) -> list[Node]:
        """The elements of a list."""
        if not isinstance(self.value, list):
            self.fail(f"{self.value!r} is not a list")
        return [self.at(number) for number in range(len(self.value))]

    def text(self) -> str:
        """A text."""
        return self.value if isinstance(self.value, str) else self.fail(f"{self.value!r} is not a text")

    def duration(self) -> float:
        """Seconds."""
        seconds = seconds_of(self.value)
        return self.fail(f"{self.value!r} is not a duration: write it as 30s or 5m") if seconds is None else seconds


def seconds_of(text: Any) -> float | None:
    """The seconds of ``1m30s``, or ``None``."""
    if not isinstance(text, str) or not re.fullmatch(f"({_DURATION.pattern})+", text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))


def documents(text: str) -> list[Any]:
    """The documents of a text."""
    yaml, loader = _yaml()
    return list(yaml.load_all(text, Loader=loader))


def _yaml() -> tuple[Any, Any]:
    """PyYAML, and its loader with the types of YAML 1.2: ``yes`` and dates are texts, as for the other test kits."""
    try:
        import yaml
    except ImportError:
        raise ScenarioError("scenario files need PyYAML: pip install pyyaml") from None

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    kinds = {
        "bool": r"true|false",
        "null": r"~|null|",
        "int": r"[-+]?[0-9]+",
        "float": r"[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?",
    }
    for kind, pattern in kinds.items():
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"^(?:{pattern})$"), None)
    return yaml, Loader
