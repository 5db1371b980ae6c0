/** What ECharts draws of a search. Pure. Places on axes are 0 to 1, so that every kind of axis is alike. */
import type { EChartsOption } from "../../../charts/echarts";
import type { Spot, Theme } from "../../../charts/EChart";
import { alpha } from "../../../charts/palette";
import type { Dot } from "../../../charts/svgFile";
import * as format from "../../../lib/format";
import { roundTicks } from "./rungs";
import { ABSENT, type Axis, place, type Results, scaled } from "./searchData";

const MANY = 2000;
const NAME_WIDTH = 86;

export interface Tick {
  at: number;
  label: string;
}

/** Where an axis has words: its choices, or round numbers. */
export function ticksOf(
  axis: Axis,
  text: (value: number) => string = (value) => format.num(value, 3),
  steps: readonly number[] = [],
): Tick[] {
  if (axis.choices.length > 0) return axis.choices.map((label, i) => ({ at: scaled(axis, i), label }));
  const round = roundTicks(axis.low, axis.high, axis.log, steps);
  const whole = axis.isInteger ? round.filter(Number.isInteger) : round;
  const values = axis.levels && axis.levels.length > 0 ? axis.levels : whole;
  return values.map((value) => ({ at: scaled(axis, value), label: text(value) }));
}

/** Ticks of an axis of seconds, at round minutes and hours. */
export const timeTicksOf = (axis: Axis): Tick[] => ticksOf(axis, format.seconds, format.DURATION_STEPS_S);

/** Whether some trial of these has no value on this axis. */
export const hasAbsent = (
  axis: Axis,
  results: Results,
  metric: (number | null)[],
  indices: readonly number[],
): boolean => indices.some((index) => place(axis, results, metric, index) === null);

interface Look {
  absent?: boolean;
  name?: string;
  lines?: boolean;
}

/** An axis of places with ticks of its own; `absent`: with one below for trials that have no value. */
export function placeAxis(ticks: readonly Tick[], theme: Theme, { absent = false, name, lines = false }: Look = {}) {
  const all = absent ? [{ at: ABSENT, label: "–" }, ...ticks] : ticks;
  const customValues = all.map((tick) => tick.at);
  const word = (value: number): string =>
    all.reduce((a, b) => (Math.abs(b.at - value) < Math.abs(a.at - value) ? b : a), {
      at: Number.POSITIVE_INFINITY,
      label: "",
    }).label;
  return {
    type: "value" as const,
    min: absent ? ABSENT - 0.03 : -0.03,
    max: 1.03,
    ...(name === undefined ? {} : { name, nameTextStyle: { color: theme.text2, fontSize: 11 } }),
    axisLine: { show: !lines, lineStyle: { color: theme.line } },
    axisTick: { show: !lines, customValues },
    splitLine: { show: lines, lineStyle: { color: theme.grid } },
    axisLabel: { color: theme.text2, fontSize: 11, customValues, hideOverlap: true, formatter: word },
  };
}

export type Kind = "completed" | "stopped" | "failed" | "running" | "outside";

const SYMBOLS: Record<Kind, Dot> = {
  completed: "circle",
  stopped: "triangle",
  failed: "rect",
  running: "diamond",
  outside: "circle",
};
/** As CSS, for the legend. */
export const KIND_COLORS: Record<Kind, string> = {
  completed: "var(--series-0)",
  stopped: "var(--text-2)",
  failed: "var(--bad)",
  running: "var(--series-1)",
  outside: "var(--line-strong)",
};
const KINDS: readonly Kind[] = ["outside", "stopped", "failed", "running", "completed"];

export const symbolOf = (kind: Kind): Dot => SYMBOLS[kind];

export function kindOf(state: string): Kind {
  if (state === "COMPLETED") return "completed";
  if (state === "STOPPED_EARLY") return "stopped";
  return state === "FAILED" || state === "CANCELED" ? "failed" : "running";
}

export function kindColor(kind: Kind, theme: Theme): string {
  if (kind === "completed") return alpha(theme.series[0] ?? theme.text, 0.85);
  if (kind === "stopped") return alpha(theme.text2, 0.6);
  if (kind === "failed") return theme.bad;
  return kind === "running" ? (theme.series[1] ?? theme.text) : alpha(theme.text2, 0.15);
}

export interface Point {
  /** Of the trial in the results. */
  index: number;
  x: number;
  y: number;
}

export interface Cloud {
  kind: Kind;
  points: Point[];
}

/** Points by what became of their trials; those that a brush leaves out are apart. None is empty. */
export function clouds(points: readonly Point[], results: Results, kept: ReadonlySet<number> | null): Cloud[] {
  const by = new Map<Kind, Point[]>();
  for (const point of points) {
    const kind = kept && !kept.has(point.index) ? "outside" : kindOf(results.state[point.index] ?? "");
    const found = by.get(kind);
    if (found) found.push(point);
    else by.set(kind, [point]);
  }
  return KINDS.flatMap((kind) => (by.has(kind) ? [{ kind, points: by.get(kind) ?? [] }] : []));
}

