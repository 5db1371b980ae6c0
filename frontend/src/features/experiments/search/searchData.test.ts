// @vitest-environment node
import { expect, test } from "vitest";

import {
  ABSENT,
  ancestry,
  axes,
  bestOf,
  bestSoFar,
  byMetric,
  matching,
  metrics,
  objectiveAxis,
  objectiveDots,
  place,
  type Results,
  valueAt,
} from "./searchData";

const results: Results = {
  metric_name: "val/loss",
  metric_goal: "min",
  parameters: [
    { name: "lr", kind: "number", log: true, choices: [] },
    { name: "opt", kind: "choice", log: false, choices: ["sgd", "adam"] },
    { name: "same", kind: "number", log: false, choices: [] },
  ],
  id: [11, 12, 13, 14],
  no: [1, 2, 3, 4],
  state: ["COMPLETED", "COMPLETED", "FAILED", "COMPLETED"],
  metric: [0.5, "NaN", null, 0.2],
  step: [1, 1, 1, 1],
  epoch: [null, 1, null, 0.5],
  started_at: [null, null, null, null],
  ended_at: [null, null, null, null],
  parent_no: [null, null, 1, 3],
  generation: [0, 0, 1, 2],
  objectives: [
    { metric: "loss", goal: "min", values: [1, 2, "NaN", 3] },
    { metric: "size", goal: "min", values: [5, 4, 1, null] },
  ],
  front: [0, 1],
  values: [
    [0.001, 0.01, 0.1, 0.1],
    ["sgd", "adam", null, "adam"],
    [1, 1, 1, 1],
  ],
};

test("results without a place on an axis count for nothing, and the best so far only gets better", () => {
  const metric = metrics(results);
  expect(metric).toEqual([0.5, null, null, 0.2]);
  expect(bestSoFar(metric, "min")).toEqual([0.5, 0.5, 0.5, 0.2]);
  expect(bestSoFar(metric, "max")).toEqual([0.5, 0.5, 0.5, 0.5]);
  expect(byMetric([0, 3], metric, "min")).toEqual([3, 0]);
});

test("axes: logarithms and choices have places between 0 and 1, what never changes is left out", () => {
  const all = axes(results);
  expect(all.map((axis) => axis.name)).toEqual(["lr", "opt", "val/loss"]);
  const [lr, opt] = all;
  if (!lr || !opt) throw new Error("no axes");
  expect(place(lr, results, metrics(results), 1)).toBeCloseTo(0.5);
  expect(valueAt(lr, 0.5)).toBeCloseTo(0.01);
  expect(place(opt, results, metrics(results), 3)).toBe(1);
  expect(place(opt, results, metrics(results), 2)).toBeNull();
});

test("brushes leave those within all of them", () => {
  const all = axes(results);
  const metric = metrics(results);
  expect(matching(results, all, metric, new Map())).toEqual([0, 3]);
  expect(matching(results, all, metric, new Map([["lr", { low: 0.9, high: 1 }]]))).toEqual([3]);
  // The third is where it would be without a value: below the axis.
  const without = { ...results, values: [[0.001, 0.01, 0.1, null], results.values[1] ?? [], results.values[2] ?? []] };
  expect(matching(without, axes(without), metric, new Map([["lr", { low: ABSENT, high: ABSENT / 2 }]]))).toEqual([3]);
  expect(
    matching(
      results,
      all,
      metric,
      new Map([
        ["lr", { low: 0.9, high: 1 }],
        ["opt", { low: 0, high: 0.2 }],
      ]),
    ),
  ).toEqual([]);
});

test("the line of a clone leads back to the member that began from nothing", () => {
  expect(ancestry(results, 3).map((i) => results.no[i])).toEqual([1, 3, 4]);
  expect(ancestry(results, 1)).toEqual([1]);
  expect(bestOf(metrics(results), "min")).toBe(3);
  expect(bestOf([null], "min")).toBe(-1);
});

test("objectives are drawn where a trial has both, and faint where it is beaten", () => {
  expect(objectiveDots(results, 0, 1)).toEqual([
    { at: 0, y: 5, faint: false, index: 0 },
    { at: 0.5, y: 4, faint: false, index: 1 },
  ]);
  expect(objectiveDots({ ...results, front: [1] }, 0, 1)[0]?.faint).toBe(true);
  expect(objectiveAxis(results, 1)).toMatchObject({ name: "size", low: 1, high: 5 });
  expect(objectiveAxis(results, 2)).toBeNull();
});
