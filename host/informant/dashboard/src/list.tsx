// Small tables: a list of items with a few columns, drawn in steps, or a text if there are none.

import { h, type ComponentChildren } from "preact";
import { Scroll, useLimit } from "./parts";

/** A column: its label, what a cell shows, and whether the cell names the row or holds a number. */
export type Field<R> = [label: string, cell: (item: R) => ComponentChildren, kind?: "name" | "number"];

interface ListProps<R> {
  label: string;
  items: R[];
  fields: Field<R>[];
  /** Needed where items come and go while a cell has a state of its own. */
  keyOf?: (item: R) => string;
  empty: string;
  step?: number;
}

export function List<R>({ label, items, fields, keyOf, empty, step = 8 }: ListProps<R>) {
  const [drawn, more] = useLimit(items, step);
  if (items.length === 0) return <p class="muted">{empty}</p>;
  return (
    <div>
      <Scroll label={label}>
        <table class="list">
          <thead>
            <tr>
              {fields.map(([title, , kind]) => (
                <th key={title} scope="col" class={kind}>
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {drawn.map((item) => (
              <tr key={keyOf?.(item)}>
                {fields.map(([title, cell, kind]) =>
                  kind === "name" ? (
                    <th key={title} scope="row">
                      {cell(item)}
                    </th>
                  ) : (
                    <td key={title} class={kind}>
                      {cell(item)}
                    </td>
                  ),
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {more}
    </div>
  );
}
