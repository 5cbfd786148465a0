// What a plugin has not handled: events that wait for a retry, and dead letters that wait for a requeue.

import { Fragment, h } from "preact";
import { useState } from "preact/hooks";
import { Action, OutcomeLine, type Outcome } from "./action";
import { path, type Loaded } from "./api";
import { ago, count, duration, plural } from "./format";
import { List, type Field } from "./list";
import { ObjectName, Panel, Unavailable } from "./parts";
import { foreign, multiline } from "./text";
import type { DeadLetter, Retry } from "./types";

function keyOf(item: DeadLetter): string {
  return item.namespace ? `${item.namespace}/${item.name}` : (item.name ?? "");
}

function rowKey(item: DeadLetter): string {
  return [item.cluster, item.resource, keyOf(item), item.event].join(" ");
}

const OBJECT: Field<DeadLetter> = [
  "Object",
  ({ cluster, resource, namespace, name }) =>
    name && resource ? (
      <ObjectName object={{ cluster: cluster ?? "", resource, namespace: namespace ?? "", name }} />
    ) : (
      "none"
    ),
  "name",
];
const FAILURE: Field<DeadLetter> = [
  "Last failure",
  (item) => (
    <>
      <code>{foreign(item.result)}</code> {multiline(item.error)}
    </>
  ),
];
const EVENT: Field<DeadLetter> = [
  "Event",
  (item) => (
    <>
      {foreign(item.event)} <span class="muted">{foreign(item.reason)}</span>
    </>
  ),
];

function when(nextMs: number | null): string {
  return nextMs == null ? "not scheduled" : nextMs <= 0 ? "now" : `in ${duration(nextMs)}`;
}

const RETRIES: Field<Retry>[] = [
  OBJECT,
  EVENT,
  ["Next attempt", (item) => `Attempt ${item.attempts + 1} ${when(item.nextMs)}`],
  FAILURE,
  ["Failing for", (item) => duration(item.ageMs), "number"],
];

interface RetriesProps {
  plugin: string;
  retries: Loaded<{ total: number; items: Retry[] }>;
}

export function Retries({ plugin, retries: { data, error } }: RetriesProps) {
  const total = data?.total ?? 0;
  const listed = data?.items.length ?? 0;
  return (
    <Panel
      title="Retries"
      aside={<span class="muted">{total > listed ? `${count(listed)} of ${count(total)}` : count(total)}</span>}
    >
      <Unavailable message={error} />
      {total > 0 && (
        <p class="muted note">Calls {foreign(plugin)} again for each, with the object as cached at that time.</p>
      )}
      {data && (
        <List label="Retries" items={data.items} fields={RETRIES} keyOf={rowKey} empty="No event waits for a retry." />
      )}
    </Panel>
  );
}

interface DeadLettersProps {
  plugin: string;
  letters: Loaded<{ items: DeadLetter[] }>;
}

export function DeadLetters({ plugin, letters: { data, error, reload } }: DeadLettersProps) {
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const total = data?.items.length ?? 0;
  const url = path(["plugins", plugin, "requeue"]);
  const finished = (result: Outcome) => {
    setOutcome(result);
    // The call has to end first.
    setTimeout(reload, 1_000);
  };
  const fields: Field<DeadLetter>[] = [
    OBJECT,
    EVENT,
    ["Attempts", (item) => count(item.attempts), "number"],
    FAILURE,
    ["Age", (item) => ago(item.ageMs), "number"],
    [
      "Action",
      // Without a key, the request would be for all.
      (item) => item.name && item.resource && (
        <Action
          label="Requeue"
          name={`Requeue ${keyOf(item)}`}
          question="Call again now?"
          url={url}
          body={{ key: keyOf(item), resource: item.resource, cluster: item.cluster || undefined }}
          done={`${keyOf(item)} requeued: it is called again now, and listed here if it fails.`}
          onOutcome={finished}
        />
      ),
    ],
  ];
  return (
    <Panel
      title="Dead letters"
      aside={
        total > 0 ? (
          <Action
            label="Requeue all"
            question={`Call again for ${plural(total, "dead letter")} now?`}
            url={url}
            done={`${plural(total, "dead letter")} requeued.`}
            onOutcome={finished}
          />
        ) : (
          <span class="muted">0</span>
        )
      }
    >
      <OutcomeLine outcome={outcome} />
      <Unavailable message={error} />
      {total > 0 && (
        <p class="muted note">
          No further attempt is scheduled. Requeue calls {foreign(plugin)} again, with the object as cached at that
          time.
        </p>
      )}
      {data && <List label="Dead letters" items={data.items} fields={fields} keyOf={rowKey} empty="No dead letters." />}
    </Panel>
  );
}
