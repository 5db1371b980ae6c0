// @vitest-environment node
import { describe, expect, test } from "vitest";

import type { Schemas } from "../../api/client";
import {
  alignTo,
  chartSpecs,
  compareSpecs,
  type Columns,
  indexAt,
  logTicks,
  mergeTail,
  nonFinite,
  isNoiseless,
  smooth,
  tailStart,
  stepsOf,
  toColumns,
  UNGROUPED,
  unionSteps,
} from "./series";

function series(steps: number[], values: (number | "NaN" | "Infinity")[], bucket = 1): Schemas["Series"] {
  return {
    name: "train/loss",
    rank: 0,
    attempts: [{ no: 1, first_step: 0 }],
    raw: bucket === 1,
    bucket_steps: bucket,
    num_points: steps.length * bucket,
    downsampled: false,
    step: steps,
    time_ms: steps.map(() => 0),
    min: values,
    max: values,
    mean: values,
    last: values,
    count: steps.map(() => bucket),
  };
}
const columns = (steps: number[], values: (number | "NaN" | "Infinity")[], bucket = 1): Columns =>
  toColumns(series(steps, values, bucket));

describe("merging a refresh", () => {
  test("the unfinished bucket is replaced and nothing is counted twice", () => {
    const head = columns([3, 7, 9], [1, 2, 3], 4);
    expect(tailStart(head)).toBe(8);
    const merged = mergeTail(head, columns([11, 13], [4, 5], 4), 8);
    expect([...merged.step]).toEqual([3, 7, 11, 13]);
    expect([...merged.mean]).toEqual([1, 2, 4, 5]);
    expect(merged.numPoints).toBe(16);
  });
  test("raw points: the last one is asked for again", () => {
    const head = columns([1, 2, 3], [1, 1, 1]);
    expect(tailStart(head)).toBe(3);
    expect([...mergeTail(head, columns([3, 4], [1, 2]), 3).step]).toEqual([1, 2, 3, 4]);
  });
  test("an empty head takes the tail whole", () => {
    expect([...mergeTail(columns([], []), columns([1], [5]), 0).step]).toEqual([1]);
  });
});

describe("laying out on a common axis", () => {
  test("the union is sorted, as numbers", () => {
    expect([...unionSteps([columns([1, 10, 100], [1, 1, 1]), columns([9, 10], [1, 1])])]).toEqual([1, 9, 10, 100]);
  });
  test("absent points go on, not finite ones break the line", () => {
    const x = Float64Array.from([1, 2, 3, 4]);
    const c = columns([2, 3, 4], [5, "NaN", 6]);
    expect(alignTo(x, c.step, c.mean)).toEqual([undefined, 5, null, 6]);
  });
  test("a log axis cannot show zero", () => {
    const c = columns([1, 2], [0, 3]);
    expect(alignTo(c.step, c.step, c.mean, true)).toEqual([null, 3]);
  });
});

describe("smoothing", () => {
  test("off is the identity, a constant stays constant", () => {
    expect([...smooth([1, 2, 3], [1, 5, 2], 0)]).toEqual([1, 5, 2]);
    const lr = 5e-5;
    const steps = Array.from({ length: 300 }, (_, i) => i * 3);
    for (const v of smooth(
      steps,
      Array.from({ length: 300 }, () => lr),
      0.9,
    ))
      expect(v).toBe(lr);
  });
  test("a schedule is no noise, a loss is", () => {
    const at = Array.from({ length: 200 }, (_, i) => i);
    expect(isNoiseless(at.map((i) => (i < 20 ? i / 20 : (200 - i) / 180)))).toBe(true);
    expect(isNoiseless(at.map((i) => Math.floor(i / 25)))).toBe(true);
    expect(isNoiseless(at.map((i) => 1 / (i + 1) + 0.1 * Math.sin(i * i)))).toBe(false);
  });
  test("NaN passes through without poisoning the rest", () => {
    const out = smooth([1, 2, 3, 4], [2, Number.NaN, 2, 2], 0.9);
    expect(out[1]).toBeNaN();
    expect(out[3]).toBeCloseTo(2, 10);
  });
  test("it does not depend on the sampling level", () => {
    const dense = Array.from({ length: 1001 }, (_, i) => i);
    const values = dense.map((i) => Math.sin(i / 150));
    const thin = dense.filter((i) => i % 4 === 0);
    const a = smooth(dense, values, 0.97);
    const b = smooth(
      thin,
      thin.map((i) => values[i] ?? 0),
      0.97,
    );
    expect(Math.abs((a[1000] ?? 0) - (b.at(-1) ?? 0))).toBeLessThan(0.05);
  });
});

