"""An API server for the logic of a plugin.

The resource of a kind is its lowercase plural: ``v1/pods`` for Pod. Every call is granted. A strategic patch and an
apply work like a merge patch. A JSON patch, and subresources other than ``status``, are ``unsupported``.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import events
from ..errors import KubeError
from ..host import Address, SourceInfo
from . import selector

#: By source, namespace and name.
Key = "tuple[int, str, str]"

#: The most objects in a page, and by default.
PAGE_OBJECTS = 500

#: The most writes that one call may defer, as in Informant.
CALL_WRITES_MAX = 100

_WRITE_OPTIONS = {"fieldManager", "fieldValidation", "dryRun", "force"}
_DELETE_OPTIONS = {"propagationPolicy", "gracePeriodSeconds", "preconditions", "dryRun"}
_LIST_OPTIONS = {"labelSelector", "fieldSelector", "limit", "continue"}


class Write(NamedTuple):
    """A write of the plugin, with the arguments of its call."""

    #: ``create``, ``update``, ``patch`` or ``delete``.
    verb: str
    #: ``v1/pods``, or ``v1/pods/status`` for a subresource.
    resource: str
    #: ``namespace/name``, or ``name``.
    object: str
    #: The document that was sent; ``None`` for a delete.
    document: Any
    #: Empty if the test has a single, unnamed one.
    cluster: str = ""


class Sent(NamedTuple):
    """A write that was sent to the API server, whatever became of it."""

    write: Write
    #: Of a patch: ``merge``, ``strategic`` or ``apply``.
    kind: str
    #: ``ok``, or the code of the error.
    result: str


class _Deferred(NamedTuple):
    """A write that waits for the end of the call."""

    make: Callable[[], None]
    #: It does not count among those that the call may defer.
    is_child: bool


class Cluster:
    """The objects of a test, and the plugin's writes to them."""

    def __init__(self) -> None:
        self.sources: list[SourceInfo] = []
        self.objects: dict[tuple[int, str, str], Any] = {}
        self.writes: list[Write] = []
        self.sent: list[Sent] = []
        #: The objects that these writes changed, each with its previous state.
        self.changed: list[tuple[tuple[int, str, str], Any]] = []
        self.deferred: list[_Deferred] = []
        self._version = 0

    # --- the content ---

    def add_source(self, informer: str, api_version: str, kind: str, cluster: str, namespaced: bool) -> SourceInfo:
        """Adds a source to an informer."""
        resource = resource_of(api_version, kind)
        info = SourceInfo(
            len(self.sources), "live", informer, cluster, api_version, kind, resource, None, namespaced, False
        )
        self.sources.append(info)
        return info

    def key_of(self, object: Any, cluster: str | None = None) -> tuple[int, str, str]:
        """The key under which ``put`` stores an object. Adds a source if there is none for its kind."""
        metadata = object.get("metadata") or {}
        for member, value in (("apiVersion", object.get("apiVersion")), ("kind", object.get("kind"))):
            if not value:
                raise ValueError(f"the object has no {member}: {object}")
        if not metadata.get("name"):
            raise ValueError(f"the object has no metadata.name: {object}")
        namespace = metadata.get("namespace") or ""
        for info in self.sources:
            is_kind = (info.api_version, info.kind) == (object["apiVersion"], object["kind"])
            if is_kind and cluster in (None, info.cluster):
                break
        else:
            informer = resource_of("", object["kind"]).lstrip("/")
            info = self.add_source(informer, object["apiVersion"], object["kind"], cluster or "", bool(namespace))
        return info.id, namespace, metadata["name"]

    def put(self, object: Any, cluster: str | None = None) -> tuple[int, str, str]:
        """Stores an object. Generates its uid and resource version if it has none."""
        key = self.key_of(object, cluster)
        stored = json.loads(json.dumps(object))
        before = (self.objects.get(key) or {}).get("metadata") or {}
        self._version += 1
        metadata = stored["metadata"]
        metadata.setdefault("uid", before.get("uid") or f"uid-{self._version}")
        if metadata.get("resourceVersion") in (None, before.get("resourceVersion")):
            metadata["resourceVersion"] = str(self._version)
        self.objects[key] = stored
        return key

    @property
    def version(self) -> str:
        """The newest resource version."""
        return str(self._version)

    # --- requests ---

    def send(self, verb: str, at: Address, *arguments: Any) -> Any:
        """Makes a write, and keeps what becomes of it."""
        kind = arguments[0] if verb == "patch" else ""
        before = len(self.writes)
        try:
            answer = getattr(self, verb)(at, *arguments)
        except KubeError as error:
            document = None if verb == "delete" else _document(arguments[-2])
            self.sent.append(Sent(self._as_write(verb, at, document), kind, error.code))
            raise
        # None for a dry run.
        self.sent.extend(Sent(write, kind, "ok") for write in self.writes[before:])
        return answer

    def get(self, at: Address) -> bytes:
        """An object."""
        return _bytes(self._existing(at)[1])

    def list(self, at: Address, options: bytes) -> tuple[list[bytes], str]:
        """A page of objects, and the cursor of the next one."""
        given = _options(options, _LIST_OPTIONS)
        if given.get("fieldSelector"):
            raise KubeError("unsupported", "the test kit does not support field selectors")
        cluster = self.cluster_of(at)
        found = [
            (f"{key[1]}/{key[2]}", object)
            for key, object in sorted(self.objects.items())
            if self.sources[key[0]].resource == at.resource
            and self.sources[key[0]].cluster == cluster
            and at.namespace in ("", key[1])
            and selector.matches(given.get("labelSelector", ""), object)
        ]
        rest = [row for row in found if row[0] > given.get("continue", "")]
        page = rest[: min(given.get("limit") or PAGE_OBJECTS, PAGE_OBJECTS)]
        return [_bytes(object) for _, object in page], page[-1][0] if len(page) < len(rest) else ""

    def create(self, at: Address, document: bytes, options: bytes) -> bytes:
        """Creates an object."""
        given = _options(options, _WRITE_OPTIONS)
        object = _document(document)
        metadata = object.setdefault("metadata", {})
        if at.namespace:
            metadata["namespace"] = at.namespace
        if not metadata.get("name"):
            raise KubeError("invalid", "the test kit does not generate names: set metadata.name")
        created = at._replace(name=metadata["name"])
        if self._find(created) is not None:
            message = f'{created.resource} "{created.name}" already exists'
            raise KubeError("already-exists", message, 409, "AlreadyExists")
        return self._write("create", created, None, object, object, given)

    def update(self, at: Address, document: bytes, options: bytes) -> bytes:
        """Replaces an object."""
        given = _options(options, _WRITE_OPTIONS)
        object = _document(document)
        key, before = self._existing(at)
        _check_preconditions(before, object.get("metadata") or {})
        after = _with_status(before, object) if at.subresource else object
        return self._write("update", at, (key, before), object, after, given)

    def patch(self, at: Address, kind: str, document: bytes, options: bytes) -> bytes:
        """Changes an object."""
        given = _options(options, _WRITE_OPTIONS)
        if given.get("force") and kind != "apply":
            raise KubeError("invalid", "options: `force` is for apply only")
        if kind == "json":
            raise KubeError("unsupported", "the test kit does not support JSON patches")
        patch = _document(document)
        found = self._find(at)
        if found is None and kind == "apply":
            return self._write("patch", at, None, patch, patch, given)
        key, before = self._existing(at)
        _check_preconditions(before, patch.get("metadata") or {})
        after = merged(before, patch)
        if at.subresource:
            after = _with_status(before, after)
        return self._write("patch", at, (key, before), patch, after, given)

    def delete(self, at: Address, options: bytes) -> None:
        """Deletes an object."""
        given = _options(options, _DELETE_OPTIONS)
        key, before = self._existing(at)
        _check_preconditions(before, given.get("preconditions") or {})
        if not given.get("dryRun"):
            del self.objects[key]
            self._record("delete", at, None)
            self.changed.append((key, before))

    # --- deferred writes ---

    def defer(self, verb: str, at: Address, *arguments: Any, is_child: bool = False) -> None:
        """Keeps a write until the call has succeeded. What is invalid fails at once."""
        if not is_child and sum(not write.is_child for write in self.deferred) == CALL_WRITES_MAX:
            raise KubeError("too-large", f"a call can defer at most {CALL_WRITES_MAX} writes")
        given = _options(arguments[-1], _DELETE_OPTIONS if verb == "delete" else _WRITE_OPTIONS)
        if verb == "create" and not at.subresource and not (_document(arguments[0]).get("metadata") or {}).get("name"):
            message = "a deferred create needs metadata.name: with generateName, each attempt creates one more object"
            raise KubeError("invalid", message)
        preconditions = given.get("preconditions") or {}
        if verb == "delete" and not preconditions.get("uid"):
            message = "a deferred delete needs preconditions.uid: the name may belong to another object by then"
            raise KubeError("invalid", message)
        at = at._replace(cluster=self.cluster_of(at))

        def write() -> None:
            try:
                self.send(verb, at, *arguments)
            except KubeError as error:
                is_gone = error.code == "not-found"
                is_another = error.code == "conflict" and not preconditions.get("resourceVersion")
                if verb != "delete" or not (is_gone or is_another):
                    raise

        self.deferred.append(_Deferred(write, is_child))

    def make_deferred(self) -> None:
        """Makes the writes that a call has deferred. The first one that fails ends the rest."""
        writes, self.deferred = self.deferred, []
        for write in writes:
            write.make()

    # --- details ---

    def cluster_of(self, at: Address) -> str:
        """The cluster of an address: by default that of the object that the call is about."""
        if at.cluster:
            return at.cluster
        if events.current_source is not None:
            return self.sources[events.current_source].cluster
        clusters = {info.cluster for info in self.sources}
        if len(clusters) <= 1:
            return next(iter(clusters), "")
        raise KubeError("invalid", "the test has several clusters, and this call is about no object: pass cluster=NAME")

    def _find(self, at: Address) -> tuple[Any, Any] | None:
        if at.subresource not in ("", "status"):
            raise KubeError("unsupported", f"the test kit does not support the subresource {at.subresource!r}")
        cluster = self.cluster_of(at)
        for key, object in self.objects.items():
            info = self.sources[key[0]]
            if (info.cluster, info.resource, *key[1:]) == (cluster, at.resource, at.namespace, at.name):
                return key, object
        return None

    def _existing(self, at: Address) -> tuple[Any, Any]:
        found = self._find(at)
        if found is None:
            raise self._not_found(at)
        return found

    def _not_found(self, at: Address) -> KubeError:
        """As in Informant, a missing namespace is not an absent object."""
        resources = {self.sources[source].resource for source, namespace, _ in self.objects if namespace}
        if not at.namespace and at.resource in resources:
            return KubeError("invalid", f"{at.resource} is namespaced, but the address has no `namespace`")
        return KubeError("not-found", f'{at.resource} "{at.name}" not found', 404, "NotFound")

    def _write(self, verb: str, at: Address, found: Any, document: Any, after: Any, options: Any) -> bytes:
        # The address names the object: a document need not repeat that.
        named = {"namespace": at.namespace, "name": at.name} if at.namespace else {"name": at.name}
        after = {**after, "metadata": {**(after.get("metadata") or {}), **named}}
        _check_texts(after.get("metadata") or {})
        if options.get("dryRun"):
            return _bytes(after)
        self._record(verb, at, document)
        key, before = found or (None, None)
        if before is not None and before == after:
            return _bytes(before)
        before = copy.deepcopy(before)
        key = self.put(after, self.cluster_of(at))
        self.changed.append((key, before))
        stored = self.objects[key]
        if stored["metadata"].get("deletionTimestamp") and not stored["metadata"].get("finalizers"):
            # It was kept for its finalizers only.
            del self.objects[key]
        return _bytes(stored)

    def _record(self, verb: str, at: Address, document: Any) -> None:
        self.writes.append(self._as_write(verb, at, document))

    def _as_write(self, verb: str, at: Address, document: Any) -> Write:
        resource = f"{at.resource}/{at.subresource}" if at.subresource else at.resource
        object = f"{at.namespace}/{at.name}" if at.namespace else at.name
        if verb == "create" and document is not None and not at.name:
            name = (document.get("metadata") or {}).get("name", "")
            object = f"{at.namespace}/{name}" if at.namespace else name
        return Write(verb, resource, object, copy.deepcopy(document), self.cluster_of(at))


