#!/bin/sh
# A hook of shell-operator that reads some fields of each pod, for the benchmark. The benchmark copies it once per
# handler. BINDING: the file with its configuration, in which QUEUE is the name of the copy. CALLS: the file to which
# it appends a line for each run: how many events there were, and the time from the write of each pod to this run.
if [ "$1" = "--config" ]; then
  exec sed "s/QUEUE/$(basename "$0" .sh)/" "$BINDING"
fi
exec jq -c '
  def fields: if .filterResult then .filterResult else .object | {
    written: .metadata.annotations["bench/written-us"], node: .spec.nodeName, phase: .status.phase,
    restarts: [.status.containerStatuses[]?.restartCount]
  } end;
  (now * 1000000 | floor) as $now
  | {
      adds: ([.[] | select(.type == "Synchronization") | .objects | length] | add // 0),
      updates: ([.[] | select(.type == "Event" and .watchEvent == "Modified")] | length),
      restarts: ([.[] | select(.type == "Event") | fields.restarts[]] | add // 0),
      lags_us: [.[] | select(.type == "Event") | fields.written // empty | $now - tonumber]
    }' "$BINDING_CONTEXT_PATH" >>"$CALLS"
