"""What a scenario file has: see docs/reference/scenarios.md. Checked before anything runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ..cluster import resource_of
from .nodes import Node

_MEMBERS = ("config", "http", "kv", "name", "objects", "path", "plugin", "steps")
_ACTIONS = ("apply", "delete", "http", "patch", "requeue", "swap", "timer", "trigger", "wait")
_ANSWER = ("after", "body", "error", "headers", "method", "status", "times", "url")
_EXPECT = (
    "absent",
    "calls",
    "deadLetters",
    "events",
    "http",
    "indexes",
    "kv",
    "log",
    "metrics",
    "objects",
    "refused",
    "writes",
)

#: Sections of the process, which have no effect.
_IGNORED = ("admin", "cache", "cluster", "health", "http", "state")
_INFORMER = ("index", "resource")
_PLUGIN = ("allow", "component", "config", "informers", "script")

_CLUSTER_SCOPED = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "IngressClass",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
}

_REFERENCE = re.compile(r"^(?P<resource>[^ /]+(?:/[^ /]+){1,2}) (?:(?P<namespace>[^ /]+)/)?(?P<name>[^ /]+)$")


class Stream(NamedTuple):
    """A list of an ``expect``: the members of an entry, and what a text is short for."""

    members: tuple[str, ...]
    short: Callable[[str], dict[str, Any]] | None = None


def _short_call(text: str) -> dict[str, Any]:
    call, _, about = text.partition(" ")
    member = "timer" if call == "on-timer" else "object"
    return {"call": call, **({member: about} if about else {}), "result": "ok"}


STREAMS = {
    "calls": Stream(
        ("attempt", "call", "error", "missed", "object", "reason", "requeueAfter", "result", "timer"), _short_call
    ),
    "log": Stream(("fields", "level", "message"), lambda message: {"message": message}),
    "writes": Stream(("document", "kind", "object", "result", "subresource", "verb")),
    "http": Stream(("body", "error", "headers", "method", "status", "url")),
    "events": Stream(("action", "note", "reason", "regarding", "related", "type")),
    "deadLetters": Stream(("error", "object"), lambda object: {"object": object}),
}

_CHOICES = {
    "call": ("on-add", "on-update", "on-delete", "on-timer", "on-synced", "save", "restore"),
    "verb": ("create", "update", "patch", "delete"),
    "level": ("info", "warn", "error"),
    "kind": ("merge", "json", "strategic", "apply"),
    "type": ("Normal", "Warning"),
}


class Reference(NamedTuple):
    """``v1/pods shop/web-0``."""

    text: str
    resource: str
    namespace: str
    name: str
    node: Node


class Expect(NamedTuple):
    node: Node
    references: list[Reference]
    objects: list[tuple[Node, Any]]


class Step(NamedTuple):
    node: Node
    action: str | None
    value: Any
    expect: Expect | None


class Informer(NamedTuple):
    name: str
    resource: str
    #: Name and JSON pointer.
    indexes: dict[str, str]
    node: Node


class Plugin(NamedTuple):
    """The plugin's section."""

    name: str = "test"
    config: Any = None
    allow: Any = None
    path: str | None = None
    informers: Any = None
    has_kv: bool = True


class Scenario(NamedTuple):
    path: str
    plugin: Plugin
    informers: list[Informer]
    objects: list[Any]
    kv: dict[str, Any]
    answers: list[dict[str, Any]]
    steps: list[Step]
    root: Node


def read_scenario(file: str, override: str | None = None) -> Scenario:
    """Reads and checks a file. ``override`` replaces its ``path``."""
    root = Node.read(file)
    if root.has("time"):
        root.at("time").needs_informant()
    root.members(_MEMBERS)
    folder = os.path.dirname(file)
    plugin, informers = _config(root, folder)
    path = root.at("path").text() if root.has("path") else plugin.path
    if not root.has("steps"):
        root.fail("the scenario has no `steps`: write what happens")
    if override is None and path is None:
        root.fail("name the script: path: handler.py")
    own = os.path.join(folder, path or "")
    steps = [_step(node, folder) for node in root.at("steps").list()]
    if override is not None:
        # A swap by the same plugin.
        steps = [
            step._replace(value=override) if (step.action, step.value) == ("swap", own) else step for step in steps
        ]
    return Scenario(
        path=override or own,
        plugin=plugin,
        informers=informers,
        objects=_objects(root.at("objects")) if root.has("objects") else [],
        kv={key: node.value for key, node in root.at("kv").members()} if root.has("kv") else {},
        answers=_answers(root.at("http")) if root.has("http") else [],
        steps=steps,
        root=root,
    )


def _config(root: Node, folder: str) -> tuple[Plugin, list[Informer]]:
    if not root.has("config"):
        return Plugin(), []
    config = root.at("config")
    is_file = isinstance(config.value, str)
    if is_file:
        file = os.path.join(folder, config.value)
        folder, config = os.path.dirname(file), config.toml(file)
    has_kv = not is_file or config.has("state")
    if not has_kv and root.has("kv"):
        root.at("kv").fail("add a section [state] to config.toml, without which plugins may not use keys")
    for name, section in config.members():
        if name not in ("informer", "plugin", *_IGNORED):
            section.needs_informant()
    informers = (
        [_informer(name, node) for name, node in config.at("informer").members()] if config.has("informer") else []
    )
    sections = dict(config.at("plugin").members()) if config.has("plugin") else {}
    if root.has("plugin"):
        wanted = root.at("plugin").text()
        if wanted not in sections:
            root.at("plugin").fail(f"config has no section plugin.{wanted}")
        sections = {wanted: sections[wanted]}
    if len(sections) > 1:
        config.at("plugin").fail("there are several plugins: name one in the member `plugin`")
    for name, section in sections.items():
        for member, node in section.members():
            if member not in _PLUGIN:
                node.needs_informant()
        given = section.value
        path = given.get("script") or given.get("component")
        path = path and os.path.join(folder, path)
        plugin = Plugin(name, given.get("config"), given.get("allow"), path, given.get("informers"), has_kv)
        return plugin, informers
    return Plugin(has_kv=has_kv), informers


