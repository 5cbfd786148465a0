"""Keeps replicas of Secrets in other namespaces equal to their sources. README.md says how.

It reconciles namespaces. Each receives the replicas that belong there, and sends those of its own Secrets. So a changed
source and a changed replica lead to the same thing: the namespace in which they are.
"""

import hashlib
import re
import time
from fnmatch import fnmatchcase
from functools import partial

from informant import (
    KubeError,
    Refused,
    again,
    index,
    kube,
    log,
    needs,
    plugin,
    reconcile,
    recorder,
    related,
    settings,
    state,
    store,
)

plugin("secret-replicator", version="0.1.0")
needs("create", "patch", "delete", resource="v1/secrets")

ENTRY = re.compile(r"[a-z0-9*]([-a-z0-9*]{0,61}[a-z0-9*])?")

# The namespaces whose Secrets may be replicated.
config = settings(sources=list)
if not all(isinstance(entry, str) and ENTRY.fullmatch(entry) for entry in config.sources):
    raise Refused('config: sources lists namespaces, with * as a wildcard: sources = ["shop", "platform-*"]')

# On a source: the namespaces to which it is replicated, separated by commas.
REPLICATE_TO = "informant.dev/replicate-to"
# On a replica: its source. The annotation has all of it, and the label as much as fits.
REPLICA_OF = "informant.dev/replica-of"
LABEL_MAX = 63

# Kubernetes deletes the first if they belong to no ServiceAccount of their namespace. The others let nodes join.
TOKENS = ("kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token")

# Writes and Events of one call, and the seconds before the rest.
STEPS_MAX = 100
REST_AFTER = 0.1
# After so many replicas that it compares, a call does not begin with another source.
COMPARED_MAX = 1000
# The seconds before the next attempt: the cache is behind, the API server does not answer, or it refuses the write.
BEHIND_RETRY = 1
FAILED_RETRY = 30
REFUSED_RETRY = 300

# Answers to one write that do not concern the next one. A quota may be used up, for example.
REFUSED = ("denied", "forbidden", "invalid", "too-large")


def pointer(section, key):
    return f"/metadata/{section}/{key.replace('~', '~0').replace('/', '~1')}"


