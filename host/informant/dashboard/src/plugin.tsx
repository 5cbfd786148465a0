// Everything about one plugin.

import { Fragment, h } from "preact";
import { useState } from "preact/hooks";
import { Action, OutcomeLine, type Outcome } from "./action";
import { path, useLoaded } from "./api";
import { useCell } from "./cell";
import { plugins } from "./feeds";
import { Effects, Log } from "./live";
import { Explain, Notice, Unavailable } from "./parts";
import { Cost, DryRunEffects, Progress, Reloads, Timers, Version } from "./plugin_facts";
import { Pill, pluginTone, type Tone } from "./state";
import { foreign, multiline, shown } from "./text";
import type { DeadLetter, DryRun, Plugin as Data, Retry } from "./types";
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
                <Pill tone={pluginTone(now)} text={now.state} />
                {now.dryRun && <span class="tag">dry run</span>}
                {now.paused && now.state !== "paused" && <span class="tag">paused</span>}
                <Actions name={name} paused={now.paused} reload={plugin.reload} />
              </div>
              <Problems data={data} tone={pluginTone(now)} />
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
          <Retries plugin={name} retries={retries} />
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

function Problems({ data, tone }: { data: Data; tone: Tone }) {
  const texts = [data.because, ...data.problems].filter(Boolean);
  if (texts.length === 0) return null;
  // A state that is bad has its reason first; the others are not worse than the state.
  const other = tone === "ok" ? "idle" : tone === "bad" ? "warn" : tone;
  return (
    <div class="stack">
      {texts.map((text, index) => (
        <Notice key={index} tone={tone === "bad" && index === 0 ? tone : other}>
          {multiline(text)} {index === 0 && <Explain code={data.code} />}
        </Notice>
      ))}
    </div>
  );
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
        {/* Without keys, the button that pauses becomes the one that resumes, and keeps the focus. */}
        {choices.map(([verb, done, effect]) => (
          <Action
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
