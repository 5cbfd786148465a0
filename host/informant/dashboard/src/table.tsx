// A table of many rows: sort by each column, filter, and draw only the rows in view. Rows have one fixed height.

import { Fragment, h, type ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { lazy, Pure, useGrowing } from "./cell";
import { count, plural } from "./format";
import { setQuery } from "./router";
import { foreign, shown } from "./text";

const ROW_HEIGHT = 32;
const SPARE_ROWS = 4;
const ROWS_PER_FRAME = 8;

type Value = string | number | null;

export interface Column<R> {
  /** Unique in its table: it is also the name in the link that keeps the order. */
  label: string;
  /** Width in rem. A column with `grow` also takes what is left. */
  width: number;
  grow?: boolean;
  /** What the column sorts by, and what it shows unless there is `number` or `show`. */
  value: (row: R) => Value;
  number?: (value: number | null) => ComponentChildren;
  show?: (row: R) => ComponentChildren;
}

interface TableProps<R> {
  /** What a row is, in the singular. */
  unit: string;
  columns: Column<R>[];
  rows: ReadonlyMap<string, R>;
  /** The texts that the filter searches. */
  searched: (row: R) => unknown[];
  query: URLSearchParams;
  hint: string;
}

interface Order {
  label: string;
  down: boolean;
}

/** Without another wish, the rows that need attention come first. */
const FIRST = "State";

function orderOf(query: URLSearchParams): Order {
  const wanted = query.get("sort") ?? FIRST;
  return { label: wanted.replace(/^-/, ""), down: wanted.startsWith("-") };
}

/** `#2` comes before `#10`. */
const text = lazy(() => new Intl.Collator("en", { numeric: true }));

function compare(a: Value, b: Value): number {
  return typeof a === "string" ? text().compare(a, String(b)) : Number(a ?? -1) - Number(b ?? -1);
}

/** One row. It is drawn again only when the server sent it again or it moved. */
class Line<R> extends Pure<{ row: R; columns: Column<R>[]; index: number }> {
  render() {
    const { row, columns, index } = this.props;
    return (
      <tr aria-rowindex={index + 2}>
        {columns.map((column, position) => {
          const content = cell(column, row);
          if (position === 0) return <th scope="row">{content}</th>;
          return <td class={column.number && "number"}>{content}</td>;
        })}
      </tr>
    );
  }
}

function cell<R>({ value, number, show }: Column<R>, row: R): ComponentChildren {
  if (show) return show(row);
  if (number) return number(value(row) as number | null);
  const text = value(row);
  return <span title={shown(text)}>{foreign(text)}</span>;
}

export function Table<R>({ unit, columns: all, rows, searched, query, hint }: TableProps<R>) {
  const [filter, setFilter] = useState(query.get("filter") ?? "");
  const [order, setOrder] = useState(() => orderOf(query));
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(innerHeight);
  const region = useRef<HTMLDivElement>(null);

  // On a narrow page, the column that orders the rows comes next to their names.
  const columns = useMemo(() => {
    const [name, ...others] = all;
    const at = innerWidth < 700 ? others.findIndex((each) => each.label === order.label) : -1;
    return at < 0 ? all : [name!, ...others.splice(at, 1), ...others];
  }, [all, order]);

  const sorted = useMemo(() => {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const column = columns.find((each) => each.label === order.label) ?? columns[0]!;
    const sign = order.down ? -1 : 1;
    return [...rows]
      .filter(([, row]) => {
        if (words.length === 0) return true;
        const text = ` ${searched(row).filter(Boolean).join(" ").toLowerCase()} `;
        // "#3" is an ID and must not find "#30".
        return words.every((word) => text.includes(word.startsWith("#") ? ` ${word} ` : word));
      })
      .map(([key, row]) => ({ key, row, value: column.value(row) }))
      .sort((a, b) => sign * compare(a.value, b.value) || compare(a.key, b.key));
  }, [rows, filter, order, columns, searched]);

  useLayoutEffect(() => {
    const watch = new ResizeObserver(() => setHeight(region.current?.clientHeight ?? innerHeight));
    watch.observe(region.current!);
    return () => watch.disconnect();
  }, []);

  // The query of a link to this page applies also when the page is open already.
  useLayoutEffect(() => {
    setFilter(query.get("filter") ?? "");
    setOrder(orderOf(query));
  }, [query]);

  const remember = (nextFilter: string, next: Order) => {
    const sort = (next.down ? "-" : "") + next.label;
    setQuery({ filter: nextFilter, sort: sort === FIRST ? "" : sort });
    region.current!.scrollTo(0, 0);
    setTop(0);
  };

  const search = (text: string) => {
    setFilter(text);
    remember(text, order);
  };

  const sortBy = (column: Column<R>) => {
    const next = {
      label: column.label,
      down: order.label === column.label ? !order.down : column.number !== undefined,
    };
    setOrder(next);
    remember(filter, next);
  };

  const last = Math.max(0, sorted.length * ROW_HEIGHT - height);
  const from = Math.max(0, Math.floor(Math.min(top, last) / ROW_HEIGHT) - SPARE_ROWS);
  const drawn = useGrowing(Math.ceil(height / ROW_HEIGHT) + 2 * SPARE_ROWS, ROWS_PER_FRAME);
  const to = Math.min(sorted.length, from + drawn);

  const scrolled = () => {
    const next = region.current!.scrollTop;
    // A focused row that leaves the drawn part would take the focus with it.
    const focused = document.activeElement?.closest("tbody tr");
    if (focused && region.current!.contains(focused)) {
      const index = Number(focused.getAttribute("aria-rowindex")) - 2;
      const start = Math.floor(next / ROW_HEIGHT) - SPARE_ROWS;
      if (index < start || index >= start + to - from) region.current!.focus({ preventScroll: true });
    }
    if (Math.abs(next - top) >= ROW_HEIGHT) setTop(next);
  };

  const width = columns.reduce((sum, column) => sum + column.width, 0);
  return (
    <>
      <div class="tools">
        <label class="field">
          <span>Filter</span>
          <input
            type="search"
            value={filter}
            placeholder={hint}
            autocomplete="off"
            spellcheck={false}
            onInput={(event) => search(event.currentTarget.value)}
          />
        </label>
        <p class="muted" role="status">
          {sorted.length < rows.size && `${count(sorted.length)} of `}
          {plural(rows.size, unit)}
        </p>
      </div>
      <div class="scroll big" role="region" aria-label={`All ${unit}s`} tabIndex={0} ref={region} onScroll={scrolled}>
        {/* The rows below the drawn ones have their place in this box, so drawing them moves nothing. */}
        <div style={{ minWidth: `${width}rem`, height: `${(sorted.length + 1) * ROW_HEIGHT}px` }}>
          <table class="rows" aria-rowcount={sorted.length + 1}>
            <colgroup>
              {columns.map((column) => (
                <col style={column.grow ? undefined : { width: `${column.width}rem` }} />
              ))}
            </colgroup>
            <thead>
              <tr aria-rowindex={1}>
                {columns.map((column) => {
                  const sorting = order.label === column.label ? (order.down ? "descending" : "ascending") : undefined;
                  return (
                    <th scope="col" class={column.number && "number"} aria-sort={sorting}>
                      <button type="button" onClick={() => sortBy(column)}>
                        {column.label}
                      </button>
                    </th>
                  );
                })}
              </tr>
            </thead>
            <tbody>
              {from > 0 && (
                <tr aria-hidden="true" class="spacer">
                  <td colSpan={columns.length} style={{ height: `${from * ROW_HEIGHT}px` }} />
                </tr>
              )}
              {sorted.slice(from, to).map(({ key, row }, offset) => (
                <Line key={key} row={row} columns={columns} index={from + offset} />
              ))}
            </tbody>
          </table>
        </div>
        {sorted.length === 0 && (
          <p class="empty">{rows.size === 0 ? `There are no ${unit}s.` : `No ${unit} matches the filter.`}</p>
        )}
      </div>
    </>
  );
}
