// The replicas, and which of them acts.

import { Fragment, h } from "preact";
import { useCell } from "./cell";
import { replicas } from "./feeds";
import { ago, count, duration, NONE } from "./format";
import { List, type Field } from "./list";
import { Facts, Panel } from "./parts";
import { Pill, standingTone } from "./state";
import { code, foreign, multiline } from "./text";
import type { Replica, Replicas as Data } from "./types";
import { Page } from "./view";

function yes(value: boolean, text: string) {
  return <Pill tone={value ? "ok" : "bad"} text={value ? text : `not ${text}`} />;
}

const MEMBERS: Field<Replica>[] = [
  [
    "Replica",
    (item) => (
      <>
        {foreign(item.name)}
        {item.isThis && <span class="tag">this replica</span>}
      </>
    ),
    "name",
  ],
  ["Role", (item) => <Pill tone={item.acts ? "ok" : "idle"} text={item.acts ? "acting" : "standby"} />],
  ["Live", (item) => yes(item.live, "live")],
  ["Ready", (item) => yes(item.ready, "ready")],
  ["Version", (item) => foreign(item.version ?? NONE)],
  [
    "Configuration",
    (item) => (
      <>
        {item.configuration === null ? NONE : code(item.configuration)}{" "}
        {item.differs && <Pill tone="warn" text="differs" />}
      </>
    ),
  ],
  ["Address", (item) => foreign(item.address ?? NONE)],
  ["Last seen", (item) => ago(item.seenMs)],
];

export function Replicas() {
  const data = useCell(replicas);
  return (
    <Page title="Replicas" topic="replicas" done={data !== null}>
      {data && (
        <>
          <Election data={data.value} received={data.received} />
          <Panel title="Members" aside={<span class="muted">{count(data.value.items.length)}</span>}>
            <List label="Members" items={data.value.items} fields={MEMBERS} empty="No replica has joined." />
          </Panel>
        </>
      )}
    </Page>
  );
}

function Election({ data, received }: { data: Data; received: number }) {
  const since = data.sinceMs === null ? null : data.sinceMs + Date.now() - received;
  return (
    <Panel title="Leader election">
      <Facts
        items={[
          ["This replica", <Pill tone={standingTone(data.standing)} text={data.standing} />],
          ["Since", since === null ? NONE : duration(Math.floor(since / 1000) * 1000)],
          data.reason === null ? null : ["Reason", multiline(data.reason)],
          ["Lease", data.lease === null ? "none" : code(data.lease)],
          ["Holder", data.holder === null ? "none" : foreign(data.holder)],
          ["Transitions", count(data.transitions)],
        ]}
      />
    </Panel>
  );
}
