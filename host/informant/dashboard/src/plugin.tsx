// Everything about one plugin.

import { Fragment, h } from "preact";
import { useState } from "preact/hooks";
import { Action, OutcomeLine, type Outcome } from "./action";
import { path, useLoaded } from "./api";
import { useCell } from "./cell";
import { plugins } from "./feeds";
import { duration } from "./format";
import { Effects, Log } from "./live";
import { Explain, Notice, Unavailable } from "./parts";
import { Cost, DryRunEffects, Progress, Reloads, Timers, Version } from "./plugin_facts";
import { Pill, pluginTone } from "./state";
import { foreign, multiline, shown } from "./text";
import type { DeadLetter, DryRun, Plugin as Data, PluginRow, Retry } from "./types";
import { DeadLetters, Retries } from "./undelivered";
import { Gradually, useRefused, Waiting } from "./view";

const REFRESH_MS = 5_000;

export function Plugin({ name }: { name: string }) {
  const feed = useCell(plugins);
  const row = feed.rows.get(name);
  const refusedRows = useRefused("plugins");
  const plugin = useLoaded<Data>(path(["plugins", name]), REFRESH_MS);
  const retries = useLoaded<{ total: number; items: Retry[] }>(path(["retries"], { plugin: name }), REFRESH_MS);
  const letters = useLoaded<{ items: DeadLetter[] }>(path(["dead-letters"], { plugin: name }), REFRESH_MS);
  const dry = useLoaded<DryRun>(plugin.data?.dryRun ? path(["plugins", name, "effects"]) : null, REFRESH_MS);
  const { data } = plugin;
  // The stream is ahead of the loaded data, so the state comes from it where it has the plugin.
  const now = row ?? data;
  // One first drawing with all parts, so that nothing moves when the last answer comes.
  const ready = plugin.settled && retries.settled && letters.settled;
  return (
    <>
      <p class="back">
        <a href="#/plugins">Plugins</a>
      </p>
      <h1 tabIndex={-1}>{foreign(name)}</h1>
      <Waiting done={ready}>
        <Gradually>
          <Unavailable message={plugin.error} />
          {data && now && (
            <>
              <div class="status">
                <Pill tone={pluginTone(now.state)} text={now.state} />
                {now.dryRun && <span class="tag">dry run</span>}
                {now.paused && now.state !== "paused" && <span class="tag">paused</span>}
                <Actions name={name} paused={now.paused} reload={plugin.reload} />
              </div>
              <Reasons data={data} now={now} />
              {/* One that is not loaded has nothing of this. */}
              {data.timers && (
                <div class="columns">
                  <Progress data={data} row={row} />
                  <Cost data={data} row={row} />
                  <Version data={data} />
                </div>
              )}
            </>
          )}
          <DeadLetters plugin={name} letters={letters} />
          <Retries retries={retries} />
          {data?.timers?.length ? <Timers timers={data.timers} /> : null}
          {data?.dryRun && <DryRunEffects effects={dry} />}
          <Log name={name} />
          <Effects name={name} />
          {data?.reloadHistory && <Reloads reloads={data.reloadHistory} />}
          {refusedRows}
        </Gradually>
      </Waiting>
    </>
  );
}

function stuckText({ event, resource, object, forMs }: NonNullable<Data["stuckOn"]>): string {
  return `A call has been running for ${duration(forMs)}: ${event} of ${resource} ${object}`;
}

function Reasons({ data, now }: { data: Data; now: Data | PluginRow }) {
  const tone = pluginTone(now.state);
  const parts = [
    (now.because != null || now.code != null) && (
      <Notice key="because" tone={tone}>
        {multiline(now.because ?? now.state)} <Explain code={now.code} />
      </Notice>
    ),
    data.stuckOn && (
      <Notice key="stuck" tone="warn">
        {foreign(stuckText(data.stuckOn))}
      </Notice>
    ),
    data.compiling != null && (
      <Notice key="compiling" tone="busy">
        Compiling: {foreign(data.compiling)}
      </Notice>
    ),
  ].filter(Boolean);
  return parts.length > 0 ? <div class="stack">{parts}</div> : null;
}

function Actions({ name, paused, reload }: { name: string; paused: boolean; reload: () => void }) {
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const safe = shown(name);
  const choices: [verb: string, done: string, effect: string][] = [
    paused ? ["Resume", "resumed", "It receives the pending events."] : ["Pause", "paused", "Its events stay pending."],
    ["Restart", "restarted", "It starts with empty memory."],
  ];
  return (
    <>
      <div class="actions">
        {choices.map(([verb, done, effect]) => (
          <Action
            key={verb}
            label={verb}
            question={`${verb} ${safe}? ${effect}`}
            url={path(["plugins", name, verb.toLowerCase()])}
            done={`${safe} ${done}.`}
            onOutcome={(result) => {
              setOutcome(result);
              reload();
            }}
          />
        ))}
      </div>
      <OutcomeLine outcome={outcome} />
    </>
  );
}
