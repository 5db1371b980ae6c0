// @vitest-environment node
import { expect, test } from "vitest";

import { pictureOf, toSvg } from "./export";
import type { Line } from "./series/lines";
import { pageFile } from "./pageFile";
import type { Palette } from "./palette";

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
const of = (list: number[]): Float64Array => Float64Array.from(list);
const line: Line = {
  key: "a",
  label: "loss <b>",
  color: 0,
  columns: {
    name: "train/loss",
    rank: 0,
    bucketSteps: 1,
    numPoints: 3,
    step: of([0, 50, 100]),
    timeMs: of([0, 1, 2]),
    min: of([4, 2, 1]),
    max: of([4, 2, 1]),
    mean: of([4, 2, 1]),
    last: of([4, 2, 1]),
    count: of([1, 1, 1]),
  },
};
const view = { x: "step", logX: false, logY: false, smoothing: 0, clip: false } as const;
const given = {
  title: "train/loss",
  metric: "train/loss",
  lines: [line],
  view,
  xName: "Step",
  zone: "utc" as const,
  palette,
};

test("a picture without a plot fills its area, and its axes hold all values", () => {
  const picture = pictureOf(given, { width: 560, height: 220 });
  const [x, y] = [picture.plot.scales["x"], picture.plot.scales["y"]];
  expect([x?.min, x?.max]).toEqual([0, 100]);
  expect(y?.min).toBeLessThanOrEqual(1);
  expect(y?.max).toBeGreaterThanOrEqual(4);
  expect(picture.plot.valToPos(0, "x")).toBe(0);
  expect(picture.plot.valToPos(100, "x")).toBe(picture.area.width);
  const svg = toSvg(picture, "no7");
  expect(svg).toContain('clipPath id="no7"');
  expect(svg).toContain("url(#no7)");
  expect(svg).toContain(">Step</text>");
});

test("a range set by hand is the axis, on a logarithmic one too", () => {
  const held = (range: [number | null, number | null], logY = false): unknown[] => {
    const { scales } = pictureOf({ ...given, view: { ...view, logY, y: range } }, { width: 560, height: 220 }).plot;
    return [scales["y"]?.min, scales["y"]?.max];
  };
  expect(held([1.5, 3])).toEqual([1.5, 3]);
  expect(held([1.5, 3], true)).toEqual([1.5, 3]);
  expect(held([null, 10])[1]).toBe(10);
  const [low, high] = held([50, null]) as [number, number];
  expect([low, high > 50]).toEqual([50, true]);
  const [bottom, top] = held([-1, 3], true) as [number, number];
  expect([bottom > 0, top]).toEqual([true, 3]);
});

test("the file loads nothing, runs nothing, and names are text in it", () => {
  const text = pageFile({
    title: "run </title><script>alert(1)</script>",
    lang: "en",
    facts: ["<img src=x>"],
    remarks: [],
    panels: [],
    groups: [{ title: "train/", charts: [toSvg(pictureOf(given, { width: 560, height: 220 }))] }],
    tables: [{ title: "Metrics", head: ["a"], rows: [["<i>"]] }],
    palette,
  });
  expect(text).toContain("default-src 'none'");
  for (const markup of ["<script", "<img", "<i>", "<b>", " src=", " href=", "@import", "url(http"])
    expect(text.replaceAll(/&lt;[^&]*&gt;/g, "")).not.toContain(markup);
  expect(text.match(/<svg/g)).toHaveLength(1);
});