/** The points for the arrow keys: from left to right, without those a brush leaves out. */
export function spotsOf(all: readonly Cloud[]): Spot[] {
  return all
    .flatMap(({ kind, points }, series) =>
      kind === "outside" ? [] : points.map((point, index): Spot => ({ series, index, at: [point.x, point.y] })),
    )
    .toSorted((a, b) => (a.at?.[0] ?? 0) - (b.at?.[0] ?? 0) || (a.at?.[1] ?? 0) - (b.at?.[1] ?? 0));
}

const GRID = { left: 64, right: 18, top: 14, bottom: 26 };

/** Clouds over two axes of places, and a line through some. Series are the clouds in their order. */
export function scatterOption(
  theme: Theme,
  all: readonly Cloud[],
  x: ReturnType<typeof placeAxis>,
  y: ReturnType<typeof placeAxis>,
  line: readonly [number, number][],
  isStep: boolean,
): EChartsOption {
  const count = all.reduce((sum, cloud) => sum + cloud.points.length, 0);
  return {
    grid: GRID,
    xAxis: x,
    yAxis: y,
    series: [
      ...all.map(({ kind, points }) => ({
        type: "scatter" as const,
        symbol: SYMBOLS[kind],
        symbolSize: count > MANY ? 3.5 : 8,
        itemStyle: { color: kindColor(kind, theme) },
        large: true,
        largeThreshold: MANY,
        silent: kind === "outside",
        data: points.map((point) => [point.x, point.y]),
      })),
      ...(line.length > 0
        ? [
            {
              type: "line" as const,
              silent: true,
              showSymbol: false,
              ...(isStep ? { step: "end" as const } : {}),
              lineStyle: { color: theme.series[1] ?? theme.text, width: 2 },
              itemStyle: { color: theme.series[1] ?? theme.text },
              z: 3,
              data: line.map((at) => [...at]),
            },
          ]
        : []),
    ],
  } as EChartsOption;
}

/** The corners of the best so far: where it got better, and its end. */
export function corners(steps: readonly { x: number; y: number }[]): [number, number][] {
  return steps.flatMap(({ x, y }, i): [number, number][] =>
    i === 0 || i === steps.length - 1 || steps[i - 1]?.y !== y ? [[x, y]] : [],
  );
}

export interface ParallelAxisLook {
  axis: Axis;
  flipped: boolean;
  absent: boolean;
}

/**
 * A line per trial, worst first so that the best lies on top; `lines` are places, a column per axis; `colors`: from 0 for
 * the worst to 1.
 */
export function parallelOption(
  theme: Theme,
  looks: readonly ParallelAxisLook[],
  lines: readonly number[][],
  colors: readonly number[],
): EChartsOption {
  // Many lines are drawn pale, or they would be one blot.
  const opacity = Math.max(0.15, Math.min(0.8, 150 / Math.max(1, lines.length)));
  return {
    parallel: { left: 54, right: 70, top: 34, bottom: 16 },
    parallelAxis: looks.map(({ axis, flipped, absent }, dim) => ({
      ...placeAxis(ticksOf(axis), theme, { absent }),
      id: axis.name,
      dim,
      name: axis.name,
      nameLocation: "end",
      nameGap: 12,
      nameTextStyle: { color: theme.text, fontSize: 11, fontWeight: axis.column < 0 ? 600 : 400 },
      nameTruncate: { maxWidth: NAME_WIDTH },
      inverse: flipped,
      triggerEvent: true,
      realtime: false,
      axisLine: { lineStyle: { color: theme.line } },
      axisLabel: {
        ...placeAxis(ticksOf(axis), theme, { absent }).axisLabel,
        textBorderColor: theme.bg,
        textBorderWidth: 3,
      },
      areaSelectStyle: {
        width: 16,
        borderWidth: 1,
        borderColor: theme.series[1] ?? theme.text,
        color: theme.series[1] ?? theme.text,
        opacity: 0.3,
      },
    })),
    visualMap: {
      type: "continuous",
      show: false,
      // Behind the places: no axis is of it.
      dimension: looks.length,
      min: 0,
      max: 1,
      inRange: { color: theme.scale },
    },
    series: [
      {
        type: "parallel",
        lineStyle: { width: 1.2, opacity },
        inactiveOpacity: lines.length > MANY ? 0.01 : 0.04,
        activeOpacity: Math.min(1, opacity * 2),
        progressive: 1000,
        emphasis: { lineStyle: { width: 3, opacity: 1 } },
        data: lines.map((line, i) => ({ value: [...line, colors[i] ?? 0] })),
      },
    ],
  } as EChartsOption;
}
