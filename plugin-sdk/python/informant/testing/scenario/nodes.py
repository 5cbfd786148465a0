"""The values of a scenario file, which know where they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NoReturn

_SECOND_NS = 10**9

#: Nanoseconds and names, as in Informant.
_UNITS = {
    name: unit
    for unit, names in (
        (1, "ns nsec nanos"),
        (10**3, "us usec \u00b5s"),
        (10**6, "ms msec millis"),
        (_SECOND_NS, "s sec secs second seconds"),
        (60 * _SECOND_NS, "m min mins minute minutes"),
        (3_600 * _SECOND_NS, "h hr hrs hour hours"),
        (86_400 * _SECOND_NS, "d day days"),
        (604_800 * _SECOND_NS, "w wk wks week weeks"),
        (2_630_016 * _SECOND_NS, "M month months"),
        (31_557_600 * _SECOND_NS, "y yr yrs year years"),
    )
    for name in names.split()
}
_DIGITS = r"([0-9](?:\s*[0-9])*)\s*"
_SPAN = re.compile(rf"\s*{_DIGITS}(?:\.\s*{_DIGITS})?([A-Za-z\u00b5]+)")


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
            line, why = _problem(error)
            raise ScenarioError(f"{file}:{line}: {why}") from None

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

    def documents(self) -> Sequence[Any]:
        """The YAML documents of a text."""
        yaml, loader = _yaml()
        try:
            return list(yaml.load_all(self.text(), Loader=loader))
        except yaml.YAMLError as error:
            line, why = _problem(error)
            self.fail(f"line {line} of the text: {why}")

    def duration(self) -> float:
        """Seconds."""
        seconds = seconds_of(self.value)
        return self.fail(f"{self.value!r} is not a duration: write it as 30s or 5m") if seconds is None else seconds


def seconds_of(text: Any) -> float | None:
    """The seconds of ``1m 30s``, or ``None``. Reads what config.toml may have."""
    if text == "0":
        return 0.0
    if not isinstance(text, str) or not re.fullmatch(rf"(?:{_SPAN.pattern})+\s*", text):
        return None
    total_ns = 0
    for whole, part, unit in _SPAN.findall(text):
        if unit not in _UNITS:
            return None
        unit_ns, part = _UNITS[unit], re.sub(r"\s", "", part)
        # What is left of a fraction must be whole seconds or, of a unit below an hour, whole nanoseconds.
        step_ns = _SECOND_NS if unit_ns >= 3_600 * _SECOND_NS else 1
        steps, rest = divmod(int(part or 0) * (unit_ns // step_ns), 10 ** len(part))
        if rest or (part and unit_ns == 1):
            return None
        total_ns += int(re.sub(r"\s", "", whole)) * unit_ns + steps * step_ns
    return total_ns / _SECOND_NS


def _problem(error: Any) -> tuple[int, str]:
    """The line and the message of an error of PyYAML."""
    mark = getattr(error, "problem_mark", None)
    return 1 if mark is None else mark.line + 1, getattr(error, "problem", None) or str(error)


#: The core schema of YAML 1.2, without infinity and NaN, which JSON does not have.
_KINDS = {
    "bool": r"true|True|TRUE|false|False|FALSE",
    "null": r"~|null|Null|NULL|",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?",
}


def _yaml() -> tuple[Any, Any]:
    """PyYAML, and its loader with the types of YAML 1.2: ``yes`` and dates are texts, as for the other test kits."""
    try:
        import yaml
    except ImportError:
        raise ScenarioError("scenario files need PyYAML: pip install pyyaml") from None

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
            """A mapping whose names are texts as written, each there once."""
            members: dict[str, Any] = {}
            for name, value in node.value:
                is_text = isinstance(name, yaml.ScalarNode)
                if not is_text or name.value in members:
                    why = f"`{name.value}` is there twice" if is_text else "a name is not a text"
                    raise yaml.constructor.ConstructorError(None, None, why, name.start_mark)
                members[name.value] = self.construct_object(value, deep=deep)
            return members

        def construct_integer(self, node: Any) -> int:
            """``010`` is ten."""
            text = self.construct_scalar(node)
            base = {"0o": 8, "0x": 16}.get(text[:2], 10)
            return int(text if base == 10 else text[2:], base)

    for kind, pattern in _KINDS.items():
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"^(?:{pattern})$"), None)
    Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_integer)
    return yaml, Loader
