import { Button } from "@mantine/core";
import { IconChevronDown, IconChevronRight, IconGripVertical } from "@tabler/icons-react";
import { type DragEvent, useMemo } from "react";
import { useTranslation } from "react-i18next";

import { Empty } from "../components/basics";
import * as format from "../lib/format";
import { usePref } from "../lib/prefs";
import { type ChartSpec, UNGROUPED } from "../lib/series/series";
import css from "./chart.module.css";
import { arranged, pinned, PINNED, placed, readLayout } from "./chartLayout";
import type { Arranging } from "./series/ChartMenu";
import type { ChartSearch } from "./chartSearch";
import { type Command, FullScreen, SeriesChart, type Source } from "./series/SeriesChart";
import { type Tile, Tiles } from "./Tiles";
import { useLook } from "./useLook";
import { chunked, firstCharts, type Want, Wanted, WhenNear, WhenSeen } from "./whenSeen";
import { readRanges, withRange, type YRange } from "./series/yRanges";

interface Props {
  specs: ChartSpec[];
  search: ChartSearch;
  set: (change: ChartSearch) => void;
  want: Want;
  /** Must be stable: a new one draws every chart again. */
  source: (names: string[]) => Source;
  /** The values of a metric that has one only: they stand as numbers above the charts of their group. Null: it is a curve. */
  single?: (spec: ChartSpec) => Tile[] | null;
}

/** Charts by the prefix of their metrics, those that the search finds; those that were pinned come first. */
export function ChartGrid({ specs, search, set, want, source, single }: Props) {
  const { t } = useTranslation();
  const [kept, keep] = usePref("charts.layout");
  const { smoothing, command } = useLook(search, set);
  const layout = useMemo(() => readLayout(kept), [kept]);
  const ranges = useMemo(() => readRanges(search.yr), [search.yr]);
  const text = search.find?.toLowerCase() ?? "";
  const groups = useMemo(() => {
    const isFound = (spec: ChartSpec): boolean => spec.names.some((name) => name.toLowerCase().includes(text));
    return arranged(text ? specs.filter(isFound) : specs, layout);
  }, [specs, text, layout]);
  const closed = new Set(search.closed?.split(",") ?? []);
  const fold = (group: string): void => {
    const next = closed.has(group) ? [...closed].filter((name) => name !== group) : [...closed, group];
    set({ closed: next.length > 0 ? next.join(",") : undefined });
  };
  const place = (group: string, ids: string[], id: string, at: number): void =>
    keep(JSON.stringify(placed(layout, group, ids, id, at)));
  const look = { search, source, smoothing };
  const of = (spec: ChartSpec) => ({
    spec,
    yRange: ranges.get(spec.id) ?? null,
    onYRange: (range: YRange | null) => set({ yr: withRange(search.yr, spec.id, range) }),
    onZoom: (range: { from: number; to: number } | null) => set({ from: range?.from, to: range?.to }),
    onCommand: (what: Command) => command(spec.id, what),
  });
  const full = specs.find((spec) => spec.id === search.full);
  if (groups.size === 0) {
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
      {[...groups].map(([group, members], no) => (
        <Group
          key={group}
          group={group}
          members={members}
          isFirst={no === 0}
          isOpen={!closed.has(group) || text !== ""}
          onFold={text === "" ? () => fold(group) : null}
          want={want}
          single={single}
          onPlace={(ids, id, at) => place(group, ids, id, at)}
          chart={(spec, arranging, handle) => (
            <OneChart
              {...look}
              {...of(spec)}
              handle={handle}
              arranging={{
                ...arranging,
                isPinned: group === PINNED,
                onPin: () => keep(JSON.stringify(pinned(layout, spec.id))),
              }}
            />
          )}
        />
      ))}
      {full ? (
        <FullScreen title={title(full)} onClose={() => set({ full: undefined })}>
          {(height) => (
            <Wanted names={full.names} want={want}>
              {() => <OneChart {...look} {...of(full)} height={height} />}
            </Wanted>
          )}
        </FullScreen>
      ) : null}
    </>
  );
}

const title = (spec: ChartSpec): string => spec.title ?? spec.id;

/** Of a chart that is dragged to another place. */
const DRAGGED = "application/x-muster-chart";

interface GroupProps {
  group: string;
  members: ChartSpec[];
  isFirst: boolean;
  isOpen: boolean;
  /** Null: it cannot be folded. */
  onFold: (() => void) | null;
  want: Want;
  single: Props["single"];
  onPlace: (ids: string[], id: string, at: number) => void;
  chart: (
    spec: ChartSpec,
    arranging: Pick<Arranging, "onEarlier" | "onLater">,
    handle: React.ReactNode,
  ) => React.ReactNode;
}

