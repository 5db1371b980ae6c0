// @vitest-environment node
import { expect, test } from "vitest";

import type { Columns } from "../lib/series/series";
import { fileName, toCsv, toJson, toSvg } from "./export";
import { lay, type Line, type View } from "./series/lines";
import type { Palette } from "./palette";
import { roundTicks, wallTick } from "./series/ticks";

const palette: Palette = {
  series: ["#111111", "#222222", "#333333", "#444444", "#555555", "#666666"],
  text: "#000000",
  text2: "#777777",
  grid: "#eeeeee",
  line: "#cccccc",
  bad: "#ff0000",
  bg: "#ffffff",
  parts: {},
};
const VIEW: View = { x: "step", logX: false, logY: false, smoothing: 0, clip: false };

function line(step: number[], values: number[], more: Partial<Line> = {}): Line {
  const of = (list: number[]): Float64Array => Float64Array.from(list);
  const columns: Columns = {
    name: "train/loss",
    rank: 0,
    bucketSteps: 1,
    numPoints: step.length,
    step: of(step),
    timeMs: of(step.map((s) => s * 10)),
    min: of(values),
    max: of(values),
    mean: of(values),
    last: of(values),
    count: of(step.map(() => 1)),
  };
  return { key: "a", label: "loss", columns, color: 0, ...more };
}

test("a file of points keeps what is not finite", () => {
  const lines = [line([1, 2], [0.5, Number.NaN], { label: 'a,"b"' })];
  expect(toCsv(lines).split("\n")).toEqual([
    "line,metric,rank,step,time_ms,mean,min,max,last,count",
    '"a,""b""",train/loss,0,1,10,0.5,0.5,0.5,0.5,1',
    '"a,""b""",train/loss,0,2,20,NaN,NaN,NaN,NaN,1',
    "",
  ]);
  const parsed = JSON.parse(toJson("t", lines)) as { series: { mean: unknown[] }[] };
  expect(parsed.series[0]?.mean).toEqual([0.5, "NaN"]);
});

test("a picture has a line per curve, broken where nothing can be drawn, and its words escaped", () => {
  const scale = { min: 0, max: 10 };
  const svg = toSvg({
    title: "a<b",
    metric: "train/loss",
    lines: [line([1, 2, 3, 4], [1, Number.NaN, 3, 4]), line([2, 4], [1, 2], { label: "mean", color: 1, band: true })],
    view: VIEW,
    xName: "Step",
    zone: "utc",
    palette,
    plot: { width: 400, height: 200, scales: { x: scale, y: scale }, valToPos: (value: number) => value * 10 },
    area: { left: 50, top: 6, width: 340, height: 170 },
  });
  expect(svg).toContain("a&lt;b");
  const paths = [...svg.matchAll(/<path d="([^"]*)"/g)].map((match) => match[1] ?? "");
  expect(paths.map((path) => path.split("M").length - 1)).toEqual([2, 1]);
  expect(svg.match(/<polygon/g)).toHaveLength(1);
});

test("a logarithmic axis leaves out what is not above zero", () => {
  const laid = lay([line([0, 1, 2], [0, 5, 6])], { ...VIEW, logX: true, logY: true });
  expect([...laid.data[0]]).toEqual([1, 2]);
  expect(laid.data[1]).toEqual([5, 6]);
});

test("smoothing keeps the raw column of a single noisy curve and the band of a mean", () => {
  const steps = Array.from({ length: 20 }, (_, i) => i);
  const noisy = steps.map((step) => (step * 7) % 5);
  const lines = [line(steps, noisy), line(steps, noisy, { band: true }), line(steps, steps)];
  const laid = lay(lines, { ...VIEW, smoothing: 0.6 });
  expect(laid.raws).toEqual([true, false, false]);
  expect(laid.bands).toEqual([false, true, false]);
  expect(laid.data).toHaveLength(1 + 2 + 3 + 1);
});

test("ticks are round, and midnight is a date", () => {
  expect(roundTicks(0, 10)).toEqual([0, 2, 4, 6, 8, 10]);
  expect(roundTicks(0.13, 0.14)).toEqual([0.13, 0.132, 0.134, 0.136, 0.138, 0.14]);
  expect(roundTicks(5, 5)).toEqual([5]);
  expect(wallTick(Date.UTC(2026, 10, 21), "utc", false)).toBe("11-21");
  expect(wallTick(Date.UTC(2026, 10, 21, 14, 2), "utc", false)).toBe("14:02");
  expect(fileName("train/loss · val/loss")).toBe("train-loss-val-loss");
});
