import { IconArrowDown, IconArrowUp, IconLayoutSidebarRight } from "@tabler/icons-react";
import { useRouter } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type KeyboardEvent,
  memo,
  type PointerEvent,
  type RefObject,
  useEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { useTranslation } from "react-i18next";

import type { Experiment } from "../../../api/queries";
import { UnmanagedBadge } from "../../../common/experiments/UnmanagedBadge";
import type { Ticks } from "../../../components/tables/DataTable";
import tableCss from "../../../components/tables/dataTable.module.css";
import { cell, headText, type Narrow } from "./cells";
import { RowLink } from "../../../components/tables/RowLink";
import { useStable } from "../../../components/useStable";
import { ROW_PX, useDensity } from "../../../lib/density";
import css from "./table.module.css";
import { holdsNumbers, nextSort, sortOf, type TableColumn } from "./tableColumns";

const HEAD_PX = 35;
const TICK_PX = 30;
/** So many rows before the end the next page is read. */
const NEAR_ROWS = 15;
const STEP_PX = 16;

interface Props {
  items: Experiment[];
  columns: TableColumn[];
  sort: string | undefined;
  ticks: Ticks<Experiment> | undefined;
  peek: number | undefined;
  hasMore: boolean;
  onMore: () => void;
  onSort: (sort: string | undefined) => void;
  onWidth: (id: string, width: number) => void;
  onPeek: (id: number | undefined) => void;
  narrow: Narrow;
}

const isRight = (id: string, item: Experiment): boolean => holdsNumbers(id, [item]) === true;

/** Only the rows in view are drawn; the box scrolls, the heads and the names stay. */
export function ExperimentGrid({
  items,
  columns,
  sort,
  ticks,
  peek,
  hasMore,
  onMore,
  onSort,
  onWidth,
  onPeek,
  narrow,
}: Props) {
  const { t } = useTranslation();
  const box = useRef<HTMLDivElement>(null);
  const [density] = useDensity();
  const rowPx = ROW_PX[density];
  const choose = useSorting(items, sort, onSort);
  // oxlint-disable-next-line react/incompatible-library -- what it returns is used here alone
  const virtual = useVirtualizer({
    count: items.length,
    getScrollElement: () => box.current,
    estimateSize: () => rowPx,
    overscan: 6,
    scrollPaddingStart: HEAD_PX,
  });
  useEffect(() => virtual.measure(), [virtual, rowPx]);
  const rows = virtual.getVirtualItems();
  const last = rows.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && last >= items.length - NEAR_ROWS) onMore();
  }, [hasMore, last, items.length, onMore]);

  const { at, setAt, onKey } = useRowKeys({ items, box, ticks, peek, onPeek, scrollTo: virtual.scrollToIndex });
  // Scrolling renders only the rows that come into view.
  const act = useStable({ choose, onKey });
  const numbers = useMemo(
    () => new Set(columns.filter(({ id }) => holdsNumbers(id, items) === true).map(({ id }) => id)),
    [columns, items],
  );

  const width = columns.reduce((sum, column) => sum + column.width, ticks ? TICK_PX : 0);
  return (
    <div ref={box} className={css["box"]} data-testid="experiments-box">
      <div className={css["sizer"]} style={{ height: HEAD_PX + virtual.getTotalSize() }}>
        <table
          className={css["grid"]}
          style={{ minWidth: width }}
          aria-label={t("nav.experiments")}
          aria-rowcount={hasMore ? -1 : items.length + 1}
          data-testid="experiments"
          data-keys="rows"
          data-rows={items.length}
          data-density={density}
          // Names that stay in place cost a layer each; where nothing can be scrolled sideways they need none.
          data-wide={width > (virtual.scrollRect?.width ?? 0) || undefined}
        >
          <colgroup>
            {ticks ? <col style={{ width: TICK_PX }} /> : null}
            {/* The name takes what the others leave, and never less than its width. */}
            {columns.map((column) => (
              <col key={column.id} style={column.id === "name" ? undefined : { width: column.width }} />
            ))}
          </colgroup>
          <thead>
            <tr aria-rowindex={1}>
              {ticks ? (
                <th className={css["tick"]} scope="col">
                  <TickAll items={items} ticks={ticks} />
                </th>
              ) : null}
              {columns.map((column) => (
                <Head
                  key={column.id}
                  column={column}
                  sort={sort}
                  right={numbers.has(column.id)}
                  onSort={act.choose}
                  onWidth={onWidth}
                />
              ))}
            </tr>
          </thead>
          <tbody style={{ transform: `translateY(${rows[0]?.start ?? 0}px)` }}>
            {rows.map((row) => {
              const item = items[row.index];
              if (!item) return null;
              return (
                <Row
                  key={item.id}
                  index={row.index}
                  item={item}
                  columns={columns}
                  ticks={ticks}
                  isPeeked={peek === item.id}
                  isReachable={row.index === Math.min(at, items.length - 1)}
                  narrow={narrow}
                  onFocus={setAt}
                  onKey={act.onKey}
                  onPeek={onPeek}
                />
              );
            })}
          </tbody>
        </table>
      </div>
    </div>
  );
}

