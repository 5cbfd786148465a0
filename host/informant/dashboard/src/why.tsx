// An effect and its cause as a path: event, plugin, write, result. It is an ordered list; the arrows are decoration.

import { Fragment, h, type ComponentChildren } from "preact";
import { Pure } from "./cell";
import { NONE, Time } from "./format";
import { ObjectName, objectText, PluginName } from "./parts";
import { Pill, resultTone } from "./state";
import { code, foreign, multiline } from "./text";
import type { Cause, ObjectRef, Why } from "./types";

/** Small print, with dots between the parts that there are. */
function Details({ parts }: { parts: ComponentChildren[] }) {
  return <span class="small muted">{parts.filter(Boolean).map((part, index) => [index > 0 && " · ", part])}</span>;
}

function version(object: ObjectRef | null) {
  return object?.resourceVersion && ["resource version ", foreign(object.resourceVersion)];
}

function EventBox({ cause }: { cause: Cause | null }) {
  if (cause === null) {
    return (
      <>
        <span class="step">Event</span>
        <span class="muted">The cause was not recorded.</span>
      </>
    );
  }
  return (
    <>
      <span class="step">Event · {foreign(cause.event)}</span>
      {cause.hidden ? (
        <span class="muted">The object is hidden: you have no right to read it.</span>
      ) : cause.object ? (
        <ObjectName object={cause.object} />
      ) : (
        cause.timer && <span>timer {foreign(cause.timer)}</span>
      )}
      <Details
        parts={[
          foreign(cause.reason),
          version(cause.object),
          cause.related && (
            <>
              because of {foreign(cause.relatedEvent ?? "a change")} of <ObjectName object={cause.related} />
            </>
          ),
        ]}
      />
    </>
  );
}

function target(why: Why) {
  if (why.object === null) return foreign(why.url ?? NONE);
  return (
    <>
      {why.object.name ? <ObjectName object={why.object} /> : foreign(objectText(why.object))}
      {why.subresource && [" (", foreign(why.subresource), ")"]}
    </>
  );
}

export class WhyPath extends Pure<{ why: Why }> {
  render() {
    const { why } = this.props;
    const { cause } = why;
    return (
      <li class="why">
        <p class="small muted when">
          <Time at={why.time} />
        </p>
        <ol class="path">
          <li>
            <EventBox cause={cause} />
          </li>
          <li>
            <span class="step">Plugin{cause && cause.attempt > 0 ? ` · attempt ${cause.attempt + 1}` : ""}</span>
            <span>
              <PluginName name={why.plugin} />
              {cause?.version && ["@", foreign(cause.version)]}
            </span>
            <Details parts={[cause?.sha256 && code(cause.sha256.slice(0, 12))]} />
          </li>
          <li>
            <span class="step">
              {why.kind === "kube" ? "Write" : why.kind === "http" ? "HTTP request" : "Kubernetes event"} ·{" "}
              {foreign(why.verb)}
            </span>
            <span>{target(why)}</span>
            <Details
              parts={[["grant ", foreign(why.grant)], why.identity !== null && ["as ", foreign(why.identity)]]}
            />
          </li>
          <li>
            <span class="step">Result</span>
            <Pill tone={resultTone(why.result)} text={why.result} />
            <Details parts={[version(why.object)]} />
            {why.error && <span class="small error">{multiline(why.error)}</span>}
          </li>
        </ol>
      </li>
    );
  }
}