def resource_of(api_version: str, kind: str) -> str:
    """The apiVersion and the lowercase plural of the kind."""
    kind = kind.lower()
    if kind.endswith(("s", "x")):
        plural = f"{kind}es"
    elif kind.endswith("y") and not kind.endswith(("ey", "ay")):
        plural = f"{kind[:-1]}ies"
    else:
        plural = f"{kind}s"
    return f"{api_version}/{plural}"


def merged(target: Any, patch: Any) -> Any:
    """A merge patch, RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def _check_preconditions(before: Any, expected: Any) -> None:
    """Refuses a write that expects another uid or resource version than the stored one."""
    for member in ("uid", "resourceVersion"):
        if expected.get(member) and expected[member] != before["metadata"].get(member):
            message = "the object has been modified; please apply your changes to the latest version and try again"
            raise KubeError("conflict", message, 409, "Conflict")


def _check_texts(metadata: Any) -> None:
    """Refuses labels and annotations whose values are no texts, as the API server does."""
    for member in ("labels", "annotations"):
        for name, value in (metadata.get(member) or {}).items():
            if not isinstance(value, str | None):
                given = json.dumps(value)
                message = f'metadata.{member}: the value of "{name}" must be a text, not {given}: put it in quotes'
                raise KubeError("invalid", message)


def _with_status(before: Any, written: Any) -> Any:
    return {**before, "status": written.get("status")}


def _document(document: bytes) -> Any:
    parsed = json.loads(document)
    if not isinstance(parsed, dict):
        raise KubeError("invalid", "the document is not a JSON object")
    return parsed


def _options(options: bytes, known: set[str]) -> Any:
    given = json.loads(options) if options else {}
    for name in given:
        if name not in known:
            raise KubeError("invalid", f"options: unknown member `{name}`; known are {', '.join(sorted(known))}")
    return given


def _bytes(object: Any) -> bytes:
    return json.dumps(object, ensure_ascii=False).encode()
