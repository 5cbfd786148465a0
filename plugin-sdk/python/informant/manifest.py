"""The manifest of a plugin, from what it has registered. No member is written at its default."""

from __future__ import annotations

import re
from typing import Any

from .decorators import listed
from .errors import Refused
from .host import ROLES
from .registry import PAYLOADS, Reconciler, Registry, Rule, Timer, check_payload, check_timer, resolve


def roles_of(registry: Registry) -> list[str]:
    """The roles that the plugin plays, in the contract's order."""
    plays = {
        "event-handler": bool(registry.handlers),
        "reconciler": registry.reconciler is not None,
        "timer-handler": bool(registry.timers),
        "sync-handler": bool(registry.synced),
        "index-funcs": bool(registry.indexers),
        "state": bool(registry.states),
    }
    return [role for role in ROLES if plays[role]]


def index_names(registry: Registry) -> list[str]:
    """The names of the indexes, each once."""
    names = (resolve(name) for indexer in registry.indexers.values() for name, _ in indexer.functions)
    return list(dict.fromkeys(names))


def manifest_of(registry: Registry) -> dict[str, Any]:
    """The manifest, as JSON values.

    Raises: ``Refused`` if the plugin handles nothing.
    """
    if registry.is_empty():
        raise Refused(
            'no function is registered that Informant would call: write @on.upsert("v1", "Pod") above a function; '
            "there are on.add, on.update, on.upsert, on.delete, on.synced, reconcile, timer and index"
        )
    if registry.handlers and registry.reconciler is not None:
        raise Refused(
            f"{registry.reconciler.handler.where} reconciles, and other functions handle events, of which a plugin may "
            "do one: reconcile is called for every change of its objects, with None when one is gone"
        )
    # A component of this SDK exports every role, and no plugin plays all.
    roles = roles_of(registry)
    manifest: dict[str, Any] = {"name": registry.name, "version": registry.version, "roles": roles}
    if registry.handlers:
        rules = [_event_rule(handlers.rule) for handlers in registry.handlers.values()]
        if rules != [{"apiVersion": "*", "kind": "*"}]:
            manifest["events"] = rules
    if registry.reconciler is not None:
        manifest["reconciler"] = _reconciler(registry.reconciler)
    if registry.timers:
        manifest["timers"] = [_timer(name, timer) for name, timer in registry.timers.items()]
    if registry.indexers:
        objects = [_rule(indexer.rule) for indexer in registry.indexers.values()]
        manifest["indexes"] = {"names": index_names(registry), "objects": objects}
    if registry.needs:
        manifest["needs"] = registry.needs
    if registry.metrics:
        manifest["metrics"] = registry.metrics
    manifest.update(registry.options)
    return manifest


def passes(rule: Rule, pointer: str) -> bool:
    """Whether the objects of a rule are passed with all that a pointer names."""
    payload = _rule(rule).get("payload", "whole")
    if isinstance(payload, dict):
        # All elements are as good as the whole.
        fields = [re.sub(r"(/\*)+$", "", field) for field in payload["fields"]]
        return any(pointer == field or pointer.startswith(f"{field}/") for field in fields)
    return payload == "whole" or (payload == "metadata" and pointer.startswith("/metadata/"))


def _reconciler(reconciler: Reconciler) -> dict[str, Any]:
    primary = _event_rule(reconciler.rule)
    if reconciler.when:
        primary["when"] = reconciler.when
    document: dict[str, Any] = {"for": primary}
    if reconciler.owns:
        document["owns"] = [related.document for related in reconciler.owns]
    if reconciler.watches:
        document["watches"] = [related.document for related in reconciler.watches]
    min_interval = resolve(reconciler.min_interval)
    if min_interval is not None:
        document["minInterval"] = min_interval
    return document


#: Options of timers that are left out.
_TIMER_DEFAULTS = {"zone": "UTC", "missed": "once", "atStart": False}


def _timer(name: str, timer: Timer) -> dict[str, Any]:
    options = {member: resolve(value) for member, value in timer.options.items()}
    options["atStart"] = bool(options["atStart"])
    check_timer(f"{timer.handler.where}: timer {name!r}", options)
    given = {member: value for member, value in options.items() if value not in (None, _TIMER_DEFAULTS.get(member))}
    return {"name": name, **given}


def _rule(rule: Rule) -> dict[str, Any]:
    document: dict[str, Any] = {"apiVersion": rule.api_version, "kind": rule.kind}
    wanted = [resolve(payload) for payload in rule.payloads]
    words = [word for word in wanted if isinstance(word, str)]
    for word in words:
        check_payload(f"the rule for {rule.api_version} {rule.kind}", word)
    payload = min(words, key=PAYLOADS.index, default=None)
    named = [*rule.fields, *(fields for fields in wanted if not isinstance(fields, str))]
    fields = list(dict.fromkeys(field for fields in named for field in listed(resolve(fields))))
    if payload == "metadata" and fields:
        document["payload"] = {"fields": list(dict.fromkeys([*fields, "/metadata"]))}
    elif fields and payload != "whole":
        document["payload"] = {"fields": fields}
    elif payload in ("metadata", "none"):
        document["payload"] = payload
    return document


def _event_rule(rule: Rule) -> dict[str, Any]:
    document = _rule(rule)
    if any(resolve(old) for old in rule.old):
        document["old"] = True
    if rule.changed_only:
        document["changedOnly"] = True
    namespaces = resolve(rule.namespaces)
    if namespaces is not None:
        document["namespaces"] = listed(namespaces)
    selector = resolve(rule.selector)
    if selector:
        document["labelSelector"] = selector
    return document