test("values that are not finite are found with their step", () => {
  expect(nonFinite(columns([1, 2, 3], [1, "NaN", "Infinity"]))).toEqual([
    { step: 2, kind: "NaN" },
    { step: 3, kind: "∞" },
  ]);
});

test("the entry at or before a step", () => {
  expect(indexAt([2, 4, 6], 1)).toBe(-1);
  expect(indexAt([2, 4, 6], 4)).toBe(1);
  expect(indexAt([2, 4, 6], 99)).toBe(2);
});

test("log ticks are few and inside", () => {
  expect(logTicks(1e-6, 10)).toEqual([1e-6, 1e-4, 1e-2, 1]);
  expect(logTicks(0.15, 8)).toEqual([0.2, 0.5, 1, 2, 5]);
  expect(logTicks(0, 1)).toEqual([]);
});

test("charts: loss first, validation on its training chart, groups in order", () => {
  const specs = chartSpecs(["comm/bytes", "val/loss", "train/lr", "train/loss", "val/only", "custom", "time/step_ms"]);
  expect(specs.map((s) => s.names.join("+"))).toEqual([
    "train/loss+val/loss",
    "train/lr",
    "val/only",
    "custom",
    "comm/bytes",
    "time/step_ms",
  ]);
});

test("compare: further runs of a trial are on the chart of their metric", () => {
  const logged = ["run-10/loss", "val/loss", "run-2/loss", "loss", "run-2/only"];
  const specs = compareSpecs(logged, new Set(["run-2", "run-10"]));
  expect(specs.map(({ id, names }) => [id, names.join("+")])).toEqual([
    ["val/loss", "val/loss"],
    ["loss", "loss+run-2/loss+run-10/loss"],
    ["only", "run-2/only"],
  ]);
  expect(
    compareSpecs(logged).map(({ names }) => names.length),
    "names of the script's own are no runs",
  ).toEqual([1, 1, 1, 1, 1]);
});

test("charts: all runs of a metric are on one chart, at most 24 lines on each", () => {
  const runs = new Set(["fold-1", "fold-2", "fold-10", "run-2"]);
  const logged = ["fold-10/loss", "loss", "fold-2/loss", "fold-1/loss", "run-2/fold-1/loss", "fold-1/only", "a/b"];
  expect(chartSpecs(logged, runs).map((s) => [s.id, s.group, s.names.join("+")])).toEqual([
    ["loss", UNGROUPED, "loss+fold-1/loss+fold-2/loss+fold-10/loss+run-2/fold-1/loss"],
    ["only", UNGROUPED, "fold-1/only"],
    ["a/b", "a", "a/b"],
  ]);
  const both = ["train/loss", "val/loss", "run-2/train/loss", "run-2/val/loss"];
  const [chart] = chartSpecs(both, runs);
  expect([chart?.title, chart?.names]).toEqual([
    "train/loss · val/loss",
    ["train/loss", "run-2/train/loss", "val/loss", "run-2/val/loss"],
  ]);
  const many = Array.from({ length: 30 }, (_, no) => `run-${no + 2}/loss`);
  const labels = new Set(many.map((name) => name.slice(0, name.indexOf("/"))));
  expect(chartSpecs(many, labels).map((s) => [s.id, s.names.length])).toEqual([
    ["loss", 24],
    ["loss (2)", 6],
  ]);
});

test("charts: what a library logs comes before what is measured, its loss first", () => {
  const logged = ["grad_norm", "eval_loss", "learning_rate", "loss", "test/logloss", "time/step_ms", "held_out/loss"];
  expect(chartSpecs(logged).map((s) => s.id)).toEqual([
    "test/logloss",
    "eval_loss",
    "loss",
    "grad_norm",
    "learning_rate",
    "held_out/loss",
    "time/step_ms",
  ]);
});

test("what is measured of fast steps says of how many; what a script reports does not", () => {
  const of = (name: string, step: number[], bucket_steps = 1) =>
    stepsOf(
      toColumns({
        name,
        rank: 0,
        attempts: [{ no: 1, first_step: 0 }],
        raw: true,
        downsampled: false,
        bucket_steps,
        num_points: step.length,
        step,
        time_ms: step,
        min: step,
        max: step,
        mean: step,
        last: step,
        count: step.map(() => 1),
      }),
    );
  expect(of("time/step_ms", [1, 3, 22])).toBe(22);
  expect(of("comm/world/all_reduce/bytes", [5, 6])).toBe(2);
  expect(of("val/loss", [50, 100])).toBeNull();
  expect(of("time/step_ms", [0, 8], 8)).toBeNull();
  expect(of("time/step_ms", [])).toBeNull();
});