/** What the names in a group begin with: those of `val/` stand in the group of `train/`. */
function prefixes(members: readonly ChartSpec[]): string {
  return [...new Set(members.map(({ id }) => id.slice(0, id.indexOf("/") + 1)))].join(", ");
}

/** A heading, the numbers below it, and the charts. */
function Group({ group, members, isFirst, isOpen, onFold, want, single, onPlace, chart }: GroupProps) {
  const { t } = useTranslation();
  const tiles = members.map((spec) => ({ spec, values: single?.(spec) ?? null }));
  const charts = tiles.filter(({ values }) => values === null).map(({ spec }) => spec);
  const ids = charts.map((spec) => spec.id);
  const numFirst = useMemo(() => firstCharts(), []);
  const move = (id: string, by: number): void => onPlace(ids, id, ids.indexOf(id) + by);
  const cell = (spec: ChartSpec) => {
    const at = ids.indexOf(spec.id);
    const moves = {
      onEarlier: at > 0 ? () => move(spec.id, -1) : null,
      onLater: at < ids.length - 1 ? () => move(spec.id, 1) : null,
    };
    return (
      <DropPlace group={group} onDrop={(id) => (ids.includes(id) ? onPlace(ids, id, at) : undefined)}>
        {chart(spec, moves, ids.length > 1 ? <Handle id={spec.id} group={group} /> : null)}
      </DropPlace>
    );
  };
  return (
    <section className={css["group"]}>
      <h2>
        <button
          type="button"
          className={css["fold"]}
          aria-expanded={isOpen}
          onClick={() => onFold?.()}
          disabled={onFold === null}
        >
          {isOpen ? <IconChevronDown size={13} aria-hidden /> : <IconChevronRight size={13} aria-hidden />}
          {group === PINNED
            ? t("metrics.pinned")
            : group === UNGROUPED
              ? t("metrics.ungrouped")
              : prefixes(members)}{" "}
          <span>{t("metrics.group", { count: members.length, n: format.count(members.length) })}</span>
        </button>
      </h2>
      {isOpen ? <Tiles tiles={tiles.flatMap(({ spec, values }) => (values ? [{ id: spec.id, values }] : []))} /> : null}
      {isOpen ? (
        <div className={css["grid"]}>
          {chunked(charts).map((part, partNo) => (
            // oxlint-disable-next-line react/no-array-index-key -- a chart that moves must not make its chunk again
            <WhenNear key={partNo} count={part.length} isFirst={isFirst && partNo === 0}>
              {() =>
                part.map((spec, no) => (
                  <WhenSeen
                    key={spec.id}
                    names={spec.names}
                    want={want}
                    isFirst={isFirst && partNo === 0 && no < numFirst}
                  >
                    {() => cell(spec)}
                  </WhenSeen>
                ))
              }
            </WhenNear>
          ))}
        </div>
      ) : null}
    </section>
  );
}

/** What a chart is dragged by; the menu moves it too. */
function Handle({ id, group }: { id: string; group: string }) {
  const { t } = useTranslation();
  return (
    <span
      className={css["handle"]}
      draggable
      title={t("chart.drag")}
      aria-hidden
      onDragStart={(event) => {
        event.dataTransfer.setData(DRAGGED, JSON.stringify({ id, group }));
        event.dataTransfer.effectAllowed = "move";
        const figure = event.currentTarget.closest("figure");
        if (figure) event.dataTransfer.setDragImage(figure, 20, 20);
      }}
    >
      <IconGripVertical size={14} />
    </span>
  );
}

function DropPlace({
  group,
  onDrop,
  children,
}: {
  group: string;
  onDrop: (id: string) => void;
  children: React.ReactNode;
}) {
  const allow = (event: DragEvent): void => {
    if (event.dataTransfer.types.includes(DRAGGED)) event.preventDefault();
  };
  const take = (event: DragEvent): void => {
    const text = event.dataTransfer.getData(DRAGGED);
    if (text === "") return;
    event.preventDefault();
    const dragged = JSON.parse(text) as { id: string; group: string };
    if (dragged.group === group) onDrop(dragged.id);
  };
  return (
    <div className={css["drop"]} onDragOver={allow} onDrop={take}>
      {children}
    </div>
  );
}

interface OneProps {
  spec: ChartSpec;
  search: ChartSearch;
  source: Props["source"];
  smoothing: number;
  height?: number;
  yRange: YRange | null;
  onYRange: (range: YRange | null) => void;
  onZoom: (range: { from: number; to: number } | null) => void;
  onCommand: (command: Command) => void;
  arranging?: Arranging;
  handle?: React.ReactNode;
}

function OneChart({ spec, search, source, smoothing, height, ...rest }: OneProps) {
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
      smoothing={smoothing}
      syncKey={`charts-${search.x ?? "step"}`}
      height={height}
      {...rest}
    />
  );
}
