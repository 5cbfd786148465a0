// The live parts of a plugin's page: its log and its effects as they happen.

import { h } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Pure, useCell, useGrowing } from "./cell";
import { effects, logs } from "./feeds";
import { count, plural, Time } from "./format";
import { Empty, Panel, Scroll } from "./parts";
import { foreign, multiline } from "./text";
import type { LogLine } from "./types";
import { useRefused, Waiting } from "./view";
import { WhyPath } from "./why";

/** How much is drawn per frame. */
const LINES = 40;
const PATHS = 6;
/** How far from the end still counts as the end: a line that is half in view must not stop the following. */
const END_SLACK_PX = 24;

class Line extends Pure<{ item: LogLine }> {
  render() {
    const { time, level, line } = this.props.item;
    const known = /^(error|warn)$/i.test(level);
    return (
      <li>
        <Time at={time} />
        <span class={`level ${known ? level.toLowerCase() : ""}`}>{foreign(level)}</span>
        {multiline(line)}
      </li>
    );
  }
}

export function Log({ name }: { name: string }) {
  const log = useCell(logs);
  const missing = useRefused(`logs:${name}`);
  const region = useRef<HTMLDivElement>(null);
  const [following, setFollowing] = useState(true);
  const mine = log.name === name && log.loaded;
  const items = mine ? log.items : [];
  const drawn = useGrowing(items.length, LINES, 0);
  // The last ID when following stopped, to count the lines that came since.
  const stoppedAt = useRef(0);

  useLayoutEffect(() => {
    if (following && region.current) region.current.scrollTop = region.current.scrollHeight;
  }, [following, items, drawn]);

  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = region.current!;
    const atEnd = scrollHeight - scrollTop - clientHeight < END_SLACK_PX;
    if (!atEnd && following) stoppedAt.current = items[items.length - 1]?.id ?? 0;
    setFollowing(atEnd);
  };

  const waiting = following ? 0 : items.filter((each) => each.id > stoppedAt.current).length;
  const aside = !mine ? undefined : following ? (
    <span class="muted">following{log.dropped > 0 && ` · ${plural(log.dropped, "line")} dropped`}</span>
  ) : (
    <button type="button" onClick={() => setFollowing(true)}>
      Follow{waiting > 0 && ` (${count(waiting)} new)`}
    </button>
  );
  return (
    <Panel title="Log" aside={aside}>
      {missing ?? (
        <div
          class="scroll live"
          role="group"
          aria-label={`Log of ${name}`}
          tabIndex={0}
          ref={region}
          onScroll={scrolled}
        >
          <Waiting done={mine}>
            {items.length === 0 ? (
              <Empty>No log lines yet.</Empty>
            ) : (
              <ol class="log">
                {items.slice(items.length - drawn).map(({ id, item }) => (
                  <Line key={id} item={item} />
                ))}
              </ol>
            )}
          </Waiting>
        </div>
      )}
    </Panel>
  );
}

export function Effects({ name }: { name: string }) {
  const feed = useCell(effects);
  const missing = useRefused(`why:${name}`);
  const mine = feed.name === name && feed.loaded;
  const newestFirst = mine ? feed.items.toReversed() : [];
  const drawn = useGrowing(newestFirst.length, PATHS, 0);
  return (
    <Panel title="Effects and their causes" aside={mine ? <span class="muted">newest first</span> : undefined}>
      {missing ?? (
        <Scroll label={`Effects of ${name}`} class="live">
          <Waiting done={mine}>
            {newestFirst.length === 0 ? (
              <Empty>No effects yet.</Empty>
            ) : (
              <ul class="whys">
                {newestFirst.slice(0, drawn).map(({ id, item }) => (
                  <WhyPath key={id} why={item} />
                ))}
              </ul>
            )}
          </Waiting>
        </Scroll>
      )}
    </Panel>
  );
}
