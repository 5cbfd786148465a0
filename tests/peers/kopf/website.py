"""The work of `plugins/website`, with Kopf: a Deployment, a Service and an Ingress for each Website, a finalizer, and a
status that follows the Deployment.

What it writes itself goes over one HTTP session, which is the cheapest way: no other client is in the process.
"""

import json
import logging
import os

import aiohttp
import kopf

API = os.environ["API_SERVER"]
MANAGER = "fieldManager=website&force=true"
GROUP, VERSION, PLURAL = "example.com", "v1", "websites"

session: aiohttp.ClientSession


@kopf.on.login()
def login(**kwargs):
    return kopf.login_with_kubeconfig(**kwargs)


@kopf.on.startup()
async def start(settings, **_):
    global session
    session = aiohttp.ClientSession()
    settings.posting.enabled = False
    settings.persistence.finalizer = "example.com/website"


@kopf.on.cleanup()
async def stop(**_):
    await session.close()


@kopf.on.resume(GROUP, VERSION, PLURAL)
@kopf.on.create(GROUP, VERSION, PLURAL)
@kopf.on.update(GROUP, VERSION, PLURAL, field="spec")
async def ensure(body, patch, **_):
    for path, child in children(body):
        await apply(path, child)
    if "conditions" not in body.get("status", {}):
        patch.status["conditions"] = [condition(0, body["spec"].get("replicas", 1))]


@kopf.on.delete(GROUP, VERSION, PLURAL)
async def clean(**_):
    """The finalizer is removed; the API server deletes the children."""


@kopf.on.event("apps", "v1", "deployments", labels={"site": kopf.PRESENT})
async def follow(body, namespace, labels, **_):
    ready, wanted = body.get("status", {}).get("readyReplicas", 0), body["spec"].get("replicas", 1)
    if ready:
        status = {"status": {"conditions": [condition(ready, wanted)]}}
        url = f"{API}/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}/{labels['site']}/status"
        headers = {"content-type": "application/merge-patch+json"}
        async with session.patch(url, data=json.dumps(status), headers=headers) as answer:
            answer.raise_for_status()


def condition(ready, wanted):
    state = "True" if ready >= wanted else "False"
    return {
        "type": "Ready",
        "status": state,
        "reason": "Available" if state == "True" else "Deploying",
        "message": f"{ready} of {wanted} replicas are ready",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


async def apply(path, child):
    headers = {"content-type": "application/apply-patch+yaml"}
    async with session.patch(f"{API}{path}?{MANAGER}", data=json.dumps(child), headers=headers) as answer:
        answer.raise_for_status()


def children(site):
    """The paths and documents of the objects that belong to a Website."""
    name, namespace = site["metadata"]["name"], site["metadata"]["namespace"]
    labels = {"site": name}
    owner = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Website",
        "name": name,
        "uid": site["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [owner]}
    spec, port = site["spec"], {"name": "http", "port": 80}
    container = {"name": "web", "image": spec["image"], "ports": [{"name": "http", "containerPort": 80}]}
    backend = {"service": {"name": name, "port": {"name": "http"}}}
    rule = {"host": spec["host"], "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    for group, kind, plural, child in [
        (
            "apis/apps/v1",
            "Deployment",
            "deployments",
            {
                "replicas": spec.get("replicas", 1),
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        ),
        ("api/v1", "Service", "services", {"selector": labels, "ports": [port]}),
        ("apis/networking.k8s.io/v1", "Ingress", "ingresses", {"rules": [rule]}),
    ]:
        version = group.removeprefix("apis/").removeprefix("api/")
        document = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": child}
        yield f"/{group}/namespaces/{namespace}/{plural}/{name}", document


logging.getLogger("kopf").setLevel(logging.WARNING)