def _informer(name: str, node: Node) -> Informer:
    for member, value in node.members():
        if member not in _INFORMER:
            value.needs_informant()
    resource = node.at("resource")
    if "*" in resource.text():
        resource.needs_informant("informers of several resources")
    indexes = node.at("index").members() if node.has("index") else []
    for _, pointer in indexes:
        if not isinstance(pointer.value, str) or not pointer.value.startswith("/"):
            pointer.fail(f"{pointer.value!r} is not a JSON pointer: write it as /spec/nodeName")
    return Informer(name, resource.text(), {index: pointer.value for index, pointer in indexes}, resource)


def _step(node: Node, folder: str) -> Step:
    if node.has("replay"):
        node.at("replay").needs_informant()
    node.members((*_ACTIONS, "expect"))
    actions = [name for name in _ACTIONS if node.has(name)]
    if len(actions) > 1:
        first, second = actions[:2]
        node.fail(f"a step has two actions, {first} and {second}: make a step of its own for {second}")
    action = actions[0] if actions else None
    value = _action(action, node.at(action), folder) if action else None
    return Step(node, action, value, _expect(node.at("expect")) if node.has("expect") else None)


def _action(name: str, node: Node, folder: str) -> Any:
    if name == "apply":
        return _objects(node)
    if name == "patch":
        return _object(node.value, node)
    if name == "wait":
        return node.duration()
    if name == "http":
        return _answers(node)
    if name == "swap":
        return os.path.join(folder, node.text())
    if name == "timer":
        return node.text()
    return None if name == "requeue" and node.value == "all" else _reference(node)


def _objects(node: Node) -> list[Any]:
    """One object, a list of objects, or a text with documents."""
    given = node.value
    if isinstance(given, str):
        given = node.documents()
    return [_object(object, node) for object in (given if isinstance(given, list) else [given])]


def _object(object: Any, node: Node) -> Any:
    """A namespace that an object leaves out is ``default``, unless the kind has none."""
    given = object if isinstance(object, dict) else {}
    metadata = given.get("metadata") or {}
    for member, value in (
        ("apiVersion", given.get("apiVersion")),
        ("kind", given.get("kind")),
        ("metadata.name", metadata.get("name")),
    ):
        if not isinstance(value, str) or not value:
            node.fail(f"an object lacks {member}")
    if "namespace" in metadata or given["kind"] in _CLUSTER_SCOPED:
        return given
    return {**given, "metadata": {"namespace": "default", **metadata}}


def _reference(node: Node) -> Reference:
    found = _REFERENCE.match(node.text())
    if found is None:
        node.fail(f'"{node.value}" is not a reference: write RESOURCE NAMESPACE/NAME, as in v1/pods shop/web-0')
    return Reference(node.value, found["resource"], found["namespace"] or "", found["name"], node)


def _answers(node: Node) -> list[dict[str, Any]]:
    answers = []
    for answer in node.list():
        for name, member in answer.members(_ANSWER):
            if name == "after":
                member.needs_informant()
        if not answer.has("url"):
            answer.fail("an answer has no `url`; `*` stands for any text")
        if answer.has("error") and answer.value["error"] not in ("connect", "dns", "timeout"):
            answer.at("error").fail(f"there is no error {answer.value['error']}; there are connect, dns, timeout")
        method = {"method": answer.at("method").text().upper()} if answer.has("method") else {}
        answers.append({**answer.value, **method})
    return answers


def _expect(node: Node) -> Expect:
    node.members(_EXPECT)
    for name, stream in STREAMS.items():
        if node.has(name):
            entries_of(node.at(name), stream)
    references = [_reference(entry) for entry in node.at("absent").list()] if node.has("absent") else []
    entries = node.at("objects").list() if node.has("objects") else []
    return Expect(node, references, [(entry, _object(entry.value, entry)) for entry in entries])


def entries_of(node: Node, stream: Stream) -> tuple[bool, list[tuple[Node, Any]]]:
    """Whether others may be between the entries, and the entries."""
    is_part = isinstance(node.value, dict)
    if is_part:
        node.members(("includes",))
        node = node.at("includes")
    entries: list[tuple[Node, Any]] = []
    for entry in node.list():
        if isinstance(entry.value, str) and stream.short is not None:
            entries.append((entry, stream.short(entry.value)))
            continue
        for name, member in entry.members(stream.members):
            choices = _CHOICES.get(name)
            if choices is not None and member.value not in choices:
                member.fail(f'"{member.value}" is none of {", ".join(choices)}')
            if name == "requeueAfter" and member.value is not None:
                member.duration()
        entries.append((entry, entry.value))
    return is_part, entries


def reference_text(object: Any) -> str:
    """The reference of an object."""
    metadata = object["metadata"]
    key = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
    return f"{resource_of(object['apiVersion'], object['kind'])} {key}"
