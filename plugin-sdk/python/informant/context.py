"""The plugin's configuration: ``config``, ``context`` and ``settings``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import registry as _registry
from .errors import Refused, did_you_mean


class _View(Mapping[str, Any]):
    """A read-only view of what the current instance was given."""

    def __init__(self, member: str | None) -> None:
        self._member = member

    def _read(self) -> Mapping[str, Any]:
        context = _registry.active.context
        if context is None:
            raise RuntimeError(
                "the config is not known yet: in a component, the top level runs when the component is built. Read the "
                "config in @on.startup or in a handler"
            )
        return context if self._member is None else context.get(self._member) or {}

    def __getitem__(self, name: str) -> Any:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return repr(dict(self._read()))


#: The ``config`` table of the plugin's section.
config: Mapping[str, Any] = _View("config")

#: What Informant says of itself and of this instance: ``plugin``, ``informant``, ``contract``, ``role``, ``because``,
#: ``instance``, ``instances`` and so on.
context: Mapping[str, Any] = _View(None)

_TYPES = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "an array", dict: "a table"}


class Settings:
    """The values of the plugin's config, with defaults. ``min_restarts`` is ``min-restarts`` in config.toml."""

    def __init__(self, defaults: dict[str, Any], registry: _registry.Registry) -> None:
        self._defaults = defaults
        self._registry = registry
        self._values: dict[str, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._defaults:
            raise AttributeError(f"there is no setting {name}{did_you_mean(name, list(self._defaults))}")
        if self._values is None:
            if self._registry.context is None:
                raise RuntimeError(
                    f"the setting {name} is not known yet: in a component, the top level runs when the component is "
                    "built. Read settings in @on.startup or in a handler"
                )
            self._load(self._registry.context.get("config") or {})
        assert self._values is not None
        return self._values[name]

    def __repr__(self) -> str:
        return f"settings({', '.join(f'{name}={value!r}' for name, value in (self._values or {}).items())})"

    def _load(self, given: Mapping[str, Any]) -> None:
        """Reads the values of the settings from the plugin's config."""
        values = {}
        for name, default in self._defaults.items():
            spellings = [key for key in dict.fromkeys((_key(name), name)) if key in given]
            if len(spellings) > 1:
                raise Refused(f"config: `{spellings[0]}` and `{spellings[1]}` are the same; remove one")
            if not spellings and isinstance(default, type):
                raise Refused(f"config: `{_key(name)}` is missing: set it to {_TYPES[default]}")
            values[name] = _checked(spellings[0], given[spellings[0]], default) if spellings else default
        self._values = values


def settings(**defaults: Any) -> Settings:
    """Declares the keys of the plugin's config, each with its default or, if it is required, with its type.

    Unknown keys and values of another type refuse the plugin: ``settings(min_restarts=3, url=str)``.
    """
    for name, default in defaults.items():
        if isinstance(default, type) and default not in _TYPES:
            raise Refused(f"settings: {name} has the type {default.__name__}; use bool, int, float, str, list or dict")
    registry = _registry.active
    declared = Settings(defaults, registry)
    registry.settings.append(declared)
    return declared


def load_settings(registry: _registry.Registry) -> None:
    """Reads all settings, and refuses keys of the config that none of them declares."""
    if not registry.settings:
        return
    given = (registry.context or {}).get("config") or {}
    names = [name for declared in registry.settings for name in declared._defaults]
    known = {spelling for name in names for spelling in (name, _key(name))}
    for key in given:
        if key not in known:
            hint = did_you_mean(key, [f"`{_key(name)}`" for name in names])
            raise Refused(f"config: unknown key `{key}`{hint}")
    for declared in registry.settings:
        declared._load(given)


def _key(name: str) -> str:
    """The spelling of config.toml."""
    return name.replace("_", "-")


def _checked(key: str, value: Any, default: Any) -> Any:
    wanted = default if isinstance(default, type) else type(default)
    if default is None or wanted not in _TYPES:
        return value
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if wanted is float and is_number:
        return float(value)
    if isinstance(value, wanted) and (wanted is not int or is_number):
        return value
    raise Refused(f"config: `{key}` is {value!r}, which is not {_TYPES[wanted]}")
