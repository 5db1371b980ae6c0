import { useVirtualizer } from "@tanstack/react-virtual";
import { type RefObject, useEffect, useLayoutEffect, useState } from "react";

/** From so many rows on only those near the screen are drawn. */
const WINDOW_FROM = 200;
const OVERSCAN = 15;

/** What scrolls the table: the page's content, or the dialog that it is in. */
const scrollerOf = (table: HTMLElement | null): HTMLElement | null => table?.closest("main, [role=dialog]") ?? null;

export interface RowWindow {
  /** Index of the first row that is drawn, and of the one after the last. */
  from: number;
  to: number;
  /** What the rows before and after them would take, in pixels. */
  above: number;
  below: number;
  /** Of the columns in pixels, as they were when all rows were drawn: others must not move them. */
  widths: readonly number[] | undefined;
}

/** The rows of a long table that are near the screen; null: all of them are drawn. columns: what the widths and heights depend on. */
export function useRowWindow(
  table: RefObject<HTMLTableElement | null>,
  { num, rowPx, columns, isCards }: { num: number; rowPx: number; columns: string; isCards: boolean },
): RowWindow | null {
  const isOn = num > WINDOW_FROM && !isCards;
  // Where the rows begin within what scrolls.
  const [margin, setMargin] = useState(0);
  const [fixed, setFixed] = useState<{ columns: string; px: number[]; rowPx: number } | null>(null);
  const height = fixed?.rowPx || rowPx;
  // oxlint-disable-next-line react/incompatible-library -- what it returns is used by the table alone
  const virtual = useVirtualizer({
    count: isOn ? num : 0,
    enabled: isOn,
    getScrollElement: () => scrollerOf(table.current),
    estimateSize: () => height,
    overscan: OVERSCAN,
    scrollMargin: margin,
  });
  useEffect(() => virtual.measure(), [virtual, height]);
  // Whatever is drawn anew may have moved the rows; scrolling does not, and is waited for: looking costs a layout.
  // oxlint-disable-next-line react/exhaustive-deps -- it sets only what has changed
  useLayoutEffect(() => {
    const [box, scroller] = [table.current, scrollerOf(table.current)];
    const body = box?.tBodies[0];
    if (!isOn || !box || !body || !scroller || (virtual.isScrolling && fixed?.columns === columns)) return;
    const top = Math.round(
      body.getBoundingClientRect().top - scroller.getBoundingClientRect().top + scroller.scrollTop,
    );
    if (top !== margin) setMargin(top);
    const row = body.querySelector<HTMLElement>("tr[data-index]");
    if (row && fixed?.columns !== columns)
      setFixed({
        columns,
        px: [...(box.tHead?.rows[0]?.cells ?? [])].map((head) => head.offsetWidth),
        rowPx: row.offsetHeight,
      });
  });
  if (!isOn) return null;
  const rows = virtual.getVirtualItems();
  const [first, last] = [rows[0], rows.at(-1)];
  return {
    from: first?.index ?? 0,
    to: (last?.index ?? -1) + 1,
    above: first ? first.start - margin : 0,
    below: last ? virtual.getTotalSize() - (last.end - margin) : virtual.getTotalSize(),
    widths: fixed?.columns === columns ? fixed.px : undefined,
  };
}
