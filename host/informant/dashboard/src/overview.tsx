// The first page: health and problems, then numbers, then charts of the last hour.

import { Fragment, h } from "preact";
import { useCell } from "./cell";
import { Chart } from "./chart";
import { history, overview } from "./feeds";
import { bytes, cores, count, duration, plural, rate, Time } from "./format";
import { Empty, Explain, Facts, Meter, Panel, PluginName, useLimit } from "./parts";
import { sourceLink } from "./router";
import { Pill, Symbol, type Tone } from "./state";
import { code, foreign, multiline } from "./text";
import type { Overview as Data, Problem } from "./types";
import { Page } from "./view";

const CONFIGURATION_TONES: Record<string, Tone> = { applied: "ok", partial: "warn", refused: "bad", unreadable: "bad" };

export function Overview() {
  const data = useCell(overview);
  return (
    <Page title="Overview" topic="overview" done={data !== null}>
      {data && (
        <>
          <Health data={data} />
          <Numbers data={data} />
          <Charts data={data} />
        </>
      )}
    </Page>
  );
}

function headline(data: Data): [Tone, string] {
  const problems = data.problems.length;
  if (!data.ready) return ["bad", "Not ready"];
  if (problems > 0) return ["warn", `Ready, with ${plural(problems, "problem")}`];
  return data.configuration.state === "applied"
    ? ["ok", "Healthy"]
    : ["warn", "Ready, configuration not fully applied"];
}

function problemOf(text: string, code: string | null = null): Problem {
  return { text, code, plugin: null, source: null };
}

function Health({ data }: { data: Data }) {
  const [tone, title] = headline(data);
  const { configuration } = data;
  const { problem, code: runbook } = configuration;
  // The server can list the configuration's problem among the others too.
  const listed = problem === null || data.problems.some(({ code }) => code === runbook);
  const all = [
    ...data.notReady.map((text) => problemOf(`not ready: ${text}`)),
    ...(listed ? [] : [problemOf(`configuration: ${problem}`, runbook)]),
    ...data.problems,
  ];
  const [problems, more] = useLimit(all, 8);
  return (
    <section class={`panel health ${tone}`} aria-labelledby="health">
      <div class="headline">
        <Symbol tone={tone} />
        <h2 id="health">{title}</h2>
      </div>
      <Facts
        items={[
          data.pod ? ["Pod", foreign(data.pod)] : null,
          ["Version", foreign(data.version)],
          [
            "Configuration",
            <Pill tone={CONFIGURATION_TONES[configuration.state] ?? "warn"} text={configuration.state} />,
          ],
          ["File", code(configuration.path)],
          ["As of", <Time at={data.time} />],
        ]}
      />
      {problems.length > 0 ? (
        <ul class="problems" aria-label="Problems">
          {problems.map((problem, index) => (
            <ProblemLine key={`${index} ${problem.text}`} problem={problem} />
          ))}
        </ul>
      ) : (
        <Empty>No known problems.</Empty>
      )}
      {more}
    </section>
  );
}

function ProblemLine({ problem }: { problem: Problem }) {
  return (
    <li>
      <Symbol tone="warn" />
      <p>{multiline(problem.text)}</p>
      <span class="links">
        {problem.plugin !== null && (
          <span>
            Plugin <PluginName name={problem.plugin} />
          </span>
        )}
        {problem.source !== null && <a href={sourceLink(problem.source)}>Source #{problem.source}</a>}
        <Explain code={problem.code} />
      </span>
    </li>
  );
}

interface TileProps {
  label: string;
  value: string;
  note: string;
  href?: string;
  tone?: Tone;
  meter?: { value: number; max: number | null };
}

function Tile({ label, value, note, href, tone, meter }: TileProps) {
  return (
    <li class="tile">
      <span class="label">{href ? <a href={href}>{label}</a> : label}</span>
      <strong>{value}</strong>
      <span class={`note ${tone ?? ""}`}>
        {tone && <Symbol tone={tone} />}
        {note}
      </span>
      {meter && <Meter label={label} value={meter.value} max={meter.max} text={`${value} ${note}`} />}
    </li>
  );
}

function Numbers({ data: { counts, memory } }: { data: Data }) {
  const well = (bad: number, text: string): { tone: Tone; note: string } =>
    bad > 0 ? { tone: "bad", note: `${count(bad)} ${text}` } : { tone: "ok", note: `0 ${text}` };
  return (
    <ul class="tiles" aria-label="Numbers">
      <Tile
        label="Plugins"
        href="#/plugins"
        value={count(counts.plugins)}
        {...well(counts.pluginsNotWell, "with problems")}
      />
      <Tile
        label="Sources"
        href="#/sources"
        value={count(counts.sources)}
        {...well(counts.sourcesNotLive, "not live")}
      />
      <Tile label="Cached objects" value={count(counts.objects)} note="all sources" />
      <Tile
        label="Dead letters"
        href="#/plugins?sort=-Dead+letters"
        value={count(counts.deadLetters)}
        note={counts.deadLetters > 0 ? "need a requeue" : "none"}
        tone={counts.deadLetters > 0 ? "warn" : "ok"}
      />
      <Tile
        label="Memory"
        value={bytes(memory.residentBytes)}
        note={memory.limitBytes === null ? "no limit" : `of ${bytes(memory.limitBytes)}`}
        meter={{ value: memory.residentBytes, max: memory.limitBytes }}
      />
      <Tile
        label="Cache"
        value={bytes(memory.cacheBytes)}
        note={memory.cacheMaxBytes === null ? "no budget" : `of ${bytes(memory.cacheMaxBytes)}`}
        meter={{ value: memory.cacheBytes, max: memory.cacheMaxBytes }}
      />
    </ul>
  );
}

function seconds(value: number | null | undefined): string {
  return duration(value == null ? null : value * 1000);
}

type ChartLine = [title: string, series: string, format: typeof rate, limitName?: string, limit?: number | null];

function Charts({ data: { memory } }: { data: Data }) {
  const points = useCell(history);
  const charts: ChartLine[] = [
    ["Events", "events", rate],
    ["Effects", "effects", rate],
    ["Lag, oldest pending event", "lag", seconds],
    ["Memory", "memory", bytes, "limit", memory.limitBytes],
    ["Cache", "cache", bytes, "budget", memory.cacheMaxBytes],
    ["CPU of plugins, cores", "cpu", cores],
  ];
  return (
    <Panel title="Last hour">
      <div class="charts">
        {charts.map(([title, series, format, limitName, limit]) => (
          <Chart
            key={series}
            title={title}
            history={points}
            series={series}
            format={format}
            limitName={limitName}
            limit={limit ?? null}
          />
        ))}
      </div>
    </Panel>
  );
}