interface RowKeys {
  items: Experiment[];
  box: RefObject<HTMLDivElement | null>;
  ticks: Ticks<Experiment> | undefined;
  peek: number | undefined;
  onPeek: (id: number | undefined) => void;
  scrollTo: (index: number) => void;
}

/** One row can be reached with Tab; keys move from row to row and act on the one that has the focus. */
function useRowKeys({ items, box, ticks, peek, onPeek, scrollTo }: RowKeys) {
  const router = useRouter();
  const [at, setAt] = useState(0);
  /** Where the focus goes: keys that come before it is there are meant for that row. */
  const going = useRef<number | null>(null);
  const focusRow = (index: number): void => {
    const to = Math.min(items.length - 1, Math.max(0, index));
    going.current = to;
    setAt(to);
    scrollTo(to);
    // The row may only be drawn once the box has scrolled.
    requestAnimationFrame(() =>
      requestAnimationFrame(() => {
        if (going.current !== to) return;
        going.current = null;
        box.current?.querySelector<HTMLElement>(`tr[data-index="${to}"]`)?.focus({ preventScroll: true });
      }),
    );
  };
  const open = (item: Experiment): void => {
    void router.navigate(
      item.only_trial_id
        ? { to: "/trials/$trialId", params: { trialId: String(item.only_trial_id) } }
        : { to: "/experiments/$experimentId", params: { experimentId: String(item.id) } },
    );
  };
  const onKey = (event: KeyboardEvent, focused: number): void => {
    const index = going.current ?? focused;
    const item = items[index];
    if (!item || event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
    const to: Record<string, () => void> = {
      ArrowDown: () => focusRow(index + 1),
      j: () => focusRow(index + 1),
      ArrowUp: () => focusRow(index - 1),
      k: () => focusRow(index - 1),
      Home: () => focusRow(0),
      End: () => focusRow(items.length - 1),
      Enter: () => open(item),
      " ": () => onPeek(peek === item.id ? undefined : item.id),
      x: () => ticks?.onToggle(item),
    };
    const action = to[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  };
  return { at, setAt, onKey };
}

/** Sorts by a column, a number the largest first. */
function useSorting(items: Experiment[], sort: string | undefined, onSort: Props["onSort"]) {
  // A column that was just added: in which direction it is sorted is known when its values come.
  const [sortLater, setSortLater] = useState<string | null>(null);
  const isNumber = sortLater === null ? null : holdsNumbers(sortLater, items);
  useEffect(() => {
    if (sortLater === null || isNumber === null) return;
    setSortLater(null);
    onSort(nextSort(sort, sortLater, isNumber));
  }, [sortLater, isNumber, sort, onSort]);
  return (id: string, by: string): void => {
    const known = holdsNumbers(id, items);
    if (known === null) setSortLater(id);
    else onSort(nextSort(sort, by, known));
  };
}

interface RowProps {
  index: number;
  item: Experiment;
  columns: TableColumn[];
  ticks: Ticks<Experiment> | undefined;
  isPeeked: boolean;
  /** With the Tab key. */
  isReachable: boolean;
  narrow: Narrow;
  onFocus: (index: number) => void;
  onKey: (event: KeyboardEvent, index: number) => void;
  onPeek: Props["onPeek"];
}

const Row = memo(function Row({
  index,
  item,
  columns,
  ticks,
  isPeeked,
  isReachable,
  narrow,
  onFocus,
  onKey,
  onPeek,
}: RowProps) {
  const { t } = useTranslation();
  return (
    <tr
      data-index={index}
      aria-rowindex={index + 2}
      data-selected={ticks?.has(item) || undefined}
      data-peek={isPeeked || undefined}
      tabIndex={isReachable ? 0 : -1}
      onFocus={() => onFocus(index)}
      onKeyDown={(event) => onKey(event, index)}
    >
      {ticks ? (
        <td className={css["tick"]}>
          <input
            type="checkbox"
            aria-label={ticks.label(item)}
            checked={ticks.has(item)}
            onChange={() => ticks.onToggle(item)}
          />
        </td>
      ) : null}
      {columns.map(({ id }) =>
        id === "name" ? (
          <td key={id} className={css["lead"]}>
            <span className={css["named"]}>
              <RowLink item={item} title={item.name}>
                {item.name}
              </RowLink>
              <span className="dim num">#{item.id}</span> <UnmanagedBadge client={item.unmanaged} isIcon />
              <button
                type="button"
                className={css["beside"]}
                aria-label={t("table.peek.open", { name: item.name })}
                aria-pressed={isPeeked}
                onClick={() => onPeek(isPeeked ? undefined : item.id)}
                data-testid="peek-open"
              >
                <IconLayoutSidebarRight size={15} aria-hidden />
              </button>
            </span>
          </td>
        ) : (
          <td key={id} className={isRight(id, item) ? css["right"] : undefined}>
            {cell(t, id, item, narrow)}
          </td>
        ),
      )}
    </tr>
  );
});

const TickAll = memo(function TickAll({ items, ticks }: { items: Experiment[]; ticks: Ticks<Experiment> }) {
  return (
    <input
      type="checkbox"
      aria-label={ticks.labelAll(items.length)}
      checked={items.length > 0 && items.every((row) => ticks.has(row))}
      ref={(input) => {
        if (input) input.indeterminate = items.some((row) => ticks.has(row)) && !items.every((row) => ticks.has(row));
      }}
      onChange={(event) => ticks.onAll(event.currentTarget.checked)}
      data-testid="select-all"
    />
  );
});

const Head = memo(function Head({
  column,
  sort,
  right,
  onSort,
  onWidth,
}: {
  column: TableColumn;
  sort: string | undefined;
  right: boolean;
  onSort: (id: string, by: string) => void;
  onWidth: Props["onWidth"];
}) {
  const { t } = useTranslation();
  const by = sortOf(column.id);
  const down = by !== null && sort === `-${by}`;
  const up = by !== null && sort === by;
  const { name, of } = headText(t, column.id);
  const label = (
    <>
      {name} {of ? <small>{of}</small> : null}
    </>
  );
  const drag = (event: PointerEvent<HTMLSpanElement>): void => {
    event.preventDefault();
    const grip = event.currentTarget;
    const from = event.clientX;
    const before = grip.parentElement?.offsetWidth ?? column.width;
    let to = before;
    grip.setPointerCapture(event.pointerId);
    const move = (moved: globalThis.PointerEvent): void => {
      to = before + moved.clientX - from;
    };
    const end = (): void => {
      grip.removeEventListener("pointermove", move);
      if (to !== before) onWidth(column.id, to);
    };
    grip.addEventListener("pointermove", move);
    grip.addEventListener("pointerup", end, { once: true });
    grip.addEventListener("pointercancel", end, { once: true });
  };
  return (
    <th
      scope="col"
      className={`${column.id === "name" ? css["lead"] : ""} ${right ? css["right"] : ""}`}
      aria-sort={by === null ? undefined : up ? "ascending" : down ? "descending" : "none"}
      title={of ? `${name} (${of})` : name}
      data-testid={`head-${column.id}`}
    >
      {by === null ? (
        label
      ) : (
        <button type="button" className={tableCss["sort"]} onClick={() => onSort(column.id, by)}>
          {label}
          {up ? <IconArrowUp size={12} aria-hidden /> : down ? <IconArrowDown size={12} aria-hidden /> : null}
        </button>
      )}
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions, jsx-a11y/no-noninteractive-tabindex -- a separator with the focus is a control */}
      <span
        role="separator"
        tabIndex={0}
        aria-orientation="vertical"
        aria-label={t("table.resize", { name })}
        aria-valuenow={column.width}
        aria-valuemin={60}
        aria-valuemax={900}
        className={css["grip"]}
        onPointerDown={drag}
        onKeyDown={(event) => {
          const by = event.key === "ArrowRight" ? STEP_PX : event.key === "ArrowLeft" ? -STEP_PX : 0;
          if (by !== 0) onWidth(column.id, column.width + by);
        }}
      />
    </th>
  );
});