NAMES = [f"/metadata/{member}" for member in ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp")]
MARKS = [pointer("annotations", REPLICATE_TO), pointer("annotations", REPLICA_OF), pointer("labels", REPLICA_OF)]
CONTENT = ["/type", "/data", "/immutable"]
HEAD = [*NAMES, *MARKS, "/type"]
ALL = [*NAMES, *MARKS, *CONTENT]

# What was the last Event about a source and a namespace, so that each is recorded once.
memory = state({"warned": {}})
# When the next attempt to write a replica is due that failed.
resting = {}
# The version of each source that all of its namespaces have. Their own changes lead to them.
sent = {}


def matches(namespace, patterns):
    return any(fnmatchcase(namespace, pattern) for pattern in patterns)


def entries(secret):
    """What the annotation of a source lists. A replica is no source."""
    if REPLICA_OF in secret.labels:
        return []
    listed = (entry.strip() for entry in secret.annotations.get(REPLICATE_TO, "").split(","))
    return [entry for entry in listed if entry]


def problem(secret):
    """Why a Secret is not replicated as its annotation lists, or None."""
    if secret.type in TOKENS:
        return f"a Secret of the type {secret.type} cannot be replicated"
    if not matches(secret.namespace, config.sources):
        return f"Secrets of the namespace {secret.namespace} may not be replicated"
    wrong = [entry for entry in entries(secret) if not ENTRY.fullmatch(entry)]
    return f"{REPLICATE_TO}: not a namespace or wildcard: {', '.join(wrong)}" if wrong else None


@index("replicate-to", "v1", "Secret", fields=HEAD)
def targets(secret):
    """The namespaces of the replicas, with wildcards. What is wrong matches none."""
    if secret.type in TOKENS or not matches(secret.namespace, config.sources):
        return []
    return [entry for entry in entries(secret) if ENTRY.fullmatch(entry)]


@index("sources-in", "v1", "Secret", fields=HEAD)
def source_in(secret):
    return secret.namespace if entries(secret) else None


def belongs(source, namespace):
    """Whether a source has a replica in a namespace."""
    return namespace != source.namespace and matches(namespace, targets(source))


def label_of(source):
    """The label of the replicas of NAMESPACE/NAME. A namespace has no dot, so the first one ends it."""
    text = source.replace("/", ".")
    if len(text) <= LABEL_MAX:
        return text
    digest = hashlib.sha256(source.encode()).hexdigest()[:10]
    return f"{text[: LABEL_MAX - 1 - len(digest)]}-{digest}"


@index("replicas-of", "v1", "Secret", fields=HEAD)
def source_of(secret):
    """NAMESPACE/NAME of the source of a replica, or None for a Secret that this plugin has not created."""
    source = secret.annotations.get(REPLICA_OF, "")
    namespace, _, name = source.partition("/")
    if name != secret.name or namespace == secret.namespace or secret.labels.get(REPLICA_OF) != label_of(source):
        return None
    return source


@reconcile(
    "v1",
    "Namespace",
    fields="/metadata/deletionTimestamp",
    when="/metadata/deletionTimestamp",
    watches=related("v1", "Secret", by="namespace", when=[*MARKS, *CONTENT]),
)
def keep(namespace, request):
    """Receives the replicas of a namespace, and sends those of its Secrets."""
    call = Call(request)
    try:
        if namespace is not None and not namespace.metadata.deletionTimestamp:
            call.receive()
        else:
            call.rest_no_more()
        call.send()
    except Full:
        return again(seconds=REST_AFTER)
    return call.delay


class Full(Exception):
    """A call has made as many steps as it may."""


class Call:
    """What one call does for its namespace.

    It writes directly: a deferred write that fails would end those to other namespaces, too.
    """

    def __init__(self, request):
        self.request = request
        self.here = request.name
        self.steps = self.compared = self.left = 0
        # The seconds until the next call, if something is left.
        self.delay = None
        self.now = time.time()
        for key in [key for key, until in resting.items() if until <= self.now]:
            del resting[key]

    def receive(self):
        """Brings the replicas in this namespace to their wanted state."""
        entries = [entry for entry in store.index_values("secrets", "replicate-to") if matches(self.here, [entry])]
        keys = [key for entry in entries for key in store.index_keys("secrets", "replicate-to", entry)]
        for namespace, name in sorted({(key.namespace, key.name) for key in keys}):
            source = store.get("secrets", namespace, name, fields=ALL)
            if source is not None and namespace != self.here:
                self.put(source, self.here)
        for replica in store.list("secrets", namespace=self.here, label_selector=REPLICA_OF, fields=HEAD):
            self.remove_unless_wanted(replica)

    def send(self):
        """Brings the replicas of the Secrets in this namespace to their wanted state."""
        sources = {source.key: source for source in store.by_index("secrets", "sources-in", self.here, fields=ALL)}
        namespaces = active_namespaces() if sources else []
        for source in sources.values():
            self.send_one(source, namespaces)
        for key in store.index_values("secrets", "replicas-of"):
            if key.startswith(f"{self.here}/") and key not in sources:
                self.remove_others(key)
        self.forget_all_but(sources)

    def send_one(self, source, namespaces):
        patterns, version = targets(source), (source.uid, source.metadata.resourceVersion)
        wanted = [namespace for namespace in namespaces if namespace != self.here and matches(namespace, patterns)]
        self.check(source, wanted)
        # A call that failed has sent no Events.
        if sent.get(self.id_of(source.key)) == version and self.request.attempt == 0:
            return
        if self.compared > COMPARED_MAX:
            raise Full
        self.compared += len(wanted)
        left = self.left
        for namespace in wanted:
            self.put(source, namespace)
        self.remove_others(source.key)
        if self.left == left:
            sent[self.id_of(source.key)] = version

    def remove_others(self, key):
        for replica in store.by_index("secrets", "replicas-of", key, fields=HEAD):
            self.remove_unless_wanted(replica)

    def put(self, source, namespace):
        """Makes the replica in a namespace equal to its source."""
        replica = store.get("secrets", namespace, source.name, fields=ALL)
        at = kube.address("v1/secrets", namespace, source.name)
        data = source.data or {}
        if replica is None:
            marks = {"labels": {REPLICA_OF: label_of(source.key)}, "annotations": {REPLICA_OF: source.key}}
            metadata = {"name": source.name, **marks}
            document = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": source.type, "data": data}
            self.write("created", at, source.key, source, partial(kube.now.create, at, document))
        elif source_of(replica) != source.key:
            note = f"{replica.key} exists and is not a replica of this Secret, so it stays as it is"
            self.warn(source, namespace, "ReplicaRefused", note)
        elif replica.metadata.deletionTimestamp:
            # Its end leads to its namespace.
            pass
        elif replica.type != source.type or replica.immutable:
            # Neither can be changed. Its end leads to a new one.
            self.delete(replica, source)
        elif (replica.data or {}) != data:
            metadata = {"uid": replica.uid, "resourceVersion": replica.metadata.resourceVersion}
            document = {"metadata": metadata, "data": {**dict.fromkeys(replica.data or {}), **data}}
            self.write("updated", at, source.key, source, partial(kube.now.patch, at, document))
        else:
            self.forget(source.key, namespace)

    def remove_unless_wanted(self, replica):
        """Deletes a replica whose source is gone, or does not list its namespace."""
        key = source_of(replica)
        if key is None or replica.metadata.deletionTimestamp:
            return
        namespace, _, name = key.partition("/")
        source = store.get("secrets", namespace, name, fields=HEAD)
        if source is not None and belongs(source, replica.namespace):
            return
        if self.request.cache_is_behind:
            self.left += 1
            self.wait(BEHIND_RETRY)
        elif source is not None or self.sees(namespace):
            self.delete(replica, source)

    def sees(self, namespace):
        """Whether the informer reads all Secrets of a namespace: one that is not in the cache is gone then."""
        sources = (source for source in store.sources("secrets") if source.cluster == self.request.cluster)
        return any(not source.partial and source.namespace in (None, namespace) for source in sources)

    def delete(self, replica, source):
        at, version = kube.address("v1/secrets", replica.namespace, replica.name), replica.metadata.resourceVersion
        request = partial(kube.now.delete, at, uid=replica.uid, resource_version=version)
        self.write("deleted", at, source_of(replica), source, request)

    def write(self, done, at, of, source, request):
        """Makes a write to a replica of the source `of`; `source` is that, if it exists."""
        pair = (self.request.cluster, of, at.namespace)
        if pair in resting:
            self.left += 1
            self.wait(resting[pair] - self.now)
            return
        self.step()
        try:
            request()
        except KubeError as error:
            self.left += 1
            if error.code in ("conflict", "already-exists"):
                self.wait(BEHIND_RETRY)
            elif error.code in REFUSED:
                resting[pair] = self.now + REFUSED_RETRY
                self.wait(REFUSED_RETRY)
                why = "allow.kube does not grant it" if error.code == "denied" else error
                note = f"{at.namespace}/{at.name} cannot be {done}: {why}"
                if source is None:
                    log.warning("%s: %s", of, note)
                else:
                    self.warn(source, at.namespace, "ReplicaFailed", note)
            elif error.code != "not-found":
                # The next attempt begins with the others.
                resting[pair] = self.now + FAILED_RETRY
                raise
            return
        log.info("%s/%s: %s as a replica of %s", at.namespace, at.name, done, of)
        self.forget(of, at.namespace)

    def rest_no_more(self):
        """Forgets what this namespace has refused, for example because it ends: it may be created again."""
        for pair in [pair for pair in resting if pair[0] == self.request.cluster and pair[2] == self.here]:
            del resting[pair]

    def check(self, source, wanted):
        """Warns of an annotation that is wrong, and forgets the warnings about namespaces that it does not list."""
        for about in [about for about in memory.warned.get(self.id_of(source.key), {}) if about not in wanted]:
            if about:
                self.forget(source.key, about)
        wrong = problem(source)
        if wrong is None:
            self.forget(source.key, "")
        else:
            self.warn(source, "", "NotReplicated", wrong)

    def warn(self, source, about, reason, note):
        """Records an Event about a source, unless the last one about this namespace was the same."""
        warned = memory.warned.setdefault(self.id_of(source.key), {})
        # The Events of a call that fails are not sent.
        if warned.get(about) == note and self.request.attempt == 0:
            return
        self.step()
        warned[about] = note
        log.warning("%s: %s", source.key, note)
        recorder.warning(source, reason, note)

    def forget(self, key, about):
        memory.warned.get(self.id_of(key), {}).pop(about, None)

    def forget_all_but(self, sources):
        kept = {self.id_of(key) for key in sources}
        for known in (memory.warned, sent):
            for key in [key for key in known if key.startswith(self.id_of(f"{self.here}/")) and key not in kept]:
                del known[key]

    def id_of(self, key):
        return f"{self.request.cluster}/{key}"

    def step(self):
        if self.steps == STEPS_MAX:
            raise Full
        self.steps += 1

    def wait(self, seconds):
        self.delay = seconds if self.delay is None else min(self.delay, seconds)


def active_namespaces():
    fields = ["/metadata/name", "/metadata/deletionTimestamp"]
    namespaces = store.list("namespaces", fields=fields)
    return [namespace.name for namespace in namespaces if not namespace.metadata.deletionTimestamp]
