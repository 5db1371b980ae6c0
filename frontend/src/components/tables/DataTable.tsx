import { IconArrowDown, IconArrowUp, IconArrowsSort } from "@tabler/icons-react";
import { Fragment, isValidElement, memo, type ReactNode, useLayoutEffect, useRef } from "react";

import { ROW_PX, useDensity } from "../../lib/density";
import { MISSING } from "../../lib/format";
import css from "./dataTable.module.css";
import { usePhone } from "./usePhone";
import { useRowWindow } from "./useRowWindow";

const SHORT_CHARS = 16;
const SORTED = { asc: "ascending", desc: "descending", none: "none" } as const;

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

type Cell<T> = Column<T>["cell"];
type More<T> = Partial<Omit<Column<T>, "id" | "header" | "cell">>;

/** A column of words, at the left. */
export function column<T>(id: string, header: string, cell: Cell<T>, more?: More<T>): Column<T> {
  return { id, header, cell, ...more };
}

/** A column of numbers, at the right. */
export function numeric<T>(id: string, header: string, cell: Cell<T>, more?: More<T>): Column<T> {
  return { id, header, cell, align: "right", ...more };
}

/** The column that names the row. */
export function lead<T>(id: string, header: string, cell: Cell<T>, more?: More<T>): Column<T> {
  return { id, header, cell, lead: true, ...more };
}

/** The column of a row's buttons. */
export function actions<T>(id: string, header: string, cell: Cell<T>): Column<T> {
  return { id, header, cell, align: "right", quiet: true };
}

export interface Ticks<T> {
  has: (row: T) => boolean;
  onToggle: (row: T) => void;
  /** The box in the header, for the rows that are shown. */
  onAll: (on: boolean) => void;
  label: (row: T) => string;
  labelAll: (shown: number) => string;
}

interface Props<T> {
  rows: readonly T[];
  /** Boxes to tick in front of the rows; not on a phone. */
  selection?: Ticks<T>;
  columns: readonly Column<T>[];
  rowKey: (row: T) => string | number;
  label: string;
  cards?: boolean;
  testId?: string;
}

/** A table that becomes cards on a phone (or scrolls in its own box, with cards={false}). Of many rows it draws those in view. */
export function DataTable<T>({ rows, selection, columns, rowKey, label, cards = true, testId }: Props<T>) {
  const [density] = useDensity();
  const table = useRef<HTMLTableElement>(null);
  const isPhone = usePhone();
  const shown = useRowWindow(table, {
    num: rows.length,
    rowPx: ROW_PX[density],
    columns: [density, ...columns.map(({ id }) => id)].join("\n"),
    isCards: cards && isPhone,
  });
  return (
    <div className={css["scroller"]}>
      <table
        ref={table}
        className={`${css["table"]} ${cards ? css["cards"] : ""}`}
        aria-label={label}
        aria-rowcount={shown ? rows.length + 1 : undefined}
        data-testid={testId}
        data-rows={rows.length}
        data-windowed={shown !== null || undefined}
        style={shown?.widths ? { tableLayout: "fixed" } : undefined}
        data-density={density}
      >
        {shown?.widths ? (
          <colgroup>
            {shown.widths.map((width, i) => (
              // oxlint-disable-next-line react/no-array-index-key -- a column is what stands at its place
              <col key={i} style={{ width }} />
            ))}
          </colgroup>
        ) : null}
        <Heads rows={rows} columns={columns} selection={selection} />
        <tbody>
          {shown ? <Spacer height={shown.above} /> : null}
          {rows.slice(shown?.from, shown?.to).map((row, i) => (
            <Row
              key={rowKey(row)}
              row={row}
              columns={columns}
              selection={selection}
              isCard={cards && isPhone}
              index={shown ? shown.from + i : undefined}
            />
          ))}
          {shown ? <Spacer height={shown.below} /> : null}
        </tbody>
      </table>
    </div>
  );
}

/** Stands for rows that are not drawn. */
function Spacer({ height }: { height: number }) {
  return height > 0 ? <tr aria-hidden style={{ height }} /> : null;
}

/** Memoized, like the rows: scrolling renders only the rows that come into view. */
const Heads = memo(function Heads<T>({ rows, columns, selection }: Pick<Props<T>, "rows" | "columns" | "selection">) {
  return (
    <thead>
      <tr>
        {selection ? (
          <th className={css["tick"]} scope="col">
            <input
              type="checkbox"
              aria-label={selection.labelAll(rows.length)}
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
            aria-sort={column.sort ? SORTED[column.sort.direction ?? "none"] : undefined}
          >
            <HeadText column={column} />
          </th>
        ))}
      </tr>
    </thead>
  );
}) as <T>(props: Pick<Props<T>, "rows" | "columns" | "selection">) => ReactNode;

function HeadText<T>({ column: { header, sort, quiet } }: { column: Column<T> }) {
  if (!sort) return quiet ? <span className="srOnly">{header}</span> : header;
  const Icon = sort.direction === "asc" ? IconArrowUp : sort.direction === "desc" ? IconArrowDown : IconArrowsSort;
  return (
    <button type="button" className={css["sort"]} onClick={sort.toggle}>
      {header}
      <Icon size={12} aria-hidden opacity={sort.direction === null ? 0.5 : undefined} />
    </button>
  );
}

/** Several pieces as one: the cells of a card are flexible boxes, which would set them side by side. */
const inOne = (content: ReactNode): ReactNode =>
  isValidElement(content) && content.type === Fragment ? <span>{content}</span> : content;

interface RowProps<T> extends Pick<Props<T>, "columns" | "selection"> {
  row: T;
  /** Among all rows, where not all are drawn. */
  index: number | undefined;
  isCard: boolean;
}

const Row = memo(function Row<T>({ row, columns, selection, index, isCard }: RowProps<T>) {
  const line = useRef<HTMLTableRowElement>(null);
  // Only the text says what a cell came to. A card has no column to keep: what has no value is left out. In a column,
  // a few characters are never broken over two lines, as Chinese words else are anywhere.
  useLayoutEffect(() => {
    for (const cell of line.current?.cells ?? []) {
      const text = cell.textContent;
      cell.toggleAttribute("data-missing", isCard && text === MISSING);
      cell.toggleAttribute("data-short", text.length <= SHORT_CHARS);
    }
  });
  return (
    <tr
      ref={line}
      data-index={index}
      aria-rowindex={index === undefined ? undefined : index + 2}
      data-selected={selection?.has(row) || undefined}
    >
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
          {inOne(column.cell(row))}
        </td>
      ))}
    </tr>
  );
}) as <T>(props: RowProps<T> & { key?: React.Key }) => ReactNode;
