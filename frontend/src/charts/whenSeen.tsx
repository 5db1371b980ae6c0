/** Charts of a long page are made, fetched and drawn when they come near the screen. */
import { useCallback, useEffect, useState } from "react";

import css from "./chart.module.css";

/** Ask for metrics while the returned function is not called. */
export type Want = (names: string[]) => () => void;

function useWanted(names: string[], want: Want, on: boolean): void {
  const key = names.join("\n");
  useEffect(() => (on ? want(key.split("\n")) : undefined), [on, key, want]);
}

export function Wanted({ names, want, children }: { names: string[]; want: Want; children: () => React.ReactNode }) {
  useWanted(names, want, true);
  return children();
}

/** Of these the places are made together: whole rows for one to six columns. */
const CHUNK = 60;
const SEEN_PX = 240;
const NEAR_PX = 1200;
/** As in chart.module.css. */
const CELL_PX = 284;
const CELL_MIN_WIDTH_PX = 360;
const GAP_PX = 10;
/** What stands above the first chart of a trial. */
const ABOVE_PX = 300;

export function chunked<T>(items: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(items.length / CHUNK) }, (_, no) => items.slice(no * CHUNK, (no + 1) * CHUNK));
}

const seen = new WeakMap<Element, (isSeen: boolean) => void>();
/** One for all of a margin: an observer for each of 2,000 charts, and its first word about each, take half a second. */
const observers = new WeakMap<Element | Document, Map<number, IntersectionObserver>>();

/** A margin counts at the edges of the root alone, and what scrolls is not the window but `main`. */
function observerOf(marginPx: number, root: Element | null): IntersectionObserver {
  const here = observers.get(root ?? document) ?? new Map<number, IntersectionObserver>();
  observers.set(root ?? document, here);
  const known = here.get(marginPx);
  if (known) return known;
  const made = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) seen.get(entry.target)?.(entry.isIntersecting);
    },
    { root, rootMargin: `${marginPx}px` },
  );
  here.set(marginPx, made);
  return made;
}

/** Whether an element is on the screen or no further than that; rendered again only when that changes. */
function useSeen(
  marginPx: number,
  initially: boolean,
): [(element: Element | null) => (() => void) | undefined, boolean] {
  const [isSeen, setSeen] = useState(initially);
  const ref = useCallback(
    (element: Element | null) => {
      if (!element) return undefined;
      const observer = observerOf(marginPx, element.closest("main"));
      seen.set(element, setSeen);
      observer.observe(element);
      return () => {
        seen.delete(element);
        observer.unobserve(element);
      };
    },
    [marginPx],
  );
  return [ref, isSeen];
}

/** Places of charts that are far away are one empty box, about as high; once made, they stay. */
export function WhenNear({
  count,
  isFirst,
  children,
}: {
  count: number;
  isFirst: boolean;
  children: () => React.ReactNode;
}) {
  const [ref, isNear] = useSeen(NEAR_PX, isFirst);
  const [isMade, setMade] = useState(isFirst);
  if (isNear && !isMade) setMade(true);
  if (isMade) return children();
  return <div ref={ref} className={css["later"]} style={{ height: heightOf(count) }} data-testid="charts-later" />;
}

/** By the width of the window: what is beside the charts is not known before they are drawn. */
function columnsNow(): number {
  return Math.max(1, Math.floor((window.innerWidth + GAP_PX) / (CELL_MIN_WIDTH_PX + GAP_PX)));
}

function heightOf(count: number): number {
  return Math.ceil(count / columnsNow()) * (CELL_PX + GAP_PX) - GAP_PX;
}

/** So many are on the screen for sure: they are asked for together, and need not wait for an observer. */
export function firstCharts(): number {
  return columnsNow() * Math.max(1, Math.floor((window.innerHeight - ABOVE_PX) / (CELL_PX + GAP_PX)));
}

/** Draws and fetches only what is on the screen: a page of 2,000 metrics stays light. */
export function WhenSeen({
  names,
  want,
  isFirst,
  children,
}: {
  names: string[];
  want: Want;
  isFirst: boolean;
  children: () => React.ReactNode;
}) {
  const [ref, isSeen] = useSeen(SEEN_PX, isFirst);
  useWanted(names, want, isSeen);
  return (
    <div ref={ref} className={css["cell"]}>
      {isSeen ? children() : null}
    </div>
  );
}
