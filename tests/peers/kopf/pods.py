"""A subject of the benchmark, with Kopf: handlers that read some fields of each pod.

`tests/src/bench/subject.rs` describes the output. HANDLERS: the number of handlers, whose calls are counted together.
TUNED: with the settings that make Kopf cheapest.
"""

import asyncio
import json
import logging
import os
import time

import kopf

HANDLERS = int(os.environ["HANDLERS"])
TUNED = "TUNED" in os.environ
# The annotation with the time at which a pod was written, in microseconds since 1970.
WRITTEN = "bench/written-us"
LAGS_IN_A_LINE = 1000
PRINTED_EVERY = 0.01

counts = {"adds": 0, "updates": 0}
seen = {"restarts": 0, "running": 0, "nodes": 0}
lags = []


@kopf.on.login()
def login(**kwargs):
    return kopf.login_with_kubeconfig(**kwargs)


@kopf.on.startup()
async def start(settings, memo, **_):
    memo.printing = asyncio.create_task(print_counts())
    if TUNED:
        settings.posting.enabled = False
        settings.scanning.disabled = True
        # It logs two lines for each call otherwise.
        logging.disable(logging.INFO)


def read(kind, pod):
    counts["updates" if kind == "MODIFIED" else "adds"] += kind != "DELETED"
    status = pod.get("status", {})
    seen["restarts"] += sum(each["restartCount"] for each in status.get("containerStatuses", []))
    seen["running"] += status.get("phase") == "Running"
    seen["nodes"] += len(pod.get("spec", {}).get("nodeName", ""))
    written = pod["metadata"].get("annotations", {}).get(WRITTEN)
    if written is not None:
        note(time.time_ns() // 1000 - int(written))


def note(lag):
    lags.append(lag)
    if len(lags) == LAGS_IN_A_LINE:
        lags.sort()
        at = [lags[(LAGS_IN_A_LINE - 1) * share // 100] for share in (50, 99, 100)]
        lags.clear()
        show({"lags": LAGS_IN_A_LINE, "p50_us": at[0], "p99_us": at[1], "max_us": at[2]})


def show(line):
    print(json.dumps(line), flush=True)


async def print_counts():
    printed = None
    while True:
        await asyncio.sleep(PRINTED_EVERY)
        if counts != printed:
            printed = dict(counts)
            show(printed)


def register(number):
    @kopf.on.event("v1", "pods", id=f"handler-{number}")
    async def handle(type, body, event, **_):
        # The views of kwargs cost more than the object that they show.
        read(type, event["object"] if TUNED else body)


for number in range(HANDLERS):
    register(number)
