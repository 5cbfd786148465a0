// One object: what the cache holds, its index values, the calls it caused, and why it was written.

import { Fragment, h } from "preact";
import { useMemo, useState } from "preact/hooks";
import { path, useLoaded, type Loaded } from "./api";
import { useGrowing } from "./cell";
import { plural, Time } from "./format";
import { ObjectForm } from "./object_form";
import { List, type Field } from "./list";
import { Empty, objectText, Panel, PluginName, Scroll, Unavailable } from "./parts";
import type { ObjectKey } from "./router";
import { Pill, resultTone } from "./state";
import { code, foreign, indented, multiline, shown } from "./text";
import type { Call, IndexValues, WhyList } from "./types";
import { Waiting } from "./view";
import { WhyPath } from "./why";

const REFRESH_MS = 5_000;
const JSON_LINES = 1_000;
const asText = (text: string) => text;

export function ObjectPage({ object }: { object: ObjectKey | null }) {
  return (
    <>
      <h1 tabIndex={-1}>{object ? foreign(objectText(object)) : "Object"}</h1>
      <ObjectForm key={JSON.stringify(object)} start={object} />
      {object ? (
        <Details key={JSON.stringify(object)} object={object} />
      ) : (
        <Empty>Enter an object to see its cached state, its calls, and why it was written.</Empty>
      )}
    </>
  );
}

function Details({ object }: { object: ObjectKey }) {
  const { name, namespace, cluster } = object;
  const query = { name, namespace: namespace || undefined, cluster: cluster || undefined };
  const cached = useLoaded(path(["get", object.resource], query), REFRESH_MS, asText);
  const calls = useLoaded<{ items: Call[] }>(path(["calls", object.resource], query), REFRESH_MS);
  const indexes = useLoaded<{ items: IndexValues[] }>(path(["indexes", object.resource], query), REFRESH_MS);
  const why = useLoaded<WhyList>(path(["why", object.resource], query), REFRESH_MS);
  return (
    <Waiting done={cached.settled && calls.settled && indexes.settled && why.settled}>
      <Effects why={why} />
      <Calls calls={calls} />
      <Indexes indexes={indexes} />
      <Cached cached={cached} />
    </Waiting>
  );
}

function Effects({ why }: { why: Loaded<WhyList> }) {
  const { data } = why;
  const newestFirst = data?.items.toReversed() ?? [];
  const drawn = useGrowing(newestFirst.length, 6);
  return (
    <Panel
      title="Why it was written"
      aside={data ? <span class="muted">{plural(data.items.length, "effect")}, newest first</span> : undefined}
    >
      <Unavailable message={why.error} />
      {data && (
        <>
          {(data.replica || data.dropped > 0 || data.more) && (
            <p class="muted note">
              {data.replica && <>Effects that replica {foreign(data.replica)} recorded. </>}
              {data.others && data.others.length > 0 && (
                <>Other replicas keep their own list: {foreign(data.others.map((other) => other.name).join(", "))}. </>
              )}
              {data.dropped > 0 && `${plural(data.dropped, "older effect")} dropped. `}
              {data.more && "The server has more effects than are shown."}
            </p>
          )}
          {newestFirst.length === 0 ? (
            <Empty>No plugin wrote this object as far as the records reach.</Empty>
          ) : (
            <Scroll label="Effects on this object" class="tall">
              <ul class="whys">
                {newestFirst.slice(0, drawn).map((item, index) => (
                  <WhyPath key={newestFirst.length - index} why={item} />
                ))}
              </ul>
            </Scroll>
          )}
        </>
      )}
    </Panel>
  );
}

const CALLS: Field<Call>[] = [
  ["Time", (call) => <Time at={call.time} />],
  [
    "Plugin",
    (call) => (
      <>
        <PluginName name={call.plugin} />
        {call.version && <span class="muted">@{foreign(call.version)}</span>}
      </>
    ),
    "name",
  ],
  [
    "Event",
    (call) => (
      <>
        {foreign(call.event)} <span class="muted">{foreign(call.reason)}</span>
      </>
    ),
  ],
  ["Attempt", (call) => call.attempt + 1, "number"],
  [
    "Outcome",
    (call) => (
      <>
        <Pill tone={resultTone(call.outcome)} text={call.outcome} />
        {call.error && <div class="error">{multiline(call.error)}</div>}
      </>
    ),
  ],
  ["Effects", (call) => call.effects, "number"],
];

function Calls({ calls: { data, error } }: { calls: Loaded<{ items: Call[] }> }) {
  const items = data?.items.toReversed() ?? [];
  return (
    <Panel title="Calls for this object" aside={<span class="muted">failed, or with effects; newest first</span>}>
      <Unavailable message={error} />
      {data && <List label="Calls" items={items} fields={CALLS} empty="No call failed or had effects." />}
    </Panel>
  );
}

const INDEXES: Field<IndexValues>[] = [
  ["Index", (item) => foreign(item.index), "name"],
  ["Informer", (item) => foreign(item.informer)],
  [
    "Values",
    ({ error, values }) =>
      error ? (
        <span class="error">{multiline(error)}</span>
      ) : values === null ? (
        <span class="muted">not ready</span>
      ) : values.length === 0 ? (
        <span class="muted">none</span>
      ) : (
        <ul class="values">
          {values.map((value) => (
            <li key={value}>{code(value)}</li>
          ))}
        </ul>
      ),
  ],
];

function Indexes({ indexes: { data, error } }: { indexes: Loaded<{ items: IndexValues[] }> }) {
  return (
    <Panel title="Index values">
      <Unavailable message={error} />
      {data && (
        <List
          label="Index values"
          items={data.items}
          fields={INDEXES}
          keyOf={(item) => `${item.informer} ${item.index}`}
          empty="No index covers this resource."
        />
      )}
    </Panel>
  );
}

function Cached({ cached }: { cached: Loaded<string> }) {
  const lines = useMemo(() => shown(indented((cached.data ?? "").trim()), true).split("\n"), [cached.data]);
  const [all, setAll] = useState(false);
  const rest = all ? 0 : lines.length - JSON_LINES;
  return (
    <Panel
      title="Cached object"
      aside={cached.data ? <span class="muted">{plural(lines.length, "line")}</span> : undefined}
    >
      {cached.status === 404 ? (
        <Empty>The object is not in the cache: {shown(cached.error)}</Empty>
      ) : (
        <Unavailable message={cached.error} />
      )}
      {cached.data && (
        <Scroll label="Cached object as JSON" class="tall">
          <pre class="json">{(rest > 0 ? lines.slice(0, JSON_LINES) : lines).join("\n")}</pre>
        </Scroll>
      )}
      {cached.data && rest > 0 && (
        <button type="button" class="more" onClick={() => setAll(true)}>
          Show {plural(rest, "more line")}
        </button>
      )}
    </Panel>
  );
}
