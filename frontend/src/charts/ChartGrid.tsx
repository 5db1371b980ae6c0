import { Button } from "@mantine/core";
import { IconChevronDown, IconChevronRight } from "@tabler/icons-react";
import { useCallback, useEffect, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";

import { Empty } from "../components/basics";
import * as format from "../lib/format";
import type { ChartSpec } from "../lib/series";
import css from "./chart.module.css";
import type { ChartSearch } from "./chartSearch";
import { SMOOTHING } from "./ChartToolbar";
import { type Command, FullScreen, SeriesChart, type Source } from "./SeriesChart";

interface Props {
  specs: ChartSpec[];
  search: ChartSearch;
  set: (change: ChartSearch) => void;
  /** Ask for metrics while the returned function is not called. */
  want: (names: string[]) => () => void;
  /** Must be stable: a new one draws every chart again. */
  source: (names: string[]) => Source;
}

/** Charts by the prefix of their metrics, those that the search finds. */
export function ChartGrid({ specs, search, set, want, source }: Props) {
  const { t } = useTranslation();
  const text = search.find?.toLowerCase() ?? "";
  const found = useMemo(
    () => (text ? specs.filter((spec) => spec.names.some((name) => name.toLowerCase().includes(text))) : specs),
    [specs, text],
  );
  const groups = useMemo(() => {
    const byName = new Map<string, ChartSpec[]>();
    for (const spec of found) byName.set(spec.group, [...(byName.get(spec.group) ?? []), spec]);
    return byName;
  }, [found]);
  const closed = new Set(search.closed?.split(",") ?? []);
  const fold = (group: string): void => {
    const next = closed.has(group) ? [...closed].filter((name) => name !== group) : [...closed, group];
    set({ closed: next.length > 0 ? next.join(",") : undefined });
  };
  const command = (spec: ChartSpec, what: Command): void => {
    if (what === "logY") set({ log: search.log ? undefined : true });
    else if (what === "logX") set({ logx: search.logx ? undefined : true });
    else if (what === "full") set({ full: search.full === spec.id ? undefined : spec.id });
    else set({ smooth: SMOOTHING[(SMOOTHING.indexOf((search.smooth ?? 0) as 0) + 1) % SMOOTHING.length] || undefined });
  };
  const chart = (spec: ChartSpec, height?: number) => (
    <OneChart
      key={spec.id}
      spec={spec}
      search={search}
      source={source}
      height={height}
      onZoom={(range) => set({ from: range?.from, to: range?.to })}
      onCommand={(what) => command(spec, what)}
    />
  );
  const numFirst = useMemo(() => firstCharts(), []);
  const full = specs.find((spec) => spec.id === search.full);
  if (found.length === 0) {
    return (
      <Empty
        title={t("metrics.noMatch", { text: search.find ?? "" })}
        action={
          <Button variant="default" onClick={() => set({ find: undefined })}>
            {t("metrics.clearFind")}
          </Button>
        }
      />
    );
  }
  return (
    <>
      {[...groups].map(([group, members], groupNo) => {
        const isOpen = !closed.has(group) || text !== "";
        return (
          <section key={group} className={css["group"]}>
            <h2>
              <button
                type="button"
                className={css["fold"]}
                aria-expanded={isOpen}
                onClick={() => fold(group)}
                disabled={text !== ""}
              >
                {isOpen ? <IconChevronDown size={13} aria-hidden /> : <IconChevronRight size={13} aria-hidden />}
                {group}/ <span>{t("metrics.group", { count: members.length, n: format.count(members.length) })}</span>
              </button>
            </h2>
            {isOpen ? (
              <div className={css["grid"]}>
                {chunked(members).map((part, partNo) => (
                  <WhenNear key={part[0]?.id} count={part.length} isFirst={groupNo === 0 && partNo === 0}>
                    {() =>
                      part.map((spec, no) => (
                        <WhenSeen
                          key={spec.id}
                          names={spec.names}
                          want={want}
                          isFirst={groupNo === 0 && partNo === 0 && no < numFirst}
                        >
                          {() => chart(spec)}
                        </WhenSeen>
                      ))
                    }
                  </WhenNear>
                ))}
              </div>
            ) : null}
          </section>
        );
      })}
      {full ? (
        <FullScreen title={title(full)} onClose={() => set({ full: undefined })}>
          {(height) => (
            <Wanted names={full.names} want={want}>
              {() => chart(full, height)}
            </Wanted>
          )}
        </FullScreen>
      ) : null}
    </>
  );
}

const title = (spec: ChartSpec): string =>
  spec.names.length > 1 ? `${spec.id} · ${spec.names.slice(1).join(", ")}` : spec.id;

function useWanted(names: string[], want: Props["want"], on: boolean): void {
  const key = names.join("\n");
  useEffect(() => (on ? want(key.split("\n")) : undefined), [on, key, want]);
}

function Wanted({ names, want, children }: { names: string[]; want: Props["want"]; children: () => React.ReactNode }) {
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

function chunked<T>(items: readonly T[]): T[][] {
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
function WhenNear({ count, isFirst, children }: { count: number; isFirst: boolean; children: () => React.ReactNode }) {
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
function WhenSeen({
  names,
  want,
  isFirst,
  children,
}: {
  names: string[];
  want: Props["want"];
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

interface OneProps {
  spec: ChartSpec;
  search: ChartSearch;
  source: Props["source"];
  height?: number;
  onZoom: (range: { from: number; to: number } | null) => void;
  onCommand: (command: Command) => void;
}

function OneChart({ spec, search, source, height, onZoom, onCommand }: OneProps) {
  const key = spec.names.join("\n");
  const held = useMemo(() => source(key.split("\n")), [source, key]);
  return (
    <SeriesChart
      id={height === undefined ? spec.id : `${spec.id}-full`}
      title={title(spec)}
      metric={spec.id}
      source={held}
      x={search.x}
      log={search.log}
      logX={search.logx && search.x !== "wall"}
      clip={search.clip}
      smoothing={search.smooth}
      syncKey={`charts-${search.x ?? "step"}`}
      height={height}
      onZoom={onZoom}
      onCommand={onCommand}
    />
  );
}
