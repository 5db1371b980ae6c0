import { describe, expect, it } from "vitest";

import { axes, metrics, type Results } from "./searchData";
import { contour, timeline, TIMELINE_MAX } from "./searchMaps";

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
