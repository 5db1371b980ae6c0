// @vitest-environment node
import { expect, test } from "vitest";

import { grownAt, meanOver, middle, moved, outside, placeOf, stepOfGrown, stepsWithin, xOf, yRange } from "./axis";
import type { Columns } from "./series";

function columns(step: number[], mean: number[], timeMs = step.map((s) => s * 1000)): Columns {
  const of = (values: number[]): Float64Array => Float64Array.from(values);
  return {
    name: "train/loss",
    rank: 0,
    bucketSteps: 1,
    numPoints: step.length,
    step: of(step),
    timeMs: of(timeMs),
    min: of(mean),
    max: of(mean),
    mean: of(mean),
    last: of(mean),
    count: of(step.map(() => 1)),
  };
}

test("x is the step, the seconds since the start or the instant, and always ascends", () => {
  const c = columns([1, 2, 3], [5, 6, 7], [5000, 5000, 4000]);
  expect([...xOf(c, "step")]).toEqual([1, 2, 3]);
  const relative = xOf(c, "relative", { startMs: 4000 });
  expect(relative[0]).toBe(1);
  for (const kind of ["relative", "wall"] as const) {
    const x = xOf(c, kind, { startMs: 4000 });
    expect([...x].every((v, i) => i === 0 || v > (x[i - 1] ?? 0))).toBe(true);
  }
});

test("epochs and samples follow what is known at some steps, and go on in proportion", () => {
  const batchDoubled = { step: [10, 20], value: [320, 960] };
  expect([5, 10, 15, 20, 40].map((step) => grownAt(batchDoubled, step))).toEqual([160, 320, 640, 960, 1920]);
  const constant = { step: [1], value: [32] };
  expect([...xOf(columns([1, 2, 50], [0, 0, 0]), "samples", { growing: constant })]).toEqual([32, 64, 1600]);
  expect([...xOf(columns([3, 7], [0, 0]), "seconds", { growing: { step: [3, 7], value: [3.5, 7.25] } })]).toEqual([
    3.5, 7.25,
  ]);
  expect(xOf(columns([1, 2], [0, 0]), "epoch").length).toBe(0);
  const standing = xOf(columns([1, 2, 3], [0, 0, 0]), "samples", { growing: { step: [1, 2, 3], value: [8, 8, 8] } });
  expect(standing[0]).toBeLessThan(standing[1] ?? 0);
  expect(standing[1]).toBeLessThan(standing[2] ?? 0);
  for (const value of [0, 31, 32, 700, 5000]) {
    const step = stepOfGrown(batchDoubled, value);
    expect(grownAt(batchDoubled, step)).toBeLessThanOrEqual(value);
    expect(grownAt(batchDoubled, step + 1)).toBeGreaterThan(value);
  }
});

test("a step between two entries stands between them, one outside nowhere", () => {
  const c = columns([10, 20], [1, 1]);
  expect(placeOf(15, c, xOf(c, "relative"))).toBe(15);
  expect(placeOf(20, c, xOf(c, "relative"))).toBe(20);
  expect(placeOf(5, c, c.step)).toBeNull();
  expect(placeOf(25, c, c.step)).toBeNull();
});

test("a window of time is the steps around it", () => {
  const c = columns([1, 2, 3, 4, 5], [0, 0, 0, 0, 0]);
  expect(stepsWithin(c, 1500, 3500)).toEqual({ from: 1, to: 4 });
  expect(stepsWithin(c, undefined, 2000)).toEqual({ from: undefined, to: 3 });
  expect(stepsWithin(c, 2000, 9000)).toEqual({ from: 2, to: undefined });
  expect(stepsWithin(columns([], []), 1, 2)).toEqual({});
});

test("a mean holds the latest value of each curve between its first and its last step", () => {
  const mean = meanOver([columns([0, 10, 20], [1, 2, 3]), columns([5, 15], [10, Number.NaN])]);
  expect([...mean.step]).toEqual([0, 5, 10, 15, 20]);
  expect([...mean.mean]).toEqual([1, 5.5, 6, 2, 3]);
  expect([...mean.min]).toEqual([1, 1, 2, 2, 3]);
  expect([...mean.max]).toEqual([1, 10, 10, 2, 3]);
  expect([...mean.count]).toEqual([1, 2, 2, 2, 1]);
  expect(mean.last[3]).toBeNaN();
  expect(mean.numPoints).toBe(5);
});

test("the middle leaves a twentieth out at either end, and few values are left alone", () => {
  const values = Array.from({ length: 100 }, (_, i) => i);
  expect(middle([values])).toEqual([5, 94]);
  expect(outside([[...values, null, undefined]], [5, 94])).toBe(10);
  expect(middle([values.slice(0, 10)])).toBeNull();
  expect(middle([values.map(() => 1)])).toBeNull();
});

test("an axis has air, and a logarithmic one no zero", () => {
  expect(yRange(0, 10, false)).toEqual([0, 10.6]);
  expect(yRange(3, 3, false)).toEqual([2.7, 3.3]);
  // Means of equal values that differ in the last digit.
  expect(yRange(5e-5, 5.000000000000001e-5, false)[0]).toBeCloseTo(4.5e-5, 10);
  const [low, high] = yRange(0.01, 1, true);
  expect(low).toBeGreaterThan(0);
  expect(low).toBeLessThan(0.01);
  expect(high).toBeGreaterThan(1);
  expect(yRange(null, null, true)).toEqual([0.1, 1]);
});

test("a window zooms around the cursor and does not move below its least", () => {
  expect(moved({ from: 0, to: 100 }, "in", 25)).toEqual({ from: 12.5, to: 62.5 });
  expect(moved({ from: 10, to: 50 }, "left", 0)).toEqual({ from: 0, to: 40 });
  expect(moved({ from: 10, to: 50 }, "right", 0)).toEqual({ from: 20, to: 60 });
  expect(moved({ from: 10, to: 50 }, "out", 30)).toEqual({ from: 0, to: 80 });
});
