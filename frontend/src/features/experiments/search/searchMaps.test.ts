import { describe, expect, it } from "vitest";

import { type Axis, axes, byImportance, goodness, isLogAxis, metrics, type Results } from "./searchData";
import { binsOf, contour, spanOf, timeline, TIMELINE_MAX } from "./searchMaps";

const at = (minute: number): string => new Date(minute * 60_000).toISOString();

function search(count: number): Results {
  const numbers = Array.from({ length: count }, (_, i) => i);
  return {
    metric_name: "val/loss",
    metric_goal: "min",
    parameters: [
      { name: "lr", kind: "number", log: false, choices: [] },
      { name: "opt", kind: "choice", log: false, choices: ["sgd", "adam"] },
    ],
    id: numbers.map((i) => 100 + i),
    no: numbers.map((i) => i + 1),
    state: numbers.map(() => "COMPLETED"),
    metric: numbers.map((i) => (i === 1 ? "NaN" : count - i)),
    step: numbers.map(() => 0),
    epoch: numbers.map(() => null),
    started_at: numbers.map((i) => (i === count - 1 ? null : at(i))),
    ended_at: numbers.map((i) => (i === 0 ? null : at(i + 1.5))),
    parent_no: numbers.map(() => null),
    generation: numbers.map(() => 0),
    objectives: [],
    front: [],
    values: [numbers.map((i) => i / count), numbers.map((i) => (i % 2 ? "adam" : "sgd"))],
  } as unknown as Results;
}

describe("timeline", () => {
  it("puts each trial into the first lane that is free, and leaves out what has not started", () => {
    const { bars, lanes, all } = timeline(search(5), 10 * 60_000);
    // The first still runs and keeps its lane; the others overlap by half a minute, two at a time.
    expect(bars.map((bar) => bar.lane)).toEqual([0, 1, 2, 1]);
    expect(bars[0]?.to).toBe(600_000);
    expect([lanes, all]).toEqual([3, 4]);
  });

  it("draws the latest of many and says how many there are", () => {
    const { bars, all } = timeline(search(TIMELINE_MAX + 501), 0);
    expect([bars.length, all]).toEqual([TIMELINE_MAX, TIMELINE_MAX + 500]);
    expect(bars.at(-1)?.index).toBe(all - 1);
  });
});

describe("contour", () => {
  it("keeps the best value of each field and counts its trials", () => {
    const results = search(240);
    const metric = metrics(results);
    const [lr, opt] = axes(results);
    if (!lr || !opt) throw new Error("two axes");
    const { cells, columns, rows } = contour(
      results,
      lr,
      opt,
      metric,
      results.no.map((_, i) => i),
    );
    expect([columns, rows]).toEqual([12, 2]);
    expect(cells.reduce((sum, cell) => sum + cell.count, 0)).toBe(239);
    expect(cells[0]).toEqual({ column: 0, row: 0, count: 10, best: 222 });
    expect(cells.length).toBe(24);
  });
});

describe("rows of an axis", () => {
  const axisOf = (values: number[], log = false): Axis => {
    const base = search(values.length);
    const [axis] = axes({
      ...base,
      parameters: [{ name: "x", kind: "number", log, choices: [] }],
      values: [values],
    });
    if (!axis) throw new Error("no axis");
    return axis;
  };
  const rows = (axis: Axis): [number, number][] => Array.from({ length: binsOf(axis) }, (_, row) => spanOf(axis, row));

  it("are the integers of a short range, also those that no trial has", () => {
    expect(rows(axisOf([1, 2, 4]))).toEqual([1, 2, 3, 4].map((value) => [value, value]));
  });

  it("are the values of a list, and those of a continuum are ranges", () => {
    expect(axisOf([16, 64, 256, 16, 64, 256], true).levels).toEqual([16, 64, 256]);
    const wide = axisOf(Array.from({ length: 40 }, (_, i) => i * 10));
    expect(binsOf(wide)).toBe(12);
    expect(rows(wide).slice(0, 2)).toEqual([
      [0, 32],
      [33, 64],
    ]);
    expect(rows(wide).at(-1)).toEqual([358, 390]);
    expect(axisOf([0.1, 0.25, 0.7]).levels).toEqual([]);
  });

  it("take the trials of their level", () => {
    const base = search(6);
    const results = {
      ...base,
      parameters: [
        { name: "depth", kind: "number", log: false, choices: [] },
        { name: "batch", kind: "number", log: true, choices: [] },
      ],
      metric: [6, 5, 4, 3, 2, 1],
      values: [
        [1, 2, 3, 4, 4, 4],
        [16, 16, 64, 64, 256, 256],
      ],
    } as unknown as Results;
    const [depth, batch] = axes(results);
    if (!depth || !batch) throw new Error("two axes");
    const { cells } = contour(results, depth, batch, metrics(results), [0, 1, 2, 3, 4, 5]);
    expect(cells.map((cell) => [depth.levels?.[cell.column], batch.levels?.[cell.row], cell.best])).toEqual([
      [1, 16, 6],
      [2, 16, 5],
      [3, 64, 4],
      [4, 64, 3],
      [4, 256, 1],
    ]);
  });
});

describe("how good a value is", () => {
  const losses = [0.05, 0.06, 0.1, 0.4, 0.06];
  const shares = (scale: "rank" | "log" | "linear", goal = "min"): number[] =>
    losses.map((value) => Math.round(goodness(losses, goal, scale)(value) * 100) / 100);

  it("by rank spreads what lies close together", () => {
    expect(shares("rank")).toEqual([1, 0.67, 0.33, 0, 0.67]);
    expect(shares("rank", "max")).toEqual([0, 0.33, 0.67, 1, 0.33]);
    expect(shares("linear")).toEqual([1, 0.97, 0.86, 0, 0.97]);
    expect(shares("log")).toEqual([1, 0.91, 0.67, 0, 0.91]);
  });

  it("needs no logarithm of what has none, and equal ones are all the best", () => {
    expect(goodness([-1, 0, 1], "max", "log")(0)).toBe(0.5);
    expect(goodness([2, 2], "min", "rank")(2)).toBe(1);
    expect([
      isLogAxis(0.05, 0.4),
      isLogAxis(0.05, 0.4, true),
      isLogAxis(-1, 1, true),
      isLogAxis(0.01, 9, false),
    ]).toEqual([false, true, false, false]);
  });

  it("puts what explains most first and the metric last", () => {
    const all = [..."abc"].map((name, column): Axis => ({ name, column, log: false, choices: [], low: 0, high: 1 }));
    const metric: Axis = { name: "loss", column: -1, log: false, choices: [], low: 0, high: 1 };
    const order = (given: Record<string, number> | null): string =>
      byImportance([...all, metric], given)
        .map(({ name }) => name)
        .join(" ");
    expect(order({ b: 0.4, c: 0.5, loss: 9 })).toBe("c b a loss");
    expect(order(null)).toBe("a b c loss");
  });
});
