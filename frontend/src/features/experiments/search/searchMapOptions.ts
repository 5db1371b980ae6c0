/** What ECharts draws of a search besides its clouds of points: map, timeline and bars. Pure. */
import type { EChartsOption } from "../../../charts/echarts";
import type { Theme } from "../../../charts/EChart";
import { alpha } from "../../../charts/palette";
import * as format from "../../../lib/format";
import { type Kind, kindColor, placeAxis, timeTicksOf } from "./searchOptions";
import type { Bar, Cell } from "./searchMaps";

/** Fields of a grid coloured from the worst to the best; names stand on the low side of a field. */
export function contourOption(
  theme: Theme,
  cells: readonly Cell[],
  goodness: (value: number) => number,
  across: readonly string[],
  up: readonly string[],
  names: [string, string],
): EChartsOption {
  const axis = (words: readonly string[], name: string) => ({
    type: "category" as const,
    data: [...words],
    name,
    nameLocation: "middle" as const,
    nameTextStyle: { color: theme.text, fontSize: 11 },
    axisLine: { lineStyle: { color: theme.line } },
    axisTick: { show: false },
    axisLabel: { color: theme.text2, fontSize: 11, hideOverlap: true },
    splitArea: { show: false },
  });
  return {
    grid: { left: 78, right: 18, top: 10, bottom: 44 },
    xAxis: { ...axis(across, names[0]), nameGap: 28 },
    yAxis: { ...axis(up, names[1]), nameGap: 58 },
    visualMap: { type: "continuous", show: false, min: 0, max: 1, dimension: 2, inRange: { color: [...theme.scale] } },
    series: [
      {
        type: "heatmap",
        itemStyle: { borderColor: theme.bg, borderWidth: 1 },
        emphasis: { itemStyle: { borderColor: theme.text, borderWidth: 2 } },
        data: cells.map((cell) => [cell.column, cell.row, goodness(cell.best)]),
      },
    ],
  } as EChartsOption;
}

export interface Lane {
  kind: Kind;
  bars: Bar[];
}

/** Bars in lanes over the seconds since `from` (ms); a series per kind, those a brush leaves out pale. */
export function timelineOption(
  theme: Theme,
  kinds: readonly Lane[],
  from: number,
  to: number,
  lanes: number,
): EChartsOption {
  const seconds = { name: "", column: -1, log: false, choices: [], low: 0, high: (to - from) / 1000 };
  const ticks = timeTicksOf(seconds);
  const x = placeAxis(ticks, theme);
  return {
    grid: { left: 44, right: 24, top: 8, bottom: 26 },
    xAxis: { ...x, min: 0, max: 1 },
    yAxis: {
      type: "value",
      inverse: true,
      min: -0.5,
      max: lanes - 0.5,
      axisLine: { show: false },
      axisTick: { show: false, customValues: [0, lanes - 1] },
      splitLine: { show: false },
      axisLabel: {
        color: theme.text2,
        fontSize: 11,
        customValues: [0, lanes - 1],
        formatter: (value: number) => String(value + 1),
      },
    },
    series: kinds.map(({ kind, bars }) => ({
      type: "custom",
      clip: true,
      progressive: 2000,
      itemStyle: { color: kindColor(kind, theme) },
      dimensions: ["from", "to", "lane"],
      encode: { x: [0, 1], y: 2 },
      data: bars.map((bar) => [(bar.from - from) / (to - from), (bar.to - from) / (to - from), bar.lane]),
      renderItem: (
        _params: unknown,
        api: {
          value: (dim: number) => number;
          coord: (at: number[]) => number[];
          size: (by: number[]) => number[];
          visual: (name: string) => string;
        },
      ) => {
        const [left = 0, y = 0] = api.coord([api.value(0), api.value(2)]);
        const [right = 0] = api.coord([api.value(1), api.value(2)]);
        const lane = api.size([0, 1])[1] ?? 1;
        const height = Math.max(1, lane > 4 ? lane - 1.5 : lane);
        return {
          type: "rect",
          shape: { x: left, y: y - height / 2, width: Math.max(1, right - left), height },
          style: { fill: api.visual("color") },
        };
      },
    })),
  } as unknown as EChartsOption;
}

/** Shares, the greatest at the top. */
export function importanceOption(theme: Theme, shares: readonly [string, number][]): EChartsOption {
  const longest = Math.max(0, ...shares.map(([name]) => name.length));
  return {
    grid: { left: Math.min(220, 16 + longest * 6.6), right: 56, top: 4, bottom: 4 },
    xAxis: { type: "value", show: false, min: 0 },
    yAxis: {
      type: "category",
      inverse: true,
      data: shares.map(([name]) => name),
      axisLine: { show: false },
      axisTick: { show: false },
      axisLabel: { color: theme.text, fontSize: 12, interval: 0, overflow: "truncate", width: 200 },
    },
    series: [
      {
        type: "bar",
        barMaxWidth: 16,
        itemStyle: { color: alpha(theme.series[0] ?? theme.text, 0.9) },
        label: {
          show: true,
          position: "right",
          color: theme.text,
          formatter: (one: { value: number }) => format.pct(one.value),
        },
        data: shares.map(([, share]) => share),
      },
    ],
  } as unknown as EChartsOption;
}
