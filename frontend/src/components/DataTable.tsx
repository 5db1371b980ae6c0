import { IconArrowDown, IconArrowUp, IconArrowsSort } from "@tabler/icons-react";
import type { ReactNode } from "react";

import { useDensity } from "../lib/density";
import css from "./dataTable.module.css";

export interface Column<T> {
  id: string;
  header: string;
  cell: (row: T) => ReactNode;
  /** Numbers stand right, so that digits line up. */
  align?: "right";
  /** On a phone the lead cell is the card's title. */
  lead?: boolean;
  /** Left out of the card on a phone. */
  phone?: false;
  sort?: { direction: "asc" | "desc" | null; toggle: () => void };
  width?: number;
  /** Hidden until somebody asks for it; see TableOptions. */
  extra?: true;
  /** The header is for screen readers only. */
  quiet?: true;
}

export interface Ticks<T> {
  has: (row: T) => boolean;
  onToggle: (row: T) => void;
  /** The box in the header, for the rows that are shown. */
  onAll: (on: boolean) => void;
  label: (row: T) => string;
  labelAll: string;
}

/** A table that becomes cards on a phone (or scrolls in its own box, with cards={false}). */
export function DataTable<T>({
  rows,
  selection,
  columns,
  rowKey,
  label,
  cards = true,
  testId,
}: {
  rows: readonly T[];
  /** Boxes to tick in front of the rows; not on a phone. */
  selection?: Ticks<T>;
  columns: readonly Column<T>[];
  rowKey: (row: T) => string | number;
  label: string;
  cards?: boolean;
  testId?: string;
}) {
  const [density] = useDensity();
  return (
    <div className={css["scroller"]}>
      <table
        className={`${css["table"]} ${cards ? css["cards"] : ""}`}
        aria-label={label}
        data-testid={testId}
        data-rows={rows.length}
        data-density={density}
      >
        <thead>
          <tr>
            {selection ? (
              <th className={css["tick"]} scope="col">
                <input
                  type="checkbox"
                  aria-label={selection.labelAll}
                  checked={rows.length > 0 && rows.every((row) => selection.has(row))}
                  ref={(box) => {
                    if (box)
                      box.indeterminate =
                        rows.some((row) => selection.has(row)) && !rows.every((row) => selection.has(row));
                  }}
                  onChange={(event) => selection.onAll(event.currentTarget.checked)}
                  data-testid="select-all"
                />
              </th>
            ) : null}
            {columns.map((column) => (
              <th
                key={column.id}
                scope="col"
                className={column.align === "right" ? css["right"] : undefined}
                style={column.width ? { width: column.width } : undefined}
                aria-sort={
                  column.sort
                    ? column.sort.direction === "asc"
                      ? "ascending"
                      : column.sort.direction === "desc"
                        ? "descending"
                        : "none"
                    : undefined
                }
              >
                {column.sort ? (
                  <button type="button" className={css["sort"]} onClick={column.sort.toggle}>
                    {column.header}
                    {column.sort.direction === "asc" ? (
                      <IconArrowUp size={12} aria-hidden />
                    ) : column.sort.direction === "desc" ? (
                      <IconArrowDown size={12} aria-hidden />
                    ) : (
                      <IconArrowsSort size={12} aria-hidden opacity={0.5} />
                    )}
                  </button>
                ) : column.quiet ? (
                  <span className="srOnly">{column.header}</span>
                ) : (
                  column.header
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)} data-selected={selection?.has(row) || undefined}>
              {selection ? (
                <td className={css["tick"]} data-phone="off">
                  <input
                    type="checkbox"
                    aria-label={selection.label(row)}
                    checked={selection.has(row)}
                    onChange={() => selection.onToggle(row)}
                  />
                </td>
              ) : null}
              {columns.map((column) => (
                <td
                  key={column.id}
                  data-label={column.quiet ? "" : column.header}
                  data-lead={column.lead || undefined}
                  data-phone={column.phone === false ? "off" : undefined}
                  className={column.align === "right" ? css["right"] : undefined}
                >
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
